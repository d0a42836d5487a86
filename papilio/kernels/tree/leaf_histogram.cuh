// Leaves of a search counted by size, without products: the host works out what they stand for.
//
// A warp counts the sizes `least` to `least + kLeafBins - 1` in 16-bit counters of its own in shared memory, one per
// lane and size, so that no two lanes meet. The kDenseBins sizes after those have a 32-bit counter for the whole block,
// where a kernel gives it room for them; the rest go to device memory at once. The counters are emptied into 64-bit sums
// in device memory before one of them could run over: those of a warp when one of its lanes may have counted enough, that
// of a block by the leaves that bring it to DENSE_LEAVES. A sum could not pass 2^64 in a week: 1,024 leaves cost
// a warp some 30 instructions at least, of which a GPU does 1e12 a second.
#pragma once

#include "warp.cuh"

constexpr int kLeafBins = LEAF_BINS;
constexpr int kLeafWords = kLeafBins * kWarpSize / 2;
constexpr int kDenseBins = DENSE_BINS;
constexpr unsigned kDenseLeaves = DENSE_LEAVES;
/// Sizes that are counted together; they divide kLeafBins.
constexpr int kSizeGroup = 4;
static_assert(kLeafBins % kSizeGroup == 0, "a group is within the counters of a warp, or beyond them");

struct LeafHistogram {
    unsigned short* bins;
    unsigned long long* sums;
    unsigned* dense;
    int least;
    int room;  // leaves that a lane can still count before the next flush

    /// `words`: kLeafWords words of shared memory, or null where nothing is ever counted; `sums`: by size, in device
    /// memory; `dense`: kDenseBins words of the block's shared memory, after open_dense, or null.
    __device__ __forceinline__ LeafHistogram(unsigned* words, unsigned long long* sums, int least,
                                             unsigned* dense = nullptr)
        : bins(reinterpret_cast<unsigned short*>(words)), sums(sums), dense(dense), least(least), room(65535) {
#pragma unroll 1
        for (int i = lane_id(); words != nullptr && i < kLeafWords; i += kWarpSize) words[i] = 0;
        __syncwarp();
    }

    /// Empty the counters of a block before its warps count; the block.
    __device__ __forceinline__ static void open_dense(unsigned* dense) {
#pragma unroll 1
        for (int i = threadIdx.x; i < kDenseBins; i += blockDim.x) dense[i] = 0;
        __syncthreads();
    }

    /// Bring the counters of a block to device memory after its warps have counted; the block.
    __device__ __forceinline__ void close_dense() const {
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < kDenseBins; i += blockDim.x)
            if (dense[i] != 0) atomicAdd(&sums[least + kLeafBins + i], (unsigned long long)dense[i]);
    }

    /// Before at most `leaves` (below 2^16) leaves of each lane; the warp.
    __device__ __forceinline__ void reserve(int leaves) {
        if (room < leaves) flush();
        room -= leaves;
    }

    /// One leaf of a size; any lane alone. Sizes below `least` are no leaves.
    __device__ __forceinline__ void add(int size) {
        const unsigned bin = (unsigned)(size - least);
        if (bin < (unsigned)kLeafBins)
            add_near(size);
        else if (size >= least)
            add_large(bin - kLeafBins, 1);
    }

    /// One leaf of one of the first kLeafBins sizes; any lane alone.
    __device__ __forceinline__ void add_near(int size) { ++bins[(size - least) * kWarpSize + lane_id()]; }

    /// Leaves of the sizes from `first` on, all among the first kLeafBins: `n` (each below 2^16) of this lane.
    __device__ __forceinline__ void add_near(int first, const unsigned (&n)[kSizeGroup]) {
        unsigned short* const counters = bins + (first - least) * kWarpSize + lane_id();
#pragma unroll
        for (int i = 0; i < kSizeGroup; ++i) counters[i * kWarpSize] += (unsigned short)n[i];
    }

    /// Leaves of the sizes from `first` on, which is `least` and some groups more: `n` (each below 2^16) of this lane; the warp.
    __device__ __forceinline__ void add_group(int first, const unsigned (&n)[kSizeGroup]) {
        const int bin = first - least;
        if (bin < kLeafBins) {
            add_near(first, n);
            return;
        }
#pragma unroll
        for (int i = 0; i < kSizeGroup; ++i) {
            const unsigned all = warp_total(n[i]);
            if (lane_id() == 0 && all != 0) add_large((unsigned)(bin - kLeafBins + i), all);
        }
    }

    /// Empty the counters; the warp.
    __device__ __forceinline__ void flush() {
        __syncwarp();
#pragma unroll 1
        for (int bin = lane_id(); bin < kLeafBins; bin += kWarpSize) {
            unsigned sum = 0;
#pragma unroll 1
            for (int i = 0; i < kWarpSize; ++i) {
                const int at = bin * kWarpSize + ((i + lane_id()) & 31);
                sum += bins[at];
                bins[at] = 0;
            }
            if (sum != 0) atomicAdd(&sums[least + bin], (unsigned long long)sum);
        }
        __syncwarp();
        room = 65535;
    }

  private:
    __device__ __forceinline__ void add_large(unsigned bin, unsigned n) {
        unsigned long long* sum = &sums[least + kLeafBins + bin];
        if (dense == nullptr || bin >= (unsigned)kDenseBins) {
            atomicAdd(sum, (unsigned long long)n);
            return;
        }
        const unsigned before = atomicAdd(&dense[bin], n);
        if (before < kDenseLeaves && before + n >= kDenseLeaves) {
            atomicSub(&dense[bin], kDenseLeaves);
            atomicAdd(sum, (unsigned long long)kDenseLeaves);
        }
    }
};
