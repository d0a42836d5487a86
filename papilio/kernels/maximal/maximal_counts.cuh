// The roots of maximal bicliques, and the rows of their matrices.
#pragma once

#include "bit_matrix.cuh"
#include "leaves.cuh"
#include "records.cuh"
#include "search.cuh"
#include "warp.cuh"

#define ROOT_PARAMETERS                                                                                                \
    const long long *__restrict__ indptr, const int *__restrict__ columns, const long long *__restrict__ hop_indptr,   \
        const int *__restrict__ hop, const long long *__restrict__ earlier_indptr, const int *__restrict__ earlier
/// The same layout as a RootGraph.
#define ROOT_ARGUMENTS {indptr, columns, hop_indptr, hop, earlier_indptr, earlier}

/// Left vertices with their right ones, and with the earlier and later left ones that share enough right ones.
struct RootGraph {
    const long long* indptr;
    const int* columns;
    const long long* hop_indptr;
    const int* hop;
    const long long* earlier_indptr;
    const int* earlier;

    __device__ __forceinline__ int n_columns(int root) const { return (int)(indptr[root + 1] - indptr[root]); }

    __device__ __forceinline__ int n_before(int root) const {
        return (int)(earlier_indptr[root + 1] - earlier_indptr[root]);
    }

    __device__ __forceinline__ int n_rows(int root) const {
        return n_before(root) + (int)(hop_indptr[root + 1] - hop_indptr[root]);
    }

    /// The left vertex of a row of a root's matrix.
    __device__ __forceinline__ int row_vertex(int root, int row) const {
        const int before = n_before(root);
        return row < before ? earlier[earlier_indptr[root] + row] : hop[hop_indptr[root] + row - before];
    }
};

// Lists of rows of at most 64 columns, a word each: operations of a search for maximal bicliques on excluded rows.

typedef unsigned long long Word;

/// Like warp_sum, for places where that is not worth its instructions.
__device__ __noinline__ Word sum_words(Word word) { return warp_sum(word); }

struct RowLists {
    static constexpr int kSeen = MAXIMAL_SEEN;

    Word* seen;  // kSeen rows, in the warp's shared memory
    int least;   // minimum columns of a relevant row

    /// Prepare for calls of is_new; the warp.
    __device__ __forceinline__ void forget_rows() const {
        __syncwarp();
#pragma unroll 1
        for (int i = lane_id(); i < kSeen; i += kWarpSize) seen[i] = 0;
        __syncwarp();
    }

    /// Return whether a row, not 0, was not passed before, as far as the table can tell; any lane alone.
    __device__ __forceinline__ bool is_new(Word row) const {
        const unsigned slot = (unsigned)(row * 0x9e3779b97f4a7c15ull >> 32) % kSeen;
        return atomicExch(&seen[slot], row) != row;
    }

