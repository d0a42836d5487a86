"""What commands begin before they are loaded: the driver of GPUs, and the process that workers come from.

Commands that may count on a GPU of their process start the driver ahead, and no others.

No thread imports: where two threads import at once, one of them may get a module that is half imported.
"""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.store import write_store
from tests.conftest import ROOT
from tests.tools.fake_driver import ASKS_ONLY, build_driver, calls_of, with_driver

CODE = """
from importlib import util
util.find_spec = lambda name: {found}
from papilio.cli.early import begin_driver
begin_driver({words})
"""

WATCHED = """
import sys, threading
from importlib import util
find_spec = util.find_spec
util.find_spec = lambda name: find_spec("sys" if name == "cupy" else name)

class Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        thread = threading.current_thread()
        if thread is threading.main_thread():
            return
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if thread.name == "papilio-driver" or frame.f_globals["__name__"].split(".")[0] == "papilio":
            with open({log!r}, "a") as log:
                print(thread.name, "imports", name, "for", frame.f_globals["__name__"], file=log)

sys.meta_path.insert(0, Watch)
sys.argv = ["papilio", *{words!r}]
from papilio.cli import main
main()
"""
"""Runs a command, and notes what a thread of ours imports; libraries import parts of themselves where they run."""

COMMANDS = """
count butterfly GRAPH --per edge --output edges.parquet --device-memory 2GiB
count biclique GRAPH --all --job job
count maximal-clique FRIENDS
enumerate maximal-biclique GRAPH --output maximal
decompose wing GRAPH --output wings
census GRAPH --pair-side u
measure robins-alexander GRAPH
convert edges.txt converted
partition GRAPH parts --motif butterfly --device-memory 2GiB --host-memory 2GiB
"""


def called(folder: Path, words: list[str], visible: str, has_cupy: bool = True) -> set[str]:
    """Return what is called of a driver that lies in a folder."""
    build_driver(folder)
    log = folder / "calls"
    log.touch()
    code = CODE.replace("{found}", "name" if has_cupy else "None").replace("{words}", repr(words))
    environment = with_driver(folder, log, CUDA_VISIBLE_DEVICES=visible)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment)
    assert process.wait(timeout=600) == 0
    return calls_of(log, process.pid)


@pytest.mark.parametrize(
    "words",
    [["count", "butterfly", "store"], ["decompose", "wing", "store", "--engine", "gpu"]],
    ids=" ".join,
)
def test_one_gpu_gets_a_context(tmp_path: Path, words: list[str]) -> None:
    assert called(tmp_path, words, "1") > {"cuInit", "cuDevicePrimaryCtxRetain"}


@pytest.mark.parametrize("visible", ["0,1", ""])
def test_gpus_of_workers_or_of_no_use_get_none(tmp_path: Path, visible: str) -> None:
    calls = called(tmp_path, ["count", "butterfly", "store"], visible)
    assert {"cuInit"} < calls <= ASKS_ONLY


def test_without_cupy_the_driver_is_left_alone(tmp_path: Path) -> None:
    assert called(tmp_path, ["count", "butterfly", "store"], "1", has_cupy=False) == set()


