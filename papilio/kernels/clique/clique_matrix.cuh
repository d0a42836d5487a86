// The graph that the later neighbours of a root induce, as a square matrix of bits, and graphs of some of its vertices.
//
// All lanes of a warp call functions together, unless their comments say otherwise.
#pragma once

#include "bit_matrix.cuh"
#include "records.cuh"
#include "search.cuh"
#include "tree_queue.cuh"

/// 1: candidates are taken one after the other, last ones first: a row has only the candidates before it.
#ifndef ORIENT
#define ORIENT 0
#endif
constexpr bool kOrients = ORIENT != 0;

/// Lanes that share the list of a vertex, and entries that each of them looks up at once, to overlap loads.
constexpr int kListLanes = 8;
constexpr int kListEntries = 4;

/// Word k of a set with a single member.
__device__ __forceinline__ unsigned bit_of(int number, int k) { return number / 32 == k ? 1u << (number & 31) : 0u; }

/// A row of bits for each of n candidates: word k of row i is at(k, i). With kOrients a row ends with the word of its own
/// bit, and all rows together take half as many words.
struct Square {
    unsigned* words;
    int n;
    int n_words;

    static __device__ __forceinline__ int size(int n) {
        return n * words_for(n) - (kOrients ? 16 * words_for(n) * (words_for(n) - 1) : 0);
    }
    __device__ __forceinline__ unsigned& at(int k, int row) const {
        return words[k * (kOrients ? n - 16 * (k + 1) : n) + row];
    }
    /// The part of word k before the row's own bit; the word contains this bit.
    __device__ __forceinline__ unsigned last(int k, int row) const {
        return kOrients ? at(k, row) : at(k, row) & lanes_before(row & 31);
    }
};

/// Call `set(i, j)` if member j of n ascending ones is a later neighbour of vertex i of `ids`, each by some lane.
template <class Set>
__device__ __forceinline__ void find_members(const Adjacency& later, const int* ids, int n_ids, const int* members, int n,
                                             const Set& set) {
    for (int i = lane_id() / kListLanes; i < n_ids; i += kWarpSize / kListLanes) {
        const long long end = later.indptr[ids[i] + 1];
        for (long long at = later.indptr[ids[i]] + lane_id() % kListLanes; at < end; at += kListLanes * kListEntries) {
            int sought[kListEntries], below[kListEntries];
#pragma unroll
            for (int e = 0; e < kListEntries; ++e) {
                sought[e] = at + e * kListLanes < end ? later.ids[at + e * kListLanes] : -1;
                below[e] = 0;
            }
            for (int step = 1 << (31 - __clz(n)); step != 0; step >>= 1)
#pragma unroll
                for (int e = 0; e < kListEntries; ++e)
                    if (below[e] + step <= n && members[below[e] + step - 1] < sought[e]) below[e] += step;
#pragma unroll
            for (int e = 0; e < kListEntries; ++e)
                if (below[e] < n && members[below[e]] == sought[e]) set(i, below[e]);
        }
    }
    __syncwarp();
}

__device__ __forceinline__ void clear_words(unsigned* words, long long n) {
    for (long long i = lane_id(); i < n; i += kWarpSize) words[i] = 0;
    __syncwarp();
}

/// Set the neighbours of each of n ascending members among them, from the later neighbours of all; all words are 0.
template <class Matrix>
__device__ __forceinline__ void fill_square(const Matrix& matrix, const int* members, int n, const Adjacency& later) {
    find_members(later, members, n, members, n, [&](int i, int j) {
        atomicOr(&matrix.at(i / 32, j), 1u << (i & 31));
        if (!kOrients) atomicOr(&matrix.at(j / 32, i), 1u << (j & 31));
    });
}

/// Columns that a lane looks up at once, to overlap loads.
constexpr int kGathered = 4;

