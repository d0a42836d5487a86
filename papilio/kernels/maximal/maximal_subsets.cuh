// All maximal bicliques within a few columns at once, by a table of every set of these columns.
//
// A place is a set: bit j is column j. Excluded rows mark the place of the columns that they have, and with it that of
// every set inside. Candidates are counted at theirs, with the sum of their hashes; then each place gets the sum over all
// sets that contain its own: the rows that have these columns. A set that is not marked, and that no set with one more
// column has as many rows as, is that of a maximal biclique. So nothing is searched, and rows need not be distinct.
// A lane has every 32nd place. Marks are words of a bit for each place, kWords of them, joined in the lane of their number.
#pragma once

#include "maximal_counts.cuh"

/// The most columns of a table, and its words: a count and the two words of a sum for each place. Without TABLES all is
/// searched, for comparison.
#ifndef TABLES
#define TABLES 1
#endif
constexpr int kTableColumns = TABLES ? 8 : 0;
constexpr int kTableWords = MAXIMAL_TABLE_WORDS;
static_assert(kTableWords == 3 << 8, "the launcher counts on it");

/// The places of a table of n columns, and the marks of their words of 32, in the lanes of their numbers.
struct TablePlaces {
    unsigned* memory;  // counts of all places, then low and then high words of sums of hashes; in shared memory
    int n;
    unsigned covered;

    __device__ __forceinline__ int size() const { return max(kWarpSize, 1 << n); }

    __device__ __forceinline__ Word sum_at(int place) const {
        return (Word)memory[2 * size() + place] << 32 | memory[size() + place];
    }

    /// Whether an excluded row has all columns of a set; the warp, each lane with a set of its own.
    __device__ __forceinline__ bool is_covered(unsigned place) const {
        return (__shfl_sync(kFullMask, covered, (int)(place / 32)) >> (place & 31) & 1u) != 0;
    }

    /// Add to each place what all others have that contain its set, column by column; the warp.
    __device__ __forceinline__ void sum_above() const {
#pragma unroll 1
        for (int j = 0; j < n; ++j) {
            __syncwarp();
#pragma unroll 1
            for (int i = lane_id(); i < 1 << (n - 1); i += kWarpSize) {
                const int place = (i >> j << (j + 1)) | (i & ((1 << j) - 1)), above = place | 1 << j;
                const Word sum = sum_at(place) + sum_at(above);
                memory[place] += memory[above];
                memory[size() + place] = (unsigned)sum;
                memory[2 * size() + place] = (unsigned)(sum >> 32);
            }
        }
        __syncwarp();
    }
};

/// How many were counted by the warp, and what they add to the checksum of this lane.
struct Counted {
    Word checksum;
    int n;
};

/// See SubsetTable::count.
__device__ __noinline__ Counted count_places(SizeTable table, TablePlaces places, int least, bool whole, Word hash, int n_taken,
                                             Word column_hash) {
    places.sum_above();
    const int lane = lane_id(), n = places.n;
#pragma unroll 1
    for (int j = 0; j < min(n, 5); ++j) {
        const Word one = __shfl_sync(kFullMask, column_hash, j);
        if (lane >> j & 1) hash += one;
    }
    Counted counted{0, 0};
#pragma unroll 1
    for (int first = 0; first < 1 << n; first += kWarpSize) {
        const int place = first + lane, width = __popc((unsigned)place);
        const unsigned n_rows = places.memory[place];
        bool is_one = !places.is_covered((unsigned)place) && place < 1 << n && width >= least && (whole || width < n);
#pragma unroll 1
        for (int j = 0; j < n; ++j)
            if (is_one && (place >> j & 1) == 0) is_one = places.memory[place | 1 << j] != n_rows;
        Word all = hash;
#pragma unroll 1
        for (int j = 5; j < n; ++j) {
            const Word one = __shfl_sync(kFullMask, column_hash, j);
            if (first >> j & 1) all += one;
        }
        if (is_one) counted.checksum += table.count(width, n_taken + (int)n_rows, all + places.sum_at(place));
        counted.n += __popc(__ballot_sync(kFullMask, is_one));
    }
    __syncwarp();
    return counted;
}

template <int kWords>
struct SubsetTable {
    static constexpr int kColumns = kWords == 2 ? 6 : 8;
    static_assert(3 * kWords * kWarpSize <= kTableWords, "a place for each set");

