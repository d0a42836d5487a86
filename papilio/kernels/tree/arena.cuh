// A warp's working memory as a stack: in shared memory while there is room, else in a slab of device memory.
//
// All lanes of the warp hold the same arena and call every function together with the same arguments. The caller
// proves that the slab is large enough for everything at once; an arena that runs over stops the kernel.
#pragma once

#include "warp.cuh"

struct Arena {
    unsigned* near;
    unsigned* far;
    int near_words;
    int near_used;
    long long far_words;
    long long far_used;

    /// How far the arena is used; `release` gives back everything taken since.
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

    /// The same in the slab, for what is read once or twice: shared memory is for what is read again and again.
    __device__ __forceinline__ unsigned* take_far(long long count) {
        far_used += (count + 3) & ~3ll;
        if (far_used > far_words) __trap();
        return far + (far_used - ((count + 3) & ~3ll));
    }
};
