"""The pivot loop of the CPU engine of cliques: one call per chunk of roots, without the interpreter lock.

``count_pivots`` is the succinct clique tree of Pivoter (Jain and Seshadhri, WSDM'20) with the cuts of Almasri et al.
(ICS'22, section 3.2): a vertex is *held*, or it is a *pivot*, which a clique may or may not contain. A leaf with h held
vertices and p pivots represents C(p, k - h) cliques of every size k; leaves are counted by (h, p). A branch ends once
it holds the requested number of vertices, and is dropped if its remaining vertices cannot reach the least size. A
vertex next to all others is taken as a pivot without a branch. A node that lacks two vertices of the largest size is
not searched: it is a leaf, and each of its candidates and each edge among these is one. Counts of vertices and edges do
the same with triangles, for nodes of one word that lack three.

A node whose candidates fill at most half of the words of a row gets a matrix of its own, a *frame*, for the tree below
it: in graphs of overlapping cliques, roots have hundreds of candidates, and most nodes fewer than 64.
Work is in words of the rows of the root, with frames as without, as other engines and the probes count it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.clique.loops import (
    BEGUN,
    NUMBERS_AT,
    PER_EDGE,
    PER_VERTEX,
    ROWS_AT,
    TOTAL,
    WIDTH,
    CliqueStack,
    open_root,
)
from papilio.kernels.clique.order import Later
from papilio.kernels.jit import Ints, Sums, compiled, inlined
from papilio.kernels.search.bits import ONE, fill_span, first_bit, lowest_bit, popcount, words_of


@compiled
def _add_pair(search: CliqueStack, d: int, a: int, b: int, value: np.uint64) -> None:
    search.pair_sums[min(a, b) * d + max(a, b)] += value


@compiled
def _give(search: CliqueStack, d: int, n_held: int, n_pivots: int, all_: Any, one: Any, two: Any, per: int) -> None:
    """Add to the sum of each held vertex and pivot, or of each pair by its number of pivots (0, 1 or 2)."""
    search.root_sum[0] += all_
    for i in range(n_held - 1):
        search.sums[search.held[i]] += all_
    for i in range(n_pivots):
        search.sums[search.pivots[i]] += one
    if per != PER_EDGE:
        return
    for i in range(n_held - 1):
        for j in range(i):
            _add_pair(search, d, search.held[i], search.held[j], all_)
        for j in range(n_pivots):
            _add_pair(search, d, search.held[i], search.pivots[j], one)
    for i in range(n_pivots if two else 0):
        for j in range(i):
            _add_pair(search, d, search.pivots[i], search.pivots[j], two)


@compiled
def _end_leaf(search: CliqueStack, d: int, n_held: int, n_pivots: int, choose: Sums, k: int, per: int) -> None:
    """Add the cliques of a leaf to every vertex, or every edge; ``n_held`` counts the root.

    ``choose[p * (k + 1) + j]`` is C(p, j) modulo 2^64.
    """
    free = k - n_held
    row = k + 1
    all_ = choose[n_pivots * row + free]
    one = choose[(n_pivots - 1) * row + free - 1] if n_pivots >= 1 and free >= 1 else np.uint64(0)
    two = choose[(n_pivots - 2) * row + free - 2] if n_pivots >= 2 and free >= 2 else np.uint64(0)
    _give(search, d, n_held, n_pivots, all_, one, two, per)


@compiled
def _end_pairs(
    search: CliqueStack,
    frame: int,
    d: int,
    at: int,
    n_held: int,
    n_pivots: int,
    missing: int,
    size: int,
    edges: int,
    per: int,
) -> None:
    """Add the cliques of a node that lacks one or two vertices to every vertex, or every edge.

    A clique has the held vertices and one of the pivots and candidates, or two adjacent ones; pivots are adjacent to
    all. ``n_held`` counts the root.
    """
    rows_at, numbers_at, w = (
        search.frames[frame, ROWS_AT],
        search.frames[frame, NUMBERS_AT],
        search.frames[frame, WIDTH],
    )
    pairs = missing == 2
    of_pivot = np.uint64(n_pivots - 1 + size if pairs else 1)
    all_ = np.uint64(n_pivots * (n_pivots - 1) // 2 + n_pivots * size + edges if pairs else n_pivots + size)
    _give(search, d, n_held, n_pivots, all_, of_pivot, np.uint64(pairs), per)
    for i in range(64 * w):
        if search.sets[at + (i >> 6)] >> np.uint64(i & 63) & ONE == 0:
            continue
        u, value = search.numbers[numbers_at + i], 1
        if pairs:
            value = n_pivots
            for word in range(w):
                value += popcount(search.sets[at + word] & search.rows[rows_at + i * w + word])
        search.sums[u] += np.uint64(value)
        if per != PER_EDGE:
            continue
        for j in range(n_held - 1):
            _add_pair(search, d, u, search.held[j], np.uint64(value))
        if not pairs:
            continue
        for j in range(n_pivots):
            _add_pair(search, d, u, search.pivots[j], ONE)
        for word in range(w):
            bits = search.sets[at + word] & search.rows[rows_at + i * w + word]
            while bits:
                j = word * 64 + lowest_bit(bits)
                bits &= bits - ONE
                if j > i:
                    _add_pair(search, d, u, search.numbers[numbers_at + j], ONE)


@compiled
def _end_triples(
    search: CliqueStack, frame: int, d: int, at: int, n_held: int, n_pivots: int, size: int, per: int
) -> None:
    """Count a node of one word that lacks three vertices, and add its cliques to every vertex, or every edge.

    A clique has the held vertices and three pivots, or candidates adjacent to each other, or some of both.
    """
    row, p = search.pivot_of.size + 1, n_pivots
    rows = search.rows[search.frames[frame, ROWS_AT] :]
    numbers = search.numbers[search.frames[frame, NUMBERS_AT] :]
    members, ends, corners = search.sets[at], 0, 0
    left = members
    while left:
        i = lowest_bit(left)
        left &= left - ONE
        near = members & rows[i]
        degree, shared, rest = popcount(near), 0, near
        while rest:
            j = lowest_bit(rest)
            rest &= rest - ONE
            common = popcount(near & rows[j])
            shared += common
            if per == PER_EDGE and j > i:
                _add_pair(search, d, numbers[i], numbers[j], np.uint64(p + common))
        ends += degree
        corners += shared
        value = np.uint64(p * (p - 1) // 2 + p * degree + shared // 2)
        search.sums[numbers[i]] += value
        if per == PER_EDGE:
            for at_held in range(n_held - 1):
                _add_pair(search, d, numbers[i], search.held[at_held], value)
            for at_pivot in range(p):
                _add_pair(search, d, numbers[i], search.pivots[at_pivot], np.uint64(p - 1 + degree))
    edges, triangles = ends // 2, corners // 6
    all_ = p * (p - 1) // 2 * (p - 2) // 3 + p * (p - 1) // 2 * size + p * edges + triangles
    one = (p - 1) * (p - 2) // 2 + (p - 1) * size + edges
    _give(search, d, n_held, p, np.uint64(all_), np.uint64(one), np.uint64(p - 2 + size), per)
    leaf = n_held * row + p
    search.leaves[leaf] += ONE
    search.leaves[leaf + row] += np.uint64(size)
    search.leaves[leaf + 2 * row] += np.uint64(edges)
    search.leaves[leaf + 3 * row] += np.uint64(triangles)
    search.total[2] += np.uint64(size + edges)


@inlined
def choose_pivot(
    search: CliqueStack, rows_at: int, numbers_at: int, at: int, w: int, size: int, n_pivots: int
) -> tuple[int, int]:
    """Take candidates next to all others as pivots. Return the one next to most remaining ones, or -1.

    Also returns the number of pivots on the path afterwards.
    """
    best, most, first = -1, -1, n_pivots
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            u = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            shared = n_pivots - first
            for x in range(w):
                shared += popcount(search.sets[at + x] & search.rows[rows_at + u * w + x])
            if shared == size - 1:
                search.sets[at + word] &= ~(ONE << np.uint64(u & 63))
                search.pivots[n_pivots] = search.numbers[numbers_at + u]
                n_pivots += 1
            elif shared > most:
                best, most = u, shared
    return best, n_pivots


@inlined
def count_pairs(search: CliqueStack, rows_at: int, at: int, w: int) -> int:
    """Return the number of edges among the candidates of a level."""
    count = 0
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            u = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            count += popcount(bits & search.rows[rows_at + u * w + word])
            for x in range(word + 1, w):
                count += popcount(search.sets[at + x] & search.rows[rows_at + u * w + x])
    return count


@inlined
def _enter_node(
    search: CliqueStack,
    frame: int,
    w: int,
    d: int,
    at: int,
    node: tuple[int, int, int],
    limits: tuple[int, int],
    choose: Sums,
    per: int,
) -> tuple[int, int]:
    """Count a node without branches, or choose the pivot of its branches. Return it, or -1, and the pivots.

    ``node`` has the numbers of held vertices, pivots and candidates, ``w`` is the width of the frame.
    """
    (n_held, n_pivots, size), (least, most) = node, limits
    if n_held + n_pivots + size < least:
        return -1, n_pivots
    row = search.pivot_of.size + 1
    rows_at, numbers_at = search.frames[frame, ROWS_AT], search.frames[frame, NUMBERS_AT]
    if 0 < most - n_held <= 2:
        edges = 0
        search.leaves[n_held * row + n_pivots] += ONE
        if size > 0:
            search.leaves[(n_held + 1) * row + n_pivots] += np.uint64(size)
        if size > 1 and most - n_held == 2:
            edges = count_pairs(search, rows_at, at, w)
            search.leaves[(n_held + 2) * row + n_pivots] += np.uint64(edges)
            search.total[2] += np.uint64(size * w // 2)
        if per != TOTAL:
            _end_pairs(search, frame, d, at, n_held, n_pivots, most - n_held, size, edges, per)
        return -1, n_pivots
    pivot = -1
    if per != TOTAL and w == 1 and most - n_held == 3:
        _end_triples(search, frame, d, at, n_held, n_pivots, size, per)
        return -1, n_pivots
    if n_held < most:
        pivot, n_pivots = choose_pivot(search, rows_at, numbers_at, at, w, size, n_pivots)
        search.total[2] += np.uint64(size * w)
    if pivot < 0:
        search.leaves[n_held * row + n_pivots] += ONE
        if per != TOTAL:
            _end_leaf(search, d, n_held, n_pivots, choose, most, per)
    return pivot, n_pivots


@compiled
def _make_frame(search: CliqueStack, frame: int, level: int, at: int, size: int) -> None:
    """Renumber the candidates of a level, and make their matrix the frame below ``frame``."""
    above, below = search.frames[frame], search.frames[frame + 1]
    rows_at, numbers_at, w = above[ROWS_AT], above[NUMBERS_AT], above[WIDTH]
    v = words_of(size)
    to_rows, to_numbers = rows_at + 64 * w * w, numbers_at + 64 * w
    below[ROWS_AT], below[NUMBERS_AT], below[WIDTH], below[BEGUN] = to_rows, to_numbers, v, level
    search.rows[to_rows : to_rows + size * v] = 0
    i = 0
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            u = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            search.numbers[to_numbers + i] = search.numbers[numbers_at + u]
            before = 0
            for x in range(w):
                members = search.sets[at + x]
                both = members & search.rows[rows_at + u * w + x]
                while both:
                    bit = both & (~both + ONE)
                    both ^= bit
                    j = before + popcount(members & (bit - ONE))
                    search.rows[to_rows + i * v + (j >> 6)] |= ONE << np.uint64(j & 63)
                before += popcount(members)
            i += 1
    fill_span(search.sets[at : at + v], size)


@inlined
def _take_branch(search: CliqueStack, frame: int, w: int, at: int, below: int, chosen: int) -> None:
    """Remove a candidate from a level, and lay out the candidates of the next one."""
    rows_at = search.frames[frame, ROWS_AT]
    bit = ONE << np.uint64(chosen & 63)
    search.rest[at + (chosen >> 6)] &= ~bit
    search.sets[at + (chosen >> 6)] &= ~bit
    for word in range(w):
        search.sets[below + word] = search.sets[at + word] & search.rows[rows_at + chosen * w + word]


@inlined
def _enter_narrow(
    search: CliqueStack, rows_at: int, at: int, n_held: int, n_pivots: int, least: int, most: int
) -> tuple[int, int]:
    """As :func:`_enter_node`, for a total and rows of one word."""
    rows, leaf = search.rows, n_held * (search.pivot_of.size + 1) + n_pivots
    members, lacking = search.sets[at], most - n_held
    size = popcount(members)
    pivot, largest, left = -1, -1, members
    if n_held + n_pivots + size < least:
        return -1, n_pivots
    if lacking > 2:
        search.total[2] += np.uint64(size)
        while left:
            u = lowest_bit(left)
            left &= left - ONE
            degree = popcount(members & rows[rows_at + u])
            if degree == size - 1:
                # It is a pivot, and the others lose a neighbour.
                members &= ~(ONE << np.uint64(u))
                size, largest = size - 1, largest - 1
                n_pivots, leaf = n_pivots + 1, leaf + 1
            elif degree > largest:
                pivot, largest = u, degree
        search.sets[at] = members
        if pivot < 0:
            search.leaves[leaf] += ONE
        elif size == 2:
            # Two that are not adjacent: two branches, each a leaf.
            search.total[2] += np.uint64(2)
            search.leaves[leaf + 1] += ONE
            search.leaves[leaf + search.pivot_of.size + 1] += ONE
            pivot = -1
        return pivot, n_pivots
    search.leaves[leaf] += ONE
    if lacking > 0 and size > 0:
        search.leaves[leaf + search.pivot_of.size + 1] += np.uint64(size)
        if lacking == 2 and size > 1:
            edges = 0
            while left:
                u = lowest_bit(left)
                left &= left - ONE
                edges += popcount(left & rows[rows_at + u])
            search.leaves[leaf + 2 * (search.pivot_of.size + 1)] += np.uint64(edges)
            search.total[2] += np.uint64(size // 2)
    return -1, n_pivots


@compiled
def _search_narrow(
    search: CliqueStack,
    rows_at: int,
    begin: int,
    at: int,
    n_held: int,
    n_pivots: int,
    least: int,
    most: int,
) -> None:
    """Search the tree below a node, of level ``begin``, for a total, with rows of one word.

    The sets of the level begin at ``at``, and those of further ones follow.
    """
    level, entering = begin, True
    while level >= begin:
        chosen = -1
        if entering:
            entering = False
            chosen, n_pivots = _enter_narrow(search, rows_at, at, n_held, n_pivots, least, most)
            if chosen >= 0:
                search.rest[at] = search.sets[at] & ~search.rows[rows_at + chosen]
                search.pivot_of[level] = chosen
                search.held_at[level] = n_held
                search.pivots_at[level] = n_pivots
        elif search.rest[at]:
            n_held, n_pivots = search.held_at[level], search.pivots_at[level]
            chosen = lowest_bit(search.rest[at])
        if chosen < 0:
            level, at = level - 1, at - 1
            continue
        if chosen == search.pivot_of[level]:
            n_pivots += 1
        else:
            n_held += 1
        others = ~(ONE << np.uint64(chosen))
        search.rest[at] &= others
        search.sets[at] &= others
        search.sets[at + 1] = search.sets[at] & search.rows[rows_at + chosen]
        search.total[2] += ONE
        level, at, entering = level + 1, at + 1, True


@compiled
def _search_item(search: CliqueStack, d: int, least: int, most: int, choose: Sums, per: int) -> None:
    """Search the tree of one root."""
    w, frame = words_of(d), 0
    stride = w
    search.frames[0, WIDTH] = w
    fill_span(search.sets, d)
    level, n_held, n_pivots = 0, 1, 0
    entering = True
    while level >= 0:
        at = level * stride
        if entering:
            entering, size = False, 0
            for word in range(w):
                size += popcount(search.sets[at + word])
            if 2 * words_of(size) <= w and most - n_held > 2 and n_held + n_pivots + size >= least and size > 2:
                _make_frame(search, frame, level, at, size)
                frame += 1
                w = words_of(size)
                search.total[2] += np.uint64(size * w)
            rows_at = search.frames[frame, ROWS_AT]
            if w == 1 and per == TOTAL:
                _search_narrow(search, rows_at, level, at, n_held, n_pivots, least, most)
                chosen = -1
            else:
                node = n_held, n_pivots, size
                chosen, n_pivots = _enter_node(search, frame, w, d, at, node, (least, most), choose, per)
            if chosen >= 0:
                for word in range(w):
                    search.rest[at + word] = search.sets[at + word] & ~search.rows[rows_at + chosen * w + word]
                search.pivot_of[level] = chosen
                search.held_at[level] = n_held
                search.pivots_at[level] = n_pivots
        else:
            n_held, n_pivots = search.held_at[level], search.pivots_at[level]
            chosen = first_bit(search.rest, at, w)
        if chosen < 0:
            level -= 1
            if frame > 0 and search.frames[frame, BEGUN] > level:
                frame -= 1
                w = search.frames[frame, WIDTH]
            continue
        number = search.numbers[search.frames[frame, NUMBERS_AT] + chosen]
        if chosen == search.pivot_of[level]:
            search.pivots[n_pivots] = number
            n_pivots += 1
        else:
            search.held[n_held - 1] = number
            n_held += 1
        _take_branch(search, frame, w, at, at + stride, chosen)
        search.total[2] += np.uint64(w)
        level += 1
        entering = True


@compiled
def count_pivots(
    later: Later,
    search: CliqueStack,
    roots: Ints,
    begin: int,
    end: int,
    least: int,
    most: int,
    choose: Sums,
    per: int,
) -> None:
    """Count the cliques of ``least`` to ``most`` vertices with their first vertex among the roots of a chunk."""
    for place in range(begin, end):
        root = roots[place]
        d = open_root(later, search, root, False)
        if d + 1 < least:
            continue
        if per != TOTAL:
            search.sums[:d] = 0
            search.root_sum[0] = 0
        if per == PER_EDGE:
            search.pair_sums[: d * d] = 0
        _search_item(search, d, least, most, choose, per)
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
