"""Compiled probes of the searches for cliques and maximal cliques: one random branch of an item's tree.

A probe opens the root as the search does, and descends the same tree. At each node it checks the number of candidates
of every branch: branches with none or one are counted whole, and one of the others is drawn by the most cliques that it
can hold, or by the square root of that bound: the first suits the count in dense graphs, the second the work. Nodes
that lack two vertices of the largest size are counted whole, as the search counts them. The words of a root include the
list entries read to open it; the words of a leaf include the sums that it adds to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.clique.loops import PER_VERTEX, TOTAL, CliqueStack, make_search, open_root
from papilio.kernels.clique.maximal_loops import (
    Earlier,
    MaximalSearch,
    choose_extended,
    make_maximal_search,
    open_excluded,
)
from papilio.kernels.clique.order import Later
from papilio.kernels.clique.pivot_loops import choose_pivot, count_pairs
from papilio.kernels.clique.question import (
    WHOLE,
    Narrowing,
    ProbeTables,
    list_maximal_bounds,
    list_probe_tables,
)
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.probe import FIELDS, NODES, WORDS, Found, unpack_found
from papilio.kernels.search.bits import ONE, Words, fill_span, lowest_bit, popcount, words_of
from papilio.kernels.search.probe_loops import (
    Floats,
    begin_probe,
    draw_child,
    weigh,
)
from papilio.kernels.threads import ChunkRunner, cut_by_cost


class _Path(NamedTuple):
    """The path of a probe (:func:`draw_child`); ``places`` (d + 1) has the branches of a node."""

    places: Ints
    chances: Floats
    state: Words


@compiled
def _share(sets: Words, begin: int, rows: Words, row: int, w: int) -> int:
    """Return the number of members of a set in a row."""
    size = 0
    for word in range(w):
        size += popcount(sets[begin + word] & rows[row * w + word])
    return size


@compiled
def _size_of(sets: Words, w: int) -> int:
    size = 0
    for word in range(w):
        size += popcount(sets[word])
    return size


@compiled
def _take_branch(sets: Words, rest: Words, w: int, n: int) -> int:
    """Return the candidate of branch n, and remove the candidates of earlier branches from ``sets``."""
    for word in range(w):
        bits = rest[word]
        while bits:
            if n == 0:
                return word * 64 + lowest_bit(bits)
            bit = bits & (~bits + ONE)
            sets[word] &= ~bit
            bits ^= bit
            n -= 1
    return -1


@compiled
def _add_leaves(found: Floats, weight: float, n: int, tables: ProbeTables, held: int, free: int) -> None:
    """Count n equal leaves: their cliques, and the total number of their vertices."""
    if n <= 0:
        return
    last, most = tables.ways.shape[0] - 1, tables.most
    count = tables.ways[min(most - held, last), free]
    members = (most if tables.least == most else held) * count
    if tables.least != most and free > 0 and held < most:
        members += free * tables.ways[min(most - held - 1, last), free - 1]
    found[0] += weight * (n * count)
    found[1] += weight * (n * members)


@compiled
def _count_sums(per: int, n_path: int, size: int, edges: int) -> int:
    """Return the number of sums of vertices, or edges, that a leaf adds to, for its path and adjacent candidates."""
    if per == TOTAL:
        return 0
    if per == PER_VERTEX:
        return n_path + size
    return n_path * (n_path - 1) // 2 + n_path * size + edges


@compiled
def _end_branches(
    found: Floats,
    weight: float,
    ended: tuple[int, int, int],
    node: tuple[int, int],
    w: int,
    tables: ProbeTables,
    per: int,
) -> None:
    """Count the branches that are not drawn: with no candidate, with one, and with too few for any clique.

    ``ended`` has the number of each kind; each child ``node`` has these numbers of held and free vertices.
    """
    (none, single, dead), (held, free) = ended, node
    found[NODES] += weight * (none + single + dead)
    _add_leaves(found, weight, none, tables, held, free)
    if tables.most - held <= 2:
        _add_leaves(found, weight, single, tables, held, free)
        _add_leaves(found, weight, single, tables, held + 1, free)
    else:
        _add_leaves(found, weight, single, tables, held, free + 1)
        found[WORDS] += weight * (single * w)
    sums = none * _count_sums(per, held + free, 0, 0) + single * _count_sums(per, held + free, 1, 0)
    found[WORDS] += weight * sums


@compiled
def _end_pairs(
    search: CliqueStack,
    found: Floats,
    weight: float,
    node: tuple[int, int, int],
    widths: tuple[int, int],
    oriented: bool,
    tables: ProbeTables,
    per: int,
) -> None:
    """Count a node that lacks one or two vertices of the largest size.

    ``widths`` are the words of a row here, and in the search.
    """
    (held, free, size), (w, width) = node, widths
    words = edges = 0
    _add_leaves(found, weight, 1, tables, held, free)
    _add_leaves(found, weight, size, tables, held + 1, free)
    if tables.most - held == 2 and size > 1:
        edges = count_pairs(search, 0, 0, w)
        _add_leaves(found, weight, edges, tables, held + 2, free)
        words = size * width // 2
        if oriented:
            words = 0
            for word in range(w):
                words += popcount(search.sets[word]) * (w - word)
    found[WORDS] += weight * (words + _count_sums(per, held + free, size, edges))


@compiled
def _list_branches(
    search: CliqueStack, w: int, pivot: int, node: tuple[int, int], tables: ProbeTables, path: _Path
) -> tuple[int, tuple[int, int, int]]:
    """Set the places of all branches, the pivot's first; return their number and ``ended`` of :func:`_end_branches`."""
    (held, free), least, most = node, tables.least, tables.most
    last_row, stride = tables.ways.shape[0] - 1, tables.ways.shape[1]
    n, none, single, dead = 0, 0, 0, 0
    for word in range(w):
        search.rest[word] = search.sets[word]
    if pivot >= 0:
        for word in range(w):
            search.rest[word] &= ~search.rows[pivot * w + word]
        bit = ONE << np.uint64(pivot & 63)
        search.rest[pivot >> 6] &= ~bit
        search.sets[pivot >> 6] &= ~bit
        n = 1
        shared = free + 1 + _share(search.sets, 0, search.rows, pivot, w)
        path.places[0] = min(most - held, last_row) * stride + shared
        if held + shared < least:
            path.places[0] = -1
            dead = 1
    for word in range(w):
        search.sets[w + word] = search.sets[word]
    row_at = min(most - held - 1, last_row) * stride + free
    for word in range(w):
        bits = search.rest[word]
        while bits:
            row = word * 64 + lowest_bit(bits)
            size = _share(search.sets, w, search.rows, row, w)
            path.places[n] = row_at + size
            if held + 1 + free + size < least:
                path.places[n] = -1
                dead += 1
            elif size <= 1:
                path.places[n] = -1
                none += size == 0
                single += size == 1
            search.sets[w + word] &= ~(ONE << np.uint64(row & 63))
            bits &= bits - ONE
            n += 1
    return n, (none, single, dead)


