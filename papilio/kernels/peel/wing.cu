// Wing numbers: peeling edges by the blooms that they are in.
//
// A bloom is a pair of ends of the wedge engine with at least two counted wedges (u, v, w); any two of its wedges are a
// butterfly, and every butterfly is in one bloom (Wang et al., ICDE 2020). The wedges of a bloom are adjacent; in the
// fine phase they are ordered by descending range (of the lower edge), and a *segment* is the wedges of one bloom and range. In
// the coarse phase there is one range, and a segment is a bloom. `left` is the number of wedges of the bloom in the range
// or higher ones that have lost no edge. An edge of such a wedge is in left - 1 butterflies of the bloom. When `lost`
// wedges are removed in a round, each edge of the remaining wedges loses `lost`; the twin of a removed edge loses left - 1.
//
// In a wedge, -1 stands for an edge of a higher range: it stays, and its support is not used here.
//
// A round has two phases with a barrier after each. `take`: a group of lanes per eight links of a removed edge; wedges
// are counted in `lost`, a wedge of two such edges by the one with the greater id; the thread that counts the first wedge
// of a segment lists the segment. `spread`: a group of lanes per eight wedges of a listed segment. Data read in one phase
// is written in the other: `stamp` (the round in which an edge is removed) in take, `gone` and supports in spread. `lost`
// has two copies by the parity of the round, so that it can be subtracted from `left` in the take of the next round.
#include "peeling.cuh"
#include "wedges.cuh"

/// Write the edge and the row of each entry of both rows, by search; edges are given by original ids.
extern "C" __global__ void __launch_bounds__(256)
name_entries(const int* u, const int* v, const long long n, const int* rank_u, const int* rank_v,
             const long long* indptr, const int* adjacency, const int n_u, int* edge_of, int* row_of) {
    for (long long e = global_thread(); e < n; e += grid_threads()) {
        const int a = rank_u[u[e]], b = rank_v[v[e]];
        const long long row_a = indptr[a], row_b = indptr[n_u + b];
        const long long at_a = row_a + lower_bound(adjacency + row_a, (int)(indptr[a + 1] - row_a), b);
        const long long at_b = row_b + lower_bound(adjacency + row_b, (int)(indptr[n_u + b + 1] - row_b), a);
        edge_of[at_a] = edge_of[at_b] = (int)e;
        row_of[at_a] = a;
        row_of[at_b] = n_u + b;
    }
}

/// Write all counted wedges: the pair of their ends as a key (row of the start, rank of the other end), and both edges.
/// A group of lanes per entry, whose wedges begin at `first_wedge`.
extern "C" __global__ void __launch_bounds__(256)
list_wedges(const long long* indptr, const int* adjacency, const int* prefix, const int* row_of,
            const long long* first_wedge, const int* edge_of, const long long n_entries, const int n_u,
            unsigned long long* keys, int* one, int* other) {
    const int lane = threadIdx.x % kGroup;
    for (long long entry = global_thread() / kGroup; entry < n_entries; entry += grid_threads() / kGroup) {
        const int row = row_of[entry];
        const long long source = indptr[adjacency[entry] + (row < n_u ? n_u : 0)];
        for (int i = lane; i < prefix[entry]; i += kGroup) {
            const long long wedge = first_wedge[entry] + i;
            keys[wedge] = (unsigned long long)row << 32 | (unsigned)adjacency[source + i];
            one[wedge] = edge_of[entry];
            other[wedge] = edge_of[source + i];
        }
    }
}

/// Count the links of each edge of the wedges, and sum up its support: `before` is the number of wedges of each segment and
/// of its bloom in higher ranges.
extern "C" __global__ void __launch_bounds__(256)
count_links(const int* one, const int* other, const int* segment_of, const int* before, const long long n_wedges,
            unsigned long long* degree, unsigned long long* supports) {
    for (long long wedge = global_thread(); wedge < n_wedges; wedge += grid_threads()) {
        const unsigned long long others = (unsigned long long)(before[segment_of[wedge]] - 1);
        const int a = one[wedge], b = other[wedge];
        if (a >= 0) {
            atomicAdd(&degree[a], 1ull);
            atomicAdd(&supports[a], others);
        }
        if (b >= 0) {
            atomicAdd(&degree[b], 1ull);
            atomicAdd(&supports[b], others);
        }
    }
}

/// Write the links of each edge from `cursor` on, in any order.
extern "C" __global__ void __launch_bounds__(256)
fill_links(const int* one, const int* other, const int* segment_of, const long long n_wedges,
           unsigned long long* cursor, int* link_segment, int* link_twin) {
    for (long long wedge = global_thread(); wedge < n_wedges; wedge += grid_threads()) {
        const int a = one[wedge], b = other[wedge];
        if (a >= 0) {
            const unsigned long long at = atomicAdd(&cursor[a], 1ull);
            link_segment[at] = segment_of[wedge];
            link_twin[at] = b;
        }
        if (b >= 0) {
            const unsigned long long at = atomicAdd(&cursor[b], 1ull);
            link_segment[at] = segment_of[wedge];
            link_twin[at] = a;
        }
    }
}

