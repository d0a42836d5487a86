// The index of (p,q)-bicliques, built on the device: core, pairs of left vertices, work items.
//
// Left is the anchored layer. Requires: edges without duplicates; for pairs, the rows of wedges.cuh with the left
// layer first, ranked by descending degree, and `prefix` of a left entry = place of the left vertex in the row of the
// right one. A pair {x, y} of left vertices is met from the vertex of higher rank, its *root*, once per shared right
// vertex; the other, its *end*, is among the larger hubs, so counters are indexed by small ranks.
// Schedules, chosen per root by its wedges and its rank (policy: PairTuning in kernels/tuning.py):
//   hash    a block with an open-addressing table in shared memory, as large as the wedges of the root require
//   dense   a block with a counter per possible end in shared memory
//   slab    a block with a counter per left vertex in device memory, and a list of the nonzero ones
// The pass over the wedges runs twice: to count pairs, which determines their memory and the order of the left
// vertices, and to write them; or once, to count pairs by the number of shared right vertices.
// Bounds: n edges below 2^32, so the wedges of 32 entries fit 32 bits; rows below 2^31, and so the pairs of a root.
#include "warp.cuh"
#include "wedges.cuh"

constexpr int kCountPairs = COUNT_PAIRS;
constexpr int kSumPairs = SUM_PAIRS;
static_assert(COUNT_PAIRS != SUM_PAIRS && WRITE_PAIRS != COUNT_PAIRS && WRITE_PAIRS != SUM_PAIRS, "three passes");
constexpr int kBins = PAIR_BINS;

#define GRAPH_PARAMETERS \
    const long long *__restrict__ indptr, const int *__restrict__ adjacency, const int *__restrict__ prefix, const int n_left
#define ITEM_PARAMETERS const int *__restrict__ rows, const int n_rows, int *counter
#define PASS_PARAMETERS                                                                                          \
    const int mode, const int least, int *partners, int *found, const long long *__restrict__ places,            \
        const int *__restrict__ final_rank, const int first_paired, const int rank_bits, const int common_bits,  \
        unsigned long long *keys, int *commons, unsigned long long *sums
#define PASS_ARGUMENTS \
    mode, least, partners, found, places, final_rank, first_paired, rank_bits, common_bits, keys, commons, sums

/// Remove every edge with an end that has lost too many other edges. Reads degrees while they fall: removing an edge
/// earlier changes nothing, and only the thread of an edge removes it. Done when nothing was removed.
extern "C" __global__ void __launch_bounds__(256)
peel_edges(const int* __restrict__ lefts, const int* __restrict__ rights, const long long n, const int least_at_left,
           const int least_at_right, int* degree_left, int* degree_right, int* gone,
           unsigned long long* n_removed) {
    unsigned removed = 0;
#pragma unroll 1
    for (long long e = global_thread(); e < n; e += grid_threads()) {
        if (gone[e] != 0) continue;
        int* left = &degree_left[lefts[e]];
        int* right = &degree_right[rights[e]];
        if (peek(left) >= least_at_left && peek(right) >= least_at_right) continue;
        gone[e] = -1;
        atomicSub(left, 1);
        atomicSub(right, 1);
        ++removed;
    }
    const unsigned long long all = warp_sum(removed);
    if (lane_id() == 0 && all != 0) atomicAdd(n_removed, all);
}

/// The key of each left vertex of the core, by id: whether it is no root (items are -1), if items are given, then its
/// degree, then its place. Sorted, the keys give its ranks from the last one on.
extern "C" __global__ void __launch_bounds__(256)
core_keys(const long long* __restrict__ ids, const int n, const int* __restrict__ degree, const int has_items,
          const int* __restrict__ items, unsigned long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const unsigned other = has_items && items[ids[i]] < 0 ? 1u << 31 : 0u;
        keys[i] = (unsigned long long)(other | (unsigned)degree[ids[i]]) << 32 | (unsigned)i;
    }
}

/// By rank, from the sorted keys if given, else in the order of the ids: the id and the degree; and the rank of each
/// id.
extern "C" __global__ void __launch_bounds__(256)
place_core(const long long* __restrict__ ids, const int n, const int* __restrict__ degree, const int has_keys,
           const unsigned long long* __restrict__ keys, int* own_ids, int* own_degree, int* rank_of) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int id = (int)ids[has_keys ? (unsigned)keys[n - 1 - i] : i];
        own_ids[i] = id;
        own_degree[i] = degree[id];
        rank_of[id] = (int)i;
    }
}

