"""Rows of a graph by rank, in scratch files, and the degrees and the core of a stored graph.

Degrees and cores take passes over the row groups of the store, with only arrays by vertex in memory. Rows of a layer
are read a range at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import StoreError
from papilio.kernels.threads import ChunkRunner, available_threads
from papilio.partitioning import Ids, Ints
from papilio.partitioning.row_loops import Words, add_words, count_batch, make_ranges
from papilio.parts import Layer
from papilio.storage.edge_files import STORE_ADVICE, RowGroup, edge_problem
from papilio.storage.files import ArrayFile, empty_pages
from papilio.storage.store import GraphStore


class LayerRows:
    """The rows of one layer: its vertices by rank, without vertices that have no kept edge. Any thread may read."""

    def __init__(self, layer: Layer, directory: Path, order: Ids, indptr: Ints, with_edges: bool) -> None:
        self.layer = layer
        # Id in the store of each rank, and the offset of its row: int32 (n_rows,), int64 (n_rows + 1,).
        self.order, self.indptr = order, indptr
        self.n_rows, self.n_entries = int(order.size), int(indptr[-1])
        # Neighbours of each vertex that precede it in the order of both layers, and counted wedges that start there.
        self.split, self.work = np.empty(self.n_rows, np.int32), np.zeros(self.n_rows, np.int64)
        # Rank of each neighbour.
        with ExitStack() as stack:
            self.ids = ArrayFile(directory / f"ids-{layer}", np.int32, self.n_entries)
            stack.callback(self.ids.remove)
            self.edge_ids = ArrayFile(directory / f"edges-{layer}", np.int64, self.n_entries) if with_edges else None
            stack.pop_all()

    @property
    def nbytes(self) -> int:
        return self.order.nbytes + self.indptr.nbytes + self.split.nbytes + self.work.nbytes

    def read(self, first: int, stop: int) -> Ids:
        """Return the neighbours of the ranks [first, stop), as ranks in the other layer, ascending for each."""
        return self.ids.read(int(self.indptr[first]), int(self.indptr[stop]))

    def read_edges(self, first: int, stop: int) -> Ints:
        """Return the edge ids in the store of the entries of :meth:`read`; only for rows made with edges."""
        assert self.edge_ids is not None
        return self.edge_ids.read(int(self.indptr[first]), int(self.indptr[stop]))

    def end_entries(self, first: int, stop: int) -> Ints:
        """Return how many middles have each vertex of ranks [first, stop) as an end."""
        return np.asarray(np.diff(self.indptr[first : stop + 1]) - self.split[first:stop], dtype=np.int64)

    def remove(self) -> None:
        """Remove the files."""
        self.ids.remove()
        if self.edge_ids is not None:
            self.edge_ids.remove()


@dataclass(frozen=True, eq=False)
class RowPair:
    """The rows of both layers of a graph, seen from one of them."""

    own: LayerRows
    other: LayerRows


def span_rows(indptr: Ints, first: int, stop: int, max_entries: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that tile [first, stop), each of at most ``max_entries`` entries, or of one row.

    Row i has the entries ``[indptr[i], indptr[i + 1])``.
    """
    while first < stop:
        last = int(np.searchsorted(indptr, indptr[first] + max_entries, side="right")) - 1
        last = min(max(last, first + 1), stop)
        yield first, last
        first = last


PassProgress = Callable[[str, int, int], None]
"""Called with a phase, the number of its edges already processed, and their total."""

State = TypeVar("State")

Visit = Callable[[State, int, RowGroup, Ids, Ids], int]
"""Takes a thread's state, the index of a row group, the row group, u and v; returns the place of an edge that is out of
its layer or out of order, or -1.
"""

STRIPES = 64
"""Ranges of shared sums, each with a lock: four for each of 16 threads."""

_RUN = 8
"""Maximum number of row groups that a thread takes at once, so that few files are reopened."""

NO_EDGES = np.empty(0, np.int64)
"""Edge ids of rows without edge ids."""

_NONE = np.empty(0, np.bool_)


def largest_batch(store: GraphStore) -> int:
    """Return the largest number of edges in a row group of the store."""
    return max((group.n_edges for group in store.row_groups), default=0)


