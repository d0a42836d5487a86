"""The slurm executor: each worker is a separate Slurm job, started through dask-jobqueue."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import dask

from papilio.cluster.credentials import tls_config, write_credentials
from papilio.cluster.own_cluster import NO_DASHBOARD, OwnCluster
from papilio.cluster.pool import join_seconds, open_client
from papilio.cluster.sbatch import call_slurm, require_plain
from papilio.errors import ClusterError, EngineUnavailableError, InputError
from papilio.extras import missing_package

POLL_S = 0.5
"""Between looks at the cluster and at the queue."""

_HOPELESS = {
    "BadConstraints",
    "InvalidAccount",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
}
"""Reasons for which Slurm keeps a job pending and that do not pass by waiting."""

_LOST_IN_SCRIPTS = " \"'\\#$`&|;<>()*?[]{}~!"
"""Characters that the scripts of dask-jobqueue, which quotes nothing, would lose or run."""

NO_LOCKS = {"distributed.worker.use-file-locking": False}
"""Nodes share the directory for temporary files, so locks may be slow; it is removed with the run."""

_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "account": ("account", str),
    "cores": ("cores", int),
    "interface": ("interface", str),
    "logs": ("log_directory", str),
    "memory": ("memory", str),
    "partition": ("queue", str),
    "time": ("walltime", str),
}
"""Option, argument of SLURMCluster, conversion; defaults come from Dask's configuration."""


