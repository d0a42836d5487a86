"""The commands that measure a graph: papilio measure robins-alexander, latapy, local, cohesion, core-table, top,
nestedness, cooccurrence, maximum-clique, maximal-biclique-top; papilio communities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

import papilio
from papilio.api.cores import CoreTable
from papilio.api.count import CensusResult
from papilio.charts import require_matplotlib
from papilio.cli.count import ensemble_options
from papilio.cli.options import (
    BUDGET_OPTIONS,
    CLUSTER_OPTIONS,
    JOB_FLAG,
    JSON_FLAG,
    LAYER,
    LOCAL_ENGINE_FLAG,
    RUN_OPTIONS,
    STORE,
    CommandGroup,
    integer,
    with_options,
)
from papilio.cli.report import align, names_in, put, report_result, say, say_seconds, show_progress
from papilio.cli.tables import RowTarget, answer_rows, take_target, with_rows
from papilio.cluster.progress import Phases
from papilio.errors import InputError, StoreError
from papilio.measures.census_pairs import PAIR_ORDERS, CensusPairs, CensusVertices, PairOrder
from papilio.measures.communities import Communities
from papilio.measures.ecology import Cooccurrence, Nestedness
from papilio.measures.values import (
    CohesionProfile,
    LargestBicliques,
    LatapyClustering,
    LocalClustering,
    MaximumClique,
    RobinsAlexander,
)
from papilio.motifs import Biclique, Clique, MaximalBiclique
from papilio.storage.answers import rows_table
from papilio.storage.files import atomic_file, check_file
from papilio.storage.layers import show_sizes
from papilio.system_errors import explain
from papilio.tasks.result import CountResult

_COUNT_OPTIONS = with_options(STORE, BUDGET_OPTIONS, JOB_FLAG, CLUSTER_OPTIONS, RUN_OPTIONS)

_PER_FLAG = click.option(
    "--per", type=click.Choice(["vertex", "edge"]), default="vertex", show_default=True,
    help="Measure every vertex, or every edge.",
)  # fmt: skip

_OUTPUT = with_rows("all values")

_SIZES = with_options(
    *(
        click.option(
            f"--{bound}-{side}",
            type=integer,
            metavar="N",
            help=f"{text} number of vertices of {side.upper()}.",
        )
        for side in "uv"
        for bound, text in (("min", "Minimum"), ("max", "Maximum"))
    )
)

_THREADS = click.option("--threads", type=integer, metavar="N", help="Number of threads; all processors by default.")


@click.group(cls=CommandGroup)
def measure() -> None:
    """Measure the graph STORE: clustering, cohesion, nestedness and top vertices; cliques in unipartite graphs.

    Answers go to standard output, everything else to standard error. Values without a denominator are undefined: null
    in JSON and in files.
    """


def _answer(
    measured: Callable[..., Any],
    lines: Callable[[Any], list[str]],
    store: str,
    as_json: bool,
    *,
    writes_files: bool = False,
    to_arrow: Callable[[Any], Any] | None = None,
    phases: Phases | None = None,
    **options: Any,
) -> None:
    """Measure a graph; write the result to standard output and how it was computed to standard error."""
    target = take_target(options, as_json, writes_files=writes_files)
    with show_progress() as bar:
        result = measured(store, progress=bar if phases is None else bar.follow(phases), **options)

    def report(result: Any) -> None:
        for line in lines(result):
            put(line)
        if isinstance(result, RobinsAlexander):
            exact = "" if result.fraction is None else f" = {result.fraction}"
            say(f"4 * {result.butterflies} butterflies / {result.three_paths} paths of three edges{exact}")
        counted = result if isinstance(result, CountResult) else getattr(result, "counted", None)
        if counted is not None:
            _say_count(counted)
        say_seconds(result.seconds)
        if getattr(result, "output", None) is not None:
            say(f"values: {result.output}")

    answer_rows(result, as_json, report, target, to_arrow)


@measure.command("robins-alexander")
@_COUNT_OPTIONS
@with_rows("the value as a row")
def robins_alexander(**options: Any) -> None:
    """Clustering of the whole graph: 4 * butterflies / paths of three edges (Robins and Alexander 2004)."""
    _answer(papilio.robins_alexander, lambda result: [_number(result.value)], **options)


@measure.command()
@STORE
@click.option("--layer", **LAYER, help="Layer to measure; both by default.")
@_OUTPUT
@_THREADS
@JSON_FLAG
def latapy(**options: Any) -> None:
    """Clustering of every vertex: mean overlap with vertices of its layer that share a neighbour.

    The overlap of two vertices is the number of their common neighbours divided by the number of neighbours of either
    (dot), by the lesser degree (min), or by the larger one (max) (Latapy, Magnien and Del Vecchio 2008). Standard
    output gets two means of each layer: over the vertices with a defined value, and over all (undefined values as 0).
    The command runs in this process.
    """
    _answer(papilio.latapy_clustering, _mean_lines, writes_files=True, **options)


@measure.command()
@_COUNT_OPTIONS
@_PER_FLAG
@_OUTPUT
def local(**options: Any) -> None:
    """Clustering of every vertex or edge: the share of possible butterflies that exist.

    closed: of the paths of three edges with this edge, or an edge of this vertex, in the middle, the share on a
    butterfly. square: of the squares that the neighbours of a vertex could form, the share that exists. In unipartite
    graphs 4-cycles take the place of butterflies. Standard output gets two means of each layer, or of the edges: over
    the defined values, and over all (undefined values as 0).
    """
    _answer(papilio.local_clustering, _mean_lines, writes_files=True, **options)


@measure.command()
@_COUNT_OPTIONS
@with_rows("the levels")
def cohesion(**options: Any) -> None:
    """Connectivity of the vertices in at least 0, 1, 2, 4, 8, ... butterflies.

    For each level, the induced subgraph: vertices, edges, connected components, vertices of the largest component,
    minimum degree, and a number of edges whose removal is certain to disconnect it (0 if it is not connected).
    """
    _answer(papilio.cohesion_profile, _level_lines, **options)


@measure.command("core-table")
@STORE
@LOCAL_ENGINE_FLAG
@_THREADS
@with_rows("the cores")
@JSON_FLAG
def core_table(**options: Any) -> None:
    """The sizes of all (alpha, beta)-cores, or of all k-cores of a unipartite graph.

    Each core has one row, at its largest alpha and beta: the (alpha, beta)-core of another pair is the largest one in
    the rows with at least that alpha and beta. The command runs in this process.
    """
    from papilio.api.decompose import PHASES

    _answer(papilio.core_table, _core_lines, phases=PHASES, **options)


@measure.command()
@_COUNT_OPTIONS
@_PER_FLAG
@click.option(
    "-n",
    type=integer,
    default=10,
    show_default=True,
    metavar="N",
    help="Number of vertices of each layer, or of edges.",
)
@with_rows("the largest counts")
def top(**options: Any) -> None:
    """The vertices or edges in the most butterflies, by label; zero counts are left out."""
    _answer(
        papilio.top_butterflies,
        lambda result: _tabbed((each.place, *each.labels, each.count) for each in result.largest),
        to_arrow=_largest_table,
        **options,
    )


@measure.command()
@STORE
@ensemble_options("Compare the values with N random graphs.")
@_OUTPUT
@_THREADS
@JSON_FLAG
def nestedness(**options: Any) -> None:
    """Nestedness by overlap and decreasing fill, NODF (Almeida-Neto et al. 2008): of the graph, and of each layer.

    A pair of vertices of a layer has 100 times the share of the neighbours of the one with fewer that it has in common
    with the other one, or 0 for equal degrees; NODF is the mean over all pairs. With --samples, each value is compared
    with random graphs. --output or --format write the overlaps of the vertices. The command runs in this process.

    \b
    papilio measure nestedness STORE
    papilio measure nestedness STORE --samples 1000 --null edges
    """
    _answer(papilio.nestedness, _nestedness_lines, writes_files=True, **options)


@measure.command()
@_COUNT_OPTIONS
@click.option("--layer", required=True, **LAYER, help="Layer of the pairs, such as species.")
@with_rows("the scores as a row")
def cooccurrence(layer: str, **options: Any) -> None:
    """C-score and T-score of a layer: how often its pairs occur apart, and how often together.

    Both are means over the pairs of the layer: of its checkerboards (Stone and Roberts 1990), and of its units of
    togetherness (Stone and Roberts 1992). papilio significance compares these with random graphs.
    """
    _answer(papilio.cooccurrence, _cooccurrence_lines, layer=layer, **options)


@measure.command("maximum-clique")
@STORE
@click.option(
    "--per", type=click.Choice(["total", "vertex"]), default="total", show_default=True,
    help="Find a largest clique of the graph, or also the size of the largest clique of every vertex.",
)  # fmt: skip
@with_rows("the sizes of all vertices")
@_THREADS
@JSON_FLAG
def maximum_clique(**options: Any) -> None:
    """A largest clique of a unipartite graph: its size, then the labels of its vertices.

    With --per vertex, also the number of vertices by the size of their largest clique; a vertex without edges is a
    clique of size 1. The command runs in this process.
    """
    _answer(papilio.maximum_clique, _maximum_lines, writes_files=options["per"] == "vertex", **options)


@measure.command("maximal-biclique-top")
@STORE
@click.option(
    "--by", type=click.Choice(["edges", "balanced"]), default="edges", show_default=True,
    help="Measure of size: the number of edges, or of vertices of the smaller side.",
)  # fmt: skip
@click.option("-n", type=integer, default=100, show_default=True, metavar="N", help="Number of bicliques.")
@_SIZES
@with_rows("the bicliques")
@_THREADS
@JSON_FLAG
def maximal_biclique_top(
    min_u: int | None, min_v: int | None, max_u: int | None, max_v: int | None, **options: Any
) -> None:
    """The largest maximal bicliques: for each its size and the labels of its vertices of U and V.

    Ties are broken by vertex ids. The command runs in this process.
    """
    motif = MaximalBiclique(min_u or 1, min_v or 1, max_u, max_v)
    _answer(papilio.top_bicliques, _biclique_lines, motif=motif, **options)


_COMMUNITY_OPTIONS = with_options(
    STORE,
    click.option(
        "--rows", type=click.Choice(["members", "communities", "overlaps"]), default="members", show_default=True,
        help="Write a row for each vertex of each community, for each community, or for each two with common vertices.",
    ),
    with_rows("the rows"),
    _THREADS,
    JSON_FLAG,
)  # fmt: skip


@click.group(cls=CommandGroup)
def communities() -> None:
    """Find communities by percolation: unions of cliques, or of bicliques, that overlap in all but one vertex.

    Communities may share vertices. Answers go to standard output, everything else to standard error. The command runs
    in this process.

    \b
    papilio communities clique STORE -k 4
    papilio communities clique STORE --rows communities --output tree.csv
    papilio communities biclique STORE -p 3 -q 3 --output members.parquet
    """


@communities.command("clique")
@click.option("-k", type=integer, metavar="K", help="Number of vertices of the cliques; every number by default.")
@click.option("--max-k", type=integer, metavar="K", help="Largest number of vertices, without -k.")
@_COMMUNITY_OPTIONS
def clique_communities(k: int | None, max_k: int | None, rows: str, **options: Any) -> None:
    """Communities of k-cliques that share k - 1 vertices.

    The graph is unipartite (Palla et al. 2005). Standard output gets the number of communities, and the number of
    vertices of the largest, for each k. Without -k the communities form a tree: each has the largest k at which it
    exists, and a parent, the community of smaller cliques that contains it.
    """
    if rows == "overlaps" and k is None:
        raise InputError("--rows overlaps compares the communities of one size: add -k with a number")
    _answer(papilio.communities, _community_lines, motif=Clique(k, max_k), to_arrow=_COMMUNITY_ROWS[rows], **options)


@communities.command("biclique")
@click.option("-p", type=integer, required=True, metavar="P", help="Number of vertices of U in a biclique.")
@click.option("-q", type=integer, required=True, metavar="Q", help="Number of vertices of V in a biclique.")
@click.option(
    "--shared", type=click.Choice(["smaller", "same"]), default="smaller", show_default=True,
    help="What adjacent bicliques share: p - 1 and q - 1 vertices (Lehmann et al. 2008), or p - 1 and q, or p and "
    "q - 1 (Zeng et al. 2025).",
)  # fmt: skip
@_COMMUNITY_OPTIONS
def biclique_communities(p: int, q: int, rows: str, **options: Any) -> None:
    """Communities of overlapping (p, q)-bicliques.

    The graph is bipartite. Standard output gets the number of communities, and the number of vertices of the largest.
    """
    _answer(papilio.communities, _community_lines, motif=Biclique(p, q), to_arrow=_COMMUNITY_ROWS[rows], **options)


_COMMUNITY_ROWS: dict[str, Callable[[Communities], Any]] = {
    "members": Communities.to_arrow,
    "communities": Communities.summary,
    "overlaps": Communities.overlaps,
}


def _community_lines(result: Communities) -> list[str]:
    if result.has_k:
        return align([["k", "communities", "largest"], *([str(n) for n in row] for row in result.by_size())])
    return align([["communities", "largest"], [str(len(result)), str(result.sizes.max(initial=0))]])


def _largest_table(result: CountResult) -> Any:
    """Return the largest counts as rows: layer, id, label and count, or u, v, u_label, v_label and support."""
    names = ("u", "v", "u_label", "v_label", "support") if result.per == "edge" else ("layer", "id", "label", "count")
    rows = []
    for each in result.largest:
        place = () if result.per == "edge" else (each.place,)
        rows.append(dict(zip(names, (*place, *each.ids, *each.labels, each.count), strict=True)))
    return rows_table(rows, names)


def _number(value: float | None) -> str:
    return "undefined" if value is None else repr(value)


def _tabbed(rows: Iterable[Iterable[object]]) -> list[str]:
    return ["\t".join(map(str, row)) for row in rows]


def _mean_lines(result: LatapyClustering | LocalClustering) -> list[str]:
    """Return two means of each layer, or of the edges: over the defined values, then over all."""
    summaries = result.summaries()
    rows = [["of", "size", "defined", "mean", *next(iter(summaries.values())).mean]]
    for place, summary in summaries.items():
        for mean, values in (("defined", summary.mean), ("all", summary.mean_of_all)):
            numbers = map(_number, values.values())
            rows.append([place, str(summary.size), str(summary.defined), mean, *numbers])
    return align(rows)


def _nestedness_lines(result: Nestedness) -> list[str]:
    names = ("value", "mean", "std", "z", "p_value")
    rows = [[row["of"], *(_number(row[name]) for name in names if name in row)] for row in result.rows()]
    return align([["of", *names[: len(rows[0]) - 1]], *rows])


def _cooccurrence_lines(result: Cooccurrence) -> list[str]:
    scores = (("C-score", result.c_score, result.checkerboards), ("T-score", result.t_score, result.togetherness))
    return align([["of", "mean", "sum"], *([name, _number(mean), str(total)] for name, mean, total in scores)])


def _level_lines(result: CohesionProfile) -> list[str]:
    head = ["at least", "u", "v", "edges", "components", "largest", "least degree", "cut at most"]
    return align([head, *([str(value) for value in level.to_dict().values()] for level in result.levels)])


def _core_lines(result: CoreTable) -> list[str]:
    return align([[*result.columns], *([str(value) for value in row] for row in result.cores.tolist())])


def _maximum_lines(result: MaximumClique) -> list[str]:
    lines = _tabbed([[result.size], result.labels])
    if "n" in result.sizes:
        lines += align([["size", "vertices"], *([str(n) for n in row] for row in result.histogram())])
    return lines


def _biclique_lines(result: LargestBicliques) -> list[str]:
    return _tabbed(
        (each.size, *(" ".join(map(str, side)) for side in (each.labels_u, each.labels_v))) for each in result.bicliques
    )


def _say_count(counted: CountResult) -> None:
    graph = counted.graph
    how = "taken from the job" if counted.reused else f"counted by engine {counted.engine} ({counted.cluster})"
    say(
        f"butterflies: {counted.count:,} in {show_sizes(graph['n_u'], graph['n_v'], names_in(graph))} and "
        f"{graph['n_edges']:,} edges, {how}"
    )
    if counted.job_directory is not None:
        say(f"job {counted.job_directory}: {counted.leases_before:,} of {counted.leases:,} leases completed before")


_FORMATS = (".svg", ".png")


@click.command()
@CLUSTER_OPTIONS
@RUN_OPTIONS
@STORE
@click.option(
    "--pair-side", required=True, **LAYER,
    help="Layer of the pair whose signs define the class; ++/-- and +-/+- depend on it.",
)  # fmt: skip
@click.option(
    "--top", type=click.IntRange(1, 2**63 - 1), metavar="N",
    help="Also list the N pairs with the most butterflies in the group given by --by.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice([*PAIR_ORDERS]),
    help="With --top: the group of butterflies that ranks the pairs; conflicting are the mixed ones.",
)  # fmt: skip
@click.option(
    "--per", type=click.Choice(["total", "vertex"]), default="total", show_default=True,
    help="Count the classes of the whole graph, or also of each vertex of the pair side (with --output or --format).",
)  # fmt: skip
@with_rows("the classes; with --top for the pairs, with --per vertex for the vertices")
@click.option(
    "--figure",
    type=click.Path(),
    metavar="FILE",
    help="Bar chart of the shares, .svg or .png; needs matplotlib.",
)
@JOB_FLAG
def census(
    store: str,
    pair_side: str,
    top: int | None,
    by: PairOrder | None,
    per: str,
    figure: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Count the butterflies of the signed graph STORE by class: by the signs of a pair of vertices at both neighbours.

    The pair has the same signs at both (coherent: ++/++, ++/--, --/--), different ones at both (incoherent: +-/+-), or
    neither (mixed: ++/+-, --/+-). Coherent and incoherent butterflies are balanced.

    \b
    papilio census STORE --pair-side u
    papilio census STORE --pair-side u --figure census.svg
    papilio census STORE --pair-side u --top 100 --by conflicting
    papilio census STORE --pair-side u --per vertex --output drugs.parquet
    """
    target = take_target(options, as_json)
    _check_asked(top, by, per, options["output"], target)
    drawn = None if figure is None else _check_figure(figure, options["overwrite"])
    lines: list[str] = []
    with show_progress() as bar:
        options["progress"] = bar
        shown: CensusResult | CensusPairs | CensusVertices
        if top is not None and by is not None:
            shown = papilio.census_pairs(store, pair_side, by=by, n=top, **options)
            result, lines = shown.census, _pair_lines(shown)
        elif per == "vertex":
            shown = papilio.census_vertices(store, pair_side, **options)
            result = shown.census
        else:
            shown = result = papilio.census(store, pair_side, **options)
    if drawn is not None:
        _draw(result, drawn, options["overwrite"])

    def report(shown: CensusResult | CensusPairs | CensusVertices) -> None:
        report_result(result.counted)
        for line in lines:
            put(line)
        say(f"balanced: {result.balanced:,} of {result.butterflies:,} butterflies")
        output = getattr(shown, "output", None)
        if output is not None:
            say(f"{'classes per vertex' if top is None else 'pairs'}: {output}")
        if drawn is not None:
            say(f"figure: {drawn}")

    answer_rows(shown, as_json, report, target)


