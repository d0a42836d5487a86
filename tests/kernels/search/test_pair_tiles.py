"""Pairs of rows by tiles, and matrices that a block fills: each in a kernel of a few lines, against the definition."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.kernels.device.constants import DENSE_BINS, LEAF_BINS
from tests.tools.devices import emulator

_TILES = """
#include "pairs.cuh"
extern "C" __global__ void count_strips(unsigned* words, const int n, const int stride, const int n_words,
                                        const int until, const int least, int* counter, unsigned long long* sums,
                                        unsigned long long* intersected) {
    __shared__ unsigned counters[2 * kLeafWords], dense[kDenseBins];
    LeafHistogram::open_dense(dense);
    LeafHistogram leaves(counters + threadIdx.x / kWarpSize * kLeafWords, sums, least, dense);
    const RowList list{words, n, stride, n_words};
    for (;;) {
        int strip = lane_id() == 0 ? atomicAdd(counter, 1) : 0;
        strip = __shfl_sync(kFullMask, strip, 0);
        const int first = strip * kTileRows;
        if (first >= until) break;
        const long long done = count_strip<WIDE>(list, first, min(first + kTileRows, until), leaves);
        if (lane_id() == 0) atomicAdd(intersected, (unsigned long long)done);
    }
    leaves.flush();
    leaves.close_dense();
}
extern "C" __global__ void mark_strips(unsigned* words, const int n, const int stride, const int n_words,
                                       const int least, unsigned* sets, const int set_stride) {
    mark_strip(RowList{words, n, stride, n_words}, (int)blockIdx.x * kTileRows, n, least,
               sets + blockIdx.x * kTileRows * set_stride, set_stride);
}
"""
SHAPES = [(1, 1), (31, 2), (33, 1), (64, 4), (70, 5), (97, 9)]
"""Rows and words: less and more than a tile of either, and whole ones."""


def draw_rows(n: int, n_words: int, spare: int) -> tuple[NDArray[np.uint32], list[int]]:
    """Return n rows word-major with ``spare`` rows of ones behind them, which nobody may look at, and as integers."""
    random = np.random.default_rng(100 * n + n_words)
    words = np.full((n_words, n + spare), 2**32 - 1, np.uint32)
    words[:, :n] = random.integers(0, 2**32, (n_words, n), np.uint32)
    return words, [sum(int(words[k, i]) << 32 * k for k in range(n_words)) for i in range(n)]


@pytest.mark.parametrize("wide", [2, 4])
@pytest.mark.parametrize(("n", "n_words"), SHAPES)
def test_each_pair_of_rows_is_counted_once_by_what_it_shares(n: int, n_words: int, wide: int) -> None:
    device: Any = emulator(n)
    words, rows = draw_rows(n, n_words, 3)
    xp, least, until = device.xp, 8 * n_words, max(1, n - 5)
    sums, done = xp.zeros(32 * n_words + 1, dtype=np.uint64), xp.zeros(1, dtype=np.uint64)
    kernel = device.loads(_TILES, "tiles.cu", {"WIDE": wide}).get_function("count_strips")
    sizes = [np.int32(size) for size in (n, n + 3, n_words, until, least)]
    kernel((2,), (64,), (xp.asarray(words), *sizes, xp.zeros(1, dtype=np.int32), sums, done))
    pairs = [(rows[i] & rows[j]).bit_count() for i, j in combinations(range(n), 2) if i < until]
    found = device.to_host(sums)
    assert {int(at): int(found[at]) for at in np.flatnonzero(found)} == Counter(size for size in pairs if size >= least)
    assert int(device.to_host(done)[0]) == n_words * len(pairs)


@pytest.mark.parametrize(("n", "n_words"), SHAPES)
def test_the_later_rows_that_share_enough_are_marked(n: int, n_words: int) -> None:
    device: Any = emulator(n)
    words, rows = draw_rows(n, n_words, 3)
    least, n_strips = 8 * n_words, -(-n // 32)
    sets = device.xp.zeros(32 * n_strips * n_strips, dtype=np.uint32)
    kernel = device.loads(_TILES, "tiles.cu", {"WIDE": 2}).get_function("mark_strips")
    sizes = [np.int32(size) for size in (n, n + 3, n_words, least)]
    kernel((n_strips,), (32,), (device.xp.asarray(words), *sizes, sets, np.int32(n_strips)))
    marked = device.to_host(sets).reshape(32 * n_strips, n_strips)
    for i in range(32 * n_strips):
        first, later = i - i % 32, range(i + 1, n)
        wanted = sum(1 << j - first for j in later if (rows[i] & rows[j]).bit_count() >= least) if i < n else 0
        here = n_strips - first // 32
        assert sum(int(marked[i, k]) << 32 * k for k in range(here)) == wanted


_DENSE = """
#include "leaves.cuh"
extern "C" __global__ void count_leaves(const int n, const int largest, unsigned long long* sums) {
    __shared__ unsigned words[2 * kLeafWords], dense[kDenseBins];
    LeafHistogram::open_dense(dense);
    LeafHistogram leaves(words + threadIdx.x / kWarpSize * kLeafWords, sums, 3, dense);
    for (int i = 0; i < n; ++i) {
        leaves.reserve(1);
        leaves.add((lane_id() * 5 + i) % largest);
    }
    leaves.flush();
    leaves.close_dense();
}
"""


@pytest.mark.parametrize("full", [2, 7, 1 << 31])
def test_counters_of_a_block_are_brought_out_before_they_run_over(full: int) -> None:
    """Sizes of a warp's counters, of the block's and beyond both, from two blocks of two warps."""
    device: Any = emulator(full % 97)
    n, largest = 40, 3 + LEAF_BINS + DENSE_BINS + 20
    sums = device.xp.zeros(largest, dtype=np.uint64)
    for first in (1, 50, largest):
        kernel = device.loads(_DENSE, "dense.cu", {"DENSE_LEAVES": full}).get_function("count_leaves")
        kernel((2,), (64,), (np.int32(n), np.int32(first), sums))
    leaves = [(lane * 5 + i) % first for first in (1, 50, largest) for lane in range(32) for i in range(n)]
    wanted = Counter(size for size in leaves if size >= 3)
    found = device.to_host(sums)
    assert {int(at): int(found[at]) for at in np.flatnonzero(found)} == {
        size: 4 * count for size, count in wanted.items()
    }


_FILL = """
#include "bit_matrix.cuh"
extern "C" __global__ void fill_by_block(const long long* row_starts, const int* row_ids,
                                         const long long* column_starts, const int* column_ids, const int* ids,
                                         const int n_ids, const int* members, const int n_members, unsigned* slab,
                                         const int near_words, unsigned* out) {
    extern __shared__ unsigned near[];
    Arena arena{near, slab, near_words, 0, 1 << 14, 0};
    const Adjacency rows{row_starts, row_ids}, columns{column_starts, column_ids};
    for (int round = 0; round < 2; ++round) {
        const Arena::Mark mark = arena.mark();
        const RowList list = fill_rows<BlockFill>(arena, ids, n_ids, members, n_members, rows, columns);
        for (int i = threadIdx.x; i < list.n * list.n_words; i += blockDim.x) out[i] = list.words[i];
        __syncthreads();
        arena.release(mark);
    }
}
"""


@pytest.mark.parametrize("near_words", [0, 512, 8192])
@pytest.mark.parametrize(("n_left", "n_right"), [(40, 400), (400, 40)])
def test_a_block_fills_the_matrix_of_a_root(n_left: int, n_right: int, near_words: int) -> None:
    """Along the rows of either layer, with room for the matrix, for a table of places beside it, and for nothing."""
    device: Any = emulator(near_words)
    random = np.random.default_rng(n_left)
    edges = random.random((n_left, n_right)) < 0.2

    def rows_of(matrix: NDArray[np.bool_]) -> list[Any]:
        starts = np.concatenate(([0], np.cumsum(matrix.sum(axis=1))))
        return [device.xp.asarray(starts), device.xp.asarray(np.nonzero(matrix)[1].astype(np.int32))]

    ids, members = (np.flatnonzero(random.random(n) < 0.6).astype(np.int32) for n in (n_right, n_left))
    n_words = -(-ids.size // 32)
    out = device.xp.zeros(members.size * n_words, dtype=np.uint32)
    sought = [device.xp.asarray(ids), np.int32(ids.size), device.xp.asarray(members), np.int32(members.size)]
    kernel = device.loads(_FILL, "fill.cu", {}).get_function("fill_by_block")
    slab = device.xp.empty(1 << 14, dtype=np.uint32)
    given = (*rows_of(edges), *rows_of(edges.T.copy()), *sought, slab, np.int32(near_words), out)
    kernel((1,), (96,), given, shared_mem=4 * near_words)
    found = device.to_host(out).reshape(n_words, members.size)
    for place, member in enumerate(members.tolist()):
        wanted = sum(int(bit) << j for j, bit in enumerate(edges[member, ids].tolist()))
        assert sum(int(found[k, place]) << 32 * k for k in range(n_words)) == wanted
