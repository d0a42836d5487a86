// Counts of a block by two small numbers: leaves by how many vertices are held and free.
//
// Those of few vertices are counted in 32 bits of shared memory of the block, which others join in device memory in 64
// bits. A sum could not pass 2^64 in a month: what is added at once is no more than a few hundred times the steps that
// found it, of which a GPU does some 1e12 a second.
#pragma once

#include "warp.cuh"

template <int kRows>
struct CliqueLeaves {
    static constexpr int kHeld = kRows, kFree = 64;

    unsigned* few;              // kHeld * kFree words
    unsigned long long* sums;   // held * stride + free
    int stride;

    /// Any lane alone.
    __device__ __forceinline__ void add(int held, int free, unsigned long long count) const {
        unsigned long long* const sum = &sums[(long long)held * stride + free];
        if (held < kHeld && free < kFree && count >> 32 == 0) {
            const unsigned before = atomicAdd(&few[held * kFree + free], (unsigned)count);
            if (before + (unsigned)count < before) atomicAdd(sum, 1ull << 32);
        } else {
            atomicAdd(sum, count);
        }
    }

    /// Nothing is counted yet; the block.
    __device__ __forceinline__ void clear() const {
        for (int i = threadIdx.x; i < kHeld * kFree; i += blockDim.x) few[i] = 0;
        __syncthreads();
    }

    /// Bring all to device memory; the block.
    __device__ __forceinline__ void flush() const {
        __syncthreads();
        for (int i = threadIdx.x; i < kHeld * kFree; i += blockDim.x)
            if (few[i] != 0) atomicAdd(&sums[(long long)(i / kFree) * stride + i % kFree], (unsigned long long)few[i]);
    }
};
