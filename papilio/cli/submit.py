"""The commands for jobs that a cluster brings to their end: submit, wait, cancel, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import papilio
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import COUNT_OPTIONS, DIRECTORY, JSON_FLAG, RUN_OPTIONS, with_output
from papilio.cli.report import answer, report_result, say, show_progress
from papilio.motifs import Motif

if TYPE_CHECKING:
    from papilio.tasks.status import JobStatus

IDLE_HINT_S = 60.0
"""Time without a process that runs the job after which ``wait`` says so."""


@click.group()
def submit() -> None:
    """Give a job to a cluster and leave: the cluster brings it to its end."""


@submit.command(cls=MotifGroup)
@COUNT_OPTIONS
@click.option(
    "--cluster",
    metavar="CLUSTER",
    required=True,
    help="The address of a scheduler that stays, such as tcp://host:8786, or its scheduler file.",
)
@RUN_OPTIONS
@with_output("the counts per vertex or edge, or the table")
@click.option(
    "--job",
    type=click.Path(),
    metavar="DIR",
    required=True,
    help="Job directory, under the same path here and on all workers; an unfinished one is gone on with.",
)
@click.option(
    "--priority",
    type=click.Choice(["low", "normal", "high"]),
    default="normal",
    show_default=True,
    help="Among the jobs that share the cluster; a low one waits at most ten minutes for each lease.",
)
def count(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Count MOTIF in the graph STORE on a cluster, without waiting for the answer."""
    with show_progress() as bar:
        job = papilio.submit(store, motif, options=engine_options, progress=bar, **options)
    answer(job.status(), as_json, lambda found: _report_submitted(found, options["cluster"]))


def _report_submitted(found: JobStatus, cluster: str) -> None:
    click.echo(found.path)
    if found.state == "finished":
        say(
            f"job {found.path}: finished before; nothing was submitted. papilio wait {found.path} shows the count"
        )
        return
    say(f"job {found.path}: the cluster {cluster} has it; this machine may leave")
    for command, does in (
        ("wait", "waits for the count"),
        ("status", "shows state and progress"),
        ("logs", "shows what happened; --follow what happens"),
        ("cancel", "stops it; what is counted is kept"),
    ):
        say(f"  papilio {command:6} {found.path}   {does}")


@click.command()
@DIRECTORY
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait; by default to the end.",
)
@JSON_FLAG
def wait(directory: str, timeout: float | None, as_json: bool) -> None:
    """Wait until the job of DIRECTORY has ended, and print the count.

    The exit code is 0 when it finished, 1 when it failed or was interrupted, 7 when it was cancelled, and 8 when
    the time is over.
    """
    with show_progress() as bar:
        result = papilio.wait_job(directory, timeout_s=timeout, report=_Progress(bar))
    answer(result, as_json, report_result)


class _Progress:
    """Draws the status of a job each time that it is looked at, and says so when nothing runs it."""

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
                f"papilio resume {status.path} goes on with it elsewhere"
            )


@click.command()
@DIRECTORY
def cancel(directory: str) -> None:
    """Stop the job of DIRECTORY, from any machine that sees it; what is counted is kept, resume goes on with it."""
    if papilio.cancel_job(directory) == "requested":
        say(f"job {directory}: asked to stop; papilio wait {directory} returns when it has")
    else:
        say(f"job {directory}: was asked to stop before")


@click.command()
@DIRECTORY
@click.option("--follow", is_flag=True, help="Go on until the job has ended.")
def logs(directory: str, follow: bool) -> None:
    """Print the log of the submitted job of DIRECTORY: its plan, workers that came and went, errors."""
    for text in papilio.read_job_log(directory, follow=follow):
        click.echo(text, nl=False)
