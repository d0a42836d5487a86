"""Branch and bound for largest cliques on the later neighbours of a root, as a square matrix of bits.

Candidates are coloured greedily, class by class, on words of 64 bits. Neighbours have different colours, so the
candidates up to colour c have no clique of more than c vertices. The search branches from the last colour down;
candidates that cannot beat the bound are never put on the stack (Tomita and Seki 2003; San Segundo et al., Computers &
Operations Research 38(2), 2011). Candidate i is the i-th last of the later neighbours: the latest, which have most
neighbours among themselves, are coloured first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.loops import fill_matrix
from papilio.kernels.clique.order import Later
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.search.bits import ONE, Words, fill_span, lowest_bit, popcount, words_of


class MaximumSearch(NamedTuple):
    """Memory of one thread; d is the maximum number of later neighbours of a root, w its words.

    ``rows`` (d * w) is the matrix, ``names`` (d) the vertex of each row. ``sets`` ((d + 1) * w) are the candidates by
    level, ``uncoloured`` and ``class_`` (w) the current ones. ``stack`` and ``colours`` (d * (d + 1) / 2 + 1) hold the
    candidates still to branch on with their colours, level after level: level l from ``starts[l]`` to below ``tops[l]``
    (d + 1). ``path`` (d + 1) is the current clique, ``found`` (d + 1) the largest one. ``place`` (n) is -1 between
    roots. ``best`` (n) is the size of the largest known clique of every vertex, by rank, if requested. ``record`` (3)
    has the size and the item of the largest clique of all, and the number of its members in ``members`` (d + 1), as
    ranks.
    """

    rows: Words
    names: NDArray[np.int32]
    sets: Words
    uncoloured: Words
    class_: Words
    stack: NDArray[np.int32]
    colours: NDArray[np.int32]
    starts: Ints
    tops: Ints
    path: NDArray[np.int32]
    found: NDArray[np.int32]
    place: Ints
    best: NDArray[np.int32]
    record: Ints
    members: NDArray[np.int32]


def search_bytes(n: int, most: int) -> int:
    """Return the bytes of :func:`make_maximum_search`, for n vertices with at most ``most`` later neighbours."""
    w = (most + 63) >> 6
    return 8 * (2 * most * w + 3 * w) + 4 * most * (most + 1) + 40 * most + 12 * n


def make_maximum_search(later: Later, most: int, best: NDArray[np.int32] | None = None) -> MaximumSearch:
    """Return the memory of a thread; ``best`` holds the sizes known so far, or None if not needed."""
    n, w = later.indptr.size - 1, max(1, (most + 63) >> 6)
    n_stack = most * (most + 1) // 2 + 1
    return MaximumSearch(
        rows=np.zeros(most * w, np.uint64),
        names=np.zeros(most, np.int32),
        sets=np.zeros((most + 1) * w, np.uint64),
        uncoloured=np.zeros(w, np.uint64),
        class_=np.zeros(w, np.uint64),
        stack=np.zeros(n_stack, np.int32),
        colours=np.zeros(n_stack, np.int32),
        starts=np.zeros(most + 1, np.int64),
        tops=np.zeros(most + 1, np.int64),
        path=np.zeros(most + 1, np.int32),
        found=np.zeros(most + 1, np.int32),
        place=np.full(n, -1, np.int64),
        best=np.zeros(0, np.int32) if best is None else best,
        record=np.array([0, -1, 0], np.int64),
        members=np.zeros(most + 1, np.int32),
    )


@compiled
def _open_root(later: Later, search: MaximumSearch, root: int, d: int) -> None:
    end = later.indptr[root + 1]
    for i in range(d):
        search.names[i] = later.ids[end - 1 - i]
    fill_matrix(later, search.names, search.place, search.rows, later.edges[:0], d, False)


@compiled
def _colour(search: MaximumSearch, level: int, w: int, least: int, top: int) -> int:
    """Colour the candidates of a level. Push colours from ``least`` on and return the end of the stack."""
    at = level * w
    left = np.uint64(0)
    for word in range(w):
        search.uncoloured[word] = search.sets[at + word]
        left |= search.sets[at + word]
    colour = 0
    while left:
        colour += 1
        for word in range(w):
            search.class_[word] = search.uncoloured[word]
        left = np.uint64(0)
        for word in range(w):
            while search.class_[word]:
                bit = lowest_bit(search.class_[word])
                chosen = word * 64 + bit
                search.class_[word] &= search.class_[word] - ONE
                search.uncoloured[word] &= ~(ONE << np.uint64(bit))
                for x in range(word, w):
                    search.class_[x] &= ~search.rows[chosen * w + x]
                if colour >= least:
                    search.stack[top] = chosen
                    search.colours[top] = colour
                    top += 1
            left |= search.uncoloured[word]
    return top


@compiled
def _find_larger(search: MaximumSearch, w: int, held: int, bound: int, shared: Ints, first_only: bool) -> int:
    """Find the largest clique of more than ``bound`` vertices, among the candidates of level 0 and ``held`` more.

    Returns its size, or 0 without one; its candidates are the first entries of ``found``. ``shared`` (1) is the
    largest size found by any thread, and raises the bound. With ``first_only`` the first clique is enough.
    """
    level, size = 0, 0
    search.starts[0] = 0
    search.tops[0] = _colour(search, 0, w, bound - held + 1, 0)
    while level >= 0:
        bound = max(bound, shared[0])
        top = search.tops[level] - 1
        if top < search.starts[level] or held + level + search.colours[top] <= bound:
            level -= 1
            continue
        search.tops[level] = top
        chosen, at, left = search.stack[top], level * w, np.uint64(0)
        search.path[level] = chosen
        for word in range(w):
            search.sets[at + w + word] = search.sets[at + word] & search.rows[chosen * w + word]
            left |= search.sets[at + w + word]
        search.sets[at + (chosen >> 6)] &= ~(ONE << np.uint64(chosen & 63))
        if left:
            level += 1
            search.starts[level] = top
            search.tops[level] = _colour(search, level, w, bound - held - level + 1, top)
        elif held + level + 1 > bound:
            bound = size = held + level + 1
            for each in range(level + 1):
                search.found[each] = search.path[each]
            if first_only:
                break
            shared[0] = max(shared[0], bound)
    return size


@compiled
def search_largest(
    later: Later,
    search: MaximumSearch,
    roots: Ints,
    begin: int,
    end: int,
    shared: Ints,
    first_only: bool,
) -> None:
    """Find the largest clique with its first vertex among the roots of a chunk, if it is larger than any before.

    Searches for more than ``shared[0]`` vertices, which rises as cliques are found. With ``first_only`` it stays the
    same, and the first root with such a clique ends the chunk.
    """
    for item in range(begin, end):
        root = roots[item]
        d = int(later.indptr[root + 1] - later.indptr[root])
        bound = shared[0]
        if d + 1 <= bound:
            continue
        size = 1
        if d > 0:
            _open_root(later, search, root, d)
            fill_span(search.sets, d)
            size = _find_larger(search, words_of(d), 1, bound, shared, first_only)
        if size > max(bound, search.record[0]):
            search.record[0], search.record[1], search.record[2] = size, item, size
            search.members[0] = root
            for i in range(size - 1):
                search.members[i + 1] = search.names[search.found[i]]
            if first_only:
                return
            shared[0] = max(shared[0], size)


@compiled
def _raise_best(search: MaximumSearch, size: int, n_found: int, root: int, other: int) -> None:
    """Give the vertices of a clique its size: the found ones, the root, and another one (-1 for none)."""
    search.best[root] = max(search.best[root], size)
    if other >= 0:
        search.best[other] = max(search.best[other], size)
    for i in range(n_found):
        name = search.names[search.found[i]]
        search.best[name] = max(search.best[name], size)


@compiled
def search_every_vertex(later: Later, search: MaximumSearch, roots: Ints, begin: int, end: int, none: Ints) -> None:
    """Raise ``best`` of every vertex to its largest clique with its first vertex among the roots of a chunk.

    Searches for a clique larger than the known one for the root and each of its later neighbours. ``none`` (1) is room
    for a bound of this thread alone.
    """
    for item in range(begin, end):
        root = roots[item]
        d = int(later.indptr[root + 1] - later.indptr[root])
        w = words_of(d)
        search.best[root] = max(search.best[root], 1)
        least = search.best[root]
        for at in range(later.indptr[root], later.indptr[root + 1]):
            least = min(least, search.best[later.ids[at]])
        if d + 1 <= least:
            continue
        _open_root(later, search, root, d)
        if search.best[root] < d + 1:
            fill_span(search.sets, d)
            none[0] = 0
            size = _find_larger(search, w, 1, search.best[root], none, False)
            if size:
                _raise_best(search, size, size - 1, root, -1)
        for i in range(d):
            name, among = search.names[i], 0
            for word in range(w):
                search.sets[word] = search.rows[i * w + word]
                among += popcount(search.sets[word])
            if among + 2 <= search.best[name]:
                continue
            none[0] = 0
            size = _find_larger(search, w, 2, search.best[name], none, False)
            if size:
                _raise_best(search, size, size - 2, root, name)
