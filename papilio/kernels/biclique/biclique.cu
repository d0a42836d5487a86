// (p,q)-bicliques on the bitmap-tree engine: by enumeration for one left size and every right size, or by pivoting.
//
// Requires: the index of kernels/biclique/index.py: left rows with ascending right ids; for each left vertex the
// later left vertices that share at least `least_right` right ones (its children, ascending); rows of the right layer.
// Counted once: the left side of a biclique is taken in ascending order; its first two vertices name a work item's
// root and child, and the rest of it is a sub-matrix of the candidates of that child.
// A warp owns an item: the root u and a range of its children. It fills the rows of the children over N(u), along the
// rows of N(u) or of the children. For each child u' the candidates are the later children whose rows share enough with
// its own, cut to what it has of N(u): mostly one word each. Below that,
// ALGORITHM 0  takes all sets of left_size - 2 rows (subset_tree.cuh), counted by n, the right vertices that they share:
//              the host adds C(n, q);
// ALGORITHM 1  counts leaves of pivot trees by key (pivot_tree.cuh);
// ALGORITHM 2  does the first until a child has cost race_words + race_factor times the words of all pairs of its
//              candidates, and from then on pivots each list that is still to be searched: both count the same sets.
// Sub-trees go to warps that wait, through the queue of tree_queue.cuh.
// State per warp: kLeafWords words of counters (not where only pivots count) and `near_words` words of the arena in
// shared memory; what does not fit lies in `far_words` words of a slab.
// sums[n]: sets of size n; keys, counts: leaves by key; block_words: words intersected, of 32 bits, by block.
// Sources: Yang et al., PVLDB 15(2), 2021 (BCList); Ye et al., ICDE 2024 (GBC); Ye et al., SIGMOD 2023 (EPivoter).
#include "pivot_tree.cuh"
#include "schedule.cuh"
#include "subset_tree.cuh"

#ifndef ALGORITHM
#define ALGORITHM 0
#endif
/// Blocks that a multiprocessor must have registers for.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

constexpr bool kEnumerates = ALGORITHM != 1;
constexpr bool kPivots = ALGORITHM != 0;

/// What a slot of the queue begins with that holds children of a root; the others are those of the trees.
constexpr unsigned kChildrenSlot = 2;

/// Children from which half of them is left to others: each part of a root's children fills the matrix anew.
constexpr int kSharedChildren = 4;

/// The children [first, last) of a root, as places in `hop`.
struct Children {
    int root;
    long long first;
    long long last;
};

/// What is to be searched next: sets of `levels` rows whose first is in [0, end), or a node of a pivot tree, or children.
struct Task {
    unsigned kind;  // as slots of the queue begin
    Children children;
    RowList list;
    int n_columns;
    int levels;
    int end;
    unsigned* left;
    unsigned* right;
    Taken taken;
};

__device__ __forceinline__ unsigned first_bits(int n) { return n >= 32 ? kFullMask : (1u << n) - 1u; }

/// Make a list of rows a node of which everything may be taken, below `held` left vertices.
__device__ __forceinline__ void open_node(Arena& arena, Task& task, int held) {
    const int n_left = words_for(task.list.n), n_right = words_for(task.n_columns);
    task.left = arena.take(n_left);
    task.right = arena.take(n_right);
    task.taken = Taken{(unsigned)held << 16, 0};
    for (int k = lane_id(); k < n_left; k += kWarpSize) task.left[k] = first_bits(task.list.n - 32 * k);
    for (int k = lane_id(); k < n_right; k += kWarpSize) task.right[k] = first_bits(task.n_columns - 32 * k);
    __syncwarp();
}

__device__ __forceinline__ unsigned* copy_words(Arena& arena, const unsigned* from, int n) {
    unsigned* to = arena.take(n);
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = from[i];
    return to;
}

