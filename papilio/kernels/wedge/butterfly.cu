// Butterflies on the wedge engine: global count, per vertex, per edge.
//
// Requires: the graph of wedges.cuh; work items are start rows w with at least two neighbours.
// Counted once: a butterfly {u, w} x {v, x} has one vertex that precedes the other three; its opposite vertex w
// is the start, and the butterfly is one of the C(c, 2) pairs of middles of the pair (u, w).
// Schedules, chosen per item by its wedges, degree and range of ranks (policy: kernels/wedge/gpu_schedule.py):
//   hubs    ends among the hub columns, bit-sliced (total only): a warp, or a block merging its warps' planes
//   match   at most 32 wedges: one warp, equal ends found by __match_any_sync, no memory
//   hash    a block with an open-addressing table in shared memory: 8 bytes per slot, load at most 5/8
//   dense   a block with counters indexed by rank in shared memory, 8, 16 or 32 bits wide by the bound
//           c(u, w) <= d(w), in tiles over the ranks where they do not fit; packed with a stride, so that
//           consecutive hubs fall into different banks
// Sums: a returning atomic gives the count before the increment, and 0 + 1 + ... + (c - 1) = C(c, 2).
// Bound: the caller refuses graphs on which one start could own 2^63 butterflies, so one start's sum fits in
// 64 bits; sums over starts are split into halves (SplitSum).
// PER = 0: total; 1: per vertex, result[row]; 2: per edge, result[entry], to be added over both directions.
// GIVES > 0: no sum, but what a sweep over the counters of each start gives, see sweep.cuh.
// PART = 1 (see wedges.cuh): vertices are starts, then ends, then middles; entries those of starts, then those of ends.
// Sources: Xu et al., PVLDB 15(11), 2022 (shared-memory wedge tables); Wang et al., PVLDB 12(10), 2019 (priority).
#include "hub_columns.cuh"
#include "schedule.cuh"
#include "sweep.cuh"
#include "wedges.cuh"

#ifndef PER
#define PER 0
#endif
#ifndef WEDGES_AHEAD
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define WEDGES_AHEAD 2  // four would spill on sm_75
#else
#define WEDGES_AHEAD 4
#endif
#endif

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

/// Give the motifs of one window to the middles or to the edges; `shared` is c - 1, or 0 for idle lanes.
__device__ __forceinline__ void give_window(const WedgeGraph& graph, const Start& start, const Wedge& wedge,
                                            unsigned shared, unsigned long long* result) {
    const unsigned long long sum = warp_segment_sum(shared, wedge.segment);
    const int next = __shfl_down_sync(kFullMask, wedge.segment, 1);
    const bool last = lane_id() == kWarpSize - 1 || next != wedge.segment;
    if (last && sum != 0)
        atomicAdd(&result[kPerEdge ? wedge.entry : place_of_middle(graph, start, wedge.entry)], sum);
    if (kPerEdge && shared != 0)
        atomicAdd(&result[place_of_entry(graph, wedge.at)], (unsigned long long)shared);
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

extern "C" __global__ void __launch_bounds__(256)
butterfly_match(GRAPH_PARAMETERS, ITEM_PARAMETERS, const int at_once, RESULT_PARAMETERS) {
    const WedgeGraph graph GRAPH_FIELDS;
    const int lane = lane_id();
    SplitSum sums;
    Sweep sweep{result};
    for (int first = next_for_warp(counter, at_once); first < n_rows; first = next_for_warp(counter, at_once)) {
        for (int position = first; position < min(first + at_once, n_rows); ++position) {
            const Start start = load_start(graph, rows[position], uses_hubs[rows[position]]);
            unsigned long long sum = 0;
            sweep.begin(graph, start);
            for_each_wedge<1>(graph, start, 0, 1, [&](const Wedge& wedge) {
                const int label = wedge.active ? wedge.end / (kCensus ? kKinds : 1) : -1 - lane;
                const unsigned peers = __match_any_sync(kFullMask, label);
                const unsigned count = __popc(peers);
                const unsigned before = __popc(peers & lanes_before(lane));
#if GIVES == 1
                sweep.take(before == 0 && wedge.active ? count : 0);
#elif GIVES == 2
                unsigned of_kind[kKinds];
#pragma unroll
                for (int kind = 0; kind < kKinds; ++kind)
                    of_kind[kind] = __popc(peers & __ballot_sync(kFullMask, wedge.active && (wedge.end & 3) == kind));
                if (before == 0 && wedge.active) sweep.take_pair(of_kind[0], of_kind[1], of_kind[2], of_kind[3]);
#endif
                if (kSweeps) return;
                sum += before;
                if (kPerVertex && before == 0) give_end(graph, start, wedge.end, count, result);
                if (kPerVertex || kPerEdge) give_window(graph, start, wedge, count - 1, result);
            });
            if (!kSweeps) finish_start(start, sum, sums, result);
        }
    }
    sums.flush(total);
    if (kSweeps) sweep.flush();
}

extern "C" __global__ void __launch_bounds__(512, 1)
butterfly_hash(GRAPH_PARAMETERS, ITEM_PARAMETERS, const int log2_slots, RESULT_PARAMETERS) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const int slots = 1 << log2_slots;
    int* keys = reinterpret_cast<int*>(shared_quads);
    int* counts = keys + slots;  // of a census two for each slot, 16 bits for each kind: a table holds fewer wedges
    constexpr int kCountQuads = kCensus ? CENSUS_SLOT_WORDS - 1 : 1;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    fill_quads(shared_quads, slots / 4, kFullMask);
    fill_quads(shared_quads + slots / 4, kCountQuads * slots / 4, 0);
    SplitSum sums;
    Sweep sweep{result};
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, rows[at], uses_hubs[rows[at]]);
        unsigned long long sum = 0;
        for_each_wedge<WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Wedge& wedge) {
            if (!wedge.active) return;
            const int slot = take_slot(keys, log2_slots, kCensus ? wedge.end / kKinds : wedge.end);
            if (kCensus)
                atomicAdd(&counts[2 * slot + ((wedge.end & 3) >> 1)], 1 << (16 * (wedge.end & 1)));
            else
                sum += (unsigned)atomicAdd(&counts[slot], 1);
        });
        if (!kSweeps) finish_start(start, sum, sums, result);
        __syncthreads();
