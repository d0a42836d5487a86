"""Two ways to cut the starts of one layer: a grid of pair blocks, or groups with closures (bcpar).

A part of the grid is a pair of a start block and an end block. Pairs are ordered by end block, so that a worker keeps
the ends and moves the starts. Every end block costs one round of the starts after it: the larger the end blocks, the
fewer bytes move. Several shapes within the budget are filled with the real blocks; the one that moves least is chosen.

The closure of a group is every end that is adjacent to one of its middles and precedes one of its starts. Starts are
grouped chunk by chunk; a chunk consists of starts of consecutive ranks whose rows fit in host memory. The cost of a
middle is the number of its ends before the last start of the chunk, so chunks of hubs, which come first, have small
closures.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.partitioning import Ids, Ints
from papilio.partitioning.growth import CHUNKS_AT_ONCE, PricedRows, closure_cost, grow_groups, growth_bytes
from papilio.partitioning.rows import LayerRows, span_rows
from papilio.partitioning.wedge_blocks import LayerSurvey, build_starts, distinct_ranks, read_slab
from papilio.partitioning.wedge_loops import add_ends, grow_end_blocks, renumber
from papilio.parts import PartBytes

PART_OVERHEAD_BYTES = 32 << 20
"""Overhead of a part besides its bytes, in bytes: dispatch and set-up take 8 to 40 ms on one H200 (216 parts of 40
million edges), the time in which storage delivers this much.
"""

_START_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Shares of a part's room tried for start blocks, besides the shares that follow from the graph."""

_ROUNDING = 1e-9
"""Relative error of sums of block bytes."""


@dataclass(frozen=True)
class BlockBytes:
    """Bytes of blocks, as stored and moved."""

    start: int  # bytes of a start, and of each of its middles
    start_entry: int
    end: int  # bytes of an end, of a middle, and of an entry of both
    middle: int
    end_entry: int

    def of_starts(self, starts: Ints, entries: Ints) -> Ints:
        """Return the bytes of start blocks with these numbers of starts and entries."""
        return self.start * starts + self.start_entry * entries + 8

    def of_ends(self, ends: Ints, middles: Ints, entries: Ints) -> Ints:
        """Return the bytes of end blocks with these numbers of ends, middles and entries."""
        return self.end * ends + self.middle * middles + self.end_entry * entries + 8


def raw_bytes(per: str) -> BlockBytes:
    """Return the bytes of the arrays of :class:`StartBlock` and :class:`EndBlock`."""
    entry = 12 if per == "edge" else 4
    return BlockBytes(24, entry, 8, 16, entry)


@dataclass(frozen=True)
class BlockBudget:
    """Limits of the blocks of a part."""

    part_bytes: PartBytes  # memory of a part on a worker
    limit_bytes: int  # maximum of ``part_bytes``
    sizes: BlockBytes  # bytes stored and moved
    block_bytes: int  # maximum stored bytes of a part's blocks: the capacity of the cutter
    slab_entries: int  # maximum number of entries read at a time, unless a row is longer
    host_bytes: int  # for all active chunks during grouping
    most_bytes: int | None = None  # grouping stops as soon as the groups cost more than this

    def tight_part(self) -> PartBytes:
        """Return prices by which a part within ``limit_bytes`` is also within ``block_bytes`` as stored.

        Each start, end or entry is priced by the limit whose larger share it takes, so the total slightly exceeds both.
        """
        part, sizes = self.part_bytes, self.sizes
        scale = (self.limit_bytes - part.fixed) / self.block_bytes
        return PartBytes(
            part.fixed,
            max(part.root, scale * sizes.start),
            max(part.root_entry, scale * sizes.start_entry),
            max(part.vertex, scale * sizes.middle),
            max(part.entry, scale * sizes.end_entry),
        )

    @property
    def room_bytes(self) -> int:
        """Bytes for the blocks of a part, minus one for rounding."""
        return self.limit_bytes - self.part_bytes.fixed - 1


