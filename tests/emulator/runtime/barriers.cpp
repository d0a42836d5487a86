// __syncthreads and the warp collectives: who must arrive, where, with which mask; and what comes out.
#include "state.h"

#define PC reinterpret_cast<papilio_emu::Address>(__builtin_return_address(0))

namespace papilio_emu {
namespace {

const char* name_of(u32 op) {
    static const char* const names[] = {
        "__syncwarp",       "__shfl_sync",      "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
        "a warp vote",      "__match_any_sync", "__match_all_sync",  "__reduce_add_sync", "__reduce_min_sync",
        "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync",
        "__reduce_xor_sync"};
    return names[op];
}

Fiber& lane_of(const Fiber& fiber, u32 lane) {
    return fiber.block->fibers[fiber.thread - fiber.lane + lane];
}

u64 random_value(u32 size) { return size == 8 ? random_bits() : random_bits() >> 32; }

/// The lane that a shuffle reads, or the caller's own when the source falls outside its segment.
u32 shuffle_source(u32 op, u32 lane, u32 argument, u32 width) {
    const u32 first = lane & ~(width - 1), last = first + width - 1;
    switch (op) {
        case PAPILIO_WARP_SHFL: return first + (argument & (width - 1));
        case PAPILIO_WARP_SHFL_UP: return argument > lane - first ? lane : lane - argument;
        case PAPILIO_WARP_SHFL_DOWN: return argument > last - lane ? lane : lane + argument;
        default: {
            const u32 source = lane ^ argument;
            return source > last ? lane : source;
        }
    }
}

u64 reduce(u32 op, u64 a, u64 b) {
    const u32 x = (u32)a, y = (u32)b;
    const auto sx = (std::int32_t)x, sy = (std::int32_t)y;
    switch (op) {
        case PAPILIO_WARP_REDUCE_ADD: return x + y;
        case PAPILIO_WARP_REDUCE_MIN: return x < y ? x : y;
        case PAPILIO_WARP_REDUCE_MAX: return x < y ? y : x;
        case PAPILIO_WARP_REDUCE_SIGNED_MIN: return sx < sy ? x : y;
        case PAPILIO_WARP_REDUCE_SIGNED_MAX: return sx < sy ? y : x;
        case PAPILIO_WARP_REDUCE_AND: return x & y;
        case PAPILIO_WARP_REDUCE_OR: return x | y;
        default: return x ^ y;
    }
}

void compute(const Fiber& caller, const Warp::Group& group, u32 size, u64 (&out)[kWarpSize]) {
    u64 in[kWarpSize];
    u64 ballot = 0, all = 0, seen = 0;
    bool same = true;
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
        if ((group.mask >> lane & 1) == 0) continue;
        in[lane] = lane_of(caller, lane).value;
        if (in[lane] != 0) ballot |= 1ull << lane;
        all = seen++ == 0 ? in[lane] : reduce(group.op, all, in[lane]);
        same = same && in[lane] == in[__builtin_ctz(group.mask)];
    }
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
        if ((group.mask >> lane & 1) == 0) continue;
        switch (group.op) {
            case PAPILIO_WARP_SYNC: out[lane] = 0; break;
            case PAPILIO_WARP_BALLOT: out[lane] = ballot; break;
            case PAPILIO_WARP_MATCH_ALL: out[lane] = same ? group.mask : 0; break;
            case PAPILIO_WARP_MATCH_ANY: {
                out[lane] = 0;
                for (u32 other = 0; other < kWarpSize; ++other)
                    if ((group.mask >> other & 1) && in[other] == in[lane]) out[lane] |= 1ull << other;
                break;
            }
            case PAPILIO_WARP_SHFL:
            case PAPILIO_WARP_SHFL_UP:
            case PAPILIO_WARP_SHFL_DOWN:
            case PAPILIO_WARP_SHFL_XOR: {
                // A lane outside the mask has no value to give: on hardware the result is undefined, here random.
                const u32 argument = lane_of(caller, lane).lane_argument;
                const u32 source = shuffle_source(group.op, lane, argument, group.width);
                out[lane] = group.mask >> source & 1 ? in[source] : random_value(size);
                break;
            }
            default: out[lane] = all;
        }
    }
}

