// What a compiled kernel and the emulator's runtime agree on. Included by both; names no standard header,
// because a kernel must see none (NVRTC has none).
#pragma once

struct papilio_emu_uint3 {
    unsigned x, y, z;
};

enum papilio_emu_atomic_op : unsigned {
    PAPILIO_ATOMIC_ADD,
    PAPILIO_ATOMIC_SUB,
    PAPILIO_ATOMIC_MIN,
    PAPILIO_ATOMIC_MAX,
    PAPILIO_ATOMIC_SIGNED_MIN,
    PAPILIO_ATOMIC_SIGNED_MAX,
    PAPILIO_ATOMIC_AND,
    PAPILIO_ATOMIC_OR,
    PAPILIO_ATOMIC_XOR,
    PAPILIO_ATOMIC_EXCH,
    PAPILIO_ATOMIC_CAS,
};

enum papilio_emu_warp_op : unsigned {
    PAPILIO_WARP_SYNC,
    PAPILIO_WARP_SHFL,
    PAPILIO_WARP_SHFL_UP,
    PAPILIO_WARP_SHFL_DOWN,
    PAPILIO_WARP_SHFL_XOR,
    PAPILIO_WARP_BALLOT,
    PAPILIO_WARP_MATCH_ANY,
    PAPILIO_WARP_MATCH_ALL,
    PAPILIO_WARP_REDUCE_ADD,
    PAPILIO_WARP_REDUCE_MIN,
    PAPILIO_WARP_REDUCE_MAX,
    PAPILIO_WARP_REDUCE_SIGNED_MIN,
    PAPILIO_WARP_REDUCE_SIGNED_MAX,
    PAPILIO_WARP_REDUCE_AND,
    PAPILIO_WARP_REDUCE_OR,
    PAPILIO_WARP_REDUCE_XOR,
};

enum papilio_emu_block_op : unsigned {
    PAPILIO_BLOCK_SYNC,
    PAPILIO_BLOCK_COUNT,
    PAPILIO_BLOCK_AND,
    PAPILIO_BLOCK_OR,
};

enum papilio_emu_fence : unsigned { PAPILIO_FENCE_BLOCK = 1, PAPILIO_FENCE_DEVICE = 2 };

extern "C" {
// Constant for one thread, so that the compiler may keep the value across a switch to another thread.
papilio_emu_uint3 papilio_emu_thread_idx() __attribute__((const));
papilio_emu_uint3 papilio_emu_block_idx() __attribute__((const));
papilio_emu_uint3 papilio_emu_block_dim() __attribute__((const));
papilio_emu_uint3 papilio_emu_grid_dim() __attribute__((const));

void* papilio_emu_static_shared(const void* tag, unsigned long long size, unsigned long long align,
                                const char* name);
void* papilio_emu_dynamic_shared(unsigned long long align);

int papilio_emu_block(unsigned op, int predicate);
unsigned long long papilio_emu_warp(unsigned op, unsigned mask, unsigned long long value, unsigned size,
                                    unsigned lane, unsigned width);
unsigned papilio_emu_lane_mask();
unsigned long long papilio_emu_atomic(unsigned op, void* at, unsigned size, unsigned long long operand,
                                      unsigned long long compare);
void papilio_emu_fence(unsigned scope);
void papilio_emu_read_only_load(const void* at, unsigned size);
void papilio_emu_stop(const char* what) __attribute__((noreturn));
}
