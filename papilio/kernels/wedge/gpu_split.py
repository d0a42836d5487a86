"""Starts that blocks share: which they are, how they are cut, and the launches of ``butterfly_split.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.protocol import Device, Launch, Module, launch_over
from papilio.kernels.tuning import WedgeTuning
from papilio.kernels.wedge.gpu_graph import WedgeGraph
from papilio.kernels.wedge.gpu_part import WedgePartGraph


@dataclass(frozen=True, eq=False)
class SplitStarts:
    """Starts whose chunks are counted by blocks of their own; all arrays on the host, shape (n_starts,)."""

    # Work item, ascending, and its start row.
    items: NDArray[np.int64]
    rows: NDArray[np.int32]
    # Most entries of a chunk, and chunks.
    entries: NDArray[np.int32]
    chunks: NDArray[np.int32]
    # Counters in device memory.
    counters: NDArray[np.int64]

    def select(self, start: int, stop: int) -> SplitStarts:
        """Return those of the items ``[start, stop)``."""
        first, last = np.searchsorted(self.items, (start, stop))
        return SplitStarts(*(value[first:last] for value in vars(self).values()))


_NONE_32, _NONE_64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
NO_STARTS = SplitStarts(_NONE_64, _NONE_32, _NONE_32, _NONE_32, _NONE_64)


@dataclass(frozen=True, eq=False)
class Costs:
    """What a block does for each item, in wedges that it counts in a table: uint64, device; their sum and the most."""

    of_items: Any
    total: int
    most: int
    at_hubs: int  # wedges that the bit matrix counts


def measure_costs(
    device: Device, tuning: WedgeTuning, graph: WedgeGraph | WedgePartGraph, items: Any, uses_hubs: Any
) -> Costs:
    """Return the costs of the items, of which there is at least one."""
    costs, found = device.xp.empty(items.size, dtype=np.uint64), device.xp.zeros(3, dtype=np.uint64)
    launch_over(
        device, device.load("wedge_order", {}), "item_costs", items.size, items, np.int32(items.size), graph.degree,
        graph.wedges, graph.hub_wedges, uses_hubs, np.int64(tuning.hub_min_wedges), costs, found,
    )  # fmt: skip
    return Costs(costs, *(int(value) for value in device.to_host(found)))


def choose_split_starts(
    device: Device,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    costs: Costs,
) -> SplitStarts:
    """Choose the starts that would still be counted when all others are; clear ``uses_hubs`` of them.

    Those are taken, in the order of the items, whose counters fit ``split_bytes``.
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
    # A chunk is worth its counters, which are added to those of the start one by one.
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
    results: tuple[Any, Any],
) -> Launch:
    """Return the launch that counts ``starts``; with ``gives`` a second one gives vertices or edges their motifs."""
    xp = device.xp
    n_chunks = int(starts.chunks.sum())
    first_chunk = np.concatenate(([0], np.cumsum(starts.chunks))).astype(np.int32)
    counters_at = np.cumsum(starts.counters) - starts.counters
    start_of = np.repeat(np.arange(starts.rows.size, dtype=np.int32), starts.chunks)
    rows, start_of, first, entries, places = (
        device.to_device(values)
        for values in (starts.rows, start_of, first_chunk, starts.entries, counters_at)
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
