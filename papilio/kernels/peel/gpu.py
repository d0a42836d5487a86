"""Peel wings or tips on the GPU: a coarse phase cuts the items into ranges, and a fine phase peels each range.

The coarse phase is one launch per range, whose rounds wait for each other on the device; the host chooses the bounds of
the ranges from a histogram of the supports. The fine phase is one launch with one block per range. The indices of
``gpu_index.py`` link the items; the kernels are in ``peeling.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.arrays import fill_ints, low_halves, make_offsets, take, value_starts
from papilio.kernels.device.constants import (
    COUNTER_LEAST,
    COUNTER_ROUND,
    COUNTER_UPDATES,
    COUNTER_WORDS,
    NO_SUPPORT,
)
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.peel.phases import (
    N_BINS,
    Peeled,
    PeelingKind,
    Report,
    bin_end,
    bin_start,
    ignore_report,
    next_limit,
)


@dataclass(frozen=True)
class PeelTuning:
    """Launch constants of peeling."""

    # Threads of a block of either phase, at most 512; the coarse phase has a block on each multiprocessor.
    coarse_threads: int = 512
    fine_threads: int = 512
    # Links per item that make a range worth its launch.
    links_per_range: int = 1 << 15
    # Maximum that is useful: the fine phase has a block for each.
    max_ranges: int = 256

    def choose_ranges(self, n_links: int) -> int:
        """Return the number of ranges to request."""
        return max(1, min(self.max_ranges, n_links // self.links_per_range))


@dataclass(frozen=True, eq=False)
class Cut:
    """The ranges of all items."""

    # Range of each item, device array of int32, shape (n_items,).
    of: Any
    # Range r holds the numbers in [bounds[r], bounds[r + 1]).
    bounds: list[int]
    # Rounds and updates of the coarse phase.
    rounds: int
    updates: int

    @property
    def n(self) -> int:
        return len(self.bounds) - 1

    def is_exact(self) -> NDArray[np.bool_]:
        """Return a mask of the ranges with a single number, shape (n,), host. They are not peeled again."""
        return np.array([high - low == 1 for low, high in pairwise(self.bounds)])

    def known_numbers(self, device: Device) -> Any:
        """Return the minimum number of each item's range; its own if the range is exact. Device, uint64."""
        return take(device, device.to_device(np.array(self.bounds[:-1], np.uint64)), self.of)


@dataclass(frozen=True, eq=False)
class PeeledItems:
    """The items of one phase, on the device: offsets of their links and supports, int64."""

    link_offsets: Any
    supports: Any
    # Kernel arguments that follow the common arguments of the phase (peeling.cuh).
    own: tuple[Any, ...]


class PeelIndex(Protocol):
    """Items and their links on the device; peeling does not change them."""

    @property
    def kind(self) -> PeelingKind: ...

    @property
    def n_items(self) -> int: ...

    @property
    def is_empty(self) -> bool: ...

    def open(self, device: Device) -> PeeledItems:
        """Return all items, for the coarse phase."""
        ...

    def open_ranges(self, device: Device, cut: Cut) -> PeeledItems:
        """Return all items with their links within their ranges and to higher ones, for the fine phase."""
        ...


def peel_on_gpu(
    device: Device,
    index: PeelIndex,
    report: Report = ignore_report,
    n_ranges: int | None = None,
    tuning: PeelTuning | None = None,
) -> Peeled:
    """Return the number of every item of an index.

    The coarse phase has ``n_ranges`` ranges if all are equally heavy, and one with 1; by default as many as pay.
    """
    if index.is_empty:
        return Peeled(np.zeros(index.n_items, np.uint64), 0, 0, 0, 0, {"coarse": 0.0, "fine": 0.0})
    chosen = PeelTuning() if tuning is None else tuning
    began = perf_counter()
    cut = _cut_ranges(device, index, chosen, n_ranges, report)
    middle = perf_counter()
    numbers, rounds, updates = peel_ranges(device, index, cut, chosen)
    seconds = {"coarse": middle - began, "fine": perf_counter() - middle}
    report("fine", 1, 1)
    return Peeled(numbers, cut.n, cut.rounds, rounds, cut.updates + updates, seconds)


