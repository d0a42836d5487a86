// The search for maximal bicliques below a node of at most 64 columns: a word for each row, a lane for each row.
//
// A node has columns, and two sets of rows of a *base*: candidates, which may be taken next, and excluded rows. A
// branch takes a candidate: its columns are the node's columns that the candidate has, and all candidates that have all
// of these columns are taken with it; that is a maximal biclique. Candidates whose columns all lie within the columns
// of the branch do not branch after it (they would turn out to be extended by it), and the branch is excluded from then
// on. Before a node is searched, each candidate whose columns lie within the columns of an excluded row is deleted: it
// can be in no maximal biclique below. So every branch taken is one maximal biclique. Of an excluded row only the
// columns that some candidate has matter, and rows with fewer columns than the minimum do not matter at all. A branch
// of few columns, with everything below it, is counted by a table (maximal_subsets.cuh). If the remaining rows need at
// most half of the words of a set, they become a new base; on few rows the search continues without memory
// (maximal_few.cuh). Other warps get all branches of the highest node that has enough of them (tree_queue.cuh).
//
// Without FILTERS the rows of excluded vertices delete nothing, and without DROPS candidates remain candidates: such a
// branch is checked, and found to be extended, when it comes up. Both are for comparison. Sources: Pan et al., SC 2023
// (GMBE); Pan et al., SC 2024 (AdaMBE).
#pragma once

#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "maximal_few.cuh"
#include "maximal_subsets.cuh"

#ifndef FILTERS
#define FILTERS 1
#endif
#ifndef DROPS
#define DROPS 1
#endif

struct NarrowSearch {
    Arena& arena;
    TreeQueue& queue;
    MaximalCounts& counts;
    RowLists lists;
    int patience;  // see FewSearch
    unsigned long long words;  // intersected so far
    unsigned long long nodes;  // branches taken so far

    __device__ __forceinline__ void spend(int n_words) {
        words += 2 * kWarpSize * (unsigned)n_words;
        queue.spend(2 * n_words);
    }

    /// Search below the current node.
    __device__ __forceinline__ void search(NarrowBase base) {
        NarrowNode* node = nullptr;
        const unsigned long long begun = words;
        for (;;) {
            NarrowNode* below = nullptr;
            if (base.n_candidates == 0) {
                if (node == nullptr) return;
                if (words - begun >= (unsigned)patience && queue.is_wanted()) share(node->above);
                const int branch = first_member(node->candidates(), words_for(node->n_rows));
                if (branch < 0) {
                    NarrowNode* const above = node->above;
                    const Arena::Mark mark = node->mark;
                    __syncwarp();
                    arena.release(mark);
                    node = above;
                    continue;
                }
                below = enter(node, branch, base);
            }
            if (base.n_candidates != 0) below = settle(base);
            base.n_candidates = 0;
            if (below == nullptr) continue;
            if (is_few(below)) {
                const Arena::Mark mark = below->mark;
                search_few(below);
                arena.release(mark);
            } else {
                node = below;
            }
        }
    }

  private:
    __device__ __forceinline__ static bool is_few(NarrowNode* node) {
        const int n_words = words_for(node->n_rows);
        return FILTERS && DROPS && n_words <= kSlices && set_size(node->candidates() + 1, n_words - 1) == 0;
    }

    __device__ __forceinline__ void search_few(NarrowNode* node) {
        const int lane = lane_id();
        const int n_words = words_for(node->n_rows);
        FewLevel level{node->columns, node->hash, *node->candidates(), {}, node->n_taken};
        const bool is_candidate = (level.candidates >> lane & 1u) != 0;
        FewSearch few{queue, counts, nodes, words, patience, {}, is_candidate ? node->hashes[lane] : 0ull};
#pragma unroll
        for (int k = 0; k < kSlices; ++k) {
            if (k >= n_words) continue;
            level.excluded[k] = node->excluded()[k];
            const bool is_row = (k == 0 && is_candidate) || (level.excluded[k] >> lane & 1u) != 0;
            few.rows[k] = is_row ? node->rows[32 * k + lane] : 0ull;
        }
        __syncwarp();
        few.search(level);
    }

