"""Charts of answers, on the axes of matplotlib: counts by size or class, and how counts are distributed.

Counts of any size are drawn by their logarithms, and written with all digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from papilio.extras import import_extra
from papilio.motifs import Cell, CensusClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes

BLUE, GREY, ORANGE = "#1f5fa8", "#8a8f98", "#c8641e"

_COLOURS = BLUE, ORANGE, GREY

_NAMES = {"u": "vertices of U", "v": "vertices of V", "n": "vertices", "edge": "edges"}

_MAX_WRITTEN = 12
"""Largest number of rows and columns of a table whose cells show their counts."""


def require_matplotlib() -> None:
    """Raise MissingPackageError if figures cannot be drawn."""
    import_extra("matplotlib", "figures need", "leave the figures out")


def axes_or_new(axes: Axes | None) -> Axes:
    """Return the given axes, or new ones of pyplot."""
    if axes is not None:
        return axes
    require_matplotlib()
    from matplotlib import pyplot

    made: Axes = pyplot.subplots(layout="constrained")[1]
    return made


def draw_classes(axes: Any, rows: Sequence[tuple[CensusClass, int, float]]) -> None:
    """Draw the share of each class as a bar, with its name and its count."""
    for group, colour in (("coherent", BLUE), ("incoherent", ORANGE), ("mixed", GREY)):
        chosen = [(at, 100 * share) for at, (each, _, share) in enumerate(rows) if each.group == group]
        bars = axes.barh([at for at, _ in chosen], [share for _, share in chosen], color=colour, label=group)
        axes.bar_label(bars, fmt="%.1f%%", padding=3, fontsize=8)
    names = [f"{each.name}\n{count:,}" for each, count, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel("% of butterflies")
    axes.margins(x=0.18)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=8)


def draw_table(axes: Any, key: Sequence[str], table: Mapping[Cell, int]) -> None:
    """Draw counts by size: bars where one size varies, else colours of a grid."""
    varying = [at for at in range(len(key)) if len({cell[at] for cell in table}) > 1] or [len(key) - 1]
    if len(varying) > 1:
        _draw_grid(axes, key, table)
        return
    at = varying[0]
    sizes = [cell[at] for cell in sorted(table)]
    heights = [_digits(table[cell]) for cell in sorted(table)]
    axes.bar(sizes, heights, color=BLUE)
    fixed = ", ".join(f"{name} = {next(iter(table))[i]}" for i, name in enumerate(key) if i != at)
    axes.set_xlabel(f"{key[at]} ({fixed})" if fixed else key[at])
    axes.set_ylabel("count")
    axes.set_ylim(0, max(heights) * 1.05)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter(_power)


def _draw_grid(axes: Any, key: Sequence[str], table: Mapping[Cell, int]) -> None:
    sides = [range(min(sizes), max(sizes) + 1) for sizes in zip(*table, strict=True)]
    grid = np.full((len(sides[0]), len(sides[1])), np.nan)
    for (p, q), count in table.items():
        grid[p - sides[0].start, q - sides[1].start] = _digits(count)
    image = axes.imshow(
        grid, aspect="auto", origin="lower", cmap="Blues",
        extent=(sides[1].start - 0.5, sides[1].stop - 0.5, sides[0].start - 0.5, sides[0].stop - 0.5),
    )  # fmt: skip
    if max(map(len, sides)) <= _MAX_WRITTEN and max(table.values()) < 10**5:
        middle = np.nanmax(grid) / 2
        for (p, q), count in table.items():
            colour = "white" if _digits(count) > middle else "black"
            axes.text(q, p, f"{count:,}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_ylabel(key[0])
    axes.set_xlabel(key[1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    axes.grid(False)
    bar = axes.figure.colorbar(image, ax=axes, label="count", format=_power)
    bar.locator.set_params(integer=True)


def _power(digits: float, place: int | None = None) -> str:
    return f"$10^{{{digits:g}}}$"


def _digits(count: int) -> float:
    """Return the logarithm to base 10 of an integer of any size; 1 gets a small bar, too."""
    return math.log10(count) if count > 1 else 0.05


def draw_distribution(axes: Any, values: Mapping[str, NDArray[Any]], what: str) -> None:
    """Draw how many items have at least a value, for every value above 0, on two logarithmic scales.

    ``values`` are integers by ``u``, ``v`` or ``n``, the layer of vertices, by ``edge``, or by other names.
    """
    for (name, column), colour in zip(values.items(), _COLOURS, strict=False):
        found, numbers = np.unique(column, return_counts=True)
        at_least = np.cumsum(numbers[::-1])[::-1]
        shown = found > 0
        axes.plot(
            found[shown].astype(np.float64), at_least[shown], drawstyle="steps-pre", color=colour, marker=".",
            label=f"{_NAMES.get(name, name)} ({int(at_least[shown].max(initial=0)):,} of {column.size:,} above 0)",
        )  # fmt: skip
    if any(bool((column > 0).any()) for column in values.values()):
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(f"{what}, at least")
    axes.set_ylabel("how many")
    axes.legend(fontsize=8)


def draw_numbers(axes: Any, numbers: Mapping[str, int], what: str = "count") -> None:
    """Draw an integer of any size under each name as a bar, with all its digits."""
    heights = [_digits(number) for number in numbers.values()]
    bars = axes.barh(range(len(numbers)), heights, color=BLUE)
    axes.bar_label(bars, [f"{number:,}" for number in numbers.values()], padding=3, fontsize=8)
    axes.set_yticks(range(len(numbers)), [*numbers], fontsize=8)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlim(0, 1.3 * max(heights, default=1.0))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(_power)
    axes.set_xlabel(what)


def draw_shares(axes: Any, shares: Mapping[str, float | None]) -> None:
    """Draw a value from 0 to 1 under each name as a bar; None means undefined."""
    bars = axes.barh(range(len(shares)), [share or 0.0 for share in shares.values()], color=BLUE)
    texts = ["undefined" if share is None else f"{share:.4g}" for share in shares.values()]
    axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.set_yticks(range(len(shares)), [*shares], fontsize=8)
    axes.grid(False, axis="y")
    axes.set_xlim(0, 1)


def draw_scores(axes: Any, scores: Mapping[str, float | None]) -> None:
    """Draw a z under each name as a bar; None means undefined."""
    bars = axes.barh(range(len(scores)), [score or 0.0 for score in scores.values()], color=BLUE)
    texts = ["undefined" if score is None else f"{score:.4g}" for score in scores.values()]
    axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.set_yticks(range(len(scores)), [*scores], fontsize=8)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel("z")


def draw_interval(axes: Any, name: str, value: float, interval: tuple[float, float]) -> None:
    """Draw an estimate and its interval; an arrow from the lower end if the upper one is infinite."""
    low, high = interval
    if math.isfinite(high):
        axes.errorbar([value], [0], xerr=[[value - low], [high - value]], fmt="o", color=BLUE, capsize=6)
    else:
        axes.errorbar([low], [0], xerr=[[0], [low / 4]], xlolims=True, fmt="|", color=BLUE)
    axes.set_yticks([0], [name], fontsize=8)
    axes.grid(False, axis="y")
    axes.set_xlabel("count")


def draw_at_least(axes: Any, values: Mapping[str, NDArray[np.float64]], what: str) -> None:
    """Draw the share of items that have at least a value, named as in :func:`draw_distribution`; NaN is left out."""
    for (name, column), colour in zip(values.items(), _COLOURS, strict=False):
        known = np.sort(column[~np.isnan(column)])
        at_least = np.arange(known.size, 0, -1) / max(known.size, 1)
        label = f"{_NAMES.get(name, name)} ({known.size:,} of {column.size:,} defined)"
        axes.plot(known, at_least, drawstyle="steps-pre", color=colour, label=label)
    axes.set_xlabel(f"{what}, at least")
    axes.set_ylabel("share of those defined")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8)


def draw_lines(axes: Any, at: Sequence[int], lines: Mapping[str, Sequence[int]], what: str) -> None:
    """Draw integers along others, on two scales that are logarithmic from 1 on."""
    for (name, values), colour in zip(lines.items(), _COLOURS, strict=False):
        axes.plot(at, values, marker=".", color=colour, label=name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlabel(what)
    axes.legend(fontsize=8)


def draw_points(axes: Any, x: Sequence[int], y: Sequence[int], name_x: str, name_y: str) -> None:
    """Draw a point for each pair of sizes; points on top of each other are darker."""
    axes.scatter(x, y, color=BLUE, alpha=0.4, edgecolors="none")
    axes.set_xlabel(name_x)
    axes.set_ylabel(name_y)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def draw_histogram(axes: Any, values: Sequence[float], observed: float, what: str) -> None:
    """Draw a histogram of values, and the observed one as a line."""
    axes.hist(values, bins="auto" if min(values) < max(values) else 1, color=BLUE, label="random graphs")
    axes.axvline(observed, color=ORANGE, label="the graph itself")
    axes.set_xlabel(what)
    axes.set_ylabel("random graphs")
    axes.legend(fontsize=8)


def draw_mixing(axes: Any, means: Sequence[tuple[int, float]], steps: int, what: str) -> None:
    """Draw means against the number of steps of a chain; a line marks the steps of a sample."""
    axes.plot(*zip(*means, strict=True), marker=".", color=BLUE, label="mean of the chains")
    axes.axvline(steps, color=GREY, linestyle="--", label="steps of a sample")
    axes.set_xlabel("steps of the chain")
    axes.set_ylabel(what)
    axes.legend(fontsize=8)
