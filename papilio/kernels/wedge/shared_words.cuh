// Words of shared memory that are changed by atomics.
//
// Compilers find the address of shared memory anew for each atomic, which takes longer than the atomic; here it stays in a
// register.
#pragma once

#include "warp.cuh"

struct SharedWords {
#ifdef PAPILIO_EMULATED
    unsigned* words;

    __device__ __forceinline__ explicit SharedWords(void* at) : words(static_cast<unsigned*>(at)) {}
#else
    unsigned address;

    __device__ __forceinline__ explicit SharedWords(void* at) {
        const unsigned found = (unsigned)__cvta_generic_to_shared(at);
        asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(found));  // not to be found again
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

    /// Add to a word and return what it held.
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

    /// Put a value where `empty` is and return what the word held.
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
