"""The loops of percolation: join motifs that share enough vertices, without a list of pairs.

A motif is a set of vertices of one layer, or one set of each of two layers. In each layer vertices are numbered by
*rank*, those in the fewest motifs first, and a motif holds its ranks in ascending order. Motifs that share at least
``shared`` vertices of each layer are adjacent. The components of this relation are wanted, not the relation itself,
which may have billions of pairs.

* :func:`join_windows` finds most of a component at little cost. Each run of ``shared`` consecutive ranks of a motif is
  hashed into a table, which returns an earlier motif that probably has the same run.
* :func:`join_rest` completes the components. Of two adjacent motifs in different components, one is outside the largest
  one, so it is enough to search from these, and the search of a motif ends when it has joined the largest component.
  Two sets of n and m vertices that share s have one of the first n - s + 1 of one among the first m - s + 1 of the
  other (the prefixes of Chaudhuri, Ganti and Kaushik, ICDE 2006), so lists of motifs are kept for the ranks of prefixes
  only. A prefix has the rarest vertices, whose lists are short.

Every pair is compared before it is joined, so hashes and threads affect the speed, never the result. Threads have
union-finds of their own; one that misses what another found only compares more pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, Sums, compiled, inlined
from papilio.kernels.listing import sort_span
from papilio.kernels.peel.forest import find_root

Members = NDArray[np.int32]


class Side(NamedTuple):
    """One layer of all motifs."""

    offsets: Ints
    """Bounds of each motif in ``members``, shape (n_motifs + 1,)."""
    members: Members
    """Ranks of the vertices of each motif, ascending."""
    codes: Sums
    """Random number of each rank, for hashes."""
    shared: int
    """Minimum number of vertices that adjacent motifs share; no motif is smaller."""


class Prefixes(NamedTuple):
    """The motifs that have each rank in their prefix."""

    starts: Ints
    """Bounds of each rank in ``motifs``, shape (n_ranks + 1,)."""
    motifs: Members


class Joining(NamedTuple):
    """State of one thread."""

    above: Members
    """Union-find over the motifs, shape (n_motifs,)."""
    sizes: Members
    """Number of motifs of each root."""
    marks: Members
    """Latest motif that was marked at each rank of the first layer; -1 before."""
    other_marks: Members
    """The same for the second layer."""
    seen: Members
    """Latest motif that each motif was compared with by :func:`join_rest`; -1 before."""


@compiled
def rank_members(offsets: Ints, members: Members, ranks: Members, begin: Index, end: Index) -> None:
    """Replace the vertices of the motifs ``[begin, end)`` by their ranks, ascending."""
    for motif in range(begin, end):
        for at in range(offsets[motif], offsets[motif + 1]):
            members[at] = ranks[members[at]]
        sort_span(members, offsets[motif], offsets[motif + 1])


@compiled
def unite(above: Members, sizes: Members, one: Index, other: Index) -> None:
    """Join the components of two motifs."""
    a, b = find_root(above, one), find_root(above, other)
    if a != b:
        if sizes[a] < sizes[b]:
            a, b = b, a
        above[b] = a
        sizes[a] += sizes[b]


@compiled
def merge(above: Members, sizes: Members, others: Members) -> None:
    """Join all motifs that are joined in another union-find."""
    for motif in range(above.size):
        unite(above, sizes, motif, others[motif])


@compiled
def find_roots(above: Members, motifs: Members, roots: Members) -> None:
    """Write the root of each motif."""
    for place in range(motifs.size):
        roots[place] = find_root(above, motifs[place])


@inlined
def _mark(side: Side, marks: Members, motif: Index) -> None:
    for at in range(side.offsets[motif], side.offsets[motif + 1]):
        marks[side.members[at]] = motif


@inlined
def _shares(side: Side, marks: Members, motif: Index, other: Index) -> bool:
    """Whether ``other`` has enough vertices of the marked ``motif``."""
    begin, end = side.offsets[other], side.offsets[other + 1]
    missing, spare = side.shared, end - begin - side.shared
    for at in range(begin, end):
        if missing == 0 or spare < 0:
            break
        if marks[side.members[at]] == motif:
            missing -= 1
        else:
            spare -= 1
    return bool(missing == 0)


@compiled
def _compare(first: Side, second: Side, state: Joining, motif: Index, other: Index) -> bool:
    """Join the marked ``motif`` with ``other`` if they are adjacent and not yet joined. Return whether they were."""
    if find_root(state.above, motif) == find_root(state.above, other):
        return False
    if not (_shares(first, state.marks, motif, other) and _shares(second, state.other_marks, motif, other)):
        return False
    unite(state.above, state.sizes, motif, other)
    return True


@inlined
def _first_code(side: Side, motif: Index) -> np.uint64:
    """Return the hash of the first run of a motif."""
    code = np.uint64(0)
    for at in range(side.offsets[motif], side.offsets[motif] + side.shared):
        code += side.codes[side.members[at]]
    return code


@inlined
def _next_code(side: Side, motif: Index, shift: Index, code: np.uint64) -> np.uint64:
    """Return the hash after the run has moved from ``shift`` to the next rank, if there is one."""
    left = side.offsets[motif] + shift
    right = left + side.shared
    if right < side.offsets[motif + 1]:
        code += side.codes[side.members[right]] - side.codes[side.members[left]]
    return code


@compiled
def join_windows(
    first: Side, second: Side, motifs: Members, begin: Index, end: Index, state: Joining, table: Members
) -> None:
    """Join motifs ``motifs[begin:end]`` with motifs that have the same run of ranks.

    ``table``, of a power of two of entries, has the latest motif of each hash, -1 before; threads share it.
    """
    for place in range(begin, end):
        motif = motifs[place]
        _mark(first, state.marks, motif)
        _mark(second, state.other_marks, motif)
        free = first.offsets[motif + 1] - first.offsets[motif] - first.shared
        other_free = second.offsets[motif + 1] - second.offsets[motif] - second.shared
        code, other_code = _first_code(first, motif), _first_code(second, motif)
        for shift in range(max(free, other_free) + 1):
            slot = np.int64((code + other_code) >> np.uint64(20)) & (table.size - 1)
            found = table[slot]
            table[slot] = motif
            if found >= 0:
                _compare(first, second, state, motif, found)
            code = _next_code(first, motif, shift, code)
            other_code = _next_code(second, motif, shift, other_code)


@inlined
def _prefix_end(side: Side, motif: Index) -> np.int64:
    """Return the end of the prefix of a motif in ``members``; the prefix is empty without shared vertices."""
    return np.int64(side.offsets[motif + 1] - side.shared + 1 if side.shared else side.offsets[motif])


@compiled
def count_prefixes(side: Side, motifs: Members, starts: Ints) -> None:
    """Add 1 to ``starts[rank + 1]`` for each rank in the prefix of each motif."""
    for motif in motifs:
        for at in range(side.offsets[motif], _prefix_end(side, motif)):
            starts[side.members[at] + 1] += 1


@compiled
def fill_prefixes(side: Side, motifs: Members, places: Ints, found: Members) -> None:
    """Write the motifs of each rank; ``places`` begin as the starts of the ranks."""
    for motif in motifs:
        for at in range(side.offsets[motif], _prefix_end(side, motif)):
            rank = side.members[at]
            found[places[rank]] = motif
            places[rank] += 1


@inlined
def _count_listed(side: Side, prefixes: Prefixes, motif: Index) -> np.int64:
    """Return the number of motifs that a search from this layer visits."""
    listed = np.int64(0)
    for at in range(side.offsets[motif], _prefix_end(side, motif)):
        rank = side.members[at]
        listed += prefixes.starts[rank + 1] - prefixes.starts[rank]
    return listed


@compiled
def _search(
    side: Side, prefixes: Prefixes, first: Side, second: Side, state: Joining, motif: Index, giant: Index
) -> None:
    """Compare a marked motif with all that have a rank of its prefix in theirs, until it has joined ``giant``."""
    for at in range(side.offsets[motif], _prefix_end(side, motif)):
        rank = side.members[at]
        for place in range(prefixes.starts[rank], prefixes.starts[rank + 1]):
            other = prefixes.motifs[place]
            if state.seen[other] != motif:
                state.seen[other] = motif
                joined = _compare(first, second, state, motif, other)
                if joined and find_root(state.above, motif) == find_root(state.above, giant):
                    return


@compiled
def join_rest(
    first: Side,
    second: Side,
    prefixes: Prefixes,
    other_prefixes: Prefixes,
    motifs: Members,
    begin: Index,
    end: Index,
    state: Joining,
    giant: Index,
) -> None:
    """Join motifs ``motifs[begin:end]`` with all adjacent ones, or with the component of ``giant``.

    Each is searched from the layer with fewer motifs to visit.
    """
    for place in range(begin, end):
        motif = motifs[place]
        if find_root(state.above, motif) == find_root(state.above, giant):
            continue
        _mark(first, state.marks, motif)
        _mark(second, state.other_marks, motif)
        visits, other_visits = _count_listed(first, prefixes, motif), _count_listed(second, other_prefixes, motif)
        if second.shared == 0 or (first.shared > 0 and visits <= other_visits):
            _search(first, prefixes, first, second, state, motif, giant)
        else:
            _search(second, other_prefixes, first, second, state, motif, giant)


_UNSEEN, _CHANGED = -2, -3


@compiled
def grow_tree(
    motifs: Members, roots: Members, latest: Members, made: Members, parents: Members, n_nodes: Index
) -> Index:
    """Give the components of a level their nodes, and return the number of nodes.

    A component that is one of the level before keeps its node; any other gets a new node, the parent of the nodes in
    it. ``roots`` are those of ``motifs``. ``latest`` has the node of each motif, -1 for a motif that is new at this
    level; ``made``, shape (n_motifs,), is overwritten.
    """
    first_new = n_nodes
    for root in roots:
        made[root] = _UNSEEN
    for place in range(motifs.size):
        root, node = roots[place], latest[motifs[place]]
        if node >= 0 and made[root] == _UNSEEN:
            made[root] = node
        elif made[root] != node:
            made[root] = _CHANGED
    for place in range(motifs.size):
        motif, root = motifs[place], roots[place]
        if made[root] == _CHANGED:
            made[root] = n_nodes
            n_nodes += 1
        if made[root] >= first_new:
            if latest[motif] >= 0:
                parents[latest[motif]] = made[root]
            latest[motif] = made[root]
    return n_nodes


@compiled
def gather_members(side: Side, motifs: Members, nodes: Members, marks: Members, keys: Ints) -> Index:
    """Write each vertex of each node once as ``node << 32 | rank``, and return their number.

    Motifs with the same node are consecutive. ``marks`` has the latest node that each rank was written for.
    """
    n_keys = np.int64(0)
    for place in range(motifs.size):
        motif, node = motifs[place], nodes[place]
        for at in range(side.offsets[motif], side.offsets[motif + 1]):
            rank = side.members[at]
            if marks[rank] != node:
                marks[rank] = node
                keys[n_keys] = np.int64(node) << 32 | np.int64(rank)
                n_keys += 1
    return n_keys


@compiled
def count_common(
    offsets: Ints,
    vertices: Members,
    starts: Ints,
    listed: Members,
    n_first: Index,
    counts: Ints,
    met: Members,
    pairs: Ints,
) -> Index:
    """Count the vertices that each two sets share, and return the number of pairs that share any.

    ``listed[starts[v] : starts[v + 1]]`` are the sets that have vertex v, ascending. Pairs are written to ``pairs``,
    shape (n, 3), as long as there is room: the earlier set, the later one, and their common vertices below ``n_first``
    plus 2^32 times the others. ``counts``, one for each set, are 0, and ``met`` has as many entries.
    """
    n_pairs = np.int64(0)
    for later in range(offsets.size - 1):
        n_met = np.int64(0)
        for at in range(offsets[later], offsets[later + 1]):
            vertex = vertices[at]
            for place in range(starts[vertex], starts[vertex + 1]):
                earlier = listed[place]
                if earlier >= later:
                    break
                if counts[earlier] == 0:
                    met[n_met] = earlier
                    n_met += 1
                counts[earlier] += 1 if vertex < n_first else 1 << 32
        for place in range(n_met):
            if n_pairs < pairs.shape[0]:
                pairs[n_pairs, 0], pairs[n_pairs, 1], pairs[n_pairs, 2] = met[place], later, counts[met[place]]
            counts[met[place]] = 0
            n_pairs += 1
    return n_pairs
