"""What counts of cliques are compared with counts right, and so does what compares."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.clique import measure, table_lines
from benchmarks.clique_peers import count_by_kclist, count_by_pivoter
from papilio.graph import UnipartiteGraph
from papilio.motifs import Clique, MaximalClique
from tests.conftest import share_of_examples
from tests.tools.oracle_clique import count_cliques

pytestmark = pytest.mark.slow  # ten seconds to compile


@st.composite
def edges(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    n = draw(st.integers(1, 12))
    return n, draw(st.lists(st.sampled_from([*combinations(range(n), 2)]), unique=True)) if n > 1 else []


def test_kclist_and_pivoter_follow_the_definition() -> None:
    @settings(max_examples=share_of_examples(60), deadline=None, derandomize=True, database=None)
    @given(edges())
    def law(drawn: tuple[int, list[tuple[int, int]]]) -> None:
        n, pairs = drawn
        a, b = zip(*pairs, strict=True) if pairs else ((), ())
        graph = UnipartiteGraph.from_edges(np.array(a, np.int64), np.array(b, np.int64), n)
        wanted = count_cliques(n, pairs)
        for k in (3, 4, 5):
            assert count_by_kclist(graph, k) == wanted.get((k,), 0)
        counts, few = count_by_pivoter(graph), count_by_pivoter(graph, 3)
        assert {(k,): int(counts[k]) for k in np.flatnonzero(counts).tolist()} == wanted
        assert [int(few[k]) for k in (1, 2, 3) if k < few.size] == [
            wanted.get((k,), 0) for k in (1, 2, 3) if k < few.size
        ]

    law()


def test_the_table_says_what_was_measured() -> None:
    u, v = np.triu_indices(12, 1)
    graph = UnipartiteGraph.from_edges(u, v)
    rows = [measure("K12", graph, motif, 1) for motif in (Clique(4), Clique(), MaximalClique())]
    assert [row.correct for row in rows] == [True] * 3
    lines = table_lines(rows, {"machine": "this one"})
    assert "- machine: this one" in lines
    assert lines[-3].startswith("| K12 | k = 4 | 495 | ")
    assert lines[-2].startswith("| K12 | k = all | 4,095 | ")
    assert lines[-1].startswith("| K12 | maximal | 1 | ")
