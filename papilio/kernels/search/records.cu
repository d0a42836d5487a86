// Order the records of records.cuh, and sort the rows made from them.
//
// record_keys: a warp computes three keys of a record. The ids after its first `n_head` words have positions below
// 2^bits - 1; the first two keys are the smallest positions, 64 / bits in each, ascending; the third is the sum of their
// hashes. The order by the keys thus depends only on the content of the records.
// sort_rows: a warp sorts a row of distinct positions; the place of each is the number of positions below it. Rows of more
// than kLongRow are left to the host. row_hashes: adds the sum of the hashes of each row.
#include "warp.cuh"

constexpr int kLengthBits = LENGTH_BITS;
constexpr int kLongRow = LONG_ROW;

extern "C" __global__ void __launch_bounds__(256)
record_keys(const unsigned long long* __restrict__ places, const long long n_records, const int* __restrict__ words,
            const int n_head, const int* __restrict__ positions, const int bits, unsigned long long* __restrict__ keys) {
    for (long long record = global_thread() / kWarpSize; record < n_records; record += grid_threads() / kWarpSize) {
        const unsigned long long place = places[record];
        const int n = (int)(place & ((1ull << kLengthBits) - 1)) - n_head;
        const int* const ids = words + (place >> kLengthBits) + n_head;
        unsigned long long hash = 0;
        for (int i = lane_id(); i < n; i += kWarpSize) hash += mix((unsigned)positions[ids[i]]);
        hash = warp_sum(hash);
        unsigned long long key[2] = {0, 0};
        unsigned least = 0;  // all smaller positions are already in the keys
        for (int k = 0; k < 2; ++k)
            for (int at = 0; at + bits <= 64; at += bits) {
                unsigned next = ~0u;
                for (int i = lane_id(); least != ~0u && i < n; i += kWarpSize) {
                    const unsigned position = (unsigned)positions[ids[i]];
                    if (position >= least) next = min(next, position);
                }
                next = warp_least(next);
                least = next == ~0u ? next : next + 1;
                key[k] = key[k] << bits | (next == ~0u ? 0u : least);
            }
        if (lane_id() == 0) {
            keys[record] = key[0];
            keys[n_records + record] = key[1];
            keys[2 * n_records + record] = hash;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
sort_rows(const long long* __restrict__ offsets, const long long n_rows, const int* __restrict__ values,
          const unsigned long long* __restrict__ hashes, int* __restrict__ sorted,
          unsigned long long* __restrict__ row_hashes) {
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += grid_threads() / kWarpSize) {
        const long long begin = offsets[row];
        const int n = (int)(offsets[row + 1] - begin);
        unsigned long long hash = 0;
        for (int first = 0; first < n; first += kWarpSize) {
            const int i = first + lane_id();
            const int value = i < n ? values[begin + i] : 0;
            int place = 0;
            if (n > kLongRow)
                place = i;
            else if (n <= kWarpSize)
                for (int j = 0; j < n; ++j) place += __shfl_sync(kFullMask, value, j) < value;
            else
                for (int j = 0; j < n; ++j) place += values[begin + j] < value;
            if (i >= n) continue;
            sorted[begin + place] = value;
            hash += hashes[value];
        }
        __syncwarp();
        hash = warp_sum(hash);
        if (lane_id() == 0) row_hashes[row] += hash;
    }
}
