// Steps on plain arrays that every family takes between its own kernels: one module, compiled once, where an array
// library would compile each expression apart.
//
// Every kernel is a grid-stride loop over n independent elements.
#include "warp.cuh"

/// keys[i] = (keys[i], i): sorted, they give the order of rising keys, ties by place. Keys and n below 2^32.
extern "C" __global__ void __launch_bounds__(256) number_keys(unsigned long long* keys, const long long n) {
    for (long long i = global_thread(); i < n; i += grid_threads()) keys[i] = keys[i] << 32 | (unsigned)i;
}

/// The lower halves of the keys.
extern "C" __global__ void __launch_bounds__(256)
low_halves(const unsigned long long* __restrict__ keys, const long long n, long long* halves) {
    for (long long i = global_thread(); i < n; i += grid_threads()) halves[i] = (unsigned)keys[i];
}

/// marks[i] = 1 where the value is at least `least`, else 0.
extern "C" __global__ void __launch_bounds__(256)
mark_least(const int* __restrict__ values, const long long n, const int least, long long* marks) {
    for (long long i = global_thread(); i < n; i += grid_threads()) marks[i] = values[i] >= least;
}

/// The places that are marked, ascending; `upto` is the inclusive prefix sum of the marks.
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
