"""Generated graphs of published sizes: exact sizes, expected counts, and the benchmark on the smallest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import signed_datasets
from benchmarks.balanced_butterfly import SIZES
from benchmarks.signed_datasets import DATASETS, expected_balanced
from benchmarks.skewed_graphs import draw_skewed, expected_butterflies
from papilio.graph import BipartiteGraph

pytestmark = pytest.mark.slow
"""Graphs are drawn, which takes seconds, and what they test is a benchmark's own."""


def _butterflies(graph: BipartiteGraph) -> tuple[int, int]:
    """Return all butterflies and the balanced ones, from the products of dense matrices."""
    present, signed = np.zeros((2, graph.n_u, graph.n_v), dtype=np.int64)
    assert graph.sign is not None
    present[graph.u, graph.v], signed[graph.u, graph.v] = 1, graph.sign
    common, agreement = (np.triu(matrix @ matrix.T, 1) for matrix in (present, signed))
    same, other = (common + agreement) // 2, (common - agreement) // 2
    balanced = same * (same - 1) // 2 + other * (other - 1) // 2
    return int((common * (common - 1) // 2).sum()), int(balanced.sum())


@pytest.mark.parametrize("falls", [(0.0, 0.0), (0.8, 0.8), (1.0, 0.3), (0.2, 1.7)])
def test_graphs_have_their_sizes_and_the_expected_butterflies(falls: tuple[float, float]) -> None:
    sizes = (300, 700, 20_000)
    graph = draw_skewed(*sizes, falls, positive=0.7, seed=3, workers=1)
    assert (graph.n_u, graph.n_v, graph.n_edges) == sizes
    assert graph.sign is not None
    assert np.mean(graph.sign > 0) == pytest.approx(0.7, abs=0.02)
    assert _butterflies(graph)[0] == pytest.approx(expected_butterflies(*sizes, falls), rel=0.08)
    again = draw_skewed(*sizes, falls, positive=0.7, seed=3, workers=3)
    assert all(np.array_equal(getattr(graph, name), getattr(again, name)) for name in ("u", "v", "sign"))


def test_larger_exponents_give_larger_degrees() -> None:
    largest = [
        int(np.bincount(draw_skewed(400, 400, 8_000, (fall, fall), positive=0.5, seed=1).u).max())
        for fall in (0.0, 0.5, 1.0)
    ]
    assert largest[0] < largest[1] < largest[2] <= 400


def test_more_edges_than_room_is_an_error() -> None:
    with pytest.raises(ValueError, match="100 edges do not fit into layers of 10 and 10"):
        draw_skewed(10, 10, 100, (0.5, 0.5), positive=0.7, seed=1)


@pytest.mark.parametrize("name", ["SE", "NAP", "JE", "KDD", "Netflix", "Yahoo"])
def test_exponents_lead_to_the_published_number(name: str) -> None:
    assert expected_balanced(name) == pytest.approx(DATASETS[name].balanced, rel=0.03)


def test_every_size_has_a_dataset() -> None:
    assert list(DATASETS) == list(SIZES)


def test_the_smallest_is_counted_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "signed.json"
    arguments = ["--engine", "cpu", "--datasets", "SE,Netflix", "--repeats", "1", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["signed_datasets", *arguments])
    assert signed_datasets.main() == 0
    printed = capsys.readouterr()
    assert "Netflix: 100,480,507 edges, left out" in printed.err
    (row,) = json.loads(output.read_text(encoding="utf-8"))["measurements"]
    expected = _butterflies(signed_datasets.draw_dataset("SE"))
    assert (row["butterflies"], row["balanced"]) == expected
    assert f"{expected[1]:,}" in printed.out
    assert row["correct"]
    assert row["n_edges"] == 27_083
    assert row["rate"] > 0


def test_a_wrong_count_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_datasets, "_count_classes", lambda graph, name: (1, 2))
    monkeypatch.setattr(sys, "argv", ["signed_datasets", "--engine", "cpu", "--datasets", "SE"])
    assert signed_datasets.main() == 1
