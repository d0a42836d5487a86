// Maximal bicliques of at least two vertices on either side, on the bitmap-tree engine.
//
// Requires: the index of kernels/biclique/index.py and the matrices of the roots (maximal_rows.cu).
// Counted once: a maximal biclique belongs to its first two rows, the root and its child, where rows that hold all columns
// of the root count as the last. Rows before the child that have all columns of a node mean that it is found elsewhere,
// or is not maximal.
// A warp owns an item: the root and a range of its children. A child has the columns that it shares with the root. Up to
// 64 of them its node is searched in words (maximal_narrow.cuh); above that it is *wide*, and its rows are those of the
// root's matrix, of which two sets are kept, until 64 columns are left.
// Nodes go to warps that wait, through the queue of tree_queue.cuh. The round of a warp is that of search.cuh. Counters
// of a warp: the hashes of 64 columns. totals: the sum of all hashes, and the branches taken; keys, counts: by size.
// Sources: Pan et al., SC 2023 (GMBE); Pan et al., SC 2024 (AdaMBE).
#include "maximal_narrow.cuh"
#include "root_rows.cuh"
#include "search.cuh"

/// Blocks that a multiprocessor must have registers for.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// What a slot of the queue begins with that holds a wide node.
constexpr unsigned kWideSlot = 4;
constexpr int kWideSlotHead = 6;

/// A node of more than 64 columns; behind it lie its columns, its candidates and its excluded rows, as sets.
struct WideNode {
    Arena::Mark mark;  // before the node
    WideNode* above;
    Word hash;         // of the rows taken
    int n_taken;       // rows
    int n_columns;

    __device__ __forceinline__ unsigned* columns() { return reinterpret_cast<unsigned*>(this + 1); }
};
constexpr int kWideWords = MAXIMAL_WIDE_WORDS;
static_assert(sizeof(WideNode) == kWideWords * sizeof(unsigned), "the launcher counts on it");

/// The root at hand: its columns, and the matrix of its rows over them.
struct Root {
    const unsigned* matrix;
    const int* columns;
    int vertex;
    int n_columns;
    int n_words;  // of a row
    int n_rows;
    int n_before;  // rows that are excluded from the first
    int n_sets;    // words of a set of rows

    __device__ __forceinline__ unsigned word(int k, int row) const { return matrix[(long long)k * n_rows + row]; }
};

/// The columns of a node that have any in their word: words and their places, ascending.
struct ColumnWords {
    unsigned* words;
    int* places;
    int n;
    int n_columns;
};

/// The search of one warp.
struct MaximalSearch {
    static constexpr int kCounterWords = 2 * 64;
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
    MaximalCounts& counts;
    NarrowSearch& narrow;
    Word* totals;
    Root root;
    int first_row;  // of the unit's first child
    // What is to be searched next: one of them.
    WideNode* wide;
    NarrowNode* node;

    __device__ __forceinline__ int open(const Children& unit) {
        if (counts.table.is_full() || taken[unit.root] == 0) return 0;
        open_root(unit.root);
        const long long begin = graph.hop_indptr[unit.root];
        first_row = root.n_before + (int)(unit.first - begin);
        if (unit.first == begin && taken[unit.root] > 1) {
            Word hash = 0;
            for (int j = lane_id(); j < root.n_columns; j += kWarpSize) hash += right_hash[root.columns[j]];
            counts.add(0, root.n_columns, warp_sum(hash) + taken_hash[unit.root], taken[unit.root]);
        }
        return taken[unit.root] < counts.limits.most_left ? (int)(unit.last - unit.first) : 0;
    }

    __device__ __forceinline__ bool open_child(int child) {
        enter(nullptr, first_row + child, nullptr);
        return wide != nullptr || node != nullptr;
    }

    /// The node in a slot of the queue.
    __device__ __forceinline__ void read(const unsigned* slot) {
        wide = nullptr;
        node = nullptr;
        if (slot[0] == kNarrowSlot) {
            node = narrow.read(slot);
            return;
        }
        open_root((int)slot[1]);
        const Arena::Mark mark = arena.mark();
        wide = take_wide();
        const Word hash = (Word)slot[5] << 32 | slot[4];
        write(wide, WideNode{mark, nullptr, hash, (int)slot[2], (int)slot[3]});
        for (int k = lane_id(); k < root.n_words + 2 * root.n_sets; k += kWarpSize) wide->columns()[k] = slot[kWideSlotHead + k];
        __syncwarp();
    }

