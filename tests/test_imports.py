"""Imports go one way, heavy libraries stay in their folders, and optional ones are optional."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from papilio.graph import BipartiteGraph
from papilio.storage.store import write_store
from tests.conftest import ROOT

PACKAGE = ROOT / "papilio"

LAYERS = [
    ("errors", "system_errors", "signals", "arguments", "motifs", "version", "extras", "settings"),
    ("graph", "parts", "charts"),
    ("storage",),
    ("kernels",),
    ("registry",),
    ("question",),
    ("partitioning",),
    ("tasks",),
    ("cluster",),
    ("api",),
    ("measures",),
    ("reports",),
    ("cli", "networkx_backend"),
]
"""Each may import those above it, and itself."""

SETS_VARIABLES = ("settings.py", "early.py", "__init__.py")
"""Files that read the environment, or set it for libraries."""

HOMES = {
    "cupy": ("papilio/kernels",),
    "numba": ("papilio/kernels/compiling.py",),
    "llvmlite": ("papilio/kernels/compiling.py", "papilio/kernels/code_files.py"),
    "dask": ("papilio/cluster",),
    "distributed": ("papilio/cluster",),
    "dask_cuda": ("papilio/cluster",),
    "dask_jobqueue": ("papilio/cluster",),
    "cryptography": ("papilio/cluster/credentials.py",),
    "pyarrow": ("papilio/storage", "papilio/partitioning"),
    "duckdb": ("papilio/storage", "papilio/partitioning"),
    "networkx": ("papilio/storage", "papilio/networkx_backend.py"),
    "pandas": ("papilio/storage",),
    "polars": ("papilio/storage",),
    "igraph": ("papilio/storage",),
    "scipy": ("papilio/storage",),
    "matplotlib": ("papilio/reports/figures.py", "papilio/charts.py"),
    "packaging": ("papilio/cluster/doctor.py",),
    "jinja2": ("papilio/reports/page.py", "papilio/cluster/sbatch.py"),
    "click": ("papilio/cli",),
    "rich": ("papilio/cli", "papilio/cluster/progress.py"),
}
"""The only places that import each library."""


MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    """Return every imported module of a file, wherever the import stands, with its line."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(name.name, node.lineno) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            assert node.module is not None
            found.append((node.module, node.lineno))
            if node.module.startswith("papilio"):
                found += [(f"{node.module}.{name.name}", node.lineno) for name in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_extra":
            found.append((ast.literal_eval(node.args[0]), node.lineno))
    return tuple(found)


def layer_of(part: str) -> int | None:
    return next((index for index, names in enumerate(LAYERS) if part in names), None)


def test_every_module_belongs_to_a_layer() -> None:
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert {part for part in parts if layer_of(part) is None} == {"__init__", "__main__"}
    gone = {name for names in LAYERS for name in names} - parts
    assert not gone, f"tests/test_imports.py: remove {', '.join(sorted(gone))} from LAYERS; papilio has no such module"


def test_imports_go_one_way() -> None:
    upward = []
    for path in MODULES:
        own = layer_of(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
        for name, line in imports_of(path):
            parts = name.split(".")
            other = layer_of(parts[1]) if parts[0] == "papilio" and len(parts) > 1 else None
            if own is not None and other is not None and other > own:
                upward.append(f"{path.relative_to(ROOT)}:{line} imports {name}, which stands above it")
    assert not upward, "\n".join(upward)


def test_no_two_modules_need_each_other() -> None:
    """Not even by imports inside of functions, or for annotations."""
    parts = ((path.relative_to(ROOT).with_suffix("").parts, path) for path in MODULES)
    names = {".".join(each).removesuffix(".__init__"): path for each, path in parts}
    needs = {
        name: {each for each, _ in imports_of(path)} & (names.keys() - {"papilio"}) for name, path in names.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise AssertionError(f"these import each other: {' -> '.join(error.args[1])}") from None


def test_only_the_settings_read_the_environment() -> None:
    readers = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and path.name not in SETS_VARIABLES
    ]
    assert not readers, f"a row of papilio/settings.py is missing for {', '.join(readers)}"


def test_libraries_stay_at_home() -> None:
    abroad = []
    for path in MODULES:
        place = path.relative_to(ROOT).as_posix()
        for name, line in imports_of(path):
            homes = HOMES.get(name.split(".")[0])
            if homes is not None and not place.startswith(homes):
                abroad.append(f"{place}:{line} imports {name}; only {', '.join(homes)} may")
    assert not abroad, "\n".join(abroad)


BLOCKER = """
import sys

class Blocker:
    def __init__(self, names):
        self.names = names
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker({blocked!r}))
"""


def run_blocked(code: str, *blocked: str) -> str:
    """Run code in a fresh interpreter in which the named packages cannot be imported; return its output."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKER.replace("{blocked!r}", repr(set(blocked))) + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_blocker_blocks() -> None:
    code = "\ntry:\n    import cupy\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    assert run_blocked(code, "cupy").split() == ["cupy"]


def test_planning_counting_and_the_command_line_work_without_optional_libraries() -> None:
    code = """
import papilio
from papilio.cli import cli
graph = papilio.BipartiteGraph.from_edges([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
plan = papilio.plan(graph, papilio.Butterfly())
result = papilio.count(graph, papilio.Butterfly(), per="vertex")
print(plan.engine, plan.n_items, result.engine, result.count, result.vectors["u"].tolist())
try:
    papilio.count(graph, papilio.Butterfly(), engine="gpu")
except papilio.PapilioError as error:
    print(type(error).__name__)
"""
    optional = ("cupy", "dask_cuda", "dask_jobqueue", "bokeh", "networkx", "pandas", "scipy")
    output = run_blocked(code, *optional).splitlines()
    assert output[0].split(" ", 4)[2:] == ["cpu", "3", "[2, 2, 2]"]
    assert output[1] == "EngineUnavailableError"


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = """
import papilio
heavy = {"numpy", "numba", "cupy", "dask", "distributed", "pyarrow", "duckdb", "dask_cuda", "click", "rich"}
print(sorted(heavy & {name.split(".")[0] for name in sys.modules}))
"""
    assert run_blocked(code) == "[]\n"


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_the_command_line_loads_no_heavy_library_before_a_command_is_called(flag: str) -> None:
    code = f"""
from papilio.cli import main
try:
    main([{flag!r}])
except SystemExit as ended:
    assert not ended.code
heavy = {{"numpy", "numba", "cupy", "dask", "distributed", "pyarrow", "duckdb", "rich"}}
print(sorted(heavy & {{name.split(".")[0] for name in sys.modules}}))
print(sorted(name for name in sys.modules if name.startswith("papilio.cli.")))
"""
    *_, libraries, modules = run_blocked(code).splitlines()
    assert (libraries, modules) == (
        "[]",
        "['papilio.cli.app', 'papilio.cli.early', 'papilio.cli.options', 'papilio.cli.report']",
    )


LOADED = """
import gc
import sys
sys.argv = ["papilio", *{words!r}]
from papilio.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
names = {name.split(".")[0] for name in sys.modules if sys.modules[name] is not None}
print(*sorted(name for name in names - sys.stdlib_module_names - {"papilio"} if not name.startswith("_")))
print(gc.get_threshold()[0])
"""
"""Prints the libraries that a command has imported, and after how many new objects Python looks for garbage."""

_HELP = {"click"}
_DESCRIBED = _HELP | {"numpy"}
_READ = _DESCRIBED | {"cloudpickle", "cython_runtime", "psutil", "pyarrow", "xxhash"}
_COUNTED = _READ | {"llvmlite", "numba", "yaml"}


@pytest.mark.parametrize(
    ("words", "libraries"),
    [
        (["--help"], _HELP),
        (["count", "--help"], _DESCRIBED),
        (["count", "butterfly", "--help"], _DESCRIBED),
        (["count", "butterfly", "STORE"], _COUNTED),
        (["plan", "biclique", "STORE", "-p", "2", "-q", "2"], _COUNTED),
        (["info", "STORE"], _READ),
    ],
    ids=lambda each: "" if isinstance(each, set) else " ".join(each),
)
def test_a_command_loads_the_libraries_that_it_needs(
    words: list[str], libraries: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if "STORE" in words:
        graph = BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1])
        path = write_store(tmp_path / "graph", graph, provenance={}).path
        words = [path if word == "STORE" else word for word in words]
    *_, loaded, new_objects = run_blocked(LOADED.replace("{words!r}", repr(words))).splitlines()
    assert set(loaded.split()) <= libraries
    assert int(new_objects) >= 10_000, "Python looks for garbage among the modules that are imported"


def test_reading_a_store_loads_no_pandas(tmp_path: Path) -> None:
    graph = BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], sign=[1, 1, -1, 1])
    path = write_store(tmp_path / "graph", graph, provenance={}).path
    code = f"""
import sys
from papilio.storage.store import open_store
assert open_store({path!r}).read().n_edges == 4
print({{"pandas", "scipy"}} & set(sys.modules))
"""
    assert run_blocked(code) == "set()\n"


@pytest.mark.parametrize("column", ["pa.chunked_array([], pa.uint64())", "pa.array([1, None])", "pa.array(['a'])"])
def test_columns_become_arrays_where_pandas_cannot_be_imported(column: str) -> None:
    code = f"""
import pyarrow as pa
from papilio.storage.edge_files import numbers_of
print(numbers_of({column}).size == len({column}))
"""
    assert run_blocked(code, "pandas", "scipy", "cffi") == "True\n"


def test_inline_counting_loads_neither_dask_nor_cupy_nor_what_reads_job_directories() -> None:
    code = """
import papilio
graph = papilio.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1])
assert papilio.count(graph, papilio.Butterfly(), engine="cpu").count == 1
names = {name.split(".")[0] for name in sys.modules} | set(sys.modules)
slow = {"cupy", "dask", "distributed", "duckdb", "pyarrow.compute"}
print(sorted((slow | {"papilio.tasks.directory", "papilio.tasks.session"}) & names))
"""
    assert run_blocked(code) == "[]\n"


def test_counting_and_decomposing_on_a_gpu_need_no_numba() -> None:
    """Importing it takes as long as planning, reading and counting a small graph."""
    found = sorted((ROOT / "papilio" / "kernels").glob("*/*gpu.py"))
    engines = [f"{path.parent.name}.{path.stem}" for path in found if not path.stem.startswith("list")]
    assert {
        "biclique.gpu",
        "clique.gpu",
        "maximal.gpu",
        "peel.gpu",
        "wedge.gpu",
    } <= set(engines)
    engines += ["peel.decompose", "peel.gpu_index"]
    assert run_blocked("".join(f"import papilio.kernels.{name}\n" for name in engines), "numba", "cupy") == ""


def test_all_exported_names_resolve() -> None:
    import papilio

    assert all(getattr(papilio, name) is not None for name in papilio.__all__)
    assert dir(papilio) == sorted(papilio.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'moth'"):
        _ = papilio.moth  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["count", "project", "Butterfly", "SignificanceResult"])
def test_a_mistyped_name_of_the_package_names_the_right_one_once(name: str) -> None:
    script = f"import papilio\npapilio.{name[:2]}{name[3:]}\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.lower().count(f"did you mean {name!r}".lower()) == 1
    assert done.stderr.lower().count("did you mean") == 1
