// Pairs of rows of a list, counted by the columns that they share: a product of bit matrices on tensor cores.
//
// A warp counts 32 x 8 kWide pairs at a time, as 2 x kWide products of 16 x 8 pairs over 128 columns. The sums stay in
// registers, 8 kWide in each lane: lane 4 g + t holds the pairs of the rows g and g + 8 with the rows 2 t and 2 t + 1
// of the other side. Rows are read in place; words and rows beyond the list are 0 and share nothing. Without such
// tensor cores (before sm_80, and in the emulator), shuffles and popcounts compute the same sums. Source: "Warp-level
// matrix instructions" in NVIDIA's PTX manual (mma.m16n8k128, .b1, .and.popc).
#pragma once

#include "bit_matrix.cuh"
#include "leaves.cuh"

/// First rows of a tile, and words of 32 columns that it multiplies at a time.
constexpr int kTileRows = 32;
constexpr int kTileWords = 4;

/// Add the columns that rows share: lane 4 g + t has word t of the rows g (`low`) and g + 8 (`high`) of one side, and
/// of row g of the other. `sums` holds this lane's sums, as above: rows g with 2 t and 2 t + 1, then rows g + 8. The
/// warp.
__device__ __forceinline__ void add_products(int (&sums)[4], unsigned low, unsigned high, unsigned other) {
#if !defined(PAPILIO_EMULATED) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(low), "r"(high), "r"(other));
#else
    const int row = lane_id() & ~3, column = (lane_id() & 3) * 8;
#pragma unroll 1
    for (int word = 0; word < kTileWords; ++word) {
        const unsigned one = __shfl_sync(kFullMask, low, row + word), two = __shfl_sync(kFullMask, high, row + word);
        const unsigned left = __shfl_sync(kFullMask, other, column + word);
        const unsigned right = __shfl_sync(kFullMask, other, column + 4 + word);
        sums[0] += __popc(one & left);
        sums[1] += __popc(one & right);
        sums[2] += __popc(two & left);
        sums[3] += __popc(two & right);
    }
#endif
}

/// Columns that the rows [first, first_end), at most 32, share with the 8 kWide rows from `second` on: `sums[m][n]` are
/// the sums of add_products for the rows from first + 16 m and second + 8 n. The warp.
template <int kWide>
__device__ __forceinline__ void multiply_tile(const RowList& list, int first, int first_end, int second,
                                              int (&sums)[2][kWide][4]) {
    const int group = lane_id() / 4, place = lane_id() & 3;
#pragma unroll
    for (int at = 0; at < 8 * kWide; ++at) sums[at / (4 * kWide)][at / 4 % kWide][at % 4] = 0;
#pragma unroll 1
    for (int word = place; word - place < list.n_words; word += kTileWords) {
        unsigned ours[4], theirs[kWide];
        const bool has_word = word < list.n_words;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const int row = first + 8 * m + group;
            ours[m] = has_word && row < first_end ? list.at(word, row) : 0u;
        }
#pragma unroll
        for (int n = 0; n < kWide; ++n) {
            const int row = second + 8 * n + group;
            theirs[n] = has_word && row < list.n ? list.at(word, row) : 0u;
        }
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < kWide; ++n) add_products(sums[m][n], ours[2 * m], ours[2 * m + 1], theirs[n]);
    }
}

/// Count the pairs of a tile whose second row comes after the first. The warp.
template <int kWide>
__device__ __forceinline__ void count_tile(const RowList& list, int first, int first_end, int second, LeafHistogram& leaves) {
    const int group = lane_id() / 4, place = lane_id() & 3;
    int sums[2][kWide][4];
    multiply_tile(list, first, first_end, second, sums);
    leaves.reserve(8 * kWide);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < kWide; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const int one = first + 16 * m + 8 * (c / 2) + group, two = second + 8 * n + 2 * place + c % 2;
                if (one < two) leaves.add(sums[m][n][c]);
            }
}

