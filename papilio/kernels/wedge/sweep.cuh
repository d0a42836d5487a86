// What is made of the counters of a start once all of its wedges are counted, where their sum of C(c, 2) is not enough.
//
// GIVES = 1: histogram, result[c] is the number of counters that end at c >= 2.
// GIVES = 2 (KINDS = 4): census, result holds the SplitSums of the six classes of butterflies with signs, in the order of
// CENSUS_CLASSES in motifs.py; SIDE is the layer of the pairs whose signs make the class, 0 for U, 1 for V. A butterfly is
// met from one pair alone, of whichever layer: from the other two vertices ++/-- is +-/+- with both positive edges at
// one vertex, and the other way round; all else is the same from both.
#pragma once

#include "wedges.cuh"

#ifndef GIVES
#define GIVES 0
#endif
#ifndef SIDE
#define SIDE 0
#endif

constexpr bool kSweeps = GIVES > 0;
constexpr bool kCensus = GIVES == 2;
constexpr int kClasses = 6;

/// The sums of one warp.
struct Sweep {
    unsigned long long* result;
#if GIVES == 2
    SplitSum classes[kClasses];
    bool own_side;

    __device__ __forceinline__ void begin(const WedgeGraph& graph, const Start& start) {
        own_side = (start.row < graph.n_u) == (SIDE == 0);
    }

    /// A pair by its common neighbours: both edges positive, the start's negative, the end's negative, both negative.
    /// Any lane alone.
    __device__ __forceinline__ void take_pair(unsigned both, unsigned x, unsigned y, unsigned none) {
        const unsigned long long a = both, b = none, mixed = (unsigned long long)x + y;
        const unsigned long long split = a * b, same = choose_two(x) + choose_two(y);
        classes[0].add(choose_two(both));
        classes[1].add(own_side ? split : same);
        classes[2].add(choose_two(none));
        classes[3].add((own_side ? same : split) + (unsigned long long)x * y);
        classes[4].add(a * mixed);
        classes[5].add(b * mixed);
    }

    /// Counters [0, n), kKinds of a pair side by side. The block.
    template <class Count>
    __device__ __forceinline__ void take_counters(unsigned n, Count count) {
        for (unsigned x = kKinds * threadIdx.x; x < n; x += kKinds * blockDim.x)
            take_pair(count(x), count(x + 1), count(x + 2), count(x + 3));
    }

    __device__ __forceinline__ void flush() const {
#pragma unroll
        for (int i = 0; i < kClasses; ++i) classes[i].flush(result + 2 * i);
    }

    __device__ __forceinline__ static unsigned long long choose_two(unsigned count) {
        return (unsigned long long)count * (count - 1u) / 2;
    }
#else
    __device__ __forceinline__ void begin(const WedgeGraph&, const Start&) {}

    /// A counter; all lanes of the warp together, 0 for lanes without one.
    __device__ __forceinline__ void take(unsigned count) const {
        const unsigned kept = count >= 2 ? count : 0;
        const unsigned peers = __match_any_sync(kFullMask, kept);
        if (kept != 0 && (peers & lanes_before(lane_id())) == 0)
            atomicAdd(&result[kept], (unsigned long long)__popc(peers));
    }

    /// Counters [0, n). The block.
    template <class Count>
    __device__ __forceinline__ void take_counters(unsigned n, Count count) const {
        for (unsigned base = threadIdx.x - lane_id(); base < n; base += blockDim.x) {
            const unsigned x = base + lane_id();
            take(x < n ? count(x) : 0);
        }
    }

    __device__ __forceinline__ void flush() const {}
#endif
};
