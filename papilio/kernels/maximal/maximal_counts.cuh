// Maximal bicliques as they are found: how many there are of each size, and the sum of their hashes.
//
// A warp gathers 32 of them, one in each lane; then every lane works out the hash of its own. Sizes below kSide of both
// sides are counted in shared memory by the block, in 32 bits that carry into the table in device memory, where all
// other sizes are.
#pragma once

#include "leaf_table.cuh"
#include "maximal_lists.cuh"

/// What is counted; rows are left, columns right.
struct SizeLimits {
    int least_left;
    int most_left;
    int least_right;
    int most_right;
};

/// The finalizer of SplitMix64, as in kernels/checksum.py.
__device__ __forceinline__ Word mix_word(Word value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

struct MaximalCounts {
    static constexpr int kSide = MAXIMAL_SIDE;

    SizeLimits limits;
    LeafTable table;
    unsigned* sizes;     // kSide * kSide counters of the block, in shared memory
    unsigned* subsets;   // kTableWords of the warp's shared memory
    Word* column_hash;   // of the 64 columns at hand, there too
    Word checksum;       // of this lane
    // The one that this lane keeps: its columns among those at hand, how many it has in all, the hash of what else it
    // has, and how many rows.
    Word columns;
    Word hash;
    int width;
    int height;
    int n_held;

    /// One that has `columns` of those at hand, and `hash` for all else; the warp, with the same in every lane.
    __device__ __forceinline__ void add(Word own, int n_columns, Word rest, int n_rows) {
        if (lane_id() == n_held) {
            columns = own;
            hash = rest;
            width = n_columns;
            height = n_rows;
        }
        if (++n_held == kWarpSize) flush();
    }

    /// Before the columns at hand change; the warp.
    __device__ __forceinline__ void resolve() {
        for (; columns != 0; columns &= columns - 1) hash += column_hash[__ffsll((long long)columns) - 1];
        __syncwarp();
    }

    /// Count what is kept; the warp.
    __device__ __forceinline__ void flush() {
        resolve();
        if (lane_id() < n_held) count(width, height, hash);
        __syncwarp();
        n_held = 0;
    }

    /// Count one with the hash of all that it has, if it is asked for; any lane alone.
    __device__ __forceinline__ void count(int n_columns, int n_rows, Word all) {
        if (n_rows < limits.least_left || n_rows > limits.most_left || n_columns > limits.most_right) return;
        checksum += mix_word(all);
        if (n_columns < kSide && n_rows < kSide) {
            if (atomicAdd(&sizes[n_columns * kSide + n_rows], 1u) == ~0u) table.insert(key(n_columns, n_rows), 1ull << 32);
        } else {
            table.insert(key(n_columns, n_rows), 1);
        }
    }

    /// Bring the counters of the block to the table; the block, when all of its warps are done.
    __device__ __forceinline__ void close() {
        __syncthreads();
        for (int i = threadIdx.x; i < kSide * kSide; i += blockDim.x)
            if (sizes[i] != 0) table.insert(key(i / kSide, i % kSide), sizes[i]);
    }

  private:
    __device__ __forceinline__ static Word key(int n_columns, int n_rows) {
        return (Word)(unsigned)n_columns << 32 | (unsigned)n_rows;
    }
};
