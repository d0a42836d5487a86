"""Every motif has its place in documents, tools and tests: what is missing is named, with its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from papilio.kernels.motif_row import MotifRow
from papilio.motifs import MOTIFS
from papilio.registry import MOTIF_ROWS
from papilio.tasks.warming import list_questions
from tests.conftest import ROOT
from tests.families.examples import EXAMPLES, Example, example_of
from tests.tools.differential import cases, closed_forms
from tests.tools.differential.laws import PARTED

DOCS = ROOT / "docs"

of_rows = pytest.mark.parametrize("row", MOTIF_ROWS.values(), ids=MOTIF_ROWS)


@cache
def read(name: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def require(found: object, file: str, what: str) -> None:
    """Fail with the file and what must be added to it, unless it is there."""
    assert found, f"{file}: add {what}"


def example(row: MotifRow) -> Example:
    return example_of(row.motif.name)


def speaks_of(text: str, row: MotifRow) -> bool:
    """Return whether a text names a motif, not merely a longer term that ends with its name."""
    known = {each for one in EXAMPLES.values() for each in (one.term, one.terms)}
    own = {example(row).term, example(row).terms}
    for term in sorted(known - own, key=len, reverse=True):
        if any(each in term for each in own):
            text = re.sub(re.escape(term), "", text, flags=re.IGNORECASE)
    return any(re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text, re.IGNORECASE) for each in own)


def sections(name: str, begin: str, end: str) -> str:
    """Return the text between two marks of a document."""
    text = read(name)
    assert begin in text, f"{name}: {begin!r} is no longer there; tests/families/test_places.py looks for it"
    return text.split(begin, 1)[1].split(end, 1)[0]


def test_the_table_of_motifs_is_that_of_the_rows() -> None:
    for name in MOTIFS:
        require(name in MOTIF_ROWS, "papilio/registry.py", f"a row of {name!r} to _ROWS")
    for name in MOTIF_ROWS:
        require(name in MOTIFS, "papilio/motifs.py", f"the class of {name!r} to MOTIFS")


@of_rows
def test_the_reference_of_python_has_it(row: MotifRow) -> None:
    name = row.motif.__name__
    require(f".. autoclass:: {name}\n" in read("docs/api.md"), "docs/api.md", f"`.. autoclass:: {name}`")
    line = f"from papilio.motifs import {name} as {name}"
    require(line in read("papilio/__init__.pyi"), "papilio/__init__.pyi", f"`{line}`")


@of_rows
def test_the_glossary_explains_it_and_leads_to_its_page(row: MotifRow) -> None:
    term, page = example(row).term, example(row).pages[0]
    entries = dict(re.findall(r"^(\S.*)\n: ((?:.+\n)+)", read("docs/glossary.md"), re.MULTILINE))
    found = {name: text for name, text in entries.items() if speaks_of(name, row)}
    require(found, "docs/glossary.md", f"an entry for {term!r}")
    link = f"({page}.md)"
    require(
        any(link in text for text in found.values()), "docs/glossary.md",
        f"[More]{link} to the entry for {term!r}",
    )  # fmt: skip


@of_rows
def test_its_pages_exist_and_the_architecture_links_the_algorithm(row: MotifRow) -> None:
    pages = example(row).pages
    for page in pages:
        require((DOCS / f"{page}.md").is_file(), f"docs/{page}.md", f"the page about {example(row).terms}")
    kernels = sections("docs/architecture.md", "| `kernels/` |", "\n")
    require(
        f"({pages[-1]}.md)" in kernels, "docs/architecture.md",
        f"a link to {pages[-1]}.md in the row of `kernels/`",
    )  # fmt: skip


@pytest.mark.parametrize("page", sorted(each.stem for each in DOCS.glob("*.md")))
def test_every_page_is_in_a_table_of_contents(page: str) -> None:
    texts = [each.read_text(encoding="utf-8") for each in DOCS.glob("*.md")]
    trees = [tree for text in texts for tree in re.findall(r"\{toctree\}\n(.*?)```", text, re.DOTALL)]
    lines = {line.strip() for tree in trees for line in tree.splitlines()}
    entries = {re.sub(r".*<(.*)>", r"\1", line) for line in lines}
    require(page == "index" or page in entries, "docs/index.md", f"`{page}` to a toctree")


@of_rows
def test_users_of_other_libraries_find_it(row: MotifRow) -> None:
    name, kind = row.motif.name, row.motif.__name__
    words = (f"papilio.{kind}", f'"{name}"', f"papilio.{name.removesuffix('ion')}(")
    require(
        any(each in read("docs/coming-from.md") for each in words), "docs/coming-from.md",
        f"`papilio.{kind}` beside what other libraries have, or to those that none of them has",
    )  # fmt: skip


@of_rows
def test_the_overview_lists_it(row: MotifRow) -> None:
    table = sections("README.md", "| motif | answers | commands |", "\n\n")
    motifs = [term for line in table.splitlines() if line for term in re.split(r", (?!q\))", line.split(" | ")[0][2:])]
    require(
        any(speaks_of(term, row) for term in motifs) or speaks_of(table, row), "README.md",
        f"{example(row).term!r} to the table `What it counts`",
    )  # fmt: skip


@of_rows
def test_the_changelog_has_it(row: MotifRow) -> None:
    term = example(row).terms
    require(
        speaks_of(read("CHANGELOG.md"), row),
        "CHANGELOG.md",
        f"a line about {term}, which users can count now",
    )


@cache
def names_in(folder: str) -> frozenset[str]:
    """Return the classes that the modules of a folder import from ``papilio.motifs`` or name as ``papilio.Class``."""
    return frozenset(name for path in sorted((ROOT / folder).glob("*.py")) for name in names_of(path))


def names_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "papilio.motifs":
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "papilio":
            yield node.attr


@of_rows
def test_a_benchmark_measures_it(row: MotifRow) -> None:
    name = row.motif.__name__
    require(
        name in names_in("benchmarks"), f"benchmarks/{row.motif.name.replace('-', '_')}.py",
        f"a benchmark that counts papilio.{name}",
    )  # fmt: skip


@of_rows
def test_its_engine_has_tests_of_its_own(row: MotifRow) -> None:
    name, stem = row.motif.__name__, row.motif.name.replace("-", "_")
    folder = f"tests/kernels/{row.engines['cpu']().__module__.split('.')[2]}"
    require(
        name in names_in(folder), f"{folder}/test_{stem}.py",
        f"tests of {name}: its work items, an oracle, closed forms, graphs that cross sizes at which kernels change",
    )  # fmt: skip


@of_rows
def test_the_search_for_wrong_counts_draws_it(row: MotifRow) -> None:
    name, file = row.motif.name, "tests/tools/differential/cases.py"
    require(
        name in cases.DRAWS,
        file,
        f"{name!r} to DRAWS: a function that draws its questions and sizes of graphs",
    )
    drawn = [cases.draw_case(number, "tiny") for number in range(400) if cases.draw_family(number) == name]
    assert drawn
    assert all(case.question.motif.name == name for case in drawn), f"{file}: DRAWS[{name!r}] draws other motifs"
    assert {case.question.per for case in drawn} == {
        per for case in drawn for per in case.question.motif.granularities
    }, f"{file}: DRAWS[{name!r}] does not draw all granularities"
    listed = row.listed is None or any(case.question.listing is not None for case in drawn)
    require(listed, file, f"listings to DRAWS[{name!r}]")
    require(
        name in closed_forms.FORMS, "tests/tools/differential/closed_forms.py",
        f"{name!r} to FORMS: a graph with a formula for the answer",
    )  # fmt: skip
    require(
        row.parted is None or row.parted.kind in PARTED, "tests/tools/differential/laws.py",
        f"a way to cut {row.parted and row.parted.kind!r} by definition to PARTED",
    )  # fmt: skip


@of_rows
def test_compiling_has_a_budget(row: MotifRow) -> None:
    from tests.kernels.test_compiling import BUDGETS

    name = row.motif.__name__
    require(
        any(f"papilio.{name}(" in question for question, *_ in BUDGETS), "tests/kernels/test_compiling.py",
        f"a count of papilio.{name} to BUDGETS, with the functions and modules that it compiles",
    )  # fmt: skip


@of_rows
def test_its_memory_is_recorded(row: MotifRow) -> None:
    from tests.kernels.test_memory_terms import CASES

    name = row.motif.name
    require(
        any(motif.name == name for motif, _ in CASES.values()), "tests/kernels/test_memory_terms.py",
        f"a case of {name!r} to CASES and RECORDED",
    )  # fmt: skip


@of_rows
def test_what_is_compiled_ahead_covers_it(row: MotifRow) -> None:
    """A question of each form, at each granularity, with each algorithm."""
    name = row.motif.name
    questions = [each for each in list_questions("cpu") if each.motif.name == name]
    asked = {(each.motif, each.per) for each in questions if each.listing is None}
    forms = {motif.is_table for motif in example(row).questions}
    assert {motif.is_table for motif, _ in asked} >= forms, (
        f"papilio/tasks/warming.py: list_questions does not ask {name!r} in all forms of EXAMPLES"
    )
    assert {per for _, per in asked} == {per for motif, _ in asked for per in motif.granularities}
    if row.listed is not None:
        assert any(each.listing is not None for each in questions)
