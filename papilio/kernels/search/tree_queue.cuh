// Sub-trees that warps share: a bounded queue in device memory, and the detection of the end.
//
// A reader takes the next position to read and then polls only the slot of that position. A writer takes the next
// position to write, but only for a warp that waits: `kQueueWaiting` counts the waiting warps without a sub-tree. All
// of this uses atomic additions, which thousands of warps can do at the same time; exchanges repeated until they
// succeed reach only one success per microsecond. A slot holds a sub-tree as `slot_words` words that only the search
// interprets. Positions count up without end; the ticket of a slot tells its state: position p may be filled when the
// ticket is p, and taken when it is p + 1.
//
// `pending` counts the unfinished items and sub-trees; the work is done only when it is 0. A sub-tree is counted before
// it can be taken, and items are counted before the launch, so `pending` cannot reach 0 early. Waiting warps then give
// their positions back: each position below both ends has been filled and taken.
//
// A warp waits only when no item is left to take. All pending work is then in the queue or with a running warp, and no
// warp waits for a block that is not resident yet, so any number of resident blocks terminates. A warp may join the
// waiting ones while it still works on pending work; from then on it leaves nothing to others until it has read its
// slot. A warp that leaves a sub-tree may wait for its slot, but only for the reader of that slot, which itself waits
// only for the writer of a lower position.
//
// Order: the words are written before the ticket marks them ready, and read before the ticket frees the slot (fences
// around the atomics).
#pragma once

#include "warp.cuh"

/// Words of the state of a launch, spaced so that they lie in different cache lines: set by the host before the launch.
constexpr int kQueueNextItem = 0;
constexpr int kQueuePending = QUEUE_PENDING;  // initially the number of items
constexpr int kQueueWaiting = 64;             // waiting warps, minus the sub-trees shared with them
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
    unsigned n_slots;  // a power of two of at least 2, or 0: nothing is ever shared
    int slot_words;
    int check_steps;  // units of work between two checks for waiting warps
    unsigned unchecked;  // steps since the last check; without a queue there are no checks, and the steps may wrap
    int waiting;      // warps that waited at the last check
    unsigned position;  // position that this warp will read,
    bool joined;        // if it has joined the waiting ones

    /// Turns of waiting between two checks of `pending`, a word that all warps change.
    static constexpr int kPendingTurns = 4;

    __device__ __forceinline__ unsigned* slot(unsigned position) const {
        return slots + (long long)(position & (n_slots - 1)) * slot_words;
    }

    __device__ __forceinline__ unsigned* ticket(unsigned position) const { return &tickets[position & (n_slots - 1)]; }

    /// Record work; the warp.
    __device__ __forceinline__ void spend(int steps) { unchecked += (unsigned)steps; }

    /// Return whether a check is due and more than the given number of warps waited at the last one; the warp. The
    /// value read now is used at the next check, so that no warp waits for the read.
    __device__ __forceinline__ bool is_wanted(int more_than = 0) {
        if (unchecked < (unsigned)check_steps || n_slots == 0) return false;
        unchecked = 0;
        const bool are_more = has_seen(more_than);
        waiting = lane_id() == 0 ? peek(&state[kQueueWaiting]) : 0;
        return are_more;
    }

    /// Return whether more than the given number of warps waited at the last check; the warp.
    __device__ __forceinline__ bool has_seen(int more_than) const {
        return __shfl_sync(kFullMask, waiting, 0) > more_than;
    }

    /// Leave a sub-tree to a waiting warp; `write(words)` fills its slot, by the warp. False: no warp waits.
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
            // The acquired value orders the last reader's reads before these writes.
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

    /// Subtract finished items and sub-trees from `pending`; the warp.
    __device__ __forceinline__ void finish(int n_units) const {
        __syncwarp();
        if (lane_id() == 0 && n_slots != 0 && n_units != 0) atomicSub(&state[kQueuePending], n_units);
    }

    /// Join the waiting warps, in their order, while this warp's own work continues; the warp.
    __device__ __forceinline__ void join() {
        if (joined || n_slots == 0) return;
        joined = true;
        position = take_position(&ends[0]);
        if (lane_id() == 0) atomicAdd(&state[kQueueWaiting], 1);
    }

    /// Return the sub-tree left to this warp, which has joined; nullptr if there is none yet. The warp.
    __device__ __forceinline__ const unsigned* look() const {
        bool filled = false;
        if (joined && lane_id() == 0) filled = is_turn(position + 1);
        __syncwarp();
        return __shfl_sync(kFullMask, (int)filled, 0) != 0 ? slot(position) : nullptr;
    }

    /// Wait for a sub-tree from another warp; `read(words)` copies it, by the warp. False: all work is done.
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

    /// Return whether the ticket of the slot is `value`; earlier writes are then visible. One lane.
    __device__ __forceinline__ bool is_turn(unsigned value) const {
        unsigned* const turn = ticket(position);
        if (peek(turn) != value) return false;
        atomicAdd(turn, 0);
        __threadfence();
        return true;
    }

    /// Wait until the position is filled (true) or nothing is pending.
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