    unsigned* memory;  // see TablePlaces
    int n;             // columns
    unsigned marked[kWords];  // by this lane, until they are joined
    unsigned covered;         // word k of the marks in lane k, and of what lies inside

    __device__ __forceinline__ SubsetTable(unsigned* memory, int n) : memory(memory), n(n), covered(0) {
#pragma unroll
        for (int k = 0; k < kWords; ++k) marked[k] = 0;
    }

    __device__ __forceinline__ int size() const { return max(kWarpSize, 1 << n); }

    /// An excluded row has these columns; any lane alone.
    __device__ __forceinline__ void mark(unsigned place) {
#pragma unroll
        for (int k = 0; k < kWords; ++k)
            if (place / 32 == k) marked[k] |= 1u << (place & 31);
    }

    /// All excluded rows are marked: candidates may come; the warp.
    __device__ __forceinline__ void join_marks() {
        const int lane = lane_id();
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
            const unsigned all = warp_or(marked[k]);
            if (lane == k) covered = all;
        }
#pragma unroll 1
        for (int i = lane; i < 3 * size(); i += kWarpSize) memory[i] = 0;
        covered |= covered >> 1 & 0x55555555u;
        covered |= covered >> 2 & 0x33333333u;
        covered |= covered >> 4 & 0x0f0f0f0fu;
        covered |= covered >> 8 & 0x00ff00ffu;
        covered |= covered >> 16;
#pragma unroll
        for (int step = 1; step < kWords; step <<= 1) {
            const unsigned above = __shfl_down_sync(kFullMask, covered, step);
            if ((lane & step) == 0) covered |= above;
        }
        __syncwarp();
    }

    __device__ __forceinline__ bool is_covered(unsigned place) const { return TablePlaces{memory, n, covered}.is_covered(place); }

    /// A candidate that is not covered has these columns; any lane alone.
    __device__ __forceinline__ void add(unsigned place, Word hash) const {
        atomicAdd(&memory[place], 1u);
        const unsigned low = (unsigned)hash, before = atomicAdd(&memory[size() + place], low);
        atomicAdd(&memory[2 * size() + place], (unsigned)(hash >> 32) + (before + low < before ? 1u : 0u));
    }

    /// Count the maximal bicliques of at least `least` columns, that of all columns only where `whole` is asked for; the
    /// warp. `hash` and `n_taken` are those of the rows that have all columns and are no candidates, `column_hash` in lane
    /// j that of column j. Returns how many there are.
    __device__ __forceinline__ int count(MaximalCounts& counts, int least, bool whole, Word hash, int n_taken,
                                         Word column_hash) const {
        const Counted counted =
            count_places(counts.table, TablePlaces{memory, n, covered}, least, whole, hash, n_taken, column_hash);
        counts.checksum += counted.checksum;
        return counted.n;
    }
};

/// Call `run` with the smallest table for n columns, at most kTableColumns.
template <class Run>
__device__ __forceinline__ auto with_table(unsigned* memory, int n, const Run& run) {
    if (n <= 6) return run(SubsetTable<2>(memory, n));
    return run(SubsetTable<8>(memory, n));
}

/// Where up to kMost of 64 columns are, which a table numbers anew.
template <int kMost>
struct FewColumns {
    int at[kMost];
    int n;

    __device__ __forceinline__ explicit FewColumns(Word columns) : n(__popcll(columns)) {
#pragma unroll
        for (int j = 0; j < kMost; ++j) {
            at[j] = max(0, __ffsll((long long)columns) - 1);
            columns &= columns - 1;
        }
    }

    /// The columns that a row has of them, which are also its place; any lane alone.
    __device__ __forceinline__ unsigned place(Word row) const {
        const unsigned low = (unsigned)row, high = (unsigned)(row >> 32);
        unsigned place = 0;
#pragma unroll
        for (int j = 0; j < kMost; ++j) place |= ((at[j] < 32 ? low : high) >> (at[j] & 31) & 1u) << j;
        return place & ((1u << n) - 1u);
    }

    /// What stands for column j in a list, in lane j.
    __device__ __forceinline__ Word of_lane(const Word* list) const {
        int own = 0;
#pragma unroll
        for (int j = 0; j < kMost; ++j) own = lane_id() == j ? at[j] : own;
        return list[own];
    }
};
