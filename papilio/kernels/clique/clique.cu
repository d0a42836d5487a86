// k-cliques of a unipartite graph on the bitmap-tree engine, by pivots or in order.
//
// Requires: the later neighbours of every vertex in an order, by rank, ascending.
// Counted once: a clique is found at its first vertex, the root of a work item; below it, branches hold disjoint sets of
// cliques. ORIENT 0: the branches of a node are those of clique_lanes.cuh. ORIENT 1: there is one branch for each candidate,
// its last vertex; the branch has the candidates before it.
// A warp owns an item: the root, whose later neighbours are a square matrix of bits. It processes the nodes with a stack. If
// at most three vertices of the largest size are missing, it counts edges and triangles (clique_lanes.cuh). With ORIENT 0,
// sub-trees of at most 32 candidates are renumbered and given to one lane of the warp each; the lanes search while fewer
// than kIdleLanes of them are idle. Waiting warps get half of the branches of a node, or the last one, with a matrix of
// their own, through the queue of tree_queue.cuh; the round of a warp is in search.cuh.
// With ORIENT 0, a node whose candidates fill at most half of the words of a row gets a matrix of its own for the tree below it,
// if the present one is too large for shared memory: in graphs of overlapping cliques, roots have hundreds of candidates, and
// most nodes fewer than 64.
// Memory of a warp: kCounterWords of shared memory for its lanes; the arena for the matrix, a list of its candidates, a frame
// for each level, the same for the matrices of nodes, and the matrix of a node whose triangles are counted.
// PER 1, 2: also counts per vertex or edge, for cliques of one size (clique_matrix.cuh). The warp then processes all nodes
// itself, and keeps the vertices of its path.
// LISTS, with PER 1: each leaf is a record (clique_matrix.cuh), and nothing is added up.
// sums: kSumWords numbers of CliqueSum; then, with ORIENT 0, leaves by held * stride + free.
// Sources: Almasri et al., ICS 2022; Jain and Seshadhri, WSDM 2020 (Pivoter).
#include "clique_lanes.cuh"
#include "clique_matrix.cuh"

/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// First word of a slot of the queue, and the words before its rows.
constexpr unsigned kCliqueSlot = 1;
constexpr int kCliqueHead = 8;
/// Whether cliques are only counted: the last vertices of the largest ones are counted together.
constexpr bool kCounts = kPer == 0;
/// Whether lanes search sub-trees, and the maximum candidates for this.
constexpr bool kHasLanes = kCounts && !kOrients;
constexpr int kLaneSize = kHasLanes ? kWarpSize : 0;
/// Minimum candidates for sharing a node: nodes of lanes are not shared.
constexpr int kSharedCandidates = kHasLanes ? kLaneSize + 1 : 12;
/// Number of idle lanes at which a warp looks for sub-trees.
constexpr int kIdleLanes = 8;

/// What the search returns to when the tree below a node with a matrix of its own is done.
struct OuterMatrix {
    Square matrix;
    int* names;
    int* members;
    unsigned* branch;
    unsigned* nodes;
    OuterMatrix* outer;
    Arena::Mark mark;
    int level;
    int open_level;
};
constexpr int kOuterWords = OUTER_MATRIX_WORDS;
static_assert(sizeof(OuterMatrix) == kOuterWords * sizeof(unsigned), "the launcher counts on it");

/// The search of one warp: the matrix of the current root, or of a sub-tree of another warp, and the nodes on it. A node
/// begins with the numbers of vertices held and free, the pivot + 1, or 0 if that branch is taken, and the number of
/// candidates.
struct CliqueSearch : NodeSearch<CliqueSearch, Square> {
    static constexpr int kCounterWords = kHasLanes ? kLaneWords : 0;

    CliqueLanes& lanes;
    CliquePaths& paths;
    OuterMatrix* outer;  // nullptr on the matrix of a root or of a slot

    __device__ __forceinline__ int open(const Children& unit) {
        if (paths.sink.is_full()) return 0;
        const int n = (int)(unit.last - unit.first);
        take_memory(n, 1, 0);
        if (kPer != 0) name_candidates((const unsigned*)later.ids + unit.first, n);
        if (kPer != 0 && lane_id() == 0) paths.held[0] = unit.root;
        __syncwarp();
        if (n == 0 || lanes.limits.most - 1 <= (kCounts ? 1 : 0)) {
            end_node(1, 0, n);
            return 0;
        }
        clear_words(matrix.words, Square::size(n));
        const Arena::Mark mark = arena.mark();
        const int* const sorted = list_candidates(unit, n);  // in shared memory, if it has room, as they are searched
        fill_square(matrix, sorted, n, later);
        arena.release(mark);
        start(1, 0);
        return 1;
    }

