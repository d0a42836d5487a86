// Teams of threads that go through rounds together: a block, or the whole grid, whose launch must keep all blocks resident.
//
// What the threads of a team wrote before its barrier, all of them see behind it.
#pragma once

#include "warp.cuh"

/// All threads of a block.
struct BlockTeam {
    __device__ __forceinline__ int index() const { return (int)threadIdx.x; }
    __device__ __forceinline__ int size() const { return (int)blockDim.x; }
    __device__ __forceinline__ void sync() { __syncthreads(); }
};

/// All threads of the grid; `arrivals` is a word in device memory that is 0 at launch.
struct GridTeam {
    unsigned long long* arrivals;
    unsigned long long expected;

    __device__ __forceinline__ int index() const { return (int)global_thread(); }
    __device__ __forceinline__ int size() const { return (int)grid_threads(); }
    __device__ __forceinline__ void sync() {
        __syncthreads();
        if (threadIdx.x == 0) {
            expected += gridDim.x;
            __threadfence();
            atomicAdd(arrivals, 1ull);
            while (peek(arrivals) < expected) {
            }
            __threadfence();
        }
        __syncthreads();
    }
};
