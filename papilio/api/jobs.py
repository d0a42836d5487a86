"""The public functions of jobs that outlast a call: submit, open, resume and verify them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from papilio.api.call import (
    GraphInput,
    Question,
    check_output,
    enter_executor,
    owns_output,
)
from papilio.api.count import count
from papilio.api.listing import resume_listing
from papilio.api.partition import Fitting
from papilio.arguments import Bytes, Number, Seed, Workers, checked
from papilio.cluster.driver import Recount, recount_leases
from papilio.cluster.events import Listener, ignore_events
from papilio.cluster.selection import check_cluster, require_trusted, require_trusted_output
from papilio.errors import InputError
from papilio.families import EngineChoice, family_of
from papilio.motifs import Granularity, Motif, choose_options, read_motif
from papilio.storage.files import local_path
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.directory import JobDirectory, find_finished, list_jobs
from papilio.tasks.job import Budget, job_of_store, require_kind
from papilio.tasks.job_remote import JobCheck, check_job
from papilio.tasks.job_state import Priority
from papilio.tasks.result import CountResult

__all__ = ["list_jobs", "open_job", "resume_job", "submit", "verify_job"]


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
    progress: Listener | None = None,
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
        As :func:`papilio.cluster.submit.submit_job` says.
    """
    from papilio.cluster.submit import submit_job

    check_cluster(cluster)
    motif = read_motif(motif)
    overwrite = overwrite or owns_output(job, output)
    target = check_output(output, motif, per, overwrite=overwrite)
    source = GraphInput(graph, family_of(motif).graph_kind)
    require_kind(motif, source.kind, source.name)
    if source.path is None:
        raise InputError("the graph is in memory, which ends with this process; write it to a store")
    question = Question(motif, per, choose_options(motif, options or {}))
    asked = job_of_store(open_store(source.path), *question)
    found = find_finished(job, lambda: asked)
    if found is not None:
        return found
    fitting = Fitting(Budget.of(device_memory, host_memory), parts, job)
    if fitting.is_asked:
        with ExitStack() as stack:
            executor = enter_executor(stack, cluster, engine, workers)
            asked = fitting.fit(stack, source, asked, executor, engine, target, progress or ignore_events)
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
    progress: Listener | None = None,
) -> CountResult:
    """Go on with the job of a directory; graph, motif, granularity and output are those that it was begun with.

    Parameters
    ----------
    cluster, engine, workers : optional
        Where the rest is counted, as for :func:`count`; by default as before. ``workers`` given before holds
        only for the cluster given before.
    trust : bool
        Whether to connect to the scheduler, and to replace the output, that the directory names although others can
        write there.

    Raises
    ------
    InputError
        When the graph was in memory: call :func:`count` with it again. When the directory, which another user owns or
        can write to, names the scheduler, and neither ``cluster`` is given nor ``trust``; or an output that exists.
    PapilioError
        As for :func:`count`.
    """
    directory = JobDirectory(path)
    if directory.source is None:
        raise InputError(
            f"the graph of {directory.root} was in memory; count it again with this job directory"
        )
    settings, job = directory.settings, directory.job
    if not trust:
        named_in = directory.root / "job.json"
        require_trusted_output(settings["output"], named_in)
        if cluster is None and not directory.finished:
            require_trusted(settings["cluster"], named_in)
    where: dict[str, Any] = {
        "cluster": settings["cluster"] if cluster is None else cluster,
        "engine": settings["engine"] if engine is None else engine,
        "workers": settings["workers"] if workers is None and cluster is None else workers,
        "progress": progress,
    }
    if job.listing is not None:
        return resume_listing(directory, **where)
    return count(directory.source, job.motif, output=settings["output"], **where, **directory.arguments)


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
