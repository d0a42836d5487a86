"""The results of measures: exact numbers, the values derived from them, and the measured graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.read import open_graph
from papilio.arguments import Count, plural, read_argument
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted, Progress, ignore_events
from papilio.errors import InputError
from papilio.graph import GraphKind
from papilio.kernels.exact import require_room
from papilio.measures.levels import CohesionLevel
from papilio.motifs import Granularity, MaximalBiclique, motif_to_json
from papilio.storage.answers import (
    Answer,
    Columns,
    Preview,
    Source,
    columns_table,
    file_metadata,
    preview,
    rows_table,
    write_columns,
)
from papilio.storage.files import SLICE_ENTRIES
from papilio.storage.labelled import Vectors
from papilio.tasks.job import require_graph_kind
from papilio.tasks.machine import free_memory_bytes
from papilio.tasks.result import CountResult, TopValue, find_top_values, json_labels

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable

_Found = TypeVar("_Found")

_LEVEL_COLUMNS = ("least", "n_u", "n_v", "n_edges", "components", "largest", "least_degree", "cut_at_most")

Values = Mapping[str, NDArray[np.float64]]
"""By name, a value of each vertex of a layer, or of each edge; NaN if it is undefined."""


@dataclass(frozen=True)
class Summary:
    """The values of a layer, or of the edges: their number, the number of defined values, and their means.

    ``mean`` covers the defined values, ``mean_of_all`` takes an undefined value for 0, as NetworkX does; both are None
    if there is nothing to average.
    """

    size: int
    defined: int
    mean: dict[str, float | None]
    mean_of_all: dict[str, float | None]


def summarise(values: Values) -> Summary:
    """Return the summary of values that are undefined at the same places."""
    first = next(iter(values.values()))
    known = ~np.isnan(first)
    defined, size = int(np.count_nonzero(known)), int(first.size)
    sums = {name: float(each[known].sum()) for name, each in values.items()}
    return Summary(
        size,
        defined,
        {name: total / defined if defined else None for name, total in sums.items()},
        {name: total / size if size else None for name, total in sums.items()},
    )


def describe_as_json(measure: str, result: Any, **own: Any) -> dict[str, Any]:
    """Return the JSON object of a result: its own values, then the values common to all measures."""
    counted: CountResult | None = getattr(result, "counted", None)
    shared = {
        "graph": result.graph if counted is None else counted.graph,
        "seconds": {phase: round(value, 6) for phase, value in result.seconds.items()},
    }
    if hasattr(result, "output"):
        shared["output"] = result.output
    if counted is not None:
        shared["count"] = counted.to_dict()
    return {"measure": measure, **own, **shared}


@dataclass(frozen=True, eq=False, repr=False)
class RobinsAlexander(Answer):
    """Clustering of a whole graph after Robins and Alexander, from its cycles of four edges and paths of three."""

    butterflies: int
    three_paths: int
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``paths``, and ``total``

    @property
    def fraction(self) -> Fraction | None:
        """``4 * butterflies / three_paths``, exactly; None, undefined, without paths of three edges."""
        return Fraction(4 * self.butterflies, self.three_paths) if self.three_paths else None

    @property
    def value(self) -> float | None:
        """The float nearest to the fraction; None if it is undefined."""
        fraction = self.fraction
        return None if fraction is None else float(fraction)

    @property
    def headline(self) -> str:
        value = "undefined" if self.value is None else f"{self.value:.6g}"
        return f"Robins-Alexander clustering: {value} (4 * {self.butterflies:,} / {self.three_paths:,})"

    def to_arrow(self) -> ArrowTable:
        """Return one row: butterflies, three_paths and value."""
        return rows_table([{"butterflies": self.butterflies, "three_paths": self.three_paths, "value": self.value}])

    def _draw(self, axes: Any) -> None:
        """Draw the value as a bar."""
        charts.draw_shares(axes, {"Robins-Alexander": self.value})

    def to_dict(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        fraction = self.fraction
        exact = None if fraction is None else [fraction.numerator, fraction.denominator]
        own = {"butterflies": self.butterflies, "three_paths": self.three_paths, "fraction": exact}
        return describe_as_json("robins-alexander", self, **own, value=self.value)


class _Clustering(Answer):
    """Clustering of the vertices of some layers, or of the edges."""

    values: Vectors[dict[str, NDArray[np.float64]]]
    seconds: dict[str, float]
    _drawn: ClassVar[str]

    def summaries(self) -> dict[str, Summary]:
        """Return the summary of each layer, or of the edges; of all vertices (``n``) if the layers are unknown."""
        values = {place: self.values.by_id(place) for place in self.values}
        if self.source is not None and len(values) == 2 and self.source.layers.are_open:
            u, v = values.values()
            values = {"n": {name: np.concatenate((u[name], v[name])) for name in u}}
        return {place: summarise(of) for place, of in values.items()}

    def _named(self, name: str) -> dict[str, NDArray[np.float64]]:
        return {place: self.values.by_id(place)[name] for place in self.values}

    def _describe(self, measure: str) -> str:
        names = {"u": "vertices of U", "v": "vertices of V", "n": "vertices", "edge": "edges"}
        sizes = " and ".join(f"{each.size:,} {names[place]}" for place, each in self.summaries().items())
        return f"{measure} of {sizes} ({self.seconds['total']:.2f} s)"

    def _preview(self) -> Preview:
        summaries = self.summaries()
        names = [*next(iter(summaries.values())).mean]
        rows = [
            (place, f"{each.size:,}", f"{each.defined:,}", *(each.mean[name] for name in names))
            for place, each in summaries.items()
        ]
        return preview(("of", "size", "defined", *(f"mean {name}" for name in names)), rows)

    def _draw(self, axes: Any) -> None:
        """Draw the share of vertices or edges with at least each value."""
        charts.draw_at_least(axes, self._named(self._drawn), f"clustering ({self._drawn})")


@dataclass(frozen=True, eq=False, repr=False)
class LatapyClustering(_Clustering):
    """Clustering of every vertex of some layers after Latapy, Magnien and Del Vecchio.

    ``values`` holds by layer ``dot``, ``min`` and ``max`` of each vertex, shapes (n_u,) and (n_v,), NaN for a vertex
    that shares no neighbour with another; ``partners`` holds the number of vertices with which each shares one.
    """

    values: Vectors[dict[str, NDArray[np.float64]]]
    partners: Vectors[NDArray[np.int64]]
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``pairs``, ``write``, and ``total``
    output: str | None = None
    source: Source | None = None  # the graph, if at hand
    _drawn = "dot"

    @property
    def headline(self) -> str:
        return self._describe("Latapy's clustering")

    def to_arrow(self) -> ArrowTable:
        """Return a row for each vertex: layer, id, label (if there are labels), partners, dot, min, max."""
        columns = {layer: {"partners": self.partners.by_id(layer), **self.values.by_id(layer)} for layer in self.values}
        return columns_table(self.held, columns)

    def top(self, n: int = 10, *, by: Literal["dot", "min", "max"] = "dot") -> tuple[TopValue, ...]:
        """Return the ``n`` vertices of each layer with the largest values above 0, with their labels."""
        read_argument("n", n, Count)
        read_argument("by", by, Literal["dot", "min", "max"])
        return find_top_values(self._named(by), self.held, n)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object."""
        layers = {layer: asdict(summary) for layer, summary in self.summaries().items()}
        return describe_as_json("latapy", self, layers=layers)


