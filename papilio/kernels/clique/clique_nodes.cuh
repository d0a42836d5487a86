// The nodes that a warp goes through on a matrix of candidates: what the searches of cliques and of maximal cliques share.
//
// Nodes are frames of a stack: kNodeHead words that mean something to the search, the candidates, those of them that have a
// branch left (`rest`), and what else the search keeps, as sets of bits. A Search has
//   int node_words()                  of a frame
//   bool enter(node)                  chooses the branches of a new node; false: it has none, and is done with
//   bool take_branch(node, below)     takes its next branch away and writes it to the frame below; false: there is none
//   bool share_half(node)             leaves the later half of its branches to others; false: there are too few
//   bool share_next(node)             leaves its next branch to others; false: there is none, or too little of it
// Functions are called by all lanes of a warp together.
#pragma once

#include "clique_matrix.cuh"
#include "search.cuh"

constexpr int kNodeHead = 4;

template <class Search, class Matrix>
struct NodeSearch {
    static constexpr bool kShares = true;

    Arena& arena;
    TreeQueue& queue;
    Adjacency later;
    Matrix matrix;
    int* names;         // ranks of the candidates
    int* members;       // room for all candidates
    unsigned* branch;   // what is left to others
    unsigned* nodes;
    bool has_branches;  // whether the first node has its branches already
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

    /// Go through all nodes from the first on.
    __device__ __forceinline__ void search_nodes() {
        int level = 0;
        bool is_new = !has_branches;
        while (level >= 0) {
            if (is_new && !self().enter(node_at(level))) {
                is_new = false;
                --level;
                continue;
            }
            share(level);
            is_new = self().take_branch(node_at(level), node_at(level + 1));
            level += is_new ? 1 : -1;
        }
    }

    /// Leave branches of the highest node that has some worth it to others, if they wait.
    __device__ __forceinline__ void share(int level) {
        if (!queue.is_wanted()) return;
        for (int i = 0; i <= level; ++i)
            if (self().share_half(node_at(i)) || self().share_next(node_at(i))) return;
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

    /// Write the later half of the branches to `upper`; false: there are fewer than two.
    __device__ __forceinline__ bool list_later_half(unsigned* node, unsigned* upper) const {
        const int n_rest = set_size(rest_of(node), matrix.n_words);
        if (n_rest >= 2) drop_first(rest_of(node), matrix.n_words, n_rest / 2, upper);
        return n_rest >= 2;
    }

    __device__ __forceinline__ void drop_branches(unsigned* node, const unsigned* upper) const {
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize) rest_of(node)[k] &= ~upper[k];
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