/// Count the pairs of the rows [first, first_end), at most 32, with all later ones of a list; returns the number of
/// 32-bit words intersected. The warp.
template <int kWide>
__device__ __forceinline__ long long count_strip(const RowList& list, int first, int first_end, LeafHistogram& leaves) {
#pragma unroll 1
    for (int second = first; second < list.n; second += 8 * kWide) count_tile<kWide>(list, first, first_end, second, leaves);
    const long long here = first_end - first;
    return list.n_words * (here * (list.n - 1ll - first) - here * (here - 1) / 2);
}

/// Mark, for each of the rows [first, first_end), at most 32, the later rows that share at least `least` columns with
/// it: for row first + i, row first + j is bit j % 32 of word j / 32 of `sets[i]`; these words are `stride` apart.
/// `sets` has room for 32. The warp.
__device__ __forceinline__ void mark_strip(const RowList& list, int first, int first_end, int least, unsigned* sets,
                                           int stride) {
    const int group = lane_id() / 4, place = lane_id() & 3;
#pragma unroll 1
    for (int second = first; second < list.n; second += kWarpSize) {
        int sums[2][4][4];
        multiply_tile(list, first, first_end, second, sums);
        unsigned marked[4] = {};  // rows 8 i + group
#pragma unroll
        for (int at = 0; at < 32; ++at)
            if (sums[at / 16][at / 4 % 4][at % 4] >= least)
                marked[at / 16 * 2 + at % 4 / 2] |= 1u << (at / 4 % 4 * 8 + at % 2);
        unsigned mine = 0;  // row 8 place + group
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned all = marked[i] << 2 * place;
            all |= __shfl_xor_sync(kFullMask, all, 1);
            all |= __shfl_xor_sync(kFullMask, all, 2);
            if (place == i) mine = all;
        }
        const int row = 8 * place + group;
        if (second == first) mine &= kFullMask << row << 1;
        sets[(long long)row * stride + (second - first) / kWarpSize] = mine;
    }
    __syncwarp();
}

// Pairs of rows of a list, counted by the columns that they share: 32 x 64 pairs at a time, as numbers in bit planes.
//
// For each column and each block of 32 rows, a word marks the rows that have the column. For a slice of columns, a lane
// holds a row of one block and adds up the words of other blocks, for the columns of its row, as 32 binary numbers at
// once: plane k holds bit k of the number of columns that its row shares with each of 32 others. The number of pairs
// that share n columns is a popcount of the places where the planes equal n. No pair is counted separately, and few
// columns cost little, however wide the rows are. Functions are called by all lanes of a warp together and end with
// their writes ordered.

/// Maximum columns of a slice: with the initial value of the sizes they stay below 2^7.
constexpr int kSlicedColumns = SLICED_COLUMNS;
static_assert(kSlicedColumns + kSizeGroup <= 1 << 7, "within the planes of count_sliced");
/// Number of rows from which slicing a list is cheaper than intersecting its pairs one by one; the same for rows of one
/// or two words.
constexpr int kSlicedRows = SLICED_ROWS;
constexpr int kSlicedNarrow = SLICED_NARROW;
/// Number of blocks of 32 rows that a lane's row is paired with at a time.
constexpr int kSliceWide = 2;

/// Some columns of blocks of 32 rows: word `b * stride + c` is column c of block b. The stride is a multiple of 4.
/// Columns up to the stride and blocks after the last one are padded with zeros.
struct RowSlices {
    unsigned* words;
    int n_columns;
    int n_blocks;
    int stride;
};

/// Slice the `n` listed columns, given by rows (transpose_rows), of the rows from `first` on.
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

/// Slice the rows of a list by the `n` columns of `set`.
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

/// Add four ones or zeros to each of 32 numbers in planes, which must not overflow.
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

/// Count the pairs of block `own` of rows with the later rows of the blocks from `other` on. All sizes start at
/// `begin`, below 4, so that sizes counted together begin with a multiple of 4. All are below 2^kPlanes. The counters
/// must have room.
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

