"""Join the blocks of a part on the device (``wedge_part.cu``): middles, prefixes, wedge counts, hub columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.bounds import MAX_RUN_ENTRIES
from papilio.kernels.device.protocol import Device, Module, check_fits, launch_over
from papilio.kernels.engine import Loadable
from papilio.kernels.tuning import WedgeTuning
from papilio.kernels.wedge.gpu_graph import MAX_ROWS, UNSIGNED, Counting
from papilio.motifs import Granularity
from papilio.parts import EndBlock, RootPart, StartBlock, WedgePart

_MAX_LIST = 2**26
"""Ends of one middle: the wedges of the 32 entries that a warp holds are then counted in 32 bits."""


@dataclass(frozen=True)
class WedgePartGraph:
    """A part on the device, as the kernels scan it with ``PART=1``; see ``wedges.cuh``."""

    layer: str  # of the starts and ends
    n_starts: int
    n_ends: int
    n_middles: int
    # Row offsets of the starts, int64; their middles as places in the block of ends, -1 for one that is not there, and
    # the counted wedges of each entry, int32.
    indptr: Any
    adjacency: Any
    prefix: Any
    # Ends of each middle, as in the block: int64, shape (n_middles + 1,), and int32.
    end_indptr: Any
    ends: Any
    # Ends of each middle among the hub columns: int32.
    hub_count: Any
    # Of each start: the ends that precede it and its row length (int32); its counted wedges, and those that end in the
    # hub columns (uint64), both 0 where it shares fewer than two middles with ends.
    preceding: Any
    degree: Any
    wedges: Any
    hub_wedges: Any
    widest_middle: int  # most ends of a middle
    counting: Counting = UNSIGNED  # parts are counted without signs

    @property
    def defines(self) -> dict[str, int]:
        """Defines of the kernels."""
        return {"PART": 1}

    @property
    def n_start_rows(self) -> int:
        """Rows that can be starts."""
        return self.n_starts

    @property
    def hub_lists(self) -> tuple[Any, Any, Any]:
        """Rows that the bit matrix of the hub columns has: offsets, entries, number among the columns."""
        return self.end_indptr, self.ends, self.hub_count

    @property
    def nbytes(self) -> int:
        """Device memory held, in bytes, with the arrays that belong to the block of ends."""
        return sum(value.nbytes for value in vars(self).values() if hasattr(value, "nbytes"))

    @property
    def ranks(self) -> tuple[Any, Any]:
        """What tells kernels how many ends a start can have."""
        return self.preceding, np.int32(-1)

    def arguments(self) -> tuple[Any, ...]:
        """Return what every counting kernel takes first."""
        rows = (self.indptr, self.adjacency, self.prefix, self.hub_count)
        ends = (self.end_indptr, self.ends, self.preceding, np.int32(self.n_starts + self.n_ends))
        return (*rows, np.int32(self.n_starts), *ends)

    def result_size(self, per: Granularity) -> int:
        """Return the number of counts that kernels write."""
        if per == "vertex":
            return self.n_starts + self.n_ends + self.n_middles
        return int(self.adjacency.size + self.ends.size) if per == "edge" else 1

    def vectors(self, device: Device, per: Granularity, result: Any) -> dict[str, NDArray[np.uint64]]:
        """Return a result as the vectors of a partial, on the host."""
        if per == "total":
            return {}
        if per == "edge":
            return {"edge": device.to_host(result)}
        at = self.n_starts + self.n_ends
        own, other = device.to_host(result[:at]), device.to_host(result[at:])
        return {"u": own, "v": other} if self.layer == "u" else {"u": other, "v": own}


def stage_wedges(device: Device, block: Loadable) -> Loadable:
    """Return a block whose arrays that kernels read are on the device; ids, edge ids and work stay on the host."""
    assert not isinstance(block, RootPart)
    names = ("rank", "indptr", "middles") if isinstance(block, StartBlock) else _END_ARRAYS
    return replace(block, **{name: device.to_device(getattr(block, name)) for name in names})


_END_ARRAYS = ("rank", "middle_rank", "indptr", "ends")


def build_wedge_part(device: Device, part: WedgePart, tuning: WedgeTuning) -> WedgePartGraph:
    """Copy what is not yet on the device there, and join it.

    Device memory at the peak, beside the blocks: 8 bytes per entry of a start, 37 per start, 12 per middle.

    Raises
    ------
    CapacityError
        For more than 2^31 - 2^20 starts, ends and middles, 2^36 entries of starts, or 2^26 ends of one middle.
    """
    xp = device.xp
    n_starts, n_ends = int(part.starts.rank.size), int(part.ends.rank.size)
    n_middles, n_entries = int(part.ends.middle_rank.size), int(part.starts.middles.size)
    check_fits("the number of vertices of a part", n_starts + n_ends + n_middles, MAX_ROWS, "vertices")
    check_fits("the number of entries of the starts of a part", n_entries, MAX_RUN_ENTRIES, "entries")
    ends = stage_wedges(device, part.ends)
    indptr = device.to_device(part.starts.indptr)
    widest = int((ends.indptr[1:] - ends.indptr[:-1]).max()) if n_middles else 0
    check_fits("the longest row of a part", widest, _MAX_LIST, "ends of a vertex")
    built = WedgePartGraph(
        layer=part.layer,
        n_starts=n_starts,
        n_ends=n_ends,
        n_middles=n_middles,
        indptr=indptr,
        adjacency=xp.empty(n_entries, dtype=np.int32),
        prefix=xp.empty(n_entries, dtype=np.int32),
        end_indptr=ends.indptr,
        ends=ends.ends,
        hub_count=xp.zeros(n_middles, dtype=np.int32),
        preceding=xp.zeros(n_starts, dtype=np.int32),
        degree=(indptr[1:] - indptr[:-1]).astype(np.int32),
        wedges=xp.zeros(n_starts, dtype=np.uint64),
        hub_wedges=xp.zeros(n_starts, dtype=np.uint64),
        widest_middle=widest,
    )
    if n_entries and n_middles:
        module = device.load("wedge_part", {"HUB_WORDS": tuning.hub_words})
        _join(device, module, built, part.starts, ends)
    device.synchronize()  # The blocks may be given back once this returns.
    return built


def _join(device: Device, module: Module, graph: WedgePartGraph, starts: StartBlock, ends: EndBlock) -> None:
    """Fill all that :func:`build_wedge_part` leaves open."""
    xp = device.xp
    n_starts, n_middles = np.int32(graph.n_starts), np.int32(graph.n_middles)
    launch_over(
        device, module, "count_preceding", graph.n_starts, device.to_device(starts.rank), n_starts, ends.rank,
        np.int32(graph.n_ends), graph.preceding,
    )  # fmt: skip
    launch_over(
        device, module, "count_hubs", graph.n_middles, graph.end_indptr, graph.ends, n_middles,
        graph.hub_count,
    )  # fmt: skip

    span = int(ends.middle_rank[-1]) - int(ends.middle_rank[0]) + 1
    shift = max(0, ((span - 1) // (2 * graph.n_middles)).bit_length())
    n_buckets = ((span - 1) >> shift) + 1
    first = xp.empty(n_buckets + 1, dtype=np.int32)
    table = np.int32(shift), np.int32(n_buckets)
    launch_over(device, module, "fill_table", graph.n_middles, ends.middle_rank, n_middles, *table, first)

    joined = xp.zeros(graph.n_starts, dtype=np.int32)
    n_entries = int(graph.adjacency.size)
    launch_over(
        device, module, "join_starts", (n_entries + 31) // 32, graph.indptr, device.to_device(starts.middles),
        n_starts, graph.preceding, ends.middle_rank, first, *table, graph.end_indptr, graph.ends,
        graph.hub_count, graph.adjacency, graph.prefix, joined, graph.wedges, graph.hub_wedges,
    )  # fmt: skip
    for counts in (graph.wedges, graph.hub_wedges):
        counts[joined < 2] = 0
