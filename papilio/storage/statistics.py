"""Description of a stored graph, and its degrees and paths of three edges, by passes over the edges in pieces.

A path of three edges has a middle edge (u, v), and another edge at each of u and v: there are (d(u) - 1)(d(v) - 1) with
that middle edge. With w(x), the sum of d(y) - 1 over the neighbours y of x, there are (d(x) - 1) w(x) whose middle edge
ends in x. All numbers are exact. Memory O(n_u + n_v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.storage.graph_models import count_pairs
from papilio.storage.store import GraphStore

QUANTILES = (0.5, 0.9, 0.99)
"""Quantiles of degrees; a quantile is the smallest degree that at least this share of vertices does not exceed."""


def add_degrees(
    u: NDArray[np.int32], v: NDArray[np.int32], degree_u: NDArray[np.int64], degree_v: NDArray[np.int64]
) -> None:
    """Add edges, sorted by u, to the degrees of both ends."""
    if u.size:
        first = int(u[0])
        counts = np.bincount(u - first)
        degree_u[first : first + counts.size] += counts
        np.add.at(degree_v, v, 1)


def describe(store: GraphStore) -> dict[str, Any]:
    """Return the facts about a store, as JSON-compatible values.

    Reads the edges once, one row group at a time; memory O(n_u + n_v). ``density`` is edges per possible edge, or None
    if no edge is possible; ``degrees`` of a layer cover all its vertices, isolated ones included, with ``u`` only if
    unipartite; ``labels`` names the layers with labels; ``dropped`` and ``provenance`` are as in the manifest. Raises
    StoreError if the edges cannot be read.
    """
    bipartite = store.kind == "bipartite"
    degree_u = np.zeros(store.n_u, np.int64)
    degree_v = np.zeros(store.n_v, np.int64) if bipartite else degree_u
    positive = 0
    for u, v, sign in store.batches():
        add_degrees(u, v, degree_u, degree_v)
        if sign is not None:
            positive += int(np.count_nonzero(sign > 0))
    manifest = store.manifest
    pairs = count_pairs(store.n_u, store.n_v if bipartite else None)
    degrees = {"u": _describe_degrees(degree_u)}
    if bipartite:
        degrees["v"] = _describe_degrees(degree_v)
    return {
        "path": store.path,
        "kind": store.kind,
        "n_u": store.n_u,
        "n_v": store.n_v,
        "n_edges": store.n_edges,
        "signed": store.signed,
        "hash": store.hash,
        "format_version": manifest.format_version,
        "density": store.n_edges / pairs if pairs else None,
        "degrees": degrees,
        "signs": {"positive": positive, "negative": store.n_edges - positive} if store.signed else None,
        "labels": list(manifest.labels),
        "dropped": dict(manifest.dropped),
        "provenance": dict(manifest.provenance),
        "stored_bytes": store.stored_bytes(),
        "edge_files": len(manifest.edge_files),
        "row_groups": len(store.row_groups),
    }


def _describe_degrees(degrees: NDArray[np.int64]) -> dict[str, Any]:
    if not degrees.size:
        return {"max": 0, "mean": 0.0, "isolated": 0, "quantiles": {str(q): 0 for q in QUANTILES}}
    values = np.quantile(degrees, QUANTILES, method="inverted_cdf")
    return {
        "max": int(degrees.max()),
        "mean": int(degrees.sum()) / degrees.size,
        "isolated": int(np.count_nonzero(degrees == 0)),
        "quantiles": {str(q): int(value) for q, value in zip(QUANTILES, values, strict=True)},
    }


EdgePass = Callable[[], Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]]
"""Yields all edges in order, in pieces (u, v), each sorted by u; can be called repeatedly."""

_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees of both layers: ndarrays of int64, shapes (n_u,) and (n_v,)."""

    u: NDArray[np.int64]
    v: NDArray[np.int64]


def count_degrees(n_u: int, n_v: int, edges: EdgePass) -> Degrees:
    """Return the degrees; one pass."""
    degrees = Degrees(np.zeros(n_u, np.int64), np.zeros(n_v, np.int64))
    for u, v in edges():
        add_degrees(u, v, degrees.u, degrees.v)
    return degrees


def edge_three_paths(degrees: Degrees, u: NDArray[np.int32], v: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the paths of three edges with each of these edges in the middle, below 2^62; shape of ``u``."""
    return (degrees.u[u] - 1).astype(np.uint64) * (degrees.v[v] - 1).astype(np.uint64)


def count_three_paths(degrees: Degrees, edges: EdgePass) -> int:
    """Return the total number of paths of three edges, a Python integer of any size; one pass."""
    total = 0
    for u, v in edges():
        paths = edge_three_paths(degrees, u, v)
        # Halves of 32 bits: the sum of fewer than 2^31 of them fits.
        high, low = paths >> _HALF, paths & np.uint64(2**32 - 1)
        total += (int(high.sum()) << 32) + int(low.sum())
    return total


def count_wedges(degrees: Degrees, edges: EdgePass) -> Degrees:
    """Return w(x) of every vertex x, the wedges that start there; one pass."""
    wedges = Degrees(np.zeros_like(degrees.u), np.zeros_like(degrees.v))
    for u, v in edges():
        np.add.at(wedges.u, u, degrees.v[v] - 1)
        np.add.at(wedges.v, v, degrees.u[u] - 1)
    return wedges
