// Results computed from the counters of a start once all of its wedges are counted, beyond their sum of C(c, 2).
//
// GIVES = 1: histogram, result[c] is the number of counters that end at c >= 2.
// GIVES = 2 (KINDS = 4): census, result holds the SplitSums of the six classes of butterflies with signs, in the order of
// CENSUS_CLASSES in motifs.py; SIDE is the layer of the pairs whose signs make the class, 0 for U, 1 for V. A butterfly is
// met from one pair alone, of whichever layer: from the other two vertices ++/-- is +-/+- with both positive edges at
// one vertex, and the other way round; all else is the same from both.
// GIVES = 3: pairs of ends with `least` or more common neighbours, total[0] of them so far. With `writes` those of a launch
// are written in any order, result[i] = (row of the start, rank of the end) in the halves of a word, commons[i] the common
// neighbours; the caller bounds their number by the sum over the starts of the lesser of ends and wedges / least.
#pragma once

#include "hub_columns.cuh"
#include "warp.cuh"
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

#if GIVES == 3
#define RESULT_PARAMETERS \
    unsigned long long *total, unsigned long long *result, int *commons, const int least, const int writes
#define SWEEP_FIELDS {total, result, commons, (unsigned)least, writes}
#else
#define RESULT_PARAMETERS unsigned long long *total, unsigned long long *result
#define SWEEP_FIELDS {result}
#endif

/// The sums of one warp.
struct Sweep {
#if GIVES == 2
    unsigned long long* result;
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

    /// The first n counters from an end on, kKinds of a pair side by side. The block.
    template <class Count>
    __device__ __forceinline__ void take_counters(int, unsigned n, Count count) {
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
#if GIVES == 3
    unsigned long long* found;
    unsigned long long* pairs;
    int* commons;
    unsigned least;
    int writes;
    unsigned row = 0;
    unsigned long long held = 0;  // pairs of this lane that are only counted

    __device__ __forceinline__ void begin(const WedgeGraph&, const Start& start) { row = (unsigned)start.row; }

    /// The counter of an end; all lanes of the warp together, 0 for lanes without one.
    __device__ __forceinline__ void take(int end, unsigned count) {
        const bool hit = count >= least;
        if (!writes) {
            held += hit;
            return;
        }
        const unsigned hits = __ballot_sync(kFullMask, hit);
        if (hits == 0) return;
        unsigned long long first = 0;
        if (lane_id() == 0) first = atomicAdd(found, (unsigned long long)__popc(hits));
        first = __shfl_sync(kFullMask, first, 0);
        if (!hit) return;
        const unsigned long long at = first + __popc(hits & lanes_before(lane_id()));
        pairs[at] = (unsigned long long)row << 32 | (unsigned)end;
        commons[at] = (int)count;
    }

    __device__ __forceinline__ void flush() const {
        const unsigned long long all = warp_sum(held);
        if (lane_id() == 0 && all != 0) atomicAdd(found, all);
    }
#else
    unsigned long long* result;

    __device__ __forceinline__ void begin(const WedgeGraph&, const Start&) {}

    /// The counter of an end; all lanes of the warp together, 0 for lanes without one.
    __device__ __forceinline__ void take(int, unsigned count) {
        const unsigned kept = count >= 2 ? count : 0;
        const unsigned peers = __match_any_sync(kFullMask, kept);
        if (kept != 0 && (peers & lanes_before(lane_id())) == 0)
            atomicAdd(&result[kept], (unsigned long long)__popc(peers));
    }

    __device__ __forceinline__ void flush() const {}
#endif

    /// The first n counters from the end `low` on. The block.
    template <class Count>
    __device__ __forceinline__ void take_counters(int low, unsigned n, Count count) {
        for (unsigned base = threadIdx.x - lane_id(); base < n; base += blockDim.x) {
            const unsigned x = base + lane_id();
            take(low + (int)x, x < n ? count(x) : 0);
        }
    }
#endif
};

// Code shared by the butterfly kernels: parameters, places of counts in a result, counters in shared memory.
//
// PER = 0: total; 1: per vertex, result[row]; 2: per edge, result[entry], to be added over both directions.
// GIVES > 0: no sum, but the result of a sweep over the counters of each start, see butterfly.cuh.
// PART = 1 (see wedges.cuh): vertices are starts, then ends, then middles; entries of starts, then of ends.

#ifndef PER
#define PER 0
#endif
/// For kernels with a table in shared memory: few registers, for many blocks. The sums of a census need more registers.
#define TABLE_BOUNDS __launch_bounds__(TABLE_THREADS, kCensus ? 1 : 3)

constexpr bool kPerVertex = PER == 1;
constexpr bool kPerEdge = PER == 2;

#define ITEM_PARAMETERS const int *__restrict__ rows, const int n_rows, int *counter

/// The row of a scheduled start; minus 2^31 if the bit matrix counts the ends in the hub columns.
__device__ __forceinline__ int row_of(int scheduled) { return scheduled & 0x7fffffff; }

/// Places in the result of the counts of an end, of the middle of an entry, and of an entry (middle, end).
__device__ __forceinline__ int place_of_end(const WedgeGraph& graph, const Start& start, int end) {
#if PART
    return graph.n_starts + end;
#else
    return start.row - start.rank + end / kKinds;
#endif
}
__device__ __forceinline__ int place_of_middle(const WedgeGraph& graph, const Start& start, long long entry) {
#if PART
    return graph.first_middle + graph.adjacency[entry];
#else
    return rank_of(graph.adjacency[entry]) + start.middle_offset;
#endif
}
__device__ __forceinline__ long long place_of_entry(const WedgeGraph& graph, long long at) {
#if PART
    return graph.indptr[graph.n_starts] + at;
#else
    return at;
#endif
}

/// Add the motifs of one window to the middles or to the edges; `shared_by(end)` is c - 1 for the counter of an end.
template <int kWidth, class SharedBy>
__device__ __forceinline__ void give_window(const WedgeGraph& graph, const Start& start, const Wedges<kWidth>& wedges,
                                            SharedBy shared_by, unsigned long long* result) {
    unsigned long long of_lane = 0;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
        const unsigned shared = wedges.end[k] >= 0 ? shared_by(wedges.end[k]) : 0;
        of_lane += shared;
        if (kPerEdge && shared != 0)
            atomicAdd(&result[place_of_entry(graph, wedges.at + k)], (unsigned long long)shared);
    }
    const unsigned long long sum = warp_segment_sum(of_lane, wedges.segment);
    const int next = __shfl_down_sync(kFullMask, wedges.segment, 1);
    const bool last = lane_id() == kWarpSize - 1 || next != wedges.segment;
    if (last && sum != 0)
        atomicAdd(&result[kPerEdge ? wedges.entry : place_of_middle(graph, start, wedges.entry)], sum);
}

