"""The command line: one JSON object or a human answer, documented exit codes, no traces after Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import papilio
from papilio import errors
from papilio.arguments import parse_size
from papilio.cli.app import EXIT_CODES, cli, exit_code_of
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import ReadingOption
from papilio.storage.reading import GraphOptions
from papilio.storage.store import open_store
from tests.conftest import ROOT
from tests.tools.commands import Result, Run


@pytest.fixture
def women(tmp_path: Path, example_data: Path, run: Run) -> Path:
    store = tmp_path / "women"
    result = run("convert", example_data / "southern-women.txt.gz", store)
    assert result.exit_code == 0
    assert result.stdout == f"{store}\n"
    assert "(detected), compression gzip" in result.stderr
    return store


def test_convert_options_reach_the_store(tmp_path: Path, example_data: Path, run: Run) -> None:
    store = tmp_path / "senate"
    result = run(
        "convert", example_data / "senate-votes.txt.gz", store, "--sign", 3, "--memory", "1GiB", "--json"
    )  # fmt: skip
    data = json.loads(result.stdout)
    assert (data["n_u"], data["n_v"], data["n_edges"], data["signed"]) == (145, 1056, 27083, True)
    assert data["path"] == str(store)
    lines = tmp_path / "edges.txt"
    lines.write_text("a b\nbad\nb c\na b\nc c\n")
    result = run(
        "convert", lines, tmp_path / "g", "--unipartite", "--skip-malformed", "--labels", "text", "--no-header"
    )  # fmt: skip
    assert "1 duplicates" in result.stderr
    assert "1 self_loops" in result.stderr
    assert "1 malformed" in result.stderr
    assert open_store(tmp_path / "g").kind == "unipartite"


def test_convert_says_which_columns_it_read(tmp_path: Path, run: Run) -> None:
    table = tmp_path / "table.csv"
    table.write_text(",rating,user,item\n0,5,1,2\n1,3,2,1\n")
    result = run("convert", table, tmp_path / "a", "--positive-from", 4)
    assert "columns: U is user (column 3), V is item (column 4), sign is rating (column 2)" in result.stderr
    result = run("convert", table, tmp_path / "b", "--u", "item", "--v", 3, "--sign", "rating")
    assert "columns: U is item (column 4), V is user (column 3), sign is rating (column 2)" in result.stderr
    assert "note: all 2 edges are positive by the rule (rating (column 2): positive above 0)" in result.stderr
    table.write_text("a,b,c\n1,2,3\n")
    refused = run("convert", table, tmp_path / "c")
    assert refused.exit_code == 2
    assert "a (column 1), b (column 2), c (column 3); name them by u and v (--u and --v" in refused.stderr
    edges = tmp_path / "edges.txt"
    edges.write_text("# sizes\n5 9\n1 2\n2 3\n")
    result = run("convert", edges, tmp_path / "d")
    assert "note: line 2 read as an edge: 5 9; use --header if it contains sizes" in result.stderr
    assert "dropped: 1 comments" in result.stderr
    assert "line 2 is a header: 5, 9" in run("convert", edges, tmp_path / "e", "--header").stderr


GRAPHS = {"input", "store", "stores"}
"""Arguments that are graphs."""

NO_GRAPHS = {"directory", "kind", "name", "output", "pattern", "root"}
"""Other arguments: directories of jobs and experiments, the kind of a decomposition, results, files, examples."""

WITHOUT = {
    ("decompose",): {"kind": "follows from what is peeled: of cores, from --alpha and --beta"},
    ("project",): {"kind": "only bipartite graphs have two layers to project"},
    ("convert",): {"format": "the input is all it reads: its flag is --format"},
    ("scale", "count"): {"time": "--time is the time limit of Slurm: its flag is --time-column"},
    ("slurm", "render", "count"): {"time": "--time is the time limit of Slurm: its flag is --time-column"},
    ("slurm", "render", "significance"): {"time": "as for render count"},
}
"""Flags of reading that a command does not have, and why."""


def commands_below(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands that take arguments, of those with a subcommand for each motif the first one."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    if any(isinstance(each, click.Argument) for each in command.params):
        yield words, command
    context = click.Context(command)
    names = command.list_commands(context)
    is_for_motifs = isinstance(command, MotifGroup)
    for name in names[:1] if is_for_motifs else names:
        found = command.get_command(context, name)
        assert found is not None
        yield from commands_below(found, *words, *(() if is_for_motifs else (name,)))


def test_every_command_that_takes_a_graph_has_the_flags_that_read_it() -> None:
    reading = {*GraphOptions.__annotations__} - {"n_u", "n_v"}  # sizes of arrays of ids
    seen, lacking = set(), {}
    for words, command in commands_below(cli):
        arguments = {each.name for each in command.params if isinstance(each, click.Argument)}
        assert arguments <= GRAPHS | NO_GRAPHS, f"{words}: is one of {arguments} a graph?"
        if not arguments & GRAPHS:
            continue
        seen.add(words)
        missing = reading - {each.name for each in command.params if isinstance(each, ReadingOption)}
        if missing:
            lacking[words] = missing
    assert lacking == {words: set(reasons) for words, reasons in WITHOUT.items()}
    others = ("count",), ("doctor",), ("info",), ("measure", "latapy"), ("partition",), ("submit", "count")
    assert {*others, *WITHOUT} <= seen


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file that must be told how to read: 1 butterfly of b and c, whose first line has no names, in Latin-1."""
    path = tmp_path / "a table.csv"
    path.write_bytes("9;ä;x\n8;ä;y\n7;b;x\n6;b;y\n5;ä;x\nbroken\n".encode("latin-1"))
    return path


