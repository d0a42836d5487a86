"""Files of values: the suffix says the format, nothing is replaced unasked, nothing is begun that cannot be written."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.api import call as inputs
from papilio.api import read as graphs
from papilio.cluster.events import Event, PhaseStarted
from papilio.errors import GraphError, InputError, PapilioError, StoreError
from papilio.measures import values as measures
from papilio.storage import files as location
from papilio.storage.interop import from_pandas
from papilio.storage.store import GraphStore, write_store
from tests.tools.commands import Run

HERE = {"cluster": "inline", "engine": "cpu"}

Write = Callable[..., Any]

WRITERS: dict[str, Write] = {
    "count per vertex": lambda graph, **to: papilio.count(graph, papilio.Butterfly(), per="vertex", **HERE, **to),
    "count per edge": lambda graph, **to: papilio.count(graph, papilio.Butterfly(), per="edge", **HERE, **to),
    "table": lambda graph, **to: papilio.count(graph, papilio.Biclique(), **HERE, **to),
    "census": lambda graph, **to: papilio.census(graph, "u", **HERE, **to),
    "pairs": lambda graph, **to: papilio.census_pairs(graph, "u", by="conflicting", **HERE, **to),
    "census per vertex": lambda graph, **to: papilio.census_vertices(graph, "v", **HERE, **to),
    "latapy": lambda graph, **to: papilio.latapy_clustering(graph, **to),
    "local per vertex": lambda graph, **to: papilio.local_clustering(graph, **HERE, **to),
    "local per edge": lambda graph, **to: papilio.local_clustering(graph, per="edge", **HERE, **to),
}
"""All that writes a file of values, by name."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "count per vertex": ("count", "butterfly", "STORE", "--per", "vertex"),
    "table": ("count", "biclique", "STORE", "--all"),
    "submit": ("submit", "count", "butterfly", "STORE", "--per", "vertex", "--job", "job", "--cluster", "tcp://127.0.0.1:9"),
    "census": ("census", "STORE", "--pair-side", "u"),
    "pairs": ("census", "STORE", "--pair-side", "u", "--top", "3", "--by", "coherent"),
    "latapy": ("measure", "latapy", "STORE"),
    "local": ("measure", "local", "STORE"),
}  # fmt: skip

