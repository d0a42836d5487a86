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
