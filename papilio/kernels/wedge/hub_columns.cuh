// Hub columns: the first kHubColumns ends of a side as one bit each, counted by bit-sliced adders.
//
// Nearly all wedges end at a few hubs. Row v of the bit matrix holds a bit per hub that is adjacent to v and
// precedes v. A start w adds the rows of its middles column by column: a lane owns 32 * kHubWords columns and
// keeps their counters as bit planes (plane i holds bit i of each counter), so that one carry-save adder, two
// three-input logic operations, advances 32 counters at once, where the counter tables spend an atomic on each.
// 32 rows go through a tree of 31 adders, whose carry goes into the planes above the fifth one by one. The kernels are
// limited by instructions, not memory: places without a row read an empty one, to avoid branches.
//
// With signs a vertex has two rows, one for its positive edges and one for its negative ones, and wedges of the two kinds
// are counted one after the other: a start adds the row of the sign of its own edge, then the other one.
//
// A row is kRowWords words; lane l owns the words [l * kHubWords, (l + 1) * kHubWords).
//
// Per vertex there may be several *tiles* of columns: row r of the matrix is then `tiles` rows, one for each tile, and a start
// is counted tile by tile.
#pragma once

#include "warp.cuh"
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

/// The bit matrix, and the tile in use; row `none` is empty. Rows times tiles are below 2^31.
struct HubMatrix {
    const unsigned* words;
    int none;
    int tiles;
    int tile;

    /// The row of an entry (start, middle) for wedges of a kind: of the sign of the entry for kind 0.
    __device__ __forceinline__ int row_of(const Start& start, int held, int kind, bool has_row) const {
        return (has_row ? (held ^ kind) + kSigns * start.middle_offset : none) * tiles + tile;
    }
};

