// Maximal bicliques of at least two vertices on either side, on the bitmap-tree engine.
//
// Requires: the index of kernels/biclique/index.py and the matrices of the roots (maximal_rows.cu).
// Counted once: a maximal biclique belongs to its first two rows, the root and its child, except that rows with all columns
// of the root come last. If a row before the child has all columns of a node, the biclique is found elsewhere, or is not
// maximal.
// A warp owns an item: the root and a range of its children. A child has the columns that it shares with the root. With up
// to 8 columns it is left to maximal_children.cu, with up to 64 its node is searched in words (maximal_narrow.cuh); beyond
// that it is *wide*: its rows are the rows of the root's matrix, and it keeps two sets of them, until 64 columns are left.
// Waiting warps get work through the queue of tree_queue.cuh: all remaining branches of the highest node. The round of a
// warp is in search.cuh. Shared memory of a warp: the hashes of 64 columns, rows seen, and a table. totals: the sum of all
// hashes, and the branches taken; keys, by_key: by size.
// Sources: Pan et al., SC 2023 (GMBE); Pan et al., SC 2024 (AdaMBE).
#include "maximal_narrow.cuh"
#include "maximal_root.cuh"
#include "search.cuh"

/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// First word of a slot of the queue that holds a wide node.
constexpr unsigned kWideSlot = 4;
constexpr int kWideSlotHead = 7;

/// A node of more than 64 columns; it is followed by its columns, its candidates and its excluded rows, as sets.
struct WideNode {
    Arena::Mark mark;  // before the node
    WideNode* above;
    Word hash;         // of the rows taken
    int n_taken;       // rows
    int n_columns;
    int end;           // rows from here on are candidates, but not branches: other warps have them

    __device__ __forceinline__ unsigned* columns() { return reinterpret_cast<unsigned*>(this + 1); }
};
constexpr int kWideWords = MAXIMAL_WIDE_WORDS;
static_assert(sizeof(WideNode) == kWideWords * sizeof(unsigned), "the launcher counts on it");

/// The search of one warp.
struct MaximalSearch {
    static constexpr int kCounterWords = 2 * (64 + RowLists::kSeen) + kTableWords;
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    RootGraph graph;
    const unsigned* matrices;
    const long long* matrix_at;
    const int* taken;
    const Word* taken_hash;
    const Word* left_hash;
    const Word* right_hash;
    const int* hop_common;
    MaximalCounts& counts;
    NarrowSearch& narrow;
    Word* totals;
    Root root;
    const int* common;  // of the unit's children with the root
    int first_row;      // of the first of them
    // The next search: one of the children, or a branch of the root; below 0: none.
    WideNode* wide;
    NarrowBase base;
    int branch;

    __device__ __forceinline__ int open(const Children& unit) {
        if (size_table().is_full() || counts.sink.is_full() || taken[unit.root] == 0) return 0;
        open_root(unit.root);
        const long long begin = graph.hop_indptr[unit.root];
        first_row = root.n_before + (int)(unit.first - begin);
        common = hop_common + unit.first;
        if (unit.first == begin && taken[unit.root] > 1) {
            if constexpr (kLists) {
                counts.list(root.vertex, root.columns, nullptr, root.n_columns, taken[unit.root]);
            } else {
                Word hash = 0;
#pragma unroll 1
                for (int j = lane_id(); j < root.n_columns; j += kWarpSize) hash += root.right_hash[root.columns[j]];
                counts.add(0, root.n_columns, sum_words(hash) + taken_hash[unit.root], taken[unit.root]);
            }
        }
        return taken[unit.root] < counts.limits.max_left ? (int)(unit.last - unit.first) : 0;
    }

    __device__ __forceinline__ bool open_child(int child) {
        if (common[child] <= kTableColumns) return false;  // see maximal_children.cu
        wide = nullptr;
        base.n_candidates = 0;
        branch = first_row + child;
        return true;
    }

