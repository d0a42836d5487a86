"""The public function that decomposes a graph into its dense parts by peeling: wings of edges, tips of vertices."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.read import Graph, open_graph, resolve_layers
from papilio.arguments import Count, Threads, checked, names_table, read_argument
from papilio.cluster.progress import shows_phases
from papilio.errors import EngineUnavailableError, InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.discovery import missing_for_gpu
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.kernels.exact import require_room
from papilio.kernels.peel.decompose import decompose_graph
from papilio.kernels.peel.phases import Forest, Layer, PeelingKind, check_wing_edges, ignore_report
from papilio.storage.answers import (
    Answer,
    Preview,
    Source,
    check_decomposition_path,
    columns_table,
    preview,
    write_arrow,
    write_decomposition,
)
from papilio.storage.labelled import LabelledGraph, Vectors, plain_labels
from papilio.storage.layers import show_layer
from papilio.storage.reading import ReadingOptions
from papilio.storage.store import GraphStore
from papilio.storage.tables import check_table_file
from papilio.tasks.job import require_graph_kind
from papilio.tasks.machine import free_memory_bytes
from papilio.tasks.result import TopValue, find_top_values

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable

PeelProgress = Callable[[str, int, int], None]
"""Called with a phase (``read``, ``index``, ``coarse``, ``fine``, ``hierarchy``, ``write``), done and total work."""

PHASES = {
    "read": ("reading", ""),
    "index": ("listing pairs of vertices", ""),
    "coarse": ("cutting into ranges", ""),
    "fine": ("peeling", ""),
    "hierarchy": ("finding components", ""),
    "write": ("writing", ""),
}
"""Description of each phase."""

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX = 48, 80
"""Memory of the graph and its wedge index, before the index to peel can be measured."""


@dataclass(frozen=True)
class Component:
    """A component of a decomposition at a number: for wings its edges, for tips its vertices of the layer."""

    level: int  # minimum number of its items, within the component
    size: int  # its items
    u: tuple[int, ...]  # ids of its vertices, ascending; for tips only of the layer
    v: tuple[int, ...]
    labels_u: tuple[Any, ...]  # or ids, without labels
    labels_v: tuple[Any, ...]


def _labels_of(graph: Source, layer: Layer, ids: list[int]) -> tuple[Any, ...]:
    labels = graph.labels(layer)
    return tuple(ids if labels is None else plain_labels(labels[ids]))


@dataclass(frozen=True, eq=False, repr=False)
class DecompositionResult(Answer):
    """The exact number of every item, the forest of components, and how they were found."""

    kind: PeelingKind  # ``wing`` or ``tip``
    layer: Layer | None  # for tips: the layer of the vertices
    # ``number`` of uint64 and, with components, ``node`` of int32 (-1 for none), of shape (n_items,): the wing number
    # and the node of the forest of every edge, sorted by (u, v), or the same of every vertex of the layer, by id.
    # ``vectors.aligned("number")`` has the order and form of the source of the graph.
    vectors: Vectors[NDArray[Any]]
    forest: Forest | None  # the components at every level, with items by id; None without hierarchy
    engine: EngineName
    graph: dict[str, Any]  # ``path`` and ``hash`` (None for a graph in memory), ``n_u``, ``n_v``, ``n_edges``
    ranges: int  # see :class:`~papilio.kernels.peel.phases.Peeled`
    coarse_rounds: int
    fine_rounds: int
    updates: int
    # wall time by phase: ``read``, ``index``, ``coarse``, ``fine``, ``hierarchy``, ``write``, and ``total``
    seconds: dict[str, float] = field(repr=False)
    output: str | None = None  # the directory written
    source: GraphStore | LabelledGraph | None = field(default=None, repr=False)  # the decomposed graph

    @property
    def headline(self) -> str:
        items = (
            "edges"
            if self.layer is None
            else f"vertices of {show_layer(self.layer, self.graph['provenance']['layers'])}"
        )
        what = f"{self.kind} numbers of {self.n_items:,} {items}"
        return f"{what}: up to {self.max_number:,} ({self.engine}, {self.seconds['total']:.2f} s)"

    def _preview(self) -> Preview:
        sizes = self.level_sizes()
        rows = [(f"{level:,}", f"{sizes[level]:,}") for level in sorted(sizes, reverse=True)]
        return preview((self.kind, "items"), rows)

    def to_arrow(self) -> ArrowTable:
        """Return a row for each edge (u, v, u_label, v_label, number, node) or vertex (layer, id, label, number, node).

        ``node`` is present with the hierarchy, labels if the graph has labels. Rows of edges follow the input table or
        array, in its order; for other inputs the edges are sorted by (u, v). Raises InputError if the graph was in
        memory and is gone, StoreError if its store is gone.
        """
        columns = {name: self.vectors.by_id(name) for name in self.vectors}
        return columns_table(self.held, {self.layer or "edge": columns})

    def _has_edge_rows(self) -> bool:
        return self.layer is None

    @property
    def numbers(self) -> NDArray[np.uint64]:
        return self.vectors["number"]

    @property
    def max_number(self) -> int:
        """The largest number; 0 without items."""
        numbers = self.vectors.by_id("number")
        return int(numbers.max()) if numbers.size else 0

    @property
    def n_items(self) -> int:
        return int(self.vectors.by_id("number").size)

    def level_sizes(self) -> dict[int, int]:
        """Return the number of items with each number, in increasing order."""
        values, counts = np.unique(self.vectors.by_id("number"), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def top(self, n: int = 10) -> tuple[TopValue, ...]:
        """Return the ``n`` edges or vertices with the largest numbers above 0, with their labels, ties by id."""
        read_argument("n", n, Count)
        return find_top_values({self.layer or "edge": self.vectors.by_id("number")}, self.held, n)

    def densest(self) -> Component | None:
        """Return the densest component: the one with the most items at the largest number; ties go to the first.

        None if all numbers are 0. Raises InputError for a decomposition without the hierarchy.
        """
        if self.forest is None:
            raise InputError("the components were not computed; decompose with hierarchy=True")
        levels, sizes = self.forest.levels, self.forest.sizes
        if not levels.size:
            return None
        densest = np.flatnonzero(levels == levels.max())
        node = int(densest[np.argmax(sizes[densest])])
        items, graph = np.flatnonzero(self.forest.item_nodes == node), self.held
        ids: dict[str, list[int]] = {"u": [], "v": []}
        if self.layer is None:
            ends = graph.ends(items.tolist())
            ids = {layer: sorted({end[at] for end in ends}) for at, layer in enumerate("uv")}
        else:
            ids[self.layer] = items.tolist()
        labels = _labels_of(graph, "u", ids["u"]), _labels_of(graph, "v", ids["v"])
        return Component(int(levels[node]), items.size, tuple(ids["u"]), tuple(ids["v"]), *labels)

    def _draw(self, axes: Any) -> None:
        """Draw the number of items with at least each number."""
        items: dict[str, NDArray[Any]] = {self.layer or "edge": self.vectors.by_id("number")}
        charts.draw_distribution(axes, items, f"{self.kind} number")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the numbers and the forest as one JSON object; integers in full."""
        sizes = self.level_sizes()
        return {
            "kind": self.kind,
            "layer": self.layer,
            "items": self.n_items,
            "max": self.max_number,
            "levels": [[level, size] for level, size in sizes.items()],
            "nodes": None if self.forest is None else self.forest.n_nodes,
            "engine": self.engine,
            "graph": self.graph,
            "ranges": self.ranges,
            "rounds": {"coarse": self.coarse_rounds, "fine": self.fine_rounds},
            "updates": self.updates,
            "seconds": {phase: round(value, 6) for phase, value in self.seconds.items()},
            "output": self.output,
        }


