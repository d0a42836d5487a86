// Shadow memory: every access of a kernel to shared and global memory is checked for bounds, for values that
// no one wrote, and for races, against the last four accesses to each aligned word.
#include <sys/mman.h>

#include <algorithm>

#include "state.h"

namespace papilio_emu {
namespace {

bool ordered(const Access& earlier, const Fiber& now) {
    if (earlier.thread == now.id) return true;
    const u32 block = (earlier.thread - 1) / g.threads_per_block;
    if (block == now.block->index) {
        if (earlier.epoch < now.block->epoch) return true;
        const u32 thread = (earlier.thread - 1) % g.threads_per_block;
        if (thread / kWarpSize == now.thread / kWarpSize && earlier.tag < now.known[thread % kWarpSize]) return true;
    }
    return g.fences_used && ordered_by_fences(earlier, now);
}

const char* verb(u32 kind) { return kind == kRead ? "read" : kind == kWrite ? "write" : "atomic"; }

[[noreturn]] void fail_race(const Access& earlier, Kind kind, Address word, Address pc) {
    const bool same_block = (earlier.thread - 1) / g.threads_per_block == g.current->block->index;
    const bool same_warp = same_block && (earlier.thread - 1) % g.threads_per_block / kWarpSize ==
                                             g.current->thread / kWarpSize;
    const char* hint = !same_block ? "blocks of one launch are not ordered"
                       : same_warp ? "no __syncwarp or __syncthreads between them; other warp collectives do not "
                                     "order memory"
                                   : "no __syncthreads between them";
    fail(pc, format("data race: %s of ", verb(kind)) + describe(word) + ", unordered with the " + verb(earlier.kind) +
                 " by " + thread_name(earlier.thread) + " at " + format("@{%x}", (u32)earlier.pc) + " (" + hint + ")");
}

bool conflicts(u32 a, u32 b) { return a == kWrite || b == kWrite || a != b; }

void check_cell(Cell& cell, u32 bytes, Kind kind, Address word, Address pc, bool shared) {
    Fiber& fiber = *g.current;
    int place = -1;
    for (int i = 0; i < kSlots; ++i) {
        Access& earlier = cell.slot[i];
        // A shared cell may still hold accesses of the block that used the arena before.
        if (earlier.thread != 0 && shared &&
            (earlier.thread - 1) / g.threads_per_block != fiber.block->index)
            earlier.thread = 0;
        if (earlier.thread == 0) {
            if (place < 0) place = i;
            continue;
        }
        if ((earlier.bytes & bytes) == 0) continue;
        const bool before = ordered(earlier, fiber);
        if (!before && conflicts(earlier.kind, kind)) fail_race(earlier, kind, word, pc);
        if (before && (earlier.bytes & ~bytes) == 0 && (kind == kWrite || earlier.kind == kind)) {
            earlier.thread = 0;
            place = i;
        }
    }
    if (place < 0) {
        place = (int)random_below(kSlots);
        for (int i = 0; i < kSlots && cell.slot[place].kind == kWrite; ++i) place = (place + 1) % kSlots;
    }
    Access& now = cell.slot[place];
    now.thread = fiber.id;
    now.epoch = fiber.block->epoch;
    now.tag = fiber.tag;
    now.pc = module_offset(pc);
    now.kind = kind;
    now.bytes = bytes;
}

void check_cells(Cell* cells, u64 offset, u64 size, Kind kind, Address address, Address pc, bool shared) {
    const u64 end = offset + size;
    for (u64 at = offset; at < end;) {
        const u64 next = std::min(end, (at | 3) + 1);
        const u32 bytes = (u32)((1u << (next - at)) - 1) << (at & 3);
        check_cell(cells[at >> 2], bytes, kind, address + (at - offset), pc, shared);
        at = next;
    }
}

void touch_shared(Block& block, u64 offset, u64 size, Kind kind, Address address, Address pc) {
    u8* state = &block.bytes[offset];
    for (u64 i = 0; i < size; ++i) {
        if (offset + i >= block.arena_used || state[i] == kOutside)
            fail(pc, format("out of bounds: %s of %llu bytes: ", verb(kind), (unsigned long long)size) +
                         describe(address + i));
        if (kind != kWrite && state[i] == kUnwritten)
            fail(pc, format("%s of %llu bytes that no one wrote: ", verb(kind), (unsigned long long)size) +
                         describe(address + i));
        state[i] = kWritten;
    }
    check_cells(block.cells, offset, size, kind, address, pc, true);
}

/// Cells are per aligned word: the first one may begin before the region.
u64 cell_offset(const Region& region, Address address) { return address - (region.base & ~Address{3}); }
u64 cell_bytes(const Region& region) {
    return (cell_offset(region, region.base + region.size) / 4 + 1) * sizeof(Cell);
}

std::size_t find_region(Address address, u64 size) {
    const auto inside = [&](std::size_t i) {
        const Region& region = g.regions[i];
        return address - region.base < region.size && size <= region.size - (address - region.base);
    };
    if (g.last_region < g.regions.size() && inside(g.last_region)) return g.last_region;
    for (std::size_t i = 0; i < g.regions.size(); ++i)
        if (inside(i)) return g.last_region = i;
    return g.regions.size();
}

void touch_global(u64 size, Kind kind, Address address, Address pc) {
    const std::size_t at = find_region(address, size);
    if (at == g.regions.size()) {
        if (address - g.module_low < g.module_high - g.module_low) {
            if (kind == kRead) return;  // a constant table
            fail(pc, "write to a variable at module scope: pass buffers as arguments");
        }
        for (const Fiber& other : g.current->block->fibers)
            if (address - other.stack < kStackBytes)
                fail(pc, std::string(verb(kind)) + " of a local variable of " + thread_name(other.id));
        fail(pc, format("out of bounds: %s of %llu bytes: ", verb(kind), (unsigned long long)size) +
                     describe(address));
    }
    const Region& region = g.regions[at];
    if (region.initialized != nullptr) {
        u8* state = region.initialized + (address - region.base);
        for (u64 i = 0; i < size; ++i) {
            if (kind != kWrite && state[i] == 0)
                fail(pc, format("%s of %llu bytes that no one wrote: ", verb(kind), (unsigned long long)size) +
                             describe(address + i));
            state[i] = 1;
        }
    }
    check_cells(g.region_cells[at], cell_offset(region, address), size, kind, address, pc, false);
}

}  // namespace

void touch(Address address, u64 size, Kind kind, Address pc) {
    Fiber* fiber = g.current;
    if (fiber == nullptr || address - fiber->stack < kStackBytes) return;
    fiber->pc = pc;
    if (random_chance(kind == kAtomic ? g.preempt_atomic : g.preempt_plain)) yield_to_others();
    Block& block = *fiber->block;
    if (address - block.arena < block.arena_bytes)
        touch_shared(block, address - block.arena, size, kind, address, pc);
    else
        touch_global(size, kind, address, pc);
}

/// Overlapping arguments (one array twice, views of one array) become one region with one shadow.
void prepare_shadow() {
    g.regions.assign(g.spec->regions, g.spec->regions + g.spec->n_regions);
    std::sort(g.regions.begin(), g.regions.end(), [](const Region& a, const Region& b) { return a.base < b.base; });
    std::size_t kept = 0;
    for (const Region& region : g.regions) {
        Region* last = kept == 0 ? nullptr : &g.regions[kept - 1];
        if (last != nullptr && region.base < last->base + last->size) {
            last->size = std::max(last->base + last->size, region.base + region.size) - last->base;
        } else {
            g.regions[kept++] = region;
        }
    }
    g.regions.resize(kept);
    g.last_region = 0;
    for (const Region& region : g.regions) {
        const u64 bytes = cell_bytes(region);
        void* cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (cells == MAP_FAILED) {
            g.region_cells.push_back(nullptr);
            g.failed = true;
        } else {
            g.region_cells.push_back(static_cast<Cell*>(cells));
        }
    }
}

void release_shadow() {
    for (std::size_t i = 0; i < g.region_cells.size(); ++i)
        if (g.region_cells[i] != nullptr) munmap(g.region_cells[i], cell_bytes(g.regions[i]));
    g.region_cells.clear();
    g.regions.clear();
}

}  // namespace papilio_emu

using namespace papilio_emu;

extern "C" void papilio_emu_read_only_load(const void* at, unsigned size) {
    const auto address = reinterpret_cast<Address>(at);
    const auto pc = reinterpret_cast<Address>(__builtin_return_address(0));
    const std::size_t found = find_region(address, size);
    if (found == g.regions.size()) return;  // the load that follows reports it
    const u64 offset = cell_offset(g.regions[found], address);
    for (u64 word = offset >> 2; word <= (offset + size - 1) >> 2; ++word)
        for (const Access& earlier : g.region_cells[found][word].slot)
            if (earlier.thread != 0 && earlier.kind != kRead) {
                fail(pc, "__ldg of memory that this launch writes, by " + thread_name(earlier.thread) + " at " +
                             format("@{%x}", (u32)earlier.pc) + ": " + describe(address));
            }
}
