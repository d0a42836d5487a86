// The matrices of the roots of maximal bicliques: rows over columns, all filled before the search.
//
// Requires: the index of kernels/biclique/index.py, and for each left vertex the earlier ones that share enough right
// vertices with it (`earlier`, ascending). The rows of a root are its earlier vertices, which are excluded, then its later
// ones, the children, in order of the ids; its columns are its right vertices. Word k of row j of a root of n rows is
// word k * n + j of its matrix, so that lanes with consecutive rows read consecutive words.
// It is followed by the same matrix by columns: bit j % 32 of word k * s + j / 32 is row j of column k, where s words hold
// a bit for each row.
// maximal_fill: a block fills the rows of a root (walk_edges of bit_matrix.cuh).
// maximal_close: a warp checks the rows of a root that have all of its columns. If an excluded row has, the root has no
// maximal biclique: `taken` of the root is 0. Children that have are taken with the root, in each of its bicliques: `taken`
// is their number plus the root, `taken_hash` the sum of their hashes, and their rows are cleared, as they are neither
// branches nor excluded.
// maximal_turn: a warp transposes 32 rows of 32 columns.
// maximal_expand: the rows of listed bicliques, from their records (maximal_counts.cuh): the root, the number of rows, the
// columns. A warp owns a record. Its columns are known; its rows are the root, the rows that have all of the columns, and
// children with empty rows in the matrix, which have all columns of the root. Vertices are written as positions, in any
// order: rows of record i from row_ends[i] on, columns from column_ends[i] on. wrong: number of records whose number of
// rows does not match.
#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "records.cuh"

/// Which requested rows have `least` (at least 1) to `most` columns that no other row has all of: a warp looks for another
/// such row among the rows of the shortest column.
extern "C" __global__ void __launch_bounds__(256)
find_uncovered(const long long* __restrict__ indptr, const int* __restrict__ ids,
               const long long* __restrict__ column_indptr, const int* __restrict__ column_rows, const int n_rows,
               const int* __restrict__ asked, const int least, const int most, int* found) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += warps) {
        const int* own = ids + indptr[row];
        const int n = (int)(indptr[row + 1] - indptr[row]);
        if (!asked[row] || n < least || n > most) continue;
        unsigned fewest = kFullMask;
        int shortest = 0;
        for (int i = lane_id(); i < n; i += kWarpSize) {
            const unsigned length = (unsigned)(column_indptr[own[i] + 1] - column_indptr[own[i]]);
            if (length < fewest) {
                fewest = length;
                shortest = own[i];
            }
        }
        const unsigned best = __ballot_sync(kFullMask, fewest == warp_least(fewest));
        shortest = __shfl_sync(kFullMask, shortest, __ffs((int)best) - 1);
        bool is_covered = false;
        for (long long at = column_indptr[shortest]; at < column_indptr[shortest + 1] && !is_covered; ++at) {
            const int other = column_rows[at];
            const int n_other = (int)(indptr[other + 1] - indptr[other]);
            if (other == row || n_other < n) continue;
            is_covered = true;
            for (int base = 0; base < n && is_covered; base += kWarpSize) {
                const int i = base + lane_id();
                const bool is_missing = i < n && find_id(ids + indptr[other], n_other, own[i]) < 0;
                is_covered = __ballot_sync(kFullMask, is_missing) == 0;
            }
        }
        if (lane_id() == 0 && !is_covered) found[row] = 1;
    }
}

/// `starts`: start of the matrix of each left vertex. The working memory of a block is near_words of shared memory, then
/// far_words of the slab, at least the columns of a root and 4. `next`: 0.
extern "C" __global__ void __launch_bounds__(256)
maximal_fill(ROOT_PARAMETERS, const int* __restrict__ roots, const int n_roots, const long long* __restrict__ starts,
             unsigned* __restrict__ words, const long long* __restrict__ right_indptr, const int* __restrict__ right_rows,
             const int near_words, unsigned* slab, const long long far_words, int* next) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int slot;
    const RootGraph graph ROOT_ARGUMENTS;
    const Adjacency lefts{indptr, columns}, rights{right_indptr, right_rows};
    Arena arena{reinterpret_cast<unsigned*>(shared_quads), slab + blockIdx.x * far_words, near_words, 0, far_words, 0};
    BlockQueue queue(next, &slot);
