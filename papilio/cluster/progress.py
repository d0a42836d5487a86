"""A progress bar for a terminal: weighted by predicted time, within leases too, with the remaining time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import wraps
from importlib.util import find_spec
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from papilio.arguments import show_bytes, show_share, visible
from papilio.cluster import events
from papilio.cluster.events import (
    LeaseFinished,
    LeasesStarted,
    Noted,
    PhaseAdvanced,
    PhaseStarted,
    PlanMade,
    RowsKnown,
)
from papilio.kernels.announce import can_draw, forget_compiling, in_notebook, tell_compiling_by

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from papilio.tasks.plan import CountPlan

P = ParamSpec("P")
R = TypeVar("R")

Phases = Mapping[str, tuple[str, str]]
"""Phases of a function: the text of the bar, and the unit of its counts."""

_PHASES = {
    "start": "starting",
    "cut": "cutting into parts",
    "plan": "reading and planning",
    "check": "counting to check",
    "write": "writing",
    "paths": "passing over the edges",
    "read": "reading",
    "pairs": "comparing pairs",
    "levels": "joining levels",
    "samples": "measuring random graphs",
    "search": "searching",
    "join": "joining",
    "probe": "probing",
}

LOOK_S = 0.5
"""Time between two looks at the progress of running leases."""

LEAST_SHARE = 0.01
"""Least share done before the time left is computed, from the mean speed so far."""


def _amount(number: float, unit: str) -> str:
    """Return a number of units in few digits, as ``1.23M wedges`` and ``12.3 GB``."""
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= scale:
            return f"{number / scale:.3g} {letter}B" if unit == "bytes" else f"{number / scale:.3g}{letter} {unit}"
    return f"{number:.0f} {unit}"


TRUST = 0.05
"""Weight of the prediction, as a share of the run, against the speed so far: the first items may be unlike others.

A run with equal items that takes twice or half the predicted time ends 15 or 30 % apart from the time shown at its
first tenth."""


def time_left(
    before: float, done: float, total: float, reached_s: float, elapsed_s: float, expected_s: float = 0.0
) -> float | None:
    """Return the seconds left of a run of ``total``; None if there is no basis.

    ``before`` was done at its start, and ``done`` after ``reached_s`` of the ``elapsed_s``. During a heavy item, which
    shows no progress until it ends, the earlier speed is used. ``expected_s`` is the predicted time of the whole run, 0
    without a prediction.
    """
    whole = total - before
    if done <= before or done - before < LEAST_SHARE * whole:
        return None
    seen, spent_s = done - before, reached_s
    if expected_s:
        seen, spent_s = seen + TRUST * whole, spent_s + TRUST * expected_s
    left, waited_s = (total - done) / seen, elapsed_s - reached_s
    return max(spent_s * left - waited_s, waited_s * min((total - done) / (done - before), 1.0))


LONG_S = 10.0
"""A longer predicted run is announced first; without a terminal, a line follows after this time, and after
each pause of twice the length."""


@dataclass
class _Amount:
    """How far a phase has come, in its own units; seconds are of :func:`time.monotonic`, or since ``began_s``."""

    completed: float = 0.0
    total: float | None = None
    unit: str = ""
    before: float = 0.0  # completed when it began
    reached_s: float = 0.0  # time of the last change
    expected_s: float = 0.0  # predicted for the whole phase, 0 without a prediction
    began_s: float = field(default_factory=lambda: monotonic())

    def words(self) -> str:
        """Return the share and amount done, the time so far and the time left, as far as known."""
        elapsed_s, known = monotonic() - self.began_s, []
        if self.total:
            known.append(show_share(self.completed / self.total))
        if self.unit and self.total:
            done = _amount(self.completed, self.unit).removesuffix(f" {self.unit}")
            known.append(f"({done} of {_amount(self.total, self.unit)})")
        elif self.unit and self.completed:
            known.append(_amount(self.completed, self.unit))
        known.append(f"in {timedelta(seconds=int(elapsed_s))}")
        left_s = time_left(self.before, self.completed, self.total or 0, self.reached_s, elapsed_s, self.expected_s)
        if left_s is not None:
            known[-1] += f", {timedelta(seconds=round(left_s))} left"
        return " ".join(known)


def _make_console() -> Any:
    """Return standard error as Rich's console; a notebook without widgets gets terminal codes."""
    from rich.console import Console

    if in_notebook() and find_spec("ipywidgets") is None:
        return Console(file=sys.stderr, force_terminal=True, force_jupyter=False, width=100)
    return Console(stderr=True)


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a progress bar for ``progress=True``; False is the same as None."""
    return _shows(function, lambda bar: bar)


def shows_share(phase: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As :func:`shows_progress`, for a function that reports the share done of one phase."""

    def make(bar: ProgressBar) -> Callable[[float], None]:
        bar.describe(phase)
        return bar.advance_share

    return lambda function: _shows(function, make)


