// All sets of a given number of rows of a list that share enough columns, counted by the number of shared columns.
//
// Depth first by one warp with an explicit stack. A level is a list of the rows that may still be taken, already cut to
// the columns shared by the rows taken before; taking row i cuts the later rows by it and keeps the ones large enough.
// Every set is reached along one path, in ascending order. The last two rows are not taken: the shared columns of all pairs
// of a list are counted, by slices of the rows (pairs.cuh) or, if rows are few or have many columns, by intersecting them.
// If most later rows stay when a third last row is taken, their slices are the slices of its list, cut to the columns of
// that row; if few stay, the lists below all rows of a list are counted together (pairs.cuh).
// A sub-tree to share (tree_queue.cuh) is a list and a range of it from which the first row is taken: about half of the
// work left at the highest level that has some.
#pragma once

#include "pairs.cuh"
#include "tree_queue.cuh"

/// First word of a slot of the queue, to tell sub-trees apart.
constexpr unsigned kSubsetSlot = 0;
constexpr int kSubsetHead = 8;

struct SubsetFrame {
    unsigned* words;
    Arena::Mark mark;
    int n;
    int stride;
    int next;
    int end;
};
constexpr int kSubsetFrameWords = SUBSET_FRAME_WORDS;
static_assert(sizeof(SubsetFrame) == kSubsetFrameWords * sizeof(unsigned), "the launcher counts on it");

struct SubsetTree {
    /// Minimum rows for sharing the pairs of a list.
    static constexpr int kSharedPairs = 256;
    /// Minimum rows of a list, beyond those to be taken, that make it worth sharing.
    static constexpr int kSharedRows = 4;
    /// Distance of the rows of a list that are checked for whether most later ones stay when they are taken.
    static constexpr int kDenseRows = 8;
    /// Maximum rows of a list, and maximum mean rows of the lists below its rows, for counting these together.
    static constexpr int kShortRows = SHORT_ROWS;
    static constexpr int kShortBelow = SHORT_BELOW;
    static_assert(kShortRows <= kLongList, "no list below is too long");

    Arena& arena;
    TreeQueue& queue;
    LeafHistogram leaves;
    const NearOnes& ones;
    unsigned* run;        // kRunWords words of shared memory
    SubsetFrame* frames;  // as many as rows are taken before the last two
    unsigned long long words;  // intersected so far
    // Current state of a search: `levels` rows are to be taken from `list`, the first from [next, end).
    RowList list;
    int levels;
    int next;
    int end;
    int depth;
    Arena::Mark entered;
    // For the list from which one row is taken before the last two: whether most rows share enough with the last row checked,
    // and its columns by rows, or null.
    bool is_dense;
    unsigned* turned;
    // For the same list: whether it has few rows, each of few columns, and the lists below were not found to be long.
    bool is_short;

    /// A cut of a range of first rows, of `take` to be taken, with about half of the sets on either side.
    __device__ __forceinline__ static int cut_range(int begin, int until, int take) {
        return begin + (until - begin) * 2 / (3 * take);
    }

    __device__ __forceinline__ void spend(long long intersected) {
        words += (unsigned long long)intersected;
        queue.spend((int)(intersected / kWarpSize) + 1);
    }

    /// Share the sets whose first row is in [from, end) of a list; false: no warp is waiting.
    __device__ __forceinline__ bool offer(const unsigned* rows, int n, int stride, int n_words, int levels, int from,
                                          int end) const {
        if ((long long)(n - from) * n_words + kSubsetHead > queue.slot_words) return false;
        return queue.offer([&](unsigned* slot) {
            const int size = n - from;
            if (lane_id() == 0) {
                slot[0] = kSubsetSlot;
                slot[1] = (unsigned)size;
                slot[2] = (unsigned)n_words;
                slot[3] = (unsigned)levels;
                slot[4] = (unsigned)(end - from);
            }
#pragma unroll 1
            for (int k = 0; k < n_words; ++k)
#pragma unroll 1
                for (int i = lane_id(); i < size; i += kWarpSize)
                    slot[kSubsetHead + k * size + i] = rows[(long long)k * stride + from + i];
        });
    }