/// The task in a slot of the queue.
__device__ __forceinline__ void read_slot(Arena& arena, const unsigned* slot, Task& task) {
    task.kind = slot[0];
    const int n = (int)slot[1];
    if (task.kind == kChildrenSlot) {
        const unsigned long long first = (unsigned long long)slot[3] << 32 | slot[2];
        task.children = Children{n, (long long)first, (long long)first + (int)slot[4]};
    } else if (kEnumerates && task.kind == kSubsetSlot) {
        const int n_words = (int)slot[2];
        task.n_columns = 32 * n_words;
        task.levels = (int)slot[3];
        task.end = (int)slot[4];
        task.list = RowList{copy_words(arena, slot + kSubsetHead, n * n_words), n, n, n_words};
    } else if (kPivots) {
        task.n_columns = (int)slot[2];
        task.taken = Taken{slot[3], slot[4]};
        const int n_left = words_for(n), n_right = words_for(task.n_columns);
        task.left = copy_words(arena, slot + kPivotHead, n_left);
        task.right = copy_words(arena, slot + kPivotHead + n_left, n_right);
        task.list = RowList{copy_words(arena, slot + kPivotHead + n_left + n_right, n * n_right), n, n, n_right};
    }
    __syncwarp();
}

/// The sets of two and one more left vertices: the later children themselves are the leaves.
__device__ __forceinline__ void count_later(SubsetTree& subsets, const RowList& matrix, int child) {
    for (int first = child + 1; first < matrix.n; first += kWarpSize) {
        subsets.leaves.reserve(1);
        if (first + lane_id() < matrix.n) subsets.leaves.add(count_shared<0>(matrix, child, first + lane_id()));
    }
    subsets.spend((long long)(matrix.n - child - 1) * matrix.n_words);
}

/// The task of one child of a root: its candidates. False: it is done already.
__device__ __forceinline__ bool open_child(Arena& arena, SubsetTree& subsets, PivotTree& pivots, const RowList& matrix,
                                           int child, Task& task) {
    const int levels = pivots.limits.least_left - 2;
    if (kEnumerates && levels == 1) {
        count_later(subsets, matrix, child);
        return false;
    }
    int* rows = reinterpret_cast<int*>(arena.take(matrix.n - child));
    const int n = list_sharing_rows(matrix, child, pivots.limits.least_right, rows);
    subsets.queue.spend(words_for(matrix.n - child) * matrix.n_words);
    if (n < levels) return false;
    task.n_columns = row_size(matrix, child);
    if (!kEnumerates && n == 0) {
        pivots.add_leaf(Taken{2u << 16, (unsigned)task.n_columns});
        return false;
    }
    task.list = cut_rows(arena, matrix, child, task.n_columns, rows, n);
    task.levels = levels;
    task.end = n;
    task.kind = kEnumerates ? kSubsetSlot : kPivotSlot;
    if (!kEnumerates) open_node(arena, task, 2);
    return true;
}

/// Leave children to others.
__device__ __forceinline__ bool offer_children(const TreeQueue& queue, const Children& children) {
    return queue.offer([&](unsigned* slot) {
        if (lane_id() != 0) return;
        slot[0] = kChildrenSlot;
        slot[1] = (unsigned)children.root;
        slot[2] = (unsigned)children.first;
        slot[3] = (unsigned)((unsigned long long)children.first >> 32);
        slot[4] = (unsigned)(children.last - children.first);
    });
}

/// Search what a task holds, by enumeration until `race_words` and `race_factor` say that pivots take over.
__device__ __forceinline__ void work_on(Arena& arena, SubsetTree& subsets, PivotTree& pivots, Task& task,
                                        float race_factor, long long race_words) {
    const bool is_stopped = kEnumerates && task.kind == kSubsetSlot;
    if (is_stopped) {
        unsigned long long most = ~0ull;
        if (kPivots) {
            const float pairs = 0.5f * (float)task.list.n * (float)task.list.n * (float)task.list.n_words;
            most = subsets.words + (unsigned long long)race_words + (unsigned long long)(race_factor * pairs);
        }
        subsets.open(task.list, task.levels, task.end);
        if (subsets.count(most)) return;
    }
    if (!kPivots) return;
    Arena::Mark before = arena.mark();
    for (;;) {
        if (is_stopped) {
            if (!subsets.next_list(task.list, task.levels, before)) return;
            open_node(arena, task, pivots.limits.least_left - task.levels);
        }
        pivots.count(task.list, task.n_columns, task.left, task.right, task.taken);
        if (!is_stopped) return;
        __syncwarp();
        arena.release(before);
    }
}

