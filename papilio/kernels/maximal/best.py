"""The largest maximal bicliques: one search finds how large they are, another one lists those that are as large.

The first keeps the largest values alone. Its threads share a bound, what n of them are known to reach, and leave out
what cannot pass it. The second lists what reaches the value of the n-th, with the bound fixed, and chooses by value and
then by the ids of the vertices, so that the answer is always the same.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.engine import Best, choose_best
from papilio.kernels.maximal.cpu import SERIAL_COST, Worker, count_only, make_worker
from papilio.kernels.maximal.found import BALANCED, EDGES
from papilio.kernels.maximal.list import PreparedMaximalListing, list_found, list_stars, pass_on
from papilio.kernels.maximal.stars import RaggedColumn
from papilio.kernels.rows import Outlet
from papilio.kernels.threads import ChunkRunner, cut_by_cost

RANKINGS = {"edges": EDGES, "balanced": BALANCED}
"""By the number of edges, or by the vertices of the smaller side."""


def find_best(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> tuple[Best, ...]:
    """Return the ``n`` largest of the maximal bicliques that are asked for, or all; ids of U, then of V.

    Parameters
    ----------
    prepared : PreparedMaximalListing
        Made by :class:`~papilio.kernels.maximal.list.MaximalBicliqueLister`.
    by : {"edges", "balanced"}
        See :data:`RANKINGS`.
    n : int
        At least 1.
    """
    bound = _find_bound(prepared, by, n, threads)
    best: tuple[Best, ...] = ()
    lock = threading.Lock()

    def keep(u: RaggedColumn, v: RaggedColumn) -> None:
        nonlocal best
        values = _values(by, np.diff(u[0]), np.diff(v[0]))
        found = []
        for row in np.flatnonzero(values >= bound).tolist():
            members = tuple(
                tuple(ids[places[ends[row] : ends[row + 1]]].tolist())
                for ids, (ends, places) in ((prepared.ids_u, u), (prepared.ids_v, v))
            )
            found.append(Best(int(values[row]), members))
        with lock:
            best = choose_best((*best, *found), n)

    searched, outlet = prepared.searched, Outlet(keep, None)
    limits, fixed = searched.limits(RANKINGS[by]), np.array([bound], np.int64)

    def list_chunk(worker: Worker, begin: int, end: int) -> None:
        worker.begin(begin)
        while not worker.search_items(searched, limits, end):
            pass_on(searched, worker, outlet)

    runner = ChunkRunner(
        lambda: make_worker(searched, list_found(prepared, None)._replace(bound=fixed)), threads
    )
    runner.run(cut_by_cost(searched.index.costs, threads, serial_cost=SERIAL_COST), list_chunk)
    for worker in runner.states:
        pass_on(searched, worker, outlet)
    for block in list_stars(searched.stars, prepared.ids_u, prepared.ids_v):
        outlet.take(*block)
    return best


def _values(by: str, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows * columns if by == "edges" else np.minimum(rows, columns)


def _find_bound(prepared: PreparedMaximalListing, by: str, n: int, threads: int) -> int:
    """Return the value of the n-th largest, or of the least where there are fewer; 0 where there is none."""
    searched = prepared.searched
    stars = (searched.stars.of_u, searched.stars.of_v)
    values = [_values(by, np.diff(u[0]), np.diff(v[0])) for u, v in stars]
    largest = np.sort(np.concatenate(values))[::-1][:n]
    shared = np.array([largest[-1] + 1 if largest.size == n else 0], np.int64)
    limits = searched.limits(RANKINGS[by])

    def search(worker: Worker, begin: int, end: int) -> None:
        worker.begin(begin)
        worker.search_items(searched, limits, end)

    found = count_only(searched)
    runner = ChunkRunner(
        lambda: make_worker(searched, found._replace(bound=shared, heap=np.zeros(n + 1, np.int64))), threads
    )
    runner.run(cut_by_cost(searched.index.costs, threads, serial_cost=SERIAL_COST), search)
    heaps = [worker.found.heap for worker in runner.states]
    every = np.sort(np.concatenate([largest, *(heap[1 : 1 + heap[0]] for heap in heaps)]))[::-1][:n]
    return int(every[-1]) if every.size else 0
