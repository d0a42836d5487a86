// The search for maximal bicliques below a node of at most 64 columns: a word for each row, a lane for each row.
//
// A node has columns, and of the rows of a *base* two sets: candidates, which are still to be taken, and excluded ones. A
// branch takes a candidate: its columns are those that the candidate has of the node's, and with it are taken all
// candidates that have all of them; that is a maximal biclique. Candidates whose columns all lie within the branch's are
// no branches after it (they would be found to be extended by it), and the branch is excluded from then on. Before a
// node is searched, each candidate whose columns lie within those of an excluded row is deleted: it can be in no maximal
// biclique below. So every branch that is taken is one maximal biclique. Of an excluded row only those columns matter
// that some candidate has, and rows of fewer columns than asked for matter to no one.
// Where at most half of the words of a set are needed after that, the rows that are left make a new base.
// A node that another warp may take (tree_queue.cuh) is the next branch of the highest node that has one.
//
// Without FILTERS the rows of excluded vertices delete nothing, and without DROPS candidates stay what they are: a
// branch is then looked at, and found to be extended, when its turn comes. Both are for comparison.
// Sources: Pan et al., SC 2023 (GMBE); Pan et al., SC 2024 (AdaMBE).
#pragma once

#include "bit_matrix.cuh"
#include "maximal_counts.cuh"
#include "tree_queue.cuh"

#ifndef FILTERS
#define FILTERS 1
#endif
#ifndef DROPS
#define DROPS 1
#endif

/// What a slot of the queue begins with that holds a narrow node.
constexpr unsigned kNarrowSlot = 3;
constexpr int kNarrowSlotHead = 8 + 2 * 64;

__device__ __forceinline__ Word warp_union(Word word) {
#if __CUDA_ARCH__ >= 800
    return (Word)__reduce_or_sync(kFullMask, (unsigned)(word >> 32)) << 32 | __reduce_or_sync(kFullMask, (unsigned)word);
#else
    for (int step = kWarpSize / 2; step > 0; step >>= 1) word |= __shfl_xor_sync(kFullMask, word, step);
    return word;
#endif
}

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
};
constexpr int kNarrowWords = MAXIMAL_NODE_WORDS;
static_assert(sizeof(NarrowNode) == kNarrowWords * sizeof(unsigned), "the launcher counts on it");

struct NarrowSearch {
    Arena& arena;
    TreeQueue& queue;
    MaximalCounts& counts;
    unsigned long long words;  // intersected so far
    unsigned long long nodes;  // branches taken so far

    __device__ __forceinline__ void spend(int n_words) {
        words += 2 * kWarpSize * (unsigned)n_words;
        queue.spend(2 * n_words);
    }

    /// Search below a node.
    ///
    /// A node that nobody takes is searched here, on top of the one at hand, and until that is at hand again no other
    /// one is offered: so at most two paths are held at a time.
    __device__ __forceinline__ void search(NarrowNode* node) {
        const NarrowNode* waits = nullptr;
        for (;;) {
            NarrowNode* from = node;
            const bool gives = queue.is_wanted() && waits == nullptr;
            if (gives) {
                for (NarrowNode* each = node; each != nullptr; each = each->above)
                    if (first_member(each->candidates(), words_for(each->n_rows)) >= 0) from = each;
            }
            const int branch = first_member(from->candidates(), words_for(from->n_rows));
            if (branch < 0) {
                NarrowNode* const above = node->above;
                const Arena::Mark mark = node->mark;
                __syncwarp();
                arena.release(mark);
                if (above == nullptr) return;
                if (above == waits) waits = nullptr;
                node = above;
                continue;
            }
            NarrowNode* const below = enter(from, branch, node);
            if (below == nullptr) continue;
            if (gives && offer(below)) {
                arena.release(below->mark);
            } else {
                if (from != node) waits = node;
                node = below;
            }
        }
    }

    /// A node on the rows of a base, of which the first `n_candidates` are candidates; null: nothing is below it.
    ///
    /// `mark` is before all that the node has. Where a single candidate is left, it is counted.
    __device__ __forceinline__ NarrowNode* make(const Arena::Mark& mark, const Word* rows, const Word* hashes, Word columns,
                                                Word span, Word hash, int n_rows, int n_candidates, int n_taken) {
        NarrowNode* const node = take(words_for(n_rows));
        write(node, NarrowNode{mark, nullptr, rows, hashes, columns, hash, n_rows, n_taken});
        fill_sets(node, n_candidates);
        const int n_left = delete_covered(rows, columns, span, n_rows, node->candidates(), node->excluded(),
                                          node->excluded(), n_candidates);
        return is_open(node, n_left) ? node : nullptr;
    }