    /// The node in a slot of the queue.
    __device__ __forceinline__ void read(const unsigned* slot) {
        wide = nullptr;
        base.n_candidates = 0;
        branch = -1;
        if (slot[0] == kNarrowSlot) {
            base = read_base(slot, arena, counts);
            return;
        }
        open_root((int)slot[1]);
        const Arena::Mark mark = arena.mark();
        wide = take_wide();
        const Word hash = (Word)slot[5] << 32 | slot[4];
        write(wide, WideNode{mark, nullptr, hash, (int)slot[2], (int)slot[3], (int)slot[6]});
#pragma unroll 1
        for (int k = lane_id(); k < root.n_words + 2 * root.n_sets; k += kWarpSize) wide->columns()[k] = slot[kWideSlotHead + k];
        __syncwarp();
    }

    /// Search below a branch of the root, or a node of a slot.
    __device__ __forceinline__ void search() {
        WideNode* last = wide;  // the current one
        if (counts.sink.is_full()) return;
        for (;;) {
            if (base.n_candidates == 0) {
                if (last != nullptr) {
                    if (queue.is_wanted()) share(last);
                    branch = next_branch(last);
                }
                if (branch < 0) {
                    if (last == nullptr) return;
                    WideNode* const above = last->above;
                    const Arena::Mark mark = last->mark;
                    __syncwarp();
                    arena.release(mark);
                    last = above;
                    continue;
                }
                WideNode* const from = last;
                enter(from, branch);
                if (from != nullptr) exclude(from, branch);
                if (wide != nullptr) last = wide;
                branch = -1;
            }
            if (base.n_candidates != 0) {
                narrow.search(base);
                base.n_candidates = 0;
            }
        }
    }

    __device__ __forceinline__ void close() const {}

    __device__ __forceinline__ unsigned long long flush() {
        counts.flush();
        size_table().close();
        const Word checksum = sum_words(counts.checksum);
        if (lane_id() == 0) {
            atomicAdd(&totals[0], checksum);
            atomicAdd(&totals[1], narrow.nodes);
        }
        return narrow.words;
    }

  private:
    __device__ __forceinline__ void open_root(int vertex) {
        root = root_of(graph, vertex, matrices + matrix_at[vertex], left_hash, right_hash);
        const int n_columns = root.n_columns;
        if (n_columns > 64) return;
        counts.resolve();
#pragma unroll 1
        for (int j = lane_id(); j < 64; j += kWarpSize) counts.column_hash()[j] = j < n_columns ? right_hash[root.columns[j]] : 0;
        __syncwarp();
    }

    __device__ __forceinline__ WideNode* take_wide() const {
        return reinterpret_cast<WideNode*>(arena.take(kWideWords + root.n_words + 2ll * root.n_sets));
    }

    __device__ __forceinline__ static void write(WideNode* node, const WideNode& value) {
        if (lane_id() == 0) *node = value;
        __syncwarp();
    }

    /// Take a row of the root, or of a node; makes the node below, `wide` or `base`, or neither if nothing is left.
    __device__ __forceinline__ void enter(WideNode* from, int branch) {
        wide = nullptr;
        base.n_candidates = 0;
        const Arena::Mark mark = arena.mark();
        WideNode* const below = take_wide();
        unsigned* const candidates = below->columns() + root.n_words;
        unsigned* const excluded = candidates + root.n_sets;
        const unsigned* const within = from == nullptr ? nullptr : from->columns();
        const unsigned* const sets = from == nullptr ? nullptr : within + root.n_words;
        const ColumnWords columns = root.share_columns(arena, within, branch, below->columns());
        const int least = counts.limits.min_right;
        if (columns.n_columns < least) {  // it has all columns of the root
            arena.release(mark);
            return;
        }
        if (columns.n_columns <= kTableColumns) {
            const Word hash = root.row_hash(branch) + (from == nullptr ? taken_hash[root.vertex] : from->hash);
            const int n_taken = 1 + (from == nullptr ? taken[root.vertex] : from->n_taken);
            narrow.nodes += (unsigned)root.count_in_table(sets, branch, columns, counts, hash, n_taken);
            spend(columns.n_columns * words_for(root.n_sets));
            arena.release(mark);
            return;
        }
        ++narrow.nodes;
        const int by_columns = columns.n_columns * words_for(root.n_sets), by_rows = columns.n * root.n_sets;
        const Below found = by_columns < by_rows ? root.split_by_columns(sets, branch, columns, candidates, excluded)
                                                 : root.split_by_rows(sets, branch, columns, least, candidates, excluded);
        spend(min(by_columns, by_rows));
        if (!found.is_extended) {
            const int n_taken = 1 + found.n_joined + (from == nullptr ? taken[root.vertex] : from->n_taken);
            Word hash = found.hash + root.row_hash(branch);
            hash += from == nullptr ? taken_hash[root.vertex] : from->hash;
            if constexpr (kLists)
                counts.list(root.vertex, root.columns, columns.columns, columns.n_columns, n_taken);
            else
                counts.add(0, columns.n_columns, hash + root.hash_columns(columns), n_taken);
            if (found.n_kept > 0 && n_taken + found.n_kept >= counts.limits.min_left && n_taken < counts.limits.max_left) {
                if (columns.n_columns <= 64) {
                    base = narrow_down(mark, columns, candidates, found, hash, n_taken);
                } else {
                    write(below, WideNode{mark, from, hash, n_taken, columns.n_columns, root.n_rows});
                    wide = below;
                }
            }
        }
        if (wide == nullptr && base.n_candidates == 0) arena.release(mark);
    }

