// The graph that the later neighbours of a root induce, as a square matrix of bits, and graphs of some of its vertices.
//
// Functions are called by all lanes of a warp together unless they say otherwise.
#pragma once

#include "bit_matrix.cuh"

/// 1: candidates are taken one after the other, the last ones first: a row has the candidates before its own alone.
#ifndef ORIENT
#define ORIENT 0
#endif
constexpr bool kOrients = ORIENT != 0;

/// Lanes that share the list of a vertex, and entries that each of them looks up at once, so that loads overlap.
constexpr int kListLanes = 8;
constexpr int kListEntries = 4;

/// Word k of the set of one number.
__device__ __forceinline__ unsigned bit_of(int number, int k) { return number / 32 == k ? 1u << (number & 31) : 0u; }

/// A row of bits for each of n candidates: word k of row i is at(k, i). With kOrients a row ends with the word of its own
/// bit, and all rows together take half the words.
struct Square {
    unsigned* words;
    int n;
    int n_words;

    static __device__ __forceinline__ int size(int n) {
        return n * words_for(n) - (kOrients ? 16 * words_for(n) * (words_for(n) - 1) : 0);
    }
    __device__ __forceinline__ unsigned& at(int k, int row) const {
        return words[k * (kOrients ? n - 16 * (k + 1) : n) + row];
    }
    /// What is before the row's own bit of word k, which is the one of this bit.
    __device__ __forceinline__ unsigned last(int k, int row) const {
        return kOrients ? at(k, row) : at(k, row) & lanes_before(row & 31);
    }
};

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

/// The members of two ascending lists that both have, ascending, to `shared`; returns how many.
__device__ __forceinline__ int list_shared(const int* ids, int n_ids, const int* others, int n_others, int* shared) {
    int n = 0;
    for (int first = 0; first < n_others; first += kWarpSize) {
        const int i = first + lane_id();
        const bool has = i < n_others && find_id(ids, n_ids, others[i]) >= 0;
        const unsigned all = __ballot_sync(kFullMask, has);
        if (has) shared[n + __popc(all & lanes_before(lane_id()))] = others[i];
        n += __popc(all);
    }
    __syncwarp();
    return n;
}

__device__ __forceinline__ void clear_words(unsigned* words, long long n) {
    for (long long i = lane_id(); i < n; i += kWarpSize) words[i] = 0;
    __syncwarp();
}

/// Set what each of n ascending members is next to among them, from the later neighbours of all; all words are 0.
template <class Matrix>
__device__ __forceinline__ void fill_square(const Matrix& matrix, const int* members, int n, const Adjacency& later) {
    find_members(later, members, n, members, n, [&](int i, int j) {
        atomicOr(&matrix.at(i / 32, j), 1u << (i & 31));
        if (!kOrients) atomicOr(&matrix.at(j / 32, i), 1u << (j & 31));
    });
}

/// Word k of the rows `row_at(first + i)` over n members alone, for each i below `n_rows`, at most 32, in lane i. With
/// kOrients the rows are those of the members.
template <class Matrix, class RowAt>
__device__ __forceinline__ unsigned gather_words(const Matrix& matrix, const RowAt& row_at, int first, int n_rows,
                                                 const int* members, int n, int k) {
    const int j = 32 * k + lane_id(), column = j < n ? members[j] : 0;
    unsigned own = 0;
    for (int i = 0; i < n_rows; ++i) {
        const bool has = j < (kOrients ? first + i : n);
        const unsigned bit = has ? matrix.at(column / 32, row_at(first + i)) >> (column & 31) & 1u : 0u;
        const unsigned bits = __ballot_sync(kFullMask, bit);
        if (lane_id() == i) own = bits;
    }
    return own;
}

/// The graph of n, at most 32, members: lane i has row i.
template <class Matrix>
__device__ __forceinline__ unsigned gather_square(const Matrix& matrix, const int* members, int n) {
    return gather_words(matrix, [&](int i) { return members[i]; }, 0, n, members, n, 0);
}

/// Write the rows `row_at(i)`, i below `n_rows`, over n members alone.
template <class Matrix, class RowAt>
__device__ __forceinline__ void gather_rows(const Matrix& to, const Matrix& from, const RowAt& row_at, int n_rows,
                                            const int* members, int n) {
    for (int k = 0; k < words_for(n); ++k)
        for (int first = kOrients ? 32 * k : 0; first < n_rows; first += kWarpSize) {
            const int n_now = min(kWarpSize, n_rows - first);
            const unsigned own = gather_words(from, row_at, first, n_now, members, n, k);
            if (lane_id() < n_now) to.at(k, first + lane_id()) = own;
        }
    __syncwarp();
}

/// Write every second member of a set, from the second on, to `others`.
__device__ __forceinline__ void list_every_second(const unsigned* set, int n_words, unsigned* others) {
    unsigned is_odd = 0;  // all bits: whether an odd number of members was before
    for (int k = 0; k < n_words; ++k) {
        unsigned odd = set[k];
        for (int step = 1; step < 32; step *= 2) odd ^= odd << step;  // bit i: those up to i are odd in number
        odd ^= is_odd;
        if (lane_id() == 0) others[k] = set[k] & ~odd;
        is_odd = odd >> 31 != 0 ? kFullMask : 0u;
    }
    __syncwarp();
}

/// Word by word, the members of a set among n members, numbered anew.
__device__ __forceinline__ void gather_set(unsigned* to, const unsigned* set, const int* members, int n) {
    for (int k = 0; k < words_for(n); ++k) {
        const int j = 32 * k + lane_id(), column = j < n ? members[j] : 0;
        const unsigned bits = __ballot_sync(kFullMask, j < n && (set[column / 32] >> (column & 31) & 1u));
        if (lane_id() == 0) to[k] = bits;
    }
    __syncwarp();
}
