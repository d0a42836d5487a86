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

    /// A number of [0, 1).
    __device__ __forceinline__ double unit() {
        state += 0x9e3779b97f4a7c15ull;
        return (double)(mix(state) >> 11) * (1.0 / 9007199254740992.0);
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

/// Probabilities of a path by two bounds of its nodes, one of which the probe goes by; see draw_child of probe_loops.py.
struct Chances {
    double first;
    double second;
    bool by_second;

    __device__ __forceinline__ explicit Chances(Draws& draws) : first(1.0), second(1.0), by_second(draws(2) != 0) {}

    /// Of what is found at a node.
    __device__ __forceinline__ double weight() const { return 2.0 / (first + second); }

    /// One of n children, whose bounds are at `places`, -1 for children that are not drawn; -1 where there is none.
    __device__ __forceinline__ int draw(Draws& draws, const int* places, int n, const double* ones, const double* twos) {
        double one = 0.0, two = 0.0;
#pragma unroll 1
        for (int i = 0; i < n; ++i) {
            if (places[i] < 0) continue;
            one += ones[places[i]];
            two += twos[places[i]];
        }
        if (one == 0.0) return -1;
        const double goal = multiply(draws.unit(), by_second ? two : one);
        const double* const taken = by_second ? twos : ones;
        double until = 0.0;
        int chosen = -1;
#pragma unroll 1
        for (int i = 0; i < n; ++i) {
            if (places[i] < 0) continue;
            chosen = i;
            until += taken[places[i]];
            if (goal < until) break;
        }
        first = multiply(first, ones[places[chosen]] / one);
        second = multiply(second, twos[places[chosen]] / two);
        return chosen;
    }
};
