// CUDA C++ as a kernel of this project sees it, for the host compiler. Force-included before a kernel source.
//
// Gives the built-in variables, types, intrinsics and atomics; what they do is in runtime/. Like NVRTC it
// gives no standard header. What is absent here is absent on purpose: a kernel that needs it does not compile.
#pragma once

#include "runtime/abi.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define PAPILIO_EMULATED 1

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

#define threadIdx (papilio_emu_thread_idx())
#define blockIdx (papilio_emu_block_idx())
#define blockDim (papilio_emu_block_dim())
#define gridDim (papilio_emu_grid_dim())

#define PAPILIO_EMU_INLINE static inline __attribute__((always_inline, unused))

using size_t = decltype(sizeof(0));
constexpr int warpSize = 32;

// ---- vector types: aligned as on the device, so that a 16-byte access of an unaligned address is caught ----

#define PAPILIO_EMU_VECTOR2(name, T)                      \
    struct __align__(2 * sizeof(T)) name {                \
        T x, y;                                           \
    };                                                    \
    PAPILIO_EMU_INLINE name make_##name(T x, T y) { return name{x, y}; }
#define PAPILIO_EMU_VECTOR3(name, T) \
    struct name {                    \
        T x, y, z;                   \
    };                               \
    PAPILIO_EMU_INLINE name make_##name(T x, T y, T z) { return name{x, y, z}; }
#define PAPILIO_EMU_VECTOR4(name, T)                                        \
    struct __align__(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name {        \
        T x, y, z, w;                                                       \
    };                                                                      \
    PAPILIO_EMU_INLINE name make_##name(T x, T y, T z, T w) { return name{x, y, z, w}; }

PAPILIO_EMU_VECTOR2(uchar2, unsigned char)
PAPILIO_EMU_VECTOR4(uchar4, unsigned char)
PAPILIO_EMU_VECTOR2(ushort2, unsigned short)
PAPILIO_EMU_VECTOR4(ushort4, unsigned short)
PAPILIO_EMU_VECTOR2(int2, int)
PAPILIO_EMU_VECTOR3(int3, int)
PAPILIO_EMU_VECTOR4(int4, int)
PAPILIO_EMU_VECTOR2(uint2, unsigned)
PAPILIO_EMU_VECTOR3(uint3, unsigned)
PAPILIO_EMU_VECTOR4(uint4, unsigned)
PAPILIO_EMU_VECTOR2(longlong2, long long)
PAPILIO_EMU_VECTOR2(ulonglong2, unsigned long long)

// ---- integer intrinsics ----

PAPILIO_EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
PAPILIO_EMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
PAPILIO_EMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
PAPILIO_EMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
PAPILIO_EMU_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
PAPILIO_EMU_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
PAPILIO_EMU_INLINE unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (x >> i & 255u) * (y >> i & 255u);
    return sum;
}
PAPILIO_EMU_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned made = 0;
    for (int i = 0; i < 4; ++i) made |= (unsigned)(both >> 8 * (select >> 4 * i & 7u) & 255u) << 8 * i;
    return made;
}
PAPILIO_EMU_INLINE unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
PAPILIO_EMU_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
PAPILIO_EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
PAPILIO_EMU_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
PAPILIO_EMU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
PAPILIO_EMU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

#define PAPILIO_EMU_MIN_MAX(R, A, B)                                                     \
    PAPILIO_EMU_INLINE constexpr R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }   \
    PAPILIO_EMU_INLINE constexpr R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
PAPILIO_EMU_MIN_MAX(int, int, int)
PAPILIO_EMU_MIN_MAX(unsigned, unsigned, unsigned)
PAPILIO_EMU_MIN_MAX(unsigned, int, unsigned)
PAPILIO_EMU_MIN_MAX(unsigned, unsigned, int)
PAPILIO_EMU_MIN_MAX(long, long, long)
PAPILIO_EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
PAPILIO_EMU_MIN_MAX(long long, long long, long long)
PAPILIO_EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
PAPILIO_EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
PAPILIO_EMU_MIN_MAX(unsigned long long, unsigned long long, long long)

// ---- barriers and fences ----

