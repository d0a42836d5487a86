// Warp-level building blocks and exact accumulators, shared by every motif.
//
// All 32 lanes of a warp call every function here together, unless its comment says otherwise.
// Kernels see no headers: NVRTC has none, and the host emulator of the tests supplies its own.
#pragma once

constexpr unsigned kFullMask = 0xffffffffu;
constexpr int kWarpSize = 32;

__device__ __forceinline__ int lane_id() { return threadIdx.x & 31; }

__device__ __forceinline__ unsigned lanes_before(int lane) { return (1u << lane) - 1u; }

__device__ __forceinline__ long long global_thread() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long grid_threads() { return (long long)gridDim.x * blockDim.x; }

/// Inclusive prefix sum over the lanes; the caller bounds the sum below 2^32.
__device__ __forceinline__ unsigned warp_inclusive_sum(unsigned value) {
    const int lane = lane_id();
    for (int step = 1; step < kWarpSize; step <<= 1) {
        const unsigned left = __shfl_up_sync(kFullMask, value, step);
        if (lane >= step) value += left;
    }
    return value;
}

/// Sum over the lanes, in every lane; the caller bounds the sum below 2^64.
__device__ __forceinline__ unsigned long long warp_sum(unsigned long long value) {
    for (int step = kWarpSize / 2; step > 0; step >>= 1) value += __shfl_xor_sync(kFullMask, value, step);
    return value;
}

/// Sum over the lanes, in every lane; the caller bounds the sum below 2^32.
__device__ __forceinline__ unsigned warp_total(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kFullMask, value);
#else
    for (int step = kWarpSize / 2; step > 0; step >>= 1) value += __shfl_xor_sync(kFullMask, value, step);
    return value;
#endif
}

/// Least value of the lanes, in every lane.
__device__ __forceinline__ unsigned warp_least(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kFullMask, value);
#else
    for (int step = kWarpSize / 2; step > 0; step >>= 1)
        value = min(value, __shfl_xor_sync(kFullMask, value, step));
    return value;
#endif
}

/// Bits set in any lane, in every lane.
__device__ __forceinline__ unsigned warp_or(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kFullMask, value);
#else
    for (int step = kWarpSize / 2; step > 0; step >>= 1) value |= __shfl_xor_sync(kFullMask, value, step);
    return value;
#endif
}

/// The current value of a word that other blocks change by atomics. Any lane alone.
template <class T>
__device__ __forceinline__ T peek(T* at) {
#ifdef PAPILIO_EMULATED
    return atomicAdd(at, (T)0);
#else
    return *(volatile T*)at;
#endif
}

/// Sum over the lanes of one segment; the lanes of a segment are consecutive and `first` is the first lane of the
/// caller's segment. The result is correct in the last lane of each segment.
__device__ __forceinline__ unsigned long long warp_segment_sum(unsigned long long value, int first) {
    const int lane = lane_id();
    for (int step = 1; step < kWarpSize; step <<= 1) {
        const unsigned long long left = __shfl_up_sync(kFullMask, value, step);
        if (lane - step >= first) value += left;
    }
    return value;
}

/// A sum of 64-bit terms that cannot wrap: the low and the high halves of the terms are added separately. 2^32 terms
/// always fit; MAX_RUN_WEDGES in kernels/exact.py proves that the terms of a run fit, which can be more, and the host
/// checks that bound. The host joins them: total = low + (high << 32), as Python integers.
struct SplitSum {
    unsigned long long low = 0;
    unsigned long long high = 0;

    __device__ __forceinline__ void add(unsigned long long term) {
        low += term & 0xffffffffull;
        high += term >> 32;
    }

    /// Add the sums of all lanes of the warp to out[0] (low) and out[1] (high).
    __device__ __forceinline__ void flush(unsigned long long* out) const {
        const unsigned long long all_low = warp_sum(low);
        const unsigned long long all_high = warp_sum(high);
        if (lane_id() == 0 && (all_low | all_high) != 0) {
            atomicAdd(&out[0], all_low);
            atomicAdd(&out[1], all_high);
        }
    }
};

// Hash whose sums are the checksums.

/// The finalizer of SplitMix64, as `mix` of kernels/exact.py; any lane alone.
__device__ __forceinline__ unsigned long long mix(unsigned long long value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// Binary search, by a condition.

/// The first place from 0 to n - 1 that is not `before` the target, or n; places before the target come first. Any
/// lane alone.
template <class Place, class Before>
__device__ __forceinline__ Place first_not(Place n, Before before) {
    Place low = 0;
    while (low < n) {
        const Place middle = low + ((n - low) >> 1);
        if (before(middle))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

// Distribution of work items to thread blocks and warps: one atomic counter per launch, in device memory.
//
// A launch is a set of persistent blocks. Each takes the next positions from the counter until the counter
// exceeds `limit`; items are ordered heaviest first, so the last ones are light.

/// Positions for the whole block, each fetched while the block works on the previous one. All threads of the block
/// use it together; `slot` is a word of shared memory used by nothing else.
struct BlockQueue {
    int* counter;
    int* slot;
    int ahead;  // thread 0: the next position

    __device__ __forceinline__ BlockQueue(int* counter, int* slot) : counter(counter), slot(slot), ahead(0) {
        if (threadIdx.x == 0) ahead = atomicAdd(counter, 1);
    }

    /// The next position. Has a barrier before and after, so shared memory may be reused afterwards.
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

// Teams of threads that run rounds together: a block, or the whole grid, whose launch must keep all blocks resident.
// After its barrier, all threads of a team see everything the team wrote before it.

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
