// Peeling vertices by their degrees in synchronous rounds: cores, and the degeneracy order of cliques.
//
// A round removes all vertices with no more neighbours left than the current level, which rises to the least degree left
// when there is no such vertex. Vertices [fixed_begin, fixed_end), a layer of a bipartite graph, have their own limit in
// the place of the level; those at or below it at launch are removed at level 0. The round and the level of each vertex
// depend only on the graph.
// A vertex is listed for the next round by the one decrement that takes it to its limit; removed vertices have no more
// neighbours than that already, so threads need not know which vertices were removed. A warp visits the neighbours of a
// removed vertex.
// Source: Matula and Beck, J. ACM 30(3), 1983.
#pragma once

#include "warp.cuh"

/// Requires: each edge once; vertex i of the second end is vertex first_v + i.
extern "C" __global__ void __launch_bounds__(256)
count_neighbours(const int* __restrict__ u, const int* __restrict__ v, const long long n_edges, const int first_v,
                 int* degree) {
    for (long long e = global_thread(); e < n_edges; e += grid_threads()) {
        atomicAdd(&degree[u[e]], 1);
        atomicAdd(&degree[first_v + v[e]], 1);
    }
}

/// Both directions of every edge; `cursor` begins as the offsets of the vertices. Neighbours are in no particular order.
extern "C" __global__ void __launch_bounds__(256)
list_neighbours(const int* __restrict__ u, const int* __restrict__ v, const long long n_edges, const int first_v,
                unsigned long long* cursor, int* neighbours) {
    for (long long e = global_thread(); e < n_edges; e += grid_threads()) {
        const int a = u[e], b = first_v + v[e];
        neighbours[atomicAdd(&cursor[a], 1ull)] = b;
        neighbours[atomicAdd(&cursor[b], 1ull)] = a;
    }
}

/// Shared data of the threads of a team: the vertices listed for a round, by round modulo 3, the least degree left, by
/// level modulo 2, and at the end the number of rounds. Zero at launch, `least` kNoDegree.
struct PeelCounters {
    int n_listed[3];
    int least[2];
    int rounds;
};
constexpr int kNoDegree = 0x7fffffff;

struct Fixed {
    int begin;
    int end;
    int limit;

    __device__ __forceinline__ bool has(int x) const { return x >= begin && x < end; }

    /// The neighbours with which a vertex is removed at a level.
    __device__ __forceinline__ int limit_of(int x, int level) const { return has(x) ? limit : level; }

    /// The level at which a vertex with `left` neighbours is removed if no other one is removed before.
    __device__ __forceinline__ int level_of(int x, int left) const {
        return !has(x) ? left : left <= limit ? 0 : kNoDegree;
    }
};

/// `left`: at launch the degrees; `told`: -1, then the round of each vertex, or its level; `listed`: two lists of n.
template <class Team>
__device__ __forceinline__ void peel_vertices(Team team, int n, const long long* __restrict__ indptr,
                                              const int* __restrict__ neighbours, Fixed fixed, bool by_round, int* left,
                                              int* told, int* listed, PeelCounters* counters) {
    const int warp = team.index() / kWarpSize, n_warps = team.size() / kWarpSize;
    int round = 0;
    for (int pass = 0;; ++pass) {
        int least = kNoDegree;
        for (int x = team.index(); x < n; x += team.size())
            if (told[x] < 0) least = min(least, fixed.level_of(x, left[x]));
        least = (int)warp_least((unsigned)least);
        if (lane_id() == 0 && least != kNoDegree) atomicMin(&counters->least[pass & 1], least);
        team.sync();
        const int level = counters->least[pass & 1];
        if (level == kNoDegree) break;
        for (int x = team.index(); x < n; x += team.size())
            if (told[x] < 0 && left[x] <= fixed.limit_of(x, level))
                listed[(round & 1) * (long long)n + atomicAdd(&counters->n_listed[round % 3], 1)] = x;
        team.sync();
        if (team.index() == 0) counters->least[pass & 1] = kNoDegree;  // read again two levels, and barriers, later
        for (;;) {
            const int n_going = counters->n_listed[round % 3];
            if (n_going == 0) break;
            const int* const going = listed + (round & 1) * (long long)n;
            int* const next = listed + ((round + 1) & 1) * (long long)n;
            int* const n_next = &counters->n_listed[(round + 1) % 3];
            if (team.index() == 0) counters->n_listed[(round + 2) % 3] = 0;
            for (int i = warp; i < n_going; i += n_warps) {
                const int x = going[i];
                if (lane_id() == 0) told[x] = by_round ? round : level;
                for (long long at = indptr[x] + lane_id(); at < indptr[x + 1]; at += kWarpSize) {
                    const int other = neighbours[at];
                    if (atomicSub(&left[other], 1) == fixed.limit_of(other, level) + 1)
                        next[atomicAdd(n_next, 1)] = other;
                }
            }
            team.sync();
            ++round;
        }
    }
    if (team.index() == 0) counters->rounds = round;
}

/// The round or the level at which each vertex is removed. A grid of one block, or one whose blocks are all resident.
extern "C" __global__ void __launch_bounds__(1024, 1)
peel_rounds(const int n, const long long* __restrict__ indptr, const int* __restrict__ neighbours, const int fixed_begin,
            const int fixed_end, const int fixed_limit, const int by_round, int* left, int* told, int* listed,
            int* counters, unsigned long long* arrivals) {
    PeelCounters* const shared = reinterpret_cast<PeelCounters*>(counters);
    const Fixed fixed{fixed_begin, fixed_end, fixed_limit};
    if (gridDim.x == 1)
        peel_vertices(BlockTeam{}, n, indptr, neighbours, fixed, by_round != 0, left, told, listed, shared);
    else
        peel_vertices(GridTeam{arrivals, 0}, n, indptr, neighbours, fixed, by_round != 0, left, told, listed, shared);
}
