// k-cliques of a unipartite graph on the bitmap-tree engine, by pivots or in order.
//
// Requires: the later neighbours of every vertex in an order, by rank, ascending.
// Counted once: a clique is found at its first vertex, the root of a work item; below it, branches hold disjoint sets of
// cliques. ORIENT 0: the branches of a node are those of clique_lanes.cuh. ORIENT 1: there is one for each candidate, which
// that one ends; its candidates are those before it.
// A warp owns an item: the root, whose later neighbours are a square matrix of bits; with EDGES 1 the root and the next
// vertex, and the later neighbours of both. It goes through the nodes with a stack. Where one size is asked for and no more
// than three vertices are missing, it counts edges and triangles (clique_few.cuh). With ORIENT 0 sub-trees of at most 32
// candidates are numbered anew and given to a lane of the warp each; while fewer than kIdleLanes of its lanes are idle they
// search. Warps that wait get the later half of the branches of a node, or the last one, as a matrix of their own, through
// the queue of tree_queue.cuh; the round of a warp is that of search.cuh.
// Memory of a warp: kCounterWords of shared memory for its lanes; for the matrix, a list of its candidates, a frame for
// each level and the matrix of a node whose triangles are counted the arena.
// PER 1, 2: vertices or edges of the cliques of one size get their numbers too (clique_paths.cuh). The warp then goes through
// all nodes itself, and knows the vertices of its path.
// sums: kSumWords numbers of CliqueSum; then, with ORIENT 0, leaves by held * stride + free.
// Sources: Almasri et al., ICS 2022; Jain and Seshadhri, WSDM 2020 (Pivoter).
#include "clique_lanes.cuh"
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
/// Whether lanes search sub-trees, and candidates up to which they do.
constexpr bool kHasLanes = kPer == 0 && !kOrients;
constexpr int kLaneSize = kHasLanes ? kWarpSize : 0;
/// Idle lanes for which a warp looks for sub-trees.
constexpr int kIdleLanes = 8;

/// A node: a frame of the stack. Words: held, free, pivot + 1 or 0 where that branch is taken, unused; the candidates; those
/// that are branched on.
constexpr int kNodeHead = 4;

/// The search of one warp: the matrix of the root at hand, or of a sub-tree of another warp, and the nodes on it.
struct CliqueSearch {
    static constexpr int kCounterWords = kHasLanes ? kLaneWords : 0;
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    Adjacency later;
    CliqueLanes& lanes;
    CliquePaths& paths;
    Square matrix;
    int* names;       // ranks of the candidates, where paths are kept
    int* members;     // room for matrix.n
    unsigned* branch; // two sets
    unsigned* nodes;  // frames of 2 * n_words + kNodeHead words
    bool has_branches;  // whether the first node has its branches already
    unsigned long long words;  // of this lane

    __device__ __forceinline__ int open(const Children& unit) {
        const bool is_alone = kEdges && unit.first < 0;  // the root alone
        const int held = kEdges && !is_alone ? 2 : 1, n = is_alone ? 0 : name_members(unit);
        if (kPer != 0 && lane_id() == 0) paths.held[0] = unit.root;
        __syncwarp();
        if (n == 0 || lanes.limits.most - held <= (counts_few() ? 1 : 0)) {
            end_node(held, 0, n);
            return 0;
        }
        clear_words(matrix.words, Square::size(n));
        fill_square(matrix, members, n, later);
        return start(held, 0) ? 1 : 0;
    }

    __device__ __forceinline__ bool open_child(int) const { return true; }

    /// The sub-tree in a slot of the queue.
    __device__ __forceinline__ void read(const unsigned* slot) {
        const int n = (int)slot[1], held = (int)slot[2], free = (int)slot[3];
        take_memory(n, held, free);
        const unsigned* from = copy(matrix.words, slot + kCliqueHead, Square::size(n));
        has_branches = slot[4] != 0;
        if (has_branches) from = copy(rest_of(node_at(0)), from, matrix.n_words);
        if (kPer != 0) {
            from = copy(names, from, n);
            from = copy(paths.held, from, held);
            copy(paths.free, from, free);
        }
        if (!start(held, free)) matrix.n = 0;
    }