READING = ("--u", 2, "--v", 3, "--time-column", 1, "--no-header", "--encoding", "latin-1", "--skip-malformed")


def test_a_checked_graph_is_read_as_flags_say(table: Path, run: Run) -> None:
    result = run("doctor", table, *READING, "--duplicates", "last", "--json")
    (check,) = [each for each in json.loads(result.stdout)["checks"] if each["name"] == "store"]
    assert check["status"] == "ok"
    assert "bipartite, 2 x 2 vertices, 4 edges" in check["found"]
    assert f"{table}: read as csv" in result.stderr
    aside = f"{table.parent}/a*.csv"  # converted for this command alone
    assert '"status": "ok", "found": "' + aside in run("doctor", aside, *READING, "--json").stdout
    assert "edges       4\n" in run("info", aside, *READING).stdout
    failed = run("doctor", table, *READING, "--duplicates", "error")
    assert failed.exit_code == 3
    assert "FAIL  store" in failed.stdout
    assert run("doctor", "--u", 2).exit_code == 2


def test_a_batch_script_reads_its_graph_as_flags_say(table: Path, run: Run, tmp_path: Path) -> None:
    flags = ("--duplicates", "last", "--positive-from", -1, "--bipartite", "--weight", "1")
    script = run("slurm", "render", "count", "butterfly", table, "--time", "60", "--memory", "1GiB", *READING, *flags)
    assert script.exit_code == 0, script.stderr
    line = next(line for line in script.stdout.splitlines() if line.startswith("papilio count"))
    words = shlex.split(line.removesuffix("\\"))[2:]
    given = {
        "--u=2",
        "--v=3",
        "--time-column=1",
        "--no-header",
        "--encoding=latin-1",
        "--skip-malformed",
        "--duplicates=last",
    }
    assert given | {"--positive-from=-1.0", "--bipartite", "--weight=1"} <= {*words}
    words = [word for word in words if not word.startswith(("--positive", "--weight"))]
    counted = run("count", *words, "--cluster", "inline", "--", "butterfly", table)
    assert counted.stdout == "1\n", counted.stderr
    refused = run("slurm", "render", "count", "butterfly", "-", "--time", "60", "--memory", "1GiB")
    assert (refused.exit_code, "no standard input" in refused.stderr) == (2, True)


def test_an_experiment_reads_its_graphs_as_flags_say(table: Path, run: Run, tmp_path: Path) -> None:
    common = ("--workers", 1, "--repeat", 1, "--cluster", "inline", "--no-figures", "--no-warm-up")
    output = tmp_path / "scaling"
    for _ in range(2):  # the second time from what was converted before
        result = run("scale", "count", "butterfly", table, *common, *READING, "--output", output, "--json")
        assert result.exit_code == 0, result.stderr
        assert [each["count"] for each in json.loads(result.stdout)["runs"]] == ["1"]
    other = run("scale", "count", "butterfly", table, *common, "--u", 1, "--v", 2, "--encoding", "latin-1",
                "--skip-malformed", "--output", output)  # fmt: skip
    assert (other.exit_code, "is an experiment with graph" in other.stderr) == (2, True), other.stderr
    model = ("--weak", "--model", "complete:n_u=7,n_v=4", "--output", tmp_path / "weak")
    refused = run("scale", "count", "butterfly", *common, *model, "--u", 1)
    assert (refused.exit_code, "the graphs of a model are generated" in refused.stderr) == (2, True)
    piped = run("scale", "count", "butterfly", f"{tmp_path}/a*.csv", *common, *READING, "--output", tmp_path / "no")
    assert (piped.exit_code, "ends with this process" in piped.stderr) == (2, True)


