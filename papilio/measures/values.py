"""The results of measures: exact numbers, the values that follow from them, and the graph that they are measured on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.api.graph import GraphInput
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted, ignore_events
from papilio.graph import GraphKind
from papilio.kernels.exact import require_room
from papilio.measures.levels import CohesionLevel
from papilio.motifs import Granularity, MaximalBiclique, motif_to_json
from papilio.storage.answers import Columns, file_metadata, write_columns
from papilio.storage.files import SLICE_ENTRIES
from papilio.storage.labelled import Vectors
from papilio.tasks.job import require_graph_kind
from papilio.tasks.machine import free_memory_bytes
from papilio.tasks.result import CountResult, json_labels

Values = Mapping[str, NDArray[np.float64]]
"""By name, a value of each vertex of a layer, or of each edge; NaN where it is undefined."""


@dataclass(frozen=True)
class Summary:
    """The values of a layer, or of the edges: how many there are, how many are defined, and their means.

    ``mean`` is that of the defined ones, ``mean_of_all`` takes an undefined value for 0, as NetworkX does; both are
    None of nothing.
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


def _as_json(measure: str, result: Any, **own: Any) -> dict[str, Any]:
    """Return the JSON object of a result: its own values, then the values that all measures share."""
    counted: CountResult | None = getattr(result, "counted", None)
    shared = {
        "graph": result.graph if counted is None else counted.graph,
        "seconds": {phase: round(value, 6) for phase, value in result.seconds.items()},
    }
    if hasattr(result, "output"):
        shared["output"] = result.output
    if counted is not None:
        shared["count"] = counted.to_json()
    return {"measure": measure, **own, **shared}


@dataclass(frozen=True, eq=False)
class RobinsAlexander:
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
        """The float next to the fraction; None where it is undefined."""
        fraction = self.fraction
        return None if fraction is None else float(fraction)

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        fraction = self.fraction
        exact = None if fraction is None else [fraction.numerator, fraction.denominator]
        own = {"butterflies": self.butterflies, "three_paths": self.three_paths, "fraction": exact}
        return _as_json("robins-alexander", self, **own, value=self.value)


@dataclass(frozen=True, eq=False)
class LatapyClustering:
    """Clustering of every vertex of some layers after Latapy, Magnien and Del Vecchio.

    ``values`` has by layer ``dot``, ``min`` and ``max`` of each vertex, shapes (n_u,) and (n_v,), NaN for a vertex that
    shares no neighbour with another; ``partners`` with how many vertices each shares one.
    """

    values: Vectors[dict[str, NDArray[np.float64]]]
    partners: Vectors[NDArray[np.int64]]
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``pairs``, ``write``, and ``total``
    output: str | None = None

    def summaries(self) -> dict[str, Summary]:
        """Return the summary of each layer."""
        return {layer: summarise(self.values.by_id(layer)) for layer in self.values}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object."""
        layers = {layer: asdict(summary) for layer, summary in self.summaries().items()}
        return _as_json("latapy", self, layers=layers)


@dataclass(frozen=True, eq=False)
class LocalClustering:
    """Butterflies over possible ones, of every vertex or every edge.

    ``values`` has, for ``u`` and ``v``, or for ``edge``: ``closed``, and of vertices ``square``; NaN where no butterfly
    is possible. ``butterflies`` and ``three_paths`` are the exact numbers that they follow from. Edges are in the order
    of the edges sorted by (u, v); ``values.aligned("edge")`` has the order of what the graph was read from.
    """

    per: Granularity
    values: Vectors[dict[str, NDArray[np.float64]]]
    butterflies: Vectors[NDArray[np.uint64]]
    three_paths: Vectors[NDArray[np.uint64]]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``paths``, ``write``, and ``total``
    output: str | None = None

    def summaries(self) -> dict[str, Summary]:
        """Return the summary of each layer, or of the edges."""
        return {place: summarise(self.values.by_id(place)) for place in self.values}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object; integers in full."""
        places = {place: asdict(summary) for place, summary in self.summaries().items()}
        return _as_json("local", self, per=self.per, places=places)


@dataclass(frozen=True, eq=False)
class CohesionProfile:
    """How a graph hangs together, the more so the more butterflies its vertices are in.

    ``levels`` go from all vertices to those in the most butterflies, for 0, 1, 2, 4, 8, ... butterflies, without those
    that hold the same vertices as the next.
    """

    levels: tuple[CohesionLevel, ...]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``levels``, and ``total``

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        return _as_json("cohesion", self, levels=[level.to_json() for level in self.levels])