@dataclass(frozen=True, eq=False)
class Grid:
    """Blocks of one layer and their pairs."""

    # (n_start_blocks + 1,): start block i holds ``survey.starts[start_cuts[i]:start_cuts[i + 1]]``
    start_cuts: Ints
    last_start: Ints  # (n_start_blocks,): rank of the last start of each block
    start_entries: Ints  # (n_start_blocks,)
    # (n_end_blocks,): rank of the first end of each block, and its number of ends, middles and entries
    first_end: Ints
    ends: Ints
    middles: Ints
    end_entries: Ints
    sizes: BlockBytes  # bytes of starts, ends and entries

    @property
    def starts(self) -> Ints:
        return np.diff(self.start_cuts)

    @property
    def first_partner(self) -> Ints:
        """For each end block, the first start block with a start after one of its ends; all later ones have one."""
        return np.searchsorted(self.last_start, self.first_end, side="right")

    @property
    def n_parts(self) -> int:
        """Number of pairs that can have wedges."""
        return int((self.last_start.size - self.first_partner).sum())

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield (start block, end block), by end block."""
        for j, first in enumerate(self.first_partner.tolist()):
            for i in range(first, self.last_start.size):
                yield i, j

    @property
    def start_bytes(self) -> Ints:
        return self.sizes.of_starts(self.starts, self.start_entries)

    @property
    def end_bytes(self) -> Ints:
        return self.sizes.of_ends(self.ends, self.middles, self.end_entries)

    @property
    def used_ends(self) -> int:
        """Number of end blocks in a pair; these are the first ones."""
        return int(np.searchsorted(self.first_partner, self.last_start.size))

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks that are in a pair, each counted once."""
        return int(self.start_bytes.sum()) + int(self.end_bytes[: self.used_ends].sum())

    @property
    def moved_bytes(self) -> int:
        """Bytes that one worker moves: every end block once, and for each the start blocks paired with it."""
        from_block = np.concatenate((np.cumsum(self.start_bytes[::-1])[::-1], [0]))
        return int(self.end_bytes[: self.used_ends].sum() + from_block[self.first_partner].sum())

    @property
    def cost_bytes(self) -> int:
        """Bytes moved, plus the overhead of the parts."""
        return self.moved_bytes + PART_OVERHEAD_BYTES * self.n_parts


def choose_grid(survey: LayerSurvey, budget: BlockBudget, n_shapes: int, pool: Executor) -> Grid:
    """Find the block shape that moves the fewest bytes; shapes are filled in the threads of ``pool``.

    At most ``n_shapes``, at least 1, are tried; each takes 4 bytes per vertex of the other layer. Raises CapacityError,
    naming both and the least budget, if the largest start and the largest end do not fit together.
    """
    if not survey.starts.size:
        none = np.zeros(0, np.int64)
        return Grid(np.zeros(1, np.int64), none, none, none, none, none, none, budget.sizes)
    _require_room(survey, _LayerCosts.of(survey, budget.part_bytes), budget)
    part = budget.tight_part()
    costs = _LayerCosts.of(survey, part)
    if costs.least > budget.room_bytes:
        raise CapacityError(
            f"the cutter has {budget.block_bytes:,} bytes of host memory for the blocks of a part, but the largest "
            f"rows of layer {survey.rows.own.layer.upper()} take more"
        )
    shares = costs.start_shares(budget.room_bytes, n_shapes)
    return min(_fill(survey, part, costs, budget, shares, pool), key=lambda grid: grid.cost_bytes)


