"""The report page: well-formed, self-contained, escaped, and true to the data; and where matplotlib is missing."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import StoreError
from papilio.reports.page import render_page, write_report
from papilio.storage.store import GraphStore
from tests.reports.conftest import SENATE, call, parse_page, text_of
from tests.test_imports import run_blocked
from tests.tools.tampering import reseal

XHTML = "{http://www.w3.org/1999/xhtml}"


def assert_self_contained(path: Path) -> ElementTree.Element:
    """Fails when the page is not well-formed or names anything outside itself."""
    page = parse_page(path)
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "header", "section", "div", "span", "h1",
               "h2", "p", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption",
               "img", "pre", "code", "wbr"}  # fmt: skip
    for element in page.iter():
        assert element.tag.removeprefix(XHTML) in allowed
        for name, value in element.attrib.items():
            assert name in ("lang", "charset", "name", "content", "http-equiv", "class", "alt", "src"), name
            if name == "src":
                assert value.startswith("data:image/svg+xml;base64,")
                figure = base64.b64decode(value.partition(",")[2]).decode()
                ElementTree.fromstring(figure)
                assert re.findall(r'(?:href|src)="(?!#)[^"]*', figure) == []
    style = page.find(f"{XHTML}head/{XHTML}style")
    assert style is not None
    assert "url(" not in str(style.text)
    assert "@import" not in str(style.text)
    return page


def shown(path: Path) -> str:
    """Return a path as a shell's word and a page have it."""
    return str(path).replace("'", "'\"'\"'").replace("\x01", "\ufffd")


def svg_texts(path: Path) -> set[str]:
    return {"".join(each.itertext()) for each in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}


