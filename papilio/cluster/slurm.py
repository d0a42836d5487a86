"""The slurm executor: workers that Slurm starts as jobs of their own, through dask-jobqueue."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import dask
from distributed import Client

from papilio.cluster.credentials import say_insecure, tls_config, write_credentials
from papilio.cluster.local import NO_DASHBOARD, WORKER_CONFIG, private_scratch
from papilio.cluster.pool import JOIN_S, DaskPool
from papilio.cluster.sbatch import require_plain
from papilio.errors import ClusterError, EngineUnavailableError, InputError

__all__ = ["NO_LOCKS", "SlurmExecutor", "parse_slurm_options"]

POLL_S = 0.5
"""Between looks at the cluster and at the queue."""

_COMMAND_S = 30.0
"""How long a busy controller may take to answer squeue."""

_HOPELESS = {
    "PartitionConfig",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "BadConstraints",
    "InvalidAccount",
}
"""Reasons for which Slurm keeps a job pending that waiting does not cure."""

_LOST_IN_SCRIPTS = " \"'\\#$`&|;<>()*?[]{}~!"
"""What the scripts of dask-jobqueue, which quotes nothing, would not keep or would run."""

NO_LOCKS = {"distributed.worker.use-file-locking": False}
"""The directory for temporary files is one that nodes share, where locks may be slow, and ends with the run."""

_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "account": ("account", str),
    "cores": ("cores", int),
    "interface": ("interface", str),
    "logs": ("log_directory", str),
    "memory": ("memory", str),
    "partition": ("queue", str),
    "time": ("walltime", str),
}
"""Option, argument of SLURMCluster, conversion; those left out come from Dask's configuration."""


def parse_slurm_options(text: str) -> dict[str, Any]:
    """Return the arguments of SLURMCluster that ``partition=long,cores=4,memory=16GiB`` means.

    ``gpus=1`` asks for as many GPUs per worker.

    Raises
    ------
    InputError
        For an unknown option or a value that does not fit.
    """
    arguments: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, sign, value = item.partition("=")
        if not (sign and value) or (key not in _OPTIONS and key != "gpus"):
            raise InputError(
                f"{item!r} is no option of the slurm cluster; known: {', '.join([*_OPTIONS, 'gpus'])}, "
                "as in slurm:partition=long,cores=4,memory=16GiB,time=01:00:00"
            )
        require_plain(f"{key} of the slurm cluster", value, _LOST_IN_SCRIPTS)
        if key == "gpus":
            arguments["job_extra_directives"] = [f"--gres=gpu:{value}"]
            continue
        name, convert = _OPTIONS[key]
        try:
            arguments[name] = convert(value)
        except ValueError as error:
            raise InputError(f"{key} of the slurm cluster is {value!r}; a whole number") from error
    return arguments