#pragma unroll 1
    for (int at = queue.next(); at < n_roots; at = queue.next()) {
        const int root = roots[at], n = graph.n_rows(root), n_before = graph.n_before(root), n_columns = graph.n_columns(root);
        const int* const ids = columns + indptr[root];
        const RowList matrix{words + starts[root], n, n, words_for(n_columns)};
        const long long size = (long long)n * matrix.n_words;
#pragma unroll 1
        for (long long i = threadIdx.x; i < size; i += blockDim.x) matrix.words[i] = 0;
        __syncthreads();
#pragma unroll 1
        for (int first = 0; first < n; first = first < n_before ? n_before : n) {
            const bool is_before = first < n_before;
            const int* const members = is_before ? earlier + earlier_indptr[root] : hop + hop_indptr[root];
            walk_edges<BlockFill>(arena, ids, n_columns, members, is_before ? n_before : n - n_before, lefts, rights,
                                  [&](int row, int column) {
                                      atomicOr(&matrix.at(column / 32, first + row), 1u << (column & 31));
                                  });
        }
    }
}

/// The root in a list whose range contains `at`, by the ends of the ranges; `at` becomes the place in the range.
__device__ __forceinline__ int find_range(const long long* ends, int n, long long& at) {
    int low = 0, high = n - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ends[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0) at -= ends[low - 1];
    return low;
}

extern "C" __global__ void __launch_bounds__(256)
maximal_close(ROOT_PARAMETERS, const int* __restrict__ roots, const int n_roots, const long long* __restrict__ starts,
              unsigned* words, const unsigned long long* __restrict__ left_hash, int* taken,
              unsigned long long* taken_hash) {
    const RootGraph graph ROOT_ARGUMENTS;
    const int lane = lane_id();
    for (long long at = global_thread() / kWarpSize; at < n_roots; at += grid_threads() / kWarpSize) {
        const int root = roots[at];
        const int n = graph.n_rows(root), n_before = graph.n_before(root), n_columns = graph.n_columns(root);
        unsigned* const matrix = words + starts[root];
        unsigned long long hash = 0;
        int n_taken = 1;
        for (int first = 0; n_taken > 0 && first < n; first += kWarpSize) {
            const int row = first + lane;
            bool full = row < n;
            for (int k = 0; full && k < words_for(n_columns); ++k)
                full = matrix[(long long)k * n + row] == bits_below(n_columns - 32 * k);
            if (__any_sync(kFullMask, full && row < n_before)) n_taken = 0;
            const unsigned all = __ballot_sync(kFullMask, full);
            if (n_taken == 0 || all == 0) continue;
            n_taken += __popc(all);
            if (full) {
                hash += left_hash[graph.row_vertex(root, row)];
                for (int k = 0; k < words_for(n_columns); ++k) matrix[(long long)k * n + row] = 0;
            }
        }
        hash = warp_sum(hash);
        if (lane == 0) {
            taken[root] = n_taken;
            taken_hash[root] = hash + left_hash[root];
        }
    }
}

/// `ends`: of the warps' numbers, root by root.
extern "C" __global__ void __launch_bounds__(256)
maximal_turn(ROOT_PARAMETERS, const int* __restrict__ roots, const long long* __restrict__ ends, const int n_roots,
             const long long* __restrict__ starts, unsigned* words) {
    const RootGraph graph ROOT_ARGUMENTS;
    for (long long at = global_thread() / kWarpSize; at < ends[n_roots - 1]; at += grid_threads() / kWarpSize) {
        long long place = at;
        const int root = roots[find_range(ends, n_roots, place)];
        const int n = graph.n_rows(root), n_columns = graph.n_columns(root), n_sets = words_for(n);
        const int set = (int)(place % n_sets), word = (int)(place / n_sets), row = 32 * set + lane_id();
        const unsigned* const rows = words + starts[root] + (long long)word * n;
        unsigned* const columns = words + starts[root] + (long long)words_for(n_columns) * n;
        const int here = min(32, n_columns - 32 * word);
        const unsigned column = transpose_word(row < n ? rows[row] : 0u);
        if (lane_id() < here) columns[(32ll * word + lane_id()) * n_sets + set] = column;
    }
}