@dataclass(frozen=True, eq=False, repr=False)
class LocalClustering(_Clustering):
    """Butterflies, or 4-cycles of a unipartite graph, as a share of possible ones, of every vertex or every edge.

    ``values`` has, for ``u`` and ``v`` (or ``n``), or for ``edge``: ``closed``, and ``square`` for vertices; NaN if no
    butterfly is possible. ``butterflies`` and ``three_paths`` are the exact numbers behind them. Edges are sorted by
    (u, v); ``values.aligned("edge")`` has the order of the input.
    """

    per: Granularity
    values: Vectors[dict[str, NDArray[np.float64]]]
    butterflies: Vectors[NDArray[np.uint64]]
    three_paths: Vectors[NDArray[np.uint64]]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``paths``, ``write``, and ``total``
    output: str | None = None
    _drawn = "closed"

    @property
    def source(self) -> Source | None:  # type: ignore[override]
        """The graph, if at hand."""
        return self.counted.source

    @property
    def graph(self) -> dict[str, Any]:
        """The graph, as in :class:`papilio.CountResult`."""
        return self.counted.graph

    @property
    def headline(self) -> str:
        return self._describe("local clustering")

    def _has_edge_rows(self) -> bool:
        return self.per == "edge"

    def to_arrow(self) -> ArrowTable:
        """Return a row for each vertex (layer, id, label) or edge (u, v, u_label, v_label), as for counts.

        The other columns are butterflies (or four_cycles), three_paths, closed and, for vertices, square.
        """
        return columns_table(self.held, local_columns(self), names_layer="n" not in self.values)

    def top(self, n: int = 10, *, by: Literal["closed", "square"] = "closed") -> tuple[TopValue, ...]:
        """Return the ``n`` vertices of each layer, or edges, with the largest values above 0, with their labels."""
        read_argument("n", n, Count)
        read_argument("by", by, Literal["closed", "square"])
        if by == "square" and self.per == "edge":
            raise InputError("by is 'square', which is not defined for edges; use closed")
        return find_top_values(self._named(by), self.held, n)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object; integers in full."""
        places = {place: asdict(summary) for place, summary in self.summaries().items()}
        return describe_as_json("local", self, per=self.per, places=places)


def local_columns(found: LocalClustering) -> dict[str, Columns]:
    """Return the columns of each layer, or of the edges, by id."""
    name = "butterflies" if found.graph["kind"] == "bipartite" else "four_cycles"
    return {
        place: {
            name: found.butterflies.by_id(place),
            "three_paths": found.three_paths.by_id(place),
            **found.values.by_id(place),
        }
        for place in found.values
    }


@dataclass(frozen=True, eq=False, repr=False)
class CohesionProfile(Answer):
    """Cohesion of a graph, level by level, among vertices in more and more butterflies.

    ``levels`` run from all vertices to those in the most butterflies, for 0, 1, 2, 4, 8, ... butterflies. A level with
    the same vertices as the next is left out.
    """

    levels: tuple[CohesionLevel, ...]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``levels``, and ``total``

    @property
    def headline(self) -> str:
        return f"cohesion: {plural(len(self.levels), 'level')} of {self.counted.count:,} butterflies"

    def _preview(self) -> Preview:
        rows = [each.to_dict() for each in self.levels]
        return preview([*rows[0]] if rows else [], [[f"{x:,}" for x in row.values()] for row in rows])

    def to_arrow(self) -> ArrowTable:
        """Return a row for each level: least, n_u, n_v, n_edges, components, largest, least_degree, cut_at_most."""
        return rows_table([each.to_dict() for each in self.levels], _LEVEL_COLUMNS)

    def _draw(self, axes: Any) -> None:
        """Draw vertices and edges of each level."""
        least = [each.least for each in self.levels]
        lines = {
            "vertices": [each.n_u + each.n_v for each in self.levels],
            "edges": [each.n_edges for each in self.levels],
            "largest component": [each.largest for each in self.levels],
        }
        charts.draw_lines(axes, least, lines, "butterflies of every vertex, at least")

    def to_dict(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        return describe_as_json("cohesion", self, levels=[level.to_dict() for level in self.levels])


@dataclass(frozen=True)
class LargestBiclique:
    """A maximal biclique: its size by the chosen ranking, the ids of both sides, ascending, and their labels."""

    size: int
    u: tuple[int, ...]
    v: tuple[int, ...]
    labels_u: tuple[Any, ...]  # the ids in a graph without labels
    labels_v: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the biclique as one JSON object."""
        labels = {"labels_u": json_labels(self.labels_u), "labels_v": json_labels(self.labels_v)}
        return {"size": self.size, "u": list(self.u), "v": list(self.v), **labels}


