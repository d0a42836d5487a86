// (p,q)-bicliques of every vertex, for one p and one q, on the bitmap-tree engine: by enumeration.
//
// Requires: the index and the work items of biclique.cu; `take` is the left size less 2; `sets[n]` is C(n, q) and
// `members[n]` is C(n - 1, q - 1), modulo 2^64, for every n up to the most right vertices that two left ones share.
// Counted once: as in biclique.cu. A set of left vertices that shares n right ones represents C(n, q) bicliques of each
// of its vertices, and C(n - 1, q - 1) of each of the n (vertex_tree.cuh).
// A warp owns an item (search.cuh). Sums of the children of the root, from the first of the item on, and of its right
// vertices lie in the warp's arena, the root's own in registers; a finished item is added to `of_left` and `of_right`,
// modulo 2^64. `sums[n]` are the sets by n, exact: the host computes the total from them.
// If the left side has two vertices, the children themselves are the sets. If it has three, and at least kDirectRows of 32 rows
// share enough columns with a child, they are counted in the matrix of the root.
#include "search.cuh"
#include "vertex_tree.cuh"

/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// Rows of every 32 that share enough columns with a child, on average, from which no list is made of them. With 6 (3,3) of
/// yelp2018 takes 14 % longer, of movielens-1m the same.
constexpr int kDirectRows = 12;

/// Add sums to the vertices' sums, both by place; the warp.
__device__ __forceinline__ void add_sums(const unsigned long long* sums, const int* vertices, int n,
                                         unsigned long long* to) {
    for (int i = lane_id(); i < n; i += kWarpSize)
        if (sums[i] != 0) atomicAdd(&to[vertices[i]], sums[i]);
}

/// The search of one warp: the matrix of the current root, and the candidates of the child to search next.
struct VertexSearch {
    static constexpr int kCounterWords = kLeafWords;
    static constexpr bool kShares = false;

    Arena& arena;
    Adjacency rows;
    Adjacency rights;
    const long long* hop_indptr;
    const int* hop;
    const int* hop_common;
    int take;
    unsigned long long* of_left;
    unsigned long long* of_right;
    VertexTree tree;
    // The current root: its right vertices are the columns, its children from the first of the item on the rows.
    int root;
    long long first;
    BitColumns matrix;
    RowList groups;  // the same by groups of 32 rows, if one row below a child makes a set
    unsigned long long own;  // of its sets
    // The current child: its candidates, and their places among the children.
    int child;
    bool is_direct;  // counted in the matrix, without a list; holds from one child to the next
    RowList list;
    const int* places;

    __device__ __forceinline__ int open(const Children& unit) {
        const long long begin = rows.indptr[unit.root];
        const int n_children = (int)(unit.last - unit.first);
        const int n_rows = take == 0 ? n_children : (int)(hop_indptr[unit.root + 1] - unit.first);
        const int n_columns = (int)(rows.indptr[unit.root + 1] - begin);
        root = unit.root;
        first = unit.first;
        tree.of_rows = take_sums(arena, n_rows);
        tree.of_columns = take_sums(arena, n_columns);
        if (take > 2 && n_rows > take)
            tree.frames = reinterpret_cast<VertexFrame*>(arena.take((long long)(take - 2) * kVertexFrameWords));
        matrix = fill_columns(arena, rows.ids + begin, n_columns, hop + first, n_rows, rows, rights);
        is_direct = false;
        if (take == 1) groups = group_rows(arena, matrix);
        own = take == 0 ? warp_sum(count_children(hop_common + unit.first)) : 0;
        return take == 0 ? 0 : min(n_children, n_rows - take);
    }

    __device__ __forceinline__ bool open_child(int number) {
        child = number;
        int* held = reinterpret_cast<int*>(arena.take(matrix.n_columns));
        tree.n_columns = list_columns(matrix, child, held);
        tree.columns = held;
        if (is_direct) return true;
        int* later = reinterpret_cast<int*>(arena.take(matrix.n_rows - child));
        const int n = list_dense_rows(matrix, child, held, tree.n_columns, tree.leaves.least, later);
        if (n < take) return false;
        is_direct = take == 1 && n >= kDirectRows * (matrix.stride - (child + 1) / 32);
        if (is_direct) return true;
        const int n_words = words_for(tree.n_columns);
        list = RowList{arena.take((long long)n * n_words), n, n, n_words};
        for (int i = lane_id(); i < n; i += kWarpSize)
            for (int k = 0; k < n_words; ++k) list.at(k, i) = gather_word(matrix, later[i], held, tree.n_columns, k);
        __syncwarp();
        places = later;
        return true;
    }

