// Preparation for the wedge engine: the rows of both layers, the work items, and the schedule of each item.
//
// Creates keys of 64 bits, which the host's library sorts, and reads them. Every kernel is a grid-stride loop over
// independent elements; rows and items below 2^31, degrees below 2^31.
#include "wedges.cuh"

constexpr unsigned long long kNone = ~0ull;  // sorts after every key
constexpr unsigned kDegreeMask = 0x7fffffffu;
constexpr int kUsesHubs = 1 << 31;
constexpr long long kEntryCost = 4;  // wedges that take a block as long as an entry

/// Largest value of the lanes, in every lane.
__device__ __forceinline__ unsigned long long warp_most(unsigned long long value) {
    for (int step = kWarpSize / 2; step > 0; step >>= 1) value = max(value, __shfl_xor_sync(kFullMask, value, step));
    return value;
}

__device__ __forceinline__ unsigned falling_of(unsigned long long key) { return (unsigned)(key >> 32) & kDegreeMask; }

/// (layer, descending degree, id) of each vertex; layer U has the first n_u of them. Sorted, they are the rows by rank.
extern "C" __global__ void __launch_bounds__(256)
rank_keys(const int* __restrict__ degree, const int n_u, const int n_rows, unsigned long long* keys) {
    for (long long i = global_thread(); i < n_rows; i += grid_threads()) {
        const bool in_v = i >= n_u;
        const unsigned high = (in_v ? ~kDegreeMask : 0u) | (kDegreeMask - (unsigned)degree[i]);
        keys[i] = (unsigned long long)high << 32 | (unsigned)(i - (in_v ? n_u : 0));
    }
}

/// Number of keys of an ascending list of one layer whose inverted degree, kDegreeMask - degree, is below `bound`.
__device__ __forceinline__ int count_falling_below(const unsigned long long* keys, int n, unsigned bound) {
    return first_not(n, [=](int i) { return falling_of(keys[i]) < bound; });
}

/// From the sorted keys: the rank of each id, the degree of each row, the rows of the other layer that precede it, its
/// place in the order over both layers, and its degree again after a zero, for summing to row offsets. For equal degrees
/// layer U precedes; with `first` 1 or 2 all of layer U or V does.
extern "C" __global__ void __launch_bounds__(256)
place_rows(const unsigned long long* __restrict__ keys, const int n_u, const int n_rows, const int first, int* rank,
           int* degree, int* ahead, long long* priority, long long* lengths) {
    const int n_v = n_rows - n_u;
    for (long long row = global_thread(); row < n_rows; row += grid_threads()) {
        const bool in_v = row >= n_u;
        const int own = (int)row - (in_v ? n_u : 0);
        const unsigned falling = falling_of(keys[row]);
        int before;
        if (first) {
            before = first == (in_v ? 2 : 1) ? 0 : in_v ? n_u : n_v;
        } else {
            before = in_v ? count_falling_below(keys, n_u, falling + 1) : count_falling_below(keys + n_u, n_v, falling);
        }
        rank[(in_v ? n_u : 0) + (unsigned)keys[row]] = own;
        degree[row] = (int)(kDegreeMask - falling);
        ahead[row] = before;
        priority[row] = (long long)own + before;
        lengths[row + 1] = kDegreeMask - falling;
        if (row == 0) lengths[0] = 0;
    }
}

/// (falling wedges, priority) of each row that is a work item, with wedges and `least` neighbours, and the row at each
/// priority. `found` gets the number of items and the most wedges of one: from 2^32 on the keys do not hold them, and are
/// not to be used.
extern "C" __global__ void __launch_bounds__(256)
item_keys(const int* __restrict__ degree, const unsigned long long* __restrict__ wedges,
          const long long* __restrict__ priority, const int n_rows, const int least, unsigned long long* keys, int* row_at,
          unsigned long long* found) {
    const long long padded = ((long long)n_rows + kWarpSize - 1) / kWarpSize * kWarpSize;
    for (long long row = global_thread(); row < padded; row += grid_threads()) {
        const bool is_row = row < n_rows;
        const unsigned long long cost = is_row && degree[row] >= least ? wedges[row] : 0;
        if (is_row) {
            keys[row] = cost ? (0xffffffffull - cost) << 32 | (unsigned)priority[row] : kNone;
            row_at[priority[row]] = (int)row;
        }
        const unsigned items = __popc(__ballot_sync(kFullMask, cost > 0));
        const unsigned long long most = warp_most(cost);
        if (lane_id() == 0 && items) {
            atomicAdd(&found[0], (unsigned long long)items);
            atomicMax(&found[1], most);
        }
    }
}

/// Row and wedges of each item, from the sorted keys.
extern "C" __global__ void __launch_bounds__(256)
take_items(const unsigned long long* __restrict__ keys, const int n_items, const int* __restrict__ row_at,
           const unsigned long long* __restrict__ wedges, int* items, unsigned long long* costs) {
    for (long long i = global_thread(); i < n_items; i += grid_threads()) {
        const int row = row_at[(unsigned)keys[i]];
        items[i] = row;
        costs[i] = wedges[row];
    }
}

