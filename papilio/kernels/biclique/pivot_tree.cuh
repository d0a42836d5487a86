// All complete sub-matrices of a bit matrix, by pivoting: each leaf represents many of them.
//
// A node is a set of rows (left) and a set of columns (right) that may still be taken, and the numbers of rows and columns
// that are *held* (in every sub-matrix below) or *free* (optional). Rows that have all the columns become free, and columns
// that have all the rows. Otherwise the row or column with the fewest gaps is the pivot: one branch takes only what the
// pivot has, and the pivot is free in it; each further branch holds one of its gaps and leaves out the gaps before it.
// Every complete sub-matrix is in exactly one branch. A node with nothing left to take is a leaf, counted by (held rows,
// free rows, held columns, free columns), 16 bits each: all sizes are below 2^16.
// A warp searches a tree depth first. Nodes of at most 32 rows and 32 columns are renumbered: lane i holds row i and
// column i as words, and frame i of the stack, since a branch takes rows and columns away from both sides. Larger nodes
// are sets in the arena, over the matrix by rows and by columns.
// A node with branches left is a frame: the sets and numbers that its branches begin with, and the gaps they hold. A branch
// may take the gaps after its own, so the first half of the branches and the second are frames again: the gaps of the second
// join what the first may take. A sub-tree to share (tree_queue.cuh) is a matrix and such a half of the highest frame.
// Source: Ye et al., SIGMOD 2023 (EPivoter).
#pragma once

#include "bit_matrix.cuh"
#include "leaves.cuh"
#include "tree_queue.cuh"

static_assert(SIDE_BITS == 16, "of each half of a word of Taken");

/// First word of a slot of the queue, to tell sub-trees apart.
constexpr unsigned kPivotSlot = 1;
constexpr int kPivotHead = 8;

/// Sizes of the sub-matrices to find; leaves that hold none of them may be left out.
struct PivotLimits {
    int min_left;
    int max_left;
    int min_right;
    int max_right;
};

/// Rows and columns taken: held << 16 | free for each.
struct Taken {
    unsigned lefts;
    unsigned rights;

    __device__ __forceinline__ int held_left() const { return (int)(lefts >> 16); }
    __device__ __forceinline__ int held_right() const { return (int)(rights >> 16); }

    __device__ __forceinline__ bool is_wanted(const PivotLimits& limits, int n_left, int n_right) const {
        return held_left() <= limits.max_left && held_right() <= limits.max_right &&
               held_left() + (int)(lefts & 0xffffu) + n_left >= limits.min_left &&
               held_right() + (int)(rights & 0xffffu) + n_right >= limits.min_right;
    }
};

/// Where a search begins: a node, or a frame, whose gaps are columns (the pivot is a row) or rows. Sets are words of the arena
/// and are overwritten.
struct PivotStart {
    unsigned* left;
    unsigned* right;
    const unsigned* gaps;  // nullptr: a node
    bool by_column;
    Taken taken;
};

struct PivotTree {
    static constexpr unsigned kHold = 1u << 16;
    static constexpr unsigned kNone = 0xffffffffu;
    /// Words of a frame besides its sets: the side of the pivot (0: a row), and the numbers taken before it.
    static constexpr int kFrameHead = PIVOT_FRAME_WORDS;
    /// Steps of the queue for a node of single words.
    static constexpr int kNodeSteps = 2;
    /// Minimum rows and columns for which a node of single words is worth sharing.
    static constexpr int kSharedSize = 16;
    /// Maximum frames that a warp shares at once.
    static constexpr int kFramesAtOnce = 4;

    Arena& arena;
    TreeQueue& queue;
    LeafTable leaves;
    PivotLimits limits;
    unsigned long long words;  // intersected so far

    /// Count a leaf. If the maximum of a side is already held, none of its free members is ever taken.
    __device__ __forceinline__ void add_leaf(Taken taken) {
        if (taken.held_left() == limits.max_left) taken.lefts &= ~0xffffu;
        if (taken.held_right() == limits.max_right) taken.rights &= ~0xffffu;
        leaves.add((unsigned long long)taken.lefts << 32 | taken.rights);
    }

