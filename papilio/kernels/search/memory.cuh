// A warp's working memory as a stack: in shared memory while it has room, else in a slab of device memory.
//
// All lanes of the warp hold the same arena and call every function together with the same arguments. The caller
// proves that the slab is large enough for everything at once; an overflow stops the kernel.
#pragma once

#include "warp.cuh"

struct Arena {
    unsigned* near;
    unsigned* far;
    int near_words;
    int near_used;
    long long far_words;
    long long far_used;

    /// A position in the arena; `release` frees everything taken since.
    struct Mark {
        long long far_used;
        int near_used;
    };

    __device__ __forceinline__ Mark mark() const { return Mark{far_used, near_used}; }

    __device__ __forceinline__ void release(const Mark& mark) {
        near_used = mark.near_used;
        far_used = mark.far_used;
    }

    /// Whether something taken lies in shared memory.
    __device__ __forceinline__ bool is_near(const void* taken) const {
        const unsigned* const at = static_cast<const unsigned*>(taken);
        return at >= near && at < near + near_words;
    }

    /// Room for `count` words, aligned to 16 bytes, without values.
    __device__ __forceinline__ unsigned* take(long long count) {
        const long long words = (count + 3) & ~3ll;
        if (words <= near_words - near_used) {
            near_used += (int)words;
            return near + (near_used - (int)words);
        }
        return take_far(words);
    }

    /// The same in the slab, for data read once or twice: shared memory is for data that is read repeatedly.
    __device__ __forceinline__ unsigned* take_far(long long count) {
        far_used += (count + 3) & ~3ll;
        if (far_used > far_words) __trap();
        return far + (far_used - ((count + 3) & ~3ll));
    }
};

/// A copy of words in the arena; the warp.
__device__ __forceinline__ unsigned* copy_words(Arena& arena, const unsigned* from, int n) {
    unsigned* to = arena.take(n);
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = from[i];
    return to;
}

static_assert(sizeof(unsigned long long) == SUM_WORDS * sizeof(unsigned), "the launcher counts on it");

/// Zeroed sums of 64 bits; the warp.
__device__ __forceinline__ unsigned long long* take_sums(Arena& arena, int n) {
    unsigned long long* sums = reinterpret_cast<unsigned long long*>(arena.take((long long)n * SUM_WORDS));
    for (int i = lane_id(); i < n; i += kWarpSize) sums[i] = 0;
    __syncwarp();
    return sums;
}

// Sets of numbers from 0 on as bits of 32-bit words.
//
// All lanes of a warp call functions together, unless their comments say otherwise; functions end with ordered writes.

__device__ __forceinline__ int words_for(int bits) { return (bits + 31) / 32; }

/// The bits of a word below bit n, which may lie outside the word.
__device__ __forceinline__ unsigned bits_below(int n) { return n >= 32 ? kFullMask : n <= 0 ? 0u : (1u << n) - 1u; }

/// The lower half of some bits, at least one.
__device__ __forceinline__ unsigned lower_half(unsigned bits) {
    unsigned half = 0;
    for (int n = max(1, __popc(bits) / 2); n > 0; --n) {
        half |= bits & (0u - bits);
        bits &= bits - 1;
    }
    return half;
}

/// Make a set of all numbers below n.
__device__ __forceinline__ void fill_set(unsigned* set, int n) {
#pragma unroll 1
    for (int k = lane_id(); k < words_for(n); k += kWarpSize) set[k] = bits_below(n - 32 * k);
    __syncwarp();
}

/// Number of members of a set.
__device__ __forceinline__ int set_size(const unsigned* set, int n_words) {
    unsigned size = 0;
#pragma unroll 1
    for (int k = lane_id(); k < n_words; k += kWarpSize) size += (unsigned)__popc(set[k]);
    return (int)warp_total(size);
}

/// Least member of a set, or -1.
__device__ __forceinline__ int first_member(const unsigned* set, int n_words) {
    const int lane = lane_id();
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned word = first + lane < n_words ? set[first + lane] : 0u;
        const unsigned held = __ballot_sync(kFullMask, word != 0);
        if (held == 0) continue;
        const int at = __ffs((int)held) - 1;
        return 32 * (first + at) + __ffs((int)__shfl_sync(kFullMask, word, at)) - 1;
    }
    return -1;
}

/// The member of a set that has n members before it, or -1.
__device__ __forceinline__ int find_member(const unsigned* set, int n_words, int n) {
    const int lane = lane_id();
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned word = first + lane < n_words ? set[first + lane] : 0u;
        const unsigned size = (unsigned)__popc(word), until = warp_inclusive_sum(size);
        const unsigned reached = __ballot_sync(kFullMask, (int)until > n);
        if (reached != 0) {
            const int at = __ffs((int)reached) - 1;
            unsigned rest = __shfl_sync(kFullMask, word, at);
#pragma unroll 1
            for (int before = (int)__shfl_sync(kFullMask, until - size, at); before < n; ++before) rest &= rest - 1;
            return 32 * (first + at) + __ffs((int)rest) - 1;
        }
        n -= (int)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    return -1;
}

/// Write the members of a set, ascending, counted from `base`, to `members`; returns their number. Words are `stride` apart.
__device__ __forceinline__ int list_members(const unsigned* set, int n_words, int* members, int base = 0, int stride = 1) {
    const int lane = lane_id();
    int n = 0;
#pragma unroll 1
    for (int first = 0; first < n_words; first += kWarpSize) {
        const unsigned mine = first + lane < n_words ? set[(long long)(first + lane) * stride] : 0u;
#pragma unroll 1
        for (int k = first; k < min(n_words, first + kWarpSize); ++k) {
            const unsigned word = __shfl_sync(kFullMask, mine, k - first);
            if (word >> lane & 1u) members[n + __popc(word & lanes_before(lane))] = base + 32 * k + lane;
            n += __popc(word);
        }
    }
    __syncwarp();
    return n;
}
