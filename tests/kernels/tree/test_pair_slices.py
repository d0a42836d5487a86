"""Pairs of rows by slices: in a kernel of a few lines, against the definition."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from papilio.kernels.device.constants import DENSE_BINS, LEAF_BINS
from tests.tools.devices import emulator

_SLICES = """
#include "pair_slices.cuh"
extern "C" __global__ void count_slices(unsigned* words, const int n, const int n_words, const int* listed,
                                        const int n_listed, const int least, const int near_words, unsigned* slab,
                                        unsigned long long* sums, int* n_columns) {
    __shared__ unsigned counters[kLeafWords], near[1024];
    LeafHistogram leaves(counters, sums, least);
    Arena arena{near, slab, near_words, 0, 1 << 14, 0};
    const RowList list{words, n, n, n_words};
    unsigned* const columns = arena.take(n_words);
    const int united = unite_rows(list, columns);
    const RowSlices slices = slice_rows(arena, list, LISTED ? listed : nullptr, LISTED ? n_listed : n,
                                        [&](int k) { return columns[k]; }, united);
    for (int block = 0; block < slices.n_blocks; ++block) count_sliced(slices, block, leaves);
    leaves.flush();
    if (lane_id() == 0) *n_columns = united;
}
"""


@pytest.mark.parametrize("n_columns", [1, 4, 15, 16, 31, 32, 33, 64, 127])
@pytest.mark.parametrize(("n", "n_words"), [(2, 5), (31, 4), (33, 4), (64, 7), (101, 4)])
def test_each_pair_of_rows_is_counted_once_by_what_it_shares(n: int, n_words: int, n_columns: int) -> None:
    """Columns anywhere in the words; blocks and columns that do not fill a step; all rows, and a choice of them."""
    device: Any = emulator(n + n_columns)
    random = np.random.default_rng(100 * n + n_columns)
    xp, has = device.xp, random.random((n, n_columns)) < 0.7
    has[0] = True  # a row that has all columns
    places = np.sort(random.choice(32 * n_words, n_columns, replace=False))
    words = np.zeros((n_words, n), np.uint32)
    for j, place in enumerate(places.tolist()):
        words[place // 32] |= has[:, j].astype(np.uint32) << np.uint32(place % 32)
    chosen = np.flatnonzero(random.random(n) < 0.6).astype(np.int32)
    for listed in (0, 1):
        rows = chosen.tolist() if listed else range(n)
        found, columns = xp.zeros(n_columns + 1, dtype=np.uint64), xp.zeros(1, dtype=np.int32)
        kernel = device.loads(_SLICES, "slices.cu", {"LISTED": listed}).get_function("count_slices")
        sizes = (np.int32(n), np.int32(n_words), xp.asarray(chosen), np.int32(chosen.size), np.int32(1))
        memory = np.int32(512 if n_columns % 2 else 0), xp.empty(1 << 14, dtype=np.uint32)
        kernel((1,), (32,), (xp.asarray(words), *sizes, *memory, found, columns))
        shared = Counter(int((has[i] & has[j]).sum()) for i, j in combinations(rows, 2))
        assert int(columns[0]) == n_columns
        assert {int(at): int(found[at]) for at in np.flatnonzero(found)} == {
            size: times for size, times in shared.items() if size
        }


_MANY = """
#include "leaf_histogram.cuh"
extern "C" __global__ void count_many(const int rounds, const int largest, unsigned long long* sums) {
    __shared__ unsigned words[2 * kLeafWords], dense[kDenseBins];
    LeafHistogram::open_dense(dense);
    LeafHistogram leaves(words + threadIdx.x / kWarpSize * kLeafWords, sums, 3, dense);
    for (int i = 0; i < rounds; ++i)
        for (int size = 3; size < largest; ++size) {
            leaves.reserve(1000);
            leaves.add_many(size, (unsigned)(lane_id() * 31 + i));
        }
    leaves.flush();
    leaves.close_dense();
}
"""


@pytest.mark.parametrize("full", [1 << 16, 1 << 31])
def test_many_leaves_of_a_size_at_once(full: int) -> None:
    """Of a warp's counters, of the block's, which run over, and beyond both."""
    device: Any = emulator(full % 97)
    rounds, largest = 9, 3 + LEAF_BINS + DENSE_BINS + 5
    sums = device.xp.zeros(largest, dtype=np.uint64)
    kernel = device.loads(_MANY, "many.cu", {"DENSE_LEAVES": full}).get_function("count_many")
    kernel((2,), (64,), (np.int32(rounds), np.int32(largest), sums))
    each = 4 * sum(lane * 31 + i for lane in range(32) for i in range(rounds))
    assert device.to_host(sums).tolist() == [0] * 3 + [each] * (largest - 3)
