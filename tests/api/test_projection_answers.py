"""Pairs of a projection as graphs of NetworkX and as charts, with their common neighbours, and what is noted."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy

import papilio
from papilio.errors import ExecutionError, InputError, UnsupportedError
from papilio.kernels.project import common
from tests.tools.commands import Run
from tests.tools.listings import write_many, write_women


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("many"))


def layer_of(graph: nx.Graph, layer: str) -> list[Any]:
    return [node for node, side in graph.nodes(data="bipartite") if side == "uv".index(layer)]


def edges_of(graph: nx.Graph, name: str) -> dict[frozenset[Any], Any]:
    return {frozenset((a, b)): value for a, b, value in graph.edges(data=name)}


@pytest.mark.parametrize("layer", ["u", "v"])
@pytest.mark.parametrize("has_labels", [True, False])
def test_graphs_of_networkx_equal_its_own_projections(
    women: Path, many: Path, tmp_path: Path, layer: str, has_labels: bool
) -> None:
    path = women if has_labels else many
    graph = papilio.read(path).to_networkx()
    own, first = layer_of(graph, layer), 0 if has_labels or layer == "u" else papilio.read(path).n_u
    expected = nx.bipartite.weighted_projected_graph(graph, own)
    if not has_labels:
        expected = nx.relabel_nodes(expected, lambda node: node - first)
    rows = papilio.project(path, layer, min_common=1, weighting="jaccard")
    listed = papilio.project(path, layer, min_common=1, weighting="jaccard", output=tmp_path / "pairs")
    for found in (rows.to_networkx(), listed.to_networkx()):
        assert type(found) is nx.Graph
        assert [*found] == sorted(expected) if not has_labels else {*found} == {*expected}
        assert edges_of(found, "common") == edges_of(expected, "weight")
        assert all(edge.keys() == {"common", "weight"} for _, _, edge in found.edges(data=True))
    plain = nx.bipartite.projected_graph(graph, own)
    assert rows.to_networkx().number_of_edges() == plain.number_of_edges() > 0


def test_vertices_without_pairs_are_nodes_under_their_own_labels(tmp_path: Path) -> None:
    edges = [("a", 1), ("a", "x"), (2, 1), (2, "x"), (3.0, 1)]
    found = papilio.project(edges, "u").to_networkx()
    assert [*map(repr, sorted(found, key=repr))] == ["'a'", "2", "3.0"]
    assert [*found.edges(data=True)] in ([("a", 2, {"common": 2})], [(2, "a", {"common": 2})])
    many = papilio.enumerate(
        [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")], "biclique", p=2, q=2, output=tmp_path / "b"
    )
    with pytest.raises(InputError, match="are no edges: to_networkx is for projections"):
        many.to_networkx()


def test_pairs_are_drawn_by_common_neighbours(women: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (papilio[report])")
    axes = figure.Figure().add_subplot()
    asked: Any = {"min_common": 2, "significance": "hypergeometric", "fdr": 0.4}
    rows = papilio.project(women, "u", **asked)
    assert rows.plot(axes) is axes
    lines = {line.get_label(): dict(line.get_xydata().tolist()) for line in axes.lines}
    every = Counter(row[2] for row in papilio.project(women, "u"))
    kept = Counter(row[2] for row in rows)
    assert lines["pairs"] == every
    assert {common: n for common, n in lines["kept, q up to 0.4"].items() if n} == kept
    assert 0 < kept.total() < every.total()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("common neighbours", "pairs")
    assert axes.get_title().startswith("rows (source, target, common, p, q) of pair of U with 2 or more in common")
    alone = figure.Figure().add_subplot()
    papilio.project(women, "u", min_common=15).plot(alone)
    assert [line.get_label() for line in alone.lines] == ["pairs"]


REPEATED = "repeated edges, read once each: 1"

VALUED = "entries other than 0 and 1, read as edges without their values: 1"

EDGES = [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


def as_multigraph(edges: list[tuple[str, str]]) -> nx.MultiGraph:
    graph = nx.MultiGraph()
    graph.add_nodes_from("ab", bipartite=0)
    graph.add_nodes_from("xy", bipartite=1)
    graph.add_edges_from(edges)
    return graph


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


MULTIPLE: dict[str, tuple[Any, list[str]]] = {
    "a table": (lambda path: write(path / "e.csv", "who,what\n" + "".join(f"{u},{v}\n" for u, v in EDGES)), [REPEATED]),
    "a matrix file": (lambda path: write(path / "m.csv", "who,x,y,z\na,3,1,0\nb,1,1,0\nc,0,0,1\n"), [VALUED]),
    "a frame": (lambda path: pd.DataFrame(EDGES, columns=["who", "what"]), [REPEATED]),
    "a cross table": (lambda path: pd.DataFrame([[3, 1], [1, 1]], index=["a", "b"], columns=["x", "y"]), [VALUED]),
    "pairs": (lambda path: EDGES, [REPEATED]),
    "nested dictionaries": (lambda path: {"a": {"x": 3, "y": 1}, "b": {"x": True, "y": 1.0}}, [VALUED]),
    "a multigraph": (lambda path: as_multigraph(EDGES), [REPEATED]),
    "a sparse matrix": (lambda path: scipy.sparse.csr_array(np.array([[3, 1], [1, 1]])), [VALUED]),
    "repeated entries": (
        lambda path: scipy.sparse.coo_array(([1.0] * 5, ([0, 0, 0, 1, 1], [0, 0, 1, 0, 1])), shape=(2, 2)),
        [VALUED, REPEATED],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MULTIPLE)
def test_multiplicities_are_noted(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make, expected = MULTIPLE[name]
    graph = papilio.read(make(tmp_path))
    assert [note for note in graph.reading["notes"] if note.startswith(("repeated", "entries other"))] == expected
    rows = papilio.project(graph, "u")
    assert [row[2] for row in rows] == [2]
    text = f"papilio: {graph.source}: {'; '.join(expected)}; a common neighbour counts once"
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [text]
    saved = papilio.read(graph.save(tmp_path / "saved").path)
    assert {*expected} <= {*saved.reading["notes"]}
    caplog.clear()
    listed = papilio.project(graph, "u", output=tmp_path / "pairs.parquet")
    assert {*expected} <= {*listed.graph["provenance"]["notes"]}
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [text]


def test_edges_without_multiplicities_have_no_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    signed: Any = {"sign": True}
    for graph, reading in (
        (EDGES[1:], {}),
        (scipy.sparse.csr_array(np.array([[1, 0, 1], [1, 1, 1]])), {}),
        (scipy.sparse.csr_array(np.array([[-3, 2, 1], [1, 1, 1]])), signed),
        (papilio.generate(papilio.storage.graph_models.Rmat(4, 4, 200), tmp_path / "drawn"), {}),
    ):
        read = papilio.read(graph, **reading)
        assert not [note for note in read.reading["notes"] if note.startswith(("repeated", "entries other"))]
        papilio.project(read, "u")
    assert papilio.read(tmp_path / "drawn").reading["dropped"]["duplicates"] > 0
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


def test_weights_that_are_not_used_are_noted() -> None:
    unused = "not used: weight; a sign rule makes the graph signed"
    weighted = nx.Graph(as_multigraph(EDGES[1:]))
    weighted["a"]["x"]["weight"] = 3
    assert papilio.read(weighted).reading["notes"] == [unused]
    frame = pd.DataFrame([(*edge, 2) for edge in EDGES[1:]], columns=["who", "what", "weight"])
    assert papilio.read(frame).reading["notes"] == [unused]
    assert papilio.read(frame, sign="weight").reading["notes"] == []


def shared(path: Path, layer: str) -> dict[frozenset[Any], list[Any]]:
    """Return the common neighbours of all pairs of a layer, by definition."""
    graph = papilio.read(path)
    edges: Any = graph.arrays()
    own, other = ("u", "v") if layer == "u" else ("v", "u")
    names = {each: graph.labels(each) for each in "uv"}
    sets: dict[int, set[int]] = {}
    for a, b in zip(getattr(edges, own).tolist(), getattr(edges, other).tolist(), strict=True):
        sets.setdefault(a, set()).add(b)

    def name(of: str, at: int) -> Any:
        labels = names[of]
        return at if labels is None else labels.tolist()[at]

    return {
        frozenset((name(own, a), name(own, b))): [name(other, at) for at in sorted(sets[a] & sets[b])]
        for a, b in combinations(sorted(sets), 2)
    }


@pytest.mark.parametrize("layer", ["u", "v"])
@pytest.mark.parametrize("has_labels", [True, False])
def test_common_neighbours_are_listed(
    women: Path, many: Path, tmp_path: Path, layer: str, has_labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MOST_LISTED", 40)  # some pairs at a time
    path = women if has_labels else many
    expected = {pair: names for pair, names in shared(path, layer).items() if len(names) >= 3}
    asked: Any = {"min_common": 3, "weighting": "resource"}
    rows = papilio.project(path, layer, common="list", **asked)
    assert rows.columns == ("source", "target", "common", "weight", "neighbours")
    found = [*rows]
    assert {frozenset(row[:2]): list(row[4]) for row in found} == expected
    assert all(len(row[4]) == row[2] for row in found)
    assert sorted(row[:4] for row in found) == sorted(papilio.project(path, layer, **asked))
    table = sorted(found)
    assert (
        sorted((*row[:-1], tuple(row[-1])) for row in zip(*rows.to_arrow().to_pydict().values(), strict=True)) == table
    )
    assert rows.schema.equals(rows.to_arrow().schema)
    network = rows.to_networkx()
    assert all(len(edge["neighbours"]) == edge["common"] for _, _, edge in network.edges(data=True))
    result = papilio.project(path, layer, common="list", output=tmp_path / "pairs.parquet", **asked)
    assert (result.rows, result.output) == (len(table), str(tmp_path / "pairs.parquet"))
    assert result.to_arrow().schema.equals(rows.schema)
    assert (
        sorted((*row[:-1], tuple(row[-1])) for row in zip(*result.to_arrow().to_pydict().values(), strict=True))
        == table
    )
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.parquet"]


def test_common_neighbours_in_other_formats_and_with_a_test(women: Path, tmp_path: Path, run: Run) -> None:
    asked: Any = {"significance": "hypergeometric", "fdr": 0.4}
    expected = sorted(papilio.project(women, "u", common="list", **asked))
    assert [row[:-1] for row in expected] == sorted(papilio.project(women, "u", **asked))
    for name in ("x.jsonl", "x.json", "x.arrow", "x.csv", "x.tsv"):
        papilio.project(women, "u", common="list", output=tmp_path / name, **asked)
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text("utf-8").splitlines()]
    assert sorted((*list(line.values())[:-1], tuple(line["neighbours"])) for line in lines) == expected
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == lines
    text = pd.read_csv(tmp_path / "x.csv")
    assert sorted(zip(text.source, text.target, map(tuple, map(json.loads, text.neighbours)), strict=True)) == [
        (*row[:2], row[-1]) for row in expected
    ]
    words = ("--layer", "u", "--significance", "hypergeometric", "--fdr", "40%", "--common", "list")
    printed = run("project", women, *words, "--format", "jsonl").stdout.splitlines()
    assert sorted(printed) == sorted((tmp_path / "x.jsonl").read_text("utf-8").splitlines())
    assert run("project", women, *words, "--output", tmp_path / "cli.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "cli.parquet").num_rows == len(expected)


def test_lists_that_cannot_be_made_are_refused_before_work_begins(women: Path, tmp_path: Path) -> None:
    for given, message in (
        ({"output": tmp_path / "pairs"}, "cannot infer a format"),
        ({"output": tmp_path / "x.parquet", "job": tmp_path / "job"}, "job is set, and common is 'list'"),
        ({"output": tmp_path / "x.parquet", "as_store": True}, "as_store is set, and common is 'list'"),
        ({"cluster": "local"}, "cluster is given, but rows are iterated"),
        ({"common": "lists"}, "common"),
    ):
        with pytest.raises(InputError, match=message):
            papilio.project(women, "u", **{"common": "list", **given})  # type: ignore[arg-type]
    assert not [*tmp_path.iterdir()]


def test_lists_of_a_graph_in_memory(tmp_path: Path) -> None:
    edges = [("b", 7), ("b", 5), ("a", 5), ("a", 7), ("a", 9), ("c", 9)]
    expected = ("a", "b", 2, (5, 7))
    assert [*papilio.project(edges, "u", common="list")] == [expected]
    papilio.project(edges, "u", common="list", output=tmp_path / "x.jsonl")
    assert json.loads((tmp_path / "x.jsonl").read_text("utf-8"))["neighbours"] == [5, 7]
    mixed = [("b", 7), ("b", "x"), ("a", "x"), ("a", 7)]
    assert {*next(iter(papilio.project(mixed, "u", common="list")))[3]} == {7, "x"}


def test_a_pair_with_another_number_of_common_neighbours_is_an_error() -> None:
    graph = papilio.BipartiteGraph.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 1])
    found = common.CommonNeighbours(graph, "u")
    pairs = np.array([0, 0], np.int32), np.array([1, 2], np.int32)
    assert [each.tolist() for _, lists in found.find(*pairs, np.array([2, 1])) for each in lists] == [
        [0, 2, 3],
        [0, 1, 1],
    ]
    for numbers in ([2, 2], [2, 0]):
        with pytest.raises(ExecutionError, match=f"0 and 2 do not have {numbers[1]} common neighbours"):
            [*found.find(*pairs, np.array(numbers))]


VOTES = [
    *((judge, case, 1) for judge in ("Ada", "Bea") for case in range(6)),
    *((judge, case, -1) for judge in ("Ada", "Bea") for case in range(6, 12)),
    *(("Cy", case, -1 if case < 6 else 1) for case in range(12)),
    *(("Di", case, 1 if case % 2 else -1) for case in range(12)),
]


def test_signed_pairs_agree_or_disagree_more_than_chance(tmp_path: Path, run: Run) -> None:
    rows = papilio.project(VOTES, "u", significance="signs", fdr=1.0)
    assert rows.columns == ("source", "target", "common", "concordant", "discordant", "sign", "p", "q")
    p = 1 / comb(12, 6)
    q = {row[:2]: row[2:] for row in rows}
    certain = pytest.approx(12 * p / 3, rel=1e-12)  # 12 tests of 6 pairs; three have this p-value
    assert q["Ada", "Bea"] == (12, 12, 0, 1, pytest.approx(p, rel=1e-12), certain)
    assert q["Ada", "Cy"] == q["Bea", "Cy"] == (12, 0, 12, -1, pytest.approx(p, rel=1e-12), certain)
    assert q["Ada", "Di"] == q["Bea", "Di"] == (12, 6, 6, 0, 1.0, 1.0)
    kept = papilio.project(VOTES, "u", significance="signs")
    assert sorted(row[:2] for row in kept) == [("Ada", "Bea"), ("Ada", "Cy"), ("Bea", "Cy")]
    expected = sorted(kept)
    for name in ("pairs.parquet", "pairs"):
        papilio.project(VOTES, "u", significance="signs", output=tmp_path / name)
        assert sorted(zip(*pq.read_table(tmp_path / name).to_pydict().values(), strict=True)) == expected
    assert kept.schema.equals(pq.read_table(tmp_path / "pairs").schema)
    allies = papilio.read(tmp_path / "pairs.parquet", u="source", v="target", sign="sign", kind="unipartite")
    assert (allies.signed, allies.n_edges) == (True, 3)
    assert kept.to_networkx()["Ada"]["Cy"]["sign"] == -1
    listed = papilio.project(VOTES, "u", significance="signs", common="list")
    assert [row[-1] for row in listed] == [tuple(range(12))] * 3
    assert papilio.count(papilio.read(VOTES, sign=True), papilio.Projection("u", significance="signs")).count == 3
    path = tmp_path / "votes.csv"
    path.write_text("judge,case,vote\n" + "".join(f"{a},{b},{sign}\n" for a, b, sign in VOTES), "utf-8")
    words = ("--layer", "judge", "--sign", "vote", "--significance", "signs", "--format", "jsonl")
    lines = [json.loads(line) for line in run("project", path, *words).stdout.splitlines()]
    assert sorted(tuple(line.values()) for line in lines) == expected


def test_signed_pairs_that_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="has no signs, but a pair of U with 2 or more in common, signs q up to"):
        papilio.project(EDGES, "u", significance="signs")
    with pytest.raises(InputError, match="weighting is 'cosine', and significance 'signs'"):
        papilio.project(VOTES, "u", significance="signs", weighting="cosine")
    with pytest.raises(UnsupportedError, match=r'projections with significance "signs" are listed on CPUs, and engine'):
        papilio.project(VOTES, "u", significance="signs", engine="gpu", output="never")