    /// The sub-tree in a slot of the queue, or the lanes.
    __device__ __forceinline__ void read(const unsigned* slot) {
        if (kHasLanes && slot[0] == kLanesSlot) return read_lanes(lanes, slot);
        const int n = (int)slot[1], held = (int)slot[2], free = (int)slot[3];
        take_memory(n, held, free);
        const unsigned* from = copy_in(matrix.words, slot + kCliqueHead, Square::size(n));
        has_branches = slot[4] != 0;
        if (has_branches) from = copy_in(rest_of(node_at(0)), from, matrix.n_words);
        if (kPer != 0) {
            from = name_candidates(from, n);
            from = copy_in(paths.held, from, held);
            copy_in(paths.free, from, free);
        }
        start(held, free);
    }

    __device__ __forceinline__ void search() {
        if (!paths.sink.is_full()) search_nodes();
    }

    /// Finish the work of the lanes before the warp waits for others.
    __device__ __forceinline__ bool finish_kept() {
        return !kHasLanes || finish_lanes(lanes, queue);
    }

    __device__ __forceinline__ void close() const { paths.close(); }

    __device__ __forceinline__ bool leave_matrix() {
        while (level < 0 && outer != nullptr) {
            __syncwarp();
            const OuterMatrix left = *outer;
            __syncwarp();
            go_to(left);
            arena.release(left.mark);
        }
        return level >= 0;
    }

    __device__ __forceinline__ bool has_outer() const { return !kOrients && outer != nullptr; }

    /// The outermost matrix first. The node that was left is not shared: its branches are those of the next matrix.
    __device__ __forceinline__ void share_outer() {
        if (!has_outer()) return;
        const OuterMatrix present = describe(level + 1);
        int depth = 0;
        for (const OuterMatrix* at = outer; at != nullptr; at = at->outer) ++depth;
        for (; depth > 0; --depth) {
            OuterMatrix* at = present.outer;
            for (int i = 1; i < depth; ++i) at = at->outer;
            if (at->open_level >= at->level) continue;
            go_to(*at);
            share_nodes();
            __syncwarp();
            if (lane_id() == 0) at->open_level = open_level;
            __syncwarp();
        }
        go_to(present);
    }

    __device__ __forceinline__ unsigned long long flush() {
        lanes.sum.flush(lanes.leaves.sums - kSumWords);
        return warp_sum(words + lanes.steps);
    }

  private:
    friend struct NodeSearch<CliqueSearch, Square>;

    __device__ __forceinline__ int node_words() const { return 2 * matrix.n_words + kNodeHead; }

    /// The candidates of an item.
    __device__ __forceinline__ const int* list_candidates(const Children& unit, int n) {
        int* const listed = reinterpret_cast<int*>(arena.take(n));
        for (int i = lane_id(); i < n; i += kWarpSize) listed[i] = later.ids[unit.first + i];
        __syncwarp();
        return listed;
    }

    /// A list of n candidates, sets, the nodes, the path and the matrix, as the host computes the need of an item. A node shared
    /// by another warp begins with a branch of one candidate fewer.
    __device__ __forceinline__ void take_memory(int n, int held, int free) {
        matrix = Square{nullptr, n, words_for(n)};
        outer = nullptr;
        // Shared memory is for the matrices of nodes if this one does not fit.
        members = reinterpret_cast<int*>(Square::size(n) > arena.near_words ? arena.take_far(n) : arena.take(n));
        branch = arena.take(node_words());
        nodes = arena.take((long long)count_levels(n) * node_words());
        if (kPer != 0) {
            names = reinterpret_cast<int*>(arena.take(n));
            paths.held = reinterpret_cast<int*>(arena.take(held + n));
            paths.free = reinterpret_cast<int*>(arena.take(free + n));
            paths.begin(arena, n, held, free);
        }
        matrix.words = arena.take(Square::size(n));
        has_branches = false;
    }

