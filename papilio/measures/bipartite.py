"""Measures of a bipartite graph that rest on its butterflies and on pairs of vertices; see docs/measures.md."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio.api.call import CountOptions, check_output
from papilio.api.count import count
from papilio.api.graph import split_options
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
)
from papilio.motifs import Butterfly
from papilio.parts import Layer
from papilio.storage.labelled import Vectors
from papilio.storage.reading import GraphOptions
from papilio.storage.statistics import count_degrees, count_three_paths, count_wedges, edge_three_paths
from papilio.tasks.result import CountResult, find_top

Per = Literal["vertex", "edge"]

_INDEX_BYTES_PER_EDGE, _INDEX_BYTES_PER_VERTEX, _THREAD_BYTES_PER_VERTEX = 40, 96, 8
"""Host memory for comparing pairs: the graph and its wedge index, the values, and the counters of each thread."""

_POWERS = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))


@checked
@shows_progress
def robins_alexander(graph: Any, **options: Unpack[CountOptions]) -> RobinsAlexander:
    """Measure the clustering of a whole bipartite graph: which share of the paths of three edges lies on a butterfly.

    It is ``4 * butterflies / three_paths`` (Robins and Alexander, Computational & Mathematical Organization Theory
    10(1), 2004). The paths are counted by passes over the edges, which need not fit the memory. Graph, options and
    errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    edges = Edges(graph, "Robins-Alexander clustering", where.get("progress"), reading=reading)
    with edges.phase("paths", passes=2):
        degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
        paths = count_three_paths(degrees, edges.once)
    counted = count(edges.source.asked, Butterfly(), **where)
    return RobinsAlexander(counted.count, paths, counted, edges.seconds)


