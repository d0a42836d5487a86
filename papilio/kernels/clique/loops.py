"""The loops of the CPU engine of cliques: one call per chunk of roots, without the interpreter lock.

Input: the later neighbours of every vertex in an order (:mod:`papilio.kernels.clique.order`). A clique is found once,
at its first vertex, the root: the search goes over the graph that the root's later neighbours induce, as a square
matrix of bits.

``count_pivots`` is the succinct clique tree of Pivoter (Jain and Seshadhri, WSDM'20) with the cuts of Almasri et al.
(ICS'22, section 3.2): a vertex is *held*, or it is a *pivot*, which a clique may have or not. A leaf with h held
vertices and p pivots stands for C(p, k - h) cliques of every size k; leaves are counted by (h, p). A branch ends where
it holds as many as are asked for, and is dropped where all that is left cannot make the least size. A vertex next to
all others is taken as a pivot without a branch. A node that lacks two vertices of the largest size is not searched: it
is a leaf, and each of its candidates and each edge among these is one.
``count_oriented`` takes vertices in their order and counts the last level by popcounts (section 3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.order import Later
from papilio.kernels.jit import Ints, Sums, compiled, inlined
from papilio.kernels.tree.bits import ONE, Words, fill_span, first_bit, lowest_bit, popcount, words_of

TOTAL, PER_VERTEX, PER_EDGE = 0, 1, 2
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


class Search(NamedTuple):
    """What one thread has of its own; d is the largest number of later neighbours, w its words.

    ``rows`` (d * w) is the matrix and ``names`` (d) whom its rows are; ``edge_at`` (d * d) has edge ids where edges are
    counted. ``sets`` and ``rest`` ((d + 1) * w) are, by level, the candidates and those still to be branched on;
    ``pivot_of``, ``held_at`` and ``pivots_at`` (d + 1) what a level began with. ``held`` and ``pivots`` are the path.
    ``leaves`` ((d + 2) * (d + 2)) counts by held * (d + 2) + pivots. ``sums`` (d) and ``pair_sums`` (d * d) are of the
    root at hand, ``root_sum`` is that of the root itself; ``vertex_sums`` (n) and ``edge_sums`` (n_edges) are of all.
    ``place`` (n) is -1 and ``near`` (n) 0 between roots. ``total`` has the two halves of a sum of 128 bits, then the
    words intersected.
    """

    rows: Words
    names: NDArray[np.int32]
    edge_at: Ints
    sets: Words
    rest: Words
    pivot_of: Ints
    held_at: Ints
    pivots_at: Ints
    held: Ints
    pivots: Ints
    leaves: Sums
    sums: Sums
    pair_sums: Sums
    vertex_sums: Sums
    edge_sums: Sums
    place: Ints
    near: NDArray[np.uint8]
    root_sum: Sums
    total: Sums


def make_search(later: Later, most: int, per: int, n_edges: int) -> Search:
    """Return the memory of a thread, for roots of at most ``most`` later neighbours."""
    n, w = later.indptr.size - 1, (most + 63) >> 6
    pairs = most * most if per == PER_EDGE else 0
    return Search(
        rows=np.zeros(most * w, np.uint64),
        names=np.zeros(most, np.int32),
        edge_at=np.zeros(pairs, np.int64),
        sets=np.zeros((most + 1) * w, np.uint64),
        rest=np.zeros((most + 1) * w, np.uint64),
        pivot_of=np.zeros(most + 1, np.int64),
        held_at=np.zeros(most + 1, np.int64),
        pivots_at=np.zeros(most + 1, np.int64),
        held=np.zeros(most + 1, np.int64),
        pivots=np.zeros(most + 1, np.int64),
        leaves=np.zeros((most + 2) * (most + 2), np.uint64),
        sums=np.zeros(most, np.uint64),
        pair_sums=np.zeros(pairs, np.uint64),
        vertex_sums=np.zeros(n if per == PER_VERTEX else 0, np.uint64),
        edge_sums=np.zeros(n_edges if per == PER_EDGE else 0, np.uint64),
        place=np.full(n, -1, np.int64),
        near=np.zeros(n, np.uint8),
        root_sum=np.zeros(1, np.uint64),
        total=np.zeros(3, np.uint64),
    )


@compiled
def open_root(later: Later, search: Search, root: int, oriented: bool, with_edges: bool) -> int:
    """Fill the matrix of a root and return the number of its later neighbours; as :func:`_fill_matrix`."""
    begin, end = later.indptr[root], later.indptr[root + 1]
    d = int(end - begin)
    for i in range(d):
        search.names[i] = later.ids[begin + i]
    _fill_matrix(later, search, d, oriented, with_edges)
    return d


@compiled
def _name_shared(later: Later, search: Search, root: int, child: int) -> int:
    """Name the later neighbours that both ends of an edge have, and return their number."""
    a, end_a = later.indptr[root], later.indptr[root + 1]
    b, end_b = later.indptr[child], later.indptr[child + 1]
    d = 0
    while a < end_a and b < end_b:
        x, y = later.ids[a], later.ids[b]
        if x == y:
            search.names[d] = x
            d += 1
        a += x <= y
        b += y <= x
    return d


@compiled
def _fill_matrix(later: Later, search: Search, d: int, oriented: bool, with_edges: bool) -> None:
    """Fill the matrix of the vertices that are named; oriented: a row has the later ones only."""
    w = words_of(d)
    search.rows[: d * w] = 0
    for i in range(d):
        search.place[search.names[i]] = i
    for i in range(d):
        name = search.names[i]
        for at in range(later.indptr[name], later.indptr[name + 1]):
            j = search.place[later.ids[at]]
            if j >= 0:
                search.rows[i * w + (j >> 6)] |= ONE << np.uint64(j & 63)
                if not oriented:
                    search.rows[j * w + (i >> 6)] |= ONE << np.uint64(i & 63)
                if with_edges:
                    search.edge_at[i * d + j] = later.edges[at]
    for i in range(d):
        search.place[search.names[i]] = -1


@compiled
def _add_wide(total: Sums, value: np.uint64) -> None:
    """Add to a sum of 128 bits."""
    total[0] += value
    if total[0] < value:
        total[1] += ONE


@compiled
def _end_leaf(search: Search, d: int, n_held: int, n_pivots: int, choose: Sums, k: int, per: int) -> None:
    """Give every vertex, or every edge, of the cliques of a leaf its share; ``n_held`` counts the root.

    ``choose[p * (k + 1) + j]`` is C(p, j) modulo 2^64.
    """
    free = k - n_held
    row = k + 1
    all_ = choose[n_pivots * row + free]
    less = choose[(n_pivots - 1) * row + free - 1] if n_pivots >= 1 and free >= 1 else np.uint64(0)
    search.root_sum[0] += all_
    for i in range(n_held - 1):
        search.sums[search.held[i]] += all_
    for i in range(n_pivots):
        search.sums[search.pivots[i]] += less
    if per != PER_EDGE:
        return
    least = choose[(n_pivots - 2) * row + free - 2] if n_pivots >= 2 and free >= 2 else np.uint64(0)
    for i in range(n_held - 1):
        a = search.held[i]
        for j in range(i):
            b = search.held[j]
            search.pair_sums[min(a, b) * d + max(a, b)] += all_
        for j in range(n_pivots):
            b = search.pivots[j]
            search.pair_sums[min(a, b) * d + max(a, b)] += less
    for i in range(n_pivots):
        a = search.pivots[i]
        for j in range(i):
            b = search.pivots[j]
            search.pair_sums[min(a, b) * d + max(a, b)] += least


@compiled
def _add_pair(search: Search, d: int, a: int, b: int, value: np.uint64) -> None:
    search.pair_sums[min(a, b) * d + max(a, b)] += value


@compiled
def _end_pairs(
    search: Search, d: int, at: int, n_held: int, n_pivots: int, missing: int, size: int, edges: int, per: int
) -> None:
    """Give every vertex, or every edge, of the cliques of a node that lacks one vertex or two its share.

    A clique has the held ones and, of pivots and candidates, one, or two that are next to each other, as pivots are to
    all; ``n_held`` counts the root.
    """
    w, pairs = words_of(d), missing == 2
    of_pivot = np.uint64(n_pivots - 1 + size if pairs else 1)
    all_ = np.uint64(n_pivots * (n_pivots - 1) // 2 + n_pivots * size + edges if pairs else n_pivots + size)
    search.root_sum[0] += all_
    for i in range(n_held - 1):
        search.sums[search.held[i]] += all_
    for i in range(n_pivots):
        search.sums[search.pivots[i]] += of_pivot
    if per == PER_EDGE:
        for i in range(n_held - 1):
            for j in range(i):
                _add_pair(search, d, search.held[i], search.held[j], all_)
            for j in range(n_pivots):
                _add_pair(search, d, search.held[i], search.pivots[j], of_pivot)
        for i in range(n_pivots if pairs else 0):
            for j in range(i):
                _add_pair(search, d, search.pivots[i], search.pivots[j], ONE)
    for u in range(d):
        if search.sets[at + (u >> 6)] >> np.uint64(u & 63) & ONE == 0:
            continue
        value = 1
        if pairs:
            value = n_pivots
            for word in range(w):
                value += popcount(search.sets[at + word] & search.rows[u * w + word])
        search.sums[u] += np.uint64(value)
        if per != PER_EDGE:
            continue
        for i in range(n_held - 1):
            _add_pair(search, d, u, search.held[i], np.uint64(value))
        if not pairs:
            continue
        for i in range(n_pivots):
            _add_pair(search, d, u, search.pivots[i], ONE)
        for word in range(w):
            bits = search.sets[at + word] & search.rows[u * w + word]
            while bits:
                v = word * 64 + lowest_bit(bits)
                bits &= bits - ONE
                if v > u:
                    search.pair_sums[u * d + v] += ONE


@inlined
def _choose_pivot(search: Search, at: int, w: int, size: int, n_pivots: int) -> tuple[int, int]:
    """Take the candidates that are next to all others as pivots, and return the one next to most of the rest, or -1.

    Returns also how many pivots the path then has.
    """
    best, most, first = -1, -1, n_pivots
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            u = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            shared = n_pivots - first
            for x in range(w):
                shared += popcount(search.sets[at + x] & search.rows[u * w + x])
            if shared == size - 1:
                search.sets[at + word] &= ~(ONE << np.uint64(u & 63))
                search.pivots[n_pivots] = u
                n_pivots += 1
            elif shared > most:
                best, most = u, shared
    return best, n_pivots


@inlined
def _count_pairs(search: Search, at: int, w: int) -> int:
    """Return the edges among the candidates of the level at a word."""
    count = 0
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            u = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            count += popcount(bits & search.rows[u * w + word])
            for x in range(word + 1, w):
                count += popcount(search.sets[at + x] & search.rows[u * w + x])
    return count


@inlined
def _enter_node(
    search: Search, d: int, at: int, n_held: int, n_pivots: int, least: int, most: int, choose: Sums, per: int
) -> tuple[int, int]:
    """Count a node that has no branches, or choose the pivot of its branches; return it, or -1, and the pivots."""
    w, size = words_of(d), 0
    for word in range(w):
        size += popcount(search.sets[at + word])
    if n_held + n_pivots + size < least:
        return -1, n_pivots
    row = search.pivot_of.size + 1
    if 0 < most - n_held <= 2:
        edges = 0
        search.leaves[n_held * row + n_pivots] += ONE
        if size > 0:
            search.leaves[(n_held + 1) * row + n_pivots] += np.uint64(size)
        if size > 1 and most - n_held == 2:
            edges = _count_pairs(search, at, w)
            search.leaves[(n_held + 2) * row + n_pivots] += np.uint64(edges)
            search.total[2] += np.uint64(size * w // 2)
        if per != TOTAL:
            _end_pairs(search, d, at, n_held, n_pivots, most - n_held, size, edges, per)
        return -1, n_pivots
    pivot = -1
    if n_held < most:
        pivot, n_pivots = _choose_pivot(search, at, w, size, n_pivots)
        search.total[2] += np.uint64(size * w)
    if pivot < 0:
        search.leaves[n_held * row + n_pivots] += ONE
        if per != TOTAL:
            _end_leaf(search, d, n_held, n_pivots, choose, most, per)
    return pivot, n_pivots


@compiled
def _search_item(search: Search, d: int, held: int, least: int, most: int, choose: Sums, per: int) -> None:
    """Go through the tree of one item, which holds one vertex or two."""
    w = words_of(d)
    fill_span(search.sets, d)
    level, n_held, n_pivots = 0, held, 0
    entering = True
    while level >= 0:
        at = level * w
        if entering:
            entering = False
            chosen, n_pivots = _enter_node(search, d, at, n_held, n_pivots, least, most, choose, per)
            if chosen >= 0:
                for word in range(w):
                    search.rest[at + word] = search.sets[at + word] & ~search.rows[chosen * w + word]
                search.pivot_of[level], search.held_at[level], search.pivots_at[level] = (
                    chosen,
                    n_held,
                    n_pivots,
                )
        else:
            n_held, n_pivots = search.held_at[level], search.pivots_at[level]
            chosen = first_bit(search.rest, at, w)
        if chosen < 0:
            level -= 1
            continue
        if chosen == search.pivot_of[level]:
            search.pivots[n_pivots] = chosen
            n_pivots += 1
        else:
            search.held[n_held - 1] = chosen
            n_held += 1
        bit = ONE << np.uint64(chosen & 63)
        search.rest[at + (chosen >> 6)] &= ~bit
        search.sets[at + (chosen >> 6)] &= ~bit
        for word in range(w):
            search.sets[at + w + word] = search.sets[at + word] & search.rows[chosen * w + word]
        search.total[2] += np.uint64(w)
        level += 1
        entering = True


@compiled
def count_pivots(
    later: Later,
    search: Search,
    roots: Ints,
    children: Ints,
    begin: int,
    end: int,
    least: int,
    most: int,
    choose: Sums,
    per: int,
) -> None:
    """Count the cliques of ``least`` to ``most`` vertices whose first ones are the roots of a chunk.

    Where there are children, an item is the cliques whose first two vertices are a root and its child, or the root
    alone, without a child (-1); then they are only counted.
    """
    stride, held = search.pivot_of.size + 1, 2 if children.size else 1
    for place in range(begin, end):
        root = roots[place]
        if children.size and children[place] < 0:
            search.leaves[stride] += ONE
            continue
        if children.size:
            d = _name_shared(later, search, root, children[place])
            if d + 2 < least:
                continue
            _fill_matrix(later, search, d, False, False)
        else:
            d = open_root(later, search, root, False, per == PER_EDGE)
        if d + held < least:
            continue
        if per != TOTAL:
            search.sums[:d] = 0
            search.root_sum[0] = 0
        if per == PER_EDGE:
            search.pair_sums[: d * d] = 0
        _search_item(search, d, held, least, most, choose, per)
        if per == PER_VERTEX:
            search.vertex_sums[later.vertices[root]] += search.root_sum[0]
            for i in range(d):
                search.vertex_sums[later.vertices[search.names[i]]] += search.sums[i]
        if per == PER_EDGE:
            first = later.indptr[root]
            for i in range(d):
                search.edge_sums[later.edges[first + i]] += search.sums[i]
                for j in range(i + 1, d):
                    if search.pair_sums[i * d + j]:
                        search.edge_sums[search.edge_at[i * d + j]] += search.pair_sums[i * d + j]


@compiled
def _count_near(near: NDArray[np.uint8], ids: NDArray[np.int32], begin: int, end: int) -> int:
    """Return the sum of what is marked among ids; four at a time, without the test for negative places."""
    first, second = 0, 0
    at, stop = np.uint64(begin), np.uint64(end)
    while at + _THREE < stop:
        first += near[np.uint32(ids[at])] + near[np.uint32(ids[at + ONE])]
        second += near[np.uint32(ids[at + _TWO])] + near[np.uint32(ids[at + _THREE])]
        at += _FOUR
    while at < stop:
        first += near[np.uint32(ids[at])]
        at += ONE
    return first + second


@compiled
def _count_triangles(later: Later, search: Search, root: int) -> None:
    """Count the edges among the later neighbours of a root, without a matrix."""
    begin, end = later.indptr[root], later.indptr[root + 1]
    for at in range(begin, end):
        search.near[later.ids[at]] = 1
    count, work = 0, 0
    for at in range(begin, end - 1):
        name = later.ids[at]
        count += _count_near(search.near, later.ids, later.indptr[name], later.indptr[name + 1])
        work += later.indptr[name + 1] - later.indptr[name]
    for at in range(begin, end):
        search.near[later.ids[at]] = 0
    _add_wide(search.total, np.uint64(count))
    search.total[2] += np.uint64(work)


@inlined
def take_candidate(search: Search, at: int, w: int, chosen: int) -> int:
    """Take a candidate from what is left of the level at a word; lay out the next level and return its candidates."""
    search.rest[at + (chosen >> 6)] &= ~(ONE << np.uint64(chosen & 63))
    size = 0
    for word in range(w):
        common = search.sets[at + word] & search.rows[chosen * w + word]
        search.sets[at + w + word] = common
        search.rest[at + w + word] = common
        size += popcount(common)
    return size


@compiled
def count_oriented(
    later: Later, search: Search, roots: Ints, children: Ints, begin: int, end: int, k: int
) -> None:
    """Count the cliques of k vertices, at least 3, whose first ones are the roots, or edges, of a chunk."""
    if children.size:
        k -= 1
    for place in range(begin, end):
        root = roots[place]
        if children.size:
            d = _name_shared(later, search, root, children[place])
            if d + 1 < k:
                continue
            if k == 2:
                _add_wide(search.total, np.uint64(d))
                continue
            _fill_matrix(later, search, d, True, False)
        else:
            if later.indptr[root + 1] - later.indptr[root] + 1 < k:
                continue
            if k == 3:
                _count_triangles(later, search, root)
                continue
            d = open_root(later, search, root, True, False)
        w = words_of(d)
        fill_span(search.sets, d)
        fill_span(search.rest, d)
        # `left` vertices are to be found among the candidates of a level; the last two at once.
        level, work = 0, 0
        while level >= 0:
            at, left = level * w, k - 1 - level
            if left == 2:
                count = 0
                for word in range(w):
                    bits = search.rest[at + word]
                    while bits:
                        u = word * 64 + lowest_bit(bits)
                        bits &= bits - ONE
                        for x in range(word, w):
                            count += popcount(search.sets[at + x] & search.rows[u * w + x])
                        work += w - word
                _add_wide(search.total, np.uint64(count))
                level -= 1
                continue
            chosen = first_bit(search.rest, at, w)
            if chosen < 0:
                level -= 1
                continue
            size = take_candidate(search, at, w, chosen)
            work += w
            if size >= left - 1:
                level += 1
        search.total[2] += np.uint64(work)