def test_info_says_what_is_stored(women: Path, run: Run) -> None:
    text = run("info", women, "--verify")
    assert "18 x 14" in text.stdout
    assert "max 8, mean 4.944" in text.stdout
    assert "verified" in text.stderr
    data = json.loads(run("info", women, "--json").stdout)
    assert (data["n_edges"], data["degrees"]["v"]["max"]) == (89, 14)


def test_generate_has_a_flag_for_every_field_of_a_model(tmp_path: Path, run: Run) -> None:
    help_text = run("generate", "planted", "--help").stdout
    assert "--size-u" in help_text
    assert "Number of vertices of U in each" in help_text
    result = run("generate", "complete", tmp_path / "k", "--n-u", 5, "--n-v", 7, "--json")
    assert json.loads(result.stdout)["n_edges"] == 35
    run("generate", "complete", tmp_path / "c", "--n-u", 5)
    assert open_store(tmp_path / "c").kind == "unipartite"
    run(
        "generate", "rmat", tmp_path / "r", "--scale-u", 6, "--scale-v", 5, "--edges", "2e2",
        "--seed", 3, "--signs", 0.5, "--compact",
    )  # fmt: skip
    made = open_store(tmp_path / "r")
    assert made.signed
    assert made.manifest.provenance["edges"] == 200
    assert made.manifest.provenance["compact"] is True
    assert run("generate", "rmat", tmp_path / "x", "--scale-u", 6).exit_code == 2
    assert "no integer" in run("generate", "complete", tmp_path / "x", "--n-u", "1.5").stderr


def test_count_answers_people_on_two_streams(women: Path, run: Run) -> None:
    result = run("count", "butterfly", women, "--cluster", "inline", "--engine", "cpu")
    assert result.stdout == "341\n"
    for proof in ("engine cpu, 1 worker (inline)", "work items in 1 lease", "wedges", "seconds: "):
        assert proof in result.stderr


SCHEMA: dict[str, Any] = {
    "motif": str, "parameters": dict, "per": str, "count": int, "engine": str, "cluster": str, "workers": int,
    "table": (list, type(None)),
    "worker_details": list, "items": int, "leases": int, "plan_key": str, "seconds": dict, "work": dict,
    "graph": dict, "peak_memory_bytes": int, "decisions": list, "output": (str, type(None)), "top": list,
    "job": (dict, type(None)), "peak_device_bytes": int, "used_device_bytes": int, "strategy": str,
    "replication": float, "moved": dict,
}  # fmt: skip


def test_count_json_is_one_object_of_the_documented_form(women: Path, run: Run) -> None:
    result = run("count", "butterfly", women, "--cluster", "inline", "--engine", "cpu", "--json")
    data = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert data.keys() == SCHEMA.keys()
    assert all(isinstance(data[name], kind) for name, kind in SCHEMA.items())
    assert (data["motif"], data["count"], data["workers"]) == ("butterfly", 341, 1)
    phases = {"start", "plan", "read", "prepare", "run", "fold", "write", "total"}
    assert data["seconds"].keys() == phases
    assert data["work"].keys() == {"wedges", "wedges_per_second"}
    assert data["graph"].keys() == {"path", "hash", "kind", "n_u", "n_v", "n_edges", "signed", "provenance"}
    assert {decision["number"] for decision in data["decisions"]} == {1, 2, 3, 4}
    documented = (ROOT / "docs" / "cli.md").read_text()
    assert all(f"`{name}`" in documented for name in (*SCHEMA, *phases))


def test_per_vertex_lists_the_largest_or_writes_a_file(women: Path, run: Run, tmp_path: Path) -> None:
    asked = ("count", "butterfly", women, "--cluster", "inline", "--engine", "cpu", "--per", "vertex")
    lines = run(*asked).stdout.splitlines()
    assert lines[0] == "341"
    assert [line.split("\t")[0] for line in lines[1:]] == ["u"] * 10 + ["v"] * 10
    counts = [int(line.split("\t")[2]) for line in lines[1:11]]
    assert counts == sorted(counts, reverse=True)
    written = run(*asked, "--output", tmp_path / "out.parquet")
    assert written.stdout == "341\n"
    assert (tmp_path / "out.parquet").is_file()
    edges = run(*asked[:-1], "edge").stdout.splitlines()
    assert len(edges) == 11
    assert len(edges[1].split("\t")) == 4


