"""Maximal bicliques: which layer of a graph is anchored, and what is then searched for."""

from __future__ import annotations

from papilio.kernels.biclique.anchor import count_wedges, read_anchor
from papilio.kernels.biclique.forms import Layers
from papilio.kernels.biclique.items import SizeRange
from papilio.motifs import MaximalBiclique
from papilio.parts import MaximalPart


def choose_maximal_sizes(graph: Layers, motif: MaximalBiclique, swapped: bool) -> SizeRange:
    """Return what is searched for: stars are found without."""
    of_u, of_v = (
        (max(least, 2), n if most is None else min(most, n))
        for (_, least, most), n in zip(motif.bounds, (graph.n_u, graph.n_v), strict=True)
    )
    return SizeRange(*of_v, *of_u) if swapped else SizeRange(*of_u, *of_v)


def choose_maximal_anchor(graph: Layers, anchor: str) -> bool:
    """Return whether V is anchored: as asked for, or for ``auto`` where its pairs have fewer wedges.

    Raises
    ------
    InputError
        For an unknown anchor.
    """
    asked = read_anchor(anchor)
    if asked is not None:
        return asked
    of_u, of_v = count_wedges(graph)
    return of_v < of_u


def explain_choice(asked: str) -> str:
    """Return why a layer is anchored."""
    return "asked for" if asked != "auto" else "fewer wedges lie between its pairs"


def explain_anchor(swapped: bool, asked: str, part: MaximalPart | None) -> tuple[str, str]:
    """Return which layer is anchored, and why."""
    why = explain_choice(asked) if part is None else "the roots of the part are of this layer"
    return f"anchor {'V' if swapped else 'U'}", why
