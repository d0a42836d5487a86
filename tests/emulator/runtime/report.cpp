// Messages. A location in the kernel is written @{hex offset in the module}; Python makes file and line of it.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "state.h"

namespace papilio_emu {

std::string format(const char* pattern, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

std::string at_pc(Address pc) { return format("@{%x}", module_offset(pc)); }

std::string thread_name(u32 id) {
    const u32* block = g.spec->block;
    const u32* grid = g.spec->grid;
    const u32 t = (id - 1) % g.threads_per_block, b = (id - 1) / g.threads_per_block;
    return format("thread (%u,%u,%u) of block (%u,%u,%u) [warp %u, lane %u]", t % block[0],
                  t / block[0] % block[1], t / (block[0] * block[1]), b % grid[0], b / grid[0] % grid[1],
                  b / (grid[0] * grid[1]), t / kWarpSize, t % kWarpSize);
}

std::string describe(Address address) {
    const Block& block = *g.current->block;
    if (address - block.arena < block.arena_bytes) {
        const u64 offset = address - block.arena;
        for (const SharedVariable& variable : block.variables)
            if (offset - variable.offset < variable.size)
                return format("shared `%s` + %llu bytes", variable.name.c_str(),
                              (unsigned long long)(offset - variable.offset));
        const u64 dynamic = g.spec->dynamic_shared_bytes;
        if (offset < dynamic)
            return format("dynamic shared memory + %llu bytes", (unsigned long long)offset);
        u64 end = dynamic;
        std::string before = format("the %llu bytes of dynamic shared memory", (unsigned long long)dynamic);
        for (const SharedVariable& variable : block.variables) {
            if (variable.offset > offset) continue;
            end = variable.offset + variable.size;
            before = "shared `" + variable.name + "`" + format(" (%llu bytes)", (unsigned long long)variable.size);
        }
        return format("%llu bytes behind the end of ", (unsigned long long)(offset - end)) + before;
    }
    std::string nearest = "no array argument near it";
    u64 best = 1 << 20;
    for (u64 i = 0; i < g.spec->n_regions; ++i) {
        const Region& region = g.spec->regions[i];
        if (address - region.base < region.size)
            return format("argument %llu + %llu bytes", (unsigned long long)region.argument,
                          (unsigned long long)(address - region.base));
        const bool before = address < region.base;
        const u64 distance = before ? region.base - address : address - region.base - region.size;
        if (distance < best) {
            best = distance;
            nearest = format("%llu bytes %s argument %llu, which has %llu bytes", (unsigned long long)distance,
                             before ? "before the start of" : "behind the end of",
                             (unsigned long long)region.argument, (unsigned long long)region.size);
        }
    }
    return nearest;
}

void report(const Fiber& fiber, const std::string& what) {
    const std::string text = thread_name(fiber.id) + " at " + at_pc(fiber.pc) + ": " + what;
    std::snprintf(g.spec->report, g.spec->report_bytes, "%s", text.c_str());
    g.failed = true;
}

void fail(Address pc, const std::string& what) {
    g.current->pc = pc;
    report(*g.current, what);
    leave_current();
}

}  // namespace papilio_emu
