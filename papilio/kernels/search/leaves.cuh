// Leaves of a search counted by size, without products: the host computes the number of motifs they represent.
//
// A warp counts the sizes `least` to `least + kLeafBins - 1` in its own 16-bit counters in shared memory, one per lane and
// size, so that lanes do not collide. The next kDenseBins sizes have a 32-bit counter for the whole block, if a kernel has
// room for them; all larger sizes go to device memory at once. The counters are flushed into 64-bit sums in device memory
// before any of them can overflow: a warp's when one of its lanes may have counted enough, a block's by the leaves that
// bring it to DENSE_LEAVES. A sum cannot exceed 2^64 in a week: 1,024 leaves cost a warp at least some 30 instructions, and
// a GPU executes 1e12 per second.
#pragma once

#include "warp.cuh"

constexpr int kLeafBins = LEAF_BINS;
constexpr int kLeafWords = kLeafBins * kWarpSize / 2;
constexpr int kDenseBins = DENSE_BINS;
constexpr unsigned kDenseLeaves = DENSE_LEAVES;
/// Number of sizes counted together; it divides kLeafBins.
constexpr int kSizeGroup = 4;
static_assert(kLeafBins % kSizeGroup == 0, "a group is within the counters of a warp, or beyond them");

struct LeafHistogram {
    unsigned short* bins;
    unsigned long long* sums;
    unsigned* dense;
    int least;
    int room;  // leaves that a lane can still count before the next flush

    /// `words`: kLeafWords words of shared memory, or null if nothing is ever counted; `sums`: by size, in device
    /// memory; `dense`: kDenseBins words of the block's shared memory, after open_dense, or null.
    __device__ __forceinline__ LeafHistogram(unsigned* words, unsigned long long* sums, int least,
                                             unsigned* dense = nullptr)
        : bins(reinterpret_cast<unsigned short*>(words)), sums(sums), dense(dense), least(least), room(65535) {
#pragma unroll 1
        for (int i = lane_id(); words != nullptr && i < kLeafWords; i += kWarpSize) words[i] = 0;
        __syncwarp();
    }

    /// Empty the counters of a block before its warps count; the block.
    __device__ __forceinline__ static void open_dense(unsigned* dense) {
#pragma unroll 1
        for (int i = threadIdx.x; i < kDenseBins; i += blockDim.x) dense[i] = 0;
        __syncthreads();
    }

    /// Flush the counters of a block to device memory after its warps have counted; the block.
    __device__ __forceinline__ void close_dense() const {
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < kDenseBins; i += blockDim.x)
            if (dense[i] != 0) atomicAdd(&sums[least + kLeafBins + i], (unsigned long long)dense[i]);
    }

    /// Call before at most `leaves` (below 2^16) leaves of each lane; the warp.
    __device__ __forceinline__ void reserve(int leaves) {
        if (room < leaves) flush();
        room -= leaves;
    }

    /// Count a leaf of a size; any lane alone. Sizes below `least` are not leaves.
    __device__ __forceinline__ void add(int size) {
        const unsigned bin = (unsigned)(size - least);
        if (bin < (unsigned)kLeafBins)
            add_near(size);
        else if (size >= least)
            add_large(bin - kLeafBins, 1);
    }

    /// Count a leaf of one of the first kLeafBins sizes; any lane alone.
    __device__ __forceinline__ void add_near(int size) { ++bins[(size - least) * kWarpSize + lane_id()]; }

    /// Count leaves of the sizes from `first` on, all among the first kLeafBins: `n` (each below 2^16) of this lane.
    __device__ __forceinline__ void add_near(int first, const unsigned (&n)[kSizeGroup]) {
        unsigned short* const counters = bins + (first - least) * kWarpSize + lane_id();
#pragma unroll
        for (int i = 0; i < kSizeGroup; ++i) counters[i * kWarpSize] += (unsigned short)n[i];
    }

    /// Count leaves of the sizes from `first` on, which is `least` plus whole groups: `n` (each below 2^16) of this lane;
    /// the warp.
    __device__ __forceinline__ void add_group(int first, const unsigned (&n)[kSizeGroup]) {
        const int bin = first - least;
        if (bin < kLeafBins) {
            add_near(first, n);
            return;
        }
#pragma unroll
        for (int i = 0; i < kSizeGroup; ++i) {
            const unsigned all = warp_total(n[i]);
            if (lane_id() == 0 && all != 0) add_large((unsigned)(bin - kLeafBins + i), all);
        }
    }

    /// Empty the counters; the warp.
    __device__ __forceinline__ void flush() {
        __syncwarp();
#pragma unroll 1
        for (int bin = lane_id(); bin < kLeafBins; bin += kWarpSize) {
            unsigned sum = 0;
#pragma unroll 1
            for (int i = 0; i < kWarpSize; ++i) {
                const int at = bin * kWarpSize + ((i + lane_id()) & 31);
                sum += bins[at];
                bins[at] = 0;
            }
            if (sum != 0) atomicAdd(&sums[least + bin], (unsigned long long)sum);
        }
        __syncwarp();
        room = 65535;
    }

  private:
    __device__ __forceinline__ void add_large(unsigned bin, unsigned n) {
        unsigned long long* sum = &sums[least + kLeafBins + bin];
        if (dense == nullptr || bin >= (unsigned)kDenseBins) {
            atomicAdd(sum, (unsigned long long)n);
            return;
        }
        const unsigned before = atomicAdd(&dense[bin], n);
        if (before < kDenseLeaves && before + n >= kDenseLeaves) {
            atomicSub(&dense[bin], kDenseLeaves);
            atomicAdd(sum, (unsigned long long)kDenseLeaves);
        }
    }
};

