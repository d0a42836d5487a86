"""A job directory: all state of one job, readable while it runs and after it was killed.

    job.json          the question, the version of Papilio that began it, its settings
    plan.json         the plan of the first session; its key identifies the items
    ledger.jsonl      sessions and finished leases, see :mod:`papilio.storage.ledger`
    shards/N/         vectors of the leases that session N finished, or their listed rows
    vectors.parquet   their sum, once the job is finished
    result.json       the answer; its presence makes the job finished
    partition/        parts of the graph, if they were cut for this job
    control/          of a job that was submitted to a cluster, see :mod:`papilio.tasks.job_state`
    coordinator.log   its log there

This module reads; :mod:`papilio.tasks.session` writes.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from papilio.arguments import checked
from papilio.errors import (
    ClusterError,
    InputError,
    PapilioError,
    StoreError,
    StoreNotFoundError,
    TilingError,
    fault_of,
)
from papilio.kernels.engine import EngineChoice
from papilio.motifs import motif_to_json
from papilio.signals import set_advice
from papilio.storage.answers import Previewed, read_partial_shard
from papilio.storage.files import local_path, os_errors_named
from papilio.storage.ledger import LedgerContent, find_holder, read_ledger
from papilio.storage.records import read_json, read_record, read_sealed, require_format
from papilio.tasks.job import JobSpec, digest
from papilio.tasks.job_answer import ADVICE, JobAnswer, LedgerEnd, check_answer
from papilio.tasks.job_state import JobControl, JobHistory, JobStatus, SessionInfo, find_state, read_history
from papilio.tasks.leases import FinishedIntervals
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult
from papilio.version import __version__

__all__ = [
    "JobDirectory",
    "JobHistory",
    "JobStatus",
    "SessionInfo",
    "advise_resume",
    "find_finished",
    "list_jobs",
    "naming_resume",
    "resume_command",
]

FORMAT, FORMAT_VERSION = "papilio-job", 2

_SEARCH_DEPTH = 3
"""Levels below the root at which job directories are searched for."""


@dataclass(frozen=True)
class _Settings:
    cluster: str | None
    engine: EngineChoice
    workers: int | None
    output: str | None


@dataclass(frozen=True)
class _Description:
    may_grow: ClassVar[bool] = True

    version: str
    created_at: float
    source: str | None
    job: JobSpec
    plan_key: str | None
    settings: _Settings
    # The file of edges whose conversion in the cache is the source, and how it was read, as JSON; jobs of earlier
    # versions have none.
    file: str | None = None
    reading: str = "{}"


class JobDirectory(Previewed):
    """A job directory opened for reading; opening it reads ``job.json`` only.

    StoreError if it is not a job directory, or of a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = local_path(path)
        file, again = str(self.root / "job.json"), "choose another job directory, and count again"
        self.described = require_format(self._read("job.json", read_json), file, FORMAT, FORMAT_VERSION, "a job", again)
        self._description = read_record(_Description, self.described, file, ADVICE)
        self.ledger_path, self.control = self.root / "ledger.jsonl", JobControl(self.root)
        # The question, on its original store, and the path of that store; None for a graph in memory.
        self.job, self.source = self._description.job, self._description.source
        self.plan_key = self._description.plan_key  # identity of the items; None until the job was planned

    def _read(self, name: str, read: Callable[[Path, str], Any] = read_sealed) -> Any:
        try:
            return read(self.root / name, ADVICE)
        except FileNotFoundError as error:
            kind = StoreError if self.root.exists() else StoreNotFoundError
            raise kind(f"{self.root} is not a job directory: it has no {name}") from error

    @property
    def headline(self) -> str:
        """Question, state, share done, and the command that resumes an unfinished job, in one line."""
        try:
            status = self.status()
        except PapilioError as error:
            return f"job {self.root}: {self.job.title}, unreadable ({error})"
        return status.headline + ("" if status.count is not None else f"; to continue: {resume_command(self.root)}")

    @property
    def settings(self) -> dict[str, Any]:
        """``cluster``, ``engine``, ``workers`` and ``output`` of the first session."""
        return asdict(self._description.settings)

    @property
    def converted_file(self) -> tuple[str, dict[str, Any]] | None:
        """The file of edges converted for the job, with the options of :func:`papilio.read`; None for others."""
        described = self._description
        return None if described.file is None else (described.file, json.loads(described.reading))

    @property
    def finished(self) -> bool:
        with os_errors_named(self.root):
            return (self.root / "result.json").is_file()

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of :func:`papilio.count` that resume the job, except graph, motif and cluster.

        For a comparison with random graphs, arguments of :func:`papilio.significance`.
        """
        job = self.job
        asked = {"per": job.per, "job": self.root, "options": dict(job.options)}
        if job.ensemble is not None:
            names = ("null", "samples", "seed", *(("steps",) if job.ensemble.steps and not job.ensemble.pilot else ()))
            return asked | {name: getattr(job.ensemble, name) for name in names}
        return {
            **asked,
            "device_memory": job.budget.device_bytes,
            "host_memory": job.budget.host_bytes,
            "parts": None if job.partition is None else job.partition.path,
        }

    def require_question(self, job: JobSpec) -> None:
        """Raise for another graph, motif or granularity, and for other options, parts or version of an unfinished job.

        The InputError names the question in the directory and the one given.
        """
        begun = self.job
        if begun.identity != job.identity:
            raise InputError(
                f"job directory {self.root} has job {digest(begun.identity)} ({_name(begun)}), not job "
                f"{digest(job.identity)} ({_name(job)}): choose another directory"
            )
        if begun.options != job.options and not self.finished:
            raise InputError(
                f"job directory {self.root} was begun with {_options(begun)}; this run has {_options(job)}, whose "
                f"work items may differ: finish it with the former, or choose another directory"
            )
        if _parts(begun) != _parts(job) and not self.finished:
            raise InputError(
                f"job directory {self.root} was begun on {_parts(begun)}; this run uses {_parts(job)}, whose work "
                f"items differ: finish it with the former, or choose another directory"
            )
        if self.described["version"] != __version__ and not self.finished:
            raise InputError(
                f"job directory {self.root} was begun by papilio {self.described['version']}; the work items of "
                f"{__version__} may differ: finish it with the former"
            )

    def plan(self) -> CountPlan:
        """Return the plan of the first session."""
        plan = CountPlan.from_dict(self._read("plan.json"), str(self.root / "plan.json"))
        if plan.key != self.plan_key:
            raise TilingError(f"{self.root}: job.json names the plan {self.plan_key}; plan.json has {plan.key}")
        if plan.job.identity != self.job.identity:
            raise TilingError(
                f"{self.root}: job.json is for {_name(self.job)}, plan.json for {_name(plan.job)}: {ADVICE}"
            )
        return plan

    def history(self, content: LedgerContent | None = None) -> JobHistory:
        """Return the history in the ledger, read now unless its content is given; another process may be writing it."""
        content = content or read_ledger(self.ledger_path)
        history = read_history(self.ledger_path, content.records, content.tip)
        other = next((key for key in history.plan_keys if key != self.plan_key), None)
        if other is not None and self.plan_key is not None:
            raise TilingError(f"{self.ledger_path} belongs to plan {other}, but the job to {self.plan_key}: {ADVICE}")
        return history

    def book(self, plan: CountPlan, history: JobHistory) -> FinishedIntervals:
        """Return the intervals that the ledger holds, each once.

        TilingError if two of them overlap, or one passes the items.
        """
        try:
            return replace(plan, finished=history.intervals).book()
        except TilingError as error:
            raise TilingError(f"{self.ledger_path}: {error}") from error

    def status(self) -> JobStatus:
        """Return state and progress."""
        holder = find_holder(self.ledger_path)
        history = self.history()
        items = work = work_done = 0
        if self.plan_key is not None:
            plan = self.plan()
            self.book(plan, history)
            items, work = plan.n_items, plan.predicted_ns
            tables = [partition.table for partition in plan.partitions]
            work_done = sum(tables[e.partition].work_between(e.start, e.stop) for e in history.leases)
        finished, job, control = self.finished, self.job, self.control
        state, reason = find_state(finished, holder, control, history)
        active = control.active
        return JobStatus(
            path=str(self.root),
            state=state,
            reason=reason,
            cancel_requested=not finished
            and control.is_cancelled(
                submission=None if active is None else active.id,
                holder=None if holder is None else holder.token,
            ),
            motif=motif_to_json(job.motif),
            per=job.per,
            listing=job.identity.get("listing"),
            ensemble=job.identity.get("ensemble"),
            graph_hash=job.graph_hash,
            source=self.source,
            plan_key=self.plan_key,
            created_at=self._description.created_at,
            leases=len(history.leases),
            items_done=sum(lease.stop - lease.start for lease in history.leases),
            items=items,
            work_done=work_done,
            work=work,
            count=self.result(with_vectors=False).count if finished else None,
            holder=None if finished else holder,
            sessions=history.sessions,
            submission=control.submission,
            coordinator=control.coordinator,
        )

    def answer(self) -> JobAnswer:
        """Return the content of ``result.json``."""
        return JobAnswer.read(self._read("result.json"), str(self.root / "result.json"))

    def result(self, *, with_vectors: bool = True, history: JobHistory | None = None) -> CountResult:
        """Return the answer of a finished job, without counting: it is the one that plan and ledger give.

        Counts per vertex or edge, which may be large, are read ``with_vectors``; ``history`` was read after the job had
        finished. InputError if the job is not finished. StoreError if a file of the answer is missing or damaged,
        or the ledger was changed afterwards. TilingError, ExecutionError if plan, ledger and answer do not belong
        together.
        """
        if not self.finished:
            raise InputError(f"the job of {self.root} is not finished; run {resume_command(self.root)}")
        answer, history = self.answer(), history or self.history()
        if (found := LedgerEnd(history.n_records, history.tip)) != answer.ledger:
            raise StoreError(
                f"{self.ledger_path} has {found.n_records} records ending in {found.tip}; the answer was made from "
                f"{answer.ledger.n_records} ending in {answer.ledger.tip}: it was changed later"
            )
        vectors, file = {}, self.root / "result.json"
        if (answer.vectors_digest is None) != (self.job.per == "total"):
            raise StoreError(f"{file}: vectors_digest is {answer.vectors_digest!r} per {self.job.per}; {ADVICE}")
        if with_vectors and answer.vectors_digest is not None:
            vectors = read_partial_shard(self.root / "vectors.parquet", answer.vectors_digest)
        result = answer.rebuild(vectors, str(file))
        check_answer(str(self.root), result, self.plan(), history)
        return replace(result, reused=True, leases_before=result.leases, leases_by_worker={})


def require_plain(root: Path) -> None:
    """Raise for symbolic links where a job writes files: in a stranger's directory they lead elsewhere.

    ``partition``, which is only read, may be a link to another disk. The StoreError names the link.
    """
    with os_errors_named(root):
        places = (root, root / "control", root / "shards", *root.glob("shards/*"))
        entries = (each for place in places if place.is_dir() for each in place.iterdir())
        link = next((each for each in entries if each.is_symlink() and each.name != "partition"), None)
    if link is not None:
        raise StoreError(f"{link} is a symbolic link, which jobs never create; choose another job directory")


def _name(job: JobSpec) -> str:
    asked = f"{json.dumps(motif_to_json(job.motif))} per {job.per} in graph {job.graph_hash}"
    if job.ensemble is not None:
        asked += f" against random graphs {json.dumps(job.identity['ensemble'])}"
    return asked if job.listing is None else f"listing {json.dumps(job.identity['listing'])} of {asked}"


def _options(job: JobSpec) -> str:
    return " and ".join(f"{name} {value}" for name, value in job.options) or "no options"


def _parts(job: JobSpec) -> str:
    return "the whole graph" if job.partition is None else f"the partition {job.partition.hash}"


def find_finished(path: str | os.PathLike[str], ask: Callable[[], JobSpec]) -> JobDirectory | None:
    """Return the job directory ``path`` when it holds the answer to a question.

    ``ask`` returns the question; it is called only if there is an answer, since hashing a graph in memory takes a pass.
    InputError if the directory holds the answer to another question.
    """
    root = local_path(path)
    with os_errors_named(root):
        is_finished = (root / "result.json").is_file()
    if not is_finished:
        return None
    directory = JobDirectory(path)
    directory.require_question(ask())
    return directory


def resume_command(root: Path) -> str:
    """Return the command that resumes the job of a directory."""
    return f"papilio resume {shlex.quote(str(root))}"


def advise_resume(path: str | os.PathLike[str]) -> None:
    """Name the command that resumes an existing job in the line that is printed on a signal."""
    root = local_path(path)
    with os_errors_named(root):
        is_job = (root / "job.json").is_file()
    if is_job:
        set_advice(f"completed work is kept; to continue: {resume_command(root)}")


@contextmanager
def naming_resume(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the command that resumes the job, if one has begun, to errors of a worker or of the cluster.

    Raises the PapilioError of the block.
    """
    try:
        yield
    except PapilioError as error:
        if not isinstance(error, ClusterError) and fault_of(error) != "worker":
            raise
        advice = _how_to_resume(Path(os.path.abspath(path)))
        if not advice:
            raise
        raise type(error)(f"{error}; {advice}") from error


