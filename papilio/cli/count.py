"""The commands about one motif: plan, count, estimate, enumerate and decompose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

import papilio
from papilio.arguments import TABLE_FORMATS, TABLE_SUFFIXES, TableFormat
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import (
    BIPARTITE_STORE,
    CLUSTER_OPTIONS,
    COUNT_OPTIONS,
    JOB_FLAG,
    JSON_FLAG,
    LAYER,
    LOCAL_ENGINE_FLAG,
    RUN_OPTIONS,
    SEED,
    STORE,
    Decorator,
    graph_argument,
    integer,
    share,
    with_options,
)
from papilio.cli.report import (
    AT_LEAST,
    answer,
    put,
    report_estimate,
    report_plan,
    report_result,
    report_store,
    say,
    say_seconds,
    show_progress,
)
from papilio.cli.tables import FORMAT_FLAG, STANDARD_OUTPUT, RowTarget, answer_rows, take_target, with_rows
from papilio.kernels.null.models import NullName
from papilio.motifs import CommonForm, Motif, PairTest, Weighting

if TYPE_CHECKING:
    from collections.abc import Callable

    from papilio.api.decompose import DecompositionResult


def ensemble_options(asks: str = "") -> Decorator:
    """Return a decorator that adds the flags of random graphs; with ``asks``, its help, ``--samples`` asks for them."""
    required = not asks
    return with_options(
        click.option(
            "--null", type=click.Choice(get_args(NullName)),
            help="What random graphs share with the graph: the degree of each vertex; these degrees on average; the "
            "number of edges alone; or all edges, with their signs permuted. By default signs for motifs that are "
            "defined by signs, else degrees.",
        ),
        click.option(
            "--samples", type=integer, default=1000 if required else None, show_default=required, metavar="N",
            help=asks or "Random graphs, at least 2.",
        ),
        click.option(
            "--seed", type=SEED, default=0 if required else None, show_default=required,
            help="Seed of the random graphs.",
        ),
        click.option(
            "--steps", type=integer, metavar="N",
            help="Steps of the chain from the graph to a sample, for --null degrees; by default 20, of as many "
            "trades as needed.",
        ),
    )  # fmt: skip


ENSEMBLE_OPTIONS = with_options(
    ensemble_options(),
    click.option(
        "--per", type=click.Choice(["total", "vertex"]), default="total", show_default=True,
        help="Compare the count of the whole graph, or of every vertex.",
    ),
)  # fmt: skip
"""Random graphs that a count is compared with, and for what."""


@click.command(cls=MotifGroup)
@COUNT_OPTIONS
@CLUSTER_OPTIONS
@RUN_OPTIONS
@with_rows("the counts per vertex or edge, or the table")
@JOB_FLAG
def count(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Count MOTIF in the graph STORE.

    The count goes to standard output, followed by the largest counts if --per is given without --output; several sizes
    make a table. Everything else goes to standard error.

    \b
    papilio count butterfly STORE
    papilio count butterfly STORE --per vertex --format tsv
    papilio count biclique STORE -p 3 -q 4
    papilio count biclique STORE -p 3 --all-q
    papilio count biclique STORE --all --max-p 10 --output table.parquet
    papilio count balanced-butterfly STORE
    papilio count balanced-butterfly STORE --all-k --max-k 9 --pair-side u
    papilio count balanced-biclique STORE -p 3 -q 3
    """
    writes_files = options["per"] != "total" or motif.is_table
    target = take_target(options, as_json, writes_files=writes_files)
    with show_progress() as bar:
        result = papilio.count(store, motif, progress=bar, options=engine_options, **options)
    answer_rows(result, as_json, report_result, target)