/// The blooms as seen by the edges of one team. `Told` is the type of the value given to a removed edge.
template <class Told>
struct Blooms {
    PeeledItems edges;
    const int* link_segment;
    const int* link_twin;
    const long long* offsets;  // wedges of each segment
    const int* one;
    const int* other;
    int* left;
    int* lost;  // two copies of `n_segments`
    long long n_segments;
    int* stamp;                   // round in which each edge was removed; kNever before
    unsigned long long* touched;  // two lists of `room` entries
    long long room;
    Told* told;

    __device__ __forceinline__ int* lost_in(int round) const { return lost + (round & 1) * n_segments; }
    __device__ __forceinline__ unsigned long long* list(int round) const { return touched + (round & 1) * room; }

    template <class Team>
    __device__ __forceinline__ void take(Team& team, int round, long long bound, unsigned long long found) const {
        Counters* counters = edges.counters;
        const unsigned long long n_entries = counters->n_going[round & 1];
        const unsigned long long n_groups = team.size() / kGroup;
        const int lane = team.index() % kGroup;
        for (unsigned long long i = team.index() / kGroup; i < n_entries; i += n_groups) {
            const unsigned long long entry = edges.list(round)[i];
            const int edge = entry_id(entry);
            if (entry_piece(entry) == 0 && lane == 0) {
                stamp[edge] = round;
                told[edge] = (Told)found;
            }
            const long long at = edges.link_offsets[edge] + entry_piece(entry) * kGroup + lane;
            if (at >= edges.link_offsets[edge + 1]) continue;
            const int twin = link_twin[at];
            if (twin >= 0 && (edges.gone[twin] || (twin > edge && edges.supports[twin] < bound))) continue;
            const int segment = link_segment[at];
            if (atomicAdd(&lost_in(round)[segment], 1) == 0)
                push_entries(list(round), &counters->n_touched[round & 1], segment,
                             offsets[segment + 1] - offsets[segment]);
        }
        const unsigned long long n_before = counters->n_touched[(round + 1) & 1];
        for (unsigned long long i = team.index(); i < n_before; i += team.size()) {
            const unsigned long long entry = list(round + 1)[i];
            if (entry_piece(entry) != 0) continue;
            left[entry_id(entry)] -= lost_in(round + 1)[entry_id(entry)];
            lost_in(round + 1)[entry_id(entry)] = 0;
        }
    }

    template <class Team>
    __device__ __forceinline__ void spread(Team& team, int round, long long bound) const {
        Counters* counters = edges.counters;
        const unsigned long long n_entries = counters->n_touched[round & 1];
        const unsigned long long n_groups = team.size() / kGroup;
        const int lane = team.index() % kGroup;
        unsigned long long updates = 0;
        for (unsigned long long i = team.index() / kGroup; i < n_entries; i += n_groups) {
            const unsigned long long entry = list(round)[i];
            const int segment = entry_id(entry);
            const long long wedge = offsets[segment] + entry_piece(entry) * kGroup + lane;
            if (wedge >= offsets[segment + 1]) continue;
            const int a = one[wedge], b = other[wedge];
            const int stamp_a = a >= 0 ? stamp[a] : kNever, stamp_b = b >= 0 ? stamp[b] : kNever;
            if (stamp_a < round || stamp_b < round) continue;
            const bool a_goes = stamp_a == round, b_goes = stamp_b == round;
            const long long loss = a_goes || b_goes ? left[segment] - 1 : lost_in(round)[segment];
            if (a >= 0 && !a_goes) {
                edges.lower(a, loss, bound, round + 1);
                ++updates;
            }
            if (b >= 0 && !b_goes) {
                edges.lower(b, loss, bound, round + 1);
                ++updates;
            }
        }
        const unsigned long long n_gone = counters->n_going[round & 1];
        for (unsigned long long i = team.index(); i < n_gone; i += team.size()) {
            const unsigned long long entry = edges.list(round)[i];
            if (entry_piece(entry) == 0) edges.gone[entry_id(entry)] = 1;
        }
        if (team.index() == 0) counters->n_touched[(round + 1) & 1] = 0;
        __syncwarp();
        updates = warp_sum(updates);
        if (lane_id() == 0 && updates != 0) atomicAdd(&counters->updates, updates);
    }
};

#define BLOOM_PARAMETERS                                                                                               \
    const int *link_segment, const int *link_twin, const long long *offsets, const int *one, const int *other,         \
        const long long n_segments, int *left, int *lost, int *stamp, unsigned long long *touched
#define BLOOM_FIELDS link_segment, link_twin, offsets, one, other, left, lost, n_segments, stamp

extern "C" __global__ void __launch_bounds__(512)
wing_coarse(COARSE_PARAMETERS, BLOOM_PARAMETERS, const long long touched_room) {
    GridTeam team{arrivals, 0};
    const PeeledItems edges COARSE_ITEMS;
    const Blooms<int> blooms{edges, BLOOM_FIELDS, touched, touched_room, ranges};
    peel_below(team, edges, blooms, bound, (unsigned long long)range);
}

