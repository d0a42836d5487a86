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

/// A child that was drawn, and its probability.
struct DrawnChild {
    int child;  // -1: no child has a bound
    double chance;
};

/// Draw one of n children in proportion to `bound(child)`, long long; one time in eight all with a bound are alike. The
/// warp; see draw_by_bound of probe_loops.py.
template <class Bound>
__device__ __forceinline__ DrawnChild draw_by_bound(Draws& draws, int n, const Bound& bound) {
    unsigned long long total = 0;
    unsigned n_bounded = 0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) {
        const unsigned long long own = (unsigned long long)bound(i);
        total += own;
        n_bounded += own != 0 ? 1u : 0u;
    }
    total = warp_sum(total);
    n_bounded = warp_total(n_bounded);
    if (n_bounded == 0) return DrawnChild{-1, 1.0};
    const bool is_even = draws(8) == 0;
    unsigned long long rest = (unsigned long long)(is_even ? (long long)draws((int)n_bounded) : draws.wide((long long)total));
#pragma unroll 1
    for (int first = 0;; first += kWarpSize) {
        const int i = first + lane_id();
        const unsigned long long own = i < n ? (unsigned long long)bound(i) : 0;
        const unsigned long long until = warp_segment_sum(is_even ? (unsigned long long)(own != 0) : own, 0);
        const unsigned reached = __ballot_sync(kFullMask, until > rest);
        if (reached != 0) {
            const int at = __ffs((int)reached) - 1;
            const double share = (double)__shfl_sync(kFullMask, own, at) / (double)total;
            return DrawnChild{first + at, multiply(0.875, share) + 0.125 / (double)n_bounded};
        }
        rest -= __shfl_sync(kFullMask, until, kWarpSize - 1);
    }
}
