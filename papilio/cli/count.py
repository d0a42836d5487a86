"""The commands that count: plan and count."""

from __future__ import annotations

from typing import Any

import click

import papilio
from papilio.cli.jobs import report_job_count
from papilio.cli.options import JOB_OPTION, job_options, output_options
from papilio.cli.report import plan_lines, print_json
from papilio.motifs import Motif

__all__ = ["count", "plan"]


@click.command()
@job_options
@output_options("the counts per vertex or edge, or the table")
@JOB_OPTION
def count(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Count MOTIF (butterfly, biclique, balanced-butterfly, balanced-biclique or census) in the graph STORE.

    The count goes to standard output, and with --per but no --output the largest counts after it; of several
    sizes of bicliques a table. Everything else goes to standard error.

    \b
    papilio count butterfly STORE
    papilio count biclique STORE -p 3 -q 4
    papilio count biclique STORE -p 3 --all-q
    papilio count biclique STORE --all --max-p 10 --output table.parquet
    papilio count balanced-butterfly STORE
    papilio count balanced-butterfly STORE --all-k --max-k 9 --pair-side u
    papilio count balanced-biclique STORE -p 3 -q 3
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.count(store, motif, progress=bar, options=engine_options, **options)
    report_job_count(result, as_json)


@click.command()
@job_options
def plan(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Show how MOTIF would be counted in STORE: tasks, predicted work, memory, decisions."""
    made = papilio.plan(store, motif, options=engine_options, **options)
    if as_json:
        print_json(made.to_json())
    else:
        click.echo("\n".join(plan_lines(made)))
