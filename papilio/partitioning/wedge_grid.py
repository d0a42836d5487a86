"""The grid of pair blocks of one layer: how much of a part goes to its ends, and how much to its starts.

A pair of a start block and an end block is a part; pairs follow each other by end block, so that a worker keeps the
ends and moves the starts. Every end block costs one round of the starts after it: the larger the ends, the fewer
bytes move. Several shapes within the budget are filled with the real blocks, and the one that moves least is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.partitioning.arrays import Ints
from papilio.partitioning.layer_rows import span_rows
from papilio.partitioning.wedge_blocks import LayerSurvey, read_slab
from papilio.partitioning.wedge_loops import grow_end_blocks
from papilio.parts import PartBytes

PART_OVERHEAD_BYTES = 32 << 20
"""What a part costs besides its bytes, in bytes: to hand it out and set it up takes 8 to 40 ms on one H200 (216 parts
of 40 million edges), in which storage gives as much."""

_START_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Shares of the room of a part that start blocks are tried with, besides those that follow from the graph."""

_ROUNDING = 1e-9
"""Share of a room within which sums of what blocks take may differ."""


@dataclass(frozen=True)
class BlockBytes:
    """What blocks take as they are stored and moved, in bytes."""

    start: int  # for a start and for each of its middles
    start_entry: int
    end: int  # for an end, a middle, and an entry of both
    middle: int
    end_entry: int

    def of_starts(self, starts: Ints, entries: Ints) -> Ints:
        """Return the bytes of start blocks with so many starts and entries."""
        return self.start * starts + self.start_entry * entries + 8

    def of_ends(self, ends: Ints, middles: Ints, entries: Ints) -> Ints:
        """Return the bytes of end blocks with so many ends, middles and entries."""
        return self.end * ends + self.middle * middles + self.end_entry * entries + 8


def raw_bytes(per: str) -> BlockBytes:
    """Return the bytes of the arrays of :class:`StartBlock` and :class:`EndBlock`."""
    entry = 12 if per == "edge" else 4
    return BlockBytes(24, entry, 8, 16, entry)


@dataclass(frozen=True)
class BlockBudget:
    """What the blocks of a part may take."""

    part_bytes: PartBytes  # what a part takes on a worker
    limit_bytes: int  # and may take
    sizes: BlockBytes  # what is stored and moved
    block_bytes: int  # most bytes of the blocks of a part as stored: what the cutter can hold
    slab_entries: int  # entries that are read at a time, where no row has more

    def tight_part(self) -> PartBytes:
        """Return what a part takes so that one within ``limit_bytes`` is also within ``block_bytes`` as stored.

        Of the two limits the one that a start, end or entry takes more of counts, which is a little above both.
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
        """Bytes for the blocks of a part; one is kept back for rounding."""
        return self.limit_bytes - self.part_bytes.fixed - 1


@dataclass(frozen=True, eq=False)
class Grid:
    """Blocks of one layer and their pairs."""

    # (n_start_blocks + 1,): start block i holds ``survey.starts[start_cuts[i]:start_cuts[i + 1]]``
    start_cuts: Ints
    last_start: Ints  # (n_start_blocks,): rank of the last start of each block
    start_entries: Ints  # (n_start_blocks,)
    # (n_end_blocks,): rank of the first end of each block, and how many ends, middles and entries it has
    first_end: Ints
    ends: Ints
    middles: Ints
    end_entries: Ints
    sizes: BlockBytes  # what all these take

    @property
    def starts(self) -> Ints:
        return np.diff(self.start_cuts)

    @property
    def first_partner(self) -> Ints:
        """For each end block the first start block with a start after an end of it; all later ones have some too."""
        return np.searchsorted(self.last_start, self.first_end, side="right")

    @property
    def n_parts(self) -> int:
        """Pairs that can have wedges."""
        return int((self.last_start.size - self.first_partner).sum())

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield (start block, end block), those of one end block after each other."""
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
        """End blocks, the first ones, that are in a pair."""
        return int(np.searchsorted(self.first_partner, self.last_start.size))

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks that are in a pair, each once."""
        return int(self.start_bytes.sum()) + int(self.end_bytes[: self.used_ends].sum())

    @property
    def moved_bytes(self) -> int:
        """Bytes that one worker moves: every end block once, and for each the start blocks that it meets."""
        from_block = np.concatenate((np.cumsum(self.start_bytes[::-1])[::-1], [0]))
        return int(self.end_bytes[: self.used_ends].sum() + from_block[self.first_partner].sum())

    @property
    def cost_bytes(self) -> int:
        """Bytes moved, and what the parts cost besides."""
        return self.moved_bytes + PART_OVERHEAD_BYTES * self.n_parts


def choose_grid(survey: LayerSurvey, budget: BlockBudget, n_shapes: int, pool: Executor) -> Grid:
    """Find the shape of the blocks that moves least bytes; shapes are filled in the threads of ``pool``.

    At most ``n_shapes``, at least 1, are tried; each takes 4 bytes per vertex of the other layer. CapacityError when
    the largest start and the largest end do not fit together; names them and the least budget.
    """
    if not survey.starts.size:
        none = np.zeros(0, np.int64)
        return Grid(np.zeros(1, np.int64), none, none, none, none, none, none, budget.sizes)
    _require_room(survey, _LayerCosts.of(survey, budget.part_bytes), budget)
    part = budget.tight_part()
    costs = _LayerCosts.of(survey, part)
    if costs.least > budget.room_bytes:
        raise CapacityError(
            f"the cutter has {budget.block_bytes:,} bytes of host memory for the blocks of a part, and the largest "
            f"rows of layer {survey.rows.own.layer.upper()} take more"
        )
    shares = costs.start_shares(budget.room_bytes, n_shapes)
    return min(_fill(survey, part, costs, budget, shares, pool), key=lambda grid: grid.cost_bytes)


@dataclass(frozen=True, eq=False)
class _LayerCosts:
    """What every start and end takes of a part, in bytes: ``starts`` by place in ``survey.starts``, ends by rank."""

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
        """Bytes of the largest start and the largest end."""
        return float(self.starts.max() + self.ends.max())

    def start_shares(self, room: float, n_shapes: int) -> list[float]:
        """Return the bytes that start blocks may take, largest first; the ends get the rest."""
        least = max(float(self.starts.max()), 1.0)
        if self.all_ends + least < (1 - _ROUNDING) * room:
            # One block of all ends. What is left over is for both kinds of blocks, as sums of floats may round up.
            spare = max(room - self.all_ends - float(self.starts.sum()), _ROUNDING * room)
            return [room - self.all_ends - spare / 2]
        wanted = [float(self.starts.sum()), *(share * room for share in _START_SHARES), least]
        most = room - max(float(self.ends.max()), 1.0)
        return sorted({min(max(share, least), most) for share in wanted}, reverse=True)[-n_shapes:]


def _require_room(survey: LayerSurvey, costs: _LayerCosts, budget: BlockBudget) -> None:
    """Refuse a budget that the largest start and the largest end pass."""
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
    """Fill start blocks of each share of the room, and end blocks with the rest: one pass over the rows for all."""
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
    """Cut a row of things into blocks that take at most ``limit``, each as long as can be; no thing takes more."""
    before = np.concatenate(([0.0], np.cumsum(taken)))
    cuts = [0]
    while cuts[-1] < taken.size:
        last = int(np.searchsorted(before, before[cuts[-1]] + limit, side="right")) - 1
        cuts.append(max(last, cuts[-1] + 1))
    return np.array(cuts, np.int64)
