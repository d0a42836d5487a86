// Maximal cliques in graphs of at most 32 vertices, each searched by one lane: 32 sub-trees of a warp at once.
//
// A node is a set of candidates, the held vertices, and the excluded ones: vertices of the graph that were branched on before,
// and rows of up to 32 vertices outside it (`outer`) that are adjacent to all held vertices. Candidates adjacent to all
// others are held at once. A node ends if an excluded vertex is adjacent to all candidates; if no candidates are left, the
// held vertices are a maximal clique. Otherwise the pivot is the vertex, excluded or not, adjacent to most candidates, and
// one branch holds each candidate that is not adjacent to it.
// Outer rows adjacent to no candidate are dropped. Whether one is adjacent to the held vertices of a branch is checked below.
// Shared memory: kMaximalWords words per warp; each lane has its own bank. A frame is kept if at least two branches are left,
// and may lose them to other lanes (clique_matrix.cuh); a branch then has at least two candidates fewer than its node, so
// kMaximalFrames frames are enough.
// Source: Tomita, Tanaka and Takahashi, Theor. Comput. Sci. 363(1), 2006.
#pragma once

#include "bit_matrix.cuh"
#include "clique_lanes.cuh"
#include "tree_queue.cuh"
#include "warp.cuh"

constexpr int kMaximalFrameWords = 5;
constexpr int kMaximalFrames = 16;
constexpr int kMaximalWords = MAXIMAL_LANE_WORDS;
static_assert(kWarpSize * (4 * kWarpSize + kMaximalFrameWords * kMaximalFrames) <= kMaximalWords,
              "rows, outer rows, hashes and frames of all lanes");

/// Vertices held outside the graph of a lane: their number, and the sum of their hashes.
struct HeldOutside {
    int n;
    unsigned long long hash;
};

/// By size / 64 and size % 64.
using SizeCounts = CliqueLeaves<4>;

struct MaximalLanes {
    static constexpr int kGraphWords = 4 * kWarpSize, kFrameWords = kMaximalFrameWords, kRegisterWords = 9;

    int least;            // minimum vertices of a clique
    SizeCounts counts;
    unsigned* rows;       // row r of the calling lane is at 32 r; then its outer rows, low and high halves of hashes
    unsigned* frames;
    unsigned long long checksum;  // of the cliques that this lane found
    unsigned long long steps;     // rows that this lane intersected
    HeldOutside outside;
    unsigned set;       // the current node: candidates,
    unsigned excluded;  // vertices of the graph,
    unsigned outer;     // outer rows,
    unsigned held;      // vertices of the graph,
    unsigned added;     // held vertices not yet checked against outer rows
    int depth;          // frames of this lane
    bool busy;          // whether there is a current node

    /// Lanes without work; the warp.
    __device__ __forceinline__ unsigned idle() const { return __ballot_sync(kFullMask, !busy); }

    /// Give a graph of n (1 to 32) vertices to an idle lane; lane i has row i, outer row i (0: none) and the hash of
    /// vertex i. The warp.
    __device__ __forceinline__ void give(unsigned row, unsigned outer_row, unsigned long long hash, int n,
                                         HeldOutside held_outside) {
        const int lane = lane_id(), to = __ffs((int)idle()) - 1;
        const unsigned outers = __ballot_sync(kFullMask, outer_row != 0);
        __syncwarp();
        unsigned* const own = rows + kWarpSize * lane + to - lane;
        own[0] = lane < n ? row : 0u;
        own[kWarpSize * kWarpSize] = outer_row;
        own[2 * kWarpSize * kWarpSize] = (unsigned)hash;
        own[3 * kWarpSize * kWarpSize] = (unsigned)(hash >> 32);
        if (lane == to) {
            outside = held_outside;
            set = n >= 32 ? kFullMask : (1u << n) - 1u;
            outer = outers;
            excluded = held = added = 0;
            depth = 0;
            busy = true;
        }
        __syncwarp();
    }