    /// A slot for a frame of a matrix of n rows; `fill(left, right, gaps, rows)` writes its sets and the rows.
    template <class Fill>
    __device__ __forceinline__ bool offer(int n, int n_columns, bool by_column, Taken taken, const Fill& fill) const {
        const int n_left = words_for(n), n_right = words_for(n_columns), n_gaps = by_column ? n_left : n_right;
        if ((long long)n * n_right + n_left + n_right + n_gaps + kPivotHead > queue.slot_words) return false;
        return queue.offer([&](unsigned* slot) {
            if (lane_id() == 0) {
                slot[0] = kPivotSlot;
                slot[1] = (unsigned)n;
                slot[2] = (unsigned)n_columns;
                slot[3] = taken.lefts;
                slot[4] = taken.rights;
                slot[5] = by_column;
            }
            unsigned* const sets = slot + kPivotHead;
            fill(sets, sets + n_left, sets + n_left + n_right, sets + n_left + n_right + n_gaps);
        });
    }

    /// The sub-tree in a slot of the queue, and its matrix; both are copied.
    __device__ __forceinline__ PivotStart read(const unsigned* slot, RowList& rows, int& n_columns) const {
        const int n = (int)slot[1];
        n_columns = (int)slot[2];
        const bool by_column = slot[5] != 0;
        const int n_left = words_for(n), n_right = words_for(n_columns), n_gaps = by_column ? n_left : n_right;
        const unsigned *const left = slot + kPivotHead, *const right = left + n_left, *const gaps = right + n_right;
        const PivotStart start{copy_words(arena, left, n_left), copy_words(arena, right, n_right),
                               copy_words(arena, gaps, n_gaps), by_column, Taken{slot[3], slot[4]}};
        rows = RowList{copy_words(arena, gaps + n_gaps, n * n_right), n, n, n_right};
        return start;
    }

    /// Count below a node of at most 32 rows and columns, or the branches that hold its gaps if it has any; lane i holds row i
    /// and column i. If warps wait, they first get what `share_above()` gives them: larger sub-trees.
    template <class Share>
    __device__ __forceinline__ void count_words(unsigned row, unsigned column, unsigned left, unsigned right, Taken taken,
                                                unsigned gaps, unsigned is_column, const Share& share_above) {
        const int lane = lane_id();
        unsigned kept_left = left, kept_right = right;  // with `gaps`, `is_column` and `before`: the frame of this lane
        Taken before = taken;
        int depth = gaps != 0 ? 1 : 0;
        bool is_new = gaps == 0;
#pragma unroll 1
        for (;;) {
            const int n_left = __popc(left), n_right = __popc(right);
            if (is_new && taken.is_wanted(limits, n_left, n_right)) {
                words += (unsigned)(n_left + n_right);
                if (taken.held_left() == limits.max_left) left = 0;
                if (taken.held_right() == limits.max_right) right = 0;
                const int row_gaps = left >> lane & 1u ? __popc(right & ~row) : 64;
                const int column_gaps = right >> lane & 1u ? __popc(left & ~column) : 64;
                left &= ~__ballot_sync(kFullMask, row_gaps == 0);
                right &= ~__ballot_sync(kFullMask, column_gaps == 0);
                taken.lefts += (unsigned)(n_left - __popc(left));
                taken.rights += (unsigned)(n_right - __popc(right));
                if (left != 0) {
                    // Every remaining row and column has a gap; a row goes before a column, a lower before a higher.
                    const unsigned key = min((row_gaps == 0 ? 64 : row_gaps) << 6 | lane,
                                             (column_gaps == 0 ? 64 : column_gaps) << 6 | 32 | lane);
                    const unsigned best = warp_least(key);
                    const int pivot = (int)(best & 31u);
                    const unsigned line = __shfl_sync(kFullMask, best & 32u ? column : row, pivot);
                    const Taken now = taken;
                    unsigned gap;
                    if (best & 32u) {
                        right ^= 1u << pivot;
                        gap = left & ~line;
                        left ^= gap;
                        ++taken.rights;
                    } else {
                        left ^= 1u << pivot;
                        gap = right & ~line;
                        right ^= gap;
                        ++taken.lefts;
                    }
                    if (lane == depth) {
                        kept_left = left;
                        kept_right = right;
                        gaps = gap;
                        is_column = best & 32u;
                        before = now;
                    }
                    ++depth;
                    continue;
                }
                add_leaf(taken);
            }
            is_new = true;
            queue.spend(kNodeSteps);
            if (queue.is_wanted()) {
                share_above();
                share_words(row, column, kept_left, kept_right, gaps, is_column, before, depth);
            }
            const unsigned open = __ballot_sync(kFullMask, lane < depth && gaps != 0);
            if (open == 0) return;
            depth = kWarpSize - __clz((int)open);
            const Branch next = branch(depth - 1, kept_left, kept_right, gaps, is_column, before, row, column);
            left = next.left;
            right = next.right;
            taken = next.taken;
            if (lane == depth - 1) gaps = next.rest;
        }
    }

