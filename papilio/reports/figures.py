"""The figures of a report, as SVG and PNG; matplotlib is imported only when one is drawn.

Figures are drawn small, so that their letters stay readable at the width of a phone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from papilio.charts import BLUE, GREY, ORANGE, draw_classes, require_matplotlib
from papilio.motifs import CensusClass
from papilio.reports.experiment import Mode
from papilio.reports.measure import Point
from papilio.tasks.job import LeaseResult

BARS = ("#1f5fa8", "#7fb0e0")
"""Alternating colours of consecutive leases."""

SIZE = (4.0, 2.9)
"""Inches; 96 pixels each on a screen."""

WIDTH = 11.0
"""Inches of a timeline, as wide as the page; on a phone it is scrolled."""

_PNG_DPI = 200
_MAX_VECTOR_BARS = 4000
"""Above this many bars a timeline is an image inside its SVG: browsers draw it at once."""

_MAX_NAMED_WORKERS = 32
"""Above this number of workers, only every n-th row is labelled."""


@dataclass(frozen=True)
class Figure:
    """A drawn figure: the stem of its files, a caption of one sentence, its content in two formats."""

    name: str
    caption: str
    svg: bytes
    png: bytes


def _draw(name: str, caption: str, size: tuple[float, float], paint: Callable[[Any], None]) -> Figure:
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    style = {
        "font.size": 10,
        "font.family": "sans-serif",
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.grid": True,
        "grid.color": "#e4e6ea",
        "axes.axisbelow": True,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(style):
        figure = Canvas(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure.add_subplot())
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None}, dpi=_PNG_DPI, transparent=True)
        figure.savefig(png, format="png", dpi=_PNG_DPI)
    return Figure(name, caption, svg.getvalue(), png.getvalue())


def _label_workers(axes: Any, points: Sequence[Point]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks([point.workers for point in points], [str(point.workers) for point in points])
    axes.minorticks_off()
    axes.set_xlim(points[0].workers / 1.2, points[-1].workers * 1.2)
    axes.set_xlabel("workers")


def _per_run(points: Sequence[Point], values: Callable[[Point], Sequence[float]]) -> tuple[Any, Any]:
    pairs = [(point.workers, value) for point in points for value in values(point)]
    return [workers for workers, _ in pairs], [value for _, value in pairs]


def draw_speedup(points: Sequence[Point]) -> Figure:
    """Draw the speed-up of every point and run, with the ideal line."""

    def paint(axes: Any) -> None:
        workers = [point.workers for point in points]
        ideal = [point.ideal for point in points]
        axes.plot([0, *workers], [0, *ideal], "--", color=GREY, label="ideal")
        axes.plot(*_per_run(points, lambda point: point.speedups), ".", color=ORANGE, label="each run")
        axes.plot(workers, [point.speedup for point in points], "o-", color=BLUE, label="median")
        most = workers[-1]
        ticks = [at for at, after in zip(workers, [*workers[1:], 2 * most], strict=True) if after - at > most / 16]
        axes.set_xticks(ticks, [str(at) for at in ticks])
        axes.set_xlim(0, 1.05 * most)
        axes.set_ylim(0, 1.05 * max(*ideal, *(speedup for point in points for speedup in point.speedups)))
        axes.set_xlabel("workers")
        axes.set_ylabel("speed-up")
        axes.legend(loc="upper left")

    return _draw("speedup", "Speed-up relative to the smallest number of workers.", SIZE, paint)


def draw_efficiency(points: Sequence[Point]) -> Figure:
    """Draw the efficiency of every point and run."""

    def paint(axes: Any) -> None:
        workers = [point.workers for point in points]
        found_workers, found = _per_run(
            points, lambda point: [100 * speedup / point.ideal for speedup in point.speedups]
        )
        axes.axhline(100, linestyle="--", color=GREY)
        axes.plot(found_workers, found, ".", color=ORANGE, label="each run")
        axes.plot(workers, [100 * point.efficiency for point in points], "o-", color=BLUE, label="median")
        _label_workers(axes, points)
        axes.set_ylim(0, max(110.0, 1.05 * max(found)))
        axes.set_ylabel("efficiency, %")
        axes.legend(loc="lower left")

    return _draw("efficiency", "Efficiency: speed-up divided by the ideal speed-up.", SIZE, paint)


def draw_times(points: Sequence[Point], mode: Mode) -> Figure:
    """Draw the time of every point, with whiskers from the fastest to the slowest run."""

    def paint(axes: Any) -> None:
        workers = [point.workers for point in points]
        middle = [point.seconds_median for point in points]
        first = points[0].seconds_median
        ideal = [first / point.ideal if mode == "strong" else first for point in points]
        below = [point.seconds_median - point.seconds_min for point in points]
        above = [point.seconds_max - point.seconds_median for point in points]
        axes.plot(workers, ideal, "--", color=GREY, label="ideal")
        axes.errorbar(workers, middle, yerr=[below, above], fmt="o-", color=BLUE, capsize=4, label="median")
        _label_workers(axes, points)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("seconds")
        axes.legend()

    caption = "Time without starting workers and reading the graph: median, fastest and slowest run."
    return _draw("times", caption, SIZE, paint)


def draw_census(rows: Sequence[tuple[CensusClass, int, float]], caption: str) -> Figure:
    """Draw the shares of the classes of butterflies, from :meth:`papilio.motifs.Census.rows`, each with its count."""
    return _draw("census", caption, SIZE, lambda axes: draw_classes(axes, rows))


def draw_timeline(name: str, caption: str, leases: Sequence[LeaseResult], n_workers: int) -> Figure:
    """Draw the leases of every worker as bars over time: a Gantt chart, with empty rows for idle workers."""
    require_matplotlib()
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.patches import Patch

    workers = sorted({lease.worker for lease in leases})
    rows = {worker: row for row, worker in enumerate(workers)}
    n_rows = max(n_workers, len(rows))
    begin = min((lease.began_at for lease in leases), default=0.0)
    bars: list[tuple[list[tuple[float, float]], list[str]]] = [([], []) for _ in range(n_rows)]
    for lease in sorted(leases, key=lambda lease: lease.began_at):
        intervals, colours = bars[rows[lease.worker]]
        intervals.append((lease.began_at - begin, lease.ended_at - lease.began_at))
        colours.append(BARS[len(intervals) % 2])

    def paint(axes: Any) -> None:
        for row, (intervals, colours) in enumerate(bars):
            axes.broken_barh(intervals, (row - 0.4, 0.8), facecolors=colours, rasterized=len(leases) > _MAX_VECTOR_BARS)
        step = -(-n_rows // _MAX_NAMED_WORKERS)
        axes.set_yticks(range(0, n_rows, step), [str(row + 1) for row in range(0, n_rows, step)])
        axes.set_ylim(n_rows - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.grid(False, axis="y")
        axes.set_xlabel("seconds since the first lease began")
        shades = tuple(Patch(color=colour) for colour in BARS)
        axes.legend(
            [shades], ["leases; their shades alternate, to tell them apart"], handler_map={tuple: HandlerTuple(None)},
            loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, fontsize=8,
        )  # fmt: skip
        axes.set_ylabel("worker")

    return _draw(name, caption, (WIDTH, min(0.9 + 0.3 * n_rows, 9.0)), paint)
