"""Hashes of motifs, whose sum modulo 2^64 tells two sets of motifs apart, whatever their order.

A vertex has the hash ``mix(layer << 32 | id)``, the layer being 0 for U, and for a unipartite graph, and 1 for V. A
motif has the hash ``mix`` of the sum of those of its vertices, modulo 2^64: a search adds a vertex that it takes and
subtracts one that it gives back. ``mix`` is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from papilio.graph import RowColumn


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a value of 64 bits for each, one to one; a change of any bit changes half of them on average."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_rows(*columns: RowColumn) -> NDArray[np.uint64]:
    """Return the hash of the motif in each row, shape (n_rows,).

    Parameters
    ----------
    *columns : RowColumn
        Ids of the vertices of U and of V, or of a unipartite graph.
    """
    sums: NDArray[np.uint64] = np.zeros(1, np.uint64)
    for layer, column in enumerate(columns):
        if isinstance(column, tuple):
            offsets, ids = column
        else:
            offsets, ids = np.arange(len(column) + 1) * column.shape[1], column.ravel()
        hashes = mix(ids.astype(np.uint64) | np.uint64(layer << 32))
        before = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)))
        sums = sums + (before[offsets[1:]] - before[offsets[:-1]])
    return mix(sums)


def sum_hashes(hashes: NDArray[np.uint64]) -> int:
    """Return the sum modulo 2^64: the ``checksum`` of a partial."""
    return int(hashes.sum(dtype=np.uint64))