    /// Offer half of the work left at the highest level that has some.
    __device__ __forceinline__ void share() {
        const int lane = lane_id();
        // Lane i checks frame i, the lane after them the current level, from which one row is kept.
        SubsetFrame frame{list.words, entered, list.n, list.stride, next + 1, end};
        if (lane < depth) frame = frames[lane];
        const int from = cut_range(frame.next, max(frame.next, frame.end), levels + max(0, depth - lane));
        const bool shared = lane <= depth && from < frame.end && frame.n - from >= levels + depth - lane + kSharedRows &&
                            (long long)(frame.n - from) * list.n_words + kSubsetHead <= queue.slot_words;
        const unsigned all = __ballot_sync(kFullMask, shared);
        if (all == 0) return;
        const int at = __ffs((int)all) - 1;
        const int begin = __shfl_sync(kFullMask, from, at);
        __syncwarp();
        SubsetFrame top{list.words, entered, list.n, list.stride, next, end};
        if (at < depth) top = frames[at];
        const bool offered = offer(top.words, top.n, top.stride, list.n_words, levels + depth - at, begin, top.end);
        __syncwarp();
        if (offered && at == depth)
            end = begin;
        else if (offered && lane == 0)
            frames[at].end = begin;
        __syncwarp();
    }

    /// Share about half of the pairs whose first row is in [first, end) of a list; returns the end of the remaining ones.
    __device__ __forceinline__ int share_pairs(const RowList& list, int first, int end) const {
        if (end - first < kSharedPairs || !queue.is_wanted()) return end;
        const int from = first + (cut_range(0, end - first, 2) & -kWarpSize);
        return offer(list.words, list.n, list.stride, list.n_words, 2, from, end) ? from : end;
    }

    /// Words of the pairs of up to 32 rows from `first` on with all later ones.
    __device__ __forceinline__ static long long pair_words(const RowList& list, int first) {
        const int here = min(kWarpSize, list.n - first);
        return list.n_words * (here * (list.n - 1ll - first) - here * (here - 1) / 2);
    }

    /// All pairs of up to 32 rows that the lanes hold: row i with the rows i + 1 to i + n / 2, cyclically.
    template <int kWords>
    __device__ __forceinline__ void count_among(const unsigned (&rows)[kWords], int n) {
        const int lane = lane_id();
        const int n_groups = kWarpSize / n, group = lane / n, i = lane - group * n;
        unsigned mine[kWords];
#pragma unroll
        for (int k = 0; k < kWords; ++k) mine[k] = __shfl_sync(kFullMask, rows[k], i);
#pragma unroll 1
        for (int first = 1; first <= n / 2; first += n_groups) {
            const int step = first + group;
            int j = i + step;
            if (j >= n) j -= n;
            int size = 0;
#pragma unroll
            for (int k = 0; k < kWords; ++k) size += __popc(mine[k] & __shfl_sync(kFullMask, rows[k], j & 31));
            if (group < n_groups && (2 * step < n || (2 * step == n && i < step))) leaves.add(size);
        }
    }

    /// The pairs of up to 32 rows from `first` on with all later ones of a list.
    template <int kWords>
    __device__ __forceinline__ void count_strip_pairs(const RowList& list, int first) {
        const int lane = lane_id(), here = min(kWarpSize, list.n - first);
        unsigned mine[kWords];
#pragma unroll
        for (int k = 0; k < kWords; ++k) mine[k] = lane < here ? list.at(k, first + lane) : 0u;
        leaves.reserve(kWarpSize);
        if (here > 1) count_among<kWords>(mine, here);
#pragma unroll 1
        for (int block = first + kWarpSize; block < list.n; block += kWarpSize) {
            unsigned theirs[kWords];
#pragma unroll
            for (int k = 0; k < kWords; ++k)
                theirs[k] = block + lane < list.n ? list.at(k, block + lane) : 0u;
            leaves.reserve(kWarpSize);
            const int rows = min(kWarpSize, list.n - block);
#pragma unroll 4
            for (int j = 0; j < rows; ++j) {
                int size = 0;
#pragma unroll
                for (int k = 0; k < kWords; ++k) size += __popc(mine[k] & __shfl_sync(kFullMask, theirs[k], j));
                leaves.add(size);
            }
        }
    }

