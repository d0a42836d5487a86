"""Graphs of which a formula tells the answer, as large as no oracle and hardly a CPU can count them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb

import numpy as np
from numpy.random import Generator

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.motifs import (
    BalancedButterfly,
    Biclique,
    Cell,
    Clique,
    Projection,
    Togetherness,
)
from papilio.registry import motif_row
from tests.tools.differential.answers import Answer, numbers_by_place
from tests.tools.differential.cases import Question
from tests.tools.differential.graphs import Graph

_SMALL, _MIDDLE, _LONG = (31, 32, 33, 63, 65, 127, 129), (255, 257, 513), (1025, 2049, 4097, 8193)
_HUGE = (65_534, 65_537, 2**20 - 1, 2**20 + 1)
"""Sizes of a layer: sides of a table, of a motif, beside a smaller one, and beside two or three vertices."""

_MANY = {3: 4097, 4: 769, 5: 257}
"""Rows of which so many make about 10^10 sets: some 10^5 for each lane of a GPU, which counts them in 16 bits."""
_ENUMERATED = (("algorithm", "enumerate"), ("anchor", "u"))

Closed = tuple[Graph, Answer, tuple[tuple[str, str], ...]]
"""A graph, the answer, and options of the engine."""


def draw_closed(question: Question, random: Generator, large: bool) -> Closed | None:
    """Return a graph and the answer to a question, of all that has one; ``large`` for a GPU."""
    motif = question.motif
    is_one = type(motif) is Biclique and question.per == "total" and question.listing is None
    if large and is_one and motif.p in _MANY and 0 < (motif.q or 0) < 200 and random.random() < 0.5:
        assert motif.p is not None
        assert motif.q is not None
        return (
            *_complete_layers(question, (_MANY[motif.p], motif.q + int(random.integers(0, 40))), random),
            _ENUMERATED,
        )
    found = _draw_default(question, random, large)
    return found and (*found, ())


def _draw_default(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer] | None:
    if question.peels:
        return _peel(question.peels, *(int(random.choice(_SMALL)) for _ in "uv"))
    return None if question.listing is not None else FORMS[question.motif.name](question, random, large)


def _fill_layers(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    return _complete_layers(question, _draw_sides(random, question, large), random)


def _fill_clique(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    motif = question.motif
    assert isinstance(motif, Clique)
    is_short = motif.k is not None and question.per == "total" and large
    n = int(random.choice(_SMALL + _MIDDLE if is_short else _SMALL))
    graph = UnipartiteGraph.from_edges(*np.triu_indices(n, 1), n)
    return graph, _complete(question, graph, {(k,): comb(n, k) for k in range(1, n + 1)})


def _fill_cycles(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return a complete graph: four of its vertices are in three cycles."""
    n = int(random.choice(_SMALL + _MIDDLE))
    graph = UnipartiteGraph.from_edges(*np.triu_indices(n, 1), n)
    vectors = {"n": np.full(n, 3 * comb(n - 1, 3), np.uint64)} if question.per == "vertex" else {}
    return graph, Answer(None, None, 3 * comb(n, 4), {}, vectors)


