// The round of a searching warp: take an item, open it, process its children, share some of them, wait for work shared by
// others, finish. The motif defines the search itself.
//
// A work item is a root and a range of its children. A *unit* is an item, a part of its children shared by another warp,
// or a sub-tree shared by another warp; slots of the queue (tree_queue.cuh) begin with the kind of their content. A motif
// has
//   kCounterWords                       words of shared memory of each warp for counters, besides `near_words`
//   kShares                             whether units are shared; if not, the queue is never read
//   int open(const Children&)           prepares the root of a unit; returns the number of its children to search
//   bool open_child(int child)          prepares a child, by its place in the unit; false: it is already done
//   void read(const unsigned* slot)     prepares a sub-tree shared by another warp; only with kShares
//   void search()                       searches the child or sub-tree prepared before, and offers sub-trees of it
//   void close()                        ends a unit
//   bool finish_kept()                  finishes or offers the work kept of finished units; false: some is still kept,
//                                       as other warps shared a sub-tree before all was finished; only with kKeepsWork
//   unsigned long long flush()          brings all counts to device memory; returns the words of 32 bits intersected
// The warp calls them together. The arena space of a unit is released after it, and the space of a child before the next
// one.
//
// A run can be ended early: the host lowers `*limit`, and items from that number on are not searched. Each item is taken
// by one warp, which then reads the limit and notes in `skipped`, by place, the items it leaves out (kSkipped). A warp that
// takes an item after the host has read the counter reads the limit that the host wrote before. Sub-trees in the queue are
// still searched.
//
// Memory of a warp: kCounterWords + `near_words` words of the block's dynamic shared memory, and `far_words` words of the
// slab for data that does not fit there. block_words: words intersected, by block.
#pragma once

#include "memory.cuh"
#include "tree_queue.cuh"
#include "warp.cuh"

/// First word of a slot of the queue with children of a root; other values belong to the trees.
constexpr unsigned kChildrenSlot = 2;

/// Number of children from which half of them are shared: each part of a root's children opens the root again.
constexpr int kSharedChildren = 4;

#define SEARCH_PARAMETERS                                                                                               \
    const int *__restrict__ item_root, const long long *__restrict__ item_first, const long long *__restrict__ item_last, \
        const int *__restrict__ items, const int n_items, int *limit, int *skipped, const int near_words, unsigned *slab, const long long far_words, \
        int *state, unsigned *ends, unsigned *tickets, unsigned *slots, const unsigned n_slots, const int slot_words,      \
        const int check_steps, unsigned long long *block_words
/// The same as a SearchItems, and as an Arena and a TreeQueue of the calling warp.
#define SEARCH_ITEMS {item_root, item_first, item_last, items, n_items, limit, skipped}
#define SEARCH_ARENA(counter_words) \
    {warp_memory(counter_words + near_words) + counter_words, slab + warp_number() * far_words, near_words, 0, far_words, 0}
#define SEARCH_QUEUE {state, ends, tickets, slots, n_slots, slot_words, check_steps, 0, 0, 0, false}

/// The children [first, last) of a root, as places in the list of all children.
struct Children {
    int root;
    long long first;
    long long last;
};

/// Notes about an item in `skipped`, 0 before; only blocks that help each other note what is searched.
constexpr int kSkipped = 1;
constexpr int kSearched = 2;

/// The work items of a launch.
struct SearchItems {
    const int* root;
    const long long* first;
    const long long* last;
    const int* items;
    int n;
    int* limit;
    int* skipped;

    __device__ __forceinline__ Children at(int place) const {
        const int item = items[place];
        return Children{root[item], first[item], last[item]};
    }

    /// Whether the run ends before the item at a place, just taken, which is then noted as skipped. Any lane alone.
    __device__ __forceinline__ bool skips(int place) const {
        // The address depends on the place, so the limit is not read before the item is taken.
        const volatile int* const from = limit + (place < 0);
        const bool is_beyond = items[place] >= *from;
        if (is_beyond) atomicExch(&skipped[place], kSkipped);
        return is_beyond;
    }
};

