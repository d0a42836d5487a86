"""The census by pairs and by vertices as users ask for it: Python, the command line, files, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.cluster.events import Event, PhaseAdvanced, PhaseStarted
from papilio.errors import CapacityError, ExecutionError, InputError, StoreError, UnsupportedError
from papilio.measures import census_pairs as signed_pairs
from papilio.storage.interop import LabelledGraph
from papilio.storage.store import GraphStore
from tests.kernels.wedge.test_balanced_butterfly import REFERENCE
from tests.tools.commands import Run
from tests.tools.strategies import complete_graph

HERE = ("--cluster", "inline", "--engine", "cpu")
INLINE: Any = {"cluster": "inline", "engine": "cpu"}
CLASSES = ["++/++", "++/--", "--/--", "+-/+-", "++/+-", "--/+-"]
GROUPS = ["coherent", "incoherent", "mixed"]


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> GraphStore:
    path = tmp_path_factory.mktemp("votes") / "senate"
    return papilio.convert(example_data / "senate-votes.txt.gz", path, sign=3)


@pytest.fixture(scope="module")
def drugs(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Three drugs: A and B agree on T1 to T4 and differ on T5, C acts against both on T1."""
    directory = tmp_path_factory.mktemp("drugs")
    rows = {"A": "++--+", "B": "++---", "C": "-+   "}
    lines = [f"{drug} T{i} {sign}1\n" for drug, row in rows.items() for i, sign in enumerate(row, 1) if sign != " "]
    (directory / "drugs.txt").write_text("".join(lines), encoding="utf-8")
    return papilio.convert(directory / "drugs.txt", directory / "drugs", sign=3)


