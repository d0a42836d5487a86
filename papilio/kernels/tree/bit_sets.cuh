// Sets of numbers from 0 on as bits of 32-bit words.
//
// Functions are called by all lanes of a warp together unless they say otherwise, and end with what they wrote ordered.
#pragma once

#include "warp.cuh"

__device__ __forceinline__ int words_for(int bits) { return (bits + 31) / 32; }

/// The bits of a word below bit n, which may lie outside of the word.
__device__ __forceinline__ unsigned bits_below(int n) { return n >= 32 ? kFullMask : n <= 0 ? 0u : (1u << n) - 1u; }

/// Make all below n the members of a set.
__device__ __forceinline__ void fill_set(unsigned* set, int n) {
#pragma unroll 1
    for (int k = lane_id(); k < words_for(n); k += kWarpSize) set[k] = bits_below(n - 32 * k);
    __syncwarp();
}

/// Number of members of a set.
__device__ __forceinline__ int set_size(const unsigned* set, int n_words) {
    unsigned size = 0;
#pragma unroll 1
    for (int k = lane_id(); k < n_words; k += kWarpSize) size += (unsigned)__popc(set[k]);
    return (int)warp_total(size);
}

/// Least member of a set, or -1.
__device__ __forceinline__ int first_member(const unsigned* set, int n_words) {
    const int lane = lane_id();
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned word = first + lane < n_words ? set[first + lane] : 0u;
        const unsigned held = __ballot_sync(kFullMask, word != 0);
        if (held == 0) continue;
        const int at = __ffs((int)held) - 1;
        return 32 * (first + at) + __ffs((int)__shfl_sync(kFullMask, word, at)) - 1;
    }
    return -1;
}

/// The member of a set before which there are n others, or -1.
__device__ __forceinline__ int find_member(const unsigned* set, int n_words, int n) {
    const int lane = lane_id();
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned word = first + lane < n_words ? set[first + lane] : 0u;
        const unsigned size = (unsigned)__popc(word), until = warp_inclusive_sum(size);
        const unsigned reached = __ballot_sync(kFullMask, (int)until > n);
        if (reached != 0) {
            const int at = __ffs((int)reached) - 1;
            unsigned rest = __shfl_sync(kFullMask, word, at);
#pragma unroll 1
            for (int before = (int)__shfl_sync(kFullMask, until - size, at); before < n; ++before) rest &= rest - 1;
            return 32 * (first + at) + __ffs((int)rest) - 1;
        }
        n -= (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    return -1;
}

/// The members of a set, ascending, to `members`, counted from `base`; returns how many. Words are `stride` apart.
__device__ __forceinline__ int list_members(const unsigned* set, int n_words, int* members, int base = 0, int stride = 1) {
    const int lane = lane_id();
    int n = 0;
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned mine = first + lane < n_words ? set[(long long)(first + lane) * stride] : 0u;
#pragma unroll 1
        for (int k = first; k < min(n_words, first + kWarpSize); ++k) {
            const unsigned word = __shfl_sync(kFullMask, mine, k - first);
            if (word >> lane & 1u) members[n + __popc(word & lanes_before(lane))] = base + 32 * k + lane;
            n += __popc(word);
        }
    }
    __syncwarp();
    return n;
}
