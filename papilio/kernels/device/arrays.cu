// Steps on plain arrays that every family needs between its own kernels: one module, compiled once. An array library
// would compile each expression separately.
//
// Every kernel is a grid-stride loop over n independent elements; n below 2^32.
#include "warp.cuh"

/// keys[i] = (keys[i], i): sorted, they give the order of ascending keys, ties by place. Keys below 2^32.
extern "C" __global__ void __launch_bounds__(256) number_keys(unsigned long long* keys, const long long n) {
    for (long long i = global_thread(); i < n; i += grid_threads()) keys[i] = keys[i] << 32 | (unsigned)i;
}

/// keys[i] = (values[i], i), for nonnegative values.
extern "C" __global__ void __launch_bounds__(256)
number_values(const int* __restrict__ values, const long long n, unsigned long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        keys[i] = (unsigned long long)values[i] << 32 | (unsigned)i;
}

/// The lower halves of the keys.
extern "C" __global__ void __launch_bounds__(256)
low_halves(const unsigned long long* __restrict__ keys, const long long n, int* halves) {
    for (long long i = global_thread(); i < n; i += grid_threads()) halves[i] = (int)(unsigned)keys[i];
}

/// Keys that increase as the values decrease.
extern "C" __global__ void __launch_bounds__(256)
falling_keys(const long long* __restrict__ values, const long long n, long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads()) keys[i] = ~values[i];
}

/// The place of each element in an order.
extern "C" __global__ void __launch_bounds__(256)
place_of(const int* __restrict__ order, const long long n, int* places) {
    for (long long i = global_thread(); i < n; i += grid_threads()) places[order[i]] = (int)i;
}

/// The same value everywhere, or values that increase by `step`.
extern "C" __global__ void __launch_bounds__(256)
fill_ints(const int value, const int step, const long long n, int* values) {
    for (long long i = global_thread(); i < n; i += grid_threads()) values[i] = value + step * (int)i;
}

template <class Value, class Place>
__device__ __forceinline__ void take(const Value* values, const Place* places, long long n, Value* taken) {
    for (long long i = global_thread(); i < n; i += grid_threads()) taken[i] = values[places[i]];
}

/// The values at the places; values and places of 4 or 8 bytes.
extern "C" __global__ void __launch_bounds__(256)
take_4_at_4(const int* __restrict__ values, const int* __restrict__ places, const long long n, int* taken) {
    take(values, places, n, taken);
}

extern "C" __global__ void __launch_bounds__(256)
take_4_at_8(const int* __restrict__ values, const long long* __restrict__ places, const long long n, int* taken) {
    take(values, places, n, taken);
}

extern "C" __global__ void __launch_bounds__(256)
take_8_at_4(const long long* __restrict__ values, const int* __restrict__ places, const long long n, long long* taken) {
    take(values, places, n, taken);
}

extern "C" __global__ void __launch_bounds__(256)
take_8_at_8(const long long* __restrict__ values, const long long* __restrict__ places, const long long n,
            long long* taken) {
    take(values, places, n, taken);
}

/// The entries of some rows, one row after the other: row i begins at `starts[i]` of `taken`. A warp for each row.
extern "C" __global__ void __launch_bounds__(256)
take_rows(const long long* __restrict__ offsets, const long long* __restrict__ rows, const long long* __restrict__ starts,
          const long long n, const int* __restrict__ values, int* taken) {
    for (long long i = global_thread() / kWarpSize; i < n; i += grid_threads() / kWarpSize) {
        const long long begin = offsets[rows[i]], length = offsets[rows[i] + 1] - begin;
        for (long long at = lane_id(); at < length; at += kWarpSize) taken[starts[i] + at] = values[begin + at];
    }
}

/// marks[i] = 1 where the value is at least `least`, else 0.
extern "C" __global__ void __launch_bounds__(256)
mark_least(const int* __restrict__ values, const long long n, const int least, long long* marks) {
    for (long long i = global_thread(); i < n; i += grid_threads()) marks[i] = values[i] >= least;
}

