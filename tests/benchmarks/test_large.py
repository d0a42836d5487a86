"""The benchmark of large graphs on small ones, and its closed forms against the counts of every family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import papilio
from benchmarks import large
from benchmarks.large import count_bicliques, count_cliques, require_vertices
from papilio.storage.generate import Blocks, generate_graph

TERMS = "9x30+25x9+7*6x6+3*1x20+20*2x1"


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (4, 5)])
def test_bicliques_of_blocks(p: int, q: int) -> None:
    model = Blocks(TERMS)
    result = papilio.count(generate_graph(model), papilio.Biclique(p, q), per="vertex")
    assert result.count == count_bicliques(model.terms, p, q)
    require_vertices(model.terms, dict(result.vectors), p, q)


def test_butterflies_and_maximal_bicliques_of_blocks() -> None:
    model = Blocks(TERMS)
    graph = generate_graph(model)
    result = papilio.count(graph, papilio.Butterfly(), per="edge")
    assert result.count == count_bicliques(model.terms, 2, 2)
    of_edge = [np.full(term.n_edges, (term.size_u - 1) * ((term.size_v or 0) - 1)) for term in model.terms]
    assert np.array_equal(result.vectors["edge"], np.concatenate(of_edge))
    maximal = papilio.count(graph, papilio.MaximalBiclique())
    assert maximal.count == sum(term.copies for term in model.terms)


@pytest.mark.parametrize("k", [2, 3, 4, 7, 12])
def test_cliques_of_blocks(k: int) -> None:
    model = Blocks("3*12+40*5+2*1")
    assert papilio.count(generate_graph(model), papilio.Clique(k)).count == count_cliques(model.terms, k)


def test_a_wrong_count_of_a_vertex_is_found() -> None:
    model = Blocks(TERMS)
    vectors = dict(papilio.count(generate_graph(model), papilio.Butterfly(), per="vertex").vectors)
    wrong = vectors["v"].copy()
    wrong[41] += np.uint64(1)
    with pytest.raises(SystemExit, match="vertex 41 of v is in"):
        require_vertices(model.terms, vectors | {"v": wrong})
    with pytest.raises(SystemExit, match="layer v has 1 counts"):
        require_vertices(model.terms, vectors | {"v": wrong[:1]})


def test_the_benchmark_counts_whole_and_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_PROBE_BYTES", 16 << 20)
    monkeypatch.setattr(large, "wedge_limit_cpu", lambda: 1.0)
    shapes, output = "48x1e5+5e4x48+20*50x50", tmp_path / "rows.json"
    large.main(["--scratch", str(tmp_path), "--shapes", shapes, "--fractions", "1,0.8", "--output", str(output)])
    found = json.loads(output.read_text())
    assert found["n_edges"] == 48 * 150_000 + 20 * 2500
    assert [row["strategy"] for row in found["rows"]] == ["replicate"] * 2 + ["pair_blocks"] * 2
    assert {row["count"] for row in found["rows"]} == {count_bicliques(Blocks(shapes).terms, 2, 2)}
    assert all(row["parts"] > 1 for row in found["rows"][2:])
