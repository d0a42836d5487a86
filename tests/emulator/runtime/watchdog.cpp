// Stops a thread that runs without a single step: `for (;;) {}`, or a plain load hoisted out of a waiting loop.
//
// Steps are counted by calls that the compiler leaves out of empty loops, so a timer looks every quarter second
// of the launching thread's own processor time whether anything has happened; if not, its signal handler ends the
// launch, as any error does, by leaving the fiber for good.
#include <csignal>
#include <ctime>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "state.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace papilio_emu {
namespace {

timer_t timer;
struct sigaction before;
u64 seen_steps, seen_switches;

int signal_number() { return SIGRTMAX - 3; }

void look(int, siginfo_t*, void* context) {
    Fiber* fiber = g.current;
    if (fiber == nullptr || g.steps_left != seen_steps || g.spec->switches != seen_switches) {
        seen_steps = g.steps_left;
        seen_switches = g.spec->switches;
        return;
    }
    Address pc = fiber->pc;
#if defined(__x86_64__)
    pc = (Address) static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] + 1;
#else
    (void)context;
#endif
    if (pc < g.module_low || pc >= g.module_high) return;  // in the runtime: not a loop of the kernel
    fail(pc, "no end: an endless loop in which nothing happens");
}

}  // namespace

void start_watchdog() {
    seen_steps = seen_switches = ~0ull;
    struct sigaction action = {};
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // not deferred: the handler may never return
    sigaction(signal_number(), &action, &before);
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signal_number();
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer);
    const itimerspec interval = {{0, 250000000}, {0, 250000000}};
    timer_settime(timer, 0, &interval, nullptr);
}

void stop_watchdog() {
    timer_delete(timer);
    sigaction(signal_number(), &before, nullptr);
}

}  // namespace papilio_emu
