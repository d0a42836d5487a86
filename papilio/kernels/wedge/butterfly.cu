// Butterflies on the wedge engine: global count, per vertex, per edge.
//
// Requires: the graph of wedges.cuh; work items are start rows w with at least two neighbours.
// Counted once: a butterfly {u, w} x {v, x} has one vertex that precedes the other three; its opposite vertex w
// is the start, and the butterfly is one of the C(c, 2) pairs of middles of the pair (u, w).
// Schedules, chosen per item by its wedges, degree and range of ranks (policy: kernels/wedge/gpu_schedule.py):
//   hubs    ends among the hub columns, bit-sliced (not per edge): a warp, or a block merging its warps' planes
//   match   at most 32 wedges: one warp, equal ends found by __match_any_sync, no memory
//   hash    a block with an open-addressing table in shared memory: 8 bytes per slot, load at most 5/8
//   dense   a block with counters indexed by rank in shared memory, 8, 16 or 32 bits wide by the bound
//           c(u, w) <= d(w) or, if those do not fit, of 4 or 8 bits unless one is full; else in tiles
//           over the ranks
// Sums: a returning atomic gives the count before the increment, and 0 + 1 + ... + (c - 1) = C(c, 2).
// Bound: the caller rejects graphs in which one start could own 2^63 butterflies, so one start's sum fits in
// 64 bits; sums over starts are split into halves (SplitSum).
// Sources: Xu et al., PVLDB 15(11), 2022 (shared-memory wedge tables); Wang et al., PVLDB 12(10), 2019 (priority).
#include "butterfly.cuh"
#if GIVES == 0 && PER == 1
#include "hub_gives.cuh"
#endif

#ifndef SLOTS_PER_WEDGE
#define SLOTS_PER_WEDGE 2
#endif

extern "C" __global__ void __launch_bounds__(256)
butterfly_match(GRAPH_PARAMETERS, ITEM_PARAMETERS, const int at_once, RESULT_PARAMETERS) {
    const WedgeGraph graph GRAPH_FIELDS;
    const int lane = lane_id();
    RunningSum sums{total};
    Sweep sweep SWEEP_FIELDS;
    for (int first = next_for_warp(counter, at_once); first < n_rows; first = next_for_warp(counter, at_once)) {
        for (int position = first; position < min(first + at_once, n_rows); ++position) {
            const Start start = load_start(graph, row_of(rows[position]), rows[position] < 0);
            unsigned long long sum = 0;
            sweep.begin(graph, start);
            for_each_share<1, 1>(graph, start, 0, 1, [&](const Wedges<1>& wedge) {
                const int end = wedge.end[0];
                const bool active = end >= 0;
                const int label = active ? end / (kCensus ? kKinds : 1) : -1 - lane;
                const unsigned peers = __match_any_sync(kFullMask, label);
                const unsigned count = __popc(peers);
                const unsigned before = __popc(peers & lanes_before(lane));
#if GIVES == 1 || GIVES == 3
                sweep.take(end, before == 0 && active ? count : 0);
#elif GIVES == 2
                unsigned of_kind[kKinds];
#pragma unroll
                for (int kind = 0; kind < kKinds; ++kind)
                    of_kind[kind] = __popc(peers & __ballot_sync(kFullMask, active && (end & 3) == kind));
                if (before == 0 && active) sweep.take_pair(of_kind[0], of_kind[1], of_kind[2], of_kind[3]);
#endif
                if (kSweeps) return;
                sum += before;
                if (kPerVertex && before == 0) give_end(graph, start, end, count, result);
                if (kPerVertex || kPerEdge) give_window(graph, start, wedge, [&](int) { return count - 1; }, result);
            });
            if (!kSweeps) finish_start(start, sum, sums, result);
        }
    }
    sums.flush();
    if (kSweeps) sweep.flush();
}