/// marks[i] = 1 where the value is not 0, else 0.
extern "C" __global__ void __launch_bounds__(256)
mark_counted(const unsigned long long* __restrict__ values, const long long n, long long* marks) {
    for (long long i = global_thread(); i < n; i += grid_threads()) marks[i] = values[i] != 0;
}

/// The marked places, ascending; `upto` is the inclusive prefix sum of the marks.
extern "C" __global__ void __launch_bounds__(256)
gather_marked(const long long* __restrict__ upto, const long long n, long long* places) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        if (upto[i] != (i ? upto[i - 1] : 0)) places[upto[i] - 1] = i;
}

/// The length of each row.
extern "C" __global__ void __launch_bounds__(256)
row_lengths(const long long* __restrict__ offsets, const long long n, int* lengths) {
    for (long long i = global_thread(); i < n; i += grid_threads()) lengths[i] = (int)(offsets[i + 1] - offsets[i]);
}

/// 0 and the lengths; their prefix sums are the starts of the rows and the end of the last: n + 1 values.
extern "C" __global__ void __launch_bounds__(256)
shift_lengths(const int* __restrict__ lengths, const long long n, long long* offsets) {
    for (long long i = global_thread(); i <= n; i += grid_threads()) offsets[i] = i ? lengths[i - 1] : 0;
}

/// The first place of ascending values that is not below the bound.
template <class Value>
__device__ __forceinline__ long long first_from(const Value* values, long long n, Value bound) {
    return first_not(n, [=](long long i) { return values[i] < bound; });
}

/// The start of each value from 0 on in ascending values, and the end of the last one, n_values - 1.
extern "C" __global__ void __launch_bounds__(256)
value_starts(const int* __restrict__ values, const long long n, const long long n_values, long long* starts) {
    for (long long i = global_thread(); i <= n_values; i += grid_threads()) starts[i] = first_from(values, n, (int)i);
}

/// The key of each of the n entries of n_rows rows: (id, row), or (row, id) unless turned.
extern "C" __global__ void __launch_bounds__(256)
entry_keys(const long long* __restrict__ offsets, const long long n_rows, const int* __restrict__ ids, const long long n,
           const int turned, unsigned long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const unsigned row = (unsigned)(first_from(offsets, n_rows + 1, i + 1) - 1), id = (unsigned)ids[i];
        keys[i] = (unsigned long long)(turned ? id : row) << 32 | (turned ? row : id);
    }
}

/// The start of the keys of each row and the end of the last, in ascending keys whose upper halves are rows.
extern "C" __global__ void __launch_bounds__(256)
row_starts(const unsigned long long* __restrict__ keys, const long long n_keys, const long long n_rows,
           long long* offsets) {
    for (long long i = global_thread(); i <= n_rows; i += grid_threads())
        offsets[i] = first_from(keys, n_keys, (unsigned long long)i << 32);
}

/// The hashes of vertices of a layer (kernels/exact.py).
extern "C" __global__ void __launch_bounds__(256)
hash_vertices(const int* __restrict__ ids, const long long n, const int layer, unsigned long long* hashes) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        hashes[i] = mix((unsigned long long)layer << 32 | (unsigned)ids[i]);
}

/// Add the hash of the motif of each row to a sum: a vertex of layer `layer`, and vertices of the other layer, 0 or 1.
extern "C" __global__ void __launch_bounds__(256)
sum_row_hashes(const int* __restrict__ ones, const long long* __restrict__ offsets, const int* __restrict__ others,
               const long long n_rows, const int layer, unsigned long long* sum) {
    const long long n_warps = grid_threads() / kWarpSize;
    const int lane = threadIdx.x % kWarpSize;
    unsigned long long own = 0;
    for (long long row = global_thread() / kWarpSize; row < n_rows; row += n_warps) {
        unsigned long long hash = 0;
        for (long long at = offsets[row] + lane; at < offsets[row + 1]; at += kWarpSize)
            hash += mix((unsigned long long)(1 - layer) << 32 | (unsigned)others[at]);
        hash = warp_sum(hash) + mix((unsigned long long)layer << 32 | (unsigned)ones[row]);
        own += mix(hash);
    }
    if (lane == 0 && own) atomicAdd(sum, own);
}
