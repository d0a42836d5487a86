// Peeling on a GPU: teams of threads that run rounds together, and lists of work for the next round.
//
// A team is a block (one range of items each) or the whole grid (all items; the launch must keep all blocks resident).
// Work of very different sizes is cut into entries of eight links or wedges, one for each lane of a group; an entry is
// (piece << 32 | id). Lists have two buffers, for the current round and the one before or after; the first thread of the
// team clears the counters of a list in the phase after the last one that reads them. Words that a phase writes without
// atomics are not read or written by other threads in the same phase.
//
// Items whose support is below the bound are removed. The one thread whose subtraction takes an item below the bound writes
// it to the list of the next round.
#pragma once

#include "warp.cuh"

constexpr int kGroup = PEEL_GROUP;
constexpr unsigned long long kNoSupport = NO_SUPPORT;
constexpr int kNever = 0x7fffffff;

/// Counters of a team, in device memory; zero before its first launch, except `least`, which is kNoSupport.
struct Counters {
    unsigned long long n_going[2];
    unsigned long long n_touched[2];
    unsigned long long least[2];
    unsigned long long round;    // rounds begun so far, over all launches
    unsigned long long updates;  // supports changed
};
static_assert(sizeof(Counters) == COUNTER_WORDS * sizeof(long long) && COUNTER_LEAST == 4 && COUNTER_ROUND == 6 &&
                  COUNTER_UPDATES == 7,
              "the places of these fields, which the launcher counts on");

__device__ __forceinline__ unsigned long long make_entry(int id, long long piece) {
    return (unsigned long long)piece << 32 | (unsigned)id;
}
__device__ __forceinline__ int entry_id(unsigned long long entry) { return (int)(unsigned)entry; }
__device__ __forceinline__ long long entry_piece(unsigned long long entry) { return (long long)(entry >> 32); }

/// Write the entries of `id`, which has `size` links or wedges; at least one. Any lane alone.
__device__ __forceinline__ void push_entries(unsigned long long* list, unsigned long long* n, int id, long long size) {
    const long long pieces = size > kGroup ? (size + kGroup - 1) / kGroup : 1;
    const unsigned long long at = atomicAdd(n, (unsigned long long)pieces);
    for (long long piece = 0; piece < pieces; ++piece) list[at + piece] = make_entry(id, piece);
}

/// The items of a team and their lists.
struct PeeledItems {
    const int* items;
    long long n_items;
    const long long* link_offsets;
    long long* supports;
    unsigned char* gone;        // of items removed in an earlier round
    unsigned long long* going;  // two lists of `room` entries
    long long room;
    Counters* counters;

    __device__ __forceinline__ unsigned long long* list(int round) const { return going + (round & 1) * room; }

    /// List an item for `round`.
    __device__ __forceinline__ void push(int item, int round) const {
        push_entries(list(round), &counters->n_going[round & 1], item, link_offsets[item + 1] - link_offsets[item]);
    }

    /// Lower a support; list the item for `round` if it falls below the bound.
    __device__ __forceinline__ void lower(int item, long long lost, long long bound, int round) const {
        const long long before = (long long)atomicAdd(reinterpret_cast<unsigned long long*>(&supports[item]),
                                                      (unsigned long long)(-lost));
        if (before >= bound && before - lost < bound) push(item, round);
    }

    /// The least support of the items left, in every thread; kNoSupport without any. `level` counts the calls.
    template <class Team>
    __device__ __forceinline__ long long least(Team& team, int level) const {
        unsigned long long lowest = kNoSupport;
        for (long long i = team.index(); i < n_items; i += team.size())
            if (!gone[items[i]]) lowest = min(lowest, (unsigned long long)supports[items[i]]);
        for (int step = kWarpSize / 2; step > 0; step >>= 1)
            lowest = min(lowest, __shfl_xor_sync(kFullMask, lowest, step));
        if (lane_id() == 0 && lowest != kNoSupport) atomicMin(&counters->least[level & 1], lowest);
        team.sync();
        return (long long)counters->least[level & 1];
    }

    /// List the items left below the bound for `round`; ends with a barrier.
    template <class Team>
    __device__ __forceinline__ void collect(Team& team, long long bound, int round, int level) const {
        if (team.index() == 0) counters->least[(level + 1) & 1] = kNoSupport;
        for (long long i = team.index(); i < n_items; i += team.size())
            if (!gone[items[i]] && supports[items[i]] < bound) push(items[i], round);
        team.sync();
    }
};

