// What the kernels of butterflies share: their parameters, where counts lie in a result, counters in shared memory.
//
// PER = 0: total; 1: per vertex, result[row]; 2: per edge, result[entry], to be added over both directions.
// GIVES > 0: no sum, but what a sweep over the counters of each start gives, see sweep.cuh.
// PART = 1 (see wedges.cuh): vertices are starts, then ends, then middles; entries those of starts, then those of ends.
#pragma once

#include "hub_columns.cuh"
#include "schedule.cuh"
#include "sweep.cuh"

#ifndef PER
#define PER 0
#endif
/// Of kernels with a table in shared memory: few registers, for many blocks. The sums of a census do not fit into so few.
#define TABLE_BOUNDS __launch_bounds__(TABLE_THREADS, kCensus ? 1 : 3)

constexpr bool kPerVertex = PER == 1;
constexpr bool kPerEdge = PER == 2;
static_assert(DENSE_8_BELOW <= 1 << 8 && DENSE_16_BELOW <= 1 << 16, "a counter comes to the degree of the start");

#define ROW_PARAMETERS                                                                                     \
    const long long *__restrict__ indptr, const int *__restrict__ adjacency, const int *__restrict__ prefix, \
        const int *__restrict__ hub_count, const unsigned char *__restrict__ uses_hubs
#if PART
#define GRAPH_PARAMETERS                                                                                     \
    ROW_PARAMETERS, const int n_starts, const long long *__restrict__ end_indptr, const int *__restrict__ ends, \
        const int *__restrict__ preceding, const int first_middle
#define GRAPH_FIELDS {indptr, adjacency, prefix, hub_count, n_starts, end_indptr, ends, preceding, first_middle}
#else
#define GRAPH_PARAMETERS ROW_PARAMETERS, const int n_u
#define GRAPH_FIELDS {indptr, adjacency, prefix, hub_count, n_u}
#endif
#define ITEM_PARAMETERS const int *__restrict__ rows, const int n_rows, int *counter
#define RESULT_PARAMETERS unsigned long long *total, unsigned long long *result

/// Where the counts of an end, of the middle of an entry, and of an entry (middle, end) lie in the result.
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

/// Give the motifs of one window to the middles or to the edges; `shared_by(end)` is c - 1 for the counter of an end.
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

/// Give the motifs of all wedges of a start to the middles or to the edges, as give_window does.
template <class SharedBy>
__device__ __forceinline__ void give_wedges(const WedgeGraph& graph, const Start& start, int warp, int n_warps,
                                            SharedBy shared_by, unsigned long long* result) {
    for_each_share<WEDGES_AT_ONCE, WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Wedges<WEDGES_AT_ONCE>& wedges) {
        give_window(graph, start, wedges, shared_by, result);
    });
}

__device__ __forceinline__ void give_end(const WedgeGraph& graph, const Start& start, int end, unsigned count,
                                         unsigned long long* result) {
    if (count >= 2)
        atomicAdd(&result[place_of_end(graph, start, end)], (unsigned long long)count * (count - 1) / 2);
}

/// A finished start: its butterflies go to the total, and per vertex to the start itself.
__device__ __forceinline__ void finish_start(const Start& start, unsigned long long sum, SplitSum& total,
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

/// Counters of a tile of ends: x in [0, range) is field x / words of word x % words.
struct DenseTile {
    unsigned* table;
    int words, bits;
    unsigned range;

    __device__ __forceinline__ int field(unsigned x) const {
        return (x >= (unsigned)words) + (x >= 2u * words) + (x >= 3u * words);
    }
    __device__ __forceinline__ unsigned mask() const { return kFullMask >> (32 - bits); }
    __device__ __forceinline__ unsigned increment(unsigned x) {
        const int f = field(x);
        return (atomicAdd(&table[x - f * words], 1u << (f * bits)) >> (f * bits)) & mask();
    }
    __device__ __forceinline__ unsigned count(unsigned x) const {
        const int f = field(x);
        return (table[x - f * words] >> (f * bits)) & mask();
    }
};

/// Count the wedges of a start in a table of shared memory that is clear before and after, in tiles over the ends where it
/// is too small: use(tile, low) has the counters of the ends from `low` on. The block; use() ends with a barrier where it
/// reads counters. Returns the sum over the caller's wedges of what their counters held before.
template <class Use>
__device__ __forceinline__ unsigned long long count_in_tiles(const WedgeGraph& graph, Start& start, uint4* quads,
                                                             int table_words, int warp, int n_warps, Use use) {
    DenseTile tile;
    const long long degree = start.end - start.begin;
    tile.table = reinterpret_cast<unsigned*>(quads);
    tile.bits = degree < DENSE_8_BELOW ? 8 : degree < DENSE_16_BELOW ? 16 : 32;
    const int fields = 32 / tile.bits;
    const long long capacity = (long long)table_words * fields;
    const long long lowest = start.skip_hubs ? kKinds * kHubColumns : 0;
    const long long highest = (long long)kKinds * start.rank;
    start.narrow = highest - lowest > capacity;
    unsigned long long sum = 0;
    for (long long low = lowest; low < highest; low += capacity) {
        tile.range = (unsigned)min(capacity, highest - low);
        tile.words = (int)((tile.range + fields - 1) / fields);
        start.end_low = (int)low;
        start.end_high = (int)(low + tile.range);
        for_each_end(graph, start, warp, n_warps, [&](int end) { sum += tile.increment((unsigned)end - (unsigned)low); });
        __syncthreads();
        use(tile, (int)low);
        fill_quads(quads, (tile.words + 3) / 4, 0);
        __syncthreads();
    }
    return sum;
}
