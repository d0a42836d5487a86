// The graph that the later neighbours of a root induce, as a square matrix of bits, and graphs of some of its vertices.
//
// Functions are called by all lanes of a warp together unless they say otherwise.
#pragma once

#include "bit_matrix.cuh"

/// Set what each of the n ascending members is next to among them, from the later neighbours of all.
__device__ __forceinline__ void fill_square(const RowList& matrix, const int* members, const Adjacency& later) {
    for (int k = 0; k < matrix.n_words; ++k)
        for (int i = lane_id(); i < matrix.n; i += kWarpSize) matrix.at(k, i) = 0;
    __syncwarp();
    for (int i = 0; i < matrix.n; ++i) {
        const long long end = later.indptr[members[i] + 1];
        for (long long at = later.indptr[members[i]] + lane_id(); at < end; at += kWarpSize) {
            const int j = find_id(members, matrix.n, later.ids[at]);
            if (j < 0) continue;
            atomicOr(&matrix.at(j / 32, i), 1u << (j & 31));
            atomicOr(&matrix.at(i / 32, j), 1u << (i & 31));
        }
    }
    __syncwarp();
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
