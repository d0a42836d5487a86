"""Maximal bicliques: against the oracle, against closed forms, and under every split."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph
from papilio.kernels.checksum import hash_rows, sum_hashes
from papilio.kernels.engine import Partial
from papilio.kernels.maximal.cpu import MaximalBicliqueCpu
from papilio.motifs import MaximalBiclique
from tests.kernels.maximal.questions import motifs
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import bipartite_graphs, edge_list


def count(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str = "auto", threads: int = 1) -> Partial:
    engine = MaximalBicliqueCpu(threads, anchor)
    prepared = engine.prepare(graph, motif, "total")
    return engine.run(prepared, 0, prepared.n_items)


@given(graph=bipartite_graphs(max_side=10), motif=motifs(), anchor=st.sampled_from(["u", "v"]))
@settings(deadline=None)
def test_counts_equal_the_oracle(graph: BipartiteGraph, motif: MaximalBiclique, anchor: str) -> None:
    found = count(graph, motif, anchor)
    wanted = [(u, v) for u, v in maximal_bicliques_of(edge_list(graph)) if motif.has_cell((len(u), len(v)))]
    assert found.cells == Counter((len(u), len(v)) for u, v in wanted)
    assert found.total == len(wanted)
    hashes = [hash_rows(np.array([u], np.int32), np.array([v], np.int32)) for u, v in wanted]
    assert found.checksum == sum(map(sum_hashes, hashes)) % 2**64
