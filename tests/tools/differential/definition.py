"""Answers by the oracles, which visit motif after motif and share no code with the engines; for tiny graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from papilio.families import family_of
from papilio.graph import UnipartiteGraph
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.motifs import CENSUS_CLASSES, Biclique, Butterfly, Census, MaximalBiclique, MaximalClique
from tests.tools import oracle_clique, oracle_maximal, oracle_peeling, oracle_signed
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
        motif, listing = question.motif, question.listing
        if question.peels:
            return _peel(graph, question.peels)
        rows = [row for row in _visit(graph, question) if _is_asked(row, question)]
        if listing is not None:
            held = (set(listing.with_u), set(listing.with_v))
            rows = [
                row for row in rows if all(ids <= set(side) for ids, side in zip(held, row, strict=False))
            ]
        cells = Counter(tuple(map(len, row)) for row in rows) if motif.is_table and listing is None else {}
        if isinstance(motif, Census):
            names = {each.name: each.cell for each in CENSUS_CLASSES}
            found = oracle_signed.census(_signs(graph), motif.pair_side)
            cells = Counter({names[name]: count for name, count in found.items()})
        hashes = [int(hash_rows(*(np.array([side], np.int32) for side in row))[0]) for row in rows]
        return Answer(
            None, None, len(rows), dict(cells), _add_up(rows, graph, question.per),
            sum_hashes(np.array(hashes, np.uint64)) if family_of(motif).has_checksum else None,
            None if listing is None else sorted(rows),
        )  # fmt: skip


def _signs(graph: Any) -> oracle_signed.Signs:
    return dict(zip(edge_list(graph), graph.sign.tolist(), strict=True))


def _is_asked(row: Row, question: Question) -> bool:
    cell = tuple(map(len, row))
    return cell == (2, 2) if isinstance(question.motif, Butterfly | Census) else question.motif.has_cell(cell)


def _visit(graph: Any, question: Question) -> Iterable[Row]:
    """Return every motif of the kind, by the ids of its vertices in each layer."""
    motif, edges = question.motif, edge_list(graph)
    if isinstance(motif, MaximalBiclique):
        return oracle_maximal.maximal_bicliques_of(edges)
    if isinstance(motif, MaximalClique):
        return ((each,) for each in oracle_clique.maximal_cliques(graph.n, edges))
    if isinstance(motif, Butterfly | Census) or type(motif) is Biclique:
        return _bicliques(edges)
    if motif.needs_signs:
        return oracle_signed.balanced_bicliques(_signs(graph))
    return ((each,) for each in oracle_clique.cliques_of(graph.n, edges))


def _bicliques(edges: list[tuple[int, int]]) -> Iterator[Row]:
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    begun: list[tuple[tuple[int, ...], set[int], list[int]]] = [
        ((), {v for _, v in edges}, sorted(neighbours))
    ]
    while begun:
        chosen, shared, later = begun.pop()
        for at, u in enumerate(later):
            if both := shared & neighbours[u]:
                begun.append(((*chosen, u), both, later[at + 1 :]))
                yield from (
                    ((*chosen, u), others)
                    for q in range(1, len(both) + 1)
                    for others in combinations(sorted(both), q)
                )


def _add_up(rows: Sequence[Row], graph: Any, per: str) -> dict[str, Any]:
    """Return how many of them each vertex, or edge, is in."""
    if per == "total":
        return {}
    if per == "edge":
        place = {edge: at for at, edge in enumerate(edge_list(graph))}
        vector = np.zeros(graph.n_edges, np.uint64)
        for row in rows:
            pairs = combinations(*row, 2) if len(row) == 1 else ((u, v) for u in row[0] for v in row[1])
            vector[[place[pair] for pair in pairs]] += np.uint64(1)
        return {"edge": vector}
    layers = {"n": graph.n_u} if isinstance(graph, UnipartiteGraph) else {"u": graph.n_u, "v": graph.n_v}
    vectors = {name: np.zeros(n, np.uint64) for name, n in layers.items()}
    for row in rows:
        for vector, side in zip(vectors.values(), row, strict=True):
            vector[list(side)] += np.uint64(1)
    return vectors


def _peel(graph: Any, peels: str) -> Answer:
    if peels == "v":
        graph = graph.swap_layers()
    numbers = oracle_peeling.wing_numbers(graph) if peels == "wing" else oracle_peeling.tip_numbers(graph)
    return Answer(None, None, sum(numbers), {}, {"number": np.array(numbers, np.uint64)})
