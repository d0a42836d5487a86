"""Starts of one layer in groups with closures of their own: bcpar.

The closure of a group is every end that precedes one of its starts next to one of its middles. Starts are grouped
chunk by chunk, a chunk being starts of consecutive ranks whose rows fit host memory. A middle costs a group what it
has of ends before the last start of the chunk, so that chunks of hubs, which come first, have small closures.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from papilio.errors import CapacityError
from papilio.partitioning.arrays import Ids, Ints
from papilio.partitioning.growth import PricedRows, closure_cost, grow_groups, growth_bytes
from papilio.partitioning.growth_chunks import CHUNKS_AT_ONCE
from papilio.partitioning.layer_rows import LayerRows, span_rows
from papilio.partitioning.wedge_blocks import LayerSurvey, build_starts, distinct_ranks, read_slab
from papilio.partitioning.wedge_grid import PART_OVERHEAD_BYTES, BlockBudget
from papilio.partitioning.wedge_loops import add_ends, renumber

_TRIAL_CHUNKS, _TRIAL_GROUPS, _TRIAL_ENTRIES = 16, 4, 1 << 20
"""Where groups may be given up, a sixteenth of the entries at a time is grouped, if it makes four groups and a million
entries."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Starts of a layer by group."""

    starts: Ids  # (n_starts,): ranks: those of the first group, ascending, then those of the next, and so on
    cuts: Ints  # (n_groups + 1,): where each group begins
    nbytes: Ints  # (n_groups,): bytes of the blocks of each group as stored, at most
    complete: bool  # whether all starts have a group

    @property
    def n_parts(self) -> int:
        return int(self.nbytes.size)

    @property
    def moved_bytes(self) -> int:
        """Bytes of all blocks, at most: each is moved once."""
        return int(self.nbytes.sum())

    @property
    def cost_bytes(self) -> int:
        """Bytes moved, and what the parts cost besides."""
        return self.moved_bytes + PART_OVERHEAD_BYTES * self.n_parts


class _Chunk(NamedTuple):
    """Rows of starts by numbers of their own for the middles, and the ends of each middle so far."""

    starts: Ids
    indptr: Ints
    columns: Ids
    n_ends: Ints
    distinct_ends: int


@dataclass(frozen=True)
class GroupBudget(BlockBudget):
    """What groups may take, on a worker and while they are made."""

    host_bytes: int  # for all chunks at work
    most_bytes: int | None = None  # give up as soon as the groups cost more than this

    def entries_of_groups(self, n_groups: int) -> int:
        """Return how many entries of starts so many groups have at most."""
        return int(n_groups * self.limit_bytes / (self.part_bytes.root_entry + self.part_bytes.entry + 1))


def group_starts(survey: LayerSurvey, budget: GroupBudget, pool: Executor) -> Groups:
    """Group the starts of a layer; incomplete when the groups would cost more than ``budget.most_bytes``.

    CapacityError when a start with its closure does not fit a part, naming it; or a chunk of one start the host memory.
    """
    starts, counts, nbytes = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    running: deque[tuple[Ids, Future[tuple[Ids, Ints]]]] = deque()
    cost = 0

    def take() -> int:
        members, future = running.popleft()
        groups, found = future.result()
        starts.append(members[np.argsort(groups, kind="stable")])
        counts.append(np.bincount(groups, minlength=found.size))
        nbytes.append(found)
        return int(found.sum()) + PART_OVERHEAD_BYTES * found.size

    for chunk in _read_chunks(survey, budget):
        if len(running) == CHUNKS_AT_ONCE - 1:
            cost += take()
        running.append((chunk.starts, pool.submit(_group_chunk, survey.rows.own, chunk, budget)))
        if budget.most_bytes is not None and cost > budget.most_bytes:
            break
    while running:
        cost += take()
    complete = budget.most_bytes is None or cost <= budget.most_bytes
    cuts = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
    return Groups(np.concatenate(starts), cuts, np.concatenate(nbytes), complete)


