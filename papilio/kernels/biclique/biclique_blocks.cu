// (p,q)-bicliques with three or four left vertices, for every right size, by enumeration: a block owns a root.
//
// Requires: the index and the work items of biclique.cu.
// Counted once: the left side of a biclique is taken in ascending order; its first two vertices are the item's root and
// a child.
// A block fills the rows of the children over the columns of the root, in its shared memory or its part of the slab, and
// its warps take strips of them (pairs.cuh).
// LEFT 3  pairs of children are the leaves: a strip of 32 is paired with all later ones.
// LEFT 4  the later children that share enough with a child are its candidates, cut to its columns, and their pairs are
//         the leaves. Candidates are found for a strip at a time; if one word holds the columns, the lists of the strip
//         are counted together (pairs.cuh), otherwise each by tiles, by slices or, for two words, in registers
//         (subset_tree.cuh).
// Warps take the children of an item by units of kUnit, several at a time, from its counter in `taken`. A block that finds
// no item left to take helps with any other block's item that has units left, so that all blocks end at about the same time.
// Memory of a block: its warps' memory together (search.cuh); the warps share what the matrix leaves of it. Each warp
// also has the lists of a run.
// sums[n]: sets of left vertices that share n right ones.
#include "pairs.cuh"
#include "search.cuh"
#include "subset_tree.cuh"

#ifndef LEFT
#define LEFT 3
#endif
/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
static_assert(LEFT == 3 || LEFT == 4, "the levels below a child");

/// Children of a unit, and units of a strip that a warp takes at a time, if there are not few children or few items left.
constexpr int kUnit = 8;
constexpr int kStripUnits = kTileRows / kUnit;
/// Items for each block from which on units are taken one by one: the launch ends soon.
constexpr int kLastItems = 2;
/// Minimum units left in an item that another block helps with: it first fills the rows of the children, too.
constexpr int kHelpedUnits = 2;
/// Maximum words of a root's columns for which the rows of a child keep them: their pairs are counted as fast.
constexpr int kKeptWords = KEPT_WORDS;
/// Words of shared memory of a warp for counters and for the lists of a run.
constexpr int kOwnWords = kLeafWords + (LEFT == 4 ? kRunWords : 0);

/// The pairs of candidates of a child; bit i of `marked` stands for row base + i; the warp.
__device__ __forceinline__ void count_child(SubsetTree& subsets, const RowList& matrix, int child, const unsigned* marked,
                                            int n_marked, int base) {
    Arena& arena = subsets.arena;
    int* later = reinterpret_cast<int*>(arena.take_far(matrix.n - child));
    const int n = list_members(marked, n_marked, later, base);
    if (n < 2) return;
    const int n_columns = row_size(matrix, child);
    const bool keeps = matrix.n_words <= max(kKeptWords, words_for(n_columns));
    const RowList list = keeps ? mask_rows(arena, matrix, child, later, n)
                               : cut_rows(arena, matrix, &matrix.at(0, child), matrix.stride, n_columns, later, n);
    RowSlices slices{nullptr, 0, 0, 0};
    if (subsets.slice_list(list, 0, slices) || list.n_words <= 2)
        subsets.count_pairs(list, slices, 0, n, false);
    else
#pragma unroll 1
        for (int first = 0; first < n; first += kTileRows)
            subsets.spend(count_strip<2>(list, first, min(first + kTileRows, n), subsets.leaves));
}

/// The sets whose child is in [first, last), at most kTileRows; the warp.
__device__ __forceinline__ void count_children(SubsetTree& subsets, const RowList& matrix, int first, int last) {
#if LEFT == 3
    subsets.spend(count_strip<2>(matrix, first, last, subsets.leaves));
#else
    const Arena::Mark empty = subsets.arena.mark();
    const int stride = words_for(matrix.n - first);
    unsigned* marked = subsets.arena.take_far(kTileRows * stride);
    mark_strip(matrix, first, last, subsets.leaves.least, marked, stride);
    const Arena::Mark opened = subsets.arena.mark();
    long long n_pairs = 0;
    unsigned left = count_short_lists(matrix, first, last, marked, stride, subsets.run, subsets.ones, subsets.leaves, n_pairs);
    subsets.spend(n_pairs);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
        const int at = __ffs((int)left) - 1;
        count_child(subsets, matrix, first + at, marked + at * stride, stride, first);
        __syncwarp();
        subsets.arena.release(opened);
    }
    subsets.arena.release(empty);
#endif
}

