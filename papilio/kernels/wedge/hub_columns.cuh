// Hub columns: the first kHubColumns ends of a side as one bit each, counted by bit-sliced adders.
//
// Nearly all wedges end at a few hubs. Row v of the bit matrix holds a bit per hub that is adjacent to v and
// precedes v. A start w adds the rows of its middles column by column: a lane owns 32 * kHubWords columns and
// keeps their counters as bit planes (plane i holds bit i of each counter), so that one carry-save adder, two
// three-input logic operations, advances 32 counters at once, where the counter tables spend an atomic on each.
// Eight rows go through a tree of seven adders, whose carry ripples into the planes above the third.
//
// With signs a vertex has two rows, one for its positive edges and one for its negative ones, and wedges of the two kinds
// are counted one after the other: a start adds the row of the sign of its own edge, then the other one.
//
// A row is kRowWords words; lane l owns the words [l * kHubWords, (l + 1) * kHubWords).
#pragma once

#include "wedges.cuh"

#ifndef HUB_WORDS
#define HUB_WORDS 2
#endif

constexpr int kHubWords = HUB_WORDS;
constexpr int kRowWords = kWarpSize * kHubWords;
constexpr int kHubColumns = 32 * kRowWords;

struct HubRow {
    unsigned word[kHubWords];
};

__device__ __forceinline__ HubRow load_hub_row(const unsigned* hub_rows, int row) {
    const unsigned* at = hub_rows + (long long)row * kRowWords + lane_id() * kHubWords;
    HubRow loaded;
#if HUB_WORDS == 1
    loaded.word[0] = *at;
#elif HUB_WORDS == 2
    const uint2 pair = *reinterpret_cast<const uint2*>(at);
    loaded.word[0] = pair.x;
    loaded.word[1] = pair.y;
#else
#pragma unroll
    for (int k = 0; k < kHubWords; k += 4) {
        const uint4 quad = *reinterpret_cast<const uint4*>(at + k);
        loaded.word[k] = quad.x;
        loaded.word[k + 1] = quad.y;
        loaded.word[k + 2] = quad.z;
        loaded.word[k + 3] = quad.w;
    }
#endif
    return loaded;
}

/// a + b + c of one-bit numbers, 32 at once: sum bits in `low`, carries returned.
__device__ __forceinline__ unsigned carry_save_add(unsigned& low, unsigned b, unsigned c) {
    const unsigned a = low;
    low = a ^ b ^ c;
    return (a & b) | (c & (a | b));
}

static_assert(kHubWords <= 4, "a lane owns at most 2^7 columns");

/// What a sum below 2^32 is kept in, and any other.
template <bool kFits>
struct Choose {
    using Sum = unsigned;
};
template <>
struct Choose<false> {
    using Sum = unsigned long long;
};

/// 32 counters per word as bit planes; kPlanes planes hold counts below 2^kPlanes.
template <int kPlanes>
struct BitCounters {
    unsigned plane[kPlanes][kHubWords];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int p = 0; p < kPlanes; ++p)