    /// Name the candidates of a unit by their ranks, or by their places; returns the start of the next words.
    __device__ __forceinline__ const unsigned* name_candidates(const unsigned* from, int n) {
        for (int i = lane_id(); kSums && i < n; i += kWarpSize) names[i] = i;
        return copy_in(kSums ? paths.ranks : names, from, n);
    }

    __device__ __forceinline__ int count_levels(int n) const {
        return kOrients ? min(n, lanes.limits.most) + 1 : (max(0, n - kLaneSize) + 1) / 2 + 2;
    }

    /// The present matrix, to return to above a level.
    __device__ __forceinline__ OuterMatrix describe(int below) const {
        return OuterMatrix{matrix, names, members, branch, nodes, outer, arena.mark(), below, open_level};
    }

    __device__ __forceinline__ void go_to(const OuterMatrix& other) {
        matrix = other.matrix;
        names = other.names;
        members = other.members;
        branch = other.branch;
        nodes = other.nodes;
        outer = other.outer;
        level = other.level - 1;
        open_level = other.open_level;
    }

    /// Go on with a node on a matrix of its own, where it is the first one.
    __device__ __forceinline__ void narrow(unsigned* node) {
        const int n = (int)node[3], held = (int)node[0], free = (int)node[1];
        const OuterMatrix left = describe(level);
        list_members(candidates_of(node), matrix.n_words, members);
        const Square own{arena.take(Square::size(n)), n, words_for(n)};
        gather_rows(own, matrix, [&](int i) { return members[i]; }, n, members, n);
        spend((long long)n * own.n_words);
        outer = reinterpret_cast<OuterMatrix*>(arena.take(kOuterWords));
        if (lane_id() == 0) *outer = left;
        matrix = own;
        branch = arena.take(node_words());
        nodes = arena.take((long long)count_levels(n) * node_words());
        members = reinterpret_cast<int*>(arena.take(n));
        if (kPer != 0) {
            names = reinterpret_cast<int*>(arena.take(n));
            for (int i = lane_id(); i < n; i += kWarpSize) names[i] = left.names[left.members[i]];
        }
        level = open_level = 0;
        start(held, free);
    }

    /// All candidates at level 0.
    __device__ __forceinline__ void start(int held, int free) {
        fill_candidates(node_at(0), matrix.n);
        if (lane_id() == 0) set_head(node_at(0), held, free, matrix.n);
        __syncwarp();
    }

    __device__ __forceinline__ static void set_head(unsigned* node, int held, int free, int n) {
        node[0] = (unsigned)held;
        node[1] = (unsigned)free;
        node[2] = 0;
        node[3] = (unsigned)n;
    }

