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
#include "pairs.cuh"
extern "C" __global__ void count_slices(unsigned* words, const int n, const int n_words, const int first,
                                        const int least, const int near_words, unsigned* slab,
                                        unsigned long long* sums, int* n_columns) {
    __shared__ unsigned counters[kLeafWords], near[1024];
    LeafHistogram leaves(counters, sums, least);
    Arena arena{near, slab, near_words, 0, 1 << 14, 0};
    const RowList list{words, n, n, n_words};
    unsigned* const set = arena.take(n_words);
    const int united = unite_rows(list, set);
    int* const members = reinterpret_cast<int*>(arena.take(united));
    list_members(set, n_words, members);
    const RowList columns = transpose_rows(arena, list, 32 * n_words);
    const RowSlices slices =
        first < 0 ? slice_rows(arena, list, set, united) : slice_columns(arena, columns, members, united, first);
    for (int block = 0; block < slices.n_blocks; ++block) count_sliced(slices, block, leaves);
    leaves.flush();
    if (lane_id() == 0) *n_columns = united;
}
"""


@pytest.mark.parametrize("n_columns", [1, 4, 12, 13, 31, 32, 33, 64, 124])
@pytest.mark.parametrize(("n", "n_words"), [(2, 5), (31, 4), (33, 4), (64, 7), (101, 4)])
def test_each_pair_of_rows_is_counted_once_by_what_it_shares(n: int, n_words: int, n_columns: int) -> None:
    """Columns anywhere in the words; blocks and columns that do not fill a step; all rows, and those from one on."""
    device: Any = emulator(n + n_columns)
    random = np.random.default_rng(100 * n + n_columns)
    xp, has = device.xp, random.random((n, n_columns)) < 0.7
    has[0] = True
    places = np.sort(random.choice(32 * n_words, n_columns, replace=False))
    words = np.zeros((n_words, n), np.uint32)
    for j, place in enumerate(places.tolist()):
        words[place // 32] |= has[:, j].astype(np.uint32) << np.uint32(place % 32)
    kernel = device.loads(_SLICES, "slices.cu", {}).get_function("count_slices")
    for least, first in ((1, 0), (2, n // 3), (4, n - 2), (2, -1), (3, -1)):
        found, columns = xp.zeros(n_columns + 8, dtype=np.uint64), xp.zeros(1, dtype=np.int32)
        sizes = [np.int32(size) for size in (n, n_words, first, least, 512 if n_columns % 2 else 0)]
        kernel((1,), (32,), (xp.asarray(words), *sizes, xp.empty(1 << 14, dtype=np.uint32), found, columns))
        shared = Counter(int((has[i] & has[j]).sum()) for i, j in combinations(range(max(first, 0), n), 2))
        assert int(columns[0]) == n_columns
        assert {int(at): int(found[at]) for at in np.flatnonzero(found)} == {
            size: times for size, times in shared.items() if size >= least
        }


_MANY = """
#include "leaves.cuh"
extern "C" __global__ void count_many(const int rounds, const int largest, unsigned long long* sums) {
    __shared__ unsigned words[2 * kLeafWords], dense[kDenseBins];
    LeafHistogram::open_dense(dense);
    LeafHistogram leaves(words + threadIdx.x / kWarpSize * kLeafWords, sums, 3, dense);
    for (int i = 0; i < rounds; ++i)
        for (int size = 3; size < largest; size += kSizeGroup) {
            const unsigned n[kSizeGroup] = {lane_id() * 31u + i, 0u, i == 2 ? 900u : 1u, lane_id() * 1u};
            leaves.reserve(1000);
            leaves.add_group(size, n);
        }
    leaves.flush();
    leaves.close_dense();
}
"""


@pytest.mark.parametrize("full", [1 << 16, 1 << 31])
def test_many_leaves_of_a_size_at_once(full: int) -> None:
    """Of a warp's counters, of the block's, which run over, and beyond both."""
    device: Any = emulator(full % 97)
    rounds, largest = 9, 3 + LEAF_BINS + DENSE_BINS + 8
    sums = device.xp.zeros(largest, dtype=np.uint64)
    kernel = device.loads(_MANY, "many.cu", {"DENSE_LEAVES": full}).get_function("count_many")
    kernel((2,), (64,), (np.int32(rounds), np.int32(largest), sums))
    lanes = range(32)
    each = [
        sum(lane * 31 + i for lane in lanes for i in range(rounds)),
        0,
        32 * (899 + rounds),
        rounds * sum(lanes),
    ]
    assert device.to_host(sums).tolist() == [0] * 3 + [4 * n for n in each] * ((largest - 3) // 4)
