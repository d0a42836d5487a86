"""What every public object prints: a few lines, in a terminal and in a notebook, without a search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.motifs import Motif
from papilio.signals import Stopped
from papilio.storage.answers import Answer
from papilio.storage.graph_models import Complete

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

MAKERS: dict[str, Callable[[Path], Any]] = {
    "BipartiteGraph": lambda store: papilio.read(store).arrays(),
    "CountPlan": lambda store: papilio.plan(store, "biclique", p=3, q=3, **HERE),
    "Graph": lambda store: papilio.read(store),
    "GraphStore": lambda store: papilio.storage.store.open_store(store),
    "JobDirectory": lambda store: papilio.open_job(store.parent / "job"),
    "Partition": lambda store: papilio.open_partition(store.parent / "parts"),
    "ProjectedRows": lambda store: papilio.project(store, "u"),
    "RandomGraphs": lambda store: papilio.randomize(store, samples=2),
    "Rows": lambda store: papilio.enumerate(store, "biclique", p=2, q=2),
    "UnipartiteGraph": lambda store: papilio.UnipartiteGraph.from_edges([*range(3000)], [*range(1, 3001)]),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reprs") / "graph"
    papilio.generate(Complete(300, 40), path)
    papilio.count(path, "butterfly", job=path.parent / "job", **HERE)
    papilio.partition(path, path.parent / "parts", "butterfly", host_memory="2GiB")
    return path


def test_every_other_public_class_is_an_answer_a_motif_or_a_row() -> None:
    classes = {name: each for name in papilio.__all__ if isinstance(each := getattr(papilio, name), type)}
    others = {name for name, each in classes.items() if not issubclass(each, (Answer, Motif, Exception))}
    assert others - {"CensusPair"} == MAKERS.keys()


@pytest.mark.parametrize("name", MAKERS)
def test_an_object_is_shown_in_a_few_lines(name: str, store: Path) -> None:
    shown = MAKERS[name](store)
    assert type(shown).__name__ == name
    lines = repr(shown).splitlines()
    assert 1 <= len(lines) <= 20
    assert max(map(len, lines)) <= 200
    assert repr(shown) == "\n".join(lines)


def test_rows_are_shown_without_a_search(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = papilio.enumerate(store, "biclique", p=2, q=2)

    def search(*_: Any) -> Any:
        raise Stopped

    monkeypatch.setattr(type(rows), "_blocks", search)
    assert "rows (u, v) of biclique (2, 2)" in repr(rows)
    assert repr(rows)[1:-1] in rows._repr_html_().replace("<p>", "").replace("</p>", "")


def test_a_job_says_how_far_it_is_and_how_it_continues(store: Path) -> None:
    root = store.parent / "job"
    assert "finished: 34,983,000" in repr(papilio.open_job(root))
    status = papilio.open_job(root).status()
    assert repr(status) == f"<job {root}: butterfly per total, finished: 34,983,000>"
    assert status._repr_html_() == f"<p>job {root}: butterfly per total, finished: 34,983,000</p>"
    answer = (root / "result.json").rename(root / "aside.json")
    try:
        assert f"interrupted, 99.9% done; to continue: papilio resume {root}>" in repr(papilio.open_job(root))
        (root / "ledger.jsonl").rename(root / "ledger.aside")
        assert "unreadable" in repr(papilio.open_job(root))
        (root / "ledger.aside").rename(root / "ledger.jsonl")
    finally:
        answer.rename(root / "result.json")