    /// Search until at most `most` lanes are busy, or for `most_turns` turns; the warp. Returns the turns.
    __device__ __forceinline__ int run(int most, int most_turns) {
        int turns = 0;
        for (; turns < most_turns && __popc(__ballot_sync(kFullMask, busy)) > most; ++turns)
            if (busy) take_node();
        return turns;
    }

    /// Functions for share_branches: the branches of a frame, the vertices held outside, and half of the branches of frame 0.
    /// The current node then ends at once: it has no candidates, and an excluded vertex is adjacent to all of them.
    __device__ __forceinline__ unsigned& rest_of(int i) const { return frame(i, 4); }
    __device__ __forceinline__ void copy_from(int lane, bool is_taker) {
        const HeldOutside other{__shfl_sync(kFullMask, outside.n, lane), __shfl_sync(kFullMask, outside.hash, lane)};
        if (is_taker) outside = other;
    }
    __device__ __forceinline__ void take_half() {
        const unsigned rest = frame(0, 4), half = lower_half(rest), others = rest ^ half;
        frame(0, 0) ^= others;
        frame(0, 1) |= others;
        frame(0, 4) = half;
        depth = 1;
        busy = true;
        set = outer = held = added = 0;
        excluded = 1;
    }
    __device__ __forceinline__ void save(unsigned* to) const {
        const unsigned registers[kRegisterWords] = {set, excluded, outer, held, added, (unsigned)depth, (unsigned)outside.n,
                                                    (unsigned)outside.hash, (unsigned)(outside.hash >> 32)};
        for (int i = 0; i < kRegisterWords; ++i) to[kWarpSize * i] = registers[i];
    }
    __device__ __forceinline__ void load(const unsigned* from) {
        const auto at = [&](int i) { return from[kWarpSize * i]; };
        set = at(0);
        excluded = at(1);
        outer = at(2);
        held = at(3);
        added = at(4);
        depth = (int)at(5);
        outside = HeldOutside{(int)at(6), (unsigned long long)at(8) << 32 | at(7)};
    }

    /// Count one maximal clique; any lane alone.
    __device__ __forceinline__ void add(int size, unsigned long long hash) {
        if (size < least) return;
        checksum += mix(hash);
        counts.add(size / SizeCounts::kFree, size % SizeCounts::kFree, 1);
    }

  private:
    __device__ __forceinline__ unsigned row_of(int vertex) const { return rows[kWarpSize * vertex]; }
    __device__ __forceinline__ unsigned outer_of(int row) const { return rows[kWarpSize * (kWarpSize + row)]; }
    __device__ __forceinline__ unsigned long long hash_of(int vertex) const {
        return (unsigned long long)rows[kWarpSize * (3 * kWarpSize + vertex)] << 32 | rows[kWarpSize * (2 * kWarpSize + vertex)];
    }
    __device__ __forceinline__ unsigned& frame(int i, int word) const {
        return frames[kWarpSize * (kMaximalFrameWords * i + word)];
    }
    __device__ __forceinline__ static int take_last(unsigned& bits) {
        const int last = 31 - __clz((int)bits);
        bits ^= 1u << last;
        return last;
    }

    __device__ __forceinline__ void add_held() {
        unsigned long long hash = outside.hash;
        for (unsigned rest = held; rest != 0;) hash += hash_of(take_last(rest));
        add(outside.n + __popc(held), hash);
    }

    /// Hold the candidates adjacent to all others; finds the row of the one adjacent to most others, and their number.
    __device__ __forceinline__ int hold_common(unsigned& best_row) {
        const int n = __popc(set);
        unsigned common = 0;
        int best = -1;
        for (unsigned rest = set; rest != 0;) {
            const int candidate = take_last(rest);
            const unsigned row = row_of(candidate);
            const int shared = __popc(row & set);
            if (shared == n - 1)
                common |= 1u << candidate;
            else if (shared > best) {
                best = shared;
                best_row = row;
            }
        }
        set ^= common;
        held |= common;
        added |= common;
        const int n_common = __popc(common);
        while (common != 0) excluded &= row_of(take_last(common));
        return best - n_common;
    }

