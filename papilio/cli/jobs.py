"""The commands on job directories: jobs, status, resume, verify, submit, wait, cancel, logs."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import papilio
from papilio.arguments import plural, show_share
from papilio.cli.count import ENSEMBLE_OPTIONS
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import (
    COUNT_OPTIONS,
    DIRECTORY,
    JSON_FLAG,
    RUN_OPTIONS,
    SAME_ENGINE_FLAG,
    SEED,
    STORE,
    TRUST_FLAG,
    WORKERS,
    CommandGroup,
    with_options,
    with_output,
)
from papilio.cli.report import answer, print_json, put, report_result, say, show_progress
from papilio.cli.tables import STANDARD_OUTPUT, answer_rows, take_target, with_rows
from papilio.motifs import Motif
from papilio.storage.answers import rows_table

if TYPE_CHECKING:
    from papilio.tasks.directory import JobStatus, SessionInfo


_JOB_COLUMNS = ("path", "state", "title", "share", "count", "leases", "problem")


def _job_row(job: JobStatus) -> dict[str, Any]:
    return {**{name: getattr(job, name) for name in _JOB_COLUMNS[:-1]}, "problem": job.reason}


@click.command()
@click.argument("root", type=click.Path(), default=".")
@with_rows("the jobs")
@JSON_FLAG
def jobs(root: str, as_json: bool, **options: Any) -> None:
    """List the job directories at and below ROOT (by default here), three levels deep."""
    target = take_target(options, as_json, writes_files=False)
    found = papilio.list_jobs(root)
    if target is not None:
        rows = [
            dict(zip(_JOB_COLUMNS, (each[0], "damaged", None, None, None, None, each[1]), strict=True))
            if isinstance(each, tuple)
            else _job_row(each)
            for each in found
        ]
        target.write_rows(rows, _JOB_COLUMNS)
        return
    if as_json:
        rows = [{"path": each[0], "problem": each[1]} if isinstance(each, tuple) else each.to_dict() for each in found]
        print_json({"jobs": rows})
        return
    for each in found:
        if isinstance(each, tuple):
            put(f"damaged      {each[0]}: {each[1]}")
        else:
            put(f"{each.state:11}  {show_share(each.share):>6}  {each.title}  {each.path}")


@click.command()
@DIRECTORY
@with_rows("the state as a row")
@JSON_FLAG
def status(directory: str, as_json: bool, **options: Any) -> None:
    """Print the state and the progress of the job in DIRECTORY, from any machine that sees it."""
    target = take_target(options, as_json, writes_files=False)
    job = papilio.open_job(directory).status()

    def show(job: JobStatus) -> None:
        put("\n".join(_status_lines(job)))

    answer_rows(job, as_json, show, target, lambda job: rows_table([_job_row(job)]))


@click.command()
@DIRECTORY
@click.option("--cluster", metavar="CLUSTER", help="As for count; by default as at the start of the job.")
@SAME_ENGINE_FLAG
@click.option("--workers", type=WORKERS, help="As for count; by default as at the start of the job.")
@TRUST_FLAG
@with_rows("the answer, in addition to the output of the job")
@JSON_FLAG
def resume(directory: str, as_json: bool, **options: Any) -> None:
    """Resume the job of DIRECTORY: its finished leases are kept, and only the others run."""
    target = take_target(options, as_json, writes_files=False)
    with show_progress() as bar:
        result = papilio.resume_job(directory, progress=bar, **options)
    answer_rows(result, as_json, report_result, target)


@click.command()
@DIRECTORY
@click.option(
    "--sample", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
    help="Number of random leases to count again in this process and compare exactly.",
)  # fmt: skip
@SAME_ENGINE_FLAG
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed for choosing the leases.")
@JSON_FLAG
def verify(directory: str, sample: int, engine: str | None, seed: int, as_json: bool) -> None:
    """Check the finished job of DIRECTORY: ledger, tiling, sums, shards, graph, and a sample of its leases."""
    engine_choice: Any = engine or "auto"
    checked, again = papilio.verify_job(directory, sample=sample, engine=engine_choice, seed=seed)
    if as_json:
        print_json({**checked.to_dict(), "recount": None if again is None else asdict(again)})
        return
    put(checked.count)
    say(f"ledger: {checked.records} records, all checksums right")
    tile = "which reach the limit" if checked.limit_reached else f"which tile {checked.items:,} work items"
    say(f"leases: {checked.leases}, {tile} and sum to the count")
    if checked.shards:
        say(f"shards: {checked.shards}, all checksums right; together they give the answer")
    say(f"graph: {checked.graph or 'was in memory, not checked'}")
    if again is not None:
        say(
            f"recount: {again.leases} leases ({again.items:,} items) on engine {again.engine}, seed {again.seed}: "
            "all equal"
        )


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _status_lines(job: JobStatus) -> list[str]:
    state: str = job.state
    if job.holder is not None:
        state += f" (process {job.holder.pid} on {job.holder.host} since {_at(job.holder.since)})"
    if job.reason is not None:
        state += f": {job.reason}"
    if job.cancel_requested and job.state != "cancelled":
        state += ", asked to stop"
    lines = [
        f"job         {job.path}",
        f"state       {state}",
        f"question    {job.title} in {job.source or 'a graph in memory'}",
        f"graph       {job.graph_hash}",
        f"plan        {job.plan_key or 'not yet made'}",
        f"progress    {show_share(job.share)} of the predicted work; {plural(job.leases, 'lease')} finished, with "
        f"{job.items_done:,} of {plural(job.items, 'work item')}",
    ]
    if job.count is not None:
        lines.append(f"count       {job.count:,}")
    if job.submission is not None:
        lines.append(_submission_line(job))
    return [*lines, *(_session_line(session) for session in job.sessions)]


def _submission_line(job: JobStatus) -> str:
    submission, coordinator = job.submission, job.coordinator
    assert submission is not None
    line = (
        f"submitted   from {submission.host} at {_at(submission.submitted_at)} to {submission.cluster}, "
        f"priority {submission.priority}"
    )
    if coordinator is not None:
        line += (
            f"; coordinator {coordinator.attempt} on worker {coordinator.worker} "
            f"(process {coordinator.pid} on {coordinator.host}), {coordinator.state}"
        )
    return line


def _session_line(session: SessionInfo) -> str:
    ended = "" if session.ended_at is None else f" to {_at(session.ended_at)}: {session.outcome}"
    workers = f"{plural(session.workers, 'worker')} ({session.cluster})"
    return (
        f"session {session.number:<3} {plural(session.leases, 'lease')} (about {session.planned:,} planned), "
        f"engine {session.engine}, "
        f"{workers}, process {session.pid} on {session.host}, "
        f"{_at(session.began_at)}{ended}"
    )


IDLE_HINT_S = 60.0
"""Time without a process that runs the job after which ``wait`` prints a hint."""


@click.group(cls=CommandGroup)
def submit() -> None:
    """Submit a job to a cluster, which finishes it without this process."""


_SUBMIT_OPTIONS = with_options(
    click.option(
        "--cluster",
        metavar="CLUSTER",
        required=True,
        help="Address of a permanent scheduler, such as tcp://host:8786, or its scheduler file.",
    ),
    RUN_OPTIONS,
    click.option(
        "--job",
        type=click.Path(),
        metavar="DIR",
        required=True,
        help="Job directory, under the same path here and on all workers; an unfinished job is resumed.",
    ),
    click.option(
        "--priority",
        type=click.Choice(["low", "normal", "high"]),
        default="normal",
        show_default=True,
        help="Priority among the jobs that share the cluster; a low one waits at most ten minutes for each lease.",
    ),
)


@submit.command(cls=MotifGroup)
@STORE
@ENSEMBLE_OPTIONS
@with_output("the counts of the samples, or the sizes or vertices with their z")
@_SUBMIT_OPTIONS
def significance(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Compare the count of MOTIF in the graph STORE with random graphs on a cluster, without waiting for the answer."""
    _submit(motif, store, as_json, engine_options, options)


