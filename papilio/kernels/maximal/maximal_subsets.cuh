// All maximal bicliques within a few columns at once, by a table of every set of these columns.
//
// A place is a set: bit j is column j. An excluded row marks the place of its columns and of every subset. Candidates
// are counted at their places, with the sum of their hashes; then each place gets the sum over all supersets of its own
// set: the rows that have these columns. An unmarked set is the columns of a maximal biclique if every set with one
// more column has fewer rows. So nothing is searched, and rows need not be distinct. A lane has every 32nd place. With
// up to kFewColumns columns, as in most tables, it has one place, and sums need no memory. One code serves all sizes
// with few instructions, because fetching instructions limits this search.
#pragma once

#include "maximal_counts.cuh"

/// Maximum columns of a table, and its words: a count and the two words of a sum for each place. Without TABLES everything
/// is searched, for comparison.
#ifndef TABLES
#define TABLES 1
#endif
constexpr int kTableSide = 8;
constexpr int kTableColumns = TABLES ? kTableSide : 0;
constexpr int kTableWords = MAXIMAL_TABLE_WORDS;
static_assert(kTableWords == 3 << kTableSide, "the launcher counts on it");

/// Maximum columns of a table with at most one place for each lane.
constexpr int kFewColumns = 5;

/// The places of a table of n columns, and the marks of their 32-bit words, in the lanes of the same numbers.
struct TablePlaces {
    int at;  // words of dynamic shared memory before the counts of all places, then low and then high words of sums of hashes
    int n;
    unsigned covered;

    __device__ __forceinline__ int size() const { return 1 << max(n, kFewColumns); }
    __device__ __forceinline__ unsigned* memory() const { return shared_words(at); }

    __device__ __forceinline__ Word sum_at(int place) const {
        return (Word)memory()[2 * size() + place] << 32 | memory()[size() + place];
    }

    /// Return whether an excluded row has all columns of a set; the warp, each lane with a set of its own.
    __device__ __forceinline__ bool is_covered(unsigned place) const {
        return (__shfl_sync(kFullMask, covered, (int)(place / 32)) >> (place & 31) & 1u) != 0;
    }

    /// Add to each place the values of all supersets of its set, column by column; the warp.
    __device__ __forceinline__ void sum_above() const {
#pragma unroll 1
        for (int j = 0; j < n; ++j) {
            __syncwarp();
#pragma unroll 1
            for (int i = lane_id(); i < 1 << (n - 1); i += kWarpSize) {
                const int place = (i >> j << (j + 1)) | (i & ((1 << j) - 1)), above = place | 1 << j;
                const Word sum = sum_at(place) + sum_at(above);
                memory()[place] += memory()[above];
                memory()[size() + place] = (unsigned)sum;
                memory()[2 * size() + place] = (unsigned)(sum >> 32);
            }
        }
        __syncwarp();
    }
};

/// Number counted by the warp, and their share of the checksum of this lane.
struct Counted {
    Word checksum;
    int n;
};

/// Results, and the sets to count; see SubsetTable::count.
struct TableQuestion {
    int least;
    bool whole;
    Word hash;
    int n_taken;
    Word column_hash;

    __device__ __forceinline__ bool is_asked(int width, int n) const { return width >= least && (whole || width < n); }
};

/// Count the bicliques of a table of up to kFewColumns columns: a lane has one place.
__device__ __noinline__ Counted count_few_places(TablePlaces places, TableQuestion asked) {
    const int lane = lane_id(), n = places.n, width = __popc((unsigned)lane);
    unsigned n_rows = places.memory()[lane];
    Word hash = asked.hash, sum = places.sum_at(lane);
#pragma unroll 1
    for (int j = 0; j < n; ++j) {
        const unsigned n_above = __shfl_xor_sync(kFullMask, n_rows, 1 << j);
        const Word above = __shfl_xor_sync(kFullMask, sum, 1 << j), one = __shfl_sync(kFullMask, asked.column_hash, j);
        const bool has_it = (lane >> j & 1) != 0;
        hash += has_it ? one : 0;
        sum += has_it ? 0 : above;
        n_rows += has_it ? 0 : n_above;
    }
    bool is_one = !places.is_covered((unsigned)lane) && lane < 1 << n && asked.is_asked(width, n);
#pragma unroll 1
    for (int j = 0; j < n; ++j) {
        const unsigned n_above = __shfl_xor_sync(kFullMask, n_rows, 1 << j);
        is_one = is_one && ((lane >> j & 1) != 0 || n_above != n_rows);
    }
    Counted counted{0, __popc(__ballot_sync(kFullMask, is_one))};
    if (is_one) counted.checksum = size_table().count(width, asked.n_taken + (int)n_rows, hash + sum);
    __syncwarp();
    return counted;
}

