"""Maximal bicliques with one vertex on a side, and what is left to search."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.index import build_maximal_index, hash_sides
from papilio.kernels.exact import hash_rows, mix, sum_hashes
from papilio.kernels.maximal.loops import find_stars
from papilio.motifs import MaximalBiclique
from tests.kernels.maximal.questions import motifs
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, graph_of


@given(graph=bipartite_graphs(max_side=8), motif=motifs())
@settings(deadline=None)
def test_stars_are_the_maximal_bicliques_of_one_vertex_on_a_side(graph: BipartiteGraph, motif: MaximalBiclique) -> None:
    stars = find_stars(graph, motif)
    found = [
        (tuple(ids_u.tolist()), tuple(ids_v.tolist()))
        for of_u, of_v in (stars.of_u, stars.of_v)
        for ids_u, ids_v in zip(_split(of_u), _split(of_v), strict=True)
    ]
    wanted = {
        (u, v)
        for u, v in maximal_bicliques_of(edge_list(graph))
        if 1 in (len(u), len(v)) and motif.has_cell((len(u), len(v)))
    }
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert stars.cells == Counter((len(u), len(v)) for u, v in wanted)
    hashes = [hash_rows(np.array([u], np.int32), np.array([v], np.int32)) for u, v in wanted]
    assert stars.checksum == sum(map(sum_hashes, hashes)) % 2**64


def _split(column: object) -> list[np.ndarray]:
    if isinstance(column, tuple):
        return np.split(column[1], column[0][1:-1]) if len(column[0]) > 1 else []
    assert isinstance(column, np.ndarray)
    return list(column)


@pytest.mark.parametrize("anchor", ["u", "v"])
def test_hashes_are_those_of_the_original_ids(anchor: str) -> None:
    graph = graph_of({(u + 3, v + 1) for u in range(3) for v in range(4)}, 8, 9)
    index = build_maximal_index(graph, MaximalBiclique(), 1, anchor)
    lefts, rights = hash_sides(index)
    taken = np.concatenate((lefts, rights)).sum(dtype=np.uint64)
    one = hash_rows(np.arange(3, 6, dtype=np.int32)[None], np.arange(1, 5, dtype=np.int32)[None])
    assert mix(np.array([taken]))[0] == one[0]


def test_a_job_of_stars_alone_has_an_item() -> None:
    graph = complete_graph(1, 3)
    assert build_maximal_index(graph, MaximalBiclique(), 1).n_items == 0
    assert build_maximal_index(graph, MaximalBiclique(), 1, has_stars=True).n_items == 1
