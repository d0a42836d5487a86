// The graph that the later neighbours of a root induce, as a square matrix of bits, and graphs of some of its vertices.
//
// Functions are called by all lanes of a warp together unless they say otherwise.
#pragma once

#include "bit_matrix.cuh"

/// Lanes that share the list of a vertex, and entries that each of them looks up at once, so that loads overlap.
constexpr int kListLanes = 8;
constexpr int kListEntries = 4;

/// Call `set(i, j)` where the later neighbours of vertex i of `ids` hold member j of n ascending ones, by some lane each.
template <class Set>
__device__ __forceinline__ void find_members(const Adjacency& later, const int* ids, int n_ids, const int* members, int n,
                                             const Set& set) {
    for (int i = lane_id() / kListLanes; i < n_ids; i += kWarpSize / kListLanes) {
        const long long end = later.indptr[ids[i] + 1];
        for (long long at = later.indptr[ids[i]] + lane_id() % kListLanes; at < end; at += kListLanes * kListEntries) {
            int sought[kListEntries], below[kListEntries];
#pragma unroll
            for (int e = 0; e < kListEntries; ++e) {
                sought[e] = at + e * kListLanes < end ? later.ids[at + e * kListLanes] : -1;
                below[e] = 0;
            }
            for (int step = 1 << (31 - __clz(n)); step != 0; step >>= 1)
#pragma unroll
                for (int e = 0; e < kListEntries; ++e)
                    if (below[e] + step <= n && members[below[e] + step - 1] < sought[e]) below[e] += step;
#pragma unroll
            for (int e = 0; e < kListEntries; ++e)
                if (below[e] < n && members[below[e]] == sought[e]) set(i, below[e]);
        }
    }
    __syncwarp();
}

/// Set what each of the n ascending members is next to among them, from the later neighbours of all.
__device__ __forceinline__ void fill_square(const RowList& matrix, const int* members, const Adjacency& later) {
    for (int k = 0; k < matrix.n_words; ++k)
        for (int i = lane_id(); i < matrix.n; i += kWarpSize) matrix.at(k, i) = 0;
    __syncwarp();
    find_members(later, members, matrix.n, members, matrix.n, [&](int i, int j) {
        atomicOr(&matrix.at(j / 32, i), 1u << (j & 31));
        atomicOr(&matrix.at(i / 32, j), 1u << (i & 31));
    });
}

/// Word k of the row of a vertex over n members alone; in every lane.
__device__ __forceinline__ unsigned gather_bits(const RowList& matrix, int row, const int* members, int n, int k) {
    const int j = 32 * k + lane_id(), column = j < n ? members[j] : 0;
    const unsigned bit = j < n ? matrix.at(column / 32, row) >> (column & 31) & 1u : 0u;
    return __ballot_sync(kFullMask, bit);
}

/// The graph of n, at most 32, members: lane i has row i.
__device__ __forceinline__ unsigned gather_square(const RowList& matrix, const int* members, int n) {
    unsigned row = 0;
    for (int i = 0; i < n; ++i) {
        const unsigned bits = gather_bits(matrix, members[i], members, n, 0);
        if (lane_id() == i) row = bits;
    }
    return row;
}