/// First parameters of every kernel of the coarse phase: one range, by the whole grid, which every item below the bound
/// gets.
#define COARSE_PARAMETERS                                                                                              \
    const int *items, const long long n_items, const long long *link_offsets, long long *supports, unsigned char *gone, \
        unsigned long long *going, const long long going_room, unsigned long long *counters,                           \
        unsigned long long *arrivals, const long long bound, const int range, int *ranges
#define COARSE_ITEMS \
    {items, n_items, link_offsets, supports, gone, going, going_room, reinterpret_cast<Counters*>(counters)}

/// First parameters of every kernel of the fine phase: a block per range. Range order[b] has the items, lists and counters
/// within its bounds.
#define FINE_PARAMETERS                                                                                                \
    const int *order, const int *items, const long long *item_bounds, const long long *link_offsets, long long *supports, \
        unsigned char *gone, unsigned long long *going, const long long *going_bounds, unsigned long long *counters,   \
        unsigned long long *numbers
#define FINE_ITEMS(range)                                                                                              \
    {items + item_bounds[range], item_bounds[range + 1] - item_bounds[range], link_offsets, supports, gone,            \
     going + 2 * going_bounds[range], going_bounds[range + 1] - going_bounds[range],                                   \
     reinterpret_cast<Counters*>(counters) + range}

/// Run rounds until no item is below the bound; returns the next round.
///
/// `motif.take(team, round, bound, found)` removes the items of the list, and `motif.spread(team, round, bound)` lowers
/// the supports of the others; `found` is the value given to each removed item.
template <class Team, class Motif>
__device__ __forceinline__ int run_rounds(Team& team, const PeeledItems& items, const Motif& motif, int round,
                                          long long bound, unsigned long long found) {
    while (items.counters->n_going[round & 1] != 0) {
        motif.take(team, round, bound, found);
        if (team.index() == 0) items.counters->n_going[(round + 1) & 1] = 0;
        team.sync();
        motif.spread(team, round, bound);
        team.sync();
        ++round;
    }
    return round;
}

/// Remove all items below `bound`, round by round: one range of the coarse phase.
template <class Team, class Motif>
__device__ __forceinline__ void peel_below(Team& team, const PeeledItems& items, const Motif& motif, long long bound,
                                           unsigned long long found) {
    const int first = (int)items.counters->round;
    items.collect(team, bound, first, 0);
    const int round = run_rounds(team, items, motif, first, bound, found);
    if (team.index() == 0) items.counters->round = (unsigned long long)round;
}

/// Remove all items, those of the least support first; each gets the level at which it is removed.
template <class Team, class Motif>
__device__ __forceinline__ void peel_exactly(Team& team, const PeeledItems& items, const Motif& motif) {
    int round = 0;
    for (int level = 0;; ++level) {
        const long long least = items.least(team, level);
        if (least == (long long)kNoSupport) break;
        items.collect(team, least + 1, round, level);
        round = run_rounds(team, items, motif, round, least + 1, (unsigned long long)least);
    }
    if (team.index() == 0) items.counters->round = (unsigned long long)round;
}

/// Items by the leading bits of their supports, weighted by their links: the basis for the bound of a range. As `bin_of`
/// in phases.py.
constexpr int kBinBits = BIN_BITS;

__device__ __forceinline__ int bin_of(long long support) {
    int shift = 0;
    while (support >> shift >= 2 << kBinBits) ++shift;
    return (shift << kBinBits) + (int)(support >> shift);
}

/// The number of list entries of items, given their links, or of segments, given their wedges.
extern "C" __global__ void __launch_bounds__(256)
count_entries(const long long* offsets, const long long n, long long* entries) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const long long size = offsets[i + 1] - offsets[i];
        entries[i] = size > kGroup ? (size + kGroup - 1) / kGroup : 1;
    }
}

extern "C" __global__ void __launch_bounds__(256)
weigh_items(const int n, const long long* supports, const unsigned char* gone, const long long* link_offsets,
            unsigned long long* weights) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        if (!gone[i])
            atomicAdd(&weights[bin_of(supports[i])], (unsigned long long)(link_offsets[i + 1] - link_offsets[i] + 1));
}
