"""Answers by the oracles, which visit motif after motif and share no code with the engines; for tiny graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papilio.graph import UnipartiteGraph
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.registry import motif_row
from tests.families.examples import Example, Row, example_of
from tests.tools import oracle_peeling
from tests.tools.differential.answers import Answer, numbers_by_place
from tests.tools.differential.cases import Question
from tests.tools.differential.graphs import Graph
from tests.tools.strategies import edge_list


class OracleAnswerer:
    """Counts one by one, by definition."""

    name = "oracle"

    def __call__(self, graph: Graph, question: Question, tuning: Mapping[str, Any], items: int | None = None) -> Answer:
        motif, listing = question.motif, question.listing
        if question.peels:
            return _peel(graph, question.peels)
        example = example_of(motif.name)
        rows = list(example.oracle(graph, motif))
        if listing is not None:
            held = (set(listing.with_u), set(listing.with_v))
            rows = [row for row in rows if all(ids <= set(side) for ids, side in zip(held, row, strict=False))]
        cells: Mapping[Any, int] = {}
        if motif.is_table and listing is None:
            count = example.cells or (lambda graph, motif: Counter(tuple(map(len, row)) for row in rows))
            cells = count(graph, motif)
        checksum = None
        if motif_row(motif).has_checksum:
            hashes = [int(hash_rows(*(np.array([side], np.int32) for side in row))[0]) for row in rows]
            checksum = sum_hashes(np.array(hashes, np.uint64))
        return Answer(
            None, None, len(rows), dict(cells), _add_up(rows, graph, question.per, example), checksum,
            None if listing is None else sorted(rows),
        )  # fmt: skip


def _add_up(rows: Sequence[Row], graph: Any, per: str, example: Example) -> dict[str, Any]:
    """Return how many of them each vertex, or edge, is in."""
    if per == "total":
        return {}
    if per == "edge":
        place = {edge: at for at, edge in enumerate(edge_list(graph))}
        vector = np.zeros(graph.n_edges, np.uint64)
        for row in rows:
            vector[[place[pair] for pair in example.edges(row)]] += np.uint64(1)
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
    if peels.startswith("core"):
        numbers = oracle_peeling.core_numbers(graph, peels[-1], 2)
    else:
        numbers = oracle_peeling.wing_numbers(graph) if peels == "wing" else oracle_peeling.tip_numbers(graph)
    return Answer(None, None, sum(numbers), {}, numbers_by_place(graph, peels, np.array(numbers, np.uint64)))
