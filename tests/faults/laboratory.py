"""A Dask cluster on hosts of its own, and counts with a job directory on it, while something fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self

import psutil

import papilio
from papilio.storage.graph_models import Planted
from papilio.storage.ledger import read_ledger
from tests.conftest import ROOT
from tests.faults.network import Host, Network

WORKERS = ("worker1", "worker2")
PORT = 8786

DENSITY = 0.7

PATIENCE_S = 150.0
"""How long a condition may take to come true, and a count to end: longer than any time limit of Dask."""

_POLL_S = 0.05


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition; AssertionError naming ``what`` if it takes too long."""
    deadline = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        sleep(_POLL_S)


def write_dense(path: Path, n_u: int) -> None:
    """Write a random graph of ``n_u`` and twice as many vertices: many leases after little to read."""
    noise = round(2 * n_u * n_u * DENSITY)
    papilio.generate(Planted(n_u=n_u, n_v=2 * n_u, count=0, size_u=1, size_v=1, noise=noise), path)


@dataclass(frozen=True)
class Count:
    """One process that counts on the cluster into a job directory.

    ``job`` is where this process finds the directory, which may be on a file system of the client's host alone.
    """

    process: subprocess.Popen[bytes]
    job: Path
    log: Path
    answer: Path

    def leases(self) -> list[dict[str, Any]]:
        """Return the finished leases of the job."""
        ledger = self.job / "ledger.jsonl"
        return [each for each in read_ledger(ledger).records if each["type"] == "lease"] if ledger.exists() else []

    def counted_by(self, worker: str) -> int:
        """Return how many leases of the job a worker has finished."""
        return sum(worker in lease["worker"] for lease in self.leases())

    def wait_for_leases(self, worker: str, n_leases: int = 1) -> None:
        """Wait until a worker has finished so many leases, or the count has ended."""
        self.wait_until(lambda: self.counted_by(worker) >= n_leases, f"{n_leases} leases of {worker}")

    def wait_until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition, or until the count has ended."""
        wait_until(lambda: self.process.poll() is not None or condition(), f"{what}\n{self.messages()}")

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        wait_until(lambda: self.process.poll() is not None, f"the end of a count\n{self.messages()}")
        return self.process.returncode

    def messages(self) -> str:
        """Return what the user sees on standard error."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def last_line(self) -> str:
        return (self.messages().strip().splitlines() or [""])[-1]

    def count(self) -> int | None:
        """Return the count that was printed; None if the process printed none."""
        text = self.answer.read_text(encoding="utf-8")
        return int(json.loads(text)["count"]) if text else None

    def verify(self) -> bool:
        """Return whether the job is finished, and its ledger sealed and without gap or overlap."""
        try:
            papilio.verify_job(self.job)
        except papilio.errors.PapilioError:
            return False
        return True


class Laboratory:
    """A scheduler, two workers of one thread and a client, each on a host of its own.

    The hosts have the file systems of this machine. They count ``motif``, words of the command line such as
    ``biclique -p 5 -q 5``, in the store ``graph``; what the processes write is in ``folder``. Workers have some more
    options of ``dask worker``.
    """

    def __init__(self, folder: Path, graph: Path, motif: Sequence[str], options: Sequence[str] = ()) -> None:
        self.graph = graph
        self._folder, self._motif, self._options = folder, motif, options
        self._network = Network(["scheduler", "client", *WORKERS])
        self._stack = ExitStack()
        self._numbers = count(1)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {}  # of the processes that are started from now on

    def __getitem__(self, name: str) -> Host:
        return self._network[name]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._network)
            stack.callback(self._kill_all)
            self.start_scheduler()
            for name in WORKERS:
                self.start_worker(name)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def enter(self, context: AbstractContextManager[Any]) -> None:
        """Enter a context that is left with the laboratory."""
        self._stack.enter_context(context)

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return f"tcp://{self['scheduler'].address}:{PORT}"

    def log(self, name: str) -> Path:
        """Return the log of a process of the cluster."""
        return self._folder / f"{name}.log"

    def wait_for_log(self, name: str, text: str) -> None:
        """Wait until a process of the cluster has written a text to its log."""
        wait_until(lambda: text in self.log(name).read_text(), f"{text!r} in the log of {name}")

    def new_job(self) -> Path:
        """Return a path at which nothing exists, such as of a job directory."""
        return self._folder / f"job-{next(self._numbers)}"

    def start_scheduler(self) -> None:
        self._start(
            "scheduler", "-m", "distributed.cli.dask_scheduler", "--host", self["scheduler"].address,
            "--port", str(PORT), "--no-dashboard",
        )  # fmt: skip

    def start_worker(self, name: str, *options: str, **environment: str) -> None:
        """Start a worker and its nanny; options of ``dask worker``, and environment variables."""
        self._start(
            name, "-m", "distributed.cli.dask_worker", self.address, "--host", self[name].address, "--nthreads", "1",
            "--no-dashboard", "--local-directory", str(self._folder / name), *self._options, *options, **environment,
        )  # fmt: skip

    def stop(self, name: str) -> None:
        """Kill a process of the cluster and its children."""
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process of the cluster and its children: to a nanny and its worker."""
        parent = psutil.Process(self.processes[name].pid)
        for process in [parent, *parent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill_worker(self, name: str) -> None:
        """Kill a worker process that runs; its nanny starts another one."""
        nanny = psutil.Process(self.processes[name].pid)

        def find() -> list[psutil.Process]:
            return [each for each in nanny.children() if "spawn_main" in " ".join(each.cmdline())]

        wait_until(find, f"a worker process on {name}")
        for process in find():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def count(self, job: Path | None = None, host: str = "client", *options: str) -> Count:
        """Start a count on both workers, with a new job directory or the one of an earlier count."""
        number = next(self._numbers)
        job = job or self.new_job()
        log, answer = self._folder / f"messages-{number}", self._folder / f"answer-{number}"
        with log.open("wb") as messages, answer.open("wb") as printed:
            process = self.papilio(
                host, "count", *self._motif, str(self.graph), "--cluster", self.address, "--engine", "cpu",
                "--job", str(job), "--json", *options,
                stdout=printed, stderr=messages,
            )  # fmt: skip
        return Count(process, self[host].view(job), log, answer)

    def papilio(self, host: str, *arguments: str, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
        """Start a command of papilio on a host; it is killed with the laboratory."""
        process: subprocess.Popen[bytes] = self._python(host, "-m", "papilio", *arguments, stdout=stdout, stderr=stderr)
        self._stack.callback(_kill, process)
        return process

    def _start(self, name: str, *arguments: str, **environment: str) -> None:
        with self.log(name).open("ab") as log:
            self.processes[name] = self._python(name, *arguments, stdout=log, stderr=log, **environment)

    def _python(self, host: str, *arguments: str, stdout: Any, stderr: Any, **environment: str) -> Any:
        environment = self.environment | environment
        path = ":".join(filter(None, [environment.pop("PYTHONPATH", ""), str(ROOT)]))
        return self[host].start(
            sys.executable, *arguments, environment=environment | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=stderr,
        )  # fmt: skip

    def _kill_all(self) -> None:
        for process in self.processes.values():
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, unless it has ended: another one may have its number."""
    if process.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        for each in [*parent.children(recursive=True), parent]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()