@dataclass(frozen=True)
class LargestBiclique:
    """A maximal biclique: its size, as it is ranked by, the ids of both sides, rising, and their labels."""

    size: int
    u: tuple[int, ...]
    v: tuple[int, ...]
    labels_u: tuple[Any, ...]  # the ids where there are none
    labels_v: tuple[Any, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as one JSON object."""
        labels = {"labels_u": json_labels(self.labels_u), "labels_v": json_labels(self.labels_v)}
        return {"size": self.size, "u": list(self.u), "v": list(self.v), **labels}


@dataclass(frozen=True)
class LargestBicliques:
    """The largest maximal bicliques of a graph, the largest first."""

    motif: MaximalBiclique
    by: str  # what is large: ``edges``, or ``balanced``, the smaller side
    bicliques: tuple[LargestBiclique, ...]
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``search``, and ``total``

    def to_json(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        motif, bicliques = motif_to_json(self.motif), [each.to_json() for each in self.bicliques]
        return _as_json("maximal-biclique-top", self, motif=motif, by=self.by, bicliques=bicliques)


@dataclass(frozen=True, eq=False)
class MaximumClique:
    """A largest clique of a unipartite graph, and, where that was asked for, the size of that of every vertex."""

    size: int  # its vertices; 0 in a graph without any
    members: tuple[int, ...]  # their ids, rising
    labels: tuple[Any, ...]  # their labels; the ids where there are none
    sizes: Vectors[
        NDArray[np.int32]
    ]  # vertices of the largest clique of each vertex: ``n``, shape (n,); or empty
    graph: dict[str, Any]  # as in CountResult
    seconds: dict[str, float] = field(repr=False)  # by phase: ``read``, ``search``, ``write``, and ``total``
    output: str | None = None

    def histogram(self) -> list[tuple[int, int]]:
        """Return how many vertices have a largest clique of each size, by rising size."""
        found = np.unique(self.sizes.by_id("n"), return_counts=True) if "n" in self.sizes else ((), ())
        return [(int(size), int(n)) for size, n in zip(*found, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the sizes of the vertices as one JSON object."""
        return _as_json(
            "maximum-clique",
            self,
            size=self.size,
            members=list(self.members),
            labels=json_labels(self.labels),
            sizes=self.histogram() if "n" in self.sizes else None,
        )


class Edges:
    """The edges of the graph of a call, in passes that are reported; and how long its phases take."""

    def __init__(
        self,
        graph: Any,
        measure: str,
        progress: Listener | None,
        kind: GraphKind = "bipartite",
        target: Path | None = None,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        self._began = perf_counter()
        self._seconds: dict[str, float] = {}
        self.source = GraphInput(graph, kind, reading)
        require_graph_kind(f"{measure} is", kind, self.source.graph.kind, self.source.name)
        self.source.require_storable(target)
        self.target, self.output = target, None if target is None else str(target)
        described = self.describe()
        self.n_u, self.n_v, self.n_edges = (int(described[name]) for name in ("n_u", "n_v", "n_edges"))
        self._listener = progress or ignore_events
        self._passes, self._seen = 1, 0

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph."""
        return self.source.describe()

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
        if self.source.store is not None:
            yield from ((u, v) for u, v, _ in self.source.store.batches())
            return
        graph = self.source.read()
        for start in range(0, graph.n_edges, SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield graph.u[start:stop], graph.v[start:stop]

    def write(self, columns: Mapping[Any, Columns], metadata: Mapping[str, Any], overwrite: bool) -> None:
        """Write columns of each vertex by layer (or ``n``), or of each ``edge``, if there is an output."""
        if self.target is None:
            return
        with self.phase("write"), ExitStack() as stack:
            store = self.source.stored(stack, self.target.parent)
            named = file_metadata(store.hash, **metadata)
            write_columns(
                self.target, store, columns, named, overwrite=overwrite, names_layer="n" not in columns
            )

    def require_memory(self, needed_bytes: int, what: str, threads: int) -> None:
        """Raise CapacityError where ``needed_bytes`` exceed the free memory."""
        require_room(
            f"{self.source.name} has {self.n_edges} edges, {what}, with {threads} threads,",
            needed_bytes,
            free_memory_bytes(),
            "use fewer threads or a machine with more memory",
        )
