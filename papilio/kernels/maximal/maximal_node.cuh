// Nodes of at most 64 columns of the search for maximal bicliques, what they are made of, and how they are left to others.
#pragma once

#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "tree_queue.cuh"

/// A node; behind it lie its sets, candidates first, of words_for(n_rows) words each.
struct NarrowNode {
    Arena::Mark mark;  // before the node
    NarrowNode* above;
    const Word* rows;    // of the base
    const Word* hashes;  // of the rows that may be candidates
    Word columns;
    Word hash;    // of the rows taken, and of columns that are not among those at hand
    int n_rows;   // of the base
    int n_taken;  // rows

    __device__ __forceinline__ unsigned* candidates() { return reinterpret_cast<unsigned*>(this + 1); }
    __device__ __forceinline__ unsigned* excluded() { return candidates() + words_for(n_rows); }

    __device__ __forceinline__ void write(const NarrowNode& value) {
        __syncwarp();
        if (lane_id() == 0) *this = value;
        __syncwarp();
    }

    /// Make the first rows of the base candidates, the others excluded.
    __device__ __forceinline__ void fill_sets(int n_candidates) {
        const int n_words = words_for(n_rows);
#pragma unroll 1
        for (int k = lane_id(); k < n_words; k += kWarpSize) {
            const unsigned first = bits_below(n_candidates - 32 * k);
            candidates()[k] = first;
            excluded()[k] = bits_below(n_rows - 32 * k) & ~first;
        }
        __syncwarp();
    }

    /// The rows of the candidates, cut to the node's columns, then those of the excluded rows, cut to `span`, to `to_rows`;
    /// hashes likewise.
    __device__ __forceinline__ void copy_rows(Word* to_rows, Word* to_hashes, Word span) {
        const int lane = lane_id(), n_words = words_for(n_rows);
        int n = 0;
#pragma unroll 1
        for (int k = 0; k < 2 * n_words; ++k) {
            const unsigned set = candidates()[k];
            const int row = 32 * (k < n_words ? k : k - n_words) + lane;
            if (set >> lane & 1u) {
                const int place = n + __popc(set & lanes_before(lane));
                to_rows[place] = rows[row] & (k < n_words ? columns : span);
                if (k < n_words) to_hashes[place] = hashes[row];
            }
            n += __popc(set);
        }
        __syncwarp();
    }
};
constexpr int kNarrowWords = MAXIMAL_NODE_WORDS;
static_assert(sizeof(NarrowNode) == kNarrowWords * sizeof(unsigned), "the launcher counts on it");

/// What a node is made of: rows, candidates first, with the hashes of these.
struct NarrowBase {
    Arena::Mark mark;  // before all that it has
    NarrowNode* above;
    Word* rows;
    Word* hashes;
    Word columns;
    Word hash;
    int n_taken;
    int n_candidates;  // 0: there is none
    int n_excluded;
};

/// Branches from which on they are left to others. A branch has no candidates but those after it, so that n branches have
/// at most 2^n - 1 nodes, half of which are below the first: hence all are left that are not being searched.
constexpr int kSharedBranches = 4;

/// What a slot of the queue begins with that holds a base: then come the hashes of the columns at hand, rows, hashes.
constexpr unsigned kNarrowSlot = 3;
constexpr int kNarrowSlotHead = 8 + 2 * 64;

__device__ __forceinline__ Word* take_words(Arena& arena, int n) { return reinterpret_cast<Word*>(arena.take(2ll * n)); }

/// Leave a node to others, as a base: `fill(rows, hashes)` writes both. False: nobody takes it, or it is too long.
template <class Fill>
__device__ __forceinline__ bool offer_base(const TreeQueue& queue, const MaximalCounts& counts, int n_candidates, int n_excluded,
                                           int n_taken, Word hash, Word columns, const Fill& fill) {
    if (kNarrowSlotHead + 4 * n_candidates + 2 * n_excluded > queue.slot_words) return false;
    return queue.offer([&](unsigned* slot) {
        Word* const words = reinterpret_cast<Word*>(slot);
        if (lane_id() == 0) {
            slot[0] = kNarrowSlot;
            slot[1] = (unsigned)n_candidates;
            slot[2] = (unsigned)n_excluded;
            slot[3] = (unsigned)n_taken;
            words[2] = hash;
            words[3] = columns;
        }
#pragma unroll 1
        for (int i = lane_id(); i < 64; i += kWarpSize) words[4 + i] = counts.column_hash()[i];
        Word* const rows = words + kNarrowSlotHead / 2;
        fill(rows, rows + n_candidates + n_excluded);
    });
}

/// The base in a slot of the queue.
__device__ __forceinline__ NarrowBase read_base(const unsigned* slot, Arena& arena, MaximalCounts& counts) {
    const int lane = lane_id(), n_candidates = (int)slot[1], n_excluded = (int)slot[2], n_rows = n_candidates + n_excluded;
    const Word* const words = reinterpret_cast<const Word*>(slot);
    const Arena::Mark mark = arena.mark();
    Word* const rows = take_words(arena, n_rows);
    Word* const hashes = take_words(arena, n_candidates);
    counts.resolve();
#pragma unroll 1
    for (int i = lane; i < 64; i += kWarpSize) counts.column_hash()[i] = words[4 + i];
#pragma unroll 1
    for (int i = lane; i < n_rows; i += kWarpSize) rows[i] = words[kNarrowSlotHead / 2 + i];
#pragma unroll 1
    for (int i = lane; i < n_candidates; i += kWarpSize) hashes[i] = words[kNarrowSlotHead / 2 + n_rows + i];
    __syncwarp();
    return NarrowBase{mark, nullptr, rows, hashes, words[3], words[2], (int)slot[3], n_candidates, n_excluded};
}
