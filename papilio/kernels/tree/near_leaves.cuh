// Leaves of the sizes that are counted most, in registers of a lane, 8 bits for each size.
//
// A table in shared memory says for each size what is added to the registers, so that lanes with different sizes do the same.
#pragma once

#include "leaf_histogram.cuh"

/// Sizes of the table: those of rows of a word.
constexpr int kNearOnes = 33;

/// What a leaf of a size adds: 1 in the 8 bits of size - least, of 16 sizes from the least on; a block has it.
struct NearOnes {
    uint4 of_size[kNearOnes];

    /// The block.
    __device__ __forceinline__ void open(int least) {
        for (int size = threadIdx.x; size < kNearOnes; size += blockDim.x) {
            const unsigned bit = 8u * (unsigned)(size - least);
            of_size[size] = make_uint4(shift_one(bit), shift_one(bit - 32), shift_one(bit - 64), shift_one(bit - 96));
        }
        __syncthreads();
    }

  private:
    __device__ __forceinline__ static unsigned shift_one(unsigned by) { return by < 32 ? 1u << by : 0u; }
};

/// The 4 kWords sizes from the least on.
template <int kWords>
struct NearLeaves {
    static constexpr int kSizes = 4 * kWords, kMost = 255;
    static_assert(kSizeGroup == 4 && kSizes <= kLeafBins && kWords % 2 == 0 && kWords <= 4,
                  "a word is a group; of the table, halves are read or all");

    LeafHistogram& leaves;
    unsigned counts[kWords];
    int room;

    __device__ __forceinline__ explicit NearLeaves(LeafHistogram& leaves) : leaves(leaves), counts{}, room(kMost) {}

    /// Before at most `n` (up to kMost) leaves of each lane; the warp.
    __device__ __forceinline__ void reserve(int n) {
        if (room < n) flush();
        room -= n;
    }

    /// A leaf of a size below kNearOnes, if it is one of these sizes. Any lane alone.
    __device__ __forceinline__ void add(const NearOnes& ones, int size) {
        const uint2* const halves = reinterpret_cast<const uint2*>(&ones.of_size[size]);
#pragma unroll
        for (int k = 0; k < kWords; k += 2) {
            counts[k] += halves[k / 2].x;
            counts[k + 1] += halves[k / 2].y;
        }
    }

    /// Bring the counters to those of the warp; the warp.
    __device__ __forceinline__ void flush() {
        leaves.reserve(kMost - room);
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
            const unsigned n[kSizeGroup] = {counts[k] & 255u, counts[k] >> 8 & 255u, counts[k] >> 16 & 255u, counts[k] >> 24};
            leaves.add_near(leaves.least + kSizeGroup * k, n);
            counts[k] = 0;
        }
        room = kMost;
    }
};
