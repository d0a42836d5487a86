"""Measures of a bipartite graph that rest on its butterflies and on pairs of vertices; see docs/measures.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio.api.count import count
from papilio.api.inputs import GraphInput, Progress, Question, check_output
from papilio.arguments import Bytes, Count, Threads, Workers, checked
from papilio.cluster.events import PhaseAdvanced, PhaseStarted, ignore_events
from papilio.cluster.machine import free_memory_bytes
from papilio.errors import CapacityError, UnsupportedError
from papilio.families import EngineChoice
from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertex_bound
from papilio.kernels.threads import available_threads
from papilio.measures.clustering import cluster_pairs
from papilio.measures.levels import join_levels
from papilio.measures.values import (
    CohesionLevel,
    CohesionProfile,
    LatapyClustering,
    LocalClustering,
    RobinsAlexander,
)
from papilio.motifs import Butterfly
from papilio.parts import Layer
from papilio.storage.array_file import SLICE_ENTRIES
from papilio.storage.results import Columns, write_edge_columns, write_vertex_columns
from papilio.storage.statistics import (
    count_degrees,
    count_three_paths,
    count_wedges,
    edge_three_paths,
)
from papilio.storage.vectors import Vectors
from papilio.tasks.result import CountResult, find_top

__all__ = [
    "CountOptions",
    "cohesion_profile",
    "latapy_clustering",
    "local_clustering",
    "robins_alexander",
    "top_butterflies",
]

Per = Literal["vertex", "edge"]

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX, _THREAD_BYTES_PER_VERTEX = 40, 96, 8
"""What comparing pairs takes: the graph and its wedge index, the values, and the counters of each thread."""

_POWERS = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))


class CountOptions(TypedDict, total=False):
    """How butterflies are counted: the parameters of these names of :func:`papilio.count`."""

    cluster: Any
    engine: EngineChoice
    workers: Workers | None
    progress: Progress | None
    job: str | os.PathLike[str] | None
    device_memory: Bytes | None
    host_memory: Bytes | None
    parts: str | os.PathLike[str] | None


@checked
def robins_alexander(graph: Any, **options: Unpack[CountOptions]) -> RobinsAlexander:
    """Measure the clustering of a whole bipartite graph: which share of the paths of three edges lies on a butterfly.

    It is ``4 * butterflies / three_paths`` (Robins and Alexander, Computational & Mathematical Organization Theory
    10(1), 2004). The paths are counted by passes over the edges, which need not fit the memory.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    **options
        As for :func:`papilio.count`: ``cluster``, ``engine``, ``workers``, ``progress``, ``job``, ``device_memory``,
        ``host_memory``, ``parts``.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph that is not bipartite.
    """
    began = perf_counter()
    edges = _Edges(graph, "Robins-Alexander clustering", options.get("progress"))
    edges.expect("paths", 2)
    degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
    paths = count_three_paths(degrees, edges.once)
    paths_s = perf_counter() - began
    counted = count(edges.source.given, Butterfly(), **options)
    return RobinsAlexander(counted.count, paths, counted, {"paths": paths_s, "total": perf_counter() - began})


@checked
def latapy_clustering(
    graph: Any,
    *,
    layer: Layer | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress | None = None,
) -> LatapyClustering:
    """Measure the clustering of every vertex by its overlaps with others of its layer, in this process.

    The overlap of two vertices that share a neighbour is the number of their common neighbours divided by the number
    of neighbours of either (``dot``), by the lesser of their degrees (``min``) or by the larger (``max``); a vertex has
    the mean of its overlaps (Latapy, Magnien and Del Vecchio, Social Networks 30(1), 2008).

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    layer : {"u", "v"}, optional
        Whose vertices; by default those of both.
    output : path-like, optional
        File (Parquet, CSV or JSON, as its suffix says) for the values:
        ``layer``, ``id``, ``label`` (where there are labels), ``partners``, ``dot``,
        ``min``, ``max``.
    overwrite : bool
        Replace a file that is at ``output``.
    threads : int, optional
        By default the processors that this process may use.
    progress : callable, optional
        Called with events of :mod:`papilio.cluster.events`.

    Raises
    ------
    InputError
        For a layer or a number of threads that makes no sense, or an output that cannot be written.
    UnsupportedError
        For a graph that is not bipartite.
    CapacityError
        When the graph does not fit the memory; known before it is read.
    """
    began = perf_counter()
    target = check_output(output, Butterfly(), "vertex", overwrite=overwrite)
    edges = _Edges(graph, "Latapy's clustering", progress)
    edges.source.require_storable(target)
    chosen = available_threads() if threads is None else threads
    listener = progress or ignore_events
    listener(PhaseStarted("read"))
    held = _read(edges, chosen)
    layers: tuple[Layer, ...] = ("u", "v") if layer is None else (layer,)
    read_s = perf_counter() - began
    listener(PhaseStarted("pairs"))
    found = cluster_pairs(held, layers, chosen, lambda share: listener(PhaseAdvanced(share)))
    seconds = {"read": read_s, "pairs": perf_counter() - began - read_s}
    if target is not None:
        listener(PhaseStarted("write"))
        write_began = perf_counter()
        columns: dict[Layer, Columns] = {
            name: {"partners": each.partners, **each.means} for name, each in found.items()
        }
        with ExitStack() as stack:
            store = edges.source.stored(stack, target.parent)
            write_vertex_columns(target, store, columns, _metadata(store.hash, "latapy"), overwrite=overwrite)
        seconds["write"] = perf_counter() - write_began
    return LatapyClustering(
        Vectors({name: each.means for name, each in found.items()}, edges.source.labelled),
        Vectors({name: each.partners for name, each in found.items()}, edges.source.labelled),
        edges.describe(),
        {**seconds, "total": perf_counter() - began},
        None if target is None else str(target),
    )


@checked
def local_clustering(
    graph: Any,
    *,
    per: Per = "vertex",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Unpack[CountOptions],
) -> LocalClustering:
    """Measure, for every vertex or edge, its butterflies over those that are possible around it.

    ``closed`` of an edge is the share of the paths of three edges with it in the middle that lie on a butterfly (its
    metamorphosis coefficient: Aksoy, Kolda and Pinar, Journal of Complex Networks 5(4), 2017); of a vertex the same of
    the paths with any of its edges in the middle. ``square`` of a vertex is its share of the squares that pairs of its
    neighbours could make (Zhang et al., Physica A 387(27), 2008).

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    per : {"vertex", "edge"}
    output : path-like, optional
        File (Parquet, CSV or JSON, as its suffix says):
        of vertices ``layer``, ``id``, ``label`` (where there are labels), of edges ``u``, ``v``; and
        ``butterflies``, ``three_paths``, ``closed``, of vertices ``square``.
    overwrite : bool
        Replace a file that is at ``output``.
    **options
        As for :func:`robins_alexander`.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph that is not bipartite.
    """
    began = perf_counter()
    target = check_output(output, Butterfly(), per, overwrite=overwrite)
    listener = options.get("progress") or ignore_events
    edges = _Edges(graph, "local clustering", listener)
    edges.source.require_storable(target)
    paths = _vertex_paths(edges) if per == "vertex" else {"edge": _edge_paths(edges)}
    paths_s = perf_counter() - began
    counted = count(edges.source.given, Butterfly(), per=per, **options)
    values = {
        place: _local_values(counted.vectors.by_id(place), three_paths, per)
        for place, three_paths in paths.items()
    }
    seconds = {"paths": paths_s}
    named = edges.source.labelled
    found = LocalClustering(
        per, Vectors(values, named), counted.vectors, Vectors(paths, named), counted, seconds
    )
    if target is not None:
        listener(PhaseStarted("write"))
        write_began = perf_counter()
        _write_local(target, edges.source, found, overwrite)
        seconds["write"] = perf_counter() - write_began
    seconds["total"] = perf_counter() - began
    return replace(found, output=None if target is None else str(target))


@checked
def cohesion_profile(graph: Any, **options: Unpack[CountOptions]) -> CohesionProfile:
    """Measure how a graph hangs together, the more so the more butterflies its vertices are in.

    For 0, 1, 2, 4, 8, ... butterflies: the subgraph that the vertices in as many or more induce, its sizes, connected
    components and least degree, and so how many edges at most have to go until it falls apart. The edges are passed
    over once for each level, and need not fit the memory.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    **options
        As for :func:`robins_alexander`.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph that is not bipartite.
    """
    began = perf_counter()
    listener = options.get("progress") or ignore_events
    edges = _Edges(graph, "the cohesion profile", listener)
    counted = count(edges.source.given, Butterfly(), per="vertex", **options)
    levels_began = perf_counter()
    levels_u, levels_v = (
        np.searchsorted(_POWERS, counted.vectors.by_id(layer), side="right").astype(np.uint8)
        for layer in ("u", "v")
    )
    edges.expect("levels", np.unique(np.concatenate((levels_u, levels_v))).size)
    passes = (edges.once() for _ in repeat(None))
    found = [CohesionLevel.of(each) for each in join_levels(levels_u, levels_v, passes)]
    now = perf_counter()
    return CohesionProfile(
        tuple(reversed(found)), counted, {"levels": now - levels_began, "total": now - began}
    )


@checked
def top_butterflies(
    graph: Any, *, per: Per = "vertex", k: Count = 10, **options: Unpack[CountOptions]
) -> CountResult:
    """Find the vertices of each layer, or the edges, that are in the most butterflies.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    per : {"vertex", "edge"}
    k : int
        How many of each layer, or of the edges; those in no butterfly are left out.
    **options
        As for :func:`robins_alexander`.

    Returns
    -------
    CountResult
        Of the count; ``top`` has up to ``k`` entries per layer, or of the edges, by falling count, ties by id.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph that is not bipartite, InputError for a ``k`` below 1.
    """
    edges = _Edges(graph, "the number of butterflies", options.get("progress"))
    counted = count(edges.source.given, Butterfly(), per=per, **options)
    vectors = {place: counted.vectors.by_id(place) for place in counted.vectors}
    return replace(counted, top=find_top(vectors, edges.source.given, k))


class _Edges:
    """The edges of the graph of a call, in passes that are reported."""

    def __init__(self, graph: Any, measure: str, progress: Progress | None) -> None:
        self.source = GraphInput(graph)
        if self.source.kind != "bipartite":
            raise UnsupportedError(
                f"{measure} is defined on bipartite graphs; {self.source.name} is {self.source.kind}: "
                "convert the input as bipartite"
            )
        described = self.describe()
        self.n_u, self.n_v, self.n_edges = (int(described[name]) for name in ("n_u", "n_v", "n_edges"))
        self._listener = progress or ignore_events
        self._passes, self._seen = 1, 0

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph."""
        return self.source.describe(self.source.job(Question(Butterfly(), "total"), "memory:"))

    def expect(self, phase: str, passes: int) -> None:
        """Begin a phase of so many passes."""
        self._passes, self._seen = passes, 0
        self._listener(PhaseStarted(phase))

    def once(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Yield all edges in order, in pieces."""
        for u, v in self._pieces():
            yield u, v
            self._seen += int(u.size)
            self._listener(PhaseAdvanced(self._seen / max(1, self._passes * self.n_edges)))

    def _pieces(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        if self.source.store is not None:
            yield from ((u, v) for u, v, _ in self.source.store.batches())
            return
        graph = self.source.read()
        for start in range(0, graph.n_edges, SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield graph.u[start:stop], graph.v[start:stop]


def _read(edges: _Edges, threads: int) -> BipartiteGraph:
    """Read the graph, if what is made of it will fit the memory.

    Raises
    ------
    CapacityError
        When it will not.
    """
    vertices = edges.n_u + edges.n_v
    needed = _INDEX_BYTES_PER_EDGE * edges.n_edges
    needed += (_INDEX_BYTES_PER_VERTEX + _THREAD_BYTES_PER_VERTEX * threads) * vertices
    room = free_memory_bytes()
    if needed > room:
        raise CapacityError(
            f"{edges.source.name} has {edges.n_edges} edges, whose pairs need about {needed / 2**30:.2f} GiB of memory "
            f"with {threads} threads; there are {room / 2**30:.2f} GiB: use fewer threads or a machine with more memory"
        )
    graph = edges.source.read()
    assert isinstance(graph, BipartiteGraph)
    return graph


def _vertex_paths(edges: _Edges) -> dict[str, NDArray[np.uint64]]:
    """Return, by layer, the paths of three edges whose middle edge is at each vertex.

    Raises
    ------
    CapacityError
        When a vertex could be in more than 2^63 - 1 butterflies; else the paths of each are below 2^64.
    """
    edges.expect("paths", 2)
    degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
    wedges = count_wedges(degrees, edges.once)
    paths = {}
    for layer, of, walks in (("u", degrees.u, wedges.u), ("v", degrees.v, wedges.v)):
        check_vertex_bound(of, walks)
        paths[layer] = np.maximum(of - 1, 0).astype(np.uint64) * walks.astype(np.uint64)
    return paths


def _edge_paths(edges: _Edges) -> NDArray[np.uint64]:
    """Return the paths of three edges with each edge in the middle, in the order of the edges."""
    edges.expect("paths", 2)
    degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
    paths, at = np.empty(edges.n_edges, np.uint64), 0
    for u, v in edges.once():
        paths[at : at + u.size] = edge_three_paths(degrees, u, v)
        at += u.size
    return paths


def _local_values(
    butterflies: NDArray[np.uint64], three_paths: NDArray[np.uint64], per: Per
) -> dict[str, NDArray[np.float64]]:
    """Return ``closed``, and of vertices ``square``; NaN where no butterfly is possible.

    A butterfly of a vertex has two of its paths, one of an edge has one of its own.
    """
    possible = np.where(three_paths > 0, three_paths.astype(np.float64), np.nan)
    if per == "edge":
        return {"closed": butterflies / possible}
    rest = np.where(three_paths > 0, (three_paths - butterflies).astype(np.float64), np.nan)
    return {"closed": 2.0 * butterflies / possible, "square": butterflies / rest}


def _write_local(target: Path, source: GraphInput, found: LocalClustering, overwrite: bool) -> None:
    columns: dict[str, Columns] = {
        place: {
            "butterflies": found.butterflies.by_id(place),
            "three_paths": found.three_paths.by_id(place),
            **found.values.by_id(place),
        }
        for place in found.values
    }
    with ExitStack() as stack:
        store = source.stored(stack, target.parent)
        metadata = _metadata(store.hash, f"local per {found.per}")
        if found.per == "edge":
            write_edge_columns(target, store, columns["edge"], metadata, overwrite=overwrite)
        else:
            layers: dict[Layer, Columns] = {"u": columns["u"], "v": columns["v"]}
            write_vertex_columns(target, store, layers, metadata, overwrite=overwrite)


def _metadata(graph_hash: str, measure: str) -> dict[str, str]:
    return {"papilio.graph_hash": graph_hash, "papilio.measure": json.dumps(measure)}
