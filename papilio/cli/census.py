"""The command that counts butterflies by their signs: census."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import papilio
from papilio.cli.census_pairs import check_asked, pair_lines, pair_options
from papilio.cli.jobs import report_job_count
from papilio.cli.motifs import PAIR_SIDE
from papilio.cli.options import JOB_OPTION, output_options, run_options
from papilio.cli.report import print_json, say
from papilio.errors import InputError, StoreError
from papilio.motifs import PairSide

if TYPE_CHECKING:
    from papilio.api.census import CensusResult
    from papilio.measures.census_pairs import CensusPairs, CensusVertices, PairOrder

__all__ = ["census"]

_FORMATS = (".svg", ".png")


@click.command()
@run_options
@click.argument("store", type=click.Path())
@click.option(
    "--pair-side",
    type=PAIR_SIDE,
    required=True,
    help="The layer of the pair whose signs make the class; ++/-- and +-/+- depend on it.",
)
@pair_options
@output_options("the classes; with --top for the pairs, with --per vertex for the vertices")
@click.option(
    "--figure",
    type=click.Path(),
    metavar="FILE",
    help="Bar chart of the shares, .svg or .png; needs matplotlib.",
)
@JOB_OPTION
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
    from papilio.cluster.progress import ProgressBar

    check_asked(top, by, per, options["output"])
    drawn = None if figure is None else _check_figure(figure, options["overwrite"])
    lines: list[str] = []
    with ProgressBar() as bar:
        options["progress"] = bar
        asked: CensusResult | CensusPairs | CensusVertices
        if top is not None and by is not None:
            asked = papilio.census_pairs(store, pair_side, by=by, k=top, **options)
            result, lines = asked.census, pair_lines(asked)
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
    report_job_count(result.counted, as_json)
    for line in lines:
        click.echo(line)
    say(f"balanced: {result.balanced:,} of {result.butterflies:,} butterflies")
    if asked is not result and options["output"] is not None:
        say(f"{'classes per vertex' if top is None else 'pairs'}: {options['output']}")
    if drawn is not None:
        say(f"figure: {drawn}")


def _check_figure(figure: str, overwrite: bool) -> Path:
    """Refuse, before anything is counted, a figure that cannot be made."""
    from papilio.reports.figures import require_matplotlib
    from papilio.storage.location import check_file

    path = Path(figure)
    if path.suffix not in _FORMATS:
        raise InputError(f"figure is {figure!r}; expected a file name that ends in {' or '.join(_FORMATS)}")
    require_matplotlib()
    return check_file(figure, overwrite)


def _draw(result: CensusResult, path: Path, overwrite: bool) -> None:
    from papilio.reports.figures import draw_census
    from papilio.storage.location import atomic_file

    figure = draw_census(result.rows, "Butterflies by class.")
    try:
        with atomic_file(path, overwrite) as scratch:
            Path(scratch).write_bytes(figure.svg if path.suffix == ".svg" else figure.png)
    except OSError as error:
        raise StoreError(f"{path}: cannot write the figure ({error.strerror or error})") from error
