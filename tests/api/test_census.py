"""Signed motifs as users ask for them: the command line, Python, jobs, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import InputError, UnsupportedError
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Census, Motif, motif_from_json, motif_to_json
from papilio.question import Question
from papilio.storage.store import open_store
from papilio.tasks.fold import find_wrong_cell
from tests.tools.commands import Run

BALANCED = 15_323_136
CLASSES = {
    "++/++": 3_351_042, "++/--": 4_702_003, "--/--": 1_703_831,
    "+-/+-": 5_566_260, "++/+-": 6_225_745, "--/+-": 4_118_075,
}  # fmt: skip
"""Of the bundled votes of the Senate, by pairs of senators."""

HERE = ("--cluster", "inline", "--engine", "cpu")


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    path = tmp_path_factory.mktemp("votes") / "senate"
    papilio.convert(example_data / "senate-votes.txt.gz", path, sign=3)
    return path


@pytest.mark.parametrize(
    "motif",
    [
        BalancedButterfly(), BalancedButterfly(5, pair_side="v"), BalancedButterfly(None, 9, "v"),
        BalancedButterfly(None), Census("u"), Census("v"),
    ],
)  # fmt: skip
def test_motifs_survive_json(motif: Motif) -> None:
    assert motif_from_json(json.loads(json.dumps(motif_to_json(motif)))) == motif
    assert motif.needs_signs


def test_motifs_say_what_they_are() -> None:
    assert BalancedButterfly(2, pair_side="v") == BalancedButterfly()
    assert BalancedButterfly().title == "balanced butterfly"
    assert BalancedButterfly(5, pair_side="v").title == "balanced biclique (5, 2)"
    assert BalancedButterfly(None, 9).title == "balanced biclique (2, q), q up to 9"
    assert BalancedButterfly(None, 9, "v").words == (
        "balanced-butterfly", "--all-k", "--max-k", "9", "--pair-side", "v",
    )  # fmt: skip
    assert Census("v").words == ("census", "--pair-side", "v")
    assert BalancedButterfly().granularities == ("total", "vertex")
    assert BalancedButterfly(3).granularities == Census("u").granularities == ("total",)
    assert [BalancedButterfly(k).is_table for k in (2, 3, None)] == [False, False, True]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 1}, "k of a balanced butterfly is 1; the minimum is 2"),
        ({"k": None, "max_k": 0}, "max_k of a balanced butterfly is 0; the minimum is 2"),
        ({"k": 3, "max_k": 4}, "k 3 and max_k 4; set max_k only"),
        ({"k": True}, "k of a balanced butterfly is True; expected an integer"),
        ({"pair_side": "w"}, "pair_side of a balanced butterfly is 'w'; expected u or v"),
    ],
)
def test_impossible_parameters_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BalancedButterfly(**given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pair_side of a census is 'w'"):
        Census("w")  # type: ignore[arg-type]


def test_cells_that_were_not_asked_for_are_found() -> None:
    table = Question(BalancedButterfly(None, 4, "v"), "total")
    census = Question(Census("u"), "total")
    assert find_wrong_cell(table, {(2, 2): 5, (4, 2): 1}, 6) is None
    for cell in ((2, 3), (5, 2), (1, 2)):
        assert "the job needs balanced biclique (p, 2)" in str(find_wrong_cell(table, {cell: 1}, 1))
    assert find_wrong_cell(census, {each.cell: 1 for each in CENSUS_CLASSES}, 6) is None
    assert "the job needs census" in str(find_wrong_cell(census, {(2, 1): 1}, 1))
    assert find_wrong_cell(Question(BalancedButterfly(), "total"), {(2, 2): 1}, 1) == "1 cells; the job needs none"


def test_counts_on_the_command_line(votes: Path, run: Run, tmp_path: Path) -> None:
    assert run("count", "balanced-butterfly", votes, *HERE).stdout == f"{BALANCED}\n"
    table = run("count", "balanced-butterfly", votes, "--all-k", "--max-k", 3, "--pair-side", "v", *HERE)
    assert table.stdout.split() == ["p", "q", "count", "2", "2", str(BALANCED), "3", "2", "54144193"]
    one = run("count", "balanced-butterfly", votes, "-k", 3, "--pair-side", "v", *HERE, "--json")
    data = json.loads(one.stdout)
    assert (data["count"], data["table"]) == (54_144_193, None)
    assert data["parameters"] == {"k": 3, "max_k": None, "pair_side": "v"}
    vertices = tmp_path / "vertices.parquet"
    run("count", "balanced-butterfly", votes, "--per", "vertex", "--output", vertices, *HERE)
    assert sum(pq.read_table(vertices).column("count").to_pylist()) == 4 * BALANCED


def test_census_on_the_command_line(votes: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib: install papilio[report]")
    files = {kind: tmp_path / f"census.{kind}" for kind in ("parquet", "svg", "png")}
    result = run("census", votes, "--pair-side", "u", *HERE, "--figure", files["svg"], "--output", files["parquet"])
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["group", "class", "count", "share"]
    assert {name: int(count) for _, name, count, _ in rows[1:7]} == CLASSES
    assert rows[7][:3] == ["coherent", "all", str(3_351_042 + 4_702_003 + 1_703_831)]
    assert f"balanced: {BALANCED:,} of 25,666,956 butterflies" in result.stderr
    stored = pq.read_table(files["parquet"])
    assert dict(zip(*(stored.column(name).to_pylist() for name in ("class", "count")), strict=True)) == {
        name: str(count) for name, count in CLASSES.items()
    }
    assert sum(stored.column("share").to_pylist()) == pytest.approx(1.0)
    assert b"<svg" in files["svg"].read_bytes()
    data = json.loads(run("census", votes, "--pair-side", "u", *HERE, "--json", "--figure", files["png"]).stdout)
    assert {each["class"]: each["count"] for each in data["classes"]} == CLASSES
    assert (data["balanced"], data["count"]) == (BALANCED, 25_666_956)
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_census_in_python_is_resumed_and_verified(votes: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    found = papilio.census(votes, "u", engine="cpu", job=job)
    assert found.classes == CLASSES
    assert found.groups == {"coherent": 9_756_876, "incoherent": 5_566_260, "mixed": 10_343_820}
    assert (found.balanced, found.butterflies) == (BALANCED, 25_666_956)
    again = papilio.census(votes, "u", engine="cpu", job=job)
    assert again.counted.reused
    assert again.classes == CLASSES
    _, recount = papilio.verify_job(job, sample=1, engine="cpu")
    assert recount is not None
    graph = open_store(votes).read()
    assert papilio.census(graph, "v", engine="cpu").classes["++/--"] == 2_797_720


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("count", "balanced-butterfly", "STORE", "-k", 3), 2, "balanced-butterfly -k 3 needs --pair-side u or v"),
        (("count", "census", "STORE"), 2, "census needs --pair-side u or v: the answer depends on it"),
        (("census", "STORE"), 2, "Missing option '--pair-side'"),
        (("count", "balanced-butterfly", "STORE", "-k", 3, "--all-k"), 2, "-k 3 and --all-k contradict"),
        (("count", "balanced-butterfly", "STORE", "--max-k", 3), 2, "--max-k 3 is a limit of --all-k"),
        (("count", "balanced-butterfly", "STORE", "-p", 3), 2, "has no option -p; it belongs to biclique"),
        (("count", "butterfly", "STORE", "-k", 3), 2, "no option -k; it belongs to balanced-butterfly"),
        (("count", "census", "STORE", "--anchor", "u"), 2, "has no option --anchor; it belongs to biclique"),
        (("count", "balanced-butterfly", "STORE", "--per", "edge", *HERE), 4, "cannot be counted per edge"),
        (("census", "STORE", "--pair-side", "u", "--figure", "x.pdf"), 2, "ends in .svg or .png"),
        (
            ("partition", "STORE", "parts", "--motif", "balanced-butterfly", "--host-memory", "1GiB"),
            4, "balanced butterfly is counted on whole graphs only, not in parts",
        ),
        (
            ("count", "balanced-butterfly", "STORE", "--host-memory", "300MiB", *HERE),
            5, "balanced butterfly is counted on the whole graph only; raise --host-memory to at least",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(votes: Path, run: Run, args: tuple[object, ...], code: int, message: str) -> None:
    result = run(*(votes if arg == "STORE" else arg for arg in args))
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_unsigned_graphs_are_refused_with_how_to_convert(run: Run, tmp_path: Path, example_data: Path) -> None:
    women = tmp_path / "women"
    papilio.convert(example_data / "southern-women.txt.gz", women)
    for args in (
        ("count", "balanced-butterfly", women),
        ("census", women, "--pair-side", "v"),
        ("plan", "balanced-butterfly", women, "--all-k", "--pair-side", "u"),
    ):
        result = run(*args, *HERE)
        assert result.exit_code == 4
        assert f"{women} has no signs" in result.stderr
        for hint in ("--sign", "--positive-from"):
            assert hint in result.stderr
    with pytest.raises(UnsupportedError, match="the graph in memory has no signs"):
        papilio.count(open_store(women).read(), papilio.BalancedButterfly())
