// All sets of a given number of rows of a list that share enough columns, counted for every row and every column.
//
// A set that shares n columns is worth `sets[n]` to each of its rows and `members[n]` to each of these columns; sums are
// modulo 2^64. Depth first by one warp with an explicit stack of lists, as in subset_tree.cuh: a list is cut to the columns
// shared by the rows taken before, and holds the places of its rows. The last row of a set is not taken: all later rows of
// the list are intersected with the row before it, a lane each, and added up. The worth to a row that was taken is known
// when the search leaves it.
// Columns: each lane owns one of 32 columns and holds a bit for each row of the list with that column (`turn_rows`). Of 32
// rows that are the last of a set, rows that share equally many columns are counted together: a popcount and a product for
// each size that occurs; if at least kByteRows are, products of bits and bytes add up what they are worth.
// Sums lie in the warp's arena; one lane at a time writes a word, with a barrier between two writers.
#pragma once

#include "bit_matrix.cuh"
#include "leaves.cuh"

struct VertexFrame {
    unsigned* words;
    const int* places;
    unsigned long long below;
    Arena::Mark mark;
    int n;
    int stride;
    int next;
};
constexpr int kVertexFrameWords = VERTEX_FRAME_WORDS;
static_assert(sizeof(VertexFrame) == kVertexFrameWords * sizeof(unsigned), "the launcher counts on it");

/// Add to `held[k]`, in every lane, the worth to its column of the rows `holders[k]`, which hold it.
///
/// Lane i stands for row i. If bit i of `live` is set, the row is a set that shares `size` columns, each worth `worth`.
/// The warp.
template <int kHeld>
__device__ __forceinline__ void add_worth(const unsigned (&holders)[kHeld], unsigned live, int size,
                                          unsigned long long worth, unsigned long long (&held)[kHeld]) {
    const bool is_live = live >> lane_id() & 1u;
    while (live != 0) {
        const int from = __ffs((int)live) - 1;
        const int shared = __shfl_sync(kFullMask, size, from);
        const unsigned long long each = __shfl_sync(kFullMask, worth, from);
        const unsigned same = __ballot_sync(kFullMask, is_live && size == shared);
#pragma unroll
        for (int k = 0; k < kHeld; ++k) held[k] += (unsigned)__popc(holders[k] & same) * each;
        live &= ~same;
    }
}

/// The worths of 32 rows below 2^(8 kBytes), to add up those that hold a column: a product of bits and bytes.
template <int kBytes>
struct RowWorths {
    static_assert(kBytes <= 4, "a worth is a word");
    unsigned bytes[kBytes][8];  // byte j of word t is of row t + 8 j

    /// Lane i has the worth of row i. The warp.
    __device__ __forceinline__ explicit RowWorths(unsigned worth) {
        unsigned of[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) of[j] = __shfl_sync(kFullMask, worth, (lane_id() + 8 * j) & 31);
#pragma unroll
        for (int b = 0; b < kBytes; ++b) {
            const unsigned two = b | (b + 4) << 4;
            const unsigned four = __byte_perm(__byte_perm(of[0], of[1], two), __byte_perm(of[2], of[3], two), 0x5410);
#pragma unroll
            for (int t = 0; t < 8; ++t) bytes[b][t] = __shfl_sync(kFullMask, four, t);
        }
    }

    /// The sum of the worths of the rows `holders`. Any lane alone.
    __device__ __forceinline__ unsigned long long sum_of(unsigned holders) const {
        unsigned sums[kBytes] = {};  // at most 32 * 255 each
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            const unsigned held = holders >> t & 0x01010101u;
#pragma unroll
            for (int b = 0; b < kBytes; ++b) sums[b] = __dp4a(held, bytes[b][t], sums[b]);
        }
        unsigned low = 0;
#pragma unroll
        for (int b = 0; b < (kBytes < 3 ? kBytes : 3); ++b) low += sums[b] << 8 * b;
        return low + (kBytes < 4 ? 0 : (unsigned long long)sums[kBytes - 1] << 24);
    }
};

/// Call `use` with the worths of 32 rows, of as few bytes as they need, and a shift: lane i has the worth of row i. The warp.
template <class Use>
__device__ __forceinline__ void use_worths(unsigned long long worth, Use use) {
    const unsigned low = (unsigned)worth, high = (unsigned)(worth >> 32), most = warp_or(low);
    if (warp_or(high) != 0) {
        use(RowWorths<4>(low), 0);
        use(RowWorths<4>(high), 32);
    } else if (most >> 24 != 0) {
        use(RowWorths<4>(low), 0);
    } else if (most >> 16 != 0) {
        use(RowWorths<3>(low), 0);
    } else {
        use(RowWorths<2>(low), 0);
    }
}

