"""Many graphs in one comparison with random graphs: the results of one after the other, in one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import papilio
from papilio.errors import InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.answers import stack_tables
from papilio.storage.objects import holds_graphs
from tests.tools.commands import Run
from tests.tools.strategies import skewed_graph

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

GRAPHS: dict[Any, Any] = {
    "one": skewed_graph(5, 14, 11, 60),
    "labelled": papilio.read([("Ann", 1), ("Ann", 2), ("Bea", 1), ("Bea", 2), ("Cid", 2), ("Cid", 3), ("Dee", 3)]),
    1990: BipartiteGraph.from_edges([0, 0], [0, 1], 3, 4),
}


@pytest.mark.parametrize(
    ("motif", "per"), [("butterfly", "total"), ("butterfly", "vertex"), (papilio.Biclique(None, None), "total")]
)
def test_results_are_those_of_one_graph_after_the_other(motif: Any, per: Any) -> None:
    asked: dict[str, Any] = {"samples": 120, "seed": 3, "per": per, **HERE}
    found = papilio.significance(GRAPHS, motif, **asked)
    alone = {name: papilio.significance(graph, motif, **asked) for name, graph in GRAPHS.items()}
    assert [*found] == [*GRAPHS]
    for name, each in alone.items():
        assert (found[name].count, found[name].table) == (each.count, each.table)
    rows = [{"graph": name, **row} for name, each in alone.items() for row in each.rows()]
    assert found.rows() == rows
    table = found.to_arrow()
    assert table.column_names[0] == "graph"
    if per == "total":
        assert table.drop_columns("graph").to_pylist() == [{k: row[k] for k in row if k != "graph"} for row in rows]
        assert table["graph"].to_pylist() == [str(row["graph"]) for row in rows]
    else:
        tables = {name: each.to_arrow() for name, each in alone.items()}
        assert table["graph"].to_pylist() == [str(name) for name, each in tables.items() for _ in range(len(each))]
        assert table["count"].to_pylist() == [count for each in tables.values() for count in each["count"].to_pylist()]
    assert [*found.to_dict()["graphs"]] == [*map(str, GRAPHS)]
    assert found.warnings.keys() == {name for name, each in alone.items() if each.warning}
    assert 1990 in found.warnings
    assert "in 3 graphs" in repr(found)


def test_the_table_is_written_with_the_question(tmp_path: Path) -> None:
    target = tmp_path / "z.parquet"
    found = papilio.significance(GRAPHS, "butterfly", samples=9, output=target, **HERE)
    written = pa.parquet.read_table(target)
    assert written.equals(found.to_arrow())
    assert found.output == str(target)
    metadata = {key.decode(): json.loads(value) for key, value in written.schema.metadata.items()}
    assert metadata["papilio.graphs"] == {str(name): each.graph["hash"] for name, each in found.items()}
    assert metadata["papilio.ensemble"]["samples"] == 9
    with pytest.raises(StoreError, match=r"z\.parquet"):
        papilio.significance(GRAPHS, "butterfly", samples=9, output=target, **HERE)


@pytest.mark.parametrize(
    ("wrong", "error"), [("nowhere.csv", StoreError), (UnipartiteGraph.from_edges([0], [1]), UnsupportedError)]
)
def test_a_refused_graph_is_named_before_anything_is_counted(wrong: Any, error: Any, tmp_path: Path) -> None:
    events: list[Any] = []
    target = tmp_path / "z.csv"
    with pytest.raises(error, match=r"^the last: "):
        papilio.significance(
            {**GRAPHS, "the last": wrong}, "butterfly", samples=9, output=target, progress=events.append, **HERE
        )
    assert events == []
    assert not target.exists()
    with pytest.raises(InputError, match=r"job is .* for 3 graphs"):
        papilio.significance(GRAPHS, "butterfly", samples=9, job=tmp_path / "job", **HERE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": "a.csv", "b": Path("b.csv")}, True),
        ({"a": skewed_graph(1, 5, 5, 9)}, True),
        ({"a": {"x", "y"}, "b": ["x"]}, False),
        ({"a": "a.csv", "b": ["x"]}, False),
        ({"a": np.arange(3)}, False),
        ({"a": {"x": 1}}, False),
        ({(0, 1): 1.0}, False),
        ({"a": None}, False),
        ({}, False),
        ("a.csv", False),
        ([("a", "b")], False),
    ],
)
def test_a_dictionary_of_collections_is_one_graph(given: Any, expected: bool) -> None:
    assert holds_graphs(given) is expected


def test_columns_of_several_types_are_stacked_as_text() -> None:
    one = pa.table({"label": ["x", "y"], "z": [0.5, None]})
    other = pa.table({"label": pa.array([7], pa.int64()), "z": [1.5]})
    bare = pa.table({"z": [2.5]})
    found = stack_tables("graph", {1: one, 2: other, 3: bare})
    assert found.to_pylist() == [
        {"graph": 1, "label": "x", "z": 0.5},
        {"graph": 1, "label": "y", "z": None},
        {"graph": 2, "label": "7", "z": 1.5},
        {"graph": 3, "label": None, "z": 2.5},
    ]


def test_graphs_of_a_command_are_named_by_their_paths(tmp_path: Path, run: Run) -> None:
    paths = [tmp_path / f"{year}.csv" for year in (1990, 1991)]
    for path in paths:
        path.write_text(
            "".join(f"{u},{chr(97 + v)}\n" for u, v in zip(*np.nonzero(np.eye(9) + np.eye(9, k=1)), strict=True))
        )
    flags = ["--samples", "9", "--engine", "cpu"]
    found = run("significance", "butterfly", *map(str, paths), *flags, "--output", "-", "--format", "jsonl")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["graph"] for row in rows] == [*map(str, paths)]
    alone = run("significance", "butterfly", str(paths[1]), *flags)
    several = run("significance", "butterfly", *map(str, paths), *flags)
    assert several.stdout.splitlines()[2].split() == [str(paths[1]), *alone.stdout.splitlines()[1].split()]
    vertices = run("significance", "butterfly", *map(str, paths), *flags, "--per", "vertex")
    assert {line.split("\t")[0] for line in vertices.stdout.splitlines()} <= {*map(str, paths)}


def test_the_chart_has_a_bar_for_each_graph() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws charts")
    axes = papilio.significance(GRAPHS, "butterfly", samples=9, **HERE).plot()
    assert [each.get_text() for each in axes.get_yticklabels()] == [*map(str, GRAPHS)]
    pyplot.close("all")