/// Mark the starts with enough hub wedges per entry and tile of the columns before it, if the planes of the bit matrix hold
/// their degree. `more` entries are added for each tile; ranks are as in schedule_items.
extern "C" __global__ void __launch_bounds__(256)
mark_hub_starts(const int* __restrict__ items, const int n_items, const int* __restrict__ degree,
                const unsigned long long* __restrict__ wedges, const unsigned long long* __restrict__ hub_wedges,
                const int* __restrict__ preceding, const int n_u, const int hub_columns, const int tile_columns,
                const long long least, const int more, const int degree_below, unsigned char* uses_hubs) {
    for (long long i = global_thread(); i < n_items; i += grid_threads()) {
        const int row = items[i];
        const int ends = n_u < 0 ? preceding[row] : row < n_u ? row : row - n_u;
        const long long tiles = (min(ends, hub_columns) + tile_columns - 1) / tile_columns;
        const bool repaid = (long long)hub_wedges[row] >= least * tiles * ((long long)degree[row] + more);
        uses_hubs[row] = repaid && degree[row] < degree_below && wedges[row] > 0;
    }
}

/// Cost of each item for a block, in wedges counted in a table; `found` gets the sum, the maximum, and the wedges that the
/// bit matrix counts. `hub_cost` is the cost of an entry there.
extern "C" __global__ void __launch_bounds__(256)
item_costs(const int* __restrict__ items, const int n_items, const int* __restrict__ degree,
           const unsigned long long* __restrict__ wedges, const unsigned long long* __restrict__ hub_wedges,
           const unsigned char* __restrict__ uses_hubs, const long long hub_cost, unsigned long long* costs,
           unsigned long long* found) {
    const long long padded = ((long long)n_items + kWarpSize - 1) / kWarpSize * kWarpSize;
    for (long long i = global_thread(); i < padded; i += grid_threads()) {
        unsigned long long cost = 0, at_hubs = 0;
        if (i < n_items) {
            const int row = items[i];
            if (uses_hubs[row]) at_hubs = hub_wedges[row];
            cost = wedges[row] - at_hubs + degree[row] + (at_hubs ? hub_cost * degree[row] : 0);
            costs[i] = cost;
        }
        const unsigned long long sum = warp_sum(cost), most = warp_most(cost), sum_at_hubs = warp_sum(at_hubs);
        if (lane_id() == 0) {
            atomicAdd(&found[0], sum);
            atomicMax(&found[1], most);
            atomicAdd(&found[2], sum_at_hubs);
        }
    }
}

/// Bytes of a dense table of `counters` counters for a start of this degree: from `narrow_bytes` on with counters wide
/// enough for the likely counts, given the wedges per counter.
__device__ __forceinline__ long long dense_bytes(long long counters, int degree, long long wedges,
                                                 long long narrow_bytes) {
    int log2_bits = log2_counter_bits(degree);
    if ((counters << log2_bits) / 8 > narrow_bytes) log2_bits = min(log2_bits, 2 * wedges < counters ? kLog2LeastBits : 3);
    return ((counters << log2_bits) + 31) / 32 * 4;
}

/// (schedule, item) of each item for its ends outside the hub columns, followed by n_items for its ends in them; kNone if
/// it has none. The schedules are: match, the tables in order (`tables`: maximum wedges and, unless negative, bytes of a
/// dense one), hubs of large starts, of blocks, of warps.
///
/// The number of ends of a start is its rank, its row or, if n_u is negative, `preceding`.
extern "C" __global__ void __launch_bounds__(256)
schedule_items(const int* __restrict__ items, const int n_items, const int* __restrict__ degree,
               const unsigned long long* __restrict__ wedges, const unsigned long long* __restrict__ hub_wedges,
               const unsigned char* __restrict__ uses_hubs, const int* __restrict__ preceding, const int n_u,
               const int kinds, const int hub_ends, const int match_wedges, const long long* __restrict__ tables,
               const int n_tables, const long long narrow_bytes, const int large_degree, const int block_degree,
               unsigned long long* keys) {
    for (long long i = global_thread(); i < n_items; i += grid_threads()) {
        const int row = items[i], entries = degree[row];
        const bool by_hubs = uses_hubs[row];
        const long long far = (long long)(wedges[row] - (by_hubs ? hub_wedges[row] : 0));
        const int ends = n_u < 0 ? preceding[row] : row < n_u ? row : row - n_u;
        const long long counters = (long long)kinds * (ends - (by_hubs ? hub_ends : 0));
        // Counts of hubs can be as high as degrees.
        const long long bytes = dense_bytes(counters, entries, far, by_hubs ? narrow_bytes : 1ll << 62);
        unsigned table = 0;
        if (far > match_wedges || entries > kWarpSize) {
            const auto fits = [&](long long most, long long room) {
                if (room < 0) return max(far, (long long)entries) <= most;
                return far + kEntryCost * entries <= most && bytes <= room;
            };
            while ((int)table + 1 < n_tables && !fits(tables[2 * table], tables[2 * table + 1])) ++table;
            ++table;
        }
        const unsigned hubs = 1u + n_tables + (entries < large_degree) + (entries < block_degree);
        keys[i] = far > 0 ? (unsigned long long)table << 32 | (unsigned)i : kNone;
        keys[n_items + i] = by_hubs ? (unsigned long long)hubs << 32 | (unsigned)i : kNone;
    }
}

/// The row of each scheduled item, minus 2^31 if the bit matrix counts the ends in the hub columns; -1 for kNone.
extern "C" __global__ void __launch_bounds__(256)
take_scheduled(const unsigned long long* __restrict__ scheduled, const int n, const int* __restrict__ items,
               const unsigned char* __restrict__ uses_hubs, int* rows) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        int row = -1;
        if (scheduled[i] != kNone) {
            row = items[(unsigned)scheduled[i]];
            if (uses_hubs[row]) row |= kUsesHubs;
        }
        rows[i] = row;
    }
}
