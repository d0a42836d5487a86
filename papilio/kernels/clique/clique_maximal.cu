// Maximal cliques of a unipartite graph on the bitmap-tree engine: the number of each size, and the sum of their hashes.
//
// Requires: the later and the earlier neighbours of every vertex in an order, by rank, ascending; hashes by rank.
// Counted once: a clique is found at its first vertex, the root of a work item, whose later neighbours are the candidates.
// Its earlier neighbours are excluded: a clique that one of them extends is found elsewhere, or is not maximal. The branches
// and the end of a node are defined in clique_maximal_lanes.cuh.
// A warp owns an item. The matrix has a row over the candidates for each candidate and for each excluded vertex. Nodes of at
// most 32 candidates are renumbered and given to a lane of the warp, with the rows of the excluded vertices: only rows that
// lie in no other row count, and if more than 32 are left, the warp processes the node itself, as it does all larger nodes.
// The lanes search while fewer than kIdleLanes of them are idle. Waiting warps get sub-trees, with a matrix of their own,
// through the queue of tree_queue.cuh; the round of a warp is in search.cuh.
// Memory of a warp: kCounterWords of shared memory for its lanes; the arena for the matrix and the nodes.
// LISTS: each clique is a record of its ranks (records.cuh), and not counted; no node is given to a lane.
// sums: cliques by size. checksum: of all.
// Sources: Tomita et al., Theor. Comput. Sci. 2006; Eppstein, Löffler and Strash, ISAAC 2010.
#include "clique_matrix.cuh"
#include "clique_maximal_lanes.cuh"
#include "records.cuh"

/// Number of blocks whose registers a multiprocessor must hold.
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

/// First word of a slot of the queue, and the words before its rows.
constexpr unsigned kMaximalSlot = 1;
constexpr int kMaximalHead = 8;
/// Minimum candidates for sharing a node.
constexpr int kSharedCandidates = 8;
/// Number of idle lanes at which a warp looks for sub-trees.
constexpr int kIdleLanes = 8;
/// The search of one warp; the matrix has n candidates, then n_outer excluded vertices, over the candidates. A node begins
/// with the number of vertices held and the halves of their hash; its sets are the candidates, the candidates to branch on,
/// excluded vertices that were candidates, and rows of vertices excluded from the start.
struct MaximalSearch : NodeSearch<MaximalSearch, RowList> {
    static constexpr int kCounterWords = kMaximalWords;

    Adjacency earlier;
    const unsigned long long* hashes;
    unsigned long long* checksum;
    MaximalLanes& lanes;
    RecordSink sink;
    int* path;    // ranks held, the root first, if cliques are listed
    int* chosen;  // room for n + n_outer
    int n;
    int n_outer;
    int outer_words;

    __device__ __forceinline__ int open(const Children& unit) {
        const int n_later = (int)(unit.last - unit.first);
        if (sink.is_full()) return 0;
        const long long first = earlier.indptr[unit.root];
        const int n_earlier = (int)(earlier.indptr[unit.root + 1] - first);
        if (n_later == 0) {
            if (n_earlier == 0) add_root(unit.root);
            return 0;
        }
        take_memory(n_later, n_earlier, 1);
        if (kLists && lane_id() == 0) path[0] = unit.root;
        for (int i = lane_id(); i < n; i += kWarpSize) names[i] = later.ids[unit.first + i];
        __syncwarp();
        clear_words(matrix.words, (long long)matrix.n * matrix.n_words);
        fill_square(square(), names, n, later);
        fill_outer(earlier.ids + first);
        return start(HeldOutside{1, hashes[unit.root]});
    }

    /// The sub-tree in a slot of the queue, or the lanes.
    __device__ __forceinline__ void read(const unsigned* slot) {
        if (!kLists && slot[0] == kLanesSlot) return read_lanes(lanes, slot);
        take_memory((int)slot[1], (int)slot[2], (int)slot[3]);
        const unsigned* from = copy_in(names, slot + kMaximalHead, n);
        from = copy_in(matrix.words, from, matrix.n_words * matrix.n);
        has_branches = slot[6] != 0;
        if (has_branches) from = copy_in(rest_of(node_at(0)), from, matrix.n_words);
        if (kLists) copy_in(path, from, (int)slot[3]);
        start(HeldOutside{(int)slot[3], (unsigned long long)slot[5] << 32 | slot[4]});
    }

