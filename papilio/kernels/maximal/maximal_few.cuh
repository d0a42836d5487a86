// Nodes of at most 64 columns in the search for maximal bicliques, their bases, and how warps share them.
#pragma once

#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "tree_queue.cuh"

/// A node; it is followed by its sets, candidates first, of words_for(n_rows) words each.
struct NarrowNode {
    Arena::Mark mark;  // before the node
    NarrowNode* above;
    const Word* rows;    // of the base
    const Word* hashes;  // of the rows that may be candidates
    Word columns;
    Word hash;    // of the rows taken, and of columns other than the current ones
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

    /// Write the rows of the candidates, cut to the node's columns, then the excluded rows, cut to `span`, to `to_rows`;
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

/// The base of a node: rows, candidates first, and the hashes of the candidates.
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

/// Minimum branches for sharing. A branch has only later candidates, so n branches have at most 2^n - 1 nodes, half of them
/// below the first: hence all branches that are not being searched are shared.
constexpr int kSharedBranches = 4;

/// First word of a slot of the queue that holds a base, before the hashes of the current columns, rows, hashes.
constexpr unsigned kNarrowSlot = 3;
constexpr int kNarrowSlotHead = 8 + 2 * 64;

__device__ __forceinline__ Word* take_words(Arena& arena, int n) { return reinterpret_cast<Word*>(arena.take(2ll * n)); }

/// Share a node as a base: `fill(rows, hashes)` writes both. False: no warp is waiting, or it is too long.
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

// The search for maximal bicliques on at most 32 candidates, 128 rows and 64 columns, without memory: a lane has a row of
// each *slice* of 32, and candidates are in the first slice.
//
// It works like maximal_narrow.cuh, with the same sets, deletions and branches, which are explained there. The state of a
// level is a few words; the lane of its depth keeps it while a deeper level is searched. A level has fewer candidates than
// the level above it, and a level that is left has two: so 31 levels are enough.

__device__ __forceinline__ Word warp_union(Word word) {
    return (Word)warp_or((unsigned)(word >> 32)) << 32 | warp_or((unsigned)word);
}

constexpr int kSlices = 4;

/// A node on the rows of the lanes.
struct FewLevel {
    Word columns;
    Word hash;  // of the rows taken, and of columns other than the current ones
    unsigned candidates;
    unsigned excluded[kSlices];
    int n_taken;  // rows

    __device__ __forceinline__ FewLevel of_lane(int lane) const {
        FewLevel level{__shfl_sync(kFullMask, columns, lane), __shfl_sync(kFullMask, hash, lane),
                       __shfl_sync(kFullMask, candidates, lane), {}, __shfl_sync(kFullMask, n_taken, lane)};
#pragma unroll
        for (int k = 0; k < kSlices; ++k) level.excluded[k] = __shfl_sync(kFullMask, excluded[k], lane);
        return level;
    }
};

/// Result of a branch: the candidates and excluded rows that remain, and the candidates that the node keeps.
struct FewBranch {
    FewLevel level;
    unsigned stays;
    Word single;  // the columns of the only remaining candidate, which is then removed; else 0
};

struct FewSearch {
    TreeQueue& queue;
    MaximalCounts& counts;
    unsigned long long& nodes;
    unsigned long long& words;
    int patience;  // words that a search intersects before it checks for waiting warps: finishing less is faster than sharing
    Word rows[kSlices];  // of this lane
    Word row_hash;       // of the first, if it may be a candidate

