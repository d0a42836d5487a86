"""Answers by the oracles, which share no code with the engines; for tiny graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from papilio.census_motif import CENSUS_CLASSES, Census
from papilio.graph import BipartiteGraph
from papilio.kernels.checksum import hash_rows, sum_hashes
from papilio.motifs import (
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    MaximalBiclique,
    MaximalClique,
)
from tests.tools import oracle, oracle_clique, oracle_maximal, oracle_peeling, oracle_signed
from tests.tools.differential.answers import Answer, Row
from tests.tools.differential.cases import Question
from tests.tools.differential.graphs import Graph
from tests.tools.strategies import edge_list


class OracleAnswerer:
    """Counts one by one, by definition."""

    name = "oracle"

    def __call__(
        self, graph: Graph, question: Question, tuning: Mapping[str, Any], items: int | None = None
    ) -> Answer:
        motif = question.motif
        if question.peels:
            return _peel(graph, question.peels)
        if question.listing is not None or isinstance(motif, MaximalBiclique | MaximalClique):
            return _list(graph, question)
        if isinstance(motif, Butterfly):
            return _butterflies(graph, question.per)
        if isinstance(motif, Census):
            cells = {each.cell: 0 for each in CENSUS_CLASSES}
            named = {each.name: each.cell for each in CENSUS_CLASSES}
            for name, count in oracle_signed.census(_signs(graph), motif.pair_side).items():
                cells[named[name]] += count
            found = _add_up(_visit(graph, question), graph, question.per)
            return Answer(None, None, found.total, {c: n for c, n in cells.items() if n}, found.vectors)
        found = _add_up(_visit(graph, question), graph, question.per)
        cells = found.cells if motif.is_table else {}
        return Answer(None, None, found.total, cells, found.vectors)


def _signs(graph: Any) -> oracle_signed.Signs:
    return dict(zip(edge_list(graph), graph.sign.tolist(), strict=True))


def _visit(graph: Any, question: Question) -> Iterable[Row]:
    """Yield every motif asked for, by the ids of its vertices in each layer."""
    motif, edges = question.motif, list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    if isinstance(motif, MaximalBiclique):
        found: Iterable[Row] = oracle_maximal.maximal_bicliques_of(edges)
    elif isinstance(motif, MaximalClique):
        found = [(each,) for each in oracle_clique.maximal_cliques(graph.n, edges)]
    elif isinstance(motif, BalancedBiclique):
        found = oracle_signed.balanced_bicliques(_signs(graph))
    elif isinstance(motif, BalancedButterfly | Census):
        balanced = oracle_signed.balanced_bicliques(_signs(graph))
        if isinstance(motif, Census):
            return [((a, b), (c, d)) for a, b, c, d in oracle_signed.butterflies(_signs(graph))]
        found = balanced
    elif isinstance(motif, Biclique):
        found = _bicliques(edges)
    else:
        found = [(each,) for each in oracle_clique.cliques_of(graph.n, edges)]
    return [row for row in found if motif.has_cell(tuple(map(len, row)))]


def _bicliques(edges: list[tuple[int, int]]) -> Iterable[Row]:
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    for p in range(1, len(neighbours) + 1):
        for chosen in combinations(sorted(neighbours), p):
            shared = sorted(set.intersection(*(neighbours[u] for u in chosen)))
            for q in range(1, len(shared) + 1):
                for others in combinations(shared, q):
                    yield chosen, others


def _add_up(rows: Iterable[Row], graph: Graph, per: str) -> Answer:
    rows = list(rows)
    cells = Counter(tuple(map(len, row)) for row in rows)
    layers = {"u": graph.n_u, "v": graph.n_v} if isinstance(graph, BipartiteGraph) else {"n": graph.n}
    vectors = {}
    if per == "vertex":
        vectors = {name: np.zeros(n, np.uint64) for name, n in layers.items()}
        for row in rows:
            for vector, side in zip(vectors.values(), row, strict=True):
                vector[list(side)] += np.uint64(1)
    elif per == "edge":
        place = {edge: at for at, edge in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True))}
        vectors = {"edge": np.zeros(graph.n_edges, np.uint64)}
        for (clique,) in rows:
            vectors["edge"][[place[pair] for pair in combinations(clique, 2)]] += np.uint64(1)
    return Answer(None, None, len(rows), dict(cells), vectors)


def _butterflies(graph: Any, per: str) -> Answer:
    found = oracle.count_butterflies(edge_list(graph))
    vectors = {}
    if per == "vertex":
        vectors = {
            layer: np.array([found.vertex[layer, at] for at in range(n)], np.uint64)
            for layer, n in (("u", graph.n_u), ("v", graph.n_v))
        }
    elif per == "edge":
        vectors = {"edge": np.array([found.edge[edge] for edge in edge_list(graph)], np.uint64)}
    return Answer(None, None, found.total, {}, vectors)


def _list(graph: Graph, question: Question) -> Answer:
    """Visit and keep what holds what it must."""
    rows = sorted(_visit(graph, question))
    is_maximal = isinstance(question.motif, MaximalBiclique | MaximalClique)
    if (listing := question.listing) is not None:
        held = (set(listing.with_u), set(listing.with_v))
        rows = [row for row in rows if all(ids <= set(side) for ids, side in zip(held, row, strict=False))]
    cells = Counter(tuple(map(len, row)) for row in rows) if listing is None else {}
    hashes = [hash_rows(*(np.array([side], np.int32) for side in row)) for row in rows]
    checksum = sum_hashes(np.concatenate(hashes)) if hashes else 0
    return Answer(
        None,
        None,
        len(rows),
        dict(cells),
        {},
        checksum if is_maximal else None,
        None if listing is None else rows,
    )


def _peel(graph: Any, peels: str) -> Answer:
    if peels == "v":
        graph = graph.swap_layers()
    numbers = oracle_peeling.wing_numbers(graph) if peels == "wing" else oracle_peeling.tip_numbers(graph)
    return Answer(None, None, sum(numbers), {}, {"number": np.array(numbers, np.uint64)})