/// The wedges of each left vertex, none for the first `n_ends`, which are no roots; and the key of each with at least
/// `least`: by schedule, the first of `tables` (maximum wedges and, unless negative, highest rank) that takes it, then by
/// descending wedges. All others follow. `found` counts the roots of each schedule; wedges are below 2^58.
extern "C" __global__ void __launch_bounds__(256)
classify_roots(const long long* __restrict__ upto, const long long* __restrict__ indptr, const int n_left,
               const int n_ends, const long long least, const long long* __restrict__ tables, const int n_tables,
               long long* wedges, long long* keys, unsigned long long* found) {
    const long long padded = ((long long)n_left + kWarpSize - 1) / kWarpSize * kWarpSize;
    for (long long left = global_thread(); left < padded; left += grid_threads()) {
        const bool is_root = left < n_left && left >= n_ends;
        const long long own = is_root ? upto[indptr[left + 1]] - upto[indptr[left]] : 0;
        int table = n_tables;
        if (is_root && own >= least) {
            table = 0;
            while (table + 1 < n_tables &&
                   (own > tables[2 * table] || (tables[2 * table + 1] >= 0 && left > tables[2 * table + 1])))
                ++table;
        }
        if (left < n_left) {
            wedges[left] = own;
            keys[left] = table < n_tables ? ((long long)table << 58) - own : 0x7fffffffffffffffll;
        }
        for (int each = 0; each < n_tables; ++each) {
            const unsigned those = __ballot_sync(kFullMask, table == each);
            if (those && lane_id() == 0) atomicAdd(&found[each], (unsigned long long)__popc(those));
        }
    }
}

/// Rows in another order: row i is the old row `order[i]`. A warp per row.
extern "C" __global__ void __launch_bounds__(256)
copy_rows(const long long* __restrict__ indptr, const int* __restrict__ ids, const int* __restrict__ order,
          const long long* __restrict__ new_indptr, const int n_rows, int* new_ids) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += warps) {
        const long long begin = indptr[order[row]], to = new_indptr[row];
        const long long length = new_indptr[row + 1] - to;
        for (long long i = lane_id(); i < length; i += kWarpSize) new_ids[to + i] = ids[begin + i];
    }
}

/// Output for the pairs of a root, used by the block that has counted the vertices its ends share with it.
struct PairPass {
    int mode, least;
    int* partners;               // pairs of each left vertex; kCountPairs
    int* found;                  // pairs of each root; kCountPairs
    const long long* places;     // start of the pairs of each root; WRITE_PAIRS, as the following
    const int* final_rank;       // number of each left vertex in the index
    int first_paired;            // lowest number of a vertex with a pair
    int rank_bits, common_bits;  // key: (smaller, greater number, each minus first_paired, shared); no bits: `commons`
    unsigned long long* keys;
    int* commons;
    unsigned long long* sums;    // pairs by number of shared vertices; kSumPairs

    unsigned* n_found;  // shared memory: pairs of this root so far
    unsigned* bins;     // shared memory, kBins words: pairs since the last flush by number shared, if small
    unsigned long long held;

    __device__ __forceinline__ void begin(unsigned* shared_found, unsigned* shared_bins) {
        n_found = shared_found;
        bins = shared_bins;
        held = 0;
        if (threadIdx.x == 0) *n_found = 0;
        for (int i = threadIdx.x; i < kBins; i += blockDim.x) bins[i] = 0;
        __syncthreads();
    }

