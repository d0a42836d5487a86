// Cliques in graphs of at most 32 vertices, each searched by a lane of its own: 32 sub-trees of a warp at once.
//
// A warp gives a graph to a lane that is idle, as rows of one word (`give`), and has its lanes search until enough of them
// are idle again (`run`), or, when it has no more graphs, all of them are (clique_share.cuh). A lane keeps its rows and its
// stack in words of shared memory of its own bank, so that lanes never meet. A node is a set of candidates and how many
// vertices are held (in every clique below) or free (in it or not, at will).
// Candidates next to all others become free at once; else the one next to most is the pivot: one branch goes among its
// neighbours, where it is free, and one for each of those that it is not next to, which holds that one and leaves out those
// before. Leaves are counted by (held, free). Closed forms end a branch: six candidates or fewer have a table of their
// cliques by size; where each is next to all but one, m pairs have C(m, j) 2^j; and where one size is asked for, the last
// two vertices come from the number of edges, the last three, unless there are many, from that of triangles, too.
// Shared memory: kLaneWords words per warp. A branch has at least two candidates fewer than its node, and only nodes of
// seven and more are kept, so that kLaneFrames frames are enough.
// Source: Jain and Seshadhri, WSDM 2020 (Pivoter); Almasri et al., ICS 2022.
#pragma once

#include "clique_few.cuh"
#include "clique_leaves.cuh"
#include "clique_share.cuh"

/// Candidates whose cliques a table has (kernels/clique/closed.py).
constexpr int kClosed = 6;
/// Words of a frame of a lane, and frames: candidates 32, 30, ... 8.
constexpr int kLaneFrameWords = 3;
constexpr int kLaneFrames = 13;
constexpr int kLaneWords = LANE_WORDS;
static_assert(kWarpSize * (kWarpSize + kLaneFrameWords * kLaneFrames) <= kLaneWords, "rows and frames of all lanes");
/// Most pairs whose cliques are added up at once: C(m, j) 2^j is then no more than the steps that found them, by far.
constexpr int kMostPairs = 8;

/// Sizes of the cliques that are counted.
struct CliqueLimits {
    int least;
    int most;

    __device__ __forceinline__ bool is_one() const { return least == most; }
};

using PivotLeaves = CliqueLeaves<32>;

struct CliqueLanes {
    static constexpr int kGraphWords = kWarpSize, kFrameWords = kLaneFrameWords, kRegisterWords = 4;

    CliqueLimits limits;
    PivotLeaves leaves;
    const unsigned short* closed;  // cliques of 3, 4, 5 and 6 vertices of each graph of six: 5, 4, 3 and 1 bits
    unsigned* rows;                // row r of the calling lane is at 32 r
    unsigned* frames;              // word k of frame i of the calling lane is at 32 (kLaneFrameWords i + k)
    CliqueSum sum;                 // of one size, found by this lane
    unsigned long long steps;      // rows that this lane intersected
    unsigned set;                  // the node at hand: candidates,
    int held;
    int free;
    int depth;  // frames of this lane
    bool busy;  // whether there is a node at hand

    /// Lanes without work; the warp.
    __device__ __forceinline__ unsigned idle() const { return __ballot_sync(kFullMask, !busy); }

    /// Give a graph of n (1 to 32) vertices to an idle lane; lane i has row i. The warp.
    __device__ __forceinline__ void give(unsigned row, int n, int n_held, int n_free) {
        const int lane = lane_id(), to = __ffs((int)idle()) - 1;
        __syncwarp();
        rows[kWarpSize * lane + to - lane] = lane < n ? row : 0u;
        if (lane == to) {
            set = n >= 32 ? kFullMask : (1u << n) - 1u;
            held = n_held;
            free = n_free;
            depth = 0;
            busy = true;
        }
        __syncwarp();
    }

