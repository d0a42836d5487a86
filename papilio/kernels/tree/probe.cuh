// What probes of every search share: random numbers, products that all processors round alike, and draws of children.
//
// A probe goes down one random branch of a tree and divides by the probability of each step (kernels/probe.py). What it
// finds is the same as by kernels/tree/probe_loops.py, bit for bit: every draw is a hash, every product is rounded by itself.
#pragma once

#include "warp.cuh"

/// A product that is rounded before anything is added to it.
__device__ __forceinline__ double multiply(double a, double b) {
#ifdef PAPILIO_EMULATED
    volatile double product = a * b;
    return product;
#else
    return __dmul_rn(a, b);
#endif
}

/// Random numbers of a probe; all lanes draw the same.
struct Draws {
    unsigned long long state;

    /// A number below n.
    __device__ __forceinline__ int operator()(int n) {
        state += 0x9e3779b97f4a7c15ull;
        return (int)((mix(state) >> 32) * (unsigned long long)n >> 32);
    }

    /// A number below n, which is far below 2^63.
    __device__ __forceinline__ long long wide(long long n) {
        state += 0x9e3779b97f4a7c15ull;
        return (long long)(mix(state) % (unsigned long long)n);
    }

    /// The least of `take` numbers below n.
    __device__ __forceinline__ int least(int n, int take) {
        int first = n;
#pragma unroll 1
        for (int i = 0; i < take; ++i) first = min(first, (*this)(n));
        return first;
    }
};

/// (a / n)^take - (b / n)^take.
__device__ __forceinline__ double power_gap(int a, int b, int n, int take) {
    double above = 1.0, below = 1.0;
#pragma unroll 1
    for (int i = 0; i < take; ++i) {
        above = multiply(above, (double)a / n);
        below = multiply(below, (double)b / n);
    }
    return above - below;
}

/// The sum of `value(i)` for i below n, in the order of add_by_lanes of probe_loops.py. The warp.
template <class Value>
__device__ __forceinline__ double sum_by_lanes(int n, Value value) {
    double sum = 0.0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) sum += value(i);
    for (int step = kWarpSize / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(kFullMask, sum, step);
    return sum;
}

__device__ __forceinline__ double larger(double a, double b) { return a < b ? b : a; }

/// One of n, at least one, and 1 / its probability.
struct Drawn {
    int which;
    double times;
};

/// Draw i of n about in proportion to finite `weight(i)`; see draw_weighted of probe_loops.py. The warp.
template <class Weight>
__device__ __forceinline__ Drawn draw_weighted(Draws& draws, int n, Weight weight) {
    double most = 0.0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) most = larger(most, weight(i));
    for (int step = kWarpSize / 2; step > 0; step >>= 1) most = larger(most, __shfl_xor_sync(kFullMask, most, step));
    const auto lots_of = [&](int i) -> long long {
        if (i >= n) return 0;
        return most > 0.0 ? (long long)multiply(weight(i) / most, (double)(1 << LOT_BITS)) + 1 : 1;
    };
    long long total = 0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) total += lots_of(i);
    for (int step = kWarpSize / 2; step > 0; step >>= 1) total += __shfl_xor_sync(kFullMask, total, step);
    long long at = draws.wide(total);
#pragma unroll 1
    for (int first = 0;; first += kWarpSize) {
        const long long own = lots_of(first + lane_id());
        long long until = own;
#pragma unroll 1
        for (int step = 1; step < kWarpSize; step <<= 1) {
            const long long left = __shfl_up_sync(kFullMask, until, step);
            if (lane_id() >= step) until += left;
        }
        const unsigned past = __ballot_sync(kFullMask, until > at);
        if (past != 0u) {
            const int lane = __ffs((int)past) - 1;
            return Drawn{first + lane, (double)total / (double)__shfl_sync(kFullMask, own, lane)};
        }
        at -= __shfl_sync(kFullMask, until, kWarpSize - 1);
    }
}
