// Local bit matrices: sets of a vertex's neighbourhood, numbered from 0, in 32-bit words.
//
// A warp, or a block, builds a matrix by rows or by columns from the adjacency of its rows or of its columns (`fill_rows`,
// `fill_columns`). A warp finds the rows that share enough columns with one row by intersection (`list_sharing_rows`), or
// the rows that hold enough of some columns by counting 1024 rows at a time in bit planes (`DenseRows`), and cuts rows to
// the columns of one row (`cut_rows`), so that most rows have one or two words; `narrow_rows` leads from list to list.
// Lists of rows are word-major: word k of row i is `words[k * stride + i]`, so that lanes with consecutive rows read
// consecutive words. `kWords` is the number of words if it is known at compile time, else 0.
// All lanes of a warp call functions together, unless their comments say otherwise; functions end with ordered writes.
#pragma once

#include "memory.cuh"

/// Planes of the row counters: a threshold is at most 2^kMaxPlanes.
constexpr int kMaxPlanes = BIT_PLANES;

/// A matrix by columns: bit i of column j is bit `i % 32` of `words[j * stride + i / 32]`.
struct BitColumns {
    unsigned* words;
    int n_columns;
    int n_rows;
    int stride;

    __device__ __forceinline__ unsigned bit(int row, int column) const {
        return words[(long long)column * stride + row / 32] >> (row & 31) & 1u;
    }
};

/// A list of n rows of `n_words` words.
struct RowList {
    unsigned* words;
    int n;
    int stride;
    int n_words;

    __device__ __forceinline__ unsigned& at(int word, int row) const {
        return words[(long long)word * stride + row];
    }
};

/// Neighbours: the neighbours of vertex x are `ids[indptr[x], indptr[x + 1])`, ascending.
struct Adjacency {
    const long long* indptr;
    const int* ids;

    __device__ __forceinline__ long long size(int x) const { return indptr[x + 1] - indptr[x]; }
};

