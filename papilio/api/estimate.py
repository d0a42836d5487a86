"""The public function that estimates a count by probes of its search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Unpack

from papilio import charts
from papilio.api.call import enter_executor
from papilio.api.count import CountCall
from papilio.api.read import AskedOptions
from papilio.arguments import Seed, Workers, checked
from papilio.cluster.driver import count_job
from papilio.cluster.estimate_job import Goal, Sampled, estimate_job
from papilio.cluster.events import PhaseStarted, Progress
from papilio.cluster.progress import shows_progress
from papilio.cluster.selection import is_auto
from papilio.errors import InputError
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.motifs import Motif, motif_to_json
from papilio.storage.answers import Answer, rows_table
from papilio.tasks.probe_statistics import Sample

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable

Kind = Literal["estimate", "at_least", "exact"]


@dataclass(frozen=True, repr=False)
class Estimate(Answer):
    """An estimated count with an interval, or the exact count if counting took no longer."""

    motif: Motif
    count: float  # the estimate
    # contains the count with probability ``confidence``; infinite upper end if the estimate is unreliable
    interval: tuple[float, float]
    std_error: float
    confidence: float
    error: float  # requested half-width of the interval, relative to the estimate
    probes: int  # number of probes
    effective_probes: float  # equivalent number of probes of equal weight
    largest_share: float  # share of the heaviest probe in the estimate
    warning: str  # doubts; empty for a reliable estimate with the requested error
    is_reliable: bool  # False if few probes carry the estimate: the count may be far above it
    exact: int | None  # the exact count, if the search ran in full
    seed: int
    engine: EngineName
    cluster: str  # the executor that ran it
    # wall time by phase: ``start``, ``plan``, ``read``, ``prepare``, ``probe`` or ``run``, and ``total``
    seconds: dict[str, float]
    graph: dict[str, Any] = field(repr=False)  # as in :class:`papilio.CountResult`

    @property
    def relative_error(self) -> float:
        """Half-width of the interval relative to the estimate; 0 for an exact count, infinite without an upper end."""
        low, high = self.interval
        if low == high:
            return 0.0
        return (high - low) / 2 / self.count if self.count else inf

    @property
    def kind(self) -> Kind:
        """``exact`` if the motifs were counted, ``at_least`` if only the lower end is known, otherwise ``estimate``."""
        return "exact" if self.exact is not None else "estimate" if self.is_reliable else "at_least"

    @property
    def sentence(self) -> str:
        """Motif and result in words, without the machine."""
        low, high = self.interval
        title, sure = self.motif.title, f"with {self.confidence:.4g} confidence"
        if self.kind == "exact":
            return f"{title}: exactly {self.exact:,}, counted, because counting takes no longer than estimating"
        if self.kind == "at_least":
            return f"{title}: at least {low:.4g} with {0.5 + self.confidence / 2:.4g} confidence, no upper end known"
        return f"{title}: about {self.count:.4g}, {low:.4g} to {high:.4g} {sure} (±{self.relative_error:.2%})"

    @property
    def headline(self) -> str:
        probes = "" if self.exact is not None else f"{self.probes:,} probes, "
        return f"{self.sentence} ({probes}{self.engine}, {self.seconds['total']:.2f} s)"

    def to_arrow(self) -> ArrowTable:
        """Return a row: motif, kind, count, low, high (null if open), std_error, confidence, probes, exact, engine."""
        low, high = self.interval
        ends = {"low": low, "high": high if high < inf else None}
        row = {"motif": self.motif.title, "kind": self.kind, "count": self.count, **ends}
        same = ("std_error", "confidence", "probes", "exact", "engine")
        table = rows_table([row | {name: getattr(self, name) for name in same}])
        at = table.column_names.index("high")
        return table.set_column(at, "high", table["high"].cast("float64"))  # of a null, too

    def _draw(self, axes: Any) -> None:
        """Draw the estimate with its interval."""
        charts.draw_interval(axes, self.motif.title, self.count, self.interval)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "motif": motif_to_json(self.motif),
            "kind": self.kind,
            "count": self.count,
            "interval": [each if each < inf else None for each in self.interval],
            "std_error": self.std_error,
            "confidence": self.confidence,
            "error": self.error,
            "probes": self.probes,
            "effective_probes": self.effective_probes,
            "largest_share": self.largest_share,
            "reliable": self.is_reliable,
            "warning": self.warning,
            "exact": self.exact,
            "seed": self.seed,
            "engine": self.engine,
            "cluster": self.cluster,
            "seconds": {phase: round(value, 6) for phase, value in self.seconds.items()},
            "graph": self.graph,
        }


@checked
@shows_progress
def estimate(
    graph: Any,
    motif: Motif | str,
    *,
    error: float = 0.01,
    confidence: float = 0.95,
    seconds: float | None = None,
    seed: Seed = 0,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    progress: Progress = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> Estimate:
    """Estimate the number of motifs from random branches of their search, with an interval.

    A pilot, which is not part of the estimate, decides how many probes run, so that the half-width of the interval is
    at most ``error`` times the estimate; a few more run if it is not. ``seconds`` limits their time. If counting takes
    no longer, the motifs are counted. If few probes carry the estimate, the interval has no upper end:
    ``is_reliable`` is False, and ``interval[1]`` infinite. An estimate depends on ``seed``, not on engines or workers,
    unless ``seconds`` ends it.

    Parameters
    ----------
    graph, motif, cluster, engine, workers, progress, options, asked
        As for :func:`papilio.count`. Several sizes of a motif are counted together.
    error : float
        Half-width of the interval relative to the estimate: 0.01 is 1 %.
    confidence : float
        Probability that the interval contains the exact count.
    seconds : float, optional
        Time limit for the probes, excluding reading, preparing and planning; by default, until ``error`` is reached.
    seed : int
        Seed of the probes.

    Returns
    -------
    Estimate

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError if the question has no probes, CapacityError for a count beyond
        1e308, or if few probes take longer than ``seconds``.

    Examples
    --------
    >>> papilio.estimate("graph/", papilio.Biclique(6, 6), error=0.05).interval
    (3.58e+16, 3.79e+16)
    """
    if not 0 < error < 1:
        raise InputError(f"error is {error:g}; expected a share between 0 and 1, such as 0.01 for 1 %")
    if not (confidence > 0 and 0.5 + confidence / 2 < 1):  # the quantile of an interval, rounded
        raise InputError(f"confidence is {confidence:g}; expected a probability between 0 and 1, such as 0.95")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise InputError(f"seconds is {seconds:g}; expected a time above 0, or leave it out")
    return EstimateCall(
        graph, motif, Goal(error, confidence, seconds), seed, options=options, cluster=cluster, engine=engine,
        workers=workers, progress=progress, asked=asked,
    ).estimate()  # fmt: skip


class EstimateCall(CountCall):
    """One estimate: from its question to the answer."""

    def __init__(self, graph: Any, motif: Motif | str, goal: Goal, seed: int, **how: Any) -> None:
        super().__init__(graph, motif, **how)
        self.goal, self.seed = goal, seed

    def estimate(self, *, may_count: bool = True) -> Estimate:
        """Return the answer; ``may_count`` as for :func:`papilio.cluster.estimate_job.estimate_job`."""
        with self.stack:
            self.listener(PhaseStarted("start"))
            cluster = "inline" if is_auto(self.cluster) else self.cluster
            executor = enter_executor(self.stack, cluster, self.engine, self.workers)
            job = self.make_job(executor)
            start_s = perf_counter() - self.started
            found = estimate_job(executor, job, self.engine, self.goal, self.seed, self.listener, may_count=may_count)
            seconds = {"start": start_s, **found.seconds}
            count, exact = found.sample, None
            if count is None:
                shards = self.shard_parent(executor, job)
                outcome = count_job(executor, job, self.engine, shards, self.listener)
                exact, seconds["run"] = outcome.result.count, outcome.result.seconds["run"]
                count = Sample.exactly(exact)
            return self._answer(count, exact, found, executor.name, seconds)

    def _answer(
        self, sample: Sample, exact: int | None, found: Sampled, cluster: str, seconds: dict[str, float]
    ) -> Estimate:
        goal, doubt = self.goal, "" if exact is not None else sample.why_unreliable()
        answer = Estimate(
            motif=self.question.motif,
            count=sample.value,
            interval=found.interval if exact is None else (sample.value, sample.value),
            std_error=sample.std_error,
            confidence=goal.confidence,
            error=goal.error,
            probes=sample.probes,
            effective_probes=sample.effective,
            largest_share=sample.largest_share,
            warning=doubt,
            is_reliable=not doubt,
            exact=exact,
            seed=self.seed,
            engine=found.plan.engine,
            cluster=cluster,
            seconds={**seconds, "total": perf_counter() - self.started},
            graph=self.graph.describe(),
        )
        if doubt or answer.relative_error <= goal.error:
            return answer
        missed = f"the interval is ±{answer.relative_error:.2%}, not ±{goal.error:.2%}: allow more seconds"
        return replace(answer, warning=missed)
