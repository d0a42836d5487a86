// The nodes that a warp goes through on a matrix of candidates: what the searches of cliques and of maximal cliques share.
//
// Nodes are frames of a stack: kNodeHead words that mean something to the search, the candidates, those of them that have a
// branch left (`rest`), and what else the search keeps, as sets of bits. A Search has
//   int node_words()                      of a frame
//   bool enter(node)                      chooses the branches of a new node; false: it has none, and is done with
//   int next_branch(node)                 the candidate whose branch comes next, or -1
//   void write_branch(node, next, to)     writes its node
//   void drop_branch(node, next)          takes it away
//   void follow(node, next)               goes into it
//   bool write_half(node)                 makes `branch`, whose `rest` are every second of the node's branches, a node that
//                                         these alone are left of; false: it is not worth being left to others
//   bool is_worth(branch)                 whether a new node is
//   bool is_open(node)                    whether branches of a node may be, if they have room in a slot
//   bool offer(node, next)                leaves `branch`, that one or a half (-1), to others; false: none waits, or no room
// Functions are called by all lanes of a warp together.
#pragma once

#include "clique_matrix.cuh"
#include "clique_share.cuh"
#include "search.cuh"

constexpr int kNodeHead = 4;
/// Nodes that a warp leaves to others at once.
constexpr int kSharedAtOnce = 4;

template <class Search, class Matrix>
struct NodeSearch {
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    Adjacency later;
    Matrix matrix;
    int* names;         // ranks of the candidates
    int* members;       // room for all candidates
    unsigned* branch;   // a node, for others
    unsigned* nodes;    // nullptr: the lanes alone have some
    bool has_branches;  // whether the first node has its branches already
    int open_level;     // of the first node whose branches may be worth leaving to others
    unsigned long long words;  // of this lane

    __device__ __forceinline__ bool open_child(int) const { return true; }
    __device__ __forceinline__ void close() const {}

  protected:
    __device__ __forceinline__ Search& self() { return *static_cast<Search*>(this); }
    __device__ __forceinline__ unsigned* node_at(int level) {
        return nodes + (long long)level * self().node_words();
    }
    __device__ __forceinline__ unsigned* candidates_of(unsigned* node) const { return node + kNodeHead; }
    __device__ __forceinline__ unsigned* rest_of(unsigned* node) const { return node + kNodeHead + matrix.n_words; }

    /// The lanes in a slot of the queue.
    template <class Lanes>
    __device__ __forceinline__ void read_lanes(Lanes& lanes, const unsigned* slot) {
        nodes = nullptr;
        take_lanes(lanes, slot);
    }

    /// Go through all nodes from the first on.
    __device__ __forceinline__ void search_nodes() {
        int level = nodes == nullptr ? -1 : 0;
        open_level = 0;
        bool is_new = !has_branches;
        while (level >= 0) {
            if (is_new && !self().enter(node_at(level))) {
                is_new = false;
                --level;
                continue;
            }
            share(level);
            unsigned* const node = node_at(level);
            const int next = self().next_branch(node);
            is_new = next >= 0;
            if (is_new) {
                __syncwarp();
                self().write_branch(node, next, node_at(level + 1));
                self().follow(node, next);
                self().drop_branch(node, next);
                open_level = min(open_level, level + 1);
            }
            level += is_new ? 1 : -1;
        }
    }

    /// Leave half of the branches of the highest node that has some worth it to others, or its last one, if they wait, and
    /// once more. Nodes before open_level have none, nor will they: only a new one at its level may.
    __device__ __forceinline__ void share(int level) {
        if (open_level > level || !queue.is_wanted()) return;
        for (int i = open_level, n_left = 0; i <= level && n_left < kSharedAtOnce;) {
            unsigned* const node = node_at(i);
            __syncwarp();
            const bool is_open = self().is_open(node);
            const bool is_half = is_open && list_half(node, rest_of(branch)) && self().write_half(node);
            const int next = is_half || !is_open ? -1 : self().next_branch(node);
            __syncwarp();
            if (next >= 0) self().write_branch(node, next, branch);
            if (!is_half && (next < 0 || !self().is_worth(branch))) {
                open_level += (int)(i == open_level && (next < 0 || !self().is_open(branch)));
                ++i;
                continue;
            }
            if (!self().offer(node, next)) return;
            ++n_left;
            if (is_half)
                drop_branches(node, rest_of(branch));
            else
                self().drop_branch(node, next);
        }
    }

    /// Rows of the matrix were intersected.
    __device__ __forceinline__ void spend(long long n_words) {
        words += lane_id() == 0 ? (unsigned long long)n_words : 0ull;
        queue.spend((int)(n_words / kWarpSize) + 1);
    }

    /// All of n candidates.
    __device__ __forceinline__ void fill_candidates(unsigned* node, int n) const {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) candidates_of(node)[k] = bits_below(n - 32 * k);
    }

    /// Write every second one of the branches to `half`; false: there are fewer than two.
    __device__ __forceinline__ bool list_half(unsigned* node, unsigned* half) const {
        const bool has_two = set_size(rest_of(node), matrix.n_words) >= 2;
        if (has_two) list_every_second(rest_of(node), matrix.n_words, half);
        return has_two;
    }

    __device__ __forceinline__ void drop_branches(unsigned* node, const unsigned* branches) const {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest_of(node)[k] &= ~branches[k];
        __syncwarp();
    }
};

/// Copy n words from a slot of the queue, or to one; where the next ones begin.
template <class Word>
__device__ __forceinline__ const unsigned* copy_in(Word* to, const unsigned* from, int n) {
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (Word)from[i];
    return from + n;
}
__device__ __forceinline__ unsigned* copy_out(unsigned* to, const int* from, int n) {
    for (int i = lane_id(); i < n; i += kWarpSize) to[i] = (unsigned)from[i];
    return to + n;
}
