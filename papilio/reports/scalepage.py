"""The page of a scaling experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from papilio.reports.experiment import ExperimentDirectory, RunRecord
from papilio.reports.figures import Figure, draw_efficiency, draw_speedup, draw_timeline, draw_times
from papilio.reports.jobs import JobFacts
from papilio.reports.page import render_page, show_moment
from papilio.reports.scaling import Point
from papilio.reports.timeline import LeaseSpan
from papilio.wording import plural


@dataclass(frozen=True)
class ScalingFacts:
    """What is known of an experiment."""

    directory: ExperimentDirectory
    points: tuple[Point, ...]  # those with a finished run
    # timeline of the middle run of each point, by its number of workers
    spans: dict[int, tuple[LeaseSpan, ...]]
    largest: JobFacts | None  # the middle run with the most workers
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
    """Return the page of an experiment; without the figures of :func:`draw_scaling` it says that they were left out."""
    experiment = facts.directory.experiment
    paths = list(dict.fromkeys(graph.path for graph in experiment.graphs))
    graphs = paths[0] if len(paths) == 1 else f"{len(paths)} graphs, {paths[0]} to {paths[-1]}"
    return render_page(
        "scaling.html",
        title=f"{experiment.mode.capitalize()} scaling of the {experiment.motif.name} count",
        state=facts.state,
        subtitle=f"{graphs}; begun {show_moment(facts.directory.created_at)}",
        experiment=experiment,
        points=facts.points,
        largest=facts.largest,
        failed=facts.failed,
        figures=figures,
    )