#if GIVES > 0
        sweep.begin(graph, start);
        for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
#if GIVES == 1
            sweep.take((unsigned)counts[slot]);
#else
            const unsigned positive = (unsigned)counts[2 * slot], negative = (unsigned)counts[2 * slot + 1];
            if ((positive | negative) != 0)
                sweep.take_pair(positive & 0xffffu, positive >> 16, negative & 0xffffu, negative >> 16);
#endif
        }
        __syncthreads();
#endif
        if (kPerVertex || kPerEdge) {
            for_each_wedge<WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Wedge& wedge) {
                unsigned shared = 0;
                if (wedge.active) {
                    int slot = home_of(wedge.end, log2_slots);
                    while (keys[slot] != wedge.end) slot = (slot + 1) & (slots - 1);
                    shared = (unsigned)counts[slot] - 1;
                }
                give_window(graph, start, wedge, shared, result);
            });
            __syncthreads();
        }
        if (kPerVertex) {
            for (int slot = threadIdx.x; slot < slots; slot += blockDim.x)
                if (keys[slot] != kEmpty) give_end(graph, start, keys[slot], counts[slot], result);
            __syncthreads();
        }
        fill_quads(shared_quads, slots / 4, kFullMask);
        fill_quads(shared_quads + slots / 4, kCountQuads * slots / 4, 0);
    }
    sums.flush(total);
    if (kSweeps) sweep.flush();
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

extern "C" __global__ void __launch_bounds__(kCensus ? CENSUS_THREADS : 1024, 1)
butterfly_dense(GRAPH_PARAMETERS, ITEM_PARAMETERS, const int table_words, RESULT_PARAMETERS) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    fill_quads(shared_quads, table_words / 4, 0);
    SplitSum sums;
    Sweep sweep{result};
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        Start start = load_start(graph, rows[at], uses_hubs[rows[at]]);
        const long long degree = start.end - start.begin;
        DenseTile tile;
        tile.table = reinterpret_cast<unsigned*>(shared_quads);
        tile.bits = degree < DENSE_8_BELOW ? 8 : degree < DENSE_16_BELOW ? 16 : 32;
        const int fields = 32 / tile.bits;
        const long long capacity = (long long)table_words * fields;
        const long long lowest = start.skip_hubs ? kKinds * kHubColumns : 0;
        const long long highest = (long long)kKinds * start.rank;
        start.narrow = highest - lowest > capacity;
        unsigned long long sum = 0;
        sweep.begin(graph, start);
        for (long long low = lowest; low < highest; low += capacity) {
            tile.range = (unsigned)min(capacity, highest - low);
            tile.words = (int)((tile.range + fields - 1) / fields);
            start.end_low = (int)low;
            start.end_high = (int)(low + tile.range);
            for_each_wedge<WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Wedge& wedge) {
                if (wedge.active) sum += tile.increment((unsigned)wedge.end - (unsigned)low);
            });
            __syncthreads();
#if GIVES == 1
            for (unsigned base = warp * kWarpSize; base < tile.range; base += blockDim.x) {
                const unsigned x = base + lane_id();
                sweep.take(x < tile.range ? tile.count(x) : 0);
            }
            __syncthreads();
