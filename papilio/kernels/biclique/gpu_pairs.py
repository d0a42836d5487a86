"""Find the pairs of left vertices that share enough right ones, on the device."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.device.arrays import low_halves, make_offsets, take
from papilio.kernels.device.constants import COUNT_PAIRS, PAIR_BINS, SUM_PAIRS, WRITE_PAIRS
from papilio.kernels.device.protocol import Device, Module, check_fits, launch_over
from papilio.kernels.engine import Choice
from papilio.kernels.tuning import PairTuning

PAIR_BYTES = 32
"""Bytes of a pair during the sort: keys, the sort's copy, vertex and number of shared ones; then sums of costs."""

_KEY_BITS = 64


@dataclass(frozen=True, eq=False)
class PairRows:
    """The core of a graph. Left vertices by descending degree, ties by descending id; roots of a part last."""

    n_left: int  # rows of the left layer come first
    n_roots: int  # the last left rows are roots: all, except for a part
    # Lengths of the left rows, descending among the roots and among the others: int32.
    degree: Any
    # Row offsets of both layers, int64; right ids of the left rows, then left ranks of the right rows, ascending within
    # a row, int32.
    indptr: Any
    adjacency: Any
    # Per left entry, the left vertices of lower rank in the row of the right one: int32.
    prefix: Any
    # Maximum number of right vertices that two left ones can share: the largest degree of a root.
    max_shared: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs as rows, and the order of the left vertices, on the device."""

    # Rank of each left vertex in search order: roots, by ascending number of pairs, then degree, then id; then the
    # others likewise. int32.
    order: Any
    indptr: Any  # row offsets: int64
    others: Any  # later left vertices in that order, ascending: int32
    common: Any  # numbers of shared right vertices: int32
    # Effects of too little device memory, and their reasons.
    choices: tuple[Choice, ...] = ()


class _Passes:
    """The roots of :class:`PairRows` by schedule, and the launches of one pass over all of them.

    A pair is met from its vertex of higher rank, which is a root; all other vertices are only ends.
    """

    def __init__(self, device: Device, rows: PairRows, least: int, tuning: PairTuning) -> None:
        xp = device.xp
        self.device, self.rows, self.least, self.tuning = device, rows, least, tuning
        self.module = device.load("biclique_index", {})
        n_left = rows.n_left
        n_entries = rows.adjacency.size // 2
        upto = make_offsets(device, rows.prefix[:n_entries])
        tables = [
            (table.max_wedges, table.table_bytes // 4 if table.kernel == "dense" else -1) for table in tuning.tables
        ]
        self.wedges, keys = xp.empty(n_left, dtype=np.int64), xp.empty(n_left, dtype=np.int64)
        found = xp.zeros(len(tables), dtype=np.uint64)
        launch_over(
            device, self.module, "classify_roots", n_left, upto, rows.indptr, np.int32(n_left),
            np.int32(n_left - rows.n_roots), np.int64(least), device.to_device(np.array(tables, dtype=np.int64)),
            np.int32(len(tables)), self.wedges, keys, found,
        )  # fmt: skip
        self.bounds = [0, *accumulate(int(each) for each in device.to_host(found))]
        self.roots = low_halves(device, xp.argsort(keys)[: self.bounds[-1]].view(np.uint64))
        self.n_slabs = tuning.slabs_per_sm * device.sm_count
        self._wanted_slabs = min(self.bounds[-1] - self.bounds[-2], self.n_slabs)
        self._make_slabs(int(tuning.slab_fraction * device.free_bytes()))

    def _make_slabs(self, room: int) -> None:
        """Allocate counters and lists for the blocks of the last class, as many as ``room`` bytes hold."""
        n_left, xp = self.rows.n_left, self.device.xp
        n_roots = self.bounds[-1] - self.bounds[-2]
        self.n_slabs = min(n_roots, self.n_slabs, room // (8 * n_left))
        if n_roots and not self.n_slabs:
            check_fits("a table of counters for all vertices of the anchored layer", 8 * n_left, room, "bytes")
        self.counters: Any = xp.zeros(max(self.n_slabs * n_left, 1), dtype=np.int32)
        self.lists: Any = xp.empty(max(self.n_slabs * n_left, 1), dtype=np.int32)

    def make_room(self, needed: int) -> None:
        """Free ``needed`` bytes of device memory if possible. One block of the last class must remain."""
        if self.n_slabs > 1:
            self.counters, self.lists = None, None
            self._make_slabs(max(self.device.free_bytes() - needed, 8 * self.rows.n_left))

    def explain(self) -> tuple[Choice, ...]:
        """Report that too little memory reduced the number of blocks of the last class."""
        if self.n_slabs >= self._wanted_slabs:
            return ()
        what = f"pairs of the heaviest vertices counted by {self.n_slabs} blocks, not {self._wanted_slabs}"
        return ((what, f"a block needs {8 * self.rows.n_left} bytes of device memory"),)

    def run(self, mode: int, given: dict[str, Any]) -> None:
        """Launch one pass; ``given`` holds its arrays and numbers by parameter name."""
        xp, tuning = self.device.xp, self.tuning
        nothing = xp.zeros(1, dtype=np.int32)
        unsigned = xp.zeros(1, dtype=np.uint64)
        parameters = {
            "mode": mode, "least": self.least, "partners": nothing, "found": nothing,
            "places": xp.zeros(1, dtype=np.int64), "final_rank": nothing, "first_paired": 0, "rank_bits": 0,
            "common_bits": 0, "keys": unsigned, "commons": nothing, "sums": unsigned,
        } | given  # fmt: skip
        last = tuple(np.int32(value) if isinstance(value, int) else value for value in parameters.values())
        counters = xp.zeros(len(tuning.tables), dtype=np.int32)
        graph = (self.rows.indptr, self.rows.adjacency, self.rows.prefix, np.int32(self.rows.n_left))
        for number, (begin, end) in enumerate(pairwise(self.bounds)):
            if begin == end:
                continue
            table = tuning.tables[number]
            own: tuple[Any, ...] = ()
            n_blocks = min(end - begin, tuning.blocks_per_sm * self.device.sm_count)
            if table.kernel == "hash":
                own = (self.wedges, np.int32(table.table_bytes // 8))
            elif table.kernel == "slab":
                n_blocks, own = self.n_slabs, (self.counters, self.lists)
            items = (self.roots[begin:end], np.int32(end - begin), counters[number : number + 1])
            with self.device.stream(number):
                self.module.get_function(f"pair_{table.kernel}")(
                    (n_blocks,),
                    (table.threads,),
                    (*graph, *items, *own, *last),
                    shared_mem=table.table_bytes,
                )


def count_pairs(
    device: Device, rows: PairRows, least: int, tuning: PairTuning
) -> tuple[dict[int, int], tuple[Choice, ...]]:
    """Return the number of pairs by number of shared right vertices, at least ``least``; no pair is kept.

    The second result is as ``Pairs.choices``.
    """
    most = rows.max_shared
    sums = device.xp.zeros(max(most + 1, PAIR_BINS), dtype=np.uint64)
    passes = _Passes(device, rows, least, tuning)
    passes.run(SUM_PAIRS, {"sums": sums})
    histogram = device.to_host(sums)
    return {int(shared): int(histogram[shared]) for shared in np.flatnonzero(histogram)}, passes.explain()


def pair_room(device: Device, tuning: PairTuning) -> int:
    """Return the limit of device memory for the pairs, in bytes."""
    return int(tuning.pair_fraction * device.free_bytes())


def find_pairs(device: Device, rows: PairRows, least: int, tuning: PairTuning) -> Pairs:
    """Return all pairs that share at least ``least`` right vertices.

    Takes two passes over the wedges, then one sort. Memory is checked before a pair is written.
    """
    xp, n = device.xp, rows.n_left
    passes = _Passes(device, rows, least, tuning)
    partners, found = xp.zeros(n, dtype=np.int32), xp.zeros(n, dtype=np.int32)
    passes.run(COUNT_PAIRS, {"partners": partners, "found": found})
    order, final_rank, n_paired = _order_lefts(device, passes.module, partners, rows.n_roots)
    places = make_offsets(device, found)
    n_pairs = int(device.to_host(places[-1:])[0])
    limit = pair_room(device, tuning)
    if n_pairs * PAIR_BYTES > limit:
        passes.make_room(int(n_pairs * PAIR_BYTES / tuning.pair_fraction) + 1)
        limit = pair_room(device, tuning)
    if n_pairs * PAIR_BYTES > limit:
        raise CapacityError(
            f"{n_pairs} pairs of vertices of the anchored layer share {least} neighbours; {limit} bytes of device "
            f"memory hold {limit // PAIR_BYTES} ({PAIR_BYTES} bytes each): anchor the other layer, choose larger p "
            "and q, partition the graph into smaller parts, or use --engine cpu"
        )
    if not n_pairs:
        empty = xp.zeros(0, dtype=np.int32)
        return Pairs(order, xp.zeros(n + 1, dtype=np.int64), empty, empty)
    return Pairs(order, *_write_pairs(passes, places, final_rank, (n_pairs, n_paired)), passes.explain())


def _order_lefts(device: Device, module: Module, partners: Any, n_roots: int) -> tuple[Any, Any, int]:
    """Return the order of the left vertices, their places in it, and their number without roots that have no pair."""
    xp, n = device.xp, partners.size
    keys, n_paired = xp.empty(n, dtype=np.uint64), xp.zeros(1, dtype=np.uint64)
    launch_over(device, module, "partner_keys", n, partners, np.int32(n), np.int32(n_roots), keys, n_paired)
    keys.sort()
    order, final_rank = xp.empty(n, dtype=np.int32), xp.empty(n, dtype=np.int32)
    launch_over(device, module, "place_lefts", n, keys, np.int32(n), order, final_rank)
    return order, final_rank, n - n_roots + int(device.to_host(n_paired)[0])


def _write_pairs(passes: _Passes, places: Any, final_rank: Any, sizes: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Write the pairs as keys, sort the keys and unpack them.

    ``sizes`` holds the number of pairs, and of vertices without the roots that have no pair, which come first.
    """
    device, (n_pairs, n_paired) = passes.device, sizes
    xp, n = device.xp, passes.rows.n_left
    most = passes.rows.max_shared
    first_paired, rank_bits, common_bits = n - n_paired, (n_paired - 1).bit_length(), most.bit_length()
    if 2 * rank_bits + common_bits > _KEY_BITS:
        common_bits = 0
    keys = xp.empty(n_pairs, dtype=np.uint64)
    common = xp.empty(1 if common_bits else n_pairs, dtype=np.int32)
    bits = {"first_paired": first_paired, "rank_bits": rank_bits, "common_bits": common_bits}
    passes.run(WRITE_PAIRS, {"places": places, "final_rank": final_rank, **bits, "keys": keys, "commons": common})
    if common_bits:
        keys.sort()
        common = xp.empty(n_pairs, dtype=np.int32)
    else:
        by_key = xp.argsort(keys)
        keys, common = take(device, keys, by_key), take(device, common, by_key)
    others = xp.empty(n_pairs, dtype=np.int32)
    launch_over(
        device, passes.module, "unpack_pairs", n_pairs, keys, np.int64(n_pairs),
        *(np.int32(value) for value in bits.values()), others, common,
    )  # fmt: skip
    indptr = xp.empty(n + 1, dtype=np.int64)
    launch_over(
        device, passes.module, "pair_starts", n + 1, keys, np.int64(n_pairs), np.int32(n),
        np.int32(first_paired), np.int32(rank_bits + common_bits), indptr,
    )  # fmt: skip
    return indptr, others, common
