"""Answers are drawn as they are: heights, names and counts of what is on the axes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from math import comb, log10
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio import charts
from papilio.motifs import CENSUS_CLASSES, rows_by_class
from tests.conftest import ROOT

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (papilio[report])")

K56 = list(product(range(5), range(6)))


@pytest.fixture
def axes() -> Iterator[Any]:
    from matplotlib.figure import Figure

    return Figure(layout="constrained").add_subplot()


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_one_size_is_a_row_of_bars(axes: Any) -> None:
    assert papilio.count(K56, papilio.Biclique(2, None)).plot(axes) is axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [log10(comb(5, 2) * comb(6, q)) for q in range(1, 7)]
    assert axes.get_xlabel() == "q (p = 2)"


def test_two_sizes_are_a_grid_with_its_scale_and_all_counts(axes: Any) -> None:
    papilio.count(K56, papilio.Biclique()).plot(axes)
    assert sorted(texts(axes)) == sorted(f"{comb(5, p) * comb(6, q):,}" for p in range(1, 6) for q in range(1, 7))
    grid = axes.images[0].get_array()
    assert grid.shape == (5, 6)
    assert grid[2, 3] == log10(comb(5, 3) * comb(6, 4))
    assert len(axes.figure.axes) == 2


def test_counts_beyond_any_float_have_a_height(axes: Any) -> None:
    charts.draw_table(axes, ("k",), {(3,): 10**400, (4,): 1})
    assert [round(bar.get_height(), 2) for bar in axes.patches] == [400.0, 0.05]


def test_vertices_with_at_least_a_count(axes: Any) -> None:
    edges = [*product("ab", "wxy"), ("c", "w")]
    papilio.count(edges, "butterfly", per="vertex").plot(axes)
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines == {
        "vertices of U (2 of 3 above 0)": [[3.0, 2.0]],
        "vertices of V (3 of 3 above 0)": [[2.0, 3.0]],
    }


def test_numbers_of_a_decomposition(axes: Any) -> None:
    papilio.decompose([*K56, (7, 7)], "wing", engine="cpu").plot(axes)
    assert axes.lines[0].get_xydata().tolist() == [[20.0, 30.0]]
    assert axes.lines[0].get_label() == "edges (30 of 31 above 0)"


def test_an_answer_is_drawn_under_its_headline_unless_the_axes_have_a_title(axes: Any) -> None:
    found = papilio.count(K56, "butterfly")
    assert found.plot(axes).get_title() == "butterfly: 150"
    axes.set_title("my own")
    assert found.plot(axes).get_title() == "my own"


def test_classes_have_their_exact_counts_and_no_text_lies_on_another(axes: Any) -> None:
    counts = [25_666_956, 0, 7, 10**30 + 1, 3, 12]
    table = {each.cell: count for each, count in zip(CENSUS_CLASSES, counts, strict=True)}
    charts.draw_classes(axes, rows_by_class(CENSUS_CLASSES, table))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"{each.name}\n{count:,}" for each, count in zip(CENSUS_CLASSES, counts, strict=True)]
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in (*axes.get_yticklabels(), *axes.texts)]
    assert not [(a, b) for at, a in enumerate(boxes) for b in boxes[:at] if a.overlaps(b)]


def test_one_number_is_a_bar_with_all_digits(axes: Any) -> None:
    papilio.count(K56, "butterfly").plot(axes)
    assert texts(axes) == ["150"]
    assert axes.patches[0].get_width() == log10(150)


@pytest.mark.slow
def test_without_axes_there_is_a_new_figure(tmp_path: Path) -> None:
    code = (
        "import papilio, sys\n"
        "result = papilio.count([(u, v) for u in 'ab' for v in 'cd'], 'butterfly', per='edge')\n"
        "result.plot().figure.savefig(sys.argv[1])\n"
    )
    path = tmp_path / "counts.png"
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, env={"MPLBACKEND": "agg"}, check=True)
    assert path.read_bytes().startswith(b"\x89PNG")
