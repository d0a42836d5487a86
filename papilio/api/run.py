"""One call that counts or lists: the answer that a job directory holds is given again, else what is missing runs."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from papilio.api.inputs import GraphInput, result_of
from papilio.api.placing import Where, place_job
from papilio.cluster.driver import JobOutcome, count_job
from papilio.cluster.events import Listener, PhaseStarted, ignore_events
from papilio.cluster.executor import Executor
from papilio.families import EngineChoice
from papilio.tasks.job import JobSpec
from papilio.tasks.result import CountResult

if TYPE_CHECKING:
    from papilio.tasks.directory import JobDirectory
    from papilio.tasks.session import JobSession

Result = TypeVar("Result", bound=CountResult)


class JobRun(ABC, Generic[Result]):
    """What a public function was asked, and where it runs; a subclass says what becomes of the answer.

    Parameters
    ----------
    target : Path or None
        What is written.
    cluster, engine, workers, progress, job
        As for :func:`papilio.count`.
    """

    phases: ClassVar[tuple[str, ...]] = ("start", "plan", "read", "prepare", "run", "fold")

    def __init__(
        self,
        source: GraphInput,
        target: Path | None,
        *,
        cluster: Any,
        engine: EngineChoice,
        workers: int | None,
        progress: Listener | None,
        job: str | os.PathLike[str] | None,
    ) -> None:
        self.started = perf_counter()
        self.source, self.target, self.job = source, target, job
        self.cluster, self.engine, self.workers = cluster, engine, workers
        self.listener = progress or ignore_events
        self.stack = ExitStack()  # ends with the call; a session outlasts it

    @property
    def in_parts(self) -> bool:
        """Whether the graph may be cut into parts."""
        return False

    @abstractmethod
    def ask(self) -> JobSpec:
        """Return the job, wherever its graph is."""

    @abstractmethod
    def place(self, executor: Executor) -> JobSpec:
        """Return the job with a source that the workers can read, and within their memory."""

    @abstractmethod
    def shard_parent(self, executor: Executor, job: JobSpec) -> Path | None:
        """Return the directory that partial results pass through where no session keeps them."""

    @abstractmethod
    def write(self, outcome: JobOutcome, counted: CountResult, kept: bool) -> Result:
        """Write what was asked for and return the whole result; ``kept`` says whether a session keeps shards."""

    @abstractmethod
    def write_again(self, finished: JobDirectory, result: CountResult) -> Result:
        """Write what a finished job answered, as :meth:`write`."""

    def require_room(self) -> None:
        """Refuse, before anything runs, a target that cannot be written."""
        return

    def check(self, executor: Executor, outcome: JobOutcome) -> dict[str, float]:
        """Check the answer by other means; return the seconds by phase."""
        return {}

    def execute(self) -> Result:
        """Return the answer."""
        path = self.source.path  # before a graph in memory becomes a store
        with ExitStack() as held, self.stack:
            if self.job is not None:
                from papilio.tasks.directory import advise_resume, find_finished

                finished = find_finished(self.job, self.ask)
                if finished is not None:
                    return self._reuse(finished)
                advise_resume(self.job)
            self.require_room()
            self.listener(PhaseStarted("start"))
            where = Where(self.cluster, self.engine, self.workers)
            executor, job = place_job(
                self.stack, where, self.ask, self.place, self.listener, in_parts=self.in_parts
            )
            session = None
            if self.job is not None:
                from papilio.tasks.session import JobSession, settings_of

                asked = replace(self.ask(), partition=job.partition, budget=job.budget)
                settings = settings_of(self.cluster, self.engine, self.workers, self.target)
                session = held.enter_context(JobSession(self.job, asked, path, settings))
            return self._run(executor, job, session)

    def _run(self, executor: Executor, job: JobSpec, session: JobSession | None) -> Result:
        start_s = perf_counter() - self.started
        shards = None if session is not None else self.shard_parent(executor, job)
        outcome = count_job(executor, job, self.engine, shards, self.listener, session)
        seconds = {"start": start_s, **outcome.seconds, **self.check(executor, outcome)}
        self.listener(PhaseStarted("write"))
        began = perf_counter()
        counted = result_of(outcome, executor, self.source.describe(job))
        result = self.write(outcome, counted, session is not None)
        seconds["write"] = perf_counter() - began
        seconds["total"] = perf_counter() - self.started
        directory = None if session is None else str(session.root)
        result = replace(result, output=self._output, job_directory=directory, seconds=seconds)
        if session is not None:
            session.finish(result, outcome.partial.vectors)
        return result

    def _reuse(self, finished: JobDirectory) -> Result:
        began = perf_counter()
        result = self.write_again(finished, finished.result())
        seconds = dict.fromkeys(self.phases, 0.0)
        seconds |= {"write": perf_counter() - began, "total": perf_counter() - self.started}
        return replace(result, output=self._output, seconds=seconds)

    @property
    def _output(self) -> str | None:
        return None if self.target is None else str(self.target)
