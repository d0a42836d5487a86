"""Submitted jobs: their hand-over to a cluster, and their coordinator, a Dask task that dispatches leases from inside.

The coordinator is a task and not an actor: an actor is lost with its worker, while the scheduler runs a task again
elsewhere. It secedes at once, so that the thread of its worker stays free for leases, and it has a separate client:
when its process dies, the scheduler drops that client's requests, so that waiting leases of a dead coordinator are
cancelled, and the results of running ones ignored.

Publication under :func:`dataset_name` keeps the task while no client is connected; the coordinator withdraws it when
the job has ended. A restarted coordinator reads its predecessor's finished leases from the ledger. If the predecessor
still lives, cut off from the scheduler, it holds the lock of the ledger and the new one waits; if either finishes the
job, the other finds it finished.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client, Scheduler, Status, Worker, get_worker, secede

from papilio.cluster.events import Event, LeaseFinished, PhaseStarted, PlanMade
from papilio.cluster.executor import OWN_CLUSTERS, choose_engine
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.pool import find_workers, scheduler_errors_named
from papilio.errors import (
    ClusterError,
    ExecutionError,
    InputError,
    JobBusyError,
    JobCancelledError,
    PapilioError,
    StoreError,
)
from papilio.kernels.engine import EngineChoice
from papilio.storage.ledger import find_holder
from papilio.system_errors import explain
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import JobSpec, digest, open_job_partition
from papilio.tasks.job_remote import JobLog
from papilio.tasks.job_state import Coordinator, CoordinatorState, JobControl, Priority, Submission
from papilio.tasks.memory import require_memory
from papilio.tasks.result import CountResult
from papilio.tasks.session import JobSession, settings_of

Count = Callable[..., CountResult]
"""``papilio.count``, passed as an argument since it is in a higher layer than this package."""

WATCH_S = 1.0
"""Interval at which the coordinator checks for a request to cancel, for its own worker and for the others."""

CONNECT_S = 30.0
"""How long to try the scheduler, which has just started this task."""

MAX_LOSSES = 3
"""Workers that the coordinator may lose without a lease finished in between, before the job is given up. The scheduler
gives up after the same number (``distributed.scheduler.allowed-failures``), but silently."""

PROGRESS_S = 60.0
"""Time between two lines on progress in the log."""

RETRY_S = 10.0
"""Time between two attempts to record how the job ended, on a disk that was full."""

_RUNNING = (Status.running, Status.paused, Status.init)


GRACE_S = 5.0
"""Time for the own worker to notice the loss of the scheduler as well."""


class _DisplacedError(ClusterError):
    """Another coordinator takes over: the worker of this one ends, or the job was submitted again."""


def dataset_name(root: Path) -> str:
    """Return the name under which the coordinator of a job directory is published on its scheduler."""
    return f"papilio-job-{digest(str(root))}"


def task_key(submission: Submission) -> str:
    """Return the key of the coordinator's task."""
    return f"papilio-coordinate-{submission.id}"


def coordinate(path: str, submission_id: str, count: Count) -> str:
    """Run the job of a directory to its end, as a Dask task, and return its final state.

    A later submission of the directory than ``submission_id`` makes this one void. ``count`` is ``papilio.count``.
    """
    worker = get_worker()
    secede()
    root = Path(path)
    control = JobControl(root)
    submission, before = control.submission, control.coordinator
    if submission is None or submission.id != submission_id:
        JobLog(root).write(f"submission {submission_id} is void: the job was submitted again")
        return "void"
    state = "ended"
    with Client(worker.scheduler.address, security=worker.security, set_as_default=False, timeout=CONNECT_S) as client:
        if before is None or not before.ended:
            state = _Coordinator(worker, client, root, submission, before).run(count)
        if state != "displaced":
            client.unpublish_dataset(dataset_name(root))
    return state