/// Number of ids below `value`, of n ascending ids. Any lane alone.
__device__ __forceinline__ int count_below(const int* ids, int n, int value) {
    int low = 0, high = n;
#pragma unroll 1
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ids[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/// Place of `value` in the ascending ids, or -1. Any lane alone.
__device__ __forceinline__ int find_id(const int* ids, int n, int value) {
    const int place = count_below(ids, n, value);
    return place < n && ids[place] == value ? place : -1;
}

/// Write the ids that two vertices share, ascending, to `shared`; returns their number. The warp.
__device__ __forceinline__ int list_shared(const Adjacency& rows, int a, int b, int* shared) {
    const int* const of_a = rows.ids + rows.indptr[a];
    const int* const of_b = rows.ids + rows.indptr[b];
    const int n_a = (int)rows.size(a), n_b = (int)rows.size(b);
    int n = 0;
#pragma unroll 1
    for (int first = 0; first < n_b; first += kWarpSize) {
        const int at = first + lane_id();
        const bool both = at < n_b && find_id(of_a, n_a, of_b[at]) >= 0;
        const unsigned all = __ballot_sync(kFullMask, both);
        if (both) shared[n + __popc(all & lanes_before(lane_id()))] = of_b[at];
        n += __popc(all);
    }
    __syncwarp();
    return n;
}

/// The threads that fill a matrix together: a warp, as in most of this file.
struct WarpFill {
    static constexpr int kAhead = 1;       // ids that a lane looks up at a time
    static constexpr bool kTables = false;  // kernels of warps have no registers for them
    __device__ __forceinline__ static int rank() { return lane_id(); }
    __device__ __forceinline__ static int size() { return kWarpSize; }
    __device__ __forceinline__ static void sync() { __syncwarp(); }
    __device__ __forceinline__ static unsigned long long sum(unsigned long long value) { return warp_sum(value); }
};

/// A block of whole warps; all of its threads then hold the same arena.
struct BlockFill {
    static constexpr int kAhead = 4;
    static constexpr bool kTables = true;
    __device__ __forceinline__ static int rank() { return (int)threadIdx.x; }
    __device__ __forceinline__ static int size() { return (int)blockDim.x; }
    __device__ __forceinline__ static void sync() { __syncthreads(); }
    __device__ __forceinline__ static unsigned long long sum(unsigned long long value) {
        __shared__ unsigned long long of_warps[kWarpSize];
        const unsigned long long own = warp_sum(value);
        __syncthreads();
        if (lane_id() == 0) of_warps[threadIdx.x / kWarpSize] = own;
        __syncthreads();
        unsigned long long all = 0;
#pragma unroll 1
        for (int warp = 0; warp < (int)blockDim.x / kWarpSize; ++warp) all += of_warps[warp];
        return all;
    }
};

/// Places of ascending ids: by binary search, or, if near memory has room, by a word of bits and the place of its first
/// id for each 32 numbers from the first id to the last.
struct Places {
    const int* ids;
    int n;
    int first, last;
    uint2* words;  // or null

    __device__ __forceinline__ Places(const int* ids, int n)
        : ids(ids), n(n), first(ids[0]), last(ids[n - 1]), words(nullptr) {}

    /// `most`: ids to look up; if they are fewer than the numbers / 32, a table does not pay. The team.
    template <class Team>
    __device__ __forceinline__ void build(Arena& arena, unsigned long long most) {
        const int n_words = (last - first) / 32 + 1;
        if (most < (unsigned)n_words || arena.near_words - arena.near_used < 2 * n_words + 4) return;
        words = reinterpret_cast<uint2*>(arena.take(2 * n_words));
#pragma unroll 1
        for (int i = Team::rank(); i < n_words; i += Team::size()) words[i] = make_uint2(0, 0);
        Team::sync();
#pragma unroll 1
        for (int i = Team::rank(); i < n; i += Team::size()) {
            const int at = ids[i] - first;
            atomicOr(&words[at / 32].x, 1u << (at & 31));
            if (i == 0 || (ids[i - 1] - first) / 32 != at / 32) words[at / 32].y = (unsigned)i;
        }
        Team::sync();
    }

    /// The place of an id, or -1. Any lane alone.
    __device__ __forceinline__ int find(int id) const {
        if (words == nullptr) return find_id(ids, n, id);
        if (id < first || id > last) return -1;
        const int at = id - first;
        const uint2 word = words[at / 32];
        return word.x >> (at & 31) & 1u ? (int)word.y + __popc(word.x & lanes_before(at & 31)) : -1;
    }
};

/// Call `set(row, column)` for every entry of the matrix of the ascending `members` (rows) over the ascending `ids`
/// (columns), each by some thread; the team, a WarpFill or a BlockFill.
///
/// `rows` are the neighbours of members, `columns` the neighbours of ids. Looks up either the neighbours of all members
/// among the ids, or the neighbours of all ids, from the first member on, among the members, whichever are fewer. Eight
/// lanes share a member or an id.
template <class Team, class Set>
__device__ __forceinline__ void walk_edges(Arena& arena, const int* ids, int n_ids, const int* members, int n_members,
                                           const Adjacency& rows, const Adjacency& columns, const Set& set) {
    constexpr int kLanes = 8, kAhead = Team::kAhead;
    const int rank = Team::rank(), size = Team::size(), group = rank / kLanes;
    const Arena::Mark mark = arena.mark();
    int* starts = reinterpret_cast<int*>(arena.take(n_ids));
    unsigned long long by_ids = 0, by_members = 0;
#pragma unroll 1
    for (int j = rank; j < n_ids; j += size) {
        const int n = (int)columns.size(ids[j]);
        starts[j] = count_below(columns.ids + columns.indptr[ids[j]], n, members[0]);
        by_ids += (unsigned)(n - starts[j]);
    }
#pragma unroll 1
    for (int i = rank; i < n_members; i += size) by_members += (unsigned long long)rows.size(members[i]);
    Team::sync();
    // Lines are members or ids; their neighbours are looked up in the other.
    by_ids = Team::sum(by_ids);
    by_members = Team::sum(by_members);
    const bool walks_ids = by_ids <= by_members;
    const long long* indptr = walks_ids ? columns.indptr : rows.indptr;
    const int* neighbours = walks_ids ? columns.ids : rows.ids;
    const int* numbers = walks_ids ? ids : members;
    const int n_lines = walks_ids ? n_ids : n_members;
    Places places(walks_ids ? members : ids, walks_ids ? n_members : n_ids);
    if (Team::kTables) places.build<Team>(arena, walks_ids ? by_ids : by_members);
#pragma unroll 1
    for (int line = group; line < n_lines; line += size / kLanes) {
        const long long end = indptr[numbers[line] + 1];
        long long at = indptr[numbers[line]] + rank % kLanes + (walks_ids ? starts[line] : 0);
#pragma unroll 1
        for (; at < end; at += kAhead * kLanes) {
            int found[kAhead];
#pragma unroll
            for (int k = 0; k < kAhead; ++k) found[k] = at + k * kLanes < end ? neighbours[at + k * kLanes] : -1;
#pragma unroll
            for (int k = 0; k < kAhead; ++k) found[k] = places.find(found[k]);
#pragma unroll
            for (int k = 0; k < kAhead; ++k)
                if (found[k] >= 0) set(walks_ids ? found[k] : line, walks_ids ? line : found[k]);
        }
    }
    Team::sync();
    arena.release(mark);
}

/// The matrix of `members` over `ids` by columns; see walk_edges.
__device__ __forceinline__ BitColumns fill_columns(Arena& arena, const int* ids, int n_ids, const int* members,
                                                   int n_members, const Adjacency& rows, const Adjacency& columns) {
    const int stride = words_for(n_members);
    const long long size = (long long)n_ids * stride;
    const BitColumns matrix{arena.take(size), n_ids, n_members, stride};
#pragma unroll 1
    for (long long i = lane_id(); i < size; i += kWarpSize) matrix.words[i] = 0;
    walk_edges<WarpFill>(arena, ids, n_ids, members, n_members, rows, columns, [&](int row, int column) {
        atomicOr(&matrix.words[(long long)column * stride + row / 32], 1u << (row & 31));
    });
    return matrix;
}

/// The matrix of `members` over `ids` as a list of rows; see walk_edges.
template <class Team = WarpFill>
__device__ __forceinline__ RowList fill_rows(Arena& arena, const int* ids, int n_ids, const int* members, int n_members,
                                             const Adjacency& rows, const Adjacency& columns) {
    const int n_words = words_for(n_ids);
    const long long size = (long long)n_members * n_words;
    const RowList list{arena.take(size), n_members, n_members, n_words};
#pragma unroll 1
    for (long long i = Team::rank(); i < size; i += Team::size()) list.words[i] = 0;
    walk_edges<Team>(arena, ids, n_ids, members, n_members, rows, columns,
                     [&](int row, int column) { atomicOr(&list.at(column / 32, row), 1u << (column & 31)); });
    return list;
}

/// Write the columns that hold a row, ascending, to `columns`; returns their number. The warp.
__device__ __forceinline__ int list_columns(const BitColumns& matrix, int row, int* columns) {
    const int lane = lane_id();
    int n = 0;
#pragma unroll 1
    for (int first = 0; first < matrix.n_columns; first += kWarpSize) {
        const int column = first + lane;
        const bool held = column < matrix.n_columns && matrix.bit(row, column) != 0;
        const unsigned all = __ballot_sync(kFullMask, held);
        if (held) columns[n + __popc(all & lanes_before(lane))] = column;
        n += __popc(all);
    }
    __syncwarp();
    return n;
}

/// Add a bit to each of 32 counts in the first `n_planes` bit planes; returns the counts that overflow. Any lane alone.
template <int kPlanes>
__device__ __forceinline__ unsigned add_bits(unsigned (&plane)[kPlanes], int n_planes, unsigned carry) {
#pragma unroll
    for (int k = 0; k < kPlanes; ++k) {
        if (k >= n_planes) break;
        const unsigned sum = plane[k] ^ carry;
        carry &= plane[k];
        plane[k] = sum;
    }
    return carry;
}

/// Counts of up to 32 rows in bit planes; `reached` are the rows with at least `least` of the added columns.
struct DenseRows {
    unsigned plane[kMaxPlanes];
    unsigned reached;
    int n_planes;

    __device__ __forceinline__ explicit DenseRows(int least) : reached(0), n_planes(32 - __clz(least - 1)) {
        // The planes start at 2^n_planes - least: the count overflows when it reaches `least`.
        const unsigned start = (1u << n_planes) - (unsigned)least;
#pragma unroll
        for (int k = 0; k < kMaxPlanes; ++k) plane[k] = start >> k & 1u ? kFullMask : 0u;
    }
    __device__ __forceinline__ void add(unsigned rows) { reached |= add_bits(plane, n_planes, rows); }
};

/// Write the rows after `row` with at least `least` (2 or more) of the columns, ascending, to `rows`; returns their number.
__device__ __forceinline__ int list_dense_rows(const BitColumns& matrix, int row, const int* columns, int n_columns,
                                               int least, int* rows) {
    int n = 0;
#pragma unroll 1
    for (int first = (row + 1) / 32; first < matrix.stride; first += kWarpSize) {
        const int group = first + lane_id();
        unsigned reached = 0;
        if (group < matrix.stride) {
            DenseRows counted(least);
#pragma unroll 1
            for (int j = 0; j < n_columns; ++j)
                counted.add(matrix.words[(long long)columns[j] * matrix.stride + group]);
            reached = counted.reached;
            if (group == (row + 1) / 32) reached &= kFullMask << ((row + 1) & 31);
        }
        const unsigned found = __popc(reached);
        const unsigned until = warp_inclusive_sum(found);
        int place = n + (int)(until - found);
#pragma unroll 1
        for (; reached != 0; reached &= reached - 1) rows[place++] = group * 32 + __ffs((int)reached) - 1;
        n += (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    __syncwarp();
    return n;
}

/// Word `word` of a row over the listed columns. Any lane alone.
__device__ __forceinline__ unsigned gather_word(const BitColumns& matrix, int row, const int* columns, int n_columns,
                                                int word) {
    unsigned bits = 0;
    const int here = min(32, n_columns - 32 * word);
#pragma unroll 4
    for (int j = 0; j < here; ++j) bits |= matrix.bit(row, columns[32 * word + j]) << j;
    return bits;
}

/// Size of the intersection of two rows.
template <int kWords>
__device__ __forceinline__ int count_shared(const RowList& list, int a, int b) {
    const int n_words = kWords > 0 ? kWords : list.n_words;
    int size = 0;
#pragma unroll
    for (int k = 0; k < n_words; ++k) size += __popc(list.at(k, a) & list.at(k, b));
    return size;
}

/// Columns of a row. Any lane alone.
__device__ __forceinline__ int count_row(const RowList& list, int row) {
    int size = 0;
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k) size += __popc(list.at(k, row));
    return size;
}

/// Columns of a row in a set. Any lane alone.
__device__ __forceinline__ int count_in_set(const RowList& list, int row, const unsigned* set) {
    int size = 0;
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k) size += __popc(set[k] & list.at(k, row));
    return size;
}

/// Whether every column of row a is in row b. Any lane alone.
__device__ __forceinline__ bool is_inside(const RowList& list, int a, int b) {
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k)
        if ((list.at(k, a) & ~list.at(k, b)) != 0) return false;
    return true;
}

/// Columns of a row.
__device__ __forceinline__ int row_size(const RowList& list, int row) {
    unsigned size = 0;
#pragma unroll 1
    for (int k = lane_id(); k < list.n_words; k += kWarpSize) size += (unsigned)__popc(list.at(k, row));
    return (int)warp_total(size);
}

/// Maximum number of columns of a row of a list.
__device__ __forceinline__ int max_columns(const RowList& list) {
    unsigned most = 0;
#pragma unroll 1
    for (int i = lane_id(); i < list.n; i += kWarpSize) most = max(most, (unsigned)count_row(list, i));
    return (int)~warp_least(~most);
}

/// Write the union of the rows of a list to `set`; returns its size.
__device__ __forceinline__ int unite_rows(const RowList& list, unsigned* set) {
    int n = 0;
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k) {
        unsigned word = 0;
#pragma unroll 1
        for (int i = lane_id(); i < list.n; i += kWarpSize) word |= list.at(k, i);
        word = warp_or(word);
        if (lane_id() == 0) set[k] = word;
        n += __popc(word);
    }
    __syncwarp();
    return n;
}

