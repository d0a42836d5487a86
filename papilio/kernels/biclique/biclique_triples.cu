// (p,q)-bicliques with three left vertices, for every right size: pairs of children of a root, on tensor cores.
//
// Requires: the index and the work items of biclique.cu. The word of a left side in ascending order is (root, child, later
// child); an item is a root and a range of its children.
// Counted once: a pair of children belongs to the item of the first of them.
// A block owns an item and fills the rows of the children over the columns of the root, in its shared memory or its part
// of the slab. Its warps take strips of 32 children, which they pair with all later ones (pair_tiles.cuh). Where blocks
// are more than items, each item goes to as many of them as there are for each: block i of n takes every n-th strip.
// Memory of a block: that of its warps together (search.cuh). sums[n]: triples that share n right vertices.
#include "pair_tiles.cuh"
#include "search.cuh"

/// Blocks that a multiprocessor must have registers for.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// Blocks of any number of warps. No queue: slots may be 0.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_triples(const long long* __restrict__ indptr, const int* __restrict__ columns,
                 const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                 const long long* __restrict__ right_indptr, const int* __restrict__ right_rows, SEARCH_PARAMETERS,
                 const int least_right, unsigned long long* sums) {
    __shared__ int position, next_strip;
    __shared__ unsigned dense[kDenseBins];
    const int n_warps = blockDim.x / kWarpSize;
    const SearchItems work SEARCH_ITEMS;
    LeafHistogram::open_dense(dense);
    unsigned* const counters = warp_memory(kLeafWords);
    unsigned* const near = counters + (n_warps - (int)threadIdx.x / kWarpSize) * kLeafWords;
    LeafHistogram leaves(counters, sums, least_right, dense);
    Arena arena{near, slab + blockIdx.x * far_words * n_warps, n_warps * near_words, 0, far_words * n_warps, 0};
    const Arena::Mark empty = arena.mark();
    const Adjacency rows{indptr, columns}, rights{right_indptr, right_rows};
    const int n_parts = max(1, (int)gridDim.x / n_items);
    unsigned long long words = 0;
    BlockQueue queue(&state[kQueueNextItem], &position);
    for (int at = queue.next(); at < n_items * n_parts; at = queue.next()) {
        const Children unit = work.at(at / n_parts);
        if (threadIdx.x == 0) next_strip = 0;
        const long long begin = indptr[unit.root];
        const RowList matrix =
            fill_rows<BlockTeam>(arena, columns + begin, (int)(indptr[unit.root + 1] - begin), hop + unit.first,
                                 (int)(hop_indptr[unit.root + 1] - unit.first), rows, rights);
        const int n_children = (int)(unit.last - unit.first);
        for (;;) {
            const int strip = next_for_warp(&next_strip, 1) * n_parts + at % n_parts;
            if (strip * kTileRows >= n_children) break;
            const int first = strip * kTileRows;
            words += (unsigned long long)count_strip<4>(matrix, first, min(first + kTileRows, n_children), leaves);
        }
        arena.release(empty);
    }
    leaves.flush();
    leaves.close_dense();
    if (lane_id() == 0) atomicAdd(&block_words[blockIdx.x], words);
}
