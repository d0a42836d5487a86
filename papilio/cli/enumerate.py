"""The command that lists motifs one by one: enumerate."""

from __future__ import annotations

from typing import Any

import click

import papilio
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import CLUSTER_OPTIONS, JOB_FLAG, RUN_OPTIONS, STORE, integer
from papilio.cli.report import answer, report_plan, report_result, show_progress
from papilio.errors import InputError
from papilio.motifs import Motif


@click.command("enumerate", cls=MotifGroup, listed=True)
@STORE
@click.option("--output", type=click.Path(), metavar="DIR", help="Directory to make, of Parquet files.")
@click.option("--limit", type=integer, metavar="N", help="Most that are listed.")
@click.option("--no-limit", is_flag=True, help="List all of them, however many they are.")
@click.option(
    "--with-u", multiple=True, metavar="LABEL", help="Only those that hold this vertex of U; may be repeated."
)
@click.option(
    "--with-v", multiple=True, metavar="LABEL", help="Only those that hold this vertex of V; may be repeated."
)
@click.option(
    "--containing", multiple=True, metavar="LABEL",
    help="Only those that hold this vertex, of a unipartite graph or of either layer; may be repeated.",
)  # fmt: skip
@JOB_FLAG
@click.option("--dry-run", is_flag=True, help="Show how they would be listed; list nothing.")
@CLUSTER_OPTIONS
@RUN_OPTIONS
def enumerate_(
    motif: Motif,
    store: str,
    as_json: bool,
    engine_options: dict[str, str],
    output: str | None,
    limit: int | None,
    no_limit: bool,
    job: str | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """List MOTIF in the graph STORE: each is a row of Parquet files.

    The rows have the columns u and v, or n of a unipartite graph: lists of the labels of its vertices. The path of the
    directory goes to standard output, everything else to standard error. papilio count says how many there are,
    without listing them.

    \b
    papilio enumerate biclique STORE -p 3 -q 4 --limit 1000 --output bicliques
    papilio enumerate biclique STORE -p 3 -q 4 --no-limit --with-u Evelyn --output bicliques
    papilio enumerate clique STORE -k 5 --limit 1000 --output cliques
    papilio enumerate maximal-clique STORE --min-size 5 --no-limit --containing Ada --output cliques
    papilio enumerate maximal-biclique STORE --min-u 3 --no-limit --output groups
    """
    if limit is not None and no_limit:
        raise InputError(f"--limit {limit} and --no-limit contradict each other; give one of them")
    if dry_run:
        made = papilio.plan_listing(store, motif, limit=limit, options=engine_options, **options)
        answer(made, as_json, report_plan)
        return
    if limit is None and not no_limit:
        raise InputError(
            "how many? give --limit N, or --no-limit for all of them: there may be very many; "
            f"papilio count {' '.join(motif.words)} {store} says how many"
        )
    if output is None:
        raise InputError("where to? give --output DIR, a directory to make")
    with show_progress() as bar:
        result = papilio.enumerate_motifs(
            store, motif, output=output, limit=limit, job=job, progress=bar, options=engine_options, **options
        )
    answer(result, as_json, report_result)