/// Count the wedges of a share in a table of 2^log2_slots keys, followed by as many counts: of each key the wedges after the
/// first. Return the sum of their pairs. Keys that miss their first slot are looked up afterwards, so that lanes rarely
/// wait for each other.
__device__ __forceinline__ unsigned long long count_in_slots(const SharedWords& table, int n_slots, int log2_used,
                                                             const Share& share) {
    // Issue the atomics of a share back to back; read their results afterwards.
    int held[WEDGES_AT_ONCE];
#pragma unroll
    for (int k = 0; k < WEDGES_AT_ONCE; ++k) {
        held[k] = kEmpty;
        if (share.end[k] >= 0) held[k] = (int)table.put(home_of(share.end[k], log2_used), kEmpty, share.end[k]);
    }
    unsigned long long sum = 0;
    unsigned pending = 0;
#pragma unroll
    for (int k = 0; k < WEDGES_AT_ONCE; ++k) {
        if (held[k] == kEmpty) continue;
        if (held[k] == share.end[k])
            sum += table.add(n_slots + home_of(share.end[k], log2_used), 1) + 1;
        else
            pending |= 1u << k;
    }
    int key = kEmpty, slot = 0;
    while (pending != 0) {
        if (key == kEmpty) {
#pragma unroll
            for (int k = WEDGES_AT_ONCE - 1; k >= 0; --k)
                if (pending >> k & 1u) key = share.end[k];
            slot = home_of(key, log2_used);
        }
        slot = (slot + 1) & ((1 << log2_used) - 1);
        const int found = (int)table.put(slot, kEmpty, key);
        if (found == key) sum += table.add(n_slots + slot, 1) + 1;
        if (found == key || found == kEmpty) {
            pending &= pending - 1;
            key = kEmpty;
        }
    }
    return sum;
}

/// `wedges` and `hub_wedges` are by row, as in the graph; they determine how much of the table a start needs.
extern "C" __global__ void TABLE_BOUNDS
butterfly_hash(GRAPH_PARAMETERS, ITEM_PARAMETERS, const unsigned long long* __restrict__ wedges,
               const unsigned long long* __restrict__ hub_wedges, const int log2_slots, RESULT_PARAMETERS) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    int* keys = reinterpret_cast<int*>(shared_quads);
    const SharedWords table(keys);
    // Wedges of each key after the first; for a census all in two words, 16 bits for each kind: a table has fewer.
    int* counts = keys + (1 << log2_slots);
    constexpr int kCountQuads = kCensus ? CENSUS_SLOT_WORDS - 1 : 1;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    fill_quads(shared_quads, (1 << log2_slots) / 4, kFullMask);
    fill_quads(shared_quads + (1 << log2_slots) / 4, kCountQuads * (1 << log2_slots) / 4, 0);
    RunningSum sums{total};
    Sweep sweep SWEEP_FIELDS;
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, row_of(rows[at]), rows[at] < 0);
        const int far = (int)(wedges[start.row] - (start.skip_hubs ? hub_wedges[start.row] : 0));
        const int log2_used = min(log2_slots, max(5, 32 - __clz(SLOTS_PER_WEDGE * far)));
        const int used = 1 << log2_used;
        unsigned long long sum = 0;
#if GIVES == 2
        for_each_end(graph, start, warp, n_warps, [&](int end) {
            atomicAdd(&counts[2 * take_slot(keys, log2_used, end / kKinds) + ((end & 3) >> 1)], 1 << (16 * (end & 1)));
        });
#else
        for_each_share<WEDGES_AT_ONCE, WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Share& share) {
            sum += count_in_slots(table, 1 << log2_slots, log2_used, share);
        });
#endif
        if (!kSweeps) finish_start(start, sum, sums, result);
        __syncthreads();
#if GIVES > 0
        sweep.begin(graph, start);
        for (int slot = threadIdx.x; slot < used; slot += blockDim.x) {
#if GIVES != 2
            sweep.take(keys[slot], keys[slot] != kEmpty ? (unsigned)counts[slot] + 1 : 0);
#else
            const unsigned positive = (unsigned)counts[2 * slot], negative = (unsigned)counts[2 * slot + 1];
            if ((positive | negative) != 0)
                sweep.take_pair(positive & 0xffffu, positive >> 16, negative & 0xffffu, negative >> 16);
#endif
        }
        __syncthreads();
