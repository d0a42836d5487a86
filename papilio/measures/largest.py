"""The largest clique of a unipartite graph and of every vertex, and the largest maximal bicliques of a graph.

See docs/measures.md and docs/maximal-bicliques.md.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio.api.call import check_output
from papilio.arguments import Between, Threads, checked
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.errors import ExecutionError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.cpu import order_roots
from papilio.kernels.clique.maximum_loops import (
    MaximumSearch,
    make_maximum_search,
    search_bytes,
    search_every_vertex,
    search_largest,
)
from papilio.kernels.clique.order import Later, order_by_degeneracy, orient
from papilio.kernels.clique.question import predict_work
from papilio.kernels.maximal.list import MaximalBicliqueLister, find_best
from papilio.kernels.memory import MAXIMAL_BICLIQUES
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost
from papilio.measures.clustering import Report, run_reported
from papilio.measures.values import Edges, LargestBiclique, LargestBicliques, MaximumClique
from papilio.motifs import Clique, Listing, MaximalBiclique
from papilio.question import Question
from papilio.storage.labelled import Vectors, plain_labels
from papilio.storage.reading import GraphOptions
from papilio.tasks.job import job_of

_BYTES_PER_EDGE, _BYTES_PER_VERTEX = 48, 72
"""Host memory for ordering and orienting a graph; see papilio.kernels.memory."""


@dataclass(frozen=True, eq=False)
class _Roots:
    """An oriented graph, its roots heaviest first, and the number of threads that search them."""

    later: Later
    roots: NDArray[np.int64]
    costs: NDArray[np.int64]
    threads: int

    @property
    def max_later(self) -> int:
        return int(np.diff(self.later.indptr).max(initial=0))


@checked
@shows_progress
def maximum_clique(
    graph: Any,
    *,
    per: Literal["total", "vertex"] = "total",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress = None,
    **reading: Unpack[GraphOptions],
) -> MaximumClique:
    """Find a largest clique of a unipartite graph, exactly, in this process; deterministic.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    per : {"total", "vertex"}
        With ``vertex`` also the size of the largest clique of each vertex; 1 for an isolated one.
    output : path-like, optional
        File (Parquet, CSV, ..., by its suffix) for the values of the vertices: ``id``, ``label`` (if there are
        labels), ``size``. An existing file is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    InputError
        For an invalid number of threads, or an output that cannot be written or would be empty.
    UnsupportedError
        For a bipartite graph.
    CapacityError
        When the graph does not fit in memory.
    """
    # The answer per vertex is no table, and a whole graph has no values for a file: as for counts.
    target = check_output(output, Clique(1), per, overwrite=overwrite)
    edges = Edges(graph, "the maximum clique", progress, "unipartite", target, reading)
    with edges.phase("read"):
        roots = _read(edges, choose_threads(threads))
    sizes: dict[str, NDArray[np.int32]] = {}
    with edges.phase("search"):
        if per == "vertex":
            sizes["n"] = _every_vertex(roots, edges.report)
            size = int(sizes["n"].max(initial=0))
        else:
            size = _largest(roots, edges.report)
        members = _first_of_size(roots, size)
    if sizes:
        edges.write({"n": {"size": sizes["n"]}}, {"measure": "maximum-clique"}, overwrite)
    labels = edges.graph.labels("u")
    return MaximumClique(
        size,
        tuple(members.tolist()),
        tuple(members.tolist() if labels is None else plain_labels(labels[members])),
        Vectors(sizes, edges.graph.labelled),
        edges.describe(),
        edges.seconds,
        edges.output,
        edges.graph.held,
    )


def _read(edges: Edges, threads: int) -> _Roots:
    """Read, order and orient the graph; CapacityError as soon as the graph is known not to fit in memory."""
    needed = _BYTES_PER_EDGE * edges.n_edges + (_BYTES_PER_VERTEX + 12 * threads) * edges.n_u
    edges.require_memory(needed, "whose order needs", threads)
    graph = edges.graph.arrays()
    assert isinstance(graph, UnipartiteGraph)
    later = orient(graph, order_by_degeneracy(graph))
    out = np.diff(later.indptr)
    needed = threads * search_bytes(graph.n, int(out.max(initial=0)))
    edges.require_memory(needed, f"and a vertex {int(out.max(initial=0))} later neighbours, which need", threads)
    return _Roots(later, *order_roots(np.arange(graph.n), predict_work(out)), threads)


def _largest(roots: _Roots, report: Report) -> int:
    """Return the size of a largest clique; threads share the best size so far."""
    shared = np.zeros(1, np.int64)

    def work(search: MaximumSearch, begin: int, end: int) -> None:
        search_largest(roots.later, search, roots.roots, begin, end, shared, False)

    searches = run_reported(
        roots.costs, roots.threads, lambda: make_maximum_search(roots.later, roots.max_later), work, report
    )
    return max((int(search.record[0]) for search in searches), default=0)


def _first_of_size(roots: _Roots, size: int) -> NDArray[np.int64]:
    """Return the ids, ascending, of a clique of the largest size: the first one that a search in order finds."""
    if size == 0:
        return np.zeros(0, np.int64)
    found: list[MaximumSearch] = []
    bound = np.array([size - 1], np.int64)

    def work(search: MaximumSearch, begin: int, end: int) -> None:
        search_largest(roots.later, search, roots.roots, begin, end, bound, True)
        if search.record[0]:
            found.append(search)

    # Chunks begin in order, and every begun chunk is finished.
    runner = ChunkRunner(lambda: make_maximum_search(roots.later, roots.max_later), roots.threads)
    runner.run(cut_by_cost(roots.costs, roots.threads), work, lambda: bool(found))
    if not found:
        raise ExecutionError(f"no clique of {size} vertices was found in the second search; please report this")
    first = min(found, key=lambda search: int(search.record[1]))
    members = roots.later.vertices[first.members[: int(first.record[2])]]
    return np.sort(members).astype(np.int64)


def _every_vertex(roots: _Roots, report: Report) -> NDArray[np.int32]:
    """Return the size of the largest clique of every vertex, by id, shape (n,)."""
    later = roots.later
    degrees = np.diff(later.indptr) + np.bincount(later.ids, minlength=later.vertices.size)
    best = (1 + (degrees > 0)).astype(np.int32)  # by rank, of all threads
    lock = threading.Lock()

    def work(search: MaximumSearch, begin: int, end: int) -> None:
        with lock:
            np.maximum(search.best, best, out=search.best)
        search_every_vertex(later, search, roots.roots, begin, end, np.zeros(1, np.int64))
        with lock:
            np.maximum(search.best, best, out=best)

    run_reported(
        roots.costs,
        roots.threads,
        lambda: make_maximum_search(later, roots.max_later, best.copy()),
        work,
        report,
    )
    sizes = np.empty_like(best)
    sizes[later.vertices] = best
    return sizes


MOST = 1_000_000
"""Largest number of bicliques in one answer: all of them are in memory."""


@checked
@shows_progress
def top_bicliques(
    graph: Any,
    *,
    by: Literal["edges", "balanced"] = "edges",
    n: Annotated[int, Between(1, MOST, "they are held in memory; list all of them instead")] = 100,
    motif: MaximalBiclique | None = None,
    threads: Threads | None = None,
    progress: Progress = None,
    **reading: Unpack[GraphOptions],
) -> LargestBicliques:
    """Find the largest maximal bicliques of a graph, exactly, in this process; deterministic.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    by : {"edges", "balanced"}
        Ranking: by the number of edges, or by the number of vertices of the smaller side.
    n : int
        Number of bicliques; all, if there are fewer. Ties go to the first ids, U before V.
    motif : MaximalBiclique, optional
        Least and largest sizes of both sides.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    InputError
        For invalid numbers.
    UnsupportedError
        For a unipartite graph.
    CapacityError
        When the graph does not fit in memory.
    """
    asked, used = motif or MaximalBiclique(), choose_threads(threads)
    of_layers = "" if asked.mirrored == asked else asked.title
    edges = Edges(graph, "the largest bicliques", progress, reading=reading, of_layers=of_layers)
    job = job_of(edges.graph.store or edges.graph.arrays(), Question(asked, "total"), "memory:", edges.graph.hash)
    edges.require_memory(MAXIMAL_BICLIQUES.predict_graph(job, "cpu", used)[0], "whose search needs", used)
    with edges.phase("read"):
        whole = edges.graph.arrays()
        assert isinstance(whole, BipartiteGraph)
        prepared = MaximalBicliqueLister(used, Listing()).prepare(whole, asked, "total")
    with edges.phase("search"):
        best = find_best(prepared, by, n, used)
    columns = edges.graph.labels("u"), edges.graph.labels("v")
    found = []
    for each in best:
        labels = (
            tuple(ids if column is None else plain_labels(column[list(ids)]))
            for ids, column in zip(each.members, columns, strict=True)
        )
        found.append(LargestBiclique(each.value, *each.members, *labels))
    return LargestBicliques(asked, by, tuple(found), edges.describe(), edges.seconds, n)