    /// Go through the nodes of the matrix; the lanes search what is below them.
    __device__ __forceinline__ void search() {
        if (matrix.n == 0) return;
        int level = 0;
        bool is_new = !has_branches;
        while (level >= 0) {
            unsigned* const node = node_at(level);
            if (is_new && !enter(node)) {
                is_new = false;
                --level;
                continue;
            }
            share(level);
            const int n = take_branch(node, node_at(level + 1));
            is_new = n >= 0 && !settle(node_at(level + 1), n);
            level += n < 0 ? -1 : is_new ? 1 : 0;
        }
        matrix.n = 0;
    }

    __device__ __forceinline__ void close() const {}

    /// What the lanes still have, before the warp waits for others.
    __device__ __forceinline__ void finish_kept() { lanes.run(0); }

    __device__ __forceinline__ unsigned long long flush() {
        lanes.run(0);
        lanes.sum.flush(lanes.leaves.sums - kSumWords);
        return warp_sum(words + lanes.steps);
    }

  private:
    __device__ __forceinline__ int stride() const { return 2 * matrix.n_words + kNodeHead; }
    __device__ __forceinline__ unsigned* node_at(int level) const { return nodes + (long long)level * stride(); }
    __device__ __forceinline__ unsigned* candidates_of(unsigned* node) const { return node + kNodeHead; }
    __device__ __forceinline__ unsigned* rest_of(unsigned* node) const { return node + kNodeHead + matrix.n_words; }

    /// Whether cliques of one size are only counted.
    __device__ __forceinline__ bool counts_few() const { return kPer == 0 && lanes.limits.is_one(); }

    /// A node of n candidates that has no branches; the warp.
    __device__ __forceinline__ void end_node(int held, int free, int n) const {
        const int missing = lanes.limits.most - held;
        if (counts_few() && missing <= 1) {
            if (lane_id() == 0) lanes.sum.add(missing, free, n, FewCounts{0, 0});
            return;
        }
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
        matrix = Square{matrix.words, n, words_for(n)};
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

    /// A list of n candidates, sets, the nodes, the path and the matrix: what the host counts as the need of an item. A node
    /// that others left begins with a branch of one candidate fewer.
    __device__ __forceinline__ void take_memory(int n, int held, int free) {
        const int n_words = words_for(n), above = max(0, n - kLaneSize);
        matrix = Square{nullptr, n, n_words};
        members = reinterpret_cast<int*>(arena.take(n));
        branch = arena.take(2 * n_words);
        nodes = arena.take((long long)(kOrients ? min(n, lanes.limits.most) + 1 : (above + 1) / 2 + 2) * stride());
        if (kPer != 0) {
            names = reinterpret_cast<int*>(arena.take(n));
            paths.held = reinterpret_cast<int*>(arena.take(held + n));
            paths.free = reinterpret_cast<int*>(arena.take(free + n));
        }
        matrix.words = arena.take(Square::size(n));
        has_branches = false;
    }

    /// All candidates at level 0; false: they are counted, or given to a lane.
    __device__ __forceinline__ bool start(int held, int free) {
        unsigned* const node = node_at(0);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] = bits_below(matrix.n - 32 * k);
        if (lane_id() == 0) set_head(node, held, free);
        __syncwarp();
        return has_branches || !settle(node, matrix.n);
    }

    __device__ __forceinline__ static void set_head(unsigned* node, int held, int free) {
        node[0] = (unsigned)held;
        node[1] = (unsigned)free;
        node[2] = 0;
    }

    /// A node of n candidates: whether it is counted, or given to a lane. If not, it has branches.
    __device__ __forceinline__ bool settle(unsigned* node, int n) {
        const int held = (int)node[0], free = (int)node[1], missing = lanes.limits.most - held;
        if (held + free + n < lanes.limits.least) return true;
        if (n == 0 || missing <= (counts_few() ? 1 : 0)) {
            end_node(held, free, n);
            return true;
        }
        if (counts_few() && missing <= (kOrients ? 3 : 2)) {
            count_few(node, n);
            return true;
        }
        if (n > kLaneSize) return false;
        list_members(candidates_of(node), matrix.n_words, members);
        if (lanes.idle() == 0) queue.spend(lanes.run(kWarpSize - kIdleLanes));
        lanes.give(gather_square(matrix, members, n), n, held, free);
        return true;
    }