    __device__ __forceinline__ void search() {
        if (!sink.is_full()) search_nodes();
    }

    /// Finish the work of the lanes before the warp waits for others.
    __device__ __forceinline__ bool finish_kept() {
        return kLists || finish_lanes(lanes, queue);
    }

    __device__ __forceinline__ unsigned long long flush() {
        const unsigned long long all = warp_sum(lanes.checksum);
        if (lane_id() == 0) atomicAdd(checksum, all);
        return warp_sum(words + lanes.steps);
    }

  private:
    friend struct NodeSearch<MaximalSearch, RowList>;

    __device__ __forceinline__ int node_words() const { return kNodeHead + 3 * matrix.n_words + outer_words; }
    __device__ __forceinline__ unsigned* excluded_of(unsigned* node) const { return rest_of(node) + matrix.n_words; }
    __device__ __forceinline__ unsigned* outer_of(unsigned* node) const { return excluded_of(node) + matrix.n_words; }

    /// The rows of the candidates.
    __device__ __forceinline__ RowList square() const { return RowList{matrix.words, n, matrix.stride, matrix.n_words}; }

    __device__ __forceinline__ static HeldOutside held_of(const unsigned* node) {
        return HeldOutside{(int)node[0], (unsigned long long)node[2] << 32 | node[1]};
    }

    /// One lane.
    __device__ __forceinline__ static void set_held(unsigned* node, HeldOutside held) {
        node[0] = (unsigned)held.n;
        node[1] = (unsigned)held.hash;
        node[2] = (unsigned)(held.hash >> 32);
    }

    /// A root without neighbours.
    __device__ __forceinline__ void add_root(int root) {
        if constexpr (kLists) {
            if (lanes.least <= 1) sink.write(1, [&](const auto& visit) { if (lane_id() == 0) visit(0, root); });
        } else if (lane_id() == 0) {
            lanes.add(1, hashes[root]);
        }
    }

    /// A node without candidates; the clique is maximal if no vertex is excluded.
    __device__ __forceinline__ void add_held(unsigned* node) {
        if (set_size(excluded_of(node), matrix.n_words) + set_size(outer_of(node), outer_words) != 0) return;
        const HeldOutside held = held_of(node);
        if constexpr (kLists) {
            if (held.n < lanes.least) return;
            sink.write(held.n, [&](const auto& visit) {
                for (int i = lane_id(); i < held.n; i += kWarpSize) visit(i, path[i]);
            });
        } else if (lane_id() == 0) {
            lanes.add(held.n, held.hash);
        }
    }

    /// As the host computes the need of an item. A node shared by another warp begins with a branch of one candidate fewer.
    __device__ __forceinline__ void take_memory(int n_candidates, int n_excluded, int n_held) {
        n = n_candidates;
        n_outer = n_excluded;
        outer_words = words_for(n_outer);
        const int n_words = words_for(n), n_rows = n + n_outer;
        matrix = RowList{arena.take((long long)n_rows * n_words), n_rows, n_rows, n_words};
        names = reinterpret_cast<int*>(arena.take(n));
        members = reinterpret_cast<int*>(arena.take(n));
        chosen = reinterpret_cast<int*>(arena.take(n_rows));
        branch = arena.take(node_words());
        nodes = arena.take((long long)(n / 2 + 3) * node_words());
        if (kLists) path = reinterpret_cast<int*>(arena.take(n_held + n));
        has_branches = false;
    }

    /// The rows of vertices before the root; they follow the rows of the candidates.
    __device__ __forceinline__ void fill_outer(const int* ids) {
        find_members(later, ids, n_outer, names, n,
                     [&](int i, int j) { atomicOr(&matrix.at(j / 32, n + i), 1u << (j & 31)); });
    }

