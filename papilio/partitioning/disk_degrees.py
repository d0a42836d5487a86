"""Degrees and the (p,q)-core of a stored graph, in passes over its row groups; only vertex arrays are in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import StoreError
from papilio.kernels.threads import ChunkRunner, available_threads
from papilio.partitioning.arrays import Ids, Ints
from papilio.partitioning.row_loops import Words, add_words, count_batch, make_ranges
from papilio.storage.edge_files import RowGroup, edge_problem
from papilio.storage.files import empty_pages
from papilio.storage.manifest import STORE_ADVICE
from papilio.storage.store import GraphStore

PassProgress = Callable[[str, int, int], None]
"""Called with a phase, and how many of its edges are done and how many there are."""

State = TypeVar("State")

Visit = Callable[[State, int, RowGroup, Ids, Ids], int]
"""Takes a thread's state, the place of a row group among all, the row group, u and v; returns the place of an edge
that is out of its layer or out of order, or -1."""

STRIPES = 64
"""Ranges of shared sums, each with a lock: four for each of 16 threads."""

_RUN = 8
"""Most row groups that a thread takes at once; so few files are opened again."""

NO_EDGES = np.empty(0, np.int64)
"""Of rows without edge ids."""

_NONE = np.empty(0, np.bool_)


def largest_batch(store: GraphStore) -> int:
    """Return the most edges that a row group of the store has."""
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

    StoreError when files cannot be read, or a visit finds an edge that is wrong.
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
                raise StoreError(
                    f"{store.path}/{group.file.name}, row group {group.index}: {problem}; {STORE_ADVICE}"
                )
            with lock:
                done += group.n_edges
                if progress is not None:
                    progress(phase, done, store.n_edges)

    run = max(1, min(_RUN, len(groups) // (4 * threads)))
    chunks = [(start, min(start + run, len(groups))) for start in range(0, len(groups), run)]
    ChunkRunner(make_state, threads).run(chunks, scan_some)


class SharedSums:
    """int64 sums that several threads add to; each range of them, whose starts and last end are given, has a lock."""

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
    """Count the edges at every vertex in one pass, which also checks that the edges are sorted and in their layers.

    Returns the degrees of both layers, int64. Only edges between kept vertices count; ``threads`` are by default as
    many as there are processors. StoreError when the edges cannot be read, or are not sorted or out of their layers.
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
    """Check that every row group begins after the one before it ends."""
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
    """Find the largest subgraph in which every vertex of U and of V has at least these degrees, from 1 on.

    Returns which vertices of both layers it holds, bool; of a unipartite graph the same ones twice, whose degrees are
    those of all edges at them. Vertices below are dropped in rounds, one pass over the edges
    each, until none is; 9 bytes per vertex. Errors as :func:`degrees`.
    """
    keep_u = keep_v = None
    while True:
        degree_u, degree_v = degrees(store, keep_u=keep_u, keep_v=keep_v, threads=threads)
        if store.kind == "unipartite":
            degree_u = degree_v = degree_u + degree_v
        keep_u, keep_v = degree_u >= least_u_degree, degree_v >= least_v_degree
        if not (degree_u[~keep_u].any() or degree_v[~keep_v].any()):  # what was dropped had no edges left
            return keep_u, keep_v