@pytest.mark.parametrize(
    "words",
    [
        [], ["--help"], ["info", "store"], ["plan", "butterfly", "store"], ["count", "--help"],
        ["count", "butterfly", "store", "--engine", "cpu"], ["count", "butterfly", "store", "--engine=cpu"],
        ["count", "butterfly", "store", "--cluster", "cuda"], ["count", "butterfly", "store", "--cluster=tcp://host:1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_commands_leave_the_driver_alone(tmp_path: Path, words: list[str]) -> None:
    assert called(tmp_path, words, "1") == set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver, two graphs and an edge list."""
    path = tmp_path_factory.mktemp("early")
    u, v = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]
    graph = BipartiteGraph.from_edges(u, v, sign=[1, -1, 1, 1, -1, 1])
    write_store(path / "graph", graph, provenance={})
    write_store(path / "friends", UnipartiteGraph.from_edges([0, 0, 1], [1, 2, 2]), provenance={})
    (path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in zip(u, v, strict=True)), "utf-8")
    return build_driver(path)


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_no_thread_of_a_command_imports(folder: Path, tmp_path: Path, command: str) -> None:
    words = shlex.split(command.replace("GRAPH", str(folder / "graph")).replace("FRIENDS", str(folder / "friends")))
    log = tmp_path / "imports"
    code = WATCHED.replace("{words!r}", repr(words)).replace("{log!r}", repr(str(log)))
    environment = with_driver(folder, PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES="")
    (tmp_path / "edges.txt").write_bytes((folder / "edges.txt").read_bytes())
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert not log.exists(), log.read_text()


def _functions_given_to_threads(tree: ast.Module) -> Iterator[ast.AST]:
    """What a module gives to threads by its own names, and the functions of the module that these call."""
    functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}

    def named(node: ast.expr) -> list[str]:
        if isinstance(node, ast.Lambda):
            return [name for call in ast.walk(node) if isinstance(call, ast.Call) for name in named(call.func)]
        if isinstance(node, ast.Call):  # partial(function, ...)
            return [name for each in node.args for name in named(each)]
        return [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []

    waiting: list[str] = []
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        name = (named(call.func) or [""])[0]
        targets = [each.value for each in call.keywords if each.arg == "target"]
        if name == "Timer":
            targets += call.args[1:2]
        elif name in {"submit", "map"}:
            targets += call.args[:1]
        waiting += [name for each in targets for name in named(each)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in functions and name not in seen:
            seen.add(name)
            yield functions[name]
            calls = (each.func for each in ast.walk(functions[name]) if isinstance(each, ast.Call))
            waiting += [found for each in calls for found in named(each)]


def _imports_in(function: ast.AST) -> list[int]:
    kinds = (ast.Import, ast.ImportFrom)
    return [each.lineno for each in ast.walk(function) if isinstance(each, kinds)]


def test_no_function_given_to_a_thread_imports() -> None:
    found = []
    for path in sorted((ROOT / "papilio").rglob("*.py")):
        for function in _functions_given_to_threads(ast.parse(path.read_text("utf-8"))):
            found += [f"{path.relative_to(ROOT)}:{line}" for line in _imports_in(function)]
    assert found == []
    bad = "def load():\n    import numpy\ndef run():\n    return load()\npool.submit(run)\n"
    assert [_imports_in(each) for each in _functions_given_to_threads(ast.parse(bad))] == [[], [2]]


@pytest.mark.slow
def test_many_commands_on_a_busy_machine(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "imports"
    words = ["count", "butterfly", str(folder / "graph")]
    code = WATCHED.replace("{words!r}", repr(words)).replace("{log!r}", repr(str(log)))
    environment = with_driver(folder, PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES="")
    count = os.cpu_count() or 1
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        for _ in range(max(1, 24 // count)):
            runs = [
                subprocess.Popen(
                    [sys.executable, "-c", code],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                for _ in range(count)
            ]
            for run in runs:
                out, error = run.communicate(timeout=600)
                assert (run.returncode, out.split()[:1]) == (0, [b"3"]), error
                assert b"Exception" not in error
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert not log.exists()


BEGUN = """
import os, signal, time
before = dict(os.environ)
from papilio.cli.early import begin_workers
begin_workers({words})
from multiprocessing import forkserver
pid = forkserver._forkserver._forkserver_pid
changed = {{name for name in os.environ.keys() | before.keys() if os.environ.get(name) != before.get(name)}}
print(pid is not None, sorted(changed), signal.pthread_sigmask(signal.SIG_BLOCK, set()) == set())
if pid is not None:
    while not (given := open(f"/proc/{{pid}}/environ").read().split(chr(0)))[0]:
        time.sleep(0.01)  # its program is being loaded
    while "libarrow" not in open(f"/proc/{{pid}}/maps").read():
        time.sleep(0.02)
    threads = {{open(f"/proc/{{pid}}/task/{{each}}/comm").read().strip() for each in os.listdir(f"/proc/{{pid}}/task")}}
    assert {{each for each in threads if not each.startswith("python")}} <= {{"jemalloc_bg_thd"}}, threads
    blocked = next(line for line in open(f"/proc/{{pid}}/status") if line.startswith("SigBlk"))
    print(sorted(each for each in given if "NUM_THREADS" in each), int(blocked.split()[1], 16))
"""

METHOD = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"


def begun(words: list[str], **variables: str) -> list[str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", METHOD)
    environment = {name: value for name, value in os.environ.items() if name not in names} | variables
    code = BEGUN.format(words=words)
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, text=True, capture_output=True, check=True
    )
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "line",
    ["count butterfly g --cluster local", "scale count clique g --cluster=cuda --workers 2",
     "enumerate biclique g --cluster local:insecure"],
)  # fmt: skip
def test_clusters_of_this_machine_fork_their_workers(line: str) -> None:
    process, given = begun(shlex.split(line), OMP_NUM_THREADS="3")
    assert process == f"True ['{METHOD}'] True", "nothing else is left in the environment or the mask"
    blocked = sum(1 << (each - 1) for each in (signal.SIGINT, signal.SIGTERM))
    assert given == f"['MKL_NUM_THREADS=1', 'OMP_NUM_THREADS=3', 'OPENBLAS_NUM_THREADS=1'] {blocked}"


@pytest.mark.parametrize(
    "line",
    ["count butterfly g", "count butterfly g --cluster inline", "count butterfly g --cluster slurm:nodes=2",
     "count butterfly g --cluster tls://host:8786", "count --cluster local --help", ""],
)  # fmt: skip
def test_other_commands_begin_no_process(line: str) -> None:
    assert begun(shlex.split(line)) == ["False [] True"]


def test_a_directory_too_long_for_a_socket_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    assert begun(["count", "butterfly", "g", "--cluster", "local"], TMPDIR=str(folder)) == ["False [] True"]
    assert list(folder.iterdir()) == []


def test_a_method_that_was_chosen_is_left_alone() -> None:
    assert begun(["count", "butterfly", "g", "--cluster", "local"], **{METHOD: "spawn"}) == ["False [] True"]