    /// The cliques of a node of n candidates that lacks two vertices or three.
    __device__ __forceinline__ void count_few(unsigned* node, int n) {
        const int missing = lanes.limits.most - (int)node[0];
        FewCounts found{0, 0};
        if (missing == 3 && n == matrix.n) {
            found = count_triangles(matrix);
        } else {
            list_members(candidates_of(node), matrix.n_words, members);
            if (missing == 2)
                found = count_pairs(matrix, candidates_of(node), members, n);
            else if (n <= kWarpSize)
                found = count_triangles(gather_square(matrix, members, n), n);
            else
                found = count_triangles_among(n);
        }
        found = FewCounts{warp_total(found.edges), warp_sum(found.triangles)};
        if (lane_id() == 0) lanes.sum.add(missing, (int)node[1], n, found);
        spend(missing == 2 ? (long long)n * matrix.n_words / 2 : (long long)found.edges * words_for(n) / 2 + n);
        __syncwarp();
    }

    /// Edges and triangles of the n candidates in `members`, as a matrix of their own.
    __device__ __forceinline__ FewCounts count_triangles_among(int n) {
        const Arena::Mark mark = arena.mark();
        const Square own{arena.take(Square::size(n)), n, words_for(n)};
        gather_rows(own, matrix, [&](int i) { return members[i]; }, n, members, n);
        const FewCounts found = count_triangles(own);
        __syncwarp();
        arena.release(mark);
        return found;
    }

