"""Which strategy cuts the wedges of a graph: what each would store and move, in bytes, before a part is written."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from papilio.errors import CapacityError
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.growth_chunks import CHUNKS_AT_ONCE
from papilio.partitioning.store import Decisions
from papilio.partitioning.wedge_blocks import LayerSurvey
from papilio.partitioning.wedge_grid import BlockBudget, Grid, choose_grid, raw_bytes
from papilio.partitioning.wedge_groups import GroupBudget, Groups, group_starts

_SURVEY_BYTES = 12
"""Host memory per vertex of a survey: first end, useful middles, and its rank among the starts."""

_PLAN_BYTES = 64
"""Host memory per vertex of a layer while its grid is laid out: costs, entries, and sums of these."""

TURNED_COPIES, GATHERED_COPIES = 1.5, 2.5
"""Bytes at a time for each byte of a block that is put together in place, with a cursor for each middle, or from
pieces."""

_WRITTEN_COPIES, _WRITTEN_BYTES = 2, 128 << 20
"""Bytes for each byte of a block on its way to a file, and most of them: some row groups of two million rows."""

_MAX_SLAB_ENTRIES = 1 << 20
"""Entries that are read at a time, at most: 4 MiB, and 8 MiB more with edge ids."""

_MAX_SHAPES = 6
"""Shapes of a grid that are tried at most: starts get a share of a part, room for all of them, or for the largest."""

_GROWN_ENTRIES_PER_S = 2.0e6
"""Entries of starts that one thread groups in a second where groups share little: a visit of an entry takes 0.1 to
0.3 microseconds, and an entry is visited once for each group that has its middle."""

_MOVED_BYTES_PER_S = 2.0e9
"""Bytes that a worker reads and copies to its device in a second."""

_RUNS = 10
"""Runs that a partition is made for."""


@dataclass(frozen=True)
class CutterMemory:
    """How the host memory of a cut is shared."""

    room_bytes: int  # for everything but the arrays by vertex that stay
    slab_entries: int  # entries that are read at a time, where no row has more
    slab_bytes: int  # of reading and sorting out so many
    vertex_bytes: int  # of arrays by vertex that building any block needs

    def block_bytes(self, copies: float) -> int:
        """Return the most bytes of a block as stored, where building it takes ``copies`` of it."""
        room = self.room_bytes - self.of_block(0)
        return int(max(room / (copies + _WRITTEN_COPIES), (room - _WRITTEN_BYTES) / copies))

    def of_block(self, nbytes: int, copies: float = 0, threads: int = 1) -> int:
        """Return the bytes that building a block of ``nbytes`` in so many threads and writing it takes."""
        written = min(_WRITTEN_COPIES * nbytes, _WRITTEN_BYTES)
        return self.vertex_bytes + threads * self.slab_bytes + int(copies * nbytes) + written


def share_memory(n_u: int, n_v: int, held_bytes: int, request: CutRequest) -> CutterMemory:
    """Share the host memory of a cut, where the rows of so many vertices keep ``held_bytes`` of arrays in memory.

    CapacityError when the arrays by vertex leave no room.
    """
    held = held_bytes + _SURVEY_BYTES * (n_u + n_v)
    room = (request.host_bytes - held) * 7 // 8  # allocators keep some of what is free
    planning = _PLAN_BYTES * max(n_u, n_v) + 4 * max(n_u, n_v)
    read = 12 if request.per == "edge" else 4
    slab = min(_MAX_SLAB_ENTRIES, max(1024, room // (16 * request.threads * read)))
    memory = CutterMemory(room, slab, 2 * read * slab, 4 * max(n_u, n_v))
    least = max(planning, memory.of_block(0)) + 1024
    if room < least:
        raise CapacityError(
            f"cutting may take {request.host_bytes:,} bytes of host memory; the arrays of {n_u + n_v:,} vertices alone "
            f"take {held + least * 8 // 7 + 1:,}"
        )
    return memory


@dataclass(frozen=True, eq=False)
class CutPlan:
    """What is to be cut."""

    strategy: str
    reason: str
    decisions: Decisions  # what was decided on the way, and why
    layers: tuple[Grid | Groups, ...]  # one for each layer


def plan_cut(
    layers: tuple[LayerSurvey, ...], request: CutRequest, memory: CutterMemory, pool: Executor
) -> CutPlan:
    """Choose the strategy that moves fewer bytes, or plan the one that is asked for.

    CapacityError when no part within the limit can be cut by the strategy, or by any.
    """
    return _Planner(layers, request, memory, pool).plan()


@dataclass(frozen=True, eq=False)
class _Planner:
    layers: tuple[LayerSurvey, ...]
    request: CutRequest
    memory: CutterMemory
    pool: Executor

    def plan(self) -> CutPlan:
        strategy = self.request.strategy
        if strategy == "bcpar":
            groups = tuple(map(self._group, self.layers))
            return CutPlan("bcpar", f"asked for: {_tell('bcpar', groups)}", (), groups)
        try:
            grids = tuple(map(self._lay_out, self.layers))
        except CapacityError as error:
            if strategy == "pair_blocks":
                raise
            return self._plan_groups_alone(error)
        decisions = self._tell_grids(grids)
        told = _tell("pair_blocks", grids)
        if strategy == "pair_blocks":
            return CutPlan("pair_blocks", f"asked for: {told}", decisions, grids)
        if all(grid.moved_bytes == grid.stored_bytes for grid in grids):
            return CutPlan("pair_blocks", f"no block is moved twice: {told}", decisions, grids)
        no_try = self._tell_effort(grids)
        if no_try:
            decisions = (*decisions, ("no bcpar", no_try))
            return CutPlan("pair_blocks", f"bcpar is not tried: {told}", decisions, grids)
        return self._compare(grids, decisions)

    def _tell_grids(self, grids: tuple[Grid, ...]) -> Decisions:
        both = zip(self.layers, grids, strict=True)
        decisions = tuple(_tell_grid(layer.rows.own.layer, grid) for layer, grid in both if grid.n_parts)
        budget = self._budget(TURNED_COPIES)
        if budget.tight_part() == self.request.part_bytes:
            return decisions
        most, host = f"{budget.block_bytes:,}", f"{self.request.host_bytes:,}"
        limited = f"parts hold at most {most} bytes, as the cutter has {host} of host memory"
        return (*decisions, ("smaller parts", limited))

    def _tell_effort(self, grids: tuple[Grid, ...]) -> str | None:
        """Return why growing groups takes longer than it can save, or None."""
        entries = sum(int(layer.useful[layer.starts].sum(dtype=np.int64)) for layer in self.layers)
        grow_s = entries / (_GROWN_ENTRIES_PER_S * min(self.request.threads, CHUNKS_AT_ONCE))
        saved_s = sum(grid.cost_bytes - grid.stored_bytes for grid in grids) / _MOVED_BYTES_PER_S
        if grow_s <= _RUNS * saved_s:
            return None
        return (
            f"to group {entries:,} entries takes about {grow_s:.0f} s, and no grouping saves more than {saved_s:.1f} s "
            f"of moving a run, {_RUNS * saved_s:.0f} s in {_RUNS} runs"
        )

    def _budget(self, copies: float) -> BlockBudget:
        request, memory = self.request, self.memory
        sizes, most = raw_bytes(request.per), memory.block_bytes(copies)
        return BlockBudget(request.part_bytes, request.limit_bytes, sizes, most, memory.slab_entries)

    def _lay_out(self, layer: LayerSurvey) -> Grid:
        shapes = self.memory.room_bytes // 2 // (4 * layer.rows.other.n_rows + 1)
        return choose_grid(layer, self._budget(TURNED_COPIES), max(1, min(_MAX_SHAPES, shapes)), self.pool)

    def _group(self, layer: LayerSurvey, most_bytes: int | None = None) -> Groups:
        limits = vars(self._budget(GATHERED_COPIES))
        budget = GroupBudget(**limits, host_bytes=self.memory.room_bytes // 2, most_bytes=most_bytes)
        return group_starts(layer, budget, self.pool)

    def _compare(self, grids: tuple[Grid, ...], decisions: Decisions) -> CutPlan:
        """Group the starts as long as that costs less than the pair blocks."""
        told = _tell("pair_blocks", grids)
        most = sum(grid.cost_bytes for grid in grids)
        groups: list[Groups] = []
        try:
            for layer in self.layers:
                spent = sum(found.cost_bytes for found in groups)
                groups.append(self._group(layer, most - spent))
                if not groups[-1].complete:
                    break
        except CapacityError as error:
            decisions = (*decisions, ("no bcpar", str(error)))
            return CutPlan("pair_blocks", f"bcpar cannot: {told}", decisions, grids)
        if not groups[-1].complete:
            shown = ("no bcpar", f"given up: {_tell('bcpar', groups)}, and had not grouped all starts then")
            return CutPlan("pair_blocks", f"moves fewer bytes than bcpar: {told}", (*decisions, shown), grids)
        why = f"moves fewer bytes than pair_blocks: {_tell('bcpar', groups)}"
        return CutPlan("bcpar", why, (("no pair_blocks", told),), tuple(groups))

    def _plan_groups_alone(self, refused: CapacityError) -> CutPlan:
        """Group the starts where pair blocks do not fit: closures, without middles that have no start, still may."""
        try:
            groups = tuple(map(self._group, self.layers))
        except CapacityError:
            raise refused from None
        why = f"pair_blocks cannot: {_tell('bcpar', groups)}"
        return CutPlan("bcpar", why, (("no pair_blocks", str(refused)),), groups)


def _tell(strategy: str, layers: Sequence[Grid | Groups]) -> str:
    moved, parts = sum(layer.moved_bytes for layer in layers), sum(layer.n_parts for layer in layers)
    return f"{strategy} moves {moved:,} bytes in {parts:,} parts"


def _tell_grid(layer: str, grid: Grid) -> tuple[str, str]:
    return (
        f"{grid.first_end.size} x {grid.last_start.size} blocks of layer {layer.upper()}",
        f"{grid.stored_bytes:,} bytes stored and {grid.moved_bytes:,} moved: every block of ends once, with each the "
        f"blocks of starts after it; {grid.n_parts:,} pairs can have wedges",
    )
