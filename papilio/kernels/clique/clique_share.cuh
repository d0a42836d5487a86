// Lanes that are idle, of the same warp or of one that waits, take over from lanes that are busy, once a warp has no more
// sub-trees to give.
//
// Each lane searches a sub-tree of its own (clique_lanes.cuh, clique_maximal_lanes.cuh), whose sizes differ a thousandfold.
// A busy lane leaves half of the branches of its highest node that has any to an idle one, which gets a copy of its graph:
// the first branches in the order of numbers, which are taken last. Warps that wait get every second lane that has branches,
// as it is, through the queue of tree_queue.cuh. Lanes has
//   rows, kGraphWords, frames, kFrameWords   words of the calling lane, each kWarpSize apart
//   depth, busy, idle()
//   int run(int most, int turns)             searches until at most `most` are busy, or so many turns; how many these were
//   unsigned& rest_of(int i)                 the branches that frame i has left
//   void copy_from(int lane, bool is_taker)  registers that the graph needs; the warp
//   void take_half()                         makes the copied frame 0 that of the half, which the next turn goes to
//   kRegisterWords, save(to), load(from)     registers of a busy lane, as words kWarpSize apart; any lane alone
#pragma once

#include "tree_queue.cuh"

/// Turns of the lanes between two looks for idle ones; all the turns that there are.
constexpr int kShareTurns = 4, kAllTurns = 0x7fffffff;
/// Steps (tree_queue.cuh) that a turn of the last lanes is worth.
constexpr int kTurnSteps = 4;

/// What a slot of the queue begins with that holds lanes, and words before those of the lanes.
constexpr unsigned kLanesSlot = 3;
constexpr int kLanesHead = 4;
/// Times that a warp leaves lanes to others at once, and the part of all warps of which more must wait for that: lanes of two
/// warps take twice the turns of those of one.
constexpr int kLanesAtOnce = 4, kWaitingPart = 4;
/// Idle lanes from which a warp without nodes waits for sub-trees, while its others search.
constexpr int kJoinLanes = 16;

/// The lower half of some bits, one of them at least.
__device__ __forceinline__ unsigned lower_half(unsigned bits) {
    unsigned half = 0;
    for (int n = max(1, __popc(bits) / 2); n > 0; --n) {
        half |= bits & (0u - bits);
        bits &= bits - 1;
    }
    return half;
}

/// Each busy lane that has branches left leaves half of those of one node to an idle lane, as far as there are any; the warp.
template <class Lanes>
__device__ __forceinline__ void share_branches(Lanes& lanes) {
    const int lane = lane_id();
    unsigned idle = lanes.idle();
    if (idle == 0) return;
    int open = -1;
    for (int i = 0; lanes.busy && open < 0 && i < lanes.depth; ++i)
        if (lanes.rest_of(i) != 0) open = i;
    unsigned givers = __ballot_sync(kFullMask, open >= 0);
    bool gives = false, takes = false;
    __syncwarp();
    for (; idle != 0 && givers != 0; idle &= idle - 1, givers &= givers - 1) {
        const int to = __ffs((int)idle) - 1, from = __ffs((int)givers) - 1, frame = __shfl_sync(kFullMask, open, from);
        for (int word = lane; word < Lanes::kGraphWords; word += kWarpSize) {
            unsigned* const of_word = lanes.rows + kWarpSize * word - lane;
            of_word[to] = of_word[from];
        }
        if (lane < Lanes::kFrameWords) {
            unsigned* const of_word = lanes.frames + kWarpSize * lane - lane;
            of_word[to] = of_word[kWarpSize * Lanes::kFrameWords * frame + from];
        }
        lanes.copy_from(from, lane == to);
        gives |= lane == from;
        takes |= lane == to;
    }
    __syncwarp();
    if (gives) lanes.rest_of(open) ^= lower_half(lanes.rest_of(open));
    if (takes) lanes.take_half();
}

