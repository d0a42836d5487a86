// Counts of a block by two small numbers: leaves by the numbers of vertices held and free.
//
// Leaves of few vertices are counted in 32 bits of the block's shared memory, the others in device memory in 64 bits. A sum
// cannot exceed 2^64 in a month: a single addition is at most a few hundred times the steps that found it, and a GPU does
// some 1e12 steps per second.
#pragma once

#include "clique_matrix.cuh"
#include "warp.cuh"

template <int kRows>
struct CliqueLeaves {
    static constexpr int kHeld = kRows, kFree = 64;

    unsigned* few;              // kHeld * kFree words
    unsigned long long* sums;   // held * stride + free
    int stride;

    /// Any lane alone.
    __device__ __forceinline__ void add(int held, int free, unsigned long long count) const {
        unsigned long long* const sum = &sums[(long long)held * stride + free];
        if (held < kHeld && free < kFree && count >> 32 == 0) {
            const unsigned before = atomicAdd(&few[held * kFree + free], (unsigned)count);
            if (before + (unsigned)count < before) atomicAdd(sum, 1ull << 32);
        } else {
            atomicAdd(sum, count);
        }
    }

    /// Reset the counters; the block.
    __device__ __forceinline__ void clear() const {
        for (int i = threadIdx.x; i < kHeld * kFree; i += blockDim.x) few[i] = 0;
        __syncthreads();
    }

    /// Flush all counters to device memory; the block.
    __device__ __forceinline__ void flush() const {
        __syncthreads();
        for (int i = threadIdx.x; i < kHeld * kFree; i += blockDim.x)
            if (few[i] != 0) atomicAdd(&sums[(long long)(i / kFree) * stride + i % kFree], (unsigned long long)few[i]);
    }
};

// Cliques of the largest sizes at nodes that lack at most three vertices: from the numbers of candidates, edges and
// triangles.
//
// A node with `free` optional vertices and m missing vertices represents the cliques of j candidates, j from 0 to m, each
// with C(free, m - j) choices of free vertices.

/// Cliques of one size: a sum of 64 bits, and its number of overflows.
struct CliqueSum {
    unsigned long long low = 0;
    unsigned carries = 0;

    /// Add a node that lacks `missing` vertices, 0 to 3, or 4 of a node of kFreeSmall free ones at most, with n candidates; any
    /// lane alone. Adds less than 2^48.
    __device__ __forceinline__ void add(int missing, int n_free, int n, const FewCounts& among) {
        const unsigned long long free = (unsigned)n_free, two = free * (free - 1) / 2;
        unsigned long long ways = 1;
        if (missing == 1) ways = free + (unsigned)n;
        if (missing == 2) ways = two + free * (unsigned)n + among.edges;
        if (missing == 3) ways = two * (free - 2) / 3 + two * (unsigned)n + free * among.edges + among.triangles;
        if (kPer != 0 && missing == 4)
            ways = two * (free - 2) / 3 * (free - 3) / 4 + two * (free - 2) / 3 * (unsigned)n + two * among.edges +
                   free * among.triangles + among.fours;
        low += ways;
        carries += low < ways ? 1u : 0u;
    }

    /// Add the sums of all lanes to out[0] (low halves), out[1] (high halves) and out[2] (carries); the warp.
    __device__ __forceinline__ void flush(unsigned long long* out) const {
        const unsigned long long sums[3] = {low & 0xffffffffull, low >> 32, carries};
        for (int i = 0; i < 3; ++i) {
            const unsigned long long all = warp_sum(sums[i]);
            if (lane_id() == 0 && all != 0) atomicAdd(&out[i], all);
        }
    }
};
/// Words of the final sums, before the leaves.
constexpr int kSumWords = CLIQUE_SUM_WORDS;
static_assert(kSumWords == 3, "halves and carries");

/// The edges among the n members of a set; this lane's part.
__device__ __forceinline__ FewCounts count_pairs(const Square& matrix, const unsigned* set, const int* members, int n) {
    FewCounts found{0, 0};
    for (int i = lane_id(); i < n; i += kWarpSize) {
        const int row = members[i], last = row / 32;
        for (int k = 0; k < last; ++k) found.edges += (unsigned)__popc(matrix.at(k, row) & set[k]);
        found.edges += (unsigned)__popc(matrix.last(last, row) & set[last]);
    }
    return found;
}

/// The edges and triangles of a whole matrix; this lane's part.
__device__ __forceinline__ FewCounts count_triangles(const Square& matrix) {
    FewCounts found{0, 0};
    for (int v = lane_id(); v < matrix.n; v += kWarpSize)
        for (int k = 0; k <= v / 32; ++k) {
            unsigned rest = k < v / 32 ? matrix.at(k, v) : matrix.last(k, v);
            found.edges += (unsigned)__popc(rest);
            for (; rest != 0; rest &= rest - 1) {
                const int u = 32 * k + __ffs((int)rest) - 1;
                unsigned shared = 0;
                for (int y = 0; y < k; ++y) shared += (unsigned)__popc(matrix.at(y, u) & matrix.at(y, v));
                found.triangles += shared + (unsigned)__popc(matrix.last(k, u) & matrix.at(k, v));
            }
        }
    return found;
}

