"""Listings from the command line: what it prints, what it refuses, and a process that is killed."""

from __future__ import annotations

import csv
import html
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.storage.tables import TABLE_FORMATS
from tests.conftest import ROOT
from tests.tools.commands import Run
from tests.tools.listings import rows_of, write_many, write_women

HERE = ("--cluster", "inline")


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    return write_women(example_data, tmp_path_factory.mktemp("women"))


def test_the_command_lists(women: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    asked = ("enumerate", "biclique", women, "-p", 3, "-q", 4, *HERE)
    code, said, err = run(*asked, "--output", out, "--with-u", "woman 2", "--with-v", 104)
    assert (code, said) == (0, f"{out}\n"), err
    assert f"biclique (3, 4): {len(rows_of(out))} listed in 1 file" in err
    assert "limit" not in err
    code, said, err = run(*asked, "--limit", "1e1", "--output", tmp_path / "ten", "--json")
    data = json.loads(said)
    assert (code, data["count"], data["limit_reached"], data["files"]) == (0, 10, True, 1)
    assert (data["output"], data["engine"]) == (str(tmp_path / "ten"), "cpu")
    job = tmp_path / "job"
    code, said, err = run(*asked, "--limit", 5, "--output", tmp_path / "five", "--job", job)
    assert code == 0, err
    assert "the limit of 5 was reached; there may be more. To count them: papilio count biclique" in err
    assert "-p 3 -q 4" in err
    assert "listing of biclique (3, 4), up to 5 in" in run("status", job)[1]
    assert "listing of biclique (3, 4), up to 5  " in run("jobs", tmp_path)[1]
    code, said, err = run("verify", job, "--sample", 1)
    assert (code, said) == (0, "5\n")
    assert "leases: 1, which reach the limit" in err
    assert "nothing was listed now" in run("resume", job)[2]


def test_the_command_plans(women: Path, run: Run) -> None:
    asked = ("enumerate", "biclique", women, "-p", 3, "-q", 4, "--dry-run", *HERE)
    code, out, err = run(*asked)
    assert code == 0, err
    assert "question    listing of biclique (3, 4), all" in out
    assert "bicliques are listed on CPUs" in out
    assert "anchored: " in out
    code, out, err = run(*asked, "--with-u", "woman 2", "--anchor", "v")
    assert code == 0, err
    assert "search for (2, 4) among " in out
    assert "only these are compatible with the required vertices" in out
    assert "layer V anchored: requested" in out
    assert (
        "layer U anchored: only one of its vertices" in run("enumerate", *asked[1:3], "-p", 1, "-q", 2, *asked[7:])[1]
    )
    assert json.loads(run(*asked, "--limit", 3, "--json")[1])["job"]["listing"]["limit"] == 3


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (
            ["-p", 3, "-q", 4, "--json"],
            2,
            "use --format jsonl for rows as JSON",
        ),
        (
            ["-p", 3, "-q", 4, "--output", "x.parquet", "--format", "csv"],
            2,
            "x.parquet does not name a csv file; use a name ending in .csv",
        ),
        (["-p", 3, "-q", 4, "--output", "x", "--format", "csv"], 2, "x does not name a csv file"),
        (
            ["-p", 3, "-q", 4, "--job", "j"],
            2,
            "job is given, but rows are iterated on the processors of this",
        ),
        (
            ["-p", 3, "-q", 4, "--output", "x.csv", "--job", "j"],
            2,
            "x.csv is a file, but a job lists into a",
        ),
        (["-p", 3, "-q", 4, "--output", "no/x.csv"], 3, "no"),
        (["-p", 3, "--limit", 3], 2, "a listing needs -q with a number"),
        (["--limit", 3], 2, "a listing needs -p and -q with a number"),
        (
            ["-p", 3, "-q", 4, "--limit", 3, "--output", "x", "--engine", "gpu"],
            4,
            "bicliques are listed on CPUs",
        ),
    ],
)
def test_the_command_says_what_is_missing(women: Path, run: Run, flags: list[object], code: int, message: str) -> None:
    found, out, err = run("enumerate", "biclique", women, *flags, *HERE)
    assert (found, out) == (code, ""), err
    assert message in err
    refused = run("enumerate", "butterfly", women, "--limit", 3)
    assert (refused.exit_code, "butterfly cannot be listed" in refused.stderr) == (4, True)


SLOW_LEASES = """
import time
import papilio.tasks.leases as policy
from papilio.kernels.biclique.list import BicliqueLister
policy.SHORTEST_LEASE_S = policy.MAX_LEASE_S = 0.0005
run = BicliqueLister.run
def run_slowly(*args, **options):
    time.sleep(0.05)
    return run(*args, **options)
BicliqueLister.run = run_slowly
from papilio.cli import main
main()
"""
"""The command with leases that take at least 50 ms."""


