"""The census of butterflies of a signed graph, and the classes that it tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from papilio.arguments import check_fields
from papilio.motifs import Cell, Granularity, Motif, PairSide


@dataclass(frozen=True)
class CensusClass:
    """One of the six classes of butterflies of a signed graph, by what a pair of vertices does at both neighbours.

    Attributes
    ----------
    name : str
        ``++``, ``--`` or ``+-`` (different signs, whichever is whose) at either neighbour.
    cell : tuple of int
        Its place in tables: 1 for ``++``, 2 for ``--``, 3 for ``+-``.
    group : str
        ``coherent``, ``incoherent`` or ``mixed``: same signs at both neighbours, different ones at both, or neither.
    """

    name: str
    cell: tuple[int, int]
    group: Literal["coherent", "incoherent", "mixed"]


CENSUS_CLASSES = (
    CensusClass("++/++", (1, 1), "coherent"),
    CensusClass("++/--", (1, 2), "coherent"),
    CensusClass("--/--", (2, 2), "coherent"),
    CensusClass("+-/+-", (3, 3), "incoherent"),
    CensusClass("++/+-", (1, 3), "mixed"),
    CensusClass("--/+-", (2, 3), "mixed"),
)
"""All of them; coherent and incoherent butterflies are balanced, mixed ones are not."""


_CENSUS_CELLS = frozenset(each.cell for each in CENSUS_CLASSES)


@dataclass(frozen=True)
class Census(Motif):
    """Butterflies of a signed graph by class: by the signs of a pair of vertices at both neighbours.

    See :class:`CensusClass`.

    Attributes
    ----------
    pair_side : {"u", "v"}
        Layer of the pair whose signs make the class: ``++/--`` and ``+-/+-`` depend on it, the others do not.

    Raises
    ------
    InputError
        For another side.
    """

    name: ClassVar[str] = "census"
    needs_signs: ClassVar[bool] = True

    pair_side: PairSide

    def __post_init__(self) -> None:
        check_fields(self, " of a census")

    @property
    def title(self) -> str:
        """``census of butterflies by pairs of U``."""
        return f"census of butterflies by pairs of {self.pair_side.upper()}"

    @property
    def words(self) -> tuple[str, ...]:
        """``census --pair-side u``."""
        return (self.name, "--pair-side", self.pair_side)

    @property
    def is_table(self) -> bool:
        """It is one: by class."""
        return True

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        """In all."""
        return ("total",)

    def has_cell(self, cell: Cell) -> bool:
        """Whether it is that of a class."""
        return cell in _CENSUS_CELLS


def rows_by_class(
    classes: tuple[CensusClass, ...], table: Mapping[Cell, int]
) -> tuple[tuple[CensusClass, int, float], ...]:
    """Return the classes with their counts in the table of an answer, and their shares of the sum."""
    total = sum(table.values())
    counts = [(each, table.get(each.cell, 0)) for each in classes]
    return tuple((each, count, count / total if total else 0.0) for each, count in counts)
