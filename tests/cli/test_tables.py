"""Rows for other programs: every command that answers with rows, in every format, on standard output and in files."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import papilio
from papilio.arguments import TABLE_FORMATS
from papilio.cli.app import cli
from papilio.cli.report import align, table_lines
from tests.conftest import ROOT

HERE = ("--cluster", "inline", "--engine", "cpu")

COMMANDS: dict[str, tuple[str, ...]] = {
    "count": ("count", "butterfly", "signed", *HERE),
    "count per vertex": ("count", "butterfly", "signed", "--per", "vertex", *HERE),
    "count per edge": ("count", "butterfly", "signed", "--per", "edge", *HERE),
    "cliques per vertex": ("count", "clique", "friends", "-k", "3", "--per", "vertex", *HERE),
    "table": ("count", "biclique", "signed", "--all", *HERE),
    "large table": ("count", "biclique", "large", "-p", "40", "--all-q", *HERE),
    "census": ("census", "signed", "--pair-side", "u", *HERE),
    "pairs": ("census", "signed", "--pair-side", "u", "--top", "5", "--by", "conflicting", *HERE),
    "vertices": ("census", "signed", "--pair-side", "u", "--per", "vertex", *HERE),
    "estimate": ("estimate", "biclique", "signed", "-p", "2", "-q", "2", *HERE),
    "significance": ("significance", "butterfly", "signed", "--samples", "9", *HERE),
    "significance of sizes": ("significance", "biclique", "signed", "--all", "--samples", "9", *HERE),
    "significance per vertex": ("significance", "butterfly", "signed", "--samples", "9", "--per", "vertex", *HERE),
    "wings": ("decompose", "wing", "signed", "--engine", "cpu"),
    "tips": ("decompose", "tip", "signed", "--layer", "v", "--engine", "cpu"),
    "robins-alexander": ("measure", "robins-alexander", "signed", *HERE),
    "latapy": ("measure", "latapy", "signed"),
    "local": ("measure", "local", "signed", *HERE),
    "local per edge": ("measure", "local", "signed", "--per", "edge", *HERE),
    "cohesion": ("measure", "cohesion", "signed", *HERE),
    "top": ("measure", "top", "signed", "-n", "2", *HERE),
    "top edges": ("measure", "top", "signed", "-n", "2", "--per", "edge", *HERE),
    "nestedness": ("measure", "nestedness", "signed", "--samples", "9"),
    "co-occurrence": ("measure", "cooccurrence", "signed", "--layer", "u", *HERE),
    "maximum clique": ("measure", "maximum-clique", "friends"),
    "maximum clique per vertex": ("measure", "maximum-clique", "friends", "--per", "vertex"),
    "communities of cliques": ("communities", "clique", "friends"),
    "communities as rows": ("communities", "clique", "friends", "--rows", "communities"),
    "communities of bicliques": ("communities", "biclique", "signed", "-p", "2", "-q", "2"),
    "largest bicliques": ("measure", "maximal-biclique-top", "signed", "-n", "3"),
    "jobs": ("jobs", "."),
    "status": ("status", "vertex job"),
    "resume": ("resume", "vertex job"),
    "wait": ("wait", "vertex job"),
    "resume a listing": ("resume", "listing job"),
    "cache": ("cache",),
}  # fmt: skip

VOLATILE = {"seconds", "last_used"}
"""Columns that differ from run to run."""


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("rows")
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPILIO_CACHE", str(folder / "cache"))
        rows = [(f"a, {u}", f"v\t{v}", -1 if u == v else 1) for u, v in product(range(5), range(4))]
        papilio.read(pd.DataFrame(rows, columns=["u", "v", "sign"])).save("signed")
        pairs = [(a, b) for a in "abcde" for b in "abcde" if a < b]
        papilio.read(pairs, kind="unipartite").save("friends")
        papilio.generate(papilio.storage.graph_models.Complete(80, 80), "large")
        papilio.count("signed", "butterfly", job="job", cluster="inline", engine="cpu")
        papilio.count("signed", "butterfly", per="vertex", job="vertex job", cluster="inline", engine="cpu")
        papilio.enumerate(
            "signed", "maximal-biclique", output="rows", job="listing job", cluster="inline", engine="cpu"
        )
        Path("edges.csv").write_text("user,item\nx,1\n")
        call("count", "butterfly", "edges.csv", *HERE)
        yield folder


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words], standalone_mode=False, catch_exceptions=False)


def read_rows(data: bytes, format: str, is_stream: bool) -> pd.DataFrame:
    """The rows as text, so that formats can be compared."""
    if format in ("csv", "tsv"):
        frame = pd.read_csv(io.BytesIO(data), sep="," if format == "csv" else "\t", dtype=str, keep_default_na=False)
        return frame.map(plain)
    if format in ("json", "jsonl"):
        rows = json.loads(data) if format == "json" else [json.loads(line) for line in data.splitlines()]
        return pd.DataFrame([{name: plain(cell) for name, cell in row.items()} for row in rows])
    source = pa.BufferReader(data)
    if format == "parquet":
        table = pq.read_table(source)
    else:
        table = (pyarrow.ipc.open_stream(source) if is_stream else pyarrow.ipc.open_file(source)).read_all()
    return pd.DataFrame([{name: plain(cell) for name, cell in row.items()} for row in table.to_pylist()])


def plain(cell: Any) -> str:
    """A cell as text: lists as JSON, null as nothing, floats in one form."""
    if cell is None:
        return ""
    if isinstance(cell, list):
        return json.dumps(cell)
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    try:
        number = float(text) if any(sign in text for sign in ".e") else int(text)
    except ValueError:
        return text
    return str(int(number)) if number == int(number) else repr(number)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_format_holds_the_same_rows(name: str, place: Path) -> None:
    seen = []
    for format in TABLE_FORMATS:
        result = call(*COMMANDS[name], "--format", format)
        seen.append(read_rows(result.stdout_bytes, format, True))
        path = place / f"{name}.{'ndjson' if format == 'jsonl' else format}"
        for extra in ((), ("--format", format, "--overwrite")):
            call(*COMMANDS[name], "--output", str(path), *extra)
            seen.append(read_rows(path.read_bytes(), format, False))
    columns = [each for each in seen[0].columns if each not in VOLATILE]
    assert columns
    assert len(seen[0])
    for frame in seen[1:]:
        if "log10" in frame:  # which files of tables have, too
            frame = frame.drop(columns="log10")
        assert frame[columns].values.tolist() == seen[0][columns].values.tolist()


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_output_has_nothing_else(name: str) -> None:
    result = call(*COMMANDS[name], "--output", "-")
    lines = result.stdout.splitlines()
    assert len(lines) > 1
    assert read_rows(result.stdout_bytes, "tsv", True).shape[1] == len(lines[0].split("\t"))
    assert not Path("-").exists()


def test_rows_are_those_of_python() -> None:
    right = papilio.count("signed", "butterfly", per="vertex", engine="cpu", cluster="inline").to_pandas()
    found = pd.read_csv(io.BytesIO(call(*COMMANDS["count per vertex"], "--format", "csv").stdout_bytes))
    assert found.to_dict("records") == right.to_dict("records")
    big = [json.loads(line) for line in call(*COMMANDS["large table"], "--format", "jsonl").stdout.splitlines()]
    from math import comb

    assert {row["q"]: row["count"] for row in big} == {q: comb(80, 40) * comb(80, q) for q in range(1, 81)}
    assert max(row["count"] for row in big) > 2**64


def test_a_suffix_is_overruled_and_a_directory_stays_one(place: Path) -> None:
    call(*COMMANDS["count per vertex"], "--output", "x.csv", "--format", "tsv")
    assert Path("x.csv").read_text().startswith("layer\tid\tlabel\tcount\n")
    call(*COMMANDS["wings"], "--output", "wings-here")
    assert Path("wings-here", "edges.parquet").is_file()
    call(*COMMANDS["wings"], "--output", "numbers.tsv")
    assert Path("numbers.tsv").is_file()


def test_contradictions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, message in (
        (
            (*COMMANDS["count per vertex"], "--json", "--output", "-"),
            "the rows and --json both need standard output",
        ),
        ((*COMMANDS["cohesion"], "--output", "x.xlsx"), "cannot infer a format from the suffix '.xlsx'"),
        ((*COMMANDS["cohesion"], "--output", "edges.csv"), "already exists"),
        ((*COMMANDS["count"], "--format", "xml"), "'xml' is not one of"),
        (
            (
                "submit",
                "count",
                "butterfly",
                "signed",
                "--cluster",
                "nowhere.json",
                "--job",
                "new job",
                "--output",
                "-",
            ),
            "papilio wait 'new job' --output -",
        ),
    ):
        with pytest.raises(Exception, match=message):
            call(*words)


def test_a_state_is_a_row_of_all_jobs() -> None:
    (row,) = [json.loads(line) for line in call(*COMMANDS["status"], "--format", "jsonl").stdout.splitlines()]
    rows = [json.loads(line) for line in call(*COMMANDS["jobs"], "--format", "jsonl").stdout.splitlines()]
    assert row["state"] == "finished"
    assert row in rows


def test_close_names_are_suggested() -> None:
    for words, message in (
        (("cuont", "butterfly", "x"), "No such command 'cuont'; did you mean 'count'"),
        (("count", "triangles", "x"), "unknown motif 'triangles'; did you mean 'clique' with k = 3"),
        (("measure", "lataPy", "x"), "No such command 'lataPy'; did you mean 'latapy'"),
        (("count", "buterfly", "x"), "unknown motif 'buterfly'; did you mean 'butterfly'"),
        (("submit", "cuont"), "No such command 'cuont'; did you mean 'count'"),
    ):
        with pytest.raises(Exception, match=message):
            call(*words)


def test_a_reader_that_ends_first_ends_the_command_quietly(place: Path) -> None:
    papilio.generate(papilio.storage.graph_models.Complete(60_000, 2), "wide")
    words = [
        sys.executable,
        "-m",
        "papilio",
        "count",
        "butterfly",
        "wide",
        "--per",
        "edge",
        "--format",
        "csv",
        *HERE,
    ]
    env = {"PYTHONPATH": str(ROOT), "HOME": str(place)}
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place, env=env)
    assert command.stdout is not None
    assert command.stderr is not None
    assert command.stdout.readline() == b'"u","v","support"\n'
    command.stdout.close()
    said = command.stderr.read().decode()
    command.stderr.close()
    assert (command.wait(), "Traceback" in said, "Error" in said) == (141, False, False), said


def test_tables_fit_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["observed", "mean", "p_value"], ["341", "313.056", "0.0959041"], ["267", "191.174", "-"]]
    table = {(p, q): 10**7 + p for p in range(2, 7) for q in range(2, 7)}
    usual, matrix = align(rows), table_lines(table)
    assert usual[0] == "observed     mean    p_value"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert align(rows) == usual
    assert matrix[0].startswith("p \\ q")
    assert table_lines(table)[:2] == ["p  q  count", "2  2  10000002"]
    monkeypatch.setenv("COLUMNS", "20")
    assert align(rows) == [
        "observed  341", "mean      313.056", "p_value   0.0959041", "",
        "observed  267", "mean      191.174", "p_value   -",
    ]  # fmt: skip
