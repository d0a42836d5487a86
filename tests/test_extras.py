"""Without its optional packages Papilio names the extra that installs each; the README's lines run where it says so."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.first_calls import CALLS, write_graphs
from papilio.extras import EXTRAS, how_to_install
from tests.conftest import ROOT
from tests.test_imports import MODULES, run_blocked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

INSTALLED_BY = {"aiohttp": "fsspec[http]", "cupy": "cupy-cuda13x"}
"""The requirement that brings a module, where its name is another."""

BLOCKED = {
    "aiohttp": """
import papilio
papilio.convert("https://localhost/edges.txt", "graph")
""",
    "bokeh": None,  # Dask's affair; ``papilio doctor`` names the extra
    "cupy": """
from papilio.registry import load_engine
load_engine(papilio.Butterfly(), "gpu")
""",
    "dask_cuda": """
from papilio.cluster import executor as devices
from papilio.errors import EngineUnavailableError
devices.missing_for_gpu = lambda: None
raise EngineUnavailableError(devices.missing_for_cuda())
""",
    "dask_jobqueue": """
from papilio.cluster.slurm import SlurmExecutor
SlurmExecutor("cores=1,memory=1GiB")
""",
    "igraph": """
import tempfile
from pathlib import Path
from papilio.storage.graph_files import read_graph_file
from papilio.storage.formats import ReadOptions
with tempfile.TemporaryDirectory() as directory:
    path = Path(directory, "pairs.ncol")
    path.write_text("a x")
    read_graph_file(path, "pairs.ncol", ReadOptions(format="ncol"))
""",
    "matplotlib": "papilio.count(pairs, papilio.Biclique(2, None)).plot()",
    "networkx": """
from papilio.storage.interop import (to_networkx)
to_networkx(graph)
""",
    "pandas": "papilio.count(pairs, 'butterfly', per='vertex').to_pandas()",
    "polars": "papilio.count(pairs, 'butterfly', per='vertex').to_polars()",
    "scipy": """
from papilio.storage.interop import (to_scipy)
to_scipy(graph)
""",
}
"""Code that needs an optional module."""

PRELUDE = """
sys.modules[{module!r}] = None
import papilio
from papilio.storage.labelled import LabelledGraph
graph = papilio.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1])
pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
try:
{code}
except papilio.PapilioError as error:
    print(type(error).__name__, error)
