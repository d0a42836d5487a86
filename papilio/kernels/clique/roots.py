"""What the CPU engines of cliques share: their items are roots, heaviest first, which threads take in chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.engine import Cut, EngineName, Loadable, require_interval
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost, items_in

SERIAL_COST = 1 << 16
"""Below this many predicted set operations (about a millisecond) threads cost more than they bring."""

State = TypeVar("State")


class PreparedRoots(Protocol):
    """A graph whose items are roots."""

    @property
    def costs(self) -> NDArray[np.int64]:
        """Predicted set operations of each item, falling."""
        ...

    @property
    def n_items(self) -> int:
        """Number of work items: the vertices that have enough later neighbours."""
        ...


def heaviest_first(
    roots: NDArray[np.int64], costs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return roots and costs by falling cost, equal ones by rank."""
    order = np.argsort(-costs, kind="stable")
    return roots[order], costs[order]


class RootsCpu:
    """Base of the engines; ``threads`` of one run are by default the processors that this process may use."""

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = choose_threads(threads)

    def stage(self, block: Loadable) -> Loadable:
        """Return the block itself."""
        return block

    def work(self, prepared: PreparedRoots) -> NDArray[np.int64]:
        """Return the predicted set operations of each item, shape (n_items,); heaviest first."""
        return prepared.costs

    def slice_work(self, prepared: PreparedRoots) -> int:
        """Slices cost nothing."""
        return 1

    def _run_roots(
        self,
        prepared: PreparedRoots,
        span: tuple[int, int],
        n_slices: int,
        cut: Cut,
        make_state: Callable[[], State],
        count: Callable[[State, int, int], Any],
    ) -> tuple[int, list[State]]:
        """Count the items ``span``, or the first of them if cut; return how many, and the states of the threads."""
        start, stop = span
        require_interval(start, stop, prepared.n_items)
        pieces = cut_by_cost(prepared.costs[start:stop], self.threads, n_slices, SERIAL_COST)
        runner = ChunkRunner(make_state, self.threads)
        done = runner.run([(start + a, start + b) for a, b in pieces], count, cut)
        return items_in(pieces, done), runner.states
