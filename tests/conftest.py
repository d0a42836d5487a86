"""What the whole suite shares: caches, which tests can run here, engines, real graphs, the bundled examples."""

from __future__ import annotations

import gc
import gzip
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from papilio.cli import early
from papilio.errors import EngineUnavailableError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.discovery import list_gpus
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.motifs import Butterfly, Granularity
from papilio.registry import load_engine
from papilio.tasks import forecast
from tests.tools import numba_cache
from tests.tools.commands import Run, run_command
from tests.tools.costs import CostReport
from tests.tools.devices import emulator
from tests.tools.selection import leave_out, read_names

ROOT = Path(__file__).resolve().parents[1]

EMULATOR_SEED = 20_261_121
"""Of the thread schedule in the emulator; the emulator's own tests run many schedules."""

FIRST = (
    "tests/slurm", "cluster/test_submit.py", "biclique/test_biclique.py", "cli/test_jobs.py", "device/test_compile.py",
    "cluster/test_failures.py", "kernels/test_reference_values.py", "biclique/test_gpu_biclique", "tests/reports",
    "tests/cluster", "wedge/test_butterfly.py", "wedge/test_wedge_part.py", "search/test_warp_orders.py",
    "tests/test_signals.py", "tests/test_examples.py", "tests/test_tampering.py",
)  # fmt: skip
"""What takes longest or waits most of its time begins first, and the rest overlaps with it."""

SKIP_LINES = 10

START_METHOD = "distributed.worker.multiprocessing-method"
"""Of Dask's workers, in its configuration."""

SET_BY_LIBRARIES = {
    "context variable decimal_context",
    "environment variable PYTEST_CURRENT_TEST",
    "environment variable _RJEM_MALLOC_CONF",  # Polars, when it is imported
    *(  # Dask, for the processes of workers that are on GPUs
        f"environment variable {name}"
        for name in (
            "MALLOC_TRIM_THRESHOLD_",
            "MKL_NUM_THREADS",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "PYTHONHASHSEED",
            "RAPIDS_NO_INITIALIZE",
            "__DASK_PARENT_PID",
        )
    ),
}
"""What changes during a test and is none of its doing."""

# Hundreds of processes start below: where bytecode is not kept, each compiles all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files of tests lie in memory if it has room, as a disk makes most tests wait. TMPDIR names another place.
with suppress(OSError):
    room = os.statvfs("/dev/shm")
    if room.f_bavail * room.f_frsize >= 4 << 30 and not room.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("TMPDIR", "/dev/shm")
        tempfile.tempdir = None  # found by pytest before

# A child that crashes says where.
os.environ.setdefault("PYTHONFAULTHANDLER", "1")

numba_cache.share()
gc.disable()  # until all is collected: what is imported stays

# A busy machine may take longer for a probe than users would wait for one.
forecast.SLOW_PROBES_S = 600.0

