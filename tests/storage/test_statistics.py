"""What ``papilio info`` shows of a store, against counts made from the graph in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import edge_files
from papilio.storage.statistics import describe
from papilio.storage.store import open_store, write_store


def test_bipartite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_files, "ROW_GROUP_EDGES", 128)
    rng = np.random.default_rng(5)
    u, v = (rng.random(3000) ** 2 * 200).astype(int), (rng.random(3000) ** 3 * 90).astype(int)
    graph = BipartiteGraph.from_edges(u, v, 210, 95, rng.choice([-1, 1], 3000))
    write_store(tmp_path / "g", graph, provenance={"source": "made"}, labels_v=np.arange(95) * 2)
    found = describe(open_store(tmp_path / "g"))
    assert json.loads(json.dumps(found)) == found
    assert graph.sign is not None
    assert found["signs"] == {
        "positive": int((graph.sign == 1).sum()),
        "negative": int((graph.sign == -1).sum()),
    }
    for layer, degrees in (("u", graph.degree_u), ("v", graph.degree_v)):
        ordered = np.sort(degrees)
        described = found["degrees"][layer]
        assert described["max"] == ordered[-1]
        assert described["mean"] == graph.n_edges / degrees.size
        assert described["isolated"] == int((degrees == 0).sum())
        for name, value in described["quantiles"].items():
            assert value == ordered[int(np.ceil(float(name) * degrees.size)) - 1]
    assert found["density"] == graph.n_edges / (210 * 95)
    assert found["row_groups"] == -(-graph.n_edges // 128)
    assert found["labels"] == ["v"]
    assert found["provenance"] == {"source": "made"}
    on_disk = sum(p.stat().st_size for p in (tmp_path / "g").rglob("*") if p.is_file())
    assert found["stored_bytes"] == on_disk


def test_unipartite(tmp_path: Path) -> None:
    graph = UnipartiteGraph.from_edges([0, 0, 0, 1], [1, 2, 3, 2], 6)
    found = describe(write_store(tmp_path / "g", graph, provenance={}))
    assert found["degrees"] == {
        "u": {"max": 3, "mean": 8 / 6, "isolated": 2, "quantiles": {"0.5": 1, "0.9": 3, "0.99": 3}}
    }
    assert found["density"] == 4 / 15
    assert found["signs"] is None


def test_without_edges_or_vertices(tmp_path: Path) -> None:
    empty = describe(write_store(tmp_path / "a", BipartiteGraph.from_edges([], [], 0, 3), provenance={}))
    assert empty["density"] is None
    assert empty["degrees"]["u"] == {
        "max": 0,
        "mean": 0.0,
        "isolated": 0,
        "quantiles": {"0.5": 0, "0.9": 0, "0.99": 0},
    }
    assert empty["degrees"]["v"]["isolated"] == 3
