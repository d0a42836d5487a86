"""Counts of the signed kernels, and the answers derived from them; Python integers of any size.

Two vertices of a pair have a common neighbour with the signs ``++``, ``--`` or ``+-``; they agree in the first two
cases. Kernels count, for the pair of a start and an end, the neighbours of each kind.

A butterfly is found from one pair only, in either layer. From the pair of its other two vertices, ``++/--`` becomes
``+-/+-`` with both positive edges at one vertex, and vice versa; every other kind is the same from both pairs. Kernels
therefore distinguish the two kinds of ``+-``, and assign each butterfly to its class by the requested pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from papilio.kernels.biclique.forms import Cells, expand_sizes, turn
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Census


def needs_all_neighbours(motif: BalancedButterfly | Census) -> bool:
    """Return whether every pair of the motif's layer is counted with all of its common neighbours at once."""
    return isinstance(motif, BalancedButterfly) and motif.k != 2


def size_cells(motif: BalancedButterfly, histogram: dict[int, int]) -> Cells:
    """Return balanced bicliques by (p, q).

    ``histogram`` maps n to the number of pairs that agree, or disagree, on exactly n common neighbours.
    """
    most = motif.k if motif.k is not None else motif.max_k or max(histogram, default=2)
    return turn(expand_sizes(histogram, 2, range(motif.k or 2, most + 1)), motif.pair_side)


def census_cells(sums: Sequence[int]) -> Cells:
    """Return the census from the butterflies of each class, in the order of the classes."""
    return {each.cell: count for each, count in zip(CENSUS_CLASSES, sums, strict=True) if count}