class SlurmExecutor(DaskPool):
    """A SLURMCluster: the scheduler in this process, each worker a job of Slurm.

    Parameters
    ----------
    options : str
        ``key=value`` pairs separated by commas; see :func:`parse_slurm_options`. The rest comes from Dask's
        configuration (``jobqueue.slurm``).
    n_workers : int, optional
        Jobs to submit, one worker each; by default one. The run starts when all of them run.
    insecure : bool
        Whether the scheduler takes connections without credentials.

    Raises
    ------
    EngineUnavailableError
        Without dask-jobqueue or sbatch.
    InputError
        For options that make no sense.
    """

    name = "slurm"
    remedy = (
        "check memory, processes (ulimit -u) and open files (ulimit -n) of this machine, and that the directory which "
        "it shares with the workers (jobqueue.slurm.shared-temp-directory, else the current one) can be written to"
    )

    def __init__(self, options: str = "", n_workers: int | None = None, *, insecure: bool = False) -> None:
        if n_workers is not None and n_workers < 1:
            raise InputError(f"workers is {n_workers}; at least 1")
        self._arguments = parse_slurm_options(options)
        if find_spec("dask_jobqueue") is None:
            raise EngineUnavailableError("the slurm cluster needs dask-jobqueue (install papilio[slurm])")
        if shutil.which("sbatch") is None:
            raise EngineUnavailableError(
                "the slurm cluster needs sbatch, which is not on the PATH; run this on a login node of the "
                "cluster, or write a job script with 'papilio slurm render'"
            )
        super().__init__(n_workers or 1)
        self._cluster: Any = None
        self._insecure = insecure

    def _connect(self, stack: ExitStack) -> Any:
        with _keep_interrupt_handler():
            from dask_jobqueue import SLURMCluster
        # A SLURMCluster that refuses its arguments would complain again when it is collected.
        for key in ("cores", "memory"):
            if not (self._arguments.get(key) or dask.config.get(f"jobqueue.slurm.{key}", None)):
                raise InputError(
                    f"the slurm cluster needs {key} per worker; give them as in slurm:cores=4,memory=16GiB, "
                    f"or in Dask's configuration (jobqueue.slurm.{key})"
                )
        config = self._enter_config(stack)
        scheduler_options = dask.config.get("jobqueue.slurm.scheduler-options", None) or {}
        self._cluster = SLURMCluster(
            processes=1,
            protocol="tcp://" if self._insecure else "tls://",
            scheduler_options={**scheduler_options, **NO_DASHBOARD},
            worker_extra_args=["--no-dashboard", "--dashboard-address", NO_DASHBOARD["dashboard_address"]],
            job_script_prologue=[*_configured("job-script-prologue"), *_worker_environment(config)],
            silence_logs=logging.CRITICAL,
            **self._with_configured_directives(),
        )
        stack.enter_context(self._cluster)
        _try_submission(self._cluster.job_script())
        self._cluster.scale(jobs=self._n_workers)
        return stack.enter_context(Client(self._cluster, set_as_default=False))

    def _enter_config(self, stack: ExitStack) -> dict[str, Any]:
        """Set what the scheduler and its workers are to be configured with until ``stack`` ends, and return it.

        The workers read their credentials, as files, where ``jobqueue.slurm.shared-temp-directory`` says or in the
        current directory.
        """
        shared = dask.config.get("jobqueue.slurm.shared-temp-directory", None) or os.getcwd()
        scratch = stack.enter_context(private_scratch(Path(os.path.expanduser(os.path.expandvars(shared)))))
        config = {**WORKER_CONFIG, "temporary-directory": str(scratch), **NO_LOCKS}
        if self._insecure:
            say_insecure(self.name)
        else:
            write_credentials(scratch / "credentials")
            config |= tls_config(scratch / "credentials")
        stack.enter_context(dask.config.set(config))
        return config

    def _with_configured_directives(self) -> dict[str, Any]:
        extra = self._arguments.get("job_extra_directives", [])
        return {**self._arguments, "job_extra_directives": [*_configured("job-extra-directives"), *extra]}

    def _wait_for_workers(self, n_workers: int) -> None:
        """Wait as long as Slurm keeps the jobs in its queue, and a while once they run."""
        deadline = monotonic() + JOIN_S
        while (found := len(self.live_workers())) < n_workers:
            sleep(POLL_S)
            jobs = [str(job.job_id) for job in self._cluster.workers.values() if job.job_id is not None]
            queue = {job: state for job, state in _read_queue().items() if job in jobs}
            waiting = [state for state in queue.values() if state.startswith("PENDING")]
            hopeless = [state for state in waiting if state.partition(" ")[2] in _HOPELESS]
            if waiting and not hopeless:
                deadline = monotonic() + JOIN_S
            elif hopeless or monotonic() > deadline or (len(jobs) == n_workers and not queue):
                seen = (
                    ", ".join(f"{job} {state}" for job, state in queue.items()) or "none is left in the queue"
                )
                raise ClusterError(
                    f"{found} of {n_workers} workers joined the slurm cluster; jobs: {seen}; look at the output "
                    "of the jobs (slurm:logs=DIR chooses where) and at the partition, cores, memory and time"
                )


def _try_submission(script: str) -> None:
    """Ask Slurm whether it would take the job.

    Raises
    ------
    ClusterError
        With the answer of sbatch when it would not.
    """
    try:
        subprocess.run(
            ["sbatch", "--test-only"],
            input=script, capture_output=True, text=True, timeout=_COMMAND_S, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"sbatch ended with exit code {error.returncode}"]
        raise ClusterError(
            f"Slurm refuses the jobs of the workers: {lines[0]}; change the options"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"sbatch does not answer ({error}); check that Slurm's controller runs") from error


def _read_queue() -> dict[str, str]:
    """Return state and reason of every job of this user that Slurm has not ended, by id."""
    command = ["squeue", "--me", "--noheader", "--format=%i %T %r", "--states=PENDING,CONFIGURING,RUNNING"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterError(f"squeue does not answer ({error}); check that Slurm's controller runs") from error
    return {job: state for job, _, state in (line.partition(" ") for line in answer.stdout.splitlines())}


def _configured(key: str) -> list[str]:
    return list(dask.config.get(f"jobqueue.slurm.{key}", None) or [])


def _worker_environment(config: dict[str, Any]) -> Iterator[str]:
    """Yield the shell lines that give a worker the configuration of this process."""
    for key, value in config.items():
        yield f"export DASK_{key.upper().replace('.', '__').replace('-', '_')}={shlex.quote(str(value))}"


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Undo that importing dask-jobqueue changes what an interrupt does; a no-op once it is imported."""
    if "dask_jobqueue" in sys.modules:
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
