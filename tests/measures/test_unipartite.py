"""Local clustering of unipartite graphs: NetworkX, the definition path by path, files, jobs and commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import papilio
from papilio.errors import CapacityError
from papilio.graph import UnipartiteGraph
from papilio.kernels import exact
from papilio.storage.store import write_store
from tests.conftest import share_of_examples
from tests.kernels.clique.test_clique import complete, graphs
from tests.tools.commands import Run
from tests.tools.strategies import edge_list

HERE: dict[str, Any] = {"engine": "cpu", "cluster": "inline"}

Path4 = tuple[int, int, int, int]


def networkx_of(graph: UnipartiteGraph) -> nx.Graph[int]:
    found = nx.empty_graph(graph.n)
    found.add_edges_from(edge_list(graph))
    return found


def walks(other: nx.Graph[int]) -> tuple[list[Path4], list[Path4]]:
    """Return the paths of three edges, in both directions, and the paths whose ends are adjacent."""
    paths = [
        (a, u, v, b) for u in other for v in other[u] for a in other[u] for b in other[v] if len({a, u, v, b}) == 4
    ]
    return paths, [path for path in paths if other.has_edge(path[0], path[3])]


@settings(max_examples=share_of_examples(40), deadline=None)
@given(graphs(9))
def test_local_clustering_of_vertices(graph: UnipartiteGraph) -> None:
    found, other = papilio.local_clustering(graph, **HERE), networkx_of(graph)
    paths, closed = walks(other)
    own, shut = (np.bincount([p[1] for p in some], minlength=graph.n) for some in (paths, closed))
    np.testing.assert_array_equal(found.three_paths["n"], own)
    np.testing.assert_array_equal(2 * found.butterflies["n"], shut)
    closed_share, square = (found.values["n"][name] for name in ("closed", "square"))
    np.testing.assert_array_equal(np.isnan(closed_share), own == 0)
    np.testing.assert_allclose(closed_share[own > 0], shut[own > 0] / own[own > 0], rtol=1e-15)
    assert dict(enumerate(np.nan_to_num(square).tolist())) == nx.square_clustering(other)


@settings(max_examples=share_of_examples(40), deadline=None)
@given(graphs(9))
def test_local_clustering_of_edges(graph: UnipartiteGraph) -> None:
    found = papilio.local_clustering(graph, per="edge", **HERE)
    paths, closed = walks(networkx_of(graph))
    for at, edge in enumerate(edge_list(graph)):
        own, shut = (sum(path[1:3] == edge for path in some) for some in (paths, closed))
        assert (found.three_paths["edge"][at], found.butterflies["edge"][at]) == (own, shut)
        assert found.values["edge"]["closed"][at] == pytest.approx(shut / own if own else np.nan, nan_ok=True)


def test_files_jobs_and_the_command(tmp_path: Path, run: Run) -> None:
    store, graph = tmp_path / "graph", nx.karate_club_graph()
    held = UnipartiteGraph.from_edges(*np.array(list(graph.edges())).T)
    write_store(store, held, provenance={}, labels_u=np.array([f"m{i}" for i in range(34)], object))
    found = papilio.local_clustering(store, output=tmp_path / "a.parquet", job=tmp_path / "job", **HERE)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "label", "four_cycles", "three_paths", "closed", "square"]
    assert table.to_pydict() == found.to_arrow().to_pydict()
    assert [value or 0 for value in table.column("square").to_pylist()] == [*nx.square_clustering(graph).values()]
    assert found.summaries()["n"].size == 34
    assert found.top(1, by="square")[0].place == "n"
    again = papilio.local_clustering(store, job=tmp_path / "job", **HERE)
    assert again.counted.reused
    np.testing.assert_array_equal(again.values["n"]["square"], found.values["n"]["square"])
    code, said, err = run(
        "measure", "local", store, "--per", "edge", "--json", "--engine", "cpu", "--cluster", "inline"
    )
    assert code == 0, err
    assert json.loads(said)["places"]["edge"]["size"] == 78


def test_counts_that_could_wrap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MAX_VERTEX_COUNT", 17)
    with pytest.raises(CapacityError, match="could be in 18 4-cycles"):
        papilio.local_clustering(complete(5), **HERE)