#pragma unroll
            for (int k = 0; k < kHubWords; ++k) plane[p][k] = 0;
    }

    /// Add eight rows; `n_planes` (uniform) planes can be in use, at least 3 and at most kPlanes.
    __device__ __forceinline__ void add_rows(const HubRow (&rows)[8], int n_planes) {
#pragma unroll
        for (int k = 0; k < kHubWords; ++k) {
            const unsigned two_a = carry_save_add(plane[0][k], rows[0].word[k], rows[1].word[k]);
            const unsigned two_b = carry_save_add(plane[0][k], rows[2].word[k], rows[3].word[k]);
            const unsigned four_a = carry_save_add(plane[1][k], two_a, two_b);
            const unsigned two_c = carry_save_add(plane[0][k], rows[4].word[k], rows[5].word[k]);
            const unsigned two_d = carry_save_add(plane[0][k], rows[6].word[k], rows[7].word[k]);
            const unsigned four_b = carry_save_add(plane[1][k], two_c, two_d);
            unsigned carry = carry_save_add(plane[2][k], four_a, four_b);
#pragma unroll
            for (int p = 3; p < kPlanes; ++p) {
                if (p < n_planes) {
                    const unsigned next = plane[p][k] & carry;
                    plane[p][k] ^= carry;
                    carry = next;
                }
            }
        }
    }

    /// Add the counters of another warp, laid out by `store`.
    __device__ __forceinline__ void add_stored(const unsigned* stored) {
#pragma unroll
        for (int k = 0; k < kHubWords; ++k) {
            unsigned carry = 0;
#pragma unroll
            for (int p = 0; p < kPlanes; ++p)
                carry = carry_save_add(plane[p][k], stored[(p * kHubWords + k) * kWarpSize + lane_id()], carry);
        }
    }

    __device__ __forceinline__ void store(unsigned* stored) const {
#pragma unroll
        for (int p = 0; p < kPlanes; ++p)
#pragma unroll
            for (int k = 0; k < kHubWords; ++k) stored[(p * kHubWords + k) * kWarpSize + lane_id()] = plane[p][k];
    }

    /// Sum of C(c, 2) over the lane's counters whose column is below `columns`.
    ///
    /// With c = sum of 2^i b_i:  C(c, 2) = sum over i of (4^i - 2^i)/2 b_i + sum over i < j of 2^(i+j) b_i b_j,
    /// and a sum over columns turns b_i and b_i b_j into popcounts. The sum is below 32 kHubWords 2^(2 kPlanes - 1).
    __device__ __forceinline__ unsigned long long pairs(int columns, int n_planes) const {
        using Sum = typename Choose<2 * kPlanes - 1 + 5 + (kHubWords > 2 ? 2 : 1) <= 32>::Sum;
        Sum sum = 0;
#pragma unroll
        for (int k = 0; k < kHubWords; ++k) {
            const int left = columns - 32 * (lane_id() * kHubWords + k);
            const unsigned mask = left >= 32 ? kFullMask : left > 0 ? lanes_before(left) : 0u;
#pragma unroll
            for (int i = 0; i < kPlanes; ++i) {
                if (i < n_planes) {
                    const unsigned bits = plane[i][k] & mask;
                    if (i > 0)
                        sum += (Sum)__popc(bits) * (Sum)(((1ull << (2 * i)) - (1ull << i)) >> 1);
#pragma unroll
                    for (int j = i + 1; j < kPlanes; ++j)
                        if (j < n_planes) sum += (Sum)__popc(bits & plane[j][k]) << (i + j);
                }
            }
        }
        return sum;
    }
};

/// Add the rows of the middles of a start, for wedges of a kind, in groups of 32 entries, each to a warp of `n_warps`.
template <int kPlanes>
__device__ __forceinline__ void count_hub_columns(const WedgeGraph& graph, const Start& start, const unsigned* hub_rows,
                                                  int kind, int warp, int n_warps, int n_planes,
                                                  BitCounters<kPlanes>& counters) {
    const int lane = lane_id();
    // Columns at or behind the start's own rank never count: lanes that hold only those need not load.
    const bool useful = lane * kHubWords * 32 < start.rank;
    const long long step = (long long)n_warps * kWarpSize;
    long long base = start.begin + (long long)warp * kWarpSize;
    int next = base + lane < start.end ? graph.adjacency[base + lane] : 0;
    for (; base < start.end; base += step) {
        const int middle = base + lane < start.end ? (next ^ kind) + kSigns * start.middle_offset : -1;
        if (base + step + lane < start.end) next = graph.adjacency[base + step + lane];  // while rows are added
        const int here = (int)min((long long)kWarpSize, start.end - base);
        for (int first = 0; first < here; first += 8) {
            HubRow rows[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int row = __shfl_sync(kFullMask, middle, first + i);
                if (row >= 0 && useful) {
                    rows[i] = load_hub_row(hub_rows, row);
                } else {
#pragma unroll
                    for (int k = 0; k < kHubWords; ++k) rows[i].word[k] = 0;
                }
            }
            counters.add_rows(rows, n_planes);
        }
    }
}
