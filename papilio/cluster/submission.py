"""Give a job to a cluster that runs on by itself: check, note, hand over."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client

from papilio.cluster.coordinator import Count, coordinate, dataset_name, task_key
from papilio.cluster.executor import choose_engine
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.selection import OWN_CLUSTERS
from papilio.errors import ClusterError, InputError, JobBusyError
from papilio.families import EngineChoice
from papilio.storage.ledger import find_holder
from papilio.tasks.control import JobControl, Priority, Submission
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import JobSpec
from papilio.tasks.log import JobLog
from papilio.tasks.memory import require_memory
from papilio.tasks.session import JobSession, settings_of

CANCEL_S = 15.0
"""How long to wait for a cancelled coordinator of the same job to stop: it looks once a second."""

PAUSE_S = 0.2

COORDINATOR_PRIORITY = 2**40
"""Before all leases: a coordinator takes its worker's thread for an instant only."""


def submit_job(
    root: Path,
    job: JobSpec,
    *,
    cluster: str | os.PathLike[str] | Client,
    engine: EngineChoice,
    workers: int | None,
    priority: Priority,
    output: Path | None,
    count: Count,
) -> None:
    """Return once a cluster has a job, which it then brings to its end without this process.

    The job is on a store, and its directory ``root`` and ``output`` have the same paths for this process and all
    workers. The coordinator waits for ``workers`` of them before the first lease; ``count`` is ``papilio.count``.
    InputError when the job is submitted already, or the cluster would end with this process. JobBusyError when another
    process runs the job. ClusterError when the cluster cannot be reached, or a worker does not see the store or the job
    directory. PapilioError when the engine or the memory does not fit, as for a count.
    """
    if isinstance(cluster, str) and cluster.split(":")[0] in OWN_CLUSTERS:
        raise InputError(
            f"cluster is {cluster!r}, which ends with this process; submit to a scheduler that stays: an address "
            "such as tcp://host:8786, or a scheduler file"
        )
    with ExistingExecutor(cluster, priority=priority) as executor:
        name, _, chosen = choose_engine(executor, job.settle_engine(engine)[0])
        require_memory(job, name, chosen)
        executor.check_source(job, chosen)
        client: Client = executor.client
        submission = Submission(
            uuid4().hex, client.scheduler.address, engine, workers, priority,
            None if output is None else str(output), socket.gethostname(), time.time(),
        )  # fmt: skip
        _await_cancelled(root)
        settings = settings_of(submission.cluster, engine, None, output)
        with _removed_on_failure(root), JobSession(root, job, job.source, settings):
            _clear_way(client, root, submission.cluster)
            for folder in {root, root if output is None else output.parent}:
                _require_folder(client, folder)
            _hand_over(client, root, submission, count)


def _await_cancelled(root: Path) -> None:
    """Give the coordinator of a cancelled submission the time to stop."""
    if not (root / "job.json").exists():
        return
    directory = JobDirectory(root)
    deadline = time.monotonic() + CANCEL_S
    while find_holder(directory.ledger_path) is not None and time.monotonic() < deadline:
        active = directory.control.active
        if active is None or not directory.control.is_cancelled(submission=active.id):
            return
        time.sleep(PAUSE_S)


@contextmanager
def _removed_on_failure(root: Path) -> Iterator[None]:
    """Remove what was made of a job directory that did not exist before, should the block fail."""
    existed = root.exists()
    is_job = (root / "job.json").exists()
    try:
        yield
    except JobBusyError:
        raise
    except BaseException:
        if not existed:
            shutil.rmtree(root, ignore_errors=True)
        elif not is_job:
            for name in ("job.json", "ledger.jsonl", "ledger.jsonl.lock", "coordinator.log"):
                (root / name).unlink(missing_ok=True)
            shutil.rmtree(root / "control", ignore_errors=True)
        raise


def _clear_way(client: Client, root: Path, address: str) -> None:
    """Refuse a second submission while the first may run; take one that ended off the scheduler.

    The lock of the job is held meanwhile, so that no coordinator is counting and nobody else submits.
    """
    control = JobControl(root)
    active, name = control.active, dataset_name(root)
    cancelled = active is not None and control.is_cancelled(submission=active.id)
    published = name in client.list_datasets()
    task = client.get_dataset(name) if published else None
    if active is not None and not cancelled:
        mine = active.cluster == address
        if (mine and task is not None and task.status == "pending") or not mine:
            raise InputError(
                f"the job of {root} is submitted to {active.cluster} already; "
                f"papilio wait {root} waits for it, papilio cancel {root} takes it back"
            )
    if published:
        client.unpublish_dataset(name)


def find_folder_problem(folder: str, probe: str) -> str | None:
    """Say why this process cannot use a folder that holds the file ``probe``, or None; tries to write there."""
    own = Path(folder) / f"{probe}-{socket.gethostname()}-{os.getpid()}"
    try:
        if (Path(folder) / probe).read_text(encoding="utf-8") != probe:
            return f"{folder} is another directory there"
        own.write_text(probe, encoding="utf-8")
        own.unlink()
    except FileNotFoundError:
        return f"{folder} is not there, or another directory"
    except OSError as error:
        return f"{folder} cannot be written to there ({error.strerror})"
    return None


def _require_folder(client: Client, folder: Path) -> None:
    """Refuse, with a ClusterError, a folder that a worker does not see, or cannot write to."""
    probe = f".papilio-probe-{uuid4().hex}"
    path = folder / probe
    ask: Callable[..., Any] = find_folder_problem
    try:
        path.write_text(probe, encoding="utf-8")
        answers = client.run(ask, str(folder), probe, on_error="return")
    except OSError as error:
        raise InputError(f"{folder} cannot be written to ({error.strerror})") from error
    finally:
        path.unlink(missing_ok=True)
    for address, problem in answers.items():
        # A worker that is there no more does not answer.
        if problem is not None and not isinstance(problem, OSError):
            raise ClusterError(
                f"worker {address} cannot use the job: {problem}; the job directory and the output must lie "
                "where this machine and every worker can write to them under the same path"
            )


def _hand_over(client: Client, root: Path, submission: Submission, count: Count) -> None:
    """Note the submission and give it to the scheduler.

    Publishing answers only after the scheduler has the task, and keeps it when this client is gone.
    """
    control = JobControl(root)
    control.write(submission)
    try:
        task = client.submit(
            coordinate, str(root), submission.id, count,
            key=task_key(submission), pure=False, priority=COORDINATOR_PRIORITY,
        )  # fmt: skip
        client.publish_dataset(task, name=dataset_name(root))
    except BaseException:
        control.withdraw(submission)
        raise
    JobLog(root).write(
        f"submission {submission.id} from {submission.host} to {submission.cluster}, "
        f"priority {submission.priority}"
    )