# How long an example takes says how busy the machine is.
settings.register_profile("papilio", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("papilio")


_describe_failure = subprocess.CalledProcessError.__str__


def _describe_with_output(error: subprocess.CalledProcessError) -> str:
    said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
    return f"{_describe_failure(error)}\n{said or ''}".rstrip()


# A failed child process is reported with its last words.
subprocess.CalledProcessError.__str__ = _describe_with_output  # type: ignore[method-assign]

thorough = True
"""Whether slow tests run; laws are then tried on all their examples, else on a third of them."""


def pytest_configure(config: pytest.Config) -> None:
    """Note which run this is, also for the laws that do not say how many examples they are tried on."""
    config.pluginmanager.register(CostReport(), "papilio-costs")
    global thorough
    thorough = "not slow" not in config.option.markexpr
    usual = settings.get_profile("papilio")
    settings.register_profile("papilio", usual, max_examples=share_of_examples(usual.max_examples))
    settings.load_profile("papilio")


def share_of_examples(number: int) -> int:
    """Return how many of the examples of a law this run tries."""
    return number if thorough else -(-number // 3)


def check_law(max_examples: int, strategy: st.SearchStrategy[Any], law: Callable[[Any], None]) -> None:
    """Run a law over drawn examples, the same ones each time."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings(
        max_examples=share_of_examples(max_examples),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=checks,
    )(given(strategy)(lambda example: law(example)))()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each processor, as the tests of clusters mostly wait; not more than memory is sure to hold."""
    return min(8, 2 * len(os.sched_getaffinity(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give whole files to the processes."""
    from tests.tools.schedule import FileSchedule

    return FileSchedule(config, log)


def is_of_all_tests(config: pytest.Config) -> bool:
    """Return whether no folder or file was chosen."""
    return [Path(arg).resolve() for arg in config.args] == [ROOT / "tests"]


def pytest_collection(session: pytest.Session) -> None:
    """In a run of all tests, import other files first in each process: what one has compiled the others find."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or not is_of_all_tests(session.config):
        return
    own = slice(int(worker["workerid"].removeprefix("gw")), None, worker["workercount"])
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[own]:
        with suppress(Exception, pytest.skip.Exception):  # collecting the file tells
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what takes longest first, and leave out what needs a GPU where the driver knows none."""
    items.sort(key=lambda item: next((at for at, place in enumerate(FIRST) if place in item.nodeid), len(FIRST)))
    unknown = leave_out(items, read_names())
    if unknown and is_of_all_tests(config):
        raise pytest.UsageError(f"tests/slow.txt names tests that do not exist: {', '.join(sorted(unknown))}")
    if list_gpus():
        return
    left_out = [item for item in items if {"gpu", "multi_gpu"} & {mark.name for mark in item.iter_markers()}]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of all later garbage collections: it stays, and is most of the heap."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let the end of the process collect all: some libraries report what is left of theirs."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a few lines what did not run, and why."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    if not list_gpus():
        terminalreporter.write_line("not run: what needs a GPU, the driver knows none here")
    for reason, number in reasons.most_common(SKIP_LINES):
        terminalreporter.write_line(f"skipped: {number} times, {reason.splitlines()[0][:200]}")
    if len(reasons) > SKIP_LINES:
        rest = sum(reasons.values()) - sum(number for _, number in reasons.most_common(SKIP_LINES))
        terminalreporter.write_line(f"skipped: {rest} times for other reasons; -rs shows them")


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect what closed clusters left in cycles here, not in a later test that would be blamed for it.

    What is left then stays, and later collections need not go through it.
    """
    yield
    if "distributed" not in sys.modules:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def conversions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep conversions of files in a cache of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPILIO_CACHE", str(tmp_path_factory.mktemp("conversions")))
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_workers(conversions: None) -> None:
    """Fork the workers of local clusters from a process that has imported their libraries, as the command line does.

    A start takes a fifth of the processor time. ``tests/cluster/test_executors.py`` has workers that start afresh, too.
    """
    if "distributed" in sys.modules:
        early.begin_workers(["--cluster", "local"])
        sys.modules["dask"].config.set({START_METHOD: os.environ.pop(early._METHOD, "spawn")})


def state_of_process() -> dict[str, object]:
    """Return what a test must leave as it found it: the folder, environment variables, context variables."""
    variables = {f"environment variable {name}": value for name, value in os.environ.items()}
    context = {f"context variable {variable.name}": value for variable, value in copy_context().items()}
    return variables | context | {"current folder": os.getcwd()}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Blame the test that leaves something behind, not those that come after it in this order alone."""
    before = state_of_process()
    yield
    after = state_of_process()
    left = {name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)}
    changed = {name for name in left if before.get(name) != after.get(name)} - SET_BY_LIBRARIES
    assert not changed, f"the test leaves changed: {', '.join(sorted(changed))}"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""
    return lambda *args: run_command(capsys, *args)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the reference graphs, which lie beside the repository and not in it."""
    path = ROOT / ".." / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"reference graphs are not at {path}")
    return path


@pytest.fixture(scope="session")
def example_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the graphs of the package: women and events are numbers from 0 on, in their order."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "senate-votes.txt.gz").symlink_to(ROOT / "papilio" / "data" / "senate-votes.txt.gz")
    _, *lines = (ROOT / "papilio" / "data" / "southern-women.csv").read_text().splitlines()
    pairs = [line.split(",") for line in lines]
    women = list(dict.fromkeys(woman for woman, _ in pairs))
    with gzip.open(folder / "southern-women.txt.gz", "wt") as file:
        file.writelines(f"{women.index(woman)} {int(event[1:]) - 1}\n" for woman, event in pairs)
    return folder


def read_edges(path: Path, skip_lines: int = 0) -> BipartiteGraph:
    """Read a gzip file of 0-based ``u v ...`` lines; independent of the package's readers."""
    with gzip.open(path, "rt") as file:
        for _ in range(skip_lines):
            file.readline()
        first = file.readline()
        rest = file.read()
    columns = len(first.split())
    table = np.fromstring(first + rest, dtype=np.float64, sep=" ").reshape(-1, columns)
    ids = table[:, :2].astype(np.int64)
    return BipartiteGraph.from_edges(ids[:, 0], ids[:, 1])


@pytest.fixture(scope="session")
def reference_graph(shared_data: Path) -> Callable[[str], BipartiteGraph]:
    """Return the reader of a reference graph by its name; each file is read once."""
    graphs: dict[str, BipartiteGraph] = {}

    def read(name: str) -> BipartiteGraph:
        if name not in graphs:
            graphs[name] = read_edges(shared_data / "bipartite" / f"{name}.txt.gz")
        return graphs[name]

    return read


@dataclass(frozen=True)
class EngineCase:
    """An engine under test and how much can be asked of it.

    Attributes
    ----------
    name : str
        Parameter of the fixture.
    engine : Engine
        The engine.
    max_examples : int
        Hypothesis examples per law.
    max_side : int
        Largest layer of a drawn graph.
    max_wedges : int
        Larger explicit graphs are skipped: the emulator runs some hundred thousand wedges a second.
    """

    name: str
    engine: Engine
    max_examples: int
    max_side: int
    max_wedges: int

    def count(self, graph: BipartiteGraph, per: Granularity = "total") -> Partial:
        """Count all items at once."""
        prepared = self.engine.prepare(graph, Butterfly(), per)
        return self.engine.run(prepared, 0, prepared.n_items)

    def count_split(self, graph: BipartiteGraph, per: Granularity, cuts: list[int]) -> Partial:
        """Count the items in intervals that end at the cuts, in a shuffled order, and fold."""
        prepared = self.engine.prepare(graph, Butterfly(), per)
        ends = sorted({min(cut, prepared.n_items) for cut in cuts} | {prepared.n_items})
        starts = [0, *ends[:-1]]
        intervals = list(zip(starts, ends, strict=True))
        intervals = intervals[1::2] + intervals[::2]
        folded = self.engine.run(prepared, *intervals[0])
        for start, stop in intervals[1:]:
            folded = fold_partials(folded, self.engine.run(prepared, start, stop))
        return folded

    def need(self, wedges: int) -> None:
        """Skip the test when its graph has more wedges than this engine is asked to scan."""
        if wedges > self.max_wedges:
            pytest.skip(f"{wedges} wedges; the {self.name} engine is tested up to {self.max_wedges}")

    def check(self, strategy: st.SearchStrategy[Any], law: Callable[[Any], None]) -> None:
        """Run a law over drawn examples."""
        check_law(self.max_examples, strategy, law)


def make_engine_case(name: str) -> EngineCase:
    """Build one engine of the fixture, or skip with the reason why it cannot run here."""
    if name == "cpu":
        from papilio.kernels.wedge.cpu import ButterflyCpu

        return EngineCase(name, ButterflyCpu(threads=2), 60, 14, 10**9)
    if name == "emulator":
        from papilio.kernels.wedge.gpu import ButterflyGpu

        return EngineCase(name, ButterflyGpu(emulator(EMULATOR_SEED)), 20, 12, 250_000)
    try:
        return EngineCase(name, load_engine(Butterfly(), "gpu"), 60, 14, 10**11)
    except EngineUnavailableError as error:
        pytest.skip(str(error))


ENGINES = ["cpu", "emulator", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineCase:
    """Each engine in turn: Numba, the CUDA sources on the emulator, the CUDA sources on a GPU."""
    return make_engine_case(request.param)