    /// The sets of the root, the child and `take` of its candidates.
    __device__ __forceinline__ void search() {
        const unsigned long long below = is_direct ? count_thirds() : tree.count(list, places, take);
        __syncwarp();
        if (lane_id() == 0) tree.of_rows[child] += below;
        own += below;
    }

    __device__ __forceinline__ void close() const {
        __syncwarp();
        if (lane_id() == 0 && own != 0) atomicAdd(&of_left[root], own);
        add_sums(tree.of_rows, hop + first, matrix.n_rows, of_left);
        add_sums(tree.of_columns, rows.ids + rows.indptr[root], matrix.n_columns, of_right);
    }

    __device__ __forceinline__ unsigned long long flush() {
        tree.leaves.flush();
        return tree.words;
    }

  private:
    /// Count the sets of the root, the child and a later row each; returns their sum.
    __device__ __forceinline__ unsigned long long count_thirds() {
        const int begin = (child + 1) / 32;
        int n_leaves = 0;
        unsigned long long sum = 0;
#pragma unroll 1
        for (int group = begin; group < matrix.stride; ++group) {
            const int row = kWarpSize * group + lane_id();
            const int found = count_columns(&groups.at(group, 0), tree.columns, tree.n_columns), size = row > child ? found : 0;
            const bool is_leaf = size >= tree.leaves.least;
            const unsigned live = __ballot_sync(kFullMask, is_leaf);
            if (live == 0) continue;
            n_leaves += __popc(live);
            tree.leaves.reserve(1);
            unsigned long long worth = 0;
            if (is_leaf) {
                tree.leaves.add(size);
                sum += tree.sets[size];
                tree.of_rows[row] += tree.sets[size];
                worth = tree.members[size];
            }
            use_worths(worth, [&](const auto& worths, int shift) {
                const unsigned* const words = &groups.at(group, 0);
#pragma unroll 1
                for (int place = lane_id(); place < tree.n_columns; place += kWarpSize) {
                    const int column = tree.columns[place];
                    const unsigned long long held = worths.sum_of(words[column]);
                    if (held != 0) tree.of_columns[column] += held << shift;
                }
            });
        }
        is_direct = n_leaves >= kDirectRows * (matrix.stride - begin);
        tree.words += (unsigned long long)(matrix.n_rows - child - 1) * words_for(tree.n_columns);
        return warp_sum(sum);
    }

    /// The sets of the root and one child each, which share `common` vertices; returns a lane's part of their sum.
    __device__ __forceinline__ unsigned long long count_children(const int* common) {
        const int lane = lane_id();
        unsigned long long sum = 0;
        for (int k = 0; k < matrix.stride; ++k) {
            const int row = kWarpSize * k + lane;
            const bool is_row = row < matrix.n_rows;
            const int size = is_row ? common[row] : 0;
            const unsigned live = __ballot_sync(kFullMask, is_row);
            tree.leaves.reserve(1);
            if (is_row) {
                tree.leaves.add(size);
                tree.of_rows[row] = tree.sets[size];
                sum += tree.sets[size];
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
        return sum;
    }
};

/// Blocks of any number of warps.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_vertices(const long long* __restrict__ indptr, const int* __restrict__ columns,
                  const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                  const long long* __restrict__ right_indptr, const int* __restrict__ right_rows, SEARCH_PARAMETERS,
                  const int* __restrict__ hop_common, const int take, const int min_right,
                  const unsigned long long* __restrict__ sets, const unsigned long long* __restrict__ members,
                  unsigned long long* sums, unsigned long long* of_left, unsigned long long* of_right) {
    constexpr int kWords = VertexSearch::kCounterWords;
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    const LeafHistogram sizes(warp_memory(kWords + near_words), sums, min_right);
    VertexSearch search{arena,
                        Adjacency{indptr, columns},
                        Adjacency{right_indptr, right_rows},
                        hop_indptr,
                        hop,
                        hop_common,
                        take,
                        of_left,
                        of_right,
                        VertexTree{arena, sizes, sets, members, 0, nullptr, nullptr, nullptr, nullptr, 0}};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
}