    /// Count a node that lacks `missing` (0 to 3) vertices of the largest size, with n candidates; any lane alone.
    __device__ __forceinline__ void add_few(int missing, int n_held, int n_free, int n, const FewCounts& among) {
        if (kOrients || limits.is_one()) {
            sum.add(missing, n_free, n, among);
            return;
        }
        leaves.add(n_held, n_free, 1);
        if (missing >= 1 && n != 0) leaves.add(n_held + 1, n_free, (unsigned)n);
        if (missing >= 2 && among.edges != 0) leaves.add(n_held + 2, n_free, among.edges);
        if (missing == 3 && among.triangles != 0) leaves.add(n_held + 3, n_free, among.triangles);
    }

    /// Search until at most `most` lanes are busy, or for so many turns; the warp. Returns the turns.
    __device__ __forceinline__ int run(int most, int most_turns) {
        int turns = 0;
        for (; turns < most_turns && __popc(__ballot_sync(kFullMask, busy)) > most; ++turns)
            if (busy) take_pivot();
        return turns;
    }

    /// What share_branches needs: the branches of a frame, nothing else of a lane, and half of those of frame 0. The node at
    /// hand then ends at once, for it has fewer vertices than any clique.
    __device__ __forceinline__ unsigned& rest_of(int i) const { return frame(i, 1); }
    __device__ __forceinline__ void copy_from(int, bool) const {}
    __device__ __forceinline__ void take_half() {
        const unsigned rest = frame(0, 1), half = lower_half(rest);
        frame(0, 0) ^= rest ^ half;
        frame(0, 1) = half;
        depth = 1;
        busy = true;
        set = 0;
        free = 0;
        held = -kWarpSize;
    }
    __device__ __forceinline__ void save(unsigned* to) const {
        to[0] = set;
        to[kWarpSize] = (unsigned)held;
        to[2 * kWarpSize] = (unsigned)free;
        to[3 * kWarpSize] = (unsigned)depth;
    }
    __device__ __forceinline__ void load(const unsigned* from) {
        set = from[0];
        held = (int)from[kWarpSize];
        free = (int)from[2 * kWarpSize];
        depth = (int)from[3 * kWarpSize];
    }

  private:
    __device__ __forceinline__ unsigned row_of(int candidate) const { return rows[kWarpSize * candidate]; }
    __device__ __forceinline__ unsigned& frame(int i, int word) const {
        return frames[kWarpSize * (kLaneFrameWords * i + word)];
    }

    /// The pairs among at most kClosed candidates that are next to each other, as the table numbers them: the i-th and the
    /// j-th candidate, i < j, are pair j (j - 1) / 2 + i.
    __device__ __forceinline__ unsigned pairs_of(unsigned candidates) const {
        int at[kClosed];
        unsigned pairs = 0;
#pragma unroll
        for (int j = 0; j < kClosed; ++j) {
            const bool is_there = candidates != 0;
            at[j] = is_there ? 31 - __clz((int)candidates) : 0;
            const unsigned row = is_there ? row_of(at[j]) : 0u;
            candidates &= ~(1u << at[j]);
#pragma unroll
            for (int i = 0; i < j; ++i) pairs |= (row >> at[i] & 1u) << (j * (j - 1) / 2 + i);
        }
        return pairs;
    }

    /// A leaf that stands for `count` ones.
    __device__ __forceinline__ void add_leaf(int n_held, unsigned count) const {
        if (count != 0 && n_held <= limits.most && n_held + free >= limits.least) leaves.add(n_held, free, count);
    }

    /// Whether the node at hand lacks no more vertices of the largest size.
    __device__ __forceinline__ bool is_few(int most_missing) const { return limits.most - held <= most_missing; }

    /// Edges among the candidates, and triangles where these are asked for.
    __device__ __forceinline__ FewCounts count_among(bool with_triangles) {
        FewCounts found{0, 0};
        for (unsigned rest = set; rest != 0;) {
            const int v = 31 - __clz((int)rest);
            rest ^= 1u << v;
            unsigned near = row_of(v) & rest;
            found.edges += (unsigned)__popc(near);
            while (with_triangles && near != 0) {
                const int u = 31 - __clz((int)near);
                near ^= 1u << u;
                found.triangles += (unsigned)__popc(row_of(u) & near);
            }
        }
        steps += (unsigned)__popc(set) + (with_triangles ? found.edges : 0u);
        return found;
    }