    /// Count from where a search of a matrix begins.
    __device__ __forceinline__ void count(const RowList& rows, int n_columns, const PivotStart& start) {
        const Arena::Mark entered = arena.mark();
        const int lane = lane_id();
        if (rows.n <= kWarpSize && n_columns <= kWarpSize) {
            const unsigned row = lane < rows.n ? rows.at(0, lane) : 0u;
            count_words(row, transpose_word(row), start.left[0], start.right[0], start.taken,
                        start.gaps == nullptr ? 0u : start.gaps[0], start.by_column, [] {});
            return;
        }
        Large node{rows, transpose_rows(arena, rows, n_columns), start.left, start.right, nullptr, 0, start.taken, 0};
        const int n_left = node.columns.n_words, n_right = rows.n_words;
        node.step = 2 * (n_left + n_right) + kFrameHead;
        node.frames = arena.take((long long)node.step * (min(rows.n, n_columns) + 1));
        int* members = reinterpret_cast<int*>(arena.take(kWarpSize));
        if (start.gaps != nullptr) open_frame(node, start);
#pragma unroll 1
        for (bool is_done = start.gaps != nullptr; !is_done || leave(node);) is_done = enter(node, members);
        __syncwarp();
        arena.release(entered);
    }

  private:
    struct Branch {
        unsigned left;
        unsigned right;
        unsigned rest;
        Taken taken;
    };

    /// A node of a large matrix, and the frames above it.
    struct Large {
        RowList rows;
        RowList columns;
        unsigned* left;
        unsigned* right;
        unsigned* frames;
        int step;
        Taken taken;
        int depth;
    };

    /// The branch that holds the next gap of the frame of lane `at`; `rest` are the gaps after it.
    __device__ __forceinline__ Branch branch(int at, unsigned kept_left, unsigned kept_right, unsigned gaps,
                                             unsigned is_column, Taken before, unsigned row, unsigned column) const {
        const unsigned left = __shfl_sync(kFullMask, kept_left, at), right = __shfl_sync(kFullMask, kept_right, at);
        const unsigned gap = __shfl_sync(kFullMask, gaps, at), rest = gap & (gap - 1);
        const unsigned by_column = __shfl_sync(kFullMask, is_column, at);
        Taken taken{__shfl_sync(kFullMask, before.lefts, at), __shfl_sync(kFullMask, before.rights, at)};
        const unsigned line = __shfl_sync(kFullMask, by_column ? row : column, gap != 0 ? __ffs((int)gap) - 1 : 0);
        if (by_column) {
            taken.lefts += kHold;
            return Branch{left | rest, right & line, rest, taken};
        }
        taken.rights += kHold;
        return Branch{left & line, right | rest, rest, taken};
    }

