"""Decompositions as users ask for them: the Python function, the command, the files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import CapacityError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.peel import phases
from papilio.storage.store import GraphStore, open_store, write_store
from tests.tools.commands import Run
from tests.tools.listings import write_women
from tests.tools.oracle_peeling import tip_numbers, wing_numbers
from tests.tools.strategies import skewed_graph

GRAPH = skewed_graph(7, 60, 50, 500)


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


def columns_of(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = pq.read_table(path).to_pydict()
    return found


def test_wings_of_a_graph_in_memory(tmp_path: Path) -> None:
    result = papilio.decompose(GRAPH, "wing", engine="cpu", output=tmp_path / "wings")
    assert (result.graph["path"], result.graph["hash"]) == (None, None), "the store of its files is temporary"
    assert result.numbers.tolist() == wing_numbers(GRAPH)
    assert (result.kind, result.layer, result.engine) == ("wing", None, "cpu")
    edges = columns_of(tmp_path / "wings" / "edges.parquet")
    assert edges["u"] == GRAPH.u.tolist()
    assert edges["v"] == GRAPH.v.tolist()
    assert edges["wing"] == result.numbers.tolist()
    assert result.forest is not None
    assert [-1 if node is None else node for node in edges["node"]] == result.forest.item_nodes.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wings"]


def test_tips_of_a_store_with_labels(women: Path, tmp_path: Path) -> None:
    for layer in ("u", "v"):
        target = tmp_path / layer
        result = papilio.decompose(women, "tip", layer=layer, engine="cpu", output=target)
        graph = open_store(women).read()
        assert isinstance(graph, BipartiteGraph)
        turned = graph if layer == "u" else graph.swap_layers()
        assert result.numbers.tolist() == tip_numbers(turned)
        vertices = columns_of(target / "vertices.parquet")
        labels = open_store(women).labels(layer)
        assert labels is not None
        assert vertices["label"] == labels.tolist()
        assert vertices["id"] == list(range(turned.n_u))
        assert vertices["tip"] == result.numbers.tolist()


def test_the_nodes_are_a_forest_that_adds_up(women: Path, tmp_path: Path) -> None:
    papilio.decompose(women, "wing", engine="cpu", output=tmp_path / "wings")
    edges = columns_of(tmp_path / "wings" / "edges.parquet")
    nodes = columns_of(tmp_path / "wings" / "nodes.parquet")
    assert nodes["node"] == list(range(len(nodes["node"])))
    assert nodes["level"] == [2, 3, 7, 8, 9, 10, 12]
    assert nodes["parent"] == [None, 0, 1, 2, 3, 4, 5]
    assert nodes["size"][0] == 89
    for node, level in zip(nodes["node"], nodes["level"], strict=True):
        inside = [wing for wing, own in zip(edges["wing"], edges["node"], strict=True) if own == node]
        assert set(inside) == {level}
        assert len(inside) == nodes["members"][node]
    metadata = pq.read_schema(tmp_path / "wings" / "nodes.parquet").metadata
    assert metadata[b"papilio.graph_hash"].decode() == open_store(women).hash
    assert json.loads(metadata[b"papilio.api.decompose"]) == {"kind": "wing", "layer": None}


def test_without_the_hierarchy_there_are_numbers_alone(women: Path, tmp_path: Path) -> None:
    result = papilio.decompose(women, "wing", hierarchy=False, engine="cpu", output=tmp_path / "wings")
    assert result.forest is None
    assert "hierarchy" not in result.seconds
    assert sorted(path.name for path in (tmp_path / "wings").iterdir()) == [
        "_decomposition.json",
        "edges.parquet",
    ]
    assert list(columns_of(tmp_path / "wings" / "edges.parquet")) == ["u", "v", "u_label", "v_label", "wing"]


@pytest.mark.parametrize("kind", ["wing", "tip"])
def test_a_graph_without_edges(kind: Any, tmp_path: Path) -> None:
    empty = BipartiteGraph.from_edges(np.zeros(0, int), np.zeros(0, int), 4, 3)
    layer: Any = "u" if kind == "tip" else None
    result = papilio.decompose(empty, kind, layer=layer, engine="cpu", output=tmp_path / "out")
    assert result.numbers.tolist() == ([] if kind == "wing" else [0] * 4)
    assert result.max_number == 0
    assert columns_of(tmp_path / "out" / "nodes.parquet")["level"] == []


def test_progress_goes_through_the_phases_and_to_the_end() -> None:
    seen: list[tuple[str, int, int]] = []
    papilio.decompose(GRAPH, "wing", engine="cpu", progress=lambda *event: seen.append(event))
    assert list(dict.fromkeys(phase for phase, _, _ in seen)) == [
        "read", "index", "coarse", "fine", "hierarchy",
    ]  # fmt: skip
    for phase in ("coarse", "fine"):
        shares = [(done, total) for name, done, total in seen if name == phase]
        assert shares[-1][0] == shares[-1][1] > 0


@pytest.mark.parametrize("wanted", ["coarse", "fine", "hierarchy", "write"])
def test_an_interrupt_leaves_nothing_behind(wanted: str, tmp_path: Path) -> None:
    def interrupt(phase: str, _done: int, _total: int) -> None:
        if phase == wanted:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        papilio.decompose(GRAPH, "wing", engine="cpu", output=tmp_path / "wings", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_files_are_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("papilio.storage.answers.seal_json", stop)
    with pytest.raises(KeyboardInterrupt):
        papilio.decompose(GRAPH, "wing", engine="cpu", output=tmp_path / "wings")
    assert list(tmp_path.iterdir()) == []


def test_what_stands_at_the_output_is_replaced_only_on_request(women: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    papilio.decompose(women, "wing", engine="cpu", output=target)
    with pytest.raises(StoreError, match="already exists"):
        papilio.decompose(women, "tip", layer="u", engine="cpu", output=target)
    assert (target / "edges.parquet").exists()
    papilio.decompose(women, "tip", layer="u", engine="cpu", output=target, overwrite=True)
    assert not (target / "edges.parquet").exists()
    with pytest.raises(StoreError, match="not of the same kind"):
        papilio.decompose(women, "wing", engine="cpu", output=women, overwrite=True)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("truss", {}, "expected wing, tip or core"),
        ("tip", {}, "one layer: u, v or its name"),
        ("wing", {"layer": "u"}, "leave layer out"),
        ("wing", {"engine": "tpu"}, "expected auto, cpu or gpu"),
        ("wing", {"threads": 0, "engine": "cpu"}, "threads is 0"),
    ],
)
def test_questions_that_make_no_sense(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        papilio.decompose(GRAPH, kind, **options)


def test_a_unipartite_graph_is_refused(tmp_path: Path) -> None:
    store = write_store(tmp_path / "one", UnipartiteGraph.from_edges([0, 1], [1, 2]), provenance={})
    with pytest.raises(UnsupportedError, match=r"wing numbers are defined on bipartite graphs; .*one is unipartite"):
        papilio.decompose(store, "wing")


def test_a_store_too_large_for_the_memory_is_refused_before_it_is_read(
    women: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.api.decompose.free_memory_bytes", lambda: 1000)
    with pytest.raises(CapacityError, match=r"89 edges; their index alone needs about .* KiB"):
        papilio.decompose(women, "wing", engine="cpu")
    with pytest.raises(CapacityError, match=r"wing numbers of .* need about"):
        papilio.decompose(GRAPH, "wing", engine="cpu")


def test_wings_of_too_many_edges_are_refused_before_they_are_read(women: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MAX_EDGES", open_store(women).n_edges - 1)
    monkeypatch.setattr(GraphStore, "batches", lambda *_: pytest.fail("the store is read"))
    with pytest.raises(CapacityError, match="the graph has 89 edges; the maximum for wing numbers is 88"):
        papilio.decompose(women, "wing")


def test_the_command(women: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "wings"
    code, said, err = run("decompose", "wing", women, "--output", out, "--engine", "cpu")
    assert (code, said) == (0, "12\n"), err
    assert "wing numbers of 89 edges in 18 x 14 vertices: largest 12, distinct 7" in err
    assert "highest: 12 of 20, 10 of 15" in err
    assert "components: nodes 7, trees 1" in err
    assert str(out) in err
    code, said, err = run("decompose", "tip", women, "--layer", "u", "--engine", "cpu", "--json")
    data = json.loads(said)
    assert (code, data["max"], data["items"], data["nodes"]) == (0, 45, 18, 8), err
    assert sum(size for _, size in data["levels"]) == 18
    assert data["graph"]["n_edges"] == 89


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("tip",), 2, "tip numbers are for the vertices of one layer"),
        (("wing", "--layer", "v"), 2, "leave layer out"),
        (("truss",), 2, "'truss' is not one of"),
        (("wing", "--output", "{women}"), 3, "already exists"),
    ],
)
def test_the_command_says_what_is_wrong(args: tuple[str, ...], code: int, message: str, women: Path, run: Run) -> None:
    kind, *rest = args
    found, said, err = run("decompose", kind, women, *(word.format(women=women) for word in rest))
    assert (found, said) == (code, "")
    assert message in err


def test_json_holds_integers_of_any_size_in_full(run: Run, tmp_path: Path) -> None:
    n = 100_000
    graph = BipartiteGraph.from_edges(np.repeat([0, 1], n), np.tile(np.arange(n), 2))
    write_store(tmp_path / "wide", graph, provenance={})
    code, said, err = run(
        "decompose", "tip", tmp_path / "wide", "--layer", "u", "--engine", "cpu", "--no-hierarchy", "--json"
    )
    assert code == 0, err
    assert '"max": 4999950000,' in said
    assert json.loads(said)["levels"] == [[4_999_950_000, 2]]