/// Write the rows after `row` that share at least `least` columns with it, ascending, to `rows`; returns their number.
__device__ __forceinline__ int list_sharing_rows(const RowList& list, int row, int least, int* rows) {
    int n = 0;
#pragma unroll 1
    for (int first = row + 1; first < list.n; first += kWarpSize) {
        const int other = first + lane_id();
        const bool kept = other < list.n && count_shared<0>(list, row, other) >= least;
        const unsigned all = __ballot_sync(kFullMask, kept);
        if (kept) rows[n + __popc(all & lanes_before(lane_id()))] = other;
        n += __popc(all);
    }
    __syncwarp();
    return n;
}

/// A row over the columns of `set` alone, at most 32, renumbered from the last on. Words of the set are `stride` apart.
/// Any lane alone.
__device__ __forceinline__ unsigned pack_row(const RowList& list, int row, const unsigned* set, int stride) {
    unsigned packed = 0;
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k) {
        const unsigned word = list.at(k, row);
#pragma unroll 1
        for (unsigned rest = set[(long long)k * stride]; rest != 0; rest &= rest - 1)
            packed = 2 * packed + ((word & rest & (0u - rest)) != 0 ? 1u : 0u);
    }
    return packed;
}

/// The listed rows over the `n_columns` columns of `set`, renumbered. Words of the set are `stride` apart.
__device__ __forceinline__ RowList cut_rows(Arena& arena, const RowList& list, const unsigned* set, int stride, int n_columns,
                                            const int* rows, int n) {
    const int n_words = words_for(n_columns);
    const RowList cut{arena.take((long long)n * n_words), n, n, n_words};
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) {
        unsigned bits = 0;
        int column = 0;
#pragma unroll 1
        for (int k = 0; k < list.n_words; ++k) {
            const unsigned word = list.at(k, rows[i]);
#pragma unroll 1
            for (unsigned mask = set[(long long)k * stride]; mask != 0; mask &= mask - 1) {
                bits |= (word >> (__ffs((int)mask) - 1) & 1u) << (column & 31);
                if ((++column & 31) != 0) continue;
                cut.at(column / 32 - 1, i) = bits;
                bits = 0;
            }
        }
        if ((column & 31) != 0) cut.at(column / 32, i) = bits;
    }
    __syncwarp();
    return cut;
}

