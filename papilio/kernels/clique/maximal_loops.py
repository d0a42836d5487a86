"""The loops of the CPU engine of maximal cliques: one call per chunk of roots, without the interpreter lock.

A maximal clique is found at its first vertex in the order, the root. The root's later neighbours are candidates, its
earlier neighbours are excluded: a clique that one of them extends is found elsewhere, or is not maximal. The search is
by Bron and Kerbosch with the pivot of Tomita et al. (2006), in the degeneracy order (Eppstein, Löffler and Strash,
2010). Candidates and excluded vertices have rows of bits over the candidates.

An excluded vertex next to no candidate can extend nothing below, and is dropped; one next to all candidates extends
everything below, and ends the branch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.loops import LEVEL, PLACE, RowBuffer, add_clique, fill_matrix
from papilio.kernels.clique.order import Later
from papilio.kernels.exact import mix
from papilio.kernels.jit import Ints, Sums, compiled
from papilio.kernels.offsets import count_ids, offsets_of
from papilio.kernels.search.bits import ONE, Words, fill_span, lowest_bit, popcount, words_of

_mix = compiled(mix)
"""Compiled for one value."""


class Earlier(NamedTuple):
    """The earlier neighbours of every vertex, by rank."""

    indptr: Ints
    ids: NDArray[np.int32]


class MaximalSearch(NamedTuple):
    """Memory of one thread; d and x are the maximum later and earlier neighbours of a root, w the words of d bits.

    ``rows`` ((d + x) * w): candidates, then excluded vertices. ``sets`` and ``rest`` ((d + 1) * w): by level, the
    candidates and the ones still to branch on. ``excluded``: the rows of excluded vertices, level after level, from
    ``excluded_at`` (d + 2). ``hash_at`` (d + 1): hash of the held vertices, by level. ``place`` (n) is -1 between
    roots. ``histogram`` (d + 2) counts by size; ``sums`` has the checksum, then the words intersected.
    """

    rows: Words
    names: NDArray[np.int32]
    sets: Words
    rest: Words
    excluded: NDArray[np.int32]
    excluded_at: Ints
    hash_at: Sums
    place: Ints
    histogram: Sums
    sums: Sums


def list_earlier(later: Later) -> Earlier:
    """Return the earlier neighbours of every vertex; one sort of the edges."""
    n = later.indptr.size - 1
    first = np.repeat(np.arange(n, dtype=np.int32), np.diff(later.indptr))
    return Earlier(offsets_of(count_ids(later.ids, n)), first[np.argsort(later.ids, kind="stable")])


def make_maximal_search(later: Later, earlier: Earlier) -> MaximalSearch:
    """Return the memory of a thread."""
    n = later.indptr.size - 1
    out, back = np.diff(later.indptr), np.diff(earlier.indptr)
    most, w = int(out.max(initial=0)), (int(out.max(initial=0)) + 63) >> 6
    most_rows = int((out + back).max(initial=0))
    return MaximalSearch(
        rows=np.zeros(most_rows * max(w, 1), np.uint64),
        names=np.zeros(most, np.int32),
        sets=np.zeros((most + 2) * max(w, 1), np.uint64),
        rest=np.zeros((most + 2) * max(w, 1), np.uint64),
        excluded=np.zeros(int(((out + back) * (out + 2)).max(initial=0)) + 1, np.int32),
        excluded_at=np.zeros(most + 3, np.int64),
        hash_at=np.zeros(most + 2, np.uint64),
        place=np.full(n, -1, np.int64),
        histogram=np.zeros(most + 2, np.uint64),
        sums=np.zeros(2, np.uint64),
    )


@compiled
def _fill_row(later: Later, search: MaximalSearch, name: int, row: int, w: int) -> bool:
    """Set the candidates next to a vertex; return whether there is any."""
    found = False
    for at in range(later.indptr[name], later.indptr[name + 1]):
        j = search.place[later.ids[at]]
        if j >= 0:
            search.rows[row * w + (j >> 6)] |= ONE << np.uint64(j & 63)
            found = True
    return found


@compiled
def open_excluded(later: Later, earlier: Earlier, search: MaximalSearch, root: int, d: int) -> int:
    """Fill the rows of a root and its d candidates. Return how many excluded vertices touch a candidate."""
    begin, w = later.indptr[root], words_of(d)
    for i in range(d):
        search.names[i] = later.ids[begin + i]
    fill_matrix(later, search.names, search.place, search.rows, later.edges[:0], d, False)
    for i in range(d):
        search.place[search.names[i]] = i
    n_rows = d
    for at in range(earlier.indptr[root], earlier.indptr[root + 1]):
        search.rows[n_rows * w : (n_rows + 1) * w] = 0
        if _fill_row(later, search, earlier.ids[at], n_rows, w):
            search.excluded[n_rows - d] = n_rows
            n_rows += 1
    for i in range(d):
        search.place[search.names[i]] = -1
    return n_rows - d


@compiled
def _shared(search: MaximalSearch, row: int, at: int, w: int) -> int:
    """Return the number of candidates of a level in a row."""
    size = 0
    for word in range(w):
        size += popcount(search.sets[at + word] & search.rows[row * w + word])
    return size


@compiled
def choose_extended(search: MaximalSearch, level: int, w: int, size: int) -> int:
    """Return the row next to most candidates; -1 if an excluded vertex is next to all of them."""
    at, best, most = level * w, -1, -1
    for place in range(search.excluded_at[level], search.excluded_at[level + 1]):
        row = search.excluded[place]
        shared = _shared(search, row, at, w)
        if shared == size:
            return -1
        if shared > most:
            best, most = int(row), shared
    for word in range(w):
        bits = search.sets[at + word]
        while bits:
            row = word * 64 + lowest_bit(bits)
            bits &= bits - ONE
            shared = _shared(search, row, at, w)
            if shared > most:
                best, most = row, shared
                if shared == size - 1:
                    return best
    return best


@compiled
def _branch(search: MaximalSearch, level: int, w: int, chosen: int) -> int:
    """Lay out the level below a candidate. Return its candidates, or -1 if a vertex extends the held ones."""
    at, below = level * w, (level + 1) * w
    word_at, bit = chosen >> 6, ONE << np.uint64(chosen & 63)
    size = 0
    for word in range(w):
        search.sets[below + word] = search.sets[at + word] & search.rows[chosen * w + word]
        size += popcount(search.sets[below + word])
    end = search.excluded_at[level + 1]
    for place in range(search.excluded_at[level], search.excluded_at[level + 1]):
        row = search.excluded[place]
        if search.rows[row * w + word_at] & bit:
            if size == 0:
                return -1
            for word in range(w):
                if search.sets[below + word] & search.rows[row * w + word]:
                    search.excluded[end] = row
                    end += 1
                    break
    search.excluded_at[level + 2] = end
    return size


@compiled
def _search_root(
    search: MaximalSearch, rows: RowBuffer, hashes: Sums, root: int, d: int, least: int, entering: bool
) -> int:
    """Find the maximal cliques of one root with at least one candidate. Return the words intersected.

    Resumes at the level of the cursor, and stops there if the block is full.
    """
    w, listing = words_of(d), rows.positions.size > 0
    level, work, size = rows.cursor[LEVEL], 0, d
    while level >= 0:
        at = level * w
        if entering:
            entering = False
            pivot = -1
            if level + 1 + size >= least:
                work += (size + search.excluded_at[level + 1] - search.excluded_at[level]) * w
                pivot = choose_extended(search, level, w, size)
            if pivot < 0:
                level -= 1
                continue
            for word in range(w):
                search.rest[at + word] = search.sets[at + word] & ~search.rows[pivot * w + word]
        chosen = -1
        for word in range(w):
            if search.rest[at + word]:
                chosen = word * 64 + lowest_bit(search.rest[at + word])
                break
        if chosen < 0:
            level -= 1
            continue
        # A vertex already branched on is excluded from later branches, and is no neighbour of itself in its own.
        end = search.excluded_at[level + 1]
        search.excluded[end] = chosen
        search.excluded_at[level + 1] = end + 1
        size = _branch(search, level, w, chosen)
        work += w
        bit = ONE << np.uint64(chosen & 63)
        search.rest[at + (chosen >> 6)] &= ~bit
        search.sets[at + (chosen >> 6)] &= ~bit
        held = search.hash_at[level] + hashes[search.names[chosen]]
        rows.path[level + 1] = search.names[chosen]
        if size == 0:
            if level + 2 >= least:
                search.histogram[level + 2] += ONE
                search.sums[0] += _mix(held)
                if listing and not add_clique(rows, level + 2):
                    break
        elif size > 0:
            search.hash_at[level + 1] = held
            level += 1
            entering = True
    rows.cursor[LEVEL] = level
    return work


@compiled
def search_maximal(
    later: Later,
    earlier: Earlier,
    search: MaximalSearch,
    rows: RowBuffer,
    hashes: Sums,
    roots: Ints,
    end: int,
    least: int,
) -> bool:
    """Find the maximal cliques of at least ``least`` vertices with their first vertex among the roots below a place.

    Counts them, and lists them if there are positions; the held vertices enter only the checksum. Starts at the cursor.
    Returns whether the end was reached; if not, the block is full. ``hashes`` has the hash of each vertex, by rank.
    """
    listing = rows.positions.size > 0
    while rows.cursor[PLACE] < end:
        root = roots[rows.cursor[PLACE]]
        d = int(later.indptr[root + 1] - later.indptr[root])
        is_new = rows.cursor[LEVEL] < 0
        if is_new:
            rows.path[0] = root
            search.hash_at[0] = rows.held_hash[0] + hashes[root]
        if d == 0:
            rows.cursor[PLACE] += 1
            if earlier.indptr[root] == earlier.indptr[root + 1] and least <= 1:
                search.histogram[1] += ONE
                search.sums[0] += _mix(search.hash_at[0])
                if listing and not add_clique(rows, 1):
                    return False
            continue
        if d + 1 < least:
            rows.cursor[PLACE] += 1
            continue
        if is_new:
            search.excluded_at[0], search.excluded_at[1] = 0, open_excluded(later, earlier, search, root, d)
            fill_span(search.sets, d)
            rows.cursor[LEVEL] = 0
        search.sums[1] += np.uint64(_search_root(search, rows, hashes, root, d, least, is_new))
        if rows.cursor[LEVEL] >= 0:
            return False
        rows.cursor[PLACE] += 1
    return True
