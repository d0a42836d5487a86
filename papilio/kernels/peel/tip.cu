// Tip numbers: peeling the vertices of one layer by the pairs that they are in.
//
// The other layer stays whole, so the number c of common neighbours of a pair never changes: the pair is in C(c, 2)
// butterflies until one of its vertices is removed. Pairs with c of at least 2 are listed once, in both directions, by
// original ids.
//
// Counting (`tip_pairs`): a block takes the rows of the layer one after the other and counts, in its own table in device
// memory, the wedges to earlier rows; the table is zero between rows. A second walk over the same wedges takes each count
// out by an exchange, so that exactly one thread gets it.
//
// Peeling: a round lowers the supports of all vertices paired with the removed ones, eight pairs to a group of lanes.
// Supports of vertices removed earlier are lowered too, without effect: they are already below the bound, so the vertices
// are not listed again, and a support falls by at most its initial value.
#include "peeling.cuh"
#include "warp.cuh"
#include "wedges.cuh"

#ifndef FILL
#define FILL 0
#endif

/// Call body(rank) for every wedge from `row` to an earlier row of its layer; the block.
template <class Body>
__device__ __forceinline__ void for_each_end(const long long* indptr, const int* adjacency, int row, int first_row,
                                             int first_middle, Body body) {
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    for (long long at = indptr[row] + warp; at < indptr[row + 1]; at += n_warps) {
        const long long begin = indptr[first_middle + adjacency[at]], end = indptr[first_middle + adjacency[at] + 1];
        const int length = lower_bound(adjacency + begin, (int)(end - begin), row - first_row);
        for (int i = lane_id(); i < length; i += kWarpSize) body(adjacency[begin + i]);
    }
}

/// Count the pairs of each vertex in `cursor`, or, with FILL, write them from there on. `order`: id of each rank.
extern "C" __global__ void __launch_bounds__(256)
tip_pairs(const long long* indptr, const int* adjacency, const int first_row, const int first_middle, const int n,
          const int* order, unsigned* tables, int* next, unsigned long long* cursor, int* others, unsigned* common) {
    __shared__ int slot;
    BlockQueue queue(next, &slot);
    unsigned* table = tables + (long long)blockIdx.x * n;
    for (int rank = queue.next(); rank < n; rank = queue.next()) {
        const int own = order[rank];
        for_each_end(indptr, adjacency, first_row + rank, first_row, first_middle,
                     [&](int end) { atomicAdd(&table[end], 1u); });
        __syncthreads();
        for_each_end(indptr, adjacency, first_row + rank, first_row, first_middle, [&](int end) {
            const unsigned count = atomicExch(&table[end], 0u);
            if (count < 2) return;
            const int other = order[end];
            const unsigned long long here = atomicAdd(&cursor[own], 1ull), there = atomicAdd(&cursor[other], 1ull);
            if (FILL) {
                others[here] = other;
                common[here] = count;
                others[there] = own;
                common[there] = count;
            }
        });
        __syncthreads();
    }
}

__device__ __forceinline__ long long butterflies_of(unsigned common) {
    return (long long)common * (common - 1) / 2;
}

/// Write the butterflies of each vertex with vertices of its own range or a higher one; a warp per vertex.
extern "C" __global__ void __launch_bounds__(256)
sum_pairs(const long long* offsets, const int* others, const unsigned* common, const int* ranges, const int n,
          long long* supports) {
    for (long long item = global_thread() / kWarpSize; item < n; item += grid_threads() / kWarpSize) {
        unsigned long long sum = 0;
        for (long long at = offsets[item] + lane_id(); at < offsets[item + 1]; at += kWarpSize)
            if (ranges[others[at]] >= ranges[item]) sum += (unsigned long long)butterflies_of(common[at]);
        sum = warp_sum(sum);
        if (lane_id() == 0) supports[item] = (long long)sum;
    }
}

/// The pairs as seen by the vertices of one team; with `ranges`, pairs with other ranges are ignored.
template <class Told>
struct Pairs {
    PeeledItems vertices;
    const int* others;
    const unsigned* common;
    const int* ranges;
    int range;
    Told* told;

    template <class Team>
    __device__ __forceinline__ void take(Team& team, int round, long long, unsigned long long found) const {
        const unsigned long long n_entries = vertices.counters->n_going[round & 1];
        for (unsigned long long i = team.index(); i < n_entries; i += team.size()) {
            const unsigned long long entry = vertices.list(round)[i];
            if (entry_piece(entry) != 0) continue;
            vertices.gone[entry_id(entry)] = 1;
            told[entry_id(entry)] = (Told)found;
        }
    }

    template <class Team>
    __device__ __forceinline__ void spread(Team& team, int round, long long bound) const {
        const unsigned long long n_entries = vertices.counters->n_going[round & 1];
        const unsigned long long n_groups = team.size() / kGroup;
        unsigned long long updates = 0;
        for (unsigned long long i = team.index() / kGroup; i < n_entries; i += n_groups) {
            const unsigned long long entry = vertices.list(round)[i];
            const long long at =
                vertices.link_offsets[entry_id(entry)] + entry_piece(entry) * kGroup + team.index() % kGroup;
            if (at >= vertices.link_offsets[entry_id(entry) + 1]) continue;
            if (ranges != nullptr ? ranges[others[at]] != range : vertices.gone[others[at]] != 0) continue;
            vertices.lower(others[at], butterflies_of(common[at]), bound, round + 1);
            ++updates;
        }
        __syncwarp();
        updates = warp_sum(updates);
        if (lane_id() == 0 && updates != 0) atomicAdd(&vertices.counters->updates, updates);
    }
};

extern "C" __global__ void __launch_bounds__(512)
tip_coarse(COARSE_PARAMETERS, const int* others, const unsigned* common) {
    GridTeam team{arrivals, 0};
    const PeeledItems vertices COARSE_ITEMS;
    peel_below(team, vertices, Pairs<int>{vertices, others, common, nullptr, 0, ranges}, bound,
               (unsigned long long)range);
}

extern "C" __global__ void __launch_bounds__(512)
tip_fine(FINE_PARAMETERS, const int* others, const unsigned* common, const int* ranges) {
    BlockTeam team;
    const int range = order[blockIdx.x];
    const PeeledItems vertices FINE_ITEMS(range);
    peel_exactly(team, vertices, Pairs<unsigned long long>{vertices, others, common, ranges, range, numbers});
}
