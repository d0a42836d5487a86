"""The order of the work items of the wedge engine, and the kernel of ``butterfly.cu`` for each.

The total of a start is the sum over its ends u of C(c(u, w), 2), so different schedules can count different ends of a
start. Ends among the hub columns go through the bit matrix if the start has enough of them, except in counts per edge.
All others go through a counter table.

Some starts are shared by several blocks; this module chooses and cuts them, and launches ``butterfly_split.cu``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.device.constants import (
    BLOCK_PLANES,
    CENSUS_SLOT_WORDS,
    LARGE_PLANES,
    TABLE_THREADS,
)
from papilio.kernels.device.protocol import Device, Launch, Module, launch_over
from papilio.kernels.exact import MAX_START_COUNT
from papilio.kernels.rows.gpu_index import Counting, WedgeGraph, WedgePartGraph
from papilio.kernels.tuning import TableClass, WedgeTuning
from papilio.motifs import Granularity

SCHEDULE_SHIFT = np.uint64(32)
LOW_MASK = np.uint64(0xFFFFFFFF)
NOT_SCHEDULED = np.uint64(0xFFFFFFFFFFFFFFFF)
_BIT_MATRIX_DEGREE = 1 << LARGE_PLANES
"""Minimum degree that overflows the planes of the bit matrix."""


@dataclass(frozen=True)
class Schedule:
    """A kernel, its launch, and its argument after the items, if any."""

    kernel: str
    # Threads of a block: minimum, with many items, and maximum
    threads: tuple[int, int]
    # Shared memory of a block, and additional memory per pair of its warps
    shared_bytes: int = 0
    pair_bytes: int = 0
    argument: int | None = None

    def threads_for(self, n_rows: int, room: int) -> int:
        """Return the threads of a block if ``n_rows`` starts, one block each, share ``room`` threads."""
        least, threads = self.threads
        while threads > least and n_rows * threads > room:
            threads //= 2
        return threads


def hub_cost(tuning: WedgeTuning, per: Granularity) -> int:
    """Return the wedges of a table that take as long as an entry in a tile of hub columns."""
    return tuning.hub_min_wedges if per == "total" else tuning.hub_vertex_wedges


def mark_hub_starts(
    device: Device,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    per: Granularity = "total",
) -> None:
    """Mark the starts with enough hub wedges to repay reading the bit-matrix rows of each entry."""
    least = np.int64(hub_cost(tuning, per) * graph.counting.signs)
    more = 0 if per == "total" else tuning.hub_vertex_entries
    bounds = least, np.int32(more), np.int32(_BIT_MATRIX_DEGREE)
    columns = np.int32(graph.hub_columns), np.int32(tuning.tile_columns)
    launch_over(
        device, device.load("wedge_order", {}), "mark_hub_starts", items.size, items, np.int32(items.size),
        graph.degree, graph.wedges, graph.hub_wedges, *graph.ranks, *columns, *bounds, uses_hubs,
    )  # fmt: skip


def schedule_items(
    device: Device,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    per: Granularity = "total",
) -> Any:
    """Give each item its schedules for the ends outside the hub columns, and in them, if any.

    Returns the entries of ``PreparedButterflyGpu.scheduled``, in no order: first the schedules of all items for ends
    outside of the hub columns, then the others.
    """
    n_items = np.int32(items.size)
    tables = [(table.max_wedges, -1 if table.kernel == "hash" else table.table_bytes) for table in tuning.tables]
    sizes = (graph.counting.kinds, graph.hub_columns, tuning.match_max_wedges)
    block_degree = tuning.block_degree if per == "total" else 0
    keys = device.xp.empty(2 * items.size, dtype=np.uint64)
    launch_over(
        device, device.load("wedge_order", {}), "schedule_items", items.size, items, n_items, graph.degree,
        graph.wedges, graph.hub_wedges, uses_hubs, *graph.ranks, *map(np.int32, sizes),
        device.to_device(np.array(tables, dtype=np.int64)), np.int32(len(tables)),
        np.int64(tuning.narrow_bytes), np.int32(tuning.large_degree), np.int32(block_degree), keys,
    )  # fmt: skip
    return keys


def make_schedules(tuning: WedgeTuning, counting: Counting, per: Granularity = "total") -> tuple[Schedule, ...]:
    """Return the schedules: the tables, in the order in which they are tried, then the hub columns."""
    row_bytes, large, table_bytes = tuning.tile_columns // 8, tuning.large_threads, 0
    least = tuning.crowd_threads
    if per == "vertex":
        # Of hub_gives.cuh: 16 sums of 4 bytes for every four columns
        least, table_bytes = tuning.vertex_threads, 16 * tuning.tile_columns
    blocks = least, tuning.block_threads
    return (
        Schedule("butterfly_match", (256, 256)),
        *(_table_schedule(table, counting) for table in tuning.tables),
        Schedule("butterfly_hubs_large", (large, large), table_bytes, LARGE_PLANES * row_bytes),
        Schedule("butterfly_hubs_block", blocks, table_bytes, BLOCK_PLANES * row_bytes),
        Schedule("butterfly_hubs_warp", (256, 256)),
    )


def _table_schedule(table: TableClass, counting: Counting) -> Schedule:
    if table.kernel == "hash":
        slots = table.table_bytes // 8
        slot_bytes = 4 * CENSUS_SLOT_WORDS if counting.kinds == 4 else 8
        argument = slots.bit_length() - 1
        threads = table.threads, table.threads
        return Schedule("butterfly_hash", threads, slots * slot_bytes, argument=argument)
    threads = table.threads, TABLE_THREADS
    return Schedule("butterfly_dense", threads, table.table_bytes, argument=table.table_bytes // 4)


def order_items(
    device: Device, graph: WedgeGraph, min_degree: int = 2, *, by_degree: bool = False
) -> tuple[Any, Any, int]:
    """Return (start rows, wedges, most wedges) of the work items: wedges falling, then priority.

    Rows with fewer than ``min_degree`` neighbours are not items. With ``by_degree`` degrees fall first.
    """
    xp, n_rows, module = device.xp, graph.n_rows, device.load("wedge_order", {})
    keys, row_at = xp.empty(n_rows, dtype=np.uint64), xp.empty(n_rows, dtype=np.int32)
    found = xp.zeros(2, dtype=np.uint64)
    launch_over(
        device, module, "item_keys", n_rows, graph.degree, graph.wedges, graph.priority, np.int32(n_rows),
        np.int32(min_degree), keys, row_at, found,
    )  # fmt: skip
    n_items, most = (int(value) for value in device.to_host(found))
    if most > 0xFFFFFFFF:
        rows = xp.nonzero((graph.degree >= min_degree) & (graph.wedges > 0))[0]
        keys = order_falling(xp, graph.wedges[rows], graph.priority[rows].astype(np.uint64)).astype(np.uint64)
    else:
        keys.sort()
    items, costs = xp.empty(n_items, dtype=np.int32), xp.empty(n_items, dtype=np.uint64)
    launch_over(device, module, "take_items", n_items, keys, np.int32(n_items), row_at, graph.wedges, items, costs)
    if by_degree:
        order = order_falling(xp, graph.degree[items].astype(np.uint64), xp.arange(n_items, dtype=np.uint64))
        items, costs = items[order], costs[order]
    return items, costs, most


def take_scheduled(device: Device, scheduled: Any, items: Any, uses_hubs: Any) -> Any:
    """Return ``PreparedButterflyGpu.scheduled_rows``."""
    rows = device.xp.empty(scheduled.size, dtype=np.int32)
    module = device.load("wedge_order", {})
    launch_over(device, module, "take_scheduled", rows.size, scheduled, np.int32(rows.size), items, uses_hubs, rows)
    return rows


def order_falling(xp: Any, costs: Any, ties: Any) -> Any:
    """Return ``ties``, distinct and below 2^32, by descending cost, then by their own order; as int64."""
    if costs.size and int(costs.max()) > 0xFFFFFFFF:
        order = xp.lexsort(xp.stack((ties, np.uint64(2**64 - 1) - costs)))
        return ties[order].astype(np.int64)
    keys = ((LOW_MASK - costs) << SCHEDULE_SHIFT) | ties
    keys.sort()
    return (keys & LOW_MASK).astype(np.int64)


def check_start_bound(xp: Any, most: int, widest: int, wedges: Any, items: Any, degree: Any) -> None:
    """Raise CapacityError if the butterflies of one start could exceed 64 bits.

    A start meets each end at most ``degree`` times, so it owns at most ``wedges * (degree - 1) / 2`` butterflies.
    ``wedges`` has an entry per item, ``degree`` an entry per row; no entry exceeds ``most`` and ``widest``.
    """
    if most * widest <= 2 * MAX_START_COUNT:
        return
    allowed = np.uint64(2 * MAX_START_COUNT) // xp.maximum(degree[items], 1).astype(np.uint64)
    if bool((wedges > allowed).any()):
        raise CapacityError(
            f"one vertex could own more than {MAX_START_COUNT} butterflies, too many for 64 bits; use --engine cpu"
        )


@dataclass(frozen=True, eq=False)
class SplitStarts:
    """Starts with chunks counted by separate blocks; all arrays on the host, shape (n_starts,)."""

    # Work item, ascending, and its start row.
    items: NDArray[np.int64]
    rows: NDArray[np.int32]
    # Maximum entries of a chunk, and number of chunks.
    entries: NDArray[np.int32]
    chunks: NDArray[np.int32]
    # Counters in device memory.
    counters: NDArray[np.int64]

    def select(self, start: int, stop: int) -> SplitStarts:
        """Return the starts of the items ``[start, stop)``."""
        first, last = np.searchsorted(self.items, (start, stop))
        return SplitStarts(*(value[first:last] for value in vars(self).values()))


_NONE_32, _NONE_64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
NO_STARTS = SplitStarts(_NONE_64, _NONE_32, _NONE_32, _NONE_32, _NONE_64)


@dataclass(frozen=True, eq=False)
class StartCosts:
    """Work of a block for each item, in wedges counted in a table: uint64, device; their sum and maximum."""

    of_items: Any
    total: int
    most: int
    at_hubs: int  # wedges that the bit matrix counts


def measure_costs(
    device: Device,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    per: Granularity = "total",
) -> StartCosts:
    """Return the costs of the items, at least one."""
    of_entry = np.int64(hub_cost(tuning, per) * (graph.hub_columns // tuning.tile_columns))
    costs, found = device.xp.empty(items.size, dtype=np.uint64), device.xp.zeros(3, dtype=np.uint64)
    launch_over(
        device, device.load("wedge_order", {}), "item_costs", items.size, items, np.int32(items.size), graph.degree,
        graph.wedges, graph.hub_wedges, uses_hubs, of_entry, costs, found,
    )  # fmt: skip
    return StartCosts(costs, *(int(value) for value in device.to_host(found)))


def choose_split_starts(
    device: Device,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    costs: StartCosts,
) -> SplitStarts:
    """Choose the starts that would finish after all others, and clear their ``uses_hubs``.

    Takes starts in item order while their counters fit ``split_bytes``.
    """
    xp = device.xp
    least = max(tuning.split_least, costs.total // (tuning.split_share * device.sm_count))
    if costs.most < least:
        return NO_STARTS
    at = xp.nonzero(costs.of_items >= np.uint64(least))[0]
    rows = items[at]
    preceding, n_u = graph.ranks
    ranks = preceding[rows] if n_u < 0 else rows - (rows >= n_u) * n_u
    wedges, degree, counters = (
        device.to_host(values).astype(np.int64) for values in (graph.wedges[rows], graph.degree[rows], ranks)
    )
    counters *= graph.counting.kinds
    kept = np.cumsum(counters) <= tuning.split_bytes // 4
    at, rows = device.to_host(at)[kept], device.to_host(rows)[kept]
    wedges, degree, counters = wedges[kept], degree[kept], counters[kept]
    uses_hubs[device.to_device(rows)] = 0
    # A chunk must repay its counters, which are added to the counters of the start one by one.
    chunk_work = np.maximum(tuning.split_least // 4, 8 * counters)
    entries = np.clip(degree * chunk_work // (wedges + degree), 1, degree)
    return SplitStarts(
        items=at.astype(np.int64),
        rows=rows,
        entries=entries.astype(np.int32),
        chunks=(-(-degree // entries)).astype(np.int32),
        counters=counters,
    )


def launch_split_starts(
    device: Device,
    tuning: WedgeTuning,
    module: Module,
    starts: SplitStarts,
    graph_arguments: tuple[Any, ...],
    gives: bool,
    results: tuple[Any, ...],
) -> Launch:
    """Return the launch that counts ``starts``. With ``gives`` a second one adds their motifs to vertices or edges."""
    xp = device.xp
    n_chunks = int(starts.chunks.sum())
    first_chunk = np.concatenate(([0], np.cumsum(starts.chunks))).astype(np.int32)
    counters_at = np.cumsum(starts.counters) - starts.counters
    start_of = np.repeat(np.arange(starts.rows.size, dtype=np.int32), starts.chunks)
    rows, start_of, first, entries, places = (
        device.to_device(values) for values in (starts.rows, start_of, first_chunk, starts.entries, counters_at)
    )
    counters = xp.zeros(int(starts.counters.sum()), dtype=np.uint32)
    arrived, taken = xp.zeros(starts.rows.size, dtype=np.int32), xp.zeros(2, dtype=np.int32)
    blocks = (min(n_chunks, tuning.blocks_per_sm * device.sm_count),)
    threads, table_bytes = tuning.split_threads, tuning.split_table_bytes
    chunks = (*graph_arguments, rows, start_of, np.int32(n_chunks), first, entries, places, counters)

    def launch(stream: int) -> None:
        module.get_function("butterfly_split")(
            blocks,
            (threads,),
            (*chunks, arrived, taken[:1], np.int32(table_bytes // 4), *results),
            shared_mem=table_bytes,
        )
        if gives:
            module.get_function("butterfly_split_give")(blocks, (threads,), (*chunks, taken[1:], *results))

    return launch
