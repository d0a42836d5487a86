"""Every planted fault names tests that exist, and still fits the code; ``make mutants`` runs them."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutants.run import ROOT, Mutant, apply, read_mutants

MUTANTS = read_mutants()


def test_names_are_of_tests_that_exist() -> None:
    for mutant in MUTANTS:
        for test in mutant.tests:
            file, _, name = test.partition("[")[0].partition("::")
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in functions, f"{mutant.path}: {test} does not exist"


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patches")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_patches_fit(mutant: Mutant) -> None:
    assert apply(mutant.path, ROOT, "--check") == ""


@pytest.mark.parametrize(
    "head", ["", "# killed by: tests/a.py::b\n# equivalent: no\n", "# killed by: a::b\n", "# survives\n"]
)
def test_patches_that_do_not_say_what_finds_them_are_refused(tmp_path: Path, head: str) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "fault.patch").write_text(head + "diff --git a/x b/x\n")
    with pytest.raises(ValueError, match=r"fault\.patch begins neither with"):
        read_mutants(tmp_path)
