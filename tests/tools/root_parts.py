"""A cutter of graphs into root parts by the definition, for tests: sets of Python integers, any grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Engine, Partial, fold_partials
from papilio.motifs import Granularity, Motif
from papilio.parts import Layer, MaximalPart, RootPart
from tests.tools.parts import vector_ids
from tests.tools.strategies import edge_list

__all__ = [
    "count_parts",
    "cut_by_definition",
    "cut_maximal_by_definition",
    "group_at_random",
    "spread_vectors",
]

Neighbours = dict[int, set[int]]


def group_at_random(graph: BipartiteGraph, layer: Layer, n_groups: int, seed: int) -> list[list[int]]:
    """Return all vertices of a layer in ordered groups, shuffled within each; some may be empty."""
    random = np.random.default_rng(seed)
    vertices = random.permutation(graph.n_u if layer == "u" else graph.n_v)
    group = random.integers(0, n_groups, vertices.size)
    return [vertices[group == each].tolist() for each in range(n_groups)]


def _reduce(rows: Neighbours, min_left: int, min_right: int) -> Neighbours:
    """Remove left vertices with too few neighbours, and right ones, until there are none."""
    while True:
        degrees: dict[int, int] = {}
        for row in rows.values():
            for v in row:
                degrees[v] = degrees.get(v, 0) + 1
        kept = {u: {v for v in row if degrees[v] >= min_left} for u, row in rows.items()}
        kept = {u: row for u, row in kept.items() if len(row) >= min_right}
        if kept == rows:
            return kept
        rows = kept


def cut_maximal_by_definition(
    graph: BipartiteGraph,
    layer: Layer,
    groups: Sequence[Sequence[int]],
    core: tuple[int, int] | None = None,
) -> list[MaximalPart]:
    """Return a part for each group as :func:`cut_by_definition`, with the roots of earlier groups as excluded."""
    rows = _rows_of(graph, layer)
    parts = []
    earlier: set[int] = set()
    for group in groups:
        inside = _find_inside(rows, group, core)
        roots = [root for root in group if root in inside]
        if roots:
            part = _make_part(layer, inside, roots)
            local = {left: at for at, left in enumerate(sorted(inside))}
            excluded = np.array([local[left] for left in sorted(earlier & set(inside))], np.int32)
            parts.append(MaximalPart(**{**vars(part), "excluded": excluded}))
        earlier |= set(group)
    return parts


def _rows_of(graph: BipartiteGraph, layer: Layer) -> Neighbours:
    rows: Neighbours = {}
    for u, v in edge_list(graph):
        left, right = (u, v) if layer == "u" else (v, u)
        rows.setdefault(left, set()).add(right)
    return rows


def _find_inside(rows: Neighbours, group: Sequence[int], core: tuple[int, int] | None) -> Neighbours:
    """Return the rows over the columns of a group, reduced to a core."""
    columns: set[int] = set().union(*(rows.get(root, set()) for root in group))
    inside = {left: row & columns for left, row in rows.items() if row & columns}
    inside |= {root: set() for root in group if root not in inside}
    return inside if core is None else _reduce(inside, *core)


def cut_by_definition(
    graph: BipartiteGraph,
    layer: Layer,
    groups: Sequence[Sequence[int]],
    core: tuple[int, int] | None = None,
) -> list[RootPart]:
    """Return a part for each group, in their order, without those that have no roots left.

    Parameters
    ----------
    graph : BipartiteGraph
    layer : {"u", "v"}
    groups : sequence of sequences of int
        Roots of each part, in the order of its items.
    core : tuple of int, optional
        Least size of the anchored and of the other side of what is counted: each part is reduced to the core of that.
    """
    rows = _rows_of(graph, layer)
    parts = []
    for group in groups:
        inside = _find_inside(rows, group, core)
        roots = [root for root in group if root in inside]
        if roots:
            parts.append(_make_part(layer, inside, roots))
        for root in group:
            rows.pop(root, None)
    return parts


def _make_part(layer: Layer, rows: Neighbours, roots: list[int]) -> RootPart:
    lefts, rights = sorted(rows), sorted(set().union(*rows.values()))
    left_of = {left: at for at, left in enumerate(lefts)}
    right_of = {right: at for at, right in enumerate(rights)}
    edges = [(left_of[left], right_of[right]) for left, row in rows.items() for right in row]
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    sizes = len(lefts), len(rights)
    if layer == "v":
        pairs, sizes = pairs[:, ::-1], sizes[::-1]
    ids = [np.array(lefts, np.int32), np.array(rights, np.int32)]
    ids_u, ids_v = ids if layer == "u" else ids[::-1]
    degrees = np.array([max(1, len(rows[root])) for root in roots], np.int64)
    order = np.argsort(-degrees, kind="stable")
    return RootPart(
        layer=layer,
        graph=BipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], *sizes),
        ids_u=ids_u,
        ids_v=ids_v,
        roots=np.array([left_of[roots[at]] for at in order], np.int32),
        work=degrees[order],
    )


def spread_vectors(part: RootPart, partial: Partial, graph: BipartiteGraph) -> dict[str, Any]:
    """Return the vectors of a partial of a part as those of the whole graph."""
    spread = {"u": np.zeros(graph.n_u, np.uint64), "v": np.zeros(graph.n_v, np.uint64)}
    for name, ids in vector_ids(part, "vertex").items():
        assert partial.vectors[name].shape == ids.shape
        np.add.at(spread[name], ids, partial.vectors[name])
    return spread


def count_parts(
    engine: Engine,
    graph: BipartiteGraph,
    parts: Sequence[RootPart],
    motif: Motif,
    per: Granularity = "total",
) -> Partial:
    """Count all items of all parts and fold; ``n_items`` are the roots."""
    empty = {"u": np.zeros(graph.n_u, np.uint64), "v": np.zeros(graph.n_v, np.uint64)}
    folded = Partial(0, 0, 0, empty if per == "vertex" else {})
    for part in parts:
        prepared = engine.prepare(part, motif, per)
        assert prepared.n_items == part.roots.size
        got = engine.run(prepared, 0, prepared.n_items)
        assert got.n_items == prepared.n_items
        vectors = spread_vectors(part, got, graph) if per == "vertex" else {}
        whole = Partial(got.n_items, got.total, got.work, vectors, got.cells, checksum=got.checksum)
        folded = fold_partials(folded, whole)
    return folded
