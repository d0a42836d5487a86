"""One call that counts or lists: its graph, its executor, its output.

Where a job directory has the answer, it is returned again; else the missing leases run.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar

from papilio.api.partition import fit_job
from papilio.arguments import Bytes, Workers, read_path
from papilio.cluster.driver import JobOutcome, count_job, plan_job, run_directory
from papilio.cluster.events import Listener, PhaseStarted, ignore_events
from papilio.cluster.executor import Executor, InlineExecutor
from papilio.cluster.selection import is_auto, make_executor, resolve_auto
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.families import EngineChoice, Question
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.kernels.device.discovery import list_visible_ids, release_device_memory
from papilio.motifs import Granularity, Motif
from papilio.storage.answers import check_table_file
from papilio.storage.files import is_url, local_path, os_errors_named
from papilio.storage.interop import label_any
from papilio.storage.labelled import LabelledGraph
from papilio.storage.labels import label_type
from papilio.storage.listings import ListingShard
from papilio.storage.reading import describe_reading, read_as, warn_outside
from papilio.storage.store import GraphStore, write_store
from papilio.tasks.job import NO_BUDGET, Budget, JobSpec, hash_graph, held_graph, job_of, require_graph
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult


class RunOptions(TypedDict, total=False):
    """Where a call runs, and who is told of it: the parameters of these names of :func:`papilio.count`."""

    cluster: Any
    engine: EngineChoice
    workers: Workers | None
    progress: Listener | None
    job: str | os.PathLike[str] | None


class CountOptions(RunOptions, total=False):
    """How butterflies are counted: the parameters of these names of :func:`papilio.count`.

    All measures take a graph as that does, whose signs are ignored. They raise what it does, and UnsupportedError for a
    graph that is not bipartite.
    """

    device_memory: Bytes | None
    host_memory: Bytes | None
    parts: str | os.PathLike[str] | None


class GraphInput:
    """The graph of a call: a store, or a labelled graph in memory that becomes one when needed.

    ``kind`` is what a file or an object that does not say it itself is read as.
    """

    def __init__(self, graph: Any, kind: GraphKind = "bipartite") -> None:
        self.store: GraphStore | None = None
        self.labelled: LabelledGraph | None = None  # the graph in memory; None for a store
        self._file: str | None = None  # the file of edges that was converted into the store
        self._notes: list[str] = []
        if isinstance(graph, GraphStore):
            self.store = graph
        elif isinstance(graph, str | os.PathLike):
            path = os.fspath(read_path("graph", graph))
            self.store = read_as(path, kind)
            if os.path.isfile(path):
                self._file = os.path.abspath(path)
                if kind == "unipartite":
                    _require_one_set(path, self.store.manifest.provenance.get("doubt", ""))
        else:
            self.labelled = label_any(graph, kind=kind)
            if not isinstance(graph, LabelledGraph | BipartiteGraph | UnipartiteGraph):
                self._doubt_object(kind)

    def _doubt_object(self, kind: GraphKind) -> None:
        """Reject an object that looks bipartite for questions on one set of vertices; warn of the opposite."""
        assert self.labelled is not None
        why = self.labelled.sides.doubt(kind)
        if kind == "unipartite":
            _require_one_set("the graph in memory", why)
        elif why:
            self._notes = [f"the graph looks unipartite ({why}), and was read as bipartite"]
            warn_outside(
                f"{self._notes[0]}; if both columns name the same things, read it with kind='unipartite' "
                "(papilio.storage.interop), else with kind='bipartite'"
            )

    @property
    def graph(self) -> GraphStore | BipartiteGraph | UnipartiteGraph:
        """The store, or the graph in memory without its labels."""
        return self.given if isinstance(self.given, GraphStore) else self.given.graph

    @property
    def path(self) -> str | None:
        """Where the store is, from whatever directory; None for a graph in memory."""
        if self.store is None or is_url(self.store.path):
            return None if self.store is None else self.store.path
        return os.path.abspath(self.store.path)

    @property
    def name(self) -> str:
        return "the graph in memory" if self.store is None else self.store.path

    @property
    def given(self) -> GraphStore | LabelledGraph:
        """What was given, read once: takes the place of the caller's object in further calls."""
        if self.labelled is not None:
            return self.labelled
        assert self.store is not None
        return self.store

    def job(self, question: Question, name: str = "memory:") -> JobSpec:
        """Return the job on the store, or on the graph in memory held under ``name``."""
        if self.store is not None:
            return job_of(self.store, question)
        return job_of(self.graph, question, name, self._hash)

    @cached_property
    def _hash(self) -> str:
        """Content hash of the graph in memory, computed when it is first needed: it takes a pass over the edges."""
        assert self.labelled is not None
        return hash_graph(self.labelled.graph)

    def read(self) -> BipartiteGraph | UnipartiteGraph:
        """Return the graph in memory; a store is read."""
        return self.graph.read() if isinstance(self.graph, GraphStore) else self.graph

    def stored(self, stack: ExitStack, parent: Path) -> GraphStore:
        """Return the store; a graph in memory is written to a temporary one under ``parent``."""
        if self.store is None:
            assert self.labelled is not None
            directory = stack.enter_context(run_directory(parent))
            self.store = write_store(
                Path(directory) / "graph",
                self.labelled.graph,
                provenance={"source": "memory"},
                labels_u=self.labelled.labels_u,
                labels_v=self.labelled.labels_v,
            )
        return self.store

    def require_storable(self, target: Path | None) -> None:
        """Refuse, before anything is counted, labels of a graph in memory that cannot be written: GraphError."""
        if self.labelled is None or target is None:
            return
        for labels in (self.labelled.labels_u, self.labelled.labels_v):
            if labels is not None:
                label_type(labels)

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph."""
        graph = self.graph
        return {
            "path": graph.path if isinstance(graph, GraphStore) else None,
            "hash": self._hash if self.store is None else self.store.hash,
            "kind": graph.kind,
            "n_u": graph.n_u,
            "n_v": graph.n_v,
            "n_edges": graph.n_edges,
            "signed": graph.signed,
            "provenance": self.describe_reading(),
        }

    def describe_reading(self) -> dict[str, Any]:
        """Return where the graph comes from, how it was read and which lines were dropped."""
        if self.labelled is not None:
            origin = self.labelled.origin
            return {
                "source": "memory" if origin is None else origin.name,
                "dropped": dict(self.labelled.dropped),
                "notes": self._notes,
            }
        assert self.store is not None
        described = describe_reading(self.store.manifest)
        return described if self._file is None else described | {"source": self._file}


def _require_one_set(name: str, why: str) -> None:
    if why:
        raise UnsupportedError(
            f"{name} looks bipartite ({why}), and cliques are counted in unipartite graphs; if both columns name the "
            "same things, say so: kind='unipartite' for papilio.read or the functions of papilio.storage.interop, "
            "or papilio convert FILE STORE --unipartite"
        )


def enter_executor(stack: ExitStack, cluster: Any, engine: EngineChoice, workers: int | None) -> Executor:
    """Return a started executor; one that is made here ends with ``stack``."""
    if hasattr(cluster, "check_source") and not isinstance(cluster, type):
        if workers is not None:
            raise InputError("workers cannot be given with an executor, which has its workers already")
        executor: Executor = cluster
        return executor
    return stack.enter_context(make_executor("inline" if cluster is None else cluster, engine, workers))


def check_output(
    output: str | os.PathLike[str] | None, motif: Motif, per: Granularity, *, overwrite: bool
) -> Path | None:
    """Check the file for the counts before anything is counted, and return it.

    InputError when the answer is a single count, the file cannot be written, or its suffix says nothing. StoreError
    when it exists and may not be replaced.
    """
    if output is None:
        return None
    if per == "total" and not motif.is_table:
        raise InputError(
            f"output is {os.fspath(output)!r} and per is 'total'; a file holds counts per vertex or edge, or a table"
        )
    return check_table_file(output, overwrite)


def owns_output(job: str | os.PathLike[str] | None, output: str | os.PathLike[str] | None) -> bool:
    """Whether a job was begun with this output, a file that is its own to write again."""
    if job is None or output is None:
        return False
    with os_errors_named(job):
        is_begun = (Path(job) / "job.json").is_file()
    if not is_begun:
        return False
    from papilio.tasks.directory import JobDirectory

    return bool(JobDirectory(job).settings["output"] == os.path.abspath(output))


START_WORKERS_S = 3.0
"""What starting a worker for each GPU, and reading the graph there, costs at least: 2.8 s measured on one H200."""

MOST_TRIED_EDGES = 50_000_000
"""Of larger graphs reading takes seconds: workers read them at once, rather than this process before them."""


if TYPE_CHECKING:
    from papilio.tasks.directory import JobDirectory
    from papilio.tasks.session import JobSession

Result = TypeVar("Result", bound=CountResult)


class Call(ABC, Generic[Result]):
    """One call of a public function: from its question to the plan or the answer; subclasses write the answer.

    UnsupportedError for a graph of another kind than the motif's, or without signs where the motif needs them.

    Parameters
    ----------
    target : Path or None
        What is written.
    budget : Budget
        Memory that the job may use on each worker.
    parts, cluster, engine, workers, progress, job
        As for :func:`papilio.count`.
    """

    phases: ClassVar[tuple[str, ...]] = ("start", "plan", "read", "prepare", "run", "fold")

    def __init__(
        self,
        source: GraphInput,
        question: Question,
        target: Path | None,
        *,
        budget: Budget = NO_BUDGET,
        parts: str | os.PathLike[str] | None = None,
        cluster: Any = None,
        engine: EngineChoice = "auto",
        workers: int | None = None,
        progress: Listener | None = None,
        job: str | os.PathLike[str] | None = None,
    ) -> None:
        self.started = perf_counter()
        require_graph(question, source.graph.kind, signed=source.graph.signed, source=source.name)
        self.source, self.question, self.target = source, question, target
        self.budget, self.parts, self.job = budget, parts, job
        self.cluster, self.workers = cluster, workers
        self.engine, _ = question.settle_engine(engine)
        self.listener = progress or ignore_events
        self.stack = ExitStack()  # ends with the call; a session outlasts it

    @property
    def kept_parts(self) -> Path | None:
        """Directory of the parts, existing or to be made; None for a temporary one."""
        if self.parts is not None:
            return local_path(self.parts)
        return None if self.job is None else local_path(self.job) / "partition"

    @property
    def in_parts(self) -> bool:
        """Whether parts may be needed: there is a budget, or there are parts."""
        kept = self.kept_parts
        if self.budget.is_set or kept is None or self.question.listing is not None:
            return self.budget.is_set
        with os_errors_named(kept):
            return self.parts is not None or kept.exists()

    @cached_property
    def asked(self) -> JobSpec:
        """The job before it is placed; hashes a graph in memory."""
        return self.source.job(self.question)

    def make_job(self, executor: Executor) -> JobSpec:
        """Return the job with a source that the workers can read until the call ends, and within their memory."""
        if self.source.store is None and executor.in_process:
            source = self.stack.enter_context(held_graph(self.source.read()))
            job = replace(self.asked, source=source)
        else:
            shared = Path.cwd() if executor.name == "existing" else Path(tempfile.gettempdir())
            self.source.stored(self.stack, shared if self.target is None else self.target.parent)
            job = self.source.job(self.question)
        return fit_job(self, job, executor) if self.in_parts else job

    @abstractmethod
    def shard_parent(self, executor: Executor, job: JobSpec) -> Path | None:
        """Return the directory that partial results pass through where no session keeps them."""

    @abstractmethod
    def write(self, result: Result, listed: Sequence[ListingShard], kept: bool) -> Result:
        """Write the output and return the whole result; ``listed`` are files of leases, ``kept`` by a session."""

    def write_again(self, finished: JobDirectory, result: Result) -> Result:
        """Write the answer of a finished job."""
        return self.write(result, (), kept=True)

    def require_room(self) -> None:
        """Refuse, before anything runs, a target that cannot be written."""
        return

    def check(self, executor: Executor, outcome: JobOutcome) -> dict[str, float]:
        """Check the answer by other means; return the seconds by phase."""
        return {}

    def plan(self) -> CountPlan:
        """Prepare the graph on one worker and return the plan."""
        with self.stack:
            executor, job = self._choose_executor()
            made, _, _ = plan_job(executor, job, self.engine, ignore_events)
        return made

    def execute(self) -> Result:
        """Return the answer."""
        path = self.source.path  # before a graph in memory becomes a store
        with ExitStack() as held, self.stack:
            if self.job is not None:
                from papilio.tasks.directory import advise_resume, find_finished

                finished = find_finished(self.job, lambda: self.asked)
                if finished is not None:
                    return self._reuse(finished)
                advise_resume(self.job)
            self.require_room()
            self.listener(PhaseStarted("start"))
            executor, job = self._choose_executor()
            session = None
            if self.job is not None:
                from papilio.tasks.session import JobSession, settings_of

                asked = replace(self.asked, partition=job.partition, budget=job.budget)
                settings = settings_of(self.cluster, self.engine, self.workers, self.target)
                session = held.enter_context(JobSession(self.job, asked, path, settings))
            return self._run(executor, job, session)

    def _choose_executor(self) -> tuple[Executor, JobSpec]:
        """Return a started executor, which ends with the call, and the job with a source that its workers can read.

        Where no cluster is named and there are several GPUs, the job is planned in this process: it stays here unless
        the plan predicts more work than starting workers costs.
        """
        if not is_auto(self.cluster):
            executor = enter_executor(self.stack, self.cluster, self.engine, self.workers)
            return executor, self.make_job(executor)
        name, why = resolve_auto(self.cluster, self.engine, self.workers)
        if name.partition(":")[0] == "cuda" and self.workers is None and not self.in_parts:
            if self.source.graph.n_edges > MOST_TRIED_EDGES:
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
        """Plan the job in this process, on its first GPU; return it with its executor, or why workers are better.

        What was prepared for the plan serves the run.
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
                return ", and one is too small for the whole job"
            alone_s = plan.predicted_run_s
            if alone_s * (n_gpus - 1) / n_gpus <= START_WORKERS_S:
                here.why_chosen = (
                    f"one GPU of {n_gpus} is predicted to count for {alone_s:.2g} s, and starting workers takes about "
                    f"{START_WORKERS_S:.0f} s"
                )
                self.stack.push(trial.pop_all())
                return here, job
        release_device_memory()
        return f", since one alone is predicted to count for {alone_s:.2g} s"

    def _run(self, executor: Executor, job: JobSpec, session: JobSession | None) -> Result:
        start_s = perf_counter() - self.started
        shards = None if session is not None else self.shard_parent(executor, job)
        outcome = count_job(executor, job, self.engine, shards, self.listener, session)
        seconds = {"start": start_s, **outcome.result.seconds, **self.check(executor, outcome)}
        self.listener(PhaseStarted("write"))
        began = perf_counter()
        counted: Any = replace(outcome.result, graph=self.source.describe())
        result = self.write(counted, outcome.listed, session is not None)
        seconds["write"] = perf_counter() - began
        seconds["total"] = perf_counter() - self.started
        directory = None if session is None else str(session.root)
        result = replace(result, output=self._output, job_directory=directory, seconds=seconds)
        if session is not None:
            session.finish(result, outcome.partial.vectors)
        return result

    def _reuse(self, finished: JobDirectory) -> Result:
        began = perf_counter()
        answer: Any = finished.result()
        result = self.write_again(finished, answer)
        seconds = dict.fromkeys(self.phases, 0.0)
        seconds |= {"write": perf_counter() - began, "total": perf_counter() - self.started}
        return replace(result, output=self._output, seconds=seconds)

    @property
    def _output(self) -> str | None:
        return None if self.target is None else str(self.target)
