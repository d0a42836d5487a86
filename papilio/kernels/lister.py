"""What all that lists motifs shares: rows leave a run through one outlet, and at most as many as were asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.engine import Cut, EngineName, Partial, never_cut, require_interval
from papilio.kernels.rows import Outlet, RowSink, drop_rows
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost, items_in
from papilio.questions import Listing


class Found(NamedTuple):
    """What a run found: of how many items, with how many steps of the search, and the sum of the hashes."""

    n_items: int
    work: int
    checksum: int


class Lister(ABC):
    """Base of the listers; ``listing`` says which motifs are listed, ``with_u`` and ``with_v`` by their ids.

    A prepared graph has ``n_items``, and in ``work`` the estimated set operations of each item, falling.
    """

    name: EngineName

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Return the estimated set operations of each item, shape (n_items,); heaviest first."""
        work: NDArray[np.int64] = prepared.work
        return work

    def slice_work(self, prepared: Any) -> int:
        """Slices cost nothing."""
        return 1

    def run(
        self,
        prepared: Any,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """List exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row once, in blocks, from any thread; what it raises ends the run. ``total`` is the number
        of rows. A partial that is capped has as many as the limit, and all items of the run, which may have more.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        LeaseTooLargeError
            When a device has no room for what these items need or find.
        ExecutionError
            When the rows are not as many as the search has counted.
        """
        require_interval(start, stop, prepared.n_items)
        outlet = Outlet(sink, self.listing.limit)
        found = self._list(prepared, [start, *bounds, stop], cut, outlet)
        work = outlet.rows + found.work
        if outlet.full:
            return Partial(stop - start, outlet.rows, work, capped=True)
        return Partial(found.n_items, outlet.rows, work, checksum=found.checksum % (1 << 64))

    @abstractmethod
    def _list(self, prepared: Any, bounds: Sequence[int], cut: Cut, outlet: Outlet) -> Found:
        """List the items between the bounds, whose first and last may be equal; see :meth:`run`."""


class CpuLister(Lister):
    """Base of the listers on CPUs; ``threads`` of one run are by default the processors that this process may use.

    They hold no graph, and are safe to share between threads.
    """

    name: EngineName = "cpu"
    serial_cost: int | None = None
    """Below this cost one thread lists alone; see :func:`~papilio.kernels.threads.cut_by_cost`."""

    def __init__(self, threads: int | None, listing: Listing) -> None:
        super().__init__(listing)
        self.threads = choose_threads(threads)

    def _list(self, prepared: Any, bounds: Sequence[int], cut: Cut, outlet: Outlet) -> Found:
        start, stop = bounds[0], bounds[-1]
        costs = self.work(prepared)[start:stop]
        chunks = cut_by_cost(costs, self.threads, len(bounds) - 1, self.serial_cost)

        def list_chunk(worker: Any, first: int, end: int) -> None:
            self._begin(worker, start + first)
            while not (outlet.full or runner.failed) and not self._list_some(prepared, worker, start + end):
                self._pass_on(prepared, worker, outlet)

        runner = ChunkRunner(lambda: self._make_worker(prepared), self.threads)
        n_items = items_in(chunks, runner.run(chunks, list_chunk, lambda: outlet.full or cut()))
        for worker in runner.states:
            self._pass_on(prepared, worker, outlet)
        work, checksum = self._finish(prepared, (start, start + n_items), runner.states, outlet)
        return Found(n_items, work, checksum)

    @abstractmethod
    def _make_worker(self, prepared: Any) -> Any:
        """Return what one thread has of its own."""

    @abstractmethod
    def _begin(self, worker: Any, item: int) -> None:
        """Put a worker at the first item of a chunk."""

    @abstractmethod
    def _list_some(self, prepared: Any, worker: Any, end: int) -> bool:
        """Fill the block of a worker; return whether the items below an end are all listed."""

    @abstractmethod
    def _pass_on(self, prepared: Any, worker: Any, outlet: Outlet) -> None:
        """Empty the block of a worker into the outlet."""

    @abstractmethod
    def _finish(
        self, prepared: Any, span: tuple[int, int], workers: Sequence[Any], outlet: Outlet
    ) -> tuple[int, int]:
        """Return the words intersected for the items of a span, and the sum of the hashes of what was found."""