    /// One end per lane, which shares `common` vertices with the root, or 0; the warp.
    __device__ __forceinline__ void give(int root, int end, unsigned common) const {
        const bool hit = common >= (unsigned)least;
        const unsigned hits = __ballot_sync(kFullMask, hit);
        if (hits == 0) return;
        if (mode == kSumPairs) {
            if (hit && common < (unsigned)kBins) atomicAdd(&bins[common], 1u);
            if (hit && common >= (unsigned)kBins) atomicAdd(&sums[common], 1ull);
            return;
        }
        unsigned first = 0;
        if (lane_id() == 0) first = atomicAdd(n_found, (unsigned)__popc(hits));
        if (mode == kCountPairs) {
            if (hit) atomicAdd(&partners[end], 1);
            return;
        }
        first = __shfl_sync(kFullMask, first, 0);
        if (!hit) return;
        const long long at = places[root] + first + __popc(hits & lanes_before(lane_id()));
        const int one = final_rank[root] - first_paired, two = final_rank[end] - first_paired;
        const unsigned long long pair =
            ((unsigned long long)min(one, two) << rank_bits) | (unsigned long long)max(one, two);
        keys[at] = common_bits != 0 ? (pair << common_bits) | common : pair;
        if (common_bits == 0) commons[at] = (int)common;
    }

    /// After the last end of a root of this rank; the block. Ends with a barrier.
    __device__ __forceinline__ void finish(int root) {
        __syncthreads();
        if (threadIdx.x == 0 && mode != kSumPairs) {
            if (mode == kCountPairs && *n_found != 0) {
                found[root] = (int)*n_found;
                atomicAdd(&partners[root], (int)*n_found);
            }
            *n_found = 0;
        }
        held += (unsigned)root;
        if (held >= 1ull << 31) flush();
        __syncthreads();
    }

    /// Empty the bins; the block. A bin holds less than 2^31 before a root, and each root adds less than 2^31.
    __device__ __forceinline__ void flush() {
        __syncthreads();
        for (int i = threadIdx.x; mode == kSumPairs && i < kBins; i += blockDim.x) {
            if (bins[i] != 0) atomicAdd(&sums[i], (unsigned long long)bins[i]);
            bins[i] = 0;
        }
        held = 0;
    }
};

/// Shared memory: `max_slots` keys and as many counters. A root has at most 5/8 `max_slots` wedges.
extern "C" __global__ void __launch_bounds__(512, 1)
pair_hash(GRAPH_PARAMETERS, ITEM_PARAMETERS, const long long* __restrict__ wedges, const int max_slots,
          PASS_PARAMETERS) {
    extern __shared__ int table[];
    __shared__ unsigned n_found, bins[kBins];
    __shared__ int next_position;
    const WedgeGraph graph{indptr, adjacency, prefix, nullptr, 0, n_left};
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    PairPass pass{PASS_ARGUMENTS};
    pass.begin(&n_found, bins);
    int* held = table;
    int* counts = table + max_slots;
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, rows[at], 0);
        const int wanted = max(kWarpSize, (int)(wedges[start.row] * 8 / 5));
        const int log2_slots = 32 - __clz(wanted - 1);
        const int slots = 1 << log2_slots;
        for (int i = threadIdx.x; i < slots; i += blockDim.x) {
            held[i] = kEmpty;
            counts[i] = 0;
        }
        __syncthreads();
        for_each_end(graph, start, warp, n_warps,
                     [&](int end) { atomicAdd(&counts[take_slot(held, log2_slots, end)], 1); });
        __syncthreads();
        for (int i = threadIdx.x; i < slots; i += blockDim.x)  // slots are a multiple of 32: whole warps
            pass.give(start.row, held[i], (unsigned)counts[i]);
        pass.finish(start.row);
    }
    pass.flush();
}

/// Shared memory: a counter for each possible end of a root of this launch, that is, each lower rank.
extern "C" __global__ void __launch_bounds__(1024, 1)
pair_dense(GRAPH_PARAMETERS, ITEM_PARAMETERS, PASS_PARAMETERS) {
    extern __shared__ int table[];
    __shared__ unsigned n_found, bins[kBins];
    __shared__ int next_position;
    const WedgeGraph graph{indptr, adjacency, prefix, nullptr, 0, n_left};
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    PairPass pass{PASS_ARGUMENTS};
    pass.begin(&n_found, bins);
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, rows[at], 0);
        for (int i = threadIdx.x; i < start.rank; i += blockDim.x) table[i] = 0;
        __syncthreads();
        for_each_end(graph, start, warp, n_warps, [&](int end) { atomicAdd(&table[end], 1); });
        __syncthreads();
        for (int base = warp * kWarpSize; base < start.rank; base += blockDim.x) {
            const int end = base + lane_id();
            pass.give(start.row, end, end < start.rank ? (unsigned)table[end] : 0);
        }
        pass.finish(start.row);
    }
    pass.flush();
}

