"""What the cutters of all motif families share: time, memory and progress of a cut, its parts and its manifest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from papilio.kernels.costs import LEAST_TABLE_ENTRIES, CostTable
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.disk_rows import DiskRows, write_disk_rows
from papilio.partitioning.manifest import Decisions, PartInfo, PartitionManifest
from papilio.partitioning.peak_memory import PeakMemory
from papilio.partitioning.store import PartitionWriter
from papilio.parts import Layer, PartSizes
from papilio.storage.array_file import release_memory
from papilio.storage.location import local_path
from papilio.storage.records import write_record
from papilio.storage.store import GraphStore

ROWS_SHARE, PLAN_SHARE = 0.4, 0.2
"""Shares of a cut, for progress: rows on disk, and how they are grouped; the rest is for the parts."""

ROWS_PHASES = 5
"""Phases of :func:`papilio.partitioning.disk_rows.write_disk_rows`: degrees, and for each layer a spill and a sort."""

TABLE_ENTRIES = 512
"""Most entries of the cost table of a part."""

MANIFEST_ENTRIES = 1 << 20
"""Most entries of the cost tables of all parts: about 20 MB of manifest."""


def table_entries(n_parts: int) -> int:
    """Return how many entries the cost table of each of so many parts has at most."""
    return max(LEAST_TABLE_ENTRIES, min(TABLE_ENTRIES, MANIFEST_ENTRIES // max(n_parts, 1)))


@dataclass(eq=False)
class CutRun:
    """A cut under way; made by :func:`cut_run`."""

    store: GraphStore
    request: CutRequest
    writer: PartitionWriter
    peak: PeakMemory
    report: CutProgress
    directory: Path  # for scratch files
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def write_rows(self, host_bytes: int, **options: Any) -> DiskRows:
        """Write the rows of the graph within so much memory: the first share of the progress."""
        progress = _report_rows(self.report)
        return write_disk_rows(
            self.store, self.directory, host_bytes, self.request.threads, progress=progress, **options
        )

    def lap(self, step: str) -> None:
        """Note the seconds since the last step; give back the memory that it left behind."""
        now = time.perf_counter()
        self.seconds[step], self.last = now - self.last, now
        release_memory()

    def report_parts(self, share: float) -> None:
        """Tell which share of the parts is written; 0 once they are planned."""
        self.report(ROWS_SHARE + PLAN_SHARE + (1 - ROWS_SHARE - PLAN_SHARE) * share)

    def part(
        self,
        index: int,
        blocks: tuple[str, ...],
        layer: Layer,
        sizes: PartSizes,
        table: CostTable,
        nbytes: int,
    ) -> PartInfo:
        """Return what the manifest says of a part, which must keep to the limit."""
        if not self.request.fits(sizes):
            raise AssertionError(
                f"{' with '.join(blocks)} of {sizes} passes {self.request.limit_bytes} bytes"
            )
        return PartInfo(index, blocks, layer, sizes, sizes.roots, table.total, write_record(table), nbytes)

    def finish(self, parts: Sequence[PartInfo], *, decisions: Decisions, nothing: str, **rest: Any) -> None:
        """Write the manifest; ``nothing`` says why there is no part, and ``rest`` has the fields of the family."""
        store, request = self.store, self.request
        self.writer.finish(
            PartitionManifest(
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
    store: GraphStore, output: str | PathLike[str], request: CutRequest, progress: CutProgress | None
) -> Iterator[CutRun]:
    """Begin a cut; ``writer.partition`` is the partition once the block has ended."""
    report = progress or (lambda share: None)
    directory = request.scratch or local_path(output).parent
    with PeakMemory() as peak, PartitionWriter(output) as writer:
        yield CutRun(store, request, writer, peak, report, directory)
    report(1.0)


def _tell_parts(parts: Sequence[PartInfo], request: CutRequest, nothing: str) -> tuple[str, str]:
    """Return how many parts there are, which is the largest and how full they are; ``nothing`` says why none is."""
    if not parts:
        return "no part", nothing
    needs, limit = [request.part_bytes.of(part.sizes) for part in parts], request.limit_bytes
    worst = max(range(len(parts)), key=needs.__getitem__)
    return (
        f"{len(parts):,} parts",
        f"part {worst} needs most, {needs[worst]:,} of {limit:,} bytes; all together they need "
        f"{sum(needs) / (len(needs) * limit):.0%} of what they may",
    )


def _report_rows(report: CutProgress) -> Callable[[str, int, int], None]:
    """Return what takes the phases of making rows on disk and reports them as the first share of a cut."""
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
