"""What is asked of a cutter of parts, and how far it has come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from papilio.errors import CapacityError, InputError
from papilio.kernels.costs import LEAST_TABLE_ENTRIES
from papilio.motifs import GRANULARITIES, Granularity
from papilio.partitioning.manifest import PartInfo
from papilio.parts import PartBytes, PartSizes

__all__ = [
    "PLAN_SHARE",
    "ROWS_SHARE",
    "STRATEGIES",
    "Closure",
    "CutRequest",
    "Progress",
    "Strategy",
    "report_rows",
    "table_entries",
    "tell_parts",
]

Strategy = Literal["auto", "bcpar", "pair_blocks", "hash", "metis"]
"""How work items are grouped into parts; ``auto`` lets the cutter decide."""

STRATEGIES: tuple[Strategy, ...] = ("auto", "bcpar", "pair_blocks", "hash", "metis")

Closure = Literal["columns", "paper"]
"""What a root takes into its part: its columns, cut to what its bicliques need, or all within two hops."""

Progress = Callable[[float], None]
"""Called from any thread with the share that is done, from 0 to 1, never falling."""


@dataclass(frozen=True)
class CutRequest:
    """How a graph is to be cut into parts.

    Attributes
    ----------
    per : {"total", "vertex", "edge"}
        Counts that the parts must serve; edge ids are kept for ``edge`` only.
    part_bytes : PartBytes
        Memory of the worker that runs one part, by the sizes of the part.
    limit_bytes : int
        What that may be at most.
    host_bytes : int
        Host memory that cutting may take for its data, beside the imported libraries.
    threads : int
        Threads of the cutter.
    strategy : {"auto", "bcpar", "pair_blocks", "hash", "metis"}
        Bicliques know no ``pair_blocks``.
    closure : {"columns", "paper"}
        Bicliques only.
    scratch : Path, optional
        Directory for files that last as long as the cut; by default beside the output.
    """

    per: Granularity
    part_bytes: PartBytes
    limit_bytes: int
    host_bytes: int
    threads: int
    strategy: Strategy = "auto"
    closure: Closure = "columns"
    scratch: Path | None = None

    def __post_init__(self) -> None:
        if self.per not in GRANULARITIES:
            raise InputError(f"per is {self.per!r}; expected one of {', '.join(GRANULARITIES)}")
        if self.strategy not in STRATEGIES:
            raise InputError(f"the strategy is {self.strategy!r}; expected one of {', '.join(STRATEGIES)}")
        if self.closure not in ("columns", "paper"):
            raise InputError(f"the closure is {self.closure!r}; expected columns or paper")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; expected at least 1")
        least = self.part_bytes.of(PartSizes(0, 0, 0, 0))
        if self.limit_bytes <= least:
            raise CapacityError(
                f"a part may take {self.limit_bytes} bytes; an empty one takes {least}: raise the budget"
            )
        if self.host_bytes < 1:
            raise CapacityError(
                f"cutting may take {self.host_bytes} bytes of host memory; expected at least 1"
            )

    def fits(self, sizes: PartSizes) -> bool:
        """Return whether a part of these sizes stays within the limit."""
        return self.part_bytes.of(sizes) <= self.limit_bytes


ROWS_SHARE, PLAN_SHARE = 0.4, 0.2
"""Shares of a cut, for progress: rows on disk, and how they are grouped; the rest is for the parts."""

TABLE_ENTRIES = 512
"""Most entries of the cost table of a part."""

MANIFEST_ENTRIES = 1 << 20
"""Most entries of the cost tables of all parts: about 20 MB of manifest."""


def table_entries(n_parts: int) -> int:
    """Return how many entries the cost table of each of so many parts has at most."""
    return max(LEAST_TABLE_ENTRIES, min(TABLE_ENTRIES, MANIFEST_ENTRIES // max(n_parts, 1)))


def tell_parts(parts: Sequence[PartInfo], request: CutRequest, nothing: str) -> tuple[str, str]:
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


ROWS_PHASES = 5
"""Phases of :func:`papilio.partitioning.disk_rows.write_disk_rows`: degrees, and for each layer a spill and a sort."""


def report_rows(progress: Progress) -> Callable[[str, int, int], None]:
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
            progress(last)

    return take
