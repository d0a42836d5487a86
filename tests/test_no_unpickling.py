"""Nothing that is read from a store, a partition, a job directory or a cache can be code: none is unpickled or run."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import papilio
from papilio.errors import PapilioError
from tests.conftest import ROOT

PACKAGE = ROOT / "papilio"

UNSAFE_MODULES = {
    "_pickle", "cPickle", "cloudpickle", "code", "codeop", "dill", "imp", "importlib.machinery", "joblib", "jsonpickle",
    "marshal", "pickle", "pickletools", "runpy", "shelve", "yaml", "zipimport",
}  # fmt: skip
"""Modules that make objects or code of what they read."""

UNSAFE_CALLS = {
    "__import__", "compile", "eval", "exec", "exec_module", "fromfile_pickle", "import_module", "load", "loads",
    "read_pickle", "read_array", "unsafe_load", "from_pickle",
}  # fmt: skip
"""Functions and methods that do, or do in some library: what is harmless is listed below."""

ALLOWED = {
    ("json", "loads"): "JSON holds no objects",
    ("json", "load"): "JSON holds no objects",
    ("re", "compile"): "a pattern",
    ("np", "load"): "with allow_pickle=False, which is looked at",
    ("device", "load"): "a CUDA source of the package",
    ("self.device", "load"): "a CUDA source of the package",
    ("self._rows", "load"): "rows of numbers that the package keeps on the disk",
    ("loader", "load"): "a part of the graph, from Parquet",
}
"""Calls that are no danger, by what they are called on, and why."""

ALLOWED_PLACES = {
    ("__init__.py", "import_module"): "a table of the package's own names",
    ("cli/app.py", "import_module"): "a table of the package's own commands",
    ("kernels/device/cuda.py", "compile"): "a CUDA source of the package",
    ("kernels/compiling.py", "compile"): "a function of the package",
    ("extras.py", "import_module"): "an optional package, by its name",
    ("tasks/memory.py", "import_module"): "what a row of the families names",
    ("tasks/parts.py", "import_module"): "a module of the package",
}
"""Calls that are no danger where they stand, by file and name, and why."""


def calls_of(path: Path) -> Iterator[tuple[str, str, int, ast.Call]]:
    """Yield what each call is on, what is called, the line, and the call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                owner = node.func.value
                yield ast.unparse(owner), node.func.attr, node.lineno, node
            elif isinstance(node.func, ast.Name):
                yield "", node.func.id, node.lineno, node


def find_unsafe(path: Path, name: str) -> list[str]:
    """Return the calls and imports of a file that could make objects or code of what they read."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.Import):
            modules = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
        found += [
            f"{name}:{node.lineno} imports {module}"
            for module in modules
            if UNSAFE_MODULES & {module, *module.split(".")}
        ]
    for owner, called, line, call in calls_of(path):
        pickles = [key.value for key in call.keywords if key.arg == "allow_pickle"]
        if any(not (isinstance(value, ast.Constant) and value.value is False) for value in pickles):
            found.append(f"{name}:{line} allows pickles")
        if (owner, called) == ("np", "load") and not pickles:
            found.append(f"{name}:{line} leaves allow_pickle open")
        if called in UNSAFE_CALLS and (owner, called) not in ALLOWED and (name, called) not in ALLOWED_PLACES:
            found.append(f"{name}:{line} calls {owner}{'.' if owner else ''}{called}")
    return found


def test_no_module_makes_objects_or_code_of_what_it_reads() -> None:
    found = [
        each for path in sorted(PACKAGE.rglob("*.py")) for each in find_unsafe(path, str(path.relative_to(PACKAGE)))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from pickle import loads", "from distributed.protocol import pickle", "import yaml",
        "import dill as json", "eval(text)", "exec(text)", "np.load(file)", "np.load(file, allow_pickle=True)",
        "numpy.load(file)", "np.lib.format.read_array(file)", "importlib.import_module(name)", "builtins.eval(text)",
        "np.load(file, allow_pickle=flag)", "compile(text, '', 'exec')", "pd.read_pickle(path)", "import runpy",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(line: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(line)
    assert len(find_unsafe(path, "module.py")) >= 1


class Bomb:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (_go_off, (str(self.path),))


def _go_off(path: str) -> int:
    Path(path).touch()
    return 1


def test_an_array_of_objects_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"
    table = np.empty((2, 2), dtype=object)
    table[:] = [[Bomb(mark), 1], [2, 3]]
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=True)
    buffer.seek(0)
    np.load(buffer, allow_pickle=True)
    assert mark.exists(), "the trap works"
    mark.unlink()
    edges = tmp_path / "edges.npy"
    edges.write_bytes(buffer.getvalue())
    with pytest.raises(PapilioError):
        papilio.convert(edges, tmp_path / "graph")
    assert not mark.exists()
    assert not (tmp_path / "graph").exists()
