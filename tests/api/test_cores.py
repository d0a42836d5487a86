"""Cores as users ask for them: numbers, the table, one core as a graph, the commands, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import CapacityError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.store import open_store, write_store
from tests.tools.commands import Run
from tests.tools.listings import write_women
from tests.tools.oracle_peeling import core_edges, core_numbers
from tests.tools.strategies import skewed_graph

GRAPH = skewed_graph(7, 40, 30, 260)
FRIENDS = UnipartiteGraph.from_edges(GRAPH.u, GRAPH.v, 40)
HERE: dict[str, Any] = {"engine": "cpu"}


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


def test_numbers_of_both_layers_with_labels(women: Path, tmp_path: Path) -> None:
    store = open_store(women)
    graph = store.read()
    assert isinstance(graph, BipartiteGraph)
    for given, layer in (({"alpha": 3}, "u"), ({"beta": 4}, "v")):
        target = tmp_path / layer
        found = papilio.decompose(women, "core", output=target, **given, **HERE)  # type: ignore[arg-type]
        numbers = core_numbers(graph, layer, *given.values())
        assert found.places["u"].by_id("number").tolist() == numbers[: graph.n_u]
        assert found.places["v"].by_id("number").tolist() == numbers[graph.n_u :]
        assert found.max_number == max(numbers)
        assert found.n_items == sum(found.level_sizes().values()) == graph.n_u + graph.n_v
        written = pq.read_table(target / "vertices.parquet").to_pydict()
        assert list(written) == ["layer", "id", "label", "core", "node"]
        assert written["core"] == numbers
        labels = np.append(*(store.labels(each) for each in ("u", "v")))  # type: ignore[arg-type]
        assert written["label"] == labels.astype(str).tolist()
        assert json.loads((target / "_decomposition.json").read_text()).items() >= {"kind": "core", **given}.items()
        frame = found.to_pandas()
        assert frame["number"].tolist() == numbers
        assert found.top(1)[0].value == max(numbers[: graph.n_u])
    with pytest.raises(InputError, match=r"use places\['u'\] and places\['v'\]"):
        _ = found.vectors


def test_numbers_of_one_layer_are_those_of_networkx() -> None:
    found = papilio.decompose(FRIENDS, "core", **HERE)
    graph = nx.Graph(core_edges(FRIENDS))
    wanted = nx.core_number(graph)
    assert found.numbers.tolist() == [wanted.get(x, 0) for x in range(FRIENDS.n)]
    assert found.headline.startswith(f"core numbers of 40 vertices: up to {max(wanted.values())} (cpu")
    names = nx.relabel_nodes(graph, str)
    assert papilio.decompose(names, "core", **HERE).vectors.aligned("number") == nx.core_number(names)
    for k in (2, 5, 99):
        inside = nx.k_core(names, k)
        got = papilio.core(names, k=k, **HERE).to_networkx()
        assert set(map(frozenset, got.edges)) == set(map(frozenset, inside.edges))
        assert set(got) == set(inside)


def test_the_densest_core_is_a_component_of_both_layers() -> None:
    blocks = [(u, v) for u in range(3) for v in range(4)] + [(u, v) for u in (5, 6, 7) for v in (5, 6, 7, 8)] + [(5, 4)]
    found = papilio.decompose(BipartiteGraph.from_edges(*zip(*blocks, strict=True)), "core", alpha=2, **HERE)
    densest = found.densest()
    assert densest is not None
    assert (densest.level, densest.size, densest.u, densest.v) == (3, 7, (0, 1, 2), (0, 1, 2, 3))
    assert found.forest is not None
    assert (found.forest.levels.tolist(), found.forest.sizes.tolist()) == ([1, 3, 3], [8, 7, 7])
    one = papilio.decompose(FRIENDS, "core", **HERE).densest()
    assert one is not None
    assert one.v == ()


def test_one_core_is_the_subgraph_with_its_labels(women: Path) -> None:
    frame = papilio.read(women).to_pandas()
    for alpha, beta in ((1, 1), (3, 4), (5, 7), (20, 20)):
        left = frame
        while True:
            kept = left[
                (left.groupby("u")["v"].transform("size") >= alpha) & (left.groupby("v")["u"].transform("size") >= beta)
            ]
            if len(kept) == len(left):
                break
            left = kept
        found = papilio.core(women, alpha=alpha, beta=beta, **HERE)
        assert sorted(found.to_pandas().itertuples(index=False)) == sorted(left.itertuples(index=False))
        assert (found.n_u, found.n_v) == (left["u"].nunique(), left["v"].nunique())
        assert papilio.core_table(women, **HERE).size(alpha, beta) == (found.n_u, found.n_v, found.n_edges)


def test_a_core_keeps_signs_ids_and_names_of_layers(tmp_path: Path) -> None:
    sign = np.where(np.arange(GRAPH.n_edges) % 3, 1, -1)
    signed = BipartiteGraph.from_edges(GRAPH.u, GRAPH.v, GRAPH.n_u, GRAPH.n_v, sign)
    found = papilio.core(signed, alpha=4, beta=5, **HERE)
    of = dict(zip(zip(GRAPH.u.tolist(), GRAPH.v.tolist(), strict=True), sign.tolist(), strict=True))
    frame = found.to_pandas()
    assert len(frame) == found.n_edges > 0
    assert [of[row.u, row.v] for row in frame.itertuples()] == frame["sign"].tolist()
    named = tmp_path / "visits.csv"
    named.write_text("bee,flower\n" + "\n".join(f"b{u},f{v}" for u, v in zip(GRAPH.u, GRAPH.v, strict=True)))
    inside = papilio.core(named, alpha=4, beta=5, **HERE)
    assert inside.layer_names == {"u": "bee", "v": "flower"}
    assert inside.save(tmp_path / "core").layer_names == inside.layer_names


def test_the_table(women: Path) -> None:
    found = papilio.core_table(women, **HERE)
    assert found.columns == ("alpha", "beta", "n_u", "n_v", "n_edges")
    assert found.to_pandas().to_numpy().tolist() == found.cores.tolist()
    assert found.degeneracy == max(core_numbers(open_store(women).read()))
    assert found.size(1, 1) == (18, 14, 89)
    assert found.size(50, 1) == (0, 0, 0)
    assert found.to_dict()["cores"] == found.cores.tolist()
    one = papilio.core_table(FRIENDS, **HERE)
    assert one.columns == ("k", "n", "n_edges")
    assert one.degeneracy == max(core_numbers(FRIENDS)) == one.cores[-1, 0]
    with pytest.raises(InputError, match="the graph is unipartite"):
        one.size(1, 1)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: papilio.decompose(GRAPH, "core"), UnsupportedError, "is bipartite: give alpha or beta"),
        (lambda: papilio.decompose(FRIENDS, "core", beta=2), UnsupportedError, "is unipartite: leave alpha and beta"),
        (lambda: papilio.decompose(GRAPH, "wing", alpha=2), InputError, "alpha is 2 and beta is None; they are for"),
        (lambda: papilio.decompose(GRAPH, "core", alpha=2, beta=3), InputError, "use papilio.core for one core"),
        (lambda: papilio.decompose(GRAPH, "core", layer="u"), InputError, "the vertices of all layers: leave layer"),
        (lambda: papilio.decompose(GRAPH, "core", alpha=0), InputError, "alpha is 0"),
        (lambda: papilio.core(GRAPH), InputError, "give k for a unipartite graph, or alpha and beta"),
        (lambda: papilio.core(GRAPH, alpha=2), InputError, "give k for a unipartite graph, or alpha and beta"),
        (lambda: papilio.core(GRAPH, k=2, alpha=2, beta=2), InputError, "give k for a unipartite graph"),
        (lambda: papilio.core(GRAPH, k=2), UnsupportedError, "is bipartite: give alpha and beta"),
        (lambda: papilio.core(FRIENDS, alpha=2, beta=2), UnsupportedError, "is unipartite: give k"),
    ],
)
def test_questions_that_make_no_sense(ask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


def test_layers_that_could_be_either_are_refused() -> None:
    two = nx.Graph([(1, 2), (3, 4)])
    for ask in (
        lambda: papilio.decompose(two, "core", alpha=1),
        lambda: papilio.core(two, alpha=1, beta=1),
        lambda: papilio.core_table(two),
    ):
        with pytest.raises(InputError, match=r"layer|u="):
            ask()


def test_a_store_too_large_for_the_memory_is_refused(women: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("decompose", "cores"):
        monkeypatch.setattr(f"papilio.api.{module}.free_memory_bytes", lambda: 1000)
    for ask in (
        lambda: papilio.core_table(women, **HERE),
        lambda: papilio.decompose(women, "core", alpha=1, **HERE),
    ):
        with pytest.raises(CapacityError, match="89 edges; their index alone needs"):
            ask()
    with pytest.raises(CapacityError, match=r"cores of .* edges need about"):
        papilio.core(GRAPH, alpha=1, beta=1, **HERE)


def test_the_commands(women: Path, tmp_path: Path, run: Run) -> None:
    found = papilio.decompose(women, "core", alpha=3, **HERE)
    code, said, err = run("decompose", "core", women, "--alpha", 3, "--engine", "cpu")
    assert (code, said) == (0, f"{found.max_number}\n"), err
    assert f"(alpha = 3, beta)-core numbers of 18 x 14 vertices: largest {found.max_number}" in err
    assert "engine cpu: rounds" in err
    code, said, err = run("measure", "core-table", women, "--engine", "cpu", "--format", "csv")
    assert code == 0, err
    assert said.splitlines()[0] == '"alpha","beta","n_u","n_v","n_edges"'
    assert len(said.splitlines()) == 1 + len(papilio.core_table(women, **HERE).cores)
    code, said, err = run("measure", "core-table", women, "--engine", "cpu")
    assert said.split()[:7] == ["alpha", "beta", "n_u", "n_v", "n_edges", "1", "5"], err
    code, said, err = run("core", women, tmp_path / "core.csv", "--alpha", 3, "--beta", 4, "--engine", "cpu")
    assert (code, said) == (0, f"{tmp_path / 'core.csv'}\n"), err
    inside = papilio.core(women, alpha=3, beta=4, **HERE)
    assert len((tmp_path / "core.csv").read_text().splitlines()) == inside.n_edges + 1
    write_store(tmp_path / "friends", FRIENDS, provenance={})
    code, said, err = run("core", tmp_path / "friends", tmp_path / "dense", "-k", 5, "--engine", "cpu", "--json")
    kept = papilio.core(FRIENDS, k=5, **HERE)
    assert json.loads(said) == {
        "path": str(tmp_path / "dense"), "n_u": kept.n_u, "n_v": kept.n_v, "n_edges": kept.n_edges,
    }, err  # fmt: skip
    assert open_store(tmp_path / "dense").n_edges == kept.n_edges
    code, _, err = run("core", tmp_path / "friends", tmp_path / "dense", "-k", 5, "--engine", "cpu")
    assert (code, "already exists" in err) == (3, True)


def test_an_existing_table_is_replaced_only_on_request(women: Path, tmp_path: Path, run: Run) -> None:
    asked = ("core", women, tmp_path / "core.tsv", "--alpha", 2, "--beta", 2, "--engine", "cpu")
    assert run(*asked)[0] == 0
    assert run(*asked)[0] == 3
    assert run(*asked, "--overwrite")[0] == 0
    with pytest.raises(StoreError, match="already exists"):
        papilio.core(women, alpha=2, beta=2, **HERE).save(tmp_path / "core.tsv")
