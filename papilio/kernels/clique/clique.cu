// k-cliques of a unipartite graph on the bitmap-tree engine, by pivots or in order.
//
// Requires: the later neighbours of every vertex in an order, by rank, ascending.
// Counted once: a clique is found at its first vertex, the root of a work item; below it, branches hold disjoint sets of
// cliques (clique_lanes.cuh says what the branches of a node are, here and there).
// A warp owns an item: the root, whose later neighbours are a square matrix of bits; with EDGES 1 the root and the next
// vertex, and the later neighbours of both. Sub-trees of at most 32 candidates
// are numbered anew and given to a lane of the warp each; the warp itself goes through the nodes above, while fewer than
// kIdleLanes of its lanes are idle they search. Sub-trees of larger nodes go to warps that wait, as a matrix of their own,
// through the queue of tree_queue.cuh; the round of a warp is that of search.cuh.
// Memory of a warp: kCounterWords of shared memory for its lanes; for the matrix, a list of its candidates and a frame
// for each level the arena.
// PER 1, 2: vertices or edges of the cliques of one size get their numbers too (clique_paths.cuh). The warp then goes through
// all nodes itself, and knows the vertices of its path.
// sums: ORIENT 0: leaves by held * stride + free. ORIENT 1: low and high halves of the number of cliques (SplitSum).
// Sources: Almasri et al., ICS 2022; Jain and Seshadhri, WSDM 2020 (Pivoter).
#include "clique_lanes.cuh"
#include "clique_matrix.cuh"
#include "clique_paths.cuh"
#include "search.cuh"

/// Blocks that a multiprocessor must have registers for.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// 0: an item is a root; 1: a root and one of its later neighbours, of which `first` is the place, or -1 for the root alone.
#ifndef EDGES
#define EDGES 0
#endif
constexpr bool kEdges = EDGES != 0;

/// What a slot of the queue begins with, and the words before its rows.
constexpr unsigned kCliqueSlot = 1;
constexpr int kCliqueHead = 8;
/// Candidates from which a node is worth leaving to others.
constexpr int kSharedCandidates = 12;
/// Candidates of the largest sub-trees that have no frame of the warp.
constexpr int kLaneSize = kPer != 0 ? 0 : kWarpSize;
/// Idle lanes for which a warp looks for sub-trees.
constexpr int kIdleLanes = 8;

/// A node above the lanes: a frame of the stack. Words: held, free, pivot + 1 or 0 where that branch is taken, unused;
/// the candidates; those that are branched on.
constexpr int kNodeHead = 4;

/// The search of one warp: the matrix of the root at hand, or of a sub-tree of another warp, and the nodes on it.
struct CliqueSearch {
    static constexpr int kCounterWords = kPer != 0 ? 0 : kLaneWords;
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    Adjacency later;
    CliqueLanes& lanes;
    CliquePaths& paths;
    RowList matrix;
    int* names;       // ranks of the candidates, where paths are kept
    int* members;     // room for matrix.n
    unsigned* branch; // a set
    unsigned* nodes;  // frames of 2 * n_words + kNodeHead words
    unsigned long long words;

    __device__ __forceinline__ int open(const Children& unit) {
        if (kEdges && unit.first < 0) {  // the root alone
            add_leaf(1, 0);
            return 0;
        }
        const int held = kEdges ? 2 : 1, n = name_members(unit);
        if (kPer != 0 && lane_id() == 0) paths.held[0] = unit.root;
        __syncwarp();
        if (kOrients && lanes.limits.most == held + 1) {
            if (lane_id() == 0) lanes.cliques += (unsigned)n;
            return 0;
        }
        if (n == 0 || lanes.limits.most == held) {
            add_leaf(held, 0);
            return 0;
        }
        fill_square(matrix, members, later);
        if (n > kLaneSize) return start(held, 0);
        give_lane(lane_id() < n ? matrix.at(0, lane_id()) : 0u, n, held, 0);
        return 0;
    }