/// Count the pairs of block `own` of rows with later rows.
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

// Pairs of rows of several lists at a time, each cut to the columns of a row of its own: at most one word, since they
// are few.
//
// The lists of a strip of rows lie one after the other in shared memory; row i of the strip belongs to lane i. Lanes
// list and cut rows of any lists side by side, so that short lists cost little. The pairs of short lists are counted by
// lanes that hold a row each and read the next rows of its list cyclically, so that all lanes of a list end together;
// sizes are counted in registers. Functions are called by all lanes of a warp together and end with their writes
// ordered.

/// Rows of the lists that are counted together, words of shared memory of a warp for them, and the length at which a list
/// is too long.
constexpr int kRunRows = RUN_ROWS;
constexpr int kRunWords = RUN_WORDS;
constexpr int kLongList = 128;
/// Bits for the row of a matrix, next to the bits for the number of its list.
constexpr int kRowBits = 27;
static_assert(kRunWords >= kRunRows + 3 * kRunRows / 2, "a name for each row; each list with its first half once more");
static_assert(kWarpSize <= kLeafBins, "what rows of a word share has a counter of the warp");
static_assert(kLongList <= kRunRows && kLongList / 2 <= NearLeaves<2>::kMost, "a list is within a run, a flush after its turns");

/// Write the members of the sets whose numbers are in `taken` to `rows`: number << kRowBits | member, counted from
/// `base`. Sets have `stride` words, one after the other; the members of the set of lane i begin `ahead` places after
/// their place in the order of the sets.
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

/// Return where the list of each lane begins, which has `n` rows, if any; all lists have `n_rows`. Lists are sorted by
/// ascending number of digits of n, since adjacent lanes continue until the longest of their lists is done.
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

/// The lists of a run: lane i has the list of row first + i of a matrix, if any. After each list, its first rows are
/// repeated.
struct ListRun {
    unsigned* rows;
    const unsigned* names;  // of all lists, without repetition: number of the list << kRowBits | matrix row
    int n_rows;             // that have names
    // The list of this lane: number of rows, where their names begin, and the place of the first one.
    int n;
    int begin;
    int place;

    /// A row: its name, its place in its list, the number of rows of the list, and its place among all.
    struct Entry {
        unsigned name;
        int at;
        int n;
        int place;
    };

    /// A row for each lane, from `first` on; lanes beyond the end get the last one.
    __device__ __forceinline__ Entry entry(int first) const {
        const int i = min(first + lane_id(), n_rows - 1);
        const unsigned name = names[i];
        const int list = (int)(name >> kRowBits), at = i - __shfl_sync(kFullMask, begin, list);
        return Entry{name, at, __shfl_sync(kFullMask, n, list), at + __shfl_sync(kFullMask, place, list)};
    }

    /// Cut the rows to the columns of the row first + number of their list.
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

    /// Count the pairs of all lists. Sizes from `least + 4 kWords` on, which are `kLarge` or do not occur, go to the
    /// warp's counters.
    template <int kWords, bool kLarge>
    __device__ __forceinline__ void count_pairs(const NearOnes& ones, LeafHistogram& leaves) const {
        NearLeaves<kWords> near(leaves);
#pragma unroll 1
        for (int first = 0; first < n_rows; first += kWarpSize) {
            const Entry own = entry(first);
            // Row i is paired with the rows i + 1 to i + n / 2, cyclically; for even n, with the last of them only if i
            // is in the lower half.
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

/// Count the pairs of the lists of rows [first, last), at most 32, if the lists are short and their columns few;
/// returns the remaining lists as bits. Row first + j is in list i if bit j % 32 of word j / 32 of `sets[i]` is set;
/// these words are `stride` apart (mark_strip). `own`: kRunWords words of shared memory; `n_pairs` grows by the number
/// of pairs. The warp.
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
