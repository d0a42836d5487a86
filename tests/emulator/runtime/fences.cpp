// Order through fences: write; __threadfence(); atomic on A  before  atomic on A; __threadfence(); read.
//
// Both sides need the fence, and the fence must reach as far as the other thread: __threadfence_block orders
// within a block only. An atomic without fences orders nothing. A chain of atomics on A passes on what the
// first of them published.
#include <algorithm>

#include "state.h"

namespace papilio_emu {

void Knowledge::merge(const Knowledge& other) {
    for (const auto& [block, epoch] : other.blocks) {
        u32& mine = blocks[block];
        mine = std::max(mine, epoch);
    }
    for (const auto& [warp, lanes] : other.warps) {
        Lanes& mine = warps[warp];
        for (u32 i = 0; i < kWarpSize; ++i) mine.before[i] = std::max(mine.before[i], lanes.before[i]);
    }
}

KnowledgePtr merged(const KnowledgePtr& a, const KnowledgePtr& b) {
    if (!a || a == b) return b;
    if (!b) return a;
    auto sum = std::make_shared<Knowledge>(*a);
    sum->merge(*b);
    return sum;
}

namespace {

FenceState& fences_of(Fiber& fiber) {
    if (!fiber.fences) fiber.fences = std::make_unique<FenceState>();
    return *fiber.fences;
}

u64 block_key(Address address, u32 block) { return (u64)address * 0x9e3779b97f4a7c15ull ^ (block + 1ull); }

/// All that the thread knows, its own accesses up to now included; opens a new tag for those that follow.
KnowledgePtr snapshot(Fiber& fiber) {
    auto all = std::make_shared<Knowledge>();
    all->blocks[fiber.block->index] = fiber.block->epoch;
    Knowledge::Lanes lanes;
    std::copy(fiber.known, fiber.known + kWarpSize, lanes.before);
    fiber.tag = ++fiber.warp->sequence;
    lanes.before[fiber.lane] = fiber.tag;
    all->warps[fiber.warp->index] = lanes;
    if (fiber.fences && fiber.fences->known) all->merge(*fiber.fences->known);
    return all;
}

}  // namespace

bool ordered_by_fences(const Access& earlier, const Fiber& now) {
    if (!now.fences || !now.fences->known) return false;
    const Knowledge& known = *now.fences->known;
    const u32 thread = (earlier.thread - 1) % g.threads_per_block;
    const u32 block = (earlier.thread - 1) / g.threads_per_block;
    const auto epoch = known.blocks.find(block);
    if (epoch != known.blocks.end() && earlier.epoch < epoch->second) return true;
    const u32 warps_per_block = (g.threads_per_block + kWarpSize - 1) / kWarpSize;
    const auto lanes = known.warps.find(block * warps_per_block + thread / kWarpSize);
    return lanes != known.warps.end() && earlier.tag < lanes->second.before[thread % kWarpSize];
}

void join_block_fences(Block& block) {
    KnowledgePtr all;
    for (const Fiber& fiber : block.fibers)
        if (fiber.fences) all = merged(all, fiber.fences->known);
    if (!all) return;
    for (Fiber& fiber : block.fibers) fences_of(fiber).known = all;
}

void join_warp_fences(Block& block, Warp& warp, u32 mask) {
    Fiber* first = &block.fibers[(warp.index - block.warps[0].index) * kWarpSize];
    KnowledgePtr all;
    for (u32 i = 0; i < kWarpSize; ++i)
        if ((mask >> i & 1) && first[i].fences) all = merged(all, first[i].fences->known);
    if (!all) return;
    for (u32 i = 0; i < kWarpSize; ++i)
        if (mask >> i & 1) fences_of(first[i]).known = all;
}

void note_atomic(Fiber& fiber, Address address) {
    if (!g.fences_used) return;
    const u64 key = block_key(address, fiber.block->index);
    FenceState& state = fences_of(fiber);
    const auto device = g.published_device.find(address);
    if (device != g.published_device.end()) state.received_device = merged(state.received_device, device->second);
    const auto block = g.published_block.find(key);
    if (block != g.published_block.end()) state.received_block = merged(state.received_block, block->second);
    if (state.published_device) {
        KnowledgePtr& at = g.published_device[address];
        at = merged(at, state.published_device);
    }
    if (state.published_block) {
        KnowledgePtr& at = g.published_block[key];
        at = merged(at, state.published_block);
    }
}

}  // namespace papilio_emu

using namespace papilio_emu;

extern "C" void papilio_emu_fence(unsigned scope) {
    Fiber& fiber = *g.current;
    fiber.pc = reinterpret_cast<Address>(__builtin_return_address(0));
    g.fences_used = true;
    FenceState& state = fences_of(fiber);
    state.known = merged(state.known, state.received_block);
    state.received_block = nullptr;
    if (scope == PAPILIO_FENCE_DEVICE) {
        state.known = merged(state.known, state.received_device);
        state.received_device = nullptr;
    }
    state.published_block = snapshot(fiber);
    if (scope == PAPILIO_FENCE_DEVICE) state.published_device = state.published_block;
}