def _agree(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return a complete graph of one sign, all of whose butterflies are of one class."""
    m, n = (int(random.choice(_SMALL)) for _ in "uv")
    at, sign = (((1, 1), 1), ((2, 2), -1))[int(random.integers(2))]
    graph = BipartiteGraph.from_edges(*np.divmod(np.arange(m * n), n), m, n, np.full(m * n, sign))
    total = comb(m, 2) * comb(n, 2)
    return graph, Answer(None, None, total, {at: total})


def _share_all(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return a complete graph: all pairs of a layer share all vertices of the other."""
    motif = question.motif
    assert isinstance(motif, Projection)
    m, n = (int(random.choice(_SMALL)) for _ in "uv")
    graph = BipartiteGraph.from_edges(*np.divmod(np.arange(m * n), n), m, n)
    own, other = (m, n) if motif.layer == "u" else (n, m)
    return graph, Answer(None, None, comb(own, 2) if other >= motif.min_common else 0)


def _match(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return a matching and more vertices without edges: any two edges are a checkerboard."""
    n, more = int(random.choice(_SMALL + _MIDDLE)), int(random.integers(0, 9))
    graph = BipartiteGraph.from_edges(np.arange(n), np.arange(n), n, n + more)
    vector = np.full(n, n - 1, np.uint64)
    vectors = {"u": vector, "v": np.append(vector, np.zeros(more, np.uint64))} if question.per == "vertex" else {}
    return graph, Answer(None, None, comb(n, 2), {}, vectors)


def _share_one(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return a star and more vertices without edges: two of its leaves are together at its centre, away from others."""
    n, more = int(random.choice(_SMALL + _MIDDLE)), int(random.integers(1, 9))
    zeros = np.zeros(n, np.int64)
    graph = BipartiteGraph.from_edges(np.arange(n), zeros, n, 1 + more)
    each = np.full(n, (n - 1) * more, np.uint64)
    across = np.full(1 + more, comb(n, 2), np.uint64)
    across[0] *= np.uint64(more)
    vectors = {"u": each, "v": across}
    if question.motif == Togetherness("v"):
        graph, vectors = graph.swap_layers(), {"u": across, "v": each}
    return graph, Answer(None, None, comb(n, 2) * more, {}, vectors if question.per == "vertex" else {})


def _complete_layers(question: Question, sides: tuple[int, int], random: Generator) -> tuple[Graph, Answer]:
    """Return a complete graph of two layers."""
    motif = question.motif
    grid = np.divmod(np.arange(sides[0] * sides[1]), sides[1])
    # Signs by which every cycle is balanced
    sign = (2 * random.integers(0, 2, sides[0]) - 1)[grid[0]] if motif.needs_signs else None
    graph = BipartiteGraph.from_edges(*grid, *sides, sign)
    if isinstance(motif, Biclique):
        most, has = (motif.p or motif.max_p, motif.q or motif.max_q), motif.has_cell
    elif isinstance(motif, BalancedButterfly):
        most, has = (motif.cell(motif.k or motif.max_k)), motif.has_cell
    else:
        most, has = (2, 2), (2, 2).__eq__
    ranges = (range(1, min(n, side or n) + 1) for n, side in zip(sides, most, strict=True))
    lefts, rights = map(list, ranges)
    cells = {(p, q): comb(sides[0], p) * comb(sides[1], q) for p in lefts for q in rights if has((p, q))}
    return graph, _complete(question, graph, cells)


def _draw_sides(random: Generator, question: Question, large: bool) -> tuple[int, int]:
    """Return sizes of both layers; long ones only where the sides of the motif are given."""
    motif = question.motif
    one, other = (int(random.choice(_SMALL)) for _ in "uv")
    if question.per == "vertex" and isinstance(motif, Biclique) and max(motif.p or 1, motif.q or 1) > 4:
        return one % 32 % 20 + 1, other % 32 % 20 + 1  # these are counted one by one
    if motif.is_table or not large:
        return one, other
    is_pair = not isinstance(motif, Biclique)
    if is_pair and random.random() < 0.3:
        one, other = int(random.integers(2, 4)), int(random.choice(_HUGE))
    elif random.random() < 0.6:
        other = int(random.choice(_MIDDLE + _LONG))
    return (one, other) if random.random() < 0.5 else (other, one)


def _complete(question: Question, graph: Graph, cells: dict[Cell, int]) -> Answer:
    """Return the answer for a graph that is complete: all vertices of a layer, and all edges, are in as many."""
    motif, total = question.motif, 0
    cells = {cell: count for cell, count in cells.items() if count and (not motif.is_table or motif.has_cell(cell))}
    if isinstance(motif, Clique) and motif.k is not None:
        cells = {cell: count for cell, count in cells.items() if cell == (motif.k,)}
    total = sum(cells.values())
    sizes = {"u": graph.n_u, "v": graph.n_v, "n": graph.n_u, "edge": graph.n_edges}
    names = {"total": (), "vertex": ("u", "v", "n"), "edge": ("edge",)}[question.per]
    sums = motif_row(motif).vector_sums(motif, total, cells)
    vectors = {
        name: np.full(sizes[name], sums[name] // sizes[name] % (1 << 64), np.uint64) for name in names if name in sums
    }
    return Answer(None, None, total, cells if motif.is_table else {}, vectors)


def _crown(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return the complement of a matching: all that is not matched to a set of U is the other side."""
    n = int(random.integers(2, 20 if large else 11))
    u, v = np.divmod(np.arange(n * n), n)
    graph = BipartiteGraph.from_edges(u[u != v], v[u != v], n, n)
    cells = {(p, n - p): comb(n, p) for p in range(1, n) if question.motif.has_cell((p, n - p))}
    return graph, Answer(None, None, sum(cells.values()), cells)


def _groups(question: Question, random: Generator, large: bool) -> tuple[Graph, Answer]:
    """Return what is adjacent but within groups: one of each makes a maximal clique."""
    size, n_groups = int(random.integers(2, 5)), int(random.integers(1, 10 if large else 6))
    n = size * n_groups
    u, v = np.triu_indices(n, 1)
    graph = UnipartiteGraph.from_edges(u[u // size != v // size], v[u // size != v // size], n)
    cells = {(n_groups,): size**n_groups} if question.motif.has_cell((n_groups,)) else {}
    return graph, Answer(None, None, sum(cells.values()), cells)


def _peel(peels: str, m: int, n: int) -> tuple[Graph, Answer]:
    """Return a complete graph, whose vertices and edges go all at once."""
    u, v = np.divmod(np.arange(m * n), n)
    size, number = {
        "wing": (m * n, (m - 1) * (n - 1)), "u": (m, (m - 1) * comb(n, 2)), "v": (n, (n - 1) * comb(m, 2)),
        "core u": (m + n, m if n > 1 else 0), "core v": (m + n, n if m > 1 else 0),
    }[peels]  # fmt: skip
    graph = BipartiteGraph.from_edges(u, v, m, n)
    numbers = numbers_by_place(graph, peels, np.full(size, number, np.uint64))
    return graph, Answer(None, None, size * number, {}, numbers)


FORMS: Mapping[str, Callable[[Question, Generator, bool], tuple[Graph, Answer]]] = {
    "butterfly": _fill_layers,
    "balanced-butterfly": _fill_layers,
    "census": _agree,
    "biclique": _fill_layers,
    "balanced-biclique": _fill_layers,
    "clique": _fill_clique,
    "four-cycle": _fill_cycles,
    "maximal-clique": _groups,
    "maximal-biclique": _crown,
    "projection": _share_all,
    "checkerboard": _match,
    "togetherness": _share_one,
}
"""What draws a graph with the answer to a question, by the name of its motif; the last argument is true for a GPU."""
