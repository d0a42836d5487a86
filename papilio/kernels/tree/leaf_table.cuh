// Leaves of a search counted by a key, without products: the host works out what they stand for.
//
// The lanes of a warp gather 32 keys, join equal ones and add them to a hash table in device memory (open addressing, a
// power of two of slots; an empty slot holds the key 0, which no leaf has). A key that finds no slot within kMaxProbes
// sets `full`: the counts of this launch are then void, and the host runs it again with a larger table.
#pragma once

#include "warp.cuh"

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

    /// One leaf of a key, not 0; the warp, with the same key in every lane.
    __device__ __forceinline__ void add(unsigned long long key) {
        if (lane_id() == n_held) held = key;
        if (++n_held == kWarpSize) flush();
    }

    /// Bring all leaves to the table; the warp.
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

    /// `count` leaves of a key, not 0; any lane alone.
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