    /// Leave the candidates of the highest node with enough of them to other warps, starting from the last.
    __device__ __forceinline__ void share(NarrowNode* last) const {
        NarrowNode* from = nullptr;
#pragma unroll 1
        for (NarrowNode* each = last; each != nullptr; each = each->above)
            if (set_size(each->candidates(), words_for(each->n_rows)) >= kSharedBranches) from = each;
        if (from == nullptr) return;
        const int n_words = words_for(from->n_rows);
        const int n_candidates = set_size(from->candidates(), n_words), n_excluded = set_size(from->excluded(), n_words);
        const auto fill = [&](Word* rows, Word* hashes) { from->copy_rows(rows, hashes, from->columns); };
        if (!offer_base(queue, counts, n_candidates, n_excluded, from->n_taken, from->hash, from->columns, fill)) return;
        __syncwarp();
#pragma unroll 1
        for (int k = lane_id(); k < n_words; k += kWarpSize) from->candidates()[k] = 0;
        __syncwarp();
    }

    __device__ __forceinline__ NarrowNode* take(int n_words) const {
        return reinterpret_cast<NarrowNode*>(arena.take(kNarrowWords + 2ll * n_words));
    }

    /// Take a candidate; return the node below. Return null if nothing is left to search, or if the node must be made
    /// of `base`, which then has candidates.
    __device__ __forceinline__ NarrowNode* enter(NarrowNode* from, int branch, NarrowBase& base) {
        const int lane = lane_id(), n_rows = from->n_rows, n_words = words_for(n_rows);
        const Word* const rows = from->rows;
        const Word* const hashes = from->hashes;
        const Word all = from->columns, columns = rows[branch] & all;
        unsigned* const candidates = from->candidates();
        unsigned* const excluded = from->excluded();
        if (FILTERS && DROPS && __popcll(columns) <= kTableColumns) {
            close_branch(from, branch, columns);
            return nullptr;
        }
        const Arena::Mark mark = arena.mark();
        NarrowNode* const below = take(n_words);
        unsigned* const kept = below->candidates();
        Word hash = from->hash + hashes[branch], span = 0;
        int n_taken = from->n_taken + 1, n_kept = 0;
        ++nodes;
        bool is_extended = false;
        if (!(FILTERS && DROPS)) is_extended = has_all(rows, columns, excluded, n_words);
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            const unsigned set = candidates[k];
            unsigned stays = 0, goes = 0;
            if (set != 0) {
                const bool is_member = (set >> lane & 1u) != 0 && 32 * k + lane != branch;
                const Word row = is_member ? rows[32 * k + lane] & all : 0;
                const Word part = row & columns;
                const bool joins = is_member && part == columns;
                const unsigned joining = __ballot_sync(kFullMask, joins);
                if (joining != 0) {
                    n_taken += __popc(joining);
                    hash += sum_words(joins ? hashes[32 * k + lane] : 0ull);
                }
                stays = __ballot_sync(kFullMask, is_member && (!DROPS || part != row));
                const bool is_kept = is_member && !joins && __popcll(part) >= counts.limits.min_right;
                goes = __ballot_sync(kFullMask, is_kept);
                if (is_kept) span |= part;
                n_kept += __popc(goes);
            }
            __syncwarp();
            if (lane == 0) {
                candidates[k] = stays;
                kept[k] = goes;
            }
        }
        __syncwarp();
        spend(n_words);
        NarrowNode* made = nullptr;
        if (!is_extended) counts.add(columns, __popcll(columns), hash, n_taken);
        if (!is_extended && n_kept > 0 && n_taken + n_kept >= counts.limits.min_left && n_taken < counts.limits.max_left) {
            below->write(NarrowNode{mark, from, rows, hashes, columns, hash, n_rows, n_taken});
            span = warp_union(span);
            const int n_useful = find_useful(rows, span, n_words, excluded, kept + n_words);
            if (is_worth_renewing(below, n_kept, n_kept + n_useful)) {
                base = renew(below, span, n_kept, n_useful);
            } else {
                if (FILTERS) n_kept = delete_covered(rows, columns, n_words, kept, kept + n_words, n_kept);
                if (FILTERS && n_kept == 1) {
                    const int row = first_member(kept, n_words);
                    count_single(rows[row] & columns, hash + hashes[row], n_taken + 1);
                } else if (is_open(n_kept, n_taken)) {
                    made = below;
                }
            }
        }
        __syncwarp();
        if (lane == 0) excluded[branch / 32] |= 1u << (branch & 31);
        __syncwarp();
        if (made == nullptr && base.n_candidates == 0) arena.release(mark);
        return made;
    }

    /// Take a candidate of few columns, and count everything below it by a table.
    __device__ __forceinline__ void close_branch(NarrowNode* from, int branch, Word columns) {
        const int lane = lane_id(), n_words = words_for(from->n_rows), least = counts.limits.min_right;
        const Word* const rows = from->rows;
        const Word hash = from->hash + from->hashes[branch];
        unsigned* const candidates = from->candidates();
        unsigned* const excluded = from->excluded();
        SubsetTable table(counts.table_at, __popcll(columns));
        const FewColumns few(columns);
#pragma unroll 1
        for (int k = 0; k < n_words; ++k)
            if (excluded[k] >> lane & 1u) table.mark(few.place(rows[32 * k + lane]));
        table.join_marks();
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            const unsigned set = candidates[k];
            if (set == 0) continue;
            const bool is_member = (set >> lane & 1u) != 0 && 32 * k + lane != branch;
            const Word row = is_member ? rows[32 * k + lane] & from->columns : 0;
            const unsigned place = few.place(row), stays = __ballot_sync(kFullMask, is_member && (row & ~columns) != 0);
            const bool is_covered = table.is_covered(place);
            if (__popc(place) >= least && !is_covered) table.add(place, from->hashes[32 * k + lane]);
            __syncwarp();
            if (lane == 0) candidates[k] = stays;
        }
        if (lane == 0) excluded[branch / 32] |= 1u << (branch & 31);
        nodes += (unsigned)table.count(counts, least, true, hash, from->n_taken + 1, few.of_lane(counts.column_hash()));
        spend(n_words);
    }

    /// Return whether one of a set of rows has all given columns.
    __device__ __forceinline__ static bool has_all(const Word* rows, Word columns, const unsigned* set, int n_words) {
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            const bool is_member = (set[k] >> lane_id() & 1u) != 0;
            if (__any_sync(kFullMask, is_member && (columns & ~rows[32 * k + (is_member ? lane_id() : 0)]) == 0)) return true;
        }
        return false;
    }

    /// Write the rows of `excluded` that have enough columns within `span` to `useful`; returns their number.
    __device__ __forceinline__ int find_useful(const Word* rows, Word span, int n_words, const unsigned* excluded,
                                               unsigned* useful) {
        const int lane = lane_id();
        int n = 0;
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            const unsigned set = excluded[k];
            unsigned found = 0;
            if (set != 0) {
                const int size = set >> lane & 1u ? __popcll(rows[32 * k + lane] & span) : 0;
                found = __ballot_sync(kFullMask, size >= counts.limits.min_right);
            }
            if (lane == 0) useful[k] = found;
            n += __popc(found);
        }
        __syncwarp();
        return n;
    }

    /// Delete the candidates whose part of `columns` lies inside an excluded row; return the number left.
    __device__ __forceinline__ int delete_covered(const Word* rows, Word columns, int n_words, unsigned* candidates,
                                                  const unsigned* excluded, int n_candidates) {
        const int lane = lane_id();
#pragma unroll 1
        for (int k = 0; k < n_words && n_candidates > 0; ++k) {
            const unsigned set = excluded[k];
            if (set == 0) continue;
            const Word part = set >> lane & 1u ? rows[32 * k + lane] & columns : 0;
#pragma unroll 1
            for (int c = 0; c < n_words; ++c) {
                const unsigned before = candidates[c];
                unsigned after = before;
#pragma unroll 1
                for (unsigned rest = before; rest != 0; rest &= rest - 1) {
                    const Word row = rows[32 * c + __ffs((int)rest) - 1] & columns;
                    if (__any_sync(kFullMask, (row & ~part) == 0)) after &= ~(rest & (0u - rest));
                }
                if (after == before) continue;
                n_candidates -= __popc(before ^ after);
                __syncwarp();
                if (lane == 0) candidates[c] = after;
                __syncwarp();
            }
            spend(n_words);
        }
        return n_candidates;
    }

    /// Count a single candidate at once, because no other has all of its columns; `hash` and `n_taken` include it.
    __device__ __forceinline__ void count_single(Word columns, Word hash, int n_taken) {
        ++nodes;
        counts.add(columns, __popcll(columns), hash, n_taken);
    }

    /// Return whether a node with this many candidates is worth a search, if none of them is single.
    __device__ __forceinline__ bool is_open(int n_candidates, int n_taken) const {
        return n_candidates > 0 && n_taken + n_candidates >= counts.limits.min_left;
    }

    /// Return whether a base of its own halves the sets of a node or allows a search without memory.
    __device__ __forceinline__ static bool is_worth_renewing(const NarrowNode* node, int n_candidates, int n_rows) {
        return 2 * words_for(n_rows) <= words_for(node->n_rows) ||
               (FILTERS && DROPS && n_candidates <= kWarpSize && n_rows <= kSlices * kWarpSize);
    }

    /// Replace a node by one with its own base; `span` is the union of the columns of its candidates.
    __device__ __forceinline__ NarrowBase renew(NarrowNode* node, Word span, int n_candidates, int n_excluded) const {
        Word* const rows = take_words(arena, n_candidates + n_excluded);
        Word* const hashes = take_words(arena, n_candidates);
        node->copy_rows(rows, hashes, span);
        n_excluded = lists.keep_useful(rows + n_candidates, n_excluded, span, rows + n_candidates);
        return NarrowBase{node->mark,    node->above,   rows,         hashes,    node->columns, node->hash,
                          node->n_taken, n_candidates, n_excluded};
    }

    /// Make the node of a base, without irrelevant rows; null if nothing is below it. First drop candidates that an
    /// excluded row covers, then excluded rows that no longer matter. A single candidate is counted. Memory taken since
    /// the base's mark that is not the node's is released.
    __device__ __forceinline__ NarrowNode* settle(const NarrowBase& base) {
        Word* const rows = base.rows;
        Word* const hashes = base.hashes;
        const int n_candidates = base.n_candidates;
        int n_left = n_candidates, n_excluded = base.n_excluded;
        if (FILTERS) {
            spend(words_for(n_candidates) * words_for(n_excluded));
            n_excluded = lists.keep_largest(rows + n_candidates, n_excluded);
            n_left = lists.drop_covered(rows, hashes, n_candidates, rows + n_candidates, n_excluded);
        }
        NarrowNode* node = nullptr;
        if (FILTERS && n_left == 1) {
            count_single(*rows & base.columns, base.hash + *hashes, base.n_taken + 1);
        } else if (is_open(n_left, base.n_taken)) {
            Word span = 0;
#pragma unroll 1
            for (int i = lane_id(); i < n_left; i += kWarpSize) span |= rows[i];
            span = warp_union(span);
            const int n_rows = n_left + lists.keep_useful(rows + n_candidates, n_excluded, span, rows + n_left);
            const Arena::Mark full = arena.mark();
            arena.release(base.mark);
            node = take(words_for(n_rows));
            Word* own_rows = take_words(arena, n_rows);
            Word* own_hashes = take_words(arena, n_left);
            if (is_below(own_rows, rows) && is_below(own_hashes, hashes)) {
                move_words(rows, own_rows, n_rows);
                move_words(hashes, own_hashes, n_left);
            } else {
                arena.release(full);
                node = take(words_for(n_rows));
                own_rows = rows;
                own_hashes = hashes;
            }
            node->write(NarrowNode{base.mark, base.above, own_rows, own_hashes, base.columns, base.hash, n_rows, base.n_taken});
            node->fill_sets(n_left);
        }
        __syncwarp();
        if (node == nullptr) arena.release(base.mark);
        return node;
    }

    /// Return whether words may be moved in ascending order from one place to the other.
    __device__ __forceinline__ bool is_below(const Word* to, const Word* from) const {
        return arena.is_near(to) == arena.is_near(from) && to <= from;
    }

    __device__ __forceinline__ static void move_words(const Word* from, Word* to, int n) {
#pragma unroll 1
        for (int first = 0; first < n; first += kWarpSize) {
            const int i = first + lane_id();
            const Word word = i < n ? from[i] : 0;
            __syncwarp();
            if (i < n) to[i] = word;
            __syncwarp();
        }
    }
};