    __device__ __forceinline__ void search() {
        if (node != nullptr) {
            narrow.search(node);
            return;
        }
        for (WideNode* from = wide; from != nullptr;) {
            unsigned* const candidates = from->columns() + root.n_words;
            const int row = first_member(candidates, root.n_sets);
            if (row < 0) {
                WideNode* const above = from->above;
                const Arena::Mark mark = from->mark;
                __syncwarp();
                arena.release(mark);
                from = above;
                continue;
            }
            const bool gives = queue.is_wanted();
            const Arena::Mark mark = arena.mark();
            enter(from, row, from);
            __syncwarp();
            if (lane_id() == 0) {
                candidates[row / 32] &= ~(1u << (row & 31));
                candidates[root.n_sets + row / 32] |= 1u << (row & 31);
            }
            __syncwarp();
            if (node != nullptr) {
                if (!gives || !narrow.offer(node)) narrow.search(node);
                arena.release(mark);
            } else if (wide != nullptr) {
                if (gives && offer(wide))
                    arena.release(mark);
                else
                    from = wide;
            }
        }
    }

    __device__ __forceinline__ void close() const {}

    __device__ __forceinline__ unsigned long long flush() {
        counts.flush();
        counts.close();
        const Word checksum = warp_sum(counts.checksum);
        if (lane_id() == 0) {
            atomicAdd(&totals[0], checksum);
            atomicAdd(&totals[1], narrow.nodes);
        }
        return narrow.words;
    }

  private:
    __device__ __forceinline__ void open_root(int vertex) {
        const int n_columns = graph.n_columns(vertex), n_rows = graph.n_rows(vertex);
        root = Root{matrices + matrix_at[vertex], graph.columns + graph.indptr[vertex], vertex, n_columns,
                    words_for(n_columns),         n_rows,                               graph.n_before(vertex),
                    words_for(n_rows)};
        if (n_columns > 64) return;
        counts.resolve();
        for (int j = lane_id(); j < 64; j += kWarpSize) counts.column_hash[j] = j < n_columns ? right_hash[root.columns[j]] : 0;
        __syncwarp();
    }

    __device__ __forceinline__ WideNode* take_wide() const {
        return reinterpret_cast<WideNode*>(arena.take(kWideWords + root.n_words + 2ll * root.n_sets));
    }

    __device__ __forceinline__ static void write(WideNode* node, const WideNode& value) {
        if (lane_id() == 0) *node = value;
        __syncwarp();
    }

    /// Columns of a row among those, any lane alone.
    __device__ __forceinline__ int count_columns(const ColumnWords& columns, int row) const {
        int size = 0;
        for (int z = 0; z < columns.n; ++z) size += __popc(root.word(columns.places[z], row) & columns.words[z]);
        return size;
    }

    /// The columns that a row has of those of a node, or of the root, which `own` gets too.
    __device__ __forceinline__ ColumnWords share_columns(WideNode* from, int row, unsigned* own) const {
        unsigned* const words = arena.take(root.n_words);
        int* const places = reinterpret_cast<int*>(arena.take(root.n_words));
        ColumnWords shared{words, places, 0, 0};
        unsigned size = 0;
        for (int first = 0; first < root.n_words; first += kWarpSize) {
            const int k = first + lane_id();
            unsigned word = k < root.n_words ? root.word(k, row) : 0u;
            if (from != nullptr && k < root.n_words) word &= from->columns()[k];
            const unsigned any = __ballot_sync(kFullMask, word != 0);
            if (k < root.n_words) own[k] = word;
            if (word != 0) {
                const int place = shared.n + __popc(any & lanes_before(lane_id()));
                words[place] = word;
                places[place] = k;
            }
            shared.n += __popc(any);
            size += (unsigned)__popc(word);
        }
        shared.n_columns = (int)warp_total(size);
        __syncwarp();
        return shared;
    }