class _Coordinator:
    """One start of the coordinator of one submission."""

    def __init__(
        self, worker: Worker, client: Client, root: Path, submission: Submission, before: Coordinator | None
    ) -> None:
        self._client, self._root, self._submission = client, root, submission
        self._control, self._log = JobControl(root), JobLog(root)
        self._lost = before
        self._me = Coordinator(
            submission=submission.id,
            attempt=1 if before is None else before.attempt + 1,
            losses=0 if before is None else before.losses + 1,
            host=socket.gethostname(),
            pid=os.getpid(),
            worker=worker.address,
            state="waiting",
            reason=None,
            n_sessions=0,
            written_at=time.time(),
        )
        self._worker = worker
        self._hosts: dict[str, str] = {}  # of the workers that the scheduler knows, by address
        self._progress_at, self._looked_at = time.monotonic(), 0.0
        self._work_done = self._work = 0

    def run(self, count: Count) -> str:
        """Bring the job to an end, record and return its state; ``displaced`` when another coordinator took over."""
        state: CoordinatorState
        reason: str | None
        try:
            self._begin()
            result = self._count_when_free(count)
        except JobCancelledError:
            state, reason = "cancelled", None
        except PapilioError as error:
            if isinstance(error, _DisplacedError) or (
                isinstance(error, ClusterError) and self._own_worker_ends(GRACE_S)
            ):
                self._log.write(f"this coordinator is superseded: {error}")
                return "displaced"
            state, reason = "failed", str(error)
        except Exception as error:
            state, reason = "failed", f"{type(error).__name__}: {error}"
            self._log.write(traceback.format_exc())
        else:
            state, reason = "finished", None
            self._log.write(f"count {result.count}, {result.leases} leases, {result.leases_before} from before")
        self._end(state, reason)
        return state

    def _begin(self) -> None:
        me, lost = self._me, self._lost
        self._log.write(
            f"coordinator {me.attempt} of submission {me.submission} begins: process {me.pid} on {me.host}, "
            f"worker {me.worker}"
        )
        if lost is not None:
            self._log.write(
                f"its predecessor, process {lost.pid} on {lost.host}, was lost; leases missing from the ledger are "
                f"dispatched again"
            )
            if me.losses >= MAX_LOSSES:
                raise ExecutionError(
                    f"the coordinator was lost with its worker {me.losses} times without finishing a lease, most "
                    f"recently on {lost.host}; see the workers' logs (out of memory?)"
                )
        self._note("waiting", "its coordinator has just started")

    def _count_when_free(self, count: Count) -> CountResult:
        """Count once enough workers run and no other process has the ledger."""
        submission, directory = self._submission, JobDirectory(self._root)
        source = directory.source
        if source is None:
            raise StoreError(f"{self._root}: the graph was in memory; a submitted job needs a store")
        wanted = submission.workers or 1
        if not directory.history().sessions:
            self._wait_while(lambda: self._missing_workers(wanted))
        while True:
            self._wait_while(self._other_holder)
            self._check()
            try:
                with ExistingExecutor(self._client, priority=submission.priority, inside_worker=True) as executor:
                    executor.interrupt = self._check
                    return count(
                        source, directory.job.motif, cluster=executor, engine=submission.engine,
                        output=submission.output, progress=self._listen, **directory.arguments,
                    )  # fmt: skip
            except JobBusyError as error:
                self._log.write(str(error))

    def _wait_while(self, problem: Callable[[], str | None]) -> None:
        """Wait while there is a problem, and record it."""
        said = None
        while (what := problem()) is not None:
            if what != said:
                said = what
                self._note("waiting", what)
                self._log.write(f"waits: {what}")
            self._check()
            time.sleep(WATCH_S)

    def _missing_workers(self, wanted: int) -> str | None:
        found = len(find_workers(self._client))
        return None if found >= wanted else f"{found} of {wanted} workers have joined"

    def _other_holder(self) -> str | None:
        holder = find_holder(self._root / "ledger.jsonl")
        return None if holder is None else f"process {holder.pid} on {holder.host} is running the job"

    def _check(self) -> None:
        """Raise the reason to end the run: JobCancelledError, or another coordinator takes over."""
        if self._worker.status not in _RUNNING:
            raise _DisplacedError(f"its worker {self._worker.address} ends")
        if self._control.is_cancelled(submission=self._submission.id):
            raise JobCancelledError("the job was cancelled")
        submission = self._control.submission
        if submission is None or submission.id != self._submission.id:
            raise _DisplacedError("the job was submitted again")
        if time.monotonic() - self._looked_at >= WATCH_S and self._client.status == "running":
            self._looked_at = time.monotonic()
            with suppress(OSError, TimeoutError, ValueError):
                self._log_workers(find_workers(self._client))

    def _log_workers(self, known: dict[str, dict[str, Any]]) -> None:
        before, self._hosts = self._hosts, {name: str(info.get("host")) for name, info in known.items()}
        for address in self._hosts.keys() - before.keys():
            self._log.write(f"worker {address} on {self._hosts[address]} joined")
        for address in before.keys() - self._hosts.keys():
            self._log.write(f"worker {address} on {before[address]} left; its leases are dispatched again")

    def _own_worker_ends(self, within_s: float) -> bool:
        """Whether the worker that this runs in ends, after which the scheduler starts another coordinator."""
        deadline = time.monotonic() + within_s
        while self._worker.status in _RUNNING and time.monotonic() < deadline:
            time.sleep(0.1)
        return self._worker.status not in _RUNNING

    def _listen(self, event: Event) -> None:
        self._check()
        match event:
            case PhaseStarted(name):
                self._log.write(f"phase {name}")
                if name == "run":
                    self._note("running", None)
            case PlanMade(plan):
                self._work, self._work_done = plan.predicted_ns, plan.work_finished
                self._log.write(
                    f"plan {plan.key}: {plan.n_items} items, {plan.total_work} {plan.work_unit}, "
                    f"{plan.work_finished / max(plan.predicted_ns, 1):.1%} of them already done, about "
                    f"{plan.predicted_run_s:.3g} s left; engine {plan.engine}, {plan.n_workers} workers"
                )
            case LeaseFinished(_, work):
                self._work_done += work
                self._count_progress()

    def _count_progress(self) -> None:
        """Forgive earlier losses at the first finished lease; log progress from time to time."""
        if self._me.losses:
            self._me = replace(self._me, losses=0)
            self._note("running", None)
            self._client.run_on_scheduler(forgive_losses, task_key(self._submission))
        if time.monotonic() - self._progress_at >= PROGRESS_S:
            self._progress_at = time.monotonic()
            self._log.write(f"{self._work_done / max(self._work, 1):.1%} done")

    def _note(self, state: CoordinatorState, reason: str | None) -> None:
        self._me = replace(
            self._me,
            state=state,
            reason=reason,
            n_sessions=len(JobDirectory(self._root).history().sessions),
            written_at=time.time(),
        )
        self._control.write(self._me)

    def _end(self, state: CoordinatorState, reason: str | None) -> None:
        """Record how the job ended, retrying as long as it takes: no other process can."""
        self._log.write(state if reason is None else f"{state}: {reason}")
        while True:
            try:
                self._note(state, reason)
                return
            except StoreError as error:
                self._log.write(f"cannot record the end of the job; trying again: {error}")
                if not self._root.is_dir():
                    return
                time.sleep(RETRY_S)