    __device__ __forceinline__ bool open_child(int) const { return true; }

    /// The sub-tree in a slot of the queue.
    __device__ __forceinline__ void read(const unsigned* slot) {
        const int n = (int)slot[1], held = (int)slot[2], free = (int)slot[3];
        matrix.n = 0;
        if (n <= kLaneSize) {
            give_lane(lane_id() < n ? slot[kCliqueHead + lane_id()] : 0u, n, held, free);
            return;
        }
        take_memory(n, held, free);
        const unsigned* from = copy(matrix.words, slot + kCliqueHead, matrix.n_words * n);
        if (kPer != 0) {
            from = copy(names, from, n);
            from = copy(paths.held, from, held);
            copy(paths.free, from, free);
        }
        start(held, free);
    }

    /// Go through the nodes of the matrix; the lanes search what is below them.
    __device__ __forceinline__ void search() {
        if (matrix.n == 0) return;
        int level = 0;
        bool is_new = true;
        while (level >= 0) {
            unsigned* const node = node_at(level);
            if (is_new && !enter(node)) {
                is_new = false;
                --level;
                continue;
            }
            is_new = false;
            share(level);
            unsigned* const below = node_at(level + 1);
            const int n = take_branch(node, below);
            if (n < 0)
                --level;
            else if (n > kLaneSize) {
                ++level;
                is_new = true;
            } else {
                settle(below, n);
            }
        }
        matrix.n = 0;
    }

    __device__ __forceinline__ void close() const {}

    /// What the lanes still have, before the warp waits for others.
    __device__ __forceinline__ void finish_kept() { lanes.run(0); }

    __device__ __forceinline__ unsigned long long flush() {
        lanes.run(0);
        if (kOrients) {
            SplitSum total;
            total.add(lanes.cliques);
            total.flush(lanes.leaves.sums);
        }
        return words + warp_sum(lanes.steps);
    }

  private:
    __device__ __forceinline__ int stride() const { return 2 * matrix.n_words + kNodeHead; }
    __device__ __forceinline__ unsigned* node_at(int level) const { return nodes + (long long)level * stride(); }
    __device__ __forceinline__ unsigned* candidates_of(unsigned* node) const { return node + kNodeHead; }
    __device__ __forceinline__ unsigned* rest_of(unsigned* node) const { return node + kNodeHead + matrix.n_words; }

    /// One leaf; the warp.
    __device__ __forceinline__ void add_leaf(int held, int free) const {
        if (kOrients || held + free < lanes.limits.least) return;
        if (lane_id() == 0) lanes.leaves.add(held, free, 1);
        if (kPer != 0) paths.add(later, held, free, lanes.limits.most);
    }

    /// The candidates of an item, their number and the room for what is below.
    __device__ __forceinline__ int name_members(const Children& unit) {
        if (!kEdges) {
            const int n = (int)(unit.last - unit.first);
            take_memory(n, 1, 0);
            for (int i = lane_id(); i < n; i += kWarpSize) {
                members[i] = later.ids[unit.first + i];
                if (kPer != 0) names[i] = members[i];
            }
            return n;
        }
        // Behind the child in the list of the root, and in that of the child.
        const int child = later.ids[unit.first];
        const int* const of_root = later.ids + unit.first + 1;
        const int* const of_child = later.ids + later.indptr[child];
        const int n_root = (int)(later.indptr[unit.root + 1] - unit.first - 1), n_child = (int)later.size(child);
        take_memory(min(n_root, n_child), 2, 0);
        int n = 0;
        for (int first = 0; first < n_child; first += kWarpSize) {
            const int i = first + lane_id();
            const bool is_shared = i < n_child && find_id(of_root, n_root, of_child[i]) >= 0;
            const unsigned shared = __ballot_sync(kFullMask, is_shared);
            if (is_shared) members[n + __popc(shared & lanes_before(lane_id()))] = of_child[i];
            n += __popc(shared);
        }
        matrix = RowList{matrix.words, n, n, words_for(n)};
        return n;
    }

