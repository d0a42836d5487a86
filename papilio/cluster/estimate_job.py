"""Estimate a count through an executor: prepare everywhere, walk as many probes as a pilot asks for.

Probes are skewed: a sample without heavy ones has a low mean and a narrow interval at once. Stopping as soon as the
interval is narrow would prefer such samples, and estimates would be too low on average. Therefore a pilot, whose
probes are discarded, decides the size of the sample (Stein, Ann. Math. Stat. 16, 1945); larger samples have larger
pilots. A sample that still misses the error, which few do, grows in small steps. A time limit ends all of this, a
slice of slow probes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

from papilio.cluster.driver import plan_job
from papilio.cluster.events import Listener, Noted, PhaseAdvanced, PhaseStarted
from papilio.cluster.executor import Executor, TaskList
from papilio.errors import CapacityError
from papilio.kernels.announce import run_clock
from papilio.kernels.engine import EngineChoice
from papilio.signals import check
from papilio.tasks.forecast import allocate
from papilio.tasks.job import JobSpec
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.plan import CountPlan
from papilio.tasks.probe_statistics import (
    BEYOND_FLOATS,
    LEAST_SLICES,
    Moments,
    ProbeTask,
    Sample,
)
from papilio.tasks.run import run_probes

LONG_S = 10.0
"""Probes that take longer are announced."""

COUNTED = "counting takes no longer than the probes that the error needs: the motifs are counted"

EXACT_S = 0.1
"""A search predicted to take less is run in full."""

GROWTH = 16
"""Largest factor between the probes of a pilot and of the sample whose size it decides."""

TOP_UP = 8
"""A sample that missed the error grows by this part of it, so that its size depends little on its own values."""

REPORT_S, _MOST_SLICES = 1.0, 4096
"""Seconds between two reports of progress, and the largest number of slices dispatched together."""


class Goal(NamedTuple):
    """Criteria for a good enough estimate."""

    error: float  # half of the interval, relative to the estimate
    confidence: float
    seconds: float | None  # time limit of the probes, or of counting instead; None for no limit


class Sampled(NamedTuple):
    """The estimate from the probes of a job."""

    plan: CountPlan
    sample: Sample | None  # None if the job is to be counted
    interval: tuple[float, float]  # its upper end is infinite if few probes carry the estimate
    seconds: dict[str, float]


def estimate_job(
    executor: Executor,
    job: JobSpec,
    engine: EngineChoice,
    goal: Goal,
    seed: int,
    listener: Listener,
    *,
    may_count: bool = True,
) -> Sampled:
    """Walk probes on the workers until the goal is reached, or the time is over: the larger of pilot and sample counts.

    If counting is predicted to take less time than the necessary probes, and the job ``may_count``, nothing is
    estimated; the graph stays prepared for a count on one worker. With a time limit, the upper end of the prediction
    decides. UnsupportedError if the question has no probes, CapacityError for a count beyond floating point, or if the
    least number of probes exceeds the time limit.
    """
    began = perf_counter()
    run_id = uuid4().hex
    # One hand: estimates do not depend on the number of workers.
    plan, workers, report = plan_job(
        executor, job, engine, listener, run_id, everywhere=True, hands=1, limit_s=goal.seconds
    )
    seconds = {"plan": max(0.0, perf_counter() - began - sum(report.seconds.values())), **report.seconds}
    listener(PhaseStarted("probe"))
    exact_s = inf
    if may_count and plan.run_s is not None:
        exact_s = plan.run_s.value if goal.seconds is None else plan.run_s.high
    counted = Sampled(plan, None, (0.0, 0.0), seconds)
    if exact_s <= min(EXACT_S, goal.seconds or EXACT_S):
        return counted
    walker = _Walker(executor, plan, workers, run_id, seed, goal, listener)
    pilot, is_last = walker.pilot(), False
    if not pilot.sample.probes:  # nothing is left to search
        return counted
    while not (is_last or walker.is_over):
        needed = pilot.slices_needed(goal)
        if exact_s <= walker.seconds_of(needed):
            listener(Noted(COUNTED))
            return counted
        walked = max(pilot.slices, 1)
        is_last = needed <= GROWTH * walked
        if is_last and walker.seconds_of(needed) > LONG_S:
            listener(Noted(f"probing is predicted to take about {walker.seconds_of(needed):.3g} s"))
        wanted = max(needed, walked) if is_last else min(ceil(needed / GROWTH), GROWTH * walked)
        found = walker.sample(wanted, allocate(pilot.sample.spreads))
        pilot = max(found, pilot, key=lambda each: each.slices)
    final = pilot
    while final.error(goal.confidence) > goal.error and not walker.is_over:
        more = ceil(max(final.slices, 1) / TOP_UP)
        if exact_s <= walker.seconds_of(more):
            listener(Noted(COUNTED))
            return counted
        final = walker.sample(more, final.shares, final)
    seconds["probe"] = run_clock() - walker.began
    sample, interval = final.sample, final.interval(goal.confidence)
    if sample.why_unreliable():
        interval = sample.at_least(0.5 + goal.confidence / 2, final.known), inf
    return Sampled(plan, sample, interval, seconds)


class _Stage(NamedTuple):
    """A sample whose number of probes was decided before it was drawn."""

    shares: tuple[float, ...]  # of the strata
    moments: Moments
    known: int  # motifs that no probe finds

    @property
    def slices(self) -> int:
        """Number of whole slices."""
        return self.moments.slices

    @property
    def sample(self) -> Sample:
        """The estimate of the count; CapacityError beyond floating point."""
        sample = Sample.of(self.moments, self.known)
        if not isfinite(sample.value):
            raise CapacityError(BEYOND_FLOATS)
        return sample

    def joined(self, other: _Stage) -> _Stage:
        """Return both samples as one."""
        return _Stage(self.shares, self.moments + other.moments, other.known)

    def interval(self, confidence: float) -> tuple[float, float]:
        return self.sample.interval(confidence, self.known)

    def error(self, confidence: float) -> float:
        """Return half of the interval as a share of the estimate."""
        value, (low, high) = self.sample.value, self.interval(confidence)
        return (high - low) / 2 / value if high > low else 0.0

    def slices_needed(self, goal: Goal) -> int:
        """Return the number of slices whose estimate most likely reaches the error."""
        sample = self.sample
        return max(sample.slices_needed(allocate(sample.spreads), goal.error, goal.confidence), LEAST_SLICES)


class _Walker:
    """Walks slices of probes on the workers, each number once, until the time of the goal is over."""

    def __init__(
        self,
        executor: Executor,
        plan: CountPlan,
        workers: Sequence[WorkerInfo],
        run_id: str,
        seed: int,
        goal: Goal,
        listener: Listener,
    ) -> None:
        self._executor, self._plan, self._workers = executor, plan, workers
        self._run_id, self._seed, self._next = run_id, seed, 0
        self._goal, self._listener = goal, listener
        self.began = self._rated_from = run_clock()
        self._first_s = 0.0

    @property
    def _left_s(self) -> float:
        limit_s = inf if self._goal.seconds is None else self._goal.seconds
        return limit_s - (run_clock() - self.began)

    @property
    def is_over(self) -> bool:
        return self._left_s <= 0

    def seconds_of(self, slices: int) -> float:
        """Return the time of some more slices, at most what is left."""
        # The first slice, a pilot that loads kernels, says less than the others.
        slice_s = (run_clock() - self._rated_from) / (self._next - 1) if self._next > 1 else self._first_s
        return min(slices * slice_s, self._left_s)

    def pilot(self) -> _Stage:
        """Walk the first slice, with equal shares of the strata."""
        stage = self._walk(1, ())
        self._rated_from = run_clock()
        self._first_s = self._rated_from - self.began
        return stage

    def sample(self, slices: int, shares: tuple[float, ...], before: _Stage | None = None) -> _Stage:
        """Walk slices with these shares of the strata, as a new sample or added to one; fewer if the time is over."""
        stage, target = before, slices + (before.slices if before else 0)
        while stage is None or (stage.slices < target and not self.is_over):
            left = target - (stage.slices if stage else 0)
            affordable = max(min(self._left_s / 2, REPORT_S) / max(self.seconds_of(1), 1e-9), 1)
            stage = self._walk(min(left, ceil(affordable), _MOST_SLICES), shares, stage)
            self._listener(PhaseAdvanced(stage.slices / target))
        return stage

    def _walk(self, n: int, shares: tuple[float, ...], before: _Stage | None = None) -> _Stage:
        """Return the results of the next n slices, in their order, and of those ``before``."""
        numbers = range(self._next, self._next + n)
        self._next += n
        plan, stage = self._plan, before
        limit_s = None if self._goal.seconds is None else self._left_s / ceil(n / len(self._workers))
        tasks = [
            ProbeTask(plan.job, plan.engine, self._run_id, each, self._seed, plan.costs_digest, shares, limit_s)
            for each in numbers
        ]
        results = list(self._executor.run(run_probes, TaskList(tasks), self._workers, in_flight=2))
        check()
        for result in sorted(results, key=lambda result: result.number):
            found = _Stage(shares, result.moments, result.known)
            stage = found if stage is None else stage.joined(found)
        assert stage is not None
        return stage
