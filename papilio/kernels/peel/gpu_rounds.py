"""What peeling wings and tips share on the GPU: launch constants, ranges from histograms, bounds of lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.constants import (
    COUNTER_LEAST,
    COUNTER_ROUND,
    COUNTER_UPDATES,
    COUNTER_WORDS,
    NO_SUPPORT,
    PEEL_GROUP,
)
from papilio.kernels.device.protocol import Device, Kernel
from papilio.kernels.peel.phases import N_BINS, Report, bin_end, bin_start, next_limit
from papilio.kernels.wedge.gpu_graph import choose_grid

__all__ = [
    "THREADS",
    "Coarse",
    "Cut",
    "FinePlan",
    "PeelTuning",
    "bounds_by_range",
    "cut_ranges",
    "entries_of",
    "new_counters",
    "plan_fine",
    "read_counters",
    "starts_of",
]

THREADS = 256
"""Of a block of the kernels that build an index."""


@dataclass(frozen=True)
class PeelTuning:
    """How peeling is launched.

    Attributes
    ----------
    coarse_threads, fine_threads : int
        Threads of a block of either phase, 512 at most; the coarse one has a block on each multiprocessor.
    links_per_range : int
        Links of an item that make a range worth its launch.
    max_ranges : int
        More bring nothing: the fine phase has a block for each.
    """

    coarse_threads: int = 512
    fine_threads: int = 512
    links_per_range: int = 1 << 15
    max_ranges: int = 256

    def choose_ranges(self, n_links: int) -> int:
        """Return how many ranges to ask for."""
        return max(1, min(self.max_ranges, n_links // self.links_per_range))


@dataclass(frozen=True, eq=False)
class Cut:
    """The ranges of all items.

    Attributes
    ----------
    of : device array of int32, shape (n_items,)
        Range of each item.
    bounds : list of int
        The numbers of range r are in ``[bounds[r], bounds[r + 1])``.
    rounds, updates : int
        What cutting took.
    """

    of: Any
    bounds: list[int]
    rounds: int
    updates: int

    @property
    def n(self) -> int:
        """Number of ranges."""
        return len(self.bounds) - 1

    def is_exact(self) -> NDArray[np.bool_]:
        """Return which ranges hold one number alone, shape (n,), host: these need not be peeled again."""
        return np.array([high - low == 1 for low, high in pairwise(self.bounds)])

    def known_numbers(self, xp: Any) -> Any:
        """Return the least number of the range of each item; its own where the range is exact. Device, uint64."""
        return xp.asarray(np.array(self.bounds[:-1], np.uint64))[self.of]


class Coarse(Protocol):
    """What is peeled in the coarse phase.

    Attributes
    ----------
    supports, gone, link_offsets : device array
        Of all items.
    """

    supports: Any
    gone: Any
    link_offsets: Any

    def launch(self, grid: tuple[int, ...], block: tuple[int, ...], lists: tuple[Any, ...], own: Any) -> None:
        """Launch a range; ``lists`` are items, going, its room, counters, arrivals; ``own`` bound, range, ranges."""
        ...


def starts_of(xp: Any, sizes: Any) -> Any:
    """Return where each of consecutive intervals begins and the last one ends, int64 on the device."""
    starts = xp.zeros(sizes.size + 1, dtype=np.int64)
    xp.cumsum(sizes.astype(np.int64), out=starts[1:])
    return starts


def entries_of(sizes: Any) -> Any:
    """Return how many entries of a list items with so many links (or segments with so many wedges) take."""
    return (sizes + (PEEL_GROUP - 1)) // PEEL_GROUP + (sizes == 0)


def new_counters(device: Device, n: int) -> Any:
    """Return the counters of ``n`` teams, device array of uint64, shape (n, 8)."""
    counters = device.xp.zeros((n, COUNTER_WORDS), dtype=np.uint64)
    counters[:, COUNTER_LEAST : COUNTER_LEAST + 2] = np.uint64(NO_SUPPORT)
    return counters


def read_counters(device: Device, counters: Any) -> tuple[int, int]:
    """Return (rounds, updates) of all teams together."""
    host = device.to_host(counters)
    return int(host[:, COUNTER_ROUND].sum()), int(host[:, COUNTER_UPDATES].sum())


def cut_ranges(
    device: Device, weigh: Kernel, coarse: Coarse, tuning: PeelTuning, n_ranges: int | None, report: Report
) -> Cut:
    """Run the coarse phase: a launch for each range, with a bound from a histogram of the supports.

    Parameters
    ----------
    device : Device
    weigh : kernel
        Adds up the links of the items that are left by the bin of their supports.
    coarse : Coarse
    tuning : PeelTuning
    n_ranges : int, optional
        How many ranges there were if all were equally heavy; with 1 there is one.
    report : callable
    """
    xp, n_items = device.xp, int(coarse.supports.size)
    degrees = coarse.link_offsets[1:] - coarse.link_offsets[:-1]
    total = int(coarse.link_offsets[-1]) + n_items
    wanted = tuning.choose_ranges(total) if n_ranges is None else n_ranges
    room = int(entries_of(degrees).sum())
    items, ranges = xp.arange(n_items, dtype=np.int32), xp.zeros(n_items, dtype=np.int32)
    going, counters = xp.empty(2 * room, dtype=np.uint64), new_counters(device, 1)
    bounds = [0]
    while True:
        weights = xp.zeros(N_BINS, dtype=np.uint64)
        weigh(
            choose_grid(device, n_items),
            (THREADS,),
            (np.int32(n_items), coarse.supports, coarse.gone, coarse.link_offsets, weights),
        )
        sums = np.cumsum(device.to_host(weights))
        left = int(sums[-1])
        report("coarse", total - left, total)
        if left == 0:
            break
        bound = NO_SUPPORT
        if wanted > 1:
            least = bin_start(int(np.searchsorted(sums, 1)))
            bound = min(
                NO_SUPPORT,
                bin_end(int(np.searchsorted(sums, total // wanted + 1))),
                next_limit(max(bounds[-1], least)),
            )
        coarse.launch(
            (device.sm_count,),
            (tuning.coarse_threads,),
            (items, going, np.int64(room), counters, xp.zeros(1, dtype=np.uint64)),
            (np.int64(bound), np.int32(len(bounds) - 1), ranges),
        )
        bounds.append(bound)
    return Cut(ranges, bounds, *read_counters(device, counters))


@dataclass(frozen=True, eq=False)
class FinePlan:
    """The items of the ranges that are peeled, and where their lists are.

    Attributes
    ----------
    order : device array of int32, shape (n_blocks,)
        Ranges to peel, heaviest first.
    items : device array of int32, shape (n_items,)
        Items by range.
    item_bounds, going_bounds : device array of int64, shape (n_ranges + 1,)
        Those of each range, and its part of the list of items that go.
    going, counters : device array of uint64
        Lists and counters.
    n_blocks : int
        Number of ranges to peel.
    """

    order: Any
    items: Any
    item_bounds: Any
    going_bounds: Any
    going: Any
    counters: Any
    n_blocks: int


def plan_fine(device: Device, cut: Cut, degrees: Any) -> FinePlan:
    """Lay out the fine phase; ``degrees`` are the links of each item, int64 on the device."""
    xp = device.xp
    items = xp.argsort(cut.of).astype(np.int32)
    item_bounds = bounds_by_range(xp, cut.of[items], cut.n)
    going_bounds = starts_of(xp, entries_of(degrees[items]))[item_bounds]
    weights = np.diff(device.to_host(going_bounds))
    heaviest = np.argsort(-weights, kind="stable")
    chosen = heaviest[~cut.is_exact()[heaviest] & (weights[heaviest] > 0)].astype(np.int32)
    going = xp.empty(max(1, 2 * int(going_bounds[-1])), dtype=np.uint64)
    return FinePlan(
        device.to_device(chosen),
        items,
        item_bounds,
        going_bounds,
        going,
        new_counters(device, cut.n),
        int(chosen.size),
    )


def bounds_by_range(xp: Any, ranges: Any, n_ranges: int) -> Any:
    """Return where each range begins in ascending ``ranges``, and the last one ends; int64 on the device."""
    return xp.searchsorted(ranges, xp.arange(n_ranges + 1, dtype=ranges.dtype)).astype(np.int64)