    /// Leave a node to others; false: nobody takes it.
    __device__ __forceinline__ bool offer(NarrowNode* node) const {
        const int n_words = words_for(node->n_rows), lane = lane_id();
        const int n_candidates = set_size(node->candidates(), n_words), n_excluded = set_size(node->excluded(), n_words);
        if (kNarrowSlotHead + 4 * n_candidates + 2 * n_excluded > queue.slot_words) return false;
        return queue.offer([&](unsigned* slot) {
            Word* const words = reinterpret_cast<Word*>(slot);
            if (lane == 0) {
                slot[0] = kNarrowSlot;
                slot[1] = (unsigned)n_candidates;
                slot[2] = (unsigned)n_excluded;
                slot[3] = (unsigned)node->n_taken;
                words[2] = node->hash;
                words[3] = node->columns;
            }
            for (int i = lane; i < 64; i += kWarpSize) words[4 + i] = counts.column_hash[i];
            Word* const rows = words + kNarrowSlotHead / 2;
            copy_rows(node, rows, rows + n_candidates + n_excluded, node->columns);
        });
    }

    /// The node in a slot of the queue.
    __device__ __forceinline__ NarrowNode* read(const unsigned* slot) {
        const int lane = lane_id(), n_candidates = (int)slot[1], n_rows = n_candidates + (int)slot[2];
        const Word* const words = reinterpret_cast<const Word*>(slot);
        const Arena::Mark mark = arena.mark();
        Word* const rows = take_words(n_rows);
        Word* const hashes = take_words(n_candidates);
        counts.resolve();
        for (int i = lane; i < 64; i += kWarpSize) counts.column_hash[i] = words[4 + i];
        for (int i = lane; i < n_rows; i += kWarpSize) rows[i] = words[kNarrowSlotHead / 2 + i];
        for (int i = lane; i < n_candidates; i += kWarpSize) hashes[i] = words[kNarrowSlotHead / 2 + n_rows + i];
        NarrowNode* const node = take(words_for(n_rows));
        write(node, NarrowNode{mark, nullptr, rows, hashes, words[3], words[2], n_rows, (int)slot[3]});
        fill_sets(node, n_candidates);
        return node;
    }

    __device__ __forceinline__ Word* take_words(int n) const { return reinterpret_cast<Word*>(arena.take(2ll * n)); }

  private:
    __device__ __forceinline__ NarrowNode* take(int n_words) const {
        return reinterpret_cast<NarrowNode*>(arena.take(kNarrowWords + 2ll * n_words));
    }

    __device__ __forceinline__ static void write(NarrowNode* node, const NarrowNode& value) {
        __syncwarp();
        if (lane_id() == 0) *node = value;
        __syncwarp();
    }

    /// Make the first rows of the base candidates, the others excluded.
    __device__ __forceinline__ static void fill_sets(NarrowNode* node, int n_candidates) {
        const int n_words = words_for(node->n_rows);
        for (int k = lane_id(); k < n_words; k += kWarpSize) {
            const unsigned first = bits_below(n_candidates - 32 * k);
            node->candidates()[k] = first;
            node->excluded()[k] = bits_below(node->n_rows - 32 * k) & ~first;
        }
        __syncwarp();
    }

    /// The rows of a node's candidates, cut to its columns, then those of its excluded rows, to `rows`; hashes likewise.
    __device__ __forceinline__ static void copy_rows(NarrowNode* node, Word* rows, Word* hashes, Word span) {
        const int lane = lane_id(), n_words = words_for(node->n_rows);
        int n = 0;
        for (int k = 0; k < 2 * n_words; ++k) {
            const unsigned set = node->candidates()[k];
            const int row = 32 * (k < n_words ? k : k - n_words) + lane;
            if (set >> lane & 1u) {
                const int place = n + __popc(set & lanes_before(lane));
                rows[place] = node->rows[row] & (k < n_words ? node->columns : span);
                if (k < n_words) hashes[place] = node->hashes[row];
            }
            n += __popc(set);
        }
        __syncwarp();
    }

