// Sub-trees that one warp leaves to others: a bounded queue in device memory, and when everything is done.
//
// Who waits takes the next position to read and looks at the slot of that position alone; who leaves a sub-tree takes the
// next position to write, but only for a warp that waits: `kQueueWaiting` counts those that nothing is left to yet.
// All of it is by atomic additions, which thousands of warps can do at the same time: exchanges that are tried again
// until they succeed come to one in a microsecond.
// A slot holds a sub-tree as `slot_words` words that mean something to the search alone. Positions count up without
// end; the ticket of a slot says whose turn it is: position p may be filled when it is p, taken when it is p + 1.
// `pending` counts the items and the sub-trees that are not finished, and only when it is 0 there is nothing left. A
// sub-tree is counted before it can be taken, an item from before the launch, so `pending` cannot come to 0 early. Those
// that wait then give their positions back: each position below both ends has been filled and taken.
// A warp waits only when no item is left to take; what is pending is then in the queue or with a warp that runs, and
// blocks that are not resident yet are waited for by no one: any number of resident blocks comes to an end. It may join
// those that wait while it still works, on what is pending itself, and leaves nothing to others from then on until it has
// read its slot. A warp that leaves a sub-tree may wait for its slot, but only for one that reads it in the end, and that
// for who writes to a lower position.
// Order: the words are written before the ticket says so and read before it is given on (fences around its atomics).
#pragma once

#include "warp.cuh"

/// Words of the state of a launch, apart so that they lie in different lines: set by the host before the launch.
constexpr int kQueueNextItem = 0;
constexpr int kQueuePending = QUEUE_PENDING;  // the number of items at first
constexpr int kQueueWaiting = 64;             // warps that wait, less those that a sub-tree is left to
constexpr int kQueueStateWords = QUEUE_STATE_WORDS;
constexpr int kQueueEndWords = QUEUE_END_WORDS;
static_assert(kQueuePending < kQueueWaiting && kQueueWaiting < kQueueStateWords && kQueueEndWords > 32,
              "within what the host sets");

__device__ __forceinline__ void wait_a_little() {
#if !defined(PAPILIO_EMULATED) && defined(__CUDA_ARCH__)
    __nanosleep(1000);
#endif
}

struct TreeQueue {
    int* state;         // kQueueStateWords words of this launch
    unsigned* ends;     // kQueueEndWords words: [0] next position to read, [32] next position to write
    unsigned* tickets;  // one per slot; slot i begins with i
    unsigned* slots;
    unsigned n_slots;  // a power of two from 2 on, or 0: nothing is ever left to others
    int slot_words;
    int check_steps;  // of work between two looks at who waits
    unsigned unchecked;  // steps since the last; without a queue nobody looks, and they may wrap
    int waiting;      // warps that waited at the last look
    unsigned position;  // from which this warp is to read,
    bool joined;        // if it waits for that

    /// Turns of waiting between two looks at what is pending, a word that all change.
    static constexpr int kPendingTurns = 4;

    __device__ __forceinline__ unsigned* slot(unsigned position) const {
        return slots + (long long)(position & (n_slots - 1)) * slot_words;
    }

    __device__ __forceinline__ unsigned* ticket(unsigned position) const { return &tickets[position & (n_slots - 1)]; }

    /// Work was done; the warp.
    __device__ __forceinline__ void spend(int steps) { unchecked += (unsigned)steps; }

    /// Whether it is time to look, and more warps than so many waited for work at the last look; the warp. What is read now
    /// is used the next time, so that nobody waits for it.
    __device__ __forceinline__ bool is_wanted(int more_than = 0) {
        if (unchecked < (unsigned)check_steps || n_slots == 0) return false;
        unchecked = 0;
        const bool are_more = has_seen(more_than);
        waiting = lane_id() == 0 ? peek(&state[kQueueWaiting]) : 0;
        return are_more;
    }