def shows_phases(phases: Phases) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As :func:`shows_progress`, for a function that reports the progress of each phase."""
    return lambda function: _shows(function, lambda bar: bar.follow(phases))


def shows_units(phase: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As :func:`shows_progress`, for a function that reports the units of one phase done, and in all."""

    def make(bar: ProgressBar) -> Callable[[int, int], None]:
        bar.describe(phase)
        return bar.advance

    return lambda function: _shows(function, make)


def _shows(function: Callable[P, R], make: Callable[[ProgressBar], Any]) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(kwargs.get("progress"), bool):
            return function(*args, **kwargs)
        given: Any = {name: value for name, value in kwargs.items() if name != "progress"}
        if kwargs["progress"] is False or not can_draw():
            return function(*args, **given)
        with ProgressBar() as bar:
            return function(*args, **given, progress=make(bar))

    return call


def _make_bar(look: Callable[[], None]) -> Progress:
    from rich.console import RenderableType
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
    )
    from rich.text import Text

    console = _make_console()

    class AmountColumn(ProgressColumn):
        """The :class:`_Amount` of a task, in words."""

        def render(self, task: Task) -> Text:
            return Text(task.fields["amount"].words())

    class PolledProgress(Progress):
        """Update the progress before each drawing."""

        def get_renderables(self) -> Iterable[RenderableType]:
            look()
            yield from super().get_renderables()

    return PolledProgress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=max(1, min(20, console.width - 60))),
        AmountColumn(),
        console=console,
        transient=True,
    )


