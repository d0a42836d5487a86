"""Which layer is anchored, and what the parts for bicliques must serve."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.decisions import explain_choices
from papilio.kernels.biclique.index import choose_anchor, choose_sizes
from papilio.motifs import Biclique, Granularity
from papilio.partitioning.disk_rows import degrees
from papilio.storage.store import GraphStore

__all__ = ["Question", "anchor_other", "ask_question"]


@dataclass(frozen=True, eq=False)
class _Degrees:
    """What the choice of the anchored layer depends on; a :class:`~papilio.kernels.biclique.forms.Layers`."""

    n_u: int
    n_v: int
    degree_u: NDArray[np.int64]
    degree_v: NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """What the parts must serve.

    Attributes
    ----------
    swapped : bool
        V is anchored.
    least_p, least_q : int
        Smallest p and q.
    anchor_choice : tuple of (str, str)
        Why this layer is anchored.
    """

    swapped: bool
    least_p: int
    least_q: int
    anchor_choice: tuple[str, str]

    @property
    def least(self) -> tuple[int, int]:
        """Fewest left and fewest right vertices of a biclique."""
        return (self.least_q, self.least_p) if self.swapped else (self.least_p, self.least_q)


def ask_question(store: GraphStore, motif: Biclique, anchor: str, per: Granularity, threads: int) -> Question:
    """Choose the anchored layer from the degrees alone."""
    layers = _Degrees(store.n_u, store.n_v, *degrees(store, threads=threads))
    swapped = choose_anchor(layers, motif, anchor)
    sizes = choose_sizes(layers, motif, swapped)
    why = explain_choices(motif, per, sizes, swapped, (anchor, "auto"), "auto")[0]
    layer = f"layer {'V' if swapped else 'U'} anchored"
    choice = (
        why if why[0] == layer else (layer, "nothing is searched: closed forms are all that is asked for")
    )
    return Question(swapped, motif.p or 1, motif.q or 1, choice)


def anchor_other(question: Question) -> Question:
    """Return the same question with the other layer anchored."""
    own, other = ("V", "U") if question.swapped else ("U", "V")
    choice = (
        f"layer {other} anchored",
        f"a vertex of layer {own} fits no part with the lists of its neighbours",
    )
    return replace(question, swapped=not question.swapped, anchor_choice=choice)