PAPILIO_EMU_INLINE void __syncthreads() { papilio_emu_block(PAPILIO_BLOCK_SYNC, 0); }
PAPILIO_EMU_INLINE int __syncthreads_count(int p) { return papilio_emu_block(PAPILIO_BLOCK_COUNT, p != 0); }
PAPILIO_EMU_INLINE int __syncthreads_and(int p) { return papilio_emu_block(PAPILIO_BLOCK_AND, p != 0); }
PAPILIO_EMU_INLINE int __syncthreads_or(int p) { return papilio_emu_block(PAPILIO_BLOCK_OR, p != 0); }
PAPILIO_EMU_INLINE void __threadfence_block() { papilio_emu_fence(PAPILIO_FENCE_BLOCK); }
PAPILIO_EMU_INLINE void __threadfence() { papilio_emu_fence(PAPILIO_FENCE_DEVICE); }
[[noreturn]] PAPILIO_EMU_INLINE void __trap() { papilio_emu_stop("__trap() was called"); }
#define assert(condition) \
    ((condition) ? (void)0 : papilio_emu_stop("assertion failed: " #condition))

// ---- warp collectives ----

PAPILIO_EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
    papilio_emu_warp(PAPILIO_WARP_SYNC, mask, 0, 0, 0, 32);
}
// Only the calling lane: all that CUDA promises. A kernel that counts on more is wrong on hardware too.
PAPILIO_EMU_INLINE unsigned __activemask() { return papilio_emu_lane_mask(); }
PAPILIO_EMU_INLINE unsigned __ballot_sync(unsigned mask, int p) {
    return (unsigned)papilio_emu_warp(PAPILIO_WARP_BALLOT, mask, p != 0, 4, 0, 32);
}
PAPILIO_EMU_INLINE int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
PAPILIO_EMU_INLINE int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, p) == mask; }

#define PAPILIO_EMU_SHUFFLE(name, op, lane_type, T)                                                      \
    PAPILIO_EMU_INLINE T name(unsigned mask, T value, lane_type lane, int width = 32) {                  \
        unsigned long long bits = 0;                                                                     \
        __builtin_memcpy(&bits, &value, sizeof(T));                                                      \
        bits = papilio_emu_warp(op, mask, bits, sizeof(T), (unsigned)lane, (unsigned)width);             \
        __builtin_memcpy(&value, &bits, sizeof(T));                                                      \
        return value;                                                                                    \
    }
#define PAPILIO_EMU_COLLECTIVES(T)                                                        \
    PAPILIO_EMU_SHUFFLE(__shfl_sync, PAPILIO_WARP_SHFL, int, T)                           \
    PAPILIO_EMU_SHUFFLE(__shfl_up_sync, PAPILIO_WARP_SHFL_UP, unsigned, T)                \
    PAPILIO_EMU_SHUFFLE(__shfl_down_sync, PAPILIO_WARP_SHFL_DOWN, unsigned, T)            \
    PAPILIO_EMU_SHUFFLE(__shfl_xor_sync, PAPILIO_WARP_SHFL_XOR, int, T)                   \
    PAPILIO_EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {                \
        return (unsigned)papilio_emu_warp(PAPILIO_WARP_MATCH_ANY, mask, (unsigned long long)value, sizeof(T), 0, 32); \
    }                                                                                     \
    PAPILIO_EMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all) {      \
        const unsigned same = (unsigned)papilio_emu_warp(PAPILIO_WARP_MATCH_ALL, mask,    \
                                                         (unsigned long long)value, sizeof(T), 0, 32); \
        *all = same != 0;                                                                 \
        return same;                                                                      \
    }
PAPILIO_EMU_COLLECTIVES(int)
PAPILIO_EMU_COLLECTIVES(unsigned)
PAPILIO_EMU_COLLECTIVES(long)
PAPILIO_EMU_COLLECTIVES(unsigned long)
PAPILIO_EMU_COLLECTIVES(long long)
PAPILIO_EMU_COLLECTIVES(unsigned long long)
PAPILIO_EMU_SHUFFLE(__shfl_xor_sync, PAPILIO_WARP_SHFL_XOR, int, double)
PAPILIO_EMU_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }

