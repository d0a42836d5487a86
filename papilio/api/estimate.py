"""The public function that estimates a count by probes of its search."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from time import perf_counter
from typing import Any, Unpack

from numpy.typing import NDArray

from papilio import charts
from papilio.api.call import enter_executor
from papilio.api.count import CountCall
from papilio.api.graph import AskedOptions
from papilio.arguments import Count, Seed, Workers, checked, read_argument
from papilio.cluster.driver import count_job
from papilio.cluster.estimating import Goal, Sampled, estimate_job
from papilio.cluster.events import PhaseStarted, Progress
from papilio.cluster.progress import shows_progress
from papilio.cluster.selection import is_auto
from papilio.errors import InputError, UnsupportedError
from papilio.families import EngineChoice
from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity, Motif, motif_to_json
from papilio.storage.answers import (
    Answer,
    Preview,
    Source,
    columns_table,
    file_metadata,
    preview,
    rows_table,
    write_columns,
)
from papilio.storage.labelled import Vectors
from papilio.tasks.estimate import Sample, VertexSample
from papilio.tasks.result import TopEntry, TopEstimate, find_items, find_top


@dataclass(frozen=True, repr=False)
class Estimate(Answer):
    """An estimated count with an interval, or the exact count if counting took no longer."""

    motif: Motif
    count: float  # the estimate
    interval: tuple[float, float]  # contains the count with probability ``confidence``, if the estimate is reliable
    std_error: float
    confidence: float
    error: float  # requested half-width of the interval, relative to the estimate
    probes: int  # number of probes
    effective_probes: float  # equivalent number of probes of equal weight
    largest_share: float  # share of the heaviest probe in the estimate
    warning: str  # doubts; empty for a reliable estimate with the requested error
    is_reliable: bool  # whether the interval can be trusted: not dominated by few probes
    exact: int | None  # the exact count, if the search ran in full
    seed: int
    engine: EngineName
    cluster: str  # the executor that ran it
    # wall time by phase: ``start``, ``plan``, ``read``, ``prepare``, ``probe`` or ``run``, and ``total``
    seconds: dict[str, float]
    graph: dict[str, Any] = field(repr=False)  # as in :class:`papilio.CountResult`

    per: Granularity = "total"
    # for counts of vertices, by layer (``u`` and ``v``, or ``n``), arrays by id: ``estimate``, ``std_error``, ``low``
    # and ``high`` (NaN if no probe met the vertex) and ``reliable``; or ``count`` if they were counted
    vertices: Vectors[dict[str, NDArray[Any]]] = field(default_factory=Vectors, repr=False)
    # root mean square of the relative errors of the largest estimates of vertices; None without any
    top_error: float | None = None
    output: str | None = None  # the file written
    source: Source | None = field(default=None, repr=False)  # the graph, if at hand

    @property
    def relative_error(self) -> float:
        """Half-width of the interval relative to the estimate; 0 for an exact count, infinite for an estimate of 0."""
        low, high = self.interval
        if low == high:
            return 0.0
        return (high - low) / 2 / self.count if self.count else float("inf")

    @property
    def headline(self) -> str:
        where = f"{self.engine}, {self.seconds['total']:.2f} s"
        if self.exact is not None:
            return f"{self._title}: exactly {self.exact:,} ({where})"
        low, high = self.interval
        doubt = "" if self.is_reliable else ", unreliable"
        return (
            f"{self._title}: about {self.count:.4g}, {low:.4g} to {high:.4g} with {self.confidence:.4g} "
            f"confidence ({self.probes:,} probes, {where}){doubt}"
        )

    @property
    def _title(self) -> str:
        return self.motif.title if self.per == "total" else f"{self.motif.title} per {self.per}"

    def _preview(self) -> Preview:
        largest = self.top(10 if len(self.vertices) == 1 else 5) if self.vertices else ()
        names = self.top_columns
        rows = [(each.place, each.labels[0], *(getattr(each, name) for name in names)) for each in largest]
        return preview(("of", "label", *names), rows)

    @property
    def top_columns(self) -> tuple[str, ...]:
        """The displayed fields of the results of :meth:`top`."""
        return ("estimate", "low", "high") if self.exact is None else ("count",)

    def top(self, n: int = 10) -> tuple[TopEntry, ...] | tuple[TopEstimate, ...]:
        """Return the ``n`` largest estimates of each layer, or counts if they were counted, with their labels.

        Raises InputError if nothing was estimated per vertex.
        """
        read_argument("n", n, Count)
        if not self.vertices:
            raise InputError(f"the answer for {self._title} has no estimates per vertex; estimate with per='vertex'")
        columns = {layer: self.vertices.by_id(layer) for layer in self.vertices}
        if self.exact is not None:
            return find_top({layer: each["count"] for layer, each in columns.items()}, self.held, n)
        return tuple(
            TopEstimate(
                each.place,
                each.ids,
                each.labels,
                **{name: of[i].item() for name, of in columns[each.place].items()},
            )
            for each, i in find_items({layer: of["estimate"] for layer, of in columns.items()}, self.held, n)
        )

    def to_arrow(self) -> Any:
        """Return a row: motif, count, low, high (the interval), std_error, confidence, probes, exact, engine.

        Per vertex there is a row for each vertex: layer, id, label (if there are labels), then the fields of
        ``vertices``.
        """
        if self.vertices:
            return columns_table(self.held, {layer: self.vertices.by_id(layer) for layer in self.vertices})
        low, high = self.interval
        row = {"motif": self.motif.title, "count": self.count, "low": low, "high": high}
        same = ("std_error", "confidence", "probes", "exact", "engine")
        return rows_table([row | {name: getattr(self, name) for name in same}])

    def _draw(self, axes: Any) -> None:
        """Draw the estimate with its interval."""
        charts.draw_interval(axes, self.motif.title, self.count, self.interval)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "motif": motif_to_json(self.motif),
            "count": self.count,
            "interval": list(self.interval),
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
            "per": self.per,
            "top_error": self.top_error,
            "top": [each.to_dict() for each in self.top()] if self.vertices else [],
            "output": self.output,
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
    per: Granularity = "total",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    progress: Progress = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> Estimate:
    """Estimate the number of motifs, also per vertex, from random branches of their search, with an interval.

    A pilot, which is not part of the estimate, decides how many probes run, so that the half-width of the interval is
    at most ``error`` times the estimate; a few more run if it is not. ``seconds`` limits their time. If counting takes
    no longer, the motifs are counted. An estimate depends on ``seed``, not on engines or workers, unless ``seconds``
    ends it.

    Parameters
    ----------
    graph, motif, cluster, engine, workers, progress, options, asked
        As for :func:`papilio.count`. Several sizes of a motif are counted together.
    error : float
        Half-width of the interval relative to the estimate: 0.01 is 1 %. For counts per vertex, the root mean square of
        this over the 100 vertices of each layer with the largest estimates.
    confidence : float
        Probability that the interval contains the exact count.
    seconds : float, optional
        Time limit for the probes, excluding reading and preparing; by default, until ``error`` is reached.
    seed : int
        Seed of the probes.
    per : {"total", "vertex"}
        ``vertex`` also estimates the count of each vertex, on CPUs. Counts per edge cannot be estimated.
    output : path-like, optional
        File for the estimates of vertices, as for :func:`papilio.count`, with a row for each vertex.
    overwrite : bool
        Replace an existing file at ``output``.

    Returns
    -------
    Estimate

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError if the question has no probes, CapacityError for a count beyond
        1e308.

    Examples
    --------
    >>> papilio.estimate("graph/", papilio.Biclique(6, 6), error=0.05).interval
    (3.59e+16, 3.86e+16)
    """
    if not 0 < error < 1:
        raise InputError(f"error is {error:g}; expected a share between 0 and 1, such as 0.01 for 1 %")
    if not (confidence > 0 and 0.5 + confidence / 2 < 1):  # the quantile of an interval, rounded
        raise InputError(f"confidence is {confidence:g}; expected a probability between 0 and 1, such as 0.95")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise InputError(f"seconds is {seconds:g}; expected a time above 0, or leave it out")
    if per == "edge":
        raise UnsupportedError("per is 'edge'; counts per edge cannot be estimated: count per edge instead")
    if per == "vertex" and engine == "gpu":
        raise UnsupportedError("counts per vertex are estimated on CPUs only; leave engine out, or use 'cpu'")
    return EstimateCall(
        graph, motif, Goal(error, confidence, seconds), seed, options=options, cluster=cluster,
        engine="cpu" if per == "vertex" else engine, workers=workers, progress=progress, per=per, output=output,
        overwrite=overwrite, asked=asked,
    ).estimate()  # fmt: skip


class EstimateCall(CountCall):
    """One estimate: from its question to the answer."""

    def __init__(self, graph: Any, motif: Motif | str, goal: Goal, seed: int, **how: Any) -> None:
        super().__init__(graph, motif, **how)
        self.goal, self.seed = goal, seed

    def estimate(self, *, may_count: bool = True) -> Estimate:
        """Return the answer; ``may_count`` as for :func:`papilio.cluster.estimating.estimate_job`."""
        with self.stack:
            self.listener(PhaseStarted("start"))
            cluster = "inline" if is_auto(self.cluster) else self.cluster
            executor = enter_executor(self.stack, cluster, self.engine, self.workers)
            job = self.make_job(executor)
            start_s = perf_counter() - self.started
            found = estimate_job(executor, job, self.engine, self.goal, self.seed, self.listener, may_count=may_count)
            seconds = {"start": start_s, **found.seconds}
            count, exact, vertices = found.sample, None, {}
            if count is None:
                shards = self.shard_parent(executor, job)
                outcome = count_job(executor, job, self.engine, shards, self.listener)
                exact, seconds["run"] = outcome.result.count, outcome.result.seconds["run"]
                count = Sample.exactly(exact)
                vertices = {layer: {"count": each} for layer, each in outcome.partial.vectors.items()}
            elif found.vertices is not None:
                vertices = found.vertices.columns(self.goal.confidence)
            answer = self._answer(count, exact, found, executor.name, seconds)
            return self._add_vertices(answer, vertices, found.vertices) if vertices else answer

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
            graph=self.source.describe(),
            per=self.question.per,
        )
        if answer.relative_error <= goal.error or doubt:
            return answer
        missed = f"the interval is ±{answer.relative_error:.2%}, not ±{goal.error:.2%}: allow more seconds"
        return replace(answer, warning=missed)

    def _add_vertices(
        self, answer: Estimate, vertices: dict[str, dict[str, NDArray[Any]]], sample: VertexSample | None
    ) -> Estimate:
        """Write the file, and add the counts of vertices and doubts about them."""
        goal, error, warning = self.goal, 0.0, answer.warning
        if sample is not None:
            error = sample.top_error(goal.confidence)
            if answer.is_reliable:
                warning = (
                    ""
                    if error <= goal.error
                    else (
                        f"the largest estimates of vertices are within ±{error:.2%}, not ±{goal.error:.2%}: allow "
                        f"more seconds"
                    )
                )
        if self.target is not None:
            store = self.source.stored(self.stack, self.target.parent)
            metadata = file_metadata(store.hash, motif=motif_to_json(answer.motif))
            write_columns(self.target, store, vertices, metadata, overwrite=self._overwrite)
        return replace(
            answer, vertices=Vectors(vertices, self.source.labelled),
            top_error=error if isfinite(error) else None, warning=warning,
            output=None if self.target is None else str(self.target), source=self.source.given,
        )  # fmt: skip
