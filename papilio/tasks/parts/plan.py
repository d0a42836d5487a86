"""What a plan says of a partitioned graph: its parts with short tables of costs, and why it is cut like this."""

from __future__ import annotations

from collections.abc import Iterator

from papilio.kernels.costs import LEAST_TABLE_ENTRIES, MAX_TABLE_ENTRIES, CostTable
from papilio.kernels.engine import EngineName
from papilio.partitioning.manifest import PartInfo, PartitionManifest
from papilio.tasks.forecast import MemoryForecast, PartMemory, part_memory
from papilio.tasks.job import JobSpec
from papilio.wording import show_bytes


def thin_tables(manifest: PartitionManifest) -> Iterator[CostTable]:
    """Yield the table of every part, all together about as long as that of a whole graph may be."""
    most = max(LEAST_TABLE_ENTRIES, MAX_TABLE_ENTRIES // max(len(manifest.parts), 1))
    for part in manifest.parts:
        items, work = part.table["items"], part.table["work"]
        last = len(items) - 1
        steps = min(most, last)
        chosen = [last * step // steps for step in range(steps + 1)] if steps else [0]
        yield CostTable(tuple(items[at] for at in chosen), tuple(work[at] for at in chosen))


def mean_vector_entries(job: JobSpec, manifest: PartitionManifest) -> int:
    """Return the entries of the vectors of one lease, the mean of all parts."""
    if job.per == "total" or not manifest.parts:
        return 0
    sizes = [part.sizes for part in manifest.parts]
    entries = sum(each.edges if job.per == "edge" else each.roots + each.vertices for each in sizes)
    return entries // len(sizes)


def explain_parts(
    job: JobSpec, engine: EngineName, threads: int, manifest: PartitionManifest, memory: MemoryForecast
) -> Iterator[tuple[str, str]]:
    """Yield what was decided about the parts of a job, with figures; ``memory`` is that of one worker."""
    parts = manifest.parts
    yield f"strategy {manifest.strategy}", manifest.reason
    yield from manifest.decisions
    yield (
        f"{len(parts)} parts, replication {manifest.replication:.2f}",
        f"they hold {sum(part.sizes.edges for part in parts):,} edges to be read, and the graph {manifest.n_edges:,}; "
        f"the files hold {manifest.stored_edges:,}",
    )
    if parts:
        yield _explain_worst(engine, part_memory(job, engine, threads, manifest.layer), parts)
    figures = [
        f"{show_bytes(peak)} of {kind} memory{'' if limit is None else f' of a budget of {show_bytes(limit)}'}"
        for kind, peak, limit in (
            ("device", memory.device_bytes, job.budget.device_bytes),
            ("host", memory.host_bytes, job.budget.host_bytes),
        )
        if kind == "host" or engine == "gpu"
    ]
    yield (
        f"peak of a worker about {' and '.join(figures)}",
        "the process, the largest part as it is counted, and the next one that is read meanwhile where there is room",
    )


def _explain_worst(engine: EngineName, needs: PartMemory, parts: tuple[PartInfo, ...]) -> tuple[str, str]:
    bytes_of = needs.device_bytes if engine == "gpu" else needs.host_bytes
    worst = max(parts, key=lambda part: bytes_of(part.sizes))
    sizes = worst.sizes
    device = f"{show_bytes(needs.device_bytes(sizes))} of device and " if engine == "gpu" else ""
    return (
        f"worst part {worst.index}",
        f"its {sizes.roots:,} items and {sizes.edges:,} edges take {device}{show_bytes(needs.host_bytes(sizes))} of "
        f"host memory, {show_bytes(worst.nbytes)} of it as it is read",
    )