__device__ __forceinline__ long long warp_number() {
    return (long long)blockIdx.x * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
}

/// The calling warp's words of dynamic shared memory; each warp has `n_words`.
__device__ __forceinline__ unsigned* warp_memory(int n_words) {
    extern __shared__ uint4 shared_quads[];
    return reinterpret_cast<unsigned*>(shared_quads) + threadIdx.x / kWarpSize * n_words;
}

/// Share children with a waiting warp; false: none is waiting.
__device__ __forceinline__ bool offer_children(const TreeQueue& queue, const Children& children) {
    return queue.offer([&](unsigned* slot) {
        if (lane_id() != 0) return;
        slot[0] = kChildrenSlot;
        slot[1] = (unsigned)children.root;
        slot[2] = (unsigned)children.first;
        slot[3] = (unsigned)((unsigned long long)children.first >> 32);
        slot[4] = (unsigned)(children.last - children.first);
    });
}

/// Whether a motif keeps work of finished units, to continue it along with the next; it then has finish_kept().
template <class Motif>
constexpr bool kKeepsWork = false;

/// The children in a slot of the queue.
__device__ __forceinline__ Children read_children(const unsigned* slot) {
    const long long first = (long long)((unsigned long long)slot[3] << 32 | slot[2]);
    return Children{(int)slot[1], first, first + (int)slot[4]};
}

/// The place of the next item to search, or one after all; skipped items count as done. The warp.
__device__ __forceinline__ int next_searched(const SearchItems& items, int* counter, int& n_done) {
    int at = 0, n_skipped = 0;
    if (lane_id() == 0)
        for (at = atomicAdd(counter, 1); at < items.n && items.skips(at); at = atomicAdd(counter, 1)) ++n_skipped;
    n_done += __shfl_sync(kFullMask, n_skipped, 0);
    return __shfl_sync(kFullMask, at, 0);
}

/// Search units until no warp has any left.
template <class Motif>
__device__ __forceinline__ void run_search(Arena& arena, TreeQueue& queue, const SearchItems& items, Motif& motif,
                                           unsigned long long* block_words) {
    const Arena::Mark empty = arena.mark();
    Arena::Mark opened = empty;
    Children unit{0, 0, 0};
    int child = 0, n_children = 0, n_done = 0;  // n_done: units done but not yet finished
    bool works = false;
#pragma unroll 1
    for (;;) {
        if (child < n_children) {
            arena.release(opened);
            if (Motif::kShares && n_children - child >= kSharedChildren && queue.is_wanted()) {
                const int from = child + (n_children - child) / 2;
                if (offer_children(queue, Children{unit.root, unit.first + from, unit.last})) {
                    n_children = from;
                    unit.last = unit.first + from;
                }
            }
            if (!motif.open_child(child++)) {
                __syncwarp();
                continue;
            }
        } else {
            if (works) motif.close();
            n_done += (int)works;
            __syncwarp();
            arena.release(empty);
            const int at = next_searched(items, &queue.state[kQueueNextItem], n_done);
            bool has_children = true;
            works = at < items.n;
            if (works) {
                unit = items.at(at);
            } else if constexpr (Motif::kShares) {
                const auto read = [&](const unsigned* slot) {
                    has_children = slot[0] == kChildrenSlot;
                    if (has_children)
                        unit = read_children(slot);
                    else
                        motif.read(slot);
                };
                bool is_finished = true;
                if constexpr (kKeepsWork<Motif>) is_finished = motif.finish_kept();
                if (is_finished) queue.finish(n_done);
                n_done = is_finished ? 0 : n_done;
                works = queue.wait(read);
            }
            if (!works) break;
            if (has_children) {
                child = 0;
                n_children = motif.open(unit);
                opened = arena.mark();
                continue;
            }
        }
        motif.search();
        __syncwarp();
    }
    const unsigned long long words = motif.flush();
    if (lane_id() == 0) atomicAdd(&block_words[blockIdx.x], words);
}
