"""The public function that decomposes a graph into its dense parts by peeling: wings of edges, tips and cores of
vertices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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
from papilio.errors import EngineUnavailableError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.kernels.device.discovery import missing_for_gpu
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.kernels.exact import require_room
from papilio.kernels.peel.decompose import Decomposed, decompose_graph
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
from papilio.storage.layers import show_layer, show_sizes
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

_INDEX_BYTES: Mapping[PeelingKind, tuple[int, int]] = {"wing": (48, 80), "tip": (48, 80), "core": (20, 52)}
"""Memory of the graph and its wedge index, before the index to peel can be measured, or of all that peels cores: for
each edge and for each vertex."""


@dataclass(frozen=True)
class Component:
    """A component of a decomposition at a number: its edges for wings, its vertices of the layer for tips, all its
    vertices for cores."""

    level: int  # minimum number of its items, within the component
    size: int  # its items
    u: tuple[int, ...]  # ids of its vertices, ascending; for tips only of the layer
    v: tuple[int, ...]  # empty for a unipartite graph
    labels_u: tuple[Any, ...]  # or ids, without labels
    labels_v: tuple[Any, ...]


def _labels_of(graph: Source, layer: Layer, ids: list[int]) -> tuple[Any, ...]:
    labels = graph.labels(layer)
    return tuple(ids if labels is None else plain_labels(labels[ids]))


@dataclass(frozen=True, eq=False, repr=False)
class DecompositionResult(Answer):
    """The exact number of every item, the forest of components, and how they were found."""

    kind: PeelingKind  # ``wing``, ``tip`` or ``core``
    layer: Layer | None  # for tips: the layer of the vertices
    # By the place of the items: ``edge`` for wings; ``u`` or ``v`` for tips; ``n``, or ``u`` and ``v``, for cores. Each
    # has ``number`` of uint64 and, with components, ``node`` of int32 (-1 for none), of the shape of its items: the
    # number and the node of the forest of every edge, sorted by (u, v), or of every vertex of the layer, by id.
    # ``places["u"].aligned("number")`` has the order and form of the source of the graph.
    places: dict[str, Vectors[NDArray[Any]]]
    # the components at every level, with items by id, those of layer V after those of layer U; None without hierarchy
    forest: Forest | None
    engine: EngineName
    graph: dict[str, Any]  # ``path`` and ``hash`` (None for a graph in memory), ``n_u``, ``n_v``, ``n_edges``
    ranges: int  # see :class:`~papilio.kernels.peel.phases.Peeled`
    coarse_rounds: int
    fine_rounds: int
    updates: int
    # wall time by phase: ``read``, ``index``, ``coarse``, ``fine``, ``hierarchy``, ``write``, and ``total``
    seconds: dict[str, float] = field(repr=False)
    alpha: int | None = None  # for cores of a bipartite graph: the least degree of layer U, or of layer V
    beta: int | None = None
    output: str | None = None  # the directory written
    source: GraphStore | LabelledGraph | None = field(default=None, repr=False)  # the decomposed graph

    @property
    def headline(self) -> str:
        what = f"{self.question} numbers of {self.items}"
        return f"{what}: up to {self.max_number:,} ({self.engine}, {self.seconds['total']:.2f} s)"

    @property
    def question(self) -> str:
        """``wing``, ``tip`` or ``core``, or such as ``(alpha = 3, beta)-core``."""
        if self.alpha is None and self.beta is None:
            return self.kind
        return f"(alpha = {self.alpha}, beta)-core" if self.beta is None else f"(alpha, beta = {self.beta})-core"

    @property
    def items(self) -> str:
        """The number and the kind of the items."""
        names = self.graph["provenance"]["layers"]
        if len(self.places) > 1:
            return show_sizes(self.graph["n_u"], self.graph["n_v"], names)
        what = "edges" if self.kind == "wing" else "vertices"
        of = "" if self.layer is None else f" of layer {show_layer(self.layer, names)}"
        return f"{self.n_items:,} {what}{of}"

    @property
    def vectors(self) -> Vectors[NDArray[Any]]:
        """The vectors of the items if all are in one place; InputError for cores of a bipartite graph."""
        if len(self.places) > 1:
            raise InputError("the numbers are of both layers: use places['u'] and places['v']")
        return next(iter(self.places.values()))

    def _by_place(self, name: str = "number") -> dict[str, NDArray[Any]]:
        return {place: vectors.by_id(name) for place, vectors in self.places.items()}

    def _all_numbers(self) -> NDArray[np.uint64]:
        return np.concatenate([*self._by_place().values()])

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
        columns = {place: {name: of.by_id(name) for name in of} for place, of in self.places.items()}
        return columns_table(self.held, columns)

    def _has_edge_rows(self) -> bool:
        return "edge" in self.places

    @property
    def numbers(self) -> NDArray[np.uint64]:
        return self.vectors["number"]

    @property
    def max_number(self) -> int:
        """The largest number; 0 without items."""
        return max((int(each.max(initial=0)) for each in self._by_place().values()), default=0)

    @property
    def n_items(self) -> int:
        return sum(each.size for each in self._by_place().values())

    def level_sizes(self) -> dict[int, int]:
        """Return the number of items with each number, in increasing order."""
        values, counts = np.unique(self._all_numbers(), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def top(self, n: int = 10) -> tuple[TopValue, ...]:
        """Return the ``n`` edges or vertices with the largest numbers above 0, with their labels, ties by id."""
        read_argument("n", n, Count)
        return find_top_values(self._by_place(), self.held, n)

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
        if self.kind == "wing":
            ends = graph.ends(items.tolist())
            ids = {layer: sorted({end[at] for end in ends}) for at, layer in enumerate("uv")}
        else:
            first = 0
            for place, numbers in self._by_place().items():
                own = items[(items >= first) & (items < first + numbers.size)] - first
                ids["u" if place == "n" else place] = own.tolist()
                first += numbers.size
        labels = _labels_of(graph, "u", ids["u"]), _labels_of(graph, "v", ids["v"])
        return Component(int(levels[node]), items.size, tuple(ids["u"]), tuple(ids["v"]), *labels)

    def _draw(self, axes: Any) -> None:
        """Draw the number of items with at least each number."""
        charts.draw_distribution(axes, self._by_place(), f"{self.question} number")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the numbers and the forest as one JSON object; integers in full."""
        sizes = self.level_sizes()
        return {
            "kind": self.kind,
            "layer": self.layer,
            "alpha": self.alpha,
            "beta": self.beta,
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
    alpha: Count | None = None,
    beta: Count | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    hierarchy: bool = True,
    engine: EngineChoice = "auto",
    threads: Threads | None = None,
    progress: PeelProgress | bool | None = None,
    **reading: Unpack[ReadingOptions],
) -> DecompositionResult:
    """Decompose a graph by peeling, exactly, in this process.

    The *wing number* of an edge is the largest k such that the edge is in a subgraph with every edge in at least k
    butterflies of that subgraph. The *tip number* of a vertex of one layer is the largest k such that the vertex is in
    a subgraph, induced by vertices of its layer and the whole other layer, with each of these vertices in at least k
    butterflies. Wings and tips are of bipartite graphs.

    The *core number* of a vertex of a unipartite graph is the largest k such that the vertex is in a subgraph with all
    degrees at least k. In a bipartite graph, the (alpha, beta)-core is the largest subgraph in which vertices of U have
    at least alpha neighbours and vertices of V at least beta: given alpha, the number of a vertex is the largest beta
    such that it is in the core, and given beta the largest alpha.

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.count`. Signs are ignored. For cores, a file or an object without a kind is read as
        bipartite with ``alpha`` or ``beta``, else as unipartite.
    kind : {"wing", "tip", "core"}
        Peel edges (wing) or vertices (tip, core).
    layer : str, optional
        Layer of the vertices, ``u``, ``v`` or its name; required for tips, and only for them.
    alpha, beta : int, optional
        Minimum degree of vertices of U, or of V; one of them is required for cores of a bipartite graph.
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
    _check_question(kind, layer, alpha, beta)
    report: PeelProgress = progress if callable(progress) else ignore_report
    graph, options, named = resolve_layers(graph, reading, {"layer": layer}, needs_signs=False)
    side: Layer | None = named["layer"]
    fixed: Layer | None = "u" if alpha is not None else "v" if beta is not None else None
    source = _open(graph, kind, side, fixed, options)
    target = None
    if output is not None:
        check = check_table_file if names_table(output) else check_decomposition_path
        target = check(output, overwrite)
    chosen = choose_engine(engine)
    report("read", 0, 1)
    arrays = read_arrays(source, kind)
    room = free_memory_bytes()
    described = describe_graph(source, arrays)
    seconds = {"read": perf_counter() - began}
    made = decompose_graph(
        arrays, kind, side or fixed, chosen, least=alpha or beta, threads=threads, memory_bytes=room,
        with_forest=hierarchy, report=report,
    )  # fmt: skip
    peeled = made.peeled
    seconds |= peeled.seconds
    result = DecompositionResult(
        kind, side, _by_place(source, kind, side, made), made.forest, chosen, described,
        peeled.ranges, peeled.coarse_rounds, peeled.fine_rounds, peeled.updates, seconds, alpha, beta,
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


def _check_question(kind: PeelingKind, layer: str | None, alpha: int | None, beta: int | None) -> None:
    if kind == "tip" and layer is None:
        raise InputError(f"layer is {layer!r}; tip numbers are for the vertices of one layer: u, v or its name")
    if kind != "tip" and layer is not None:
        why = "edges, which belong to no layer" if kind == "wing" else "the vertices of all layers"
        raise InputError(f"layer is {layer!r}; {kind} numbers are for {why}: leave layer out")
    if kind != "core" and (alpha, beta) != (None, None):
        raise InputError(f"alpha is {alpha} and beta is {beta}; they are for cores: leave them out")
    if alpha is not None and beta is not None:
        raise InputError(f"alpha is {alpha} and beta is {beta}; give one of them, or use papilio.core for one core")


def _open(graph: Any, kind: PeelingKind, side: Layer | None, fixed: Layer | None, options: Mapping[str, Any]) -> Graph:
    """Return the opened graph; UnsupportedError for a graph of another kind than the question needs."""
    needed: GraphKind = "unipartite" if kind == "core" and fixed is None else "bipartite"
    of_layers = {"tip": "the tip numbers of one layer", "core": "a minimum degree of one layer"}.get(kind, "")
    source = open_graph(graph, needed, options, of_layers, needs_signs=False)
    if kind == "core" and needed != source.kind:
        how = "leave alpha and beta out"
        if source.kind == "bipartite":
            how = "give alpha or beta, or list all cores with papilio.core_table (papilio measure core-table)"
        raise UnsupportedError(f"{source.name} is {source.kind}: {how}")
    if kind != "core":
        require_graph_kind(f"{kind} numbers are", "bipartite", source.kind, source.name)
    if kind == "wing":
        check_wing_edges(source.n_edges)
    return source


def _by_place(
    source: Graph, kind: PeelingKind, side: Layer | None, made: Decomposed
) -> dict[str, Vectors[NDArray[Any]]]:
    """Return the numbers and nodes of the items by place."""
    values: dict[str, NDArray[Any]] = {"number": made.peeled.numbers}
    if made.forest is not None:
        values["node"] = made.forest.item_nodes
    if kind != "core" or source.kind == "unipartite":
        place = side or ("edge" if kind == "wing" else "n")
        return {place: Vectors(values, source.labelled, place)}
    layers = {"u": slice(None, source.n_u), "v": slice(source.n_u, None)}
    return {
        layer: Vectors({name: each[own] for name, each in values.items()}, source.labelled, layer)
        for layer, own in layers.items()
    }


def choose_engine(engine: EngineChoice) -> EngineName:
    """Return the engine of this process; EngineUnavailableError if the GPU engine cannot run."""
    if engine == "cpu":
        return "cpu"
    missing = missing_for_gpu()
    if engine == "gpu" and missing is not None:
        raise EngineUnavailableError(f"the gpu engine cannot run here: {missing}; use --engine cpu")
    return "gpu" if missing is None else "cpu"


def read_arrays(source: Graph, kind: PeelingKind) -> BipartiteGraph | UnipartiteGraph:
    """Return the graph in memory; CapacityError, before a store is read, if it cannot be peeled there."""
    if source.store is not None:
        store, (per_edge, per_vertex) = source.store, _INDEX_BYTES[kind]
        needed = per_edge * store.n_edges + per_vertex * (store.n_u + store.n_v)
        what = f"{store.path} has {store.n_edges} edges; their index alone needs"
        require_room(what, needed, free_memory_bytes(), "use a machine with more memory")
    return source.arrays()


def describe_graph(source: Graph, graph: BipartiteGraph | UnipartiteGraph) -> dict[str, Any]:
    """Return the identity and the sizes of the graph of an answer."""
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
    degrees = {name: each for name in ("alpha", "beta") if (each := getattr(result, name)) is not None}
    names = {"number": result.kind}
    with ExitStack() as stack:
        write_decomposition(
            target,
            source.stored(stack, target.parent),
            {"kind": result.kind, "layer": result.layer, **degrees},
            {place: {names.get(name, name): of.by_id(name) for name in of} for place, of in result.places.items()},
            None if forest is None else (forest.levels, forest.parents, forest.members, forest.sizes),
            overwrite=overwrite,
        )