/// Word k of a row over the n members only: each lane for its own row, with kOrients the row of member `place`. Lanes without
/// a row (`has_row`) get 0.
template <class Matrix>
__device__ __forceinline__ unsigned gather_word(const Matrix& matrix, bool has_row, int row, int place, const int* members,
                                                int n, int k) {
    const int n_here = min(kWarpSize, n - 32 * k), own_member = lane_id() < n_here ? members[32 * k + lane_id()] : 0;
    unsigned own = 0;
    for (int first = 0; first < n_here; first += kGathered) {
        unsigned bits[kGathered];
#pragma unroll
        for (int e = 0; e < kGathered; ++e) {
            const int j = first + e, column = __shfl_sync(kFullMask, own_member, j);
            const bool has = has_row && j < n_here && (!kOrients || 32 * k + j < place);
            bits[e] = has ? matrix.at(column / 32, row) >> (column & 31) & 1u : 0u;
        }
#pragma unroll
        for (int e = 0; e < kGathered; ++e) own |= bits[e] << (first + e);
    }
    return own;
}

/// The graph of n, at most 32, members: lane i has row i. The warp reads row by row, a column for each lane.
template <class Matrix>
__device__ __forceinline__ unsigned gather_square(const Matrix& matrix, const int* members, int n) {
    const int lane = lane_id(), column = lane < n ? members[lane] : 0;
    unsigned own = 0;
    for (int i = 0; i < n; ++i) {
        const bool has = lane < (kOrients ? i : n);
        const unsigned bit = has ? matrix.at(column / 32, members[i]) >> (column & 31) & 1u : 0u;
        const unsigned bits = __ballot_sync(kFullMask, bit);
        if (lane == i) own = bits;
    }
    return own;
}

/// Write the rows `row_at(i)`, i below `n_rows`, over the n members only.
template <class Matrix, class RowAt>
__device__ __forceinline__ void gather_rows(const Matrix& to, const Matrix& from, const RowAt& row_at, int n_rows,
                                            const int* members, int n) {
    for (int first = 0; first < n_rows; first += kWarpSize) {
        const int place = first + lane_id();
        const bool has_row = place < n_rows;
        const int row = has_row ? row_at(place) : 0;
        for (int k = 0; k < (kOrients ? first / 32 + 1 : words_for(n)); ++k) {
            const unsigned own = gather_word(from, has_row, row, place, members, n, k);
            if (has_row) to.at(k, place) = own;
        }
    }
    __syncwarp();
}

/// Write every second member of a set, from the second on, to `others`.
__device__ __forceinline__ void list_every_second(const unsigned* set, int n_words, unsigned* others) {
    unsigned is_odd = 0;  // all bits: whether the number of members before is odd
    for (int k = 0; k < n_words; ++k) {
        unsigned odd = set[k];
        for (int step = 1; step < 32; step *= 2) odd ^= odd << step;  // bit i: parity of the bits up to i
        odd ^= is_odd;
        if (lane_id() == 0) others[k] = set[k] & ~odd;
        is_odd = odd >> 31 != 0 ? kFullMask : 0u;
    }
    __syncwarp();
}

/// Word by word, the members of a set among n members, renumbered.
__device__ __forceinline__ void gather_set(unsigned* to, const unsigned* set, const int* members, int n) {
    for (int k = 0; k < words_for(n); ++k) {
        const int j = 32 * k + lane_id(), column = j < n ? members[j] : 0;
        const unsigned bits = __ballot_sync(kFullMask, j < n && (set[column / 32] >> (column & 31) & 1u));
        if (lane_id() == 0) to[k] = bits;
    }
    __syncwarp();
}

// Idle lanes, of the same warp or of a waiting one, take over work from busy lanes, once a warp has no more sub-trees to
// give.
//
// Each lane searches a sub-tree of its own (clique_lanes.cuh, clique_maximal_lanes.cuh), and their sizes differ a
// thousandfold. A busy lane gives half of the branches of its highest node that has any to an idle lane, which gets a copy of
// its graph: the first branches in the order of numbers, which are taken last. Waiting warps get every second lane that has
// branches, unchanged, through the queue of tree_queue.cuh. Lanes has
//   rows, kGraphWords, frames, kFrameWords   words of the calling lane, each kWarpSize apart
//   depth, busy, idle()
//   int run(int most, int turns)             searches until at most `most` are busy, or for `turns` turns; returns the turns
//   unsigned& rest_of(int i)                 the branches that frame i has left
//   void copy_from(int lane, bool is_taker)  registers that the graph needs; the warp
//   void take_half()                         reduces the copied frame 0 to its half, which the next turn continues with
//   kRegisterWords, save(to), load(from)     registers of a busy lane, as words kWarpSize apart; any lane alone

