"""The rows of a graph by rank, on disk: made out of core, read one range of rows at a time.

In a unipartite graph, vertices are ranked by increasing degree, then id. The later neighbours of a vertex are its row
in U, the earlier neighbours its row in V; a fourth pass counts the later neighbours of each vertex. Or, with
``one_layer``, it is ranked as a layer of a bipartite graph, and all neighbours of a vertex are its row in either layer.

There are three passes over the store. The first counts degrees, which determine the total order of
:mod:`papilio.kernels.rows.index` and the place of every row. The other two, one per layer, spill every edge to the
bucket of its row: a range of rows with as many entries as a thread may sort at a time, at a known place of the spill
file. Threads then sort the buckets and write them in order, while the spill file is read. Sums that one layer needs
from the other (the work of a start depends on its middles' rows) are added up on the way. If all entries fit in the
given memory, the spill is an array instead of a file.

Memory holds 28 bytes per vertex, besides the buffers of threads. The disk holds at most 8 bytes per edge for the spill
and 4 for each of the two directions, plus 8 each with edge ids.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, StoreError
from papilio.kernels.offsets import offsets_of
from papilio.kernels.rows.index import order_falling
from papilio.kernels.threads import ChunkRunner
from papilio.partitioning import Ids, Ints
from papilio.partitioning.row_loops import (
    Words,
    make_ranges,
    place_words,
    rank_batch,
    rank_vertices,
    sort_rows,
    split_rows,
    work_words,
)
from papilio.partitioning.rows import (
    NO_EDGES,
    STRIPES,
    LayerRows,
    PassProgress,
    RowPair,
    SharedSums,
    degrees,
    largest_batch,
    scan_edges,
    span_rows,
)
from papilio.parts import Layer
from papilio.signals import removed_at_end
from papilio.storage.edge_files import RowGroup
from papilio.storage.files import ArrayFile, ArrayMemory, empty_pages, local_path, os_errors_named
from papilio.storage.store import GraphStore

SCAN_BYTES = (48, 64)
"""Memory of a thread per edge of a row group, without and with edge ids: two ids 8, decoding 16, keys 8, words 8 (and
edge ids 8), plus the allocator's overhead.
"""

SORT_BYTES = (12, 28)
"""Memory of a thread per entry of its bucket, without and with edge ids: a word and an id, and two edge ids."""

_BUCKET_ENTRIES = 1 << 22
"""Entries of a bucket, if memory allows: its ids, 16 MB, are sorted in the last-level cache."""

_FEW_ENTRIES = 1 << 18
"""Below this bucket size, fewer threads sort rather than smaller buckets."""

_MANY_BUCKETS = 512
"""Above this number, buckets grow: a row group of a million edges then writes at least 16 KB to each at a time."""


@dataclass(frozen=True)
class Ranking:
    """One layer in the total order: the order, the rank of every vertex (-1 if not kept) and the row offsets."""

    order: Ids
    rank: Ids
    indptr: Ints


def rank_layer(degree: Ints) -> Ranking:
    """Return the order of a layer by decreasing degree, without isolated vertices."""
    order = order_falling(degree)[: np.count_nonzero(degree)].astype(np.int32)
    return Ranking(order, *rank_vertices(order, degree))


def rank_by_degree(
    store: GraphStore, keep: NDArray[np.bool_] | None, degree: Ints, threads: int
) -> tuple[Ranking, Ranking]:
    """Return the order of a unipartite graph by increasing degree, ties by id; one pass over the store.

    Also returns the offsets of the rows of later neighbours, and of earlier ones. Kept isolated vertices are included.
    """
    rising = order_falling(int(degree.max(initial=0)) - degree)
    order = (rising if keep is None else rising[keep[rising]]).astype(np.int32)
    rank, all_neighbours = rank_vertices(order, degree)
    later = offsets_of(_count_later(store, rank, order.size, threads))
    return Ranking(order, rank, later), Ranking(order, rank, all_neighbours - later)


def _count_later(store: GraphStore, rank: Ids, n: int, threads: int) -> Ints:
    counts, batch = np.zeros(n, np.int64), largest_batch(store)
    sums = SharedSums(counts, np.unique(np.linspace(0, n, STRIPES + 1).astype(np.int64)))

    def make_state() -> tuple[NDArray[np.uint64], Words]:
        return empty_pages(batch, np.uint64), sums.make_words(empty_pages(batch, np.uint64))

    def visit(state: tuple[NDArray[np.uint64], Words], index: int, group: RowGroup, u: Ids, v: Ids) -> int:
        keys, out = state
        wrong = rank_batch(u, v, rank, rank, 1, group.first_edge, keys, out)
        if wrong < 0:
            found = out.words[: out.ends[-1]] if out.ends.size else out.words[:0]
            found >>= np.uint64(32)
            found |= np.uint64(1 << 32)
            sums.add(out)
        return wrong

    scan_edges(store, threads, make_state, visit, "later neighbours")
    return counts


def _cut_rows(indptr: Ints, n_entries: int) -> Ints:
    """Cut rows into ranges of at most ``n_entries`` entries, or one row; return the first row of each, and the end."""
    spans = span_rows(indptr, 0, indptr.size - 1, n_entries)
    return np.array([0, *(stop for _, stop in spans)], np.int64)


@dataclass(frozen=True)
class SortPlan:
    """How spilling and sorting share the memory."""

    scan_threads: int
    sort_threads: int
    bucket_entries: int
    in_memory: bool


def plan_sort(n_edges: int, batch: int, free_bytes: int, threads: int, with_edges: bool) -> SortPlan:
    """Choose the number of threads and the bucket size within ``free_bytes``, which hold at least one batch."""
    scan, sort, word = batch * SCAN_BYTES[with_edges], SORT_BYTES[with_edges], 16 if with_edges else 8
    scan_threads = max(1, min(threads, free_bytes // max(scan, 1)))
    share = max(1, min(_BUCKET_ENTRIES, n_edges // (8 * threads)))
    if n_edges * word + max(scan_threads * scan, threads * share * (sort - word)) <= free_bytes:
        return SortPlan(scan_threads, threads, share, True)
    wanted = max(share, n_edges // _MANY_BUCKETS)
    sort_threads = max(1, min(threads, free_bytes // (min(_FEW_ENTRIES, wanted) * sort)))
    entries = max(1, min(wanted, free_bytes // (sort_threads * sort)))
    return SortPlan(scan_threads, sort_threads, entries, False)


class _SortState:
    """Buffers of one thread for buckets of up to ``size`` entries; ``read_size`` of them are read from a file."""

    def __init__(self, size: int, read_size: int, with_edges: bool) -> None:
        self.words = empty_pages(read_size, np.uint64)
        self.word_edges = empty_pages(read_size if with_edges else 0, np.int64)
        self.ids = empty_pages(size, np.int32)
        self.edges = empty_pages(size if with_edges else 0, np.int64)


class LayerSort:
    """Makes the rows of one layer: spills the edges to buckets of rows, then sorts each bucket."""

    def __init__(
        self, store: GraphStore, directory: Path, rows: RowPair, ranks: tuple[Ids, Ids], plan: SortPlan
    ) -> None:
        self._store, self._directory, self._plan = store, directory, plan
        self._own, self._other, self._ranks = rows.own, rows.other, ranks
        self._n_edges = rows.own.n_entries
        # See :func:`papilio.partitioning.row_loops.rank_batch`.
        self._has_one_layer = rows.own is rows.other
        is_ranked = store.kind == "bipartite" or self._has_one_layer
        self._turn = 0 if is_ranked else 1 if rows.own.layer == "u" else -1
        self._starts = _cut_rows(rows.own.indptr, plan.bucket_entries)
        self._places = rows.own.indptr[self._starts]
        stripes = _cut_rows(rows.other.indptr, max(1, self._n_edges // STRIPES))
        self._sums = SharedSums(rows.other.work, stripes)

    def run(self, progress: PassProgress | None) -> None:
        with ExitStack() as stack:
            self._words = self._make_spill("words", np.uint64, stack)
            with_edges = self._own.edge_ids is not None
            self._edges = self._make_spill("word-edges", np.int64, stack) if with_edges else None
            next_place = self._places[:-1].copy()
            for layer in ("u", "v") if self._has_one_layer else (self._own.layer,):
                self._spill(layer, next_place, progress)
            self._check_places(bool((next_place == self._places[1:]).all()))
            self._sort(progress)

    def _make_spill(
        self, name: str, dtype: type[np.uint64] | type[np.int64], stack: ExitStack
    ) -> ArrayFile | ArrayMemory:
        spill: ArrayFile | ArrayMemory
        if self._plan.in_memory:
            spill = ArrayMemory(dtype, self._n_edges)
        else:
            spill = ArrayFile(self._directory / f"{name}-{self._own.layer}", dtype, self._n_edges)
        stack.callback(spill.remove)
        return spill

    def _spill(self, layer: Layer, next_place: Ints, progress: PassProgress | None) -> None:
        """Spill every edge to the row of its end in ``layer``; ``next_place`` is the next place of each bucket."""
        batch, ranges = largest_batch(self._store), make_ranges(self._starts)
        lock = threading.Lock()

        def make_state() -> tuple[NDArray[np.uint64], Words]:
            keys, words = empty_pages(batch, np.uint64), empty_pages(batch, np.uint64)
            edges = NO_EDGES if self._edges is None else empty_pages(batch, np.int64)
            return keys, Words(ranges, words, edges, np.empty(self._starts.size - 1, np.int64))

        def visit(state: tuple[NDArray[np.uint64], Words], index: int, group: RowGroup, u: Ids, v: Ids) -> int:
            keys, out = state
            own, other = (u, v) if layer == "u" else (v, u)
            wrong = rank_batch(own, other, *self._ranks, self._turn, group.first_edge, keys, out)
            if wrong >= 0:
                return wrong
            counts = np.diff(out.ends, prepend=0)
            with lock:
                places = next_place.copy()
                next_place[:] += counts
                self._check_places(bool((next_place <= self._places[1:]).all()))
            for k in np.flatnonzero(counts).tolist():
                piece = slice(int(out.ends[k] - counts[k]), int(out.ends[k]))
                self._words.write(int(places[k]), out.words[piece])
                if self._edges is not None:
                    self._edges.write(int(places[k]), out.edges[piece])
            return wrong

        scan_edges(self._store, self._plan.scan_threads, make_state, visit, f"rows of {layer}", progress)

    def _check_places(self, good: bool) -> None:
        if not good:
            raise StoreError(f"{self._store.path}: the edges changed during reading; run it again")

    def _sort(self, progress: PassProgress | None) -> None:
        sizes = np.diff(self._places)
        large = np.flatnonzero(sizes > self._plan.bucket_entries)
        small = np.flatnonzero(sizes <= self._plan.bucket_entries)
        done = 0
        lock = threading.Lock()

        def sort_one(state: _SortState, start: int, stop: int) -> None:
            nonlocal done
            self._sort_bucket(state, start)
            with lock:
                done += int(sizes[start])
                if progress is not None:
                    progress(f"sorting {self._own.layer}", done, self._n_edges)

        for some in (large, small):
            if some.size:
                most = max(int(sizes[some].max()), 1)
                fits = self._plan.sort_threads * self._plan.bucket_entries // most
                runner = ChunkRunner(partial(self._make_state, most), max(1, min(self._plan.sort_threads, fits)))
                runner.run([(k, k + 1) for k in some.tolist()], sort_one)

    def _make_state(self, size: int) -> _SortState:
        from_file = 0 if self._plan.in_memory else size
        return _SortState(size, from_file, self._edges is not None)

    def _sort_bucket(self, state: _SortState, bucket: int) -> None:
        first, last = int(self._starts[bucket]), int(self._starts[bucket + 1])
        begin, end = int(self._places[bucket]), int(self._places[bucket + 1])
        indptr, split = self._own.indptr[first : last + 1], self._own.split[first:last]
        ids, edges = state.ids[: end - begin], NO_EDGES
        words, word_edges = self._words.read(begin, end, state.words), NO_EDGES
        if self._edges is not None:
            word_edges, edges = self._edges.read(begin, end, state.word_edges), state.edges[: end - begin]
        self._check_places(place_words(words, word_edges, first, indptr, split, ids, edges))
        sort_rows(indptr, ids, edges, words.view(np.int32), word_edges, self._other.n_rows)
        self._own.ids.write(begin, ids)
        if self._own.edge_ids is not None:
            self._own.edge_ids.write(begin, edges)
        if self._turn:
            return
        only = first if self._has_one_layer else -1
        split_rows(only, indptr, ids, self._other.indptr, self._own.layer == "v", split)
        found = self._sums.make_words(words)
        work_words(indptr, ids, split, found)
        self._sums.add(found)


VERTEX_BYTES = 28
"""Memory per vertex: order 4, rank 4, row offset 8, split 4, work 8."""


class DiskRows:
    """Rows of both layers, made by :func:`write_disk_rows`; a context manager that removes the scratch files.

    Without a ranking of V both layers are the same.
    """

    def __init__(self, directory: Path, u: Ranking, v: Ranking | None, with_edges: bool) -> None:
        self.directory = directory
        with ExitStack() as stack:
            stack.enter_context(removed_at_end(directory))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            self.u = LayerRows("u", directory, u.order, u.indptr, with_edges)
            stack.callback(self.u.remove)
            self.v = self.u
            if v is not None:
                self.v = LayerRows("v", directory, v.order, v.indptr, with_edges)
                stack.callback(self.v.remove)
            self._removal = stack.pop_all()
        self.n_edges = self.u.n_entries

    def seen_from(self, layer: Layer) -> RowPair:
        """Return the rows of both layers, this layer first."""
        return RowPair(self.u, self.v) if layer == "u" else RowPair(self.v, self.u)

    @property
    def nbytes(self) -> int:
        return self.u.nbytes + self.v.nbytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._removal.close()


def _check_vertices(store: GraphStore, host_bytes: int, with_edges: bool) -> int:
    """Return the bytes left besides the vertex arrays; raise CapacityError if these and a row group do not fit."""
    vertices = VERTEX_BYTES * (store.n_u + store.n_v)
    scan = SCAN_BYTES[with_edges] * largest_batch(store)
    if vertices + scan > host_bytes:
        raise CapacityError(
            f"{store.path}: {store.n_u + store.n_v} vertices need {vertices} bytes of host memory and a row group "
            f"of {largest_batch(store)} edges {scan}; at most {host_bytes} bytes are allowed"
        )
    return host_bytes - vertices


def write_disk_rows(
    store: GraphStore,
    directory: str | Path,
    host_bytes: int,
    threads: int,
    *,
    with_edges: bool = False,
    keep_u: NDArray[np.bool_] | None = None,
    keep_v: NDArray[np.bool_] | None = None,
    layers: tuple[Layer, ...] = ("v", "u"),
    one_layer: bool = False,
    progress: PassProgress | None = None,
) -> DiskRows:
    """Write the rows of ``layers`` by rank, in memory that may be smaller than the edges.

    O(n_u + n_v) memory; O(n_edges) time, in three passes over the store and one over each spill. Scratch files lie in a
    new directory within the existing ``directory``. ``host_bytes`` may be used on top of the memory that the process
    already holds; fewer than ``threads`` threads run if that is short. Only edges between vertices of ``keep_u`` and
    ``keep_v``, bool of shapes (n_u,) and (n_v,), are kept. Edge ids of the entries are kept if ``with_edges``. With
    ``one_layer``, for unipartite graphs, layer U has all neighbours of every vertex, and is layer V, too.

    Raises CapacityError, before writing anything, if the vertex arrays, a row group or the longest row do not fit.
    Raises StoreError if the store cannot be read or the scratch files cannot be written.
    """
    free_bytes = _check_vertices(store, host_bytes, with_edges)
    place = local_path(Path(directory) / "rows")
    masks = {"keep_u": keep_u, "keep_v": keep_v}
    count_threads = max(1, min(threads, free_bytes // max(1, SCAN_BYTES[with_edges] * largest_batch(store))))
    degree_u, degree_v = degrees(store, **masks, threads=count_threads, progress=progress)
    if store.kind == "unipartite":
        degree_u = degree_v = degree_u + degree_v
    longest = max(int(degree_u.max(initial=0)), int(degree_v.max(initial=0)))
    if longest * SORT_BYTES[with_edges] > free_bytes:
        raise CapacityError(
            f"{store.path}: sorting the {longest} neighbours of its largest vertex needs "
            f"{longest * SORT_BYTES[with_edges]} bytes of host memory besides the vertex arrays, but {free_bytes} "
            f"are left of {host_bytes}"
        )
    u: Ranking
    v: Ranking | None = None
    if one_layer:
        u, layers = rank_layer(degree_u), ("u",)
    elif store.kind == "unipartite":
        u, v = rank_by_degree(store, keep_u, degree_u, count_threads)
    else:
        with ThreadPoolExecutor(min(2, threads), thread_name_prefix="papilio-rank") as pool:
            u, v = pool.map(rank_layer, (degree_u, degree_v))
    del degree_u, degree_v
    rank_v = u.rank if v is None else v.rank
    ranks: dict[Layer, tuple[Ids, Ids]] = {"u": (u.rank, rank_v), "v": (rank_v, u.rank)}
    plan = plan_sort(int(u.indptr[-1]), largest_batch(store), free_bytes, threads, with_edges)
    with os_errors_named(place.parent, "or use another scratch directory"):
        scratch = Path(tempfile.mkdtemp(prefix=".papilio-rows-", dir=place.parent))
    rows = DiskRows(scratch, u, v, with_edges)
    with ExitStack() as stack:
        stack.enter_context(rows)
        for layer in layers:
            LayerSort(store, rows.directory, rows.seen_from(layer), ranks[layer], plan).run(progress)
        store.require_unchanged()
        stack.pop_all()
    return rows
