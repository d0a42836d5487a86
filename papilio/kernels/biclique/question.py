"""A request for (p,q)-bicliques as both engines understand it: the graph searched, the anchor, the algorithm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.anchor import read_anchor
from papilio.kernels.biclique.decisions import Choice, explain_choices
from papilio.kernels.biclique.forms import find_root_stars, star_vectors
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.signed_cover import COVER_CHOICE, make_cover
from papilio.kernels.engine import require_request
from papilio.motifs import Biclique, Granularity, Motif
from papilio.parts import Part, RootPart


def settle_anchor(motif: Biclique, anchor: str, algorithm: str) -> str:
    """Return the anchor asked for; for ``auto``, the only layer that can be enumerated, if that is asked for."""
    if anchor == "auto" and algorithm == "enumerate" and (motif.p is None) != (motif.q is None):
        return "v" if motif.p is None else "u"
    return anchor


def anchor_part(part: RootPart, anchor: str) -> str:
    """Return the anchored layer of a part; refuse the other one."""
    read_anchor(anchor)
    if anchor not in ("auto", part.layer):
        raise UnsupportedError(
            f"anchor {anchor!r} is asked for, but the partition has roots in layer {part.layer.upper()}; use anchor "
            f"'auto' or {part.layer!r}, or partition the graph with the anchor that is wanted"
        )
    return part.layer


@dataclass(frozen=True, eq=False)
class BicliqueQuestion:
    """What both engines know before they build an index. Edges of a staged part are on the device."""

    motif: Biclique
    per: Granularity
    source: BipartiteGraph
    part: RootPart | None
    searched: BipartiteGraph
    """The source, or its signed double cover for balanced bicliques."""
    asked: tuple[str, str]
    """Anchor and algorithm asked for; the anchor of a part is ``part``."""
    anchor: str

    @property
    def roots(self) -> NDArray[np.int32] | None:
        """Roots of the part; None for a whole graph."""
        return None if self.part is None else self.part.roots

    @property
    def keep_pairs(self) -> bool:
        """Whether the index keeps pairs below which nothing is searched."""
        return self.per == "vertex" or self.asked[1] == "pivot"

    def choose_algorithm(self, index: BicliqueItems) -> str:
        """Return ``enumerate``, ``pivot`` or ``auto`` (both race): what counts the children of this index.

        0. For every vertex: ``enumerate``, which knows the vertices of its leaves.
        1. Where left sides of several sizes are counted: ``pivot``.
        2. Where one level lies below a child: ``enumerate``; its work is that of finding the candidates.
        3. Else both race.

        Raises
        ------
        UnsupportedError
            When ``enumerate`` is asked for and the anchored layer has no given size, or ``pivot`` for every vertex.
        """
        asked, sizes = self.asked[1], index.sizes
        if self.per == "vertex":
            if asked == "pivot":
                raise UnsupportedError(
                    "algorithm 'pivot' counts totals; for every vertex use 'enumerate' or 'auto'"
                )
            return "enumerate"
        fixed = sizes.least_left == sizes.most_left or sizes.is_empty
        if asked == "enumerate" and not fixed:
            raise UnsupportedError(
                "algorithm 'enumerate' needs one given size of the anchored layer "
                f"({'q, as V is anchored' if index.swapped else 'p, as U is anchored'}); "
                "use 'pivot', give that size or anchor the other layer"
            )
        if asked != "auto":
            return asked
        if not fixed:
            return "pivot"
        return "enumerate" if sizes.most_left <= 3 else "auto"

    def explain(self, index: BicliqueItems, algorithm: str) -> tuple[Choice, ...]:
        """Return what was decided, and why, for an index that ``algorithm`` searches."""
        choices = explain_choices(self.motif, self.per, index.sizes, index.swapped, self.asked, algorithm)
        return (COVER_CHOICE, *choices) if self.motif.needs_signs else choices

    def star_vectors(self, source: BipartiteGraph) -> dict[str, NDArray[np.uint64]]:
        """Return the stars of each vertex of the source, given on the host."""
        part = self.part
        of_roots = None if part is None else find_root_stars(source, part.layer, part.roots)
        return star_vectors(source, self.motif, of_roots)


def ask_bicliques(
    graph: BipartiteGraph | Part, motif: Motif, per: Granularity, anchor: str, algorithm: str
) -> BicliqueQuestion:
    """Check a request and settle the anchor; ``anchor`` and ``algorithm`` are options of the engine.

    Raises
    ------
    InputError
        For an unknown anchor of a part.
    UnsupportedError
        For another motif, kind of graph or granularity, for a part of another layer than the one to be anchored, and
        for balanced bicliques of a part.
    """
    require_request("biclique", Biclique, graph, motif, per, None if motif.needs_signs else RootPart)
    assert isinstance(motif, Biclique)
    if isinstance(graph, RootPart):
        source, settled = graph.graph, anchor_part(graph, anchor)
        return BicliqueQuestion(motif, per, source, graph, source, ("part", algorithm), settled)
    assert isinstance(graph, BipartiteGraph)
    searched = make_cover(graph) if motif.needs_signs else graph
    settled = settle_anchor(motif, anchor, algorithm)
    return BicliqueQuestion(motif, per, graph, None, searched, (anchor, algorithm), settled)