/// After __syncwarp each lane of the mask knows all that any of them knew.
void order_lanes(const Fiber& caller, Warp& warp, u32 mask) {
    u32 joined[kWarpSize];
    const u32 now = ++warp.sequence;
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
        joined[lane] = now;
        if (mask >> lane & 1) continue;
        joined[lane] = 0;
        for (u32 other = 0; other < kWarpSize; ++other)
            if (mask >> other & 1) joined[lane] = std::max(joined[lane], lane_of(caller, other).known[lane]);
    }
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        Fiber& fiber = lane_of(caller, lane);
        fiber.tag = now;
        std::copy(joined, joined + kWarpSize, fiber.known);
    }
    if (g.fences_used) join_warp_fences(*caller.block, warp, mask);
}

[[noreturn]] void fail_mask(Fiber& fiber, u32 op, u32 mask, const std::string& what) {
    fail(fiber.pc, format("%s with mask 0x%08x ", name_of(op), mask) + what);
}

std::string lanes_text(u32 mask) {
    std::string text;
    for (u32 lane = 0; lane < kWarpSize; ++lane)
        if (mask >> lane & 1) text += (text.empty() ? "" : ", ") + std::to_string(lane);
    return text;
}

void check_arrival(Fiber& fiber, u32 op, u32 mask) {
    Warp& warp = *fiber.warp;
    if ((mask >> fiber.lane & 1) == 0) fail_mask(fiber, op, mask, "does not contain the calling lane");
    if (mask & ~warp.existing)
        fail_mask(fiber, op, mask, "names lanes that the block does not have: " + lanes_text(mask & ~warp.existing));
    if (mask & warp.finished)
        fail_mask(fiber, op, mask, "names lanes that have finished: " + lanes_text(mask & warp.finished));
    if (fiber.block->waiting == 0) return;
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const Fiber& other = lane_of(fiber, lane);
        if (other.state == State::at_block_barrier)
            fail_mask(fiber, op, mask, format("names lane %u, which waits in __syncthreads at ", lane) + at_pc(other.pc));
    }
}

/// The collective that the lane arrives at. Lanes may come to collectives of different masks in any order; a lane
/// that waits for one which waits for it, elsewhere or under another mask, never goes on.
Warp::Group& group_for(Fiber& fiber, u32 op, u32 mask, u32 width) {
    Warp& warp = *fiber.warp;
    Warp::Group* found = nullptr;
    for (Warp::Group& group : warp.groups) {
        if (group.mask == mask && group.op == op && group.pc == fiber.pc && group.width == width) {
            found = &group;
            continue;
        }
        if ((group.mask >> fiber.lane & 1) == 0 || (mask & group.arrived) == 0) continue;
        const char* what = group.mask != mask ? "meets another mask: lanes "
                           : group.op == op && group.pc == fiber.pc
                               ? "meets another width: lanes "
                               : "meets another collective, the warp has diverged: lanes ";
        fail_mask(fiber, op, mask,
                  what + lanes_text(group.arrived) + " wait in " + name_of(group.op) +
                      format(" with mask 0x%08x at ", group.mask) + at_pc(group.pc));
    }
    if (found != nullptr) return *found;
    warp.groups.push_back({op, mask, 0, width, fiber.pc});
    return warp.groups.back();
}

}  // namespace

void note_finished(Fiber& fiber) {
    Block& block = *fiber.block;
    Warp& warp = *fiber.warp;
    warp.finished |= 1u << fiber.lane;
    ++block.finished;
    for (const Warp::Group& group : warp.groups)
        if (group.mask >> fiber.lane & 1)
            fail(fiber.pc, format("finished (last seen here) while lanes %s wait for it in %s with mask 0x%08x at ",
                                  lanes_text(group.arrived).c_str(), name_of(group.op), group.mask) +
                               at_pc(group.pc));
    if (block.waiting != 0)
        fail(fiber.pc, format("finished (last seen here) while %u threads of its block wait in __syncthreads at ",
                              block.waiting) +
                           at_pc(block.barrier_pc));
    if (block.finished == g.threads_per_block) g.retiring = &block;
}

}  // namespace papilio_emu

