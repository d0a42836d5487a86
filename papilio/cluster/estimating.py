"""Estimate a count through an executor: prepare everywhere, walk slices of probes until the interval is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

from papilio.cluster.driver import plan_job
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted
from papilio.cluster.executor import Executor, TaskList
from papilio.errors import CapacityError
from papilio.families import EngineChoice
from papilio.interrupts import check
from papilio.tasks.estimate import (
    BEYOND_FLOATS,
    LEAST_SLICES,
    SPARE,
    Moments,
    ProbeTask,
    Sample,
    VertexMoments,
    VertexSample,
)
from papilio.tasks.forecast import allocate
from papilio.tasks.job import JobSpec
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.plan import CountPlan
from papilio.tasks.run import run_probes

EXACT_S = 0.1
"""A search predicted to take less is run in full."""

GROWTH = 16
"""Largest factor between the probes of one estimate and the next: the first may be wrong about their error."""


REPORT_S, _MOST_SLICES = 1.0, 4096
"""Seconds between two reports of progress, and the largest number of slices dispatched together."""

_MOST_VERTEX_SLICES = 64
"""The same for slices with results for every vertex."""


class Goal(NamedTuple):
    """Criteria for a good enough estimate."""

    error: float  # half of the interval, relative to the estimate; for vertices see :meth:`VertexSample.top_error`
    confidence: float
    seconds: float | None  # time limit of the probes; None for no limit


class Sampled(NamedTuple):
    """The estimate from the probes of a job."""

    plan: CountPlan
    sample: Sample | None  # None if the job is to be counted
    interval: tuple[float, float]
    seconds: dict[str, float]
    vertices: VertexSample | None = None  # where the counts of vertices are estimated


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
    """Walk probes on the workers until the goal is reached, or the time is over.

    If counting is predicted to take less time than the necessary probes, and no more than the time limit, and the job
    ``may_count``, nothing is estimated: the graph stays prepared. UnsupportedError if the question has no probes,
    CapacityError for a count beyond floating point.
    """
    began = perf_counter()
    run_id = uuid4().hex
    plan, workers, reports = plan_job(executor, job, engine, listener, run_id, everywhere=True)
    slowest = max(reports, key=lambda report: sum(report.seconds.values()))
    seconds = {"plan": max(0.0, perf_counter() - began - sum(slowest.seconds.values())), **slowest.seconds}
    listener(PhaseStarted("probe"))
    exact_s = plan.run_s.value if may_count and plan.run_s is not None else inf
    walker = _Walker(executor, plan, workers, run_id, seed)
    if exact_s <= EXACT_S:
        return Sampled(plan, None, (0.0, 0.0), seconds)
    by_vertex = job.per == "vertex"
    sample = walker.estimate(walker.walk(1, ()))
    walker.vertices = None
    if not sample.probes:  # nothing is left to search
        return Sampled(plan, None, (0.0, 0.0), seconds)
    found: Moments | None = None
    taken, target, interval = 0, LEAST_SLICES, (0.0, 0.0)
    began, shares = perf_counter(), allocate(sample.spreads)
    while True:
        left_s = inf if goal.seconds is None else goal.seconds - (perf_counter() - began)
        slice_s = (perf_counter() - began) / taken if taken else inf
        affordable = max(min(left_s / 2, REPORT_S) / slice_s, 1)
        n = min(target - taken, ceil(affordable), _MOST_VERTEX_SLICES if by_vertex else _MOST_SLICES)
        found, taken = walker.walk(n, shares, found), taken + n
        is_over = goal.seconds is not None and perf_counter() - began >= goal.seconds
        listener(PhaseAdvanced(taken / target))
        if taken < target and not is_over:
            continue
        sample = walker.estimate(found)
        interval = walker.interval(sample, goal.confidence)
        vertices = None if walker.vertices is None else VertexSample.of(walker.vertices)
        half = (interval[1] - interval[0]) / 2
        error = half / sample.value if half else 0.0
        if vertices is not None and sample.value:
            error = vertices.top_error(goal.confidence)
        if error <= goal.error or is_over:
            break
        if vertices is None:
            shares = allocate(sample.spreads)
            needed = sample.slices_needed(shares, goal.error, goal.confidence)
        else:
            needed = ceil(min(SPARE * taken * (error / goal.error) ** 2, 1e12))
        target = min(max(needed, taken + ceil(taken / 4)), GROWTH * taken)
        spent_s = perf_counter() - began
        more_s = (max(needed, target) - taken) * spent_s / taken
        if exact_s <= min(more_s, inf if goal.seconds is None else goal.seconds - spent_s):
            return Sampled(plan, None, interval, seconds)
    return Sampled(plan, sample, interval, seconds | {"probe": perf_counter() - began}, vertices)


class _Walker:
    """Walks slices of probes on the workers, each number once."""

    def __init__(
        self, executor: Executor, plan: CountPlan, workers: Sequence[WorkerInfo], run_id: str, seed: int
    ) -> None:
        # of all slices, where the counts of vertices are estimated
        self.vertices: VertexMoments | None = None
        self._known = 0
        self._executor, self._plan, self._workers = executor, plan, workers
        self._run_id, self._seed, self._next = run_id, seed, 0

    def walk(self, n: int, shares: tuple[float, ...], found: Moments | None = None) -> Moments:
        """Add the results of the next n slices with these shares of the strata to ``found``, in their order."""
        numbers = range(self._next, self._next + n)
        self._next += n
        plan = self._plan
        tasks = [ProbeTask(plan.job, plan.engine, self._run_id, each, self._seed, shares) for each in numbers]
        results = list(self._executor.run(run_probes, TaskList(tasks), self._workers, in_flight=2))
        check()
        for result in sorted(results, key=lambda result: result.number):
            self._known = result.known
            found = result.moments if found is None else found + result.moments
            if result.vertices is not None:
                before = self.vertices
                self.vertices = result.vertices if before is None else before + result.vertices
        assert found is not None
        return found

    def estimate(self, found: Moments) -> Sample:
        """Return the estimate of the count from slices."""
        sample = Sample.of(found, self._known)
        if not isfinite(sample.value):
            raise CapacityError(BEYOND_FLOATS)
        return sample

    def interval(self, sample: Sample, confidence: float) -> tuple[float, float]:
        return sample.interval(confidence, self._known)
