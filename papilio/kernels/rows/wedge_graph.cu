// Building the wedge engine's graph on the device: relabelling by rank, both CSR directions, wedge counts.
//
// Two sorts of 64-bit keys do all the ordering. The first sorts (rank of v, rank of u) and so gives the rows
// of layer V; position i in it is then the payload of the second key (rank of u, i), whose order gives the rows of
// layer U with their neighbours ascending, because i ascends with the rank of v. Signs (KINDS > 1) are the lowest bits
// of the first keys. Entry j of layer U and
// entry i of layer V are the two directions of one edge, so the position of each end in the other's row, which
// bounds the wedges of the entry, needs no search. A unipartite graph is one layer, V: one sort of both directions of
// all edges gives its rows, and a search the positions.
//
// Every kernel is a grid-stride loop over independent elements; n edges below 2^32, rows below 2^31.
#include "hub_columns.cuh"

__device__ __forceinline__ unsigned high_half(unsigned long long key) { return (unsigned)(key >> 32); }
__device__ __forceinline__ unsigned low_half(unsigned long long key) { return (unsigned)key; }

/// degree[ids[e]] += 1 for every edge.
extern "C" __global__ void __launch_bounds__(256)
count_degrees(const int* __restrict__ ids, const long long n, int* degree) {
    for (long long e = global_thread(); e < n; e += grid_threads()) atomicAdd(&degree[ids[e]], 1);
}

extern "C" __global__ void __launch_bounds__(256)
first_keys(const int* __restrict__ u, const int* __restrict__ v, const long long n, const int* __restrict__ rank_u,
           const int* __restrict__ rank_v,
#if KINDS > 1
           const unsigned char* __restrict__ is_negative,
#endif
           unsigned long long* keys) {
    for (long long e = global_thread(); e < n; e += grid_threads()) {
#if KINDS > 1
        const int sign = is_negative[e];
#else
        const int sign = 0;
#endif
        keys[e] = ((unsigned long long)(unsigned)rank_v[v[e]] << 32) | (unsigned)entry_of(rank_u[u[e]], sign);
    }
}

/// Rows of layer V from the sorted first keys, and the second keys. `adjacency_v` starts at entry n.
extern "C" __global__ void __launch_bounds__(256)
second_keys(const unsigned long long* __restrict__ first, const long long n, int* adjacency_v,
            unsigned long long* second) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        adjacency_v[i] = (int)low_half(first[i]);
        second[i] = ((unsigned long long)(unsigned)rank_of((int)low_half(first[i])) << 32) | (unsigned)i;
    }
}

/// Rows of layer U from the sorted second keys, and for both directions the position of the start in the
/// middle's row, in `prefix` (entries 0 to n - 1 are layer U, n to 2 n - 1 layer V).
extern "C" __global__ void __launch_bounds__(256)
link_directions(const unsigned long long* __restrict__ first, const unsigned long long* __restrict__ second,
                const long long n, const long long* __restrict__ indptr, const int n_u, int* adjacency_u, int* prefix) {
    for (long long j = global_thread(); j < n; j += grid_threads()) {
        const long long i = low_half(second[j]);
        const unsigned u = high_half(second[j]);
        const unsigned v = high_half(first[i]);
        adjacency_u[j] = entry_of((int)v, sign_of((int)low_half(first[i])));
        prefix[j] = (int)(n + i - indptr[(long long)n_u + v]);
        prefix[n + i] = (int)(j - indptr[u]);
    }
}

#if KINDS == 1
/// The rows of a unipartite graph from its sorted entries, (row, neighbour): of each entry the neighbour, and in `prefix`
/// the position of the row in the neighbour's row.
extern "C" __global__ void __launch_bounds__(256)
link_layer(const unsigned long long* __restrict__ keys, const long long n, const long long* __restrict__ indptr,
           int* adjacency, int* prefix) {
    for (long long e = global_thread(); e < n; e += grid_threads()) {
        const unsigned row = high_half(keys[e]), middle = low_half(keys[e]);
        const unsigned long long* of_middle = keys + indptr[middle];
        const int length = (int)(indptr[middle + 1] - indptr[middle]);
        adjacency[e] = (int)middle;
        prefix[e] = first_not(length, [=](int i) { return low_half(of_middle[i]) < row; });
    }
}
#endif

/// Per row: its entries that precede it (`ahead[row]` of the other side do), and those among the hub columns.
extern "C" __global__ void __launch_bounds__(256)
row_bounds(const long long* __restrict__ indptr, const int* __restrict__ adjacency, const int* __restrict__ ahead,
           const int n_rows, const int hub_columns, int* preceding, int* hub_count) {
    for (long long row = global_thread(); row < n_rows; row += grid_threads()) {
        const int* ends = adjacency + indptr[row];
        const int length = (int)(indptr[row + 1] - indptr[row]);
        const int bound = lower_bound(ends, length, entry_of(ahead[row], 0));
        preceding[row] = bound;
        hub_count[row] = lower_bound(ends, bound, entry_of(hub_columns, 0));
    }
}

