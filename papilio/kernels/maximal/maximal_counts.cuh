// Maximal bicliques as they are found: how many there are of each size, and the sum of their hashes.
//
// A warp gathers 32 of them, one in each lane; then every lane works out the hash of its own, in a function that is not
// inlined: it is long, and called from many places. Sizes below kSide of both
// sides are counted in shared memory by the block, in 32 bits that carry into the table in device memory, where all
// other sizes are. With LISTS nothing is counted: each is a record of its root, the number of its rows, and its columns.
#pragma once

#include "leaf_table.cuh"
#include "maximal_lists.cuh"
#include "mix.cuh"
#include "records.cuh"
#include "search.cuh"

/// What is counted; rows are left, columns right.
struct SizeLimits {
    int least_left;
    int most_left;
    int least_right;
    int most_right;

    /// Whether a biclique of at least the least number of columns is asked for.
    __device__ __forceinline__ bool has(int n_columns, int n_rows) const {
        return n_rows >= least_left && n_rows <= most_left && n_columns <= most_right;
    }
};

/// Where maximal bicliques are counted by size; the block has one.
struct SizeTable {
    static constexpr int kSide = MAXIMAL_SIDE;

    SizeLimits limits;
    unsigned long long* keys;  // of a LeafTable
    unsigned long long* by_key;
    unsigned n_keys;
    int* full;
    unsigned sizes[kSide * kSide];

    /// Make it ready; the block.
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

    /// Count one with the hash of all that it has, if it is asked for; returns what it adds to the checksum. Any lane alone.
    __device__ __forceinline__ Word count(int n_columns, int n_rows, Word all) {
        if (!limits.has(n_columns, n_rows)) return 0;
        const bool is_small = n_columns < kSide && n_rows < kSide;
        const bool carries = is_small && atomicAdd(&sizes[n_columns * kSide + n_rows], 1u) == ~0u;
        if (carries || !is_small) insert(leaves(), n_columns, n_rows, is_small ? 1ull << 32 : 1ull);
        return mix(all);
    }

    /// Bring the counters of the block to the table; the block, when all of its warps are done.
    __device__ __forceinline__ void close() {
        __syncthreads();
        for (int i = threadIdx.x; i < kSide * kSide; i += blockDim.x)
            if (sizes[i] != 0) insert(leaves(), i / kSide, i % kSide, sizes[i]);
    }

    /// Whether sizes found no room; the warp.
    __device__ __forceinline__ bool is_full() const { return leaves().is_full(); }

    __device__ __forceinline__ LeafTable leaves() const { return LeafTable(keys, by_key, n_keys, full); }

  private:
    /// Any lane alone.
    __device__ __noinline__ static void insert(LeafTable table, int n_columns, int n_rows, Word count) {
        table.insert((Word)(unsigned)n_columns << 32 | (unsigned)n_rows, count);
    }
};

// Functions that are not inlined find what is in shared memory by themselves: behind a pointer it could be anywhere.

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

/// Count the one of this lane, which has `columns` of those whose hashes are at `hashes_at`; returns what it adds to the
/// checksum. Any lane alone.
__device__ __noinline__ Word count_one(int hashes_at, Word columns, Word hash, int width, int height) {
    const Word* const column_hash = reinterpret_cast<const Word*>(shared_words(hashes_at));
    return size_table().count(width, height, hash + hash_bits(column_hash, columns));
}

struct MaximalCounts {
    SizeLimits limits;
    int hashes_at;  // words of dynamic shared memory before the warp's hashes of 64 columns,
    int table_at;   // and before kTableWords of it
    Word checksum;      // of this lane
    // The one that this lane keeps: its columns among those at hand, how many it has in all, the hash of what else it
    // has, and how many rows.
    Word columns;
    Word hash;
    int width;
    int height;
    int n_held;
    RecordSink sink;

    /// The hashes of the columns at hand.
    __device__ __forceinline__ Word* column_hash() const { return reinterpret_cast<Word*>(shared_words(hashes_at)); }

    /// One that has `columns` of those at hand, and `hash` for all else; the warp, with the same in every lane.
    __device__ __forceinline__ void add(Word own, int n_columns, Word rest, int n_rows) {
        if constexpr (kLists) {
            // Hashes are numbers here: of a column its own, and of the rows taken that of the root.
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

    /// One that has columns of the root, in a list or, if that is null, all; the warp, with the same in every lane.
    __device__ __forceinline__ void list(int root, const int* of_root, const int* chosen, int n_columns, int n_rows) {
        if (!limits.has(n_columns, n_rows)) return;
        sink.write(2 + n_columns, [&](const auto& visit) {
            write_head(visit, root, n_rows);
#pragma unroll 1
            for (int j = lane_id(); j < n_columns; j += kWarpSize) visit(2 + j, of_root[chosen == nullptr ? j : chosen[j]]);
        });
    }

    /// Before the columns at hand change; the warp.
    __device__ __forceinline__ void resolve() {
        hash += hash_bits(column_hash(), columns);
        columns = 0;
        __syncwarp();
    }

    /// Count what is kept; the warp.
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
