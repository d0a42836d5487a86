"""Parts of small graphs, cut by plain loops: what engines and jobs are tested with, and cutters against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.kernels.rows.index import WedgeIndex, index_wedges
from papilio.kernels.wedge.cycles import index_layer
from papilio.parts import CliquePart, EndBlock, Layer, Part, StartBlock, WedgePart

__all__ = [
    "add_vectors",
    "cut_closures",
    "cut_grid",
    "end_block",
    "start_block",
    "starts_of",
    "vector_ids",
    "whole_parts",
]

LAYERS: tuple[Layer, Layer] = ("u", "v")


def _rows(index: WedgeIndex, layer: Layer) -> tuple[int, int, NDArray[np.int32]]:
    """Return the row of rank 0 of a layer, that of the other layer, and the ids by rank."""
    return (0, index.n_u, index.order_u) if layer == "u" else (index.n_u, 0, index.order_v)


def starts_of(index: WedgeIndex, layer: Layer) -> list[int]:
    """Return the ranks, ascending, of the work items of a layer."""
    first = _rows(index, layer)[0]
    size = index.n_u if layer == "u" else index.n_v
    return sorted(int(row) - first for row in index.items if first <= row < first + size)


def start_block(
    index: WedgeIndex, layer: Layer, ranks: Iterable[int], *, with_edges: bool = False, lean: bool = False
) -> StartBlock:
    """Return the block of these starts; a lean one leaves out the middles without an end before the start."""
    first, _, order = _rows(index, layer)
    ranks = sorted(ranks)
    work, indptr = [], [0]
    middles: list[int] = []
    edges: list[int] = []
    for rank in ranks:
        entries = range(int(index.offsets[first + rank]), int(index.offsets[first + rank + 1]))
        kept = [at for at in entries if not lean or index.prefix[at]]
        middles += [int(index.ids[at]) for at in kept]
        edges += [int(index.edge_ids[at]) for at in kept] if with_edges else []
        work.append(sum(int(index.prefix[at]) for at in entries))
        indptr.append(len(middles))
    rank_array = np.array(ranks, np.int32)
    return StartBlock(
        layer,
        rank_array,
        np.ascontiguousarray(order[rank_array], dtype=np.int32),
        np.array(work, np.int64),
        np.array(indptr, np.int64),
        np.array(middles, np.int32),
        np.array(edges, np.int64),
    )


def end_block(
    index: WedgeIndex,
    layer: Layer,
    ranks: Iterable[int],
    *,
    middles: Iterable[int] | None = None,
    with_edges: bool = False,
) -> EndBlock:
    """Return the block of these ends, of those that have entries; only by the given middles, if any are given."""
    _, other, order = _rows(index, layer)
    order_middles = index.order_v if layer == "u" else index.order_u
    wanted = set(ranks)
    rows: list[tuple[int, list[tuple[int, int]]]] = []
    for middle in range(order_middles.size) if middles is None else sorted(set(middles)):
        begin = int(index.offsets[other + middle])
        entries = range(begin, begin + int(index.split[other + middle]))
        row = [
            (int(index.ids[at]), int(index.edge_ids[at]) if with_edges else 0)
            for at in entries
            if int(index.ids[at]) in wanted
        ]
        if row:
            rows.append((middle, row))
    ends = sorted({rank for _, row in rows for rank, _ in row})
    place = {rank: at for at, rank in enumerate(ends)}
    middle_rank = np.array([middle for middle, _ in rows], np.int32)
    rank_array = np.array(ends, np.int32)
    return EndBlock(
        layer,
        rank_array,
        np.ascontiguousarray(order[rank_array], dtype=np.int32),
        middle_rank,
        np.ascontiguousarray(order_middles[middle_rank], dtype=np.int32),
        np.cumsum([0, *(len(row) for _, row in rows)], dtype=np.int64),
        np.array([place[rank] for _, row in rows for rank, _ in row], np.int32),
        np.array([edge for _, row in rows for _, edge in row] if with_edges else [], np.int64),
    )


def _split(values: Sequence[int], count: int) -> list[list[int]]:
    return [[int(value) for value in part] for part in np.array_split(np.array(values, np.int64), count)]


def _index(graph: BipartiteGraph | UnipartiteGraph, with_edges: bool) -> tuple[WedgeIndex, tuple[Layer, ...]]:
    """Return the index of a graph, and the layers of starts; V alone, which has the middles too, if unipartite."""
    if isinstance(graph, BipartiteGraph):
        return index_wedges(graph, with_edge_ids=with_edges), LAYERS
    index = index_layer(graph, with_edge_ids=with_edges)
    return replace(index, order_u=index.order_v, edge_ids=index.edge_ids % max(1, graph.n_edges)), ("v",)


def cut_grid(
    graph: BipartiteGraph | UnipartiteGraph,
    start_blocks: int,
    end_blocks: int,
    per: str = "total",
    *,
    lean: bool = False,
) -> list[WedgePart]:
    """Return the pairs of blocks of starts and blocks of ends, of both layers, that can have a wedge."""
    edges = per == "edge"
    index, layers = _index(graph, edges)
    parts = []
    for layer in layers:
        size = index.n_u if layer == "u" else index.n_v
        starts = [
            start_block(index, layer, ranks, with_edges=edges, lean=lean)
            for ranks in _split(starts_of(index, layer), start_blocks)
        ]
        ends = [end_block(index, layer, ranks, with_edges=edges) for ranks in _split(range(size), end_blocks)]
        parts += [
            WedgePart(a, b) for a in starts for b in ends if a.rank.size and b.rank.size and b.rank[0] < a.rank[-1]
        ]
    return parts


def cut_closures(
    graph: BipartiteGraph | UnipartiteGraph, groups: int, seed: int, per: str = "total"
) -> list[WedgePart]:
    """Return random groups of starts, each with all its ends by its middles."""
    edges = per == "edge"
    index, layers = _index(graph, edges)
    random = np.random.default_rng(seed)
    parts = []
    for layer in layers:
        ranks = np.array(starts_of(index, layer), np.int64)
        group = random.integers(0, groups, ranks.size)
        for number in range(groups):
            chosen = ranks[group == number].tolist()
            if chosen:
                starts = start_block(index, layer, chosen, with_edges=edges)
                ends = end_block(index, layer, range(max(chosen)), middles=starts.middles.tolist(), with_edges=edges)
                parts.append(WedgePart(starts, ends))
    return parts


def whole_parts(graph: BipartiteGraph, per: str = "total") -> list[WedgePart]:
    """Return the graph as one part of each layer that has work items."""
    return cut_grid(graph, 1, 1, per)


def vector_ids(part: Part, per: str) -> dict[str, NDArray[Any]]:
    """Return, for each vector of a partial of a part, the id in the whole graph of each entry."""
    if per == "total":
        return {}
    if isinstance(part, WedgePart):
        starts, ends = part.starts, part.ends
        if per == "edge":
            return {"edge": np.concatenate((starts.edges, ends.edges))}
        own = np.concatenate((starts.ids, ends.ids))
        return {part.layer: own, ("v" if part.layer == "u" else "u"): ends.middle_ids}
    if isinstance(part, CliquePart):
        return {"n": part.ids_n} if per == "vertex" else {"edge": part.edges}
    return {"u": part.ids_u, "v": part.ids_v}


def add_vectors(
    graph: BipartiteGraph | UnipartiteGraph, per: str, partials: Iterable[tuple[Part, Partial]]
) -> dict[str, NDArray[np.uint64]]:
    """Return the vectors of the whole graph: local ones added where their ids are."""
    vertices = {"n": graph.n} if isinstance(graph, UnipartiteGraph) else {"u": graph.n_u, "v": graph.n_v}
    sizes = {"total": {}, "vertex": vertices, "edge": {"edge": graph.n_edges}}[per]
    sums = {name: np.zeros(size, np.uint64) for name, size in sizes.items()}
    for part, partial in partials:
        ids = vector_ids(part, per)
        if "n" in sizes:
            ids = {"n": np.concatenate((ids["v"], ids["u"]))}  # starts and ends, then middles
        assert {name: vector.shape for name, vector in partial.vectors.items()} == {
            name: values.shape for name, values in ids.items()
        }
        for name, vector in partial.vectors.items():
            np.add.at(sums[name], ids[name], vector)
    return sums
