"""An engine that counts bicliques by definition, for small graphs: what tasks and commands are tested on.

A work item is a vertex of U; it answers for the bicliques whose first vertex of U it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Engine, EngineName, Partial, Prepared, StopCheck, never_cut
from papilio.motifs import Biclique, Granularity


@dataclass(frozen=True)
class FakePrepared(Prepared):
    """Neighbours of each vertex of U, by falling degree, and what is asked."""

    graph: BipartiteGraph
    motif: Biclique
    per: Granularity
    order: list[int]
    neighbours: dict[int, frozenset[int]]
    nbytes: int = 1000
    decisions: tuple[tuple[str, str], ...] = ()

    @property
    def work(self) -> NDArray[np.int64]:
        return np.array([len(self.neighbours[u]) for u in self.order], np.int64)


@dataclass
class FakeBicliqueEngine(Engine):
    """Counts one biclique at a time; ``wrong`` is added to every total, to be found out."""

    name: EngineName = "cpu"
    wrong: int = 0

    def prepare(self, graph: BipartiteGraph, motif: Biclique, per: Granularity) -> FakePrepared:
        neighbours: dict[int, set[int]] = {u: set() for u in range(graph.n_u)}
        for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
            neighbours[u].add(v)
        order = sorted(neighbours, key=lambda u: (-len(neighbours[u]), u))
        return FakePrepared(graph, motif, per, order, {u: frozenset(vs) for u, vs in neighbours.items()})

    def run(
        self,
        prepared: FakePrepared,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        cells: Counter[tuple[int, int]] = Counter()
        u_counts = np.zeros(prepared.graph.n_u, np.uint64)
        v_counts = np.zeros(prepared.graph.n_v, np.uint64)
        for item in range(start, stop):
            for us, vs in bicliques_of(prepared, item):
                cells[len(us), len(vs)] += 1
                u_counts[list(us)] += np.uint64(1)
                v_counts[list(vs)] += np.uint64(1)
        total = sum(cells.values()) + self.wrong
        work = int(self.work(prepared)[start:stop].sum())
        vectors = {"u": u_counts, "v": v_counts} if prepared.per == "vertex" else {}
        return Partial(stop - start, total, work, vectors, dict(cells) if prepared.motif.is_table else {})


def bicliques_of(prepared: FakePrepared, item: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the bicliques that a work item answers for."""
    motif, first = prepared.motif, prepared.order[item]
    later = prepared.order[item + 1 :]
    most = motif.max_p or len(prepared.order)
    for p in [motif.p] if motif.p is not None else range(1, most + 1):
        for rest in combinations(later, p - 1):
            shared = sorted(frozenset.intersection(*(prepared.neighbours[u] for u in (first, *rest))))
            for q in [motif.q] if motif.q is not None else range(1, (motif.max_q or len(shared)) + 1):
                for vs in combinations(shared, q):
                    yield (first, *rest), vs