/// The listed rows over the columns of `row`, in place.
__device__ __forceinline__ RowList mask_rows(Arena& arena, const RowList& list, int row, const int* rows, int n) {
    const RowList cut{arena.take((long long)n * list.n_words), n, n, list.n_words};
#pragma unroll 1
    for (int k = 0; k < list.n_words; ++k) {
        const unsigned held = list.at(k, row);
#pragma unroll 1
        for (int i = lane_id(); i < n; i += kWarpSize) cut.at(k, i) = held & list.at(k, rows[i]);
    }
    __syncwarp();
    return cut;
}

/// Move the rows [begin, end) for which `kept(row)` holds, cut to the columns of `mask` (null: all), to `list` from row
/// `place` on, in order; returns their end. `list` may be `from`, with `place` not after `begin`; then `kept` may read its
/// own row and no row that moves.
template <class Kept>
__device__ __forceinline__ int move_rows(const RowList& from, int begin, int end, const unsigned* mask, const RowList& list,
                                         int place, const Kept& kept) {
#pragma unroll 1
    for (int first = begin; first < end; first += kWarpSize) {
        const int row = first + lane_id();
        const bool stays = row < end && kept(row);
        const unsigned all = __ballot_sync(kFullMask, stays);
        const int to = place + __popc(all & lanes_before(lane_id()));
#pragma unroll 1
        for (int k = 0; k < from.n_words; ++k) {
            const unsigned word = stays ? from.at(k, row) & (mask == nullptr ? kFullMask : mask[k]) : 0u;
            __syncwarp();
            if (stays) list.at(k, to) = word;
            __syncwarp();
        }
        place += __popc(all);
    }
    return place;
}

