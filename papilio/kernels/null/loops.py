"""Compiled loops of the null models: trades of rows and of vertices, distinct positions, permuted signs.

Every random word is a hash of a key and a number, ``mix(key + number * STEP)``: the generator SplitMix64 (Steele, Lea
and Flood, OOPSLA 2014), read at any place. The words of one key are all different, since ``mix`` is one to one: no tie
needs a rule. ``trade.cu`` draws the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.exact import mix
from papilio.kernels.jit import Index, Ints, compiled, inlined, prefetch
from papilio.kernels.probe import STEP
from papilio.kernels.search.bits import Words

Vertices = NDArray[np.int32]

_mix = cast(Callable[[np.uint64], np.uint64], compiled(mix))
_UPPER = np.uint64(0xFFFFFFFF00000000)
_FEW = 16
"""Up to this number of words, all are compared with each other, which needs no branch."""

_AHEAD = 16
"""Vertices ahead whose neighbours are loaded into the cache; their places twice as far ahead. With the other loads
ahead, a trade of 1.9 million edges takes two thirds of the time."""

MAX_BINS = 1 << 10
"""Counters that :func:`find_smallest` needs."""


class TradeRoom(NamedTuple):
    """Working memory of one thread for trades; see :meth:`make` for the amount."""

    order: Words
    unordered: Words
    starts: Ints
    words: Words
    chosen: Words
    bins: Ints
    pool: Vertices
    is_shared: NDArray[np.bool_]
    left: Vertices
    right: Vertices

    @classmethod
    def make(cls, n_rows: int, max_degree: int) -> TradeRoom:
        """Allocate for ``n_rows`` rows that trade, the longest with ``max_degree`` entries."""
        pooled = 2 * max_degree + 1
        return cls(
            np.empty(n_rows, np.uint64),
            np.empty(n_rows, np.uint64),
            np.empty((1 << max(1, (n_rows - 1).bit_length())) + 1, np.int64),
            np.empty(pooled, np.uint64),
            np.empty(pooled, np.uint64),
            np.empty(MAX_BINS, np.int64),
            np.empty(pooled, np.int32),
            np.empty(pooled, np.bool_),
            np.empty(pooled, np.int32),
            np.empty(pooled, np.int32),
        )


@inlined
def draw_at(key: np.uint64, number: Index) -> np.uint64:
    """Return the random word of a number under a key."""
    return _mix(key + np.uint64(number) * STEP)


@compiled
def order_rows(key: np.uint64, rows: Vertices, room: TradeRoom) -> None:
    """Fill ``room.order`` with a random order of the rows: words that rise, with the rows in their lower halves.

    The upper half of a word comes from a random word of the row. The words are spread over as many bins as rows.
    """
    unordered, order, starts = room.unordered, room.order, room.starts
    n_bins = np.uint64(len(starts) - 1)
    starts[:] = 0
    for i in range(len(rows)):
        word = (draw_at(key, rows[i]) & _UPPER) | np.uint64(rows[i])
        unordered[i] = word
        starts[((word >> np.uint64(32)) * n_bins >> np.uint64(32)) + np.uint64(1)] += 1
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    for i in range(len(rows)):
        at = (unordered[i] >> np.uint64(32)) * n_bins >> np.uint64(32)
        order[starts[at]] = unordered[i]
        starts[at] += 1
    _sort_few(order, len(rows))


@compiled
def _sort_few(words: Words, n: Index) -> None:
    for i in range(1, n):
        word, at = words[i], i
        while at > 0 and words[at - 1] > word:
            words[at] = words[at - 1]
            at -= 1
        words[at] = word


@inlined
def _find_among_few(words: Words, n: Index, k: Index) -> np.uint64:
    """Return the k-th smallest, from 1, of n different words; O(n^2), without a branch for each."""
    smallest: np.uint64 = words[0]
    for i in range(n):
        rank = 1
        for j in range(n):
            rank += words[j] < words[i]
        smallest = words[i] if rank == k else smallest
    return smallest


@compiled
def find_smallest(words: Words, n: Index, k: Index, chosen: Words, bins: Ints) -> np.uint64:
    """Return the k-th smallest, from 1, of n different words; ``chosen`` is room for n, ``bins`` for MAX_BINS.

    Each round keeps the words of one bin by their highest bits; O(n) for random words.
    """
    if n <= _FEW:
        return _find_among_few(words, n, k)
    for i in range(n):
        chosen[i] = words[i]
    shift = 64
    while n > _FEW:
        bits = 4
        while bits < 10 and n >> (bits + 1) and shift > bits:
            bits += 1
        bits = min(bits, shift)
        shift -= bits
        mask = np.uint64((1 << bits) - 1)
        bins[: 1 << bits] = 0
        for i in range(n):
            bins[(chosen[i] >> np.uint64(shift)) & mask] += 1
        goal = 0
        while k > bins[goal]:
            k -= bins[goal]
            goal += 1
        kept = 0
        for i in range(n):
            word = chosen[i]
            chosen[kept] = word
            kept += np.int64((word >> np.uint64(shift)) & mask) == goal
        n = kept
    return _find_among_few(chosen, n, k)


@inlined
def _trade_single(
    columns: Vertices, single: Index, begin: Index, end: Index, pair_key: np.uint64, is_first: bool
) -> None:
    """Trade a row of one entry with another row: as :func:`_trade_pair`, for most pairs of sparse graphs.

    The first row of a pair receives the column with the smallest word, the second one that with the largest.
    """
    own, place = columns[single], single
    best = draw_at(pair_key, own)
    for at in range(begin, end):
        if columns[at] == own:
            return
        word = draw_at(pair_key, columns[at])
        is_better = (word < best) == is_first
        best, place = word if is_better else best, at if is_better else place
    if place == single:
        return
    columns[single] = columns[place]
    while place > begin and columns[place - 1] > own:
        columns[place] = columns[place - 1]
        place -= 1
    while place + 1 < end and columns[place + 1] < own:
        columns[place] = columns[place + 1]
        place += 1
    columns[place] = own


@compiled
def _trade_pair(offsets: Ints, columns: Vertices, one: Index, other: Index, key: np.uint64, room: TradeRoom) -> None:
    """Pool the columns that only one of two rows has, and deal them again; both rows stay sorted.

    The words of the columns are drawn under a key of the pair, so that they do not depend on the order of a row.
    """
    pool, words, is_shared, left, right = room.pool, room.words, room.is_shared, room.left, room.right
    i, i_end, j, j_end = offsets[one], offsets[one + 1], offsets[other], offsets[other + 1]
    begin_i, begin_j = i, j
    n, n_pooled, n_own = 0, 0, 0
    pair_key = draw_at(key, one)
    if i_end - i == 1:
        _trade_single(columns, i, j, j_end, pair_key, True)
        return
    if j_end - j == 1:
        _trade_single(columns, j, i, i_end, pair_key, False)
        return
    while i < i_end and j < j_end:
        is_left, is_right = columns[i] <= columns[j], columns[j] <= columns[i]
        pool[n] = columns[i] if is_left else columns[j]
        words[n_pooled] = draw_at(pair_key, pool[n])
        is_shared[n] = is_left and is_right
        n_pooled += not is_shared[n]
        n_own += not is_right
        n, i, j = n + 1, i + is_left, j + is_right
    n_own += i_end - i
    while i < i_end or j < j_end:
        at = i if i < i_end else j
        pool[n], words[n_pooled], is_shared[n] = columns[at], draw_at(pair_key, columns[at]), False
        n, n_pooled, i, j = n + 1, n_pooled + 1, i + (i < i_end), j + (i >= i_end)
    if n_own == 0 or n_own == n_pooled:
        return
    last = find_smallest(words, n_pooled, n_own, room.chosen, room.bins)
    i = j = taken = 0
    words[n_pooled] = 0  # looked at, never used
    for at in range(n):
        goes_left = words[taken] <= last
        left[i] = right[j] = pool[at]
        i += is_shared[at] or goes_left
        j += is_shared[at] or not goes_left
        taken += not is_shared[at]
    for at in range(i):
        columns[begin_i + at] = left[at]
    for at in range(j):
        columns[begin_j + at] = right[at]


@compiled
def turn_rows(offsets: Ints, ids: Vertices, other_offsets: Ints, places: Ints, other_ids: Vertices) -> None:
    """Fill the rows of the other layer, which begin at ``other_offsets``; ``places`` is room for as many. Sorted."""
    for at in range(len(places)):
        places[at] = other_offsets[at]
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            other_ids[places[ids[at]]] = row
            places[ids[at]] += 1


@inlined
def layer_of(trade: int) -> int:
    """Return the layer whose rows trade: U, V, V, U, U, V, V, ..., so that rows are turned for every other trade."""
    return ((trade + 1) >> 1) & 1


class LayerRows(NamedTuple):
    """The rows of a layer, and what one thread needs to trade them."""

    offsets: Ints
    active: Vertices  # those that can change
    columns: Vertices
    places: Ints  # as many as rows
    room: TradeRoom


@compiled
def _trade_layer(layer: LayerRows, key: np.uint64, trade: int) -> None:
    order = layer.room.order
    order_rows(draw_at(key, 2 * trade), layer.active, layer.room)
    dealing = draw_at(key, 2 * trade + 1)
    for at in range(0, len(layer.active) - 1, 2):
        one, other = np.int64(np.uint32(order[at])), np.int64(np.uint32(order[at + 1]))
        _trade_pair(layer.offsets, layer.columns, one, other, dealing, layer.room)


@compiled
def trade_rows(u: LayerRows, v: LayerRows, key: np.uint64, begin: int, end: int) -> None:
    """Make the global trades ``[begin, end)`` of a sample, of which ``key`` is the key: random pairs of rows trade.

    The columns of U are right before and after; those of V are room.
    """
    current = 0
    for trade in range(begin, end):
        if layer_of(trade) == 0:
            if current:
                turn_rows(v.offsets, v.columns, u.offsets, u.places, u.columns)
            _trade_layer(u, key, trade)
        else:
            if not current:
                turn_rows(u.offsets, u.columns, v.offsets, v.places, v.columns)
            _trade_layer(v, key, trade)
        current = layer_of(trade)
    if current:
        turn_rows(v.offsets, v.columns, u.offsets, u.places, u.columns)


class VertexRoom(NamedTuple):
    """Working memory of one thread for trades of vertices."""

    turns: Ints  # of each vertex, the number of its pair, and the end of its neighbours known so far; shape (n, 2)
    marks: NDArray[np.uint8]  # of each vertex, 0 between pairs
    lists: Vertices  # neighbours, of each vertex from its offset on
    trade: TradeRoom

    @classmethod
    def make(cls, n: int, n_ends: int, n_active: int, max_degree: int) -> VertexRoom:
        """Allocate for n vertices, some of them active, with ``n_ends`` ends of edges."""
        turns, marks, lists = np.empty((n, 2), np.int64), np.zeros(n, np.uint8), np.empty(n_ends + 1, np.int32)
        return cls(turns, marks, lists, TradeRoom.make(n_active, max_degree))


@inlined
def _pass_edge(
    edges: tuple[Vertices, Vertices], n_done: int, owner: Index, end: Index, turn: int, room: VertexRoom
) -> int:
    """Tell an end whose turn comes later of its new neighbour, or keep the edge; return how many edges are kept."""
    if room.turns[end, 0] > turn:
        at = room.turns[end, 1]
        room.lists[at] = owner
        room.turns[end, 1] = at + 1
        return n_done
    edges[0][n_done], edges[1][n_done] = owner, end
    return n_done + 1


@compiled
def trade_vertices(
    offsets: Ints, edges: tuple[Vertices, Vertices], active: Vertices, key: np.uint64, begin: int, end: int,
    room: VertexRoom,
) -> None:  # fmt: skip
    """Make the global undirected trades ``[begin, end)`` of a sample, on edges in any order, which change.

    Pairs trade one after the other. An edge waits in the list of the end whose pair comes first; after the trade it
    passes to the other end's list, and after that trade it is done. An edge between partners stays.
    """
    us, vs = edges
    turns, marks, lists, trade_room = room
    words, pool, order = trade_room.words, trade_room.pool, trade_room.order
    n, n_active = len(turns), len(active)
    for trade in range(begin, end):
        order_rows(draw_at(key, 2 * trade), active, trade_room)
        dealing = draw_at(key, 2 * trade + 1)
        for at in range(n_active):
            turns[np.uint32(order[at]), 0] = at >> 1
        for vertex in range(n):
            turns[vertex, 1] = offsets[vertex]
        n_done = 0
        for edge in range(len(us)):
            first, second = us[edge], vs[edge]
            if turns[first, 0] == turns[second, 0]:
                us[n_done], vs[n_done] = first, second
                n_done += 1
                continue
            is_turned = turns[second, 0] < turns[first, 0]
            first, second = second if is_turned else first, first if is_turned else second
            place = turns[first, 1]
            lists[place] = second
            turns[first, 1] = place + 1
        for at in range(0, n_active, 2):
            one = np.int64(np.uint32(order[at]))
            other = np.int64(np.uint32(order[min(at + 1, n_active - 1)]))
            if at + 2 * _AHEAD < n_active:
                for back in range(2):
                    prefetch(turns, np.int64(np.uint32(order[at + 2 * _AHEAD - back])))
                    prefetch(lists, offsets[np.uint32(order[at + _AHEAD - back])])
            n_own = n_pooled = 0
            if other != one:
                for i in range(offsets[other], turns[other, 1]):
                    marks[lists[i]] = 1
            for i in range(offsets[one], turns[one, 1]):
                if marks[lists[i]]:
                    marks[lists[i]] = 2
                    n_done = _pass_edge(edges, n_done, one, lists[i], at >> 1, room)
                else:
                    prefetch(turns, np.int64(lists[i]))
                    pool[n_pooled], words[n_pooled] = lists[i], draw_at(dealing, i)
                    n_pooled += 1
            n_own = n_pooled
            if other != one:
                for i in range(offsets[other], turns[other, 1]):
                    if marks[lists[i]] == 2:
                        n_done = _pass_edge(edges, n_done, other, lists[i], at >> 1, room)
                    else:
                        prefetch(turns, np.int64(lists[i]))
                        pool[n_pooled], words[n_pooled] = lists[i], draw_at(dealing, i)
                        n_pooled += 1
                    marks[lists[i]] = 0
            for i in range(n_pooled):
                prefetch(lists, turns[pool[i], 1])
            last = np.uint64(0)
            if n_own:
                last = find_smallest(words, n_pooled, n_own, trade_room.chosen, trade_room.bins)
            for i in range(n_pooled):
                owner = one if n_own and words[i] <= last else other
                n_done = _pass_edge(edges, n_done, owner, pool[i], at >> 1, room)


@compiled
def draw_positions(key: np.uint64, n_cells: int, count: int, table: Ints, positions: Ints) -> None:
    """Draw ``count`` different numbers below ``n_cells``, all sets alike; they rise.

    ``table``, three times as long and two more, holds those drawn so far in order, about where they will stand.
    """
    bits = 1
    while bits < 63 and n_cells - 1 >> bits:
        bits += 1
    shift, scale = np.uint64(64 - bits), 2 * count / max(n_cells, 1)
    table[:] = -1
    n_drawn = number = 0
    while n_drawn < count:
        drawn: Index = np.int64(draw_at(key, number) >> shift)
        number += 1
        if drawn >= n_cells:
            continue
        at: Index = np.int64(drawn * scale)
        while -1 < table[at] < drawn:
            at += 1
        if table[at] == drawn:
            continue
        while table[at] >= 0:
            table[at], drawn = drawn, table[at]
            at += 1
        table[at] = drawn
        n_drawn += 1
    n_drawn = 0
    for at in range(len(table)):
        if table[at] >= 0:
            positions[n_drawn] = table[at]
            n_drawn += 1


@compiled
def place_edges(positions: Ints, is_absent: bool, n_columns: int, is_square: bool, us: Vertices, vs: Vertices) -> None:
    """Write the edges in the cells at ascending positions, or in all others.

    Cells are numbered row by row; ``is_square`` leaves those whose column is above their row.
    """
    n_found = at = 0
    row: Index = 0
    column: Index = 0
    begin: Index = 0
    while n_found < len(us):
        width = n_columns - (row + 1 if is_square else 0)
        if is_absent:
            if column == width:
                row, column, begin = row + 1, 0, begin + width
                continue
            if at < len(positions) and positions[at] == begin + column:
                at += 1
                column += 1
                continue
        else:
            column = positions[n_found] - begin
            if column >= width:
                row, begin = row + 1, begin + width
                continue
        us[n_found], vs[n_found] = row, column + (row + 1 if is_square else 0)
        n_found += 1
        column += 1


@compiled
def draw_signs(
    key: np.uint64, n_negative: int, words: Words, chosen: Words, bins: Ints, sign: NDArray[np.int8]
) -> None:
    """Give exactly ``n_negative`` of the edges the sign -1 and all others +1."""
    for edge in range(len(sign)):
        words[edge] = draw_at(key, edge)
    last = find_smallest(words, len(sign), n_negative, chosen, bins) if n_negative else np.uint64(0)
    for edge in range(len(sign)):
        sign[edge] = -1 if n_negative and words[edge] <= last else 1