"""

ELSEWHERE = {"cuda", "slurm", "scheduler.json", "tcp://head:8786"}
"""Words of commands that need GPUs or a cluster."""

GATED = {
    ("cupy", "papilio/kernels"),
    ("dask_cuda", "papilio/cluster"),
    ("dask_jobqueue", "papilio/cluster/slurm.py"),
    ("matplotlib", "papilio/charts.py"),
    ("matplotlib", "papilio/reports/figures.py"),
    ("networkx", "papilio/networkx_backend.py"),
}
"""Modules that plain imports may load, and where: behind a check that raises before."""


def packages_of(extra: str) -> set[str]:
    """Names of the distributions of an extra, with theirs as far as they bring a module."""
    requirements = map(Requirement, PROJECT["optional-dependencies"][extra])
    return {
        f"{each.name}[{','.join(sorted(each.extras))}]" if each.name == "fsspec" else each.name for each in requirements
    }


@pytest.mark.parametrize("module", EXTRAS)
def test_the_extra_that_an_error_names_installs_the_module(module: str) -> None:
    assert INSTALLED_BY.get(module, module.replace("_", "-")) in packages_of(EXTRAS[module])
    if module == "cupy":
        assert "papilio[cuda12]" in how_to_install(module)
        assert "cupy-cuda12x" in packages_of("cuda12")


def test_every_optional_module_is_tried() -> None:
    assert set(BLOCKED) == set(EXTRAS)


@pytest.mark.parametrize("module", [name for name, code in BLOCKED.items() if code is not None])
def test_a_missing_package_is_named_with_its_extra(module: str) -> None:
    code = "\n".join(f"    {line}" for line in (BLOCKED[module] or "").strip().splitlines())
    printed = run_blocked(PRELUDE.replace("{code}", code).replace("{module!r}", repr(module)))
    kind = "EngineUnavailableError" if module == "dask_cuda" else "MissingPackageError"
    assert printed.startswith(kind), printed
    assert how_to_install(module) in printed


def test_doctor_names_the_extra_of_every_optional_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from papilio.cluster import doctor

    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    advice = " ".join(check.advice for check in doctor.check_machine() if check.name in doctor.OPTIONAL)
    wanted = {EXTRAS[module] for module in EXTRAS} - {"cuda13"}
    assert set(re.findall(r"papilio\[(\w+)\]", advice)) == wanted


def test_optional_modules_are_imported_where_their_absence_is_an_error_with_advice() -> None:
    required = {Requirement(each).name for each in PROJECT["dependencies"]} | {"papilio", "llvmlite"}
    wrong = []
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_extra":
                module = ast.literal_eval(node.args[0]).split(".")[0]
                assert module in EXTRAS, f"{path}:{node.lineno}"
                continue
            else:
                continue
            place = path.relative_to(ROOT).as_posix()
            for name in {each.split(".")[0] for each in names}:
                if node in for_types or name in required or name in sys.stdlib_module_names:
                    continue
                if not any(name == module and place.startswith(where) for module, where in GATED):
                    wrong.append(f"{place}:{node.lineno} imports {name}")
    assert wrong == []


def blocks_of(document: str) -> list[tuple[str, str]]:
    """The code blocks of a document, in order: their language and their text."""
    return re.findall(r"^```(\w*)\n(.*?)^```", document, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_lines_of_the_readme_in_a_clean_environment(tmp_path: Path) -> None:
    """Installs the package as the README says, with no other library than its lines name, and runs these.

    The installation has compiled all that they and the first calls of the tutorial need.
    """
    source, home = tmp_path / "source", tmp_path / "environment"
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "tests", "docs", "benchmarks")
    shutil.copytree(ROOT, source, ignore=ignored)
    venv.create(home, with_pip=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    environment |= {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "",
        "NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "PAPILIO_COMPILE_SECONDS": "1500",
        "PYTHONSAFEPATH": "1",  # the installed package, not the sources of this folder
    }  # fmt: skip
    reached = subprocess.run(
        ["python", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path), "hatchling"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if reached.returncode:
        pytest.skip(f"no package index can be reached: {reached.stderr.strip().splitlines()[-1:]}")

    def call(*words: str) -> str:
        run = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=1800)
        assert run.returncode == 0, (words, run.stdout, run.stderr)
        return run.stdout

    _, *rows = (source / "papilio" / "data" / "southern-women.csv").read_text("utf-8").splitlines()
    lines = ["user,item,stars", *(f"{row},{5 - i % 5}" for i, row in enumerate(rows))]
    (source / "ratings.csv").write_text("\n".join(lines), "utf-8")
    (source / "friends.txt").write_text("1 2\n1 3\n2 3\n3 4\n", "utf-8")
    printed = []
    for language, text in blocks_of((source / "README.md").read_text("utf-8")):
        if language == "python":
            printed.append(call("python", "-c", text))
            continue
        for line in text.splitlines():
            words = shlex.split(line.partition(" | ")[0], comments=True)
            if words[:2] == ["pip", "install"]:
                call("python", "-m", *words[:2], "--quiet", "--disable-pip-version-check", *words[2:])
            elif words[:2] == ["papilio", "convert"] and words[2:] == ["ratings.csv", "ratings"]:
                call(*words)
                call("papilio", "convert", "friends.txt", "friends", "--unipartite")
            elif words[:1] == ["papilio"] and not ELSEWHERE & set(words):
                printed.append(call("sh", "-c", line) if " | papilio" in line else call(*words))
    everything = "\n".join(printed)
    assert "341" in everything.split(), "the butterflies of the table"
    assert "36\n(TopEntry(" in everything, "Python's lines"
    write_graphs(source)
    for text in CALLS.values():
        call("python", "-c", f"import papilio; {text}")
    assert not (tmp_path / "compiled").exists(), "nothing was compiled"
    for example in sorted((source / "examples").glob("*.py")):
        call("python", str(example))