#endif
        if (kPerVertex || kPerEdge) {
            give_wedges(graph, start, warp, n_warps, [&](int end) {
                int slot = home_of(end, log2_used);
                while (keys[slot] != end) slot = (slot + 1) & (used - 1);
                return (unsigned)counts[slot];
            }, result);
            __syncthreads();
        }
        if (kPerVertex) {
            for (int slot = threadIdx.x; slot < used; slot += blockDim.x)
                if (keys[slot] != kEmpty) give_end(graph, start, keys[slot], counts[slot] + 1, result);
            __syncthreads();
        }
        fill_quads(shared_quads, used / 4, kFullMask);
        fill_quads(shared_quads + (1 << log2_slots) / 4, kCountQuads * used / 4, 0);
    }
    sums.flush();
    if (kSweeps) sweep.flush();
}

extern "C" __global__ void TABLE_BOUNDS
butterfly_dense(GRAPH_PARAMETERS, ITEM_PARAMETERS, const int table_words, RESULT_PARAMETERS) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    fill_quads(shared_quads, table_words / 4, 0);
    RunningSum sums{total};
    Sweep sweep SWEEP_FIELDS;
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        Start start = load_start(graph, row_of(rows[at]), rows[at] < 0);
        sweep.begin(graph, start);
        const auto use = [&](const DenseTile& tile, int low) {
            if (kSweeps) sweep.take_counters(low, tile.range, [&](unsigned x) { return tile.count(x); });
            if (kPerVertex || kPerEdge)
                give_wedges(graph, start, warp, n_warps, [&](int end) { return tile.count(end - low) - 1; }, result);
            if (kPerVertex)
                for (unsigned x = threadIdx.x; x < tile.range; x += blockDim.x)
                    give_end(graph, start, (int)(low + x), tile.count(x), result);
            if (kSweeps || kPerVertex || kPerEdge) __syncthreads();
        };
        const unsigned long long sum = count_in_tiles(graph, start, shared_quads, table_words, warp, n_warps, use);
        if (!kSweeps) finish_start(start, sum, sums, result);
    }
    sums.flush();
    if (kSweeps) sweep.flush();
}

#if GIVES == 0
#define HUB_PARAMETERS const unsigned *__restrict__ hub_rows, const int no_row, const int hub_tiles
#define HUB_FIELDS {hub_rows, no_row, kPerVertex ? hub_tiles : 1, 0}
#endif

#if GIVES == 0 && PER == 0
/// Degrees below 2^WARP_PLANES: a warp per start.
extern "C" __global__ void __launch_bounds__(256, 4)
butterfly_hubs_warp(GRAPH_PARAMETERS, HUB_PARAMETERS, ITEM_PARAMETERS, const int at_once, RESULT_PARAMETERS) {
    const WedgeGraph graph GRAPH_FIELDS;
    const HubMatrix hubs HUB_FIELDS;
    const int lane = lane_id();
    RunningSum sums{total};
    for (int first = next_for_warp(counter, at_once); first < n_rows; first = next_for_warp(counter, at_once)) {
        const int n = min(at_once, n_rows - first);
        int row = 0, degree = 0;
        long long begin = 0;
        if (lane < n) {  // one start per lane
            row = row_of(rows[first + lane]);
            begin = graph.indptr[row];
            degree = (int)(graph.indptr[row + 1] - begin);
        }
        const auto first_entry = [&](int of) {
            const long long at = __shfl_sync(kFullMask, begin, of) + lane;
            return lane < __shfl_sync(kFullMask, degree, of) ? graph.adjacency[at] : 0;
        };
        int next = first_entry(0);
        // With signs every position occurs twice, once for each kind.
        for (int step = 0; step < kSigns * n; ++step) {
            const int of = step / kSigns, held = next;
            const long long from = __shfl_sync(kFullMask, begin, of);
            const int entries = __shfl_sync(kFullMask, degree, of);
            const Start start = make_start(graph, __shfl_sync(kFullMask, row, of), from, from + entries, 1);
            next = first_entry(min(step + 1, kSigns * n - 1) / kSigns);  // while the current one is counted
            const int n_planes = planes_for(entries);
            BitCounters<WARP_PLANES> counters;
            counters.clear();
            count_hub_columns(graph, start, hubs, step % kSigns, 0, 1, held, counters);
            sums.add(counters.pairs(start.rank, n_planes));
        }
    }
    sums.flush();
}

