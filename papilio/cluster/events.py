"""What happens during a run, as it happens: for progress bars, histories and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from papilio.tasks.plan import CountPlan
from papilio.tasks.reports import LeaseResult

__all__ = [
    "CutAdvanced",
    "Event",
    "LeaseFinished",
    "Listener",
    "PhaseAdvanced",
    "PhaseStarted",
    "PlanMade",
    "ignore_events",
]


@dataclass(frozen=True)
class PhaseStarted:
    """A phase of the run begins.

    Attributes
    ----------
    name : str
        ``start``, ``cut`` (into parts), ``plan``, ``run``, ``check`` (of a listing) or ``write``; of measures also
        ``paths``, ``read``, ``pairs`` and ``levels``.
    """

    name: str


@dataclass(frozen=True)
class CutAdvanced:
    """The graph is being cut into parts.

    Attributes
    ----------
    share : float
        What is done, from 0 to 1.
    """

    share: float


@dataclass(frozen=True)
class PhaseAdvanced:
    """A phase that has no leases goes on.

    Attributes
    ----------
    share : float
        What is done of it, from 0 to 1.
    """

    share: float


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


Event = PhaseStarted | PhaseAdvanced | CutAdvanced | PlanMade | LeaseFinished
Listener = Callable[[Event], None]
"""Called in the thread that runs the job, between tasks (:class:`CutAdvanced` and :class:`PhaseAdvanced` in any
thread); an exception of its own ends the run."""


def ignore_events(event: Event) -> None:
    """Listen to nothing."""