/// Add the motifs of all wedges of a start to the middles or to the edges, as give_window does.
template <class SharedBy>
__device__ __forceinline__ void give_wedges(const WedgeGraph& graph, const Start& start, int warp, int n_warps,
                                            SharedBy shared_by, unsigned long long* result) {
    for_each_share<WEDGES_AT_ONCE, WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Share& wedges) {
        give_window(graph, start, wedges, shared_by, result);
    });
}

__device__ __forceinline__ void give_end(const WedgeGraph& graph, const Start& start, int end, unsigned count,
                                         unsigned long long* result) {
    if (count >= 2)
        atomicAdd(&result[place_of_end(graph, start, end)], (unsigned long long)count * (count - 1) / 2);
}

/// A sum of terms below 2^63, each added by all lanes of a warp together; its value also stays below 2^63.
struct RunningSum {
    unsigned long long* const total;  // of a SplitSum
    unsigned long long held = 0;

    __device__ __forceinline__ void add(unsigned long long term) {
        held += term;
        if (__any_sync(kFullMask, (long long)held < 0)) flush();
    }

    __device__ __forceinline__ void flush() {
        SplitSum sums;
        sums.add(held);
        sums.flush(total);
        held = 0;
    }
};

/// Finish a start: add its butterflies to the total, and per vertex to the start itself.
__device__ __forceinline__ void finish_start(const Start& start, unsigned long long sum, RunningSum& total,
                                             unsigned long long* result) {
    total.add(sum);
    if (kPerVertex) {
        const unsigned long long all = warp_sum(sum);
        if (lane_id() == 0 && all != 0) atomicAdd(&result[start.row], all);
    }
}