/// Turns of the lanes between two checks for idle ones; maximum turns.
constexpr int kShareTurns = 4, kAllTurns = 0x7fffffff;
/// Equivalent of a turn of the last lanes in steps (tree_queue.cuh).
constexpr int kTurnSteps = 4;

/// First word of a slot of the queue that holds lanes, and words before the lanes.
constexpr unsigned kLanesSlot = 3;
constexpr int kLanesHead = 4;
/// Maximum times that a warp shares lanes at once, and the fraction of all warps that must be exceeded by waiting ones:
/// lanes of two warps take twice the turns of lanes of one.
constexpr int kLanesAtOnce = 4, kWaitingPart = 4;
/// Number of idle lanes at which a warp without nodes waits for sub-trees, while its other lanes search.
constexpr int kJoinLanes = 16;

/// Each busy lane with branches left gives half of the branches of one node to an idle lane, while there are any; the warp.
template <class Lanes>
__device__ __forceinline__ void share_branches(Lanes& lanes) {
    const int lane = lane_id();
    unsigned idle = lanes.idle();
    if (idle == 0) return;
    int open = -1;
    for (int i = 0; lanes.busy && open < 0 && i < lanes.depth; ++i)
        if (lanes.rest_of(i) != 0) open = i;
    unsigned givers = __ballot_sync(kFullMask, open >= 0);
    bool gives = false, takes = false;
    __syncwarp();
    for (; idle != 0 && givers != 0; idle &= idle - 1, givers &= givers - 1) {
        const int to = __ffs((int)idle) - 1, from = __ffs((int)givers) - 1, frame = __shfl_sync(kFullMask, open, from);
        for (int word = lane; word < Lanes::kGraphWords; word += kWarpSize) {
            unsigned* const of_word = lanes.rows + kWarpSize * word - lane;
            of_word[to] = of_word[from];
        }
        if (lane < Lanes::kFrameWords) {
            unsigned* const of_word = lanes.frames + kWarpSize * lane - lane;
            of_word[to] = of_word[kWarpSize * Lanes::kFrameWords * frame + from];
        }
        lanes.copy_from(from, lane == to);
        gives |= lane == from;
        takes |= lane == to;
    }
    __syncwarp();
    if (gives) lanes.rest_of(open) ^= lower_half(lanes.rest_of(open));
    if (takes) lanes.take_half();
}

/// Copy n words that are kWarpSize apart; any lane alone.
__device__ __forceinline__ void copy_apart(unsigned* to, const unsigned* from, int n) {
    for (int i = 0; i < n; ++i) to[kWarpSize * i] = from[kWarpSize * i];
}

/// Share every second lane that has branches with a waiting warp; false: none waits, or fewer than two have. The warp.
template <class Lanes>
__device__ __forceinline__ bool offer_lanes(Lanes& lanes, const TreeQueue& queue) {
    const unsigned open = __ballot_sync(kFullMask, lanes.busy && lanes.depth != 0), own = 1u << lane_id();
    const int n_words = Lanes::kRegisterWords + Lanes::kGraphWords + Lanes::kFrameWords * (int)~warp_least(~(unsigned)lanes.depth);
    if ((open & (open - 1)) == 0 || kLanesHead + kWarpSize * n_words > queue.slot_words) return false;
    const bool gives = (open & own) != 0 && __popc(open & (own - 1)) % 2 != 0;
    const unsigned given = __ballot_sync(kFullMask, gives);
    const bool is_left = queue.offer([&](unsigned* slot) {
        if (lane_id() == 0) {
            slot[0] = kLanesSlot;
            slot[1] = given;
        }
        if (!gives) return;
        unsigned* const to = slot + kLanesHead + lane_id();
        lanes.save(to);
        copy_apart(to + kWarpSize * Lanes::kRegisterWords, lanes.rows, Lanes::kGraphWords);
        copy_apart(to + kWarpSize * (Lanes::kRegisterWords + Lanes::kGraphWords), lanes.frames, Lanes::kFrameWords * lanes.depth);
    });
    if (is_left && gives) lanes.busy = false;
    return is_left;
}