    /// Take a candidate; return the node below, which hangs on `above`, or null where nothing is left to search.
    __device__ __forceinline__ NarrowNode* enter(NarrowNode* from, int branch, NarrowNode* above) {
        const int lane = lane_id(), n_rows = from->n_rows, n_words = words_for(n_rows);
        const Word* const rows = from->rows;
        const Word* const hashes = from->hashes;
        const Word all = from->columns, columns = rows[branch] & all;
        unsigned* const candidates = from->candidates();
        unsigned* const excluded = from->excluded();
        const Arena::Mark mark = arena.mark();
        NarrowNode* const below = take(n_words);
        unsigned* const kept = below->candidates();
        Word hash = from->hash + hashes[branch], span = 0;
        int n_taken = from->n_taken + 1, n_kept = 0;
        ++nodes;
        bool is_extended = false;
        if (!(FILTERS && DROPS)) is_extended = has_all(rows, columns, excluded, n_words);
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
                    hash += warp_sum(joins ? hashes[32 * k + lane] : 0ull);
                }
                stays = __ballot_sync(kFullMask, is_member && (!DROPS || part != row));
                const bool is_kept = is_member && !joins && __popcll(part) >= counts.limits.least_right;
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
        bool is_searched = false;
        if (!is_extended) {
            counts.add(columns, __popcll(columns), hash, n_taken);
            is_searched = n_kept > 0 && n_taken + n_kept >= counts.limits.least_left && n_taken < counts.limits.most_left;
        }
        if (is_searched) {
            write(below, NarrowNode{mark, above, rows, hashes, columns, hash, n_rows, n_taken});
            span = warp_union(span);
            n_kept = delete_covered(rows, columns, span, n_rows, kept, excluded, kept + n_words, n_kept);
            is_searched = is_open(below, n_kept);
            if (is_searched) renew(below, span, n_kept);
        }
        __syncwarp();
        if (lane == 0) excluded[branch / 32] |= 1u << (branch & 31);
        __syncwarp();
        if (is_searched) return below;
        arena.release(mark);
        return nullptr;
    }

    /// Whether one of a set of rows has all of some columns.
    __device__ __forceinline__ static bool has_all(const Word* rows, Word columns, const unsigned* set, int n_words) {
        for (int k = 0; k < n_words; ++k) {
            const bool is_member = (set[k] >> lane_id() & 1u) != 0;
            if (__any_sync(kFullMask, is_member && (columns & ~rows[32 * k + (is_member ? lane_id() : 0)]) == 0)) return true;
        }
        return false;
    }

    /// Leave the rows of `excluded` that matter within `span` in `left`, and delete the candidates that one of them has
    /// all columns of; return how many of the `n_candidates` are left. `left` may be `excluded`.
    __device__ __forceinline__ int delete_covered(const Word* rows, Word columns, Word span, int n_rows,
                                                  unsigned* candidates, const unsigned* excluded, unsigned* left,
                                                  int n_candidates) {
        const int lane = lane_id(), n_words = words_for(n_rows);
        for (int k = 0; k < n_words; ++k) {
            const unsigned set = excluded[k];
            unsigned useful = 0;
            if (set != 0 && n_candidates > 0) {
                const Word part = set >> lane & 1u ? rows[32 * k + lane] & span : 0;
                const bool is_useful = __popcll(part) >= counts.limits.least_right;
                useful = __ballot_sync(kFullMask, is_useful);
                for (int c = 0; FILTERS && useful != 0 && c < n_words; ++c) {
                    const unsigned before = candidates[c];
                    unsigned after = before;
                    for (unsigned rest = before; rest != 0; rest &= rest - 1) {
                        const Word row = rows[32 * c + __ffs((int)rest) - 1] & columns;
                        if (__any_sync(kFullMask, is_useful && (row & ~part) == 0)) after &= ~(rest & (0u - rest));
                    }
                    if (after == before) continue;
                    n_candidates -= __popc(before ^ after);
                    __syncwarp();
                    if (lane == 0) candidates[c] = after;
                    __syncwarp();
                }
                spend(1);
            }
            __syncwarp();
            if (lane == 0) left[k] = useful;
        }
        __syncwarp();
        return n_candidates;
    }

    /// Whether a node is worth a search; a single candidate is counted at once, for nothing has all of its columns.
    __device__ __forceinline__ bool is_open(NarrowNode* node, int n_candidates) {
        if (n_candidates == 0 || node->n_taken + n_candidates < counts.limits.least_left) return false;
        if (!FILTERS || n_candidates > 1) return true;
        const int row = first_member(node->candidates(), words_for(node->n_rows));
        const Word columns = node->rows[row] & node->columns;
        counts.add(columns, __popcll(columns), node->hash + node->hashes[row], node->n_taken + 1);
        ++nodes;
        return false;
    }

    /// Give a node a base of its own where that makes its sets half as long; `span` is all that its candidates have.
    __device__ __forceinline__ void renew(NarrowNode* node, Word span, int n_candidates) {
        const int n_words = words_for(node->n_rows);
        if (n_words == 1) return;
        const int n_rows = n_candidates + set_size(node->excluded(), n_words);
        if (2 * words_for(n_rows) > n_words) return;
        Word* const rows = take_words(n_rows);
        Word* const hashes = take_words(n_candidates);
        copy_rows(node, rows, hashes, span);
        write(node, NarrowNode{node->mark, node->above, rows, hashes, node->columns, node->hash, n_rows, node->n_taken});
        fill_sets(node, n_candidates);
    }
};