/// Device memory per block: `n_left` counters, 0 before and after, and a list of as many ends.
extern "C" __global__ void __launch_bounds__(512, 1)
pair_slab(GRAPH_PARAMETERS, ITEM_PARAMETERS, int* counters, int* lists, PASS_PARAMETERS) {
    __shared__ unsigned n_found, n_met, bins[kBins];
    __shared__ int next_position;
    const WedgeGraph graph{indptr, adjacency, prefix, nullptr, 0, n_left};
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    PairPass pass{PASS_ARGUMENTS};
    pass.begin(&n_found, bins);
    int* table = counters + (long long)blockIdx.x * n_left;
    int* met = lists + (long long)blockIdx.x * n_left;
    BlockQueue queue(counter, &next_position);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, rows[at], 0);
        if (threadIdx.x == 0) n_met = 0;
        __syncthreads();
        for_each_share<1, 2>(graph, start, warp, n_warps, [&](const Wedges<1>& wedge) {
            const int end = wedge.end[0];
            const bool is_new = end >= 0 && atomicAdd(&table[end], 1) == 0;
            const unsigned news = __ballot_sync(kFullMask, is_new);
            if (news == 0) return;
            unsigned first = 0;
            if (lane_id() == 0) first = atomicAdd(&n_met, (unsigned)__popc(news));
            first = __shfl_sync(kFullMask, first, 0);
            if (is_new) met[first + __popc(news & lanes_before(lane_id()))] = end;
        });
        __syncthreads();
        const int n_ends = (int)n_met;
        for (int base = warp * kWarpSize; base < n_ends; base += blockDim.x) {
            const int i = base + lane_id();
            const int end = i < n_ends ? met[i] : 0;
            pass.give(start.row, end, i < n_ends ? (unsigned)atomicExch(&table[end], 0) : 0);
        }
        pass.finish(start.row);
    }
    pass.flush();
}

/// The key of each left vertex, from the last rank on: whether it is no root, its pairs, its place. `n_paired` counts
/// the roots that have a pair.
extern "C" __global__ void __launch_bounds__(256)
partner_keys(const int* __restrict__ partners, const int n, const int n_roots, unsigned long long* keys,
             unsigned long long* n_paired) {
    const long long padded = ((long long)n + kWarpSize - 1) / kWarpSize * kWarpSize;
    for (long long i = global_thread(); i < padded; i += grid_threads()) {
        const int own = i < n ? partners[n - 1 - i] : 0;
        if (i < n) keys[i] = (unsigned long long)((i < n_roots ? 0u : 1u << 31) | (unsigned)own) << 32 | (unsigned)i;
        const unsigned paired = __ballot_sync(kFullMask, i < n_roots && own != 0);
        if (lane_id() == 0 && paired) atomicAdd(n_paired, (unsigned long long)__popc(paired));
    }
}

/// From the sorted keys: the left vertices in search order, and the number of each in it.
extern "C" __global__ void __launch_bounds__(256)
place_lefts(const unsigned long long* __restrict__ keys, const int n, int* order, int* final_rank) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        order[i] = n - 1 - (int)(unsigned)keys[i];
        final_rank[order[i]] = (int)i;
    }
}

/// The start of the pairs of each left vertex, and the end of the last, in sorted keys without their lowest `bits`.
/// Vertices before `first_paired` have none.
extern "C" __global__ void __launch_bounds__(256)
pair_starts(const unsigned long long* __restrict__ keys, const long long n_pairs, const int n, const int first_paired,
            const int bits, long long* offsets) {
    for (long long i = global_thread(); i <= n; i += grid_threads()) {
        const auto is_before = [=](long long at) { return keys[at] >> bits < (unsigned long long)(i - first_paired); };
        offsets[i] = i < first_paired ? 0 : i < n ? first_not(n_pairs, is_before) : n_pairs;
    }
}

/// Unpack sorted keys; `commons` is unchanged if the keys do not hold it.
extern "C" __global__ void __launch_bounds__(256)
unpack_pairs(const unsigned long long* __restrict__ keys, const long long n, const int first_paired,
             const int rank_bits, const int common_bits, int* hop, int* commons) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const unsigned long long key = keys[i];
        hop[i] = (int)(key >> common_bits & ((1ull << rank_bits) - 1)) + first_paired;
        if (common_bits != 0) commons[i] = (int)(key & ((1ull << common_bits) - 1));
    }
}

