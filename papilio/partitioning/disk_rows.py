"""The rows of a graph by rank, on disk: made out of core, read a range of rows at a time.

The rows of a unipartite graph are the later neighbours of every vertex, as those of U, and the earlier ones, as those
of V: vertices are ranked by rising degree, ties by id, and a fourth pass counts the later neighbours of each.

Three passes over the store. The first counts degrees, which give the total order of :mod:`papilio.kernels.wedge.graph`
and the place of every row. The other two, one for each layer, spill every edge to the bucket of its row: a range of
rows with as many entries as a thread may sort at a time, whose place in the spill file is known beforehand. Buckets
are then sorted by threads and written in their order, while the spill file is read; what both layers need to know of
each other (the work of a start, which its middles' rows tell) is added up on the way. Where all entries fit the
memory that is given, the spill is an array instead of a file.

In memory lie, beside the buffers of threads, 28 bytes per vertex. The disk holds at most 8 bytes per edge for the
spill and 4 for each of the two directions, each 8 more with edge ids.
"""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.interrupts import removed_at_end
from papilio.partitioning.arrays import Ids
from papilio.partitioning.disk_degrees import PassProgress, core_masks, degrees, largest_batch
from papilio.partitioning.layer_rows import LayerRows, RowPair
from papilio.partitioning.row_sort import (
    SCAN_BYTES,
    SORT_BYTES,
    LayerSort,
    Ranking,
    plan_sort,
    rank_by_degree,
    rank_layer,
)
from papilio.parts import Layer
from papilio.storage.files import local_path, os_errors_named
from papilio.storage.store import GraphStore

__all__ = ["VERTEX_BYTES", "DiskRows", "core_masks", "degrees", "write_disk_rows"]

VERTEX_BYTES = 28
"""Memory per vertex: order 4, rank 4, row offset 8, split 4, work 8."""


class DiskRows:
    """Rows of both layers, made by :func:`write_disk_rows`; a context manager that removes the scratch files."""

    def __init__(self, directory: Path, u: Ranking, v: Ranking, with_edges: bool) -> None:
        self.directory = directory
        with ExitStack() as stack:
            stack.enter_context(removed_at_end(directory))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            self.u = LayerRows("u", directory, u.order, u.indptr, with_edges)
            stack.callback(self.u.remove)
            self.v = LayerRows("v", directory, v.order, v.indptr, with_edges)
            stack.callback(self.v.remove)
            self._removal = stack.pop_all()
        self.n_edges = self.u.n_entries

    def seen_from(self, layer: Layer) -> RowPair:
        """Return the rows with those of this layer first."""
        return RowPair(self.u, self.v) if layer == "u" else RowPair(self.v, self.u)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held by the vertex arrays."""
        return self.u.nbytes + self.v.nbytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._removal.close()


def _check_vertices(store: GraphStore, host_bytes: int, with_edges: bool) -> int:
    """Return the bytes that are left beside the vertex arrays; refuse when these and a row group do not fit."""
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
    progress: PassProgress | None = None,
) -> DiskRows:
    """Make the rows of both layers, or of those asked for, by rank, within a memory that need not hold the edges.

    O(n_u + n_v) memory; O(n_edges) time, in three passes over the store and one over each spill. Scratch files are made
    in a directory of their own within ``directory``, which exists. ``host_bytes`` may be used beside what the process
    had before; ``threads`` are fewer where that is short. Only edges between vertices of ``keep_u`` and ``keep_v`` are
    kept, bool of shapes (n_u,) and (n_v,), and the edge ids of the entries ``with_edges``.

    CapacityError when the vertex arrays, a row group or the longest row do not fit; before anything is written.
    StoreError when the store cannot be read, or the scratch files not be written.
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
            f"{longest * SORT_BYTES[with_edges]} bytes of host memory beside the vertex arrays and {free_bytes} are "
            f"left of {host_bytes}"
        )
    if store.kind == "unipartite":
        u, v = rank_by_degree(store, keep_u, degree_u, count_threads)
    else:
        with ThreadPoolExecutor(min(2, threads), thread_name_prefix="papilio-rank") as pool:
            u, v = pool.map(rank_layer, (degree_u, degree_v))
    del degree_u, degree_v
    ranks: dict[Layer, tuple[Ids, Ids]] = {"u": (u.rank, v.rank), "v": (v.rank, u.rank)}
    plan = plan_sort(int(u.indptr[-1]), largest_batch(store), free_bytes, threads, with_edges)
    with os_errors_named(place.parent, "name a scratch directory with room"):
        scratch = Path(tempfile.mkdtemp(prefix=".papilio-rows-", dir=place.parent))
    rows = DiskRows(scratch, u, v, with_edges)
    with ExitStack() as stack:
        stack.enter_context(rows)
        for layer in layers:
            LayerSort(store, rows.directory, rows.seen_from(layer), ranks[layer], plan).run(progress)
        store.require_unchanged()
        stack.pop_all()
    return rows
