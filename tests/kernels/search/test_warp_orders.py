"""What the headers of the kernels order: each in a kernel of a few lines, in many orders of threads."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

from papilio.kernels.biclique.forms import expand_leaves
from papilio.kernels.device.constants import QUEUE_END_WORDS, QUEUE_PENDING, QUEUE_STATE_WORDS
from tests.tools.devices import emulator

SEEDS = range(6)

_QUEUE = """
#include "warp.cuh"
extern "C" __global__ void take_positions(int* counter, const int n, int* seen) {
    __shared__ int slot;
    BlockQueue queue(counter, &slot);
    for (int at = queue.next(); at < n; at = queue.next()) atomicAdd(&seen[at], 1);
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_all_threads_of_a_block_get_the_position(seed: int) -> None:
    """Nothing of the body holds a thread that is ahead: the queue alone does."""
    device: Any = emulator(seed)
    counter, seen = device.xp.zeros(1, dtype=np.int32), device.xp.zeros(9, dtype=np.int32)
    kernel = device.loads(_QUEUE, "queue.cu", {}).get_function("take_positions")
    kernel((2,), (64,), (counter, np.int32(9), seen))
    assert device.to_host(seen).tolist() == [64] * 9


_NARROW = """
#include "bit_matrix.cuh"
extern "C" __global__ void narrow_each(unsigned* words, const int n, const int least, unsigned* slab, unsigned* rows) {
    Arena arena{nullptr, slab, 0, 0, 4096, 0};
    const RowList list{words, n, n, 1};
    const Arena::Mark mark = arena.mark();
    for (int row = 0; row < n; ++row) {
        const RowList narrow = narrow_rows<1>(arena, list, row, least);
        for (int i = lane_id(); i < narrow.n; i += kWarpSize) rows[row * n + i] = narrow.at(0, narrow.n - 1 - i);
        __syncwarp();
        arena.release(mark);
    }
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_were_narrowed_can_be_read_by_all_lanes(seed: int) -> None:
    device: Any = emulator(seed)
    words = np.random.default_rng(seed).integers(0, 2**32, 40, np.uint32)
    rows = device.xp.zeros(40 * 40, dtype=np.uint32)
    kernel = device.loads(_NARROW, "narrow.cu", {}).get_function("narrow_each")
    slab = device.xp.empty(4096, dtype=np.uint32)
    kernel((1,), (32,), (device.xp.asarray(words), np.int32(40), np.int32(8), slab, rows))
    got = device.to_host(rows).reshape(40, 40)
    for row in range(40):
        shared = [int(words[row] & other) for other in words[row + 1 :]]
        wanted = [both for both in shared if both.bit_count() >= 8][::-1]
        assert got[row, : len(wanted)].tolist() == wanted


_SETS = """
#include "subset_tree.cuh"
extern "C" __global__ void count_sets(unsigned* words, const int n, const int n_words, const int take, const int least,
                                      unsigned* slab, unsigned long long* sums) {
    __shared__ unsigned counters[kLeafWords], run[kRunWords];
    __shared__ NearOnes ones;
    ones.open(least);
    Arena arena{nullptr, slab, 0, 0, 1 << 16, 0};
    TreeQueue queue{nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0, 0, false};
    SubsetTree tree{arena, queue, LeafHistogram(counters, sums, least), ones, run, nullptr, 0,
                    RowList{nullptr, 0, 0, 0}, 0, 0, 0, 0, arena.mark()};
    tree.frames = reinterpret_cast<SubsetFrame*>(arena.take(8 * kSubsetFrameWords));
    tree.open(RowList{words, n, n, n_words}, take, n);
    tree.count();
    tree.leaves.flush();
}
"""


def sets_by_size(rows: list[int], take: int, least: int) -> dict[int, int]:
    """Count the sets of rows by what they share."""
    found: dict[int, int] = {}
    for chosen in combinations(rows, take):
        both = chosen[0]
        for row in chosen:
            both &= row
        if both.bit_count() >= least:
            found[both.bit_count()] = found.get(both.bit_count(), 0) + 1
    return found


@pytest.mark.parametrize("n_words", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_levels_are_left_when_all_lanes_are_done_with_them(seed: int, n_words: int) -> None:
    """Four levels, most of them short, so that lists of one level lie where those of another were."""
    for short_rows in (0, 10):
        count_sets(seed, (14, n_words, 5, 6 * n_words), {"SHORT_ROWS": short_rows})


@pytest.mark.parametrize(
    ("n", "n_words", "take", "least"),
    [
        pytest.param(14, 1, 5, 6, marks=pytest.mark.slow),
        (14, 3, 5, 40),
        (40, 2, 3, 14),
        (40, 2, 3, 28),
        (40, 6, 3, 20),
        (70, 1, 2, 9),
    ],
)
def test_rows_are_sliced_below_each_level(n: int, n_words: int, take: int, least: int) -> None:
    """Lists of which most rows stay when one is taken, or few; and rows of more columns than are sliced (six words)."""
    for sliced in (2, 20):
        slices = {"SLICED_ROWS": sliced, "SLICED_NARROW": sliced}
        count_sets(n + take, (n, n_words, take, least), slices | {"SHORT_ROWS": 0})
    count_sets(n + take, (n, n_words, take, least), {"SHORT_BELOW": 10})


def count_sets(seed: int, shape: tuple[int, int, int, int], defines: dict[str, int]) -> None:
    """Compare the sets of ``take`` of n rows, three quarters full, with the definition."""
    n, n_words, take, least = shape
    device: Any = emulator(seed)
    random = np.random.default_rng(seed)
    words = random.integers(0, 2**32, (n_words, n), np.uint32) | random.integers(0, 2**32, (n_words, n), np.uint32)
    sums = device.xp.zeros(32 * n_words + 1, dtype=np.uint64)
    kernel = device.loads(_SETS, "sets.cu", defines).get_function("count_sets")
    slab = device.xp.empty(1 << 16, dtype=np.uint32)
    kernel((1,), (32,), (device.xp.asarray(words), *(np.int32(size) for size in shape), slab, sums))
    rows = [sum(int(words[k, i]) << (32 * k) for k in range(n_words)) for i in range(n)]
    got, wanted = device.to_host(sums), sets_by_size(rows, take, least)
    assert {int(at): int(got[at]) for at in np.flatnonzero(got)} == wanted != {}


_LEFT = """
#include "tree_queue.cuh"
// The first warp leaves sub-trees to the other one and sees each finished before the next: the other must stay.
extern "C" __global__ void leave_and_wait(int* state, unsigned* ends, unsigned* tickets, unsigned* slots,
                                          const int n, int* finished) {
    TreeQueue queue{state, ends, tickets, slots, 2, 4, 1, 0, 0, 0, false};
    if (blockIdx.x == 0) {
        for (int i = 0; i < n; ++i) {
            while (!queue.offer([&](unsigned* slot) { if (lane_id() == 0) slot[0] = (unsigned)i; })) {
            }
            if (lane_id() == 0)
                while (atomicAdd(finished, 0) <= i) {
                }
            __syncwarp();
        }
        queue.finish(1);
    } else {
        unsigned got = 0;
        while (queue.wait([&](const unsigned* slot) { got = slot[0]; })) {
            queue.finish(1);
            if (lane_id() == 0) atomicMax(finished, (int)got + 1);
            __syncwarp();
        }
    }
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sub_tree_is_counted_before_it_can_be_taken(seed: int) -> None:
    """One counted later could be finished before: nothing would be pending, and those who wait would leave."""
    device: Any = emulator(seed, max_steps=20_000_000)
    state = np.zeros(QUEUE_STATE_WORDS, np.int32)
    state[QUEUE_PENDING] = 1
    xp, n = device.xp, 1_500
    held = [xp.asarray(state), xp.zeros(QUEUE_END_WORDS, dtype=np.uint32), xp.arange(2, dtype=np.uint32)]
    finished = xp.zeros(1, dtype=np.int32)
    kernel = device.loads(_LEFT, "left.cu", {}).get_function("leave_and_wait")
    kernel((2,), (32,), (*held, xp.empty(8, dtype=np.uint32), np.int32(n), finished))
    assert int(device.to_host(finished)[0]) == n
    assert int(device.to_host(held[0])[QUEUE_PENDING]) == 0


_PIVOTS = """
#include "pivot_tree.cuh"
// The first warp has a matrix, the others wait for what it leaves to them.
extern "C" __global__ void count_pivots(const unsigned* words, const int n, const int n_columns, unsigned* slab,
                                        int* state, unsigned* ends, unsigned* tickets, unsigned* slots,
                                        unsigned long long* keys, unsigned long long* counts, int* full) {
    constexpr int kWords = 1 << 14;
    Arena arena{nullptr, slab + (blockIdx.x * 3 + threadIdx.x / 32) * kWords, 0, 0, kWords, 0};
    TreeQueue queue{state, ends, tickets, slots, 16, 2048, 1, 0, 0, 0, false};
    PivotTree tree{arena, queue, LeafTable(keys, counts, 1 << 12, full), PivotLimits{1, n, 1, n_columns}, 0};
    const Arena::Mark empty = arena.mark();
    RowList rows{copy_words(arena, words, n * words_for(n_columns)), n, n, words_for(n_columns)};
    PivotStart start{arena.take(words_for(n)), arena.take(words_for(n_columns)), nullptr, false, Taken{0, 0}};
    fill_set(start.left, n);
    fill_set(start.right, n_columns);
    int held_columns = n_columns, place = lane_id() == 0 ? atomicAdd(&state[kQueueNextItem], 1) : 0;
    for (bool has_work = __shfl_sync(kFullMask, place, 0) == 0; ; has_work = true) {
        if (has_work) {
            tree.count(rows, held_columns, start);
            queue.finish(1);
            arena.release(empty);
        }
        if (!queue.wait([&](const unsigned* slot) { start = tree.read(slot, rows, held_columns); })) break;
    }
    tree.leaves.flush();
}
"""


@pytest.mark.parametrize(("n", "n_columns"), [(16, 31), (13, 90), (90, 13)])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_halves_of_frames_are_shared(seed: int, n: int, n_columns: int) -> None:
    """Matrices of single words, of many columns and of many rows; each lacks most, so that frames have many gaps."""
    device: Any = emulator(seed, max_steps=20_000_000)
    xp, cells = device.xp, np.random.default_rng(seed).random((n, n_columns)) < 0.4
    padded = np.zeros((n, -(-n_columns // 32) * 32), bool)
    padded[:, :n_columns] = cells
    words = np.packbits(padded, axis=1, bitorder="little").view(np.uint32).T.copy()
    state = np.zeros(QUEUE_STATE_WORDS, np.int32)
    state[QUEUE_PENDING] = 1
    ends, full = xp.zeros(QUEUE_END_WORDS, dtype=np.uint32), xp.zeros(1, dtype=np.int32)
    queue = (xp.asarray(state), ends, xp.arange(16, dtype=np.uint32), xp.empty(16 * 2048, dtype=np.uint32))
    keys, counts = (xp.zeros(1 << 12, dtype=np.uint64) for _ in range(2))
    kernel = device.loads(_PIVOTS, "pivots.cu", {}).get_function("count_pivots")
    sizes = (np.int32(n), np.int32(n_columns), xp.empty(6 << 14, dtype=np.uint32))
    kernel((2,), (96,), (xp.asarray(words), *sizes, *queue, keys, counts, full))
    assert int(device.to_host(ends)[32]) >= 5, "hardly anything was shared"
    found, times = device.to_host(keys).tolist(), device.to_host(counts).tolist()
    leaves = {
        (key >> 48, key >> 32 & 0xFFFF, key >> 16 & 0xFFFF, key & 0xFFFF): count
        for key, count in zip(found, times, strict=True)
        if count
    }
    rows, side = (cells, n) if n < n_columns else (cells.T, n_columns)
    shared = [sum(1 << j for j in np.flatnonzero(row).tolist()) for row in rows]
    wanted: dict[tuple[int, int], int] = {}
    for taken in range(1, side + 1):
        for size, sets in sets_by_size(shared, taken, 1).items():
            for others in range(1, size + 1):
                cell = (taken, others) if n < n_columns else (others, taken)
                wanted[cell] = wanted.get(cell, 0) + sets * comb(size, others)
    got = expand_leaves(leaves, range(1, n + 1), range(1, n_columns + 1))
    assert {cell: count for cell, count in got.items() if count} == wanted


_VERTICES = """
#include "vertex_tree.cuh"
extern "C" __global__ void count_vertices(unsigned* words, const int n, const int n_words, const int take,
                                          const int least, unsigned* slab, unsigned long long* sums,
                                          const unsigned long long* sets,
                                          const unsigned long long* members, unsigned long long* of_rows,
                                          unsigned long long* of_columns) {
    __shared__ unsigned counters[kLeafWords];
    Arena arena{nullptr, slab, 0, 0, 1 << 16, 0};
    VertexTree tree{arena, LeafHistogram(counters, sums, least), sets, members, 0, nullptr, nullptr, nullptr,
                    nullptr, 0};
    tree.of_rows = take_sums(arena, n);
    tree.of_columns = take_sums(arena, 32 * n_words);
    tree.frames = reinterpret_cast<VertexFrame*>(arena.take(8 * kVertexFrameWords));
    int* numbers = reinterpret_cast<int*>(arena.take(32 * n_words + n));
    for (int i = lane_id(); i < 32 * n_words + n; i += kWarpSize) numbers[i] = i < 32 * n_words ? i : i - 32 * n_words;
    __syncwarp();
    tree.columns = numbers;
    tree.n_columns = 32 * n_words;
    for (int round = 0; round < 2; ++round)
        tree.count(RowList{words, n, n, n_words}, numbers + 32 * n_words, take);
    __syncwarp();
    for (int i = lane_id(); i < n; i += kWarpSize) of_rows[i] = tree.of_rows[i];
    for (int i = lane_id(); i < 32 * n_words; i += kWarpSize) of_columns[i] = tree.of_columns[i];
    tree.leaves.flush();
}
"""


@pytest.mark.parametrize("take", [1, 2, 4])
@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_sums_of_vertices_are_written_one_after_the_other(seed: int, n_words: int, take: int) -> None:
    """Two searches in a row, so that what one leaves behind meets the next."""
    device: Any = emulator(seed)
    random, n, least = np.random.default_rng(seed), 40 if take < 3 else 13, 5 * n_words
    words = random.integers(0, 2**32, (n_words, n), np.uint32) | random.integers(0, 2**32, (n_words, n), np.uint32)
    xp, most = device.xp, 32 * n_words
    sets, members = np.arange(most + 1, dtype=np.uint64), np.arange(most + 1, dtype=np.uint64) ** np.uint64(2)
    given = (
        np.int32(n),
        np.int32(n_words),
        np.int32(take),
        np.int32(least),
        xp.empty(1 << 16, dtype=np.uint32),
    )
    sums, of_rows, of_columns = (xp.zeros(size, dtype=np.uint64) for size in (most + 1, n, most))
    kernel = device.loads(_VERTICES, "vertices.cu", {}).get_function("count_vertices")
    on_device = (xp.asarray(sets), xp.asarray(members), of_rows, of_columns)
    kernel((1,), (32,), (xp.asarray(words), *given, sums, *on_device))
    rows = [sum(int(words[k, i]) << (32 * k) for k in range(n_words)) for i in range(n)]
    wanted_rows, wanted_columns = [0] * n, [0] * most
    for chosen in combinations(range(n), take):
        both = rows[chosen[0]]
        for i in chosen:
            both &= rows[i]
        size = both.bit_count()
        if size < least:
            continue
        for i in chosen:
            wanted_rows[i] += 2 * size
        for j in range(most):
            wanted_columns[j] += 2 * size**2 * (both >> j & 1)
    assert device.to_host(of_rows).tolist() == wanted_rows
    assert device.to_host(of_columns).tolist() == wanted_columns


_PATHS = """
#include "clique_matrix.cuh"
extern "C" __global__ void count_nodes(const int* nodes, const int* orders, const unsigned* rows, const int n_nodes,
                                       unsigned* slab, unsigned long long* sums) {
    Arena arena{nullptr, slab, 0, 0, 4096, 0};
    int* const held = reinterpret_cast<int*>(arena.take(33));
    int* const free = reinterpret_cast<int*>(arena.take(32));
    CliquePaths paths{nullptr, sums, held, free, RECORD_SINK, nullptr, nullptr, 0, 0, 0, 0, 0};
    paths.begin(arena, 32, 1, 0);
    for (int i = lane_id(); i < 32; i += kWarpSize) paths.ranks[i] = i;
    if (lane_id() == 0) held[0] = 32;
    for (int i = 0; i < n_nodes; ++i) {
        const int *const node = nodes + 4 * i, *const order = orders + 32 * i;
        for (int j = lane_id(); j < node[0]; j += kWarpSize) held[1 + j] = order[j];
        for (int j = lane_id(); j < node[1]; j += kWarpSize) free[j] = order[node[0] + j];
        __syncwarp();
        const int name = order[(node[0] + node[1] + lane_id()) % 32];
        const unsigned row = lane_id() < node[2] ? rows[32 * i + lane_id()] : 0u;
        paths.add_small(Adjacency{}, row, name, node[2], 1 + node[0], node[1], node[3]);
    }
    paths.close();
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_cliques_of_vertices_are_added_one_node_after_the_other(seed: int) -> None:
    """Nodes of some held and free vertices and candidates, that lack one to four, with other names in each."""
    device: Any = emulator(seed)
    xp, random, n_nodes = device.xp, np.random.default_rng(seed), 24
    nodes = np.stack([random.integers(low, high, n_nodes) for low, high in ((0, 7), (0, 5), (1, 9), (1, 5))], axis=1)
    orders = np.stack([random.permutation(32) for _ in range(n_nodes)])
    rows, wanted = np.zeros((n_nodes, 32), np.uint32), [0] * 33
    for (held, free, n, missing), order, row in zip(nodes.tolist(), orders.tolist(), rows, strict=True):
        near = np.triu(random.random((n, n)) < 0.7, 1)
        near |= near.T
        row[:n] = near @ (1 << np.arange(n))
        for chosen in combinations(range(free + n), missing):
            candidates = [i - free for i in chosen if i >= free]
            if all(near[i, j] for i, j in combinations(candidates, 2)):
                for vertex in (32, *order[:held], *(order[held + i] for i in chosen)):
                    wanted[vertex] += 1
    sums = xp.zeros(33, dtype=np.uint64)
    kernel = device.loads(_PATHS, "paths.cu", {"PER": 1}).get_function("count_nodes")
    given = (xp.asarray(each.astype(np.int32)) for each in (nodes, orders))
    kernel((1,), (32,), (*given, xp.asarray(rows), np.int32(n_nodes), xp.empty(4096, dtype=np.uint32), sums))
    assert device.to_host(sums).tolist() == wanted