def parse_slurm_options(text: str) -> dict[str, Any]:
    """Return the arguments of SLURMCluster that ``partition=long,cores=4,memory=16GiB`` means.

    ``gpus=1`` requests one GPU per worker. InputError for an unknown option, or an invalid value.
    """
    arguments: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, sign, value = item.partition("=")
        if not (sign and value) or (key not in _OPTIONS and key != "gpus"):
            raise InputError(
                f"{item!r} is not an option of the slurm cluster; known: {', '.join([*_OPTIONS, 'gpus'])}, "
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
            raise InputError(f"{key} of the slurm cluster is {value!r}; expected a whole number") from error
    return arguments


class SlurmExecutor(OwnCluster):
    """A SLURMCluster: the scheduler in this process, each worker a job of Slurm.

    ``options`` is as for :func:`parse_slurm_options`; defaults come from Dask's configuration (``jobqueue.slurm``). The
    run starts when all workers run, by default one.
    """

    name = "slurm"
    remedy = (
        "check memory, processes (ulimit -u) and open files (ulimit -n) of this machine, and that the directory "
        "shared with the workers (jobqueue.slurm.shared-temp-directory, else the current one) is writable"
    )

    def __init__(self, options: str = "", n_workers: int | None = None, *, insecure: bool = False) -> None:
        super().__init__(1 if n_workers is None else n_workers, insecure=insecure)
        self._arguments = parse_slurm_options(options)
        if find_spec("dask_jobqueue") is None:
            raise missing_package("the slurm cluster needs", "dask_jobqueue", "use another cluster")
        if shutil.which("sbatch") is None:
            raise EngineUnavailableError(
                "the slurm cluster needs sbatch, which is not on the PATH; run this on a login node of the "
                "cluster, or write a job script with 'papilio slurm render'"
            )
        self._cluster: Any = None

    def _connect(self, stack: ExitStack) -> Any:
        with _keep_interrupt_handler():
            import dask_jobqueue  # noqa: F401
        # A SLURMCluster that rejects its arguments would complain again when it is collected.
        for key in ("cores", "memory"):
            if not (self._arguments.get(key) or dask.config.get(f"jobqueue.slurm.{key}", None)):
                raise InputError(
                    f"the slurm cluster needs {key} per worker; set them as in slurm:cores=4,memory=16GiB, or in "
                    f"Dask's configuration (jobqueue.slurm.{key})"
                )
        config = self._share_config(stack)
        self._cluster = stack.enter_context(
            self._make_cluster(job_script_prologue=[*_configured("job-script-prologue"), *_exports(config)])
        )
        refusal, script = "Slurm rejects the jobs of the workers", self._cluster.job_script()
        call_slurm(["sbatch", "--test-only"], refusal, "change the options", script=script)
        self._cluster.scale(jobs=self._n_workers)
        return open_client(stack, self._cluster)

    def _make_cluster(self, **common: Any) -> Any:
        from dask_jobqueue import SLURMCluster

        arguments = dict(self._arguments)
        directives = [*_configured("job-extra-directives"), *arguments.pop("job_extra_directives", [])]
        scheduler_options = dask.config.get("jobqueue.slurm.scheduler-options", None) or {}
        return SLURMCluster(
            processes=1,
            protocol="tcp://" if self._insecure else "tls://",
            scheduler_options={**scheduler_options, **NO_DASHBOARD},
            worker_extra_args=["--no-dashboard", "--dashboard-address", NO_DASHBOARD["dashboard_address"]],
            job_extra_directives=directives,
            silence_logs=logging.CRITICAL,
            **arguments,
            **common,
        )

    def _share_config(self, stack: ExitStack) -> dict[str, Any]:
        """Set and return the configuration of the scheduler and its workers until ``stack`` ends.

        The workers read their credentials, as files, from ``jobqueue.slurm.shared-temp-directory`` or from the
        current directory.
        """
        shared = dask.config.get("jobqueue.slurm.shared-temp-directory", None) or os.getcwd()
        config = self._configure(stack, Path(os.path.expanduser(os.path.expandvars(shared)))) | NO_LOCKS
        if not self._insecure:
            folder = Path(config["temporary-directory"], "credentials")
            write_credentials(folder)
            config |= tls_config(folder)
        stack.enter_context(dask.config.set(config))
        return config

    def _wait_for_workers(self, n_workers: int) -> None:
        """Wait as long as Slurm keeps the jobs in its queue, and a while once they run."""
        deadline = monotonic() + join_seconds()
        while (found := len(self.live_workers())) < n_workers:
            sleep(POLL_S)
            jobs = [str(job.job_id) for job in self._cluster.workers.values() if job.job_id is not None]
            queue = {job: state for job, state in _read_queue().items() if job in jobs}
            waiting = [state for state in queue.values() if state.startswith("PENDING")]
            hopeless = [state for state in waiting if state.partition(" ")[2] in _HOPELESS]
            if waiting and not hopeless:
                deadline = monotonic() + join_seconds()
            elif hopeless or monotonic() > deadline or (len(jobs) == n_workers and not queue):
                seen = ", ".join(f"{job} {state}" for job, state in queue.items()) or "none is left in the queue"
                raise ClusterError(
                    f"{found} of {n_workers} workers joined the slurm cluster; jobs: {seen}; check the logs of the "
                    f"jobs (in the directory slurm:logs=DIR) and the partition, cores, memory and time"
                )


def _read_queue() -> dict[str, str]:
    """Return state and reason of every job of this user that Slurm has not ended, by id."""
    command = ["squeue", "--me", "--noheader", "--format=%i %T %r", "--states=PENDING,CONFIGURING,RUNNING"]
    answer = call_slurm(command, "squeue fails", "check that Slurm's controller is running")
    return {job: state for job, _, state in (line.partition(" ") for line in answer.splitlines())}


def _configured(key: str) -> list[str]:
    return list(dask.config.get(f"jobqueue.slurm.{key}", None) or [])


def _exports(config: dict[str, Any]) -> Iterator[str]:
    """Yield the shell lines that give a worker the configuration of this process."""
    for key, value in config.items():
        yield f"export DASK_{key.upper().replace('.', '__').replace('-', '_')}={shlex.quote(str(value))}"


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Restore the handler of SIGINT, which importing dask-jobqueue replaces; a no-op once it is imported."""
    if "dask_jobqueue" in sys.modules:
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