/// Blocks of any number of warps; dynamic shared memory per warp: kLeafWords (ALGORITHM 0, 2) + near_words words.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_search(const long long* __restrict__ indptr, const int* __restrict__ columns,
                const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                const long long* __restrict__ right_indptr, const int* __restrict__ right_rows,
                const int* __restrict__ item_root, const long long* __restrict__ item_first,
                const long long* __restrict__ item_last,
                const int* __restrict__ items, const int n_items, const int least_left, const int most_left,
                const int least_right, const int most_right, const int near_words, unsigned* slab,
                const long long far_words, int* state, unsigned* ends, unsigned* tickets, unsigned* slots,
                const unsigned n_slots, const int slot_words, const int check_steps, const float race_factor,
                const long long race_words, unsigned long long* sums, unsigned long long* keys,
                unsigned long long* counts, const unsigned n_keys, int* full, unsigned long long* block_words) {
    extern __shared__ uint4 shared_quads[];
    constexpr int kFixedWords = kEnumerates ? kLeafWords : 0;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    unsigned* shared = reinterpret_cast<unsigned*>(shared_quads) + warp * (kFixedWords + near_words);
    const long long number = (long long)blockIdx.x * n_warps + warp;
    Arena arena{shared + kFixedWords, slab + number * far_words, near_words, 0, far_words, 0};
    TreeQueue queue{state, ends, tickets, slots, n_slots, slot_words, check_steps, 0, 0};
    SubsetTree subsets{arena, queue, LeafHistogram(kEnumerates ? shared : nullptr, sums, least_right), nullptr, 0,
                       RowList{nullptr, 0, 0, 0}, 0, 0, 0, 0, arena.mark()};
    PivotTree pivots{arena, queue, LeafTable(keys, counts, n_keys, full),
                     PivotLimits{least_left, most_left, least_right, most_right}, 0};
    if (kEnumerates)
        subsets.frames = reinterpret_cast<SubsetFrame*>(arena.take((long long)max(0, least_left - 4) * kSubsetFrameWords));
    const Arena::Mark empty = arena.mark();
    Arena::Mark opened = empty;
    Task task{};
    RowList matrix{nullptr, 0, 0, 0};
    int child = 0, n_children = 0;
    bool works = false;
    for (;;) {
        if (child < n_children) {
            arena.release(opened);
            if (n_children - child >= kSharedChildren && queue.is_wanted()) {
                const int from = child + (n_children - child) / 2;
                const Children& all = task.children;
                if (offer_children(queue, Children{all.root, all.first + from, all.last})) {
                    n_children = from;
                    task.children.last = all.first + from;
                }
            }
            if (!open_child(arena, subsets, pivots, matrix, child++, task)) {
                __syncwarp();
                continue;
            }
        } else {
            if (works && n_slots != 0) queue.finish();
            __syncwarp();
            arena.release(empty);
            const int at = next_for_warp(&state[kQueueNextItem], 1);
            works = at < n_items;
            if (works) {
                const int item = items[at];
                task.kind = kChildrenSlot;
                task.children = Children{item_root[item], item_first[item], item_last[item]};
            } else {
                works = queue.wait([&](const unsigned* slot) { read_slot(arena, slot, task); });
                if (!works) break;
            }
            if (task.kind == kChildrenSlot) {
                const Children& all = task.children;
                child = n_children = 0;
                if (!kPivots || !pivots.leaves.is_full()) {
                    const long long begin = indptr[all.root];
                    matrix = fill_rows(arena, columns + begin, (int)(indptr[all.root + 1] - begin), hop + all.first,
                                       (int)(hop_indptr[all.root + 1] - all.first), Adjacency{indptr, columns},
                                       Adjacency{right_indptr, right_rows});
                    n_children = (int)(all.last - all.first);
                    opened = arena.mark();
                }
                continue;
            }
        }
        work_on(arena, subsets, pivots, task, race_factor, race_words);
        __syncwarp();
    }
    if (kEnumerates) subsets.leaves.flush();
    if (kPivots) pivots.leaves.flush();
    if (lane_id() == 0) atomicAdd(&block_words[blockIdx.x], subsets.words + pivots.words);
}