    /// Write the rows, cut to `span`, that keep enough columns, without the duplicates that are seen. `to` must not be
    /// after `from`, and may overlap it. Returns the number of rows written.
    __device__ __forceinline__ int keep_useful(const Word* from, int n, Word span, Word* to) const {
        forget_rows();
        int n_kept = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const Word row = first + lane_id() < n ? from[first + lane_id()] & span : 0;
            const bool is_kept = __popcll(row) >= least && is_new(row);
            const unsigned kept = __ballot_sync(kFullMask, is_kept);
            __syncwarp();
            if (is_kept) to[n_kept + __popc(kept & lanes_before(lane_id()))] = row;
            __syncwarp();
            n_kept += __popc(kept);
        }
        return n_kept;
    }

    /// Keep, of n rows, those that lie inside no row before them or in the same step of the warp; return the number
    /// left. Rows with many columns should come first: then few rows are kept that lie inside another one, and the
    /// steps are few.
    __device__ __noinline__ static int keep_largest(Word* rows, int n) {
        const int lane = lane_id();
        int n_kept = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const Word row = first + lane < n ? rows[first + lane] : 0;
            bool is_inside = first + lane >= n;
#pragma unroll 4
            for (int i = 0; i < n_kept; ++i) is_inside |= (row & ~rows[i]) == 0;
            // Inclusion is transitive, so that rows already dropped are skipped.
#pragma unroll 1
            for (unsigned left = __ballot_sync(kFullMask, !is_inside); left != 0;) {
                const int i = __ffs((int)left) - 1;
                const Word other = __shfl_sync(kFullMask, row, i);
                is_inside |= (row & ~other) == 0 && i != lane && (row != other || i < lane);
                left = __ballot_sync(kFullMask, (left >> lane & 1u) != 0 && i < lane && !is_inside);
            }
            const unsigned kept = __ballot_sync(kFullMask, !is_inside);
            __syncwarp();
            if (kept >> lane & 1u) rows[n_kept + __popc(kept & lanes_before(lane))] = row;
            __syncwarp();
            n_kept += __popc(kept);
        }
        return n_kept;
    }

    /// Drop the rows, and their hashes, that lie inside an excluded row; return the number left.
    __device__ __noinline__ static int drop_covered(Word* rows, Word* hashes, int n, const Word* excluded, int n_excluded) {
        const int lane = lane_id();
        // Either compare 32 rows with each excluded one, or each row with 32 excluded ones, which can end early.
        const bool by_excluded = words_for(n) * n_excluded < n * words_for(n_excluded);
        int n_left = 0;
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const bool is_row = first + lane < n;
            const Word row = is_row ? rows[first + lane] : 0, hash = is_row ? hashes[first + lane] : 0;
            unsigned left = __ballot_sync(kFullMask, is_row);
            if (by_excluded) {
                bool is_covered = false;
#pragma unroll 4
                for (int i = 0; i < n_excluded; ++i) is_covered |= (row & ~excluded[i]) == 0;
                left &= ~__ballot_sync(kFullMask, is_covered);
            } else {
#pragma unroll 1
                for (unsigned rest = left; rest != 0; rest &= rest - 1) {
                    const Word other = __shfl_sync(kFullMask, row, __ffs((int)rest) - 1);
                    bool is_covered = false;
#pragma unroll 1
                    for (int i = 0; i < n_excluded && !is_covered; i += kWarpSize)
                        is_covered = __any_sync(kFullMask, i + lane < n_excluded &&
                                                   (other & ~excluded[min(i + lane, n_excluded - 1)]) == 0) != 0;
                    if (is_covered) left &= ~(rest & (0u - rest));
                }
            }
            __syncwarp();
            if (left >> lane & 1u) {
                rows[n_left + __popc(left & lanes_before(lane))] = row;
                hashes[n_left + __popc(left & lanes_before(lane))] = hash;
            }
            __syncwarp();
            n_left += __popc(left);
        }
        return n_left;
    }
};

// Results of the search for maximal bicliques: the number of each size, and the sum of their hashes.
//
// A warp gathers 32 maximal bicliques, one in each lane; then every lane computes the hash of its own, in a function
// that is not inlined, because it is long and called from many places. If both sizes are below kSide, the block counts
// in shared memory, in 32 bits that carry into the table in device memory, which has all other sizes. With LISTS
// nothing is counted: each biclique is a record of its root, the number of its rows, and its columns.

/// Limits of the sizes to count; rows are left, columns right.
struct SizeLimits {
    int min_left;
    int max_left;
    int min_right;
    int max_right;

    /// Return whether a biclique with at least the minimum number of columns is wanted.
    __device__ __forceinline__ bool has(int n_columns, int n_rows) const {
        return n_rows >= min_left && n_rows <= max_left && n_columns <= max_right;
    }
};

/// Counters of maximal bicliques by size; the block has one.
struct SizeTable {
    static constexpr int kSide = MAXIMAL_SIDE;

    SizeLimits limits;
    unsigned long long* keys;  // of a LeafTable
    unsigned long long* by_key;
    unsigned n_keys;
    int* full;
    unsigned sizes[kSide * kSide];

    /// Initialize; the block.
    __device__ __forceinline__ void open(const SizeLimits& asked, unsigned long long* to_keys, unsigned long long* to_counts,
                                         unsigned n, int* to_full) {
        if (threadIdx.x == 0) {
            limits = asked;
            keys = to_keys;
            by_key = to_counts;
            n_keys = n;
            full = to_full;
        }
        for (int i = threadIdx.x; i < kSide * kSide; i += blockDim.x) sizes[i] = 0;
        __syncthreads();
    }

    /// Count one with the hash of all its vertices, if it is wanted; returns its share of the checksum. Any lane alone.
    __device__ __forceinline__ Word count(int n_columns, int n_rows, Word all) {
        if (!limits.has(n_columns, n_rows)) return 0;
        const bool is_small = n_columns < kSide && n_rows < kSide;
        const bool carries = is_small && atomicAdd(&sizes[n_columns * kSide + n_rows], 1u) == ~0u;
        if (carries || !is_small) insert(leaves(), n_columns, n_rows, is_small ? 1ull << 32 : 1ull);
        return mix(all);
    }

    /// Add the counters of the block to the table; the block, when all of its warps are done.
    __device__ __forceinline__ void close() {
        __syncthreads();
        for (int i = threadIdx.x; i < kSide * kSide; i += blockDim.x)
            if (sizes[i] != 0) insert(leaves(), i / kSide, i % kSide, sizes[i]);
    }

