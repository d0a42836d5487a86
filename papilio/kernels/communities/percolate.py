"""Percolation on CPU threads: the communities of one size, or of every size with the tree that they form.

Palla, Derenyi, Farkas and Vicsek (Nature 435, 2005) call two k-cliques adjacent if they share k - 1 vertices; a
community is the union of k-cliques that chains of adjacent ones connect. It is enough to join *maximal* cliques of at
least k vertices that share at least k - 1:

* All k-cliques of one maximal clique are connected, since exchanging one vertex at a time leads from any to any other.
* If maximal cliques A and B share a set S of k - 1 vertices, S with another vertex of A and S with another vertex of B
  are k-cliques, which are the same or adjacent.
* Adjacent k-cliques share k - 1 vertices, and so do the maximal cliques that contain them.

Lehmann, Schwartz and Hansen (Physical Review E 78, 2008) call two (p, q)-bicliques adjacent if they share p - 1
vertices of U and q - 1 of V, or more. With S in each layer, the same argument holds for maximal bicliques of at least
p and q vertices that share at least p - 1 and q - 1.

Zeng, Li, Dai and Wang (arXiv 2512.19426, 2025) join maximal bicliques that share a (p, q)-biclique. These are the
communities of (p, q)-bicliques that are adjacent if they share p - 1 vertices of U and all q of V, or p and q - 1:

* All (p, q)-bicliques of one maximal biclique are connected, by exchanging one vertex of a layer at a time.
* Maximal bicliques that share a (p, q)-biclique both contain it.
* If (p, q)-bicliques share p - 1 vertices of U and q of V, all p + 1 and q vertices form a biclique. A maximal one that
  contains it shares a (p, q)-biclique with any maximal one that contains either of the two.

At a smaller k motifs are the same and more, and share more than enough, so every community is inside one of the next
smaller k. The sizes are therefore visited from the largest on, in one union-find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.communities.loops import (
    Joining,
    Members,
    Prefixes,
    Side,
    count_common,
    count_prefixes,
    fill_prefixes,
    find_roots,
    gather_members,
    grow_tree,
    join_rest,
    join_windows,
    merge,
    rank_members,
)
from papilio.kernels.exact import hash_rows
from papilio.kernels.jit import Ints
from papilio.kernels.threads import ChunkRunner, cut_by_cost

Rows = tuple[Ints, Members]
"""Vertices of one layer in each motif: row i is ``values[offsets[i] : offsets[i + 1]]``."""

Report = Callable[[float], None]
"""Called with the share of the work done, from 0 to 1, from any thread."""

MAX_MOTIFS = 2**30 - 1
"""Largest number of motifs: communities, of which there may be twice as many, are numbered in int32."""

_SERIAL_MOTIFS = 1 << 12
"""Below this number of motifs one thread joins them: a few milliseconds."""


class Level(NamedTuple):
    """One size of communities."""

    k: int  # minimum number of vertices of the first layer of a motif
    shared: tuple[int, int]  # vertices of each layer that adjacent motifs share


@dataclass(frozen=True, eq=False)
class Percolated:
    """Communities: by falling level, then by falling number of vertices, then by the first vertex."""

    levels: NDArray[np.int64]  # largest k at which each is a community, shape (n,)
    parents: NDArray[np.int32]  # community of the next smaller level that contains it, -1 for none; shape (n,)
    members: tuple[Rows, ...]  # vertices of each community, ascending, for each layer


def joining_bytes(n_motifs: int, n_members: int, threads: int) -> int:
    """Return the memory for motifs with ``n_members`` vertices in all, and to join them.

    Of each vertex its row, and the rows of lists of prefixes, or twice as much when the members of communities are
    gathered. Of each motif offsets, the table of hashes, union-finds, nodes and their orders.
    """
    return 12 * n_members + n_motifs * (96 + 12 * threads)


def percolate(
    columns: Sequence[Rows],
    n_vertices: Sequence[int],
    levels: Sequence[Level],
    threads: int,
    report: Report = lambda share: None,
) -> Percolated:
    """Join motifs that share enough vertices, at each level.

    Parameters
    ----------
    columns : one or two rows
        The vertices of each motif, in the layer or in both. The values are overwritten.
    n_vertices : sequence of int
        Number of vertices of each layer.
    levels : sequence of Level
        By falling k. A motif belongs to the levels whose k is at most its number of vertices of the first layer.
    """
    first = columns[0]
    n_motifs = first[0].size - 1
    columns = [*columns, (np.zeros(n_motifs + 1, np.int64), np.zeros(0, np.int32))][:2]
    sizes = np.diff(first[0])
    ranked = [_rank(column, n) for column, n in zip(columns, [*n_vertices, 0][:2], strict=True)]
    join = _Joiner(n_motifs, ranked, threads)
    tree = _Tree(n_motifs, ranked)
    for at, level in enumerate(levels):
        motifs = np.flatnonzero(sizes >= level.k).astype(np.int32)
        roots = join.join(motifs, level.shared, partial(_report_part, report, at, len(levels)))
        tree.add(level.k, motifs, roots)
    return tree.sorted(len(n_vertices))


def _report_part(report: Report, part: int, parts: int, share: float) -> None:
    report((part + share) / parts)


class _Ranked(NamedTuple):
    side: Side
    vertices: Members  # vertex of each rank


def _rank(column: Rows, n_vertices: int) -> _Ranked:
    """Number the vertices by the number of motifs that have them, and sort the motifs by these ranks."""
    offsets, members = column
    vertices = np.argsort(np.bincount(members, minlength=n_vertices), kind="stable").astype(np.int32)
    ranks = np.empty_like(vertices)
    ranks[vertices] = np.arange(vertices.size, dtype=np.int32)
    rank_members(offsets, members, ranks, 0, offsets.size - 1)
    codes = np.random.default_rng(0).integers(0, 2**64, vertices.size, np.uint64)
    return _Ranked(Side(offsets, members, codes, 0), vertices)


class _Joiner:
    """The union-find of all motifs, and the threads that extend it."""

    def __init__(self, n_motifs: int, ranked: Sequence[_Ranked], threads: int) -> None:
        self._ranked, self._threads = ranked, threads
        self._above, self._sizes = np.arange(n_motifs, dtype=np.int32), np.ones(n_motifs, np.int32)

    def join(self, motifs: Members, shared: tuple[int, int], report: Report) -> Members:
        """Join all of these motifs that share ``shared`` vertices of each layer; return the root of each."""
        first, second = (each.side._replace(shared=n) for each, n in zip(self._ranked, shared, strict=True))
        table = np.full(1 << (2 * motifs.size).bit_length(), -1, np.int32)
        self._run(motifs, lambda state, begin, end: join_windows(first, second, motifs, begin, end, state, table))
        roots = self._roots(motifs)
        giant = int(np.bincount(roots, minlength=1).argmax())
        rest = motifs[roots != giant]
        prefixes, others = _index(first, motifs), _index(second, motifs)
        done = count(1)

        def search(state: Joining, begin: int, end: int) -> None:
            join_rest(first, second, prefixes, others, rest, begin, end, state, giant)
            report(next(done) / n_chunks)

        n_chunks = len(self._cut(rest))
        self._run(rest, search)
        report(1)
        return self._roots(motifs)

    def _cut(self, motifs: Members) -> list[tuple[int, int]]:
        return cut_by_cost(np.ones(motifs.size, np.int64), self._threads, serial_cost=_SERIAL_MOTIFS)

    def _run(self, motifs: Members, work: Callable[[Joining, int, int], None]) -> None:
        """Run ``work`` on intervals of these motifs; each thread starts with what is joined so far."""
        runner = ChunkRunner(self._make_state, self._threads)
        runner.run(self._cut(motifs), work)
        for state in runner.states:
            merge(self._above, self._sizes, state.above)

    def _make_state(self) -> Joining:
        marks, other_marks = (np.full(each.vertices.size, -1, np.int32) for each in self._ranked)
        seen = np.full(self._above.size, -1, np.int32)
        return Joining(self._above.copy(), self._sizes.copy(), marks, other_marks, seen)

    def _roots(self, motifs: Members) -> Members:
        roots = np.empty_like(motifs)
        find_roots(self._above, motifs, roots)
        return roots


def _index(side: Side, motifs: Members) -> Prefixes:
    """List the motifs that have each rank in their prefix."""
    starts = np.zeros(side.codes.size + 1, np.int64)
    count_prefixes(side, motifs, starts)
    np.cumsum(starts, out=starts)
    found = np.empty(starts[-1], np.int32)
    fill_prefixes(side, motifs, starts[:-1].copy(), found)
    return Prefixes(starts, found)


_VERTEX = np.int64(2**32 - 1)
"""The bits of a vertex in a key; a node is above them."""


class _Tree:
    """The communities so far, level by level."""

    def __init__(self, n_motifs: int, ranked: Sequence[_Ranked]) -> None:
        self._ranked = ranked
        self._latest, self._made = np.full(n_motifs, -1, np.int32), np.empty(n_motifs, np.int32)
        self._parents = np.full(2 * n_motifs, -1, np.int32)  # a new node has a new motif, or joins two nodes
        self._levels: list[NDArray[np.int64]] = []
        self._keys: list[list[Ints]] = [[] for _ in ranked]
        self._n_nodes = 0
        self._marks = [np.full(each.vertices.size, -1, np.int32) for each in ranked]

    def add(self, k: int, motifs: Members, roots: Members) -> None:
        """Add the components of a level, with the root of each motif."""
        before = self._n_nodes
        self._n_nodes = int(grow_tree(motifs, roots, self._latest, self._made, self._parents, before))
        self._levels.append(np.full(self._n_nodes - before, k))
        nodes = self._latest[motifs]
        order = np.argsort(nodes, kind="stable")
        order = order[np.searchsorted(nodes[order], before) :]
        motifs, nodes = motifs[order], nodes[order]
        for (side, vertices), marks, keys in zip(self._ranked, self._marks, self._keys, strict=True):
            found = np.empty((side.offsets[motifs + 1] - side.offsets[motifs]).sum(), np.int64)
            found = found[: gather_members(side, motifs, nodes, marks, found)]
            found = (found & ~_VERTEX) | vertices[found & _VERTEX]
            found.sort()
            keys.append(found)

    def sorted(self, n_layers: int) -> Percolated:
        """Return the communities in their order."""
        levels = np.concatenate([np.zeros(0, np.int64), *self._levels])
        keys = [np.concatenate([np.zeros(0, np.int64), *each]) for each in self._keys[:n_layers]]
        offsets = [np.searchsorted(each, np.arange(levels.size + 1) << 32) for each in keys]
        rows = [(start, (each & _VERTEX).astype(np.int32)) for start, each in zip(offsets, keys, strict=True)]
        sizes = np.sum([np.diff(start) for start in offsets], axis=0)
        firsts = rows[0][1][offsets[0][:-1]]
        order = np.lexsort((hash_rows(*rows), firsts, -sizes, -levels))
        places = np.append(np.empty_like(order), -1)
        places[order] = np.arange(order.size)
        members = tuple(_take_rows(row, order) for row in rows)
        return Percolated(levels[order], places[self._parents[order]].astype(np.int32), members)


def _take_rows(rows: Rows, order: NDArray[np.int64]) -> Rows:
    offsets, values = rows
    sizes = np.diff(offsets)[order]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return ends, values[np.arange(ends[-1]) + np.repeat(offsets[order] - ends[:-1], sizes)]


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Pairs of communities with common vertices, by the second, then the first."""

    first: NDArray[np.int64]  # the earlier community, shape (n_pairs,)
    second: NDArray[np.int64]
    common: tuple[NDArray[np.int64], ...]  # number of common vertices of each layer


