// The order of the vertices of a unipartite graph, the keys of the edges oriented by it, and the rows of listed cliques.
//
// Requires: edges u[i] < v[i], each once, of vertices below n. The degeneracy order ranks by (round of peeling, id): the
// rounds come from rounds.cuh, the host sorts.
#include "records.cuh"
#include "rounds.cuh"
#include "warp.cuh"

/// Words of the candidates' rows over the candidates, plus one: predict_work and predict_maximal_work of question.py. The
/// second also counts rows of the excluded vertices, and each row over all candidates.
__device__ __forceinline__ long long predict_work(long long out) {
    return 1 + out + out * (out + 1) / 2 * ((out + 63) >> 6);
}

__device__ __forceinline__ long long predict_maximal_work(long long out, long long back) {
    return 1 + (out + back) * out * ((out + 63) >> 6);
}

/// The predicted work of roots with `out` later neighbours each; for maximal cliques also with `back` earlier ones.
extern "C" __global__ void __launch_bounds__(256)
item_costs(const long long* __restrict__ roots, const long long n, const int* __restrict__ out, const int is_maximal,
           const int* __restrict__ back, long long* costs) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const long long root = roots[i];
        costs[i] = is_maximal ? predict_maximal_work(out[root], back[root]) : predict_work(out[root]);
    }
}

/// The items of roots, in order: root, start and end of its later neighbours, and their number.
extern "C" __global__ void __launch_bounds__(256)
place_items(const long long* __restrict__ order, const long long n, const long long* __restrict__ roots,
            const long long* __restrict__ indptr, int* own_roots, long long* first, long long* last, long long* sizes) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const long long root = roots[order[i]];
        own_roots[i] = (int)root;
        first[i] = indptr[root];
        last[i] = indptr[root + 1];
        sizes[i] = last[i] - first[i];
    }
}

/// The key of each edge, the rank of its first vertex << 32 | the rank of its last, and the number of keys by first vertex.
extern "C" __global__ void __launch_bounds__(256)
later_keys(const int* __restrict__ u, const int* __restrict__ v, const long long n_edges, const int* __restrict__ rank,
           unsigned long long* keys, int* n_later) {
    for (long long e = global_thread(); e < n_edges; e += grid_threads()) {
        const int a = rank[u[e]], b = rank[v[e]];
        keys[e] = (unsigned long long)min(a, b) << 32 | (unsigned)max(a, b);
        atomicAdd(&n_later[min(a, b)], 1);
    }
}

// The rows of listed cliques, from their records; vertices are written as positions, in any order. Each row ends with the
// `n_always` positions of `always`.

/// A record is the ranks of a maximal clique (clique_maximal.cu); a warp copies it.
extern "C" __global__ void __launch_bounds__(256)
clique_copy(const int* __restrict__ positions, const int* __restrict__ always, const int n_always,
            const unsigned long long* __restrict__ places, const long long n_records, const int* __restrict__ words,
            const long long* __restrict__ ends, int* out) {
    for (long long record = global_thread() / kWarpSize; record < n_records; record += grid_threads() / kWarpSize) {
        const int* const ranks = words + (places[record] >> kLengthBits);
        int* const row = out + ends[record];
        const int n = (int)(ends[record + 1] - ends[record]);
        for (int i = lane_id(); i < n; i += kWarpSize)
            row[i] = i < n - n_always ? positions[ranks[i]] : always[i - (n - n_always)];
    }
}

/// A record is a leaf of the search for cliques of one size (clique_matrix.cuh): the number of held vertices, their ranks, and
/// the ranks of the free ones, any of which are added. `ends` are the ends of the records' rows; a thread writes row i of
/// [first, first + n_rows): it finds the record, and in it the choice by its number. ways[n * (k + 1) + j] is C(n, j), or
/// more than the number of rows if that is larger.
extern "C" __global__ void __launch_bounds__(256)
clique_choose(const int* __restrict__ positions, const int* __restrict__ always, const int n_always, const int k,
              const long long* __restrict__ ways, const unsigned long long* __restrict__ places, const long long n_records,
              const int* __restrict__ words, const long long* __restrict__ ends, const long long first,
              const long long n_rows, int* out) {
    for (long long at = global_thread(); at < n_rows; at += grid_threads()) {
        long long low = 0, high = n_records - 1;
        while (low < high) {
            const long long middle = (low + high) / 2;
            if (ends[middle] <= first + at)
                low = middle + 1;
            else
                high = middle;
        }
        const int* const leaf = words + (places[low] >> kLengthBits);
        const int n_held = leaf[0], n_free = (int)(places[low] & ((1ull << kLengthBits) - 1)) - 1 - n_held;
        long long number = first + at - (low == 0 ? 0 : ends[low - 1]);
        int* row = out + at * (k + n_always);
        for (int i = 0; i < n_held; ++i) *row++ = positions[leaf[1 + i]];
        const int* free = leaf + 1 + n_held;
        for (int left = n_free, missing = k - n_held; missing > 0; ++free) {
            --left;
            const long long with_it = ways[(long long)left * (k + 1) + missing - 1];
            if (number < with_it) {
                *row++ = positions[*free];
                --missing;
            } else {
                number -= with_it;
            }
        }
        for (int i = 0; i < n_always; ++i) *row++ = always[i];
    }
}
