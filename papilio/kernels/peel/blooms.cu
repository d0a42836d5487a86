// The wedges of the blooms of a graph, and those of their ranges, from sorted keys: what wing.cu peels.
//
// A run is the wedges of one key, side by side. A first kernel marks the wedges that stay and the first one of each run of
// them; the host's library sums the marks up, and a second kernel writes the wedges and the runs to their places. Every
// kernel is a grid-stride loop over the wedges, in the order of their keys. `upto` and `runs` are inclusive sums of marks.
#include "warp.cuh"

__device__ __forceinline__ bool is_marked(const long long* upto, long long i) {
    return upto[i] != (i ? upto[i - 1] : 0);
}

/// Of the pairs of ends, as keys: those with one wedge alone are no blooms.
extern "C" __global__ void __launch_bounds__(256)
mark_blooms(const unsigned long long* __restrict__ keys, const long long n, long long* stays, long long* heads) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const bool first = i == 0 || keys[i] != keys[i - 1], last = i + 1 == n || keys[i] != keys[i + 1];
        stays[i] = !(first && last);
        heads[i] = first && !last;
    }
}

/// Write the edges and the bloom of each wedge that stays, and where each bloom begins and the last one ends.
extern "C" __global__ void __launch_bounds__(256)
take_blooms(const long long* __restrict__ order, const long long* __restrict__ upto, const long long* __restrict__ runs,
            const long long n, const int* __restrict__ one, const int* __restrict__ other, int* one_of, int* other_of,
            int* bloom_of, long long* offsets) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        if (i + 1 == n) offsets[runs[i]] = upto[i];
        if (!is_marked(upto, i)) continue;
        const long long at = upto[i] - 1, wedge = order[i];
        one_of[at] = one[wedge];
        other_of[at] = other[wedge];
        bloom_of[at] = (int)(runs[i] - 1);
        if (is_marked(runs, i)) offsets[runs[i] - 1] = at;
    }
}

__device__ __forceinline__ unsigned bloom_in(unsigned long long key) { return (unsigned)(key >> 32); }
__device__ __forceinline__ int range_in(unsigned long long key) { return (int)(0x7fffffffu - (unsigned)key); }

/// (bloom, falling range) of each wedge: the range is the lower one of its edges, which `range_of` gives.
extern "C" __global__ void __launch_bounds__(256)
range_keys(const int* __restrict__ one, const int* __restrict__ other, const int* __restrict__ bloom_of,
           const int* __restrict__ range_of, const long long n, unsigned long long* keys) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int lower = min(range_of[one[i]], range_of[other[i]]);
        keys[i] = (unsigned long long)(unsigned)bloom_of[i] << 32 | (0x7fffffffu - (unsigned)lower);
    }
}

/// Wedges of exact ranges do not stay, nor does the wedge of a segment whose bloom has no other one so high.
extern "C" __global__ void __launch_bounds__(256)
mark_ranges(const unsigned long long* __restrict__ keys, const long long n, const unsigned char* __restrict__ is_exact,
            long long* stays, long long* heads) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const bool first = i == 0 || keys[i] != keys[i - 1], last = i + 1 == n || keys[i] != keys[i + 1];
        const bool highest = i == 0 || bloom_in(keys[i]) != bloom_in(keys[i - 1]);
        const bool kept = !(highest && last) && !is_exact[range_in(keys[i])];
        stays[i] = kept;
        heads[i] = kept && first;
    }
}

/// Write the edges, -1 for one of a higher range, and the segment of each wedge that stays; where each segment begins and
/// the last one ends, its range, and its wedges with those of its bloom in higher ranges.
extern "C" __global__ void __launch_bounds__(256)
take_ranges(const unsigned long long* __restrict__ keys, const long long* __restrict__ order,
            const long long* __restrict__ upto, const long long* __restrict__ runs, const long long n,
            const int* __restrict__ one, const int* __restrict__ other, const int* __restrict__ range_of,
            const long long* __restrict__ bloom_offsets, int* one_of, int* other_of, int* segment_of,
            long long* offsets, int* ranges, int* before) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        if (i + 1 == n) offsets[runs[i]] = upto[i];
        if (!is_marked(upto, i)) continue;
        const long long at = upto[i] - 1, segment = runs[i] - 1;
        const int a = one[order[i]], b = other[order[i]], range = range_in(keys[i]);
        one_of[at] = range_of[a] == range ? a : -1;
        other_of[at] = range_of[b] == range ? b : -1;
        segment_of[at] = (int)segment;
        if (is_marked(runs, i)) {
            offsets[segment] = at;
            ranges[segment] = range;
        }
        if (i + 1 == n || keys[i + 1] != keys[i]) before[segment] = (int)(i + 1 - bloom_offsets[bloom_in(keys[i])]);
    }
}
