// The wedge engine's graph and its traversal: every wedge of one start vertex, lanes assigned by wedge.
//
// Requires: rows of both layers in one index space (layer U by rank, then layer V by rank), adjacency sorted
// by the side-local rank of the neighbour, no duplicates. The priority order over both layers is by falling
// degree, ties by layer, then id. A wedge (u, v, w) is owned by its start w and counted when its end u
// precedes both the middle v and w; the ends of (w, v) are then a prefix of N(v), of length
//     prefix[j] = min(position of w in N(v), number of ends in N(v) that precede v)   for entry j = (w, v).
// Each pair (u, w) on one side is met only from the later of the two, hence counted once.
//
// A unipartite graph has rows of layer V alone (n_u = 0): starts, middles and ends are its vertices, and the order is that
// of the ranks. Of a 4-cycle only the first vertex and the one opposite it are a pair (u, w) whose middles come after u.
//
// Bound: the ends that precede v are at least as large in degree as v, so p of them need p^2 <= 2 m entries:
// prefix[j] <= sqrt(2 m) <= 2^20 for m <= 2^39, and the wedges of 32 entries fit in 32 bits.
//
// PART = 1: a part in place of a whole graph. Its starts and its ends are numbered separately, the ends by rank; rows of
// starts hold middles, -1 for a middle without ends here, and rows of middles hold the ends that precede them. The rank of
// a start is the number of ends that precede it.
//
// KINDS > 1: every edge has a sign. Entries of the adjacency are then 2 * rank + (1 for a negative edge), and each end
// has a counter for every kind of wedge: 2, whether both edges have the same sign, or 4, by the signs of both. A count
// costs as much as an unsigned one over more ends. If one layer precedes the other, lists are as long as degrees:
// the caller bounds these below 2^27, for the sum of 32.
#pragma once

#include "warp.cuh"

#ifndef PART
#define PART 0
#endif
#ifndef KINDS
#define KINDS 1
#endif

#ifndef WEDGES_AT_ONCE
#define WEDGES_AT_ONCE 4
#endif
#ifndef WEDGES_AHEAD
#define WEDGES_AHEAD 1
#endif

constexpr int kKinds = KINDS;
constexpr int kSigns = KINDS > 1 ? 2 : 1;

/// An entry of the adjacency: the side-local rank of the neighbour, and the sign of the edge, if any.
__device__ __forceinline__ int entry_of(int rank, int sign) { return kSigns * rank + sign; }
__device__ __forceinline__ int rank_of(int entry) { return kSigns > 1 ? entry >> 1 : entry; }
__device__ __forceinline__ int sign_of(int entry) { return kSigns > 1 ? entry & 1 : 0; }

/// The counter of a wedge, by the entry of its end and the sign of the start's edge: kKinds * rank + kind.
__device__ __forceinline__ int counter_of(int end, int sign) {
    return kKinds == 1 ? end : kKinds == 2 ? end ^ sign : 2 * end + sign;
}

#if PART
struct WedgeGraph {
    const long long* indptr;      // row offsets of the starts, n_starts + 1 entries
    const int* adjacency;         // middles
    const int* prefix;            // wedges of each entry of a start
    const int* hub_count;         // per middle: its ends among the hub columns
    int hub_columns;              // number of hub columns (see hub_columns.cuh)
    int n_starts;
    const long long* end_indptr;  // row offsets of the middles
    const int* ends;              // ends of the middles
    const int* preceding;         // per start: ends that precede it
    int first_middle;             // number of starts and ends: where middles begin in a result

    __device__ __forceinline__ long long list_of(int middle) const { return end_indptr[middle]; }
};
#else
struct WedgeGraph {
    const long long* indptr;  // row offsets, n_u + n_v + 1 entries
    const int* adjacency;     // side-local ranks (and signs), 2 m entries
    const int* prefix;        // wedges of each entry, 2 m entries
    const int* hub_count;     // per row: its entries among the hub columns (see hub_columns.cuh)
    int hub_columns;          // number of hub columns
    int n_u;                  // rows of layer U come first

    __device__ __forceinline__ long long list_of(int middle) const { return indptr[middle]; }
};
#endif

#define ROW_PARAMETERS                                                                                     \
    const long long *__restrict__ indptr, const int *__restrict__ adjacency, const int *__restrict__ prefix, \
        const int *__restrict__ hub_count, const int hub_columns
