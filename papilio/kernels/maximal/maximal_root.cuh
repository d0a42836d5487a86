// The current root of a search for maximal bicliques: its rows, and the rows that share enough columns with a branch.
//
// All functions are called by the warp together unless stated otherwise, and end with their writes ordered.
#pragma once

#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "maximal_subsets.cuh"

/// The columns of a node: the nonzero words with their places, and all columns one after the other, ascending.
struct ColumnWords {
    unsigned* words;
    int* places;
    int* columns;
    int n;
    int n_columns;
};

/// The rows of two sets that remain in a branch: candidates and excluded rows that share enough columns with it.
struct Below {
    bool is_extended;  // an excluded row has all columns of the branch; the other fields are then undefined
    int n_kept;        // candidates, without those that have all columns
    int n_useful;      // excluded rows
    int n_joined;      // candidates that have all columns
    Word hash;         // the sum of their hashes
};

struct Root {
    const unsigned* by_rows;     // word k of row j is by_rows[k * n_rows + j]
    const unsigned* by_columns;  // word k of the rows that have column j is by_columns[j * n_sets + k]
    const int* columns;          // right vertices
    const int* before;           // left vertices of the rows, first those that are excluded, then all others
    const int* after;
    const Word* left_hash;
    const Word* right_hash;
    int vertex;
    int n_columns;
    int n_words;  // of a row
    int n_rows;
    int n_before;
    int n_sets;  // words of a set of rows

    __device__ __forceinline__ unsigned word(int k, int row) const { return by_rows[(long long)k * n_rows + row]; }

    /// Return the hash of a row; any lane alone.
    __device__ __forceinline__ Word row_hash(int row) const {
        return left_hash[row < n_before ? before[row] : after[row - n_before]];
    }

    /// Return word k of the rows excluded from a branch: from the sets of a node (candidates, then excluded rows) or,
    /// without a node, from the root, whose branches follow the order of the rows. Any lane alone.
    __device__ __forceinline__ unsigned excluded_from(const unsigned* sets, int branch, int k) const {
        return sets == nullptr ? bits_below(branch - 32 * k) : sets[n_sets + k];
    }

    /// Return word k of the other candidates that may be taken with it.
    __device__ __forceinline__ unsigned left_after(const unsigned* sets, int branch, int k) const {
        if (sets == nullptr) return bits_below(n_rows - 32 * k) & ~bits_below(branch + 1 - 32 * k);
        return sets[k] & ~(branch / 32 == k ? 1u << (branch & 31) : 0u);
    }

    /// Find the columns of a row among the columns of a node, or of the root if `within` is null; `own` gets them as
    /// words, too.
    __device__ __forceinline__ ColumnWords share_columns(Arena& arena, const unsigned* within, int row, unsigned* own) const {
        const int lane = lane_id();
        unsigned* const words = arena.take(n_words);
        int* const places = reinterpret_cast<int*>(arena.take(n_words));
        ColumnWords shared{words, places, nullptr, 0, 0};
        unsigned size = 0;
#pragma unroll 1
        for (int first = 0; first < n_words; first += kWarpSize) {
            const int k = first + lane;
            unsigned bits = k < n_words ? word(k, row) : 0u;
            if (within != nullptr && k < n_words) bits &= within[k];
            const unsigned any = __ballot_sync(kFullMask, bits != 0);
            if (k < n_words) own[k] = bits;
            if (bits != 0) {
                const int place = shared.n + __popc(any & lanes_before(lane));
                words[place] = bits;
                places[place] = k;
            }
            shared.n += __popc(any);
            size += (unsigned)__popc(bits);
        }
        shared.n_columns = (int)warp_total(size);
        shared.columns = reinterpret_cast<int*>(arena.take(shared.n_columns));
        __syncwarp();
#pragma unroll 1
        for (int z = 0, n = 0; z < shared.n; ++z) {
            const unsigned bits = words[z];
            if (bits >> lane & 1u) shared.columns[n + __popc(bits & lanes_before(lane))] = 32 * places[z] + lane;
            n += __popc(bits);
        }
        __syncwarp();
        return shared;
    }