/// A block per start; the planes of its warps are added pairwise through shared memory. With signs one half of the warps
/// counts wedges of one kind, the other half the other kind.
template <int kPlanes>
__device__ __forceinline__ void count_hubs_by_block(const WedgeGraph& graph, const HubMatrix& hubs, const int* rows,
                                                    int n_rows, int* counter, unsigned* stored, int* slot,
                                                    unsigned long long* total) {
    const int warp = threadIdx.x / kWarpSize, group_warps = blockDim.x / kWarpSize / kSigns;
    const int kind = kSigns > 1 && warp >= group_warps ? 1 : 0, member = warp - kind * group_warps;
    RunningSum sums{total};
    BlockQueue queue(counter, slot);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, row_of(rows[at]), 1);
        const int degree = (int)(start.end - start.begin), own = member * kWarpSize + lane_id();
        const int held = own < degree ? graph.adjacency[start.begin + own] : 0;
        const int n_planes = planes_for(degree);
        BitCounters<kPlanes> counters;
        counters.clear();
        count_hub_columns(graph, start, hubs, kind, member, group_warps, held, counters);
        merge_planes(counters, member, group_warps, stored, kind);
        if (member == 0) sums.add(counters.pairs(start.rank, n_planes));
    }
    sums.flush();
}

/// Degrees below 2^BLOCK_PLANES; blocks of a power of two of warps, shared memory: n_warps / 2 * BLOCK_PLANES * kRowWords
/// words.
extern "C" __global__ void __launch_bounds__(256, 1)
butterfly_hubs_block(GRAPH_PARAMETERS, HUB_PARAMETERS, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned stored_planes[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const HubMatrix hubs HUB_FIELDS;
    count_hubs_by_block<BLOCK_PLANES>(graph, hubs, rows, n_rows, counter, stored_planes, &next_position, total);
}

/// Degrees below 2^LARGE_PLANES; shared memory: n_warps / 2 * LARGE_PLANES * kRowWords words.
extern "C" __global__ void __launch_bounds__(512, 1)
butterfly_hubs_large(GRAPH_PARAMETERS, HUB_PARAMETERS, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned stored_planes[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const HubMatrix hubs HUB_FIELDS;
    count_hubs_by_block<LARGE_PLANES>(graph, hubs, rows, n_rows, counter, stored_planes, &next_position, total);
}
#endif

#if GIVES == 0 && PER == 1
/// Degrees below 2^BLOCK_PLANES; blocks of a power of two of warps, shared memory: kHubTableWords + n_warps / 2 *
/// BLOCK_PLANES * kRowWords words.
extern "C" __global__ void __launch_bounds__(256, 3)
butterfly_hubs_block(GRAPH_PARAMETERS, HUB_PARAMETERS, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned hub_table[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const HubMatrix hubs HUB_FIELDS;
    give_hubs_by_block<BLOCK_PLANES>(graph, hubs, rows, n_rows, counter, hub_table, &next_position, total, result);
}

/// Degrees below 2^LARGE_PLANES; shared memory: kHubTableWords + n_warps / 2 * LARGE_PLANES * kRowWords words.
extern "C" __global__ void __launch_bounds__(512, 1)
butterfly_hubs_large(GRAPH_PARAMETERS, HUB_PARAMETERS, ITEM_PARAMETERS, RESULT_PARAMETERS) {
    extern __shared__ unsigned hub_table[];
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const HubMatrix hubs HUB_FIELDS;
    give_hubs_by_block<LARGE_PLANES>(graph, hubs, rows, n_rows, counter, hub_table, &next_position, total, result);
}
#endif