def test_the_page_of_an_experiment(measured: Path) -> None:
    page = assert_self_contained(measured / "report" / "report.html")
    text = text_of(page)
    assert "Strong scaling of the butterfly count finished" in text
    assert f"{SENATE:,}".replace(",", ", ") in text
    assert f"papilio scale count butterfly {measured.parent}/votes" in text
    assert "--workers 1,2" in text or "--workers 2,1" in text
    assert f"To reproduce cd {Path.cwd()} papilio scale" in text
    last = json.loads((measured / "report" / "results.json").read_text())["points"][-1]
    warned = re.search(r"The runs with 2 workers took [\d.]+ s, less than 10 s: .* little about scaling", text)
    assert (warned is not None) == (last["seconds_median"] < 10)
    texts = {name: svg_texts(measured / "report" / "figures" / f"{name}.svg") for name in ("speedup", "leases-w2")}
    assert {"0.0", "1.0", "ideal"} <= texts["speedup"], "the axis begins at 0"
    assert "leases; their shades alternate, to tell them apart" in texts["leases-w2"]
    for heading in (
        "Scaling",
        "Seconds by phase, medians",
        "Leases",
        "Runs",
        "Machines",
        "Decisions of the plan",
    ):
        assert f"{heading} " in text
    assert len(page.findall(f".//{XHTML}img")) == 5
    names = {path.name for path in (measured / "report" / "figures").iterdir()}
    stems = ("speedup", "efficiency", "times", "leases-w1", "leases-w2")
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}
    assert (measured / "report" / "figures" / "times.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_of_a_job_escapes_what_users_name(odd_job: Path, tmp_path: Path) -> None:
    output = tmp_path / "report"
    assert "report: " in call("report", odd_job, "--output", output).stderr
    page = assert_self_contained(output / "report.html")
    text = text_of(page)
    assert "<b onclick='f()'>&amp;\"x\ufffd" in text
    assert page.findall(f".//{XHTML}b") == []
    assert "Butterfly count finished" in text
    assert f"papilio count butterfly '{shown(odd_job.parent)}/graph' --per total" in text
    assert f"--job '{shown(odd_job)}-again'" in text
    counting = re.search(r" total (\d+\.\d+) s time (\d+\.\d+) s Time: everything except starting the workers", text)
    assert counting is not None
    assert f"{counting[2]} s time" in text, "the tile and the table are of one definition"
    results = json.loads((output / "results.json").read_text())
    assert results["result"]["count"] == (40 * 39 // 2) * (30 * 29 // 2)
    assert results["sessions"][0]["outcome"] == "finished"
    assert (
        sum(row["work"] for row in pq.read_table(output / "leases.parquet").to_pylist())
        == results["result"]["work"]["wedges"]
    )
    assert not (odd_job / "report").exists()


def test_reporting_twice_leaves_no_figure_of_the_first(odd_job: Path, tmp_path: Path) -> None:
    write_report(odd_job, tmp_path / "r")
    assert {path.name for path in (tmp_path / "r" / "figures").iterdir()} == {"leases-1.png", "leases-1.svg"}
    with pytest.raises(StoreError, match="already exists"):
        write_report(odd_job, tmp_path / "r", figures=False)
    page = write_report(odd_job, tmp_path / "r", overwrite=True, figures=False)
    assert list((tmp_path / "r" / "figures").iterdir()) == []
    assert "The figures were left out." in page.read_text()


def test_a_folder_that_is_no_report_keeps_its_figures(odd_job: Path, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.png").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(StoreError, match=r"already exists|not of the same kind \(no report.html\)"):
            write_report(odd_job, tmp_path, overwrite=overwrite, figures=False)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.png"]


def test_an_unfinished_job_is_marked(odd_job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "job"
    shutil.copytree(odd_job, copy)
    (copy / "result.json").unlink()
    records = (copy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_bytes(b"".join(records[:-1]))
    text = text_of(assert_self_contained(write_report(copy)))
    assert "Butterfly count interrupted" in text
    assert "This job is interrupted: the page shows the content of its ledger so far." in text
    assert "Failures session what ended it 1 killed, or lost with its machine" in text


def test_a_job_that_has_no_plan_yet(votes: GraphStore, tmp_path: Path, odd_job: Path) -> None:
    copy = tmp_path / "job"
    copy.mkdir()
    described = {**json.loads((odd_job / "job.json").read_text()), "plan_key": None}
    reseal(copy / "job.json", **described)
    (copy / "ledger.jsonl").write_bytes(b"")
    text = text_of(assert_self_contained(write_report(copy)))
    assert "No session has dispatched leases yet." in text


def test_a_resumed_job_shows_every_session(votes: GraphStore, tmp_path: Path) -> None:
    job = tmp_path / "job"
    papilio.count(votes, papilio.Butterfly(), job=job, engine="cpu")
    (job / "result.json").unlink()
    papilio.count(votes, papilio.Butterfly(), job=job, engine="cpu")
    write_report(job)
    results = json.loads((job / "report" / "results.json").read_text())
    assert [each["number"] for each in results["sessions"]] == [1, 2]
    assert results["sessions"][1]["leases"] == 0
    assert papilio.open_job(job).status().count == SENATE


def test_a_comparison_shows_its_z_and_how_to_repeat_it(votes: GraphStore, tmp_path: Path) -> None:
    found = papilio.significance(votes.path, "butterfly", samples=30, seed=7, job=tmp_path / "job", cluster="inline")
    text = text_of(assert_self_contained(write_report(tmp_path / "job")))
    assert "Butterfly count compared with random graphs" in text
    assert "asked butterfly per total against 30 random graphs (null model degrees)" in text
    assert f"z against random graphs {found.z:.4g}" in text or f"{found.z:.4g} z against random graphs" in text
    assert "--per total --null degrees --samples 30 --seed 7 --steps 20" in text


def test_whatever_is_put_into_a_page_is_escaped() -> None:
    named = "{{ <x> & $x"
    experiment = {"mode": "strong", "motif": {"name": named}, "per": "total", "cluster": named, "engine": "cpu",
                  "workers": (1,), "repeat": 1, "threads": None, "model": None, "command": named,
                  "graphs": [{"path": named, "n_u": 1, "n_v": 1, "n_edges": 1, "hash": named}]}  # fmt: skip
    failed = [{"workers": 1, "repeat": 1, "host": named, "began_at": 0.0, "outcome": named}]
    facts = {"experiment": experiment, "points": (), "largest": None, "failed": failed, "figures": []}
    page = render_page("scaling.html", title=named, state=named, subtitle=named, **facts)
    assert "<title>{{ &lt;x&gt; &amp; $x</title>" in page
    assert page.count("{{ &lt;x&gt; &amp; $x") == 12
    assert "<x>" not in page
    assert "unfinished" in page


def test_scaling_works_without_what_a_bare_gpu_machine_lacks(votes: GraphStore, tmp_path: Path) -> None:
    code = f"""
from papilio.motifs import Butterfly
from papilio.reports.experiment import begin_scaling
from papilio.reports.page import write_report
from papilio.reports.measure import run_experiment
directory = begin_scaling({str(tmp_path / "x")!r}, Butterfly(), [{votes.path!r}], [1], repeat=1, cluster="inline")
run_experiment(directory)
print(write_report(directory.root))
import sys
print(sorted({{"matplotlib.pyplot", "tkinter", "dask"}} & set(sys.modules)))
"""
    output = run_blocked(code, "duckdb", "bokeh", "playwright").splitlines()
    assert output == [str(tmp_path / "x" / "report" / "report.html"), "[]"]


def test_a_machine_without_matplotlib_is_told_before_anything_runs(votes: GraphStore, tmp_path: Path) -> None:
    code = f"""
from papilio.cli import main
main(["scale", "count", "butterfly", {votes.path!r}, "--cluster", "inline", "--workers", "1", "--output",
      {str(tmp_path / "x")!r}])
"""
    with pytest.raises(AssertionError, match=r"need matplotlib: pip install .papilio\[report\]"):
        run_blocked(code, "matplotlib")
    assert not (tmp_path / "x").exists()
    code = code.replace('"--output"', '"--no-figures", "--repeat", "1", "--output"')
    assert "efficiency 100.0 %" in run_blocked(code, "matplotlib")
    assert (tmp_path / "x" / "report" / "report.html").is_file()