/// Whether there are idle lanes for the content of a slot of the queue.
template <class Lanes>
__device__ __forceinline__ bool has_room(const Lanes& lanes, const unsigned* slot) {
    return slot[0] != kLanesSlot || __popc(slot[1]) <= __popc(lanes.idle());
}

/// Take the lanes in a slot of the queue; the warp.
template <class Lanes>
__device__ __forceinline__ void take_lanes(Lanes& lanes, const unsigned* slot) {
    unsigned given = slot[1];
    const int place = __popc(lanes.idle() & lanes_before(lane_id()));
    if (lanes.busy || place >= __popc(given)) return;
    for (int i = 0; i < place; ++i) given &= given - 1;
    const unsigned* const from = slot + kLanesHead + __ffs((int)given) - 1;
    lanes.load(from);
    lanes.busy = true;
    copy_apart(lanes.rows, from + kWarpSize * Lanes::kRegisterWords, Lanes::kGraphWords);
    copy_apart(lanes.frames, from + kWarpSize * (Lanes::kRegisterWords + Lanes::kGraphWords), Lanes::kFrameWords * lanes.depth);
}

/// Search until no lane is busy, of this warp or of lanes it shared; false: another warp shared something before that.
/// The warp.
template <class Lanes>
__device__ __forceinline__ bool finish_lanes(Lanes& lanes, TreeQueue& queue) {
    const int many = (int)(gridDim.x * blockDim.x / kWarpSize) / kWaitingPart;
    while (lanes.idle() != kFullMask) {
        queue.spend(kTurnSteps * lanes.run(0, kShareTurns));
        share_branches(lanes);
        const unsigned* const left = queue.look();
        if (left != nullptr && has_room(lanes, left)) return false;
        // A warp that has joined the waiting ones shares nothing: it would wait for a slot while another waits for its own.
        if (queue.joined) continue;
        if (queue.is_wanted(many)) {
            for (int n_left = 0; n_left < kLanesAtOnce && offer_lanes(lanes, queue); ++n_left) {
            }
        } else if (__popc(lanes.idle()) >= kJoinLanes && !queue.has_seen(many)) {
            queue.join();
        }
    }
    return true;
}

// The nodes that a warp processes on a matrix of candidates: code shared by the searches of cliques and of maximal cliques.
//
// Nodes are frames of a stack: kNodeHead words defined by the search, the candidates, the candidates with a branch left
// (`rest`), and further sets of the search, all as bits. A Search has
//   int node_words()                      words of a frame
//   bool enter(node)                      chooses the branches of a new node; false: it has none, and is done
//   int next_branch(node)                 the candidate whose branch comes next, or -1
//   void write_branch(node, next, to)     writes its node
//   void drop_branch(node, next)          removes it
//   void follow(node, next)               enters it
//   bool write_half(node)                 makes `branch`, whose `rest` holds every second branch of the node, a node with
//                                         only these left; false: it is not worth sharing
//   bool is_worth(branch)                 whether a new node is worth sharing
//   bool is_open(node)                    whether branches of a node may be, if they fit in a slot
//   bool offer(node, next)                shares `branch`, that one or a half (-1); false: no warp is waiting, or no room
//   void share_outer()                    shares branches of the matrices left before, if `has_outer()`
//   bool leave_matrix()                   returns to the matrix that `enter` left for one of the node's own, at the level above
//                                         the node; false: there is none
// All lanes of a warp call functions together.

constexpr int kNodeHead = 4;
/// Maximum nodes that a warp shares at once.
constexpr int kSharedAtOnce = 4;

template <class Search, class Matrix>
struct NodeSearch {
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    Adjacency later;
    Matrix matrix;
    int* names;         // ranks of the candidates, or their places in the unit
    int* members;       // room for all candidates
    unsigned* branch;   // a node to share
    unsigned* nodes;    // nullptr: only the lanes have nodes
    bool has_branches;  // whether the first node already has its branches
    int level;          // of the current node, -1 after the first
    int open_level;     // of the first node whose branches may be worth sharing
    unsigned long long words;  // of this lane

    __device__ __forceinline__ bool open_child(int) const { return true; }
    __device__ __forceinline__ void close() const {}
    __device__ __forceinline__ bool has_outer() const { return false; }
    __device__ __forceinline__ void share_outer() {}
    __device__ __forceinline__ bool leave_matrix() { return false; }