    /// Whether a node has branches; if not, it is counted, or given to a lane. Candidates adjacent to all others become free.
    __device__ __forceinline__ bool enter(unsigned* node) {
        if (paths.sink.is_done || settle(node)) return false;
        const bool is_narrow = (int)node[3] > kLaneSize && 2 * words_for((int)node[3]) <= matrix.n_words;
        if (!kOrients && is_narrow && !arena.is_near(matrix.words)) {
            narrow(node);
            node = node_at(0);
        }
        unsigned *const candidates = candidates_of(node), *const rest = rest_of(node);
        if (kOrients) {
            for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest[k] = candidates[k];
            __syncwarp();
            return true;
        }
        const int before = (int)node[3];
        int pivot = 0;
        if (before > kLaneSize) {
            pivot = find_pivot(candidates, rest, before);
            const int n_all = set_size(rest, matrix.n_words);
            if (n_all != 0) take_free(node, n_all);
            if (n_all == before) {
                end_node((int)node[0], (int)node[1], 0);
                return false;
            }
            if (kCounts && lanes.limits.most - (int)node[0] == 3) {
                count_few(node);
                return false;
            }
        }
        if ((int)node[3] <= kLaneSize) {
            give_to_lane(node);
            return false;
        }
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize)
            rest[k] = candidates[k] & ~matrix.at(k, pivot) & ~bit_of(pivot, k);
        if (lane_id() == 0) node[2] = (unsigned)pivot + 1;
        __syncwarp();
        return true;
    }

    /// Whether a node can be counted from the vertices held and free alone, or from edges, in order also from triangles.
    __device__ __forceinline__ bool settle(unsigned* node) {
        const int held = (int)node[0], free = (int)node[1], n = (int)node[3], missing = lanes.limits.most - held;
        if (held + free + n < lanes.limits.least) return true;
        if (n == 0 || missing <= (kCounts ? 1 : 0)) {
            end_node(held, free, n);
            return true;
        }
        if (kCounts && missing <= (kOrients ? 3 : 2)) {
            count_few(node);
            return true;
        }
        if (!is_last(missing, free, n)) return false;
        count_last(node);
        return true;
    }

    /// Whether the vertices or edges of a node that lacks `missing` vertices are counted without branches.
    __device__ __forceinline__ static bool is_last(int missing, int free, int n) {
        const bool is_small = n <= kWarpSize && (missing == 3 || (missing == 4 && free <= kFreeSmall));
        return kPer != 0 && !kLists && (missing <= 2 || is_small);
    }

    __device__ __forceinline__ void give_to_lane(unsigned* node) {
        const int n = (int)node[3];
        list_members(candidates_of(node), matrix.n_words, members);
        if (lanes.idle() == 0) queue.spend(lanes.run(kWarpSize - kIdleLanes, kAllTurns));
        lanes.give(gather_square(matrix, members, n), n, (int)node[0], (int)node[1]);
    }

    /// Count a node of n candidates that is a leaf, or lacks one vertex.
    __device__ __forceinline__ void end_node(int held, int free, int n) const {
        const int missing = lanes.limits.most - held;
        if (kCounts && missing <= 1) {
            if (lane_id() == 0) lanes.add_few(missing, held, free, n, FewCounts{0, 0});
            return;
        }
        if (kOrients || held + free < lanes.limits.least) return;
        if (lane_id() == 0) lanes.leaves.add(held, free, 1);
        if (kPer != 0) paths.add(later, held, free, lanes.limits.most);
    }

    /// Count the cliques of a node that lacks two or three vertices.
    __device__ __forceinline__ void count_few(unsigned* node) {
        const int held = (int)node[0], missing = lanes.limits.most - held, n = (int)node[3];
        const FewCounts found = count_among(arena, matrix, candidates_of(node), members, n, missing == 3);
        if (lane_id() == 0) lanes.add_few(missing, held, (int)node[1], n, found);
        spend(missing == 2 ? (long long)n * matrix.n_words / 2 : (long long)found.edges * words_for(n) / 2 + n);
        __syncwarp();
    }

    /// The same for each of their vertices or edges.
    __device__ __forceinline__ void count_last(const unsigned* node) {
        const int held = (int)node[0], free = (int)node[1], n = (int)node[3], missing = lanes.limits.most - held;
        const unsigned* const candidates = node + kNodeHead;
        list_members(candidates, matrix.n_words, members);
        if (n <= kWarpSize) {
            const unsigned row = gather_square(matrix, members, n);
            const int name = lane_id() < n ? names[members[lane_id()]] : 0;
            const FewCounts found = paths.add_small(later, row, name, n, held, free, missing);
            if (lane_id() == 0) lanes.add_few(missing, held, free, n, found);
            spend((long long)n * matrix.n_words);
            return;
        }
        const unsigned own = missing == 2 ? count_pairs(matrix, candidates, members, n).edges : 0u, edges = warp_total(own);
        if (lane_id() == 0) lanes.add_few(missing, held, free, n, FewCounts{edges, 0});
        paths.add_last(later, matrix, candidates, members, names, n, edges, held, free, missing);
        spend((long long)n * matrix.n_words);
        __syncwarp();
    }

    /// List the candidates adjacent to all others in `rest`; of the others the one adjacent to most.
    __device__ __forceinline__ int find_pivot(const unsigned* candidates, unsigned* rest, int n) {
        const int lane = lane_id();
        unsigned best = 0;  // neighbours + 1 << 16 | candidate
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
        return (int)(~warp_least(~best) & 0xffffu);
    }

    /// Make the n_all candidates in `rest` free from here on.
    __device__ __forceinline__ void take_free(unsigned* node, int n_all) {
        const unsigned* const rest = rest_of(node);
        if (kPer != 0) {
            list_members(rest, matrix.n_words, members);
            for (int i = lane_id(); i < n_all; i += kWarpSize) paths.free[node[1] + i] = names[members[i]];
        }
        __syncwarp();
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] &= ~rest[k];
        if (lane_id() == 0) {
            node[1] += (unsigned)n_all;
            node[3] -= (unsigned)n_all;
        }
        __syncwarp();
    }

    __device__ __forceinline__ int next_branch(unsigned* node) const {
        return node[2] != 0 ? (int)node[2] - 1 : first_member(rest_of(node), matrix.n_words);
    }

    __device__ __forceinline__ void write_branch(unsigned* node, int next, unsigned* to) {
        unsigned size = 0;
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            candidates_of(to)[k] = kOrients && k > next / 32 ? 0u : candidates_of(node)[k] & matrix.at(k, next);
            size += (unsigned)__popc(candidates_of(to)[k]);
        }
        const int n = (int)warp_total(size);
        if (lane_id() == 0) set_head(to, (int)node[0] + (node[2] == 0), (int)node[1] + (node[2] != 0), n);
        spend(matrix.n_words);
        __syncwarp();
    }

    __device__ __forceinline__ void follow(const unsigned* node, int next) const {
        if (kPer != 0 && lane_id() == 0) (node[2] != 0 ? paths.free + node[1] : paths.held + node[0])[0] = names[next];
    }

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

    /// The branches that stay come first: their candidates, and a pivot not yet taken, are excluded from the other branches.
    __device__ __forceinline__ bool write_half(unsigned* node) {
        const unsigned *const rest = rest_of(node), *const half = rest_of(branch);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            const unsigned stays = (rest[k] & ~half[k]) | (node[2] != 0 ? bit_of((int)node[2] - 1, k) : 0u);
            candidates_of(branch)[k] = candidates_of(node)[k] & (kOrients ? kFullMask : ~stays);
        }
        __syncwarp();
        const int n = set_size(candidates_of(branch), matrix.n_words);
        if (lane_id() == 0) set_head(branch, (int)node[0], (int)node[1], n);
        __syncwarp();
        return is_worth(branch);
    }

    __device__ __forceinline__ bool is_open(const unsigned* node) const {
        const int n = (int)node[3], missing = lanes.limits.most - (int)node[0];
        return n >= kSharedCandidates && !(kCounts ? missing <= 3 : is_last(missing, (int)node[1], n));
    }

    __device__ __forceinline__ bool is_worth(const unsigned* node) const {
        const int held = (int)node[0], free = (int)node[1], n = (int)node[3];
        const long long n_path = kPer != 0 ? n + held + free : 0;
        return is_open(node) && Square::size(n) + words_for(n) + kCliqueHead + n_path <= queue.slot_words;
    }

    __device__ __forceinline__ bool offer(const unsigned* node, int next) {
        const int held = (int)branch[0], free = (int)branch[1], n = (int)branch[3];
        list_members(candidates_of(branch), matrix.n_words, members);
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
                gather_set(to, rest_of(branch), members, n);
                to += own.n_words;
            }
            if (kPer == 0) return;
            for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)paths.rank_of(names[members[i]]);
            paths.write(to + n, (int)node[0], (int)node[1], next < 0 ? -1 : names[next], node[2] != 0);
        });
    }
};

