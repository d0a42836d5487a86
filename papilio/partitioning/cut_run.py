"""The skeleton of all cutters: time, memory and progress of a cut, its core, its parts and its manifest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import psutil

from papilio.errors import CapacityError, UnsupportedError
from papilio.kernels.engine import LEAST_TABLE_ENTRIES, CostTable
from papilio.kernels.jit import make_ready
from papilio.kernels.threads import ChunkRunner
from papilio.motifs import Motif
from papilio.partitioning import Ids
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.disk_rows import DiskRows, write_disk_rows
from papilio.partitioning.partition import (
    Decisions,
    PartInfo,
    Partition,
    PartitionManifest,
    PartitionWriter,
    write_partition,
)
from papilio.partitioning.rows import core_masks
from papilio.parts import CliquePart, Layer, PartitionKind, PartSizes, RootPart
from papilio.registry import motif_row
from papilio.storage.files import local_path, release_memory
from papilio.storage.records import write_record
from papilio.storage.store import GraphStore

Result = TypeVar("Result")


def run_within(
    jobs: Iterable[tuple[int, Callable[[], Result]]],
    limit_bytes: int,
    threads: int,
    done: Callable[[int], None] | None = None,
) -> list[Result]:
    """Run jobs in threads, started in order, as many at a time as fit in memory; at least one runs.

    ``jobs`` are pairs of the bytes a job needs while it runs, and the job. The caller's thread calls ``done`` with the
    bytes of each finished job. Returns the results in the order of the jobs. If a job raises, no other job is started,
    and the exception propagates once the running jobs have ended.
    """
    running: dict[Future[Result], int] = {}
    futures: list[Future[Result]] = []

    def wait_for_one() -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            needed = running.pop(future)
            future.result()
            if done is not None:
                done(needed)

    make_ready()
    with ThreadPoolExecutor(threads) as pool:
        for needed, job in jobs:
            while running and (len(running) >= threads or sum(running.values()) + needed > limit_bytes):
                wait_for_one()
            future = pool.submit(job)
            running[future] = needed
            futures.append(future)
        while running:
            wait_for_one()
    return [future.result() for future in futures]


_PERIOD_S = 0.01
"""Seconds between samples: each takes 20 microseconds, and no code here allocates and frees a block faster."""


class PeakMemory:
    """Samples the resident memory of the process in a separate thread; a context manager.

    The kernel's own figure (``ru_maxrss``) never falls, so it is useless for a second run in the same process. A peak
    shorter than the sampling period may be missed.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="papilio-peak", daemon=True)
        self._first = self._most = 0

    def _sample(self) -> int:
        return int(self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            self._most = max(self._most, self._sample())

    def __enter__(self) -> Self:
        self._first = self._most = self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._most = max(self._most, self._sample())

    @property
    def now_bytes(self) -> int:
        """Growth of the resident memory since the start."""
        return self._sample() - self._first

    @property
    def grown_bytes(self) -> int:
        """Largest growth of the resident memory, from the start until now or the end."""
        return max(self._most, self._sample() if self._thread.is_alive() else 0) - self._first


Scratch = TypeVar("Scratch")
"""Arrays for one thread that cuts parts."""

ROWS_SHARE, PLAN_SHARE = 0.4, 0.2
"""Shares of a cut, for progress: rows on disk, then grouping; the parts take the remainder."""

PLANNED_SHARE = ROWS_SHARE + PLAN_SHARE
"""Share of a cut reported before the first part is written."""

ROWS_PHASES = 5
"""Phases of :func:`papilio.partitioning.disk_rows.write_disk_rows`: degrees, and for each layer a spill and a sort."""

TABLE_ENTRIES = 512
"""Maximum number of entries in the cost table of a part."""

MANIFEST_ENTRIES = 1 << 20
"""Maximum number of entries in the cost tables of all parts: about 20 MB of manifest."""


def table_entries(n_parts: int) -> int:
    """Return the maximum number of cost table entries per part, for ``n_parts`` parts."""
    return max(LEAST_TABLE_ENTRIES, min(TABLE_ENTRIES, MANIFEST_ENTRIES // max(n_parts, 1)))


@dataclass(eq=False)
class CutRun:
    """A cut in progress; made by :func:`cut_run`."""

    store: GraphStore
    kind: PartitionKind
    least: tuple[int, int]  # smallest p and q that the parts must serve; for cliques, k and 1
    request: CutRequest
    writer: PartitionWriter
    peak: PeakMemory
    report: CutProgress
    directory: Path  # for scratch files
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def write_rows(self, host_bytes: int, **options: Any) -> DiskRows:
        """Write the rows of the graph within ``host_bytes``: the first share of the progress."""
        progress = _report_rows(self.report)
        return write_disk_rows(
            self.store, self.directory, host_bytes, self.request.threads, progress=progress, **options
        )

    def write_core(
        self, thing: str, degrees: tuple[int, int] | None, held_bytes: int, **options: Any
    ) -> tuple[DiskRows, str]:
        """Write the rows of the core of these least degrees in U and V; return also its share of the graph, in words.

        Raises CapacityError if ``held_bytes`` and some bytes per vertex leave no host memory.
        """
        store, given = self.store, self.request.host_bytes
        keep_u, keep_v = (None, None) if degrees is None else core_masks(store, *degrees, threads=self.request.threads)
        held = held_bytes + store.n_u + store.n_v
        if held >= given:
            raise CapacityError(
                f"cutting may take {given:,} bytes of host memory, but {held:,} are used before a row of "
                f"{store.path} is read"
            )
        disk = self.write_rows(given - held, keep_u=keep_u, keep_v=keep_v, **options)
        share = disk.n_edges / max(store.n_edges, 1)
        return disk, f"{disk.n_edges:,} of {store.n_edges:,} edges ({share:.1%}) can be in a {thing}"

    def lap(self, step: str) -> None:
        """Record the seconds since the last step; return its freed memory to the system."""
        now = time.perf_counter()
        self.seconds[step], self.last = now - self.last, now
        release_memory()

    def report_parts(self, share: float) -> None:
        """Report the share of the parts that is written; 0 once they are planned."""
        self.report(PLANNED_SHARE + (1 - PLANNED_SHARE) * share)

    def cut_groups(
        self,
        groups: Ids,
        threads: int,
        make_scratch: Callable[[], Scratch],
        cut: Callable[[Scratch, int, Ids], RootPart | CliquePart | None],
        *,
        decisions: Decisions,
        reason: str,
        **rest: Any,
    ) -> Partition:
        """Cut and write the parts of groups of roots, several at a time and in order; then write the manifest.

        ``groups`` has the group of each vertex, -1 for none, and ``reason`` explains the grouping; ``cut`` makes the
        part of a group of ascending vertices. ``rest`` is as in :meth:`finish`.
        """
        self.lap("groups")
        self.report_parts(0)
        order = np.argsort(groups, kind="stable").astype(np.int32)[np.count_nonzero(groups < 0) :]
        n_groups = int(groups.max(initial=-1)) + 1
        ends = [0, *np.cumsum(np.bincount(groups[order], minlength=n_groups)).tolist()]
        found: dict[int, PartInfo] = {}
        lock = threading.Lock()
        entries, n_done = table_entries(n_groups), 0

        def cut_one(scratch: Scratch, group: int, _: int) -> None:
            nonlocal n_done
            begin, end = ends[group], ends[group + 1]
            part = cut(scratch, group, order[begin:end])
            if part is not None:
                name = f"roots-{group:06d}"
                self.writer.write_block(name, part)
                table = CostTable.from_costs(part.work, entries)
                found[group] = self.part(0, (name,), part.layer, part.sizes, table, part.nbytes)
            part = None
            release_memory()
            with lock:
                n_done += end - begin
                self.report_parts(n_done / order.size)

        ChunkRunner(make_scratch, threads).run([(g, g + 1) for g in range(n_groups)], cut_one)
        self.lap("parts")
        parts = [replace(found[group], index=index) for index, group in enumerate(sorted(found))]
        decisions = (*decisions, ("strategy bcpar", reason))
        return self.finish(parts, decisions=decisions, strategy="bcpar", reason=reason, **rest)

    def part(
        self,
        index: int,
        blocks: tuple[str, ...],
        layer: Layer,
        sizes: PartSizes,
        table: CostTable,
        nbytes: int,
    ) -> PartInfo:
        """Return a part's entry for the manifest; the part must be within the limit."""
        if not self.request.fits(sizes):
            raise AssertionError(f"{' with '.join(blocks)} of {sizes} passes {self.request.limit_bytes} bytes")
        return PartInfo(index, blocks, layer, sizes, sizes.roots, table.total, write_record(table), nbytes)

    def finish(self, parts: Sequence[PartInfo], *, decisions: Decisions, nothing: str, **rest: Any) -> Partition:
        """Write the manifest; ``nothing`` is the reason for having no part, ``rest`` the other fields."""
        store, request = self.store, self.request
        least_p, least_q = self.least
        return self.writer.finish(
            PartitionManifest(
                family=self.kind,
                least_p=least_p,
                least_q=least_q,
                graph_hash=store.hash,
                n_u=store.n_u,
                n_v=store.n_v,
                n_edges=store.n_edges,
                per=request.per,
                part_bytes_limit=request.limit_bytes,
                parts=tuple(parts),
                decisions=(*decisions, _tell_parts(parts, request, nothing)),
                seconds=self.seconds,
                peak_bytes=self.peak.grown_bytes,
                **rest,
            )
        )


@contextmanager
def cut_run(
    store: GraphStore,
    output: str | PathLike[str],
    motif: Motif,
    request: CutRequest,
    progress: CutProgress | None,
) -> Iterator[CutRun]:
    """Begin a cut; the partition appears when the block ends. Raises UnsupportedError for other motifs' strategies."""
    row = motif_row(motif)
    assert row.parted is not None
    if request.strategy == "pair_blocks" and row.parted.kind not in ("wedges", "cycles"):
        things = "bicliques" if row.graph_kind == "bipartite" else "cliques"
        raise UnsupportedError(f"strategy pair_blocks is for butterflies and 4-cycles; cut for {things} with bcpar")
    report = progress or (lambda share: None)
    directory = request.scratch or local_path(output).parent
    with PeakMemory() as peak, write_partition(output) as writer:
        least = row.parted.least_sizes(motif)
        yield CutRun(store, row.parted.kind, least, request, writer, peak, report, directory)
    report(1.0)


def _tell_parts(parts: Sequence[PartInfo], request: CutRequest, nothing: str) -> tuple[str, str]:
    if not parts:
        return "no part", nothing
    needs, limit = [request.part_bytes.of(part.sizes) for part in parts], request.limit_bytes
    worst = max(range(len(parts)), key=needs.__getitem__)
    return (
        f"{len(parts):,} parts",
        f"part {worst} is the largest, {needs[worst]:,} of {limit:,} bytes; on average parts use "
        f"{sum(needs) / (len(needs) * limit):.0%} of the limit",
    )


def _report_rows(report: CutProgress) -> Callable[[str, int, int], None]:
    """Return a listener that reports the phases of writing rows as the first share of a cut."""
    begun: list[str] = []
    lock = threading.Lock()
    last = 0.0

    def take(phase: str, done: int, total: int) -> None:
        nonlocal last
        with lock:
            if phase not in begun:
                begun.append(phase)
            last = max(last, ROWS_SHARE * (begun.index(phase) + done / max(total, 1)) / ROWS_PHASES)
            report(last)

    return take
