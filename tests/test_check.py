"""``make check`` chooses the tests of a motif, and of changed files, by their imports and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from papilio.registry import MOTIF_ROWS
from tests.conftest import ROOT
from tools.check import ALWAYS, choose_tests, test_files, tests_of_file, tests_of_motif

test_files.__test__ = tests_of_file.__test__ = tests_of_motif.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", MOTIF_ROWS)
def test_every_motif_has_tests_of_its_engine(name: str) -> None:
    chosen = tests_of_motif(name)
    assert any("kernels" in path.parts for path in chosen)
    assert all((ROOT / path).is_file() for path in chosen)


def test_a_changed_file_is_checked_by_what_imports_it() -> None:
    tests = test_files()
    assert Path("tests/storage/test_convert.py") in tests_of_file(Path("papilio/storage/convert.py"), tests)
    assert tests_of_file(Path("papilio/kernels/search/search.cuh"), tests) == {
        path for path in tests if path.parent == Path("tests/kernels/search")
    }
    assert tests_of_file(Path("docs/jobs.md"), tests) == {Path("tests/test_documents.py")}
    assert tests_of_file(Path("tests/test_graph.py"), tests) == {Path("tests/test_graph.py")}


def test_a_folder_is_checked_whole_and_the_laws_always() -> None:
    chosen = choose_tests(None, [Path("tests/cli")])
    assert {path for path in chosen if path not in ALWAYS} == {
        path for path in test_files() if path.parent == Path("tests/cli")
    }
    inside = choose_tests(None, [Path("papilio/storage")])
    assert Path("tests/storage/test_convert.py") in inside
    assert Path("tests/test_imports.py") in inside