def _read_chunks(survey: LayerSurvey, budget: GroupBudget) -> Iterator[_Chunk]:
    """Yield chunks of starts in rising order of rank, each within its share of the memory."""
    rows = survey.rows
    n_ends = np.zeros(rows.other.n_rows, np.int32)
    distinct, done = 0, 0
    for low, high in _chunk_bounds(survey, budget):
        starts = survey.starts[low:high]
        stop = int(starts[-1])
        for slab_rows in span_rows(rows.own.indptr, done, stop, budget.slab_entries):
            add_ends(read_slab(rows.own, *slab_rows), n_ends)
        distinct += int(np.count_nonzero(rows.own.end_entries(done, stop)))
        done = stop
        block = build_starts(survey, starts, budget.slab_entries, with_edges=False)
        middles, numbers = distinct_ranks(block.middles, rows.other.n_rows)
        renumber(block.middles, numbers)
        yield _Chunk(starts, block.indptr, block.middles, n_ends[middles].astype(np.int64), distinct)


def _chunk_bounds(survey: LayerSurvey, budget: GroupBudget) -> Iterator[tuple[int, int]]:
    """Yield ranges of ``survey.starts``: of one chunk each; all in one where that fits."""
    per_start, per_entry = growth_bytes(1, 0, 0) + 32, growth_bytes(0, 0, 1) + 8
    columns = growth_bytes(0, survey.n_middles, 0)
    lengths = survey.useful[survey.starts].astype(np.int64)
    whole = columns + per_start * lengths.size + per_entry * int(lengths.sum())
    share = whole if whole <= budget.host_bytes else budget.host_bytes // CHUNKS_AT_ONCE
    if budget.most_bytes is not None:
        entries = max(
            _TRIAL_ENTRIES, int(lengths.sum()) // _TRIAL_CHUNKS, budget.entries_of_groups(_TRIAL_GROUPS)
        )
        share = min(share, columns + (per_start + per_entry) * entries)
    if columns <= share // 2 or share == whole:
        share -= columns
    else:
        per_entry += growth_bytes(0, 1, 0)
    used = np.concatenate(([0], np.cumsum(per_start + per_entry * lengths)))
    low = 0
    while low < survey.starts.size:
        high = int(np.searchsorted(used, used[low] + share, side="right")) - 1
        if high == low:
            needed, own = CHUNKS_AT_ONCE * int(used[low + 1] - used[low]), survey.rows.own
            raise CapacityError(
                f"grouping the starts may take {budget.host_bytes:,} bytes of host memory; vertex "
                f"{own.order[survey.starts[low]]} of layer {own.layer.upper()} alone needs {needed:,}: raise "
                "the host memory, or use pair_blocks"
            )
        yield low, high
        low = high


def _group_chunk(own: LayerRows, chunk: _Chunk, budget: GroupBudget) -> tuple[Ids, Ints]:
    """Return the group of each start of a chunk, and the bytes of the blocks of each group, at most."""
    sizes = budget.sizes
    part, room = budget.tight_part(), budget.room_bytes
    lengths = np.diff(chunk.indptr)
    root_bytes = np.ceil(part.root + part.root_entry * lengths).astype(np.int64)
    # Either an end for every entry, or all ends of the chunk, which are kept back from the room.
    all_ends = math.ceil(part.vertex * chunk.distinct_ends)
    choices = []
    for kept_back, per_end in ((0, part.entry + part.vertex), (all_ends, part.entry)):
        column_bytes = np.ceil(part.vertex + per_end * chunk.n_ends).astype(np.int64)
        priced = PricedRows(chunk.indptr, chunk.columns, column_bytes, root_bytes)
        alone = priced.root_costs()
        worst = int(np.argmax(alone))
        choices.append((kept_back + int(alone[worst]), kept_back, worst, priced))
    fitting = [choice for choice in choices if choice[0] <= room and choice[1] <= room // 4]
    needed, kept_back, worst, priced = fitting[-1] if fitting else min(choices, key=lambda each: each[0])
    if needed > room:
        raise CapacityError(
            f"a part may take {budget.limit_bytes:,} bytes; vertex {own.order[chunk.starts[worst]]} of layer "
            f"{own.layer.upper()} with its closure needs up to {needed + part.fixed + 1:,} (with "
            f"{budget.block_bytes:,} bytes of host memory for cutting it): give parts more memory, or use pair_blocks"
        )
    groups = grow_groups(priced, room - kept_back)
    stored = sizes.middle + sizes.end_entry * chunk.n_ends
    starts = sizes.start + sizes.start_entry * lengths
    costs = closure_cost(PricedRows(chunk.indptr, chunk.columns, stored, starts), groups)
    counted = PricedRows(chunk.indptr, chunk.columns, chunk.n_ends, np.zeros_like(lengths))
    ends = closure_cost(counted, groups)
    return groups, costs + sizes.end * np.minimum(ends, chunk.distinct_ends) + 16
