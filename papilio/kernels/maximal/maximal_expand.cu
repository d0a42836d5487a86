// The rows of listed maximal bicliques, from their records (maximal_counts.cuh): the root, the number of rows, the columns.
//
// Requires: the matrices of the roots, as they were searched (maximal_rows.cu).
// A warp owns a record. Its columns are known; its rows are the root, those that have all of the columns, and children whose
// rows are empty in the matrix: they have all columns of the root. Vertices are written as positions, in any order: rows of
// record i from row_ends[i] on, columns from column_ends[i] on. wrong: records that have not as many rows as they say.
#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "records.cuh"

/// The rows of one record; the warp.
struct RowWriter {
    int* rows;
    int n;
    int n_found;

    /// Each lane brings so many rows, `write(place)` putting them down from a place on.
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
