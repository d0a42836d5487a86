// Hub columns per vertex: the butterflies of a start with its ends among the hub columns, for the start, ends and middles.
//
// A block owns a start and goes through the tiles of hub columns. In each, the planes of hub_columns.cuh give c(u, w) for
// every end u; u gets C(c, 2). A middle v gets the sum of c(u, w) - 1 over its ends: the product of its row of bits with the
// counts. Every lane looks up four bits at a time in a table of the 16 possible sums of their counts, which takes no atomics.
// The table [nibble][bits][lane] has a bank for each lane.
//
// Bound: a count is at most the degree of the start, below 2^LARGE_PLANES = 2^20, so a sum over a tile of at most 2^12
// columns is below 2^32.
#pragma once

#include "butterfly.cuh"
#include "hub_columns.cuh"

constexpr int kNibbles = 8 * kHubWords;  // of a lane
constexpr int kHubTableWords = kNibbles * 16 * kWarpSize;
static_assert(LARGE_PLANES <= 20 && kHubColumns <= 1 << 12, "a sum of counts fits in 32 bits");
static_assert(LARGE_PLANES <= 24, "a count has three bytes");

/// Four numbers of up to three bytes, taken from bits of their planes.
struct FourCounts {
    unsigned bytes[3];  // byte j of each is of number j

    __device__ __forceinline__ unsigned get(int j) const {
        unsigned count = 0;
#pragma unroll
        for (int i = 0; i < 3; ++i) count |= (bytes[i] >> (8 * j) & 0xffu) << (8 * i);
        return count;
    }
};

/// Counts of four columns of a lane, from the planes that a warp stored.
template <int kPlanes>
__device__ __forceinline__ FourCounts load_counts(const unsigned* stored, int nibble, int lane, int n_planes) {
    FourCounts counts{};
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) {
        if (p < n_planes) {
            const unsigned word = stored[(p * kHubWords + nibble / 8) * kWarpSize + lane];
            const unsigned bits = word >> (4 * (nibble % 8)) & 15u;
            counts.bytes[p / 8] |= (bits * 0x00204081u & 0x01010101u) << (p % 8);  // bit j to byte j
        }
    }
    return counts;
}

/// Fill the table from the planes of the block, and give its motifs to the ends before the start. Returns the caller's
/// share of their sum. The block, between barriers.
template <int kPlanes>
__device__ __forceinline__ unsigned long long give_hub_ends(const WedgeGraph& graph, const Start& start, int tile,
                                                            const unsigned* stored, int n_planes, unsigned* table,
                                                            unsigned long long* result) {
    unsigned long long sum = 0;
    for (int at = threadIdx.x; at < kNibbles * kWarpSize; at += blockDim.x) {
        const int lane = at % kWarpSize, nibble = at / kWarpSize;
        const FourCounts counts = load_counts<kPlanes>(stored, nibble, lane, n_planes);
        const int first = tile * kHubColumns + lane * 32 * kHubWords + 4 * nibble;
        unsigned shared[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned count = first + j < start.rank ? counts.get(j) : 0;
            shared[j] = count > 0 ? count - 1 : 0;
            sum += (unsigned long long)count * shared[j] / 2;
            give_end(graph, start, kKinds * (first + j), count, result);
        }
        unsigned* const sums = table + nibble * 16 * kWarpSize + lane;
        unsigned of_bits[16];
        of_bits[0] = 0;
#pragma unroll
        for (int bits = 1; bits < 16; ++bits) {
            const int top = bits >= 8 ? 3 : bits >= 4 ? 2 : bits >= 2 ? 1 : 0;
            of_bits[bits] = of_bits[bits - (1 << top)] + shared[top];
        }
#pragma unroll
        for (int bits = 0; bits < 16; ++bits) sums[bits * kWarpSize] = of_bits[bits];
    }
    return sum;
}

/// The sum of the table over the caller's bits of a row.
__device__ __forceinline__ unsigned sum_of_bits(const unsigned* table, const HubRow& row) {
    unsigned sum = 0;
#pragma unroll
    for (int nibble = 0; nibble < kNibbles; ++nibble) {
        const unsigned bits = row.word[nibble / 8] >> (4 * (nibble % 8)) & 15u;
        sum += table[nibble * 16 * kWarpSize + bits * kWarpSize];
    }
    return sum;
}

constexpr int kRowsAtOnce = 4;

/// Give the middles of a start their motifs with the ends of a tile, in groups of 32 entries for each warp.
__device__ __forceinline__ void give_hub_middles(const WedgeGraph& graph, const Start& start, const HubMatrix& hubs,
                                                 int kind, int warp, int n_warps, const unsigned* table,
                                                 unsigned long long* result) {
    const int lane = lane_id();
    const bool useful = hubs.tile * kHubColumns + lane * kHubWords * 32 < start.rank;
    const unsigned* const of_lane = table + lane;
    const int degree = (int)(start.end - start.begin);
    for (int base = warp * kWarpSize; base < degree; base += n_warps * kWarpSize) {
        const int held = base + lane < degree ? graph.adjacency[start.begin + base + lane] : -1;
        const bool has_row = base + lane < degree && (!PART || held >= 0);
        const int row = hubs.row_of(start, held, kind, has_row);
        unsigned own = 0;
        for (int first = 0; first < min(kWarpSize, degree - base); first += kRowsAtOnce) {
            HubRow rows[kRowsAtOnce];
#pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i) {
                const int at = __shfl_sync(kFullMask, row, first + i);
                rows[i] = HubRow{};
                if (useful) rows[i] = load_hub_row(hubs, at);
            }
#pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i) {
                const unsigned all = warp_total(sum_of_bits(of_lane, rows[i]));
                if (lane == first + i) own = all;
            }
        }
        if (has_row && own != 0)
            atomicAdd(&result[place_of_middle(graph, start, start.begin + base + lane)], (unsigned long long)own);
    }
}

/// A block per start, as count_hubs_by_block for totals. Shared memory: the table, then the planes of half of its warps.
template <int kPlanes>
__device__ __forceinline__ void give_hubs_by_block(const WedgeGraph& graph, HubMatrix hubs, const int* rows, int n_rows,
                                                   int* counter, unsigned* table, int* slot, unsigned long long* total,
                                                   unsigned long long* result) {
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    unsigned* const stored = table + kHubTableWords;
    RunningSum sums{total};
    BlockQueue queue(counter, slot);
    for (int at = queue.next(); at < n_rows; at = queue.next()) {
        const Start start = load_start(graph, row_of(rows[at]), 1);
        const int degree = (int)(start.end - start.begin), own = warp * kWarpSize + lane_id();
        const int n_planes = planes_for(degree);
        const int n_tiles = min(hubs.tiles, (start.rank + kHubColumns - 1) / kHubColumns);
        unsigned long long sum = 0;
        for (int step = 0; step < kSigns * n_tiles; ++step) {
            hubs.tile = step / kSigns;
            const int kind = step % kSigns;
            const int held = own < degree ? graph.adjacency[start.begin + own] : 0;
            BitCounters<kPlanes> counters;
            counters.clear();
            count_hub_columns(graph, start, hubs, kind, warp, n_warps, held, counters);
            merge_planes(counters, warp, n_warps, stored);
            if (warp == 0) counters.store(stored);
            __syncthreads();
            sum += give_hub_ends<kPlanes>(graph, start, hubs.tile, stored, n_planes, table, result);
            __syncthreads();
            give_hub_middles(graph, start, hubs, kind, warp, n_warps, table, result);
        }
        finish_start(start, sum, sums, result);
    }
    sums.flush();
}