@compiled
def _walk_cliques(
    search: CliqueStack,
    found: Floats,
    d: int,
    oriented: bool,
    tables: ProbeTables,
    path: _Path,
    per: int,
) -> None:
    """Descend one branch below a root with a filled matrix. The sets of level 1 are scratch."""
    w, least, most = words_of(d), tables.least, tables.most
    fill_span(search.sets, d)
    held, free = 1, 0
    width, n_columns = w, d  # of the matrix that the search has here
    while True:
        weight = weigh(path.chances)
        size = _size_of(search.sets, w)
        found[NODES] += weight
        if held + free + size < least:
            return
        if 0 < most - held <= 2:
            _end_pairs(search, found, weight, (held, free, size), (w, width), oriented, tables, per)
            return
        whole, bits, fewest = tables.narrowing
        is_few = size > fewest and 2 * (-(-size // bits)) <= -(-n_columns // bits)
        if not oriented and held < most and d > whole and is_few:
            width, n_columns = words_of(size), size
            found[WORDS] += weight * (size * width)
        pivot = -1
        if not oriented and held < most:
            pivot, free = choose_pivot(search, 0, 0, 0, w, size, free)
            found[WORDS] += weight * (size * width)
        if held == most or (pivot < 0 and not oriented):
            _add_leaves(found, weight, 1, tables, held, free)
            found[WORDS] += weight * _count_sums(per, held + free, 0, 0)
            return
        n, ended = _list_branches(search, w, pivot, (held, free), tables, path)
        _end_branches(found, weight, ended, (held + 1, free), width, tables, per)
        found[WORDS] += weight * (n * width)
        chosen = draw_child(path.state, path.places, n, tables.bounds, path.chances)
        if chosen < 0:
            return
        if chosen == 0 and pivot >= 0:
            free += 1
        else:
            pivot = _take_branch(search.sets, search.rest, w, chosen - (pivot >= 0))
            held += 1
        for word in range(w):
            search.sets[word] &= search.rows[pivot * w + word]


@compiled
def _count_entries(later: Later, indptr: Ints, ids: NDArray[np.int32], root: int) -> int:
    """Return the total later neighbours of a root's later neighbours: the entries read to open it."""
    entries = 0
    for at in range(indptr[root], indptr[root + 1]):
        entries += later.indptr[ids[at] + 1] - later.indptr[ids[at]]
    return entries


@compiled
def _probe_cliques(
    later: Later,
    search: CliqueStack,
    found: Floats,
    probes: tuple[Ints, Words],
    begin: int,
    end: int,
    oriented: bool,
    tables: ProbeTables,
    path: _Path,
    per: int,
) -> None:
    roots, seeds = probes
    for probe in range(begin, end):
        begin_probe(path.state, seeds[probe], path.chances)
        d = open_root(later, search, roots[probe], oriented)
        _walk_cliques(search, found[probe], d, oriented, tables, path, per)
        if oriented and tables.most == 3:
            found[probe, WORDS] = 0.0  # triangles are counted as the lists are read, without a matrix
        found[probe, WORDS] += float(_count_entries(later, later.indptr, later.ids, roots[probe]))


@compiled
def _keep_excluded(search: MaximalSearch, w: int, n: int, chosen: int) -> int:
    """Keep, of n excluded vertices, the ones next to a candidate and to one of its own; return their number."""
    kept = 0
    word_at, bit = chosen >> 6, ONE << np.uint64(chosen & 63)
    for place in range(n):
        row = search.excluded[place]
        if search.rows[row * w + word_at] & bit and _share(search.sets, 0, search.rows, row, w):
            search.excluded[kept] = row
            kept += 1
    return kept


@compiled
def _is_extended(search: MaximalSearch, w: int, row: int) -> Any:
    """Return whether a branch's candidate is next to an excluded vertex, or to one of an earlier branch.

    ``rest`` has the branches of the node, then the candidates that touch excluded vertices.
    """
    at, bit = row >> 6, ONE << np.uint64(row & 63)
    met = search.rest[w + at] & bit
    for word in range(at + 1):
        before = search.rest[word] if word < at else search.rest[at] & (bit - ONE)
        met |= before & search.rows[row * w + word]
    return met != 0


@compiled
def _walk_maximal(
    search: MaximalSearch,
    found: Floats,
    d: int,
    n_excluded: int,
    least: int,
    bounds: tuple[Floats, Floats],
    path: _Path,
) -> None:
    """Descend one branch below a root with a filled matrix. The sets of level 1 are scratch."""
    w, held = words_of(d), 0
    fill_span(search.sets, d)
    while True:
        held += 1
        weight = weigh(path.chances)
        size = _size_of(search.sets, w)
        found[NODES] += weight
        if held + size < least:
            return
        found[WORDS] += weight * ((size + n_excluded) * w)
        search.excluded_at[0], search.excluded_at[1] = 0, n_excluded
        pivot = choose_extended(search, 0, w, size)
        if pivot < 0:
            return
        for word in range(w):
            search.rest[word] = search.sets[word] & ~search.rows[pivot * w + word]
            search.sets[w + word] = search.sets[word]
            search.rest[w + word] = 0
        for place in range(n_excluded):
            row = search.excluded[place]
            for word in range(w):
                search.rest[w + word] |= search.rows[row * w + word]
        n = maximal = dead = 0
        for word in range(w):
            bits = search.rest[word]
            while bits:
                row = word * 64 + lowest_bit(bits)
                size = _share(search.sets, w, search.rows, row, w)
                path.places[n] = size
                if size == 0:
                    maximal += not _is_extended(search, w, row)
                    path.places[n] = -1
                elif held + 1 + size < least:
                    dead += 1
                    path.places[n] = -1
                search.sets[w + word] &= ~(ONE << np.uint64(row & 63))
                bits &= bits - ONE
                n += 1
        found[WORDS] += weight * (n * w)
        found[NODES] += weight * dead
        if held + 1 >= least:
            found[0] += weight * maximal
            found[1] += weight * (maximal * (held + 1))
        chosen = draw_child(path.state, path.places, n, bounds, path.chances)
        if chosen < 0:
            return
        for word in range(w):
            search.sets[w + word] = search.sets[word]
        pivot = _take_branch(search.sets, search.rest, w, chosen)
        # The candidates of earlier branches are excluded.
        for word in range(w):
            before = search.sets[w + word] & ~search.sets[word]
            while before:
                search.excluded[n_excluded] = word * 64 + lowest_bit(before)
                before &= before - ONE
                n_excluded += 1
            search.sets[word] &= search.rows[pivot * w + word]
        n_excluded = _keep_excluded(search, w, n_excluded, pivot)


@compiled
def _probe_maximal(
    graph: tuple[Later, Earlier],
    search: MaximalSearch,
    found: Floats,
    probes: tuple[Ints, Words],
    begin: int,
    end: int,
    least: int,
    bounds: tuple[Floats, Floats],
    path: _Path,
) -> None:
    (later, earlier), (roots, seeds) = graph, probes
    for probe in range(begin, end):
        root = roots[probe]
        begin_probe(path.state, seeds[probe], path.chances)
        d = int(later.indptr[root + 1] - later.indptr[root])
        if d == 0:
            is_alone = earlier.indptr[root] == earlier.indptr[root + 1] and least <= 1
            found[probe, 0], found[probe, 1], found[probe, NODES] = is_alone, is_alone, 1
            continue
        n_excluded = open_excluded(later, earlier, search, root, d)
        _walk_maximal(search, found[probe], d, n_excluded, least, bounds, path)
        found[probe, WORDS] += float(_count_entries(later, later.indptr, later.ids, root))
        found[probe, WORDS] += float(_count_entries(later, earlier.indptr, earlier.ids, root))


def probe_cliques(
    later: Later,
    roots: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    oriented: bool,
    limits: tuple[int, int],
    per: int,
    most_later: int,
    threads: int,
    narrowing: Narrowing = WHOLE,
) -> Found:
    """Probe each root once, for cliques from the least to the most vertices.

    Roots have up to ``most_later`` neighbours. Words are those of a search with this ``narrowing``.
    """
    tables, probes = list_probe_tables(*limits, most_later, narrowing), (roots, seeds)

    def walk(found: Floats, state: Any, begin: int, end: int) -> None:
        _probe_cliques(later, state[0], found, probes, begin, end, oriented, tables, state[1], per)

    return _run(later, roots, lambda: make_search(later, most_later, 0, 0), walk, threads)


@compiled
def _bound_roots(
    later: Later, search: CliqueStack, found: Floats, roots: Ints, begin: int, end: int, bounds: Floats
) -> None:
    for probe in range(begin, end):
        d = open_root(later, search, roots[probe], True)
        w = words_of(d)
        for row in range(d):
            size = 0
            for word in range(w):
                size += popcount(search.rows[row * w + word])
            found[probe, 0] += bounds[size]


def bound_roots(
    later: Later, roots: NDArray[np.int64], limits: tuple[int, int], most_later: int, threads: int
) -> Floats:
    """Return the sum of the bounds of the branches of each root (:func:`list_probe_tables`), and 1 if it is a clique.

    Limits are the least and most vertices. A root of cliques of one size has none if this is 0.
    """
    tables = list_probe_tables(*limits, most_later)
    bounds = tables.bounds[0].reshape(tables.ways.shape)[min(max(limits[1] - 2, 0), tables.ways.shape[0] - 1)]

    def walk(found: Floats, state: Any, begin: int, end: int) -> None:
        _bound_roots(later, state[0], found, roots, begin, end, bounds)

    found = _run(later, roots, lambda: make_search(later, most_later, 0, 0), walk, threads)
    return found.motifs + float(limits[0] == 1)


def count_edges(later: Later, roots: NDArray[np.int64], threads: int) -> Floats:
    """Return the number of edges among the later neighbours of each root."""
    seeds, most_later = np.zeros(roots.size, np.uint64), int(np.diff(later.indptr).max(initial=0))
    return probe_cliques(later, roots, seeds, True, (3, 3), TOTAL, most_later, threads).motifs


def probe_maximal(
    later: Later,
    earlier: Earlier,
    roots: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    least: int,
    most_later: int,
    threads: int,
) -> Found:
    """Probe each root once, as :func:`probe_cliques`, for maximal cliques of at least ``least`` vertices."""
    bounds = list_maximal_bounds(most_later)
    graph, probes = (later, earlier), (roots, seeds)

    def walk(found: Floats, state: Any, begin: int, end: int) -> None:
        _probe_maximal(graph, state[0], found, probes, begin, end, least, bounds, state[1])

    return _run(later, roots, lambda: make_maximal_search(later, earlier), walk, threads)


def _run(
    later: Later,
    roots: NDArray[np.int64],
    make_search: Callable[[], Any],
    walk: Callable[[Floats, Any, int, int], None],
    threads: int,
) -> Found:
    out, n = np.diff(later.indptr), roots.size
    found = np.zeros((n, FIELDS))

    def make_state() -> tuple[Any, _Path]:
        places = np.empty(int(out.max(initial=0)) + 1, np.int64)
        return make_search(), _Path(places, np.empty(3), np.empty(1, np.uint64))

    runner = ChunkRunner(make_state, threads)
    runner.run(cut_by_cost(1 + out[roots] ** 2, threads), lambda state, *span: walk(found, state, *span))
    return unpack_found(found)