#if __CUDA_ARCH__ >= 800
#define PAPILIO_EMU_REDUCE(name, T, op)                                                     \
    PAPILIO_EMU_INLINE T name(unsigned mask, T value) {                                     \
        return (T)papilio_emu_warp(op, mask, (unsigned long long)(long long)value, 4, 0, 32); \
    }
PAPILIO_EMU_REDUCE(__reduce_add_sync, unsigned, PAPILIO_WARP_REDUCE_ADD)
PAPILIO_EMU_REDUCE(__reduce_add_sync, int, PAPILIO_WARP_REDUCE_ADD)
PAPILIO_EMU_REDUCE(__reduce_min_sync, unsigned, PAPILIO_WARP_REDUCE_MIN)
PAPILIO_EMU_REDUCE(__reduce_min_sync, int, PAPILIO_WARP_REDUCE_SIGNED_MIN)
PAPILIO_EMU_REDUCE(__reduce_max_sync, unsigned, PAPILIO_WARP_REDUCE_MAX)
PAPILIO_EMU_REDUCE(__reduce_max_sync, int, PAPILIO_WARP_REDUCE_SIGNED_MAX)
PAPILIO_EMU_REDUCE(__reduce_and_sync, unsigned, PAPILIO_WARP_REDUCE_AND)
PAPILIO_EMU_REDUCE(__reduce_or_sync, unsigned, PAPILIO_WARP_REDUCE_OR)
PAPILIO_EMU_REDUCE(__reduce_xor_sync, unsigned, PAPILIO_WARP_REDUCE_XOR)
#endif

// ---- atomics: 32 and 64 bits, on shared and global memory ----

#define PAPILIO_EMU_ATOMIC(name, op, T)                                                              \
    PAPILIO_EMU_INLINE T name(T* at, T operand) {                                                    \
        return (T)papilio_emu_atomic(op, at, sizeof(T), (unsigned long long)operand, 0);             \
    }
#define PAPILIO_EMU_ATOMICS(T, MIN, MAX)                                                             \
    PAPILIO_EMU_ATOMIC(atomicAdd, PAPILIO_ATOMIC_ADD, T)                                             \
    PAPILIO_EMU_ATOMIC(atomicMin, MIN, T)                                                            \
    PAPILIO_EMU_ATOMIC(atomicMax, MAX, T)                                                            \
    PAPILIO_EMU_ATOMIC(atomicAnd, PAPILIO_ATOMIC_AND, T)                                             \
    PAPILIO_EMU_ATOMIC(atomicOr, PAPILIO_ATOMIC_OR, T)                                               \
    PAPILIO_EMU_ATOMIC(atomicXor, PAPILIO_ATOMIC_XOR, T)                                             \
    PAPILIO_EMU_ATOMIC(atomicExch, PAPILIO_ATOMIC_EXCH, T)                                           \
    PAPILIO_EMU_INLINE T atomicCAS(T* at, T compare, T value) {                                      \
        return (T)papilio_emu_atomic(PAPILIO_ATOMIC_CAS, at, sizeof(T), (unsigned long long)value,   \
                                     (unsigned long long)compare);                                   \
    }
PAPILIO_EMU_ATOMICS(int, PAPILIO_ATOMIC_SIGNED_MIN, PAPILIO_ATOMIC_SIGNED_MAX)
PAPILIO_EMU_ATOMICS(unsigned, PAPILIO_ATOMIC_MIN, PAPILIO_ATOMIC_MAX)
PAPILIO_EMU_ATOMICS(unsigned long long, PAPILIO_ATOMIC_MIN, PAPILIO_ATOMIC_MAX)
PAPILIO_EMU_ATOMIC(atomicSub, PAPILIO_ATOMIC_SUB, int)
PAPILIO_EMU_ATOMIC(atomicSub, PAPILIO_ATOMIC_SUB, unsigned)
PAPILIO_EMU_ATOMIC(atomicMin, PAPILIO_ATOMIC_SIGNED_MIN, long long)
PAPILIO_EMU_ATOMIC(atomicMax, PAPILIO_ATOMIC_SIGNED_MAX, long long)

// ---- loads and stores with a cache hint ----