  protected:
    __device__ __forceinline__ Search& self() { return *static_cast<Search*>(this); }
    __device__ __forceinline__ unsigned* node_at(int level) {
        return nodes + (long long)level * self().node_words();
    }
    __device__ __forceinline__ unsigned* candidates_of(unsigned* node) const { return node + kNodeHead; }
    __device__ __forceinline__ unsigned* rest_of(unsigned* node) const { return node + kNodeHead + matrix.n_words; }

    /// The lanes in a slot of the queue.
    template <class Lanes>
    __device__ __forceinline__ void read_lanes(Lanes& lanes, const unsigned* slot) {
        nodes = nullptr;
        take_lanes(lanes, slot);
    }

    /// Process all nodes from the first on.
    __device__ __forceinline__ void search_nodes() {
        level = nodes == nullptr ? -1 : 0;
        open_level = 0;
        bool is_new = !has_branches;
        while (level >= 0 || self().leave_matrix()) {
            if (is_new && !self().enter(node_at(level))) {
                is_new = false;
                --level;
                continue;
            }
            share();
            unsigned* const node = node_at(level);
            const int next = self().next_branch(node);
            is_new = next >= 0;
            if (is_new) {
                __syncwarp();
                self().write_branch(node, next, node_at(level + 1));
                self().follow(node, next);
                self().drop_branch(node, next);
                open_level = min(open_level, level + 1);
            }
            level += is_new ? 1 : -1;
        }
    }

    /// Share branches if warps wait, those of matrices left before first: they have the larger trees.
    __device__ __forceinline__ void share() {
        if ((open_level > level && !self().has_outer()) || !queue.is_wanted()) return;
        self().share_outer();
        share_nodes();
    }

    /// Share half of the branches of the highest node with branches worth it, or its last one, and repeat while warps wait. Nodes
    /// before open_level have none, and only a new node at its level may have some.
    __device__ __forceinline__ void share_nodes() {
        for (int i = open_level, n_left = 0; i <= level && n_left < kSharedAtOnce;) {
            unsigned* const node = node_at(i);
            __syncwarp();
            const bool is_open = self().is_open(node);
            const bool is_half = is_open && list_half(node, rest_of(branch)) && self().write_half(node);
            const int next = is_half || !is_open ? -1 : self().next_branch(node);
            __syncwarp();
            if (next >= 0) self().write_branch(node, next, branch);
            if (!is_half && (next < 0 || !self().is_worth(branch))) {
                open_level += (int)(i == open_level && (next < 0 || !self().is_open(branch)));
                ++i;
                continue;
            }
            if (!self().offer(node, next)) return;
            ++n_left;
            if (is_half)
                drop_branches(node, rest_of(branch));
            else
                self().drop_branch(node, next);
        }
    }

    /// Record words of the matrix that were intersected.
    __device__ __forceinline__ void spend(long long n_words) {
        words += lane_id() == 0 ? (unsigned long long)n_words : 0ull;
        queue.spend((int)(n_words / kWarpSize) + 1);
    }

    /// Make all n candidates members.
    __device__ __forceinline__ void fill_candidates(unsigned* node, int n) const {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] = bits_below(n - 32 * k);
    }

    /// Write every second one of the branches to `half`; false: there are fewer than two.
    __device__ __forceinline__ bool list_half(unsigned* node, unsigned* half) const {
        const bool has_two = set_size(rest_of(node), matrix.n_words) >= 2;
        if (has_two) list_every_second(rest_of(node), matrix.n_words, half);
        return has_two;
    }

    __device__ __forceinline__ void drop_branches(unsigned* node, const unsigned* branches) const {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest_of(node)[k] &= ~branches[k];
        __syncwarp();
    }
};

/// Copy n words from a slot of the queue, or to one; returns the start of the next words.
template <class Word>
__device__ __forceinline__ const unsigned* copy_in(Word* to, const unsigned* from, int n) {
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (Word)from[i];
    return from + n;
}
__device__ __forceinline__ unsigned* copy_out(unsigned* to, const int* from, int n) {
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)from[i];
    return to + n;
}

