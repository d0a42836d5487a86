"""Every class of results has the same methods: a table, a frame, text, a chart, a few lines, HTML, the largest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import papilio
from papilio.errors import InputError, MissingPackageError
from papilio.storage.answers import Answer, Described, rows_table

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

SIGNED = pd.DataFrame(
    [(f"<u{u}>", f"v{v}", -1 if u == v else 1) for u, v in product(range(6), range(5)) if (u, v) != (5, 4)],
    columns=["u", "v", "sign"],
)

FRIENDS = [(a, b) for a in "abcde" for b in "abcde" if a < b] + [("x", "a")]

MAKERS: dict[str, Callable[[Path], Any]] = {
    "count": lambda path: papilio.count(SIGNED, "butterfly", **HERE),
    "count of none": lambda path: papilio.count([(1, 2)], "butterfly", per="edge", **HERE),
    "count per vertex": lambda path: papilio.count(SIGNED, "butterfly", per="vertex", **HERE),
    "count per edge": lambda path: papilio.count(SIGNED, "butterfly", per="edge", **HERE),
    "cliques per vertex": lambda path: papilio.count(FRIENDS, "clique", k=3, per="vertex", **HERE),
    "table": lambda path: papilio.count(SIGNED, papilio.Biclique(), **HERE),
    "large table": lambda path: papilio.count(np.argwhere(np.ones((80, 80))), papilio.Biclique(), **HERE),
    "table of k": lambda path: papilio.count(FRIENDS, papilio.Clique(), **HERE),
    "census": lambda path: papilio.census(SIGNED, "u", **HERE),
    "census pairs": lambda path: papilio.census_pairs(SIGNED, "u", by="conflicting", n=10, **HERE),
    "census vertices": lambda path: papilio.census_vertices(SIGNED, "u", **HERE),
    "listing": lambda path: papilio.enumerate(SIGNED, "biclique", p=2, q=2, output=path / "b", **HERE),
    "listing of any size": lambda path: papilio.enumerate(SIGNED, "maximal-biclique", output=path / "m", **HERE),
    "wings": lambda path: papilio.decompose(SIGNED, "wing", engine="cpu"),
    "tips": lambda path: papilio.decompose(SIGNED, "tip", layer="v", engine="cpu"),
    "cores": lambda path: papilio.decompose(SIGNED, "core", alpha=2, engine="cpu"),
    "cores of friends": lambda path: papilio.decompose(FRIENDS, "core", engine="cpu"),
    "core table": lambda path: papilio.core_table(SIGNED, engine="cpu"),
    "core table of friends": lambda path: papilio.core_table(FRIENDS, kind="unipartite", engine="cpu"),
    "estimate": lambda path: papilio.estimate(SIGNED, "biclique", p=2, q=3, error=0.3, **HERE),
    "significance": lambda path: papilio.significance(SIGNED, "butterfly", samples=100, **HERE),
    "significance of sizes": lambda path: papilio.significance(SIGNED, papilio.Biclique(), samples=5, **HERE),
    "significance of classes": lambda path: papilio.significance(SIGNED, papilio.Census("u"), samples=5, **HERE),
    "significance of graphs": lambda path: papilio.significance(
        {"a": SIGNED, 2: SIGNED}, "butterfly", samples=5, **HERE
    ),
    "significance per vertex": lambda path: papilio.significance(
        SIGNED, "butterfly", null="edges", samples=5, per="vertex", **HERE
    ),
    "robins-alexander": lambda path: papilio.robins_alexander(SIGNED, **HERE),
    "robins-alexander of none": lambda path: papilio.robins_alexander([(1, 2)], **HERE),
    "latapy": lambda path: papilio.latapy_clustering(SIGNED),
    "latapy of a layer": lambda path: papilio.latapy_clustering(SIGNED, layer="v"),
    "local per vertex": lambda path: papilio.local_clustering(SIGNED, **HERE),
    "local per edge": lambda path: papilio.local_clustering(SIGNED, per="edge", **HERE),
    "cohesion": lambda path: papilio.cohesion_profile(SIGNED, **HERE),
    "top butterflies": lambda path: papilio.top_butterflies(SIGNED, n=3, **HERE),
    "maximum clique": lambda path: papilio.maximum_clique(FRIENDS),
    "maximum clique per vertex": lambda path: papilio.maximum_clique(FRIENDS, per="vertex"),
    "communities of cliques": lambda path: papilio.communities(FRIENDS, papilio.Clique()),
    "communities of bicliques": lambda path: papilio.communities(SIGNED, papilio.Biclique(2, 2)),
    "largest bicliques": lambda path: papilio.top_bicliques(SIGNED, n=20),
}  # fmt: skip

WITHOUT_TOP = {
    "count", "table", "large table", "table of k", "estimate", "robins-alexander", "robins-alexander of none",
    "cohesion", "maximum clique", "significance", "significance of sizes", "significance of classes",
    "significance of graphs", "core table", "core table of friends",
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    path = tmp_path_factory.mktemp("listings")
    return {name: make(path) for name, make in MAKERS.items()}


@pytest.fixture(params=MAKERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def classes_of(kind: type) -> Iterator[type]:
    yield kind
    for each in kind.__subclasses__():
        yield from classes_of(each)


def test_every_class_of_results_is_here(results: dict[str, Answer]) -> None:
    abstract = {each for each in classes_of(Answer) if getattr(each, "__abstractmethods__", None)}
    assert {type(each) for each in results.values()} == {*classes_of(Answer)} - abstract
    assert issubclass(papilio.CountPlan, Described)


def test_a_table_and_a_frame_hold_the_same(name: str, results: dict[str, Answer]) -> None:
    result = results[name]
    table = result.to_arrow()
    assert isinstance(table, pa.Table)
    frame = result.to_pandas()
    assert [*frame.columns] == table.column_names
    assert len(frame) == table.num_rows
    assert table.num_rows > 0
    for column in table.column_names:
        given, framed = table[column].to_pylist(), frame[column].tolist()
        for a, b in zip(given, framed, strict=True):
            if isinstance(a, list):
                assert a == [*b]
            else:
                assert a == b or str(a) == str(b) or (a is None and b != b) or (a is None and b is None)
    if find_spec("polars"):
        assert result.to_polars().columns == table.column_names
    else:
        with pytest.raises(MissingPackageError, match="polars"):
            result.to_polars()


def test_json_is_text_with_all_digits(name: str, results: dict[str, Answer]) -> None:
    result = results[name]
    text = result.to_json()
    assert isinstance(text, str)
    assert not text.endswith("\n")
    assert json.loads(text) == json.loads(json.dumps(result.to_dict()))
    assert "\n" not in text


class Cells(HTMLParser):
    """The texts of the cells of a table, by rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def test_lines_and_html_say_what_matters(name: str, results: dict[str, Answer]) -> None:
    result = results[name]
    lines = repr(result).splitlines()
    assert 1 <= len(lines) <= 20
    assert lines[0].startswith("<")
    assert lines[0].endswith(">")
    assert all(len(line) < 400 for line in lines)
    html = Cells(result._repr_html_())
    assert lines[0][1:-1] in html.text
    shown = [line for line in lines[1:] if not line.startswith("...")]
    assert len(html.rows) == len(shown)
    for row, line in zip(html.rows, shown, strict=True):
        assert "".join(line.split()) == "".join("".join(row).split())


