"""Measures of a graph from its butterflies, or 4-cycles, and pairs of vertices; see docs/measures.md."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio.api.call import CountOptions, check_output
from papilio.api.count import count
from papilio.api.read import resolve_layers, split_options
from papilio.arguments import Count, Threads, checked
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.graph import BipartiteGraph
from papilio.kernels.exact import check_vertex_bound
from papilio.kernels.threads import choose_threads
from papilio.measures.clustering import cluster_pairs
from papilio.measures.levels import join_levels
from papilio.measures.values import (
    CohesionProfile,
    Edges,
    LatapyClustering,
    LocalClustering,
    RobinsAlexander,
    local_columns,
)
from papilio.motifs import Butterfly, Clique, FourCycle
from papilio.parts import Layer
from papilio.storage.labelled import Vectors
from papilio.storage.reading import GraphOptions
from papilio.storage.statistics import Degrees, count_degrees, count_three_paths, count_wedges, edge_three_paths
from papilio.tasks.result import CountResult, find_top

Per = Literal["vertex", "edge"]

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX, _THREAD_BYTES_PER_VERTEX = 40, 96, 8
"""Host memory for comparing pairs: the graph and its wedge index, the values, and the counters of each thread."""

_POWERS = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))


@checked
@shows_progress
def robins_alexander(graph: Any, **options: Unpack[CountOptions]) -> RobinsAlexander:
    """Measure the clustering of a bipartite graph: the share of three-edge paths that lie on a butterfly.

    The value is ``4 * butterflies / three_paths`` (Robins and Alexander, Computational & Mathematical Organization
    Theory 10(1), 2004). The paths are counted by passes over the edges, which need not fit in memory. Graph, options
    and errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    edges = Edges(graph, "Robins-Alexander clustering", where.get("progress"), reading=reading, of_layers="")
    with edges.phase("paths", passes=2):
        degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
        paths = count_three_paths(degrees, edges.once)
    counted = count(edges.graph, Butterfly(), **where)
    return RobinsAlexander(counted.count, paths, counted, edges.seconds)


@checked
@shows_progress
def latapy_clustering(
    graph: Any,
    *,
    layer: str | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress = None,
    **reading: Unpack[GraphOptions],
) -> LatapyClustering:
    """Measure the clustering of every vertex by its overlaps with others of its layer, in this process.

    The overlap of two vertices that share a neighbour is the number of their common neighbours divided by the number
    of neighbours of either (``dot``), by the smaller of their degrees (``min``) or by the larger (``max``); the
    clustering of a vertex is the mean of its overlaps (Latapy, Magnien and Del Vecchio, Social Networks 30(1), 2008).

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    layer : str, optional
        Layer to measure, ``u``, ``v`` or its name; by default both.
    output : path-like, optional
        File (Parquet, CSV, ..., by its suffix) for the values: ``layer``, ``id``, ``label`` (if there are labels),
        ``partners``, ``dot``, ``min``, ``max``. An existing file is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    InputError
        For an invalid layer or number of threads, or an output that cannot be written.
    UnsupportedError
        For a graph that is not bipartite.
    CapacityError
        When the graph does not fit in memory; raised before it is read.
    """
    target = check_output(output, Butterfly(), "vertex", overwrite=overwrite)
    chosen = choose_threads(threads)
    graph, options, asked = resolve_layers(graph, reading, {"layer": layer}, needs_signs=False)
    of_layers = "" if layer is None else "Latapy's clustering of one layer"
    edges = Edges(graph, "Latapy's clustering", progress, target=target, reading=options, of_layers=of_layers)
    with edges.phase("read"):
        held = read_whole(edges, chosen)
    layers: tuple[Layer, ...] = ("u", "v") if layer is None else (asked["layer"],)
    with edges.phase("pairs"):
        found = cluster_pairs(held, layers, chosen, edges.report)
    columns = {name: {"partners": each.partners, **each.means} for name, each in found.items()}
    edges.write(columns, {"measure": "latapy"}, overwrite)
    named = edges.graph.labelled
    return LatapyClustering(
        Vectors({name: each.means for name, each in found.items()}, named),
        Vectors({name: each.partners for name, each in found.items()}, named),
        edges.describe(),
        edges.seconds,
        edges.output,
        edges.graph.held,
    )


@checked
@shows_progress
def local_clustering(
    graph: Any,
    *,
    per: Per = "vertex",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Unpack[CountOptions],
) -> LocalClustering:
    """Measure, for every vertex or edge, its butterflies as a share of all possible ones around it.

    In a unipartite graph 4-cycles take the place of butterflies, and triangles are counted, too, in memory.

    ``closed`` of an edge is the share of the paths of three edges with it in the middle that lie on a butterfly (its
    metamorphosis coefficient: Aksoy, Kolda and Pinar, Journal of Complex Networks 5(4), 2017); of a vertex, the same
    share of the paths with any of its edges in the middle. ``square`` of a vertex is its share of the squares that
    pairs of its neighbours could make (Zhang et al., Physica A 387(27), 2008).

    ``output`` is a file (Parquet, CSV, ..., by its suffix) with columns ``layer``, ``id``, ``label`` (if there are
    labels) for vertices or ``u``, ``v`` for edges; and ``butterflies``, ``three_paths``, ``closed``, and ``square`` for
    vertices. A unipartite graph has ``four_cycles`` instead of ``butterflies``, and no ``layer``. An existing file is
    replaced only with ``overwrite``. Graph, options and errors: :class:`CountOptions`, but any kind of graph will do.
    """
    target = check_output(output, Butterfly(), per, overwrite=overwrite)
    reading, where = split_options(options)
    edges = Edges(graph, "local clustering", where.get("progress"), None, target, reading, of_layers="")
    is_bipartite = edges.graph.kind == "bipartite"
    with edges.phase("paths", passes=2):
        paths = _vertex_paths(edges) if per == "vertex" else {"edge": _edge_paths(edges)}
    counted = count(edges.graph, Butterfly() if is_bipartite else FourCycle(), per=per, **where)
    if not is_bipartite:
        # A path whose ends are one vertex is a triangle: one for each edge of it, two for each vertex.
        triangles = count(edges.graph, Clique(3), per=per, **where | {"job": None, "parts": None}).vectors
        paths = {place: of - (triangles.by_id(place) << (per == "vertex")) for place, of in paths.items()}
    values = {place: _local_values(counted.vectors.by_id(place), paths[place], per) for place in paths}
    named = edges.graph.labelled
    found = LocalClustering(
        per, Vectors(values, named), counted.vectors, Vectors(paths, named), counted, edges.seconds, edges.output
    )
    edges.write(local_columns(found), {"measure": f"local per {per}"}, overwrite)
    return replace(found, seconds=edges.seconds)


