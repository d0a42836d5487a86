// The heaviest spanning forest of the items of a decomposition, by the rounds of Boruvka.
//
// Items (edges for wings, vertices for tips) are connected by pairs, and the weight of a pair is the lower rank of its two
// items; ranks follow the numbers. Items of number 0 have rank 0 and are in no pair. In a round every component takes its
// best pair to another component; the host joins the pairs taken (gpu_index.py). At any level, the components of the taken
// pairs of that level or more equal the components of all such pairs.
//
// Tips: a pair of vertices with two common neighbours. Wings: a wedge of a bloom is joined with the *top* of the bloom, its
// wedge of highest rank, since any two wedges of a bloom form a butterfly: its lower edge with its other edge, and with both
// edges of the top. At the rank of that lower edge both wedges exist.
//
// `above` is the root of each item. `best` of a root is a key, 0 before there is one: rank << SPAN_PAIR_BITS | number of
// the pair. A key identifies one pair, so roots cannot take different pairs of equal weight in a cycle. Keys only grow: if
// the key read is not smaller, no atomic is needed.
#include "warp.cuh"

/// Offer the pair (a, b) to the components of both, if these differ.
__device__ __forceinline__ void offer(const int* above, int a, int b, int rank, unsigned long long pair,
                                      unsigned long long* best) {
    const int x = above[a], y = above[b];
    if (x == y) return;
    const unsigned long long key = (unsigned long long)rank << SPAN_PAIR_BITS | pair;
    if (peek(&best[x]) < key) atomicMax(&best[x], key);
    if (peek(&best[y]) < key) atomicMax(&best[y], key);
}

/// Find the top of each bloom: rank of the lower edge << 32 | wedge.
extern "C" __global__ void __launch_bounds__(256)
find_tops(const int* one, const int* other, const int* bloom_of, const long long n_wedges, const int* ranks,
          unsigned long long* tops) {
    for (long long wedge = global_thread(); wedge < n_wedges; wedge += grid_threads()) {
        const int rank = min(ranks[one[wedge]], ranks[other[wedge]]);
        const unsigned long long key = (unsigned long long)rank << 32 | (unsigned)wedge;
        unsigned long long* top = &tops[bloom_of[wedge]];
        if (peek(top) < key) atomicMax(top, key);
    }
}

/// Offer the pairs of all wedges: 4 * wedge + 0 with its other edge, + 1 and + 2 with the edges of the top.
extern "C" __global__ void __launch_bounds__(256)
offer_wedges(const int* one, const int* other, const int* bloom_of, const long long n_wedges, const int* ranks,
             const unsigned long long* tops, const int* above, unsigned long long* best) {
    for (long long wedge = global_thread(); wedge < n_wedges; wedge += grid_threads()) {
        const bool first = ranks[one[wedge]] <= ranks[other[wedge]];
        const int low = first ? one[wedge] : other[wedge], high = first ? other[wedge] : one[wedge];
        const unsigned top = (unsigned)tops[bloom_of[wedge]];
        if (ranks[low] == 0 || top == (unsigned)wedge) continue;
        const unsigned long long pair = 4ull * (unsigned long long)wedge;
        offer(above, low, high, ranks[low], pair, best);
        offer(above, low, one[top], ranks[low], pair + 1, best);
        offer(above, low, other[top], ranks[low], pair + 2, best);
    }
}

/// Offer the pairs of vertices, which are listed in both directions; a warp per vertex.
extern "C" __global__ void __launch_bounds__(256)
offer_pairs(const long long* offsets, const int* others, const int n, const int* ranks, const int* above,
            unsigned long long* best) {
    for (long long item = global_thread() / kWarpSize; item < n; item += grid_threads() / kWarpSize) {
        if (ranks[item] == 0) continue;
        for (long long at = offsets[item] + lane_id(); at < offsets[item + 1]; at += kWarpSize) {
            const int other = others[at];
            if (ranks[other] > ranks[item] || (ranks[other] == ranks[item] && other < item))
                offer(above, (int)item, other, ranks[item], (unsigned long long)at, best);
        }
    }
}

/// For the numbers of the items in order: whether the rank increases. The sums are the ranks; number 0 has rank 0.
extern "C" __global__ void __launch_bounds__(256)
mark_steps(const unsigned long long* numbers, const long long* order, const long long n, long long* steps) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        steps[i] = numbers[order[i]] != (i ? numbers[order[i - 1]] : 0);
}

extern "C" __global__ void __launch_bounds__(256)
place_ranks(const long long* order, const long long* upto, const long long n, int* ranks) {
    for (long long i = global_thread(); i < n; i += grid_threads()) ranks[order[i]] = (int)upto[i];
}

/// Take the best pair of each root, unless the component at its other end takes the same pair and has a lower number, and
/// write the new root of each root. `ends` returns the items of a pair.
template <class Ends>
__device__ __forceinline__ void take_pairs(const Ends& ends, const int* above, const unsigned long long* best, int n,
                                           int* hook, unsigned long long* taken, unsigned long long* n_taken) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int root = (int)i;
        const unsigned long long key = best[root];
        hook[root] = root;
        if (key == 0) continue;
        int a, b;
        ends(key & ((1ull << SPAN_PAIR_BITS) - 1), a, b);
        const int target = above[a] == root ? above[b] : above[a];
        if (best[target] == key && root <= target) continue;
        hook[root] = target;
        taken[atomicAdd(n_taken, 1ull)] = (unsigned long long)(unsigned)a << 32 | (unsigned)b;
    }
}

struct WedgeEnds {
    const int* one;
    const int* other;
    const int* bloom_of;
    const int* ranks;
    const unsigned long long* tops;

    __device__ __forceinline__ void operator()(unsigned long long pair, int& a, int& b) const {
        const long long wedge = (long long)(pair >> 2);
        const unsigned which = (unsigned)pair & 3, top = (unsigned)tops[bloom_of[wedge]];
        const bool first = ranks[one[wedge]] <= ranks[other[wedge]];
        a = first ? one[wedge] : other[wedge];
        b = which == 0 ? (first ? other[wedge] : one[wedge]) : which == 1 ? one[top] : other[top];
    }
};

extern "C" __global__ void __launch_bounds__(256)
take_wedges(const int* one, const int* other, const int* bloom_of, const int* ranks, const unsigned long long* tops,
            const int* above, const unsigned long long* best, const int n, int* hook, unsigned long long* taken,
            unsigned long long* n_taken) {
    take_pairs(WedgeEnds{one, other, bloom_of, ranks, tops}, above, best, n, hook, taken, n_taken);
}

struct ListedEnds {
    const long long* offsets;
    const int* others;
    int n;

    __device__ __forceinline__ void operator()(unsigned long long pair, int& a, int& b) const {
        a = first_not(n + 1, [&](int i) { return offsets[i] <= (long long)pair; }) - 1;
        b = others[pair];
    }
};

extern "C" __global__ void __launch_bounds__(256)
take_listed(const long long* offsets, const int* others, const int* above, const unsigned long long* best, const int n,
            int* hook, unsigned long long* taken, unsigned long long* n_taken) {
    take_pairs(ListedEnds{offsets, others, n}, above, best, n, hook, taken, n_taken);
}

/// Each pair by its first item and by its second item.
extern "C" __global__ void __launch_bounds__(256)
turn_pairs(const unsigned long long* pairs, const long long n, unsigned long long* both) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        both[i] = pairs[i];
        both[n + i] = pairs[i] >> 32 | pairs[i] << 32;
    }
}
