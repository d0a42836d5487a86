"""The command that cuts a graph into parts: papilio partition."""

from __future__ import annotations

import json
from typing import Any

import click

import papilio
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import BUDGET_OPTIONS, JSON_FLAG, STORE, THREADS
from papilio.cli.report import partition_lines, print_json, say, show_progress
from papilio.motifs import GRANULARITIES, Motif
from papilio.partitioning.cut_request import STRATEGIES


@click.command(cls=MotifGroup, motif_flag=True)
@STORE
@click.argument("output", type=click.Path())
@click.option("--motif", required=True, metavar="MOTIF", help="What will be counted.")
@click.option(
    "--per",
    type=click.Choice(GRANULARITIES),
    default="total",
    show_default=True,
    help="The finest counts that the parts are to serve.",
)
@BUDGET_OPTIONS
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    show_default=True,
    help="How work items are grouped; auto compares what bcpar and pair_blocks would move.",
)
@click.option(
    "--threads",
    type=THREADS,
    help="Threads of cutting and of the CPU workers that the parts are made for; by default all processors.",
)
@click.option("--temp-dir", type=click.Path(), help="Directory for scratch files; by default that of OUTPUT.")
@JSON_FLAG
def partition(
    store: str, output: str, motif: Motif, as_json: bool, engine_options: dict[str, str], **options: Any
) -> None:
    """Cut the graph STORE into parts that fit a worker's memory, once, into the directory OUTPUT.

    The parts are made for workers with a GPU where --device-memory is given, else for CPU workers. Parts of bicliques
    and cliques serve all larger sizes.

    \b
    papilio partition STORE PARTS --motif butterfly --device-memory 8GiB --host-memory 16GiB
    papilio count butterfly STORE --parts PARTS --device-memory 8GiB
    """
    with show_progress() as bar:
        bar.describe("cutting into parts")
        made = papilio.partition(
            store, output, motif, options=engine_options, progress=bar.advance_share, **options
        )
    if as_json:
        print_json({"path": made.path, **json.loads(made.manifest.to_json())})
        return
    click.echo(made.path)
    for line in partition_lines(made.manifest):
        say(line)
