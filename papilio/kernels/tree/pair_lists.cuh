// Pairs of rows of several lists at a time, each cut to the columns of a row of its own: a word at most, since they are few.
//
// The lists of a strip of rows stand one after the other in shared memory; row i of the strip is that of lane i. Lanes list
// and cut rows of any lists side by side, so that short lists cost little. Pairs of short ones are counted by lanes that hold
// a row each and read the next rows of its list, round about, so that all of its lanes end together; sizes are counted in
// registers.
// Functions are called by all lanes of a warp together, and end with what they wrote ordered.
#pragma once

#include "pair_slices.cuh"

/// Rows of the lists that are counted together, and of a list that is not among them.
constexpr int kRunRows = RUN_ROWS;
constexpr int kLongList = kSlicedNarrow;
static_assert(kLongList <= kRunRows && kLongList / 2 <= 255, "a short list is within a run, and its turns within 8 bits");

/// Leaves of the sizes that are counted most, in registers of a lane: 8 bits each of the 4 kWords sizes from the least on.
template <int kWords>
struct NearLeaves {
    static constexpr int kSizes = 4 * kWords, kMost = 255;

    LeafHistogram& leaves;
    unsigned counts[kWords];
    int room;

    __device__ __forceinline__ explicit NearLeaves(LeafHistogram& leaves) : leaves(leaves), counts{}, room(kMost) {}

    /// Before at most `n` (up to kMost) leaves of each lane; the warp.
    __device__ __forceinline__ void reserve(int n) {
        if (room < n) flush();
        room -= n;
    }

    /// A leaf of a size below `least + kSizes`; sizes below `least` are no leaves. Any lane alone.
    __device__ __forceinline__ void add(int size) {
        const unsigned bit = 8u * (unsigned)(size - leaves.least);
#pragma unroll
        for (int k = 0; k < kWords; ++k) counts[k] += shift_one(bit - 32u * k);
    }

    /// Bring the counters to those of the warp; the warp.
    __device__ __forceinline__ void flush() {
        leaves.reserve(kMost - room);
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
            const unsigned n[kSizeGroup] = {counts[k] & 255u, counts[k] >> 8 & 255u, counts[k] >> 16 & 255u, counts[k] >> 24};
            leaves.add_group(leaves.least + kSizeGroup * k, n);
            counts[k] = 0;
        }
        room = kMost;
    }

  private:
    /// 1 << by, or 0 where `by` is 32 or more.
    __device__ __forceinline__ static unsigned shift_one(unsigned by) {
#ifdef PAPILIO_EMULATED
        return by < 32 ? 1u << by : 0u;
#else
        unsigned shifted;
        asm("shl.b32 %0, 1, %1;" : "=r"(shifted) : "r"(by));
        return shifted;
#endif
    }
};
static_assert(kSizeGroup == 4, "the sizes of a word of NearLeaves");

/// The members of the sets whose numbers are in `taken` to `rows`, set after set: number << 16 | member, counted from `base`.
/// Sets have `stride` words, one behind the other. Returns how many members there are.
__device__ __forceinline__ int list_sets(const unsigned* sets, int stride, unsigned taken, int base, unsigned* rows) {
    const int lane = lane_id(), end = (kWarpSize - __clz((int)taken)) * stride;
    int n = 0;
    for (int first = (__ffs((int)taken) - 1) * stride; first < end; first += kWarpSize) {
        const int at = first + lane, set = at / stride;
        unsigned word = at < end && (taken >> set & 1u) ? sets[at] : 0u;
        const unsigned size = __popc(word), until = warp_inclusive_sum(size);
        unsigned* to = rows + n + (int)(until - size);
        const unsigned head = (unsigned)set << 16 | (unsigned)(base + 32 * (at - set * stride));
#pragma unroll 1
        for (; word != 0; word &= word - 1) *to++ = head + (unsigned)__ffs((int)word) - 1u;
        n += (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    __syncwarp();
    return n;
}

/// The lists of a run: lane i has that of row first + i of a matrix, if any.
struct ListRun {
    unsigned* rows;   // of all lists; kRunRows of shared memory
    unsigned* names;  // number of the list << 16 | row of the matrix; as many
    int n_rows;
    int begin;  // of the list of this lane
    int n;

    /// Cut the rows to the columns of row first + number of their list.
    __device__ __forceinline__ void cut(const RowList& matrix, int first) const {
#pragma unroll 1
        for (int i = lane_id(); i < n_rows; i += kWarpSize) {
            const unsigned* const held = &matrix.at(0, first + (int)(names[i] >> 16));
            rows[i] = pack_row(matrix, (int)(names[i] & 0xffffu), held, matrix.stride);
        }
        __syncwarp();
    }

    /// The pairs of all lists; sizes from `least + 4 kWords` on, which are `kLarge` or do not come, go to the warp's counters.
    template <int kWords, bool kLarge>
    __device__ __forceinline__ void count_pairs(LeafHistogram& leaves) const {
        NearLeaves<kWords> near(leaves);
#pragma unroll 1
        for (int first = 0; first < n_rows; first += kWarpSize) {
            const int row = min(first + lane_id(), n_rows - 1), list = (int)(names[row] >> 16);
            const int size = __shfl_sync(kFullMask, n, list), start = __shfl_sync(kFullMask, begin, list), end = start + size;
            // Row i is paired with the rows i + 1 to i + size / 2, of an even size the last only where i is in the lower half.
            const int turns = row < first + lane_id() ? 0 : (size - (row - start < size / 2 ? 0 : 1)) / 2;
            const int most = (int)~warp_least(~(unsigned)turns);
            near.reserve(most);
            if (kLarge) leaves.reserve(most);
            unsigned mine = rows[row];
            int at = row;
#pragma unroll 2
            for (int turn = 0; turn < most; ++turn) {
                at = at + 1 == end ? start : at + 1;
                if (turn >= turns) mine = 0;
                const int shared = __popc(mine & rows[at]);
                near.add(shared);
                if (kLarge && shared >= leaves.least + near.kSizes) leaves.add(shared);
            }
        }
        near.flush();
        __syncwarp();
    }
};
