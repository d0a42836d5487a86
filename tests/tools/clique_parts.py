"""A cutter of unipartite graphs into parts for cliques by the definition, for tests: any order, any grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from papilio.graph import UnipartiteGraph
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.motifs import Granularity, Motif
from papilio.parts import CliquePart
from tests.tools.parts import vector_ids

__all__ = ["count_clique_parts", "cut_cliques_by_definition", "spread_clique_vectors"]


def cut_cliques_by_definition(
    graph: UnipartiteGraph, order: Sequence[int], groups: Sequence[Sequence[int]], *, outer: bool
) -> list[CliquePart]:
    """Return a part for each group of roots that is not empty: the graph that these and their neighbours induce.

    Parameters
    ----------
    order : sequence of int
        All vertices, the first one first.
    outer : bool
        Whether earlier neighbours are in the parts, as maximal cliques need them.
    """
    rank = {vertex: at for at, vertex in enumerate(order)}
    edge_of = {edge: at for at, edge in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True))}
    near: dict[int, set[int]] = {vertex: set() for vertex in range(graph.n)}
    for a, b in edge_of:
        near[a].add(b)
        near[b].add(a)
    parts = []
    for group in groups:
        if not group:
            continue
        met = set(group).union(
            *({other for other in near[root] if outer or rank[other] > rank[root]} for root in group)
        )
        ids = sorted(met, key=rank.__getitem__)
        local = {vertex: at for at, vertex in enumerate(ids)}
        edges = {
            (local[a], local[b]): edge_of[min(a, b), max(a, b)] for a in ids for b in near[a] & met if rank[a] < rank[b]
        }
        pairs = np.array(sorted(edges), np.int64).reshape(-1, 2)
        later = [sum(rank[b] > rank[root] for b in near[root]) for root in group]
        work = [1 + many * (len(near[root]) if outer else 1) for root, many in zip(group, later, strict=True)]
        by_work = sorted(range(len(group)), key=lambda at: -work[at])
        parts.append(
            CliquePart(
                UnipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], len(ids)),
                np.array(ids, np.int32),
                np.array([edges[a, b] for a, b in pairs.tolist()], np.int64),
                np.array([local[group[at]] for at in by_work], np.int32),
                np.array([work[at] for at in by_work], np.int64),
            )
        )
    return parts


def spread_clique_vectors(part: CliquePart, partial: Partial, graph: UnipartiteGraph) -> dict[str, Any]:
    """Return the vectors of a partial of a part as those of the whole graph."""
    spread = {}
    for name, vector in partial.vectors.items():
        spread[name] = np.zeros(graph.n if name == "n" else graph.n_edges, np.uint64)
        ids = vector_ids(part, "vertex" if name == "n" else "edge")[name]
        assert ids.shape == vector.shape
        np.add.at(spread[name], ids, vector)
    return spread


def count_clique_parts(
    engine: Engine,
    graph: UnipartiteGraph,
    parts: Sequence[CliquePart],
    motif: Motif,
    per: Granularity = "total",
    *,
    cut_at: int | None = None,
) -> Partial:
    """Count all items of all parts, in two runs where ``cut_at`` says where the second begins, and fold."""
    folded: Partial | None = None
    for part in parts:
        prepared: Any = engine.prepare(part, motif, per)
        n = prepared.n_items
        assert n == part.roots.size
        assert engine.work(prepared).shape == (n,)
        middle = n if cut_at is None else min(cut_at, n)
        for begin, end in ((0, middle), (middle, n)) if middle < n else ((0, n),):
            got = engine.run(prepared, begin, end)
            assert got.n_items == end - begin
            spread = spread_clique_vectors(part, got, graph)
            one = Partial(got.n_items, got.total, 0, spread, got.cells, checksum=got.checksum)
            folded = one if folded is None else fold_partials(folded, one)
    return folded or Partial(0, 0, 0)
