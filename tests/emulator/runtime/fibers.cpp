// Fibers: switching between the threads of the resident blocks, in a seeded random order.
#include <cstdlib>
#include <cstring>

#include "state.h"

#if !defined(__x86_64__) || defined(PAPILIO_EMU_UCONTEXT)
#include <ucontext.h>
#define PAPILIO_EMU_USE_UCONTEXT 1
#endif

namespace papilio_emu {

Launch g;

namespace {

[[noreturn]] void fiber_main() {
    g.spec->run(g.spec->arguments);
    Fiber& fiber = *g.current;
    fiber.state = State::finished;
    note_finished(fiber);
    leave_current();
}

#ifdef PAPILIO_EMU_USE_UCONTEXT

ucontext_t main_context;
std::unordered_map<void**, std::unique_ptr<ucontext_t>> contexts;  // by the fiber's stack_pointer field

ucontext_t* context_of(void** slot) {
    if (slot == &g.main_stack_pointer) return &main_context;
    auto& context = contexts[slot];
    if (!context) context = std::make_unique<ucontext_t>();
    return context.get();
}

void switch_stacks(void** from, void** to) { swapcontext(context_of(from), context_of(to)); }

void prepare_stack(Fiber& fiber) {
    ucontext_t* context = context_of(&fiber.stack_pointer);
    getcontext(context);
    context->uc_stack.ss_sp = reinterpret_cast<void*>(fiber.stack);
    context->uc_stack.ss_size = kStackBytes;
    context->uc_link = nullptr;
    makecontext(context, fiber_main, 0);
}

#else

extern "C" void papilio_emu_switch(void** save, void* load);
asm(R"(
.text
.globl papilio_emu_switch
.hidden papilio_emu_switch
.type papilio_emu_switch, @function
papilio_emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size papilio_emu_switch, .-papilio_emu_switch
)");

void switch_stacks(void** from, void** to) { papilio_emu_switch(from, *to); }

void prepare_stack(Fiber& fiber) {
    // Six saved registers, the address to return to, and a zero where fiber_main's caller would be: the stack
    // pointer is 8 modulo 16 at the entry of fiber_main, as the calling convention asks. Tops are
    // staggered, or all of them would fall into the same sets of the caches.
    void** top = reinterpret_cast<void**>(fiber.stack + kStackBytes - 64 - fiber.thread % 128 * 128);
    top[1] = nullptr;
    top[0] = reinterpret_cast<void*>(&fiber_main);
    std::memset(top - 6, 0, 6 * sizeof(void*));
    fiber.stack_pointer = top - 6;
}

#endif

Fiber* take_ready() {
    const u32 count = (u32)g.ready.size();
    const u32 at = random_chance(g.stick) ? count - 1 : random_below(count);
    Fiber* next = g.ready[at];
    g.ready[at] = g.ready.back();
    g.ready.pop_back();
    return next;
}

void switch_from(void** from) {
    void** to = &g.main_stack_pointer;
    g.current = nullptr;
    if (!g.failed && g.retiring == nullptr && !g.ready.empty()) {
        g.current = take_ready();
        to = &g.current->stack_pointer;
    }
    ++g.spec->switches;
    if (to != from) switch_stacks(from, to);
}

}  // namespace

void start_fiber(Fiber& fiber) {
    prepare_stack(fiber);
    make_ready(&fiber);
}

void make_ready(Fiber* fiber) {
    fiber->state = State::ready;
    g.ready.push_back(fiber);
}

void yield_to_others() {
    Fiber* self = g.current;
    make_ready(self);
    switch_from(&self->stack_pointer);
}

void block_current() { switch_from(&g.current->stack_pointer); }

void leave_current() {
    switch_from(&g.current->stack_pointer);
    std::abort();
}

void run_until_pause() { switch_from(&g.main_stack_pointer); }

}  // namespace papilio_emu
