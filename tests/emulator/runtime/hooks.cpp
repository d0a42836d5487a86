// What the compiler's instrumentation calls: -fsanitize=thread for each load and store, -fsanitize=undefined's
// checks for alignment, array bounds, shifts and signed overflow, and one call per basic block.
#include "state.h"

#define PC reinterpret_cast<papilio_emu::Address>(__builtin_return_address(0))

using namespace papilio_emu;

namespace {

constexpr u64 kStackReserve = 4096;

void touch_aligned(void* at, u64 size, Kind kind, Address pc) {
    const auto address = reinterpret_cast<Address>(at);
    // Where local variables lie is the host compiler's business, which joins stores to their members.
    if (address % size != 0 && g.current != nullptr && address - g.current->stack >= kStackBytes) {
        fail(pc, format("misaligned access of %llu bytes, %llu bytes past a boundary: ", (unsigned long long)size,
                        (unsigned long long)(address % size)) +
                     describe(address));
    }
    touch(address, size, kind, pc);
}

u64 apply(unsigned op, u64 old, u64 operand, u64 compare, unsigned size) {
    const auto signed_old = size == 4 ? (std::int32_t)old : (std::int64_t)old;
    const auto signed_operand = size == 4 ? (std::int32_t)operand : (std::int64_t)operand;
    switch (op) {
        case PAPILIO_ATOMIC_ADD: return old + operand;
        case PAPILIO_ATOMIC_SUB: return old - operand;
        case PAPILIO_ATOMIC_MIN: return old < operand ? old : operand;
        case PAPILIO_ATOMIC_MAX: return old < operand ? operand : old;
        case PAPILIO_ATOMIC_SIGNED_MIN: return signed_old < signed_operand ? old : operand;
        case PAPILIO_ATOMIC_SIGNED_MAX: return signed_old < signed_operand ? operand : old;
        case PAPILIO_ATOMIC_AND: return old & operand;
        case PAPILIO_ATOMIC_OR: return old | operand;
        case PAPILIO_ATOMIC_XOR: return old ^ operand;
        case PAPILIO_ATOMIC_EXCH: return operand;
        default: return old == compare ? operand : old;
    }
}

}  // namespace

extern "C" {

unsigned long long papilio_emu_atomic(unsigned op, void* at, unsigned size, unsigned long long operand,
                                      unsigned long long compare) {
    const Address pc = PC;
    touch_aligned(at, size, kAtomic, pc);
    note_atomic(*g.current, reinterpret_cast<Address>(at));
    if (size == 4) {
        auto* word = static_cast<u32*>(at);
        const u32 old = *word;
        *word = (u32)apply(op, old, (u32)operand, (u32)compare, size);
        return old;
    }
    auto* word = static_cast<u64*>(at);
    const u64 old = *word;
    *word = apply(op, old, operand, compare, size);
    return old;
}

#define PAPILIO_HOOKS(size)                                                                                    \
    void __tsan_read##size(void* at) { touch_aligned(at, size, kRead, PC); }                                   \
    void __tsan_write##size(void* at) { touch_aligned(at, size, kWrite, PC); }                                 \
    void __tsan_volatile_read##size(void* at) { touch_aligned(at, size, kRead, PC); }                          \
    void __tsan_volatile_write##size(void* at) { touch_aligned(at, size, kWrite, PC); }                        \
    void __tsan_unaligned_read##size(void* at) { touch(reinterpret_cast<Address>(at), size, kRead, PC); }      \
    void __tsan_unaligned_write##size(void* at) { touch(reinterpret_cast<Address>(at), size, kWrite, PC); }
PAPILIO_HOOKS(1)
PAPILIO_HOOKS(2)
PAPILIO_HOOKS(4)
PAPILIO_HOOKS(8)
PAPILIO_HOOKS(16)

void __tsan_read_range(void* at, unsigned long size) { touch(reinterpret_cast<Address>(at), size, kRead, PC); }
void __tsan_write_range(void* at, unsigned long size) { touch(reinterpret_cast<Address>(at), size, kWrite, PC); }
void __tsan_init() {}
void __tsan_func_exit() {}
void __tsan_func_entry(void*) {
    const Fiber* fiber = g.current;
    if (fiber == nullptr) return;
    const auto here = reinterpret_cast<Address>(__builtin_frame_address(0));
    if (here - fiber->stack >= kStackBytes || here - fiber->stack < kStackReserve)
        fail(PC, format("local variables of one thread exceed %llu bytes", (unsigned long long)kStackBytes));
}

void __sanitizer_cov_trace_pc() {
    if (g.current == nullptr || --g.steps_left != 0) return;
    u32 barrier = 0, warp = 0, ready = 0;
    for (const Fiber& fiber : g.current->block->fibers) {
        barrier += fiber.state == State::at_block_barrier;
        warp += fiber.state == State::at_warp_collective;
        ready += fiber.state == State::ready;
    }
    fail(PC, format("no end after %llu steps: a deadlock or an endless loop; in this block %u threads run, %u wait in "
                    "__syncthreads, %u in a warp collective",
                    (unsigned long long)g.spec->max_steps, ready, barrier, warp));
}

struct UbsanPlace {
    const char* file;
    u32 line, column;
};
struct UbsanMismatch {
    UbsanPlace place;
    const void* type;
    unsigned char log_alignment, kind;
};

void __ubsan_handle_type_mismatch_v1(const UbsanMismatch* data, Address address) {
    const u64 alignment = 1ull << data->log_alignment;
    fail(PC, format("misaligned access, %llu bytes past a boundary of %llu: ",
                    (unsigned long long)(address & (alignment - 1)), (unsigned long long)alignment) +
                 describe(address));
}
void __ubsan_handle_out_of_bounds(const void*, u64 index) {
    fail(PC, format("out of bounds: index %lld of an array of fixed size", (long long)index));
}
void __ubsan_handle_shift_out_of_bounds(const void*, u64, u64 by) {
    fail(PC, format("shift by %lld bits, which is not below the width of the value", (long long)by));
}
void __ubsan_handle_divrem_overflow(const void*, u64, u64) { fail(PC, "division by zero, or its result overflows"); }
void __ubsan_handle_add_overflow(const void*, u64, u64) { fail(PC, "signed addition overflows"); }
void __ubsan_handle_sub_overflow(const void*, u64, u64) { fail(PC, "signed subtraction overflows"); }
void __ubsan_handle_mul_overflow(const void*, u64, u64) { fail(PC, "signed multiplication overflows"); }
void __ubsan_handle_negate_overflow(const void*, u64) { fail(PC, "signed negation overflows"); }
void __ubsan_handle_missing_return(const void*) { fail(PC, "a function ends without returning its value"); }
void __ubsan_handle_builtin_unreachable(const void*) { fail(PC, "__builtin_unreachable() was reached"); }
}