class ProgressBar:
    """A listener that shows the progress of a run on standard error; a context manager.

    On a terminal it draws a bar, unless it is ``quiet``; ``verbose``, it writes a line for every phase and decision.
    Otherwise a line after ten seconds, and ever more seldom, shows the progress of the run.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._task: TaskID | None = None
        self._quiet, self._verbose = quiet, verbose
        self._began_s = monotonic()
        self._phase = ""
        self._lists = False
        self._planned = 0, 0
        self._expected_s = 0.0
        self._finished = 0
        self._work_underway: Callable[[], int] | None = None
        self._amount = _Amount()
        self._ended = Event()
        self._looked_at = 0.0
        self._bar = _make_bar(self._look) if can_draw() and not quiet else None

    @property
    def shows(self) -> bool:
        return self._bar is not None or self._verbose

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        self._begin(_PHASES["start"])
        tell_compiling_by(self._say_compiling)
        if not (self.shows or self._quiet):
            Thread(target=self._write_lines, name="papilio-progress", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        forget_compiling(self._say_compiling)
        if self._bar is not None:
            self._bar.stop()

    def _say_compiling(self, line: str) -> None:
        if self.shows:
            self._write(line)

    def __call__(self, event: events.Event) -> None:
        match event:
            case PhaseStarted(name):
                self._work_underway = None
                if name == "run":
                    self.describe("listing" if self._lists else "counting")
                    self.restart(*self._planned)
                    self._update(expected_s=self._expected_s)
                else:
                    self.describe(_PHASES[name])
            case PhaseAdvanced(share):
                self.advance_share(share)
            case PlanMade(plan):
                self._lists = plan.job.listing is not None
                self._planned = plan.work_finished, plan.predicted_ns
                self._expected_s = 0.0 if plan.run_s is None else plan.run_s.value
                self._finished = plan.work_finished
                self._foretell(plan)
                for decision in plan.decisions if self._verbose else ():
                    self._write(f"{decision.what}: {decision.reason}")
            case LeasesStarted(work_underway):
                self._work_underway = work_underway
            case LeaseFinished(_, work):
                self._finished += work
                self._show_work(0)
            case RowsKnown(rows, n_bytes, job):
                known = f"{rows:,} rows to write, {n_bytes:,} bytes of labels before compression, as counted by {job}"
                self._say(known if job else f"about {rows:,} rows and {show_bytes(n_bytes)} to write")
            case Noted(text):
                self._say(text)

    def _foretell(self, plan: CountPlan) -> None:
        """Announce the predicted time of a run, if that is long."""
        if plan.run_s is None:
            return
        left = plan.run_s.scaled(1 - plan.work_finished / max(plan.predicted_ns, 1))
        if left.value > LONG_S:
            self._say(f"{'listing' if self._lists else 'counting'} is predicted to take about {left.show('s')}")

    def _write_lines(self) -> None:
        """Write how far the run has come, ever more seldom, until it ends; a thread of its own."""
        pause_s = LONG_S
        while not self._ended.wait(pause_s):
            self._look()
            self._write(f"{self._phase or _PHASES['start']}: {self._amount.words()}")
            pause_s *= 2

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._write(text)

    def _write(self, text: str) -> None:
        """Write a line, above the bar if there is one; with the time if it is one of many."""
        line = f"{monotonic() - self._began_s:8.2f} s  {text}" if self._verbose else text
        line = visible(line)
        if self._bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _update(self, **changes: Any) -> None:
        if changes.get("completed", 0) > self._amount.completed:
            changes["reached_s"] = monotonic() - self._amount.began_s
        for name, value in changes.items():
            setattr(self._amount, name, value)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._amount.completed, total=self._amount.total)

    def _look(self) -> None:
        """Show the progress of running leases; called as the bar is drawn."""
        if self._work_underway is not None and monotonic() - self._looked_at >= LOOK_S:
            self._looked_at = monotonic()
            with suppress(Exception):  # a cluster that ends meanwhile
                self._show_work(self._work_underway())

    def _show_work(self, underway: int) -> None:
        """Show the work of finished and running leases: never less than before."""
        self._update(completed=max(self._amount.completed, self._finished + underway))

    def _begin(self, text: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
        """Begin a task with ``done`` of ``total`` units done; the time left follows from the next units."""
        self._amount = _Amount(done, total, unit, before=done)
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(text, total=total, completed=done, amount=self._amount)

    def restart(self, done: int, total: int, unit: str = "") -> None:
        """Show ``done`` of ``total`` units of the phase; the time left follows from the next units."""
        self._begin(self._phase, done, max(total, 1), unit)

    def advance(self, done: int, total: int, unit: str = "") -> None:
        """Show ``done`` of ``total`` units, if ``total`` is not 0, of a job that reports them directly."""
        self._update(completed=done, total=total or None, unit=unit)

    def advance_share(self, share: float) -> None:
        """Show the progress of a job that reports it as a share from 0 to 1."""
        self._update(completed=share, total=1.0, unit="")

    def follow(self, phases: Phases) -> Callable[[str, int, int], None]:
        """Return a function of a phase, its units done, and its units in all."""

        def show(phase: str, done: int, total: int) -> None:
            words, unit = phases[phase]
            self.describe(words)
            self.advance(done, total, unit)

        return show

    def describe(self, text: str) -> None:
        """Name the phase; its total comes later."""
        if text == self._phase:
            return
        if self._verbose:
            self._write(text)
        self._phase = text
        self._begin(text)