    /// Choose the branches of a node of more than kLaneSize candidates; false: it has none, and is counted.
    __device__ __forceinline__ bool enter(unsigned* node) {
        unsigned *const candidates = candidates_of(node), *const rest = rest_of(node);
        if (kOrients) {
            for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest[k] = candidates[k];
            __syncwarp();
            return true;
        }
        int n = set_size(candidates, matrix.n_words);
        const unsigned best = find_pivot(candidates, rest, n);
        const int n_all = set_size(rest, matrix.n_words), pivot = (int)(best & 0xffffu);
        if (n_all != 0) {
            take_free(node, n_all);
            n -= n_all;
            if (settle(node, n)) return false;
        }
        const int missing = lanes.limits.most - (int)node[0];
        if (counts_few() && missing == 3 && has_few_triangles(n, (int)(best >> 16) - 1 - n_all)) {
            count_few(node, n);
            return false;
        }
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize)
            rest[k] = candidates[k] & ~matrix.at(k, pivot) & ~(k == pivot / 32 ? 1u << (pivot & 31) : 0u);
        if (lane_id() == 0) node[2] = (unsigned)pivot + 1;
        __syncwarp();
        return true;
    }

    /// List the candidates that are next to all others in `rest`; the most neighbours + 1 << 16 | candidate of the others.
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

    /// The n_all candidates in `rest` are free from here on.
    __device__ __forceinline__ void take_free(unsigned* node, int n_all) {
        const unsigned* const rest = rest_of(node);
        if (kPer != 0) {
            list_members(rest, matrix.n_words, members);
            for (int i = lane_id(); i < n_all; i += kWarpSize) paths.free[node[1] + i] = names[members[i]];
        }
        __syncwarp();
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] &= ~rest[k];
        if (lane_id() == 0) node[1] += (unsigned)n_all;
        __syncwarp();
    }

    __device__ __forceinline__ void spend(long long n) {
        words += lane_id() == 0 ? (unsigned long long)n : 0ull;
        queue.spend((int)(n / kWarpSize) + 1);
    }

    /// The candidate whose branch comes next, or -1.
    __device__ __forceinline__ int next_branch(unsigned* node) const {
        return node[2] != 0 ? (int)node[2] - 1 : first_member(rest_of(node), matrix.n_words);
    }

    /// Write the node of a branch to `to`, its candidates to `set`; their number.
    __device__ __forceinline__ int write_branch(unsigned* node, int next, unsigned* set) const {
        unsigned size = 0;
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            const unsigned row = kOrients && k > next / 32 ? 0u : matrix.at(k, next);
            set[k] = candidates_of(node)[k] & row;
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
            if (node[2] != 0)
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
        const bool is_free = node[2] != 0;
        if (lane_id() == 0) {
            set_head(below, (int)node[0] + (is_free ? 0 : 1), (int)node[1] + (is_free ? 1 : 0));
            if (kPer != 0) (is_free ? paths.free + node[1] : paths.held + node[0])[0] = names[next];
        }
        drop_branch(node, next);
        spend(matrix.n_words);
        return n;
    }

    /// Leave branches of the highest node that has some worth it to others, if they wait.
    __device__ __forceinline__ void share(int level) {
        if (!queue.is_wanted()) return;
        for (int i = 0; i <= level; ++i)
            if (share_half(node_at(i)) || share_next(node_at(i))) return;
    }

    /// Leave the later half of the branches of a node to others; false: there are fewer than two, or too few candidates.
    __device__ __forceinline__ bool share_half(unsigned* node) {
        unsigned *const rest = rest_of(node), *const upper = branch + matrix.n_words;
        const int n_rest = set_size(rest, matrix.n_words);
        if (n_rest < 2) return false;
        drop_first(rest, matrix.n_words, n_rest / 2, upper);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            const unsigned pivot = bits_below((int)node[2] - 32 * k) & ~bits_below((int)node[2] - 1 - 32 * k);
            branch[k] = candidates_of(node)[k] & (kOrients ? kFullMask : ~(rest[k] & ~upper[k]) & ~pivot);
        }
        __syncwarp();
        const int n = set_size(branch, matrix.n_words);
        if (n <= max(kLaneSize, kSharedCandidates) || !fits(n, node)) return false;
        if (offer(node, n, (int)node[0], (int)node[1], -1))
            for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest[k] &= ~upper[k];
        __syncwarp();
        return true;
    }

    /// Leave the next branch of a node to others; false: there is none, or it has too few candidates.
    __device__ __forceinline__ bool share_next(unsigned* node) {
        const int next = next_branch(node);
        if (next < 0) return false;
        const int n = write_branch(node, next, branch);
        __syncwarp();
        if (n < kSharedCandidates || !fits(n, node)) return false;
        const bool is_free = node[2] != 0;
        if (offer(node, n, (int)node[0] + (is_free ? 0 : 1), (int)node[1] + (is_free ? 1 : 0), next))
            drop_branch(node, next);
        return true;
    }

    /// Whether a slot has room for n candidates, their branches and the path.
    __device__ __forceinline__ bool fits(int n, const unsigned* node) const {
        const long long n_path = kPer != 0 ? n + (int)node[0] + (int)node[1] + 1 : 0;
        return Square::size(n) + words_for(n) + kCliqueHead + n_path <= queue.slot_words;
    }

    /// Leave the n candidates in `branch` to others: as a node of its own, that of a branch of `node`, or, where there is
    /// none (-1), as that node with the branches behind `branch`. False: the queue is full.
    __device__ __forceinline__ bool offer(const unsigned* node, int n, int held, int free, int next) {
        list_members(branch, matrix.n_words, members);
        return queue.offer([&](unsigned* slot) {
            if (lane_id() == 0) {
                slot[0] = kCliqueSlot;
                slot[1] = (unsigned)n;
                slot[2] = (unsigned)held;
                slot[3] = (unsigned)free;
                slot[4] = next < 0 ? 1u : 0u;
            }
            const Square own{slot + kCliqueHead, n, words_for(n)};
            gather_rows(own, matrix, [&](int i) { return members[i]; }, n, members, n);
            unsigned* to = own.words + Square::size(n);
            if (next < 0) {
                gather_set(to, branch + matrix.n_words, members, n);
                to += own.n_words;
            }
            if (kPer != 0) write_path(to, node, n, next);
        });
    }

    /// The ranks of the n candidates in `members`, and the path to a node, or to its branch `next`, unless that is -1.
    __device__ __forceinline__ void write_path(unsigned* to, const unsigned* node, int n, int next) const {
        const bool is_free = node[2] != 0;
        for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)names[members[i]];
        to = copy_out(to + n, paths.held, (int)node[0]);
        if (next >= 0 && !is_free && lane_id() == 0) to[0] = (unsigned)names[next];
        to = copy_out(to + (next >= 0 && !is_free ? 1 : 0), paths.free, (int)node[1]);
        if (next >= 0 && is_free && lane_id() == 0) to[0] = (unsigned)names[next];
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
    const PivotLeaves leaves{few, sums + kSumWords, stride};
    if (!kOrients) leaves.clear();
    unsigned* const own = warp_memory(kWords + near_words);
    CliqueLanes lanes{CliqueLimits{least, most}, leaves, closed, own + lane_id(), own + kWarpSize * kWarpSize + lane_id(),
                      CliqueSum{}, 0, 0, 0, 0, 0, false};
    CliquePaths paths{choose, vector, nullptr, nullptr};
    CliqueSearch search{arena,   queue,   Adjacency{indptr, ids}, lanes, paths, Square{nullptr, 0, 0}, nullptr,
                        nullptr, nullptr, nullptr,                false, 0};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
    if (!kOrients) leaves.flush();
}