/// Sets among 32 rows from which their worths are laid out in bytes; of fewer, equal ones are counted together. From 8 on (3,3)
/// of yelp2018 takes 10 % longer; without bytes on short lists (4,4) of movielens-100k takes 37 % longer.
constexpr int kByteRows = 16;

struct VertexTree {
    Arena& arena;
    LeafHistogram leaves;
    const unsigned long long* sets;     // by shared columns, modulo 2^64
    const unsigned long long* members;
    unsigned long long words;  // intersected so far
    VertexFrame* frames;       // as many as rows are taken before the last two
    unsigned long long* of_rows;     // sums by the place of a row
    unsigned long long* of_columns;  // sums by the place of a column
    const int* columns;              // places of the columns of the lists
    int n_columns;

    /// Add a lane's sum for column 32 * word + lane.
    __device__ __forceinline__ void add_column(int word, unsigned long long worth) const {
        const int column = kWarpSize * word + lane_id();
        if (column < n_columns && worth != 0) of_columns[columns[column]] += worth;
    }

    /// The rows that hold each column, by the warp: bit i of word k of a column is row 32 * k + i.
    __device__ __forceinline__ RowList turn_rows(const RowList& list) const {
        const RowList turned{arena.take((long long)n_columns * words_for(list.n)), n_columns, n_columns, words_for(list.n)};
        for (int column = lane_id(); column < n_columns; column += kWarpSize) {
            for (int k = 0; k < turned.n_words; ++k) {
                const int here = min(kWarpSize, list.n - kWarpSize * k);
                unsigned holders = 0;
                for (int i = 0; i < here; ++i)
                    holders |= (list.at(column / 32, kWarpSize * k + i) >> (column & 31) & 1u) << i;
                turned.at(k, column) = holders;
            }
        }
        __syncwarp();
        return turned;
    }

    /// Count the sets that a row after `row` completes; -1: no row was taken before, and one row makes a set.
    ///
    /// Lane i adds to `held[k]` the worth to its column of word k, if the number of words is known. Returns a lane's
    /// part of the sum of the sets.
    template <int kWords, int kHeld>
    __device__ __forceinline__ unsigned long long close_row(const RowList& list, const RowList& turned, const int* places,
                                                            int row, unsigned long long (&held)[kHeld]) {
        const int lane = lane_id(), n_words = kWords > 0 ? kWords : list.n_words;
        const auto taken = [&](int k) { return row < 0 ? kFullMask : list.at(k, row); };
        unsigned long long own = 0;
        __syncwarp();
        for (int first = (row + 1) & -kWarpSize; first < list.n; first += kWarpSize) {
            const int other = first + lane;
            int size = 0;
            if (other > row && other < list.n)
                for (int k = 0; k < n_words; ++k) size += __popc(list.at(k, other) & taken(k));
            const bool is_leaf = size >= leaves.least;
            const unsigned live = __ballot_sync(kFullMask, is_leaf);
            if (live == 0) continue;
            leaves.reserve(1);
            unsigned long long worth = 0;
            if (is_leaf) {
                leaves.add(size);
                own += sets[size];
                of_rows[places[other]] += sets[size];
                worth = members[size];
            }
            const bool by_bytes = __popc(live) >= kByteRows;
            if (kWords == 0 && by_bytes) {
                const unsigned* const holders = &turned.at(first / kWarpSize, 0);
                use_worths(worth, [&](const auto& worths, int shift) {
#pragma unroll 1
                    for (int k = 0; k < n_words; ++k) {
                        const int column = kWarpSize * k + lane;
                        const bool is_held = column < n_columns && (taken(k) >> lane & 1u);
                        add_column(k, worths.sum_of(is_held ? holders[column] : 0u) << shift);
                    }
                });
                continue;
            }
            for (int begin = 0; begin < n_words; begin += kHeld) {
                unsigned holders[kHeld];
#pragma unroll
                for (int k = 0; k < kHeld; ++k) {
                    const int column = kWarpSize * (begin + k) + lane;
                    const bool is_held = column < n_columns && (taken(begin + k) >> lane & 1u);
                    holders[k] = is_held ? turned.at(first / kWarpSize, column) : 0u;
                }
                if (kWords > 0 && by_bytes)
                    use_worths(worth, [&](const auto& worths, int shift) {
#pragma unroll
                        for (int k = 0; k < kHeld; ++k) held[k] += worths.sum_of(holders[k]) << shift;
                    });
                else
                    add_worth(holders, live, size, worth, held);
                if (kWords > 0) continue;
#pragma unroll
                for (int k = 0; k < kHeld; ++k) {
                    add_column(begin + k, held[k]);
                    held[k] = 0;
                }
            }
        }
        words += (unsigned long long)max(0, list.n - row - 1) * n_words;
        return own;
    }

