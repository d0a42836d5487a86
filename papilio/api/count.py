"""The public functions: open a graph, plan a count, count; open, resume and verify a job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from papilio.api.inputs import (
    GraphInput,
    Progress,
    Question,
    check_output,
    enter_executor,
    owns_output,
    result_of,
    scratch_parent,
    shard_parent,
    write_counts,
)
from papilio.api.listing import resume_listing
from papilio.api.partition import fit_job
from papilio.arguments import Bytes, Number, Seed, Workers, checked
from papilio.cluster.driver import count_job, plan_job
from papilio.cluster.events import PhaseStarted, ignore_events
from papilio.cluster.executor import Executor
from papilio.cluster.recount import Recount, recount_leases
from papilio.cluster.selection import check_cluster, make_executor
from papilio.cluster.trust import require_trusted
from papilio.errors import InputError
from papilio.families import EngineChoice
from papilio.motifs import Granularity, Motif, choose_options, read_motif
from papilio.storage.labelled import Vectors
from papilio.storage.location import local_path, os_errors_named
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.budget import Budget
from papilio.tasks.check import JobCheck, check_job
from papilio.tasks.control import Priority
from papilio.tasks.directory import JobDirectory, advise_resume, find_finished, list_jobs
from papilio.tasks.graphs import job_of_store, require_kind
from papilio.tasks.job import JobSpec
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import CountResult, find_top
from papilio.tasks.session import JobSession, settings_of

__all__ = [
    "CountResult",
    "count",
    "list_jobs",
    "open_cluster",
    "open_graph",
    "open_job",
    "plan",
    "resume_job",
    "submit",
    "verify_job",
]

TOP_ENTRIES = 10
"""Largest counts listed in a result, per layer."""


@checked
def open_graph(path: str | os.PathLike[str]) -> GraphStore:
    """Open a graph store; reads its manifest only.

    Raises
    ------
    StoreError
        When the path is missing, corrupt, truncated, foreign or of a newer version.
    """
    return open_store(path)


@checked
def open_cluster(
    cluster: str | os.PathLike[str] | Any = "auto",
    *,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
) -> Executor:
    """Return an executor, to be started by a ``with`` block and given to several counts.

    Parameters
    ----------
    cluster : str, path-like or distributed.Client
        ``auto``, ``inline``, ``local``, ``cuda``, an address such as ``tcp://host:8786``, the path of a scheduler
        file, or a connected client.
    engine : {"auto", "cpu", "gpu"}
        What the cluster will be used for: ``auto`` does not start GPU workers for ``cpu``.
    workers : int, optional
        Worker processes (``local``), GPUs (``cuda``), or workers to wait for.

    Examples
    --------
    >>> with papilio.open_cluster("local", workers=2) as cluster:
    ...     result = papilio.count("graph/", papilio.Butterfly(), cluster=cluster)
    """
    return make_executor(cluster, engine, workers)


@checked
def plan(
    graph: Any,
    motif: Motif | str,
    *,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    options: Mapping[str, str] | None = None,
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    parts: str | os.PathLike[str] | None = None,
) -> CountPlan:
    """Prepare a graph on one worker and plan the count of ``motif``, without running it.

    Parameters and errors are those of :func:`count`. Where parts are needed, they are cut to be planned with.
    """
    motif = read_motif(motif)
    with ExitStack() as stack:
        question = Question(motif, per, choose_options(motif, options or {}))
        source = GraphInput(graph)
        require_kind(motif, source.kind, source.name)
        executor = enter_executor(stack, cluster, engine, workers)
        job = source.enter(stack, executor, question, None)
        cut = _Parts(Budget.of(device_memory, host_memory), parts, None)
        job = cut.fit(stack, source, question, job, executor, engine, None, ignore_events)
        made, _, _ = plan_job(executor, job, engine, ignore_events)
    return made


@checked
def count(
    graph: Any,
    motif: Motif | str,
    *,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
    progress: Progress | None = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    parts: str | os.PathLike[str] | None = None,
) -> CountResult:
    """Count a motif exactly.

    Parameters
    ----------
    graph : path-like, GraphStore, BipartiteGraph, or object
        A graph store or its path or URL, a graph in memory, or whatever :mod:`papilio.storage.interop` reads
        (NetworkX, SciPy sparse, pandas, pyarrow, NumPy). Graphs in memory are counted where they are by the inline
        cluster and written to a temporary store for any other.
    motif : Motif or str
        What to count: ``Butterfly()``, ``Biclique(3, 4)``, or ``Biclique(3, None)`` for every q; ``"butterfly"`` and
        ``"balanced-butterfly"``, which need no sizes, also by name.
    per : {"total", "vertex", "edge"}
        Count in all, for every vertex, or for every edge.
    cluster : str, path-like, distributed.Client or Executor, optional
        As for :func:`open_cluster`, or a started executor; by default ``inline``: in this process, with all its
        processors or the first GPU that it sees.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` takes GPUs where the workers have them. ``gpu`` is never replaced by ``cpu``.
    output : path-like, optional
        File for the counts per vertex or edge, or for the table: Parquet, CSV or JSON, as its suffix says. Partial
        results pass through its directory, which all workers must be able to write to.
    overwrite : bool
        Replace a file that is at ``output``. The file that a job was begun with is its own, and is replaced anyway.
    workers : int, optional
        As for :func:`open_cluster`.
    progress : callable, optional
        Called with every event of :mod:`papilio.cluster.events`.
    job : path-like, optional
        Job directory, which keeps every finished lease. Where it holds a part of this count already, on
        whatever cluster or engine, only the rest is counted; where it holds the answer, nothing is.
    options : mapping of str to str, optional
        How the engines compute it, where the motif leaves a choice: for bicliques ``algorithm`` (``auto``,
        ``enumerate``, ``pivot``) and ``anchor`` (``auto``, ``u``, ``v``). The answer does not depend on it.
    device_memory, host_memory : int or str, optional
        Bytes, or a size such as ``"8GiB"``, that a worker may use of its device and of its host. Where the whole graph
        does not fit, it is cut into parts, which are counted one after the other; see docs/out-of-memory.md. Where this
        process is the worker, ``host_memory`` holds for all of it.
    parts : path-like, optional
        The partition whose parts are counted, as :func:`papilio.partition` made them. If nothing is there and parts are
        needed, they are cut there and kept; without it, in the job directory, else for this count alone.

    Returns
    -------
    CountResult

    Raises
    ------
    PapilioError
        InputError, StoreError or UnsupportedError for what is given; CapacityError when it cannot fit;
        EngineUnavailableError or ClusterError for where it should run; ExecutionError when it went wrong there.
    """
    started = perf_counter()
    listener = progress or ignore_events
    motif = read_motif(motif)
    question = Question(motif, per, choose_options(motif, options or {}))
    overwrite = overwrite or owns_output(job, output)
    target = check_output(output, motif, per, overwrite=overwrite)
    cut = _Parts(Budget.of(device_memory, host_memory), parts, job)
    with ExitStack() as held, ExitStack() as stack:
        source = GraphInput(graph)
        require_kind(motif, source.kind, source.name)
        source.require_storable(target)
        if job is not None:
            finished = find_finished(job, lambda: source.job(question, "memory:"))
            if finished is not None:
                return _reuse(finished, stack, source, target, overwrite, started)
            advise_resume(job)
        listener(PhaseStarted("start"))
        executor = enter_executor(stack, cluster, engine, workers)
        spec = source.enter(stack, executor, question, target)
        spec = cut.fit(stack, source, question, spec, executor, engine, target, listener)
        session = None
        if job is not None:
            asked = replace(source.job(question, "memory:"), partition=spec.partition, budget=spec.budget)
            settings = settings_of(cluster, engine, workers, target)
            session = held.enter_context(JobSession(job, asked, source.path, settings))
        start_s = perf_counter() - started
        shards = None
        if session is None and not executor.in_process:
            shards = shard_parent(executor, spec, target)
        outcome = count_job(executor, spec, engine, shards, listener, session)
        listener(PhaseStarted("write"))
        write_started = perf_counter()
        vectors, table = outcome.partial.vectors, dict(sorted(outcome.partial.cells.items()))
        if target is not None:
            stored = source.stored(stack, target.parent)
            write_counts(target, stored, motif, vectors, table, overwrite=overwrite)
        result = replace(
            result_of(outcome, executor, source.describe(spec)),
            table=table,
            output=None if target is None else str(target),
            vectors=Vectors(vectors, source.labelled),
            top=find_top(vectors, source.given, TOP_ENTRIES),
            job_directory=None if session is None else str(session.root),
        )
        seconds = {"start": start_s, **outcome.seconds, "write": perf_counter() - write_started}
        result = replace(result, seconds={**seconds, "total": perf_counter() - started})
        if session is not None:
            session.finish(result, vectors)
    return result


@checked
def submit(
    graph: str | os.PathLike[str] | GraphStore,
    motif: Motif | str,
    *,
    cluster: str | os.PathLike[str] | Any,
    job: str | os.PathLike[str],
    per: Granularity = "total",
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
    priority: Priority = "normal",
    options: Mapping[str, str] | None = None,
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> JobDirectory:
    """Give a count to a cluster and return once it has it; the cluster goes on when this process is gone.

    Parameters are those of :func:`count`, and:

    cluster : str, path-like or distributed.Client
        A scheduler that stays.
    job : path-like
        Job directory, under the same path here and on all workers. Where it holds the answer, nothing is submitted.
    priority : {"low", "normal", "high"}
        Among the jobs that share the cluster.

    Where parts are needed, they are cut here, before the job is submitted.

    Returns
    -------
    JobDirectory
        To look at; :func:`papilio.wait_job` waits for the result.

    Raises
    ------
    PapilioError
        As :func:`papilio.cluster.submission.submit_job` says.
    """
    from papilio.cluster.submission import submit_job

    check_cluster(cluster)
    motif = read_motif(motif)
    overwrite = overwrite or owns_output(job, output)
    target = check_output(output, motif, per, overwrite=overwrite)
    source = GraphInput(graph)
    require_kind(motif, source.kind, source.name)
    if source.path is None:
        raise InputError("the graph is in memory, which ends with this process; write it to a store")
    question = Question(motif, per, choose_options(motif, options or {}))
    asked = job_of_store(open_store(source.path), *question)
    found = find_finished(job, lambda: asked)
    if found is not None:
        return found
    cut = _Parts(Budget.of(device_memory, host_memory), parts, job)
    if cut.is_asked:
        with ExitStack() as stack:
            executor = enter_executor(stack, cluster, engine, workers)
            asked = cut.fit(
                stack, source, question, asked, executor, engine, target, progress or ignore_events
            )
    submit_job(
        local_path(job), asked, cluster=cluster, engine=engine, workers=workers, priority=priority,
        output=target, count=count,
    )  # fmt: skip
    return JobDirectory(job)


@checked
def open_job(path: str | os.PathLike[str]) -> JobDirectory:
    """Open a job directory, to read its status or its result; works while another process runs the job.

    Raises
    ------
    StoreError
        When it is no job directory.
    """
    return JobDirectory(path)


@checked
def resume_job(
    path: str | os.PathLike[str],
    *,
    cluster: Any = None,
    engine: EngineChoice | None = None,
    workers: Workers | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> CountResult:
    """Go on with the job of a directory; graph, motif, granularity and output are those that it was begun with.

    Parameters
    ----------
    cluster, engine, workers : optional
        Where the rest is counted, as for :func:`count`; by default as before. ``workers`` given before holds
        only for the cluster given before.
    trust : bool
        Whether to connect to the scheduler that the directory names although others can write there.

    Raises
    ------
    InputError
        When the graph was in memory: call :func:`count` with it again. When the directory, which another user owns or
        can write to, names the scheduler, and neither ``cluster`` is given nor ``trust``.
    PapilioError
        As for :func:`count`.
    """
    directory = JobDirectory(path)
    if directory.source is None:
        raise InputError(
            f"the graph of {directory.root} was in memory; count it again with this job directory"
        )
    settings, job = directory.settings, directory.job
    if cluster is None and not trust and not directory.finished:
        require_trusted(settings["cluster"], directory.root / "job.json")
    if job.listing is not None:
        return resume_listing(
            directory,
            cluster=settings["cluster"] if cluster is None else cluster,
            engine=settings["engine"] if engine is None else engine,
            workers=settings["workers"] if workers is None and cluster is None else workers,
            progress=progress,
        )
    return count(
        directory.source,
        job.motif,
        per=job.per,
        cluster=settings["cluster"] if cluster is None else cluster,
        engine=settings["engine"] if engine is None else engine,
        output=settings["output"],
        workers=settings["workers"] if workers is None and cluster is None else workers,
        progress=progress,
        job=path,
        options=dict(job.options),
        device_memory=job.budget.device_bytes,
        host_memory=job.budget.host_bytes,
        parts=None if job.partition is None else job.partition.path,
    )


@checked
def verify_job(
    path: str | os.PathLike[str],
    *,
    sample: Number = 0,
    engine: EngineChoice = "auto",
    seed: Seed = 0,
) -> tuple[JobCheck, Recount | None]:
    """Check a finished job: ledger, tiling, sums, shards and graph; and count a sample of its leases again.

    Parameters
    ----------
    sample : int
        Leases to count again in this process; 0 for none.
    engine : {"auto", "cpu", "gpu"}
        Which engine counts them.
    seed : int
        Of the choice.

    Raises
    ------
    PapilioError
        Naming the first thing that is wrong.
    """
    directory = JobDirectory(path)
    checked = check_job(directory)
    return checked, recount_leases(directory, sample, engine, seed) if sample else None


class _Parts(NamedTuple):
    """What a call says about memory and parts."""

    budget: Budget
    parts: str | os.PathLike[str] | None
    job: str | os.PathLike[str] | None

    @property
    def _directory(self) -> Path | None:
        """Where the parts are or are to be; None for a directory that does not stay."""
        if self.parts is not None:
            return local_path(self.parts)
        return None if self.job is None else local_path(self.job) / "partition"

    @property
    def is_asked(self) -> bool:
        """Whether parts may be needed: there is a budget, or there are parts."""
        kept = self._directory
        if self.budget.is_set or self.parts is not None:
            return True
        if kept is None:
            return False
        with os_errors_named(kept):
            return kept.exists()

    def fit(
        self,
        stack: ExitStack,
        source: GraphInput,
        question: Question,
        spec: JobSpec,
        executor: Executor,
        engine: EngineChoice,
        target: Path | None,
        listener: Progress,
    ) -> JobSpec:
        """Return the job on the whole graph or on parts of it; see :func:`papilio.api.partition.fit_job`."""
        if not self.is_asked:
            return spec
        parent = scratch_parent(executor, source, target)
        return fit_job(
            stack, source, question, spec, executor, engine, self.budget, self._directory, parent, listener
        )


def _reuse(
    finished: JobDirectory,
    stack: ExitStack,
    source: GraphInput,
    target: Path | None,
    overwrite: bool,
    started: float,
) -> CountResult:
    """Return the answer of a finished job, and write its counts to ``target`` if one is given."""
    result = finished.result()
    write_started = perf_counter()
    if target is not None:
        stored = source.stored(stack, target.parent)
        write_counts(target, stored, result.motif, result.vectors, result.table, overwrite=overwrite)
    vectors = dict(result.vectors)
    top = find_top(vectors, source.given, TOP_ENTRIES)
    result = replace(result, vectors=Vectors(vectors, source.labelled), top=top)
    seconds = {"write": perf_counter() - write_started, "total": perf_counter() - started}
    idle = dict.fromkeys(("start", "plan", "read", "prepare", "run", "fold"), 0.0)
    return replace(result, output=None if target is None else str(target), seconds=idle | seconds)
