"""A Slurm of three virtual nodes on this machine, and jobs in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from papilio.storage.store import GraphStore, write_store
from tests import conftest
from tests.conftest import ROOT, read_edges

START = Path(__file__).with_name("start_slurm.sh")


@dataclass(frozen=True)
class Slurm:
    """The running Slurm and a folder for the jobs of one test.

    Attributes
    ----------
    folder : Path
        Where jobs are submitted; its name has a space.
    jobs : list of str
        What was submitted.
    """

    folder: Path
    jobs: list[str] = field(default_factory=list)

    def render(self, store: str, *flags: str) -> Path:
        """Write a script with ``papilio slurm render``; it uses the environment of the tests."""
        script = self.folder / "job.sbatch"
        setup = f"export PATH={Path(sys.executable).parent}:$PATH"
        command = [sys.executable, "-m", "papilio", "slurm", "render", "count", "butterfly", store]
        command += ["--setup", setup, "--output", str(script), *flags]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=180)
        return script

    def submit(self, script: Path, *flags: str) -> str:
        """Submit a script from the folder and return the job's id."""
        command = ["sbatch", "--parsable", *flags, str(script)]
        answer = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True, timeout=120)
        self.jobs.append(answer.stdout.strip())
        return self.jobs[-1]

    def show(self, job: str) -> dict[str, str]:
        """Return the fields of a job as the controller gives them."""
        answer = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", job],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return dict(word.split("=", 1) for word in answer.stdout.split() if "=" in word)

    def wait(self, job: str, reached: Callable[[dict[str, str]], bool], limit_s: float) -> dict[str, str]:
        """Poll a job until it has reached something; fails with its output after the limit."""
        deadline = time.monotonic() + limit_s
        while not reached(fields := self.show(job)):
            assert time.monotonic() < deadline, (fields, self.output())
            time.sleep(0.1)
        return fields

    def wait_end(self, job: str, limit_s: float) -> dict[str, str]:
        """Wait until a job has ended in any way."""
        running = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED")
        return self.wait(job, lambda fields: fields["JobState"] not in running, limit_s)

    def output(self) -> str:
        """Return all that the jobs of this folder have written."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.[oe][ur][tr]")))


def processes_with(text: str) -> list[str]:
    """Return the command lines of all processes that hold a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


def assert_nothing_is_left(slurm: Slurm) -> None:
    """Fail unless the processes and the run directory of the jobs are gone."""
    deadline = time.monotonic() + 60
    while left := processes_with(str(slurm.folder)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert list(slurm.folder.glob("papilio-run-*")) == []


@pytest.fixture(scope="session")
def slurm_daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Slurm's daemons, for all tests; skips where they cannot run."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (Debian: slurm-wlm and munge)")
    if os.geteuid() != 0:
        pytest.skip("starting a Slurm of its own needs root")
    if shutil.which("papilio", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("the command papilio is not installed beside this Python")
    folder = tmp_path_factory.mktemp("slurm")
    before = os.environ.get("SLURM_CONF")
    try:
        subprocess.run([str(START), "start", str(folder)], check=True, timeout=180)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        yield
    finally:
        subprocess.run([str(START), "stop", str(folder)], check=True, timeout=180)
        if before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = before


def run_slurm(folder: Path) -> Iterator[Slurm]:
    """Give Slurm with a folder below ``folder``, and cancel its jobs afterwards."""
    slurm = Slurm(folder / "job folder")
    slurm.folder.mkdir()
    yield slurm
    if slurm.jobs:
        subprocess.run(["scancel", "--quiet", *slurm.jobs], check=False, timeout=30)


@pytest.fixture
def slurm(slurm_daemons: None, tmp_path: Path) -> Iterator[Slurm]:
    """Slurm, and a folder for this test."""
    yield from run_slurm(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def limited(slurm_daemons: None, votes: GraphStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm | None]:
    """A count with a time limit, submitted first: Slurm looks at time limits every half minute only.

    It waits for more workers than there are, so that it runs when its limit is near. Only a slow test looks at it.
    """
    if not conftest.thorough:
        yield None
        return
    for slurm in run_slurm(tmp_path_factory.mktemp("limited")):
        script = slurm.render(votes.path, "--time", "1", "--grace", "55", "--memory", "1GiB")
        text = script.read_text()
        assert text.count('--workers "$workers"') == 1
        script.write_text(text.replace('--workers "$workers"', "--workers 9"))
        slurm.submit(script)
        yield slurm


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> GraphStore:
    """The bundled votes of the Senate, 25,666,956 butterflies, in a path with a space."""
    graph = read_edges(example_data / "senate-votes.txt.gz", skip_lines=1)
    return write_store(tmp_path_factory.mktemp("slurm store") / "senate votes", graph, provenance={})


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The complete graph K(1900, 1900), whose count takes some ten seconds with one thread."""
    path = tmp_path_factory.mktemp("slurm complete") / "graph"
    command = [sys.executable, "-m", "papilio", "generate", "complete", str(path)]
    command += ["--n-u", "1900", "--n-v", "1900"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return str(path)
