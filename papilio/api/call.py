"""One call that counts or lists: its graph, its executor, its output.

If a job directory has the answer, it is returned; else the missing leases run.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar

from papilio.api.partition import fit_job
from papilio.api.read import Graph
from papilio.arguments import Bytes, Workers
from papilio.cluster.driver import JobOutcome, count_job, plan_job
from papilio.cluster.events import Listener, PhaseStarted, Progress, ignore_events
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.cluster.selection import is_auto, make_executor, resolve_auto
from papilio.errors import CapacityError, InputError
from papilio.kernels.device.discovery import list_visible_ids, release_device_memory
from papilio.kernels.engine import EngineChoice
from papilio.motifs import Cell, Granularity, Motif
from papilio.question import Question
from papilio.storage.files import is_url, local_path, os_errors_named
from papilio.storage.listings import ListingShard
from papilio.storage.reading import GraphOptions
from papilio.storage.store import GraphStore
from papilio.storage.tables import check_table_file
from papilio.tasks.job import NO_BUDGET, Budget, JobSpec, graph_in_memory, job_of, require_graph
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult


class RunOptions(TypedDict, total=False):
    """Execution and progress of a call: parameters as for :func:`papilio.count`."""

    cluster: Any
    engine: EngineChoice
    workers: Workers | None
    progress: Progress
    job: str | os.PathLike[str] | None


class CensusOptions(RunOptions, GraphOptions, total=False):
    """Execution of a census, and the options that read its graph."""


class CountOptions(CensusOptions, total=False):
    """Options for counting butterflies: parameters as for :func:`papilio.count`.

    All measures take a graph and its reading options like :func:`papilio.count`, ignore signs, and raise the same
    errors; UnsupportedError if the graph is not bipartite.
    """

    device_memory: Bytes | None
    host_memory: Bytes | None
    parts: str | os.PathLike[str] | None


def enter_executor(stack: ExitStack, cluster: Any, engine: EngineChoice, workers: int | None) -> Executor:
    """Return a started executor; if it is created here, it ends with ``stack``."""
    if hasattr(cluster, "check_source") and not isinstance(cluster, type):
        if workers is not None:
            raise InputError(
                "workers cannot be combined with an executor, which has its own workers: leave workers out"
            )
        executor: Executor = cluster
        return executor
    return stack.enter_context(make_executor("inline" if cluster is None else cluster, engine, workers))


def check_output(
    output: str | os.PathLike[str] | None, motif: Motif, per: Granularity, *, overwrite: bool
) -> Path | None:
    """Check the output file before counting, and return its path.

    Raises InputError if the answer is a single count, the file cannot be written, or its suffix is unknown; StoreError
    if it exists and must not be replaced.
    """
    if output is None:
        return None
    if per == "total" and not motif.is_table:
        raise InputError(
            f"output is {os.fspath(output)!r} and per is 'total'; files are for counts per vertex or edge, or for "
            f"tables"
        )
    return check_table_file(output, overwrite)


def owns_output(job: str | os.PathLike[str] | None, output: str | os.PathLike[str] | None) -> bool:
    """Whether a job started with this output file, which it may replace."""
    if job is None or output is None:
        return False
    with os_errors_named(job):
        is_begun = (Path(job) / "job.json").is_file()
    if not is_begun:
        return False
    from papilio.tasks.directory import JobDirectory

    return bool(JobDirectory(job).settings["output"] == os.path.abspath(output))


START_WORKERS_S = 3.0
"""Lower bound of the time to start a worker per GPU and read the graph there: 2.8 s, measured on one H200."""

MOST_TRIED_EDGES = 50_000_000
"""Reading larger graphs takes seconds: workers read them directly, instead of this process first."""


if TYPE_CHECKING:
    from papilio.tasks.directory import JobDirectory
    from papilio.tasks.session import JobSession

Result = TypeVar("Result", bound=CountResult)


class Call(ABC, Generic[Result]):
    """One call of a public function: from its question to the plan or the answer; subclasses write the answer.

    Raises UnsupportedError if the graph has the wrong kind for the motif, or lacks signs that the motif needs.

    Parameters
    ----------
    target : Path or None
        Output file or directory.
    budget : Budget
        Memory that the job may use on each worker.
    parts, cluster, engine, workers, progress, job
        As for :func:`papilio.count`.
    """

    phases: ClassVar[tuple[str, ...]] = ("start", "plan", "read", "prepare", "run", "fold")

    def __init__(
        self,
        graph: Graph,
        question: Question,
        target: Path | None,
        *,
        budget: Budget = NO_BUDGET,
        parts: str | os.PathLike[str] | None = None,
        cluster: Any = None,
        engine: EngineChoice = "auto",
        workers: int | None = None,
        progress: Progress = None,
        job: str | os.PathLike[str] | None = None,
    ) -> None:
        self.started = perf_counter()
        require_graph(question, graph.kind, signed=graph.signed, source=graph.name)
        self.graph, self.question, self.target = graph, question, target
        self.store = graph.store  # a graph in memory becomes one when a store is needed
        self.budget, self.parts, self.job = budget, parts, job
        self.cluster, self.workers = cluster, workers
        self.engine, _ = question.settle_engine(engine)
        self.listener: Listener = progress if callable(progress) else ignore_events
        self.stack = ExitStack()  # ends with the call; a session outlasts it

    @property
    def kept_parts(self) -> Path | None:
        """Directory of the parts, existing or new; None for a temporary one."""
        if self.parts is not None:
            return local_path(self.parts)
        return None if self.job is None else local_path(self.job) / "partition"

    @property
    def in_parts(self) -> bool:
        """Whether parts may be needed: a budget or parts are given."""
        kept = self.kept_parts
        if self.budget.is_set or kept is None or self.question.listing is not None:
            return self.budget.is_set
        with os_errors_named(kept):
            return self.parts is not None or kept.exists()

    @cached_property
    def spec(self) -> JobSpec:
        """The job before it is placed; hashes a graph in memory."""
        return self.job_in("memory:")

    def job_in(self, source: str) -> JobSpec:
        """Return the job on the store, or on the graph that this process holds under ``source``."""
        if self.store is not None:
            return job_of(self.store, self.question)
        return job_of(self.graph.arrays(), self.question, source, self.graph.hash)

    def stored(self, parent: Path) -> GraphStore:
        """Return the store; a graph in memory is written to one under ``parent`` that ends with the call."""
        self.store = self.graph.stored(self.stack, parent) if self.store is None else self.store
        return self.store

    def make_job(self, executor: Executor) -> JobSpec:
        """Return the job, cut to fit in the memory of the workers, with a source that they can read."""
        if self.store is None and executor.in_process:
            source = self.stack.enter_context(graph_in_memory(self.graph.arrays()))
            job = replace(self.spec, source=source)
        else:
            shared = Path.cwd() if executor.name == "existing" else Path(tempfile.gettempdir())
            job = job_of(self.stored(shared if self.target is None else self.target.parent), self.question)
        return fit_job(self, job, executor) if self.in_parts else job

    def shard_parent(self, executor: Executor, job: JobSpec) -> Path | None:
        """Return a directory for partial results that all workers can access, if no session keeps them."""
        if executor.in_process or not job.vector_entries:
            return None
        if self.target is not None:
            return self.target.parent
        if executor.name != "existing":
            return Path(tempfile.gettempdir())
        if is_url(job.source):
            raise InputError(
                f"counting per {job.per} in {job.source} on an existing cluster needs a directory that all workers can "
                f"write to; choose an output file in such a directory"
            )
        return Path(job.source).parent

    @abstractmethod
    def write(self, result: Result, listed: Sequence[ListingShard], kept: bool) -> Result:
        """Write the output and return the whole result; ``listed`` are files of leases, ``kept`` by a session."""

    def write_again(self, finished: JobDirectory, result: Result) -> Result:
        """Write the answer of a finished job."""
        return self.write(result, (), kept=True)

    def require_room(self) -> None:
        """Raise, before the run, if the target cannot be written."""
        return

    def plan(self) -> CountPlan:
        """Prepare the graph on one worker and return the plan."""
        with self.stack:
            executor, job = self.place()
            made, _, _ = plan_job(executor, job, self.engine, ignore_events)
        return made

    def by_size(self, table: Mapping[Cell, int]) -> dict[Cell, int]:
        """Return a table of the answer; by the smaller, then the larger size if the layers are unknown."""
        question = self.question
        if not (table and self.graph.layers.are_open and question.motif.is_table and question.ensemble is None):
            return dict(table)
        merged: dict[Cell, int] = {}
        for cell, number in table.items():
            merged[tuple(sorted(cell))] = merged.get(tuple(sorted(cell)), 0) + number
        return dict(sorted(merged.items()))

    def execute(self) -> Result:
        """Return the answer: of a finished job, or of a run."""
        with ExitStack() as held, self.stack:
            if self.job is not None:
                from papilio.tasks.directory import advise_resume, find_finished, naming_resume

                held.enter_context(naming_resume(self.job))
                finished = find_finished(self.job, lambda: self.spec)
                if finished is not None:
                    return self._reuse(finished)
                advise_resume(self.job)
            self.require_room()
            self.listener(PhaseStarted("start"))
            executor, job = self.place()
            session = None
            if self.job is not None:
                from papilio.tasks.session import JobSession, settings_of

                spec = replace(self.spec, partition=job.partition, budget=job.budget)
                settings = settings_of(self.cluster, self.engine, self.workers, self.target)
                session = held.enter_context(
                    JobSession(self.job, spec, self.graph.path, settings, self.graph.converted_file)
                )
            return self.run(executor, job, session)

    def place(self) -> tuple[Executor, JobSpec]:
        """Return a started executor, which ends with the call, and the job with a source that its workers can read.

        With several GPUs and no named cluster, the job is planned in this process, and stays here unless the plan
        predicts more work than the start of workers costs.
        """
        if not is_auto(self.cluster):
            executor = enter_executor(self.stack, self.cluster, self.engine, self.workers)
            return executor, self.make_job(executor)
        name, why = resolve_auto(self.cluster, self.engine, self.workers)
        if name.partition(":")[0] == "cuda" and self.workers is None and not self.in_parts:
            if self.graph.n_edges > MOST_TRIED_EDGES:
                why += f", and the graph has more than {MOST_TRIED_EDGES:,} edges"
            else:
                tried = self._try_here()
                if not isinstance(tried, str):
                    return tried
                why += tried
        executor = make_executor(name, self.engine, self.workers)
        executor.why_chosen = why
        self.stack.enter_context(executor)
        return executor, self.make_job(executor)

    def _try_here(self) -> tuple[Executor, JobSpec] | str:
        """Plan the job in this process, on its first GPU; return it with its executor, or the reason for using workers.

        The run reuses the graph prepared for the plan.
        """
        n_gpus = len(list_visible_ids())
        with ExitStack() as trial:
            here = trial.enter_context(InlineExecutor())
            job = self.make_job(here)
            try:
                plan, _, _ = plan_job(here, job, self.engine, self.listener)
            except CapacityError:
                trial.close()
                release_device_memory()
                return ", and one GPU is too small for the whole job"
            alone_s = plan.predicted_run_s
            if alone_s * (n_gpus - 1) / n_gpus <= START_WORKERS_S:
                here.why_chosen = (
                    f"one GPU of {n_gpus} is predicted to take {alone_s:.2g} s, and starting workers takes about "
                    f"{START_WORKERS_S:.0f} s"
                )
                self.stack.push(trial.pop_all())
                return here, job
        release_device_memory()
        return f", because one GPU alone is predicted to take {alone_s:.2g} s"

    def count(self, executor: Executor, job: JobSpec, session: JobSession | None, shards: Path | None) -> JobOutcome:
        """Return the outcome of the run, before it is written."""
        return count_job(executor, job, self.engine, shards, self.listener, session)

    def run(self, executor: Executor, job: JobSpec, session: JobSession | None) -> Result:
        """Run the job and write its answer."""
        start_s = perf_counter() - self.started
        shards = None if session is not None else self.shard_parent(executor, job)
        outcome = self.count(executor, job, session, shards)
        seconds = {"start": start_s, **outcome.result.seconds}
        self.listener(PhaseStarted("write"))
        began = perf_counter()
        counted: Any = replace(outcome.result, graph=self.graph.describe())
        result = self.write(counted, outcome.listed, session is not None)
        seconds["write"] = perf_counter() - began
        seconds["total"] = perf_counter() - self.started
        directory = None if session is None else str(session.root)
        result = replace(result, output=self._output, job_directory=directory, seconds=seconds)
        if session is not None:
            session.finish(result, outcome.partial.vectors)
        return replace(result, table=self.by_size(result.table))

    def _reuse(self, finished: JobDirectory) -> Result:
        began = perf_counter()
        answer: Any = finished.result()
        result = self.write_again(finished, answer)
        seconds = dict.fromkeys(self.phases, 0.0)
        seconds |= {"write": perf_counter() - began, "total": perf_counter() - self.started}
        return replace(result, output=self._output, table=self.by_size(result.table), seconds=seconds)

    @property
    def _output(self) -> str | None:
        return None if self.target is None else str(self.target)
