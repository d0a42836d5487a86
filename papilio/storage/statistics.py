"""Describing a stored graph: sizes, degrees, density, signs, where it comes from, and what was dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.storage.store import GraphStore

__all__ = ["QUANTILES", "add_degrees", "describe"]

QUANTILES = (0.5, 0.9, 0.99)
"""Of the degrees; a quantile is the smallest degree that at least this share of vertices does not pass."""


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
    """Return what there is to know of a store, as values that JSON can hold.

    Reads the edges once, one row group at a time; memory O(n_u + n_v). ``density`` is edges per possible edge, or None
    when none is possible; ``degrees`` of a layer are of all its vertices, isolated ones included, and of ``u`` alone
    if unipartite; ``labels`` names the layers with labels of their own; ``dropped`` and ``provenance`` are as in the
    manifest. StoreError when the edges cannot be read.
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
        "density": _density(store),
        "degrees": degrees,
        "signs": {"positive": positive, "negative": store.n_edges - positive} if store.signed else None,
        "labels": list(manifest.labels),
        "dropped": dict(manifest.dropped),
        "provenance": dict(manifest.provenance),
        "stored_bytes": store.stored_bytes(),
        "edge_files": len(manifest.edge_files),
        "row_groups": len(store.row_groups),
    }


def _density(store: GraphStore) -> float | None:
    pairs = store.n_u * store.n_v if store.kind == "bipartite" else store.n_u * (store.n_u - 1) // 2
    return store.n_edges / pairs if pairs else None


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
