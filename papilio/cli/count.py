"""The commands that count: plan and count."""

from __future__ import annotations

from typing import Any

import click

import papilio
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import CLUSTER_OPTIONS, COUNT_OPTIONS, JOB_FLAG, RUN_OPTIONS, with_output
from papilio.cli.report import answer, report_plan, report_result, show_progress
from papilio.motifs import Motif


@click.command(cls=MotifGroup)
@COUNT_OPTIONS
@CLUSTER_OPTIONS
@RUN_OPTIONS
@with_output("the counts per vertex or edge, or the table")
@JOB_FLAG
def count(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Count MOTIF in the graph STORE.

    The count goes to standard output, and with --per but no --output the largest counts after it; of several
    sizes a table. Everything else goes to standard error.

    \b
    papilio count butterfly STORE
    papilio count biclique STORE -p 3 -q 4
    papilio count biclique STORE -p 3 --all-q
    papilio count biclique STORE --all --max-p 10 --output table.parquet
    papilio count balanced-butterfly STORE
    papilio count balanced-butterfly STORE --all-k --max-k 9 --pair-side u
    papilio count balanced-biclique STORE -p 3 -q 3
    """
    with show_progress() as bar:
        result = papilio.count(store, motif, progress=bar, options=engine_options, **options)
    answer(result, as_json, report_result)


@click.command(cls=MotifGroup)
@COUNT_OPTIONS
@CLUSTER_OPTIONS
@RUN_OPTIONS
def plan(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Show how MOTIF would be counted in the graph STORE: tasks, predicted work, memory, decisions."""
    answer(papilio.plan(store, motif, options=engine_options, **options), as_json, report_plan)