    /// Give half of the branches of the highest frame of single words to each warp that waits, but not the very last branch.
    __device__ __forceinline__ void share_words(unsigned row, unsigned column, const unsigned& kept_left,
                                                const unsigned& kept_right, unsigned& gaps, unsigned is_column,
                                                Taken before, int depth) const {
        const int lane = lane_id();
#pragma unroll 1
        for (int n_given = 0; n_given < kFramesAtOnce; ++n_given) {
            const unsigned open = __ballot_sync(kFullMask, lane < depth && gaps != 0);
            if (open == 0) return;
            const int at = __ffs((int)open) - 1;
            const Branch top = branch(at, kept_left, kept_right, gaps, is_column, before, row, column);
            if ((open & (open - 1)) == 0 && top.rest == 0) return;
            if (__popc(top.left) + __popc(top.right) < kSharedSize) return;
            const unsigned by_column = __shfl_sync(kFullMask, is_column, at);
            const unsigned all = __shfl_sync(kFullMask, gaps, at), given = lower_half(all), later = all ^ given;
            const unsigned left = __shfl_sync(kFullMask, kept_left, at), right = __shfl_sync(kFullMask, kept_right, at);
            const Taken taken{__shfl_sync(kFullMask, before.lefts, at), __shfl_sync(kFullMask, before.rights, at)};
            if (!offer(32, 32, by_column != 0, taken, [&](unsigned* lefts, unsigned* rights, unsigned* held, unsigned* rows) {
                    if (lane == 0) {
                        *lefts = by_column ? left | later : left;
                        *rights = by_column ? right : right | later;
                        *held = given;
                    }
                    rows[lane] = row;
                }))
                return;
            if (lane == at) gaps = later;
        }
    }

