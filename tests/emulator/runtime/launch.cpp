// One launch: resident blocks, their memory, and the loop that runs them to the end.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "state.h"

namespace papilio_emu {
namespace {

constexpr u64 kGap = 256;            // bytes between shared variables that belong to none
constexpr u64 kMaxStaticBytes = 48 << 10;
constexpr u64 kArenaAlignment = 1024;

/// Memory for resident blocks, kept between launches.
struct Place {
    Block block{};
    Address stacks = 0;
    u64 stack_bytes = 0;
};
std::vector<std::unique_ptr<Place>> places;

void* reserve(u64 bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
}

bool make_room(Place& place) {
    Block& block = place.block;
    const u64 stacks = g.threads_per_block * kStackBytes;
    if (place.stack_bytes < stacks) {
        if (place.stacks != 0) munmap(reinterpret_cast<void*>(place.stacks), place.stack_bytes);
        place.stacks = reinterpret_cast<Address>(reserve(stacks));
        place.stack_bytes = place.stacks == 0 ? 0 : stacks;
    }
    // Each static variable takes at most its size, its alignment and a gap.
    const u64 arena = (g.spec->max_shared_bytes * 4 + (64 << 10)) / kArenaAlignment * kArenaAlignment;
    if (block.arena_bytes < arena) {
        if (block.arena != 0) {
            munmap(reinterpret_cast<void*>(block.arena), block.arena_bytes);
            munmap(block.cells, block.arena_bytes / 4 * sizeof(Cell));
        }
        block.arena = reinterpret_cast<Address>(reserve(arena));
        block.cells = static_cast<Cell*>(reserve(arena / 4 * sizeof(Cell)));
        block.arena_bytes = arena;
        block.bytes.assign(arena, kOutside);
    }
    std::memset(static_cast<void*>(block.cells), 0, (g.spec->dynamic_shared_bytes / 4 + 1) * sizeof(Cell));
    return place.stacks != 0 && block.arena != 0 && block.cells != nullptr;
}

papilio_emu_uint3 unravel(u32 index, const u32 (&shape)[3]) {
    return {index % shape[0], index / shape[0] % shape[1], index / (shape[0] * shape[1])};
}

void start_block(Place& place, u32 index) {
    Block& block = place.block;
    const LaunchSpec& spec = *g.spec;
    block.index = index;
    block.idx = unravel(index, spec.grid);
    block.epoch = block.finished = block.waiting = 0;
    block.static_bytes = 0;
    block.variables.clear();
    std::fill(block.bytes.begin(), block.bytes.begin() + (long)spec.dynamic_shared_bytes, (u8)kUnwritten);
    block.arena_used = spec.dynamic_shared_bytes;
    const u32 n_warps = (g.threads_per_block + kWarpSize - 1) / kWarpSize;
    block.warps.resize(n_warps);
    for (u32 w = 0; w < n_warps; ++w) {
        const u32 lanes = std::min(kWarpSize, g.threads_per_block - w * kWarpSize);
        block.warps[w] = {index * n_warps + w, 0, lanes == 32 ? ~0u : (1u << lanes) - 1, 0, {}};
    }
    if (block.fibers.size() != g.threads_per_block) block.fibers = std::vector<Fiber>(g.threads_per_block);
    for (u32 t = 0; t < g.threads_per_block; ++t) {
        Fiber& fiber = block.fibers[t];
        fiber.stack = place.stacks + t * kStackBytes;
        fiber.block = &block;
        fiber.thread = t;
        fiber.id = index * g.threads_per_block + t + 1;
        fiber.lane = t % kWarpSize;
        fiber.warp = &block.warps[t / kWarpSize];
        fiber.thread_idx = unravel(t, spec.block);
        fiber.tag = 0;
        std::fill(fiber.known, fiber.known + kWarpSize, 0u);
        fiber.pc = reinterpret_cast<Address>(spec.run) + 1;
        fiber.fences.reset();
        start_fiber(fiber);
    }
}

int find_module(dl_phdr_info* info, size_t, void*) {
    const auto run = reinterpret_cast<Address>(g.spec->run);
    Address low = ~Address{0}, high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        low = std::min<Address>(low, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        high = std::max<Address>(high, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
    }
    if (run < low || run >= high) return 0;
    g.module_low = info->dlpi_addr;
    g.module_high = high;
    return 1;
}

/// How this launch schedules: often or seldom preempted, depth first or evenly; drawn from its seed.
void draw_schedule() {
    g.random_state = g.spec->seed * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull;
    if (g.random_state == 0) g.random_state = 1;
    for (int i = 0; i < 8; ++i) random_bits();
    static constexpr u32 plain[] = {0, 64, 2048};
    static constexpr u32 atomic[] = {4096, 16384, 49152};
    static constexpr u32 stick[] = {0, 32768, 63488};
    g.preempt_plain = plain[random_below(3)];
    g.preempt_atomic = atomic[random_below(3)];
    g.stick = stick[random_below(3)];
}

/// No thread is ready: all have finished, or the rest waits in a circle.
void report_deadlock(u32 n_places) {
    for (u32 i = 0; i < n_places; ++i)
        for (const Fiber& fiber : places[i]->block.fibers)
            if (fiber.state != State::finished)
                return report(fiber, "deadlock: waits here for threads that wait for others; no thread can go on");
}

void run_blocks() {
    const u32 n_blocks = g.spec->grid[0] * g.spec->grid[1] * g.spec->grid[2];
    std::vector<u32> order(n_blocks);
    std::iota(order.begin(), order.end(), 0u);
    for (u32 i = n_blocks; i > 1; --i) std::swap(order[i - 1], order[random_below(i)]);
    const u32 n_places = (u32)std::min<u64>(n_blocks, g.spec->resident_blocks);
    u32 next = 0;
    for (; next < n_places; ++next) start_block(*places[next], order[next]);
    while (!g.failed && !g.ready.empty()) {
        run_until_pause();
        Block* retired = g.retiring;
        g.retiring = nullptr;
        if (g.failed || retired == nullptr || next == n_blocks) continue;
        for (const auto& place : places)
            if (&place->block == retired) start_block(*place, order[next++]);
    }
    if (!g.failed) report_deadlock(n_places);
}

void* shared_at(Block& block, u64 offset) { return reinterpret_cast<void*>(block.arena + offset); }

}  // namespace
}  // namespace papilio_emu

using namespace papilio_emu;

extern "C" {

void* papilio_emu_dynamic_shared(unsigned long long align) {
    Fiber& fiber = *g.current;
    if (align > kArenaAlignment) {
        fail(reinterpret_cast<Address>(__builtin_return_address(0)), format("dynamic shared memory aligned to %llu bytes; at most 1024", align));
    }
    return shared_at(*fiber.block, 0);
}

void* papilio_emu_static_shared(const void* tag, unsigned long long size, unsigned long long align,
                                const char* name) {
    Block& block = *g.current->block;
    for (const SharedVariable& variable : block.variables)
        if (variable.tag == tag) return shared_at(block, variable.offset);
    block.static_bytes = (block.static_bytes + align - 1) / align * align + size;
    const u64 at = (block.arena_used + kGap + align - 1) / align * align;
    const u64 needed = block.static_bytes + g.spec->dynamic_shared_bytes;
    if (block.static_bytes > kMaxStaticBytes || needed > g.spec->max_shared_bytes ||
        at + size + kGap > block.arena_bytes) {
        fail(reinterpret_cast<Address>(__builtin_return_address(0)), format("`%s` takes the shared memory to %llu bytes, %llu of them static; the limits are "
                                   "%llu and %llu bytes",
                                   name, (unsigned long long)needed, (unsigned long long)block.static_bytes,
                                   (unsigned long long)g.spec->max_shared_bytes, (unsigned long long)kMaxStaticBytes));
    }
    std::memset(static_cast<void*>(block.cells + block.arena_used / 4), 0,
                (at + size - block.arena_used) / 4 * sizeof(Cell) + 2 * sizeof(Cell));
    std::fill(block.bytes.begin() + (long)block.arena_used, block.bytes.begin() + (long)at, (u8)kOutside);
    std::fill(block.bytes.begin() + (long)at, block.bytes.begin() + (long)(at + size), (u8)kUnwritten);
    block.arena_used = at + size;
    block.variables.push_back({tag, at, size, name});
    return shared_at(block, at);
}

/// Run a launch to its end. Returns 0, or 1 with a message in spec->report.
int papilio_emu_launch(LaunchSpec* spec) {
    g = Launch{};
    g.spec = spec;
    g.threads_per_block = spec->block[0] * spec->block[1] * spec->block[2];
    g.steps_left = spec->max_steps;
    spec->switches = 0;
    dl_iterate_phdr(find_module, nullptr);
    draw_schedule();
    prepare_shadow();
    const u64 n_blocks = (u64)spec->grid[0] * spec->grid[1] * spec->grid[2];
    const u64 n_places = std::min(n_blocks, spec->resident_blocks);
    while (places.size() < n_places) places.push_back(std::make_unique<Place>());
    for (u64 i = 0; i < n_places; ++i) g.failed = !make_room(*places[i]) || g.failed;
    if (g.failed) {
        std::snprintf(spec->report, spec->report_bytes, "not enough host memory for the emulator");
    } else {
        start_watchdog();
        run_blocks();
        stop_watchdog();
    }
    g.current = nullptr;
    spec->steps = spec->max_steps - g.steps_left;
    release_shadow();
    return g.failed ? 1 : 0;
}
}
