// Joining the blocks of a part on the device: middles and prefixes of every start, wedge counts. Nothing is sorted.
//
// Starts and ends are given by their ranks in one layer, middles by ranks in the other. An end is identified by its place
// among the ends. The ends that precede a start are thus the first ones, and among the ends of a middle they are a prefix
// of its row: a binary search gives its length.
//
// A middle is found through a table: first[b] is the first middle whose rank is at least lowest + (b << shift), for b
// up to n_buckets, whose entry is n_middles. With shift 0 the table holds the answer itself.
//
// Every kernel is a grid-stride loop over independent elements, except that a warp of join_starts owns kChunk consecutive
// entries, so that it searches for their starts in a short interval. Starts, ends and middles number below 2^31.
#include "hub_columns.cuh"

constexpr int kChunk = 1024;

/// preceding[i]: number of ends whose rank is below the rank of start i.
extern "C" __global__ void __launch_bounds__(256)
count_preceding(const int* __restrict__ start_rank, const int n_starts, const int* __restrict__ end_rank,
                const int n_ends, int* preceding) {
    for (long long i = global_thread(); i < n_starts; i += grid_threads())
        preceding[i] = lower_bound(end_rank, n_ends, start_rank[i]);
}

/// Per middle: its ends among the hub columns.
extern "C" __global__ void __launch_bounds__(256)
count_hubs(const long long* __restrict__ end_indptr, const int* __restrict__ ends, const int n_middles,
           const int hub_columns, int* hub_count) {
    for (long long v = global_thread(); v < n_middles; v += grid_threads())
        hub_count[v] = lower_bound(ends + end_indptr[v], (int)(end_indptr[v + 1] - end_indptr[v]), hub_columns);
}

extern "C" __global__ void __launch_bounds__(256)
fill_table(const int* __restrict__ middle_rank, const int n_middles, const int shift, const int n_buckets,
           int* first) {
    for (long long b = global_thread(); b <= n_buckets; b += grid_threads())
        first[b] = b == n_buckets ? n_middles
                                  : lower_bound(middle_rank, n_middles, middle_rank[0] + (int)(b << shift));
}

/// The place of a middle, or -1.
__device__ __forceinline__ int find_middle(const int* middle_rank, const int* first, int shift, int n_buckets,
                                           int rank) {
    const int bucket = (rank - middle_rank[0]) >> shift;
    if (bucket < 0 || bucket >= n_buckets) return -1;
    const int begin = first[bucket], length = first[bucket + 1] - begin;
    if (length == 0) return -1;
    if (shift == 0) return begin;
    const int at = lower_bound(middle_rank + begin, length, rank);
    return at < length && middle_rank[begin + at] == rank ? begin + at : -1;
}

/// The last row of [low, high] that begins at or before an entry; one of these rows has the entry.
__device__ __forceinline__ int row_of(const long long* indptr, int low, int high, long long entry) {
    return low + first_not(high - low, [=](int i) { return indptr[low + 1 + i] <= entry; });
}

/// Fill `adjacency` and `prefix`, and add up, per start, its entries with a wedge, its wedges, and those that end in
/// the hub columns.
extern "C" __global__ void __launch_bounds__(256)
join_starts(const long long* __restrict__ indptr, const int* __restrict__ middles, const int n_starts,
            const int* __restrict__ preceding, const int* __restrict__ middle_rank, const int* __restrict__ first,
            const int shift, const int n_buckets, const long long* __restrict__ end_indptr,
            const int* __restrict__ ends, const int* __restrict__ hub_count, int* adjacency, int* prefix, int* joined,
            unsigned long long* wedges, unsigned long long* hub_wedges) {
    const int lane = lane_id();
    const long long n = indptr[n_starts], n_chunks = (n + kChunk - 1) / kChunk;
    for (long long chunk = global_thread() / kWarpSize; chunk < n_chunks; chunk += grid_threads() / kWarpSize) {
        const long long stop = min((chunk + 1) * kChunk, n);
        int low = row_of(indptr, 0, n_starts - 1, chunk * kChunk);
        const int high = row_of(indptr, low, n_starts - 1, stop - 1);
        for (long long base = chunk * kChunk; base < stop; base += kWarpSize) {
            const long long e = base + lane;
            unsigned length = 0, at_hubs = 0;
            const int row = row_of(indptr, low, high, min(e, stop - 1));
            if (e < stop) {
                const int middle = find_middle(middle_rank, first, shift, n_buckets, middles[e]);
                if (middle >= 0) {
                    const long long begin = end_indptr[middle];
                    length = (unsigned)lower_bound(ends + begin, (int)(end_indptr[middle + 1] - begin), preceding[row]);
                    at_hubs = min(length, (unsigned)hub_count[middle]);
                }
                adjacency[e] = middle;
                prefix[e] = (int)length;
            }
            const RowEnd end = add_to_rows((unsigned)row, length, at_hubs, true, wedges, hub_wedges);
            const unsigned counted = __ballot_sync(kFullMask, length != 0);
            if (end.counts)
                atomicAdd(&joined[row], __popc(counted & (lanes_before(lane) | (1u << lane)) & ~lanes_before(end.first)));
            low = __shfl_sync(kFullMask, row, 0);
        }
    }
}