// Leaves of a search counted by a key, without products: the host computes the number of motifs they represent.
//
// The lanes of a warp gather 32 keys, merge equal ones and add them to a hash table in device memory (open addressing, a
// power of two of slots; an empty slot holds the key 0, which no leaf has). A key that finds no slot within kMaxProbes
// sets `full`: the counts of this launch are then void, and the host repeats it with a larger table.

struct LeafTable {
    static constexpr int kMaxProbes = 256;

    unsigned long long* keys;
    unsigned long long* counts;
    unsigned mask;
    int* full;
    unsigned long long held;  // the key that this lane keeps
    int n_held;

    __device__ __forceinline__ LeafTable(unsigned long long* keys, unsigned long long* counts, unsigned n_slots, int* full)
        : keys(keys), counts(counts), mask(n_slots - 1), full(full), held(0), n_held(0) {}

    /// Count a leaf of a nonzero key; the warp, with the same key in every lane.
    __device__ __forceinline__ void add(unsigned long long key) {
        if (lane_id() == n_held) held = key;
        if (++n_held == kWarpSize) flush();
    }

    /// Flush all leaves to the table; the warp.
    __device__ __forceinline__ void flush() {
        if (n_held == 0) return;
        const unsigned equal = __match_any_sync(kFullMask, held);
        if (held != 0 && lane_id() == __ffs((int)equal) - 1) insert(held, (unsigned)__popc(equal));
        held = 0;
        n_held = 0;
        __syncwarp();
    }

    /// Whether this launch is void; the warp.
    __device__ __forceinline__ bool is_full() const {
        return __shfl_sync(kFullMask, lane_id() == 0 ? peek(full) : 0, 0) != 0;
    }

    /// Add `count` leaves of a nonzero key; any lane alone.
    __device__ __forceinline__ void insert(unsigned long long key, unsigned long long count) {
        const unsigned long long mixed = key * 0x9e3779b97f4a7c15ull;
        unsigned slot = (unsigned)(mixed >> 32) & mask;
#pragma unroll 1
        for (int probe = 0; probe < kMaxProbes; ++probe) {
            unsigned long long found = peek(&keys[slot]);
            if (found == 0) found = atomicCAS(&keys[slot], 0ull, key);
            if (found == 0 || found == key) {
                atomicAdd(&counts[slot], count);
                return;
            }
            slot = (slot + 1) & mask;
        }
        atomicExch(full, 1);
    }
};

// Leaves of the most frequent sizes, in registers of a lane, 8 bits for each size.
//
// A table in shared memory holds the increment of the registers for each size, so that lanes with different sizes run the
// same code.

/// Sizes of the table: sizes of rows of one word.
constexpr int kNearOnes = 33;

/// Increment for a leaf of a size: 1 in the 8 bits of size - least, for 16 sizes from the least on; one per block.
struct NearOnes {
    uint4 of_size[kNearOnes];

    /// The block.
    __device__ __forceinline__ void open(int least) {
        for (int size = threadIdx.x; size < kNearOnes; size += blockDim.x) {
            const unsigned bit = 8u * (unsigned)(size - least);
            of_size[size] = make_uint4(shift_one(bit), shift_one(bit - 32), shift_one(bit - 64), shift_one(bit - 96));
        }
        __syncthreads();
    }

  private:
    __device__ __forceinline__ static unsigned shift_one(unsigned by) { return by < 32 ? 1u << by : 0u; }
};

/// The 4 kWords sizes from the least on.
template <int kWords>
struct NearLeaves {
    static constexpr int kSizes = 4 * kWords, kMost = 255;
    static_assert(kSizeGroup == 4 && kSizes <= kLeafBins && kWords % 2 == 0 && kWords <= 4,
                  "a word is a group; of the table, halves are read or all");

    LeafHistogram& leaves;
    unsigned counts[kWords];
    int room;

    __device__ __forceinline__ explicit NearLeaves(LeafHistogram& leaves) : leaves(leaves), counts{}, room(kMost) {}

    /// Call before at most `n` (up to kMost) leaves of each lane; the warp.
    __device__ __forceinline__ void reserve(int n) {
        if (room < n) flush();
        room -= n;
    }

    /// Count a leaf of a size below kNearOnes, if it is one of these sizes. Any lane alone.
    __device__ __forceinline__ void add(const NearOnes& ones, int size) {
        const uint2* const halves = reinterpret_cast<const uint2*>(&ones.of_size[size]);
#pragma unroll
        for (int k = 0; k < kWords; k += 2) {
            counts[k] += halves[k / 2].x;
            counts[k + 1] += halves[k / 2].y;
        }
    }

    /// Flush the counters to the warp's counters; the warp.
    __device__ __forceinline__ void flush() {
        leaves.reserve(kMost - room);
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
            const unsigned n[kSizeGroup] = {counts[k] & 255u, counts[k] >> 8 & 255u, counts[k] >> 16 & 255u, counts[k] >> 24};
            leaves.add_near(leaves.least + kSizeGroup * k, n);
            counts[k] = 0;
        }
        room = kMost;
    }
};