def test_a_listing_that_is_killed_goes_on(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    many = write_many(tmp_path_factory.mktemp("many"))
    asked = ["enumerate", "biclique", many, "-p", 3, "-q", 3, *HERE]
    asked += ["--output", tmp_path / "out", "--job", tmp_path / "job"]
    process = subprocess.Popen([sys.executable, "-c", SLOW_LEASES, *map(str, asked)], cwd=ROOT)
    shards = tmp_path / "job" / "shards" / "1"
    deadline = time.monotonic() + 600
    while not shards.is_dir() or len(list(shards.iterdir())) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (tmp_path / "out").exists()
    before = papilio.open_job(tmp_path / "job").status()
    assert before.state == "interrupted"
    assert before.leases >= 1
    result = papilio.resume_job(tmp_path / "job")
    rows = rows_of(tmp_path / "out")
    assert len(rows) == len(set(rows)) == papilio.count(many, papilio.Biclique(3, 3), engine="cpu").count
    assert result.leases_before == before.leases
    assert papilio.verify_job(tmp_path / "job")[0].count == len(rows)


@pytest.mark.parametrize(("limit", "told"), [(["--limit", "7"], "up to 7"), ([], "all")])
def test_the_page_of_a_listing_says_how_to_ask_again(
    women: Path, tmp_path: Path, run: Run, limit: list[str], told: str
) -> None:
    job, out = tmp_path / "job", tmp_path / "out"
    asked = ["enumerate", "biclique", women, "-p", 2, "-q", 2, *limit, "--with-u", "woman 2", "--with-v", 104]
    assert run(*asked, "--output", out, "--job", job, *HERE)[0] == 0
    code, _, err = run("report", job, "--no-figures")
    assert code == 0, err
    page = html.unescape((job / "report" / "report.html").read_text())
    assert "Biclique listing" in page
    assert f"listing of biclique (2, 2), {told} with vertices u 2 v 4" in page
    words = " ".join([*limit, "--with-u 'woman 2' --with-v 104"])
    assert f"papilio enumerate biclique {women} -p 2 -q 2 {words} --output {out}" in page


@pytest.mark.parametrize("form", [*TABLE_FORMATS, None])
def test_rows_on_standard_output_are_those_of_a_file(women: Path, tmp_path: Path, run: Run, form: str | None) -> None:
    """Every format, as a stream and as a file by its suffix, holds the rows of a listing; a header line always."""
    asked = ["enumerate", "biclique", str(women), "-p", "2", "-q", "5"]
    command = [sys.executable, "-m", "papilio", "--quiet", *asked]
    done = subprocess.run(
        command if form is None else [*command, "--format", form],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    expected = {
        (tuple(row["u"]), tuple(row["v"]))
        for row in papilio.enumerate(women, "biclique", p=2, q=5).to_arrow().to_pylist()
    }
    assert len(expected) == papilio.count(women, papilio.Biclique(2, 5), engine="cpu").count > 9
    name = form or "tsv"
    file = tmp_path / f"rows.{name}"
    assert run(*asked, "--quiet", "--output", file).exit_code == 0
    for data in (done.stdout, file.read_bytes()):
        if name == "jsonl":
            rows = [json.loads(line) for line in data.splitlines()]
        elif name == "json":
            rows = json.loads(data)
        elif name == "parquet":
            rows = pq.read_table(io.BytesIO(data)).to_pylist()
        elif name == "arrow":
            is_file = data.startswith(b"ARROW1")
            opened = pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data)
            rows = opened.read_all().to_pylist()
        else:
            head, *lines = csv.reader(io.StringIO(data.decode()), delimiter="," if name == "csv" else "\t")
            assert head == ["u1", "u2", "v1", "v2", "v3", "v4", "v5"]
            rows = [{"u": line[:2], "v": map(int, line[2:])} for line in lines]
        assert {(tuple(row["u"]), tuple(row["v"])) for row in rows} == expected
    assert {each.name for each in tmp_path.iterdir()} == {file.name}


def test_head_ends_a_listing_quietly(women: Path) -> None:
    listed = f"{sys.executable} -m papilio enumerate biclique {women} --engine cpu -p 2 -q 2"
    script = f"{listed} | head -n 2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "u1\tu2\tv1\tv2"
    assert done.stdout.splitlines()[-1] in ("141", "0")
    assert done.stderr == ""


def test_a_listing_that_does_not_fit_the_disk_is_refused(
    women: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = type("Usage", (), {"free": 10})
    monkeypatch.setattr("papilio.api.listing_call.shutil.disk_usage", lambda _: full)
    code, _, err = run("enumerate", "biclique", women, "-p", 2, "-q", 2, "--output", tmp_path / "rows", *HERE)
    assert code == 5
    assert "10 bytes are free at" in err
    assert "set limit (--limit), or use another disk" in err
    assert not [*tmp_path.iterdir()]
