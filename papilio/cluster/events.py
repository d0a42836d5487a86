"""What happens during a run, as it happens: for progress bars, histories and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from papilio.tasks.plan import CountPlan
from papilio.tasks.run import LeaseResult

__all__ = ["Event", "LeaseFinished", "Listener", "PhaseStarted", "PlanMade", "ignore_events"]


@dataclass(frozen=True)
class PhaseStarted:
    """A phase of the run begins.

    Attributes
    ----------
    name : str
        ``start``, ``plan``, ``run``, ``check`` (of a listing) or ``write``.
    """

    name: str


@dataclass(frozen=True)
class PlanMade:
    """The plan is known; leases are handed out next."""

    plan: CountPlan


@dataclass(frozen=True)
class LeaseFinished:
    """One lease was counted and folded.

    Attributes
    ----------
    result : LeaseResult
    work : int
        Its predicted work units.
    """

    result: LeaseResult
    work: int


Event = PhaseStarted | PlanMade | LeaseFinished
Listener = Callable[[Event], None]
"""Called in the thread that runs the job, between tasks; an exception of its own ends the run."""


def ignore_events(event: Event) -> None:
    """Listen to nothing."""