// The vertices of the cliques below a node, and the counts of each vertex, or each edge, from a leaf's cliques.
//
// A leaf with h held and p free vertices represents C(p, k - h) cliques of k: a held vertex is in all of them, a free vertex
// in C(p - 1, k - h - 1); a pair in as many as its free vertices leave. Sums are modulo 2^64.
// A node that lacks one or two vertices of k is not searched, nor one of at most 32 candidates that lacks three or four:
// besides the held vertices, a clique has some of the free ones, which are adjacent to all, and candidates adjacent to each
// other.
// With LISTS a leaf is a record instead: the number of held vertices, their ranks, and the ranks of the free ones.
// `choose[n * (k + 1) + j]` is C(n, j) modulo 2^64. `sums` are by rank, or by entry of the later neighbours.
// Counts of vertices are added up by unit, in the warp's arena, and go to `sums` when the unit ends: many warps search below
// the same vertices, whose sums they would wait for. A candidate is then named by its place in the unit.

/// Edges, triangles and cliques of four that a lane, or a warp, counted.
struct FewCounts {
    unsigned edges;
    unsigned long long triangles;
    unsigned fours = 0;
};

#ifndef PER
#define PER 0
#endif

/// 0: no path is kept; 1: vertices; 2: edges.
constexpr int kPer = PER;
/// Most free vertices of a node that lacks four vertices and is not searched.
constexpr int kFreeSmall = 1024;
/// Whether the sums of a unit are kept apart.
constexpr bool kSums = kPer == 1 && !kLists;

struct CliquePaths {
    const unsigned long long* choose;
    unsigned long long* sums;
    int* held;  // ranks, the root first; with kSums only of those held when the unit began, then places
    int* free;
    RecordSink sink;
    // Of the unit, with kSums:
    int* ranks;               // of the candidates
    unsigned long long* own;  // the sums of the candidates
    unsigned long long of_held, of_free;  // of each vertex that was held, or free, when the unit began
    int n_held, n_free;       // and their numbers
    int n;                    // candidates

    /// Begin a unit of candidates below so many vertices held and free; the warp.
    __device__ __forceinline__ void begin(Arena& arena, int n_candidates, int n_first_held, int n_first_free) {
        if constexpr (kSums) {
            ranks = reinterpret_cast<int*>(arena.take_far(n_candidates));
            own = take_sums(arena, n_candidates);
            n = n_candidates;
            of_held = of_free = 0;
            n_held = n_first_held;
            n_free = n_first_free;
        }
    }

    /// Add the sums of the unit to those of all; the warp.
    __device__ __forceinline__ void close() const {
        if constexpr (kSums) {
#pragma unroll 1
            for (int i = lane_id(); i < n; i += kWarpSize)
                if (own[i] != 0) atomicAdd(&sums[ranks[i]], own[i]);
#pragma unroll 1
            for (int i = lane_id(); i < n_held + n_free; i += kWarpSize) {
                const unsigned long long way = i < n_held ? of_held : of_free;
                if (way != 0) atomicAdd(&sums[i < n_held ? held[i] : free[i - n_held]], way);
            }
        }
    }

    /// The rank of a named vertex.
    __device__ __forceinline__ int rank_of(int name) const { return kSums ? ranks[name] : name; }

    /// Count one leaf; the warp.
    __device__ __forceinline__ void add(const Adjacency& later, int held_now, int free_now, int k) {
        const int missing = k - held_now;
        if constexpr (kLists) {
            if (missing > free_now) return;
            sink.write(1 + held_now + free_now, [&](const auto& visit) {
                if (lane_id() == 0) visit(0, held_now);
                for (int i = lane_id(); i < held_now; i += kWarpSize) visit(1 + i, held[i]);
                for (int i = lane_id(); i < free_now; i += kWarpSize) visit(1 + held_now + i, free[i]);
            });
            return;
        }
        unsigned long long ways[3];  // by number of free vertices that are fixed
        for (int fixed = 0; fixed < 3; ++fixed)
            ways[fixed] = free_now >= fixed && missing >= fixed
                              ? choose[(long long)(free_now - fixed) * (k + 1) + missing - fixed]
                              : 0ull;
        if constexpr (kSums) add_path(held_now, free_now, ways[0], ways[1]);
#pragma unroll 1
        for (int i = 0; kPer == 2 && i < held_now + free_now; ++i) {
            const bool is_free = i >= held_now;
            const int x = path_at(i, held_now);
            for (int j = lane_id(); j < i; j += kWarpSize)
                add_pair(later, x, path_at(j, held_now), ways[(int)is_free + (int)(j >= held_now)]);
        }
    }

