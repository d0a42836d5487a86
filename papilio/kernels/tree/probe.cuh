// Code shared by the probes of every search: their loop, results, random numbers, rounded products, and draws of children.
//
// A probe descends one random branch of a tree and divides by the probability of each step (kernels/probe.py). Its results
// equal those of kernels/tree/probe_loops.py bit for bit: every draw is a hash, every product is rounded separately.
#pragma once

#include "search.cuh"

/// A product, rounded before anything is added to it.
__device__ __forceinline__ double multiply(double a, double b) {
#ifdef PAPILIO_EMULATED
    volatile double product = a * b;
    return product;
#else
    return __dmul_rn(a, b);
#endif
}

/// Words of 64 bits, the unit of costs.
__device__ __forceinline__ int wide_words(int bits) { return (bits + 63) / 64; }

/// Call `walk(arena, probe)` for each probe: a warp each, in rounds, with an empty arena.
template <class Walk>
__device__ __forceinline__ void for_each_probe(int n_probes, int near_words, unsigned* slab, long long far_words,
                                               const Walk& walk) {
    Arena arena{warp_memory(near_words), slab + warp_number() * far_words, near_words, 0, far_words, 0};
    const Arena::Mark empty = arena.mark();
    const int n_warps = (int)(grid_threads() / kWarpSize);
#pragma unroll 1
    for (int probe = (int)warp_number(); probe < n_probes; probe += n_warps) {
        __syncwarp();
        arena.release(empty);
        walk(arena, probe);
    }
}

/// Results of a probe, in device memory: motifs, their vertices, nodes and words; lane 0 adds. See unpack_found of
/// kernels/probe.py.
struct Found {
    double* sums;

    __device__ __forceinline__ Found(double* found, int probe) : sums(found + (long long)probe * 4) {}

    __device__ __forceinline__ void add_motifs(double motifs, double members) const {
        if (lane_id() != 0) return;
        sums[0] += motifs;
        sums[1] += members;
    }
    __device__ __forceinline__ void add_nodes(double nodes) const {
        if (lane_id() == 0) sums[2] += nodes;
    }
    __device__ __forceinline__ void add_words(double words) const {
        if (lane_id() == 0) sums[3] += words;
    }
};

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

    /// A number in [0, 1).
    __device__ __forceinline__ double unit() {
        state += 0x9e3779b97f4a7c15ull;
        return (double)(mix(state) >> 11) * (1.0 / 9007199254740992.0);
    }

    /// The minimum of `take` numbers below n.
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

/// One of those with lots.
struct Holder {
    int which;
    unsigned long long lots;
};

/// The first of n whose lots, with the lots of all before it, exceed `at`; there is one. The warp.
template <class Lots>
__device__ __forceinline__ Holder find_holder(int n, unsigned long long at, const Lots& lots_of) {
#pragma unroll 1
    for (int first = 0;; first += kWarpSize) {
        const int i = first + lane_id();
        const unsigned long long own = i < n ? lots_of(i) : 0ull, until = warp_segment_sum(own, 0);
        const unsigned past = __ballot_sync(kFullMask, until > at);
        if (past != 0u) {
            const int lane = __ffs((int)past) - 1;
            return Holder{first + lane, __shfl_sync(kFullMask, own, lane)};
        }
        at -= __shfl_sync(kFullMask, until, kWarpSize - 1);
    }
}

/// A drawn child and its probability.
struct DrawnChild {
    int child;  // -1: no child has a bound
    double chance;
};

/// Draw one of n children in proportion to `bound(child)`, long long; one time in eight all children with a bound are
/// equally likely. The warp; see draw_by_bound of probe_loops.py.
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
    const long long at = is_even ? (long long)draws((int)n_bounded) : draws.wide((long long)total);
    const Holder drawn = find_holder(n, (unsigned long long)at, [&](int i) {
        const unsigned long long own = (unsigned long long)bound(i);
        return is_even ? (unsigned long long)(own != 0) : own;
    });
    const double share = (double)(unsigned long long)bound(drawn.which) / (double)total;
    return DrawnChild{drawn.which, multiply(0.875, share) + 0.125 / (double)n_bounded};
}

/// Probabilities of a path by two bounds of its nodes, one of which the probe uses; see draw_child of probe_loops.py.
struct Chances {
    double first;
    double second;
    bool by_second;

    __device__ __forceinline__ explicit Chances(Draws& draws) : first(1.0), second(1.0), by_second(draws(2) != 0) {}

    /// Weight of the results at a node; finite, however small the probabilities are.
    __device__ __forceinline__ double weight() const { return first + second > 2e-300 ? 2.0 / (first + second) : 1e300; }

    /// One of n children, whose bounds are at `places`, -1 for children that are not drawn; -1 if no child can be drawn.
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
    const auto lots_of = [&](int i) -> unsigned long long {
        return most > 0.0 ? (unsigned long long)multiply(weight(i) / most, (double)(1 << LOT_BITS)) + 1 : 1;
    };
    unsigned long long total = 0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) total += lots_of(i);
    total = warp_sum(total);
    const Holder drawn = find_holder(n, (unsigned long long)draws.wide((long long)total), lots_of);
    return Drawn{drawn.which, (double)total / (double)drawn.lots};
}