@checked
@shows_progress
def cohesion_profile(graph: Any, **options: Unpack[CountOptions]) -> CohesionProfile:
    """Measure how well a graph holds together among vertices in many butterflies.

    For 0, 1, 2, 4, 8, ... butterflies: the subgraph induced by the vertices in at least that many, its sizes, connected
    components and least degree, which bounds the number of edges to remove until it falls apart. Each level takes one
    pass over the edges, which need not fit in memory. Graph, options and errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    edges = Edges(graph, "the cohesion profile", where.get("progress"), reading=reading)
    counted = count(edges.graph, Butterfly(), per="vertex", **where)
    levels_u, levels_v = (
        np.searchsorted(_POWERS, counted.vectors.by_id(layer), side="right").astype(np.uint8) for layer in ("u", "v")
    )
    with edges.phase("levels", passes=np.unique(np.concatenate((levels_u, levels_v))).size):
        found = tuple(join_levels(levels_u, levels_v, (edges.once() for _ in repeat(None))))
    return CohesionProfile(found[::-1], counted, edges.seconds)


@checked
@shows_progress
def top_butterflies(graph: Any, *, per: Per = "vertex", n: Count = 10, **options: Unpack[CountOptions]) -> CountResult:
    """Find the vertices of each layer, or the edges, that are in the most butterflies.

    ``largest`` of the result has up to ``n`` entries per layer, or edges, by decreasing count, then id; entries in no
    butterfly are left out. Graph, options and errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    of_layers = "" if per == "edge" else "the top of each layer"
    edges = Edges(graph, "the number of butterflies", where.get("progress"), reading=reading, of_layers=of_layers)
    counted = count(edges.graph, Butterfly(), per=per, **where)
    vectors = {place: counted.vectors.by_id(place) for place in counted.vectors}
    return replace(counted, largest=find_top(vectors, edges.graph.held, n))


def read_whole(edges: Edges, threads: int) -> BipartiteGraph:
    """Read the graph; raise CapacityError first if its index will not fit in memory."""
    needed = _INDEX_BYTES_PER_EDGE * edges.n_edges
    needed += (_INDEX_BYTES_PER_VERTEX + _THREAD_BYTES_PER_VERTEX * threads) * (edges.n_u + edges.n_v)
    edges.require_memory(needed, "whose pairs need", threads)
    graph = edges.graph.arrays()
    assert isinstance(graph, BipartiteGraph)
    return graph


def _vertex_paths(edges: Edges) -> dict[str, NDArray[np.uint64]]:
    """Return, by layer, the number of three-edge paths whose middle edge is at each vertex.

    In a unipartite graph also those around triangles. CapacityError if a vertex could be in more than 2^63 - 1
    butterflies; else each number is below 2^64.
    """
    degrees = _degrees(edges)
    wedges = count_wedges(degrees, edges.once)
    layers = [("u", degrees.u, wedges.u), ("v", degrees.v, wedges.v)]
    if edges.graph.kind == "unipartite":
        layers = [("n", degrees.u, wedges.u + wedges.v)]
    paths = {}
    for layer, of, walks in layers:
        check_vertex_bound(of, walks, "butterflies" if layer != "n" else "4-cycles")
        paths[layer] = np.maximum(of - 1, 0).astype(np.uint64) * walks.astype(np.uint64)
    return paths


def _degrees(edges: Edges) -> Degrees:
    degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
    if edges.graph.kind == "bipartite":
        return degrees
    both = degrees.u + degrees.v
    return Degrees(both, both)


def _edge_paths(edges: Edges) -> NDArray[np.uint64]:
    degrees = _degrees(edges)
    paths, at = np.empty(edges.n_edges, np.uint64), 0
    for u, v in edges.once():
        paths[at : at + u.size] = edge_three_paths(degrees, u, v)
        at += u.size
    return paths


def _local_values(
    butterflies: NDArray[np.uint64], three_paths: NDArray[np.uint64], per: Per
) -> dict[str, NDArray[np.float64]]:
    """Return ``closed``, and ``square`` for vertices; NaN if no butterfly is possible.

    Each butterfly of a vertex contains two of its paths; each butterfly of an edge contains one.
    """
    possible = np.where(three_paths > 0, three_paths.astype(np.float64), np.nan)
    if per == "edge":
        return {"closed": butterflies / possible}
    rest = np.where(three_paths > 0, (three_paths - butterflies).astype(np.float64), np.nan)
    return {"closed": 2.0 * butterflies / possible, "square": butterflies / rest}
