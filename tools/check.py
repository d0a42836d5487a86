"""Run the tests that concern a motif, some paths, or the changed files: a minute instead of the whole suite.

    python -m tools.check --motif biclique
    python -m tools.check papilio/storage/convert.py tests/cli
    python -m tools.check                           # the files changed since the last commit, or in it

A test file concerns a module if it imports the module, or is named after it in the folder of the same name in
``tests``. The laws of ``tests/families`` and ``tests/test_imports.py`` always run. This is a selection for work in
progress; ``make test`` runs all tests.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from papilio.registry import MOTIF_ROWS

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
ALWAYS = (Path("tests/families"), Path("tests/test_imports.py"))
DOCUMENTS = (Path("tests/test_documents.py"),)


def imported_by(path: Path) -> set[str]:
    """Return the modules that a file imports, and ``module.name`` of all that it imports from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def module_of(path: Path) -> str:
    """Return the name of the module in a file of the repository."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def test_files() -> Mapping[Path, set[str]]:
    """Return every test file of the repository with its imports."""
    return {path.relative_to(ROOT): imported_by(path) for path in sorted(TESTS.rglob("test_*.py"))}


def tests_of_motif(name: str) -> set[Path]:
    """Return the test files of a motif: named after it, or in the folder of its engine and importing its class."""
    row = MOTIF_ROWS[name]
    folder = Path("tests", *row.engines["cpu"]().__module__.split(".")[1:-1])
    named, wanted = f"test_{name.replace('-', '_')}", f"papilio.motifs.{row.motif.__name__}"
    return {
        path
        for path, imports in test_files().items()
        if path.stem.removesuffix("s") == named or (folder in path.parents and wanted in imports)
    }


def tests_of_file(path: Path, tests: Mapping[Path, set[str]]) -> set[Path]:
    """Return the test files that a changed file of the repository concerns."""
    if path.suffix in (".md", ".toml", ".yml", ".cff") or path.parts[0] in ("docs", "examples", ".github"):
        return set(DOCUMENTS)
    if path in tests:
        return {path}
    folder = Path("tests", *path.parts[1:-1])
    beside = {each for each in tests if each.parent == folder and path.parts[0] == "papilio"}
    if path.suffix in (".cu", ".cuh"):
        return beside
    if path.suffix != ".py":
        return {each for each in tests if path.parent == each.parent}
    importing = {each for each, imports in tests.items() if module_of(path) in imports}
    return importing | {each for each in beside if path.stem in each.stem}


def changed_files() -> list[Path]:
    """Return the files changed since the last commit, new ones included; in a clean tree, those of that commit."""

    def ask(*words: str) -> list[Path]:
        said = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [Path(line) for line in said.splitlines() if (ROOT / line).is_file()]

    changed = ask("diff", "--name-only", "HEAD") + ask("ls-files", "--others", "--exclude-standard")
    return changed or ask("diff", "--name-only", "HEAD~1", "HEAD")


def choose_tests(motif: str | None, paths: Iterable[Path]) -> list[Path]:
    """Return the test files and folders to run."""
    chosen: set[Path] = set()
    if motif is not None:
        chosen |= tests_of_motif(motif)
    tests = test_files()
    for path in paths:
        inside = [each for each in tests if path in each.parents]
        if path.is_dir() and not inside:
            inside = [found for file in path.rglob("*") if file.is_file() for found in tests_of_file(file, tests)]
        chosen |= set(inside) if path.is_dir() else tests_of_file(path, tests)
    return [*(path for path in ALWAYS if (ROOT / path).exists()), *sorted(chosen)]


def main() -> int:
    """Choose the tests, name them, and run them; return the exit status of pytest."""
    parser = argparse.ArgumentParser(description="Run the tests that concern a motif, paths, or the changed files.")
    parser.add_argument("--motif", choices=sorted(MOTIF_ROWS))
    parser.add_argument("paths", nargs="*", type=Path)
    asked = parser.parse_args()
    paths = [path.resolve().relative_to(ROOT) for path in asked.paths]
    if asked.motif is None and not paths:
        paths = changed_files()
    chosen = choose_tests(asked.motif, paths)
    print("checking", *(path.as_posix() for path in chosen), flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--no-loadscope-reorder", "-m", "not slow"]
    return subprocess.run([*command, *map(str, chosen)], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
