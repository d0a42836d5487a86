"""Which work items of the wedge engine come first, and which kernel of ``butterfly.cu`` counts each.

The total of a start is the sum over its ends u of C(c(u, w), 2), so ends can be counted by different schedules
as long as each end has one: ends among the hub columns go through the bit matrix (when the start has enough of
them, and only a total is asked for), all others through a counter table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.bounds import MAX_START_COUNT
from papilio.kernels.device.constants import (
    BLOCK_PLANES,
    CENSUS_SLOT_WORDS,
    CENSUS_THREADS,
    DENSE_8_BELOW,
    DENSE_16_BELOW,
    LARGE_PLANES,
)
from papilio.kernels.tuning import TableClass, WedgeTuning
from papilio.kernels.wedge.gpu_graph import Counting, WedgeGraph
from papilio.kernels.wedge.gpu_part import WedgePartGraph

SCHEDULE_SHIFT = np.uint64(32)
LOW_MASK = np.uint64(0xFFFFFFFF)
_BIT_MATRIX_DEGREE = 1 << LARGE_PLANES
"""Degrees from which the planes of the bit matrix would not do."""

_DENSE_BITS = ((DENSE_8_BELOW, 8), (DENSE_16_BELOW, 16), (1 << 31, 32))
"""Counter width of the dense schedule by the degree of the start: (degree below, bits)."""


@dataclass(frozen=True)
class Schedule:
    """A kernel, how it is launched, and its argument after the items, if any."""

    kernel: str
    threads: int
    shared_bytes: int
    argument: int | None


def mark_hub_starts(
    tuning: WedgeTuning, graph: WedgeGraph | WedgePartGraph, items: Any, uses_hubs: Any
) -> None:
    """Mark the starts whose hub wedges repay reading a row of the bit matrix for each of their entries."""
    degree = graph.degree[items].astype(np.int64)
    least = tuning.hub_min_wedges * graph.counting.signs
    repaid = graph.hub_wedges[items].astype(np.int64) >= least * degree
    uses_hubs[items] = repaid & (degree < _BIT_MATRIX_DEGREE) & (graph.wedges[items] > 0)


def schedule_items(
    xp: Any,
    tuning: WedgeTuning,
    graph: WedgeGraph | WedgePartGraph,
    items: Any,
    uses_hubs: Any,
    first: int,
) -> Any:
    """Give each item its schedule for the hub columns, if any, and for the other ends, if any.

    Return the entries of ``PreparedButterflyGpu.scheduled``, in no order, of items numbered from ``first`` on.
    """
    degree = graph.degree[items].astype(np.int64)
    rank = graph.ranks_of(items).astype(np.int64)
    by_hubs = uses_hubs[items] != 0
    far = graph.wedges[items].astype(np.int64) - xp.where(
        by_hubs, graph.hub_wedges[items].astype(np.int64), 0
    )
    ends = graph.counting.kinds * (rank - xp.where(by_hubs, 1024 * tuning.hub_words, 0))

    table_bytes = xp.zeros(items.size, dtype=np.int64)
    for below, bits in reversed(_DENSE_BITS):
        table_bytes = xp.where(degree < below, (ends * bits + 7) // 8, table_bytes)
    fits = [
        (far <= tuning.match_max_wedges) & (degree <= 32),
        *(
            (far <= table.max_wedges) & ((table.kernel == "hash") | (table_bytes <= table.table_bytes))
            for table in tuning.tables
        ),
    ]
    fits[-1] = xp.ones(items.size, dtype=bool)
    table_class = xp.argmax(xp.stack(fits), axis=0).astype(np.uint64)

    hub_class = len(fits) + (degree < tuning.large_degree).astype(np.uint64)
    hub_class += (degree < tuning.block_degree).astype(np.uint64)

    index = xp.arange(first, first + items.size, dtype=np.uint64)
    return xp.concatenate(
        (
            ((table_class << SCHEDULE_SHIFT) | index)[far > 0],
            ((hub_class.astype(np.uint64) << SCHEDULE_SHIFT) | index)[by_hubs],
        )
    )


def make_schedules(tuning: WedgeTuning, counting: Counting) -> tuple[Schedule, ...]:
    """Return the schedules: the tables, in the order in which they are tried, then those of the hub columns."""
    row_bytes = 128 * tuning.hub_words
    large, block = tuning.large_threads, tuning.block_threads
    return (
        Schedule("butterfly_match", 256, 0, tuning.warp_items),
        *(_table_schedule(table, counting) for table in tuning.tables),
        Schedule("butterfly_hubs_large", large, large // 64 * LARGE_PLANES * row_bytes, None),
        Schedule("butterfly_hubs_block", block, block // 64 * BLOCK_PLANES * row_bytes, None),
        Schedule("butterfly_hubs_warp", 256, 0, tuning.warp_items),
    )


def _table_schedule(table: TableClass, counting: Counting) -> Schedule:
    if table.kernel == "hash":
        slots = table.table_bytes // 8
        slot_bytes = 4 * CENSUS_SLOT_WORDS if counting.kinds == 4 else 8
        return Schedule("butterfly_hash", table.threads, slots * slot_bytes, slots.bit_length() - 1)
    threads = min(table.threads, CENSUS_THREADS) if counting.kinds == 4 else table.threads
    return Schedule("butterfly_dense", threads, table.table_bytes, table.table_bytes // 4)


def order_items(xp: Any, graph: WedgeGraph) -> tuple[Any, Any]:
    """Return (start rows, wedges) of the work items: wedges falling, then priority."""
    rows = xp.nonzero((graph.degree >= 2) & (graph.wedges > 0))[0]
    wedges, priority = graph.wedges[rows], graph.priority[rows].astype(np.uint64)
    row_at = xp.empty(graph.n_rows, dtype=np.int32)
    row_at[graph.priority] = xp.arange(graph.n_rows, dtype=np.int32)
    rows = row_at[order_falling(xp, wedges, priority)]
    return rows, graph.wedges[rows]


def order_falling(xp: Any, costs: Any, ties: Any) -> Any:
    """Return ``ties``, distinct and below 2^32, in the order of falling costs and then their own; as int64."""
    if costs.size and int(costs.max()) > 0xFFFFFFFF:
        order = xp.lexsort(xp.stack((ties, np.uint64(2**64 - 1) - costs)))
        return ties[order].astype(np.int64)
    keys = ((LOW_MASK - costs) << SCHEDULE_SHIFT) | ties
    keys.sort()
    return (keys & LOW_MASK).astype(np.int64)


def check_start_bound(xp: Any, wedges: Any, degree: Any) -> None:
    """Refuse a graph on which the butterflies of one start could pass the 64 bits of one sum.

    A start meets each end at most ``degree`` times, so it owns at most ``wedges * (degree - 1) / 2``.
    """
    if int(wedges.max()) * int(degree.max()) <= 2 * MAX_START_COUNT:
        return
    allowed = np.uint64(2 * MAX_START_COUNT) // xp.maximum(degree, 1).astype(np.uint64)
    if bool((wedges > allowed).any()):
        raise CapacityError(
            f"one vertex could own more than {MAX_START_COUNT} butterflies; the gpu engine adds them in 64 bits"
        )
