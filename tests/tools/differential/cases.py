"""A case: a graph, a question, options of the engine and constants of its launches; all follow from its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from numpy.random import Generator, default_rng

from papilio.motifs import (
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Census,
    Checkerboard,
    Clique,
    FourCycle,
    Granularity,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
    Togetherness,
    Weighting,
)
from papilio.registry import motif_row
from tests.tools.differential.graphs import Graph, draw_bipartite, draw_size, draw_unipartite

Size = Literal["tiny", "small", "large"]
"""``tiny`` for an oracle, ``small`` for the emulator, ``large`` for processors and GPUs."""


@dataclass(frozen=True)
class Question:
    """What is asked, of a motif or, where ``peels`` is not empty, of a decomposition: ``wing``, the layer of tips, or
    ``core`` and the layer whose vertices need two neighbours."""

    motif: Motif
    per: Granularity = "total"
    options: tuple[tuple[str, str], ...] = ()
    listing: Listing | None = None
    peels: str = ""

    def __str__(self) -> str:
        what = f"peel {self.peels}" if self.peels else f"{self.motif!r} per {self.per}"
        return f"{what}, options {dict(self.options)}" + (f", listed: {self.listing}" if self.listing else "")


@dataclass(frozen=True, eq=False)
class Case:
    """One comparison; ``tuning`` are changes of the constants of launches, which no answer depends on."""

    number: int
    family: str
    shape: str
    graph: Graph
    question: Question
    tuning: Mapping[str, Any]

    def __str__(self) -> str:
        n = f"{self.graph.n_u} x {self.graph.n_v}" if self.graph.kind == "bipartite" else str(self.graph.n_u)
        graph = f"{self.shape} ({n}, {self.graph.n_edges} edges)"
        return f"case {self.number}: {self.question}; {graph}; constants {dict(self.tuning)}"


@dataclass(frozen=True)
class _Draw:
    """A question, and how large a graph may be for it: vertices of a side, and edges or vertices of dense shapes."""

    question: Question
    most_side: int
    most_dense: int


def _pick(random: Generator, *values: Any) -> Any:
    return values[int(random.integers(len(values)))]


def _options(random: Generator, motif: Motif) -> tuple[tuple[str, str], ...]:
    """Return options, each its default half of the time."""
    return tuple((name, _pick(random, *values)) for name, values in motif.choices.items() if random.random() < 0.5)


def _ask_butterflies(random: Generator) -> _Draw:
    return _Draw(Question(Butterfly(), _pick(random, "total", "total", "vertex", "edge")), 65537, 200_000)


def _ask_balanced_butterflies(random: Generator) -> _Draw:
    side = _pick(random, "u", "v")
    motif = _pick(
        random,
        BalancedButterfly(),
        BalancedButterfly(_pick(random, 3, 5, None), pair_side=side),
        BalancedButterfly(None, int(random.integers(2, 9)), side),
    )
    return _Draw(Question(motif, _pick(random, *motif.granularities)), 16385, 60_000)


def _ask_censuses(random: Generator) -> _Draw:
    return _Draw(Question(Census(_pick(random, "u", "v"))), 16385, 60_000)


def _sides(random: Generator, largest: int) -> dict[str, int | None]:
    some = int(random.integers(1, 20)), draw_size(random, 4097)
    p, q = (_pick(random, None, *range(1, 6), *some) for _ in "pq")
    bounds = {
        f"max_{name}": int(random.integers(1, largest)) if side is None and random.random() < 0.5 else None
        for name, side in (("p", p), ("q", q))
    }
    return {"p": p, "q": q, **bounds}


def _ask_bicliques(random: Generator, kind: type[Biclique] = Biclique) -> _Draw:
    motif = kind(**_sides(random, 9))
    if motif.needs_signs:
        listing, per = None, _pick(random, *motif.granularities)
    else:
        listing = _draw_listing(random, 2) if not motif.is_table and random.random() < 0.15 else None
        per = "total" if listing else _pick(random, "total", *motif.granularities)
    small = [side for side in (motif.p, motif.q) if side is not None and side <= 3]
    sides = {2: (4097, 40_000), 1: (2049, 20_000), 0: (193, 4_000)}[len(small)]
    options = _options(random, motif)
    if len(small) < 2 and (per == "vertex" or dict(options).get("algorithm") == "enumerate"):
        sides = (1025, 300) if max(motif.p or 0, motif.q or 0) < 6 else (24, 200)
    if max(motif.p or 0, motif.q or 0) > 5:  # one of these layers would be searched without end
        options = tuple(option for option in options if option[0] != "anchor")
    if listing is not None:
        assert motif.p is not None
        assert motif.q is not None
        sides = (257, 1000) if motif.p + motif.q < 5 else (33, 200)
    return _Draw(Question(motif, per, options, listing), *sides)


def _ask_cliques(random: Generator) -> _Draw:
    k = _pick(random, None, None, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, int(random.integers(8, 40)))
    motif = Clique(k, int(random.integers(1, 12)) if k is None and random.random() < 0.3 else None)
    listing = _draw_listing(random, 1) if k is not None and random.random() < 0.2 else None
    per = "total" if listing else _pick(random, "total", *motif.granularities)
    options = _options(random, motif)
    sides = 4097, 129 if k is not None and k > 3 else 257
    if k is not None and (listing is not None or dict(options).get("algorithm") == "orient"):
        sides = (sides if listing is None else (129, 65)) if k < 6 else (24, 24)
    return _Draw(Question(motif, per, options, listing), *sides)


def _ask_maximal_cliques(random: Generator) -> _Draw:
    listing = _draw_listing(random, 1) if random.random() < 0.3 else None
    return _Draw(Question(MaximalClique(_pick(random, 1, 1, 2, 3, 9)), listing=listing), 4097, 385)


def _ask_maximal_bicliques(random: Generator) -> _Draw:
    bounds: dict[str, int | None] = {}
    for side in "uv" if random.random() < 0.5 else "":
        least = bounds[f"min_{side}"] = _pick(random, 1, 2, 3, 8)
        bounds[f"max_{side}"] = _pick(random, None, None, least + int(random.integers(0, 40)))
    motif = MaximalBiclique(**bounds)  # type: ignore[arg-type]
    listing = _draw_listing(random, 2) if random.random() < 0.3 else None
    return _Draw(Question(motif, options=_options(random, motif), listing=listing), 8193, 70_000)


def _ask_projections(random: Generator) -> _Draw:
    weighting = _pick(random, None, None, *get_args(Weighting))
    motif = Projection(_pick(random, "u", "v"), _pick(random, 1, 2, 2, 3, 9), weighting)
    if random.random() < 0.5:
        return _Draw(Question(motif, listing=Listing()), 257, 1000)
    return _Draw(Question(motif), 4097, 20_000)


def _ask_submatrices(random: Generator, motif: Motif) -> _Draw:
    return _Draw(Question(motif, _pick(random, "total", "vertex")), 16385, 60_000)


def _ask_peeling(random: Generator) -> _Draw:
    return _Draw(Question(Butterfly(), peels=_pick(random, "wing", "u", "v", "core u", "core v")), 4097, 20_000)


def _draw_listing(random: Generator, n_layers: int) -> Listing:
    """Return which are listed: all, or those with one or two of the first vertices."""
    if random.random() < 0.7:
        return Listing()
    held = [tuple(sorted({int(each) for each in random.integers(0, 5, random.integers(0, 3))})) for _ in "uv"]
    return Listing(None, *held[:n_layers])


PEELING = "peeling"

DRAWS: Mapping[str, Callable[[Generator], _Draw]] = {
    "butterfly": _ask_butterflies,
    "balanced-butterfly": _ask_balanced_butterflies,
    "census": _ask_censuses,
    "biclique": _ask_bicliques,
    "balanced-biclique": lambda random: _ask_bicliques(random, BalancedBiclique),
    "clique": _ask_cliques,
    "four-cycle": lambda random: _Draw(Question(FourCycle(), _pick(random, *FourCycle().granularities)), 4097, 257),
    "maximal-clique": _ask_maximal_cliques,
    "maximal-biclique": _ask_maximal_bicliques,
    "projection": _ask_projections,
    "checkerboard": lambda random: _ask_submatrices(random, Checkerboard()),
    "togetherness": lambda random: _ask_submatrices(random, Togetherness(_pick(random, "u", "v"))),
    PEELING: _ask_peeling,
}
"""What draws a question, by the name of its motif; and decompositions."""

_LIMITS: Mapping[Size, tuple[int, int, int]] = {
    "tiny": (8, 40, 8),
    "small": (33, 300, 17),
    "large": (1 << 20,) * 3,
}
"""Vertices of a side, edges of a bipartite graph, vertices of a dense unipartite one."""


def draw_family(number: int) -> str:
    """Return what a case is about: a key of ``DRAWS``."""
    return str(default_rng([number, 2]).choice(list(DRAWS)))


def draw_case(number: int, size: Size) -> Case:
    """Return the case of a number."""
    random, family = default_rng([number, *size.encode()]), draw_family(number)
    drawn, (side, edges, dense) = DRAWS[family](random), _LIMITS[size]
    motif = drawn.question.motif
    most_side = min(side, drawn.most_side)
    if motif_row(motif).graph_kind == "unipartite":
        shape, graph = draw_unipartite(random, most_side, min(dense, drawn.most_dense))
    else:
        shape, graph = draw_bipartite(random, most_side, min(edges, drawn.most_dense), motif.needs_signs)
    question = drawn.question
    if (listing := question.listing) is not None:
        sizes = list(motif_row(motif).columns(motif).values())
        bounds = (("with_u", graph.n_u, sizes[0]), ("with_v", graph.n_v, sizes[-1]))
        held = {name: tuple(each for each in getattr(listing, name) if each < n)[:size] for name, n, size in bounds}
        question = replace(question, listing=replace(listing, **held))
    return Case(number, family, shape, graph, question, _draw_tuning(random, question))


_WEDGE_CONSTANTS: Mapping[str, tuple[Any, ...]] = {
    "hub_least_wedges": (0, 1 << 12), "hub_min_wedges": (1, 4), "match_max_wedges": (1, 8),
    "split_least": (1, 1 << 10), "split_share": (1, 1 << 20), "block_degree": (2, 32), "large_degree": (40, 600),
    "narrow_bytes": (1, 256), "warp_items": (1, 32), "sm_threads": (64,),
}  # fmt: skip
_TREE_CONSTANTS: Mapping[str, tuple[Any, ...]] = {
    "near_words": (64, 512), "slots": (0, 2, 8), "slot_words": (128, 1 << 10, 1 << 13), "check_steps": (1, 4),
    "share_cost": (1, 1 << 20), "far_words": ((1 << 9,), (1 << 12, 1 << 13)), "leaf_slots": (1 << 6, 1 << 12),
    "pair_near_words": (64, 256),
    "list_near_words": (64, 256), "patience": (0, 64), "max_words": (1 << 10, 1 << 16),
    "chunk_values": (64, 1 << 12),
}  # fmt: skip
_PEEL_CONSTANTS: Mapping[str, tuple[Any, ...]] = {
    "coarse_threads": (64,), "fine_threads": (64,), "links_per_range": (1, 40, 1000), "max_ranges": (1, 3)
}  # fmt: skip


def _draw_tuning(random: Generator, question: Question) -> Mapping[str, Any]:
    """Return changes, none of them half of the time; those that need another compilation are left out."""
    if random.random() < 0.5:
        return {}
    engine = motif_row(question.motif).engines["cpu"].__module__
    constants = _WEDGE_CONSTANTS if ".wedge." in engine or ".project." in engine else _TREE_CONSTANTS
    values = {**(_PEEL_CONSTANTS if question.peels else constants), "cpu_threads": (2, 3)}
    return {name: _pick(random, *values[name]) for name in values if random.random() < 0.4}