/// Set operations below each child, as on the CPU: rows of the later children, by words of the shared columns; 1 if
/// nothing is searched below them. A warp per row.
extern "C" __global__ void __launch_bounds__(256)
estimate_children(const long long* __restrict__ hop_indptr, const int* __restrict__ commons, const int n_rows,
                  const int deep, long long* costs) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += warps) {
        const long long end = hop_indptr[row + 1];
        for (long long at = hop_indptr[row] + lane_id(); at < end; at += kWarpSize) {
            const long long common = commons[at];
            costs[at] = deep ? (common + 63) / 64 * (end - at) + common : 1;
        }
    }
}

/// Cut the children of a row into items of at most cost `most`, or of one child; the warp calls `give(first, last, cost)`.
/// `ends`: inclusive sums of the costs of all children, which are positive.
template <class Give>
__device__ __forceinline__ void cut_row(long long begin, long long end, const long long* ends, long long most,
                                        Give give) {
    long long first = begin, before = begin > 0 && begin < end ? ends[begin - 1] : 0;
    for (long long window = begin; window < end; window += kWarpSize) {
        const int inside = (int)min((long long)kWarpSize, end - window);
        const long long sum = ends[window + min(lane_id(), inside - 1)];
        const unsigned valid = inside == kWarpSize ? kFullMask : lanes_before(inside);
        for (;;) {  // the first child that does not fit begins the next item, unless it is the item's first
            const bool beyond = sum - before > most && window + lane_id() > first;
            const unsigned outside = __ballot_sync(kFullMask, beyond) & valid;
            if (outside == 0) break;
            const long long last = window + __ffs((int)outside) - 1;
            const long long reached = last == window ? ends[last - 1] : __shfl_sync(kFullMask, sum, (int)(last - window) - 1);
            give(first, last, reached - before);
            first = last;
            before = reached;
        }
    }
    if (begin < end) give(first, end, ends[end - 1] - before);
}

extern "C" __global__ void __launch_bounds__(256)
count_items(const long long* __restrict__ hop_indptr, const long long* __restrict__ ends, const int n_rows,
            const long long most, int* n_items) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += warps) {
        int count = 0;
        cut_row(hop_indptr[row], hop_indptr[row + 1], ends, most, [&](long long, long long, long long) { ++count; });
        if (lane_id() == 0) n_items[row] = count;
    }
}

/// `places`: number of the first item of each row.
extern "C" __global__ void __launch_bounds__(256)
write_items(const long long* __restrict__ hop_indptr, const long long* __restrict__ ends, const int n_rows,
            const long long most, const long long* __restrict__ places, int* roots, long long* firsts,
            long long* lasts, long long* costs) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += warps) {
        long long to = places[row];
        cut_row(hop_indptr[row], hop_indptr[row + 1], ends, most, [&](long long first, long long last, long long cost) {
            if (lane_id() == 0) {
                roots[to] = (int)row;
                firsts[to] = first;
                lasts[to] = last;
                costs[to] = cost;
            }
            ++to;
        });
    }
}

/// Of each item: children of its root from its first one on, right vertices of the root, and maximum right vertices that
/// the root shares with a child of the item; all 0 for the root -1. A warp per item.
extern "C" __global__ void __launch_bounds__(256)
measure_items(const int* __restrict__ roots, const long long* __restrict__ firsts, const long long* __restrict__ lasts,
              const long long n_items, const long long* __restrict__ indptr, const long long* __restrict__ hop_indptr,
              const int* __restrict__ commons, long long* measures) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long item = global_thread() / kWarpSize; item < n_items; item += warps) {
        int most = 0;
        for (long long at = firsts[item] + lane_id(); at < lasts[item]; at += kWarpSize)
            most = max(most, commons[at]);
        for (int step = kWarpSize / 2; step > 0; step >>= 1) most = max(most, __shfl_xor_sync(kFullMask, most, step));
        if (lane_id() != 0) continue;
        const int root = roots[item];
        measures[item] = root < 0 ? 0 : hop_indptr[root + 1] - firsts[item];
        measures[n_items + item] = root < 0 ? 0 : indptr[root + 1] - indptr[root];
        measures[2 * n_items + item] = most;
    }
}
