"""Tables of counts by size, and the checks that every partial passes."""

from __future__ import annotations

from collections.abc import Mapping

from papilio.motifs import Cell, Motif

__all__ = ["Cells", "find_wrong_cell"]

Cells = Mapping[Cell, int]
"""Counts by cell, without those that are 0."""


def find_wrong_cell(motif: Motif, cells: Cells, total: int) -> str | None:
    """Say what is wrong with the cells of a partial of ``motif``, or return None.

    A motif that is no table has none; a table has cells that were asked for, above 0, whose sum is ``total``.
    """
    if not motif.is_table:
        return f"{len(cells)} cells; the job needs none" if cells else None
    for cell, count in cells.items():
        if count < 1 or not motif.has_cell(cell):
            return f"{count} in cell {cell}; the job needs {motif.title}"
    sum_ = sum(cells.values())
    return None if sum_ == total else f"cells that sum to {sum_}, and the total {total}"
