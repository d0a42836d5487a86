"""The command that decomposes a graph by peeling: decompose."""

from __future__ import annotations

from typing import Any

import click

import papilio
from papilio.api.decompose import DecompositionResult
from papilio.cli.options import ENGINES, JSON_FLAG, STORE, integer
from papilio.cli.report import answer, say, say_seconds, show_progress

_PHASES = {
    "read": "reading",
    "index": "listing pairs of vertices",
    "coarse": "cutting into ranges",
    "fine": "peeling",
    "hierarchy": "finding components",
    "write": "writing",
}

_SHOWN_LEVELS = 5


@click.command()
@click.argument("kind", type=click.Choice(["wing", "tip"]))
@STORE
@click.option(
    "--layer", type=click.Choice(["u", "v"]),
    help="Tip: the layer whose vertices are peeled; the other stays whole.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(), metavar="DIR",
    help="Directory to make: numbers and components as Parquet files.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace a decomposition that is at --output.")
@click.option("--no-hierarchy", is_flag=True, help="Numbers alone, without the components of every level.")
@click.option(
    "--engine", type=ENGINES, default="auto", show_default=True,
    help="auto takes the first GPU that can be used; gpu is never replaced by cpu.",
)  # fmt: skip
@click.option(
    "--threads", type=integer, metavar="N", help="Threads of the cpu engine; all processors by default."
)
@JSON_FLAG
def decompose(store: str, no_hierarchy: bool, as_json: bool, **options: Any) -> None:
    """Peel the bipartite graph STORE: the wing number of every edge (bitruss), or the tip number of every vertex of a
    layer, and the dense parts at every level.

    The largest number goes to standard output, everything else to standard error. It runs in this process: on all its
    processors, or on its first GPU.

    \b
    papilio decompose wing STORE --output wings
    papilio decompose tip STORE --layer u --output tips
    """
    with show_progress() as bar:

        def show(phase: str, done: int, total: int) -> None:
            bar.advance_phase(_PHASES[phase], done, total)

        result = papilio.decompose(store, hierarchy=not no_hierarchy, progress=show, **options)
    answer(result, as_json, _report)


def _report(result: DecompositionResult) -> None:
    """Write the largest number; then the levels with most items, what was done, and how long it took."""
    click.echo(result.max_number)
    items = "edges" if result.kind == "wing" else f"vertices of layer {result.layer}"
    sizes = result.level_sizes()
    graph = result.graph
    say(
        f"{result.kind} numbers of {result.n_items:,} {items} in {graph['n_u']:,} x {graph['n_v']:,} vertices: "
        f"largest {result.max_number:,}, different ones {len(sizes):,}"
    )
    top = sorted(sizes)[-_SHOWN_LEVELS:]
    if top:
        say("highest: " + ", ".join(f"{level:,} of {sizes[level]:,}" for level in reversed(top)))
    if result.forest is not None:
        roots = int((result.forest.parents < 0).sum())
        say(f"components: nodes {result.forest.n_nodes:,}, trees {roots:,}")
    say(
        f"engine {result.engine}: ranges {result.ranges:,}, rounds {result.coarse_rounds:,} coarse and "
        f"{result.fine_rounds:,} fine, supports changed {result.updates:,}"
    )
    say_seconds(result.seconds)
    if result.output is not None:
        say(f"numbers and components: {result.output}")
