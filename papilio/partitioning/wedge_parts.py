"""Cuts a stored graph into parts of the wedge engine (:class:`~papilio.parts.WedgePart`), out of core, in parallel.

1. Write the rows of both layers to disk, by rank (:mod:`papilio.partitioning.disk_rows`). A unipartite graph, cut for
   4-cycles, has one layer, which contains starts, middles and ends.
2. Survey each layer for its starts, and the middles of each start that have an end before it.
3. Choose the strategy that moves fewer bytes, before a part is written: pairs of blocks of starts and ends, or groups
   of starts with their closures (:mod:`papilio.partitioning.wedge_plan`).
4. Build and write the blocks, as many at a time as fit in host memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np

from papilio.errors import CapacityError
from papilio.kernels.engine import CostTable
from papilio.kernels.jit import make_ready
from papilio.kernels.rows.index import order_falling
from papilio.motifs import Butterfly, FourCycle
from papilio.partitioning import Ids
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.cut_run import CutRun, cut_run, run_within, table_entries
from papilio.partitioning.growth import CHUNKS_AT_ONCE
from papilio.partitioning.partition import Decisions, PartInfo, Partition, PartitionWriter
from papilio.partitioning.wedge_blocks import (
    EndReader,
    LayerSurvey,
    build_closure,
    build_ends,
    build_starts,
    gather_end_block,
    survey_layer,
)
from papilio.partitioning.wedge_plan import (
    BlockBudget,
    Grid,
    Groups,
    choose_grid,
    group_starts,
    raw_bytes,
)
from papilio.parts import EndBlock, PartSizes, StartBlock
from papilio.storage.files import release_memory
from papilio.storage.store import GraphStore

_SURVEY_BYTES = 12
"""Host memory per vertex of a survey: first end, useful middles, and its rank among the starts."""

_PLAN_BYTES = 64
"""Host memory per vertex of a layer while its grid is planned: costs, entries, and sums of these."""

TURNED_COPIES, GATHERED_COPIES = 1.5, 2.5
"""Peak bytes per byte of a block that is built in place, with a cursor for each middle, or from pieces."""

_WRITTEN_COPIES, _WRITTEN_BYTES = 2, 128 << 20
"""Bytes per byte of a block that is being written, and their maximum: some row groups of two million rows."""

_MAX_SLAB_ENTRIES = 1 << 20
"""Maximum number of entries read at a time: 4 MiB, and 8 MiB more with edge ids."""

_MAX_SHAPES = 6
"""Maximum number of grid shapes tried: starts get a share of a part, room for all of them, or for the largest."""

_GROWN_ENTRIES_PER_S = 2.0e6
"""Start entries that one thread groups per second if groups share little: a visit of an entry takes 0.1 to 0.3
microseconds, and each entry is visited once per group that has its middle.
"""

_MOVED_BYTES_PER_S = 2.0e9
"""Bytes per second that a worker reads and copies to its device."""

_RUNS = 10
"""Number of runs that a partition is expected to serve."""


@dataclass(frozen=True)
class CutterMemory:
    """How the host memory of a cut is shared."""

    room_bytes: int  # for everything except the permanent arrays by vertex
    slab_entries: int  # maximum number of entries read at a time, unless a row is longer
    slab_bytes: int  # for reading and sorting out ``slab_entries``
    vertex_bytes: int  # for the arrays by vertex needed to build any block

    def block_bytes(self, copies: float) -> int:
        """Return the maximum size of a stored block whose building takes ``copies`` times its bytes."""
        room = self.room_bytes - self.of_block(0)
        return int(max(room / (copies + _WRITTEN_COPIES), (room - _WRITTEN_BYTES) / copies))

    def of_block(self, nbytes: int, copies: float = 0, threads: int = 1) -> int:
        """Return the bytes for building a block of ``nbytes`` in ``threads`` and writing it."""
        written = min(_WRITTEN_COPIES * nbytes, _WRITTEN_BYTES)
        return self.vertex_bytes + threads * self.slab_bytes + int(copies * nbytes) + written


def share_memory(n_u: int, n_v: int, held_bytes: int, request: CutRequest) -> CutterMemory:
    """Share the host memory of a cut whose rows of ``n_u + n_v`` vertices keep ``held_bytes`` of arrays in memory.

    Raises CapacityError if the arrays by vertex leave no room.
    """
    held = held_bytes + _SURVEY_BYTES * (n_u + n_v)
    room = (request.host_bytes - held) * 7 // 8  # allocators retain some freed memory
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
    """The strategy of a cut, and the blocks or groups of each layer."""

    strategy: str
    reason: str
    decisions: Decisions  # intermediate decisions with their reasons
    layers: tuple[Grid | Groups, ...]  # one for each layer


@dataclass(frozen=True, eq=False)
class Planner:
    """Chooses the strategy that moves fewer bytes, or plans the requested one."""

    layers: tuple[LayerSurvey, ...]
    request: CutRequest
    memory: CutterMemory
    pool: Executor

    def plan(self) -> CutPlan:
        """Return the plan. Raises CapacityError if the strategy (or every strategy) cuts no parts within the limit."""
        strategy = self.request.strategy
        if strategy == "bcpar":
            groups = tuple(map(self._group, self.layers))
            return CutPlan("bcpar", f"requested: {_tell('bcpar', groups)}", (), groups)
        try:
            grids = tuple(map(self._lay_out, self.layers))
        except CapacityError as error:
            if strategy == "pair_blocks":
                raise
            return self._plan_groups_alone(error)
        decisions = self._tell_grids(grids)
        told = _tell("pair_blocks", grids)
        if strategy == "pair_blocks":
            return CutPlan("pair_blocks", f"requested: {told}", decisions, grids)
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
        limited = f"parts hold at most {most} bytes, because the cutter has {host} of host memory"
        return (*decisions, ("smaller parts", limited))

    def _tell_effort(self, grids: tuple[Grid, ...]) -> str | None:
        """Return the reason if growing groups takes longer than it can save, else None."""
        entries = sum(int(layer.useful[layer.starts].sum(dtype=np.int64)) for layer in self.layers)
        grow_s = entries / (_GROWN_ENTRIES_PER_S * min(self.request.threads, CHUNKS_AT_ONCE))
        saved_s = sum(grid.cost_bytes - grid.stored_bytes for grid in grids) / _MOVED_BYTES_PER_S
        if grow_s <= _RUNS * saved_s:
            return None
        return (
            f"grouping {entries:,} entries takes about {grow_s:.0f} s, and saves at most {saved_s:.1f} s of data "
            f"movement per run, {_RUNS * saved_s:.0f} s in {_RUNS} runs"
        )

    def _budget(self, copies: float, most_bytes: int | None = None) -> BlockBudget:
        request, memory = self.request, self.memory
        return BlockBudget(
            request.part_bytes,
            request.limit_bytes,
            sizes=raw_bytes(request.per),
            block_bytes=memory.block_bytes(copies),
            slab_entries=memory.slab_entries,
            host_bytes=memory.room_bytes // 2,
            most_bytes=most_bytes,
        )

    def _lay_out(self, layer: LayerSurvey) -> Grid:
        shapes = self.memory.room_bytes // 2 // (4 * layer.rows.other.n_rows + 1)
        return choose_grid(layer, self._budget(TURNED_COPIES), max(1, min(_MAX_SHAPES, shapes)), self.pool)

    def _group(self, layer: LayerSurvey, most_bytes: int | None = None) -> Groups:
        return group_starts(layer, self._budget(GATHERED_COPIES, most_bytes), self.pool)

    def _compare(self, grids: tuple[Grid, ...], decisions: Decisions) -> CutPlan:
        """Group the starts as long as this costs less than the pair blocks."""
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
            shown = ("no bcpar", f"abandoned: {_tell('bcpar', groups)}, before all starts were grouped")
            return CutPlan("pair_blocks", f"moves fewer bytes than bcpar: {told}", (*decisions, shown), grids)
        why = f"moves fewer bytes than pair_blocks: {_tell('bcpar', groups)}"
        return CutPlan("bcpar", why, (("no pair_blocks", told),), tuple(groups))

    def _plan_groups_alone(self, refused: CapacityError) -> CutPlan:
        """Group the starts when pair blocks do not fit; closures, without middles that have no start, may still fit."""
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
        f"{grid.stored_bytes:,} bytes stored and {grid.moved_bytes:,} moved: each block of ends once, each with the "
        f"blocks of starts after it; {grid.n_parts:,} pairs can have wedges",
    )


_GATHER_COST = 0.4
"""Gathering the ends of n blocks of a layer takes all threads and some 8 ns per entry and block. Transposing rows takes
one thread per block and some 20 ns per entry of the block. Gathering is faster if 0.4 n^2 is below the number of
threads.
"""


@dataclass(frozen=True, eq=False)
class _Written:
    """Sizes and costs of a written block."""

    name: str
    n_vertices: int
    n_entries: int
    nbytes: int
    table: CostTable | None  # costs of starts


_Job = tuple[int, Callable[[], tuple[_Written, ...]]]
"""Memory needed in bytes, and a function that builds and writes a block, or both blocks of a part."""


def cut_wedges(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Butterfly | FourCycle,
    options: Mapping[str, str],
    request: CutRequest,
    progress: CutProgress | None = None,
) -> Partition:
    """Cut a stored graph into parts for butterflies or 4-cycles, which have no options.

    ``output`` is the path of the new partition and must not exist. Raises CapacityError, before writing anything, if a
    part that cannot be cut further exceeds the limit or host memory is too small. Raises StoreError if ``output``
    cannot be written.
    """
    with (
        cut_run(store, output, motif, request, progress) as run,
        run.write_rows(
            request.host_bytes, with_edges=request.per == "edge", one_layer=store.kind == "unipartite"
        ) as disk,
    ):
        run.lap("rows")
        memory = share_memory(disk.u.n_rows, disk.v.n_rows, disk.nbytes, request)
        make_ready()
        with ThreadPoolExecutor(request.threads) as pool:
            rows = [disk.seen_from("u"), disk.seen_from("v")][: 1 if disk.u is disk.v else 2]
            layers = tuple(pool.map(lambda each: survey_layer(each, memory.slab_entries), rows))
            plan = Planner(layers, request, memory, pool).plan()
        run.lap("plan")
        run.report_parts(0)
        room = min(memory.room_bytes, request.host_bytes - run.peak.now_bytes)
        parts = _write_parts(run, layers, plan, memory, room)
        run.lap("parts")
        return run.finish(
            parts,
            decisions=plan.decisions,
            nothing=f"no two vertices can be in a {motif.title}",
            strategy=plan.strategy,
            reason=plan.reason,
            layer=None if store.kind == "bipartite" else "u",
        )


def _write_parts(
    run: CutRun, layers: tuple[LayerSurvey, ...], plan: CutPlan, memory: CutterMemory, room_bytes: int
) -> list[PartInfo]:
    """Build and write all blocks, as many at a time as fit in memory; return their manifest entries."""
    request = run.request
    entries = table_entries(sum(cut.n_parts for cut in plan.layers))
    cutter = _Cutter(run.writer, memory, request.per == "edge", entries, request.threads)
    jobs = [
        job
        for layer, cut in zip(layers, plan.layers, strict=True)
        for job in (cutter.grid_jobs(layer, cut) if isinstance(cut, Grid) else cutter.group_jobs(layer, cut))
    ]
    total, done = sum(needed for needed, _ in jobs), 0

    def count(needed: int) -> None:
        nonlocal done
        done += needed
        release_memory()
        run.report_parts(done / total)

    written = iter(run_within(jobs, room_bytes, request.threads, count))
    parts: list[PartInfo] = []
    for layer, cut in zip(layers, plan.layers, strict=True):
        pairs = _pair_up(layer, cut, written) if isinstance(cut, Grid) else _take_groups(cut, written)
        for starts, ends, table in pairs:
            sizes = PartSizes(starts.n_vertices, starts.n_entries, ends.n_vertices, ends.n_entries)
            names, nbytes = (starts.name, ends.name), starts.nbytes + ends.nbytes
            parts.append(run.part(len(parts), names, layer.rows.own.layer, sizes, table, nbytes))
    return parts


@dataclass(frozen=True, eq=False)
class _Cutter:
    writer: PartitionWriter
    memory: CutterMemory
    with_edges: bool  # whether to keep edge ids
    table_entries: int  # maximum number of entries in the cost table of a block
    threads: int

    def grid_jobs(self, layer: LayerSurvey, grid: Grid) -> Iterator[_Job]:
        """Yield the jobs of the start blocks, then of the end blocks that belong to a pair."""
        for i, nbytes in enumerate(grid.start_bytes.tolist()):
            members = layer.starts[grid.start_cuts[i] : grid.start_cuts[i + 1]]
            needed = self.memory.of_block(nbytes, TURNED_COPIES)
            yield needed, partial(self._write, i, self._build_starts, layer, members)
        stops = [*grid.first_end[1:].tolist(), layer.rows.own.n_rows]
        for j, nbytes in enumerate(grid.end_bytes[: grid.used_ends].tolist()):
            threads, copies = self._choose_way(nbytes, grid.used_ends)
            job = partial(self._write, j, self._build_ends, layer, int(grid.first_end[j]), stops[j], threads)
            yield self.memory.of_block(nbytes, copies, threads), job

    def _choose_way(self, nbytes: int, n_blocks: int) -> tuple[int, float]:
        """Return the threads and the copies for building one of ``n_blocks`` end blocks."""
        needed = self.memory.of_block(nbytes, GATHERED_COPIES, self.threads)
        if _GATHER_COST * n_blocks**2 < self.threads and needed <= self.memory.room_bytes:
            return self.threads, GATHERED_COPIES
        return 1, TURNED_COPIES

    def group_jobs(self, layer: LayerSurvey, groups: Groups) -> Iterator[_Job]:
        for i, (low, high) in enumerate(pairwise(groups.cuts.tolist())):
            job = partial(self._write, i, self._build_group, layer, groups.starts[low:high])
            yield self.memory.of_block(int(groups.nbytes[i]), GATHERED_COPIES), job

    def _write(
        self, index: int, build: Callable[..., Iterator[StartBlock | EndBlock]], *arguments: Any
    ) -> tuple[_Written, ...]:
        return tuple(self._write_block(index, block) for block in build(*arguments))

    def _write_block(self, index: int, block: StartBlock | EndBlock) -> _Written:
        name = f"{block.layer}-{'starts' if isinstance(block, StartBlock) else 'ends'}-{index:06d}"
        self.writer.write_block(name, block)
        if isinstance(block, StartBlock):
            costs = block.work[order_falling(block.work)]
            table = CostTable.from_costs(costs, self.table_entries)
            return _Written(name, int(block.rank.size), int(block.middles.size), block.nbytes, table)
        vertices = int(block.rank.size) + int(block.middle_rank.size)
        return _Written(name, vertices, int(block.ends.size), block.nbytes, None)

    def _build_starts(self, layer: LayerSurvey, members: Ids) -> Iterator[StartBlock]:
        yield build_starts(layer, members, self.memory.slab_entries, with_edges=self.with_edges)

    def _build_ends(self, layer: LayerSurvey, first: int, stop: int, threads: int) -> Iterator[EndBlock]:
        slab = self.memory.slab_entries
        if threads > 1:
            yield gather_end_block(layer.rows, first, stop, EndReader(slab, self.with_edges, threads))
        else:
            yield build_ends(layer.rows, first, stop, slab, with_edges=self.with_edges)

    def _build_group(self, layer: LayerSurvey, members: Ids) -> Iterator[StartBlock | EndBlock]:
        (starts,) = self._build_starts(layer, members)
        yield starts
        yield build_closure(layer.rows, starts, EndReader(self.memory.slab_entries, self.with_edges))


_Pair = tuple[_Written, _Written, CostTable]
"""The blocks of a part, and the cost of its starts."""


def _take_groups(groups: Groups, written: Iterator[tuple[_Written, ...]]) -> Iterator[_Pair]:
    for starts, ends in islice(written, groups.n_parts):
        assert starts.table is not None
        yield starts, ends, starts.table


def _pair_up(layer: LayerSurvey, grid: Grid, written: Iterator[tuple[_Written, ...]]) -> Iterator[_Pair]:
    """Yield the pairs that can have wedges, by end block.

    The work of a start block is divided among the end blocks by their entries before its last start.
    """
    starts = [block for (block,) in islice(written, grid.last_start.size)]
    ends = [block for (block,) in islice(written, grid.used_ends)]
    own = layer.rows.own
    before = np.concatenate(([0], np.cumsum(own.end_entries(0, own.n_rows))))
    first = np.append(grid.first_end, own.n_rows)
    for i, j in grid.pairs():
        table, last = starts[i].table, int(grid.last_start[i])
        assert table is not None
        share = int(before[min(int(first[j + 1]), last)] - before[first[j]])
        yield starts[i], ends[j], _scale(table, share, int(before[last]))


def _scale(table: CostTable, share: int, whole: int) -> CostTable:
    """Return the table scaled to ``share / whole`` of the work, at least 1."""
    work = [value * share // whole for value in table.work]
    return CostTable(table.items, (*work[:-1], max(work[-1], 1)))
