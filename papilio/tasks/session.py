"""One process's session of a job directory: take the lock, keep the ledger, write the answer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError, JobCancelledError, PapilioError, StoreError, TilingError
from papilio.kernels.engine import EngineChoice
from papilio.motifs import EngineOptions
from papilio.signals import Stopped, set_advice
from papilio.storage.answers import write_partial_shard
from papilio.storage.files import local_path, os_errors_named
from papilio.storage.ledger import Ledger, sync_path, write_durably
from papilio.storage.records import seal_json, write_record
from papilio.system_errors import explain
from papilio.tasks.directory import (
    FORMAT,
    FORMAT_VERSION,
    JobDirectory,
    advise_resume,
    require_plain,
    resume_command,
)
from papilio.tasks.job import JobSpec, LeaseResult
from papilio.tasks.job_answer import ADVICE, JobAnswer, LedgerEnd
from papilio.tasks.job_state import CANCELLED, JobControl, JobHistory
from papilio.tasks.leases import FinishedIntervals
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult, ListingResult
from papilio.version import __version__

_BEFORE_A_JOB = (".job.json", "ledger.jsonl", "partition", ".partition.", ".papilio-rows-")
"""Prefixes of names that may be in a directory before ``job.json`` exists: parts, and leftovers of a killed process."""


P = ParamSpec("P")
R = TypeVar("R")


def _explained(method: Callable[Concatenate[JobSession, P], R]) -> Callable[Concatenate[JobSession, P], R]:
    """Name the job directory in errors of the system about its files."""

    @wraps(method)
    def call(session: JobSession, /, *args: P.args, **options: P.kwargs) -> R:
        with os_errors_named(session.root, "then resume"):
            return method(session, *args, **options)

    return call


class JobSession:
    """The single writer of a job directory; a context manager.

    Entering creates the directory or checks that it holds the same question, takes the lock, and removes the
    unregistered files of a killed session.

    ``path`` is absent, empty but for a ``partition`` of the graph or its leftovers from a killed process, or a job
    directory; its parent exists. ``source`` is the path of the store, used by a resume; None for a graph in memory.
    ``settings`` are kept when the directory is new, see :func:`settings_of`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        job: JobSpec,
        source: str | None,
        settings: Mapping[str, Any],
        converted: tuple[str, dict[str, Any]] | None = None,
    ) -> None:
        self.root = local_path(path)
        self._job, self._source, self._settings = job, source, dict(settings)
        self._converted = converted
        self._ledger = Ledger(self.root / "ledger.jsonl")
        self._history = JobHistory((), (), "", 0)
        self._done: FinishedIntervals | None = None
        self._number = 0
        self._open = False

    @_explained
    def __enter__(self) -> Self:
        """Begin the session.

        InputError if the directory holds another question, or something else. JobBusyError if another process has
        the job. StoreError if the directory cannot be written or is damaged.
        """
        self._create()
        require_plain(self.root)
        self._ledger.__enter__()
        try:
            self._describe()
            directory = JobDirectory(self.root)
            directory.require_question(self._job)
            self._history = directory.history(self._ledger.content)
            self._number = max((each.number for each in self._history.sessions), default=0) + 1
            self._sweep()
            if self._source is not None:
                advise_resume(self.root)
        except BaseException:
            self._ledger.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        try:
            if self._open and error is not None:
                self._end(_outcome_of(error))
        except StoreError:
            if error is None:
                raise
        finally:
            self._ledger.close()
            if error is None:
                set_advice("")

    def _create(self) -> None:
        try:
            names = {entry.name for entry in os.scandir(self.root)} if self.root.exists() else set()
            self.root.mkdir(exist_ok=True)
            sync_path(self.root.parent)
        except OSError as error:
            raise StoreError(
                f"{self.root}: cannot be used as a job directory {explain(error, 'or choose another one')}"
            ) from error
        if "job.json" in names:
            JobDirectory(self.root).require_question(self._job)
        elif any(not name.startswith(_BEFORE_A_JOB) for name in names):
            raise InputError(f"{self.root} is not empty and not a job directory; choose another one")

    def _describe(self) -> None:
        if (self.root / "job.json").exists():
            return
        if self._ledger.n_records:
            raise StoreError(f"{self.root} has a ledger but no job.json; it was damaged, choose another directory")
        described = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": __version__,
            "created_at": time.time(),
            "source": self._source,
            "job": write_record(self._job),
            "plan_key": None,
            "settings": self._settings,
        }
        if self._converted is not None:
            file, reading = self._converted
            described |= {"file": file, "reading": json.dumps(reading)}
        write_durably(self.root / "job.json", seal_json(described, indent=2))

    def _sweep(self) -> None:
        """Remove files without a record: shards of leases in flight, temporary files, unfinished cuts."""
        named = {path for lease in self._history.leases for path in lease.files}
        for path in [
            *self.root.glob(".*.new-*"),
            *self.root.glob(".papilio-rows-*"),
            *self.root.glob("shards/*/*"),
            *self.root.glob("shards/*/.*"),
        ]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif str(path) not in named:
                path.unlink(missing_ok=True)
        for directory in self.root.glob("shards/*"):
            with suppress(OSError):
                directory.rmdir()

    @property
    def begun(self) -> JobSpec | None:
        """The job as earlier sessions dealt and settled it; None before the first plan."""
        directory = JobDirectory(self.root)
        return None if directory.plan_key is None else directory.job

    @property
    def finished_leases(self) -> tuple[LeaseResult, ...]:
        return self._history.leases

    @property
    def finished_intervals(self) -> tuple[tuple[int, int, int], ...]:
        return self._history.intervals

    @_explained
    def begin_leases(self, plan: CountPlan, cluster: str, settled: EngineOptions = ()) -> str | None:
        """Record that leases are about to run on an executor; return the directory for their shards, if any.

        The plan covers all items that the ledger does not. Later sessions take over the options ``settled`` for it.
        TilingError if the items differ from earlier sessions. StoreError if the directory cannot be written.
        """
        directory = JobDirectory(self.root)
        if directory.plan_key is None and self._history.sessions:
            raise TilingError(f"{self.root}: job.json names no plan, and its ledger has sessions: {ADVICE}")
        if directory.plan_key is None:
            write_durably(self.root / "plan.json", seal_json(plan.to_dict()))
            described = {
                **directory.described,
                "job": write_record(replace(plan.job, settled=settled)),
                "plan_key": plan.key,
            }
            write_durably(self.root / "job.json", seal_json(described, indent=2))
        elif directory.plan_key != plan.key:
            raise TilingError(
                f"job directory {self.root} has the plan {directory.plan_key}, but this run made the plan {plan.key} "
                f"with different work items (another version of NumPy or Numba?)"
            )
        self._done = directory.book(plan, self._history)
        self._ledger.append(
            {
                "type": "session",
                "session": self._number,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "engine": plan.engine,
                "cluster": cluster,
                "workers": plan.n_workers,
                "planned": len(plan.leases),
                "began_at": time.time(),
                "plan_key": plan.key,
            }
        )
        self._open = True
        if not self._job.has_shards:
            return None
        shards = self.root / "shards" / str(self._number)
        try:
            shards.mkdir(parents=True)
            sync_path(shards.parent)
            sync_path(self.root)
        except OSError as error:
            raise StoreError(f"{shards}: cannot be created {explain(error, 'then resume')}") from error
        return str(shards)

    @_explained
    def record(self, result: LeaseResult) -> None:
        """Register a finished lease; it is on the disk, with its shard, when this returns.

        TilingError if its interval overlaps a registered one. StoreError if it cannot be written; everything
        registered before stays. JobCancelledError after registering it, when this process was asked to stop.
        """
        assert self._done is not None, "begin_leases comes first"
        self._done.record(result.partition, result.start, result.stop)
        synced = result.move_files(self._sync_shard)
        self._ledger.append({"type": "lease", "session": self._number, **synced.to_dict()})
        if JobControl(self.root).is_cancelled(holder=self._ledger.token):
            raise JobCancelledError(f"the job of {self.root} was cancelled; {resume_command(self.root)} continues it")

    def _sync_shard(self, name: str) -> str:
        """Sync a shard to disk, and return its path below the root."""
        path = Path(name)
        try:
            sync_path(path)
            sync_path(path.parent)
        except OSError as error:
            raise StoreError(f"{path}: the shard of a lease is lost {explain(error, 'then resume')}") from error
        return str(path.relative_to(self.root))

    @_explained
    def finish(self, result: CountResult, vectors: Mapping[str, NDArray[np.uint64]]) -> None:
        """Write the answer; the job is finished when this returns.

        TilingError unless the registered leases tile every partition, or a listing has reached its limit. StoreError
        when it cannot be written; the ledger stays, and the next session only has to finish.
        """
        assert self._done is not None, "begin_leases comes first"
        if not (isinstance(result, ListingResult) and result.limit_reached):
            self._done.require_complete()
        digest = None
        if vectors:
            path = self.root / "vectors.parquet"
            digest = write_partial_shard(path, vectors)
            sync_path(path)
        self._end("finished")
        self._history = JobDirectory(self.root).history()
        self._sweep()
        answer = JobAnswer.of(result, LedgerEnd(self._ledger.n_records, self._ledger.tip), digest)
        write_durably(self.root / "result.json", seal_json(asdict(answer), indent=2))

    @_explained
    def _end(self, outcome: str) -> None:
        self._open = False
        self._ledger.append({"type": "end", "session": self._number, "ended_at": time.time(), "outcome": outcome})


def settings_of(cluster: Any, engine: EngineChoice, workers: int | None, target: Path | None) -> dict[str, Any]:
    """Return the settings for ``job.json`` that a resume uses; a cluster other than a name or address is not kept.

    ``target`` is the file for the counts per vertex or edge; the others are as for :func:`papilio.count`.
    """
    name = os.fspath(cluster) if isinstance(cluster, str | os.PathLike) else None
    return {
        "cluster": os.path.abspath(name) if name is not None and os.path.isfile(name) else name,
        "engine": engine,
        "workers": None if name is None else workers,
        "output": None if target is None else str(target),
    }


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, JobCancelledError):
        return CANCELLED
    return str(error) if isinstance(error, PapilioError | Stopped) else type(error).__name__
