"""What the kernels of signed motifs count, and the answers that follow from it; Python integers of any size.

Two vertices of a pair meet at a common neighbour with the signs ``++``, ``--`` or ``+-``; they agree there in the first
two cases. Kernels count, for the pair of a start and an end, the neighbours of each kind.
"""

from __future__ import annotations

from papilio.kernels.biclique_forms import Cells, expand_sizes, turn
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Census, PairSide

__all__ = ["CENSUS_SUMS", "census_cells", "needs_all_neighbours", "size_cells"]

CENSUS_SUMS = 7
"""Sums that kernels make for a census.

A pair has a common neighbours ``++``, b ``--``, and x + y ``+-``: x where the start has the positive edge, y where the
end has it. Sums over pairs of C(a, 2), a b, C(b, 2), C(x, 2) + C(y, 2), x y, a (x + y) and b (x + y), in this order."""


def needs_all_neighbours(motif: BalancedButterfly | Census) -> bool:
    """Return whether every pair of the motif's layer is counted with all of its common neighbours at once."""
    return isinstance(motif, BalancedButterfly) and motif.k != 2


def size_cells(motif: BalancedButterfly, histogram: dict[int, int]) -> Cells:
    """Return balanced bicliques by (p, q).

    Parameters
    ----------
    motif : BalancedButterfly
    histogram : dict of int to int
        Times that a pair agrees, or does not agree, at exactly so many common neighbours.
    """
    most = motif.k if motif.k is not None else motif.max_k or max(histogram, default=2)
    return turn(expand_sizes(histogram, 2, range(motif.k or 2, most + 1)), motif.pair_side == "v")


def census_cells(sums: dict[PairSide, list[int]], pair_side: PairSide) -> Cells:
    """Return the census by pairs of one layer from sums over pairs of both.

    A butterfly is met from one pair alone, of whichever layer. From the other pair ``++/--`` is ``+-/+-`` with the
    positive edges at one vertex, and the other way round; all other classes are the same from both.

    Parameters
    ----------
    sums : dict of str to list of int
        The sums of :data:`CENSUS_SUMS` by the layer of the pairs.
    pair_side : {"u", "v"}
    """
    cells = dict.fromkeys((each.cell for each in CENSUS_CLASSES), 0)
    for layer, (both, split, none, same, crossed, mixed, mixed_none) in sums.items():
        along, across = (split, same) if layer == pair_side else (same, split)
        for cell, count in zip(cells, (both, along, none, across + crossed, mixed, mixed_none), strict=True):
            cells[cell] += count
    return {cell: count for cell, count in cells.items() if count}