    /// Count a node of n candidates, with `edges` among them, that lacks `missing`, 1 or 2, vertices; the warp. `candidates` is
    /// the set of `members`, and `names` has their ranks.
    __device__ __forceinline__ void add_last(const Adjacency& later, const Square& matrix, const unsigned* candidates,
                                             const int* members, const int* names, int n, unsigned edges, int held_now, int free_now,
                                             int missing) {
        const bool is_pair = missing == 2;
        const unsigned long long p = (unsigned)free_now, m = (unsigned)n;
        // Cliques of all, by number of free vertices that are fixed.
        const unsigned long long ways[3] = {is_pair ? p * (p - 1) / 2 + p * m + edges : p + m, is_pair ? p - 1 + m : 1ull,
                                            is_pair ? 1ull : 0ull};
        if constexpr (kSums) add_path(held_now, free_now, ways[0], ways[1]);
#pragma unroll 1
        for (int i = lane_id(); kPer == 2 && i < held_now + free_now; i += kWarpSize) {
            const int n_fixed = i < held_now ? 0 : 1, x = path_at(i, held_now);
            for (int j = 0; j < i; ++j)
                add_pair(later, x, path_at(j, held_now), ways[n_fixed + (j < held_now ? 0 : 1)]);
        }
#pragma unroll 1
        for (int i = lane_id(); i < n; i += kWarpSize) {
            const int row = members[i], x = names[row];
            unsigned near = 0;
            for (int k = 0; is_pair && k < matrix.n_words; ++k) near += (unsigned)__popc(matrix.at(k, row) & candidates[k]);
            const unsigned long long each = is_pair ? p + near : 1ull;
            if constexpr (kSums) own[x] += each;
            for (int j = 0; kPer == 2 && j < held_now + free_now; ++j)
                add_pair(later, x, path_at(j, held_now), j < held_now ? each : ways[2]);
            for (int j = 0; kPer == 2 && is_pair && j < i; ++j)
                if (matrix.at(members[j] / kWarpSize, row) >> members[j] % kWarpSize & 1u)
                    add_pair(later, x, names[members[j]], 1);
        }
    }