def test_charts_are_drawn(name: str, results: dict[str, Answer]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (papilio[report])")
    from matplotlib.figure import Figure

    axes = Figure(layout="constrained").add_subplot()
    assert results[name].plot(axes) is axes
    axes.figure.draw_without_rendering()
    assert axes.lines or axes.patches or axes.images or axes.collections


def test_the_largest_come_first(name: str, results: dict[str, Answer]) -> None:
    result: Any = results[name]
    if name in WITHOUT_TOP:
        with pytest.raises(InputError, match="the answer "):
            result.top(3)
        return
    first = [*result.top(1)]
    assert all(each in [*result.top()] for each in first)
    assert [*result.top()][:1] == first[:1]
    assert first or name == "count of none"
    assert len(first) <= 2
    with pytest.raises(InputError, match="n is 0; the minimum is 1"):
        result.top(0)


def test_the_largest_are_those_of_the_table(results: dict[str, Answer]) -> None:
    for name, value in (
        ("count per vertex", "count"),
        ("latapy", "dot"),
        ("local per vertex", "closed"),
        ("tips", "number"),
    ):
        result: Any = results[name]
        frame = result.to_pandas()
        for layer in frame["layer"].unique():
            right = frame[frame["layer"] == layer].sort_values(value, ascending=False, kind="stable")
            right = right[right[value] > 0]
            for n in (1, 4, 100):
                found = [each for each in result.top(n) if each.place == layer]
                assert [each.labels[0] for each in found] == right["label"].tolist()[:n]
                numbers = [getattr(each, value if hasattr(each, value) else "value") for each in found]
                assert numbers == right[value].tolist()[:n]
    wings = results["wings"]
    assert isinstance(wings, papilio.DecompositionResult)
    best = wings.top(3)
    assert [each.value for each in best] == [wings.max_number] * 3
    assert best[0].labels == ("<u0>", "v0")
    groups = results["census vertices"]
    assert isinstance(groups, papilio.CensusVertices)
    by_hand = groups.to_pandas().sort_values("coherent", ascending=False, kind="stable")
    assert [each.labels[0] for each in groups.top(4, by="coherent")] == by_hand["label"].tolist()[:4]


def test_the_largest_of_a_listing_have_the_most_vertices(results: dict[str, Answer]) -> None:
    result: Any = results["listing of any size"]
    rows = [(tuple(row["u"]), tuple(row["v"])) for row in result.to_arrow().to_pylist()]
    sizes = sorted((len(u) + len(v) for u, v in rows), reverse=True)
    assert [len(u) + len(v) for u, v in result.top(3)] == sizes[:3]
    assert {*result.top(3)} <= {*rows}


def test_asking_for_more_than_is_kept_says_so(results: dict[str, Answer]) -> None:
    for name in ("census pairs", "largest bicliques"):
        result: Any = results[name]
        with pytest.raises(InputError, match=r"n is 21, but only \d+ \w+ were requested; run again with n=21"):
            result.top(21)
    many = papilio.count([(u, v) for u in range(30) for v in range(2)], "butterfly", per="vertex", **HERE)
    assert len([each for each in many.top(25) if each.place == "u"]) == 25
    from dataclasses import replace

    kept = replace(many, source=None)
    assert len([each for each in kept.top(10) if each.place == "u"]) == 10
    with pytest.raises(
        InputError, match="n is 11, but only the 10 largest of each layer are kept; count again for more"
    ):
        kept.top(11)


def test_one_number_is_a_row() -> None:
    result = papilio.count([(0, 0), (0, 1), (1, 0), (1, 1)], "butterfly", **HERE)
    (row,) = result.to_arrow().to_pylist()
    assert row == {"motif": "butterfly", "count": 1, "engine": "cpu", "seconds": result.seconds["total"]}


def test_rows_of_any_integers() -> None:
    table = rows_table(
        [
            {"a": 2**70, "b": -1, "c": 2**64 - 1, "d": None, "e": ["x", 1]},
            {"a": 1, "b": None, "c": 0, "d": "t", "e": []},
        ]
    )
    assert table.to_pylist()[0] == {"a": str(2**70), "b": -1, "c": 2**64 - 1, "d": None, "e": ["x", "1"]}
    assert rows_table([], ("a", "b")).column_names == ["a", "b"]


def test_the_densest_component_has_its_members() -> None:
    dense = [(f"d{u}", f"e{v}") for u in range(4) for v in range(4)]
    sparse = [(f"s{u}", f"t{v}") for u in range(5) for v in range(3)]
    graph = [("a", "z"), *sparse, ("d0", "t0"), *dense]
    wings = papilio.decompose(graph, "wing", engine="cpu")
    found = wings.densest()
    assert found is not None
    assert (found.level, found.size) == (9, 16)
    assert found.labels_u == ("d0", "d1", "d2", "d3")
    assert found.labels_v == ("e0", "e1", "e2", "e3")
    assert wings.level_sizes()[9] == 16
    tips = papilio.decompose(graph, "tip", layer="u", engine="cpu").densest()
    assert tips is not None
    assert (tips.level, tips.labels_u, tips.labels_v) == (18, ("d0", "d1", "d2", "d3"), ())
    assert papilio.decompose([(1, 2)], "wing", engine="cpu").densest() is None
    with pytest.raises(InputError, match="hierarchy=True"):
        papilio.decompose(graph, "wing", engine="cpu", hierarchy=False).densest()