template <>
constexpr bool kKeepsWork<CliqueSearch> = true;

/// Blocks of at most 8 warps.
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS)
clique_search(const long long* __restrict__ indptr, const int* __restrict__ ids, SEARCH_PARAMETERS, const int least,
              const int most, const unsigned short* __restrict__ closed, unsigned long long* sums, const int stride,
              const unsigned long long* __restrict__ choose, unsigned long long* vector RECORD_PARAMETERS) {
    constexpr int kWords = CliqueSearch::kCounterWords;
    __shared__ unsigned few[kOrients ? 1 : PivotLeaves::kHeld * PivotLeaves::kFree];
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    const PivotLeaves leaves{few, sums + kSumWords, stride};
    if (!kOrients) leaves.clear();
    unsigned* const own = warp_memory(kWords + near_words);
    CliqueLanes lanes{CliqueLimits{least, most}, leaves, closed, own + lane_id(), own + kWarpSize * kWarpSize + lane_id(),
                      CliqueSum{}, 0, 0, 0, 0, 0, false};
    CliquePaths paths{choose, vector, nullptr, nullptr, RECORD_SINK, nullptr, nullptr, 0, 0, 0, 0, 0};
    CliqueSearch search{{arena, queue, Adjacency{indptr, ids}, Square{}, nullptr, nullptr, nullptr, nullptr, false, 0, 0, 0},
                        lanes,
                        paths,
                        nullptr};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
    if (!kOrients) leaves.flush();
}