@checked
@shows_phases(PHASES)
def decompose(
    graph: Any,
    kind: PeelingKind,
    *,
    layer: str | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    hierarchy: bool = True,
    engine: EngineChoice = "auto",
    threads: Threads | None = None,
    progress: PeelProgress | bool | None = None,
    **reading: Unpack[ReadingOptions],
) -> DecompositionResult:
    """Decompose a bipartite graph by peeling, exactly, in this process.

    The *wing number* of an edge is the largest k such that the edge is in a subgraph with every edge in at least k
    butterflies of that subgraph. The *tip number* of a vertex of one layer is the largest k such that the vertex is in
    a subgraph, induced by vertices of its layer and the whole other layer, with each of these vertices in at least k
    butterflies.

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.count`. Signs are ignored.
    kind : {"wing", "tip"}
        Peel edges (wing) or vertices (tip).
    layer : str, optional
        Layer of the vertices, ``u``, ``v`` or its name; required for tips, and only for them.
    output : path-like, optional
        A file for the numbers, if it has the suffix of a format; else a new directory for the numbers and the forest as
        Parquet files, see :mod:`papilio.storage.answers`. Written whole or not at all.
    overwrite : bool
        Replace an existing file or decomposition.
    hierarchy : bool
        Also find the components at every level.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` uses the first usable GPU, if any; ``gpu`` never falls back to ``cpu``.
    threads : int, optional
        Number of threads of the cpu engine; by default all processors available to this process.
    progress : bool or callable, optional
        True for a progress bar, on a terminal or in a notebook; a function is called as ``progress(phase, done,
        total)``, also from other threads.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    PapilioError
        InputError for wrong arguments; UnsupportedError for a graph that is not bipartite; EngineUnavailableError if
        the gpu engine cannot run here; CapacityError, before memory is allocated, if the graph exceeds the memory or
        the counters; StoreError if the graph cannot be read or ``output`` cannot be written.

    Examples
    --------
    >>> papilio.decompose("graph/", "wing").max_number
    12
    """
    began = perf_counter()
    _check_question(kind, layer)
    report: PeelProgress = progress if callable(progress) else ignore_report
    graph, options, named = resolve_layers(graph, reading, {"layer": layer}, needs_signs=False)
    side: Layer | None = named["layer"]
    of_layers = "" if side is None else "the tip numbers of one layer"
    source = open_graph(graph, "bipartite", options, of_layers, needs_signs=False)
    require_graph_kind(f"{kind} numbers are", "bipartite", source.kind, source.name)
    if kind == "wing":
        check_wing_edges(source.n_edges)
    target = None
    if output is not None:
        check = check_table_file if names_table(output) else check_decomposition_path
        target = check(output, overwrite)
    chosen = _choose_engine(engine)
    report("read", 0, 1)
    bipartite = _read(source)
    room = free_memory_bytes()
    described = _describe(source, bipartite)
    seconds = {"read": perf_counter() - began}
    made = decompose_graph(
        bipartite, kind, side, chosen, threads=threads, memory_bytes=room, with_forest=hierarchy, report=report
    )
    peeled, forest = made.peeled, made.forest
    seconds |= peeled.seconds
    values: dict[str, NDArray[Any]] = {"number": peeled.numbers}
    if forest is not None:
        values["node"] = forest.item_nodes
    result = DecompositionResult(
        kind, side, Vectors(values, source.labelled, side or "edge"), forest, chosen, described,
        peeled.ranges, peeled.coarse_rounds, peeled.fine_rounds, peeled.updates, seconds,
        output=None if target is None else str(target),
        source=source.held,
    )  # fmt: skip
    if target is not None:
        report("write", 0, 1)
        write_began = perf_counter()
        _write(target, source, result, overwrite)
        seconds["write"] = perf_counter() - write_began
    seconds["total"] = perf_counter() - began
    return result