@dataclass(frozen=True, eq=False)
class _LayerCosts:
    """Bytes of a part for every start and end: ``starts`` by place in ``survey.starts``, ends by rank."""

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    all_ends: float

    @classmethod
    def of(cls, survey: LayerSurvey, part: PartBytes) -> _LayerCosts:
        own = survey.rows.own
        entries = own.end_entries(0, own.n_rows)
        all_vertices = int(np.count_nonzero(entries)) + survey.n_middles
        return cls(
            part.root + part.root_entry * survey.useful[survey.starts].astype(np.float64),
            np.where(entries > 0, part.vertex * (1 + entries) + part.entry * entries, 0.0),
            part.vertex * all_vertices + part.entry * int(entries.sum()),
        )

    @property
    def least(self) -> float:
        return float(self.starts.max() + self.ends.max())

    def start_shares(self, room: float, n_shapes: int) -> list[float]:
        """Return the possible bytes of start blocks, largest first; ends get the remaining room."""
        least = max(float(self.starts.max()), 1.0)
        if self.all_ends + least < (1 - _ROUNDING) * room:
            # One block of all ends. Both kinds of blocks share the spare bytes, as sums of floats may round up.
            spare = max(room - self.all_ends - float(self.starts.sum()), _ROUNDING * room)
            return [room - self.all_ends - spare / 2]
        wanted = [float(self.starts.sum()), *(share * room for share in _START_SHARES), least]
        most = room - max(float(self.ends.max()), 1.0)
        return sorted({min(max(share, least), most) for share in wanted}, reverse=True)[-n_shapes:]


def _require_room(survey: LayerSurvey, costs: _LayerCosts, budget: BlockBudget) -> None:
    own = survey.rows.own
    start, end = int(survey.starts[np.argmax(costs.starts)]), int(np.argmax(costs.ends))
    n_start, n_end = int(survey.useful[start]), int(own.end_entries(end, end + 1)[0])
    needed = budget.part_bytes.fixed + math.ceil(costs.least) + 1
    layer = own.layer.upper()
    if needed > budget.limit_bytes:
        raise CapacityError(
            f"a part may take {budget.limit_bytes:,} bytes; vertex {own.order[start]} of layer {layer}, a "
            f"start with {n_start:,} middles, and vertex {own.order[end]}, an end of {n_end:,}, take {needed:,} "
            "as a part"
        )


def _fill(
    survey: LayerSurvey,
    part: PartBytes,
    costs: _LayerCosts,
    budget: BlockBudget,
    shares: list[float],
    pool: Executor,
) -> list[Grid]:
    """Fill start blocks of each share of the room, and end blocks with the remainder; one pass over the rows."""
    rows = survey.rows
    limits = [(part.vertex, part.entry, budget.room_bytes - share) for share in shares]
    stamps = [np.full(rows.other.n_rows, -1, np.int32) for _ in shares]
    states = [np.zeros(5, np.int64) for _ in shares]
    closed: list[list[Ints]] = [[] for _ in shares]
    for first, stop in span_rows(rows.own.indptr, 0, rows.own.n_rows, budget.slab_entries):
        slab = read_slab(rows.own, first, stop)
        tasks = [
            pool.submit(grow_end_blocks, slab, *limit, stamp, state)
            for limit, stamp, state in zip(limits, stamps, states, strict=True)
        ]
        for blocks, task in zip(closed, tasks, strict=True):
            blocks.append(task.result())
    entries = survey.useful[survey.starts].astype(np.int64)
    grids = []
    for share, blocks, state in zip(shares, closed, states, strict=True):
        cuts = _cut(costs.starts, share)
        last = survey.starts[cuts[1:] - 1].astype(np.int64)
        first, ends, middles, end_entries = np.ascontiguousarray(np.concatenate([*blocks, state[None, 1:]]).T)
        start_entries = np.add.reduceat(entries, cuts[:-1])
        grids.append(Grid(cuts, last, start_entries, first, ends, middles, end_entries, budget.sizes))
    return grids


def _cut(taken: NDArray[np.float64], limit: float) -> Ints:
    """Cut a sequence into blocks of at most ``limit``, each as long as possible; no single item exceeds the limit."""
    before = np.concatenate(([0.0], np.cumsum(taken)))
    cuts = [0]
    while cuts[-1] < taken.size:
        last = int(np.searchsorted(before, before[cuts[-1]] + limit, side="right")) - 1
        cuts.append(max(last, cuts[-1] + 1))
    return np.array(cuts, np.int64)