def count_entries(device: Device, kind: PeelingKind, offsets: Any) -> Any:
    """Return the list entries of each item, by its links, or of each segment, by its wedges; int64."""
    entries = device.xp.empty(offsets.size - 1, dtype=np.int64)
    launch_over(device, device.load(kind, {}), "count_entries", entries.size, offsets, np.int64(entries.size), entries)
    return entries


def _make_counters(device: Device, n_teams: int) -> Any:
    counters = np.zeros((n_teams, COUNTER_WORDS), dtype=np.uint64)
    counters[:, COUNTER_LEAST : COUNTER_LEAST + 2] = np.uint64(NO_SUPPORT)
    return device.to_device(counters)


def _read_counters(device: Device, counters: Any) -> tuple[int, int]:
    """Return the (rounds, updates) of all teams together."""
    host = device.to_host(counters)
    return int(host[:, COUNTER_ROUND].sum()), int(host[:, COUNTER_UPDATES].sum())


def _cut_ranges(device: Device, index: PeelIndex, tuning: PeelTuning, n_ranges: int | None, report: Report) -> Cut:
    """Run the coarse phase: one launch per range, with a bound from a histogram of the supports."""
    xp, n_items = device.xp, index.n_items
    module = device.load(index.kind, {})
    peeled = index.open(device)
    offsets = peeled.link_offsets
    total = int(offsets[-1]) + n_items
    wanted = tuning.choose_ranges(total) if n_ranges is None else n_ranges
    room = int(count_entries(device, index.kind, offsets).sum())
    items, ranges = fill_ints(device, n_items, 0, 1), xp.zeros(n_items, dtype=np.int32)
    gone = xp.zeros(n_items, dtype=np.uint8)
    going, counters = xp.empty(2 * room, dtype=np.uint64), _make_counters(device, 1)
    bounds = [0]
    while True:
        weights = xp.zeros(N_BINS, dtype=np.uint64)
        launch_over(device, module, "weigh_items", n_items, np.int32(n_items), peeled.supports, gone, offsets, weights)
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
        module.get_function(f"{index.kind}_coarse")(
            (device.sm_count,),
            (tuning.coarse_threads,),
            (
                items, np.int64(n_items), offsets, peeled.supports, gone, going, np.int64(room), counters,
                xp.zeros(1, dtype=np.uint64), np.int64(bound), np.int32(len(bounds) - 1), ranges, *peeled.own,
            ),
            together=True,
        )  # fmt: skip
        bounds.append(bound)
    return Cut(ranges, bounds, *_read_counters(device, counters))


def peel_ranges(device: Device, index: PeelIndex, cut: Cut, tuning: PeelTuning) -> tuple[NDArray[np.uint64], int, int]:
    """Run the fine phase; return (numbers, rounds, updates)."""
    xp = device.xp
    numbers = cut.known_numbers(device)
    if bool(cut.is_exact().all()):
        return device.to_host(numbers), 0, 0
    peeled = index.open_ranges(device, cut)
    items = low_halves(device, xp.argsort(cut.of).view(np.uint64))
    item_bounds = value_starts(device, take(device, cut.of, items), cut.n)
    entries = take(device, count_entries(device, index.kind, peeled.link_offsets), items)
    going_bounds = take(device, make_offsets(device, entries), item_bounds)
    weights = np.diff(device.to_host(going_bounds))
    heaviest = np.argsort(-weights, kind="stable")
    order = heaviest[~cut.is_exact()[heaviest] & (weights[heaviest] > 0)].astype(np.int32)
    going = xp.empty(max(1, 2 * int(going_bounds[-1])), dtype=np.uint64)
    counters = _make_counters(device, cut.n)
    if order.size:
        device.load(index.kind, {}).get_function(f"{index.kind}_fine")(
            (int(order.size),),
            (tuning.fine_threads,),
            (
                device.to_device(order), items, item_bounds, peeled.link_offsets, peeled.supports,
                xp.zeros(index.n_items, dtype=np.uint8), going, going_bounds, counters, numbers, *peeled.own,
            ),
        )  # fmt: skip
    return device.to_host(numbers), *_read_counters(device, counters)