/// Set shared memory, 16 bytes per store, by the whole block.
__device__ __forceinline__ void fill_quads(uint4* quads, int n_quads, unsigned word) {
    for (int i = threadIdx.x; i < n_quads; i += blockDim.x) quads[i] = make_uint4(word, word, word, word);
}

/// Counters of a tile of ends, 2^log2_bits bits each. Lanes take neighbours in a list a share apart, so two of them rarely
/// share a word.
struct DenseTile {
    SharedWords table;
    int log2_bits;
    unsigned range;

    __device__ __forceinline__ unsigned mask() const { return kFullMask >> (32 - (1 << log2_bits)); }

    /// Count the wedges of a share, whose ends are at least `low`: adds their previous counters to `sum`; `most` is the
    /// largest. Issues the atomics of a share back to back, and reads their results afterwards.
    __device__ __forceinline__ void count(const Share& share, unsigned low, unsigned long long& sum, unsigned& most) const {
        unsigned held[WEDGES_AT_ONCE];
#pragma unroll
        for (int k = 0; k < WEDGES_AT_ONCE; ++k) {
            const unsigned bit = ((unsigned)share.end[k] - low) << log2_bits;
            held[k] = 0;
            if (share.end[k] >= 0) held[k] = table.add((int)(bit / 32), 1u << bit % 32);
        }
#pragma unroll
        for (int k = 0; k < WEDGES_AT_ONCE; ++k) {
            const unsigned bit = ((unsigned)share.end[k] - low) << log2_bits, before = held[k] >> bit % 32 & mask();
            sum += before;
            most = max(most, before);
        }
    }

    __device__ __forceinline__ unsigned count(unsigned x) const {
        const unsigned bit = x << log2_bits;
        return table.get((int)(bit / 32)) >> bit % 32 & mask();
    }
};

/// Count the wedges of a start in a table of shared memory that is clear before and after, in tiles over the ends if it is
/// too small. Without hubs, narrower counters are tried if they fit; if one is full, everything is recounted in tiles.
/// use(tile, low) reads the counters of the ends from `low` on. The block; use() ends with a barrier if it reads counters.
/// Returns the sum over the caller's wedges of their previous counters.
template <class Use>
__device__ __forceinline__ unsigned long long count_in_tiles(const WedgeGraph& graph, Start& start, uint4* quads,
                                                             int table_words, int warp, int n_warps, Use use) {
    DenseTile tile{SharedWords(quads)};
    // Both below 2^31: ends have counters of 32 bits for each kind (see gpu_graph.py).
    const unsigned lowest = start.skip_hubs ? (unsigned)(kKinds * graph.hub_columns) : 0, highest = (unsigned)(kKinds * start.rank);
    const auto capacity = [&] { return (unsigned long long)table_words << (5 - tile.log2_bits); };
    tile.log2_bits = log2_counter_bits(start.end - start.begin);
    if (start.skip_hubs) {
        while (tile.log2_bits >= kLog2LeastBits && highest - lowest > capacity()) --tile.log2_bits;
        if (tile.log2_bits < kLog2LeastBits) tile.log2_bits = log2_counter_bits(start.end - start.begin);
    }
    unsigned long long sum = 0;
    for (unsigned low = lowest; low < highest;) {
        tile.range = (unsigned)min((unsigned long long)(highest - low), capacity());
        const int n_quads = (int)(((tile.range << tile.log2_bits) + 127) / 128);
        start.end_low = (int)low;
        start.end_high = (int)(low + tile.range);
        start.narrow = tile.range < highest - lowest;
        unsigned most = 0;
        for_each_share<WEDGES_AT_ONCE, WEDGES_AHEAD>(
            graph, start, warp, n_warps, [&](const Share& share) { tile.count(share, low, sum, most); });
        if (__syncthreads_or(most == tile.mask())) {  // in a single tile, unless its counters are the widest
            tile.log2_bits = log2_counter_bits(start.end - start.begin);
            sum = 0;
        } else {
            use(tile, (int)low);
            low += tile.range;
        }
        fill_quads(quads, n_quads, 0);
        __syncthreads();
    }
    return sum;
}