/// The later rows of a list that share at least `least` columns with `row`, cut to these.
template <int kWords>
__device__ __forceinline__ RowList narrow_rows(Arena& arena, const RowList& list, int row, int least) {
    const int lane = lane_id();
    const int n_words = kWords > 0 ? kWords : list.n_words;
    const int stride = list.n - row - 1;
    RowList narrow{arena.take((long long)stride * n_words), 0, stride, n_words};
#pragma unroll 1
    for (int first = row + 1; first < list.n; first += kWarpSize) {
        const int other = first + lane;
        const bool kept = other < list.n && count_shared<kWords>(list, row, other) >= least;
        const unsigned all = __ballot_sync(kFullMask, kept);
        if (kept) {
            const int place = narrow.n + __popc(all & lanes_before(lane));
#pragma unroll 1
            for (int k = 0; k < n_words; ++k) narrow.at(k, place) = list.at(k, row) & list.at(k, other);
        }
        narrow.n += __popc(all);
    }
    __syncwarp();
    return narrow;
}

/// Transpose a 32 x 32 matrix whose rows the lanes hold: lane j gets column j. Swaps the halves off the diagonal, then the
/// halves of each quarter, and so on.
__device__ __forceinline__ unsigned transpose_word(unsigned word) {
#pragma unroll
    for (int half = kWarpSize / 2; half > 0; half >>= 1) {
        const unsigned low = kFullMask / ((1u << half) + 1u);  // the lower half of each 2 * half bits
        const bool is_high = (lane_id() & half) != 0;
        const unsigned other = __shfl_xor_sync(kFullMask, word, half);
        word = is_high ? word & ~low | other >> half & low : word & low | other << half & ~low;
    }
    return word;
}