    /// The same for rows of any number of words.
    __device__ __forceinline__ void count_wide_strip(const RowList& list, int first) {
        const int i = first + lane_id();
#pragma unroll 1
        for (int block = first; block < list.n; block += kWarpSize) {
            leaves.reserve(kWarpSize);
            const int until = min(block + kWarpSize, list.n);
#pragma unroll 1
            for (int j = max(block, first + 1); j < until; ++j)
                if (i < j && i < list.n) leaves.add(count_shared<0>(list, i, j));
        }
    }

    /// Write the rows after `row`, cut to its columns, to `slices`; false: it has too many columns.
    __device__ __forceinline__ bool slice_after(int row, RowSlices& slices) {
        if (row_size(list, row) > kSlicedColumns) return false;
        const RowList columns{turned, 32 * list.n_words, 32 * list.n_words, words_for(list.n)};
        int* const members = reinterpret_cast<int*>(arena.take(kSlicedColumns));
        const int n = list_members(&list.at(0, row), list.n_words, members, 0, list.stride);
        slices = slice_columns(arena, columns, members, n, row + 1);
        return true;
    }

    /// Write the rows of a list to `slices`; false: too few rows from `begin` on, or too many columns.
    __device__ __forceinline__ bool slice_list(const RowList& list, int begin, RowSlices& slices) {
        if (list.n - begin < (list.n_words > 2 ? kSlicedRows : kSlicedNarrow)) return false;
        unsigned* const united = arena.take(list.n_words);
        const int n_columns = unite_rows(list, united);
        if (n_columns > kSlicedColumns) return false;
        slices = slice_rows(arena, list, united, n_columns);
        return true;
    }

    /// Count the pairs of a list whose first row is in [begin, end), both multiples of 32 unless `end` is the end: by its
    /// slices, if it has any. If `shared`, other warps may get some of them.
    __device__ __forceinline__ void count_pairs(const RowList& list, const RowSlices& slices, int begin, int end, bool shared) {
#pragma unroll 1
        for (int first = begin; first < end; first += kWarpSize) {
            if (shared) end = share_pairs(list, first, end);
            spend(pair_words(list, first));
            if (slices.words != nullptr)
                count_sliced(slices, first / kWarpSize, leaves);
            else if (list.n_words == 1)
                count_strip_pairs<1>(list, first);
            else if (list.n_words == 2)
                count_strip_pairs<2>(list, first);
            else
                count_wide_strip(list, first);
        }
        __syncwarp();
    }

    /// Start to count the sets of `take` (2 or more) rows whose first is in [0, until) of a list.
    __device__ __forceinline__ void open(const RowList& rows, int take, int until) {
        entered = arena.mark();
        list = rows;
        levels = take;
        next = 0;
        end = until;
        depth = 0;
        begin_list();
    }

    /// Go up to the next level that may have work left; false: there is none, everything is counted.
    __device__ __forceinline__ bool go_up() {
        // Waits for lanes that still read the list, before it is released (here) or taken again (below). Counting pairs and
        // narrowing rows also end with a barrier: each of the three would do.
        __syncwarp();
        if (depth == 0) {
            arena.release(entered);
            return false;
        }
        --depth;
        ++levels;
        const SubsetFrame frame = frames[depth];
        list.words = frame.words;
        list.n = frame.n;
        list.stride = frame.stride;
        next = frame.next;
        end = frame.end;
        arena.release(frame.mark);
        __syncwarp();
        return true;
    }

    /// State that a search has reached: others wait for a part of it; a list whose pairs are to be counted; a row (the one
    /// before `next`) after which the pairs of the same list are; a list whose pairs below each of its rows are; or its end.
    enum class Reached { kWanted, kPairs, kRow, kShort, kEnd };

    /// Whether pairs below row `next` are better counted in the list itself: most later rows stay when that row is taken.
    __device__ __forceinline__ bool stays_dense() const {
        return levels == 3 && is_dense && next % kDenseRows != 0 && list.n - next > kSlicedRows;
    }