    /// Take out of `own` the lines that have all of `other`; returns the fewest gaps of the other lines << 16 | the line.
    __device__ __forceinline__ unsigned scan(const RowList& lines, unsigned* own, const unsigned* other) const {
        const int lane = lane_id(), n_words = words_for(lines.n);
        unsigned best = kNone, taken_out = 0;
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            const int i = 32 * k + lane;
            const bool is_in = own[k] >> lane & 1u;
            unsigned gaps = 0;
            if (is_in)
#pragma unroll 1
                for (int w = 0; w < lines.n_words; ++w) gaps += (unsigned)__popc(other[w] & ~lines.at(w, i));
            if (is_in && gaps != 0) best = min(best, gaps << 16 | (unsigned)i);
            const unsigned full = __ballot_sync(kFullMask, is_in && gaps == 0);
            if (lane == (k & 31)) taken_out = full;
            if ((k & 31) == 31 || k + 1 == n_words) {
                __syncwarp();
                const int word = (k & ~31) + lane;
                if (word <= k) own[word] &= ~taken_out;
                __syncwarp();
            }
        }
        return warp_least(best);
    }

    /// Process the current node; true: it is done. False: it is now the branch of its pivot.
    __device__ __forceinline__ bool enter(Large& node, int* members) {
        const int n_left = node.columns.n_words, n_right = node.rows.n_words;
        const int lefts = set_size(node.left, n_left), rights = set_size(node.right, n_right);
        if (!node.taken.is_wanted(limits, lefts, rights)) return true;
        if (node.taken.held_left() == limits.max_left || node.taken.held_right() == limits.max_right) {
            add_leaf(Taken{node.taken.lefts + (unsigned)lefts, node.taken.rights + (unsigned)rights});
            return true;
        }
        if (lefts <= kWarpSize && rights <= kWarpSize) {
            count_few(node, members, lefts, rights);
            return true;
        }
        words += (unsigned long long)lefts * n_right + (unsigned long long)rights * n_left;
        queue.spend(2 + (int)(((long long)lefts * n_right + (long long)rights * n_left) / kWarpSize));
        const unsigned row = scan(node.rows, node.left, node.right);
        const unsigned column = scan(node.columns, node.right, node.left);
        node.taken.lefts += (unsigned)(lefts - set_size(node.left, n_left));
        node.taken.rights += (unsigned)(rights - set_size(node.right, n_right));
        if (row == kNone) {
            add_leaf(node.taken);
            return true;
        }
        unsigned* frame = node.frames + (long long)node.depth * node.step;
        ++node.depth;
        if (lane_id() == 0) {
            unsigned* head = frame + node.step - kFrameHead;
            head[0] = row >> 16 <= column >> 16 ? 0u : 1u;
            head[1] = node.taken.lefts;
            head[2] = node.taken.rights;
        }
        if (row >> 16 <= column >> 16) {
            cut(node.rows, node.left, node.right, (int)(row & 0xffffu), frame, frame + n_left, frame + n_left + n_right);
            ++node.taken.lefts;
        } else {
            cut(node.columns, node.right, node.left, (int)(column & 0xffffu), frame + n_left, frame,
                frame + n_left + n_right);
            ++node.taken.rights;
        }
        return false;
    }

    /// Take line `pivot` out of `own` and its gaps out of `other`; the frame keeps both, and the gaps.
    __device__ __forceinline__ void cut(const RowList& lines, unsigned* own, unsigned* other, int pivot, unsigned* kept_own,
                                        unsigned* kept_other, unsigned* gaps) const {
        const int n_own = words_for(lines.n);
#pragma unroll 1
        for (int k = lane_id(); k < n_own; k += kWarpSize) {
            const unsigned word = own[k] & ~(pivot / 32 == k ? 1u << (pivot & 31) : 0u);
            own[k] = word;
            kept_own[k] = word;
        }
#pragma unroll 1
        for (int k = lane_id(); k < lines.n_words; k += kWarpSize) {
            const unsigned gap = other[k] & ~lines.at(k, pivot), word = other[k] ^ gap;
            other[k] = word;
            kept_other[k] = word;
            gaps[k] = gap;
        }
        __syncwarp();
    }

    /// Write the frame that a search begins with.
    __device__ __forceinline__ void open_frame(Large& node, const PivotStart& start) const {
        const int n_left = node.columns.n_words, n_right = node.rows.n_words;
        unsigned* const frame = node.frames;
#pragma unroll 1
        for (int k = lane_id(); k < n_left; k += kWarpSize) frame[k] = start.left[k];
#pragma unroll 1
        for (int k = lane_id(); k < n_right; k += kWarpSize) frame[n_left + k] = start.right[k];
#pragma unroll 1
        for (int k = lane_id(); k < (start.by_column ? n_left : n_right); k += kWarpSize)
            frame[n_left + n_right + k] = start.gaps[k];
        if (lane_id() == 0) {
            unsigned* const head = frame + node.step - kFrameHead;
            head[0] = start.by_column;
            head[1] = start.taken.lefts;
            head[2] = start.taken.rights;
        }
        node.depth = 1;
        __syncwarp();
    }

    /// Continue with the next gap of the deepest frame that has one; false: none has.
    __device__ __forceinline__ bool leave(Large& node) {
        if (node.depth > 0 && queue.is_wanted()) share(node, 1);
#pragma unroll 1
        for (; node.depth > 0; --node.depth) {
            unsigned* frame = node.frames + (long long)(node.depth - 1) * node.step;
            const int gap = next_gap(node, frame);
            if (gap < 0) continue;
            hold_gap(node, frame, gap);
            return true;
        }
        return false;
    }

    __device__ __forceinline__ bool is_of_column(const Large& node, const unsigned* frame) const {
        return frame[node.step - kFrameHead] != 0;
    }

    __device__ __forceinline__ int next_gap(const Large& node, const unsigned* frame) const {
        const int n_left = node.columns.n_words, n_right = node.rows.n_words;
        return first_member(frame + n_left + n_right, is_of_column(node, frame) ? n_left : n_right);
    }

    /// Make the node the branch of the next gap of a frame.
    __device__ __forceinline__ void hold_gap(Large& node, unsigned* frame, int gap) const {
        const int n_left = node.columns.n_words, n_right = node.rows.n_words;
        const unsigned* kept_right = frame + n_left;
        unsigned* const gaps = frame + n_left + n_right;
        const unsigned* head = frame + node.step - kFrameHead;
        const bool by_column = is_of_column(node, frame);
        node.taken = Taken{head[1] + (by_column ? kHold : 0u), head[2] + (by_column ? 0u : kHold)};
#pragma unroll 1
        for (int k = lane_id(); k < n_left; k += kWarpSize)
            node.left[k] = by_column ? frame[k] | without(gaps[k], k, gap) : frame[k] & node.columns.at(k, gap);
#pragma unroll 1
        for (int k = lane_id(); k < n_right; k += kWarpSize)
            node.right[k] = by_column ? kept_right[k] & node.rows.at(k, gap) : kept_right[k] | without(gaps[k], k, gap);
        __syncwarp();
        if (lane_id() == 0) gaps[gap / 32] &= ~(1u << (gap & 31));
        __syncwarp();
    }

    __device__ __forceinline__ static unsigned without(unsigned word, int k, int member) {
        return k == member / 32 ? word & ~(1u << (member & 31)) : word;
    }

    /// Give half of the branches of the highest frame to each warp that waits; `n_kept` branches remain at the end.
    __device__ __forceinline__ void share(const Large& node, int n_kept) const {
        const int n_left = node.columns.n_words, n_right = node.rows.n_words;
        int at = 0, n_given = 0;
#pragma unroll 1
        while (at < node.depth && n_given < kFramesAtOnce) {
            unsigned* const frame = node.frames + (long long)at * node.step;
            unsigned* const gaps = frame + n_left + n_right;
            const unsigned* const head = frame + node.step - kFrameHead;
            const bool by_column = is_of_column(node, frame);
            const int n_words = by_column ? n_left : n_right, n_gaps = set_size(gaps, n_words);
            if (n_gaps == 0) {
                ++at;
                continue;
            }
            if (at + 1 == node.depth && n_gaps == n_kept) return;
            const int first_kept = n_gaps == 1 ? 32 * n_words : find_member(gaps, n_words, n_gaps / 2);
            const bool is_given = offer(
                node.rows.n, node.columns.n, by_column, Taken{head[1], head[2]},
                [&](unsigned* left, unsigned* right, unsigned* held, unsigned* rows) {
                    const auto later = [&](int k) { return gaps[k] & ~bits_below(first_kept - 32 * k); };
#pragma unroll 1
                    for (int k = lane_id(); k < n_left; k += kWarpSize) left[k] = frame[k] | (by_column ? later(k) : 0u);
#pragma unroll 1
                    for (int k = lane_id(); k < n_right; k += kWarpSize)
                        right[k] = frame[n_left + k] | (by_column ? 0u : later(k));
#pragma unroll 1
                    for (int k = lane_id(); k < n_words; k += kWarpSize) held[k] = gaps[k] ^ later(k);
#pragma unroll 1
                    for (int k = 0; k < n_right; ++k)
#pragma unroll 1
                        for (int i = lane_id(); i < node.rows.n; i += kWarpSize)
                            rows[k * node.rows.n + i] = node.rows.at(k, i);
                });
            if (!is_given) return;
            ++n_given;
            __syncwarp();
#pragma unroll 1
            for (int k = lane_id(); k < n_words; k += kWarpSize) gaps[k] &= ~bits_below(first_kept - 32 * k);
            __syncwarp();
        }
    }

    /// Count below a node of at most 32 rows and 32 columns of a large matrix, which are renumbered.
    __device__ __forceinline__ void count_few(const Large& node, int* members, int lefts, int rights) {
        const int lane = lane_id();
        list_members(node.left, node.columns.n_words, members);
        const unsigned row = lane < lefts ? pack_row(node.rows, members[lane], node.right, 1) : 0u;
        __syncwarp();
        count_words(row, transpose_word(row), bits_below(lefts), bits_below(rights), node.taken, 0, 0,
                    [&] { share(node, 0); });
    }
};