    __device__ __forceinline__ int next_branch(WideNode* from) const {
        const int first = first_member(from->columns() + root.n_words, root.n_sets);
        return first < from->end ? first : -1;
    }

    /// Finish a branch of a node: from now on it is excluded.
    __device__ __forceinline__ void exclude(WideNode* from, int branch) const {
        unsigned* const candidates = from->columns() + root.n_words;
        __syncwarp();
        if (lane_id() == 0) {
            candidates[branch / 32] &= ~(1u << (branch & 31));
            candidates[root.n_sets + branch / 32] |= 1u << (branch & 31);
        }
        __syncwarp();
    }

    /// The node of at most 64 columns on rows of the root.
    __device__ __forceinline__ NarrowBase narrow_down(const Arena::Mark& mark, const ColumnWords& columns,
                                                       const unsigned* candidates, const Below& found, Word hash,
                                                       int n_taken) {
        const int n_candidates = found.n_kept, n_listed = n_candidates + found.n_useful;
        if (root.n_columns > 64) {
            counts.resolve();
            root.write_hashes(columns, counts.column_hash());
        }
        int* const list = reinterpret_cast<int*>(arena.take(n_listed));
        root.list_rows(candidates, list);
        root.list_rows(candidates + root.n_sets, list + n_candidates);
        Word* const rows = take_words(arena, n_listed);
        Word* const hashes = take_words(arena, n_candidates);
        int n_left = 0, n_packed = 0;
        Word span = ~0ull;
#pragma unroll 1
        for (int turn = 0; turn < 2; ++turn) {
            const bool are_excluded = turn > 0;
            const int begin = are_excluded ? n_candidates : 0, end = are_excluded ? n_listed : n_candidates;
            n_packed += pack_rows(columns, list + begin, end - begin, are_excluded, span, rows + n_packed, hashes);
            if (!are_excluded) n_left = n_packed;
        }
        return NarrowBase{mark, nullptr, rows, hashes, ~0ull, hash, n_taken, n_left, n_packed - n_left};
    }

    /// Write the columns within `span` of the listed rows that have enough of them to `rows`, also the hashes; for excluded
    /// rows no hashes, known duplicates only once, and the last listed first, as they have most columns. Adds all columns found
    /// to `span`; returns the number of rows written.
    __device__ __forceinline__ int pack_rows(const ColumnWords& columns, const int* list, int n_listed, bool are_excluded,
                                             Word& span, Word* rows, Word* hashes) {
        const int lane = lane_id();
        Word own = 0;
        int n = 0;
        narrow.lists.forget_rows();
#pragma unroll 1
        for (int first = 0; first < n_listed; first += kWarpSize) {
            const int at = first + lane;
            const int row = at < n_listed ? list[are_excluded ? n_listed - 1 - at : at] : 0;
            const Word packed = at < n_listed ? root.pack_row(columns, row) & span : 0;
            const bool is_kept = __popcll(packed) >= counts.limits.min_right && (!are_excluded || narrow.lists.is_new(packed));
            const unsigned kept = __ballot_sync(kFullMask, is_kept);
            const int place = n + __popc(kept & lanes_before(lane));
            if (is_kept) {
                rows[place] = packed;
                if (!are_excluded) hashes[place] = root.row_hash(row);
                own |= packed;
            }
            n += __popc(kept);
            spend(columns.n);
        }
        __syncwarp();
        span = warp_union(own);
        return n;
    }

