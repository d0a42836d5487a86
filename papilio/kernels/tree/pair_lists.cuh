// Pairs of rows of several lists at a time, each cut to the columns of a row of its own: a word at most, since they are few.
//
// The lists of a strip of rows stand one after the other in shared memory; row i of the strip is that of lane i. Lanes list
// and cut rows of any lists side by side, so that short lists cost little. Pairs of short ones are counted by lanes that hold
// a row each and read the next rows of its list, round about, so that all of its lanes end together; sizes are counted in
// registers.
// Functions are called by all lanes of a warp together, and end with what they wrote ordered.
#pragma once

#include "near_leaves.cuh"
#include "pair_slices.cuh"

/// Rows of the lists that are counted together, words of shared memory of a warp for them, and rows of a list that is too long.
constexpr int kRunRows = RUN_ROWS;
constexpr int kRunWords = RUN_WORDS;
constexpr int kLongList = 128;
/// Of the number of a row of a matrix, beside that of a list.
constexpr int kRowBits = 27;
static_assert(kRunWords >= kRunRows + 3 * kRunRows / 2, "a name for each row; each list with its first half once more");
static_assert(kWarpSize <= kLeafBins, "what rows of a word share has a counter of the warp");
static_assert(kLongList <= kRunRows && kLongList / 2 <= NearLeaves<2>::kMost, "a list is within a run, a flush after its turns");