    /// Take a row of the root, or of a node: makes the node below `wide` or `node`, or neither if nothing is left.
    __device__ __forceinline__ void enter(WideNode* from, int branch, WideNode* above) {
        const int lane = lane_id(), n_sets = root.n_sets;
        wide = nullptr;
        node = nullptr;
        const Arena::Mark mark = arena.mark();
        WideNode* const below = take_wide();
        unsigned* const candidates = below->columns() + root.n_words;
        unsigned* const excluded = candidates + n_sets;
        const ColumnWords columns = share_columns(from, branch, below->columns());
        if (columns.n_columns < counts.limits.least_right) {  // it has all columns of the root
            arena.release(mark);
            return;
        }
        ++narrow.nodes;
        bool is_extended = false;
        for (int k = n_sets - 1; k >= 0 && !is_extended; --k) {
            const unsigned set = from == nullptr ? bits_below(branch - 32 * k) : (from->columns() + root.n_words + n_sets)[k];
            unsigned useful = 0;
            if (set != 0) {
                const int size = set >> lane & 1u ? count_columns(columns, 32 * k + lane) : 0;
                is_extended = __any_sync(kFullMask, size == columns.n_columns) != 0;
                useful = __ballot_sync(kFullMask, size >= counts.limits.least_right);
                spend(columns.n);
            }
            if (lane == 0) excluded[k] = useful;
        }
        if (is_extended) {
            __syncwarp();
            arena.release(mark);
            return;
        }
        int n_taken = 1 + (from == nullptr ? taken[root.vertex] : from->n_taken), n_kept = 0;
        Word hash = 0;
        for (int k = 0; k < n_sets; ++k) {
            const unsigned set = from == nullptr ? bits_below(root.n_rows - 32 * k) & ~bits_below(branch + 1 - 32 * k)
                                                 : (from->columns() + root.n_words)[k];
            unsigned kept = 0;
            if (set != 0) {
                const int row = 32 * k + lane;
                const int size = (set >> lane & 1u) != 0 && row != branch ? count_columns(columns, row) : 0;
                const bool joins = size == columns.n_columns;
                kept = __ballot_sync(kFullMask, size >= counts.limits.least_right && !joins);
                n_taken += __popc(__ballot_sync(kFullMask, joins));
                if (joins) hash += left_hash[graph.row_vertex(root.vertex, row)];
                n_kept += __popc(kept);
                spend(columns.n);
            }
            if (lane == 0) candidates[k] = kept;
        }
        hash = warp_sum(hash) + left_hash[graph.row_vertex(root.vertex, branch)];
        hash += from == nullptr ? taken_hash[root.vertex] : from->hash;
        counts.add(0, columns.n_columns, hash + hash_columns(columns), n_taken);
        __syncwarp();
        if (n_kept > 0 && n_taken + n_kept >= counts.limits.least_left && n_taken < counts.limits.most_left) {
            if (columns.n_columns <= 64) {
                node = narrow_down(mark, columns, candidates, n_kept, hash, n_taken);
            } else {
                write(below, WideNode{mark, above, hash, n_taken, columns.n_columns});
                wide = below;
            }
        }
        if (wide == nullptr && node == nullptr) arena.release(mark);
    }

    /// The hashes of all columns.
    __device__ __forceinline__ Word hash_columns(const ColumnWords& columns) const {
        Word hash = 0;
        for (int z = lane_id(); z < columns.n; z += kWarpSize)
            for (unsigned word = columns.words[z]; word != 0; word &= word - 1)
                hash += right_hash[root.columns[32 * columns.places[z] + __ffs((int)word) - 1]];
        return warp_sum(hash);
    }

    /// The columns of a row in one word: those of the root where it has no more than 64, else those given; any lane alone.
    __device__ __forceinline__ Word pack_row(const ColumnWords& columns, int row) const {
        Word packed = 0;
        int place = 0;
        for (int z = 0; z < columns.n; ++z) {
            const unsigned word = root.word(columns.places[z], row), wanted = columns.words[z];
            if (root.n_columns <= 64) {
                packed |= (Word)(word & wanted) << 32 * columns.places[z];
                continue;
            }
            for (unsigned rest = wanted; rest != 0; rest &= rest - 1)
                packed |= (Word)((word & rest & (0u - rest)) != 0) << place++;
        }
        return packed;
    }