/// Cut every entry's prefix to the ends that precede the middle, and add up the wedges of each start: all of
/// them, and those that end in the hub columns. The row of an entry is the upper half of its sorted key.
extern "C" __global__ void __launch_bounds__(256)
count_wedges(const unsigned long long* __restrict__ keys, const long long n, const int* __restrict__ adjacency,
             const int* __restrict__ preceding, const int* __restrict__ hub_count, const int start_offset,
             const int middle_offset, int* prefix, unsigned long long* wedges, unsigned long long* hub_wedges) {
    const long long padded = (n + kWarpSize - 1) / kWarpSize * kWarpSize;  // whole warps reach the collectives
    for (long long e = global_thread(); e < padded; e += grid_threads()) {
        unsigned length = 0, at_hubs = 0, row = 0xffffffffu;
        if (e < n) {
            const int middle = rank_of(adjacency[e]) + middle_offset;
            length = (unsigned)min(prefix[e], preceding[middle]);
            at_hubs = (unsigned)min((int)length, hub_count[middle]);
            prefix[e] = (int)length;
            row = high_half(keys[e]);
        }
        add_to_rows(row, length, at_hubs, e < n, wedges + start_offset, hub_wedges + start_offset);
    }
}

/// Per tile of kHubColumns ends of a side, `n_tiles` of them: the wedges that end in it, given the entries of the ends and
/// `places`, the position of each end in the row of its middle.
extern "C" __global__ void __launch_bounds__(256)
count_tile_wedges(const unsigned long long* __restrict__ keys, const long long n, const int* __restrict__ adjacency,
                  const int* __restrict__ places, const int* __restrict__ preceding, const int* __restrict__ degree,
                  const int middle_offset, const int n_tiles, unsigned long long* wedges) {
    const long long padded = (n + kWarpSize - 1) / kWarpSize * kWarpSize;  // whole warps reach the collectives
    unsigned long long held = 0;
    int of_held = 0;
    const auto flush = [&] {
        const unsigned long long sum = warp_sum(held);
        if (lane_id() == 0 && sum != 0) atomicAdd(&wedges[of_held], sum);
        held = 0;
    };
    for (long long e = global_thread(); e < padded; e += grid_threads()) {
        int tile = n_tiles;
        unsigned later = 0;
        if (e < n) {
            const int middle = rank_of(adjacency[e]) + middle_offset;
            tile = min((int)(high_half(keys[e]) / kHubColumns), n_tiles);
            if (places[e] < preceding[middle]) later = (unsigned)(degree[middle] - 1 - places[e]);
        }
        const int first = __shfl_sync(kFullMask, tile, 0);
        if (first == n_tiles) break;  // keys ascend
        if (first != of_held) flush();
        of_held = first;
        if (tile == first) held += later;
        else if (tile < n_tiles && later != 0) atomicAdd(&wedges[tile], (unsigned long long)later);
    }
    flush();
}

/// The bit matrix of hub_columns.cuh: a warp per vertex, `hub_count[row]` bits set, followed by an empty row. Shared
/// memory: its rows, per warp.
extern "C" __global__ void __launch_bounds__(256)
fill_hub_rows(const long long* __restrict__ indptr, const int* __restrict__ adjacency,
              const int* __restrict__ hub_count, const int n_rows, const int n_tiles, unsigned* hub_rows) {
    extern __shared__ unsigned row_words[];
    const int sign_words = n_tiles * kRowWords, n_words = kSigns * sign_words;
    unsigned* words = row_words + threadIdx.x / kWarpSize * n_words;
    const int lane = lane_id();
    const long long warps = grid_threads() / kWarpSize;
    for (long long row = global_thread() / kWarpSize; row <= n_rows; row += warps) {
        for (int k = lane; k < n_words; k += kWarpSize) words[k] = 0;
        __syncwarp();
        const int* ends = adjacency + indptr[row];
        const int n_hubs = row < n_rows ? hub_count[row] : 0;
        for (int i = lane; i < n_hubs; i += kWarpSize) {
            const int rank = rank_of(ends[i]);
            atomicOr(&words[sign_of(ends[i]) * sign_words + (rank >> 5)], 1u << (rank & 31));
        }
        __syncwarp();
        // Next time, each lane clears only words that it has read here itself.
        for (int k = lane; k < n_words; k += kWarpSize) hub_rows[row * n_words + k] = words[k];
    }
}

/// Add the results of an edge's two directions; edges are given by original ids, entries by rank.
extern "C" __global__ void __launch_bounds__(256)
gather_edges(const int* __restrict__ u, const int* __restrict__ v, const long long n, const int* __restrict__ rank_u,
             const int* __restrict__ rank_v, const long long* __restrict__ indptr, const int* __restrict__ adjacency,
             const int n_u, const unsigned long long* __restrict__ by_entry, unsigned long long* by_edge) {
    for (long long e = global_thread(); e < n; e += grid_threads()) {
        const int a = rank_u[u[e]], b = rank_v[v[e]];
        const long long row_a = indptr[a], row_b = indptr[n_u + b];
        const int at_a = lower_bound(adjacency + row_a, (int)(indptr[a + 1] - row_a), b);
        const int at_b = lower_bound(adjacency + row_b, (int)(indptr[n_u + b + 1] - row_b), a);
        by_edge[e] = by_entry[row_a + at_a] + by_entry[row_b + at_b];
    }
}
