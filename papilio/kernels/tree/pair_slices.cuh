// Pairs of rows of a list, counted by the columns that they share: 32 x 64 pairs at a time, as numbers in bit planes.
//
// The columns that rows have are numbered anew. For each of them and each block of 32 rows, a word says which of the rows
// have it. Lane i holds row i of one block and adds up those words, of the columns that its row has, as 32 binary numbers at
// once: plane k holds bit k of what row i shares with each of 32 others. How many pairs share n columns is a popcount of
// where the planes say n. No pair is counted by itself, and lists of few columns cost little, however wide their rows are.
// Functions are called by all lanes of a warp together, and end with what they wrote ordered.
#pragma once

#include "bit_matrix.cuh"
#include "leaf_histogram.cuh"

/// Most columns of sliced rows: sizes have 7 planes.
constexpr int kSlicedColumns = SLICED_COLUMNS;
static_assert(kSlicedColumns < 1 << 7, "within the planes");
/// Rows from which slicing a list costs less than intersecting its pairs one by one.
constexpr int kSlicedRows = 20;
/// Blocks of 32 rows that a lane's row is paired with at a time, and columns that are added at a time.
constexpr int kSliceWide = 2;
constexpr int kSliceColumns = 4;

/// Rows by columns: bit i of `columns[c * stride + b]` is column c of row 32 b + i; and by rows: word k of row i is
/// `rows[32 k n_blocks + i]`. There are columns and blocks of zeros up to a whole number of steps.
struct RowSlices {
    unsigned* columns;
    unsigned* rows;
    int n_columns;
    int n_blocks;
    int stride;
};

/// The columns that rows of a list have, to `set`; returns how many.
__device__ __forceinline__ int unite_rows(const RowList& list, unsigned* set) {
    int n = 0;
    for (int k = 0; k < list.n_words; ++k) {
        unsigned word = 0;
        for (int i = lane_id(); i < list.n; i += kWarpSize) word |= list.at(k, i);
        word = warp_union(word);
        if (lane_id() == 0) set[k] = word;
        n += __popc(word);
    }
    __syncwarp();
    return n;
}

/// The listed rows (all n where `listed` is null) over `n_columns` columns, at most kSlicedColumns; `set(k)` is word k of those.
template <class Set>
__device__ __forceinline__ RowSlices slice_rows(Arena& arena, const RowList& list, const int* listed, int n, const Set& set,
                                                int n_columns) {
    const int lane = lane_id(), n_blocks = (n + kWarpSize - 1) / kWarpSize;
    const int stride = (n_blocks + kSliceWide - 1) & -kSliceWide, padded = (n_columns + kSliceColumns - 1) & -kSliceColumns;
    const int block_words = kWarpSize * n_blocks;
    const RowSlices slices{arena.take(padded * stride), arena.take(words_for(n_columns) * block_words), n_columns, n_blocks,
                           stride};
    for (int i = n_columns * stride + lane; i < padded * stride; i += kWarpSize) slices.columns[i] = 0;
    if (stride > n_blocks)
        for (int c = lane; c < n_columns; c += kWarpSize) slices.columns[c * stride + n_blocks] = 0;
    for (int b = 0; b < n_blocks; ++b) {
        const int i = kWarpSize * b + lane;
        const int row = i < n && listed != nullptr ? listed[i] : i;
        unsigned bits = 0;
        int column = 0;
        for (int k = 0; k < list.n_words; ++k) {
            unsigned mask = set(k);
            if (mask == 0) continue;
            const unsigned word = i < n ? list.at(k, row) : 0u;
            for (; mask != 0; mask &= mask - 1) {
                const unsigned bit = word >> (__ffs((int)mask) - 1) & 1u;
                const unsigned held = __ballot_sync(kFullMask, bit);
                if (lane == 0) slices.columns[column * stride + b] = held;
                bits |= bit << (column & 31);
                if ((++column & 31) != 0) continue;
                slices.rows[(column / 32 - 1) * block_words + i] = bits;
                bits = 0;
            }
        }
        if ((column & 31) != 0) slices.rows[column / 32 * block_words + i] = bits;
    }
    __syncwarp();
    return slices;
}