def forgive_losses(key: str, dask_scheduler: Scheduler) -> None:
    """Reset the scheduler's count of workers that a task has lost: a job of days may lose many, one by one."""
    task = dask_scheduler.tasks.get(key)
    if task is not None:
        task.suspicious = 0


CANCEL_S = 15.0
"""How long to wait for a cancelled coordinator of the same job to stop: it checks once a second."""

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
    """Submit a job to a cluster, which then runs it to its end without this process.

    Returns once the cluster has the job. The job is on a store, and its directory ``root`` and ``output`` have the same
    paths for this process and all workers. The coordinator waits for ``workers`` of them before the first lease;
    ``count`` is ``papilio.count``. InputError if the job is submitted already, or the cluster would end with this
    process. JobBusyError if another process runs the job. ClusterError if the cluster cannot be reached, or a
    worker does not see the store or the job directory. PapilioError if the engine or the memory does not fit, as for
    a count.
    """
    if isinstance(cluster, str) and cluster.split(":")[0] in OWN_CLUSTERS:
        raise InputError(
            f"cluster is {cluster!r}, which ends with this process; submit to a permanent scheduler: an address such "
            f"as tcp://host:8786, or a scheduler file"
        )
    with ExistingExecutor(cluster, priority=priority) as executor:
        name, _, chosen = choose_engine(executor, job.settle_engine(engine)[0])
        manifest = None if job.partition is None else open_job_partition(job).manifest
        require_memory(job, name, chosen, manifest)
        executor.check_source(job, chosen)
        client: Client = executor.client
        submission = Submission(
            uuid4().hex, client.scheduler.address, engine, workers, priority,
            None if output is None else str(output), socket.gethostname(), time.time(),
        )  # fmt: skip
        _await_cancelled(root)
        settings = settings_of(submission.cluster, engine, None, output)
        with _removed_on_failure(root), JobSession(root, job, job.source, settings), scheduler_errors_named(client):
            _clear_way(client, root, submission.cluster)
            for folder in {root, root if output is None else output.parent}:
                _require_folder(client, folder)
            _hand_over(client, root, submission, count)


