"""What ecologists measure of species and sites: nestedness, and how often pairs occur together or apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.call import CountOptions, check_output
from papilio.api.count import count
from papilio.api.plan import require_none
from papilio.api.randomize import RandomGraphs
from papilio.api.read import resolve_layers, split_options
from papilio.arguments import Count, Samples, Seed, Threads, checked, read_argument
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.errors import InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.null.ensemble import Ensemble
from papilio.kernels.null.models import NullName
from papilio.kernels.threads import choose_threads
from papilio.kernels.wedge.submatrices import count_constant, count_middles
from papilio.measures.bipartite import read_whole
from papilio.measures.clustering import run_reported
from papilio.measures.overlaps import add_shares, sum_overlaps
from papilio.measures.values import Edges, describe_as_json
from papilio.motifs import Butterfly, Checkerboard, PairSide, Togetherness
from papilio.storage.answers import Answer, Preview, Source, columns_table, preview, rows_table
from papilio.storage.labelled import Vectors
from papilio.storage.reading import GraphOptions
from papilio.storage.statistics import count_degrees, count_three_paths
from papilio.tasks.result import CountResult, TopValue, find_top_values
from papilio.tasks.significance import Comparison

NAMES = ("nodf", "u", "v")
"""Nestedness of the whole graph, and among the vertices of each layer."""

_UNIT = 1 << 64
"""Random graphs are compared by integers: by exact values, rounded to multiples of its inverse."""

_DRAW_COST = 100
"""Of each edge of a random graph, in wedges; threads share the graphs accordingly."""

_SERIAL_EDGES = 1 << 13
"""Edges of a random graph below which one thread is faster: drawing takes less time than Python's part."""