/// The members of the sets whose numbers are in `taken` to `rows`: number << kRowBits | member, counted from `base`. Sets have
/// `stride` words, one behind the other; those of the set of lane i begin `ahead` places behind where they would in the order
/// of the sets.
__device__ __forceinline__ void list_sets(const unsigned* sets, int stride, unsigned taken, int base, int ahead, unsigned* rows) {
    const int lane = lane_id(), end = (kWarpSize - __clz((int)taken)) * stride;
    int n = 0;
#pragma unroll 1
    for (int first = (__ffs((int)taken) - 1) * stride; first < end; first += kWarpSize) {
        const int at = first + lane, set = at / stride;
        unsigned word = at < end && (taken >> set & 1u) ? sets[at] : 0u;
        const unsigned size = __popc(word), until = warp_inclusive_sum(size);
        unsigned* to = rows + n + (int)(until - size) + __shfl_sync(kFullMask, ahead, set & 31);
        const unsigned head = (unsigned)set << kRowBits | (unsigned)(base + 32 * (at - set * stride));
#pragma unroll 1
        for (; word != 0; word &= word - 1) *to++ = head + (unsigned)__ffs((int)word) - 1u;
        n += (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    __syncwarp();
}

/// Where the list of each lane begins that has `n` rows, if any, of `n_rows` altogether: by rising number of digits of n, since
/// lanes side by side go on until the longest of their lists is done.
__device__ __forceinline__ int place_by_size(int n, int n_rows) {
    int begin = 0, n_placed = 0;
#pragma unroll 1
    for (int digits = 1; n_placed < n_rows; ++digits) {
        const bool is_next = n >> (digits - 1) == 1;
        const unsigned until = warp_inclusive_sum(is_next ? (unsigned)n : 0u);
        if (is_next) begin = n_placed + (int)until - n;
        n_placed += (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    return begin;
}

/// The lists of a run: lane i has that of row first + i of a matrix, if any. Behind each list are its first rows once more.
struct ListRun {
    unsigned* rows;
    const unsigned* names;  // of all lists, without repetition: number of the list << kRowBits | row of the matrix
    int n_rows;             // that have names
    // Of the list of this lane: rows, where their names begin, and the place of the first one.
    int n;
    int begin;
    int place;

    /// A row: its name, its place in its list, rows of that, and its place among all.
    struct Entry {
        unsigned name;
        int at;
        int n;
        int place;
    };

    /// A row for each lane, from the `first` on; the last one for those that have none.
    __device__ __forceinline__ Entry entry(int first) const {
        const int i = min(first + lane_id(), n_rows - 1);
        const unsigned name = names[i];
        const int list = (int)(name >> kRowBits), at = i - __shfl_sync(kFullMask, begin, list);
        return Entry{name, at, __shfl_sync(kFullMask, n, list), at + __shfl_sync(kFullMask, place, list)};
    }

    /// Cut the rows to the columns of row first + number of their list.
    __device__ __forceinline__ void cut(const RowList& matrix, int first_row) const {
#pragma unroll 1
        for (int first = 0; first < n_rows; first += kWarpSize) {
            const Entry own = entry(first);
            const unsigned* const held = &matrix.at(0, first_row + (int)(own.name >> kRowBits));
            const int row = (int)(own.name & ((1u << kRowBits) - 1u));
            const unsigned cut = matrix.n_words == 1 ? *held & matrix.at(0, row) : pack_row(matrix, row, held, matrix.stride);
            if (first + lane_id() >= n_rows) continue;
            rows[own.place] = cut;
            if (own.at < own.n / 2) rows[own.place + own.n] = cut;
        }
        __syncwarp();
    }

    /// The pairs of all lists; sizes from `least + 4 kWords` on, which are `kLarge` or do not come, go to the warp's counters.
    template <int kWords, bool kLarge>
    __device__ __forceinline__ void count_pairs(const NearOnes& ones, LeafHistogram& leaves) const {
        NearLeaves<kWords> near(leaves);
#pragma unroll 1
        for (int first = 0; first < n_rows; first += kWarpSize) {
            const Entry own = entry(first);
            // Row i is paired with the rows i + 1 to i + n / 2, round about, of an even n the last only where i is in
            // the lower half.
            const int turns = first + lane_id() < n_rows ? (own.n - (own.at < own.n / 2 ? 0 : 1)) / 2 : 0;
            const int most = (int)~warp_least(~(unsigned)turns);
            near.reserve(most);
            if (kLarge) leaves.reserve(most);
            const unsigned* const others = rows + own.place;
            const unsigned mine = *others;
#pragma unroll 4
            for (int turn = 1; turn <= most; ++turn) {
                const int shared = __popc(mine & (turn <= turns ? others[turn] : 0u));
                near.add(ones, shared);
                if (kLarge && shared >= leaves.least + near.kSizes) leaves.add_near(shared);
            }
        }
        near.flush();
        __syncwarp();
    }
};

/// The pairs of the lists of rows [first, last), at most 32, as far as these are short and the columns few; returns whose are
/// left, as bits. Row first + j is in list i where bit j % 32 of word j / 32 of `sets[i]` says so, which are `stride` words
/// apart (mark_strip). `own`: kRunWords words of shared memory; `n_pairs` grows by how many there are. The warp.
__device__ __forceinline__ unsigned count_short_lists(const RowList& matrix, int first, int last,
                                                      const unsigned* sets, int stride,
                                                      unsigned* own, const NearOnes& ones, LeafHistogram& leaves,
                                                      long long& n_pairs) {
    const int lane = lane_id();
    int n = 0, n_columns = 0;
    if (first + lane < last) {
#pragma unroll 1
        for (int k = 0; k < stride; ++k) n += __popc(sets[lane * stride + k]);
#pragma unroll 1
        for (int k = 0; k < matrix.n_words; ++k) n_columns += __popc(matrix.at(k, first + lane));
    }
    const bool is_short = n < kLongList && n_columns <= 32;
    const unsigned wide = __ballot_sync(kFullMask, n_columns >= leaves.least + NearLeaves<2>::kSizes);
    unsigned rest = __ballot_sync(kFullMask, n >= 2 && is_short);
#pragma unroll 1
    while (rest != 0) {
        const int until = (int)warp_inclusive_sum(rest >> lane & 1u ? (unsigned)n : 0u);
        const unsigned taken = __ballot_sync(kFullMask, until <= kRunRows) & rest;
        rest ^= taken;
        const int n_rows = __shfl_sync(kFullMask, until, 31 - __clz((int)taken));
        const int begin = place_by_size(taken >> lane & 1u ? n : 0, n_rows);
        unsigned* const names = own + 3 * kRunRows / 2;
        list_sets(sets, stride, taken, first, begin - (until - n), names);
        const ListRun run{own, names, n_rows, n, begin, begin + begin / 2};
        run.cut(matrix, first);
        n_pairs += warp_total(taken >> lane & 1u ? (unsigned)(n * (n - 1) / 2) : 0u);
        if (taken & wide)
            run.count_pairs<4, true>(ones, leaves);
        else
            run.count_pairs<2, false>(ones, leaves);
    }
    __syncwarp();
    return __ballot_sync(kFullMask, !is_short);
}