    /// The node of all candidates.
    __device__ __forceinline__ int start(HeldOutside held) {
        unsigned* const node = node_at(0);
        fill_candidates(node, n);
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) excluded_of(node)[k] = 0;
        for (int k = lane_id(); k < outer_words; k += kWarpSize) outer_of(node)[k] = bits_below(n_outer - 32 * k);
        if (lane_id() == 0) set_held(node, held);
        __syncwarp();
        return 1;
    }

    /// Call `visit(row, shared)` for the rows of a set of n_words words, where `first` is the row of bit 0: each lane for its
    /// own row, -1 if it has none. `shared` is the number of candidates adjacent to the row.
    template <class Visit>
    __device__ __forceinline__ void visit_rows(const unsigned* set, int n_words, int first, const unsigned* candidates,
                                               const Visit& visit) const {
        for (int k = 0; k < n_words; ++k) {
            const unsigned word = set[k];
            if (word == 0) continue;
            const bool is_there = word >> lane_id() & 1u;
            const int row = first + 32 * k + lane_id();
            int shared = -1;
            if (is_there) {
                shared = 0;
                for (int y = 0; y < matrix.n_words; ++y) shared += __popc(matrix.at(y, row) & candidates[y]);
            }
            visit(k, row, shared);
        }
    }

    /// Whether a node of at most 32 candidates is done, or given to a lane. If not, too many vertices are excluded.
    __device__ __forceinline__ bool settle(unsigned* node) {
        const int size = set_size(candidates_of(node), matrix.n_words), lane = lane_id();
        if (size > kWarpSize) return false;
        const HeldOutside held = held_of(node);
        if (held.n + size < lanes.least) return true;
        if (size == 0) {
            add_held(node);
            __syncwarp();
            return true;
        }
        list_members(candidates_of(node), matrix.n_words, members);
        unsigned kept = 0;  // this lane's row of the maximal rows of the excluded
        const unsigned all = bits_below(size);
        int state = keep_maximal(queue, matrix, candidates_of(node), excluded_of(node), matrix.n_words, 0, all, kept);
        if (state == 0) state = keep_maximal(queue, matrix, candidates_of(node), outer_of(node), outer_words, n, all, kept);
        if (state != 0) return state > 0;
        const unsigned row = gather_square(square(), members, size);
        const unsigned long long hash = lane < size ? hashes[names[members[lane]]] : 0ull;
        if (lanes.idle() == 0) queue.spend(4 * lanes.run(kWarpSize - kIdleLanes, kAllTurns));
        lanes.give(row, kept, hash, size, held);
        return true;
    }

    /// Choose the branches of a node; false: it has none, and is done.
    __device__ __forceinline__ bool enter(unsigned* node) {
        if (sink.is_done || (!kLists && settle(node))) return false;
        unsigned *const candidates = candidates_of(node), *const rest = rest_of(node);
        const int before = set_size(candidates, matrix.n_words), lane = lane_id();
        if ((int)node[0] + before < lanes.least) return false;
        int best = -1, best_row = 0;
        for (int k = lane; k < matrix.n_words; k += kWarpSize) rest[k] = 0;
        __syncwarp();
        visit_rows(candidates, matrix.n_words, 0, candidates, [&](int k, int row, int shared) {
            const unsigned common = __ballot_sync(kFullMask, shared == before - 1);
            if (lane == 0) rest[k] = common;
            if (shared < before - 1 && shared > best) {
                best = shared;
                best_row = row;
            }
        });
        __syncwarp();
        const int n_common = set_size(rest, matrix.n_words), size = before - n_common;
        if (n_common != 0) {
            best = best < 0 ? best : best - n_common;
            hold_common(node, n_common);
        }
        spend((long long)before * matrix.n_words);
        if (size == 0) {
            add_held(node);
            __syncwarp();
            return false;
        }
        bool is_extended = false;
        const auto look = [&](int row, int shared) {
            is_extended |= shared == size;
            if (shared > best) {
                best = shared;
                best_row = row;
            }
        };
        visit_rows(excluded_of(node), matrix.n_words, 0, candidates, [&](int, int row, int shared) { look(row, shared); });
        unsigned* const outer = outer_of(node);
        visit_rows(outer, outer_words, n, candidates, [&](int k, int row, int shared) {
            look(row, shared);
            const unsigned near = __ballot_sync(kFullMask, shared > 0);
            __syncwarp();
            if (lane == 0) outer[k] = near;
        });
        __syncwarp();
        if (__ballot_sync(kFullMask, is_extended) != 0) return false;
        const unsigned most = ~warp_least(~(unsigned)(best + 1));
        const int who = __ffs((int)__ballot_sync(kFullMask, (unsigned)(best + 1) == most)) - 1;
        const int pivot = __shfl_sync(kFullMask, best_row, who);
        for (int k = lane; k < matrix.n_words; k += kWarpSize) rest[k] = candidates[k] & ~matrix.at(k, pivot);
        __syncwarp();
        return true;
    }

    /// Hold the candidates in `rest`, which are adjacent to all others: excluded vertices must be adjacent to them.
    __device__ __forceinline__ void hold_common(unsigned* node, int n_common) {
        const int lane = lane_id();
        unsigned *const candidates = candidates_of(node), *const excluded = excluded_of(node), *const rest = rest_of(node);
        list_members(rest, matrix.n_words, members);
        unsigned long long hash = 0;
        for (int i = lane; i < n_common; i += kWarpSize) {
            hash += hashes[names[members[i]]];
            if (kLists) path[(int)node[0] + i] = names[members[i]];
        }
        hash = warp_sum(hash);
        for (int k = lane; k < matrix.n_words; k += kWarpSize) {
            unsigned near = excluded[k];
            for (int i = 0; i < n_common; ++i) near &= matrix.at(k, members[i]);
            excluded[k] = near;
            candidates[k] &= ~rest[k];
        }
        unsigned* const outer = outer_of(node);
        for (int k = 0; k < outer_words; ++k) {
            const unsigned word = outer[k];
            if (word == 0) continue;
            bool is_near = word >> lane & 1u;
            for (int y = 0; y < matrix.n_words; ++y)
                if (is_near) is_near = (rest[y] & ~matrix.at(y, n + 32 * k + lane)) == 0;
            const unsigned near = __ballot_sync(kFullMask, is_near);
            __syncwarp();
            if (lane == 0) outer[k] = near;
        }
        const HeldOutside held = held_of(node);
        __syncwarp();
        if (lane == 0) set_held(node, HeldOutside{held.n + n_common, held.hash + hash});
        __syncwarp();
    }

    __device__ __forceinline__ void write_branch(unsigned* node, int next, unsigned* to) {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            candidates_of(to)[k] = candidates_of(node)[k] & matrix.at(k, next);
            excluded_of(to)[k] = excluded_of(node)[k] & matrix.at(k, next);
        }
        for (int k = 0; k < outer_words; ++k) {
            const unsigned word = outer_of(node)[k];
            const bool is_near =
                (word >> lane_id() & 1u) && (matrix.at(next / 32, n + 32 * k + lane_id()) >> (next & 31) & 1u);
            const unsigned near = word == 0 ? 0u : __ballot_sync(kFullMask, is_near);
            if (lane_id() == 0) outer_of(to)[k] = near;
        }
        const HeldOutside held = held_of(node);
        if (lane_id() == 0) set_held(to, HeldOutside{held.n + 1, held.hash + hashes[names[next]]});
        spend((outer_words + 1) * matrix.n_words);
        __syncwarp();
    }

    /// Exclude the candidate whose branch was taken from the branches after it.
    __device__ __forceinline__ void drop_branch(unsigned* node, int next) const {
        __syncwarp();
        if (lane_id() == 0) {
            const unsigned bit = 1u << (next & 31);
            candidates_of(node)[next / 32] &= ~bit;
            excluded_of(node)[next / 32] |= bit;
            rest_of(node)[next / 32] &= ~bit;
        }
        __syncwarp();
    }

    __device__ __forceinline__ int next_branch(unsigned* node) const {
        return first_member(rest_of(node), matrix.n_words);
    }

    __device__ __forceinline__ void follow(const unsigned* node, int next) const {
        if (kLists && lane_id() == 0) path[node[0]] = names[next];
    }

    /// Exclude the candidates of the branches that stay.
    __device__ __forceinline__ bool write_half(unsigned* node) {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) {
            const unsigned stays = rest_of(node)[k] & ~rest_of(branch)[k];
            candidates_of(branch)[k] = candidates_of(node)[k] & ~stays;
            excluded_of(branch)[k] = excluded_of(node)[k] | stays;
        }
        for (int k = lane_id(); k < outer_words; k += kWarpSize) outer_of(branch)[k] = outer_of(node)[k];
        if (lane_id() == 0) set_held(branch, held_of(node));
        __syncwarp();
        return set_size(candidates_of(branch), matrix.n_words) > kWarpSize;
    }

    __device__ __forceinline__ bool is_open(unsigned* node) const { return is_worth(node); }

    __device__ __forceinline__ bool is_worth(unsigned* node) const {
        return set_size(candidates_of(node), matrix.n_words) >= kSharedCandidates;
    }

    /// Append the rows of a set that have one of the candidates of `branch` to the list; returns its new length.
    __device__ __forceinline__ int choose_near(const unsigned* set, int n_words, int first, int n_chosen) const {
        visit_rows(set, n_words, first, candidates_of(branch), [&](int, int row, int shared) {
            const unsigned near = __ballot_sync(kFullMask, shared > 0);
            if (shared > 0) chosen[n_chosen + __popc(near & lanes_before(lane_id()))] = row;
            n_chosen += __popc(near);
        });
        __syncwarp();
        return n_chosen;
    }

    __device__ __forceinline__ bool offer(const unsigned* node, int next) const {
        int n_chosen = choose_near(excluded_of(branch), matrix.n_words, 0, 0);
        n_chosen = choose_near(outer_of(branch), outer_words, n, n_chosen);
        const int size = set_size(candidates_of(branch), matrix.n_words), n_rows = size + n_chosen, n_words = words_for(size);
        const int n_path = kLists ? (int)branch[0] : 0;
        if ((long long)(n_rows + 1) * n_words + size + kMaximalHead + n_path > queue.slot_words) return false;
        list_members(candidates_of(branch), matrix.n_words, members);
        return queue.offer([&](unsigned* slot) {
            if (lane_id() == 0) {
                slot[0] = kMaximalSlot;
                slot[1] = (unsigned)size;
                slot[2] = (unsigned)n_chosen;
                slot[3] = branch[0];
                slot[4] = branch[1];
                slot[5] = branch[2];
                slot[6] = next < 0 ? 1u : 0u;
            }
            for (int i = lane_id(); i < size; i += kWarpSize) slot[kMaximalHead + i] = (unsigned)names[members[i]];
            const RowList rows{slot + kMaximalHead + size, n_rows, n_rows, n_words};
            gather_rows(rows, matrix, [&](int r) { return r < size ? members[r] : chosen[r - size]; }, n_rows, members, size);
            unsigned* to = rows.words + n_words * n_rows;
            if (next < 0) gather_set(to, rest_of(branch), members, size);
            if (!kLists) return;
            to = copy_out(to + (next < 0 ? n_words : 0), path, (int)node[0]);
            if (next >= 0 && lane_id() == 0) to[0] = (unsigned)names[next];
        });
    }
};