@dataclass(frozen=True, eq=False, repr=False)
class Nestedness(Answer):
    """Nestedness of a graph by overlap and decreasing fill (NODF), from 0 to 100.

    ``fractions`` has the exact values of the graph (``nodf``), and of the pairs of each layer (``u``, ``v``); None for
    no pairs. ``overlaps`` has, for each vertex, its common neighbours with all vertices of larger degree: integers.
    ``shares`` are these divided by its degree, NaN for a vertex without neighbours; their sum, divided by the pairs of
    the layer and times 100, is the value of the layer.

    With random graphs, ``comparisons`` compares each value with the values of the random graphs, by the same names.
    """

    fractions: Mapping[str, Fraction | None]
    overlaps: Vectors[NDArray[np.uint64]]
    shares: Vectors[NDArray[np.float64]]
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(
        repr=False
    )  # by phase: ``read``, ``pairs``, ``samples``, ``write``, and ``total``
    ensemble: Ensemble | None = None  # the random graphs
    trades: int | None = None  # global trades from the graph to a random one; None for null models without a chain
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    output: str | None = None
    source: Source | None = None  # the graph, if at hand

    @property
    def values(self) -> dict[str, float | None]:
        """The float nearest to each fraction."""
        return {name: None if each is None else float(each) for name, each in self.fractions.items()}

    @property
    def nodf(self) -> float | None:
        """Nestedness of the graph: the mean over the pairs of both layers."""
        return self.values["nodf"]

    @property
    def headline(self) -> str:
        known = ", ".join(f"{name} {'undefined' if x is None else f'{x:.6g}'}" for name, x in self.values.items())
        if self.ensemble is None or "nodf" not in self.comparisons:
            return f"nestedness: {known}"
        z = self.comparisons["nodf"].z
        return (
            f"nestedness: {known}, z {'undefined' if z is None else f'{z:.4g}'} compared with "
            f"{self.ensemble.samples:,} random graphs of null model {self.ensemble.null}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: its name, the value and, with random graphs, the fields of the comparison."""
        return [
            {"of": name, "value": value, **(self.comparisons[name].row if name in self.comparisons else {})}
            for name, value in self.values.items()
        ]

    def _preview(self) -> Preview:
        rows = [{name: each for name, each in row.items() if name != "observed"} for row in self.rows()]
        return preview([*rows[0]], [[*row.values()] for row in rows])

    def to_arrow(self) -> Any:
        """Return a row for each vertex: layer, id, label (if there are labels), overlap and share."""
        return columns_table(self.held, _columns(self.overlaps, self.shares))

    def top(self, n: int = 10) -> tuple[TopValue, ...]:
        """Return the ``n`` vertices of each layer with the largest shares above 0, with their labels."""
        read_argument("n", n, Count)
        return find_top_values({layer: self.shares.by_id(layer) for layer in self.shares}, self.held, n)

    def _draw(self, axes: Any) -> None:
        """Draw the values as bars, or their z."""
        if self.comparisons:
            charts.draw_scores(axes, {name: each.z for name, each in self.comparisons.items()})
        else:
            charts.draw_shares(axes, {name: each and each / 100 for name, each in self.values.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the values of the vertices as one JSON object."""
        compared = {name: each.to_dict() for name, each in self.comparisons.items()} or None
        ensemble = None if self.ensemble is None else asdict(self.ensemble)
        own = {**self.values, "ensemble": ensemble, "trades": self.trades, "compared": compared}
        return describe_as_json("nestedness", self, **own)


@dataclass(frozen=True, eq=False, repr=False)
class Cooccurrence(Answer):
    """How often pairs of vertices of a layer have different neighbours, and how often the same."""

    layer: PairSide
    pairs: int  # of vertices of the layer
    checkerboards: int
    togetherness: int
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``paths``, and ``total``

    @property
    def c_score(self) -> float | None:
        """Checkerboards per pair (Stone and Roberts 1990); None without pairs."""
        return self.checkerboards / self.pairs if self.pairs else None

    @property
    def t_score(self) -> float | None:
        """Togetherness per pair (Stone and Roberts 1992); None without pairs."""
        return self.togetherness / self.pairs if self.pairs else None

    @property
    def _row(self) -> dict[str, Any]:
        names = ("layer", "pairs", "checkerboards", "togetherness", "c_score", "t_score")
        return {name: getattr(self, name) for name in names}

    @property
    def headline(self) -> str:
        scores = "undefined" if not self.pairs else f"C-score {self.c_score:.6g}, T-score {self.t_score:.6g}"
        return f"co-occurrence of {self.pairs:,} pairs of {self.layer.upper()}: {scores}"

    def _preview(self) -> Preview:
        return preview([*self._row], [[*self._row.values()]])

    def to_arrow(self) -> Any:
        """Return one row: layer, pairs, checkerboards, togetherness, c_score and t_score."""
        return rows_table([self._row])

    def _draw(self, axes: Any) -> None:
        charts.draw_numbers(axes, {"checkerboards": self.checkerboards, "togetherness": self.togetherness})

    def to_dict(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        return describe_as_json("cooccurrence", self, **self._row)


@checked
@shows_progress
def cooccurrence(graph: Any, layer: str, **options: Unpack[CountOptions]) -> Cooccurrence:
    """Measure how often pairs of vertices of a layer, such as species, occur apart and together.

    With degrees d and e, c common neighbours and n vertices in the other layer, a pair has (d - c) (e - c)
    checkerboards (the C-score: Stone and Roberts, Oecologia 85, 1990) and c (n - d - e + c) units of togetherness (the
    T-score: Stone and Roberts, Oecologia 91, 1992). Their sums are exact integers that follow from one count of
    butterflies and passes over the edges, which need not fit in memory. Graph, options and errors:
    :class:`CountOptions`; InputError for an invalid layer.
    """
    reading, where = split_options(options)
    graph, reading, asked = resolve_layers(graph, reading, {"layer": layer}, needs_signs=False)
    chosen: PairSide = read_argument("layer", asked["layer"], PairSide)
    edges = Edges(graph, "the co-occurrence of a layer", where.get("progress"), reading=reading)
    with edges.phase("paths", passes=2):
        degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
        paths = count_three_paths(degrees, edges.once)
    counted = count(edges.graph, Butterfly(), **where)
    sizes, middles = {"u": edges.n_u, "v": edges.n_v}, count_middles(degrees)
    apart, together = (
        count_constant(motif, edges.n_edges, sizes, middles) - paths + 2 * counted.count
        for motif in (Checkerboard(), Togetherness(chosen))
    )
    return Cooccurrence(chosen, sizes[chosen] * (sizes[chosen] - 1) // 2, apart, together, counted, edges.seconds)


@checked
@shows_progress
def nestedness(
    graph: Any,
    *,
    samples: Samples | None = None,
    null: NullName | None = None,
    seed: Seed | None = None,
    steps: Count | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress = None,
    **reading: Unpack[GraphOptions],
) -> Nestedness:
    """Measure the nestedness of a bipartite graph (NODF) in this process, and compare it with random graphs.

    A pair of vertices of a layer, of degrees d > e > 0 and with c common neighbours, has 100 c / e; a pair of equal
    degrees has 0. NODF is the mean over the pairs of both layers (Almeida-Neto et al., Oikos 117, 2008). All values are
    exact, in linear time.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored. Vertices without edges count as vertices.
    samples : int, optional
        Number of random graphs, drawn as by :func:`papilio.randomize`, to compare the values with; by default there is
        no comparison.
    null : {"degrees", "expected-degrees", "edges"}, optional
        What the random graphs share with the graph, as for :func:`papilio.significance`; "degrees" by default.
    seed, steps : int, optional
        As for :func:`papilio.significance`; the number of trades is chosen for butterflies.
    output : path-like, optional
        File (Parquet, CSV, ..., by its suffix) for the values of the vertices: ``layer``, ``id``, ``label`` (if there
        are labels), ``overlap``, ``share``. An existing file is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    InputError
        For the null model "signs", a ``null``, ``seed`` or ``steps`` without ``samples``, an invalid number of threads,
        or an output that cannot be written.
    UnsupportedError
        For a graph that is not bipartite.
    CapacityError
        When the graph does not fit in memory; raised before it is read.
    """
    if null == "signs":
        raise InputError("null is 'signs', and nestedness ignores signs; use degrees, expected-degrees or edges")
    target, chosen = check_output(output, Butterfly(), "vertex", overwrite=overwrite), choose_threads(threads)
    ensemble = None
    if samples is None:
        require_none({"null": null, "seed": seed, "steps": steps}, "which is for random graphs: set samples, too")
    else:
        ensemble = Ensemble.of(null or "degrees", samples, seed or 0, steps)
    edges = Edges(graph, "nestedness", progress, target=target, reading=reading)
    with edges.phase("read"):
        held = read_whole(edges, chosen)
    with edges.phase("pairs"):
        sums = sum_overlaps(held)
        degrees = {"u": held.degree_u, "v": held.degree_v}
        fractions = _take_means(held, sums)
    trades, comparisons = None, dict[str, Comparison]()
    if ensemble is not None:
        with edges.phase("samples"):
            drawn = RandomGraphs(edges.graph, ensemble, ensemble.samples, None)
            trades, comparisons = drawn.trades, _compare(fractions, drawn, chosen, edges)
    named = edges.graph.labelled
    overlaps = Vectors(sums, named)
    shares = {layer: sums[layer] / np.where(each > 0, each, np.nan) for layer, each in degrees.items()}
    found = Vectors(shares, named)
    edges.write(_columns(overlaps, found), {"measure": "nestedness"}, overwrite)
    return Nestedness(
        fractions, overlaps, found, edges.describe(), edges.seconds, ensemble, trades, comparisons, edges.output,
        edges.graph.held,
    )  # fmt: skip


def _columns(
    overlaps: Vectors[NDArray[np.uint64]], shares: Vectors[NDArray[np.float64]]
) -> dict[str, dict[str, NDArray[Any]]]:
    return {layer: {"overlap": overlaps.by_id(layer), "share": shares.by_id(layer)} for layer in ("u", "v")}


def _take_means(graph: BipartiteGraph, sums: Mapping[str, NDArray[np.uint64]]) -> dict[str, Fraction | None]:
    """Return the exact values of :data:`NAMES`."""
    pairs = {"u": graph.n_u * (graph.n_u - 1) // 2, "v": graph.n_v * (graph.n_v - 1) // 2}
    totals = {"u": add_shares(graph.degree_u, sums["u"]), "v": add_shares(graph.degree_v, sums["v"])}
    pairs["nodf"], totals["nodf"] = pairs["u"] + pairs["v"], totals["u"] + totals["v"]
    return {name: 100 * totals[name] / pairs[name] if pairs[name] else None for name in NAMES}


def _compare(
    observed: Mapping[str, Fraction | None], drawn: RandomGraphs, threads: int, edges: Edges
) -> dict[str, Comparison]:
    """Compare the values of a graph with the values of random graphs."""
    found: list[dict[str, Fraction | None]] = [{}] * len(drawn)

    def draw(state: None, start: int, stop: int) -> None:
        for at in range(start, stop):
            graph = drawn[at].arrays()
            assert isinstance(graph, BipartiteGraph)
            found[at] = _take_means(graph, sum_overlaps(graph))

    threads = threads if edges.n_edges >= _SERIAL_EDGES else 1
    costs = np.full(len(drawn), 1 + _DRAW_COST * edges.n_edges, np.int64)
    run_reported(costs, threads, lambda: None, draw, edges.report)
    return {
        name: Comparison.of(round(value * _UNIT), [round((each[name] or 0) * _UNIT) for each in found]).scaled(_UNIT)
        for name, value in observed.items()
        if value is not None
    }