def scan_edges(
    store: GraphStore,
    threads: int,
    make_state: Callable[[], State],
    visit: Visit[State],
    phase: str,
    progress: PassProgress | None = None,
) -> None:
    """Visit all row groups of a store from several threads, in about the order of their edges.

    Raises StoreError if files cannot be read, or a visit finds an invalid edge.
    """
    groups = store.row_groups
    lock = threading.Lock()
    done = 0

    def scan_some(state: State, start: int, stop: int) -> None:
        nonlocal done
        some = groups[start:stop]
        for index, (u, v, _) in enumerate(store.read_groups(some), start):
            group = groups[index]
            if visit(state, index, group, u, v) >= 0:
                problem = edge_problem(u, v, None, kind=store.kind, n_u=store.n_u, n_v=store.n_v)
                raise StoreError(f"{store.path}/{group.file.name}, row group {group.index}: {problem}; {STORE_ADVICE}")
            with lock:
                done += group.n_edges
                if progress is not None:
                    progress(phase, done, store.n_edges)

    run = max(1, min(_RUN, len(groups) // (4 * threads)))
    chunks = [(start, min(start + run, len(groups))) for start in range(0, len(groups), run)]
    ChunkRunner(make_state, threads).run(chunks, scan_some)


class SharedSums:
    """int64 sums that several threads add to; each range, given by its start and the last end, has a lock."""

    def __init__(self, sums: Ints, starts: Ints) -> None:
        self.ranges = make_ranges(starts)
        self._sums = sums
        self._locks = [threading.Lock() for _ in range(starts.size - 1)]
        self._turns = count()

    def make_words(self, words: NDArray[np.uint64]) -> Words:
        """Return room for sum words, by range."""
        return Words(self.ranges, words, NO_EDGES, np.empty(len(self._locks), np.int64))

    def add(self, found: Words) -> None:
        """Add sum words."""
        stops = [0, *found.ends.tolist()]
        turn = next(self._turns)
        for k in range(len(self._locks)):
            at = (turn + k) % len(self._locks)
            if stops[at] < stops[at + 1]:
                with self._locks[at]:
                    add_words(found.words[stops[at] : stops[at + 1]], self._sums)


def degrees(
    store: GraphStore,
    *,
    keep_u: NDArray[np.bool_] | None = None,
    keep_v: NDArray[np.bool_] | None = None,
    threads: int | None = None,
    progress: PassProgress | None = None,
) -> tuple[Ints, Ints]:
    """Count the edges at every vertex in one pass, and check that the edges are sorted and in their layers.

    Returns the degrees of both layers, int64. Only edges between kept vertices count; ``threads`` defaults to the
    number of processors. Raises StoreError if the edges cannot be read, are not sorted or are out of their layers.
    """
    degree_u, degree_v = np.zeros(store.n_u, np.int64), np.zeros(store.n_v, np.int64)
    kept_u, kept_v = (_NONE if keep is None else keep for keep in (keep_u, keep_v))
    sums = SharedSums(degree_v, np.unique(np.linspace(0, store.n_v, STRIPES + 1).astype(np.int64)))
    borders = np.empty((len(store.row_groups), 2), np.int64)
    batch = largest_batch(store)
    lock = threading.Lock()

    def make_state() -> tuple[Words, Ints]:
        return sums.make_words(empty_pages(batch, np.uint64)), np.empty(2, np.int64)

    def visit(state: tuple[Words, Ints], index: int, group: RowGroup, u: Ids, v: Ids) -> int:
        words, border = state
        wrong = count_batch(u, v, kept_u, kept_v, degree_u, border, words)
        if wrong < 0:
            borders[index] = int(u[0]) << 32 | int(v[0]), int(u[-1]) << 32 | int(v[-1])
            sums.add(words)
            with lock:
                degree_u[u[0]] += border[0]
                degree_u[u[-1]] += border[1]
        return wrong

    scan_edges(store, threads or available_threads(), make_state, visit, "degrees", progress)
    _check_borders(store, store.row_groups, borders)
    return degree_u, degree_v


def _check_borders(store: GraphStore, groups: Sequence[RowGroup], borders: Ints) -> None:
    """Check that every row group begins after the end of the previous one."""
    late = np.flatnonzero(borders[1:, 0] <= borders[:-1, 1])
    if late.size:
        at = int(late[0]) + 1
        (first, before), group = (int(borders[at, 0]), int(borders[at - 1, 1])), groups[at]
        raise StoreError(
            f"{store.path}/{group.file.name}, row group {group.index}: edge ({first >> 32}, {first & 0xFFFFFFFF}) "
            f"comes after ({before >> 32}, {before & 0xFFFFFFFF}); edges must be sorted by (u, v): {STORE_ADVICE}"
        )


def core_masks(
    store: GraphStore,
    least_u_degree: int,
    least_v_degree: int,
    *,
    threads: int | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find the largest subgraph in which every vertex of U and V has at least these degrees, each at least 1.

    Returns the masks of its vertices in both layers, bool. For a unipartite graph, both masks are the same, and degrees
    count all edges at a vertex. Vertices of lower degree are dropped in rounds, one pass over the edges each, until
    no more are found; 9 bytes per vertex. Raises as :func:`degrees`.
    """
    keep_u = keep_v = None
    while True:
        degree_u, degree_v = degrees(store, keep_u=keep_u, keep_v=keep_v, threads=threads)
        if store.kind == "unipartite":
            degree_u = degree_v = degree_u + degree_v
        keep_u, keep_v = degree_u >= least_u_degree, degree_v >= least_v_degree
        if not (degree_u[~keep_u].any() or degree_v[~keep_v].any()):  # the dropped vertices had no edges left
            return keep_u, keep_v