def _check_question(kind: PeelingKind, layer: str | None) -> None:
    if kind == "tip" and layer is None:
        raise InputError(f"layer is {layer!r}; tip numbers are for the vertices of one layer: u, v or its name")
    if kind == "wing" and layer is not None:
        raise InputError(f"layer is {layer!r}; wing numbers are for edges, which belong to no layer: leave layer out")


def _choose_engine(engine: EngineChoice) -> EngineName:
    if engine == "cpu":
        return "cpu"
    missing = missing_for_gpu()
    if engine == "gpu" and missing is not None:
        raise EngineUnavailableError(f"the gpu engine cannot run here: {missing}; use --engine cpu")
    return "gpu" if missing is None else "cpu"


def _read(source: Graph) -> BipartiteGraph:
    if source.store is not None:
        store = source.store
        needed = _INDEX_BYTES_PER_EDGE * store.n_edges + _INDEX_BYTES_PER_VERTEX * (store.n_u + store.n_v)
        what = f"{store.path} has {store.n_edges} edges; their index alone needs"
        require_room(what, needed, free_memory_bytes(), "use a machine with more memory")
    graph = source.arrays()
    assert isinstance(graph, BipartiteGraph)
    return graph


def _describe(source: Graph, graph: BipartiteGraph) -> dict[str, Any]:
    return {
        "path": source.path,
        "hash": None if source.store is None else source.hash,
        "n_u": graph.n_u,
        "n_v": graph.n_v,
        "n_edges": graph.n_edges,
        "provenance": source.reading,
    }


def _write(target: Path, source: Graph, result: DecompositionResult, overwrite: bool) -> None:
    """Write a table, or the Parquet files; a graph in memory is stored temporarily for these."""
    if names_table(target):
        write_arrow(target, result.to_arrow(), {}, overwrite=overwrite)
        return
    forest = result.forest
    with ExitStack() as stack:
        write_decomposition(
            target,
            source.stored(stack, target.parent),
            kind=result.kind,
            layer=result.layer,
            numbers=result.vectors.by_id("number"),
            item_nodes=None if forest is None else forest.item_nodes,
            nodes=None if forest is None else (forest.levels, forest.parents, forest.members, forest.sizes),
            overwrite=overwrite,
        )
