"""Parts of any size, drawn without a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.parts import EndBlock, StartBlock, WedgePart

__all__ = ["drawn_part"]


def _rows(random: np.random.Generator, n_rows: int, length: int, below: int) -> NDArray[np.int32]:
    """Return rows of ``length`` distinct values below ``below``, ascending, shape (n_rows, length)."""
    gaps = random.integers(1, max(2, 2 * below // length), (n_rows, length))
    rows = np.cumsum(gaps, axis=1)
    rows -= np.maximum(0, rows[:, -1] + 1 - below)[:, np.newaxis]
    # Rows that were moved below 0 begin with 0, 1, ... instead.
    return np.maximum(rows, np.arange(length)).astype(np.int32)


def drawn_part(seed: int, n_starts: int, n_ends: int, n_middles: int, length: int, per: str) -> WedgePart:
    """Return starts and middles with rows of ``length`` entries each; every second end precedes half of the starts.

    ``length`` is at most ``n_ends`` and ``n_middles``.
    """
    random = np.random.default_rng(seed)
    ranks = np.sort(random.choice(2 * (n_starts + n_ends), n_starts + n_ends, replace=False)).astype(np.int32)
    is_start = np.zeros(ranks.size, bool)
    is_start[random.choice(ranks.size, n_starts, replace=False)] = True
    indptr = np.arange(0, n_starts * length + 1, length, dtype=np.int64)
    n_edges = (n_starts + n_middles) * length if per == "edge" else 0
    edges = random.permutation(n_edges).astype(np.int64)
    at = n_starts * length if per == "edge" else 0
    starts = StartBlock(
        "u",
        ranks[is_start],
        np.arange(n_starts, dtype=np.int32),
        random.integers(1, 1 << 40, n_starts),
        indptr,
        _rows(random, n_starts, length, n_middles).ravel(),
        edges[:at],
    )
    ends = EndBlock(
        "u",
        ranks[~is_start],
        np.arange(n_starts, n_starts + n_ends, dtype=np.int32),
        np.arange(n_middles, dtype=np.int32),
        np.arange(n_middles, dtype=np.int32),
        np.arange(0, n_middles * length + 1, length, dtype=np.int64),
        _rows(random, n_middles, length, n_ends).ravel(),
        edges[at:],
    )
    return WedgePart(starts, ends)
