"""Bicliques through tasks, jobs, the public functions and the command line, on an engine that counts by definition."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio import registry
from papilio.errors import CapacityError, ExecutionError, InputError, UnsupportedError
from papilio.registry import MOTIF_ROWS
from papilio.storage.records import read_record, table_rows
from papilio.storage.store import write_store
from papilio.tasks import worker_state as ready
from papilio.tasks.fold import Fold
from papilio.tasks.job import LeaseResult
from tests.tasks.fakes import make_job, plan_of
from tests.tools.commands import Run
from tests.tools.fake_biclique import FakeBicliqueEngine
from tests.tools.tampering import reseal

K34 = papilio.BipartiteGraph.from_edges([0] * 4 + [1] * 4 + [2] * 4, [0, 1, 2, 3] * 3)
ALL_OF_K34 = {(p, q): math.comb(3, p) * math.comb(4, q) for p in range(1, 4) for q in range(1, 5)}


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBicliqueEngine]:
    engine = FakeBicliqueEngine()
    ready._engines.clear()
    ready.forget_graphs()
    monkeypatch.setattr(registry, "load_engine", lambda motif, name, threads, **options: engine)
    yield engine
    ready._engines.clear()
    ready.forget_graphs()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "k34", K34, provenance={})
    return tmp_path / "k34"


def lease(start: int, stop: int, total: int, **changes: Any) -> LeaseResult:
    return LeaseResult(0, start, stop, total, 1, "w0", "cpu", {}, 0, **changes)


def test_cells_survive_json_with_all_digits() -> None:
    cells = {(2, 10): 10**60, (2, 9): 1, (1, 1): 2**5000}
    rows = table_rows(cells)
    assert [row[:2] for row in rows] == [[1, 1], [2, 9], [2, 10]]
    assert all(isinstance(row[2], str) for row in rows)
    read = read_record(LeaseResult, json.loads(json.dumps({**lease(0, 3, 7).to_dict(), "cells": rows})), "", "")
    assert read.cells == cells


def test_leases_with_cells_survive_json() -> None:
    one = lease(0, 3, 7, cells={(3, 1): 3, (3, 2): 4})
    assert read_record(LeaseResult, json.loads(json.dumps(one.to_dict())), "a lease", "") == one


@pytest.mark.parametrize(
    ("motif", "cells", "total", "message"),
    [
        (papilio.Biclique(3), {(3, 1): 3}, 4, "cells that sum to 3, and the total 4"),
        (papilio.Biclique(3), {(2, 1): 3}, 3, r"3 in cell \(2, 1\); the job needs biclique \(3, q\)"),
        (papilio.Biclique(3), {(3, 1): 0}, 0, r"0 in cell \(3, 1\)"),
        (papilio.Biclique(3, max_q=2), {(3, 3): 1}, 1, r"1 in cell \(3, 3\).*q up to 2"),
        (papilio.Biclique(3, 3), {(3, 3): 1}, 1, "1 cells; the job needs none"),
    ],
)
def test_wrong_cells_are_refused(
    motif: papilio.Biclique, cells: dict[tuple[int, int], int], total: int, message: str
) -> None:
    fold = Fold(plan_of(np.array([3, 2, 1]), job=make_job(motif=motif)))
    with pytest.raises(ExecutionError, match=message):
        fold.add(lease(0, 3, total, cells=cells))


def test_cells_of_leases_add_up_without_bound() -> None:
    fold = Fold(plan_of(np.array([3, 2, 1]), job=make_job(motif=papilio.Biclique(3))))
    fold.add(lease(0, 1, 2**80, cells={(3, 1): 2**80}))
    fold.add(lease(1, 3, 2**80 + 5, cells={(3, 1): 2**80, (3, 7): 5}))
    partial = fold.finish()
    assert partial.cells == {(3, 1): 2**81, (3, 7): 5}
    assert partial.total == 2**81 + 5


@pytest.mark.parametrize(
    ("u", "total", "error", "message"),
    [
        ([3, 3, 3, 3], 6, None, ""),
        ([3, 3, 3, 2], 6, ExecutionError, "layer u sum to 11; 6 of"),
        ([2**64 - 1, 2**64 - 1, 2, 0], 2**64, CapacityError, "layer v is in more than"),
        ([0, 2**64 - 1, 2, 0], 2**64, CapacityError, "layer u is in more than"),
    ],
)
def test_vectors_per_vertex_must_sum_to_the_total(
    u: list[int], total: int, error: type[Exception] | None, message: str
) -> None:
    job = make_job(motif=papilio.Biclique(2, 3), per="vertex")
    fold = Fold(plan_of(np.array([3, 2, 1]), job=job))
    vectors = {"u": np.array(u, np.uint64), "v": np.array([3] * 6, np.uint64)}
    fold.add(lease(0, 3, total, vectors=vectors))
    if error is None:
        assert fold.finish().vectors["u"].tolist() == u
    else:
        with pytest.raises(error, match=message):
            fold.finish()


def test_tables_from_python() -> None:
    assert papilio.count(K34, papilio.Biclique()).table == ALL_OF_K34
    row = papilio.count(K34, papilio.Biclique(3, None, max_q=2))
    assert row.table == {(3, 1): 4, (3, 2): 6}
    assert row.count == 10
    one = papilio.count(K34, papilio.Biclique(2, 3), per="vertex")
    assert (one.count, one.table) == (12, {})
    assert one.vectors["u"].tolist() == [8, 8, 8]
    assert one.vectors["v"].tolist() == [9, 9, 9, 9]


def test_options_go_to_the_engine_and_are_checked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def load(
        motif: object, name: str, threads: int, *, memory_bytes: int | None, listing: None, **options: str
    ) -> FakeBicliqueEngine:
        seen.append(options)
        return FakeBicliqueEngine()

    monkeypatch.setattr(registry, "load_engine", load)
    options = {"anchor": "v", "algorithm": "pivot"}
    assert papilio.plan(K34, papilio.Biclique(2), options=options).job.options == (
        ("algorithm", "pivot"), ("anchor", "v"),
    )  # fmt: skip
    assert papilio.count(K34, papilio.Biclique(2), options={"anchor": "auto"}).count == sum(
        count for (p, _), count in ALL_OF_K34.items() if p == 2
    )
    assert seen == [options, {}]
    with pytest.raises(InputError, match="no option 'depth'"):
        papilio.count(K34, papilio.Biclique(2), options={"depth": "3"})


def test_a_job_keeps_its_table_and_its_options(store: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    options = {"algorithm": "pivot"}
    first = papilio.count(store, papilio.Biclique(), job=job, options=options)
    assert first.table == ALL_OF_K34
    again = papilio.count(store, papilio.Biclique(), job=job, output=tmp_path / "t.parquet")
    assert again.reused
    assert again.table == ALL_OF_K34
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 12
    assert papilio.open_job(job).job.options == (("algorithm", "pivot"),)
    assert papilio.open_job(job).result().table == ALL_OF_K34
    checked, recount = papilio.verify_job(job, sample=3)
    assert checked.count == sum(ALL_OF_K34.values())
    assert recount is not None
    assert recount.leases == min(3, first.leases)


def test_an_unfinished_job_resumes_with_its_options_and_refuses_others(
    store: Path, tmp_path: Path, fake: FakeBicliqueEngine
) -> None:
    job = tmp_path / "job"
    fake.wrong = 1
    with pytest.raises(ExecutionError, match="cells that sum to"):
        papilio.count(store, papilio.Biclique(), job=job, options={"anchor": "v"})
    fake.wrong = 0
    with pytest.raises(InputError, match="begun with anchor v; this run has no options"):
        papilio.count(store, papilio.Biclique(), job=job)
    assert papilio.resume_job(job).table == ALL_OF_K34


def test_a_changed_cell_is_found(store: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    papilio.count(store, papilio.Biclique(), job=job)
    path = job / "result.json"
    answer = json.loads(path.read_text())
    rows = answer["result"]["table"]
    rows[0][2], rows[1][2] = str(int(rows[0][2]) + 1), str(int(rows[1][2]) - 1)
    reseal(path, **answer)
    with pytest.raises(ExecutionError, match=r"sum to 12 in cell \(1, 1\), but the answer has 13"):
        papilio.verify_job(job)


def test_a_recount_compares_cells(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeBicliqueEngine
) -> None:
    job = tmp_path / "job"
    papilio.count(store, papilio.Biclique(), job=job)
    right = fake.run

    def swapped(*args: Any) -> Any:
        partial = right(*args)
        cells = {**partial.cells, (1, 1): partial.cells[1, 1] + 1, (1, 2): partial.cells[1, 2] - 1}
        return replace(partial, cells=cells)

    monkeypatch.setattr(fake, "run", swapped)
    with pytest.raises(ExecutionError, match=r"has cell \(1, 1\): \d+, from engine cpu; engine cpu counts \d+"):
        papilio.verify_job(job, sample=1)


def test_a_recount_does_not_compare_the_work_of_engines_that_need_not_do_the_same(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeBicliqueEngine
) -> None:
    job = tmp_path / "job"
    papilio.count(store, papilio.Biclique(), job=job)
    right = fake.run
    monkeypatch.setattr(fake, "run", lambda *args: replace(right(*args), work=12345))
    _, recount = papilio.verify_job(job, sample=1)
    assert recount is not None
    assert recount.leases == 1
    monkeypatch.setitem(MOTIF_ROWS, "biclique", replace(MOTIF_ROWS["biclique"], same_work=True))
    with pytest.raises(ExecutionError, match=r"has work: .* counts 12345"):
        papilio.verify_job(job, sample=1)


HERE = ("--cluster", "inline", "--engine", "cpu")


def test_a_table_is_a_matrix_where_it_fits(store: Path, run: Run) -> None:
    code, out, err = run("count", "biclique", store, "--all", *HERE)
    assert code == 0, err
    assert [line.split() for line in out.splitlines()] == [
        ["p", "\\", "q", "1", "2", "3", "4"],
        ["1", "12", "18", "12", "3"],
        ["2", "12", "18", "12", "3"],
        ["3", "4", "6", "4", "1"],
    ]
    assert f"biclique (p, q): {sum(ALL_OF_K34.values())} in 3 x 4 vertices" in err


def test_one_row_and_wide_tables_have_a_line_for_each_cell(store: Path, run: Run) -> None:
    _, out, _ = run("count", "biclique", store, "-p", 3, "--all-q", *HERE)
    assert [line.split() for line in out.splitlines()] == [
        ["p", "q", "count"], ["3", "1", "4"], ["3", "2", "6"], ["3", "3", "4"], ["3", "4", "1"],
    ]  # fmt: skip
    from papilio.cli.report import table_lines

    wide = {(p, q): 10**50 + p * q for p in (1, 2) for q in range(1, 9)}
    lines = table_lines(wide)
    assert len(lines) == 17
    assert lines[-1].split() == ["2", "8", str(10**50 + 16)]


def test_a_table_goes_to_json_or_a_file(store: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("count", "biclique", store, "-q", 2, "--all-p", "--json", *HERE)
    assert code == 0, err
    data = json.loads(out)
    assert data["table"] == [[1, 2, "18"], [2, 2, "18"], [3, 2, "6"]]
    assert data["parameters"] == {"p": None, "q": 2, "max_p": None, "max_q": None}
    code, out, err = run("count", "biclique", store, "--all", "--max-p", 2, "--output", tmp_path / "t.parquet", *HERE)
    assert (code, out) == (0, "")
    assert f"table: {tmp_path / 't.parquet'}" in err
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column_names == ["p", "q", "count", "log10"]
    rows = table.to_pylist()
    assert {(row["p"], row["q"]): int(row["count"]) for row in rows} == {
        cell: count for cell, count in ALL_OF_K34.items() if cell[0] <= 2
    }
    assert all(row["log10"] == pytest.approx(math.log10(int(row["count"]))) for row in rows)


def test_one_size_counts_per_vertex_into_a_file(store: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run(
        "count",
        "biclique",
        store,
        "-p",
        2,
        "-q",
        3,
        "--per",
        "vertex",
        "--output",
        tmp_path / "v.parquet",
        *HERE,
    )
    assert (code, out) == (0, "12\n"), err
    assert pq.read_table(tmp_path / "v.parquet").column("count").to_pylist() == [8] * 3 + [9] * 4


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 2, "biclique needs -p with a number, or --all-p; --all counts every (p, q)"),
        (["-p", "3"], 2, "biclique needs -q with a number, or --all-q"),
        (["-p", "3", "--max-q", "4"], 2, "--max-q 4 is a limit of --all-q, which is missing"),
        (["-p", "3", "--all"], 2, "-p 3 and --all contradict each other"),
        (["-p", "3", "--all-p", "-q", "2"], 2, "-p 3 and --all-p contradict each other"),
        (["-p", "3", "-q", "4", "--max-q", "5"], 2, "q 4 and max_q 5; set max_q only"),
        (["-p", "0", "-q", "4"], 2, "Invalid value for '-p'"),
        (["--all", "--per", "vertex"], 4, "a table of counts cannot be counted per vertex"),
        (["-p", "3", "-q", "4", "--per", "edge"], 4, "a biclique cannot be counted per edge"),
        (["-p", "3", "-q", "4", "--output", "t.xlsx"], 2, "cannot infer a format from the suffix '.xlsx'"),
        (["-p", "3", "-q", "4", "--anchor", "w"], 2, "Invalid value for '--anchor'"),
    ],
)
def test_what_does_not_go_together_is_refused(store: Path, run: Run, flags: list[str], code: int, message: str) -> None:
    found, out, err = run("count", "biclique", store, *flags, *HERE)
    assert (found, out) == (code, ""), err
    assert message in err
    assert "Traceback" not in err


def test_butterflies_take_no_sizes_and_bicliques_no_unipartite_graph(store: Path, tmp_path: Path, run: Run) -> None:
    assert "butterfly has no option --all; it belongs to biclique" in run("count", "butterfly", store, "--all")[2]
    assert "butterfly has no option --anchor" in run("plan", "butterfly", store, "--anchor", "u")[2]
    run("generate", "complete", tmp_path / "k", "--n-u", 5)
    code, _, err = run("count", "biclique", tmp_path / "k", "-p", 2, "-q", 2)
    assert code == 4
    assert "motif 'biclique' is defined on bipartite graphs" in err
    with pytest.raises(UnsupportedError):
        papilio.plan(tmp_path / "k", papilio.Biclique(2, 2))


def test_plan_slurm_and_scale_take_the_same_flags(store: Path, tmp_path: Path, run: Run) -> None:
    sizes = ("-p", 3, "--all-q", "--algorithm", "pivot")
    code, out, err = run("plan", "biclique", store, *sizes, *HERE)
    assert code == 0, err
    assert "question    biclique (3, q) per total, algorithm pivot" in out
    code, out, err = run("slurm", "render", "count", "biclique", "g", *sizes, "--time", 60, "--memory", "4GiB")
    assert code == 0, err
    assert "\npapilio count -p 3 --all-q --algorithm=pivot --per=total --engine=auto \\\n" in out
    assert " -- biclique g &\n" in out
    folder = tmp_path / "scaling"
    code, _, err = run(
        "scale", "count", "biclique", store, *sizes, "--workers", 1, "--repeat", 1, "--cluster", "inline",
        "--engine", "cpu", "--no-warm-up", "--no-figures", "--output", folder,
    )  # fmt: skip
    assert code == 0, err
    experiment = json.loads((folder / "scale.json").read_text())["experiment"]
    assert experiment["motif"] == {"name": "biclique", "p": 3, "q": None, "max_p": None, "max_q": None}
    assert experiment["options"] == [["algorithm", "pivot"]]
    assert papilio.open_job(folder / "jobs" / "w1-r1").job.options == (("algorithm", "pivot"),)
    assert run("status", folder / "jobs" / "w1-r1")[1].splitlines()[2].startswith("question    biclique (3, q) per")


def test_the_page_of_a_job_names_sizes_and_command(store: Path, tmp_path: Path, run: Run) -> None:
    job = tmp_path / "job"
    papilio.count(store, papilio.Biclique(3), job=job)
    code, _, err = run("report", job, "--no-figures")
    assert code == 0, err
    page = (job / "report" / "report.html").read_text()
    assert "biclique (3, q)" in page
    assert f"papilio count biclique {store} -p 3 --all-q --per total" in page
