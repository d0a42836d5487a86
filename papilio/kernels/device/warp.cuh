// Warp-level building blocks and exact accumulators, shared by every motif.
//
// Every function here is called by all 32 lanes of a warp together unless it says otherwise.
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

/// Bits that any lane has, in every lane.
__device__ __forceinline__ unsigned warp_or(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kFullMask, value);
#else
    for (int step = kWarpSize / 2; step > 0; step >>= 1) value |= __shfl_xor_sync(kFullMask, value, step);
    return value;
#endif
}

/// A word that other blocks change by atomics, as it is now. Any lane alone.
template <class T>
__device__ __forceinline__ T peek(T* at) {
#ifdef PAPILIO_EMULATED
    return atomicAdd(at, (T)0);
#else
    return *(volatile T*)at;
#endif
}

/// Sum over the lanes of one segment, where the lanes of a segment are consecutive and `first` is the first
/// lane of the caller's segment; the result is right in the last lane of each segment.
__device__ __forceinline__ unsigned long long warp_segment_sum(unsigned long long value, int first) {
    const int lane = lane_id();
    for (int step = 1; step < kWarpSize; step <<= 1) {
        const unsigned long long left = __shfl_up_sync(kFullMask, value, step);
        if (lane - step >= first) value += left;
    }
    return value;
}

/// A sum of 64-bit terms that cannot wrap: the low and the high halves of the terms are added apart. 2^32 terms always
/// fit; why those of a run do, which can be more, is said at MAX_RUN_WEDGES in kernels/bounds.py, which the host checks.
/// It joins them: total = low + (high << 32), in big integers.
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