@dataclass(frozen=True, eq=False, repr=False)
class LargestBicliques(Answer):
    """The largest maximal bicliques of a graph, the largest first."""

    motif: MaximalBiclique
    by: str  # ranking: ``edges``, or ``balanced``, the smaller side
    bicliques: tuple[LargestBiclique, ...]
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``search``, and ``total``
    asked: int = 100  # largest number of bicliques

    @property
    def headline(self) -> str:
        largest = f", the largest of size {self.bicliques[0].size:,}" if self.bicliques else ""
        return f"{plural(len(self.bicliques), 'maximal biclique')} by {self.by}{largest}"

    def _preview(self) -> Preview:
        return preview(("size", "u", "v"), [(each.size, each.labels_u, each.labels_v) for each in self.bicliques])

    def to_arrow(self) -> ArrowTable:
        """Return a row for each biclique: size, u and v, lists of labels."""
        rows = [{"size": each.size, "u": each.labels_u, "v": each.labels_v} for each in self.bicliques]
        return rows_table(rows, ("size", "u", "v"))

    def _draw(self, axes: Any) -> None:
        """Draw each biclique by its vertices of U and of V."""
        charts.draw_points(
            axes, [len(each.u) for each in self.bicliques], [len(each.v) for each in self.bicliques],
            "vertices of U", "vertices of V",
        )  # fmt: skip

    def top(self, n: int = 10) -> tuple[LargestBiclique, ...]:
        """Return the ``n`` largest; InputError if more than requested in the call."""
        return first_of(self.bicliques, n, self.asked, "bicliques")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        motif, bicliques = motif_to_json(self.motif), [each.to_dict() for each in self.bicliques]
        return describe_as_json("maximal-biclique-top", self, motif=motif, by=self.by, bicliques=bicliques)