    /// Return whether the table overflowed; the warp.
    __device__ __forceinline__ bool is_full() const { return leaves().is_full(); }

    __device__ __forceinline__ LeafTable leaves() const { return LeafTable(keys, by_key, n_keys, full); }

  private:
    /// Any lane alone.
    __device__ __noinline__ static void insert(LeafTable table, int n_columns, int n_rows, Word count) {
        table.insert((Word)(unsigned)n_columns << 32 | (unsigned)n_rows, count);
    }
};

// Functions that are not inlined locate shared memory themselves: a pointer could refer to any memory.

__device__ __forceinline__ SizeTable& size_table() {
    __shared__ SizeTable tables[1];
    return tables[0];
}

/// The block's dynamic shared memory from a word on.
__device__ __forceinline__ unsigned* shared_words(int at) { return warp_memory(0) + at; }

/// Add the hashes of columns, at most 64, a bit each; any lane alone.
__device__ __forceinline__ Word hash_bits(const Word* column_hash, Word columns) {
    Word hash = 0;
#pragma unroll 1
    for (; columns != 0; columns &= columns - 1) hash += column_hash[__ffsll((long long)columns) - 1];
    return hash;
}

/// Count the biclique of this lane, with `columns` among the columns whose hashes are at `hashes_at`; returns its share
/// of the checksum. Any lane alone.
__device__ __noinline__ Word count_one(int hashes_at, Word columns, Word hash, int width, int height) {
    const Word* const column_hash = reinterpret_cast<const Word*>(shared_words(hashes_at));
    return size_table().count(width, height, hash + hash_bits(column_hash, columns));
}

struct MaximalCounts {
    SizeLimits limits;
    int hashes_at;  // words of dynamic shared memory before the warp's hashes of 64 columns,
    int table_at;   // and before kTableWords of it
    Word checksum;      // of this lane
    // The biclique that this lane keeps: its columns among the current ones, the number of all its columns, the hash of
    // its other vertices, and the number of its rows.
    Word columns;
    Word hash;
    int width;
    int height;
    int n_held;
    RecordSink sink;

    /// The hashes of the current columns.
    __device__ __forceinline__ Word* column_hash() const { return reinterpret_cast<Word*>(shared_words(hashes_at)); }

    /// Add a biclique with `columns` among the current ones, and `hash` for all other vertices; the warp, with the same
    /// arguments in every lane.
    __device__ __forceinline__ void add(Word own, int n_columns, Word rest, int n_rows) {
        if constexpr (kLists) {
            // With LISTS, hashes are numbers: a column has its own, and the rows taken have the root's.
            if (!limits.has(n_columns, n_rows)) return;
            sink.write(2 + __popcll(own), [&](const auto& visit) {
                write_head(visit, (int)rest, n_rows);
#pragma unroll 1
                for (int bit = lane_id(); bit < 64; bit += kWarpSize)
                    if (own >> bit & 1ull) visit(2 + __popcll(own & ((1ull << bit) - 1)), (int)column_hash()[bit]);
            });
            return;
        }
        if (lane_id() == n_held) {
            columns = own;
            hash = rest;
            width = n_columns;
            height = n_rows;
        }
        if (++n_held == kWarpSize) flush();
    }

    /// Add a biclique with the listed columns of the root, or with all if the list is null; the warp, with the same
    /// arguments in every lane.
    __device__ __forceinline__ void list(int root, const int* of_root, const int* chosen, int n_columns, int n_rows) {
        if (!limits.has(n_columns, n_rows)) return;
        sink.write(2 + n_columns, [&](const auto& visit) {
            write_head(visit, root, n_rows);
#pragma unroll 1
            for (int j = lane_id(); j < n_columns; j += kWarpSize) visit(2 + j, of_root[chosen == nullptr ? j : chosen[j]]);
        });
    }

    /// Flush before the current columns change; the warp.
    __device__ __forceinline__ void resolve() {
        hash += hash_bits(column_hash(), columns);
        columns = 0;
        __syncwarp();
    }

    /// Count the kept bicliques; the warp.
    __device__ __forceinline__ void flush() {
        if (lane_id() < n_held) checksum += count_one(hashes_at, columns, hash, width, height);
        columns = 0;
        n_held = 0;
        __syncwarp();
    }

  private:
    template <class Visit>
    __device__ __forceinline__ static void write_head(const Visit& visit, int root, int n_rows) {
        if (lane_id() < 2) visit(lane_id(), lane_id() == 0 ? root : n_rows);
    }
};
