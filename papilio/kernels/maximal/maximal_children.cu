// Children that share few columns with their root: a table counts everything below each, and nothing is searched.
//
// Requires: as maximal.cu, which skips these children. hop_common: for each child, the number of columns it shares with its
// root.
// Counted once: see maximal.cu; the children of a root are independent of each other.
// Warps take ranges of children one after the other, and have kTableWords words of dynamic shared memory; a block has four
// warps. Most children are of this kind. They need few registers and little code, so many warps hide the memory latency.
// totals: the sum of all hashes, the branches taken, and the words intersected.
#include "maximal_root.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 5
#endif

constexpr int kWarps = 4;

/// Write the columns that a row shares with its root, ascending, to `columns`; returns their number, at most kTableSide;
/// the warp.
__device__ __forceinline__ int list_columns(const Root& root, int row, int* columns) {
    unsigned n = 0;
#pragma unroll 1
    for (int first = 0; first < root.n_words; first += kWarpSize) {
        const int k = first + lane_id();
        unsigned bits = k < root.n_words ? root.word(k, row) : 0u;
        const unsigned until = warp_inclusive_sum((unsigned)__popc(bits));
        unsigned place = n + until - (unsigned)__popc(bits);
        n += __shfl_sync(kFullMask, until, kWarpSize - 1);
        if (n > kTableSide) __trap();
#pragma unroll 1
        for (; bits != 0; bits &= bits - 1) columns[place++] = 32 * k + __ffs((int)bits) - 1;
    }
    __syncwarp();
    return (int)n;
}

/// Ranges of children [item_first, item_last) of a root; counts ranges `begin` to `end`.
extern "C" __global__ void __launch_bounds__(kWarps * kWarpSize, MIN_BLOCKS)
maximal_children(ROOT_PARAMETERS, const unsigned* __restrict__ matrices, const long long* __restrict__ matrix_at,
                 const int* __restrict__ taken, const unsigned long long* __restrict__ taken_hash,
                 const unsigned long long* __restrict__ left_hash, const unsigned long long* __restrict__ right_hash,
                 const int* __restrict__ hop_common, const int* __restrict__ item_root, const long long* __restrict__ item_first,
                 const long long* __restrict__ item_last, const long long begin, const long long end, const int min_left,
                 const int max_left, const int min_right, const int max_right, unsigned long long* totals,
                 unsigned long long* keys, unsigned long long* by_key, const unsigned n_keys, int* full) {
    __shared__ int columns_of_warps[kWarps * kTableSide];
    const RootGraph graph ROOT_ARGUMENTS;
    const SizeLimits limits{min_left, max_left, min_right, max_right};
    size_table().open(limits, keys, by_key, n_keys, full);
    const int warp = threadIdx.x / kWarpSize, memory_at = warp * kTableWords;
    int* const own_columns = columns_of_warps + warp * kTableSide;
    MaximalCounts counts{limits, memory_at, memory_at, 0, 0, 0, 0, 0, 0, {}};
    unsigned long long nodes = 0, words = 0;
#pragma unroll 1
    for (long long at = begin + warp_number(); at < end; at += (long long)gridDim.x * kWarps) {
        const int vertex = item_root[at];
        if (taken[vertex] == 0 || taken[vertex] >= max_left) continue;
        const Root root = root_of(graph, vertex, matrices + matrix_at[vertex], left_hash, right_hash);
        const long long first_row = root.n_before - graph.hop_indptr[vertex];
#pragma unroll 1
        for (long long child = item_first[at]; child < item_last[at]; ++child) {
            if (hop_common[child] > kTableColumns) continue;
            const int row = (int)(first_row + child), n = list_columns(root, row, own_columns);
            if (n < min_right) continue;  // it has all columns of the root
            nodes += (unsigned)root.count_in_table(nullptr, row, ColumnWords{nullptr, nullptr, own_columns, 0, n}, counts,
                                                   taken_hash[vertex] + root.row_hash(row), taken[vertex] + 1);
            words += (unsigned)(kWarpSize * n * words_for(root.n_sets));
            __syncwarp();
        }
    }
    size_table().close();
    const Word checksum = sum_words(counts.checksum);
    if (lane_id() == 0) {
        atomicAdd(&totals[0], checksum);
        atomicAdd(&totals[1], nodes);
        atomicAdd(&totals[2], words);
    }
}