@dataclass(frozen=True, eq=False, repr=False)
class MaximumClique(Answer):
    """A largest clique of a unipartite graph and, if requested, the size of the largest clique of every vertex."""

    size: int  # its vertices; 0 in a graph without vertices
    members: tuple[int, ...]  # their ids, ascending
    labels: tuple[Any, ...]  # their labels; the ids in a graph without labels
    sizes: Vectors[NDArray[np.int32]]  # vertices of the largest clique of each vertex: ``n``, shape (n,); or empty
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``search``, ``write``, and ``total``
    output: str | None = None
    source: Source | None = None  # the graph, if at hand

    @property
    def headline(self) -> str:
        return f"maximum clique: {self.size:,} {'vertex' if self.size == 1 else 'vertices'}"

    def _preview(self) -> Preview:
        rows: list[tuple[Any, ...]] = [("largest", self.size, self.labels)] if self.size else []
        rows += [("vertices", size, f"{n:,}") for size, n in reversed(self.histogram())]
        return preview(("", "size", "members or number"), rows)

    def to_arrow(self) -> ArrowTable:
        """Return a row for each vertex (id, label, size) if requested, else one row: size and members."""
        if "n" in self.sizes:
            return columns_table(self.held, {"n": {"size": self.sizes.by_id("n")}}, names_layer=False)
        return rows_table([{"size": self.size, "members": self.labels}])

    def _draw(self, axes: Any) -> None:
        """Draw how many vertices have a largest clique of each size, or the size."""
        if "n" in self.sizes and self.sizes.by_id("n").size:
            charts.draw_table(axes, ("size",), {(size,): n for size, n in self.histogram()})
        else:
            charts.draw_numbers(axes, {"maximum clique": self.size}, "vertices")

    def top(self, n: int = 10) -> tuple[TopValue, ...]:
        """Return the ``n`` vertices with the largest cliques, with their labels; needs ``per="vertex"``."""
        read_argument("n", n, Count)
        if "n" not in self.sizes:
            raise InputError(
                "the answer is one clique (see labels); use per='vertex' for the size of the largest clique of every "
                "vertex"
            )
        return find_top_values({"n": self.sizes.by_id("n")}, self.held, n)

    def histogram(self) -> list[tuple[int, int]]:
        """Return how many vertices have a largest clique of each size, by increasing size."""
        found = np.unique(self.sizes.by_id("n"), return_counts=True) if "n" in self.sizes else ((), ())
        return [(int(size), int(n)) for size, n in zip(*found, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the sizes of the vertices as one JSON object."""
        return describe_as_json(
            "maximum-clique",
            self,
            size=self.size,
            members=list(self.members),
            labels=json_labels(self.labels),
            sizes=self.histogram() if "n" in self.sizes else None,
        )


def first_of(found: tuple[_Found, ...], n: int, asked: int, what: str) -> tuple[_Found, ...]:
    """Return the first ``n``; InputError if more than requested in the call."""
    read_argument("n", n, Count)
    if n > asked:
        raise InputError(f"n is {n}, but only {asked} {what} were requested; run again with n={n}")
    return found[:n]


class Edges:
    """The edges of the graph of a call, in passes that report progress; also times its phases.

    The graph has the ``kind`` of the measure, or any if that is None.
    """

    def __init__(
        self,
        graph: Any,
        measure: str,
        progress: Progress,
        kind: GraphKind | None = "bipartite",
        target: Path | None = None,
        reading: Mapping[str, Any] | None = None,
        of_layers: str | None = None,
    ) -> None:
        self._began = perf_counter()
        self._seconds: dict[str, float] = {}
        of_layers = measure if of_layers is None else of_layers
        self.graph = open_graph(graph, kind or "bipartite", reading or {}, of_layers, needs_signs=False)
        require_graph_kind(f"{measure} is", kind or self.graph.kind, self.graph.kind, self.graph.name)
        self.graph.require_storable(target)
        self.target, self.output = target, None if target is None else str(target)
        self.n_u, self.n_v, self.n_edges = self.graph.n_u, self.graph.n_v, self.graph.n_edges
        self._listener: Listener = progress if callable(progress) else ignore_events
        self._passes, self._seen = 1, 0

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph."""
        return self.graph.describe()

    @contextmanager
    def phase(self, name: str, passes: int = 1) -> Iterator[None]:
        """Time a block, which passes over the edges ``passes`` times."""
        began = perf_counter()
        self._passes, self._seen = passes, 0
        self._listener(PhaseStarted(name))
        yield
        self._seconds[name] = perf_counter() - began

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time by phase, and ``total`` until now."""
        return {**self._seconds, "total": perf_counter() - self._began}

    def report(self, share: float) -> None:
        self._listener(PhaseAdvanced(share))

    def once(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Yield all edges in order, in pieces."""
        for u, v in self._pieces():
            yield u, v
            self._seen += int(u.size)
            self.report(self._seen / max(1, self._passes * self.n_edges))

    def _pieces(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        if self.graph.store is not None:
            yield from ((u, v) for u, v, _ in self.graph.store.batches())
            return
        graph = self.graph.arrays()
        for start in range(0, graph.n_edges, SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield graph.u[start:stop], graph.v[start:stop]

    def write(self, columns: Mapping[Any, Columns], metadata: Mapping[str, Any], overwrite: bool) -> None:
        """Write columns of each vertex by layer (or ``n``), or of each ``edge``, if there is an output."""
        if self.target is None:
            return
        with self.phase("write"), ExitStack() as stack:
            store = self.graph.stored(stack, self.target.parent)
            named = file_metadata(store.hash, **metadata)
            write_columns(self.target, store, columns, named, overwrite=overwrite, names_layer="n" not in columns)

    def require_memory(self, needed_bytes: int, what: str, threads: int) -> None:
        """Raise CapacityError if ``needed_bytes`` exceed the free memory."""
        require_room(
            f"{self.graph.name} has {self.n_edges} edges, {what}, with {threads} threads,",
            needed_bytes,
            free_memory_bytes(),
            "use fewer threads or a machine with more memory",
        )