#elif GIVES == 2
            for (unsigned x = kKinds * threadIdx.x; x < tile.range; x += kKinds * blockDim.x)
                sweep.take_pair(tile.count(x), tile.count(x + 1), tile.count(x + 2), tile.count(x + 3));
            __syncthreads();
#endif
            if (kPerVertex || kPerEdge) {
                for_each_wedge<WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Wedge& wedge) {
                    const unsigned shared = wedge.active ? tile.count((unsigned)wedge.end - (unsigned)low) - 1 : 0;
                    give_window(graph, start, wedge, shared, result);
                });
                __syncthreads();
            }
            if (kPerVertex) {
                for (unsigned x = threadIdx.x; x < tile.range; x += blockDim.x)
                    give_end(graph, start, (int)(low + x), tile.count(x), result);
                __syncthreads();
            }
            fill_quads(shared_quads, (tile.words + 3) / 4, 0);
            __syncthreads();
        }
        if (!kSweeps) finish_start(start, sum, sums, result);
    }
    sums.flush(total);
    if (kSweeps) sweep.flush();
}

#if GIVES == 0
/// Planes that counts up to `degree` need; the adders of count_hub_columns use at least three.
__device__ __forceinline__ int planes_for(long long degree) {
    return max(3, 64 - __clzll(degree));
}

/// Degrees below 2^WARP_PLANES: a warp per start.
extern "C" __global__ void __launch_bounds__(256)
butterfly_hubs_warp(GRAPH_PARAMETERS, const unsigned* __restrict__ hub_rows, ITEM_PARAMETERS, const int at_once,
                    RESULT_PARAMETERS) {
    const WedgeGraph graph GRAPH_FIELDS;
    SplitSum sums;
    for (int first = next_for_warp(counter, at_once); first < n_rows; first = next_for_warp(counter, at_once)) {
        // With signs every position twice, once for each kind.
        for (int step = kSigns * first; step < kSigns * min(first + at_once, n_rows); ++step) {
            const Start start = load_start(graph, rows[step / kSigns], 1);
            const int n_planes = planes_for(start.end - start.begin);
            BitCounters<WARP_PLANES> counters;
            counters.clear();
            count_hub_columns(graph, start, hub_rows, step % kSigns, 0, 1, n_planes, counters);
            sums.add(counters.pairs(start.rank, n_planes));
        }
    }
    sums.flush(total);
}

/// A block per start; the planes of its warps are added pairwise through shared memory. With signs one half of the warps
/// counts wedges of one kind, the other half those of the other.
template <int kPlanes>
__device__ __forceinline__ void count_hubs_by_block(const WedgeGraph& graph, const unsigned* hub_rows, const int* rows,
                                                    int n_rows, int* counter, unsigned* stored, int* slot,
                                                    unsigned long long* total) {
    const int warp = threadIdx.x / kWarpSize, group_warps = blockDim.x / kWarpSize / kSigns;
    const int kind = kSigns > 1 && warp >= group_warps ? 1 : 0, member = warp - kind * group_warps;
    SplitSum sums;
    BlockQueue queue(counter, slot);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, rows[at], 1);
        const int n_planes = planes_for(start.end - start.begin);
        BitCounters<kPlanes> counters;
        counters.clear();
        count_hub_columns(graph, start, hub_rows, kind, member, group_warps, n_planes, counters);
        for (int half = group_warps / 2; half > 0; half >>= 1) {
            constexpr int kStored = kPlanes * kRowWords;
            unsigned* const of_group = stored + kind * half * kStored;
            if (member >= half && member < 2 * half) counters.store(of_group + (member - half) * kStored);
            __syncthreads();
            if (member < half) counters.add_stored(of_group + member * kStored);
            __syncthreads();
        }
        if (member == 0) sums.add(counters.pairs(start.rank, n_planes));
    }
    sums.flush(total);
}

/// Degrees below 2^BLOCK_PLANES; blocks of a power of two of warps, shared memory: n_warps / 2 * BLOCK_PLANES * kRowWords
/// words.
extern "C" __global__ void __launch_bounds__(256, 1)
butterfly_hubs_block(GRAPH_PARAMETERS, const unsigned* __restrict__ hub_rows, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned stored_planes[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    count_hubs_by_block<BLOCK_PLANES>(graph, hub_rows, rows, n_rows, counter, stored_planes, &next_position, total);
}

/// Degrees below 2^LARGE_PLANES; shared memory: n_warps / 2 * LARGE_PLANES * kRowWords words.
extern "C" __global__ void __launch_bounds__(512, 1)
butterfly_hubs_large(GRAPH_PARAMETERS, const unsigned* __restrict__ hub_rows, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned stored_planes[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    count_hubs_by_block<LARGE_PLANES>(graph, hub_rows, rows, n_rows, counter, stored_planes, &next_position, total);
}
#endif