__device__ __forceinline__ HubRow load_hub_row(const HubMatrix& hubs, int row) {
    const unsigned* at = hubs.words + (long long)row * kRowWords + lane_id() * kHubWords;
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

/// The type of a sum below 2^32, and of any other sum.
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

    /// Add two numbers of a bit for each column to plane kPlane; return the carries.
    template <int kPlane>
    __device__ __forceinline__ HubRow add(const HubRow& b, const HubRow& c) {
        HubRow carry;
#pragma unroll
        for (int k = 0; k < kHubWords; ++k) carry.word[k] = carry_save_add(plane[kPlane][k], b.word[k], c.word[k]);
        return carry;
    }

    /// Add eight rows; return the carry into plane 3.
    __device__ __forceinline__ HubRow add_rows(const HubRow (&rows)[8]) {
        const HubRow two_a = add<0>(rows[0], rows[1]), two_b = add<0>(rows[2], rows[3]);
        const HubRow four_a = add<1>(two_a, two_b);
        const HubRow two_c = add<0>(rows[4], rows[5]), two_d = add<0>(rows[6], rows[7]);
        const HubRow four_b = add<1>(two_c, two_d);
        return add<2>(four_a, four_b);
    }

    /// Add a number of a bit for each column to plane kPlane and the planes above.
    template <int kPlane>
    __device__ __forceinline__ void carry_up(const HubRow& carried) {
#pragma unroll
        for (int k = 0; k < kHubWords; ++k) {
            unsigned carry = carried.word[k];
#pragma unroll
            for (int p = kPlane; p < kPlanes; ++p) {
                const unsigned next = plane[p][k] & carry;
                plane[p][k] ^= carry;
                carry = next;
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

/// Add the planes of the `n_warps` warps of a group, a power of two, to those of its member 0, through shared memory for the
/// planes of half of the warps. The block, with the same `n_warps` everywhere; ends with a barrier.
template <int kPlanes>
__device__ __forceinline__ void merge_planes(BitCounters<kPlanes>& counters, int member, int n_warps, unsigned* stored,
                                             int group = 0) {
    constexpr int kStored = kPlanes * kRowWords;
    for (int half = n_warps / 2; half > 0; half >>= 1) {
        unsigned* const of_group = stored + group * half * kStored;
        if (member >= half && member < 2 * half) counters.store(of_group + (member - half) * kStored);
        __syncthreads();
        if (member < half) counters.add_stored(of_group + member * kStored);
        __syncthreads();
    }
}

/// Planes that counts up to `degree` need, at least three.
__device__ __forceinline__ int planes_for(long long degree) { return max(3, 64 - __clzll(degree)); }

/// Add the eight rows that lanes hold from place `first` on; return the carry into plane 3. Only `useful` lanes do.
template <int kPlanes>
__device__ __forceinline__ HubRow add_hub_rows(const HubMatrix& hubs, int row, int first, bool useful,
                                               BitCounters<kPlanes>& counters) {
    int at[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) at[i] = __shfl_sync(kFullMask, row, first + i);
    HubRow carried{};
    if (useful) {
        HubRow rows[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) rows[i] = load_hub_row(hubs, at[i]);
        carried = counters.add_rows(rows);
    }
    return carried;
}

/// Add the rows of the middles of a start, for wedges of a kind, in groups of 32 entries, each for one warp of `n_warps`.
/// `held` is the caller's entry in the first group of its warp, if any.
template <int kPlanes>
__device__ __forceinline__ void count_hub_columns(const WedgeGraph& graph, const Start& start, const HubMatrix& hubs,
                                                  int kind, int warp, int n_warps, int held,
                                                  BitCounters<kPlanes>& counters) {
    const int lane = lane_id();
    // Columns at or after the start's own rank never count: lanes that hold only such columns need not load.
    const bool useful = hubs.tile * kHubColumns + lane * kHubWords * 32 < start.rank;
    const int* const entries = graph.adjacency + start.begin;
    const int degree = (int)(start.end - start.begin), step = n_warps * kWarpSize;
    for (int base = warp * kWarpSize; base < degree; base += step) {
        const bool has_row = base + lane < degree && (!PART || held >= 0);
        const int row = hubs.row_of(start, held, kind, has_row);
        if (base + step + lane < degree) held = entries[base + step + lane];  // overlaps adding rows
        const int here = degree - base;
        HubRow high{};
        const HubRow first = add_hub_rows(hubs, row, 0, useful, counters);
        const HubRow second = here > 8 ? add_hub_rows(hubs, row, 8, useful, counters) : HubRow{};
        const HubRow low = counters.template add<3>(first, second);
        if (here > 16) {
            const HubRow third = add_hub_rows(hubs, row, 16, useful, counters);
            const HubRow fourth = here > 24 ? add_hub_rows(hubs, row, 24, useful, counters) : HubRow{};
            high = counters.template add<3>(third, fourth);
        }
        counters.template carry_up<5>(counters.template add<4>(low, high));
    }
}

// Words of shared memory changed by atomics.
//
// Compilers recompute the address of shared memory for each atomic, which takes longer than the atomic; here it stays in a
// register.

struct SharedWords {
#ifdef PAPILIO_EMULATED
    unsigned* words;

    __device__ __forceinline__ explicit SharedWords(void* at) : words(static_cast<unsigned*>(at)) {}
#else
    unsigned address;

    __device__ __forceinline__ explicit SharedWords(void* at) {
        const unsigned found = (unsigned)__cvta_generic_to_shared(at);
        asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(found));  // prevents recomputation
    }
#endif

    __device__ __forceinline__ unsigned get(int at) const {
#ifdef PAPILIO_EMULATED
        return words[at];
#else
        unsigned held;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(held) : "r"(address + 4 * at) : "memory");
        return held;
#endif
    }

    /// Add to a word and return its previous value.
    __device__ __forceinline__ unsigned add(int at, unsigned value) const {
#ifdef PAPILIO_EMULATED
        return atomicAdd(&words[at], value);
#else
        unsigned held;
        asm volatile("atom.shared.add.u32 %0, [%1], %2;"
                     : "=r"(held) : "r"(address + 4 * at), "r"(value) : "memory");
        return held;
#endif
    }

    /// Replace `empty` by a value and return the previous word.
    __device__ __forceinline__ unsigned put(int at, unsigned empty, unsigned value) const {
#ifdef PAPILIO_EMULATED
        return atomicCAS(&words[at], empty, value);
#else
        unsigned held;
        asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;"
                     : "=r"(held) : "r"(address + 4 * at), "r"(empty), "r"(value) : "memory");
        return held;
#endif
    }
};
