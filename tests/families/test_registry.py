"""The registry: every row is whole, and nothing above the kernels looks at a motif's class or name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from papilio.errors import UnsupportedError
from papilio.kernels.motif_row import MotifRow
from papilio.motifs import MOTIFS, Biclique, Butterfly, Listing, Motif, Projection
from papilio.partitioning.cutters import cutter_of
from papilio.question import Question
from papilio.registry import MOTIF_ROWS, motif_row
from tests.conftest import ROOT

ABOVE = ("partitioning", "tasks", "cluster", "api", "measures", "reports", "cli")

MODULES = sorted(path for folder in ABOVE for path in (ROOT / "papilio" / folder).rglob("*.py"))

CLASSES = {"Motif", *(kind.__name__ for kind in MOTIFS.values())}


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def is_motif_name(node: ast.AST) -> bool:
    """Return whether an expression is the name of a motif: ``motif.name``, ``Biclique.name``, or its text."""
    if isinstance(node, ast.Constant):
        return node.value in MOTIFS
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "name"
        and any(name in CLASSES or name.endswith("motif") for name in names_in(node.value))
    )


def decisions_by_motif(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind of everything that asks which motif it has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass") and names_in(node.args[1]) & CLASSES:
                yield node.lineno, "an instance"
        elif isinstance(node, ast.MatchClass) and names_in(node.cls) & CLASSES:
            yield node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno, "a case"
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(map(is_motif_name, sides)) and not any(isinstance(op, ast.In) for op in node.ops):
                yield node.lineno, "a comparison"


def test_nothing_above_the_kernels_asks_which_motif_it_has() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} is {kind}: what differs by motif stands in papilio/registry.py"
        for path in MODULES
        for line, kind in decisions_by_motif(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(job.motif, Biclique)",
        "isinstance(asked, (papilio.Butterfly, Census))",
        "issubclass(kind, Motif)",
        "job.motif.name == 'biclique'",
        "name != Biclique.name",
        "found['motif'] == 'census'",
        "match motif:\n    case Butterfly():\n        pass",
    ],
)
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert list(decisions_by_motif(ast.parse(code)))


def test_every_motif_has_a_row_under_its_name() -> None:
    assert {name: row.motif for name, row in MOTIF_ROWS.items()} == MOTIFS

    class Unknown(Motif):
        name = "unknown"

    with pytest.raises(UnsupportedError, match="'unknown' has no engine"):
        motif_row(Unknown())


@pytest.mark.parametrize("row", MOTIF_ROWS.values(), ids=MOTIF_ROWS)
def test_what_a_row_loads_is_in_its_folder(row: MotifRow) -> None:
    loaded = [row.engines["cpu"], *([] if row.listed is None else row.listed.engines.values())]
    assert all(each().__module__.startswith(each.__module__.removesuffix("family")) for each in loaded)
    assert row.parted is None or callable(cutter_of(row.parted.kind))


def test_sums_of_vectors_follow_the_members_of_each_cell() -> None:
    row = motif_row(Butterfly())
    assert row.vector_sums(Butterfly(), 7, {}) == {"u": 14, "v": 14, "edge": 28}
    assert motif_row(Biclique(3, 5)).vector_sums(Biclique(3, 5), 2, {}) == {"u": 6, "v": 10}
    varied = MotifRow(Biclique, row.engines, row.memory, members=lambda motif, cell: {"u": cell[0], "v": cell[1]})
    assert varied.vector_sums(Biclique(), 5, {(1, 4): 3, (2, 7): 2}) == {"u": 7, "v": 26}


def test_an_engine_that_a_family_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, listed = (Question(Biclique(2, 2), "total", listing=each) for each in (None, Listing()))
    assert counted.settle_engine("auto") == ("auto", "")
    assert listed.settle_engine("auto") == ("cpu", "bicliques are listed on CPUs")
    with pytest.raises(UnsupportedError, match=r"bicliques are listed on CPUs, and engine is 'gpu'"):
        listed.settle_engine("gpu")
    sampled = Question(Projection("u", significance="degrees", samples=10), "total", listing=Listing())
    with pytest.raises(UnsupportedError, match=r"projections with significance \"degrees\" are listed on CPUs, and"):
        sampled.settle_engine("gpu")
    row = motif_row(Biclique(2, 2))
    monkeypatch.setitem(
        MOTIF_ROWS, "biclique", MotifRow(Biclique, {"gpu": row.engines["gpu"]}, row.memory, row.members)
    )
    assert counted.settle_engine("auto") == ("gpu", "bicliques are counted on GPUs")
    with pytest.raises(UnsupportedError, match=r"on GPUs, and engine is 'cpu'; give 'gpu' or 'auto'"):
        counted.settle_engine("cpu")