    /// Process the current node; returns the candidates to branch on, none if it ends.
    __device__ __forceinline__ unsigned enter() {
        if (outside.n + __popc(held) + __popc(set) < least) return 0;
        unsigned best_row = 0;
        steps += (unsigned)(__popc(set) + __popc(excluded) + __popc(outer));
        int best = hold_common(best_row);
        const int n = __popc(set);
        for (unsigned rest = outer; rest != 0;) {
            const int at = take_last(rest);
            const unsigned row = outer_of(at);
            const int shared = __popc(row & set);
            if ((row & added) != added || (shared == 0 && n != 0)) {
                outer ^= 1u << at;
                continue;
            }
            if (shared == n) return 0;
            if (shared > best) {
                best = shared;
                best_row = row;
            }
        }
        for (unsigned rest = excluded; rest != 0;) {
            const unsigned row = row_of(take_last(rest));
            const int shared = __popc(row & set);
            if (shared == n) return 0;
            if (shared > best) {
                best = shared;
                best_row = row;
            }
        }
        if (n != 0) return set & ~best_row;
        add_held();
        return 0;
    }

    /// Process one node, and go to the next.
    __device__ __forceinline__ void take_node() {
        unsigned rest = enter();
        if (rest == 0) {
            while (depth != 0 && frame(depth - 1, 4) == 0) --depth;  // other lanes took all
            busy = depth != 0;
            if (!busy) return;
            --depth;
            set = frame(depth, 0);
            excluded = frame(depth, 1);
            outer = frame(depth, 2);
            held = frame(depth, 3);
            rest = frame(depth, 4);
        }
        const int next = take_last(rest);
        const unsigned bit = 1u << next, row = row_of(next);
        if (rest != 0) {
            frame(depth, 0) = set ^ bit;
            frame(depth, 1) = excluded | bit;
            frame(depth, 2) = outer;
            frame(depth, 3) = held;
            frame(depth, 4) = rest;
            ++depth;
        }
        set &= row;
        excluded &= row;
        held |= bit;
        added = bit;
    }
};

/// Equivalent in steps of cutting 32 rows of excluded vertices to the candidates and comparing them.
constexpr int kKeptSteps = 16;

/// Add the rows of a set of n_words words, where `first` is the row of bit 0, over the candidates only, to the rows that the
/// lanes keep in `kept`, without rows that lie in another one. `all`: the bits of all candidates. Returns 1 if a row has
/// all of them; -1 if there are more than 32 rows.
__device__ __forceinline__ int keep_maximal(TreeQueue& queue, const RowList& matrix, const unsigned* candidates,
                                            const unsigned* set, int n_words, int first, unsigned all, unsigned& kept) {
    for (int k = 0; k < n_words; ++k) {
        const unsigned word = set[k];
        if (word == 0) continue;
        queue.spend(kKeptSteps);
        const bool is_there = word >> lane_id() & 1u;
        unsigned row = 0;
        for (int y = 0, j = 0; y < matrix.n_words; ++y) {
            const unsigned bits = is_there ? matrix.at(y, first + 32 * k + lane_id()) : 0u;
            for (unsigned rest = candidates[y]; rest != 0; rest &= rest - 1, ++j)
                row |= (bits >> (__ffs((int)rest) - 1) & 1u) << j;
        }
        if (__ballot_sync(kFullMask, row == all) != 0) return 1;
        for (unsigned waiting = __ballot_sync(kFullMask, row != 0); waiting != 0; waiting &= waiting - 1) {
            const unsigned next = __shfl_sync(kFullMask, row, __ffs((int)waiting) - 1);
            if (__ballot_sync(kFullMask, (next & ~kept) == 0) != 0) continue;
            const unsigned within = __ballot_sync(kFullMask, (kept & ~next) == 0);
            if (within == 0) return -1;
            if (within >> lane_id() & 1u) kept = lane_id() == __ffs((int)within) - 1 ? next : 0u;
        }
    }
    return 0;
}