    __device__ __forceinline__ void spend(int n_words) {
        narrow.words += kWarpSize * (unsigned)n_words;
        queue.spend(n_words);
    }

    /// Share the branches of the highest node that has enough of them, except for the next one of the current node.
    __device__ __forceinline__ void share(WideNode* last) const {
        WideNode* from = nullptr;
#pragma unroll 1
        for (WideNode* each = last; each != nullptr; each = each->above)
            if (count_branches(each) - (each == last) >= kSharedBranches) from = each;
        const int n_words = root.n_words + 2 * root.n_sets;
        if (from == nullptr || kWideSlotHead + n_words > queue.slot_words) return;
        const unsigned* const candidates = from->columns() + root.n_words;
        const int middle = find_member(candidates, root.n_sets, from == last);
        const bool is_left = queue.offer([&](unsigned* slot) {
            if (lane_id() == 0) {
                slot[0] = kWideSlot;
                slot[1] = (unsigned)root.vertex;
                slot[2] = (unsigned)from->n_taken;
                slot[3] = (unsigned)from->n_columns;
                slot[4] = (unsigned)from->hash;
                slot[5] = (unsigned)(from->hash >> 32);
                slot[6] = (unsigned)from->end;
            }
            unsigned* const sets = slot + kWideSlotHead + root.n_words;
#pragma unroll 1
            for (int k = lane_id(); k < root.n_words; k += kWarpSize) slot[kWideSlotHead + k] = from->columns()[k];
#pragma unroll 1
            for (int k = lane_id(); k < root.n_sets; k += kWarpSize) {
                const unsigned before = bits_below(middle - 32 * k);
                sets[k] = candidates[k] & ~before;
                sets[root.n_sets + k] = candidates[root.n_sets + k] | (candidates[k] & before);
            }
        });
        __syncwarp();
        if (is_left && lane_id() == 0) from->end = middle;
        __syncwarp();
    }

    /// The branches that a node has left.
    __device__ __forceinline__ int count_branches(WideNode* node) const {
        const unsigned* const candidates = node->columns() + root.n_words;
        unsigned n = 0;
#pragma unroll 1
        for (int k = lane_id(); k < root.n_sets; k += kWarpSize)
            n += (unsigned)__popc(candidates[k] & bits_below(node->end - 32 * k));
        return (int)warp_total(n);
    }
};

/// Blocks of any number of warps.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
maximal_search(ROOT_PARAMETERS, const unsigned* __restrict__ matrices, const long long* __restrict__ matrix_at,
               const int* __restrict__ taken, const unsigned long long* __restrict__ taken_hash,
               const unsigned long long* __restrict__ left_hash, const unsigned long long* __restrict__ right_hash,
               const int* __restrict__ hop_common, SEARCH_PARAMETERS, const int min_left, const int max_left,
               const int min_right, const int max_right, const int patience, unsigned long long* totals,
               unsigned long long* keys, unsigned long long* by_key, const unsigned n_keys,
               int* full RECORD_PARAMETERS) {
    constexpr int kWords = MaximalSearch::kCounterWords;
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    const SizeLimits limits{min_left, max_left, min_right, max_right};
    size_table().open(limits, keys, by_key, n_keys, full);
    const int memory_at = threadIdx.x / kWarpSize * (kWords + near_words);
    MaximalCounts counts{limits, memory_at, memory_at + kWords - kTableWords, 0, 0, 0, 0, 0, 0, RECORD_SINK};
    NarrowSearch narrow{arena, queue, counts, RowLists{counts.column_hash() + 64, min_right}, patience, 0, 0};
    MaximalSearch search{arena, queue, RootGraph ROOT_ARGUMENTS, matrices, matrix_at, taken, taken_hash, left_hash,
                         right_hash, hop_common, counts, narrow, totals};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
}
