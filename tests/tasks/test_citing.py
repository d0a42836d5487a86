"""The methods of an answer say what was done, and name what each step is from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import papilio
from papilio.version import __version__
from tests.tools.strategies import skewed_graph

GRAPH = skewed_graph(5, 14, 11, 60)
HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu", "progress": False}


def test_a_count() -> None:
    found = papilio.count(GRAPH, "biclique", p=2, q=3, per="vertex", **HERE)
    paragraph, references = found.methods().split("\n\n")
    for part in (found.motif.title, "exactly, per vertex", __version__, "CPU engine", f"{found.count:,}."):
        assert part in paragraph
    assert f"14 and 11 vertices and {GRAPH.n_edges} edges" in paragraph
    assert references == papilio.citation().split("\n")[0]
    assert f"version = {{{__version__}}}" in papilio.citation()


@pytest.mark.parametrize(
    ("null", "names"),
    [("degrees", ["Curveball", "ESA 2018"]), ("expected-degrees", ["Saracco"]), ("edges", []), ("signs", [])],
)
@pytest.mark.parametrize("per", ["total", "vertex"])
def test_a_comparison(null: Any, names: list[str], per: Any) -> None:
    sign = np.where(np.arange(GRAPH.n_edges) % 3, 1, -1)
    graph = papilio.BipartiteGraph.from_edges(GRAPH.u, GRAPH.v, GRAPH.n_u, GRAPH.n_v, sign)
    motif = "balanced-butterfly" if null == "signs" else "butterfly"
    found = papilio.significance(graph, motif, null=null, samples=100, seed=4, per=per, **HERE)
    text = found.methods()
    for part in ("100 random graphs", "the seed is 4", f"z = {found.z:.3g}", f"p-value is {found.p_value:.3g}", *names):
        assert part in text
    assert (f"{found.trades} global curveball trades" in text) == (null == "degrees")
    assert ("Benjamini" in text) == (per == "vertex")
    assert (f"P-values of {found.n_tests} vertices" in text) == (per == "vertex")


def test_a_unipartite_graph_and_counts_that_never_vary() -> None:
    wheel = papilio.UnipartiteGraph.from_edges(np.array([0, 0, 0, 1, 2, 1]), np.array([1, 2, 3, 2, 3, 3]), 4)
    text = papilio.significance(wheel, "clique", k=3, samples=5, **HERE).methods()
    assert "unipartite graph of 4 vertices" in text
    assert "All of them have the same count." in text
    assert (
        "Squartini" in papilio.significance(wheel, "clique", k=3, null="expected-degrees", samples=5, **HERE).methods()
    )


def test_versions_of_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    papilio.show_versions()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["papilio"] == __version__
    assert rows["numpy"] == np.__version__