#if PART
#define GRAPH_PARAMETERS                                                                                     \
    ROW_PARAMETERS, const int n_starts, const long long *__restrict__ end_indptr, const int *__restrict__ ends, \
        const int *__restrict__ preceding, const int first_middle
#define GRAPH_FIELDS \
    {indptr, adjacency, prefix, hub_count, hub_columns, n_starts, end_indptr, ends, preceding, first_middle}
#else
#define GRAPH_PARAMETERS ROW_PARAMETERS, const int n_u
#define GRAPH_FIELDS {indptr, adjacency, prefix, hub_count, hub_columns, n_u}
#endif

/// Locations of the ends of all middles.
__device__ __forceinline__ const int* all_ends(const WedgeGraph& graph) {
#if PART
    return graph.ends;
#else
    return graph.adjacency;
#endif
}

/// The start of a work item: its row and the data for its traversal.
struct Start {
    int row;
    int rank;           // side-local
    int middle_offset;  // row of the middle with side-local rank 0
    long long begin, end;
    int skip_hubs;  // 1: ends among the hub columns are counted elsewhere
    int narrow;     // 1: only wedges with counters in [end_low, end_high), found by binary search in each list
    int end_low, end_high;
};

/// The start of a row whose entries are [begin, end).
__device__ __forceinline__ Start make_start(const WedgeGraph& graph, int row, long long begin, long long end,
                                            int skip_hubs) {
    Start start;
    start.row = row;
#if PART
    start.rank = graph.preceding[row];
    start.middle_offset = 0;
#else
    start.rank = row < graph.n_u ? row : row - graph.n_u;
    start.middle_offset = row < graph.n_u ? graph.n_u : 0;
#endif
    start.begin = begin;
    start.end = end;
    start.skip_hubs = skip_hubs;
    start.narrow = 0;
    start.end_low = 0;
    start.end_high = kKinds * start.rank;
    return start;
}

__device__ __forceinline__ Start load_start(const WedgeGraph& graph, int row, int skip_hubs) {
    return make_start(graph, row, graph.indptr[row], graph.indptr[row + 1], skip_hubs);
}

/// First position in the sorted list `ends[0, length)` whose value is at least `bound`.
__device__ __forceinline__ int lower_bound(const int* ends, int length, int bound) {
    return first_not(length, [=](int i) { return ends[i] < bound; });
}

/// Logarithm of the bits of a counter that no count of a start of this degree exceeds.
__device__ __forceinline__ int log2_counter_bits(long long degree) {
    return degree < DENSE_8_BELOW ? 3 : degree < DENSE_16_BELOW ? 4 : 5;
}
static_assert(DENSE_8_BELOW <= 1 << 8 && DENSE_16_BELOW <= 1 << 16, "a counter comes to the degree of the start");

constexpr int kLog2LeastBits = 2;

constexpr int kEmpty = -1;

/// First slot to check for a key in an open-addressing table of 2^log2_slots slots.
__device__ __forceinline__ int home_of(int key, int log2_slots) {
    return (int)(((unsigned)key * 2654435769u) >> (32 - log2_slots));
}

/// The slot of a key in a table of block-wide shared memory, claimed if no slot holds the key. Ends at an empty slot or
/// the key: the table is never full.
__device__ __forceinline__ int take_slot(int* keys, int log2_slots, int key) {
    int slot = home_of(key, log2_slots);
    for (;;) {
        const int held = atomicCAS(&keys[slot], kEmpty, key);
        if (held == kEmpty || held == key) return slot;
        slot = (slot + 1) & ((1 << log2_slots) - 1);
    }
}

/// A lane's row among the rows of its warp: the first lane of the same row, and whether the caller is the last and adds.
struct RowEnd {
    int first;
    bool counts;
};

/// Add the wedges of consecutive entries, a lane each, to their rows: all of them, and those that end in the hub columns.
/// Lanes of a row are consecutive. The warp.
__device__ __forceinline__ RowEnd add_to_rows(unsigned row, unsigned length, unsigned at_hubs, bool is_entry,
                                              unsigned long long* wedges, unsigned long long* hub_wedges) {
    const int lane = lane_id();
    const unsigned left = __shfl_up_sync(kFullMask, row, 1);
    const unsigned heads = __ballot_sync(kFullMask, lane == 0 || left != row);
    const int first = 31 - __clz(heads & (lanes_before(lane) | (1u << lane)));
    const unsigned long long all = warp_segment_sum(length, first);
    const unsigned long long hubs = warp_segment_sum(at_hubs, first);
    const bool is_last = lane == kWarpSize - 1 || (heads >> (lane + 1) & 1u);
    const bool counts = is_last && is_entry && all != 0;
    if (counts) {
        atomicAdd(&wedges[row], all);
        if (hubs != 0) atomicAdd(&hub_wedges[row], hubs);
    }
    return RowEnd{first, counts};
}

