"""Define a request for bicliques for all engines: the graph to search, the anchored layer, the algorithm.

The roots come from the anchored layer. The plan shows each decision with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.forms import Layers, find_root_stars, star_vectors
from papilio.kernels.biclique.items import BicliqueItems, SizeRange
from papilio.kernels.biclique.signed_cover import COVER_CHOICE, make_cover
from papilio.kernels.engine import Choice, require_request
from papilio.kernels.exact import check_bicliques
from papilio.motifs import Biclique, Granularity, MaximalBiclique, Motif
from papilio.parts import Layer, MaximalPart, Part, RootPart

ANCHORS: dict[str, Layer | None] = {"auto": None, "u": "u", "v": "v"}

PAIR_TIMES = 20
"""Ratio of wedges above which three of the other layer are searched faster than all pairs are counted: 81 ms for the
pairs of youtube-groupmemberships, with 18 times the wedges, but 13 against 9 ms with 27 times in bonanza."""

_MOST_POWER = 64
"""Longer sides weigh no more."""

MANY_TIMES = 4
"""Ratio of wedges above which pivoting on the other layer beats enumerating a layer of fixed size: 0.1 s against 45 s
for four vertices of V in marvel (21 times the wedges), 0.8 s against 41 s for four of U in youtube-groupmemberships (17
times)."""

VERTEX_FACTOR = 4
"""Each vertex to take from a layer multiplies its search by about this.

