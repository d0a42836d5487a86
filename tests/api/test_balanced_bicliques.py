"""Balanced (p,q)-bicliques as users ask for them: the command line, Python, jobs, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import UnsupportedError
from papilio.motifs import BalancedBiclique, Biclique, Listing, motif_from_json, motif_to_json
from papilio.question import Question
from papilio.registry import MOTIF_ROWS
from papilio.tasks.fold import find_wrong_cell
from papilio.tasks.memory import predict_memory
from tests.tasks.fakes import make_job
from tests.tools.commands import Run

ROW = {2: 54_144_193, 3: 1_261_215_333, 4: 31_675_643_910}
"""Balanced bicliques of three senators of the bundled votes and so many bills."""

HERE = ("--cluster", "inline", "--engine", "cpu")


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    path = tmp_path_factory.mktemp("votes") / "senate"
    papilio.convert(example_data / "senate-votes.txt.gz", path, sign=3)
    return path


def test_the_motif_says_what_it_is() -> None:
    for motif in (BalancedBiclique(3, 4), BalancedBiclique(3, max_q=9), BalancedBiclique()):
        assert motif_from_json(json.loads(json.dumps(motif_to_json(motif)))) == motif
        assert motif.needs_signs
    assert BalancedBiclique(3, 4) != Biclique(3, 4)
    assert BalancedBiclique(3, max_q=9).title == "balanced biclique (3, q), q up to 9"
    assert BalancedBiclique(3).words == ("balanced-biclique", "-p", "3", "--all-q")
    assert find_wrong_cell(Question(BalancedBiclique(3), "total"), {(3, 1): 2}, 2) is None
    assert "needs balanced biclique (3, q)" in str(
        find_wrong_cell(Question(BalancedBiclique(3), "total"), {(2, 1): 2}, 2)
    )


def test_counts_on_the_command_line(votes: Path, run: Run, tmp_path: Path) -> None:
    assert run("count", "balanced-biclique", votes, "-p", 3, "-q", 3, *HERE).stdout == f"{ROW[3]}\n"
    asked = ("count", "balanced-biclique", votes, "-p", 3, "--all-q", "--max-q", 4, *HERE)
    table = tmp_path / "table.parquet"
    data = json.loads(run(*asked, "--json", "--output", table).stdout)
    assert (data["motif"], data["parameters"]["max_q"]) == ("balanced-biclique", 4)
    counts = {q: int(count) for p, q, count in data["table"] if q > 1}
    assert counts == ROW
    stored = dict(zip(*(pq.read_table(table).column(name).to_pylist() for name in ("q", "count")), strict=True))
    assert {q: stored[q] for q in ROW} == {q: str(count) for q, count in ROW.items()}
    planned = run("plan", "balanced-biclique", votes, "-p", 3, "-q", 3, "--anchor", "v", *HERE).stdout
    assert "signed double cover searched, half of its roots" in planned
    assert "layer V anchored: requested" in planned


def test_jobs_are_kept_and_verified(votes: Path, tmp_path: Path) -> None:
    job, motif = tmp_path / "job", papilio.BalancedBiclique(3, 3)
    found = papilio.count(votes, motif, per="vertex", engine="cpu", job=job)
    assert found.count == ROW[3]
    assert [int(found.vectors[layer].sum()) for layer in "uv"] == [3 * ROW[3]] * 2
    assert papilio.count(votes, motif, per="vertex", engine="cpu", job=job).reused
    _, recount = papilio.verify_job(job, sample=1, engine="cpu")
    assert recount is not None


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("count", "balanced-biclique", "STORE", "-p", 3), 2, "balanced-biclique needs -q with a number, or --all-q"),
        (("count", "balanced-biclique", "STORE", "-k", 3), 2, "no option -k; it belongs to balanced-butterfly"),
        (("count", "balanced-butterfly", "STORE", "-p", 3), 2, "has no option -p; it belongs to biclique"),
        (
            ("count", "balanced-biclique", "STORE", "-p", 3, "--all-q", "--algorithm", "enumerate",
             "--anchor", "v", *HERE),
            4, "needs a single size of the anchored layer",
        ),
        (
            ("count", "balanced-biclique", "STORE", "-p", 3, "-q", 3, "--per", "edge", *HERE),
            4, "a balanced-biclique cannot be counted per edge",
        ),
        (
            ("enumerate", "balanced-biclique", "STORE", "-p", 3, "-q", 3, "--output", "found"),
            4, "cannot be listed",
        ),
        (
            ("partition", "STORE", "parts", "--motif", "balanced-biclique", "-p", 3, "-q", 3,
             "--host-memory", "1GiB"),
            4, "balanced biclique (3, 3) is counted on whole graphs only, not in parts",
        ),
        (
            ("count", "balanced-biclique", "STORE", "-p", 3, "-q", 3, "--host-memory", "300MiB", *HERE),
            5, "balanced biclique (3, 3) is counted on the whole graph only; raise --host-memory to at least",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(votes: Path, run: Run, args: tuple[object, ...], code: int, message: str) -> None:
    result = run(*(votes if arg == "STORE" else arg for arg in args))
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_graphs_without_signs_are_refused_with_how_to_convert(run: Run, tmp_path: Path, example_data: Path) -> None:
    women = tmp_path / "women"
    papilio.convert(example_data / "southern-women.txt.gz", women)
    result = run("count", "balanced-biclique", women, "-p", 3, "-q", 3, *HERE)
    assert result.exit_code == 4
    assert f"{women} has no signs" in result.stderr
    assert "--positive-from" in result.stderr


def test_balanced_bicliques_are_not_listed() -> None:
    with pytest.raises(UnsupportedError, match=r"balanced biclique \(3, 3\) cannot be listed"):
        make_job(motif=BalancedBiclique(3, 3), signed=True, listing=Listing())


def test_parts_of_bicliques_do_not_serve_balanced_ones(votes: Path, tmp_path: Path) -> None:
    made = papilio.partition(votes, tmp_path / "parts", Biclique(3, 3), host_memory=1 << 30)
    made.require_serves(Biclique(3, 3), "total")
    with pytest.raises(UnsupportedError, match="has parts for biclique, not for balanced biclique"):
        made.require_serves(BalancedBiclique(3, 3), "total")


def test_the_cover_is_forecast_and_has_a_speed() -> None:
    large = {"n_u": 10**6, "n_v": 10**6, "n_edges": 10**8, "signed": True}
    plain = predict_memory(make_job(motif=Biclique(3, 3), **large), "cpu", 1)
    cover = predict_memory(make_job(motif=BalancedBiclique(3, 3), **large), "cpu", 1)
    assert 1.8 < cover.host_bytes / plain.host_bytes < 2.2
    assert MOTIF_ROWS["balanced-biclique"].rates["cpu"].unit == "set operations"