/// The rows of one record; the warp.
struct RowWriter {
    int* rows;
    int n;
    int n_found;

    /// Each lane contributes a number of rows; `write(place)` writes them from a place on.
    template <class Write>
    __device__ __forceinline__ void add(unsigned own, const Write& write) {
        const unsigned until = warp_inclusive_sum(own);
        const int all = (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
        if (n_found + all <= n) write(n_found + (int)(until - own));
        n_found += all;
    }
};

extern "C" __global__ void __launch_bounds__(256)
maximal_expand(ROOT_PARAMETERS, const unsigned* __restrict__ matrices, const long long* __restrict__ matrix_at,
               const int* __restrict__ row_positions, const int* __restrict__ column_positions,
               const unsigned long long* __restrict__ places, const long long n_records, const int* __restrict__ words,
               const long long* __restrict__ row_ends, const long long* __restrict__ column_ends, int* rows_out, int* columns_out,
               int* wrong) {
    const RootGraph graph ROOT_ARGUMENTS;
    const int lane = lane_id();
    for (long long record = global_thread() / kWarpSize; record < n_records; record += grid_threads() / kWarpSize) {
        const int* const head = words + (places[record] >> kLengthBits);
        const int* const chosen = head + 2;
        const int root = head[0], n_chosen = (int)(column_ends[record + 1] - column_ends[record]);
        const int n_columns = graph.n_columns(root), n_rows = graph.n_rows(root), n_sets = words_for(n_rows);
        const unsigned* const matrix = matrices + matrix_at[root];
        const unsigned* const by_columns = matrix + (long long)words_for(n_columns) * n_rows;
        const int* const of_root = graph.columns + graph.indptr[root];
        int* const columns = columns_out + column_ends[record];
        for (int j = lane; j < n_chosen; j += kWarpSize) columns[j] = find_id(of_root, n_columns, chosen[j]);
        __syncwarp();
        RowWriter writer{rows_out + row_ends[record], head[1], 0};
        writer.add(lane == 0, [&](int place) { if (lane == 0) writer.rows[place] = row_positions[root]; });
        for (int first = 0; first < n_sets; first += kWarpSize) {
            const int k = first + lane;
            unsigned all = k < n_sets ? kFullMask : 0u;
            for (int j = 0; j < n_chosen && all != 0; ++j) all &= by_columns[(long long)columns[j] * n_sets + k];
            writer.add((unsigned)__popc(all), [&](int place) {
                for (unsigned rest = all; rest != 0; rest &= rest - 1)
                    writer.rows[place++] = row_positions[graph.row_vertex(root, 32 * k + __ffs((int)rest) - 1)];
            });
        }
        for (int first = graph.n_before(root); first < n_rows && writer.n_found < writer.n; first += kWarpSize) {
            const int row = first + lane;
            bool is_empty = row < n_rows;
            for (int k = 0; k < words_for(n_columns) && is_empty; ++k) is_empty = matrix[(long long)k * n_rows + row] == 0;
            writer.add(is_empty, [&](int place) {
                if (is_empty) writer.rows[place] = row_positions[graph.row_vertex(root, row)];
            });
        }
        __syncwarp();
        for (int j = lane; j < n_chosen; j += kWarpSize) columns[j] = column_positions[chosen[j]];
        if (lane == 0 && writer.n_found != writer.n) atomicAdd(wrong, 1);
    }
}
