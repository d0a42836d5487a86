"""The public functions of jobs that outlast a call: submit, open, resume and verify them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from papilio.api.call import enter_executor
from papilio.api.count import count
from papilio.api.listing import resume_listing, source_of
from papilio.api.partition import fit_job
from papilio.api.plan import call_of
from papilio.api.read import AskedOptions
from papilio.api.significance import significance
from papilio.arguments import Bytes, Count, Number, Samples, Seed, Workers, checked
from papilio.cluster.driver import Recount, recount_leases
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.cluster.selection import check_cluster
from papilio.cluster.trust import require_trusted, require_trusted_output
from papilio.errors import InputError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.null.models import NullName
from papilio.motifs import Granularity, Motif
from papilio.storage.files import local_path
from papilio.tasks.directory import JobDirectory, find_finished, list_jobs
from papilio.tasks.job_remote import JobCheck, check_job
from papilio.tasks.job_state import Priority
from papilio.tasks.result import CountResult

__all__ = ["list_jobs", "open_job", "resume_job", "submit", "verify_job"]


@checked
@shows_progress
def submit(
    graph: Any,
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
    progress: Progress = None,
    samples: Samples | None = None,
    null: NullName | None = None,
    seed: Seed | None = None,
    steps: Count | None = None,
    **asked: Unpack[AskedOptions],
) -> JobDirectory:
    """Submit a count to a cluster and return; the cluster continues without this process.

    Parameters are the same as for :func:`count`, and:

    cluster : str, path-like or distributed.Client
        A permanent scheduler.
    job : path-like
        Job directory, under the same path here and on all workers. If it has the answer, nothing is submitted.
    priority : {"low", "normal", "high"}
        Priority among the jobs that share the cluster.
    samples, null, seed, steps : optional
        As for :func:`papilio.significance`: compare the count with random graphs. Without ``samples`` it is a count.

    If parts are needed, they are cut here, before the job is submitted.

    Returns
    -------
    JobDirectory
        The job; :func:`papilio.wait_job` waits for its result.

    Raises
    ------
    PapilioError
        As for :func:`papilio.cluster.submit.submit_job`.
    """
    from papilio.cluster.submit import submit_job

    check_cluster(cluster)
    call = call_of(
        graph, motif, {"device_memory": device_memory, "host_memory": host_memory, "parts": parts}, samples=samples,
        null=null, seed=seed, steps=steps, per=per, options=options, output=output, overwrite=overwrite, engine=engine,
        progress=progress, job=job, asked=asked,
    )  # fmt: skip
    made = replace(call.spec, source=call.graph.lasting_path())
    found = find_finished(job, lambda: made)
    if found is not None:
        return found
    if call.in_parts:
        with call.stack:
            made = fit_job(call, made, enter_executor(call.stack, cluster, engine, workers))
    submit_job(
        local_path(job), made, cluster=cluster, engine=engine, workers=workers, priority=priority,
        output=call.target, count=count if samples is None else significance,
    )  # fmt: skip
    return JobDirectory(job)


@checked
def open_job(path: str | os.PathLike[str]) -> JobDirectory:
    """Open a job directory, to read its status or its result; works while another process runs the job.

    Raises
    ------
    StoreError
        If it is not a job directory.
    """
    return JobDirectory(path)


@checked
@shows_progress
def resume_job(
    path: str | os.PathLike[str],
    *,
    cluster: Any = None,
    engine: EngineChoice | None = None,
    workers: Workers | None = None,
    trust: bool = False,
    progress: Progress = None,
) -> CountResult:
    """Resume the job of a directory, with its original graph, motif, granularity and output.

    Parameters
    ----------
    cluster, engine, workers : optional
        Where the missing leases run, as for :func:`count`; by default as before. An earlier ``workers`` applies only to
        the earlier cluster.
    trust : bool
        Whether to connect to the scheduler, and to replace the output, named in the directory even if others can write
        there.

    Raises
    ------
    InputError
        If the graph was in memory: call :func:`count` with it again. If another user owns the directory or can write to
        it, and it names a scheduler (without ``cluster`` or ``trust``) or an existing output.
    PapilioError
        As for :func:`count`.
    """
    directory = JobDirectory(path)
    if directory.source is None:
        raise InputError(f"the graph of {directory.root} was in memory; count it again with this job directory")
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
    run = count if job.ensemble is None else significance
    return run(source_of(directory), job.motif, output=settings["output"], **where, **directory.arguments)


@checked
def verify_job(
    path: str | os.PathLike[str],
    *,
    sample: Number = 0,
    engine: EngineChoice = "auto",
    seed: Seed = 0,
) -> tuple[JobCheck, Recount | None]:
    """Check a finished job (ledger, tiling, sums, shards, graph), and count a sample of its leases again.

    Parameters
    ----------
    sample : int
        Leases to count again in this process; 0 for none.
    engine : {"auto", "cpu", "gpu"}
        Engine that counts them.
    seed : int
        Seed for choosing the leases.

    Raises
    ------
    PapilioError
        For the first fault found.
    """
    directory = JobDirectory(path)
    checked = check_job(directory)
    return checked, recount_leases(directory, sample, engine, seed) if sample else None