extern "C" __global__ void __launch_bounds__(512)
wing_fine(FINE_PARAMETERS, BLOOM_PARAMETERS, const long long* touched_bounds) {
    BlockTeam team;
    const int range = order[blockIdx.x];
    const PeeledItems edges FINE_ITEMS(range);
    const long long first = touched_bounds[range], room = touched_bounds[range + 1] - first;
    const Blooms<unsigned long long> blooms{edges, BLOOM_FIELDS, touched + 2 * first, room, numbers};
    peel_exactly(team, edges, blooms);
}

// The wedges of the blooms, and of their ranges, from sorted keys.
//
// A run is the adjacent wedges of one key. A first kernel marks the wedges to keep and the first one of each run of them; the
// host's library sums the marks up, and a second kernel writes the wedges and the runs to their places. Every kernel is a
// grid-stride loop over the wedges, in the order of their keys. `upto` and `runs` are inclusive sums of marks.

__device__ __forceinline__ bool is_marked(const long long* upto, long long i) {
    return upto[i] != (i ? upto[i - 1] : 0);
}

/// Mark the pairs of ends, given as keys; keys with a single wedge are not blooms.
extern "C" __global__ void __launch_bounds__(256)
mark_blooms(const unsigned long long* __restrict__ keys, const long long n, long long* stays, long long* heads) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const bool first = i == 0 || keys[i] != keys[i - 1], last = i + 1 == n || keys[i] != keys[i + 1];
        stays[i] = !(first && last);
        heads[i] = first && !last;
    }
}

/// Write the edges and the bloom of each wedge kept, the start of each bloom and the end of the last.
extern "C" __global__ void __launch_bounds__(256)
take_blooms(const long long* __restrict__ order, const long long* __restrict__ upto, const long long* __restrict__ runs,
            const long long n, const int* __restrict__ one, const int* __restrict__ other, int* one_of, int* other_of,
            int* bloom_of, long long* offsets) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        if (i + 1 == n) offsets[runs[i]] = upto[i];
        if (!is_marked(upto, i)) continue;
        const long long at = upto[i] - 1, wedge = order[i];
        one_of[at] = one[wedge];
        other_of[at] = other[wedge];
        bloom_of[at] = (int)(runs[i] - 1);
        if (is_marked(runs, i)) offsets[runs[i] - 1] = at;
    }
}

__device__ __forceinline__ unsigned bloom_in(unsigned long long key) { return (unsigned)(key >> 32); }
__device__ __forceinline__ int range_in(unsigned long long key) { return (int)(0x7fffffffu - (unsigned)key); }

/// (bloom, descending range) of each wedge: the range is the lower one of its edges, from `range_of`.
extern "C" __global__ void __launch_bounds__(256)
range_keys(const int* __restrict__ one, const int* __restrict__ other, const int* __restrict__ bloom_of,
           const int* __restrict__ range_of, const long long n, unsigned long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int lower = min(range_of[one[i]], range_of[other[i]]);
        keys[i] = (unsigned long long)(unsigned)bloom_of[i] << 32 | (0x7fffffffu - (unsigned)lower);
    }
}

/// Drop wedges of exact ranges, and the wedge of a segment whose bloom has no other wedge in that range or a higher one.
extern "C" __global__ void __launch_bounds__(256)
mark_ranges(const unsigned long long* __restrict__ keys, const long long n, const unsigned char* __restrict__ is_exact,
            long long* stays, long long* heads) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const bool first = i == 0 || keys[i] != keys[i - 1], last = i + 1 == n || keys[i] != keys[i + 1];
        const bool highest = i == 0 || bloom_in(keys[i]) != bloom_in(keys[i - 1]);
        const bool kept = !(highest && last) && !is_exact[range_in(keys[i])];
        stays[i] = kept;
        heads[i] = kept && first;
    }
}

/// Write the edges, -1 for an edge of a higher range, and the segment of each wedge kept; for each segment its start, and
/// the end of the last, its range, and its wedges including those of its bloom in higher ranges.
extern "C" __global__ void __launch_bounds__(256)
take_ranges(const unsigned long long* __restrict__ keys, const long long* __restrict__ order,
            const long long* __restrict__ upto, const long long* __restrict__ runs, const long long n,
            const int* __restrict__ one, const int* __restrict__ other, const int* __restrict__ range_of,
            const long long* __restrict__ bloom_offsets, int* one_of, int* other_of, int* segment_of,
            long long* offsets, int* ranges, int* before) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        if (i + 1 == n) offsets[runs[i]] = upto[i];
        if (!is_marked(upto, i)) continue;
        const long long at = upto[i] - 1, segment = runs[i] - 1;
        const int a = one[order[i]], b = other[order[i]], range = range_in(keys[i]);
        one_of[at] = range_of[a] == range ? a : -1;
        other_of[at] = range_of[b] == range ? b : -1;
        segment_of[at] = (int)segment;
        if (is_marked(runs, i)) {
            offsets[segment] = at;
            ranges[segment] = range;
        }
        if (i + 1 == n || keys[i + 1] != keys[i]) before[segment] = (int)(i + 1 - bloom_offsets[bloom_in(keys[i])]);
    }
}
