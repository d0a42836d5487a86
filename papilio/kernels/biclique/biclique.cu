// (p,q)-bicliques on the bitmap-tree engine: by enumeration for one left size and every right size, or by pivoting.
//
// Requires: the index of kernels/biclique/index.py: left rows with ascending right ids; for each left vertex the
// later left vertices that share at least `min_right` right ones (its children, ascending); rows of the right layer.
// Counted once: the left side of a biclique is taken in ascending order; its first two vertices are the root and the
// child of a work item, and its other vertices form a sub-matrix of the candidates of that child.
// Left sides of three and four are enumerated by biclique_blocks.cu.
// A warp owns an item: the root u and a range of its children. It fills the rows of the children over N(u), along the
// rows of N(u) or of the children. For each child u' the candidates are the later children whose rows share enough with
// its own, cut to its columns within N(u): mostly one word each. Below that,
// ALGORITHM 0  takes all sets of left_size - 2 rows (subset_tree.cuh), counted by n, their number of shared right
//              vertices: the host adds C(n, q);
// ALGORITHM 1  counts leaves of pivot trees by key (pivot_tree.cuh).
// Waiting warps get sub-trees through the queue of tree_queue.cuh.
// The round of a warp is in search.cuh. Counters of a warp: kLeafWords words, none if it only counts pivots.
// sums[n]: sets of size n; keys, counts: leaves by key.
// Sources: Yang et al., PVLDB 15(2), 2021 (BCList); Ye et al., ICDE 2024 (GBC); Ye et al., SIGMOD 2023 (EPivoter).
#include "pivot_tree.cuh"
#include "search.cuh"
#include "subset_tree.cuh"

#ifndef ALGORITHM
#define ALGORITHM 0
#endif
/// 1: many leaves have no counter in a warp, and the block counts them.
#ifndef DENSE
#define DENSE 0
#endif
/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// The matrix of a root takes at most this fraction of shared memory: lists below it are read more often.
constexpr int kMatrixShare = 4;
constexpr bool kEnumerates = ALGORITHM == 0;
constexpr bool kDense = kEnumerates && DENSE;

/// The search of one warp: the matrix of the current root, and the next set to search.
struct BicliqueSearch {
    static constexpr int kCounterWords = kEnumerates ? kLeafWords + kRunWords : 0;
    static constexpr bool kShares = true;

    Arena& arena;
    Adjacency rows;
    Adjacency rights;
    const long long* hop_indptr;
    const int* hop;
    SubsetTree& subsets;
    PivotTree& pivots;
    RowList matrix;
    // Sets of `levels` rows of the list whose first is in [0, end), or else where a pivot tree begins.
    RowList list;
    int n_columns;
    int levels;
    int end;
    PivotStart start;

    __device__ __forceinline__ int open(const Children& unit) {
        if (!kEnumerates && pivots.leaves.is_full()) return 0;
        const long long begin = rows.indptr[unit.root];
        const int near_words = arena.near_words;
        arena.near_words = near_words / kMatrixShare & ~3;
        matrix = fill_rows(arena, rows.ids + begin, (int)(rows.indptr[unit.root + 1] - begin), hop + unit.first,
                           (int)(hop_indptr[unit.root + 1] - unit.first), rows, rights);
        arena.near_words = near_words;
        return (int)(unit.last - unit.first);
    }

    /// The candidates of a child, cut to its columns within the root's.
    __device__ __forceinline__ bool open_child(int child) {
        levels = pivots.limits.min_left - 2;
        int* later = reinterpret_cast<int*>(arena.take_far(matrix.n - child));
        const int n = list_sharing_rows(matrix, child, pivots.limits.min_right, later);
        subsets.queue.spend(words_for(matrix.n - child) * matrix.n_words);
        if (n < levels) return false;
        n_columns = row_size(matrix, child);
        if (!kEnumerates && n == 0) {
            pivots.add_leaf(Taken{2u << 16, (unsigned)n_columns});
            return false;
        }
        list = cut_rows(arena, matrix, &matrix.at(0, child), matrix.stride, n_columns, later, n);
        end = n;
        if (!kEnumerates) open_node(2);
        return true;
    }

    /// The sub-tree in a slot of the queue.
    __device__ __forceinline__ void read(const unsigned* slot) {
        if (kEnumerates) {
            const int n = (int)slot[1];
            const int n_words = (int)slot[2];
            n_columns = 32 * n_words;
            levels = (int)slot[3];
            end = (int)slot[4];
            list = RowList{copy_words(arena, slot + kSubsetHead, n * n_words), n, n, n_words};
        } else {
            start = pivots.read(slot, list, n_columns);
        }
    }

    __device__ __forceinline__ void search() {
        if (kEnumerates) {
            subsets.open(list, levels, end);
            subsets.count();
        } else {
            pivots.count(list, n_columns, start);
        }
    }

    __device__ __forceinline__ void close() const {}

    __device__ __forceinline__ unsigned long long flush() {
        if (kEnumerates)
            subsets.leaves.flush();
        else
            pivots.leaves.flush();
        return subsets.words + pivots.words;
    }

  private:
    /// Make the list a node from which everything may be taken, below `held` left vertices.
    __device__ __forceinline__ void open_node(int held) {
        start = PivotStart{arena.take(words_for(list.n)), arena.take(words_for(n_columns)), nullptr, false,
                           Taken{(unsigned)held << 16, 0}};
        fill_set(start.left, list.n);
        fill_set(start.right, n_columns);
    }
};

/// Blocks of any number of warps.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_search(const long long* __restrict__ indptr, const int* __restrict__ columns,
                const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                const long long* __restrict__ right_indptr, const int* __restrict__ right_rows, SEARCH_PARAMETERS,
                const int min_left, const int max_left, const int min_right, const int max_right,
                unsigned long long* sums,
                unsigned long long* keys, unsigned long long* counts, const unsigned n_keys, int* full) {
    constexpr int kWords = BicliqueSearch::kCounterWords;
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    __shared__ NearOnes ones;
    __shared__ unsigned dense[kDense ? kDenseBins : 1];
    unsigned* const counters = kEnumerates ? warp_memory(kWords + near_words) : nullptr;
    if (kEnumerates) ones.open(min_right);
    if (kDense) LeafHistogram::open_dense(dense);
    SubsetTree subsets{arena, queue, LeafHistogram(counters, sums, min_right, kDense ? dense : nullptr), ones, counters + kLeafWords, nullptr, 0,
                       RowList{nullptr, 0, 0, 0}, 0, 0, 0, 0, arena.mark()};
    if (kEnumerates)
        subsets.frames = reinterpret_cast<SubsetFrame*>(arena.take((long long)max(0, min_left - 4) * kSubsetFrameWords));
    PivotTree pivots{arena, queue, LeafTable(keys, counts, n_keys, full),
                     PivotLimits{min_left, max_left, min_right, max_right}, 0};
    BicliqueSearch search{arena,      Adjacency{indptr, columns}, Adjacency{right_indptr, right_rows},
                          hop_indptr, hop, subsets, pivots};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
    if (kDense) subsets.leaves.close_dense();
}