def test_plan_shows_tasks_work_memory_and_decisions(women: Path, run: Run) -> None:
    text = run("plan", "butterfly", women, "--cluster", "inline", "--engine", "cpu").stdout
    for subject in ("tasks", "work", "memory", "decisions", "1. engine cpu: requested"):
        assert subject in text
    data = json.loads(run("plan", "butterfly", women, "--cluster", "inline", "--json").stdout)
    assert papilio.CountPlan.from_dict(data).n_items == data["n_items"] > 0


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["count", "moth", "STORE"], 4, "unknown motif 'moth'; known: balanced-biclique, balanced-butterfly, biclique"),
        (["count", "butterfly", "nowhere"], 3, "nowhere does not exist"),
        (["submit", "count", "butterfly", "STORE", "--output", "x.csv", "--cluster", "x", "--job", "j"], 2, "files"),
        (["count", "butterfly", "STORE", "--per", "face"], 2, "Invalid value for '--per'"),
        (["count", "butterfly", "STORE", "--workers", "0"], 2, "Invalid value for '--workers'"),
        (["count", "butterfly", "STORE", "--cluster", "no.json"], 6, "an existing scheduler file"),
        (["count", "butterfly", "STORE", "--cluster", "inline", "--workers", "2"], 2, "the inline cluster has one"),
        (["count", "butterfly", "STORE", "--cluster", "local", "--engine", "gpu"], 4, "use --cluster cuda"),
        (["convert", "nowhere.txt", "OUT"], 2, "nowhere.txt"),
        (["convert", "nowhere.txt", "OUT", "--memory", "lots"], 2, "'lots' is not a size"),
        (["nonsense"], 2, "No such command"),
    ],
)  # fmt: skip
def test_errors_have_documented_codes_and_no_traceback(
    args: list[str],
    code: int,
    text: str,
    women: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    places = {"STORE": str(women), "OUT": str(tmp_path / "out")}
    result = run(*[places.get(arg, arg) for arg in args])
    assert result.exit_code == code, result.stderr
    assert text in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_unipartite_stores_are_refused(tmp_path: Path, run: Run) -> None:
    run("generate", "complete", tmp_path / "k", "--n-u", 5)
    result = run("count", "butterfly", tmp_path / "k")
    assert result.exit_code == 4
    assert "is defined on bipartite graphs" in result.stderr


def test_every_error_class_has_a_code_that_the_help_documents(run: Run) -> None:
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in found if kind.__module__ == errors.__name__]
    codes = {kind.__name__: exit_code_of(kind("x")) for kind in kinds}
    assert (codes["GraphError"], codes["TilingError"], codes["ClusterError"]) == (2, 1, 6)
    assert codes["PapilioError"] == 1
    text = run("--help").stdout
    documented = (ROOT / "docs" / "cli.md").read_text()
    for _, number, meaning in EXIT_CODES:
        assert f"{number}    {meaning}" in text
        assert f"| {number} |" in documented
    assert "130  interrupted" in text
    assert run("--version") == Result(0, f"papilio, version {papilio.__version__}\n", "")


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1048576", 2**20),
        ("8GiB", 2**33),
        ("2GB", 2 * 10**9),
        ("500M", 5 * 10**8),
        ("1.5 KiB", 1536),
        ("7b", 7),
    ],
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1iB", "1EB", "0x10", "1e9"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(errors.InputError, match="is not a size"):
        parse_size(text)


def test_module_runs_on_a_local_cluster_and_keeps_standard_error_human(women: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "papilio", "count", "butterfly", str(women), "--cluster", "local", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    data = json.loads(result.stdout)
    assert (data["count"], data["cluster"], data["engine"]) == (341, "local", "cpu")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_signals_stop_cleanly(number: signal.Signals, code: int, tmp_path: Path, run: Run) -> None:
    run("generate", "complete", tmp_path / "k", "--n-u", 2500, "--n-v", 2500)
    results = tmp_path / "results"
    results.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "papilio", "count", "butterfly", str(tmp_path / "k"), "--cluster", "local",
         "--per", "vertex", "--output", str(results / "counts.parquet")],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 600
        while not list(results.iterdir()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, err
    assert (out, err) == ("", f"papilio: {'interrupted' if code == 130 else 'terminated'}\n")
    assert list(results.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(process.pid)


def _wait_until_gone(group: int) -> None:
    """Raise ProcessLookupError as soon as no process of the group is left."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        os.killpg(group, 0)
        time.sleep(0.05)
