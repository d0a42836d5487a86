// (p,q)-bicliques of every vertex, for one p and one q, on the bitmap-tree engine: by enumeration.
//
// Requires: the index and the work items of biclique.cu; `take` is the left size less 2; `sets[n]` is C(n, q) and
// `members[n]` is C(n - 1, q - 1), modulo 2^64, for every n up to the most right vertices that two left ones share.
// Counted once: as in biclique.cu. A set of left vertices that shares n right ones stands for C(n, q) bicliques of each of
// its vertices, and for C(n - 1, q - 1) of each of the n (vertex_tree.cuh).
// A warp owns an item: a root and a range of its children. Sums of the children of the root, from the first of the item
// on, and of its right vertices lie in the warp's arena, the root's own in registers; an item that is done is added to
// `of_left` and `of_right`, modulo 2^64. `sums[n]` are the sets by n, exact: the total follows on the host.
// Where the left side has two vertices, the children themselves are the sets.
// State per warp: kLeafWords words of counters and `near_words` words of the arena in shared memory; what does not fit
// lies in `far_words` words of a slab. block_words: words intersected, of 32 bits, by block.
#include "schedule.cuh"
#include "vertex_tree.cuh"

/// Blocks that a multiprocessor must have registers for.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// The sets of the root and one child each, of which `common` says what they share; returns a lane's part of their sum.
__device__ __forceinline__ unsigned long long count_children(VertexTree& tree, const BitColumns& matrix,
                                                             const int* common) {
    const int lane = lane_id();
    unsigned long long own = 0;
    for (int k = 0; k < matrix.stride; ++k) {
        const int child = kWarpSize * k + lane;
        const bool is_child = child < matrix.n_rows;
        const int size = is_child ? common[child] : 0;
        const unsigned live = __ballot_sync(kFullMask, is_child);
        tree.leaves.reserve(1);
        if (is_child) {
            tree.leaves.add(size);
            tree.of_rows[child] = tree.sets[size];
            own += tree.sets[size];
        }
        for (int first = 0; first < matrix.n_columns; first += kWarpSize) {
            const int column = first + lane;
            const bool is_column = column < matrix.n_columns;
            const unsigned holders[1] = {is_column ? matrix.words[(long long)column * matrix.stride + k] : 0u};
            unsigned long long held[1] = {0};
            add_worth(holders, live, size, tree.members[size], held);
            if (held[0] != 0) tree.of_columns[column] += held[0];
        }
    }
    tree.words += (unsigned long long)matrix.n_columns * matrix.stride;
    return own;
}

/// The sets of the root, one child and `take` of its candidates; returns their sum.
__device__ __forceinline__ unsigned long long count_child(VertexTree& tree, const BitColumns& matrix, int child,
                                                          int take) {
    Arena& arena = tree.arena;
    int* columns = reinterpret_cast<int*>(arena.take(matrix.n_columns));
    tree.n_columns = list_columns(matrix, child, columns);
    tree.columns = columns;
    int* rows = reinterpret_cast<int*>(arena.take(matrix.n_rows - child));
    const int n = list_dense_rows(matrix, child, columns, tree.n_columns, tree.leaves.least, rows);
    if (n < take) return 0;
    const int n_words = words_for(tree.n_columns);
    const RowList list{arena.take((long long)n * n_words), n, n, n_words};
    for (int i = lane_id(); i < n; i += kWarpSize)
        for (int k = 0; k < n_words; ++k) list.at(k, i) = gather_word(matrix, rows[i], columns, tree.n_columns, k);
    __syncwarp();
    return tree.count(list, rows, take);
}

/// Add sums to those of the vertices, both by place; the warp.
__device__ __forceinline__ void add_sums(const unsigned long long* sums, const int* vertices, int n,
                                         unsigned long long* to) {
    for (int i = lane_id(); i < n; i += kWarpSize)
        if (sums[i] != 0) atomicAdd(&to[vertices[i]], sums[i]);
}

/// Blocks of any number of warps; dynamic shared memory per warp: kLeafWords + near_words words.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_vertices(const long long* __restrict__ indptr, const int* __restrict__ columns,
                  const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                  const int* __restrict__ hop_common, const long long* __restrict__ right_indptr,
                  const int* __restrict__ right_rows, const int* __restrict__ item_root,
                  const long long* __restrict__ item_first, const long long* __restrict__ item_last,
                  const int* __restrict__ items, const int n_items, const int take, const int least_right,
                  const int near_words, unsigned* slab, const long long far_words, int* next_item,
                  const unsigned long long* __restrict__ sets, const unsigned long long* __restrict__ members,
                  unsigned long long* sums, unsigned long long* of_left, unsigned long long* of_right,
                  unsigned long long* block_words) {
    extern __shared__ uint4 shared_quads[];
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    unsigned* shared = reinterpret_cast<unsigned*>(shared_quads) + warp * (kLeafWords + near_words);
    const long long number = (long long)blockIdx.x * n_warps + warp;
    Arena arena{shared + kLeafWords, slab + number * far_words, near_words, 0, far_words, 0};
    VertexTree tree{arena, LeafHistogram(shared, sums, least_right), sets, members, 0, nullptr, nullptr, nullptr, nullptr, 0};
    const Arena::Mark empty = arena.mark();
    for (;;) {
        const int at = next_for_warp(next_item, 1);
        if (at >= n_items) break;
        arena.release(empty);
        const int root = item_root[items[at]];
        const long long first = item_first[items[at]], begin = indptr[root];
        const int n_children = (int)(item_last[items[at]] - first);
        const int n_rows = take == 0 ? n_children : (int)(hop_indptr[root + 1] - first);
        const int n_columns = (int)(indptr[root + 1] - begin);
        tree.of_rows = take_sums(arena, n_rows);
        tree.of_columns = take_sums(arena, n_columns);
        if (take > 2 && n_rows > take)
            tree.frames = reinterpret_cast<VertexFrame*>(arena.take((long long)(take - 2) * kVertexFrameWords));
        const BitColumns matrix =
            fill_columns(arena, columns + begin, n_columns, hop + first, n_rows, Adjacency{indptr, columns},
                         Adjacency{right_indptr, right_rows});
        unsigned long long own = 0;
        if (take == 0) {
            own = warp_sum(count_children(tree, matrix, hop_common + first));
        } else {
            const Arena::Mark opened = arena.mark();
            for (int child = 0; child < n_children && n_rows - child > take; ++child) {
                const unsigned long long below = count_child(tree, matrix, child, take);
                __syncwarp();
                if (lane_id() == 0) tree.of_rows[child] += below;
                own += below;
                arena.release(opened);
            }
        }
        __syncwarp();
        if (lane_id() == 0 && own != 0) atomicAdd(&of_left[root], own);
        add_sums(tree.of_rows, hop + first, n_rows, of_left);
        add_sums(tree.of_columns, columns + begin, n_columns, of_right);
        __syncwarp();
    }
    tree.leaves.flush();
    if (lane_id() == 0) atomicAdd(&block_words[blockIdx.x], tree.words);
}
