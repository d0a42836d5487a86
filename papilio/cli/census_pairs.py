"""What the command census says and takes about pairs and vertices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from papilio.errors import InputError

if TYPE_CHECKING:
    from papilio.measures.census_pairs import CensusPairs

__all__ = ["check_asked", "pair_lines", "pair_options"]

_ORDERS = ("coherent", "incoherent", "conflicting")


def pair_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that ask for pairs or vertices."""
    options = [
        click.option(
            "--top",
            type=click.IntRange(1, 2**63 - 1),
            metavar="N",
            help="Also list the N pairs with the most butterflies of the group that --by names.",
        ),
        click.option(
            "--by",
            type=click.Choice(_ORDERS),
            help="With --top: the butterflies that order the pairs; conflicting are the mixed ones.",
        ),
        click.option(
            "--per",
            type=click.Choice(["total", "vertex"]),
            default="total",
            show_default=True,
            help="Classes in all, or also of each vertex of the pair side, into the --output file.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def check_asked(top: int | None, by: str | None, per: str, output: str | None) -> None:
    """Refuse flags that do not go together, before anything is counted.

    Raises
    ------
    InputError
        Naming them.
    """
    if (top is None) != (by is None):
        raise InputError(f"--top and --by go together; give --by {', '.join(_ORDERS)} and --top N")
    if per == "vertex" and top is not None:
        raise InputError("--top lists pairs and --per vertex writes vertices; ask for one of them at a time")
    if per == "vertex" and output is None:
        raise InputError("--per vertex needs --output FILE for the classes of the vertices")


def pair_lines(found: CensusPairs) -> list[str]:
    """Return the pairs, one on each line, under the names of their columns; separated by tabs."""
    if not found.pairs:
        return []
    rows: list[list[str | int]] = [["first", "second", *found.pairs[0].columns]]
    rows += [[*pair.labels, *pair.columns.values()] for pair in found.pairs]
    return ["\t".join(str(cell) for cell in row) for row in rows]
