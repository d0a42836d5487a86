"""The command that counts butterflies by their signs: census."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import papilio
from papilio.api.census import CensusResult
from papilio.charts import require_matplotlib
from papilio.cli.options import CLUSTER_OPTIONS, JOB_FLAG, RUN_OPTIONS, STORE, with_output
from papilio.cli.report import print_json, report_result, say, show_progress
from papilio.errors import InputError, StoreError
from papilio.measures.census_pairs import PAIR_ORDERS, CensusPairs, CensusVertices, PairOrder
from papilio.motifs import PairSide
from papilio.storage.location import atomic_file, check_file

_FORMATS = (".svg", ".png")


@click.command()
@CLUSTER_OPTIONS
@RUN_OPTIONS
@STORE
@click.option(
    "--pair-side", type=click.Choice(["u", "v"]), required=True,
    help="The layer of the pair whose signs make the class; ++/-- and +-/+- depend on it.",
)  # fmt: skip
@click.option(
    "--top", type=click.IntRange(1, 2**63 - 1), metavar="N",
    help="Also list the N pairs with the most butterflies of the group that --by names.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice([*PAIR_ORDERS]),
    help="With --top: the butterflies that order the pairs; conflicting are the mixed ones.",
)  # fmt: skip
@click.option(
    "--per", type=click.Choice(["total", "vertex"]), default="total", show_default=True,
    help="Classes in all, or also of each vertex of the pair side, into the --output file.",
)  # fmt: skip
@with_output("the classes; with --top for the pairs, with --per vertex for the vertices")
@click.option(
    "--figure",
    type=click.Path(),
    metavar="FILE",
    help="Bar chart of the shares, .svg or .png; needs matplotlib.",
)
@JOB_FLAG
def census(
    store: str,
    pair_side: PairSide,
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
    _check_asked(top, by, per, options["output"])
    drawn = None if figure is None else _check_figure(figure, options["overwrite"])
    lines: list[str] = []
    with show_progress() as bar:
        options["progress"] = bar
        asked: CensusResult | CensusPairs | CensusVertices
        if top is not None and by is not None:
            asked = papilio.census_pairs(store, pair_side, by=by, k=top, **options)
            result, lines = asked.census, _pair_lines(asked)
        elif per == "vertex":
            asked = papilio.census_vertices(store, pair_side, **options)
            result = asked.census
        else:
            asked = result = papilio.census(store, pair_side, **options)
    if drawn is not None:
        _draw(result, drawn, options["overwrite"])
    if as_json:
        print_json(asked.to_json())
        return
    report_result(result.counted)
    for line in lines:
        click.echo(line)
    say(f"balanced: {result.balanced:,} of {result.butterflies:,} butterflies")
    if asked is not result and options["output"] is not None:
        say(f"{'classes per vertex' if top is None else 'pairs'}: {options['output']}")
    if drawn is not None:
        say(f"figure: {drawn}")


def _check_asked(top: int | None, by: str | None, per: str, output: str | None) -> None:
    """Refuse flags that do not go together, before anything is counted."""
    if (top is None) != (by is None):
        raise InputError(f"--top and --by go together; give --by {', '.join(PAIR_ORDERS)} and --top N")
    if per == "vertex" and top is not None:
        raise InputError("--top lists pairs and --per vertex writes vertices; ask for one of them at a time")
    if per == "vertex" and output is None:
        raise InputError("--per vertex needs --output FILE for the classes of the vertices")


def _pair_lines(found: CensusPairs) -> list[str]:
    """Return the pairs, one on each line, under the names of their columns; separated by tabs."""
    if not found.pairs:
        return []
    rows: list[list[str | int]] = [["first", "second", *found.pairs[0].columns]]
    rows += [[*pair.labels, *pair.columns.values()] for pair in found.pairs]
    return ["\t".join(str(cell) for cell in row) for row in rows]


def _check_figure(figure: str, overwrite: bool) -> Path:
    """Refuse, before anything is counted, a figure that cannot be made."""
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
        raise StoreError(f"{path}: cannot write the figure ({error.strerror or error})") from error