/// Words of the columns of a matrix by groups of 32 rows, beside each other: word k of column j is `at(k, j)`.
__device__ __forceinline__ RowList group_rows(Arena& arena, const BitColumns& matrix) {
    const int n = matrix.n_columns;
    const RowList groups{arena.take((long long)n * matrix.stride), n, n, matrix.stride};
#pragma unroll 1
    for (int k = 0; k < matrix.stride; ++k)
        for (int j = lane_id(); j < n; j += kWarpSize) groups.at(k, j) = matrix.words[(long long)j * matrix.stride + k];
    __syncwarp();
    return groups;
}

/// The number of the listed columns that hold row i of a group, in lane i; `words` has the group's word of every column. The
/// warp.
__device__ __forceinline__ int count_columns(const unsigned* words, const int* columns, int n_columns) {
    constexpr int kPlanes = 6, kMost = (1 << kPlanes) - 1;  // columns that a lane counts at once
    int size = 0;
#pragma unroll 1
    for (int begin = 0; begin < n_columns; begin += kMost * kWarpSize) {
        const int end = min(n_columns, begin + kMost * kWarpSize);
        const int n_planes = 32 - __clz((end - begin + kWarpSize - 1) / kWarpSize);
        unsigned plane[kPlanes] = {};
#pragma unroll 4
        for (int first = begin; first < end; first += kWarpSize) {
            const int place = first + lane_id();
            add_bits(plane, n_planes, place < end ? words[columns[place]] : 0u);
        }
#pragma unroll
        for (int k = 0; k < kPlanes; ++k)
            if (k < n_planes) size += __popc(transpose_word(plane[k])) << k;
    }
    return size;
}

/// The columns of a list of rows, as a list.
__device__ __forceinline__ RowList transpose_rows(Arena& arena, const RowList& rows, int n_columns) {
    const int lane = lane_id();
    const int n_words = words_for(rows.n);
    const RowList columns{arena.take((long long)n_columns * n_words), n_columns, n_columns, n_words};
#pragma unroll 1
    for (int k = 0; k < n_words; ++k) {
        const int row = 32 * k + lane;
#pragma unroll 1
        for (int w = 0; w < rows.n_words; ++w) {
            const int here = min(32, n_columns - 32 * w);
            const unsigned column = transpose_word(row < rows.n ? rows.at(w, row) : 0u);
            if (lane < here) columns.at(k, 32 * w + lane) = column;
        }
    }
    __syncwarp();
    return columns;
}
