// The rows of listed cliques, from their records; vertices are written as positions, in any order.
//
// clique_copy: a record is the ranks of a maximal clique (clique_maximal.cu); a warp copies it.
// clique_choose: a record is a leaf of the search for cliques of one size (clique_matrix.cuh): how many vertices are held,
// their ranks, and those of the free ones, of which any are added. `ends` are of the rows, one record after the other; a
// thread writes row i of [first, first + n_rows): it seeks its record, and in it the choice by its number. ways[n * (k + 1)
// + j] is C(n, j), or more than there are rows where that is more.
// Each row ends with the `n_always` positions of `always`.
#include "records.cuh"

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