    /// Copy n words of a slot; where the next ones begin.
    template <class Word>
    __device__ __forceinline__ static const unsigned* copy(Word* to, const unsigned* from, int n) {
        for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (Word)from[i];
        return from + n;
    }

    /// Copy n words to a slot; where the next ones go.
    __device__ __forceinline__ static unsigned* copy_out(unsigned* to, const int* from, int n) {
        for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)from[i];
        return to + n;
    }

    /// The matrix of n candidates, their list, a set, the nodes and the path: what the host counts as the need of an item.
    __device__ __forceinline__ void take_memory(int n, int held, int free) {
        const int n_words = words_for(n);
        matrix = RowList{arena.take((long long)n * n_words), n, n, n_words};
        members = reinterpret_cast<int*>(arena.take(n));
        if (kPer != 0) {
            names = reinterpret_cast<int*>(arena.take(n));
            paths.held = reinterpret_cast<int*>(arena.take(held + n));
            paths.free = reinterpret_cast<int*>(arena.take(free + n));
        }
        if (n <= kLaneSize) return;
        branch = arena.take(n_words);
        const int levels = kOrients ? min(n - kLaneSize + 1, lanes.limits.most) : (n - kLaneSize + 1) / 2 + 1;
        nodes = arena.take((long long)levels * stride());
    }

    /// All candidates at level 0.
    __device__ __forceinline__ int start(int held, int free) {
        unsigned* const node = node_at(0);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] = bits_below(matrix.n - 32 * k);
        if (lane_id() == 0) set_head(node, held, free);
        __syncwarp();
        return 1;
    }

    __device__ __forceinline__ static void set_head(unsigned* node, int held, int free) {
        node[0] = (unsigned)held;
        node[1] = (unsigned)free;
    }

    /// Give a graph of at most 32 vertices to a lane; the lanes search first where none is idle.
    __device__ __forceinline__ void give_lane(unsigned row, int n, int held, int free) {
        if (lanes.idle() == 0) queue.spend(lanes.run(kWarpSize - kIdleLanes));
        lanes.give(row, n, held, free);
    }

    /// A node that has no frame: at most 32 candidates.
    __device__ __forceinline__ void settle(unsigned* node, int n) {
        const int held = (int)node[0], free = (int)node[1], missing = lanes.limits.most - held;
        if (kOrients ? n < missing : held + free + n < lanes.limits.least) return;
        if (!kOrients && (n == 0 || missing == 0)) {
            add_leaf(held, free);
            return;
        }
        list_members(candidates_of(node), matrix.n_words, members);
        give_lane(gather_square(matrix, members, n), n, held, free);
    }

    /// Choose the branches of a node of more than kLaneSize candidates; false: it has none, and is counted.
    __device__ __forceinline__ bool enter(unsigned* node) {
        const int held = (int)node[0], missing = lanes.limits.most - held;
        unsigned* const candidates = candidates_of(node);
        int n = set_size(candidates, matrix.n_words);
        if (kOrients) {
            if (n < missing) return false;
            if (missing == 2) {
                count_pairs(candidates);
                return false;
            }
            for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest_of(node)[k] = candidates[k];
            __syncwarp();
            return true;
        }
        const int free = (int)node[1];
        if (held + free + n < lanes.limits.least) return false;
        if (missing == 0) {
            add_leaf(held, free);
            return false;
        }
        const unsigned pivot = find_pivot(candidates, rest_of(node), n);
        const int n_all = set_size(rest_of(node), matrix.n_words);
        if (kPer != 0 && n_all != 0) {
            list_members(rest_of(node), matrix.n_words, members);
            for (int i = lane_id(); i < n_all; i += kWarpSize) paths.free[free + i] = names[members[i]];
        }
        return finish_node(node, (int)(pivot & 0xffffu), n - n_all, n_all);
    }

    /// Take the candidates that are next to all others away, which `rest` lists; the most neighbours << 16 | candidate of
    /// the others.
    __device__ __forceinline__ unsigned find_pivot(const unsigned* candidates, unsigned* rest, int n) {
        const int lane = lane_id();
        unsigned best = 0;
        for (int k = 0; k < matrix.n_words; ++k) {
            const int row = 32 * k + lane;
            int shared = -1;
            if (candidates[k] >> lane & 1u) {
                shared = 0;
                for (int y = 0; y < matrix.n_words; ++y) shared += __popc(matrix.at(y, row) & candidates[y]);
            }
            const unsigned all = __ballot_sync(kFullMask, shared == n - 1);
            if (shared >= 0 && shared < n - 1) best = max(best, (unsigned)(shared + 1) << 16 | (unsigned)row);
            if (lane == 0) rest[k] = all;
        }
        spend((long long)n * matrix.n_words);
        __syncwarp();
        return ~warp_least(~best);
    }

    /// With the n candidates that are not in `rest`: leaf, sub-tree of a lane, or a node with its branches in `rest`.
    __device__ __forceinline__ bool finish_node(unsigned* node, int pivot, int n, int n_all) {
        unsigned *const candidates = candidates_of(node), *const rest = rest_of(node);
        __syncwarp();
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            const unsigned kept = candidates[k] & ~rest[k];
            candidates[k] = kept;
            if (n > kLaneSize) rest[k] = kept & ~matrix.at(k, pivot) & ~(k == pivot / 32 ? 1u << (pivot & 31) : 0u);
        }
        if (lane_id() == 0) {
            node[1] += (unsigned)n_all;
            node[2] = (unsigned)pivot + 1;
        }
        __syncwarp();
        if (n > kLaneSize) return true;
        settle(node, n);
        return false;
    }

    /// Pairs of candidates that are next to each other.
    __device__ __forceinline__ void count_pairs(const unsigned* candidates) {
        for (int k = 0; k < matrix.n_words; ++k) {
            if (!(candidates[k] >> lane_id() & 1u)) continue;
            const int row = 32 * k + lane_id();
            lanes.cliques += (unsigned)__popc(matrix.at(k, row) & candidates[k] & ~bits_below(lane_id() + 1));
            for (int y = k + 1; y < matrix.n_words; ++y) lanes.cliques += (unsigned)__popc(matrix.at(y, row) & candidates[y]);
        }
        spend((long long)matrix.n * matrix.n_words / 2);
    }

    __device__ __forceinline__ void spend(long long n) {
        words += lane_id() == 0 ? (unsigned long long)n : 0ull;
        queue.spend((int)(n / kWarpSize) + 1);
    }

    /// The candidate whose branch comes next, or -1.
    __device__ __forceinline__ int next_branch(unsigned* node) const {
        return !kOrients && node[2] != 0 ? (int)node[2] - 1 : first_member(rest_of(node), matrix.n_words);
    }

    /// Write the node of a branch to `below`; its number of candidates.
    __device__ __forceinline__ int write_branch(unsigned* node, int next, unsigned* set) const {
        unsigned size = 0;
        const unsigned* const from = kOrients ? rest_of(node) : candidates_of(node);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            set[k] = from[k] & matrix.at(k, next);
            size += (unsigned)__popc(set[k]);
        }
        return (int)warp_total(size);
    }

    /// Take a branch away.
    __device__ __forceinline__ void drop_branch(unsigned* node, int next) const {
        __syncwarp();
        if (lane_id() == 0) {
            const unsigned others = ~(1u << (next & 31));
            if (!kOrients) candidates_of(node)[next / 32] &= others;
            if (!kOrients && node[2] != 0)
                node[2] = 0;
            else
                rest_of(node)[next / 32] &= others;
        }
        __syncwarp();
    }

    /// Take the next branch of a node away and write it to the frame below; its number of candidates, or -1.
    __device__ __forceinline__ int take_branch(unsigned* node, unsigned* below) {
        const int next = next_branch(node);
        if (next < 0) return -1;
        __syncwarp();
        const int n = write_branch(node, next, candidates_of(below));
        const bool is_free = !kOrients && node[2] != 0;
        if (lane_id() == 0) {
            set_head(below, (int)node[0] + (is_free ? 0 : 1), (int)node[1] + (is_free ? 1 : 0));
            if (kPer != 0) (is_free ? paths.free + node[1] : paths.held + node[0])[0] = names[next];
        }
        drop_branch(node, next);
        spend(matrix.n_words);
        return n;
    }

    /// The ranks of the candidates in `members`, and the path to a branch of a node.
    __device__ __forceinline__ void write_path(unsigned* to, const unsigned* node, int n, int next, bool is_free) const {
        for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)names[members[i]];
        to = copy_out(to + n, paths.held, (int)node[0]);
        if (!is_free && lane_id() == 0) to[0] = (unsigned)names[next];
        to = copy_out(to + (is_free ? 0 : 1), paths.free, (int)node[1]);
        if (is_free && lane_id() == 0) to[0] = (unsigned)names[next];
    }

    /// Leave the next branch of the highest node that has one to others, if they wait.
    __device__ __forceinline__ void share(int level) {
        if (!queue.is_wanted()) return;
        for (int i = 0; i <= level; ++i) {
            unsigned* const node = node_at(i);
            const int next = next_branch(node);
            if (next < 0) continue;
            const int n = write_branch(node, next, branch), n_words = words_for(n);
            __syncwarp();
            const bool is_free = !kOrients && node[2] != 0;
            const int held = (int)node[0] + (is_free ? 0 : 1), free = (int)node[1] + (is_free ? 1 : 0);
            const long long n_path = kPer != 0 ? n + held + free : 0;
            if (n < kSharedCandidates || (long long)n * n_words + kCliqueHead + n_path > queue.slot_words) return;
            list_members(branch, matrix.n_words, members);
            const bool is_left = queue.offer([&](unsigned* slot) {
                if (lane_id() == 0) {
                    slot[0] = kCliqueSlot;
                    slot[1] = (unsigned)n;
                    slot[2] = (unsigned)held;
                    slot[3] = (unsigned)free;
                }
                if (kPer != 0) write_path(slot + kCliqueHead + n * n_words, node, n, next, is_free);
                for (int k = 0; k < n_words; ++k)
                    for (int r = 0; r < n; ++r) {
                        const unsigned bits = gather_bits(matrix, members[r], members, n, k);
                        if (lane_id() == 0) slot[kCliqueHead + k * n + r] = bits;
                    }
            });
            if (is_left) drop_branch(node, next);
            return;
        }
    }
};

