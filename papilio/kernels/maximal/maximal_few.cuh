// The search for maximal bicliques on at most 32 candidates, 128 rows and 64 columns, without memory: a lane has a row of
// each *slice* of 32, and candidates are in the first one.
//
// This does what maximal_narrow.cuh does, with the same sets, deletions and branches: there it is said why. The state of a
// level is a few words; the lane of its depth keeps it while a deeper one is searched. A level has fewer candidates than
// the one above it, and one that is left has two: so 31 levels are enough.
#pragma once

#include "maximal_node.cuh"

__device__ __forceinline__ Word warp_union(Word word) {
    return (Word)warp_or((unsigned)(word >> 32)) << 32 | warp_or((unsigned)word);
}

constexpr int kSlices = 4;

/// A node on the rows of the lanes.
struct FewLevel {
    Word columns;
    Word hash;  // of the rows taken, and of columns that are not among those at hand
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

/// What is below a branch: the candidates and excluded rows that are left, and the candidates that the node keeps.
struct FewBranch {
    FewLevel level;
    unsigned stays;
    Word single;  // the columns of the only candidate that was left, which is no longer one; else 0
};

struct FewSearch {
    TreeQueue& queue;
    MaximalCounts& counts;
    unsigned long long& nodes;
    unsigned long long& words;
    int patience;  // words that a search intersects before it looks for those who wait: less is done sooner than left
    Word rows[kSlices];  // of this lane
    Word row_hash;       // of the first, if it may be a candidate

    __device__ __forceinline__ FewBranch enter(const FewLevel& from, int branch) const {
        const int lane = lane_id();
        const Word all = rows[0] & from.columns, columns = __shfl_sync(kFullMask, all, branch), part = all & columns;
        const bool is_member = (from.candidates >> lane & 1u) != 0 && lane != branch;
        const bool is_full = part == columns;
        const unsigned joined = __ballot_sync(kFullMask, is_member && is_full);
        const bool is_kept = is_member && !is_full && __popcll(part) >= counts.limits.least_right;
        FewBranch below{FewLevel{columns, 0, __ballot_sync(kFullMask, is_kept), {}, 0}, 0, 0};
        unsigned& kept = below.level.candidates;
        below.level.hash = from.hash + __shfl_sync(kFullMask, row_hash, branch);
        if (joined != 0) below.level.hash += sum_words(is_member && is_full ? row_hash : 0ull);
        const int n_taken = below.level.n_taken = from.n_taken + 1 + __popc(joined);
        if (n_taken + __popc(kept) < counts.limits.least_left || n_taken >= counts.limits.most_left) kept = 0;
        if (kept != 0) {
            const Word span = warp_union(is_kept ? part : 0ull);
            Word useful[kSlices];  // 0 for rows that do not matter
            unsigned any = 0;
#pragma unroll
            for (int k = 0; k < kSlices; ++k) {
                useful[k] = 0;
                if (from.excluded[k] == 0) continue;
                useful[k] = from.excluded[k] >> lane & 1u ? rows[k] & span & columns : 0;
                if (__popcll(useful[k]) < counts.limits.least_right) useful[k] = 0;
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

    /// Leave the candidates of a level to others; false: nobody takes them.
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
