"""What makes an edge list well formed, and the hash of its content.

The hash is over the content of a graph: its kind, layer sizes, signedness and sequence of edges. Row groups,
files, labels and provenance do not enter it. Each column has its own BLAKE2b stream over its little-endian
values, so that no interleaving is needed; the hash is the BLAKE2b of the header and the column digests.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import Executor, Future

import numpy as np
from numpy.typing import NDArray

from papilio.storage.manifest import GraphKind

__all__ = ["ContentHash", "edge_problem"]

_HASH_BYTES = 16
"""128 bits: no accidental collision among any number of graphs that one could store."""


_ORDER = "edges must be sorted by (u, v) without duplicates"


class ContentHash:
    """Accumulates the content hash of a graph over batches of its edges, in order."""

    def __init__(self, kind: GraphKind, n_u: int, n_v: int, signed: bool) -> None:
        self._header = {"kind": kind, "n_u": n_u, "n_v": n_v, "signed": signed}
        self._columns = [hashlib.blake2b(digest_size=_HASH_BYTES) for _ in range(3 if signed else 2)]
        self._n_edges = 0

    def update(
        self, u: NDArray[np.int32], v: NDArray[np.int32], sign: NDArray[np.int8] | None = None
    ) -> None:
        """Add edges; arrays of shape (k,), sorted by (u, v), after all edges added so far."""
        for digest, column in self._take(u, v, sign):
            digest.update(column)

    def submit(
        self, pool: Executor, u: NDArray[np.int32], v: NDArray[np.int32], sign: NDArray[np.int8] | None
    ) -> list[Future[None]]:
        """Add edges as :meth:`update` does, every column in a thread of its own; wait for them before the next call."""
        return [pool.submit(digest.update, column) for digest, column in self._take(u, v, sign)]

    def _take(
        self, u: NDArray[np.int32], v: NDArray[np.int32], sign: NDArray[np.int8] | None
    ) -> list[tuple[hashlib.blake2b, memoryview]]:
        self._n_edges += u.size
        columns: list[NDArray[np.int32] | NDArray[np.int8]] = [u, v] if sign is None else [u, v, sign]
        widths = ("<i4", "<i4", "i1")
        plain = [
            np.ascontiguousarray(column, dtype=width).data
            for column, width in zip(columns, widths, strict=False)
        ]
        return list(zip(self._columns, plain, strict=True))

    def hexdigest(self) -> str:
        """Return the hash of what was added so far, 32 hexadecimal digits."""
        header = {**self._header, "n_edges": self._n_edges, "columns": [c.hexdigest() for c in self._columns]}
        text = json.dumps(header, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()


def edge_problem(
    u: NDArray[np.int32],
    v: NDArray[np.int32],
    sign: NDArray[np.int8] | None,
    *,
    kind: GraphKind,
    n_u: int,
    n_v: int,
    previous: tuple[int, int] | None = None,
) -> str | None:
    """Return what is wrong with a batch of a stored edge list, arrays of shape (k,), or None; O(batch).

    The first edge must come after ``previous``, the last one of the batch before.
    """
    if not u.size:
        return None
    for name, ids, size in (("u", u, n_u), ("v", v, n_v)):
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= size:
            return f"{name} holds ids {low} to {high}; expected 0 to {size - 1}"
    key = (u.astype(np.int64) << 32) | v
    if previous is not None and int(key[0]) <= (previous[0] << 32 | previous[1]):
        return (
            f"edge ({u[0]}, {v[0]}) comes after {previous}; edges must be sorted by (u, v) without duplicates"
        )
    ahead = key[1:] > key[:-1]
    if not bool(ahead.all()):
        at = int(np.argmin(ahead)) + 1
        return f"edge ({u[at]}, {v[at]}) comes after ({u[at - 1]}, {v[at - 1]}); {_ORDER}"
    if kind == "unipartite" and not bool((u < v).all()):
        at = int(np.argmin(u < v))
        return f"edge ({u[at]}, {v[at]}) has u >= v; a unipartite graph holds each edge once with u < v"
    if sign is not None and not bool((np.abs(sign) == 1).all()):
        return f"sign holds {int(sign[np.argmax(np.abs(sign) != 1)])}; expected +1 or -1"
    return None