def find_overlaps(members: Sequence[Rows], n_vertices: Sequence[int], chosen: NDArray[np.int64]) -> Overlaps:
    """Count the common vertices of each two of the ``chosen`` communities, ascending."""
    rows = [_take_rows(each, chosen) for each in members]
    groups = np.concatenate([np.repeat(np.arange(chosen.size), np.diff(offsets)) for offsets, _ in rows])
    before = np.cumsum([0, *n_vertices])
    vertices = np.concatenate([ids + first for (_, ids), first in zip(rows, before[:-1], strict=True)])
    order = np.lexsort((vertices, groups))
    offsets = np.searchsorted(groups[order], np.arange(chosen.size + 1))
    starts = np.concatenate(([0], np.cumsum(np.bincount(vertices, minlength=before[-1]))))
    listed = groups[np.lexsort((groups, vertices))].astype(np.int32)
    given = offsets, vertices[order].astype(np.int32), starts, listed, int(before[1])
    scratch = np.zeros(chosen.size, np.int64), np.empty(chosen.size, np.int32)
    pairs = np.empty((0, 3), np.int64)
    pairs = np.empty((int(count_common(*given, *scratch, pairs)), 3), np.int64)
    count_common(*given, *scratch, pairs)
    pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    common = pairs[:, 2] & _VERTEX, pairs[:, 2] >> 32
    return Overlaps(chosen[pairs[:, 0]], chosen[pairs[:, 1]], common[: len(members)])
