// Pairs of rows of a list, counted by the columns that they share: 32 x 64 pairs at a time, as numbers in bit planes.
//
// For each column and each block of 32 rows, a word says which of the rows have it. Of some columns, a lane holds a row
// of one block and adds up the words of other blocks, of the columns that its row has, as 32 binary numbers at once:
// plane k holds bit k of what its row shares with each of 32 others. How many pairs share n columns is a popcount of
// where the planes say n. No pair is counted by itself, and few columns cost little, however wide the rows are.
// Functions are called by all lanes of a warp together, and end with what they wrote ordered.
#pragma once

#include "bit_matrix.cuh"
#include "leaf_histogram.cuh"

/// Most columns of slices: with what sizes begin with they are below 2^7.
constexpr int kSlicedColumns = SLICED_COLUMNS;
static_assert(kSlicedColumns + kSizeGroup <= 1 << 7, "within the planes of count_sliced");
/// Rows from which slicing a list costs less than intersecting its pairs one by one, and where rows have one or two words.
constexpr int kSlicedRows = SLICED_ROWS;
constexpr int kSlicedNarrow = SLICED_NARROW;
/// Blocks of 32 rows that a lane's row is paired with at a time.
constexpr int kSliceWide = 2;

/// Some columns of blocks of 32 rows: word `b * stride + c` is column c of block b; the stride is a multiple of 4. There are
/// columns of zeros up to the stride, and blocks of zeros behind the last one.
struct RowSlices {
    unsigned* words;
    int n_columns;
    int n_blocks;
    int stride;
};

/// The `n` listed columns, given by rows (transpose_rows), of the rows from `first` on.
__device__ __forceinline__ RowSlices slice_columns(Arena& arena, const RowList& columns, const int* listed, int n, int first) {
    const int begin = first / kWarpSize, n_blocks = columns.n_words - begin, stride = (n + 3) & -4;
    const RowSlices slices{arena.take((n_blocks + kSliceWide - 1) * stride), n, n_blocks, stride};
#pragma unroll 1
    for (int c = lane_id(); c < stride; c += kWarpSize) {
        const int column = c < n ? listed[c] : -1;
#pragma unroll 1
        for (int b = 0; b < n_blocks + kSliceWide - 1; ++b) {
            unsigned word = column >= 0 && b < n_blocks ? columns.at(begin + b, column) : 0u;
            if (b == 0) word &= kFullMask << (first & 31);
            slices.words[b * stride + c] = word;
        }
    }
    __syncwarp();
    return slices;
}

/// The rows of a list by the columns of `set`, of which it has `n`.
__device__ __forceinline__ RowSlices slice_rows(Arena& arena, const RowList& list, const unsigned* set, int n) {
    const int lane = lane_id(), n_blocks = words_for(list.n), stride = (n + 3) & -4;
    const RowSlices slices{arena.take((n_blocks + kSliceWide - 1) * stride), n, n_blocks, stride};
    unsigned* block = slices.words;
#pragma unroll 1
    for (int first = 0; first < list.n; first += kWarpSize, block += stride) {
        int place = 0;
#pragma unroll 1
        for (int k = 0; k < list.n_words; ++k) {
            const unsigned column = transpose_word(first + lane < list.n ? list.at(k, first + lane) : 0u), held = set[k];
            if (held >> lane & 1u) block[place + __popc(held & lanes_before(lane))] = column;
            place += __popc(held);
        }
        if (lane < stride - n) block[n + lane] = 0;
    }
#pragma unroll 1
    for (int i = lane; i < (kSliceWide - 1) * stride; i += kWarpSize) block[i] = 0;
    __syncwarp();
    return slices;
}

/// Add four ones or zeros to each of 32 numbers in planes, which do not run over.
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

/// The pairs of block `own` of rows with the later rows of the blocks from `other` on; `begin`, below 4, is added to all sizes
/// on the way, so that those that are counted together begin with a multiple of 4. All are below 2^kPlanes. The
/// counters have room.
template <int kPlanes>
__device__ __forceinline__ void count_blocks(const RowSlices& slices, int own, int other, int begin, LeafHistogram& leaves) {
    const int lane = lane_id();
    unsigned planes[kSliceWide][kPlanes];
#pragma unroll
    for (int t = 0; t < kSliceWide; ++t)
#pragma unroll
        for (int k = 0; k < kPlanes; ++k) planes[t][k] = begin >> k & 1 ? kFullMask : 0u;
    const uint4* const ours = reinterpret_cast<const uint4*>(slices.words + own * slices.stride);
    const uint4* const theirs = reinterpret_cast<const uint4*>(slices.words + other * slices.stride);
    const int n_quads = slices.stride / 4;
#pragma unroll 1
    for (int quad = 0; quad < n_quads; ++quad) {
        const uint4 mine = ours[quad];
        const unsigned a = 0u - (mine.x >> lane & 1u), b = 0u - (mine.y >> lane & 1u);
        const unsigned c = 0u - (mine.z >> lane & 1u), d = 0u - (mine.w >> lane & 1u);
#pragma unroll
        for (int t = 0; t < kSliceWide; ++t) {
            const uint4 held = theirs[t * n_quads + quad];
            add_ones(planes[t], held.x & a, held.y & b, held.z & c, held.w & d);
        }
    }
#pragma unroll 1
    for (int high = (leaves.least + begin) / kSizeGroup; high <= (slices.n_columns + begin) / kSizeGroup; ++high) {
        unsigned here[kSliceWide];
#pragma unroll
        for (int t = 0; t < kSliceWide; ++t) {
            here[t] = other + t > own ? kFullMask : kFullMask << lane << 1;
#pragma unroll
            for (int k = 2; k < kPlanes; ++k) here[t] &= planes[t][k] ^ ((unsigned)(high >> (k - 2) & 1) - 1u);
        }
        if (!__any_sync(kFullMask, (here[0] | here[1]) != 0)) continue;
        unsigned n[kSizeGroup];
#pragma unroll
        for (int low = 0; low < kSizeGroup; ++low) {
            n[low] = 0;
#pragma unroll
            for (int t = 0; t < kSliceWide; ++t)
                n[low] += (unsigned)__popc(here[t] & (low & 1 ? planes[t][0] : ~planes[t][0]) &
                                           (low & 2 ? planes[t][1] : ~planes[t][1]));
        }
        leaves.add_group(high * kSizeGroup - begin, n);
    }
}

/// The pairs of block `own` of rows with later rows.
__device__ __forceinline__ void count_sliced(const RowSlices& slices, int own, LeafHistogram& leaves) {
    const int begin = -leaves.least & (kSizeGroup - 1), most = slices.n_columns + begin;
#pragma unroll 1
    for (int other = own; other < slices.n_blocks; other += kSliceWide) {
        leaves.reserve(kSliceWide * kWarpSize);
        if (most < 16)
            count_blocks<4>(slices, own, other, begin, leaves);
        else if (most < 32)
            count_blocks<5>(slices, own, other, begin, leaves);
        else
            count_blocks<7>(slices, own, other, begin, leaves);
    }
}