/// Add up to four ones to each of 32 numbers in planes, which do not run over.
template <int kPlanes>
__device__ __forceinline__ void add_ones(unsigned (&planes)[kPlanes], unsigned a, unsigned b, unsigned c, unsigned d) {
    const unsigned sum = a ^ b ^ c, twos = a & b | c & (a | b);
    const unsigned more = sum & d | planes[0] & (sum | d);
    planes[0] ^= sum ^ d;
    unsigned carry = twos & more | planes[1] & (twos | more);
    planes[1] ^= twos ^ more;
#pragma unroll
    for (int k = 2; k < kPlanes; ++k) {
        const unsigned next = planes[k] & carry;
        planes[k] ^= carry;
        carry = next;
    }
}

/// The pairs of block `own` of rows with later rows, of fewer than 2^kPlanes columns.
template <int kPlanes>
__device__ __forceinline__ void count_block(const RowSlices& slices, int own, LeafHistogram& leaves) {
    const int lane = lane_id();
    for (int other = own & -kSliceWide; other < slices.n_blocks; other += kSliceWide) {
        unsigned planes[kSliceWide][kPlanes] = {};
        for (int first = 0; first < slices.n_columns; first += kWarpSize) {
            unsigned mine = slices.rows[first * slices.n_blocks + own * kWarpSize + lane];
            for (int c = first; c < min(slices.n_columns, first + kWarpSize); c += kSliceColumns, mine >>= kSliceColumns) {
                unsigned theirs[kSliceWide][kSliceColumns];
#pragma unroll
                for (int k = 0; k < kSliceColumns; ++k) {
                    const unsigned held = 0u - (mine >> k & 1u);
                    const uint2 pair = *reinterpret_cast<const uint2*>(&slices.columns[(c + k) * slices.stride + other]);
                    theirs[0][k] = pair.x & held;
                    theirs[1][k] = pair.y & held;
                }
#pragma unroll
                for (int t = 0; t < kSliceWide; ++t)
                    add_ones(planes[t], theirs[t][0], theirs[t][1], theirs[t][2], theirs[t][3]);
            }
        }
        // A row is paired with those after it; the others, and rows that are not there, share nothing.
        unsigned largest = 0;
#pragma unroll
        for (int t = 0; t < kSliceWide; ++t) {
            const unsigned later = other + t > own ? kFullMask : other + t == own ? kFullMask << lane << 1 : 0u;
#pragma unroll
            for (int k = 0; k < kPlanes; ++k) {
                planes[t][k] &= later;
                largest |= planes[t][k] != 0 ? 1u << k : 0u;
            }
        }
        largest = min(warp_union(largest), (unsigned)slices.n_columns);
        leaves.reserve(kSliceWide * kWarpSize);
        for (int size = leaves.least; size <= (int)largest; ++size) {
            unsigned n = 0;
#pragma unroll
            for (int t = 0; t < kSliceWide; ++t) {
                unsigned here = kFullMask;
#pragma unroll
                for (int k = 0; k < kPlanes; ++k) here &= planes[t][k] ^ ((unsigned)(size >> k & 1) - 1u);
                n += (unsigned)__popc(here);
            }
            leaves.add_many(size, n);
        }
    }
}

/// The pairs of block `own` of rows with later rows.
__device__ __forceinline__ void count_sliced(const RowSlices& slices, int own, LeafHistogram& leaves) {
    if (slices.n_columns < 16)
        count_block<4>(slices, own, leaves);
    else if (slices.n_columns < 32)
        count_block<5>(slices, own, leaves);
    else
        count_block<7>(slices, own, leaves);
}