/// The same for n, at most 32, vertices; lane i has row i.
__device__ __forceinline__ FewCounts count_triangles(unsigned row, int n) {
    const unsigned before = row & lanes_before(lane_id());
    FewCounts found{(unsigned)__popc(before), 0};
    for (int j = 2; j < n; ++j) {
        const unsigned other = __shfl_sync(kFullMask, before, j);
        if (other >> lane_id() & 1u) found.triangles += (unsigned)__popc(other & before);
    }
    return found;
}

/// The edges among the n members of a set, and their triangles if requested; in every lane. `members` has room for the
/// members, and the arena for a matrix of their own.
__device__ __forceinline__ FewCounts count_among(Arena& arena, const Square& matrix, const unsigned* set, int* members, int n,
                                                 bool with_triangles) {
    FewCounts found;
    if (with_triangles && n == matrix.n) {
        found = count_triangles(matrix);
    } else {
        list_members(set, matrix.n_words, members);
        if (!with_triangles) {
            found = count_pairs(matrix, set, members, n);
        } else if (n <= kWarpSize) {
            found = count_triangles(gather_square(matrix, members, n), n);
        } else {
            const Arena::Mark mark = arena.mark();
            const Square own{arena.take(Square::size(n)), n, words_for(n)};
            gather_rows(own, matrix, [&](int i) { return members[i]; }, n, members, n);
            found = count_triangles(own);
            arena.release(mark);
        }
    }
    return FewCounts{warp_total(found.edges), warp_sum(found.triangles)};
}

// Cliques in graphs of at most 32 vertices, each searched by one lane: 32 sub-trees of a warp at once.
//
// A warp gives a graph to an idle lane, as rows of one word (`give`), and has its lanes search until enough of them are idle
// again (`run`), or, when it has no more graphs, until all of them are (clique_matrix.cuh). A lane keeps its rows and its
// stack in words of shared memory of its own bank, so lanes never conflict. A node is a set of candidates and the numbers of
// vertices that are held (in every clique below) or free (optional).
// Candidates adjacent to all others become free at once; otherwise the candidate adjacent to most is the pivot: one branch
// takes only its neighbours, and the pivot is free in it; for each of the other candidates, a branch holds that one and
// leaves out the ones before. Leaves are counted by (held, free). Closed forms end a branch: graphs of at most six candidates
// have a table of their cliques by size; if each candidate is adjacent to all but one, m pairs have C(m, j) 2^j; and if a
// single size is requested, the last two vertices come from the number of edges, and the last three, unless there are many,
// also from the number of triangles.
// Shared memory: kLaneWords words per warp. A branch has at least two candidates fewer than its node, and only nodes of at
// least seven are kept, so kLaneFrames frames are enough.
// Source: Jain and Seshadhri, WSDM 2020 (Pivoter); Almasri et al., ICS 2022.

/// Maximum candidates of the table of cliques (kernels/clique/question.py).
constexpr int kClosed = 6;
/// Words of a frame of a lane, and frames: candidates 32, 30, ... 8.
constexpr int kLaneFrameWords = 3;
constexpr int kLaneFrames = 13;
constexpr int kLaneWords = LANE_WORDS;
static_assert(kWarpSize * (kWarpSize + kLaneFrameWords * kLaneFrames) <= kLaneWords, "rows and frames of all lanes");
/// Maximum pairs whose cliques are added at once: C(m, j) 2^j is then far below the number of steps that found them.
constexpr int kMostPairs = 8;

/// Sizes of the cliques to count.
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
    unsigned set;                  // the current node: candidates,
    int held;
    int free;
    int depth;  // frames of this lane
    bool busy;  // whether there is a current node

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

    /// Search until at most `most` lanes are busy, or for `most_turns` turns; the warp. Returns the turns.
    __device__ __forceinline__ int run(int most, int most_turns) {
        int turns = 0;
        for (; turns < most_turns && __popc(__ballot_sync(kFullMask, busy)) > most; ++turns)
            if (busy) take_pivot();
        return turns;
    }

    /// Functions for share_branches: the branches of a frame, no further registers of a lane, and half of the branches of frame
    /// 0. The current node then ends at once, as it has fewer vertices than any clique.
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

    /// The adjacent pairs among at most kClosed candidates, numbered as in the table: the i-th and the j-th candidate, i < j,
    /// are pair j (j - 1) / 2 + i.
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

    /// Count a leaf that represents `count` leaves.
    __device__ __forceinline__ void add_leaf(int n_held, unsigned count) const {
        if (count != 0 && n_held <= limits.most && n_held + free >= limits.least) leaves.add(n_held, free, count);
    }

    /// Whether the current node lacks at most `most_missing` vertices of the largest size.
    __device__ __forceinline__ bool is_few(int most_missing) const { return limits.most - held <= most_missing; }

    /// Edges among the candidates, and triangles if requested.
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

    /// Count all cliques of n, at most kClosed, candidates.
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

    /// Count all cliques of m pairs, where each vertex is adjacent to all others except its partner.
    __device__ __forceinline__ void add_pairs(int m) const {
        unsigned count = 1;
        for (int j = 0; j <= m; ++j) {
            add_leaf(held + j, count);
            count = count * 2u * (unsigned)(m - j) / (unsigned)(j + 1);
        }
    }

    /// Process the current node and go to its first branch; false: it has none.
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
        // The next branch of the last frame, which is removed with its last branch. If other lanes took all, it has none.
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
