"""Blocks of rows that are cut from longer columns."""

from __future__ import annotations

import numpy as np
import pytest

from papilio.graph import RowColumn
from papilio.kernels import listing as rows
from papilio.kernels.listing import cut_blocks


def rows_of(column: RowColumn) -> list[list[int]]:
    """Return the rows of a column."""
    cut = np.split(column[1], column[0][1:-1]) if isinstance(column, tuple) else column
    return [row.tolist() for row in cut]


@pytest.mark.parametrize("most", [1, 20, 50, 10_000])
def test_blocks_hold_all_rows_and_as_many_as_fit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(rows, "BLOCK_VALUES", most)
    random = np.random.default_rng(most)
    lengths = random.integers(0, 30, 100)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ragged = offsets, random.integers(0, 9, int(offsets[-1])).astype(np.int32)
    fixed = random.integers(0, 9, (100, 3)).astype(np.int32)
    found: tuple[list[list[int]], list[list[int]]] = [], []
    blocks = list(cut_blocks([ragged, fixed]))
    sizes = lengths + 3
    for block in blocks:
        begin = len(found[0])
        for side, column in zip(found, block, strict=True):
            side.extend(rows_of(column))
        end = len(found[0])
        assert end == len(found[1])
        assert end == begin + 1 or sizes[begin:end].sum() <= most
        assert end == 100 or sizes[begin : end + 1].sum() > most
    assert found == (rows_of(ragged), rows_of(fixed))
    assert len(list(cut_blocks([fixed]))) == max(1, -(-100 // max(1, most // 3)))
