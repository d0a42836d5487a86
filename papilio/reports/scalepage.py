"""The page of a scaling experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from papilio.reports.experiment import ExperimentDirectory, RunRecord
from papilio.reports.figures import Figure, draw_efficiency, draw_speedup, draw_timeline, draw_times
from papilio.reports.jobpage import (
    at,
    decisions_section,
    graph_pairs,
    loads_table,
    machines_section,
    mib,
    percent,
    plural,
    reproduce_section,
    seconds,
)
from papilio.reports.jobs import JobFacts
from papilio.reports.page import (
    Html,
    definitions,
    figure_grid,
    note,
    render_page,
    section,
    table,
    tiles,
)
from papilio.reports.scaling import Point, Run
from papilio.reports.timeline import LeaseSpan

__all__ = ["ScalingFacts", "draw_scaling", "show_scaling"]

_PHASES = ("start", "read", "plan", "prepare", "run", "fold", "write", "total")


@dataclass(frozen=True)
class ScalingFacts:
    """What is known of an experiment.

    Attributes
    ----------
    directory : ExperimentDirectory
    points : tuple of Point
        Those with a finished run.
    spans : dict of int to tuple of LeaseSpan
        Timeline of the middle run of each point.
    largest : JobFacts or None
        The middle run with the most workers.
    n_finished : int
        Finished runs.
    failed : tuple of RunRecord
    """

    directory: ExperimentDirectory
    points: tuple[Point, ...]
    spans: dict[int, tuple[LeaseSpan, ...]]
    largest: JobFacts | None
    n_finished: int
    failed: tuple[RunRecord, ...]

    @property
    def state(self) -> str:
        """``finished``, or how many runs are."""
        n_runs = self.directory.n_runs
        return "finished" if self.n_finished == n_runs else f"{self.n_finished} of {n_runs} runs finished"


def draw_scaling(facts: ScalingFacts) -> list[Figure]:
    """Return speed-up, efficiency, times, and the timeline of the middle run of every point."""
    if not facts.points:
        return []
    figures = [
        draw_speedup(facts.points),
        draw_efficiency(facts.points),
        draw_times(facts.points, facts.directory.experiment.mode),
    ]
    for point in facts.points:
        caption = (
            f"Leases by worker with {plural(point.workers, 'worker')}: {plural(point.middle.leases, 'lease')} in the "
            f"run of median time (repetition {point.middle.repeat})."
        )
        figures.append(
            draw_timeline(f"leases-w{point.workers}", caption, facts.spans[point.workers], point.workers)
        )
    return figures


def show_scaling(facts: ScalingFacts, figures: Sequence[Figure]) -> str:
    """Return the page of an experiment.

    Parameters
    ----------
    facts : ScalingFacts
    figures : sequence of Figure
        Of :func:`draw_scaling`; without them the page says that they were left out.
    """
    directory, experiment = facts.directory, facts.directory.experiment
    sections = [_summary(facts), _question(facts)]
    if facts.points:
        drawn = [figure_grid(figures[:3])] if figures else [note("The figures were left out.")]
        sections.append(section("Scaling", *drawn, _points_table(facts.points), _explanation(facts)))
        sections.append(section("Seconds by phase, medians", _phases_table(facts.points)))
        last = facts.points[-1]
        if figures:
            sections.append(section("Leases", figure_grid(figures[3:], wide=True)))
        sections.append(section(f"Workers of the run with {last.workers}", loads_table(last.middle.measures)))
        sections.append(_runs_section(facts.points))
    if facts.failed:
        rows = [
            (record.workers, record.repeat, record.host, at(record.began_at), record.outcome)
            for record in facts.failed
        ]
        columns = ("workers", "repetition", "host", "began", "what ended it")
        sections.append(section("Failures", table(columns, rows, text_columns=5)))
    versions = facts.points[-1].middle.versions if facts.points else {}
    if facts.largest is not None and facts.largest.result is not None and facts.largest.plan is not None:
        sections.append(machines_section(facts.largest.result.workers))
        sections.append(decisions_section(facts.largest.plan.decisions))
    sections.append(reproduce_section(experiment.command, versions))
    title = f"{experiment.mode.capitalize()} scaling of the {experiment.motif.name} count"
    subtitle = f"{_graphs_text(facts)}; begun {at(directory.created_at)}"
    return render_page(title, facts.state, subtitle, sections)


def _graphs_text(facts: ScalingFacts) -> str:
    graphs = facts.directory.experiment.graphs
    paths = list(dict.fromkeys(graph.path for graph in graphs))
    return paths[0] if len(paths) == 1 else f"{len(paths)} graphs, {paths[0]} to {paths[-1]}"


def _summary(facts: ScalingFacts) -> Html:
    parts = []
    if facts.state != "finished":
        text = f"This experiment is not finished: {facts.state}. The same command goes on with it."
        parts.append(note(text, warning=True))
    if not facts.points:
        return section("Summary", *parts, note("No run has finished."))
    first, last = facts.points[0], facts.points[-1]
    pairs: list[tuple[str, object]] = []
    if facts.directory.experiment.mode == "strong":
        pairs.append(("count, the same in all runs", f"{last.middle.count:,}"))
    of = "" if first.workers == 1 else f" over {first.workers}"
    pairs += [
        (f"speed-up of {plural(last.workers, 'worker')}{of}", f"{last.speedup:.2f}"),
        (f"efficiency with {plural(last.workers, 'worker')}", percent(last.efficiency)),
        ("median time, fewest to most workers",
         f"{seconds(first.seconds_median)} to {seconds(last.seconds_median)}"),
        ("lease overhead, median", percent(_middle(last, lambda run: run.measures.overhead))),
        ("tail, median", seconds(_middle(last, lambda run: run.measures.tail_s))),
        ("peak memory of a worker", mib(max(run.peak_bytes for point in facts.points for run in point.runs))),
    ]  # fmt: skip
    return section("Summary", *parts, tiles(pairs))


def _middle(point: Point, value: Callable[[Run], float]) -> float:
    return median(value(run) for run in point.runs)


def _question(facts: ScalingFacts) -> Html:
    experiment = facts.directory.experiment
    pairs: list[tuple[str, object]] = [("motif", experiment.motif.name), ("per", experiment.per)]
    pairs += [
        ("cluster", experiment.cluster),
        ("engine", facts.points[-1].middle.engine if facts.points else experiment.engine),
        ("workers", ", ".join(map(str, experiment.workers))),
        ("repetitions", experiment.repeat),
    ]
    if experiment.threads is not None:
        pairs.append(("threads of each worker", experiment.threads))
    if experiment.mode == "strong":
        graph = experiment.graphs[0]
        pairs += graph_pairs(graph.path, graph.n_u, graph.n_v, graph.n_edges, graph.hash)
        return section("What was counted", definitions(pairs))
    if experiment.model is not None:
        pairs.append(("model", f"{experiment.model}, grown with the workers"))
    rows = [
        (graph.path, graph.hash, graph.workers, f"{graph.n_u:,} x {graph.n_v:,}", f"{graph.n_edges:,}")
        for graph in experiment.graphs
    ]
    columns = ("graph", "content hash", "workers", "vertices", "edges")
    return section("What was counted", definitions(pairs), table(columns, rows, text_columns=2))


def _points_table(points: Sequence[Point]) -> Html:
    unit = points[0].middle.work_unit
    rows = [
        (
            point.workers, len(point.runs), seconds(point.seconds_median),
            f"{seconds(point.seconds_min)} to {seconds(point.seconds_max)}",
            f"{point.speedup:.2f}", percent(point.efficiency),
            f"{point.middle.work / point.seconds_median:,.0f}", f"{point.middle.leases:,}",
            percent(_middle(point, lambda run: run.measures.overhead)),
            seconds(_middle(point, lambda run: run.measures.tail_s)),
            f"{_middle(point, lambda run: run.measures.balance):.2f}",
            mib(max(run.peak_bytes for run in point.runs)),
        )
        for point in points
    ]  # fmt: skip
    columns = (
        "workers", "runs", "median", "fastest to slowest", "speed-up", "efficiency", f"{unit}/s", "leases",
        "overhead", "tail", "balance", "peak memory",
    )  # fmt: skip
    return table(columns, rows, text_columns=0)


def _explanation(facts: ScalingFacts) -> Html:
    first = facts.points[0].workers
    speed = (
        "Speed-up: of the median time"
        if facts.directory.experiment.mode == "strong"
        else "Speed-up: of work per second in the median time, as every number of workers has a graph of its own,"
    )
    return note(
        "Time: everything after the workers run and the graph is read. "
        f"{speed} over {plural(first, 'worker')}. Overhead: share of the workers' time in the phase run that was "
        "not spent in the engine. Tail: from the first worker without a lease to the end. Balance: busiest worker "
        "over the mean."
    )


def _phases_table(points: Sequence[Point]) -> Html:
    rows = [
        (
            point.workers,
            *(seconds(median(run.seconds[phase] for run in point.runs)) for phase in _PHASES),
        )
        for point in points
    ]
    return table(("workers", *_PHASES), rows, text_columns=0)


def _runs_section(points: Sequence[Point]) -> Html:
    rows = [
        (
            run.job, ", ".join(run.hosts), at(run.began_at), run.workers, run.repeat, seconds(run.counting_s),
            f"{speedup:.2f}", percent(speedup / point.ideal), percent(run.measures.overhead),
            seconds(run.measures.tail_s), f"{run.measures.balance:.2f}",
        )
        for point in points
        for run, speedup in zip(point.runs, point.speedups, strict=True)
    ]  # fmt: skip
    columns = (
        "job directory", "hosts", "began", "workers", "repetition", "time", "speed-up", "efficiency", "overhead",
        "tail", "balance",
    )  # fmt: skip
    return section("Runs", table(columns, rows, text_columns=3))