    /// All cliques of n, at most kClosed, candidates.
    __device__ __forceinline__ void add_closed(int n) {
        const unsigned pairs = n < 2 ? 0u : pairs_of(set), larger = closed[pairs];
        if (limits.is_one() && is_few(3)) {
            sum.add(3, free, n, FewCounts{(unsigned)__popc(pairs), larger & 31u});
            return;
        }
        const unsigned up_to_5 = 1u | (unsigned)n << 5 | (unsigned)__popc(pairs) << 10 | (larger & 31u) << 15 |
                                 (larger >> 5 & 15u) << 20 | (larger >> 9 & 7u) << 25;
        unsigned long long counts = up_to_5 | (unsigned long long)(larger >> 12) << 30;  // by size, 5 bits each
#pragma unroll 1
        for (int j = 0; counts != 0; ++j, counts >>= 5) add_leaf(held + j, (unsigned)counts & 31u);
    }

    /// All cliques of m pairs, each vertex next to all but the other one of its pair.
    __device__ __forceinline__ void add_pairs(int m) const {
        unsigned count = 1;
        for (int j = 0; j <= m; ++j) {
            add_leaf(held + j, count);
            count = count * 2u * (unsigned)(m - j) / (unsigned)(j + 1);
        }
    }

    /// Go through the node at hand, and on to its first branch; false: it has none.
    __device__ __forceinline__ bool enter_pivot() {
        int n = __popc(set);
        if (held + free + n < limits.least) return false;
        if (is_few(2)) {
            add_few(limits.most - held, held, free, n, count_among(false));
            return false;
        }
        if (n <= kClosed) {
            add_closed(n);
            return false;
        }
        unsigned next_to_all = 0;
        int pivot = 0, best = -1, least = kWarpSize;
        steps += (unsigned)n;
        for (unsigned rest = set; rest != 0;) {
            const int candidate = 31 - __clz((int)rest);
            rest ^= 1u << candidate;
            const int shared = __popc(row_of(candidate) & set);
            if (shared == n - 1) {
                next_to_all |= 1u << candidate;
                continue;
            }
            least = min(least, shared);
            if (shared > best) {
                best = shared;
                pivot = candidate;
            }
        }
        const int n_all = __popc(next_to_all);
        set ^= next_to_all;
        free += n_all;
        const bool is_paired = least == n - 2;
        n -= n_all;
        if (n <= kClosed) {
            add_closed(n);
            return false;
        }
        if (is_paired && n <= 2 * kMostPairs) {
            add_pairs(n / 2);
            return false;
        }
        if (is_few(3)) {
            add_few(3, held, free, n, count_among(true));
            return false;
        }
        const unsigned row = row_of(pivot);
        set ^= 1u << pivot;
        frame(depth, 0) = set;
        frame(depth, 1) = set & ~row;
        frame(depth, 2) = (unsigned)held << 16 | (unsigned)free;
        ++depth;
        set &= row;
        ++free;
        return true;
    }

    __device__ __forceinline__ void take_pivot() {
        if (enter_pivot()) return;
        // The next branch of the last frame, which goes with its last one. Where other lanes took all of them it has none.
        while (depth != 0 && frame(depth - 1, 1) == 0) --depth;
        busy = depth != 0;
        if (!busy) return;
        const unsigned candidates = frame(depth - 1, 0), rest = frame(depth - 1, 1), taken = frame(depth - 1, 2);
        const int next = 31 - __clz((int)rest);
        set = candidates & row_of(next);
        held = (int)(taken >> 16) + 1;
        free = (int)(taken & 0xffffu);
        if (rest == 1u << next) {
            --depth;
        } else {
            frame(depth - 1, 0) = candidates ^ 1u << next;
            frame(depth - 1, 1) = rest ^ 1u << next;
        }
    }
};