@submit.command(cls=MotifGroup)
@COUNT_OPTIONS
@with_output("the counts per vertex or edge, or the table")
@_SUBMIT_OPTIONS
def count(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Count MOTIF in the graph STORE on a cluster, without waiting for the answer."""
    _submit(motif, store, as_json, engine_options, options)


def _submit(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], options: dict[str, Any]) -> None:
    if options["output"] == STANDARD_OUTPUT:
        job = options["job"]
        raise click.UsageError(
            f"submit ends before there are rows; omit --output, then run papilio wait {shlex.quote(job)} --output -"
        )
    with show_progress() as bar:
        job = papilio.submit(store, motif, options=engine_options, progress=bar, **options)
    answer(job.status(), as_json, lambda status: _report_submitted(status, options["cluster"]))


def _report_submitted(job: JobStatus, cluster: str) -> None:
    put(job.path)
    if job.state == "finished":
        say(f"job {job.path}: already finished; nothing was submitted. papilio wait {job.path} shows the count")
        return
    say(f"job {job.path}: submitted to {cluster}; you can close this terminal")
    for command, does in (
        ("wait", "waits for the count"),
        ("status", "shows state and progress"),
        ("logs", "prints the log; --follow keeps printing"),
        ("cancel", "stops it, and keeps the finished leases"),
    ):
        say(f"  papilio {command:6} {job.path}   {does}")


@click.command()
@DIRECTORY
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum time to wait; by default until the job ends.",
)
@with_rows("the answer, in addition to the output of the job")
@JSON_FLAG
def wait(directory: str, timeout: float | None, as_json: bool, **options: Any) -> None:
    """Wait until the job of DIRECTORY has ended, and print the count.

    The exit code is 0 when it finished, 1 when it failed or was interrupted, 7 when it was cancelled, and 8 when
    the time is over.
    """
    target = take_target(options, as_json, writes_files=False)
    with show_progress() as bar:
        result = papilio.wait_job(directory, timeout_s=timeout, report=_Progress(bar))
    answer_rows(result, as_json, report_result, target)


class _Progress:
    """Draws the status of a job at every look, and prints a hint if no process runs it."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._began = self._hinted = False
        self._looks_idle = 0

    def __call__(self, status: JobStatus) -> None:
        self._bar.describe("counting" if status.state == "running" else status.state)
        if status.work:
            if not self._began:
                self._bar.restart(status.work_done, status.work)
            self._began = True
            self._bar.advance(status.work_done, status.work)
        self._looks_idle = 0 if status.holder is not None else self._looks_idle + 1
        if self._looks_idle >= IDLE_HINT_S and not self._hinted:
            self._hinted = True
            say(
                f"papilio: no process has run the job for a minute ({status.reason}); if that cluster is gone, "
                f"papilio resume {status.path} continues it elsewhere"
            )


@click.command()
@DIRECTORY
def cancel(directory: str) -> None:
    """Stop the job of DIRECTORY, from any machine that sees it. Finished leases are kept for resume."""
    if papilio.cancel_job(directory) == "requested":
        say(f"job {directory}: asked to stop; papilio wait {directory} returns when it has stopped")
    else:
        say(f"job {directory}: was already asked to stop")


@click.command()
@DIRECTORY
@click.option("--follow", is_flag=True, help="Keep printing until the job ends.")
def logs(directory: str, follow: bool) -> None:
    """Print the log of the submitted job of DIRECTORY: its plan, workers that came and went, errors."""
    for text in papilio.read_job_log(directory, follow=follow):
        put(text, end="")
