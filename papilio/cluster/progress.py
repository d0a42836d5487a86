"""A progress bar for a terminal: weighted by predicted work, with the remaining time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from papilio.cluster.events import Event, LeaseFinished, PhaseAdvanced, PhaseStarted, PlanMade, RowsKnown
from papilio.kernels.announce import on_compiling

if TYPE_CHECKING:
    from rich.progress import Progress

_PHASES = {
    "start": "starting",
    "cut": "cutting into parts",
    "plan": "reading and planning",
    "run": "counting",
    "check": "counting to check",
    "write": "writing",
    "paths": "passing over the edges",
    "read": "reading",
    "pairs": "comparing pairs",
    "levels": "joining levels",
    "search": "searching",
}

_SPEED_PERIOD_S = 1e6
"""The remaining time follows from the mean speed so far: leases differ too much in length for a moving one."""


def _make_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_SPEED_PERIOD_S,
    )


class ProgressBar:
    """A listener that draws on standard error, and only if that is a terminal; a context manager."""

    def __init__(self) -> None:
        self._bar = _make_bar() if sys.stderr.isatty() else None
        self._task = None if self._bar is None else self._bar.add_task(_PHASES["start"], total=None)
        self._lists = False

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            console = self._bar.console
            on_compiling(lambda: console.print("compiling kernels (once)"))
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Draw what an event changes."""
        match event:
            case PhaseStarted(name):
                lists = self._lists and name == "run"
                self._update(description="listing" if lists else _PHASES[name])
            case PhaseAdvanced(share):
                self.advance_share(share)
            case PlanMade(plan):
                self._lists = plan.job.listing is not None
                self.restart(plan.work_finished, plan.total_work)
            case LeaseFinished(_, work):
                self._update(advance=work)
            case RowsKnown(rows, n_bytes, job):
                size = f"{n_bytes:,} bytes of labels before compression"
                print(f"{rows:,} rows to write, {size}, as {job} counted", file=sys.stderr)

    def _update(self, **changes: Any) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **changes)

    def restart(self, done: int, total: int) -> None:
        """Start from ``done`` of ``total`` units, so that the remaining time follows from what comes now."""
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, total=max(total, 1), completed=done)

    def advance(self, done: int, total: int) -> None:
        """Show ``done`` of ``total`` units of a job that reports them directly."""
        self._update(completed=done, total=max(total, 1))

    def advance_share(self, share: float) -> None:
        """Show how much of a job that reports it from 0 to 1 is done."""
        self._update(completed=share, total=1.0)

    def advance_phase(self, phase: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` units of a named phase."""
        self.describe(phase)
        self.advance(done, total)

    def describe(self, text: str) -> None:
        """Name what is going on."""
        self._update(description=text)
