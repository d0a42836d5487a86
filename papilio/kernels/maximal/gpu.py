"""Maximal bicliques on the GPU: the index goes to the device, ``maximal.cu`` searches it.

The index and its work items are built on the device and equal the CPU engine's. Bicliques are counted by their sizes in
64 bits: 2^64 of them would take a GPU hundreds of years. Stars are found on the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.build import build_maximal
from papilio.kernels.biclique.forms import Cells, turn
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex, DeviceRows, load_edges
from papilio.kernels.biclique.items import deal_index
from papilio.kernels.biclique.question import explain_anchor
from papilio.kernels.device.arrays import find_counted, take
from papilio.kernels.device.constants import (
    MAXIMAL_NODE_WORDS,
    MAXIMAL_SEEN,
    MAXIMAL_TABLE_WORDS,
    MAXIMAL_WIDE_WORDS,
)
from papilio.kernels.device.protocol import Device, Module
from papilio.kernels.engine import (
    Choice,
    Partial,
    Prepared,
    StopCheck,
    fold_partials,
    require_request,
)
from papilio.kernels.maximal.gpu_prober import copy_roots
from papilio.kernels.maximal.gpu_roots import (
    Matrices,
    MaximalRoots,
    Ranges,
    cut_ranges,
    fill_matrices,
    find_roots,
    group_pieces,
    hold_matrices,
    load_rows,
    root_arguments,
)
from papilio.kernels.maximal.loops import Limits
from papilio.kernels.maximal.prober import SEARCH_RATES, MaximalProber
from papilio.kernels.maximal.stars import Stars, find_stars_on_device
from papilio.kernels.probe import Prober
from papilio.kernels.search.gpu import Pieces, TreeEngine, TreeSearch
from papilio.kernels.search.layout import TreeClass
from papilio.kernels.threads import choose_threads
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Granularity, MaximalBiclique, Motif
from papilio.parts import MaximalPart, Part

_FIXED_WORDS = 2 * (64 + MAXIMAL_SEEN) + MAXIMAL_TABLE_WORDS
"""Words of shared memory of a warp: hashes of 64 columns, rows seen, and a table of sets of columns."""

_CHILD_WARPS, _CHILD_BLOCKS = 4, 5
"""For maximal_children.cu: warps of a block, and blocks that fit on a multiprocessor."""

_SLOT_BYTES = 16
"""Bytes per slot of the table of sizes: a key and its count."""

_MAX_SLOTS = 1 << 31
"""Maximum slots of the table of sizes: their number is passed in 32 bits."""

_MAX_INT = 2**31 - 1
_HIGH = np.uint64(32)
_LOW_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, eq=False)
class PreparedMaximalGpu(Prepared):
    """A graph ready for :meth:`MaximalBicliqueGpu.run`."""

    motif: MaximalBiclique
    index: BicliqueDeviceIndex
    roots: MaximalRoots
    ranges: Ranges
    matrices: Matrices | None  # of all roots; None if they are laid out for each group of items
    stars: Stars
    classes: tuple[TreeClass, ...]
    decisions: tuple[Choice, ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.index.work


class _Counts(NamedTuple):
    """Counters of the kernel, on the device."""

    totals: Any  # the sum of the hashes, the branches taken, and the words intersected for children of few columns
    keys: Any  # a hash table of sizes
    by_key: Any
    full: Any  # nonzero if the table was too small


class MaximalBicliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.MaximalBiclique` on one device.

    ``anchor`` (``auto``, ``u`` or ``v``) is the layer whose vertices are searched one after the other; ``tuning``
    defaults to the device's constants. ``defines`` are FILTERS and DROPS of maximal_narrow.cuh and TABLES of
    maximal_subsets.cuh, for comparisons, and LISTS of records.cuh for
    :class:`~papilio.kernels.maximal.list_gpu.MaximalBicliqueGpuLister`, which then counts nothing. ``patience``
    is the number of 32-bit words that a search below 64 columns intersects before it shares branches with other warps.
    """

    stem = "maximal"

    def __init__(
        self,
        device: Device,
        anchor: str = "auto",
        tuning: TreeTuning | None = None,
        defines: dict[str, int] | None = None,
        patience: int = 1 << 12,
    ) -> None:
        super().__init__(device, tuning)
        self.anchor, self.patience, self.defines = anchor, patience, defines or {}
        self._slots = WeakKeyDictionary[PreparedMaximalGpu, int]()  # of tables that were too small
        self.n_branches = 0
        """Branches of the last run: one per maximal biclique, plus branches checked in vain."""

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedMaximalGpu:
        require_request("gpu maximal-biclique", MaximalBiclique, graph, motif, per, MaximalPart)
        assert isinstance(graph, BipartiteGraph | MaximalPart)
        assert isinstance(motif, MaximalBiclique)
        part = graph if isinstance(graph, MaximalPart) else None
        source = graph.graph if isinstance(graph, MaximalPart) else graph
        with self.device.guard():
            self._search.load_on(self.device)
            self._load_children()
            self.device.load("maximal_rows", {})
            edges, layers = load_edges(self.device, source)
            stars = find_stars_on_device(self.device, edges, motif, part)
            rows = DeviceRows(self.device, edges, layers)
            index = deal_index(
                build_maximal(rows, motif, self.anchor, bool(stars.cells), part), self.hands if part is None else 1
            )
            del rows  # its memory
            roots, ranges = find_roots(self.device, index), cut_ranges(self.device, index)
            classes: tuple[TreeClass, ...] = ()
            matrices = None
            decisions = (explain_anchor(index.anchor, self.anchor, part), *index.choices)
            if index.n_pairs:
                if part is None:  # a part is searched only once
                    matrices = hold_matrices(self.device, index, roots)
                load_rows(self.device)
                need = _estimate_need(index, roots)[ranges.items]
                classes, shortage = self._make_ready(self._search, need)
                decisions += shortage
                self._load_children(wait=True)
        return PreparedMaximalGpu(motif, index, roots, ranges, matrices, stars, classes, decisions)

    def prober(self, prepared: PreparedMaximalGpu) -> Prober:
        index, sizes, known = prepared.index, prepared.index.sizes, sum(prepared.stars.cells.values())
        limits = Limits(sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right, 0)
        rows_of = partial(copy_roots, self.device, index, prepared.roots)
        return MaximalProber(prepared.work, known, rows_of, limits, SEARCH_RATES[self.name], choose_threads(None))

    @property
    def _search(self) -> TreeSearch:
        blocks_per_sm = self.tuning.blocks_per_sm[0]
        return TreeSearch("maximal", "maximal_search", self.defines, self.tuning, _FIXED_WORDS, blocks_per_sm)

    def _load_children(self, *, wait: bool = False) -> Module | None:
        """Return the kernel for children of few columns, compiled if ``wait``; None without tables."""
        if not self.defines.get("TABLES", 1):
            return None
        module = self.device.load("maximal_children", {})
        if wait:
            module.get_function("maximal_children")
        return module

    def _count(self, prepared: PreparedMaximalGpu, start: int, stop: int, cut: StopCheck) -> Partial:
        self.n_branches = 0
        found = Partial(0, 0, 0)
        if start < stop and prepared.classes:
            for begin, end in self.group_items(prepared, start, stop):
                pieces = prepared.ranges.starts[[begin, end]]
                partial = Partial(end - begin, 0, 0)
                if pieces[0] < pieces[1]:
                    partial = self._search_group(prepared, begin, end, cut)
                found = fold_partials(found, partial)
                has_left = getattr(cut, "has_left", False)
                if partial.n_items < end - begin or has_left or (end < stop and cut()):
                    break
        else:
            found = Partial(stop - start, 0, 0)
        if start == 0 and found.n_items > 0:
            stars = prepared.stars
            found = fold_partials(
                found, Partial(0, sum(stars.cells.values()), 0, {}, stars.cells, checksum=stars.checksum)
            )
        return found

    def _search_group(self, prepared: PreparedMaximalGpu, start: int, stop: int, cut: StopCheck) -> Partial:
        """Search items, again with a larger table if one was full."""
        n_keys = self._slots.get(prepared, self.tuning.leaf_slots)
        matrices = self.lay_out(prepared, start, stop)
        while True:
            counts = self._make_counts(n_keys)
            stop = self._search_items(prepared, matrices, (start, stop), cut, counts)
            if not int(self.device.to_host(counts.full)[0]):
                return self._read(prepared.index, counts, stop - start)
            n_keys *= 4
            self._slots[prepared] = n_keys

    def group_items(self, prepared: PreparedMaximalGpu, start: int, stop: int) -> Iterable[tuple[int, int]]:
        """Return the groups of items whose matrices fit on the device."""
        if prepared.matrices is not None:
            return [(start, stop)]
        return group_pieces(self.device, prepared.index, prepared.roots, start, stop)

    def lay_out(self, prepared: PreparedMaximalGpu, start: int, stop: int) -> Matrices:
        """Return the matrices of a group with children."""
        if prepared.matrices is not None:
            return prepared.matrices
        return fill_matrices(self.device, prepared.index, prepared.roots, start, stop)

    def leave_records(
        self,
        prepared: PreparedMaximalGpu,
        matrices: Matrices,
        span: tuple[int, int],
        cut: StopCheck,
        arguments: tuple[Any, ...],
    ) -> int:
        """Search items and return the end of the search; ``arguments`` are RECORD_PARAMETERS of records.cuh."""
        return self._search_items(prepared, matrices, span, cut, self._make_counts(1), arguments)

    def _search_items(
        self,
        prepared: PreparedMaximalGpu,
        matrices: Matrices,
        span: tuple[int, int],
        cut: StopCheck,
        counts: _Counts,
        arguments: tuple[Any, ...] = (),
    ) -> int:
        """Search items, given the kernel's arguments after the counts; return the end of the run."""
        index, roots, ranges, sizes = prepared.index, prepared.roots, prepared.ranges, prepared.index.sizes
        first = (
            *root_arguments(index, roots), matrices.words, matrices.starts, matrices.taken, matrices.taken_hash,
            roots.left_hash, roots.right_hash, index.arrays["hop_common"], *ranges.arrays,
        )  # fmt: skip
        asked = (sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right)
        limits = tuple(np.int32(min(limit, _MAX_INT)) for limit in asked)
        found = (counts.totals, counts.keys, counts.by_key, np.uint32(counts.keys.size), counts.full)
        start, stop = span
        pieces = Pieces(start, ranges.starts[start : stop + 1])
        last = (*limits, np.int32(self.patience), *found, *arguments)
        searched = self._launch(
            self._search, prepared.classes, pieces, lambda: index.costs[ranges.items], cut, first, last
        )
        children = self._load_children()
        if children is not None:
            begin, end = searched.span
            blocks = min(-(-(end - begin) // _CHILD_WARPS), _CHILD_BLOCKS * self.device.sm_count)
            children.get_function("maximal_children")(
                (max(1, blocks),), (32 * _CHILD_WARPS,), (*first, np.int64(begin), np.int64(end), *limits, *found),
                shared_mem=4 * _CHILD_WARPS * MAXIMAL_TABLE_WORDS,
            )  # fmt: skip
        return searched.stop

    def _make_counts(self, n_keys: int) -> _Counts:
        """Return an empty table of ``n_keys`` slots."""
        xp, room_bytes = self.device.xp, self.device.free_bytes()
        if n_keys > min(_MAX_SLOTS, room_bytes // _SLOT_BYTES):
            raise LeaseTooLargeError(
                f"the sizes of maximal bicliques need a table of {n_keys} slots of {_SLOT_BYTES} bytes; {room_bytes} "
                f"bytes of device memory are free, and the maximum is {_MAX_SLOTS} slots: use a device with more "
                "memory, or --engine cpu"
            )
        keys, by_key = (xp.zeros(n_keys, dtype=np.uint64) for _ in range(2))
        return _Counts(xp.zeros(3, dtype=np.uint64), keys, by_key, xp.zeros(1, dtype=np.int32))

    def _read(self, index: BicliqueDeviceIndex, counts: _Counts, n_items: int) -> Partial:
        """Return the counts: a key is the columns of a biclique, then its rows."""
        to_host = self.device.to_host
        used = find_counted(self.device, counts.by_key)
        keys, times = (to_host(take(self.device, each, used)) for each in (counts.keys, counts.by_key))
        rows, columns = (keys & _LOW_MASK).tolist(), (keys >> _HIGH).tolist()
        cells: Cells = turn(dict(zip(zip(rows, columns, strict=True), times.tolist(), strict=True)), index.anchor)
        checksum, n_branches, n_words = to_host(counts.totals).tolist()
        self.n_branches += n_branches
        work = self._work_done() + (n_words + 1) // 2
        return Partial(n_items, sum(cells.values()), work, {}, cells, checksum=checksum)


def _estimate_need(index: BicliqueDeviceIndex, roots: MaximalRoots) -> NDArray[np.int64]:
    """Return the maximum words that a warp needs for each work item, int64 of shape (n_items,).

    A path of wide nodes must fit, with one for each column above 64 of a child: its columns three times in words, and
    by their places, and two sets of rows. Below, there is a path with a node for every column, stored twice if it has a
    new base, and with bases: all rows, and then at most half of the words of the base before, or four.
    """
    root = index.item_root
    n_rows, row_words, set_words = roots.n_rows[root], roots.row_words[root], roots.set_words[root]
    common, later = index.item_common, index.item_later
    wide = (2 + np.clip(np.minimum(common - 64, later), 0, None)) * (
        MAXIMAL_WIDE_WORDS + 3 * row_words + 2 * set_words + common + 20
    )
    depth = 2 + np.minimum(np.minimum(common, later), 64)
    narrow = 2 * depth * (MAXIMAL_NODE_WORDS + 2 * set_words + 16) + 4 * (2 * n_rows + 256)
    need: NDArray[np.int64] = wide + n_rows + narrow + 128
    return need
