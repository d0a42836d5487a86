// Pairs of rows of a list, counted by the columns that they share: a product of bit matrices on tensor cores.
//
// A warp counts 32 x 8 kWide pairs at a time, as 2 x kWide products of 16 x 8 pairs over 128 columns, whose sums stay in
// registers, 8 kWide of each lane: lane 4 g + t holds the pairs of the rows g and g + 8 with the rows 2 t and 2 t + 1 of the
// other side. Rows are read where they lie; words and rows that a list does not have are 0, and share nothing.
// Where there are no such tensor cores (before sm_80, and in the emulator) the same sums come by shuffles and popcounts.
// Source: "Warp-level matrix instructions" in NVIDIA's PTX manual (mma.m16n8k128, .b1, .and.popc).
#pragma once

#include "bit_matrix.cuh"
#include "leaf_histogram.cuh"

/// First rows of a tile, and words of 32 columns that it multiplies at a time.
constexpr int kTileRows = 32;
constexpr int kTileWords = 4;

/// Add what rows share: lane 4 g + t has word t of the rows g (`low`) and g + 8 (`high`) of one side, and of row g of the
/// other; `sums` are those of this lane, as above: rows g with 2 t and 2 t + 1, then rows g + 8. The warp.
__device__ __forceinline__ void add_products(int (&sums)[4], unsigned low, unsigned high, unsigned other) {
#if !defined(PAPILIO_EMULATED) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(low), "r"(high), "r"(other));
#else
    const int row = lane_id() & ~3, column = (lane_id() & 3) * 8;
#pragma unroll 1
    for (int word = 0; word < kTileWords; ++word) {
        const unsigned one = __shfl_sync(kFullMask, low, row + word), two = __shfl_sync(kFullMask, high, row + word);
        const unsigned left = __shfl_sync(kFullMask, other, column + word);
        const unsigned right = __shfl_sync(kFullMask, other, column + 4 + word);
        sums[0] += __popc(one & left);
        sums[1] += __popc(one & right);
        sums[2] += __popc(two & left);
        sums[3] += __popc(two & right);
    }
#endif
}

/// What the rows [first, first_end), at most 32, share with the 8 kWide rows from `second` on: `sums[m][n]` are those of
/// add_products for the rows from first + 16 m and second + 8 n. The warp.
template <int kWide>
__device__ __forceinline__ void multiply_tile(const RowList& list, int first, int first_end, int second,
                                              int (&sums)[2][kWide][4]) {
    const int group = lane_id() / 4, place = lane_id() & 3;
#pragma unroll
    for (int at = 0; at < 8 * kWide; ++at) sums[at / (4 * kWide)][at / 4 % kWide][at % 4] = 0;
#pragma unroll 1
    for (int word = place; word - place < list.n_words; word += kTileWords) {
        unsigned ours[4], theirs[kWide];
        const bool has_word = word < list.n_words;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const int row = first + 8 * m + group;
            ours[m] = has_word && row < first_end ? list.at(word, row) : 0u;
        }
#pragma unroll
        for (int n = 0; n < kWide; ++n) {
            const int row = second + 8 * n + group;
            theirs[n] = has_word && row < list.n ? list.at(word, row) : 0u;
        }
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < kWide; ++n) add_products(sums[m][n], ours[2 * m], ours[2 * m + 1], theirs[n]);
    }
}

/// Count the pairs of a tile whose second row comes after the first. The warp.
template <int kWide>
__device__ __forceinline__ void count_tile(const RowList& list, int first, int first_end, int second, LeafHistogram& leaves) {
    const int group = lane_id() / 4, place = lane_id() & 3;
    int sums[2][kWide][4];
    multiply_tile(list, first, first_end, second, sums);
    leaves.reserve(8 * kWide);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < kWide; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const int one = first + 16 * m + 8 * (c / 2) + group, two = second + 8 * n + 2 * place + c % 2;
                if (one < two) leaves.add(sums[m][n][c]);
            }
}

/// The pairs of the rows [first, first_end), at most 32, with all later ones of a list; returns words of 32 bits
/// intersected. The warp.
template <int kWide>
__device__ __forceinline__ long long count_strip(const RowList& list, int first, int first_end, LeafHistogram& leaves) {
#pragma unroll 1
    for (int second = first; second < list.n; second += 8 * kWide) count_tile<kWide>(list, first, first_end, second, leaves);
    const long long here = first_end - first;
    return list.n_words * (here * (list.n - 1ll - first) - here * (here - 1) / 2);
}

/// For each of the rows [first, first_end), at most 32, the later rows that share at least `least` columns with it: row
/// first + j is bit j % 32 of word j / 32 of `sets[i]`, which are `stride` words apart, for row first + i; there is
/// room for 32. The warp.
__device__ __forceinline__ void mark_strip(const RowList& list, int first, int first_end, int least, unsigned* sets,
                                           int stride) {
    const int group = lane_id() / 4, place = lane_id() & 3;
#pragma unroll 1
    for (int second = first; second < list.n; second += kWarpSize) {
        int sums[2][4][4];
        multiply_tile(list, first, first_end, second, sums);
        unsigned marked[4] = {};  // rows 8 i + group
#pragma unroll
        for (int at = 0; at < 32; ++at)
            if (sums[at / 16][at / 4 % 4][at % 4] >= least)
                marked[at / 16 * 2 + at % 4 / 2] |= 1u << (at / 4 % 4 * 8 + at % 2);
        unsigned mine = 0;  // row 8 place + group
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned all = marked[i] << 2 * place;
            all |= __shfl_xor_sync(kFullMask, all, 1);
            all |= __shfl_xor_sync(kFullMask, all, 2);
            if (place == i) mine = all;
        }
        const int row = 8 * place + group;
        if (second == first) mine &= kFullMask << row << 1;
        sets[(long long)row * stride + (second - first) / kWarpSize] = mine;
    }
    __syncwarp();
}