    /// The node of at most 64 columns on rows of the root; null where nothing is below it.
    __device__ __forceinline__ NarrowNode* narrow_down(const Arena::Mark& mark, const ColumnWords& columns,
                                                       const unsigned* candidates, int n_candidates, Word hash, int n_taken) {
        const int lane = lane_id(), n_sets = root.n_sets;
        const unsigned* const excluded = candidates + n_sets;
        if (root.n_columns > 64) load_hashes(columns);
        Word* const rows = narrow.take_words(n_candidates + set_size(excluded, n_sets));
        Word* const hashes = narrow.take_words(n_candidates);
        Word span = 0;
        int n = 0;
        for (int k = 0; k < 2 * n_sets; ++k) {
            const bool is_candidate = k < n_sets;
            if (k == n_sets) span = warp_union(span);
            const unsigned set = candidates[k];
            if (set == 0) continue;
            const int row = 32 * (is_candidate ? k : k - n_sets) + lane;
            bool is_kept = (set >> lane & 1u) != 0;
            Word packed = is_kept ? pack_row(columns, row) : 0;
            if (is_candidate) {
                span |= packed;
            } else {
                packed &= span;
                is_kept = __popcll(packed) >= counts.limits.least_right;
            }
            const unsigned kept = __ballot_sync(kFullMask, is_kept);
            const int place = n + __popc(kept & lanes_before(lane));
            if (is_kept) {
                rows[place] = packed;
                if (is_candidate) hashes[place] = left_hash[graph.row_vertex(root.vertex, row)];
            }
            n += __popc(kept);
            spend(columns.n);
        }
        __syncwarp();
        return narrow.make(mark, rows, hashes, ~0ull, span, hash, n, n_candidates, n_taken);
    }

    /// The hashes of at most 64 columns, as those at hand.
    __device__ __forceinline__ void load_hashes(const ColumnWords& columns) const {
        counts.resolve();
        int place = 0;
        for (int z = 0; z < columns.n; ++z) {
            const unsigned word = columns.words[z];
            const int lane = lane_id(), own = place + __popc(word & lanes_before(lane));
            if (word >> lane & 1u) counts.column_hash[own] = right_hash[root.columns[32 * columns.places[z] + lane]];
            place += __popc(word);
        }
        for (int j = place + lane_id(); j < 64; j += kWarpSize) counts.column_hash[j] = 0;
        __syncwarp();
    }

    __device__ __forceinline__ void spend(int n_words) {
        narrow.words += kWarpSize * (unsigned)n_words;
        queue.spend(n_words);
    }

    /// Leave a wide node to others; false: nobody takes it.
    __device__ __forceinline__ bool offer(WideNode* given) const {
        const int n_words = root.n_words + 2 * root.n_sets;
        if (kWideSlotHead + n_words > queue.slot_words) return false;
        return queue.offer([&](unsigned* slot) {
            if (lane_id() == 0) {
                slot[0] = kWideSlot;
                slot[1] = (unsigned)root.vertex;
                slot[2] = (unsigned)given->n_taken;
                slot[3] = (unsigned)given->n_columns;
                slot[4] = (unsigned)given->hash;
                slot[5] = (unsigned)(given->hash >> 32);
            }
            for (int k = lane_id(); k < n_words; k += kWarpSize) slot[kWideSlotHead + k] = given->columns()[k];
        });
    }
};

/// Blocks of any number of warps.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
maximal_search(ROOT_PARAMETERS, const unsigned* __restrict__ matrices, const long long* __restrict__ matrix_at,
               const int* __restrict__ taken, const unsigned long long* __restrict__ taken_hash,
               const unsigned long long* __restrict__ left_hash, const unsigned long long* __restrict__ right_hash,
               SEARCH_PARAMETERS, const int least_left, const int most_left, const int least_right, const int most_right,
               unsigned long long* totals, unsigned long long* keys, unsigned long long* by_key, const unsigned n_keys,
               int* full) {
    constexpr int kWords = MaximalSearch::kCounterWords;
    __shared__ unsigned sizes[MaximalCounts::kSide * MaximalCounts::kSide];
    for (int i = threadIdx.x; i < MaximalCounts::kSide * MaximalCounts::kSide; i += blockDim.x) sizes[i] = 0;
    __syncthreads();
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    MaximalCounts counts{SizeLimits{least_left, most_left, least_right, most_right},
                         LeafTable(keys, by_key, n_keys, full), sizes,
                         reinterpret_cast<Word*>(warp_memory(kWords + near_words)), 0, 0, 0, 0, 0, 0};
    NarrowSearch narrow{arena, queue, counts, 0, 0};
    MaximalSearch search{arena, queue, RootGraph ROOT_ARGUMENTS, matrices, matrix_at, taken, taken_hash, left_hash,
                         right_hash, counts, narrow, totals};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
}