    /// The same for a node of at most 32 candidates that lacks 1 to 4 vertices: lane i has row i of their matrix and the name of
    /// the candidate. Returns the edges, triangles and cliques of four among them.
    __device__ __forceinline__ FewCounts add_small(const Adjacency& later, unsigned row, int name, int n, int held_now,
                                                   int free_now, int missing) {
        const int lane = lane_id();
        const unsigned long long p = (unsigned)free_now, m = (unsigned)n, p1 = p - 1, p2 = p - 2, p3 = p - 3;
        const unsigned long long pairs_of_free = p * p1 / 2, triples_of_free = pairs_of_free * p2 / 3;
        const unsigned degree = missing >= 2 ? (unsigned)__popc(row) : 0u;
        unsigned corners = 0, quads = 0;  // twice the triangles of this candidate, and six times its cliques of four
#pragma unroll 1
        for (int j = 0; missing >= (kPer == 2 ? 2 : 3) && j < n; ++j) {
            const unsigned other = __shfl_sync(kFullMask, row, j), near = row >> j & 1u ? other & row : 0u;
            unsigned ends = 0;  // of edges among the neighbours that both have
            if (missing == 4)
#pragma unroll 1
                for (unsigned rest = warp_or(near); rest != 0; rest &= rest - 1) {
                    const int next = __ffs((int)rest) - 1;
                    const unsigned third = __shfl_sync(kFullMask, row, next);
                    if (near >> next & 1u) ends += (unsigned)__popc(near & third);
                }
            const unsigned common = (unsigned)__popc(near);
            corners += common;
            quads += ends;
            if constexpr (kPer == 2) {
                const int neighbour = __shfl_sync(kFullMask, name, j);
                const unsigned long long both = missing == 2 ? 1 : missing == 3 ? p + common : pairs_of_free + p * common + ends / 2;
                if (j < lane && (row >> j & 1u)) add_pair(later, name, neighbour, both);
            }
        }
        if (missing < 3) corners = 0;
        const FewCounts found{warp_total(degree) / 2, warp_total(corners) / 6, warp_total(quads) / 24};
        // Cliques of all, of a free vertex, of two; of this candidate, and with a free vertex.
        unsigned long long all = p + m, one = 1, two = 0, own_ways = 1, with_free = 0;
        if (missing == 2) {
            all = pairs_of_free + p * m + found.edges;
            one = p1 + m;
            two = with_free = 1;
            own_ways = p + degree;
        }
        if (missing == 3) {
            all = triples_of_free + pairs_of_free * m + p * found.edges + found.triangles;
            one = p1 * p2 / 2 + p1 * m + found.edges;
            two = p2 + m;
            own_ways = pairs_of_free + p * degree + corners / 2;
            with_free = p1 + degree;
        }
        if (missing == 4) {
            all = triples_of_free * p3 / 4 + triples_of_free * m + pairs_of_free * found.edges + p * found.triangles + found.fours;
            one = p1 * p2 / 2 * p3 / 3 + p1 * p2 / 2 * m + p1 * found.edges + found.triangles;
            two = p2 * p3 / 2 + p2 * m + found.edges;
            own_ways = triples_of_free + pairs_of_free * degree + p * (corners / 2) + quads / 6;
            with_free = p1 * p2 / 2 + p1 * degree + corners / 2;
        }
        if constexpr (kSums) {
            add_path(held_now, free_now, all, one);
            if (lane < n) own[name] += own_ways;
            __syncwarp();
            return found;
        }
        const int n_path = held_now + free_now;
#pragma unroll 1
        for (int i = lane; i < n_path; i += kWarpSize)
            for (int j = 0; j < i; ++j)
                add_pair(later, path_at(i, held_now), path_at(j, held_now), i < held_now ? all : j < held_now ? one : two);
#pragma unroll 1
        for (int j = 0; lane < n && j < n_path; ++j)
            add_pair(later, name, path_at(j, held_now), j < held_now ? own_ways : with_free);
        return found;
    }

    /// Copy the first held and free vertices, and one more, held or free, unless it is -1; the warp.
    __device__ __forceinline__ void write(unsigned* to, int held_now, int free_now, int next, bool is_free) const {
        to = write_ranks(to, held, n_held, held_now);
        if (next >= 0 && !is_free && lane_id() == 0) to[0] = (unsigned)rank_of(next);
        to = write_ranks(to + (next >= 0 && !is_free ? 1 : 0), free, n_free, free_now);
        if (next >= 0 && is_free && lane_id() == 0) to[0] = (unsigned)rank_of(next);
    }

  private:
    /// Copy the ranks of a path, whose first vertices are no candidates; returns the start of the next words.
    __device__ __forceinline__ unsigned* write_ranks(unsigned* to, const int* path, int n_first, int n) const {
        for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)(kSums && i < n_first ? path[i] : rank_of(path[i]));
        return to + n;
    }

    /// Add to the sums of the unit what its path is worth to each vertex held and to each free one; the warp.
    __device__ __forceinline__ void add_path(int held_now, int free_now, unsigned long long to_held, unsigned long long to_free) {
        of_held += to_held;
        of_free += to_free;
#pragma unroll 1
        for (int i = n_held + lane_id(); i < held_now; i += kWarpSize) own[held[i]] += to_held;
#pragma unroll 1
        for (int i = n_free + lane_id(); i < free_now; i += kWarpSize) own[free[i]] += to_free;
        __syncwarp();
    }

    __device__ __forceinline__ int path_at(int i, int held_now) const { return i < held_now ? held[i] : free[i - held_now]; }

    /// Add to the edge between two ranks; any lane alone.
    __device__ __forceinline__ void add_pair(const Adjacency& later, int x, int y, unsigned long long way) const {
        if (way != 0) atomicAdd(&sums[entry_of(later, min(x, y), max(x, y))], way);
    }

    /// The place of y among the later neighbours of x.
    static __device__ __forceinline__ long long entry_of(const Adjacency& later, int x, int y) {
        const long long begin = later.indptr[x];
        return begin + find_id(later.ids + begin, (int)(later.indptr[x + 1] - begin), y);
    }
};