    __device__ __forceinline__ FewBranch enter(const FewLevel& from, int branch) const {
        const int lane = lane_id();
        const Word all = rows[0] & from.columns, columns = __shfl_sync(kFullMask, all, branch), part = all & columns;
        const bool is_member = (from.candidates >> lane & 1u) != 0 && lane != branch;
        const bool is_full = part == columns;
        const unsigned joined = __ballot_sync(kFullMask, is_member && is_full);
        const bool is_kept = is_member && !is_full && __popcll(part) >= counts.limits.min_right;
        FewBranch below{FewLevel{columns, 0, __ballot_sync(kFullMask, is_kept), {}, 0}, 0, 0};
        unsigned& kept = below.level.candidates;
        below.level.hash = from.hash + __shfl_sync(kFullMask, row_hash, branch);
        if (joined != 0) below.level.hash += sum_words(is_member && is_full ? row_hash : 0ull);
        const int n_taken = below.level.n_taken = from.n_taken + 1 + __popc(joined);
        if (n_taken + __popc(kept) < counts.limits.min_left || n_taken >= counts.limits.max_left) kept = 0;
        if (kept != 0) {
            const Word span = warp_union(is_kept ? part : 0ull);
            Word useful[kSlices];  // 0 for rows that do not matter
            unsigned any = 0;
#pragma unroll
            for (int k = 0; k < kSlices; ++k) {
                useful[k] = 0;
                if (from.excluded[k] == 0) continue;
                useful[k] = from.excluded[k] >> lane & 1u ? rows[k] & span & columns : 0;
                if (__popcll(useful[k]) < counts.limits.min_right) useful[k] = 0;
                any |= below.level.excluded[k] = __ballot_sync(kFullMask, useful[k] != 0);
            }
#pragma unroll 1
            for (unsigned rest = any != 0 ? kept : 0u; rest != 0; rest &= rest - 1) {
                const Word other = __shfl_sync(kFullMask, part, __ffs((int)rest) - 1);
                bool is_covered = false;
#pragma unroll
                for (int k = 0; k < kSlices; ++k) is_covered = is_covered || (other & ~useful[k]) == 0;
                if (__any_sync(kFullMask, is_covered)) kept &= ~(rest & (0u - rest));
            }
            if (kept != 0 && (kept & (kept - 1)) == 0) below.single = __shfl_sync(kFullMask, part, __ffs((int)kept) - 1);
        }
        below.stays = __ballot_sync(kFullMask, is_member && part != all);
        return below;
    }

    /// Share the candidates of a level with other warps; false: none is waiting.
    __device__ __forceinline__ bool offer(const FewLevel& level) const {
        const int lane = lane_id(), n_candidates = __popc(level.candidates);
        int n_excluded = 0;
#pragma unroll
        for (int k = 0; k < kSlices; ++k) n_excluded += __popc(level.excluded[k]);
        const auto fill = [&](Word* to_rows, Word* to_hashes) {
            const int place = __popc(level.candidates & lanes_before(lane));
            if (level.candidates >> lane & 1u) {
                to_rows[place] = rows[0] & level.columns;
                to_hashes[place] = row_hash;
            }
            int n = n_candidates;
#pragma unroll
            for (int k = 0; k < kSlices; ++k) {
                if (level.excluded[k] >> lane & 1u)
                    to_rows[n + __popc(level.excluded[k] & lanes_before(lane))] = rows[k] & level.columns;
                n += __popc(level.excluded[k]);
            }
        };
        return offer_base(queue, counts, n_candidates, n_excluded, level.n_taken, level.hash, level.columns, fill);
    }

    /// Search below a node.
    __device__ __forceinline__ void search(FewLevel level) {
        const int lane = lane_id();
        FewLevel kept{0, 0, 0, {}, 0};  // the level of this lane's depth
        int depth = 0;
        const unsigned long long begun = words;
        for (;;) {
            if (level.candidates == 0) {
                if (depth == 0) return;
                level = kept.of_lane(--depth);
                continue;
            }
            if (words - begun >= (unsigned)patience && queue.is_wanted()) {
                const unsigned open = __ballot_sync(kFullMask, lane < depth && __popc(kept.candidates) >= kSharedBranches);
                const int from = __ffs((int)open) - 1;
                if (open != 0 && offer(kept.of_lane(from)) && lane == from) kept.candidates = 0;
            }
            const int branch = __ffs((int)level.candidates) - 1;
            const FewBranch below = enter(level, branch);
            const unsigned candidates = below.level.candidates;
            words += 2 * kWarpSize;
            queue.spend(2);
            ++nodes;
            counts.add(below.level.columns, __popcll(below.level.columns), below.level.hash, below.level.n_taken);
            level.candidates = below.stays;
            level.excluded[0] |= 1u << branch;
            if (below.single != 0) {
                ++nodes;
                const Word hash = __shfl_sync(kFullMask, row_hash, __ffs((int)candidates) - 1);
                counts.add(below.single, __popcll(below.single), below.level.hash + hash, below.level.n_taken + 1);
            }
            if ((candidates & (candidates - 1)) == 0) continue;
            if (level.candidates != 0 && lane == depth) kept = level;
            depth += level.candidates != 0;
            level = below.level;
        }
    }
};
