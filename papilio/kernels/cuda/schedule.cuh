// How work items reach thread blocks and warps: one atomic counter per launch, in device memory.
//
// A launch is a set of persistent blocks. Each takes the next positions from the counter until the counter
// passes `limit`; items are ordered heaviest first, so the last ones to be handed out are light.
#pragma once

#include "warp.cuh"

/// Next position for the whole block. All threads call it; `slot` is a word of shared memory that only this
/// function touches.
__device__ __forceinline__ int next_for_block(int* counter, int* slot) {
    __syncthreads();
    if (threadIdx.x == 0) *slot = atomicAdd(counter, 1);
    __syncthreads();
    return *slot;
}

/// First of the next `count` positions for the calling warp; all its lanes call it.
__device__ __forceinline__ int next_for_warp(int* counter, int count) {
    int next = 0;
    if (lane_id() == 0) next = atomicAdd(counter, count);
    return __shfl_sync(kFullMask, next, 0);
}
