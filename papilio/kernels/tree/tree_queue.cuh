// Sub-trees that one warp leaves to others: a bounded queue in device memory, and when everything is done.
//
// A slot holds a sub-tree as `slot_words` words that mean something to the search alone. Positions count up without
// end; the ticket of a slot says whose turn it is: position p may be filled when it is p, taken when it is p + 1.
// A full queue refuses, and the caller keeps its work; an empty one says nothing about the end: `pending` counts the
// items and the sub-trees that are not finished, and only when it is 0 there is nothing left. A sub-tree is counted
// before it can be taken, an item from before the launch, so `pending` cannot come to 0 early.
// A warp waits only when no item is left to take; what is pending is then in the queue or with a warp that runs, and
// blocks that are not resident yet are waited for by no one: any number of resident blocks comes to an end.
// Order: the words are written before the ticket says so and read before it is given on (fences around its atomics).
#pragma once

#include "warp.cuh"

/// Words of the state of a launch, apart so that they lie in different lines: set by the host before the launch.
constexpr int kQueueNextItem = 0;
constexpr int kQueuePending = QUEUE_PENDING;  // the number of items at first
constexpr int kQueueIdle = 64;
constexpr int kQueueStateWords = QUEUE_STATE_WORDS;
constexpr int kQueueEndWords = QUEUE_END_WORDS;
static_assert(kQueuePending < kQueueIdle && kQueueIdle < kQueueStateWords && kQueueEndWords > 32, "within what the host sets");

__device__ __forceinline__ void wait_a_little(int turn) {
#if !defined(PAPILIO_EMULATED) && defined(__CUDA_ARCH__)
    __nanosleep(turn < 5 ? 250u << turn : 8000u);
#endif
}

struct TreeQueue {
    int* state;         // kQueueStateWords words of this launch
    unsigned* ends;     // kQueueEndWords words: [0] next position to take, [32] next position to fill
    unsigned* tickets;  // one per slot; slot i begins with i
    unsigned* slots;
    unsigned n_slots;  // a power of two from 2 on, or 0: nothing is ever left to others
    int slot_words;
    int check_steps;  // of work between two looks at who waits
    unsigned unchecked;  // steps since the last; without a queue nobody looks, and they may wrap
    int seen;         // what this lane found at the last look

    __device__ __forceinline__ unsigned* slot(unsigned position) const {
        return slots + (long long)(position & (n_slots - 1)) * slot_words;
    }

    /// Work was done; the warp.
    __device__ __forceinline__ void spend(int steps) { unchecked += (unsigned)steps; }

    /// Whether it is time to look, and more warps waited for work at the last look than there were sub-trees for them;
    /// the warp. What is read now is used the next time, so that nobody waits for it.
    __device__ __forceinline__ bool is_wanted() {
        if (unchecked < (unsigned)check_steps || n_slots == 0) return false;
        unchecked = 0;
        const int lane = lane_id();
        const int idle = __shfl_sync(kFullMask, seen, 0);
        const unsigned taken = (unsigned)__shfl_sync(kFullMask, seen, 1);
        const unsigned filled = (unsigned)__shfl_sync(kFullMask, seen, 2);
        int* const counter = lane == 0 ? &state[kQueueIdle] : (int*)&ends[lane == 1 ? 0 : 32];
        seen = lane < 3 ? peek(counter) : 0;
        return idle > (int)(filled - taken);
    }

    /// Claim the next position whose ticket says that it can be filled (`filled` 0) or taken (1); -1: none.
    __device__ __forceinline__ long long claim(unsigned* end, unsigned filled) const {
        long long claimed = -1;
        if (lane_id() == 0) {
            unsigned position = peek(end);
            for (;;) {
                const unsigned ticket = peek(&tickets[position & (n_slots - 1)]);
                const int ahead = (int)(ticket - (position + filled));
                if (ahead < 0) break;
                if (ahead == 0) {
                    const unsigned seen = atomicCAS(end, position, position + 1);
                    if (seen == position) {
                        claimed = position;
                        break;
                    }
                    position = seen;
                } else {
                    position = peek(end);
                }
            }
        }
        return __shfl_sync(kFullMask, claimed, 0);
    }

    /// Leave a sub-tree to others; `write(words)` fills its slot, by the warp. False: the queue is full.
    template <class Write>
    __device__ __forceinline__ bool offer(const Write& write) const {
        const long long position = claim(&ends[32], 0);
        if (position < 0) return false;
        unsigned* ticket = &tickets[(unsigned)position & (n_slots - 1)];
        if (lane_id() == 0) {
            atomicAdd(&state[kQueuePending], 1);
            atomicAdd(ticket, 0);  // its last value orders what the last taker read before what is written now
            __threadfence();
        }
        __syncwarp();
        write(slot((unsigned)position));
        __syncwarp();
        if (lane_id() == 0) {
            __threadfence();
            atomicExch(ticket, (unsigned)position + 1);
        }
        __syncwarp();
        return true;
    }

    /// Take a sub-tree, if there is one; `read(words)` copies it, by the warp.
    template <class Read>
    __device__ __forceinline__ bool take(const Read& read) const {
        const long long position = claim(&ends[0], 1);
        if (position < 0) return false;
        unsigned* ticket = &tickets[(unsigned)position & (n_slots - 1)];
        if (lane_id() == 0) {
            atomicAdd(ticket, 0);
            __threadfence();
        }
        __syncwarp();
        read(slot((unsigned)position));
        __syncwarp();
        if (lane_id() == 0) {
            __threadfence();
            atomicExch(ticket, (unsigned)position + n_slots);
        }
        __syncwarp();
        return true;
    }

    /// An item or a sub-tree is finished; the warp.
    __device__ __forceinline__ void finish() const {
        __syncwarp();
        if (lane_id() == 0) atomicSub(&state[kQueuePending], 1);
    }

    /// Wait for a sub-tree of others; `read(words)` copies it, by the warp. False: nothing is left, nor will be.
    template <class Read>
    __device__ __forceinline__ bool wait(const Read& read) const {
        if (n_slots == 0) return false;
        if (lane_id() == 0) atomicAdd(&state[kQueueIdle], 1);
        bool taken = false;
        for (int turn = 0; !taken; ++turn) {
            const int pending = lane_id() == 0 ? peek(&state[kQueuePending]) : 0;
            if (__shfl_sync(kFullMask, pending, 0) == 0) break;
            taken = take(read);
            if (!taken) wait_a_little(turn);
        }
        if (lane_id() == 0) atomicSub(&state[kQueueIdle], 1);
        return taken;
    }
};