template <class T>
PAPILIO_EMU_INLINE T __ldg(const T* at) {
    papilio_emu_read_only_load(at, sizeof(T));
    return *at;
}
template <class T>
PAPILIO_EMU_INLINE T __ldcg(const T* at) {
    return *at;
}
template <class T>
PAPILIO_EMU_INLINE T __ldcs(const T* at) {
    return *at;
}
template <class T>
PAPILIO_EMU_INLINE void __stcg(T* at, T value) {
    *at = value;
}
template <class T>
PAPILIO_EMU_INLINE void __stcs(T* at, T value) {
    *at = value;
}

// ---- how the runtime calls a kernel; the source transform adds PAPILIO_EMU_KERNEL for each one ----

template <class T, bool is_class = __is_class(T)>
struct papilio_emu_type {
    static constexpr char kind = T(-1) < T(0) ? 'i' : 'u';
};
template <class T>
struct papilio_emu_type<T, true> {
    static constexpr char kind = 's';
};
template <>
struct papilio_emu_type<void, false> {
    static constexpr char kind = 'v';
};
template <>
struct papilio_emu_type<bool, false> {
    static constexpr char kind = 'b';
};
template <>
struct papilio_emu_type<float, false> {
    static constexpr char kind = 'f';
};
template <>
struct papilio_emu_type<double, false> {
    static constexpr char kind = 'f';
};

struct papilio_emu_parameter {
    char pointer, kind;  // pointer: 'c' to const, 'm' to mutable, '-' a value; kind: i u f b, s struct, v void
    unsigned short size;
};

template <class T>
struct papilio_emu_parameter_of {
    static constexpr papilio_emu_parameter value{'-', papilio_emu_type<T>::kind, sizeof(T)};
};
template <class T>
struct papilio_emu_parameter_of<T*> {
    static constexpr papilio_emu_parameter value{'m', papilio_emu_type<T>::kind, sizeof(T)};
};
template <class T>
struct papilio_emu_parameter_of<const T*> {
    static constexpr papilio_emu_parameter value{'c', papilio_emu_type<T>::kind, sizeof(T)};
};
template <>
struct papilio_emu_parameter_of<void*> {
    static constexpr papilio_emu_parameter value{'m', 'v', 1};
};
template <>
struct papilio_emu_parameter_of<const void*> {
    static constexpr papilio_emu_parameter value{'c', 'v', 1};
};

template <class T>
struct papilio_emu_unqualified {
    using type = T;
};
template <class T>
struct papilio_emu_unqualified<const T> {
    using type = T;
};

template <class... A>
struct papilio_emu_kernel {
    template <int... I>
    struct indices {};
    template <int N, int... I>
    struct up_to : up_to<N - 1, N - 1, I...> {};
    template <int... I>
    struct up_to<0, I...> {
        using type = indices<I...>;
    };
    template <int... I>
    __attribute__((no_sanitize("thread"))) static void call(void (*kernel)(A...), void** arguments, indices<I...>) {
        kernel(*(typename papilio_emu_unqualified<A>::type*)arguments[I]...);
    }
    __attribute__((no_sanitize("thread"))) static void run(void (*kernel)(A...), void** arguments) {
        call(kernel, arguments, typename up_to<sizeof...(A)>::type{});
    }
    static int describe(papilio_emu_parameter* out, int room) {
        const papilio_emu_parameter all[] = {papilio_emu_parameter_of<A>::value..., {}};
        for (int i = 0; i < (int)sizeof...(A) && i < room; ++i) out[i] = all[i];
        return (int)sizeof...(A);
    }
};
template <class... A>
constexpr papilio_emu_kernel<A...> papilio_emu_kernel_of(void (*)(A...)) {
    return {};
}

#define PAPILIO_EMU_KERNEL(name, max_threads)                                                              \
    extern "C" __attribute__((no_sanitize("thread"))) void papilio_emu_run_##name(void** arguments) {      \
        decltype(papilio_emu_kernel_of(&name))::run(&name, arguments);                                     \
    }                                                                                                      \
    extern "C" int papilio_emu_describe_##name(papilio_emu_parameter* out, int room, int* bound) {         \
        *bound = (max_threads);                                                                            \
        return decltype(papilio_emu_kernel_of(&name))::describe(out, room);                                \
    }