@pytest.mark.parametrize("side", ["u", "v"])
def test_votes_of_the_senate(votes: GraphStore, side: Any) -> None:
    _, totals = REFERENCE["senate", side]
    found = papilio.census_vertices(votes, side, threads=2, **INLINE)
    assert tuple(found.classes) == tuple(CLASSES)
    assert [sum(each.tolist()) for each in found.classes.values()] == [2 * total for total in totals]
    for by, group in signed_pairs.PAIR_ORDERS.items():
        pairs = papilio.census_pairs(votes, side, by=by, n=150 * 149 // 2, threads=2, **INLINE)
        numbers = [pair.groups[group] for pair in pairs.pairs]
        assert numbers == sorted(numbers, reverse=True)
        if side == "u":
            assert sum(numbers) == pairs.census.groups[group]


@pytest.mark.parametrize(
    ("name", "rule", "totals"),
    [
        ("bonanza", {"sign": 3}, REFERENCE["bonanza", "u"][1]),
        ("movielens-100k", {"positive_from": 4.0}, REFERENCE["movielens-100k", "u"][1]),
    ],
)
def test_reference_graphs(
    shared_data: Path, tmp_path: Path, name: str, rule: dict[str, Any], totals: tuple[int, ...]
) -> None:
    store = papilio.convert(shared_data / "bipartite" / f"{name}.txt.gz", tmp_path / name, **rule)
    found = papilio.census_vertices(store, "u", **INLINE)
    assert tuple(found.census.classes.values()) == totals
    pairs = papilio.census_pairs(store, "u", by="conflicting", n=20, **INLINE)
    assert len(pairs.pairs) == 20
    assert found.groups["mixed"].max() >= pairs.pairs[0].groups["mixed"]


def test_pairs_of_labelled_vertices(drugs: GraphStore, tmp_path: Path) -> None:
    file = tmp_path / "pairs.parquet"
    found = papilio.census_pairs(drugs, "u", by="coherent", output=file, **INLINE)
    (pair,) = found.pairs
    assert (pair.ids, pair.labels) == ((0, 1), ("A", "B"))
    assert (pair.both_positive, pair.both_negative, pair.different) == (2, 2, 1)
    assert pair.classes == dict(zip(CLASSES, (1, 4, 1, 0, 2, 2), strict=True))
    assert pair.groups == {"coherent": 6, "incoherent": 0, "mixed": 4}
    assert found.census.groups == {"coherent": 6, "incoherent": 0, "mixed": 6}
    table = pq.read_table(file)
    assert table.column_names == [
        "first", "first_label", "second", "second_label", "++", "--", "+-", *CLASSES, *GROUPS,
    ]  # fmt: skip
    assert table.to_pylist() == [{"first": 0, "first_label": "A", "second": 1, "second_label": "B", **pair.columns}]
    assert table.schema.metadata[b"papilio.graph_hash"].decode() == drugs.hash
    conflicting = papilio.census_pairs(drugs, "u", by="conflicting", n=2, **INLINE).pairs
    assert [pair.labels for pair in conflicting] == [("A", "B"), ("A", "C")]
    assert papilio.census_pairs(drugs, "u", by="incoherent", output=file, overwrite=True, **INLINE).pairs == ()
    assert pq.read_table(file).num_rows == 0


def test_vertices_in_a_file(drugs: GraphStore, tmp_path: Path) -> None:
    file = tmp_path / "drugs.parquet"
    found = papilio.census_vertices(drugs, "u", output=file, **INLINE)
    rows = pq.read_table(file).to_pylist()
    assert [(row["layer"], row["id"], row["label"]) for row in rows] == [
        ("u", 0, "A"), ("u", 1, "B"), ("u", 2, "C"),
    ]  # fmt: skip
    for name in (*CLASSES, *GROUPS):
        numbers = {**found.classes, **found.groups}[name]
        assert [row[name] for row in rows] == numbers.tolist()
    assert [[row[name] for row in rows] for name in GROUPS] == [[6, 6, 0], [0, 0, 0], [5, 5, 2]]
    papilio.census_vertices(drugs, "v", output=file, overwrite=True, **INLINE)
    assert [row["label"] for row in pq.read_table(file).to_pylist()] == [f"T{i}" for i in range(1, 6)]


def test_graphs_in_memory(drugs: GraphStore, tmp_path: Path) -> None:
    graph = drugs.read()
    assert isinstance(graph, papilio.BipartiteGraph)
    (pair,) = papilio.census_pairs(graph, "u", by="coherent", n=1, **INLINE).pairs
    assert pair.labels == (0, 1)
    labelled = LabelledGraph(graph, np.array([7, 5, 6]), None)
    (pair,) = papilio.census_pairs(labelled, "u", by="coherent", n=1, output=tmp_path / "p.parquet", **INLINE).pairs
    assert pair.labels == (7, 5)
    assert pq.read_table(tmp_path / "p.parquet")["first_label"].to_pylist() == [7]
    assert papilio.census_vertices(graph, "u", **INLINE).groups["mixed"].tolist() == [5, 5, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["p.parquet"]


def test_progress_is_told(votes: GraphStore) -> None:
    events: list[Event] = []
    papilio.census_pairs(votes, "u", by="coherent", n=1, progress=events.append, **INLINE)
    assert PhaseStarted("pairs") in events
    assert events[-1] == PhaseAdvanced(1.0)


def test_what_makes_no_sense_is_refused(drugs: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="by is 'mixed'; expected coherent, incoherent or conflicting"):
        papilio.census_pairs(drugs, "u", by="mixed")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="n is 0; the minimum is 1"):
        papilio.census_pairs(drugs, "u", by="coherent", n=0)
    with pytest.raises(InputError, match="threads is 0; the minimum is 1"):
        papilio.census_vertices(drugs, "u", threads=0)
    with pytest.raises(InputError, match="is a directory"):
        papilio.census_vertices(drugs, "u", output=tmp_path)
    with pytest.raises(UnsupportedError, match="has no signs"):
        papilio.census_vertices(complete_graph(2, 2), "u")
    monkeypatch.setattr(signed_pairs, "free_memory_bytes", lambda: 1000)
    with pytest.raises(CapacityError, match=r"with 2 threads and 9 to keep, .* use fewer threads or pairs"):
        papilio.census_pairs(drugs, "u", by="coherent", n=9, threads=2)
    with pytest.raises(CapacityError, match="use fewer threads, or a machine"):
        papilio.census_vertices(drugs, "u", threads=2)


def test_pairs_that_do_not_sum_to_the_census_are_refused(
    drugs: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = signed_pairs.census

    def wrong(*args: Any, **options: Any) -> Any:
        found = right(*args, **options)
        (kind, number, share), *others = found.rows
        return replace(found, rows=((kind, number + 1, share), *others))

    monkeypatch.setattr(signed_pairs, "census", wrong)
    file = tmp_path / "none.parquet"
    message = r"the pairs have 1 butterflies \+\+/\+\+, the census 2"
    with pytest.raises(ExecutionError, match=message):
        papilio.census_pairs(drugs, "u", by="coherent", output=file, **INLINE)
    with pytest.raises(ExecutionError, match=message):
        papilio.census_vertices(drugs, "u", output=file, **INLINE)
    assert not file.exists()


def test_the_command_lists_pairs(drugs: GraphStore, tmp_path: Path, run: Run) -> None:
    asked = ("census", drugs.path, "--pair-side", "u", *HERE, "--top", 2, "--by", "conflicting")
    code, said, err = run(*asked)
    assert code == 0, err
    header, first, second = said.splitlines()[-3:]
    assert header.split("\t") == ["first", "second", "++", "--", "+-", *CLASSES, *GROUPS]
    assert first.split("\t") == ["A", "B", *"221", *"141022", *"604"]
    assert second.split("\t") == ["A", "C", *"101", *"000010", *"001"]
    assert "group  class" in said
    code, said, err = run(*asked, "--json", "--output", tmp_path / "pairs.parquet")
    assert code == 0, err
    data = json.loads(said)
    assert (data["count"], data["by"], data["output"]) == (12, "conflicting", str(tmp_path / "pairs.parquet"))
    assert data["pairs"][1] == {
        "ids": [0, 2],
        "labels": ["A", "C"],
        "common_neighbours": {"++": 1, "--": 0, "+-": 1},
        "classes": dict(zip(CLASSES, (0, 0, 0, 0, 1, 0), strict=True)),
        "groups": {"coherent": 0, "incoherent": 0, "mixed": 1},
    }
    assert pq.read_table(tmp_path / "pairs.parquet").num_rows == 2
    code, said, err = run("census", drugs.path, "--pair-side", "u", *HERE, "--top", 2, "--by", "incoherent")
    assert (code, said.splitlines()[-1].split()) == (0, ["mixed", "all", "6", "50.00%"]), err


def test_the_command_writes_vertices(drugs: GraphStore, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "drugs.parquet"
    asked = ("census", drugs.path, "--pair-side", "u", *HERE, "--per", "vertex", "--output", file)
    code, _, err = run(*asked)
    assert code == 0, err
    assert f"classes per vertex: {file}" in err
    assert pq.read_table(file)["mixed"].to_pylist() == [5, 5, 2]
    data = json.loads(run(*asked, "--overwrite", "--json").stdout)
    assert (data["per"], data["output"], data["groups"]["mixed"]) == ("vertex", str(file), 6)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--top", 3), "--top and --by go together"),
        (("--by", "coherent"), "--top and --by go together"),
        (("--per", "vertex"), "--per vertex needs --output FILE"),
        (("--per", "vertex", "--top", 3, "--by", "coherent"), "use one of them at a time"),
        (("--top", 0, "--by", "coherent"), "0 is not in the range"),
        (("--top", 3, "--by", "mixed"), "'mixed' is not one of"),
    ],
)
def test_flags_that_do_not_go_together(drugs: GraphStore, run: Run, flags: tuple[object, ...], message: str) -> None:
    code, said, err = run("census", drugs.path, "--pair-side", "u", *HERE, *flags)
    assert (code, said) == (2, "")
    assert message in err


def test_a_file_that_cannot_be_written_leaves_nothing(drugs: GraphStore, tmp_path: Path) -> None:
    with pytest.raises((InputError, StoreError)):
        papilio.census_vertices(drugs, "u", output=tmp_path / "missing" / "x.parquet")
    assert list(tmp_path.iterdir()) == []