/// A lane's share of a window, passed to a motif's body: consecutive wedges through one middle.
template <int kWidth>
struct Wedges {
    int end[kWidth];   // counter of each end u: its side-local rank, or with signs the counter of the kind; -1 for none
    long long at;      // entry (v, u) of the first: its position in the middle's row
    long long entry;   // entry (w, v): position of the middle in the start's row
    int segment;       // first lane of this window with the same entry
};

/// Which entries of N(w) a warp walks. Warps form teams of `size` (a power of two); entry k of the row belongs to
/// team k mod n_teams, which spreads the long lists of neighbouring ranks, and the warps of a team share its windows.
struct Team {
    int size, member;
    int n_teams, number;
};

/// Teams as small as the row allows: one warp if there is an entry for each warp, more if entries are few.
__device__ __forceinline__ Team form_teams(int degree, int warp, int n_warps) {
    int log2_size = 0;
    while (2 << log2_size <= n_warps && degree <= n_warps >> (log2_size + 1)) ++log2_size;
    const int size = 1 << log2_size;
    return Team{size, warp & (size - 1), n_warps >> log2_size, warp >> log2_size};
}

constexpr int kSignShift = 62;

/// Entries of N(w) held by one warp, a list per lane. A list is taken in *shares* of `kWidth` wedges, which begin at
/// multiples of their size in bytes, so that one load fetches a share; the exclusive prefix sum numbers the shares.
struct Lists {
    long long source;  // adjacency position of the first end; plus 2^62 for a negative edge (w, v)
    int length;
    unsigned first;  // shares before this list
    unsigned total;  // shares of all lists
};

/// The number of entries before the entry `at` in its share.
template <int kWidth>
__device__ __forceinline__ int place_in_share(const int* at) {
    return (int)((unsigned long long)at / sizeof(int) % kWidth);
}