/// Count the bicliques of a table with more columns.
__device__ __noinline__ Counted count_many_places(TablePlaces places, TableQuestion asked) {
    places.sum_above();
    const int lane = lane_id(), n = places.n;
    Word hash = asked.hash;
#pragma unroll 1
    for (int j = 0; j < kFewColumns; ++j) {
        const Word one = __shfl_sync(kFullMask, asked.column_hash, j);
        if (lane >> j & 1) hash += one;
    }
    Counted counted{0, 0};
#pragma unroll 1
    for (int first = 0; first < 1 << n; first += kWarpSize) {
        const int place = first + lane, width = __popc((unsigned)place);
        const unsigned n_rows = places.memory()[place];
        bool is_one = !places.is_covered((unsigned)place) && asked.is_asked(width, n);
#pragma unroll 1
        for (int j = 0; j < n; ++j)
            if (is_one && (place >> j & 1) == 0) is_one = places.memory()[place | 1 << j] != n_rows;
        Word all = hash;
#pragma unroll 1
        for (int j = kFewColumns; j < n; ++j) {
            const Word one = __shfl_sync(kFullMask, asked.column_hash, j);
            if (first >> j & 1) all += one;
        }
        if (is_one) counted.checksum += size_table().count(width, asked.n_taken + (int)n_rows, all + places.sum_at(place));
        counted.n += __popc(__ballot_sync(kFullMask, is_one));
    }
    __syncwarp();
    return counted;
}

struct SubsetTable {
    TablePlaces places;
    unsigned marked;  // marks by this lane, of up to kFewColumns columns, until they are joined; otherwise in memory

    __device__ __forceinline__ SubsetTable(int at, int n) : places{at, n, 0}, marked(0) {
        if (n <= kFewColumns) return;
        if (lane_id() < places.size() / kWarpSize) places.memory()[lane_id()] = 0;
        __syncwarp();
    }

    /// Mark the columns of an excluded row; any lane alone.
    __device__ __forceinline__ void mark(unsigned place) {
        if (places.n <= kFewColumns)
            marked |= 1u << place;
        else
            atomicOr(&places.memory()[place / 32], 1u << (place & 31));
    }

    /// Finish marking excluded rows, before candidates are added; the warp.
    __device__ __forceinline__ void join_marks() {
        const int lane = lane_id(), size = places.size();
        unsigned covered = warp_or(marked);
        if (places.n > kFewColumns) {
            __syncwarp();
            covered = lane < size / kWarpSize ? places.memory()[lane] : 0u;
            __syncwarp();
        }
#pragma unroll 1
        for (int i = lane; i < 3 * size; i += kWarpSize) places.memory()[i] = 0;
        covered |= covered >> 1 & 0x55555555u;
        covered |= covered >> 2 & 0x33333333u;
        covered |= covered >> 4 & 0x0f0f0f0fu;
        covered |= covered >> 8 & 0x00ff00ffu;
        covered |= covered >> 16;
#pragma unroll 1
        for (int step = 1; step < size / kWarpSize; step <<= 1) {
            const unsigned above = __shfl_down_sync(kFullMask, covered, step);
            if ((lane & step) == 0) covered |= above;
        }
        places.covered = covered;
        __syncwarp();
    }

    __device__ __forceinline__ bool is_covered(unsigned place) const { return places.is_covered(place); }

    /// Add an uncovered candidate with these columns; any lane alone.
    __device__ __forceinline__ void add(unsigned place, Word hash) const {
        unsigned* const at = places.memory() + place;
        const int size = places.size();
        atomicAdd(at, 1u);
        const unsigned low = (unsigned)hash, before = atomicAdd(at + size, low);
        atomicAdd(at + 2 * size, (unsigned)(hash >> 32) + (before + low < before ? 1u : 0u));
    }

    /// Count the maximal bicliques of at least `least` columns; the one of all columns only if `whole`. The warp.
    /// `hash` and `n_taken` describe the rows that have all columns and are no candidates; `column_hash` in lane j is
    /// the hash of column j. Returns the number of bicliques.
    __device__ __forceinline__ int count(MaximalCounts& counts, int least, bool whole, Word hash, int n_taken,
                                         Word column_hash) const {
        const TableQuestion asked{least, whole, hash, n_taken, column_hash};
        __syncwarp();
        const Counted counted = places.n <= kFewColumns ? count_few_places(places, asked)
                                                        : count_many_places(places, asked);
        counts.checksum += counted.checksum;
        return counted.n;
    }
};

/// Up to kTableColumns of 64 columns, renumbered for a table.
struct FewColumns {
    int at[kTableSide];
    int n;

    __device__ __forceinline__ explicit FewColumns(Word columns) : n(__popcll(columns)) {
#pragma unroll
        for (int j = 0; j < kTableSide; ++j) {
            if (j == kFewColumns && n <= kFewColumns) break;
            at[j] = max(0, __ffsll((long long)columns) - 1);
            columns &= columns - 1;
        }
    }

    /// Return those of these columns that a row has, which is also its place; any lane alone.
    __device__ __forceinline__ unsigned place(Word row) const {
        const unsigned low = (unsigned)row, high = (unsigned)(row >> 32);
        unsigned place = 0;
#pragma unroll
        for (int j = 0; j < kTableSide; ++j) {
            if (j == kFewColumns && n <= kFewColumns) break;
            place |= ((at[j] < 32 ? low : high) >> (at[j] & 31) & 1u) << j;
        }
        return place & ((1u << n) - 1u);
    }

    /// Return the list entry of column j, in lane j.
    __device__ __forceinline__ Word of_lane(const Word* list) const {
        int own = 0;
#pragma unroll
        for (int j = 0; j < kTableSide; ++j)
            if (j < n && lane_id() == j) own = at[j];
        return list[own];
    }
};
