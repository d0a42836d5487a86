"""The commands that count: plan and count."""

from __future__ import annotations

from typing import Any

import click

import papilio
from papilio.cli.jobdirs import report_job_count
from papilio.cli.options import job_options
from papilio.cli.report import plan_lines, print_json
from papilio.motifs import motif_from_json

__all__ = ["count", "plan"]


@click.command()
@job_options
@click.option("--output", type=click.Path(), help="Parquet file for the counts per vertex or edge.")
@click.option(
    "--job",
    type=click.Path(),
    metavar="DIR",
    help="Job directory that keeps every finished lease; the same command again goes on where it ended.",
)
def count(motif: str, store: str, as_json: bool, **options: Any) -> None:
    """Count MOTIF (butterfly) in the graph STORE.

    The count goes to standard output, and with --per but no --output the largest counts after it; everything
    else goes to standard error.
    """
    from papilio.cluster.progress import ProgressBar

    asked = motif_from_json({"name": motif})
    with ProgressBar() as bar:
        result = papilio.count(store, asked, progress=bar, **options)
    report_job_count(result, as_json)


@click.command()
@job_options
def plan(motif: str, store: str, as_json: bool, **options: Any) -> None:
    """Show how MOTIF would be counted in STORE: tasks, predicted work, memory, decisions."""
    made = papilio.plan(store, motif_from_json({"name": motif}), **options)
    if as_json:
        print_json(made.to_json())
    else:
        click.echo("\n".join(plan_lines(made)))