template <int kWidth>
__device__ __forceinline__ Lists load_lists(const WedgeGraph& graph, const Start& start, long long entry) {
    Lists lists{0, 0, 0, 0};
    unsigned shares = 0;
#if PART
    if (entry < start.end && graph.adjacency[entry] >= 0) {
#else
    if (entry < start.end) {
#endif
        const int held = graph.adjacency[entry];
        const int middle = rank_of(held) + start.middle_offset;
        const int skip = start.skip_hubs ? graph.hub_count[middle] : 0;
        lists.length = max(graph.prefix[entry] - skip, 0);
        lists.source = graph.list_of(middle) + skip;
        const int* ends = all_ends(graph) + lists.source;
        if (start.narrow) {
            const int low = lower_bound(ends, lists.length, start.end_low / kKinds * kSigns);
            lists.length = lower_bound(ends, lists.length, start.end_high / kKinds * kSigns) - low;
            lists.source += low;
            ends += low;
        }
        if (lists.length > 0) shares = (unsigned)(place_in_share<kWidth>(ends) + lists.length - 1) / kWidth + 1;
        lists.source += (long long)sign_of(held) << kSignShift;
    }
    const unsigned inclusive = warp_inclusive_sum(shares);
    lists.first = inclusive - shares;
    lists.total = __shfl_sync(kFullMask, inclusive, kWarpSize - 1);
    return lists;
}

/// The lane whose list holds share t (the last lane with first <= t); empty lists are skipped.
__device__ __forceinline__ int owner_of(const Lists& lists, unsigned window, unsigned t) {
    const unsigned started = __ballot_sync(kFullMask, lists.first <= window);
    const unsigned inside = __ballot_sync(kFullMask, lists.first > window && lists.first < window + kWarpSize);
    if (inside == 0) return 31 - __clz(started);
    int lane = 0;
    for (int step = kWarpSize / 2; step > 0; step >>= 1) {
        const unsigned first = __shfl_sync(kFullMask, lists.first, lane + step);
        if (first <= t) lane += step;
    }
    return lane;
}

/// Load the entries [low, high) of a share, which begins at `at`. Other entries of the share may be loaded too, unused: an
/// entry of a list lies in the same 16 bytes, so no memory beyond the array is read.
template <int kWidth>
__device__ __forceinline__ void load_share(const int* at, int low, int high, int (&entries)[kWidth]) {
#ifndef PAPILIO_EMULATED
    if (kWidth % 4 == 0) {
#pragma unroll
        for (int k = 0; k + 3 < kWidth; k += 4) {
            if (kWidth > 4 && (k + 4 <= low || k >= high)) continue;
            const int4 quad = *reinterpret_cast<const int4*>(at + k);
            entries[k] = quad.x;
            entries[k + 1] = quad.y;
            entries[k + 2] = quad.z;
            entries[k + 3] = quad.w;
        }
        return;
    }
#endif
#pragma unroll
    for (int k = 0; k < kWidth; ++k) entries[k] = k >= low && k < high ? at[k] : 0;
}

/// Call body(wedges) for every share of the wedges of `start`, 32 consecutive shares per warp and call, in `n_warps` warps
/// of which the caller is number `warp`. All lanes call `body` together, with wedges or not, so that it may use
/// warp collectives. kAhead windows are fetched before the first is used, to hide the latency of the loads.
template <int kWidth, int kAhead, class Body>
__device__ __forceinline__ void for_each_share(const WedgeGraph& graph, const Start& start, int warp, int n_warps,
                                               Body body) {
    const int lane = lane_id();
    const int degree = (int)(start.end - start.begin);
    const Team team = form_teams(degree, warp, n_warps);
    const unsigned window_step = kWarpSize * team.size;
    // At most 2^20 entries after the last one.
    for (unsigned base = team.number; base < (unsigned)degree; base += kWarpSize * team.n_teams) {
        const Lists lists = load_lists<kWidth>(graph, start, start.begin + (base + lane * team.n_teams));
        for (unsigned window = kWarpSize * team.member; window < lists.total; window += kAhead * window_step) {
            Wedges<kWidth> shares[kAhead];
#pragma unroll
            for (int ahead = 0; ahead < kAhead; ++ahead) {
                const unsigned at = window + ahead * window_step;
                Wedges<kWidth>& wedges = shares[ahead];
#pragma unroll
                for (int k = 0; k < kWidth; ++k) wedges.end[k] = -1;
                if (at < lists.total) {  // uniform over the warp
                    const unsigned t = at + lane;
                    const int owner = owner_of(lists, at, t);
                    const unsigned first = __shfl_sync(kFullMask, lists.first, owner);
                    const int length = __shfl_sync(kFullMask, lists.length, owner);
                    long long source = __shfl_sync(kFullMask, lists.source, owner);
                    const int sign = kSigns > 1 ? (int)(source >> kSignShift) : 0;
                    if (kSigns > 1) source &= (1ll << kSignShift) - 1;
                    // The wedges of the list before this share; less than 0 in the first share.
                    const int before = (int)(kWidth * (t - first)) - place_in_share<kWidth>(all_ends(graph) + source);
                    const int low = max(-before, 0), high = t < lists.total ? length - before : 0;
                    wedges.at = source + before;
                    wedges.entry = start.begin + (base + owner * team.n_teams);
                    wedges.segment = first > at ? (int)(first - at) : 0;
                    if (low < high) {
                        int entries[kWidth];
                        load_share(all_ends(graph) + wedges.at, low, high, entries);
#pragma unroll
                        for (int k = 0; k < kWidth; ++k)
                            if (k >= low && k < high) wedges.end[k] = counter_of(entries[k], sign);
                    }
                }
            }
#pragma unroll
            for (int ahead = 0; ahead < kAhead; ++ahead)
                if (window + ahead * window_step < lists.total) body(shares[ahead]);
        }
    }
}

using Share = Wedges<WEDGES_AT_ONCE>;

/// Call body(end) for every counter that a wedge of `start` ends at, in separate lanes. Otherwise as for_each_share.
template <class Body>
__device__ __forceinline__ void for_each_end(const WedgeGraph& graph, const Start& start, int warp, int n_warps,
                                             Body body) {
    for_each_share<WEDGES_AT_ONCE, WEDGES_AHEAD>(graph, start, warp, n_warps, [&](const Share& wedges) {
#pragma unroll
        for (int k = 0; k < WEDGES_AT_ONCE; ++k)
            if (wedges.end[k] >= 0) body(wedges.end[k]);
    });
}
