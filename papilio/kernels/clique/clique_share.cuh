// Lanes of a warp that are idle take branches of lanes that are busy, once the warp has no more sub-trees to give.
//
// Each lane searches a sub-tree of its own (clique_lanes.cuh, clique_maximal_lanes.cuh), whose sizes differ a thousandfold.
// A busy lane leaves half of the branches of its highest node that has any to an idle one, which gets a copy of its graph:
// the first branches in the order of numbers, which are taken last. Lanes has
//   rows, kGraphWords, frames, kFrameWords   words of the calling lane, each kWarpSize apart
//   depth, busy, idle()
//   unsigned& rest_of(int i)                 the branches that frame i has left
//   void copy_from(int lane, bool is_taker)  registers that the graph needs; the warp
//   void take_half()                         makes the copied frame 0 that of the half, which the next turn goes to
#pragma once

#include "warp.cuh"

/// Turns of the lanes between two looks for idle ones.
#ifndef SHARE_TURNS
#define SHARE_TURNS 16
#endif
constexpr int kShareTurns = SHARE_TURNS;

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
