"""Maximal bicliques: which layer of a graph is anchored, what is then searched for, and the hashes of its vertices."""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.biclique.anchor import check_anchor
from papilio.kernels.biclique.forms import Layers
from papilio.kernels.biclique.items import SizeRange
from papilio.kernels.checksum import mix
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart


def choose_sizes(graph: Layers, motif: MaximalBiclique, swapped: bool) -> SizeRange:
    """Return what is searched for: stars are found without."""
    of_u, of_v = (
        (max(least, 2), n if most is None else min(most, n))
        for (_, least, most), n in zip(motif.bounds, (graph.n_u, graph.n_v), strict=True)
    )
    return SizeRange(*of_v, *of_u) if swapped else SizeRange(*of_u, *of_v)


def choose_anchor(graph: Layers, anchor: str) -> bool:
    """Return whether V is anchored: as asked for, or for ``auto`` where its pairs have fewer wedges.

    Raises
    ------
    InputError
        For an unknown anchor.
    """
    check_anchor(anchor)
    if anchor != "auto":
        return anchor == "v"
    of_u, of_v = (int((degrees * (degrees - 1)).sum()) for degrees in (graph.degree_v, graph.degree_u))
    return of_v < of_u


def explain_choice(asked: str) -> str:
    """Return why a layer is anchored."""
    return "asked for" if asked != "auto" else "fewer wedges lie between its pairs"


def explain_anchor(swapped: bool, asked: str, part: MaximalPart | None) -> tuple[str, str]:
    """Return which layer is anchored, and why."""
    why = explain_choice(asked) if part is None else "the roots of the part are of this layer"
    return f"anchor {'V' if swapped else 'U'}", why


def hash_ids(left_ids: Any, right_ids: Any, swapped: bool) -> tuple[Any, Any]:
    """Return the hashes of vertices of both layers, given by their original ids, on the host or on a device."""
    lefts, rights = (ids.astype(np.uint64) for ids in (left_ids, right_ids))
    of_v = np.uint64(1 << 32)
    return (mix(lefts | of_v), mix(rights)) if swapped else (mix(lefts), mix(rights | of_v))