    /// Find the rows of the sets of a node, or of the root, that remain in a branch: a word of rows at a time, a lane
    /// for each row.
    __device__ __forceinline__ Below split_by_rows(const unsigned* sets, int branch, const ColumnWords& shared, int least,
                                                   unsigned* candidates, unsigned* excluded) const {
        const int lane = lane_id();
        Below below{false, 0, 0, 0, 0};
#pragma unroll 1
        for (int k = n_sets - 1; k >= 0; --k) {
            const unsigned before_it = excluded_from(sets, branch, k), after_it = left_after(sets, branch, k);
            unsigned useful = 0, kept = 0;
            if ((before_it | after_it) != 0) {
                const int row = 32 * k + lane;
                int size = 0;
                if ((before_it | after_it) >> lane & 1u)
#pragma unroll 1
                    for (int z = 0; z < shared.n; ++z) size += __popc(word(shared.places[z], row) & shared.words[z]);
                const bool is_full = size == shared.n_columns;
                const unsigned full = __ballot_sync(kFullMask, is_full);
                below.is_extended = (full & before_it) != 0;
                if (below.is_extended) return below;
                const unsigned enough = __ballot_sync(kFullMask, size >= least);
                useful = enough & before_it;
                kept = enough & after_it & ~full;
                below.n_joined += __popc(full);
                if (is_full) below.hash += row_hash(row);
                below.n_kept += __popc(kept);
                below.n_useful += __popc(useful);
            }
            if (lane == 0) {
                excluded[k] = useful;
                candidates[k] = kept;
            }
        }
        below.hash = sum_words(below.hash);
        __syncwarp();
        return below;
    }

    /// The same: a column at a time, a lane for each word of rows. Two columns are enough here, even if the minimum is
    /// higher.
    __device__ __forceinline__ Below split_by_columns(const unsigned* sets, int branch, const ColumnWords& shared,
                                                      unsigned* candidates, unsigned* excluded) const {
        Below below{false, 0, 0, 0, 0};
        unsigned n_kept = 0, n_useful = 0, n_joined = 0;
#pragma unroll 1
        for (int first = 0; first < n_sets; first += kWarpSize) {
            const int k = first + lane_id();
            const bool is_in = k < n_sets;
            const unsigned* const own = by_columns + (is_in ? k : 0);
            unsigned all = kFullMask, one = 0, two = 0;
#pragma unroll 4
            for (int j = 0; j < shared.n_columns; ++j) {
                const unsigned rows = own[(long long)shared.columns[j] * n_sets];
                all &= rows;
                two |= one & rows;
                one |= rows;
            }
            const unsigned before_it = is_in ? excluded_from(sets, branch, k) : 0u;
            const unsigned after_it = is_in ? left_after(sets, branch, k) : 0u;
            below.is_extended = __any_sync(kFullMask, (all & before_it) != 0) != 0;
            if (below.is_extended) return below;
            if (is_in) {
                excluded[k] = two & before_it;
                candidates[k] = two & after_it & ~all;
            }
            n_kept += (unsigned)__popc(two & after_it & ~all);
            n_useful += (unsigned)__popc(two & before_it);
            n_joined += (unsigned)__popc(all & after_it);
#pragma unroll 1
            for (unsigned rest = all & after_it; rest != 0; rest &= rest - 1)
                below.hash += row_hash(32 * k + __ffs((int)rest) - 1);
        }
        below.n_kept = (int)warp_total(n_kept);
        below.n_useful = (int)warp_total(n_useful);
        below.n_joined = (int)warp_total(n_joined);
        if (below.n_joined != 0) below.hash = sum_words(below.hash);
        __syncwarp();
        return below;
    }

    /// Count the maximal bicliques of a branch with no more columns than a table has; returns their number. `hash` and
    /// `n_taken` describe the rows taken, including the branch.
    __device__ __forceinline__ int count_in_table(const unsigned* sets, int branch, const ColumnWords& shared,
                                                  MaximalCounts& counts, Word hash, int n_taken) const {
        const int lane = lane_id(), n = shared.n_columns;
        SubsetTable table(counts.table_at, n);
        const Word column_hash = lane < n ? right_hash[columns[shared.columns[lane]]] : 0;
        unsigned own[kTableSide];
#pragma unroll 1
        for (int first = 0; first < n_sets; first += kWarpSize) {
            const int k = first + lane;
            const unsigned set = k < n_sets ? excluded_from(sets, branch, k) : 0u;
            if (!__any_sync(kFullMask, set != 0)) continue;
            unsigned all;
            unsigned rest = read_columns(own, shared, k, set, all);
            if (__any_sync(kFullMask, all != 0)) return 0;
#pragma unroll 1
            for (; rest != 0; rest &= rest - 1) table.mark(gather(own, n, __ffs((int)rest) - 1));
        }
        table.join_marks();
#pragma unroll 1
        for (int first = 0; first < n_sets; first += kWarpSize) {
            const int k = first + lane;
            const unsigned set = k < n_sets ? left_after(sets, branch, k) : 0u;
            if (!__any_sync(kFullMask, set != 0)) continue;
            unsigned all, left = 0;
#pragma unroll 1
            for (unsigned rest = read_columns(own, shared, k, set, all); __any_sync(kFullMask, rest != 0); rest &= rest - 1) {
                const bool is_covered = table.is_covered(gather(own, n, max(0, __ffs((int)rest) - 1)));
                if (!is_covered) left |= rest & (0u - rest);
            }
#pragma unroll 1
            for (; left != 0; left &= left - 1) {
                const int bit = __ffs((int)left) - 1;
                table.add(gather(own, n, bit), row_hash(32 * k + bit));
            }
        }
        return table.count(counts, counts.limits.min_right, true, hash, n_taken, column_hash);
    }

