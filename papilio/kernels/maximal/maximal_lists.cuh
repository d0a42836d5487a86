// Lists of rows of at most 64 columns, a word each: what a search for maximal bicliques needs of excluded rows.
#pragma once

#include "bit_matrix.cuh"

typedef unsigned long long Word;

/// warp_sum, where that is not worth its instructions.
__device__ __noinline__ Word sum_words(Word word) { return warp_sum(word); }

struct RowLists {
    static constexpr int kSeen = MAXIMAL_SEEN;

    Word* seen;  // kSeen rows, in the warp's shared memory
    int least;   // columns of a row that matters

    /// Before rows are asked for with is_new; the warp.
    __device__ __forceinline__ void forget_rows() const {
        __syncwarp();
#pragma unroll 1
        for (int i = lane_id(); i < kSeen; i += kWarpSize) seen[i] = 0;
        __syncwarp();
    }

    /// Whether a row, not 0, was not asked for before, as far as that is known; any lane alone.
    __device__ __forceinline__ bool is_new(Word row) const {
        const unsigned slot = (unsigned)(row * 0x9e3779b97f4a7c15ull >> 32) % kSeen;
        return atomicExch(&seen[slot], row) != row;
    }

    /// Write the rows, cut to `span`, that have enough columns left, equal ones once where that is seen; `to` is not
    /// behind `from`, and may overlap it. Returns how many.
    __device__ __forceinline__ int keep_useful(const Word* from, int n, Word span, Word* to) const {
        forget_rows();
        int n_kept = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const Word row = first + lane_id() < n ? from[first + lane_id()] & span : 0;
            const bool is_kept = __popcll(row) >= least && is_new(row);
            const unsigned kept = __ballot_sync(kFullMask, is_kept);
            __syncwarp();
            if (is_kept) to[n_kept + __popc(kept & lanes_before(lane_id()))] = row;
            __syncwarp();
            n_kept += __popc(kept);
        }
        return n_kept;
    }

    /// Keep, of n rows, none that lies inside one before it, or in the same step of the warp; return how many are left. Rows
    /// of many columns should come first: then hardly any is kept that lies inside another one, in few steps.
    __device__ __noinline__ static int keep_largest(Word* rows, int n) {
        const int lane = lane_id();
        int n_kept = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const Word row = first + lane < n ? rows[first + lane] : 0;
            bool is_inside = first + lane >= n;
#pragma unroll 4
            for (int i = 0; i < n_kept; ++i) is_inside |= (row & ~rows[i]) == 0;
            // What lies inside a row inside another one lies inside that one, too: rows that are out are passed over.
#pragma unroll 1
            for (unsigned left = __ballot_sync(kFullMask, !is_inside); left != 0;) {
                const int i = __ffs((int)left) - 1;
                const Word other = __shfl_sync(kFullMask, row, i);
                is_inside |= (row & ~other) == 0 && i != lane && (row != other || i < lane);
                left = __ballot_sync(kFullMask, (left >> lane & 1u) != 0 && i < lane && !is_inside);
            }
            const unsigned kept = __ballot_sync(kFullMask, !is_inside);
            __syncwarp();
            if (kept >> lane & 1u) rows[n_kept + __popc(kept & lanes_before(lane))] = row;
            __syncwarp();
            n_kept += __popc(kept);
        }
        return n_kept;
    }

    /// Take out the rows, and their hashes, all columns of which an excluded row has; return how many are left.
    __device__ __noinline__ static int drop_covered(Word* rows, Word* hashes, int n, const Word* excluded, int n_excluded) {
        const int lane = lane_id();
        // Either 32 rows are held against each excluded one, or each row against 32 excluded ones, which can end early.
        const bool by_excluded = words_for(n) * n_excluded < n * words_for(n_excluded);
        int n_left = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const bool is_row = first + lane < n;
            const Word row = is_row ? rows[first + lane] : 0, hash = is_row ? hashes[first + lane] : 0;
            unsigned left = __ballot_sync(kFullMask, is_row);
            if (by_excluded) {
                bool is_covered = false;
#pragma unroll 4
                for (int i = 0; i < n_excluded; ++i) is_covered |= (row & ~excluded[i]) == 0;
                left &= ~__ballot_sync(kFullMask, is_covered);
            } else {
#pragma unroll 1
                for (unsigned rest = left; rest != 0; rest &= rest - 1) {
                    const Word other = __shfl_sync(kFullMask, row, __ffs((int)rest) - 1);
                    bool is_covered = false;
#pragma unroll 1
                    for (int i = 0; i < n_excluded && !is_covered; i += kWarpSize)
                        is_covered = __any_sync(kFullMask, i + lane < n_excluded &&
                                                   (other & ~excluded[min(i + lane, n_excluded - 1)]) == 0) != 0;
                    if (is_covered) left &= ~(rest & (0u - rest));
                }
            }
            __syncwarp();
            if (left >> lane & 1u) {
                rows[n_left + __popc(left & lanes_before(lane))] = row;
                hashes[n_left + __popc(left & lanes_before(lane))] = hash;
            }
            __syncwarp();
            n_left += __popc(left);
        }
        return n_left;
    }
};