def _how_to_resume(root: Path) -> str:
    """Return where a job is kept and how it goes on; empty if there is no readable job."""
    try:
        source = JobDirectory(root).source
    except PapilioError:
        return ""
    kept = f"the job and its finished work are kept in {root}"
    if source is None:
        return f"{kept}: the same count continues it"
    return f"{kept}: {resume_command(root)} continues it, with --cluster on another cluster"


def find_answer(folder: Path, question: dict[str, Any]) -> tuple[Path, CountResult] | None:
    """Return a job directory in a folder with the answer to a question, and the answer; skips damaged directories."""
    for result in sorted(folder.glob("*/result.json")):
        with suppress(PapilioError):
            directory = JobDirectory(result.parent)
            if directory.job.identity == question:
                return directory.root, directory.result(with_vectors=False)
    return None


@checked
def list_jobs(root: str | os.PathLike[str] = ".") -> tuple[JobStatus | tuple[str, str], ...]:
    """Return the status of the job directories at and below ``root``, by path; three levels deep.

    An unreadable directory is returned as its path and the problem. StoreError if ``root`` is not a directory.
    """
    top = local_path(root)
    if not top.is_dir():
        raise (StoreError if top.exists() else StoreNotFoundError)(f"{top} is no directory")
    found: list[JobStatus | tuple[str, str]] = []
    for parent, directories, files in os.walk(top):
        depth = len(Path(parent).relative_to(top).parts)
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        if "job.json" in files:
            directories.clear()
            try:
                found.append(JobDirectory(parent).status())
            except PapilioError as error:
                found.append((parent, str(error)))
        elif depth >= _SEARCH_DEPTH or "graph.json" in files:
            directories.clear()
    return tuple(found)
