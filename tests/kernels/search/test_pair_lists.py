"""Pairs of rows of many short lists: in a kernel of a few lines, against the definition."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from papilio.kernels.device.constants import RUN_ROWS
from tests.tools.devices import emulator

_LISTS = """
#include "pairs.cuh"
extern "C" __global__ void count_lists(unsigned* words, const int n, const int n_words, const int first, const int last,
                                       const unsigned* sets, const int stride, const int least,
                                       unsigned long long* sums, unsigned* left, long long* n_pairs) {
    __shared__ unsigned counters[kLeafWords], own[kRunWords];
    __shared__ NearOnes ones;
    ones.open(least);
    LeafHistogram leaves(counters, sums, least);
    long long counted = 0;
    const RowList rows{words, n, n, n_words};
    const unsigned others = count_short_lists(rows, first, last, sets, stride, own, ones, leaves, counted);
    leaves.flush();
    if (lane_id() == 0) *left = others;
    if (lane_id() == 0) *n_pairs = counted;
}
"""


@pytest.mark.parametrize("mean", [1.5, 9, 40])
@pytest.mark.parametrize("n_columns", [3, 11, 12, 31, 33, 90])
@pytest.mark.parametrize(("n", "first"), [(5, 0), (70, 40), (300, 64)])
def test_each_pair_of_a_list_is_counted_once_by_what_it_shares(n: int, first: int, n_columns: int, mean: float) -> None:
    """Lists of no rows and of many, of columns within a word and beyond; runs of all of them and of some."""
    device: Any = emulator(n + n_columns)
    random = np.random.default_rng(100 * n + n_columns + int(mean))
    xp, least, last = device.xp, 2 + n_columns % 2, min(n, first + 32)
    has = random.random((n, n_columns)) < random.choice([0.1, 0.3, 0.9], (n, 1))
    lists = {
        row: sorted(
            random.choice(np.arange(row + 1, n), min(n - row - 1, int(random.exponential(mean))), False).tolist()
        )
        for row in range(first, last)
    }
    n_words, stride = -(-n_columns // 32), -(-(n - first) // 32)
    words, sets = np.zeros((n_words, n), np.uint32), np.zeros((32, stride), np.uint32)
    for j in range(n_columns):
        words[j // 32] |= has[:, j].astype(np.uint32) << np.uint32(j % 32)
    for row, members in lists.items():
        for member in members:
            sets[row - first, (member - first) // 32] |= np.uint32(1 << (member - first) % 32)
    sums, left, n_pairs = (xp.zeros(*of) for of in ((n_columns + 1, np.uint64), (1, np.uint32), (1, np.int64)))
    sizes = [np.int32(size) for size in (n, n_words, first, last)]
    kernel = device.loads(_LISTS, "lists.cu", {}).get_function("count_lists")
    rest = (xp.asarray(sets), np.int32(stride), np.int32(least), sums, left, n_pairs)
    kernel((1,), (32,), (xp.asarray(words), *sizes, *rest))
    short = {row for row, members in lists.items() if len(members) < 128 < RUN_ROWS and has[row].sum() <= 32}
    pairs = [(row, i, j) for row in short for i, j in combinations(lists[row], 2)]
    shared = Counter(int((has[row] & has[i] & has[j]).sum()) for row, i, j in pairs)
    assert int(n_pairs[0]) == len(pairs)
    assert int(left[0]) == sum(1 << row - first for row in lists.keys() - short)
    assert {int(at): int(sums[at]) for at in np.flatnonzero(sums)} == {
        size: times for size, times in shared.items() if size >= least
    }
