"""Cuts a stored graph into parts of the wedge engine (:class:`~papilio.parts.WedgePart`), out of core, in parallel.

1. The rows of both layers are written to disk, by rank (:mod:`papilio.partitioning.disk_rows`).
2. A survey of each layer finds the starts, and the middles of each that have an end before it.
3. A strategy is chosen by what it moves (:mod:`papilio.partitioning.wedge_plan`): pairs of blocks of starts and ends
   (:mod:`papilio.partitioning.wedge_grid`), or groups of starts with their closures
   (:mod:`papilio.partitioning.wedge_groups`).
4. The blocks are built and written, as many at a time as the host memory holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise

import numpy as np

from papilio.kernels.engine import CostTable
from papilio.kernels.wedge.graph import order_falling
from papilio.motifs import Butterfly
from papilio.partitioning.arrays import Ids
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.cut_run import CutRun, cut_run, run_within, table_entries
from papilio.partitioning.store import PartInfo, Partition, PartitionWriter
from papilio.partitioning.wedge_blocks import (
    EndReader,
    LayerSurvey,
    build_closure,
    build_ends,
    build_starts,
    gather_end_block,
    survey_layer,
)
from papilio.partitioning.wedge_grid import Grid
from papilio.partitioning.wedge_groups import Groups
from papilio.partitioning.wedge_plan import (
    GATHERED_COPIES,
    TURNED_COPIES,
    CutPlan,
    CutterMemory,
    plan_cut,
    share_memory,
)
from papilio.parts import EndBlock, PartSizes, StartBlock
from papilio.storage.files import release_memory
from papilio.storage.store import GraphStore

_GATHER_COST = 0.4
"""To gather the ends of n blocks of a layer takes all threads and, for each block, a look at every entry, some 8 ns; to
turn rows round takes one thread for each block and some 20 ns for each entry of it: the first is faster where
0.4 n^2 is below the number of threads."""


@dataclass(frozen=True, eq=False)
class _Written:
    """What is kept of a block that was written."""

    name: str
    n_vertices: int
    n_entries: int
    nbytes: int
    table: CostTable | None  # of starts


_Job = tuple[int, Callable[[], tuple[_Written, ...]]]
"""The bytes that it needs, and what builds and writes a block, or both blocks of a part."""


def cut_wedges(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Butterfly,
    options: Mapping[str, str],
    request: CutRequest,
    progress: CutProgress | None = None,
) -> Partition:
    """Cut a stored graph into parts for butterflies, which have no options.

    ``output`` is the partition that is written, which must not exist. UnsupportedError for a unipartite graph.
    CapacityError when a part that cannot be cut further passes the limit, or the host memory does not do; nothing is
    written then. StoreError when ``output`` cannot be written.
    """
    with (
        cut_run(store, output, motif, request, progress) as run,
        run.write_rows(request.host_bytes, with_edges=request.per == "edge") as disk,
    ):
        run.lap("rows")
        memory = share_memory(disk.u.n_rows, disk.v.n_rows, disk.nbytes, request)
        with ThreadPoolExecutor(request.threads) as pool:
            rows = disk.seen_from("u"), disk.seen_from("v")
            layers = tuple(pool.map(lambda each: survey_layer(each, memory.slab_entries), rows))
            plan = plan_cut(layers, request, memory, pool)
        run.lap("plan")
        run.report_parts(0)
        room = min(memory.room_bytes, request.host_bytes - run.peak.now_bytes)
        parts = _write_parts(run, layers, plan, memory, room)
        run.lap("parts")
        run.finish(
            parts,
            decisions=plan.decisions,
            nothing="no two vertices can be in a butterfly",
            family="wedges",
            strategy=plan.strategy,
            reason=plan.reason,
            layer=None,
            least_p=2,
            least_q=2,
        )
    return run.writer.partition


def _write_parts(
    run: CutRun, layers: tuple[LayerSurvey, ...], plan: CutPlan, memory: CutterMemory, room_bytes: int
) -> list[PartInfo]:
    """Build and write all blocks, at a time those that go into the room; return what is known of each part."""
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
    """Builds blocks and writes them."""

    writer: PartitionWriter
    memory: CutterMemory
    with_edges: bool  # whether to keep edge ids
    table_entries: int  # most entries of the cost table of a block
    threads: int

    def grid_jobs(self, layer: LayerSurvey, grid: Grid) -> Iterator[_Job]:
        """Yield the jobs of the start blocks, then of the end blocks that are in a pair."""
        for i, nbytes in enumerate(grid.start_bytes.tolist()):
            members = layer.starts[grid.start_cuts[i] : grid.start_cuts[i + 1]]
            needed = self.memory.of_block(nbytes, TURNED_COPIES)
            yield needed, partial(self._write_starts, layer, i, members)
        stops = [*grid.first_end[1:].tolist(), layer.rows.own.n_rows]
        for j, nbytes in enumerate(grid.end_bytes[: grid.used_ends].tolist()):
            threads, copies = self._choose_way(nbytes, grid.used_ends)
            job = partial(self._write_ends, layer, j, int(grid.first_end[j]), stops[j], threads)
            yield self.memory.of_block(nbytes, copies, threads), job

    def _choose_way(self, nbytes: int, n_blocks: int) -> tuple[int, float]:
        """Return the threads, and the copies, that one of so many end blocks is built in."""
        needed = self.memory.of_block(nbytes, GATHERED_COPIES, self.threads)
        if _GATHER_COST * n_blocks**2 < self.threads and needed <= self.memory.room_bytes:
            return self.threads, GATHERED_COPIES
        return 1, TURNED_COPIES

    def group_jobs(self, layer: LayerSurvey, groups: Groups) -> Iterator[_Job]:
        """Yield the jobs of the groups."""
        for i, (low, high) in enumerate(pairwise(groups.cuts.tolist())):
            job = partial(self._write_group, layer, i, groups.starts[low:high])
            yield self.memory.of_block(int(groups.nbytes[i]), GATHERED_COPIES), job

    def _build_starts(self, layer: LayerSurvey, members: Ids) -> StartBlock:
        slab = self.memory.slab_entries
        return build_starts(layer, members, slab, with_edges=self.with_edges)

    def _write(self, name: str, block: StartBlock | EndBlock) -> _Written:
        self.writer.write_block(name, block)
        if isinstance(block, StartBlock):
            costs = block.work[order_falling(block.work)]
            table = CostTable.from_costs(costs, self.table_entries)
            return _Written(name, int(block.rank.size), int(block.middles.size), block.nbytes, table)
        vertices = int(block.rank.size) + int(block.middle_rank.size)
        return _Written(name, vertices, int(block.ends.size), block.nbytes, None)

    def _write_starts(self, layer: LayerSurvey, index: int, members: Ids) -> tuple[_Written, ...]:
        block = self._build_starts(layer, members)
        return (self._write(f"{layer.rows.own.layer}-starts-{index:06d}", block),)

    def _write_ends(
        self, layer: LayerSurvey, index: int, first: int, stop: int, threads: int
    ) -> tuple[_Written, ...]:
        slab = self.memory.slab_entries
        if threads > 1:
            block = gather_end_block(layer.rows, first, stop, EndReader(slab, self.with_edges, threads))
        else:
            block = build_ends(layer.rows, first, stop, slab, with_edges=self.with_edges)
        return (self._write(f"{layer.rows.own.layer}-ends-{index:06d}", block),)

    def _write_group(self, layer: LayerSurvey, index: int, members: Ids) -> tuple[_Written, ...]:
        starts = self._build_starts(layer, members)
        ends = build_closure(layer.rows, starts, EndReader(self.memory.slab_entries, self.with_edges))
        layer_name = layer.rows.own.layer
        return (
            self._write(f"{layer_name}-starts-{index:06d}", starts),
            self._write(f"{layer_name}-ends-{index:06d}", ends),
        )


_Pair = tuple[_Written, _Written, CostTable]
"""The blocks of a part, and the cost of its starts."""


def _take_groups(groups: Groups, written: Iterator[tuple[_Written, ...]]) -> Iterator[_Pair]:
    """Yield the part of each group."""
    for starts, ends in islice(written, groups.n_parts):
        assert starts.table is not None
        yield starts, ends, starts.table


def _pair_up(layer: LayerSurvey, grid: Grid, written: Iterator[tuple[_Written, ...]]) -> Iterator[_Pair]:
    """Yield the pairs that can have wedges, those of an end block after each other.

    The work of a start block is shared among the end blocks by their entries before its last start.
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
    """Return the table of ``share / whole`` of the work, at least 1."""
    work = [value * share // whole for value in table.work]
    return CostTable(table.items, (*work[:-1], max(work[-1], 1)))