def _check_asked(top: int | None, by: str | None, per: str, output: str | None, target: RowTarget | None) -> None:
    if (top is None) != (by is None):
        raise InputError(f"--top and --by go together; give --by {', '.join(PAIR_ORDERS)} and --top N")
    if per == "vertex" and top is not None:
        raise InputError("--top lists pairs and --per vertex writes vertices; use one of them at a time")
    if per == "vertex" and output is None and target is None:
        raise InputError("--per vertex needs --output FILE for the classes of the vertices, or --format")


def _pair_lines(census: CensusPairs) -> list[str]:
    head = [("first", "second", *pair.columns) for pair in census.pairs[:1]]
    return _tabbed([*head, *((*pair.labels, *pair.columns.values()) for pair in census.pairs)])


def _check_figure(figure: str, overwrite: bool) -> Path:
    """Check, before counting, that the figure can be written."""
    path = Path(figure)
    if path.suffix not in _FORMATS:
        raise InputError(f"figure is {figure!r}; expected a file name that ends in {' or '.join(_FORMATS)}")
    require_matplotlib()
    return check_file(figure, overwrite)


def _draw(result: CensusResult, path: Path, overwrite: bool) -> None:
    from papilio.reports.figures import draw_census

    figure = draw_census(result.rows, "Butterflies by class.")
    try:
        with atomic_file(path, overwrite) as scratch:
            Path(scratch).write_bytes(figure.svg if path.suffix == ".svg" else figure.png)
    except OSError as error:
        raise StoreError(f"{path}: cannot write the figure {explain(error)}") from error
