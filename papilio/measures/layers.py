"""The layers of a wedge index, and threads that walk their vertices and say how far they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Ints, Place, compiled
from papilio.kernels.threads import ChunkRunner, choose_threads, cut_by_cost
from papilio.kernels.wedge.graph import WedgeIndex, WedgeRows
from papilio.parts import Layer

State = TypeVar("State")

Report = Callable[[float], None]
"""Told the share of the work that is done, from 0 to 1, from any thread."""


class IndexedLayer(NamedTuple):
    """Where a layer is in a wedge index."""

    n: int
    first: int  # its first row
    order: NDArray[np.int32]  # its ids by rank, shape (n,)


def layer_of(index: WedgeIndex, layer: Layer) -> IndexedLayer:
    """Return where a layer is."""
    if layer == "u":
        return IndexedLayer(index.n_u, 0, index.order_u)
    return IndexedLayer(index.n_v, index.n_u, index.order_v)


@compiled
def _add_costs(rows: WedgeRows, first: Place, sign_bits: Place, costs: Ints) -> None:
    middles = rows.n_u if first < rows.n_u else 0
    for rank in range(costs.size):
        for at in range(rows.offsets[first + rank], rows.offsets[first + rank + 1]):
            middle = middles + np.int64(rows.ids[at] >> sign_bits)
            costs[rank] += rows.offsets[middle + 1] - rows.offsets[middle]


def wedge_costs(rows: WedgeRows, layer: IndexedLayer, *, signed: bool) -> Ints:
    """Return the wedges that start at each rank, its ways back to itself included, and one more; int64, shape (n,)."""
    costs = np.ones(layer.n, np.int64)
    _add_costs(rows, layer.first, int(signed), costs)
    return costs


def run_reported(
    costs: Ints,
    threads: int | None,
    make_state: Callable[[], State],
    work: Callable[[State, int, int], None],
    report: Report,
) -> list[State]:
    """Call ``work(state, start, stop)`` for intervals of all items, and report; return the states of the threads.

    ``costs`` are at least 1 each; ``threads`` are by default the processors that this process may use.
    """
    ends = np.concatenate(([0], np.cumsum(costs)))
    done: list[int] = []

    def step(state: State, start: int, stop: int) -> None:
        work(state, start, stop)
        done.append(int(ends[stop] - ends[start]))
        report(sum(done) / int(ends[-1]))

    chosen = choose_threads(threads)
    runner = ChunkRunner(make_state, chosen)
    runner.run(cut_by_cost(costs, chosen), step)
    return runner.states
