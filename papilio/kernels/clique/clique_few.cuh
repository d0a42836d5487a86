// Cliques of the largest sizes at nodes that lack at most three vertices: from the numbers of candidates, edges and triangles.
//
// A node with `free` vertices that a clique has or not, at will, and m vertices to go stands for the cliques of j candidates,
// j from 0 to m, each with C(free, m - j) choices of free vertices.
#pragma once

#include "clique_matrix.cuh"

/// Edges and triangles that a lane, or a warp, counted.
struct FewCounts {
    unsigned edges;
    unsigned long long triangles;
};

/// Cliques of one size: a sum of 64 bits, and how often it ran over.
struct CliqueSum {
    unsigned long long low = 0;
    unsigned carries = 0;

    /// A node that lacks `missing` (0 to 3) vertices, with n candidates; any lane alone. Less than 2^48 is added.
    __device__ __forceinline__ void add(int missing, int n_free, int n, const FewCounts& among) {
        const unsigned long long free = (unsigned)n_free, two = free * (free - 1) / 2;
        unsigned long long ways = 1;
        if (missing == 1) ways = free + (unsigned)n;
        if (missing == 2) ways = two + free * (unsigned)n + among.edges;
        if (missing == 3) ways = two * (free - 2) / 3 + two * (unsigned)n + free * among.edges + among.triangles;
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
/// Numbers in which these sums end, before the leaves.
constexpr int kSumWords = CLIQUE_SUM_WORDS;
static_assert(kSumWords == 3, "halves and carries");

/// The edges among n members, which are the set's; those of this lane.
__device__ __forceinline__ FewCounts count_pairs(const Square& matrix, const unsigned* set, const int* members, int n) {
    FewCounts found{0, 0};
    for (int i = lane_id(); i < n; i += kWarpSize) {
        const int row = members[i], last = row / 32;
        for (int k = 0; k < last; ++k) found.edges += (unsigned)__popc(matrix.at(k, row) & set[k]);
        found.edges += (unsigned)__popc(matrix.last(last, row) & set[last]);
    }
    return found;
}

/// The edges and triangles of a whole matrix; those of this lane.
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

/// The same of n, at most 32, vertices, of which lane i has row i.
__device__ __forceinline__ FewCounts count_triangles(unsigned row, int n) {
    const unsigned before = row & lanes_before(lane_id());
    FewCounts found{(unsigned)__popc(before), 0};
    for (int j = 2; j < n; ++j) {
        const unsigned other = __shfl_sync(kFullMask, before, j);
        if (other >> lane_id() & 1u) found.triangles += (unsigned)__popc(other & before);
    }
    return found;
}

/// The edges among the n members of a set, and their triangles where these are asked for; in every lane. `members` has room
/// for them, and the arena for a matrix of their own.
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