    /// Return word k of the rows of a set that have two of the columns, and of the rows that have all of them; `own`
    /// gets the words of all columns. Any lane alone.
    __device__ __forceinline__ unsigned read_columns(unsigned (&own)[kTableSide], const ColumnWords& shared, int k,
                                                     unsigned set, unsigned& all) const {
        unsigned one = 0, two = 0;
        all = set;
#pragma unroll
        for (int j = 0; j < kTableSide; ++j) {
            if (j == kFewColumns && shared.n_columns <= kFewColumns) break;
            const bool is_column = j < shared.n_columns;
            own[j] = is_column && set != 0 ? by_columns[(long long)shared.columns[j] * n_sets + k] & set : 0u;
            if (is_column) all &= own[j];
            two |= one & own[j];
            one |= own[j];
        }
        return two;
    }

    /// Return bit i of the words of n columns, as a number.
    __device__ __forceinline__ static unsigned gather(const unsigned (&own)[kTableSide], int n, int i) {
        unsigned bits = 0;
#pragma unroll
        for (int j = 0; j < kTableSide; ++j) {
            if (j == kFewColumns && n <= kFewColumns) break;
            bits |= (own[j] >> i & 1u) << j;
        }
        return bits;
    }

    /// Return the sum of the hashes of a node's columns.
    __device__ __forceinline__ Word hash_columns(const ColumnWords& shared) const {
        Word hash = 0;
#pragma unroll 1
        for (int j = lane_id(); j < shared.n_columns; j += kWarpSize) hash += right_hash[columns[shared.columns[j]]];
        return sum_words(hash);
    }

    /// Write the hashes of the columns, at most 64, that pack_row assigns bits to.
    __device__ __forceinline__ void write_hashes(const ColumnWords& shared, Word* hashes) const {
#pragma unroll 1
        for (int j = lane_id(); j < 64; j += kWarpSize)
            hashes[j] = j < shared.n_columns ? right_hash[columns[shared.columns[j]]] : 0;
        __syncwarp();
    }

    /// Return the columns of a row in one word: of the root if it has at most 64 columns, else the given ones; any lane
    /// alone.
    __device__ __forceinline__ Word pack_row(const ColumnWords& shared, int row) const {
        constexpr int kAhead = 4;
        Word packed = 0;
        int place = 0;
#pragma unroll 1
        for (int first = 0; first < shared.n; first += kAhead) {
            unsigned found[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const int z = min(first + i, shared.n - 1);
                found[i] = word(shared.places[z], row) & shared.words[z];
            }
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (first + i >= shared.n) break;
                if (n_columns <= 64) {
                    packed |= (Word)found[i] << 32 * shared.places[first + i];
                    continue;
                }
                const unsigned wanted = shared.words[first + i];
#pragma unroll 1
                for (unsigned rest = found[i]; rest != 0; rest &= rest - 1)
                    packed |= 1ull << (place + __popc(wanted & ((rest & (0u - rest)) - 1u)));
                place += __popc(wanted);
            }
        }
        return packed;
    }

    /// Write the members of a set of rows, ascending, to `list`; returns their number.
    __device__ __forceinline__ int list_rows(const unsigned* set, int* list) const {
        unsigned n = 0;
#pragma unroll 1
        for (int first = 0; first < n_sets; first += kWarpSize) {
            const int k = first + lane_id();
            unsigned bits = k < n_sets ? set[k] : 0u;
            const unsigned until = warp_inclusive_sum((unsigned)__popc(bits));
            unsigned place = n + until - (unsigned)__popc(bits);
#pragma unroll 1
            for (; bits != 0; bits &= bits - 1) list[place++] = 32 * k + __ffs((int)bits) - 1;
            n += __shfl_sync(kFullMask, until, kWarpSize - 1);
        }
        __syncwarp();
        return (int)n;
    }
};

/// A root on its matrix; any lane alone.
__device__ __forceinline__ Root root_of(const RootGraph& graph, int vertex, const unsigned* matrix, const Word* left_hash,
                                        const Word* right_hash) {
    const int n_columns = graph.n_columns(vertex), n_rows = graph.n_rows(vertex), n_words = words_for(n_columns);
    return Root{matrix, matrix + (long long)n_words * n_rows, graph.columns + graph.indptr[vertex],
                graph.earlier + graph.earlier_indptr[vertex], graph.hop + graph.hop_indptr[vertex], left_hash, right_hash,
                vertex, n_columns, n_words, n_rows, graph.n_before(vertex), words_for(n_rows)};
}
