"""Events of a run, as they happen: for progress bars, histories and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from papilio.tasks.job import LeaseResult
    from papilio.tasks.plan import CountPlan


@dataclass(frozen=True)
class PhaseStarted:
    """A phase of the run begins.

    Its name is ``start``, ``cut`` (into parts), ``plan``, ``run``, ``check`` (of a listing) or ``write``; of measures
    also ``paths``, ``read``, ``pairs``, ``levels`` and ``search``.
    """

    name: str


@dataclass(frozen=True)
class PhaseAdvanced:
    """Progress of a phase without leases; ``share`` is from 0 to 1."""

    share: float


@dataclass(frozen=True)
class PlanMade:
    """The plan is known; leases are dispatched next."""

    plan: CountPlan


@dataclass(frozen=True)
class LeasesStarted:
    """Leases begin to run; ``work_underway``, called from any thread, returns their work done so far.

    It returns within a second: predicted nanoseconds of one worker.
    """

    work_underway: Callable[[], int]


@dataclass(frozen=True)
class LeaseFinished:
    """One lease was counted and folded; ``work`` is its predicted time on one worker, in nanoseconds."""

    result: LeaseResult
    work: int


@dataclass(frozen=True)
class RowsKnown:
    """The number of rows of a listing, before it starts: as a job directory counted, or as probes predict."""

    rows: int
    n_bytes: int  # of their labels and ids, before compression; of the files, if predicted by probes
    job: str  # empty for a prediction by probes


@dataclass(frozen=True)
class Noted:
    """A prediction or a decision, as a line of text for the user."""

    text: str


Event = PhaseStarted | PhaseAdvanced | PlanMade | LeasesStarted | LeaseFinished | RowsKnown | Noted
Listener = Callable[[Event], None]
"""Called in the thread that runs the job, between tasks (:class:`PhaseAdvanced` in any thread); if it raises, the run
ends."""


Progress = Listener | bool | None
"""Listener of a call: a function, True for a progress bar (on a terminal or in a notebook), else none."""


def ignore_events(event: Event) -> None:
    """Ignore the event."""


def is_shown(listener: Listener) -> bool:
    """Return whether a listener shows its events to a user; its attribute ``shows``, if any, decides."""
    return listener is not ignore_events and bool(getattr(listener, "shows", True))
