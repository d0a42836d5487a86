// How work items reach thread blocks and warps: one atomic counter per launch, in device memory.
//
// A launch is a set of persistent blocks. Each takes the next positions from the counter until the counter
// passes `limit`; items are ordered heaviest first, so the last ones to be handed out are light.
#pragma once

#include "warp.cuh"

/// Positions for the whole block, each fetched while the one before is worked on. All threads of the block
/// use it together; `slot` is a word of shared memory that nothing else touches.
struct BlockQueue {
    int* counter;
    int* slot;
    int ahead;  // thread 0: the next position

    __device__ __forceinline__ BlockQueue(int* counter, int* slot) : counter(counter), slot(slot), ahead(0) {
        if (threadIdx.x == 0) ahead = atomicAdd(counter, 1);
    }

    /// The next position. A barrier before and after: shared memory may be reused by what follows.
    __device__ __forceinline__ int next() {
        if (threadIdx.x == 0) *slot = ahead;
        __syncthreads();
        const int position = *slot;
        if (threadIdx.x == 0) ahead = atomicAdd(counter, 1);
        __syncthreads();
        return position;
    }
};

/// First of the next `count` positions for the calling warp; all its lanes call it.
__device__ __forceinline__ int next_for_warp(int* counter, int count) {
    int next = 0;
    if (lane_id() == 0) next = atomicAdd(counter, count);
    return __shfl_sync(kFullMask, next, 0);
}