With one size of either side, 3 to 9, on eight graphs, the layer with fewer wedges takes more than 1.3 times the other
and 3 ms in 30 of 190 questions, and the layer with the smaller product in 8; with a factor of 2 or 12 in 11.
"""

LESS_TREE = "its wedges, times 4 for each of its vertices to take, are no more than in the other layer"
_TWO_TAKEN = "only two of its vertices are taken"
_THREE_FASTER = "three of its vertices are searched faster than the many wedges of the other layer are counted"
_GIVEN_SIZE = "its side has a given size"
_MANY_WEDGES = "pairs of the other layer have many times the wedges"
_ROOTS = "the roots of the part are in this layer"
REQUESTED = "requested"
FEWER_WEDGES = "pairs of its vertices have no more wedges than pairs of the other layer"


def choose_sizes(graph: Layers, motif: Biclique, anchor: Layer) -> SizeRange:
    """Return the sizes to search; size 1 has closed forms."""

    def bounds(size: int | None, most: int | None, n: int) -> tuple[int, int]:
        if size is not None:
            return max(size, 2), size
        return 2, n if most is None else min(most, n)

    of_u = bounds(motif.p, motif.max_p, graph.n_u)
    of_v = bounds(motif.q, motif.max_q, graph.n_v)
    return SizeRange(*of_u, *of_v) if anchor == "u" else SizeRange(*of_v, *of_u)


def count_wedges(graph: Layers) -> tuple[int, int]:
    """Return the number of wedges between pairs of U and between pairs of V."""

    def between(degrees: NDArray[np.int64]) -> int:
        return int((degrees * (degrees - 1) // 2).sum())

    return between(graph.degree_v), between(graph.degree_u)


def read_anchor(anchor: str) -> Layer | None:
    """Return the requested layer, None for ``auto``; raise InputError for an unknown anchor."""
    if anchor not in ANCHORS:
        raise InputError(f"anchor is {anchor!r}; expected one of {', '.join(ANCHORS)}")
    return ANCHORS[anchor]


def choose_anchor(graph: Layers, motif: Biclique, anchor: str) -> tuple[Layer, str]:
    """Return the anchored layer, and why: as requested, or for ``auto`` by the first of these rules that applies:

    1. the layer from which only two vertices are taken, unless three of the other one are, whose pairs have fewer than
       1 / :data:`PAIR_TIMES` of the wedges,
    2. the layer of fixed size if the other has none, unless its pairs have :data:`MANY_TIMES` the wedges,
    3. with one size of either side, the layer with the smaller :func:`weigh_tree`,
    4. the layer whose pairs have fewer wedges.
    """
    requested = read_anchor(anchor)
    if requested is not None:
        return requested, REQUESTED
    two_u, two_v = choose_sizes(graph, motif, "u").max_left == 2, choose_sizes(graph, motif, "v").max_left == 2
    of_u, of_v = count_wedges(graph)
    if two_u != two_v:
        wedges, others, size = (of_u, of_v, motif.q) if two_u else (of_v, of_u, motif.p)
        is_worth = size != 3 or wedges <= PAIR_TIMES * others
        return ("u" if two_u else "v", _TWO_TAKEN) if is_worth else ("v" if two_u else "u", _THREE_FASTER)
    if motif.p is not None and motif.q is None:
        return ("v", _MANY_WEDGES) if of_u > MANY_TIMES * of_v else ("u", _GIVEN_SIZE)
    if motif.p is None and motif.q is not None:
        return ("u", _MANY_WEDGES) if of_v > MANY_TIMES * of_u else ("v", _GIVEN_SIZE)
    if motif.p is not None and motif.q is not None:
        return "v" if weigh_tree(of_v, motif.q) < weigh_tree(of_u, motif.p) else "u", LESS_TREE
    return "v" if of_v < of_u else "u", FEWER_WEDGES


def weigh_tree(wedges: int, size: int) -> int:
    """Return a number that grows with the search for sets of ``size`` vertices of a layer, given its wedges."""
    return wedges * int(VERTEX_FACTOR ** min(size, _MOST_POWER))


def resolve_anchor(motif: Biclique, anchor: str, algorithm: str) -> tuple[str, str]:
    """Return the anchor and the reason, which is empty for ``auto``.

    For ``auto`` with ``enumerate`` it is the only layer that can be enumerated, if any.
    """
    if anchor == "auto" and algorithm == "enumerate" and (motif.p is None) != (motif.q is None):
        return "v" if motif.p is None else "u", _GIVEN_SIZE
    return anchor, "" if anchor == "auto" else REQUESTED


def anchor_part(part: RootPart, anchor: str) -> str:
    """Return the anchored layer of a part; raise if the other one is requested."""
    read_anchor(anchor)
    if anchor not in ("auto", part.layer):
        raise UnsupportedError(
            f"anchor is {anchor!r}, but the partition has roots in layer {part.layer.upper()}; use anchor "
            f"'auto' or {part.layer!r}, or partition the graph with that anchor"
        )
    return part.layer


def explain_layer(sizes: SizeRange, anchor: Layer, reason: str) -> Choice:
    """Return the anchored layer and the reason, for a search of these sizes."""
    if sizes.is_empty:
        return "no search", "every requested size has a closed form or does not occur"
    return f"layer {anchor.upper()} anchored", reason


def _explain_algorithm(
    per: Granularity, sizes: SizeRange, asked: str, algorithm: str, probed: tuple[str, str] | None
) -> Choice:
    if sizes.max_left == 2 and per == "total" and algorithm != "pivot":
        return "pairs counted by their wedges", "only pairs of its vertices are requested"
    name = f"algorithm {algorithm}"
    if asked != "auto":
        return name, "requested"
    if per == "vertex":
        return name, "it counts per vertex"
    if probed is not None:
        return name, probed[1]
    if algorithm == "pivot":
        return name, "it counts many sizes in one search"
    return name, "below a pair the search is one level deep"


@dataclass(frozen=True, eq=False)
class BicliqueQuestion:
    """Hold the decisions made before an index is built. Edges of a staged part are on the device."""

    motif: Biclique
    per: Granularity
    source: BipartiteGraph
    part: RootPart | None
    searched: BipartiteGraph
    """The source, or its signed double cover for balanced bicliques."""
    asked: tuple[str, str]
    """Requested anchor and algorithm; the anchor of a part is ``part``."""
    anchor: str
    why_anchor: str
    """The reason for the anchor; empty if the index chooses it."""

    @property
    def roots(self) -> NDArray[np.int32] | None:
        """Roots of the part; None for a whole graph."""
        return None if self.part is None else self.part.roots

    @property
    def keep_pairs(self) -> bool:
        return self.per == "vertex" or self.asked[1] == "pivot"

    def algorithms(self, index: BicliqueItems) -> tuple[str, ...]:
        """Return the algorithms that probes choose from; none if :meth:`choose_algorithm` decides.

        Probes are for left sides of one size, three vertices or more.
        """
        sizes, algorithm = index.sizes, self.asked[1]
        if sizes.min_left != sizes.max_left or sizes.max_left < 3:
            return ()
        if self.per == "vertex":
            return () if algorithm == "pivot" else ("enumerate",)
        return ("enumerate", "pivot") if algorithm == "auto" else (algorithm,)

    def may_turn(self, index: BicliqueItems) -> bool:
        """Return whether the other layer may be the better one: whole graphs, sizes of three or more.

        With three on this side the search is one level deep, and the other one is deeper or has more wedges.
        """
        sizes = index.sizes
        return self.asked[0] == "auto" and sizes.min_right == sizes.max_right > 2 and sizes.max_left > 3

    def choose_algorithm(self, index: BicliqueItems) -> str:
        """Return ``enumerate`` or ``pivot`` by rules, for an index without probes:

        0. For counts per vertex: ``enumerate``, whose leaves have known vertices.
        1. For left sides of several sizes: ``pivot``.
        2. Otherwise ``enumerate``: only pairs are searched.
        """
        asked, sizes = self.asked[1], index.sizes
        if self.per == "vertex":
            if asked == "pivot":
                raise UnsupportedError("algorithm 'pivot' cannot count per vertex; use 'enumerate' or 'auto'")
            return "enumerate"
        fixed = sizes.min_left == sizes.max_left or sizes.is_empty
        if asked == "enumerate" and not fixed:
            raise UnsupportedError(
                "algorithm 'enumerate' needs a single size of the anchored layer "
                f"({'p' if index.anchor == 'u' else 'q'}, as {index.anchor.upper()} is anchored); "
                "use 'pivot', specify that size or anchor the other layer"
            )
        if asked != "auto":
            return asked
        return "enumerate" if fixed else "pivot"

    def explain(
        self, index: BicliqueItems, algorithm: str, probed: tuple[str, str] | None = None
    ) -> tuple[Choice, ...]:
        """Return the decisions and their reasons for an index searched by ``algorithm``.

        ``probed`` holds the reasons for layer and algorithm if probes chose them.
        """
        why = self.why_anchor or (probed[0] if probed else "") or index.why_anchored
        choices: tuple[Choice, ...] = (explain_layer(index.sizes, index.anchor, why),)
        if not index.sizes.is_empty:
            choices = *choices, _explain_algorithm(self.per, index.sizes, self.asked[1], algorithm, probed)
        return (COVER_CHOICE, *choices) if self.motif.needs_signs else choices

    def compare_trees(self, anchor: Layer) -> float:
        """Return how many times the :func:`weigh_tree` of a layer the other one has."""
        assert self.motif.p is not None
        assert self.motif.q is not None
        of_u, of_v = map(weigh_tree, count_wedges(self.searched), (self.motif.p, self.motif.q))
        return of_v / max(of_u, 1) if anchor == "u" else of_u / max(of_v, 1)

    def star_vectors(self, source: BipartiteGraph) -> dict[str, NDArray[np.uint64]]:
        """Return the number of stars at each vertex of the source, which is on the host."""
        part = self.part
        of_roots = None if part is None else find_root_stars(source, part.layer, part.roots)
        return star_vectors(source, self.motif, of_roots)


def ask_bicliques(
    graph: BipartiteGraph | Part, motif: Motif, per: Granularity, anchor: str, algorithm: str
) -> BicliqueQuestion:
    """Check a request and settle the anchor; ``anchor`` and ``algorithm`` are options of the engine."""
    require_request("biclique", Biclique, graph, motif, per, None if motif.needs_signs else RootPart)
    assert isinstance(motif, Biclique)
    if isinstance(graph, RootPart):
        source, settled = graph.graph, anchor_part(graph, anchor)
        return BicliqueQuestion(motif, per, source, graph, source, ("part", algorithm), settled, _ROOTS)
    assert isinstance(graph, BipartiteGraph)
    searched = make_cover(graph) if motif.needs_signs else graph
    if per == "vertex" and motif.p and motif.q:
        check_bicliques(searched, motif.p, motif.q)  # of two mirror images, a copy of a vertex is in one
    settled, why = resolve_anchor(motif, anchor, algorithm)
    return BicliqueQuestion(motif, per, graph, None, searched, (anchor, algorithm), settled, why)


def choose_maximal_sizes(graph: Layers, motif: MaximalBiclique, anchor: Layer) -> SizeRange:
    """Return the sizes to search; stars need no search."""
    of_u, of_v = (
        (max(least, 2), n if most is None else min(most, n))
        for (_, least, most), n in zip(motif.bounds, (graph.n_u, graph.n_v), strict=True)
    )
    return SizeRange(*of_u, *of_v) if anchor == "u" else SizeRange(*of_v, *of_u)


def choose_maximal_anchor(graph: Layers, anchor: str) -> Layer:
    """Return the anchored layer: as requested, or for ``auto`` the one whose pairs have fewer wedges."""
    of_u, of_v = count_wedges(graph)
    return read_anchor(anchor) or ("v" if of_v < of_u else "u")


def explain_choice(requested: str) -> str:
    """Return the reason for anchoring a layer."""
    return REQUESTED if requested != "auto" else "fewer wedges lie between its pairs"


def explain_anchor(anchor: Layer, requested: str, part: MaximalPart | None) -> Choice:
    """Return the anchored layer and the reason."""
    why = explain_choice(requested) if part is None else _ROOTS
    return f"anchor {anchor.upper()}", why
