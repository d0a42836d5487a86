// Rows of a projection, from the pairs that the counting kernels have left (GIVES = 3 in wedge/butterfly.cuh).
//
// Requires: pairs (row of the start, rank of the end) in the halves of a word, common neighbours in the same order, and the
// order of the rows: row i comes from pair places[i]. The rows of wedges.cuh, of which the layer of the pairs begins at row
// `first`; `order` has its ids by rank.
#include "warp.cuh"

/// pairs[i] = ids of both vertices, the lesser first; common[i].
extern "C" __global__ void __launch_bounds__(256)
pair_rows(const unsigned long long* __restrict__ found, const int* __restrict__ commons,
          const long long* __restrict__ places, const long long n, const int first, const int* __restrict__ order,
          int* pairs, int* common) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const unsigned long long pair = found[places[i]];
        const int one = order[(int)(pair >> 32) - first], two = order[(unsigned)pair];
        pairs[2 * i] = min(one, two);
        pairs[2 * i + 1] = max(one, two);
        common[i] = commons[places[i]];
    }
}

/// sums[i] = the sum of the terms of the common neighbours, added one by one in the order of their ranks, as on a CPU: the
/// same bits. A warp per row: its lanes look the entries of the start up in the longer row of the end.
extern "C" __global__ void __launch_bounds__(256)
sum_terms(const unsigned long long* __restrict__ found, const long long* __restrict__ places, const long long n,
          const int first, const long long* __restrict__ indptr, const int* __restrict__ adjacency,
          const double* __restrict__ terms, double* sums) {
    const int lane = lane_id();
    const long long warps = grid_threads() / kWarpSize;
    for (long long i = global_thread() / kWarpSize; i < n; i += warps) {
        const unsigned long long pair = found[places[i]];
        const int start = (int)(pair >> 32), end = first + (int)(unsigned)pair;
        const int* const own = adjacency + indptr[start];
        const int* const others = adjacency + indptr[end];
        const int n_own = (int)(indptr[start + 1] - indptr[start]), n_others = (int)(indptr[end + 1] - indptr[end]);
        double sum = 0;
        int from = 0;  // entries of the end before this one are behind us
        for (int base = 0; base < n_own; base += kWarpSize) {
            const int middle = base + lane < n_own ? own[base + lane] : -1;
            const int at = from + first_not(n_others - from, [=](int j) { return others[from + j] < middle; });
            const bool both = middle >= 0 && at < n_others && others[at] == middle;
            for (unsigned left = __ballot_sync(kFullMask, both); left != 0; left &= left - 1)
                sum += terms[__shfl_sync(kFullMask, middle, __ffs((int)left) - 1)];
            from = __shfl_sync(kFullMask, at, min(kWarpSize, n_own - base) - 1);
        }
        if (lane == 0) sums[i] = sum;
    }
}