    /// Whether more warps than so many waited at the last look; the warp.
    __device__ __forceinline__ bool has_seen(int more_than) const {
        return __shfl_sync(kFullMask, waiting, 0) > more_than;
    }

    /// Leave a sub-tree to a warp that waits; `write(words)` fills its slot, by the warp. False: none waits.
    template <class Write>
    __device__ __forceinline__ bool offer(const Write& write) const {
        int waits = 0;
        if (lane_id() == 0) {
            waits = atomicSub(&state[kQueueWaiting], 1);
            if (waits <= 0) atomicAdd(&state[kQueueWaiting], 1);
        }
        if (__shfl_sync(kFullMask, waits, 0) <= 0) return false;
        const unsigned position = take_position(&ends[32]);
        unsigned* const turn = ticket(position);
        if (lane_id() == 0) {
            atomicAdd(&state[kQueuePending], 1);
            // Its value orders what the last taker read before what is written now.
            while (atomicAdd(turn, 0) != position) wait_a_little();
            __threadfence();
        }
        __syncwarp();
        write(slot(position));
        __syncwarp();
        if (lane_id() == 0) {
            __threadfence();
            atomicExch(turn, position + 1);
        }
        __syncwarp();
        return true;
    }

    /// Items and sub-trees are finished; the warp.
    __device__ __forceinline__ void finish(int n_units) const {
        __syncwarp();
        if (lane_id() == 0 && n_slots != 0 && n_units != 0) atomicSub(&state[kQueuePending], n_units);
    }

    /// Wait for a sub-tree from here on, in the order of those that do, with work of its own going on; the warp.
    __device__ __forceinline__ void join() {
        if (joined || n_slots == 0) return;
        joined = true;
        position = take_position(&ends[0]);
        if (lane_id() == 0) atomicAdd(&state[kQueueWaiting], 1);
    }

    /// The sub-tree that others left to this warp, which has joined, so far; nullptr: none. The warp.
    __device__ __forceinline__ const unsigned* look() const {
        bool filled = false;
        if (joined && lane_id() == 0) filled = is_turn(position + 1);
        __syncwarp();
        return __shfl_sync(kFullMask, (int)filled, 0) != 0 ? slot(position) : nullptr;
    }

    /// Wait for a sub-tree of others; `read(words)` copies it, by the warp. False: nothing is left, nor will be.
    template <class Read>
    __device__ __forceinline__ bool wait(const Read& read) {
        if (n_slots == 0) return false;
        join();
        joined = false;
        if (!is_filled()) {
            if (lane_id() == 0) atomicSub(&ends[0], 1u);
            return false;
        }
        __syncwarp();
        read(slot(position));
        __syncwarp();
        if (lane_id() == 0) {
            __threadfence();
            atomicExch(ticket(position), position + n_slots);
        }
        __syncwarp();
        return true;
    }

  private:
    __device__ __forceinline__ unsigned take_position(unsigned* end) const {
        const unsigned position = lane_id() == 0 ? atomicAdd(end, 1u) : 0;
        return __shfl_sync(kFullMask, position, 0);
    }

    /// Whether it is the turn `value` of its slot; what was written before is then there. One lane.
    __device__ __forceinline__ bool is_turn(unsigned value) const {
        unsigned* const turn = ticket(position);
        if (peek(turn) != value) return false;
        atomicAdd(turn, 0);
        __threadfence();
        return true;
    }

    /// Wait until the position is filled (true), or nothing is pending.
    __device__ __forceinline__ bool is_filled() const {
        bool filled = false, pending = true;
        if (lane_id() == 0) {
            for (int look = 0; !filled && pending; ++look) {
                filled = is_turn(position + 1);
                if (filled) break;
                if (look % kPendingTurns == 0) pending = peek(&state[kQueuePending]) != 0;
                if (pending) wait_a_little();
            }
        }
        return __shfl_sync(kFullMask, (int)filled, 0) != 0;
    }
};