    /// Count the sets of one or two rows of a list; returns their sum.
    template <int kWords>
    __device__ __forceinline__ unsigned long long close_list(const RowList& list, const int* places, int take) {
        constexpr int kHeld = kWords > 0 ? kWords : 2;
        const Arena::Mark mark = arena.mark();
        const RowList turned = turn_rows(list);
        unsigned long long held[kHeld] = {};
        unsigned long long below = 0;
        for (int row = take == 1 ? -1 : 0; row < (take == 1 ? 0 : list.n - 1); ++row) {
            const unsigned long long sum = warp_sum(close_row<kWords>(list, turned, places, row, held));
            below += sum;
            __syncwarp();
            if (row >= 0 && lane_id() == 0) of_rows[places[row]] += sum;
        }
#pragma unroll
        for (int k = 0; k < kWords; ++k) add_column(k, held[k]);
        __syncwarp();
        arena.release(mark);
        return below;
    }

    /// The later rows of a list that share enough columns with `row`, cut to these, and their places.
    template <int kWords>
    __device__ __forceinline__ RowList narrow(const RowList& list, const int* places, int row, const int** kept_places) {
        const int lane = lane_id(), n_words = kWords > 0 ? kWords : list.n_words;
        const int stride = list.n - row - 1;
        int* to = reinterpret_cast<int*>(arena.take(stride));
        RowList below{arena.take((long long)stride * n_words), 0, stride, n_words};
        for (int first = row + 1; first < list.n; first += kWarpSize) {
            const int other = first + lane;
            const bool kept = other < list.n && count_shared<kWords>(list, row, other) >= leaves.least;
            const unsigned all = __ballot_sync(kFullMask, kept);
            if (kept) {
                const int place = below.n + __popc(all & lanes_before(lane));
                to[place] = places[other];
                for (int k = 0; k < n_words; ++k) below.at(k, place) = list.at(k, row) & list.at(k, other);
            }
            below.n += __popc(all);
        }
        __syncwarp();
        words += (unsigned long long)stride * n_words;
        *kept_places = to;
        return below;
    }

    /// Count the sets of `take` rows of a list, at least one; returns their sum.
    template <int kWords>
    __device__ __forceinline__ unsigned long long count_in(RowList list, const int* places, int take) {
        unsigned long long below = 0;  // of the current list
        int depth = 0, next = 0;
        for (;;) {
            if (take <= 2) {
                below = close_list<kWords>(list, places, take);
            } else if (list.n - next >= take) {
                const Arena::Mark mark = arena.mark();
                const int* kept_places;
                const RowList kept = narrow<kWords>(list, places, next++, &kept_places);
                if (kept.n < take - 1) {
                    arena.release(mark);
                    continue;
                }
                if (lane_id() == 0)
                    frames[depth] = VertexFrame{list.words, places, below, mark, list.n, list.stride, next};
                __syncwarp();
                ++depth;
                --take;
                list = kept;
                places = kept_places;
                below = 0;
                next = 0;
                continue;
            }
            if (depth == 0) return below;
            __syncwarp();
            const VertexFrame frame = frames[--depth];
            ++take;
            list.words = frame.words;
            list.n = frame.n;
            list.stride = frame.stride;
            places = frame.places;
            next = frame.next;
            if (lane_id() == 0) of_rows[places[next - 1]] += below;
            below += frame.below;
            arena.release(frame.mark);
            __syncwarp();
        }
    }

    __device__ __forceinline__ unsigned long long count(const RowList& list, const int* places, int take) {
        return list.n_words == 1 ? count_in<1>(list, places, take) : count_in<0>(list, places, take);
    }
};