using namespace papilio_emu;

extern "C" {

int papilio_emu_block(unsigned op, int predicate) {
    Fiber& fiber = *g.current;
    Block& block = *fiber.block;
    fiber.pc = PC;
    if (random_chance(g.preempt_atomic)) yield_to_others();
    if (block.finished != 0)
        for (const Fiber& other : block.fibers)
            if (other.state == State::finished)
                fail(fiber.pc, "__syncthreads, but " + thread_name(other.id) + " has finished; it was last seen at " +
                                   at_pc(other.pc));
    for (const Warp::Group& group : fiber.warp->groups)
        if (group.mask >> fiber.lane & 1)
            fail(fiber.pc, "__syncthreads in divergent code: lanes " + lanes_text(group.arrived) +
                               " wait for this lane in " + name_of(group.op) + " at " + at_pc(group.pc));
    if (block.waiting != 0 && (block.barrier_pc != fiber.pc || block.barrier_op != op))
        fail(fiber.pc, format("__syncthreads in divergent code: %u threads of the block wait at another one, at ",
                              block.waiting) +
                           at_pc(block.barrier_pc));
    block.barrier_pc = fiber.pc;
    block.barrier_op = op;
    fiber.state = State::at_block_barrier;
    fiber.value = (u64)predicate;
    if (++block.waiting == g.threads_per_block) {
        u64 count = 0;
        for (const Fiber& other : block.fibers) count += other.value;
        if (op == PAPILIO_BLOCK_AND) count = count == g.threads_per_block;
        if (op == PAPILIO_BLOCK_OR) count = count != 0;
        block.waiting = 0;
        ++block.epoch;
        if (g.fences_used) join_block_fences(block);
        for (Fiber& other : block.fibers) {
            other.value = count;
            make_ready(&other);
        }
    }
    block_current();
    return (int)fiber.value;
}

unsigned long long papilio_emu_warp(unsigned op, unsigned mask, unsigned long long value, unsigned size, unsigned lane,
                                    unsigned width) {
    Fiber& fiber = *g.current;
    fiber.pc = PC;
    if (random_chance(g.preempt_atomic)) yield_to_others();
    check_arrival(fiber, op, mask);
    if (width == 0 || width > kWarpSize || (width & (width - 1)) != 0)
        fail(fiber.pc, format("width %u of %s is not a power of two up to 32", width, name_of(op)));
    Warp::Group& group = group_for(fiber, op, mask, width);
    group.arrived |= 1u << fiber.lane;
    fiber.state = State::at_warp_collective;
    fiber.value = size == 4 ? (u32)value : value;
    fiber.lane_argument = lane;
    if (group.arrived == mask) {
        u64 out[kWarpSize];
        compute(fiber, group, size, out);
        if (op == PAPILIO_WARP_SYNC) order_lanes(fiber, *fiber.warp, mask);
        for (u32 i = 0; i < kWarpSize; ++i) {
            if ((mask >> i & 1) == 0) continue;
            lane_of(fiber, i).value = out[i];
            make_ready(&lane_of(fiber, i));
        }
        std::vector<Warp::Group>& groups = fiber.warp->groups;
        groups.erase(groups.begin() + (&group - groups.data()));
    }
    block_current();
    return fiber.value;
}

unsigned papilio_emu_lane_mask() { return 1u << g.current->lane; }

void papilio_emu_stop(const char* what) {
    fail(PC, what);
}

papilio_emu_uint3 papilio_emu_thread_idx() { return g.current->thread_idx; }
papilio_emu_uint3 papilio_emu_block_idx() { return g.current->block->idx; }
papilio_emu_uint3 papilio_emu_block_dim() { return {g.spec->block[0], g.spec->block[1], g.spec->block[2]}; }
papilio_emu_uint3 papilio_emu_grid_dim() { return {g.spec->grid[0], g.spec->grid[1], g.spec->grid[2]}; }
}