_TRIAL_CHUNKS, _TRIAL_GROUPS, _TRIAL_ENTRIES = 16, 4, 1 << 20
"""If grouping may be given up, a sixteenth of the entries is grouped at a time, provided that this makes four groups
and a million entries.
"""


@dataclass(frozen=True, eq=False)
class Groups:
    """Starts of a layer by group."""

    starts: Ids  # (n_starts,): ranks of the first group, ascending, then of the next group, and so on
    cuts: Ints  # (n_groups + 1,): offset of each group
    nbytes: Ints  # (n_groups,): upper bound of the stored bytes of each group's blocks
    complete: bool  # whether all starts have a group

    @property
    def n_parts(self) -> int:
        return int(self.nbytes.size)

    @property
    def moved_bytes(self) -> int:
        """Upper bound of the bytes of all blocks; each is moved once."""
        return int(self.nbytes.sum())

    @property
    def cost_bytes(self) -> int:
        return self.moved_bytes + PART_OVERHEAD_BYTES * self.n_parts


class _Chunk(NamedTuple):
    """Rows of starts, with the middles renumbered, and the number of ends of each middle so far."""

    starts: Ids
    indptr: Ints
    columns: Ids
    n_ends: Ints
    distinct_ends: int


def group_starts(survey: LayerSurvey, budget: BlockBudget, pool: Executor) -> Groups:
    """Group the starts of a layer; incomplete if the groups would cost more than ``budget.most_bytes``.

    Raises CapacityError if a start with its closure does not fit in a part (the message names the start), or a chunk of
    one start does not fit in host memory.
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


def _read_chunks(survey: LayerSurvey, budget: BlockBudget) -> Iterator[_Chunk]:
    """Yield chunks of starts in ascending order of rank, each within its share of the memory."""
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


def _chunk_bounds(survey: LayerSurvey, budget: BlockBudget) -> Iterator[tuple[int, int]]:
    """Yield ranges of ``survey.starts``, one per chunk; a single range if everything fits."""
    per_start, per_entry = growth_bytes(1, 0, 0) + 32, growth_bytes(0, 0, 1) + 8
    columns = growth_bytes(0, survey.n_middles, 0)
    lengths = survey.useful[survey.starts].astype(np.int64)
    whole = columns + per_start * lengths.size + per_entry * int(lengths.sum())
    share = whole if whole <= budget.host_bytes else budget.host_bytes // CHUNKS_AT_ONCE
    if budget.most_bytes is not None:
        entry_bytes = budget.part_bytes.root_entry + budget.part_bytes.entry + 1
        entries = max(
            _TRIAL_ENTRIES,
            int(lengths.sum()) // _TRIAL_CHUNKS,
            int(_TRIAL_GROUPS * budget.limit_bytes / entry_bytes),
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


def _group_chunk(own: LayerRows, chunk: _Chunk, budget: BlockBudget) -> tuple[Ids, Ints]:
    """Return the group of each start of a chunk, and an upper bound of each group's stored bytes."""
    sizes = budget.sizes
    part, room = budget.tight_part(), budget.room_bytes
    lengths = np.diff(chunk.indptr)
    root_bytes = np.ceil(part.root + part.root_entry * lengths).astype(np.int64)
    # Either an end for every entry, or all ends of the chunk, reserved in advance.
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
            f"{budget.block_bytes:,} bytes of host memory for cutting it): allow more memory per part, or use "
            f"pair_blocks"
        )
    groups = grow_groups(priced, room - kept_back)
    stored = sizes.middle + sizes.end_entry * chunk.n_ends
    starts = sizes.start + sizes.start_entry * lengths
    costs = closure_cost(PricedRows(chunk.indptr, chunk.columns, stored, starts), groups)
    counted = PricedRows(chunk.indptr, chunk.columns, chunk.n_ends, np.zeros_like(lengths))
    ends = closure_cost(counted, groups)
    return groups, costs + sizes.end * np.minimum(ends, chunk.distinct_ends) + 16