template <>
constexpr bool kKeepsWork<CliqueSearch> = true;

/// Blocks of at most 8 warps.
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS)
clique_search(const long long* __restrict__ indptr, const int* __restrict__ ids, SEARCH_PARAMETERS, const int least,
              const int most, const unsigned short* __restrict__ closed, unsigned long long* sums, const int stride,
              const unsigned long long* __restrict__ choose, unsigned long long* vector) {
    constexpr int kWords = CliqueSearch::kCounterWords;
    __shared__ unsigned few[kOrients ? 1 : PivotLeaves::kHeld * PivotLeaves::kFree];
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    const PivotLeaves leaves{few, sums, stride};
    if (!kOrients) leaves.clear();
    unsigned* const own = warp_memory(kWords + near_words);
    CliqueLanes lanes{CliqueLimits{least, most}, leaves, closed, own + lane_id(), own + kWarpSize * kWarpSize + lane_id(),
                      0, 0, 0, 0, 0, 0, false};
    CliquePaths paths{choose, vector, nullptr, nullptr};
    CliqueSearch search{arena,   queue,   Adjacency{indptr, ids}, lanes,   paths, RowList{nullptr, 0, 0, 0},
                        nullptr, nullptr, nullptr,                nullptr, 0};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
    if (!kOrients) leaves.flush();
}