    /// Go down to a list of rows, stored after `mark`, from which one row less is taken.
    __device__ __forceinline__ void go_down(const RowList& below, const Arena::Mark& mark) {
        if (lane_id() == 0) frames[depth] = SubsetFrame{list.words, mark, list.n, list.stride, next, end};
        __syncwarp();
        ++depth;
        --levels;
        list = below;
        next = 0;
        end = below.n;
        begin_list();
    }

    /// Prepare to take rows from the current list.
    __device__ __forceinline__ void begin_list() {
        if (levels != 3) return;
        is_dense = false;
        turned = nullptr;
        is_short = list.n <= kShortRows && max_columns(list) <= kWarpSize;
    }

    /// Continue until pairs are to be counted.
    template <int kWords>
    __device__ __forceinline__ Reached find_pairs() {
#pragma unroll 1
        for (;;) {
            if (levels == 2) return Reached::kPairs;
            if (next < end && list.n - next >= levels) {
                if (queue.is_wanted()) return Reached::kWanted;
                if (levels == 3 && is_short) return Reached::kShort;
                if (stays_dense()) {
                    ++next;
                    return Reached::kRow;
                }
                const Arena::Mark mark = arena.mark();
                const RowList below = narrow_rows<kWords>(arena, list, next, leaves.least);
                ++next;
                spend((long long)(list.n - next) * list.n_words);
                is_dense = below.n >= kSlicedRows && 8 * below.n >= 7 * (list.n - next);
                if (below.n >= levels - 1)
                    go_down(below, mark);
                else
                    arena.release(mark);
                continue;
            }
            if (!go_up()) return Reached::kEnd;
        }
    }

    /// Count the pairs of the current list, or of the rows after the row before `next`, cut to that row; false: it has too
    /// many columns, and the list of those rows is now the current one.
    __device__ __forceinline__ bool count_found(bool below_row) {
        const int row = next - 1;
        if (below_row && turned == nullptr) turned = transpose_rows(arena, list, 32 * list.n_words).words;
        const Arena::Mark before = arena.mark();
        RowSlices slices{nullptr, 0, 0, 0};
        RowList rows = list;
        if (!below_row) {
            slice_list(list, next, slices);
        } else if (slice_after(row, slices)) {
            rows.n -= (row + 1) / kWarpSize * kWarpSize;
            rows.n_words = words_for(slices.n_columns);
        } else {
            go_down(narrow_rows<0>(arena, list, row, leaves.least), before);
            return false;
        }
        count_pairs(rows, slices, below_row ? 0 : next, below_row ? rows.n : end, !below_row);
        arena.release(before);
        return true;
    }

    /// Count the sets whose first row is one of the next 32 of the current list. If the lists below these are long, it is no
    /// longer considered short, and nothing is counted.
    __device__ __forceinline__ void count_short() {
        const int last = min(next + kTileRows, end), stride = words_for(list.n - next);
        const Arena::Mark before = arena.mark();
        unsigned* const sets = arena.take(kTileRows * stride);
        mark_strip(list, next, last, leaves.least, sets, stride);
        is_short = set_size(sets, (last - next) * stride) <= kShortBelow * (last - next);
        long long n_pairs = 0;
        if (is_short) count_short_lists(list, next, last, sets, stride, run, ones, leaves, n_pairs);
        __syncwarp();
        spend(n_pairs + pair_words(list, next));
        if (is_short) next = last;
        arena.release(before);
    }

    /// Continue until everything is counted.
    __device__ __forceinline__ void count() {
#pragma unroll 1
        for (;;) {
            const Reached reached = list.n_words == 1   ? find_pairs<1>()
                                    : list.n_words == 2 ? find_pairs<2>()
                                                        : find_pairs<0>();
            if (reached == Reached::kEnd) return;
            if (reached == Reached::kWanted)
                share();
            else if (reached == Reached::kShort)
                count_short();
            else if (count_found(reached == Reached::kRow) && reached == Reached::kPairs && !go_up())
                return;
        }
    }
};
