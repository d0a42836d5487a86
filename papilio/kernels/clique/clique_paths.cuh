// The vertices of the cliques below a node, and what each vertex, or each edge, of a leaf's cliques gets.
//
// A leaf with h held and p free vertices stands for C(p, k - h) cliques of k: a held vertex is in all of them, a free one
// in C(p - 1, k - h - 1); a pair in as many as its free vertices leave. Sums are modulo 2^64.
// A node that lacks one vertex or two of k is not searched: a clique has, beside those held, one of the free ones and
// candidates, or two that are next to each other, as free ones are to all.
// With LISTS a leaf is a record instead: how many vertices are held, their ranks, and those of the free ones.
// `choose[n * (k + 1) + j]` is C(n, j) modulo 2^64. `sums` are by rank, or by entry of the later neighbours.
#pragma once

#include "clique_nodes.cuh"
#include "records.cuh"

#ifndef PER
#define PER 0
#endif

/// 0: no path is kept; 1: vertices; 2: edges.
constexpr int kPer = PER;

struct CliquePaths {
    const unsigned long long* choose;
    unsigned long long* sums;
    int* held;  // ranks, the root first
    int* free;
    RecordSink sink;

    /// One leaf; the warp.
    __device__ __forceinline__ void add(const Adjacency& later, int n_held, int n_free, int k) {
        const int missing = k - n_held;
        if constexpr (kLists) {
            if (missing > n_free) return;
            sink.write(1 + n_held + n_free, [&](const auto& visit) {
                if (lane_id() == 0) visit(0, n_held);
                for (int i = lane_id(); i < n_held; i += kWarpSize) visit(1 + i, held[i]);
                for (int i = lane_id(); i < n_free; i += kWarpSize) visit(1 + n_held + i, free[i]);
            });
            return;
        }
        unsigned long long ways[3];  // by the free ones that are fixed
        for (int fixed = 0; fixed < 3; ++fixed)
            ways[fixed] = n_free >= fixed && missing >= fixed
                              ? choose[(long long)(n_free - fixed) * (k + 1) + missing - fixed]
                              : 0ull;
        for (int i = 0; i < n_held + n_free; ++i) {
            const bool is_free = i >= n_held;
            const int x = path_at(i, n_held);
            if (kPer == 1) {
                if (lane_id() == 0) atomicAdd(&sums[x], ways[is_free]);
                continue;
            }
            for (int j = lane_id(); j < i; j += kWarpSize)
                add_pair(later, x, path_at(j, n_held), ways[(int)is_free + (int)(j >= n_held)]);
        }
    }

    /// A node of n candidates, with `edges` among them, that lacks `missing`, 1 or 2, vertices; the warp. `candidates` is the set
    /// of `members`, and `names` has their ranks.
    __device__ __forceinline__ void add_last(const Adjacency& later, const Square& matrix, const unsigned* candidates,
                                             const int* members, const int* names, int n, unsigned edges, int n_held, int n_free,
                                             int missing) const {
        const bool is_pair = missing == 2;
        const unsigned long long p = (unsigned)n_free, m = (unsigned)n;
        // Cliques of all, by how many of the free ones are fixed.
        const unsigned long long ways[3] = {is_pair ? p * (p - 1) / 2 + p * m + edges : p + m, is_pair ? p - 1 + m : 1ull,
                                            is_pair ? 1ull : 0ull};
        for (int i = lane_id(); i < n_held + n_free; i += kWarpSize) {
            const int n_fixed = i < n_held ? 0 : 1, x = path_at(i, n_held);
            if (kPer == 1) atomicAdd(&sums[x], ways[n_fixed]);
            for (int j = 0; kPer == 2 && j < i; ++j)
                add_pair(later, x, path_at(j, n_held), ways[n_fixed + (j < n_held ? 0 : 1)]);
        }
        for (int i = lane_id(); i < n; i += kWarpSize) {
            const int row = members[i], x = names[row];
            unsigned near = 0;
            for (int k = 0; is_pair && k < matrix.n_words; ++k) near += (unsigned)__popc(matrix.at(k, row) & candidates[k]);
            const unsigned long long own = is_pair ? p + near : 1ull;
            if (kPer == 1) atomicAdd(&sums[x], own);
            for (int j = 0; kPer == 2 && j < n_held + n_free; ++j)
                add_pair(later, x, path_at(j, n_held), j < n_held ? own : ways[2]);
            for (int j = 0; kPer == 2 && is_pair && j < i; ++j)
                if (matrix.at(members[j] / kWarpSize, row) >> members[j] % kWarpSize & 1u)
                    add_pair(later, x, names[members[j]], 1);
        }
    }

    /// Copy the first held and free ones, and one more, unless that is -1, held or free; the warp.
    __device__ __forceinline__ void write(unsigned* to, int n_held, int n_free, int next, bool is_free) const {
        to = copy_out(to, held, n_held);
        if (next >= 0 && !is_free && lane_id() == 0) to[0] = (unsigned)next;
        to = copy_out(to + (next >= 0 && !is_free ? 1 : 0), free, n_free);
        if (next >= 0 && is_free && lane_id() == 0) to[0] = (unsigned)next;
    }

  private:
    __device__ __forceinline__ int path_at(int i, int n_held) const { return i < n_held ? held[i] : free[i - n_held]; }

    /// Add to the edge between two ranks; any lane alone.
    __device__ __forceinline__ void add_pair(const Adjacency& later, int x, int y, unsigned long long way) const {
        if (way != 0) atomicAdd(&sums[entry_of(later, min(x, y), max(x, y))], way);
    }

    /// Where y is among the later neighbours of x.
    static __device__ __forceinline__ long long entry_of(const Adjacency& later, int x, int y) {
        const long long begin = later.indptr[x];
        return begin + find_id(later.ids + begin, (int)(later.indptr[x + 1] - begin), y);
    }
};
