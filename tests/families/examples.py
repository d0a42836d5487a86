"""One record per motif: small questions, their answers by definition, and how documents name the motif.

A new row of ``papilio/registry.py`` needs one entry in ``EXAMPLES``: the laws of this folder then hold it to its
contract, and the search of ``tests/tools/differential`` compares its engines with the definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.motifs import (
    CENSUS_CLASSES,
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Cell,
    Census,
    Checkerboard,
    Clique,
    FourCycle,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
    Togetherness,
)
from tests.tools import oracle_clique, oracle_maximal, oracle_signed
from tests.tools.little_cliques import LittleClique, all_cliques
from tests.tools.strategies import edge_list

__all__ = ["EXAMPLES", "GRAPHS", "Example", "Row", "example_of"]

Row = tuple[tuple[int, ...], ...]
"""One motif: the ids of its vertices in each layer; numbers of a listing follow."""


def _all_pairs(row: Row) -> list[tuple[int, int]]:
    return [(u, v) for u in row[0] for v in row[1]] if len(row) > 1 else list(combinations(row[0], 2))


def _steps(row: Row) -> list[tuple[int, int]]:
    (a, b, c, d) = row[0]
    return [(min(pair), max(pair)) for pair in ((a, b), (b, c), (c, d), (d, a))]


@dataclass(frozen=True)
class Example:
    """What the tests must be told of a motif.

    Attributes
    ----------
    questions : tuple of Motif
        Small ones, of each form: a fixed size, a table, another layer. The first can be listed, if any can.
    oracle : callable
        Yields every motif of a question in a tiny graph, by definition; shares no code with the engines.
    term : str
        The motif in documents, in the singular.
    pages : tuple of str
        Pages of ``docs``: the one of the motif, and the one of its algorithm if that is another.
    cells : callable or None
        Returns the table of a question where cells are not the sizes of motifs.
    edges : callable
        Returns the edges of a motif; by default all pairs of its vertices, in a bipartite graph of both layers.
    """

    questions: tuple[Motif, ...]
    oracle: Callable[[Any, Any], Iterable[Row]]
    term: str
    pages: tuple[str, ...]
    cells: Callable[[Any, Any], Mapping[Cell, int]] | None = None
    edges: Callable[[Row], list[tuple[int, int]]] = _all_pairs

    @property
    def terms(self) -> str:
        """The term in the plural."""
        return self.term[:-1] + "ies" if self.term.endswith("y") else f"{self.term}s"


def example_of(name: str) -> Example:
    """Return the record of a motif."""
    assert name in EXAMPLES, (
        f"tests/families/examples.py has no entry for {name!r}: add one to EXAMPLES, with questions and an oracle"
    )
    return EXAMPLES[name]


def _signs(graph: BipartiteGraph) -> oracle_signed.Signs:
    assert graph.sign is not None
    return dict(zip(edge_list(graph), graph.sign.tolist(), strict=True))


def _bicliques(graph: BipartiteGraph, motif: Motif) -> Iterator[Row]:
    return (row for row in _all_bicliques(edge_list(graph)) if motif.has_cell(tuple(map(len, row))))


def _butterflies(graph: BipartiteGraph, motif: Motif) -> Iterator[Row]:
    return (row for row in _all_bicliques(edge_list(graph)) if list(map(len, row)) == [2, 2])


def _all_bicliques(edges: list[tuple[int, int]]) -> Iterator[Row]:
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
    begun: list[tuple[tuple[int, ...], set[int], list[int]]] = [((), {v for _, v in edges}, sorted(neighbours))]
    while begun:
        chosen, shared, later = begun.pop()
        for at, u in enumerate(later):
            if both := shared & neighbours[u]:
                begun.append(((*chosen, u), both, later[at + 1 :]))
                yield from (
                    ((*chosen, u), others) for q in range(1, len(both) + 1) for others in combinations(sorted(both), q)
                )


def _submatrices(graph: BipartiteGraph, motif: Motif) -> Iterator[Row]:
    """Yield the rows and columns of all submatrices of two rows and two columns with the pattern of a motif."""
    held = {each: {v for u, v in edge_list(graph) if u == each} for each in range(graph.n_u)}
    patterns = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    if isinstance(motif, Togetherness):
        patterns = [[[1, 0], [1, 0]], [[0, 1], [0, 1]]] if motif.layer == "u" else [[[1, 1], [0, 0]], [[0, 0], [1, 1]]]
    for rows in combinations(range(graph.n_u), 2):
        for columns in combinations(range(graph.n_v), 2):
            if [[int(v in held[u]) for v in columns] for u in rows] in patterns:
                yield (rows, columns)


def _balanced(graph: BipartiteGraph, motif: Motif) -> Iterator[Row]:
    found = oracle_signed.balanced_bicliques(_signs(graph))
    return (row for row in found if motif.has_cell(tuple(map(len, row))))


def _classes(graph: BipartiteGraph, motif: Census) -> Mapping[Cell, int]:
    names = {each.name: each.cell for each in CENSUS_CLASSES}
    found = oracle_signed.census(_signs(graph), motif.pair_side)
    return {names[name]: count for name, count in found.items()}


def _maximal_bicliques(graph: BipartiteGraph, motif: MaximalBiclique) -> Iterator[Row]:
    found = oracle_maximal.maximal_bicliques_of(edge_list(graph))
    return (row for row in found if motif.has_cell(tuple(map(len, row))))


def _cliques(graph: UnipartiteGraph, motif: Clique) -> Iterator[Row]:
    found = oracle_clique.cliques_of(graph.n, _ends(graph))
    return ((each,) for each in found if motif.has_cell((len(each),)))


def _maximal_cliques(graph: UnipartiteGraph, motif: MaximalClique) -> Iterator[Row]:
    found = oracle_clique.maximal_cliques(graph.n, _ends(graph))
    return ((each,) for each in found if motif.has_cell((len(each),)))


def _four_cycles(graph: UnipartiteGraph, motif: FourCycle) -> Iterator[Row]:
    """Yield the three cycles through four vertices whose edges are all there, each as it goes around."""
    edges = {frozenset(pair) for pair in _ends(graph)}
    for a, b, c, d in combinations(range(graph.n), 4):
        for x, y, z in ((b, c, d), (b, d, c), (c, b, d)):
            if all(frozenset(pair) in edges for pair in ((a, x), (x, y), (y, z), (z, a))):
                yield ((a, x, y, z),)


def _ends(graph: UnipartiteGraph) -> list[tuple[int, int]]:
    return list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


def _pairs(graph: BipartiteGraph, motif: Projection) -> Iterator[Row]:
    """Yield the pairs with their common neighbours, and their weight to nine digits."""
    edges = edge_list(graph)
    own, n = (edges, graph.n_v) if motif.layer == "u" else ([(v, u) for u, v in edges], graph.n_u)
    neighbours: dict[int, set[int]] = {}
    for one, other in own:
        neighbours.setdefault(one, set()).add(other)
    degree = Counter(other for _, other in own)
    for a, b in combinations(sorted(neighbours), 2):
        met = neighbours[a] & neighbours[b]
        if len(met) >= motif.min_common:
            d, e = len(neighbours[a]), len(neighbours[b])
            weight = {
                "jaccard": lambda: len(met) / (d + e - len(met)),  # noqa: B023
                "cosine": lambda: len(met) / (d * e) ** 0.5,  # noqa: B023
                "checkerboards": lambda: (d - len(met)) * (e - len(met)),  # noqa: B023
                "togetherness": lambda: len(met) * (n - d - e + len(met)),  # noqa: B023
                "hyperbolic": lambda: sum(1 / (degree[v] - 1) for v in met),  # noqa: B023
                "resource": lambda: sum(1 / degree[v] for v in met),  # noqa: B023
            }
            weights = () if motif.weighting is None else (float(f"{weight[motif.weighting]():.9g}"),)
            yield ((a, b), (len(met), *weights))  # type: ignore[misc]


def _draw_bipartite() -> BipartiteGraph:
    """Return a graph of 9 x 8 vertices with hubs, twins, a leaf, a vertex without edges, and many balanced cycles."""
    random = np.random.default_rng(46)
    held = random.random((9, 8)) < np.linspace(0.95, 0.3, 9)[:, None]
    held[5], held[8], held[:, 7] = held[4], False, False
    held[0, 7] = True
    u, v = np.nonzero(held)
    of_u, of_v, flipped = (
        np.where(random.random(n) < share, -1, 1) for n, share in ((9, 0.5), (8, 0.5), (u.size, 0.1))
    )
    return BipartiteGraph.from_edges(u, v, 9, 8, of_u[u] * of_v[v] * flipped)


def _draw_unipartite() -> UnipartiteGraph:
    """Return a graph of 13 vertices with a clique of five, one without edges, and random edges."""
    random = np.random.default_rng(46)
    held = np.triu(random.random((13, 13)) < 0.45, 1)
    held[:5, :5] = np.triu(np.ones((5, 5), bool), 1)
    held[:, 12] = held[12] = False
    return UnipartiteGraph.from_edges(*np.nonzero(held), 13)


GRAPHS: Mapping[GraphKind, BipartiteGraph | UnipartiteGraph] = {
    "bipartite": _draw_bipartite(),
    "unipartite": _draw_unipartite(),
}
"""The graphs of all laws."""

EXAMPLES: Mapping[str, Example] = {
    "butterfly": Example(
        (Butterfly(),), _butterflies, "butterfly", ("butterflies-algorithms",)
    ),
    "balanced-butterfly": Example(
        (BalancedButterfly(), BalancedButterfly(3, pair_side="v"), BalancedButterfly(None)),
        _balanced, "balanced butterfly", ("signed", "butterflies-algorithms"),
    ),
    "census": Example(
        (Census("u"), Census("v")), _butterflies, "census", ("signed", "butterflies-algorithms"), _classes
    ),
    "biclique": Example(
        (Biclique(3, 3), Biclique(3, 2), Biclique(2, None, max_q=4), Biclique()),
        _bicliques, "(p,q)-biclique", ("bicliques", "bicliques-algorithms"),
    ),
    "balanced-biclique": Example(
        (BalancedBiclique(3, 3), BalancedBiclique(None, 2)), _balanced,
        "balanced biclique", ("signed", "bicliques-algorithms"),
    ),
    "clique": Example((Clique(3), Clique(4), Clique(), Clique(max_k=3)), _cliques, "k-clique", ("cliques",)),
    "four-cycle": Example((FourCycle(),), _four_cycles, "4-cycle", ("four-cycles",), edges=_steps),
    "maximal-clique": Example(
        (MaximalClique(), MaximalClique(3)), _maximal_cliques, "maximal clique", ("cliques",)
    ),
    "maximal-biclique": Example(
        (MaximalBiclique(), MaximalBiclique(2, 1, max_v=3)), _maximal_bicliques,
        "maximal biclique", ("maximal-bicliques",),
    ),
    "projection": Example(
        (Projection("u"), Projection("v", 3), Projection("u", weighting="jaccard")),
        _pairs, "projection", ("projections",),
    ),
    "checkerboard": Example((Checkerboard(),), _submatrices, "checkerboard", ("ecology",)),
    "togetherness": Example((Togetherness("u"), Togetherness("v")), _submatrices, "togetherness", ("ecology",)),
    LittleClique.name: Example(
        (LittleClique(3), LittleClique(), LittleClique(best=3)),
        lambda graph, motif: ((each,) for each in all_cliques(graph, motif)), "little clique", (),
    ),
}  # fmt: skip
"""By the name of the motif; the last one is of a family that the package does not know."""