def _await_cancelled(root: Path) -> None:
    """Wait for the coordinator of a cancelled submission to stop."""
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
    """Remove a job directory that is new, or its new files, if the block fails."""
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
    """Reject a second submission while the first may run; remove an ended one from the scheduler.

    The lock of the job is held meanwhile, so that no coordinator is counting and no other process submits.
    """
    control = JobControl(root)
    active, name = control.active, dataset_name(root)
    published = name in client.list_datasets()
    pending = published and client.get_dataset(name).status == "pending"
    is_live = active is not None and not control.is_cancelled(submission=active.id)
    if active is not None and is_live and (pending or active.cluster != address):
        raise InputError(
            f"the job of {root} is already submitted to {active.cluster}; papilio wait {root} waits for it, papilio "
            f"cancel {root} cancels it"
        )
    if published:
        client.unpublish_dataset(name)


def find_folder_problem(folder: str, probe: str) -> str | None:
    """Return why this process cannot use a folder that holds the file ``probe``, or None; tries to write there."""
    own = Path(folder) / f"{probe}-{socket.gethostname()}-{os.getpid()}"
    try:
        if (Path(folder) / probe).read_text(encoding="utf-8") != probe:
            return f"{folder} is a different directory there"
        own.write_text(probe, encoding="utf-8")
        own.unlink()
    except FileNotFoundError:
        return f"{folder} does not exist there, or is a different directory"
    except OSError as error:
        return f"{folder} cannot be written to there {explain(error)}"
    return None


def _require_folder(client: Client, folder: Path) -> None:
    """Raise ClusterError for a folder that a worker does not see, or cannot write to."""
    probe = f".papilio-probe-{uuid4().hex}"
    path = folder / probe
    ask: Callable[..., Any] = find_folder_problem
    try:
        path.write_text(probe, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written to {explain(error)}") from error
    try:
        answers = client.run(ask, str(folder), probe, on_error="return")
    finally:
        path.unlink(missing_ok=True)
    for address, problem in answers.items():
        # A worker that has left does not answer.
        if problem is not None and not isinstance(problem, OSError):
            raise ClusterError(
                f"worker {address} cannot use the job: {problem}; this machine and every worker must be able to "
                f"write to the job directory and the output under the same path"
            )


def _hand_over(client: Client, root: Path, submission: Submission, count: Count) -> None:
    """Record the submission and give it to the scheduler.

    Publishing returns only after the scheduler has the task, and keeps it when this client is gone.
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
        f"submission {submission.id} from {submission.host} to {submission.cluster}, priority {submission.priority}"
    )