template <>
constexpr bool kKeepsWork<MaximalSearch> = true;

/// Blocks of at most 4 warps.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
clique_maximal(const long long* __restrict__ indptr, const int* __restrict__ ids,
               const long long* __restrict__ earlier_indptr, const int* __restrict__ earlier_ids,
               const unsigned long long* __restrict__ hashes, SEARCH_PARAMETERS, const int least, unsigned long long* sums,
               unsigned long long* checksum RECORD_PARAMETERS) {
    constexpr int kWords = MaximalSearch::kCounterWords;
    __shared__ unsigned few[SizeCounts::kHeld * SizeCounts::kFree];
    Arena arena SEARCH_ARENA(kWords);
    TreeQueue queue SEARCH_QUEUE;
    const SizeCounts counts{few, sums, SizeCounts::kFree};
    counts.clear();
    unsigned* const own = warp_memory(kWords + near_words) + lane_id();
    MaximalLanes lanes{least, counts, own,           own + 4 * kWarpSize * kWarpSize,
                       0,     0,      HeldOutside{}, 0,
                       0,     0,      0,             0,
                       0,     false};
    MaximalSearch search{{arena, queue, Adjacency{indptr, ids}, RowList{}, nullptr, nullptr, nullptr, nullptr, false, 0, 0, 0},
                         Adjacency{earlier_indptr, earlier_ids},
                         hashes,
                         checksum,
                         lanes,
                         RECORD_SINK,
                         nullptr,
                         nullptr,
                         0,
                         0,
                         0};
    run_search(arena, queue, SearchItems SEARCH_ITEMS, search, block_words);
    counts.flush();
}
