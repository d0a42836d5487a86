"""A question on a graph of the other kind is refused in words that name what is counted there, from whichever call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.errors import UnsupportedError
from papilio.registry import MOTIF_ROWS
from papilio.storage.store import write_store
from tests.families.examples import example_of
from tests.tools.commands import Run

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

MOTIFS: dict[str, list[papilio.motifs.Motif]] = {
    kind: [example_of(name).questions[0] for name, row in MOTIF_ROWS.items() if row.graph_kind == kind]
    for kind in ("bipartite", "unipartite")
}

LISTED = {"bipartite": papilio.Biclique(2, 2), "unipartite": papilio.MaximalClique()}

MEASURES: dict[str, list[Callable[..., Any]]] = {
    "bipartite": [
        papilio.robins_alexander, papilio.latapy_clustering, papilio.cohesion_profile, papilio.top_butterflies,
        lambda graph: papilio.decompose(graph, "wing", engine="cpu"),
        lambda graph: papilio.decompose(graph, "tip", layer="u", engine="cpu"),
        lambda graph: papilio.census(graph, "u", **HERE),
        lambda graph: papilio.census_pairs(graph, "u", by="coherent"),
        lambda graph: papilio.census_vertices(graph, "u"),
        lambda graph: papilio.communities(graph, papilio.Biclique(2, 2)),
    ],
    "unipartite": [papilio.maximum_clique, lambda graph: papilio.communities(graph, papilio.Clique(3))],
}  # fmt: skip


@pytest.fixture(scope="module", params=["bipartite", "unipartite"])
def given(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Any, Path]:
    """The kind of a graph, the other kind, the graph, and a store of it."""
    kind = str(request.param)
    other = "unipartite" if kind == "bipartite" else "bipartite"
    sign = np.ones(2, np.int8)
    graph: Any = (
        papilio.BipartiteGraph.from_edges([0, 1], [0, 1], sign=sign)
        if kind == "bipartite"
        else papilio.UnipartiteGraph(3, np.array([0, 0], np.int32), np.array([1, 2], np.int32), sign)
    )
    path = tmp_path_factory.mktemp(kind) / "graph"
    write_store(path, graph, provenance={})
    return kind, other, graph, path


def refused(kind: str, other: str) -> str:
    there = ", ".join(name for name, row in MOTIF_ROWS.items() if row.graph_kind == kind)
    return (
        f"defined on {other} graphs; .* is {kind}, where these motifs are counted: {there}; else read the input as "
        rf"{other} \(--{other}, in Python kind='{other}'\)"
    ) + (" if its columns are two sets, or make its double cover or its incidence" if kind == "unipartite" else "")


def test_every_question_has_its_kind(given: tuple[str, str, Any, Path], tmp_path: Path) -> None:
    kind, other, graph, store = given
    for of in (graph, store):
        for motif in MOTIFS[other]:
            for ask in (papilio.count, papilio.plan):
                with pytest.raises(UnsupportedError, match=refused(kind, other)):
                    ask(of, motif, **HERE)
        with pytest.raises(UnsupportedError, match=refused(kind, other)):
            papilio.enumerate(of, LISTED[other], output=tmp_path / "rows", limit=1, **HERE)
        with pytest.raises(UnsupportedError, match=refused(kind, other)):
            papilio.plan_listing(of, LISTED[other], **HERE)
        for measure in MEASURES[other]:
            with pytest.raises(UnsupportedError, match=refused(kind, other)):
                measure(of)
    with pytest.raises(UnsupportedError, match=refused(kind, other)):
        papilio.submit(store, MOTIFS[other][0], cluster="tcp://127.0.0.1:9", job=tmp_path / "job")
    with pytest.raises(UnsupportedError, match=refused(kind, other)):
        papilio.partition(store, tmp_path / "parts", MOTIFS[other][0], host_memory="8GiB")
    assert list(tmp_path.iterdir()) == []


COMMANDS: dict[str, list[tuple[object, ...]]] = {
    "bipartite": [
        ("count", "butterfly", "STORE"), ("plan", "maximal-biclique", "STORE"),
        ("enumerate", "biclique", "STORE", "-p", 2, "-q", 2, "--limit", 1, "--output", "rows"),
        ("census", "STORE", "--pair-side", "u"), ("decompose", "wing", "STORE"), ("measure", "top", "STORE"),
        ("measure", "latapy", "STORE"), ("communities", "biclique", "STORE", "-p", 2, "-q", 2),
        ("submit", "count", "butterfly", "STORE", "--cluster", "tcp://127.0.0.1:9", "--job", "job"),
    ],
    "unipartite": [
        ("count", "clique", "STORE", "-k", 3), ("plan", "maximal-clique", "STORE"),
        ("enumerate", "maximal-clique", "STORE", "--limit", 1, "--output", "rows"),
        ("enumerate", "clique", "STORE", "-k", 3, "--limit", 1, "--output", "rows"),
        ("measure", "maximum-clique", "STORE"), ("communities", "clique", "STORE"),
        ("submit", "count", "clique", "STORE", "-k", 3, "--cluster", "tcp://127.0.0.1:9", "--job", "job"),
    ],
}  # fmt: skip


def test_every_command_has_its_kind(
    given: tuple[str, str, Any, Path], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, other, _, store = given
    monkeypatch.chdir(tmp_path)
    for words in COMMANDS[other]:
        code, out, err = run(*(store if word == "STORE" else word for word in words))
        assert (code, out) == (4, ""), (words, err)
        assert f"is {kind}, where these motifs are counted: " in err
        assert f"(--{other}, in Python kind=" in err
    assert list(tmp_path.iterdir()) == []
