"""Matrices of ecologists, and what R's vegan 2.6-4 finds in them.

* ``SIPOO``: 18 islands of the Sipoo archipelago and 50 species of birds (Simberloff and Martin, Ann. Zool. Fennici 28,
  1991), ``data(sipoo)`` of vegan.
* ``SAFARILAND``: 9 plants and 27 pollinators (Vazquez and Simberloff, Ecology Letters 6, 2003), ``data(Safariland)`` of
  bipartite, without weights.

``checkerboards`` are ``sum(designdist(x, "(A-J)*(B-J)", "binary"))``, and for sipoo the statistic of ``nestedchecker``,
which the manual of vegan prints; ``togetherness`` is ``sum(designdist(x, "J*(P-A-B+J)", "binary"))``, of the rows and
of the columns: functions ``C.score`` and ``togetherness`` of bipartite are means of the same numbers. ``nodf`` is the
statistic of ``nestednodf``: of the matrix, the rows and the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from papilio.graph import BipartiteGraph

__all__ = ["SAFARILAND", "SIPOO", "Matrix"]


@dataclass(frozen=True)
class Matrix:
    """A matrix of zeros and ones, and its numbers."""

    rows: str
    checkerboards: int
    togetherness: tuple[int, int]
    nodf: tuple[float, float, float]

    @property
    def graph(self) -> BipartiteGraph:
        held = np.array([[int(digit) for digit in row] for row in self.rows.split()])
        return BipartiteGraph.from_edges(*np.nonzero(held), *held.shape)


SIPOO = Matrix(
    """
    01000000000010000000000000000000000000000100100000
    00000000000010000000000000000000010010000000100000
    00000000000010000000010000000000010000000100100000
    00000000000000000000000000000000000000000000100100
    00000000000010000000000000000001010000000100100100
    00000000000000000000000000001001010010000000100100
    00010000000000000000000000000001000000000000100100
    00000000000110000010010000001000000011000100100100
    00000000000000000010100000001000000010000000100100
    00000000000000000010000000000001000010000001111100
    00000000000000000110001010001001010011000101100100
    00000000000110100010100000000001010000000100100100
    00000000000011000011100000011001010000000100100100
    00000010010110000111010000000101010000000100110000
    00000000100001000011100000001111111010000100100100
    00000000000001010111100000011011010100011100100100
    00100100001110111111110011011011111110001110110100
    10111001001011111111100101111111111010110100100111
    """,
    checkerboards=2767,
    togetherness=(20296, 13608),
    nodf=(57.2202790983740, 69.8483377765385, 55.6430603410195),
)

SAFARILAND = Matrix(
    """
    101000000100001000000001001
    010011111110010001011111110
    000000000000001000000000000
    010010000000000000000000000
    001010100000010000000000000
    000000000001100100100000000
    000100100000000000000000000
    000000001000000000000000000
    000000100000000010000000000
    """,
    checkerboards=359,
    togetherness=(216, 1128),
    nodf=(24.5478036175711, 18.9814814814815, 25.1187084520418),
)
