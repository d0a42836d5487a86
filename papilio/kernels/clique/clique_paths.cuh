// The vertices of the cliques below a node, and what each vertex, or each edge, of a leaf's cliques gets.
//
// A leaf with h held and p free vertices stands for C(p, k - h) cliques of k: a held vertex is in all of them, a free one
// in C(p - 1, k - h - 1); a pair in as many as its free vertices leave. Sums are modulo 2^64.
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
            const int x = is_free ? free[i - n_held] : held[i];
            if (kPer == 1) {
                if (lane_id() == 0) atomicAdd(&sums[x], ways[is_free]);
                continue;
            }
            for (int j = lane_id(); j < i; j += kWarpSize) {
                const int y = j >= n_held ? free[j - n_held] : held[j];
                const unsigned long long way = ways[(int)is_free + (int)(j >= n_held)];
                if (way != 0) atomicAdd(&sums[entry_of(later, min(x, y), max(x, y))], way);
            }
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
    /// Where y is among the later neighbours of x.
    static __device__ __forceinline__ long long entry_of(const Adjacency& later, int x, int y) {
        const long long begin = later.indptr[x];
        return begin + find_id(later.ids + begin, (int)(later.indptr[x + 1] - begin), y);
    }
};
