"""The commands that measure a graph: papilio measure robins-alexander, latapy, local, cohesion, top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

import papilio
from papilio.cli.options import BUDGET_OPTIONS, INTEGER, JOB_OPTION, JSON_FLAG, output_options, run_options
from papilio.cli.report import align, print_json, say

if TYPE_CHECKING:
    from papilio.measures.values import Summary
    from papilio.tasks.result import CountResult

__all__ = ["measure"]

_STORE = click.argument("store", type=click.Path())

_UNDEFINED = "undefined"


def _count_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the store, and the flags of how its butterflies are counted."""
    command = run_options(command)
    for option in (JOB_OPTION, *reversed(BUDGET_OPTIONS), _STORE):
        command = option(command)
    return command


def _per_option(default: str) -> Callable[..., Any]:
    return click.option(
        "--per", type=click.Choice(["vertex", "edge"]), default=default, show_default=True,
        help="Measure every vertex of both layers, or every edge.",
    )  # fmt: skip


_OUTPUT = output_options("all values")


@click.group()
def measure() -> None:
    """Measure the bipartite graph STORE: clustering, cohesion, and what is in the most butterflies.

    Answers go to standard output, everything else to standard error; what has no denominator is undefined, null in JSON
    and in files.
    """


@measure.command("robins-alexander")
@_count_options
def robins_alexander(store: str, as_json: bool, **options: Any) -> None:
    """Clustering of the whole graph: 4 * butterflies / paths of three edges (Robins and Alexander 2004)."""
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.robins_alexander(store, progress=bar, **options)
    if as_json:
        print_json(result.to_json())
        return
    click.echo(_number(result.value))
    exact = "" if result.fraction is None else f" = {result.fraction}"
    say(f"4 * {result.butterflies} butterflies / {result.three_paths} paths of three edges{exact}")
    _say_count(result.counted, result.seconds)


@measure.command()
@_STORE
@click.option("--layer", type=click.Choice(["u", "v"]), help="Whose vertices; by default those of both.")
@_OUTPUT
@click.option("--threads", type=INTEGER, metavar="N", help="All processors by default.")
@JSON_FLAG
def latapy(store: str, as_json: bool, **options: Any) -> None:
    """Clustering of every vertex: mean overlap with the vertices of its layer that it shares a neighbour with.

    The overlap of two vertices is the number of their common neighbours divided by the number of neighbours of either
    (dot), by the lesser degree (min), or by the larger one (max) (Latapy, Magnien and Del Vecchio 2008). Standard
    output gets the means of each layer, of the vertices for which it is defined and of all (as 0 where it is not). It
    runs in this process.
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.latapy_clustering(store, progress=bar, **options)
    if as_json:
        print_json(result.to_json())
        return
    _report_summaries(result.summaries())
    _say_end(result.seconds, result.output)


@measure.command()
@_count_options
@_per_option("vertex")
@_OUTPUT
def local(store: str, as_json: bool, **options: Any) -> None:
    """Clustering of every vertex or edge: butterflies over those that are possible.

    closed: the share of the paths of three edges with this edge, or an edge of this vertex, in the middle that lie on a
    butterfly. square: the share of a vertex of the squares that its neighbours could make. Standard output gets the
    means of each layer, or of the edges, of those for which it is defined and of all (as 0 where it is not).
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.local_clustering(store, progress=bar, **options)
    if as_json:
        print_json(result.to_json())
        return
    _report_summaries(result.summaries())
    _say_count(result.counted, result.seconds, result.output)


@measure.command()
@_count_options
def cohesion(store: str, as_json: bool, **options: Any) -> None:
    """How the vertices in 0, 1, 2, 4, 8, ... butterflies or more hang together.

    For each of these the subgraph that they induce: vertices, edges, connected components, vertices of the largest one,
    least degree, and the number of edges whose removal surely disconnects it (0 if it is in pieces).
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.cohesion_profile(store, progress=bar, **options)
    if as_json:
        print_json(result.to_json())
        return
    head = ["at least", "u", "v", "edges", "components", "largest", "least degree", "cut at most"]
    rows = [[str(value) for value in level.to_json().values()] for level in result.levels]
    click.echo("\n".join(align([head, *rows])))
    _say_count(result.counted, result.seconds)


@measure.command()
@_count_options
@_per_option("vertex")
@click.option(
    "-k",
    type=INTEGER,
    default=10,
    show_default=True,
    metavar="N",
    help="How many of each layer, or of the edges.",
)
def top(store: str, as_json: bool, **options: Any) -> None:
    """The vertices or edges in the most butterflies, by their labels; those in none are left out."""
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.top_butterflies(store, progress=bar, **options)
    if as_json:
        print_json(result.to_json())
        return
    for entry in result.top:
        click.echo("\t".join(map(str, (entry.place, *entry.labels, entry.count))))
    _say_count(result, result.seconds)


def _number(value: float | None) -> str:
    return _UNDEFINED if value is None else repr(value)


def _report_summaries(summaries: Mapping[str, Summary]) -> None:
    """Write the means of each layer, or of the edges: of those that have a value, then of all."""
    rows = [["of", "size", "defined", "mean", *next(iter(summaries.values())).mean]]
    for place, summary in summaries.items():
        for mean, values in (("defined", summary.mean), ("all", summary.mean_of_all)):
            numbers = map(_number, values.values())
            rows.append([place, str(summary.size), str(summary.defined), mean, *numbers])
    click.echo("\n".join(align(rows)))


def _say_count(counted: CountResult, seconds: Mapping[str, float], output: str | None = None) -> None:
    """Say how the butterflies were counted, and how long everything took."""
    graph = counted.graph
    how = (
        "taken from the job" if counted.reused else f"counted by engine {counted.engine} ({counted.cluster})"
    )
    say(
        f"butterflies: {counted.count:,} in {graph['n_u']:,} x {graph['n_v']:,} vertices and "
        f"{graph['n_edges']:,} edges, {how}"
    )
    if counted.job_directory is not None:
        say(
            f"job {counted.job_directory}: {counted.leases_before:,} of {counted.leases:,} leases counted before"
        )
    _say_end(seconds, output)


def _say_end(seconds: Mapping[str, float], output: str | None) -> None:
    say("seconds: " + ", ".join(f"{phase} {value:.3f}" for phase, value in seconds.items()))
    if output is not None:
        say(f"values: {output}")