@click.command(cls=MotifGroup)
@COUNT_OPTIONS
@ensemble_options("Plan papilio significance with N random graphs.")
@CLUSTER_OPTIONS
@RUN_OPTIONS
def plan(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Show how MOTIF would be counted in the graph STORE: tasks, predicted work, memory, decisions.

    With --samples it is the plan of papilio significance.
    """
    answer(papilio.plan(store, motif, options=engine_options, **options), as_json, report_plan)


@click.command(cls=MotifGroup)
@STORE
@click.option(
    "--error",
    type=share,
    default="1%",
    show_default=True,
    help="Half-width of the interval, relative to the estimate.",
)
@click.option(
    "--confidence", type=share, default="95%", show_default=True,
    help="Probability that the interval contains the exact count.",
)  # fmt: skip
@click.option(
    "--seconds", type=float, metavar="S",
    help="Time limit for the probes, excluding reading, preparing and planning; by default, until --error is reached.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the probes.")
@with_rows("the estimate as a row")
@CLUSTER_OPTIONS
@RUN_OPTIONS
def estimate(motif: Motif, store: str, as_json: bool, engine_options: dict[str, str], **options: Any) -> None:
    """Estimate the number of MOTIF in the graph STORE from random branches of the search, with an interval.

    The estimate and the ends of the interval go to standard output, everything else to standard error. If counting
    takes no longer, the motifs are counted and a single number is printed. If few probes carry the estimate, only the
    lower end is printed, after >=, and the exit code is 9.

    \b
    papilio estimate biclique STORE -p 6 -q 6
    papilio estimate biclique STORE -p 6 -q 6 --error 0.1% --confidence 99%
    papilio estimate maximal-biclique STORE --seconds 10
    """
    target = take_target(options, as_json, writes_files=False)
    with show_progress() as bar:
        result = papilio.estimate(store, motif, progress=bar, options=engine_options, **options)
    answer_rows(result, as_json, report_estimate, target)
    if not result.is_reliable:
        sys.exit(AT_LEAST)


@click.command(cls=MotifGroup)
@graph_argument("stores", nargs=-1, required=True)
@ENSEMBLE_OPTIONS
@with_rows("the counts of the samples, or the z of each size, vertex or graph")
@JOB_FLAG
@CLUSTER_OPTIONS
@RUN_OPTIONS
def significance(
    motif: Motif, stores: tuple[str, ...], as_json: bool, engine_options: dict[str, str], **options: Any
) -> None:
    """Compare the count of MOTIF in the graphs STORES with its counts in random graphs.

    Standard output gets a line of names and a line of values: observed, mean, std, z with its 95 % interval, p_more and
    p_less (one-sided p-values of counts at least, or at most, as large as observed), p_value (two-sided) and its 95 %
    interval. Several sizes get a line each, with p-values corrected for their number, and several graphs lines that
    begin with their paths; --per vertex prints the largest z of each layer. Everything else goes to standard error.

    \b
    papilio significance butterfly STORE
    papilio significance butterfly 1990.csv 1991.csv --output z.csv
    papilio significance butterfly STORE --null edges --samples 10000 --seed 7
    papilio significance butterfly STORE --per vertex --output scores.csv
    papilio significance balanced-butterfly STORE
    papilio significance biclique STORE --all --max-p 5 --max-q 5 --job DIR
    """
    target = take_target(options, as_json)
    with show_progress() as bar:
        asked = stores[0] if len(stores) == 1 else dict(zip(stores, stores, strict=True))
        result = papilio.significance(asked, motif, progress=bar, options=engine_options, **options)
    answer_rows(result, as_json, report_result, target)


_ROW_FORMAT = click.option(
    "--format", "row_format", type=click.Choice(TABLE_FORMATS),
    help="Format of the rows on standard output, TSV by default; the suffix of a file determines its format.",
)  # fmt: skip


_REPLACE = click.option(
    "--overwrite", is_flag=True, help="Replace an existing file or listing, which is otherwise an error."
)


@click.command("enumerate", cls=MotifGroup, listed=True)
@STORE
@click.option(
    "--output", type=click.Path(allow_dash=True), metavar="PATH",
    help="File to write, by its suffix (.parquet, .csv, .tsv, .json, .jsonl, .arrow), else directory of Parquet files; "
    "- or nothing is standard output.",
)  # fmt: skip
@_ROW_FORMAT
@_REPLACE
@click.option("--limit", type=integer, metavar="N", help="Maximum number of rows; all by default.")
@click.option(
    "--with-u",
    multiple=True,
    metavar="LABEL",
    help="List only motifs with this vertex of U; may be repeated.",
)
@click.option(
    "--with-v",
    multiple=True,
    metavar="LABEL",
    help="List only motifs with this vertex of V; may be repeated.",
)
@click.option(
    "--containing", multiple=True, metavar="LABEL",
    help="List only motifs with this vertex, of a unipartite graph or of either layer; may be repeated.",
)  # fmt: skip
@JOB_FLAG
@click.option("--dry-run", is_flag=True, help="Show the plan without listing anything.")
@CLUSTER_OPTIONS
@RUN_OPTIONS
def enumerate_(
    motif: Motif,
    store: str,
    as_json: bool,
    engine_options: dict[str, str],
    output: str | None,
    row_format: TableFormat | None,
    overwrite: bool,
    limit: int | None,
    job: str | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """List every MOTIF in the graph STORE: to standard output as they are found, or to files.

    The rows have the columns u and v, or n for a unipartite graph, with the labels of the vertices; in CSV and TSV the
    columns are u1, u2, ... if all motifs have the same size. With --output the path goes to standard output. Everything
    else goes to standard error. To count without listing, use papilio count.

    \b
    papilio enumerate biclique STORE -p 3 -q 4 | head
    papilio enumerate biclique STORE -p 3 -q 4 --with-u Evelyn --format jsonl
    papilio enumerate clique STORE -k 5 --limit 1000 --output cliques.csv
    papilio enumerate maximal-clique STORE --min-size 5 --containing Ada --output cliques
    papilio enumerate maximal-biclique STORE --min-u 3 --output groups
    """
    if dry_run:
        made = papilio.plan_listing(store, motif, limit=limit, options=engine_options, **options)
        answer(made, as_json, report_plan)
        return
    given = {**options, "overwrite": overwrite, "limit": limit, "options": engine_options, "job": job}
    found = _list_rows(papilio.enumerate, output, row_format, as_json, store, motif, **given)
    if found is not None:
        answer(found, as_json, report_result)


def _list_rows(
    function: Callable[..., Any],
    output: str | None,
    row_format: TableFormat | None,
    as_json: bool,
    *given: Any,
    **options: Any,
) -> Any:
    """Write the rows of a listing function to standard output, or return its answer if it has an output."""
    if output is None or output == STANDARD_OUTPUT:
        target = RowTarget.standard_output(row_format, as_json)
        cluster = None if options["cluster"] == "auto" else options["cluster"]
        rows = function(*given, **{**options, "cluster": cluster})
        target.write_batches(rows.schema, rows.to_batches())
        return None
    if row_format is not None and TABLE_SUFFIXES.get(Path(output).suffix.lower()) != row_format:
        raise click.UsageError(
            f"--output {output} does not name a {row_format} file; use a name ending in .{row_format}, or drop --format"
        )
    with show_progress() as bar:
        return function(*given, output=output, progress=bar, **options)


@click.command()
@BIPARTITE_STORE
@click.option(
    "--layer",
    required=True,
    help="Layer of both vertices of a pair, such as the name of its column.",
    **LAYER,
)
@click.option(
    "--min-common", type=integer, default=2, show_default=True, metavar="N",
    help="Minimum number of common neighbours.",
)  # fmt: skip
@click.option(
    "--common", type=click.Choice(get_args(CommonForm)), default="count", show_default=True,
    help="list: a last column has the common neighbours themselves; --output is a file.",
)  # fmt: skip
@click.option(
    "--weighting", type=click.Choice(get_args(Weighting)),
    help="Weight of a pair, in addition to the number of common neighbours.",
)  # fmt: skip
@click.option(
    "--significance", type=click.Choice(get_args(PairTest)),
    help="Test each pair: p-values, and q-values (Benjamini-Hochberg) over all pairs of the layer.",
)  # fmt: skip
@click.option(
    "--fdr", type=share, metavar="Q", help="Largest q-value, with --significance; 5% by default."
)  # fmt: skip
@click.option(
    "--samples",
    type=integer,
    metavar="N",
    help="Random graphs, with --significance degrees; 1,000 by default.",
)
@click.option("--seed", type=SEED, help="Seed of the random graphs; 0 by default.")
@click.option(
    "--output", type=click.Path(allow_dash=True), metavar="PATH",
    help="File to write, by its suffix (.parquet, .csv, .tsv, .json, .jsonl, .arrow), else directory of Parquet files; "
    "- or nothing is standard output.",
)  # fmt: skip
@click.option("--as-store", is_flag=True, help="Make --output a unipartite graph store, without weights.")
@_ROW_FORMAT
@_REPLACE
@click.option("--limit", type=integer, metavar="N", help="Maximum number of pairs; all by default.")
@JOB_FLAG
@CLUSTER_OPTIONS
@RUN_OPTIONS
def project(
    store: str,
    output: str | None,
    row_format: TableFormat | None,
    as_json: bool,
    as_store: bool,
    **options: Any,
) -> None:
    """Project the bipartite graph STORE to one layer: pairs of its vertices with common neighbours.

    The columns are source and target (labels), common (number of common neighbours), weight with --weighting, p and q
    with --significance. Rows go to standard output as they are found, or to files; everything else goes to standard
    error. papilio count projection prints the number of pairs.

    \b
    papilio project STORE --layer u --format csv | head
    papilio project STORE --layer u --weighting jaccard --output pairs.parquet
    papilio project STORE --layer u --significance hypergeometric --fdr 1% --output pairs
    papilio project STORE --layer u --min-common 3 --output people --as-store
    """
    found = _list_rows(papilio.project, output, row_format, as_json, store, as_store=as_store, **options)
    if as_store:
        report_store(found, as_json)
    elif found is not None:
        answer(found, as_json, report_result)


_SHOWN_LEVELS = 5


@click.command()
@click.argument("kind", type=click.Choice(["wing", "tip", "core"]))
@BIPARTITE_STORE
@click.option(
    "--layer", help="For tip: the layer whose vertices are peeled.", **LAYER
)  # fmt: skip
@click.option(
    "--alpha", type=integer, metavar="N", help="For core of a bipartite graph: minimum degree of vertices of U."
)
@click.option(
    "--beta", type=integer, metavar="N", help="For core of a bipartite graph: minimum degree of vertices of V."
)
@click.option(
    "--output", type=click.Path(allow_dash=True), metavar="DIR",
    help="Directory to create, for numbers and components as Parquet files; or a file for the numbers only, its "
    "format by suffix or --format; - is standard output.",
)  # fmt: skip
@FORMAT_FLAG
@click.option("--overwrite", is_flag=True, help="Replace an existing decomposition or file.")
@click.option("--no-hierarchy", is_flag=True, help="Compute only the numbers, not the components of every level.")
@LOCAL_ENGINE_FLAG
@click.option(
    "--threads",
    type=integer,
    metavar="N",
    help="Number of threads of the cpu engine; all processors by default.",
)
@JSON_FLAG
def decompose(store: str, no_hierarchy: bool, as_json: bool, **options: Any) -> None:
    """Peel the graph STORE: the wing number of every edge (bitruss), the tip number of every vertex of a layer or the
    core number of every vertex, and the dense parts at every level.

    Wings and tips are of bipartite graphs. Cores are of unipartite graphs, or, with --alpha or --beta, of bipartite
    ones: the number of a vertex is then the largest minimum degree of the other layer.

    The largest number goes to standard output, everything else to standard error. The command runs in this process, on
    all its processors or on its first GPU.

    \b
    papilio decompose wing STORE --output wings
    papilio decompose wing STORE --format csv
    papilio decompose tip STORE --layer u --output tips
    papilio decompose core STORE
    papilio decompose core STORE --alpha 3 --format csv
    """
    target = take_target(options, as_json, makes_directories=True)
    with show_progress() as bar:
        from papilio.api.decompose import PHASES

        result = papilio.decompose(store, hierarchy=not no_hierarchy, progress=bar.follow(PHASES), **options)
    answer_rows(result, as_json, _report, target)


def _report(result: DecompositionResult) -> None:
    put(result.max_number)
    from papilio.storage.layers import show_sizes

    graph, sizes = result.graph, result.level_sizes()
    items = result.items
    if result.kind != "core":
        items += f" in {show_sizes(graph['n_u'], graph['n_v'], graph['provenance']['layers'])}"
    say(f"{result.question} numbers of {items}: largest {result.max_number:,}, distinct {len(sizes):,}")
    top = sorted(sizes)[-_SHOWN_LEVELS:]
    if top:
        say("highest: " + ", ".join(f"{level:,} of {sizes[level]:,}" for level in reversed(top)))
    if result.forest is not None:
        roots = int((result.forest.parents < 0).sum())
        say(f"components: nodes {result.forest.n_nodes:,}, trees {roots:,}")
    ranges = f"ranges {result.ranges:,}, rounds {result.coarse_rounds:,} coarse and {result.fine_rounds:,} fine"
    if result.kind == "core":
        ranges = f"rounds {result.fine_rounds:,}"
    say(f"engine {result.engine}: {ranges}, supports changed {result.updates:,}")
    say_seconds(result.seconds)
    if result.output is not None:
        say(f"numbers and components: {result.output}")