/// Units of the children of an item.
__device__ __forceinline__ int count_units(const SearchItems& work, int place) {
    const Children unit = work.at(place);
    return ((int)(unit.last - unit.first) + kUnit - 1) / kUnit;
}

/// An item of another block that has units left, or -1 if there is none; the block, which holds no item.
__device__ __forceinline__ int find_open(const SearchItems& work, int* taken) {
    __shared__ int found, undecided;
    // Blocks begin at different items, to help with different ones.
    const int begin = (int)(blockIdx.x * 97u % (unsigned)work.n);
#pragma unroll 1
    for (;;) {
        if (threadIdx.x == 0) {
            found = work.n;
            undecided = 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < work.n && i < peek(&found); i += blockDim.x) {
            const int place = (begin + i) % work.n, noted = peek(&work.skipped[place]);
            if (noted == 0)
                undecided = 1;  // its block will open it now
            else if (noted == kSearched && count_units(work, place) - peek(&taken[place]) >= kHelpedUnits)
                atomicMin(&found, i);
        }
        __syncthreads();
        const int at = found < work.n ? (begin + found) % work.n : -1;
        const bool waits = undecided != 0;
        __syncthreads();
        if (at >= 0 || !waits) return at;
        wait_a_little();
    }
}

/// Blocks of any number of warps; slots may be 0.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
biclique_blocks(const long long* __restrict__ indptr, const int* __restrict__ columns,
                const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                const long long* __restrict__ right_indptr, const int* __restrict__ right_rows, SEARCH_PARAMETERS,
                const int min_right, unsigned long long* sums, int* taken) {
    __shared__ int position;
    __shared__ unsigned dense[kDenseBins];
    __shared__ NearOnes ones;
    const int n_warps = blockDim.x / kWarpSize, warp = threadIdx.x / kWarpSize;
    const int all_near = n_warps * near_words;
    const long long all_far = n_warps * far_words;
    unsigned* const counters = warp_memory(kOwnWords);
    unsigned* const near = counters + (n_warps - warp) * kOwnWords;
    unsigned* const far = slab + blockIdx.x * all_far;
    const SearchItems work SEARCH_ITEMS;
    const Adjacency rows{indptr, columns}, rights{right_indptr, right_rows};
    LeafHistogram::open_dense(dense);
    ones.open(min_right);
    Arena arena{nullptr, nullptr, 0, 0, 0, 0};
    TreeQueue nobody{nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
    SubsetTree subsets{arena, nobody, LeafHistogram(counters, sums, min_right, dense), ones, counters + kLeafWords, nullptr, 0,
                       RowList{nullptr, 0, 0, 0}, 0, 0, 0, 0, arena.mark()};
#pragma unroll 1
    for (;;) {
        __syncthreads();  // the memory of the last item is free
        if (threadIdx.x == 0) {
            position = atomicAdd(&state[kQueueNextItem], 1);
            if (position < n_items && work.skips(position))
                position = -1;
            else if (position < n_items)
                atomicExch(&skipped[position], kSearched);
        }
        __syncthreads();
        int place = position;
        if (place < 0) continue;
        if (place >= n_items) place = find_open(work, taken);
        if (place < 0) break;
        const Children unit = work.at(place);
        const long long begin = indptr[unit.root];
        arena = Arena{near, far, LEFT == 3 ? all_near : all_near / 2 & ~3, 0, all_far, 0};
        const RowList matrix =
            fill_rows<BlockFill>(arena, columns + begin, (int)(indptr[unit.root + 1] - begin), hop + unit.first,
                                 (int)(hop_indptr[unit.root + 1] - unit.first), rows, rights);
        const int own_near = (all_near - arena.near_used) / n_warps & ~3;
        const long long own_far = (all_far - arena.far_used) / n_warps & ~3ll;
        arena = Arena{near + arena.near_used + warp * own_near, far + arena.far_used + warp * own_far, own_near, 0, own_far, 0};
        const int n_children = (int)(unit.last - unit.first);
        const bool is_long = LEFT == 3 || n_children >= kTileRows * n_warps;
        const int last_items = n_items - kLastItems * (int)gridDim.x;
#pragma unroll 1
        for (;;) {
            const int units = is_long && (LEFT == 3 || peek(&state[kQueueNextItem]) < last_items) ? kStripUnits : 1;
            const int first = next_for_warp(&taken[place], units) * kUnit;
            if (first >= n_children) break;
            count_children(subsets, matrix, first, min(first + units * kUnit, n_children));
        }
    }
    subsets.leaves.flush();
    subsets.leaves.close_dense();
    if (lane_id() == 0) atomicAdd(&block_words[blockIdx.x], subsets.words);
}
