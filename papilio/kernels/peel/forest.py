"""The forest of components, level by level: the connected groups among items of a number or more.

Items come by descending number. A union-find holds the components so far, and each component has its latest *node*. The
first union at a level that meets a component gives it a node of that level; the nodes of the components that it joins
become its children. Two nodes of one level that meet become one. Unions follow the motifs: pairs of wedges of a bloom
(wings), pairs of vertices (tips) or edges (cores), at the lowest number of the items in the motif.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.peel.phases import Forest

Items = NDArray[np.int32]
Numbers = NDArray[np.uint64]


class _Growing(NamedTuple):
    above: Items
    """Union-find over the items, shape (n_items,)."""
    sizes: Items
    """Number of items of each root."""
    node: Items
    """Latest node of each root, -1 before it has one."""
    levels: Numbers
    """Level of each node, shape (n_items,)."""
    parents: Items
    """Node above each node, -1 for none."""
    same: Items
    """Union-find over the nodes, for nodes that turned out to be one."""
    n_nodes: Ints
    """Number of nodes so far, shape (1,)."""


def _plant(n_items: int) -> _Growing:
    return _Growing(
        np.arange(n_items, dtype=np.int32),
        np.ones(n_items, np.int32),
        np.full(n_items, -1, np.int32),
        np.zeros(n_items, np.uint64),
        np.full(n_items, -1, np.int32),
        np.arange(n_items, dtype=np.int32),
        np.zeros(1, np.int64),
    )


@compiled
def find_root(above: Items | Ints, item: Index) -> Index:
    """Return the root of an item, and shorten the path to it."""
    while above[item] != item:
        above[item] = above[above[item]]
        item = above[item]
    return item


@compiled
def _join(forest: _Growing, root: Index, other: Index, level: np.uint64) -> Index:
    """Join the components of a root and an item by a motif of this level. Return the new root.

    No node so far has a lower level.
    """
    a, b = root, find_root(forest.above, other)
    if a == b:
        return a
    if forest.sizes[a] < forest.sizes[b]:
        a, b = b, a
    forest.above[b] = a
    forest.sizes[a] += forest.sizes[b]
    node_a, node_b = forest.node[a], forest.node[b]
    if node_a >= 0:
        node_a = find_root(forest.same, node_a)
    if node_b >= 0:
        node_b = find_root(forest.same, node_b)
    open_a = node_a >= 0 and forest.levels[node_a] == level
    open_b = node_b >= 0 and forest.levels[node_b] == level
    if open_a and open_b:
        forest.same[node_b] = node_a
        top = node_a
    elif open_a or open_b:
        top, child = (node_a, node_b) if open_a else (node_b, node_a)
        if child >= 0:
            forest.parents[child] = top
    else:
        top = np.int32(forest.n_nodes[0])
        forest.n_nodes[0] += 1
        forest.levels[top] = level
        if node_a >= 0:
            forest.parents[node_a] = top
        if node_b >= 0:
            forest.parents[node_b] = top
    forest.node[a] = top
    return a


@compiled
def _place_items(forest: _Growing, items: Items, nodes: Items) -> None:
    """Write the node of each item of the level that has just ended."""
    for item in items:
        nodes[item] = forest.node[find_root(forest.above, item)]


@compiled
def _end_of_level(order: Items, numbers: Numbers, start: Index) -> Index:
    """Return the end of the items with the number of ``order[start]``."""
    stop = start
    while stop < order.size and numbers[order[stop]] == numbers[order[start]]:
        stop += 1
    return stop


@compiled
def _grow_wing(
    forest: _Growing,
    order: Items,
    numbers: Numbers,
    link_offsets: Ints,
    link_bloom: Items,
    link_twin: Items,
    holder: Items,
    waiting: Items,
    nodes: Items,
) -> None:
    """Join the edges of the wedges of each bloom, at the number of the lower edge of each wedge.

    ``holder`` is one edge met in each bloom; ``waiting`` is the twin of the first edge until there is a second wedge.
    """
    start: Index = 0
    while start < order.size and numbers[order[start]] > 0:
        level = numbers[order[start]]
        stop = _end_of_level(order, numbers, start)
        for edge in order[start:stop]:
            root = find_root(forest.above, edge)
            for at in range(link_offsets[edge], link_offsets[edge + 1]):
                twin, bloom = link_twin[at], link_bloom[at]
                if numbers[twin] < level or (numbers[twin] == level and twin < edge):
                    continue
                if holder[bloom] < 0:
                    holder[bloom], waiting[bloom] = edge, twin
                    continue
                root = _join(forest, root, twin, level)
                root = _join(forest, root, holder[bloom], level)
                holder[bloom] = root
                if waiting[bloom] >= 0:
                    root = _join(forest, root, waiting[bloom], level)
                    waiting[bloom] = -1
        _place_items(forest, order[start:stop], nodes)
        start = stop


@compiled
def _grow_pairs(forest: _Growing, order: Items, numbers: Numbers, offsets: Ints, others: Items, nodes: Items) -> None:
    """Join the vertices of each pair, at the lower number of the two."""
    start: Index = 0
    while start < order.size and numbers[order[start]] > 0:
        level = numbers[order[start]]
        stop = _end_of_level(order, numbers, start)
        for item in order[start:stop]:
            root = find_root(forest.above, item)
            for at in range(offsets[item], offsets[item + 1]):
                other = others[at]
                if numbers[other] > level or (numbers[other] == level and other > item):
                    root = _join(forest, root, other, level)
        _place_items(forest, order[start:stop], nodes)
        start = stop


@compiled
def _resolve(same: Items, nodes: Items) -> None:
    for at in range(nodes.size):
        if nodes[at] >= 0:
            nodes[at] = find_root(same, nodes[at])


@compiled
def _first_items(nodes: Items, first: Items) -> None:
    for item in range(nodes.size - 1, -1, -1):
        if nodes[item] >= 0:
            first[nodes[item]] = item


@compiled
def _sum_up(parents: Items, sizes: Ints) -> None:
    """Add the size of each node to its parent; parents come before their children."""
    for node in range(parents.size - 1, -1, -1):
        if parents[node] >= 0:
            sizes[parents[node]] += sizes[node]


def _falling(numbers: Numbers) -> Items:
    """Return the items by descending number, then id."""
    return np.argsort(~numbers, kind="stable").astype(np.int32)


def _harvest(forest: _Growing, nodes: Items) -> Forest:
    """Return the finished forest, its nodes by level and least item."""
    n = int(forest.n_nodes[0])
    _resolve(forest.same, nodes)
    parents = forest.parents[:n]
    _resolve(forest.same, parents)
    kept = np.flatnonzero(forest.same[:n] == np.arange(n))
    first = np.zeros(n, np.int32)
    _first_items(nodes, first)
    kept = kept[np.lexsort((first[kept], forest.levels[kept]))]
    new = np.full(n + 1, -1, np.int32)
    new[kept] = np.arange(kept.size)
    node_parents, item_nodes = new[parents[kept]], new[nodes]
    members = np.bincount(item_nodes[item_nodes >= 0], minlength=kept.size).astype(np.int64)
    sizes = members.copy()
    _sum_up(node_parents, sizes)
    return Forest(item_nodes, forest.levels[kept].copy(), node_parents, members, sizes)


def build_wing_forest(
    numbers: Numbers, link_offsets: NDArray[np.int64], link_bloom: Items, link_twin: Items, n_blooms: int
) -> Forest:
    """Return the components of the edges at each wing number. The links come from a BloomIndex."""
    forest, nodes = _plant(numbers.size), np.full(numbers.size, -1, np.int32)
    holder, waiting = np.full(n_blooms, -1, np.int32), np.full(n_blooms, -1, np.int32)
    _grow_wing(forest, _falling(numbers), numbers, link_offsets, link_bloom, link_twin, holder, waiting, nodes)
    return _harvest(forest, nodes)


def build_pair_forest(
    numbers: Numbers, offsets: NDArray[np.int64], others: Items, order: Items | None = None
) -> Forest:
    """Return the components of a layer's vertices at each tip number. The pairs come from a PairGraph.

    ``order`` holds the vertices by descending number, then id, if known.
    """
    forest, nodes = _plant(numbers.size), np.full(numbers.size, -1, np.int32)
    _grow_pairs(forest, _falling(numbers) if order is None else order, numbers, offsets, others, nodes)
    return _harvest(forest, nodes)