/// Copy n words that are kWarpSize apart; any lane alone.
__device__ __forceinline__ void copy_apart(unsigned* to, const unsigned* from, int n) {
    for (int i = 0; i < n; ++i) to[kWarpSize * i] = from[kWarpSize * i];
}

/// Leave every second lane that has branches to a warp that waits; false: none waits, or there are no two. The warp.
template <class Lanes>
__device__ __forceinline__ bool offer_lanes(Lanes& lanes, const TreeQueue& queue) {
    const unsigned open = __ballot_sync(kFullMask, lanes.busy && lanes.depth != 0), own = 1u << lane_id();
    const int n_words = Lanes::kRegisterWords + Lanes::kGraphWords + Lanes::kFrameWords * (int)~warp_least(~(unsigned)lanes.depth);
    if ((open & (open - 1)) == 0 || kLanesHead + kWarpSize * n_words > queue.slot_words) return false;
    const bool gives = (open & own) != 0 && __popc(open & (own - 1)) % 2 != 0;
    const unsigned given = __ballot_sync(kFullMask, gives);
    const bool is_left = queue.offer([&](unsigned* slot) {
        if (lane_id() == 0) {
            slot[0] = kLanesSlot;
            slot[1] = given;
        }
        if (!gives) return;
        unsigned* const to = slot + kLanesHead + lane_id();
        lanes.save(to);
        copy_apart(to + kWarpSize * Lanes::kRegisterWords, lanes.rows, Lanes::kGraphWords);
        copy_apart(to + kWarpSize * (Lanes::kRegisterWords + Lanes::kGraphWords), lanes.frames, Lanes::kFrameWords * lanes.depth);
    });
    if (is_left && gives) lanes.busy = false;
    return is_left;
}

/// Whether lanes are idle for what is in a slot of the queue.
template <class Lanes>
__device__ __forceinline__ bool has_room(const Lanes& lanes, const unsigned* slot) {
    return slot[0] != kLanesSlot || __popc(slot[1]) <= __popc(lanes.idle());
}

/// Take the lanes in a slot of the queue; the warp.
template <class Lanes>
__device__ __forceinline__ void take_lanes(Lanes& lanes, const unsigned* slot) {
    unsigned given = slot[1];
    const int place = __popc(lanes.idle() & lanes_before(lane_id()));
    if (lanes.busy || place >= __popc(given)) return;
    for (int i = 0; i < place; ++i) given &= given - 1;
    const unsigned* const from = slot + kLanesHead + __ffs((int)given) - 1;
    lanes.load(from);
    lanes.busy = true;
    copy_apart(lanes.rows, from + kWarpSize * Lanes::kRegisterWords, Lanes::kGraphWords);
    copy_apart(lanes.frames, from + kWarpSize * (Lanes::kRegisterWords + Lanes::kGraphWords), Lanes::kFrameWords * lanes.depth);
}

/// Search until no lane is busy, of this warp or of those that it left lanes to; false: others left something before that.
/// The warp.
template <class Lanes>
__device__ __forceinline__ bool finish_lanes(Lanes& lanes, TreeQueue& queue) {
    const int many = (int)(gridDim.x * blockDim.x / kWarpSize) / kWaitingPart;
    while (lanes.idle() != kFullMask) {
        queue.spend(kTurnSteps * lanes.run(0, kShareTurns));
        share_branches(lanes);
        const unsigned* const left = queue.look();
        if (left != nullptr && has_room(lanes, left)) return false;
        // Who has joined leaves nothing to others: it would wait for a slot while somebody waits for its own.
        if (queue.joined) continue;
        if (queue.is_wanted(many)) {
            for (int n_left = 0; n_left < kLanesAtOnce && offer_lanes(lanes, queue); ++n_left) {
            }
        } else if (__popc(lanes.idle()) >= kJoinLanes && !queue.has_seen(many)) {
            queue.join();
        }
    }
    return true;
}