FRAME = pd.DataFrame(
    [("a,b", 7, 1), ('say "x"', 7, 1), ("a,b", 9, -1), ('say "x"', 9, 1), ("two\nlines", 9, 1)],
    columns=["u", "v", "sign"],
)


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    labelled = from_pandas(FRAME)
    (tmp_path / "in").mkdir()
    return write_store(
        tmp_path / "in" / "g",
        labelled.graph,
        provenance={},
        labels_u=labelled.labels_u,
        labels_v=labelled.labels_v,
    )


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing read, count or connect: what is refused is refused before."""

    def fail(*args: Any, **options: Any) -> Any:
        raise AssertionError("work began")

    for module in (graphs, measures):
        monkeypatch.setattr(module, "open_graph", fail)
    monkeypatch.setattr(inputs, "make_executor", fail)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of any suffix, with all values as text, and what is null or NaN as nothing."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else json.loads(path.read_text("utf-8"))
    return [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]


def same_number(a: str, b: str) -> bool:
    return a == b or ("." in a + b and float(a) == float(b))


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_csv_and_json_hold_what_parquet_holds(name: str, store: GraphStore, tmp_path: Path) -> None:
    files = {suffix: tmp_path / f"x.{suffix}" for suffix in ("parquet", "csv", "json")}
    for file in files.values():
        WRITERS[name](store, output=file)
    right = rows_of(files["parquet"])
    for suffix in ("csv", "json"):
        found = rows_of(files[suffix])
        assert len(found) == len(right) > 0
        for row, expected in zip(found, right, strict=True):
            if name.endswith("per edge"):
                labels_u, labels_v = store.labels("u"), store.labels("v")
                assert labels_u is not None
                assert labels_v is not None
                assert row["u_label"] == labels_u[int(row["u"])]
                assert row["v_label"] == str(labels_v[int(row["v"])])
            assert row.keys() == expected.keys()
            assert all(same_number(row[key], expected[key]) for key in row), (row, expected)
    if "per vertex" in name or name == "latapy":
        assert {row["label"] for row in right} <= {*FRAME["u"], "7", "9"}


def test_integers_are_exact_however_long(tmp_path: Path) -> None:
    from papilio.storage.answers import write_table

    table = {(2, 2): 2**64 - 1, (3, 3): 10**40 + 1}
    for suffix in ("json", "csv"):
        write_table(tmp_path / f"t.{suffix}", table, {})
        assert [int(row["count"]) for row in rows_of(tmp_path / f"t.{suffix}")] == list(table.values())
    assert json.loads((tmp_path / "t.json").read_text())[1] == {
        "p": 3,
        "q": 3,
        "count": 10**40 + 1,
        "log10": 40.0,
    }
    write_table(tmp_path / "none.json", {}, {})
    assert json.loads((tmp_path / "none.json").read_text()) == []


def occupy(folder: Path) -> dict[str, tuple[Path, type[PapilioError], str]]:
    """Make what an output cannot be, with what is said of it."""
    (folder / "file.csv").write_text("mine")
    (folder / "link.csv").symlink_to("file.csv")
    (folder / "dangling.csv").symlink_to("nothing.csv")
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    return {
        "file": (folder / "file.csv", StoreError, "already exists.*--overwrite.*overwrite=True"),
        "link": (folder / "link.csv", StoreError, "already exists"),
        "dangling": (folder / "dangling.csv", StoreError, "already exists"),
        "folder": (folder / "folder.csv", InputError, "is a directory"),
        "pipe": (folder / "pipe.csv", InputError, "is not a regular file"),
        "device": (Path("/dev/null"), InputError, "is not a regular file"),
        "missing parent": (folder / "no" / "x.csv", StoreError, "does not exist"),
        "parent is a file": (folder / "file.csv" / "x.csv", StoreError, "does not exist"),
        "suffix": (folder / "x.xlsx", InputError, "'.xlsx'.*ending in .parquet, .csv, .*or .feather"),
        "compressed": (folder / "x.csv.gz", InputError, "'.gz'"),
        "no suffix": (folder / "x", InputError, "suffix ''"),
        "name of a suffix": (folder / ".parquet", InputError, "suffix ''"),
    }


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_what_cannot_be_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    for file, kind, message in occupy(tmp_path).values():
        with pytest.raises(kind, match=message):
            WRITERS[name](tmp_path / "graph", output=file)
    assert (tmp_path / "file.csv").read_text() == "mine"


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands_refuse_it_too(name: str, tmp_path: Path, run: Run) -> None:
    asked = [str(tmp_path / "graph") if word == "STORE" else word for word in COMMANDS[name]]
    for file, kind, message in occupy(tmp_path).values():
        code, said, err = run(*asked, "--output", file)
        assert (code, said) == (2 if kind is InputError else 3, ""), err
        assert re.search(message, err), err


def test_an_unwritable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location.os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(InputError, match="cannot write to"):
        WRITERS["latapy"](tmp_path / "graph", output=tmp_path / "x.csv")


def test_overwriting_replaces_the_file_and_what_a_link_leads_to(store: GraphStore, tmp_path: Path) -> None:
    for name in ("latapy", "count per vertex", "pairs"):
        (tmp_path / name).mkdir()
        occupied = occupy(tmp_path / name)
        for key in ("file", "link", "dangling"):
            WRITERS[name](store, output=occupied[key][0], overwrite=True)
        folder = tmp_path / name
        assert (folder / "link.csv").is_symlink()
        assert (folder / "dangling.csv").is_symlink()
        assert (folder / "file.csv").read_text() == (folder / "nothing.csv").read_text() != "mine"
        for key in ("folder", "pipe", "suffix"):
            with pytest.raises(InputError):
                WRITERS[name](store, output=occupied[key][0], overwrite=True)
        assert not [path for path in folder.iterdir() if ".new-" in path.name]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    has_links: bool, store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", _no_links)
    target = tmp_path / "x.json"

    def appear(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.name == "write":
            target.write_text("theirs")

    for name in ("count per edge", "local per vertex", "latapy"):
        with pytest.raises(StoreError, match="already exists"):
            WRITERS[name](store, output=target, progress=appear)
        assert target.read_text() == "theirs"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "x.json"]
        target.unlink()
        WRITERS[name](store, output=target)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "x.json"]
        target.unlink()


def _no_links(self: Path, target: Path) -> None:
    raise PermissionError(1, "no hard links here")


def test_a_job_writes_the_file_that_it_was_begun_with_again(store: GraphStore, tmp_path: Path, run: Run) -> None:
    asked = ("count", "butterfly", store.path, "--per", "vertex", "--cluster", "inline", "--engine", "cpu")
    asked += ("--job", str(tmp_path / "job"), "--output", str(tmp_path / "x.csv"))
    assert run(*asked).exit_code == 0
    written = (tmp_path / "x.csv").read_text()
    (tmp_path / "x.csv").unlink()
    assert run(*asked).exit_code == 0
    assert run(*asked).exit_code == 0
    assert (tmp_path / "x.csv").read_text() == written
    assert run("resume", tmp_path / "job").exit_code == 0
    (tmp_path / "other.csv").write_text("mine")
    code, _, err = run(*asked[:-1], tmp_path / "other.csv")
    assert (code, "already exists" in err) == (3, True)
    assert (tmp_path / "other.csv").read_text() == "mine"


def test_labels_that_no_file_can_hold_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "make_executor", None)
    frame = pd.DataFrame({"u": [1, "a"], "v": [1, 2]})
    for name in ("count per vertex", "latapy", "local per edge"):
        with pytest.raises(GraphError, match="labels have dtype object, and a store can only hold integers below"):
            WRITERS[name](frame, output=tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_figures_and_scripts_are_not_replaced(store: GraphStore, tmp_path: Path, run: Run) -> None:
    (tmp_path / "x.svg").write_text("mine")
    census = ("census", store.path, "--pair-side", "u", "--cluster", "inline", "--engine", "cpu", "--figure")
    code, said, err = run(*census, tmp_path / "x.svg")
    assert (code, said, "already exists" in err) == (3, "", True), err
    code, said, err = run(*census, tmp_path)
    assert (code, said) == (2, ""), err
    assert (tmp_path / "x.svg").read_text() == "mine"
    assert run(*census, tmp_path / "x.svg", "--overwrite").exit_code == 0
    assert (tmp_path / "x.svg").read_text() != "mine"
    render = ("slurm", "render", "count", "butterfly", "g", "--time", "60", "--memory", "1GiB")
    for output, code in (
        ("/dev/null", 2),
        (tmp_path, 2),
        (tmp_path / "x.svg", 3),
        (tmp_path / "no" / "x", 3),
    ):
        assert run(*render, "--output", output).exit_code == code
    refused = run(*render, "--per", "vertex", "--counts", "counts.txt")
    assert (refused.exit_code, "ending in .parquet, .csv, .tsv" in refused.stderr) == (2, True)