@checked
@shows_progress
def latapy_clustering(
    graph: Any,
    *,
    layer: Layer | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress = None,
    **reading: Unpack[GraphOptions],
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
        File (Parquet, CSV, ..., by its suffix) for the values: ``layer``, ``id``, ``label`` (where there are
        labels), ``partners``, ``dot``, ``min``, ``max``. One that is there is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    InputError
        For a layer or a number of threads that makes no sense, or an output that cannot be written.
    UnsupportedError
        For a graph that is not bipartite.
    CapacityError
        When the graph does not fit the memory; known before it is read.
    """
    target = check_output(output, Butterfly(), "vertex", overwrite=overwrite)
    edges = Edges(graph, "Latapy's clustering", progress, target=target, reading=reading)
    chosen = choose_threads(threads)
    with edges.phase("read"):
        held = _read(edges, chosen)
    layers: tuple[Layer, ...] = ("u", "v") if layer is None else (layer,)
    with edges.phase("pairs"):
        found = cluster_pairs(held, layers, chosen, edges.report)
    columns = {name: {"partners": each.partners, **each.means} for name, each in found.items()}
    edges.write(columns, {"measure": "latapy"}, overwrite)
    named = edges.source.labelled
    return LatapyClustering(
        Vectors({name: each.means for name, each in found.items()}, named),
        Vectors({name: each.partners for name, each in found.items()}, named),
        edges.describe(),
        edges.seconds,
        edges.output,
        edges.source.given,
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
    """Measure, for every vertex or edge, its butterflies over those that are possible around it.

    ``closed`` of an edge is the share of the paths of three edges with it in the middle that lie on a butterfly (its
    metamorphosis coefficient: Aksoy, Kolda and Pinar, Journal of Complex Networks 5(4), 2017); of a vertex the same of
    the paths with any of its edges in the middle. ``square`` of a vertex is its share of the squares that pairs of its
    neighbours could make (Zhang et al., Physica A 387(27), 2008).

    ``output`` is a file (Parquet, CSV, ..., by its suffix): of vertices ``layer``, ``id``, ``label`` (where
    there are labels), of edges ``u``, ``v``; and ``butterflies``, ``three_paths``, ``closed``, of vertices ``square``.
    One that is there is replaced only with ``overwrite``. Graph, options and errors: :class:`CountOptions`.
    """
    target = check_output(output, Butterfly(), per, overwrite=overwrite)
    reading, where = split_options(options)
    edges = Edges(graph, "local clustering", where.get("progress"), target=target, reading=reading)
    with edges.phase("paths", passes=2):
        paths = _vertex_paths(edges) if per == "vertex" else {"edge": _edge_paths(edges)}
    counted = count(edges.source.asked, Butterfly(), per=per, **where)
    butterflies = counted.vectors
    values = {place: _local_values(butterflies.by_id(place), paths[place], per) for place in paths}
    columns = {
        place: {"butterflies": butterflies.by_id(place), "three_paths": paths[place], **values[place]}
        for place in paths
    }
    edges.write(columns, {"measure": f"local per {per}"}, overwrite)
    named = edges.source.labelled
    return LocalClustering(
        per, Vectors(values, named), butterflies, Vectors(paths, named), counted, edges.seconds, edges.output
    )


@checked
@shows_progress
def cohesion_profile(graph: Any, **options: Unpack[CountOptions]) -> CohesionProfile:
    """Measure how a graph hangs together, the more so the more butterflies its vertices are in.

    For 0, 1, 2, 4, 8, ... butterflies: the subgraph that the vertices in as many or more induce, its sizes, connected
    components and least degree, and so how many edges at most have to go until it falls apart. The edges are passed
    over once for each level, and need not fit the memory. Graph, options and errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    edges = Edges(graph, "the cohesion profile", where.get("progress"), reading=reading)
    counted = count(edges.source.asked, Butterfly(), per="vertex", **where)
    levels_u, levels_v = (
        np.searchsorted(_POWERS, counted.vectors.by_id(layer), side="right").astype(np.uint8)
        for layer in ("u", "v")
    )
    with edges.phase("levels", passes=np.unique(np.concatenate((levels_u, levels_v))).size):
        found = tuple(join_levels(levels_u, levels_v, (edges.once() for _ in repeat(None))))
    return CohesionProfile(found[::-1], counted, edges.seconds)


@checked
@shows_progress
def top_butterflies(
    graph: Any, *, per: Per = "vertex", n: Count = 10, **options: Unpack[CountOptions]
) -> CountResult:
    """Find the vertices of each layer, or the edges, that are in the most butterflies.

    ``largest`` of the result has up to ``n`` entries per layer, or of the edges, by falling count, ties by id; those
    in no butterfly are left out. Graph, options and errors: :class:`CountOptions`.
    """
    reading, where = split_options(options)
    edges = Edges(graph, "the number of butterflies", where.get("progress"), reading=reading)
    counted = count(edges.source.asked, Butterfly(), per=per, **where)
    vectors = {place: counted.vectors.by_id(place) for place in counted.vectors}
    return replace(counted, largest=find_top(vectors, edges.source.asked.held, n))


def _read(edges: Edges, threads: int) -> BipartiteGraph:
    """Read the graph; CapacityError before that if its index will not fit the memory."""
    needed = _INDEX_BYTES_PER_EDGE * edges.n_edges
    needed += (_INDEX_BYTES_PER_VERTEX + _THREAD_BYTES_PER_VERTEX * threads) * (edges.n_u + edges.n_v)
    edges.require_memory(needed, "whose pairs need", threads)
    graph = edges.source.read()
    assert isinstance(graph, BipartiteGraph)
    return graph


def _vertex_paths(edges: Edges) -> dict[str, NDArray[np.uint64]]:
    """Return, by layer, the paths of three edges whose middle edge is at each vertex.

    CapacityError when a vertex could be in more than 2^63 - 1 butterflies; else the paths of each are below 2^64.
    """
    degrees = count_degrees(edges.n_u, edges.n_v, edges.once)
    wedges = count_wedges(degrees, edges.once)
    paths = {}
    for layer, of, walks in (("u", degrees.u, wedges.u), ("v", degrees.v, wedges.v)):
        check_vertex_bound(of, walks)
        paths[layer] = np.maximum(of - 1, 0).astype(np.uint64) * walks.astype(np.uint64)
    return paths


def _edge_paths(edges: Edges) -> NDArray[np.uint64]:
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
