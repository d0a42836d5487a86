"""Requests to cut a graph into parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from papilio.arguments import Threads, check_fields
from papilio.errors import CapacityError
from papilio.motifs import Granularity
from papilio.parts import PartBytes, PartSizes

Strategy = Literal["auto", "bcpar", "pair_blocks"]
"""How work items are grouped into parts; ``auto`` lets the cutter decide."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

CutProgress = Callable[[float], None]
"""Called from any thread with the completed share, from 0 to 1, never falling."""


@dataclass(frozen=True)
class CutRequest:
    """How to cut a graph into parts."""

    per: Granularity  # counts that the parts must serve; edge ids are kept for ``edge`` only
    part_bytes: PartBytes  # memory of the worker that runs one part, by the sizes of the part
    limit_bytes: int  # maximum of ``part_bytes``
    host_bytes: int  # host memory for the data of the cut, besides the imported libraries
    threads: Threads  # of the cutter
    strategy: Strategy = "auto"  # ``pair_blocks``: butterflies and 4-cycles only
    scratch: Path | None = None  # directory for temporary files; by default besides the output

    def __post_init__(self) -> None:
        check_fields(self)
        least = self.part_bytes.of(PartSizes(0, 0, 0, 0))
        if self.limit_bytes <= least:
            raise CapacityError(f"a part may take {self.limit_bytes} bytes, but an empty part takes {least}")
        if self.host_bytes < 1:
            raise CapacityError(f"cutting may take {self.host_bytes} bytes of host memory; expected at least 1")

    def fits(self, sizes: PartSizes) -> bool:
        """Return whether a part of these sizes stays within the limit."""
        return self.part_bytes.of(sizes) <= self.limit_bytes
