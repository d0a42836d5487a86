// Probes of the searches for cliques, and for maximal cliques with MAXIMAL 1: one random branch of the tree of each item.
//
// Requires: later neighbours as clique.cu, and earlier ones as clique_maximal.cu; root and seed of each probe.
// A warp owns a probe. It fills the matrix of the root, determines the number of candidates of every branch of a node, counts
// branches with none or one whole, draws one of the others, and divides by the probability of each step. The branches equal
// those of kernels/clique/probe_loops.py, bit for bit: every draw is a hash, every product is rounded separately.
// ways[missing * stride + n]: cliques of a leaf; bounds, bound_roots: weights for drawing branches (ProbeTables of
// question.py); rows of the tables from n_rows on equal the last one. With MAXIMAL 1 bounds have one row.
// whole: nodes of roots with more neighbours have matrices of their own, whose words count.
// per: 0 for totals, 1 for counts per vertex, 2 per edge.
// found: the results of each probe (Found of probe.cuh); the words of the root include the entries read to open it, and the
// words of leaves the sums that they add to.
// Memory of a warp: `near_words` of shared memory, `far_words` of the slab.
// Source: Knuth, Math. Comp. 29, 1975; Veach and Guibas, SIGGRAPH 1995.
#include "clique_matrix.cuh"
#include "probe.cuh"

#ifndef MAXIMAL
#define MAXIMAL 0
#endif

/// The cliques of leaves.
struct Leaves {
    const double* ways;
    int last_row;
    int stride;
    int least;
    int most;
    int whole;

    /// The row of a node with this many held vertices, in all tables.
    __device__ __forceinline__ long long row(int held) const { return (long long)min(most - held, last_row) * stride; }

    /// Count n equal leaves.
    __device__ __forceinline__ void add(const Found& found, double weight, long long n, int held, int free) const {
        if (n <= 0) return;
        const double count = ways[row(held) + free];
        double members = multiply((double)(least == most ? most : held), count);
        if (least != most && free > 0 && held < most) members += multiply((double)free, ways[row(held + 1) + free - 1]);
        found.add_motifs(multiply(weight, multiply((double)n, count)), multiply(weight, multiply((double)n, members)));
    }
};

/// The number of sums of vertices (per 1), or of edges (2), that a leaf adds to: of a path and of adjacent candidates.
__device__ __forceinline__ long long count_sums(int per, long long n_path, long long size, long long edges) {
    if (per == 0) return 0;
    return per == 1 ? n_path + size : n_path * (n_path - 1) / 2 + n_path * size + edges;
}

/// A root, its matrix and the current node; rows from n on belong to the vertices before the root.
struct Node {
    RowList matrix;
    int n;
    int* names;
    unsigned* candidates;
    unsigned* rest;     // candidates with a branch
    unsigned* covered;  // candidates adjacent to an excluded vertex
    int* kids;          // the candidates with a branch, ascending
    int* places;        // in the bounds, of each branch; the place of a pivot first
    int* excluded;      // rows, in order

    __device__ __forceinline__ Node(Arena& arena, int n, int n_earlier) : n(n) {
        const int n_rows = n + n_earlier, n_words = words_for(n);
        names = reinterpret_cast<int*>(arena.take(n));
        candidates = arena.take(n_words);
        rest = arena.take(n_words);
        covered = arena.take(n_words);
        kids = reinterpret_cast<int*>(arena.take(n));
        places = reinterpret_cast<int*>(arena.take(n + 1));
        matrix = RowList{arena.take((long long)n_rows * n_words), n_rows, n_rows, n_words};
        excluded = MAXIMAL ? reinterpret_cast<int*>(arena.take(n_rows)) : nullptr;
    }

    /// The matrix of a root; all candidates. The warp.
    __device__ __forceinline__ void open(const Adjacency& later, int root) {
#pragma unroll 1
        for (int i = lane_id(); i < n; i += kWarpSize) names[i] = later.ids[later.indptr[root] + i];
        clear_words(matrix.words, (long long)matrix.n * matrix.n_words);
        fill_square(matrix, names, n, later);
        fill_set(candidates, n);
    }

    /// Number of candidates adjacent to a row. Any lane alone.
    __device__ __forceinline__ int shared_of(int row) const { return count_in_set(matrix, row, candidates); }

    /// Candidates of the branch of a kid: those of the node without earlier kids. Any lane alone.
    __device__ __forceinline__ int size_of_branch(int kid) const {
        int size = 0;
#pragma unroll 1
        for (int k = 0; k < matrix.n_words; ++k)
            size += __popc(matrix.at(k, kid) & candidates[k] & ~(rest[k] & bits_below(kid - 32 * k)));
        return size;
    }

    /// Go to the branch of a row: `kid`, or a pivot, whose branch leaves none out. The warp.
    __device__ __forceinline__ void enter(int row, bool is_kid) {
        __syncwarp();
#pragma unroll 1
        for (int k = lane_id(); k < matrix.n_words; k += kWarpSize)
            candidates[k] &= matrix.at(k, row) & ~(is_kid ? rest[k] & bits_below(row - 32 * k) : 0u);
        __syncwarp();
    }

    /// The first of the rows with most candidates in common, in a warp whose lanes have the first of their rows, or 0 for none:
    /// `most` is 1 more than the number in common, `at` the place in the order. Returns its place.
    __device__ __forceinline__ static unsigned first_of_most(unsigned& most, unsigned at) {
        const unsigned all = ~warp_least(~most);
        const unsigned first = warp_least(most == all ? at : kFullMask);
        most = all;
        return first;
    }
};

#if MAXIMAL

/// The row adjacent to most candidates, excluded ones first; -1: an excluded one is adjacent to all.
__device__ __forceinline__ int choose_extended(const Node& node, int size, int n_excluded) {
    unsigned most = 0, at = 0, most_kid = 0, kid = 0;
    bool is_extended = false;
#pragma unroll 1
    for (int i = lane_id(); i < n_excluded; i += kWarpSize) {
        const unsigned shared = (unsigned)node.shared_of(node.excluded[i]) + 1;
        is_extended |= (int)shared == size + 1;
        if (shared > most) {
            most = shared;
            at = (unsigned)i;
        }
    }
    if (__ballot_sync(kFullMask, is_extended) != 0) return -1;
#pragma unroll 1
    for (int k = 0; k < node.matrix.n_words; ++k) {
        const int row = 32 * k + lane_id();
        if ((node.candidates[k] >> lane_id() & 1u) == 0) continue;
        const unsigned shared = (unsigned)node.shared_of(row) + 1;
        if (shared > most_kid) {
            most_kid = shared;
            kid = (unsigned)row;
        }
    }
    __syncwarp();
    at = Node::first_of_most(most, at);
    kid = Node::first_of_most(most_kid, kid);
    return most >= most_kid ? node.excluded[at] : (int)kid;
}

/// Take the rows of earlier neighbours that are adjacent to a candidate as excluded ones; returns their number.
__device__ __forceinline__ int fill_earlier(const Node& node, const Adjacency& later, const int* ids, int n_ids) {
    find_members(later, ids, n_ids, node.names, node.n,
                 [&](int i, int j) { atomicOr(&node.matrix.at(j / 32, node.n + i), 1u << (j & 31)); });
    int n = 0;
#pragma unroll 1
    for (int begin = 0; begin < n_ids; begin += kWarpSize) {
        const int row = node.n + begin + lane_id();
        const bool stays = begin + lane_id() < n_ids && node.shared_of(row) != 0;
        const unsigned all = __ballot_sync(kFullMask, stays);
        if (stays) node.excluded[n + __popc(all & lanes_before(lane_id()))] = row;
        n += __popc(all);
    }
    __syncwarp();
    return n;
}

/// Add the kids before one to n excluded rows, and keep the rows adjacent to it and to a candidate of its branch, which is
/// already the node; returns their number.
__device__ __forceinline__ int keep_excluded(const Node& node, int n, int n_before, int kid) {
#pragma unroll 1
    for (int i = lane_id(); i < n_before; i += kWarpSize) node.excluded[n + i] = node.kids[i];
    __syncwarp();
    int kept = 0;
#pragma unroll 1
    for (int begin = 0; begin < n + n_before; begin += kWarpSize) {
        const int i = begin + lane_id(), row = i < n + n_before ? node.excluded[i] : 0;
        const bool stays = i < n + n_before && (node.matrix.at(kid / 32, row) >> (kid & 31) & 1u) != 0 &&
                           node.shared_of(row) != 0;
        const unsigned all = __ballot_sync(kFullMask, stays);
        __syncwarp();
        if (stays) node.excluded[kept + __popc(all & lanes_before(lane_id()))] = row;
        __syncwarp();
        kept += __popc(all);
    }
    return kept;
}

/// A branch below a root.
__device__ __forceinline__ void walk(Node& node, const Found& found, Draws& draws, int n_excluded, int least, const double* bounds,
                     const double* bound_roots) {
    const int w = wide_words(node.n), n_words = node.matrix.n_words, lane = lane_id();
    Chances chances(draws);
#pragma unroll 1
    for (int held = 1;; ++held) {
        const int size = set_size(node.candidates, n_words);
        const double weight = chances.weight();
        found.add_nodes(weight);
        if (held + size < least) return;
        found.add_words(multiply(weight, (double)((long long)(size + n_excluded) * w)));
        const int pivot = choose_extended(node, size, n_excluded);
        if (pivot < 0) return;
#pragma unroll 1
        for (int k = 0; k < n_words; ++k) {
            unsigned word = 0;
#pragma unroll 1
            for (int i = lane; i < n_excluded; i += kWarpSize) word |= node.matrix.at(k, node.excluded[i]);
            word = warp_or(word);
            if (lane == 0) {
                node.covered[k] = word;
                node.rest[k] = node.candidates[k] & ~node.matrix.at(k, pivot);
            }
        }
        __syncwarp();
        const int n = list_members(node.rest, n_words, node.kids);
        unsigned maximal = 0, dead = 0;
#pragma unroll 1
        for (int i = lane; i < n; i += kWarpSize) {
            const int kid = node.kids[i], below = node.size_of_branch(kid);
            node.places[i] = below;
            if (below == 0) {
                bool is_extended = node.covered[kid / 32] >> (kid & 31) & 1u;
#pragma unroll 1
                for (int k = 0; k <= kid / 32; ++k)
                    is_extended |= (node.rest[k] & bits_below(kid - 32 * k) & node.matrix.at(k, kid)) != 0;
                maximal += !is_extended;
                node.places[i] = -1;
            } else if (held + 1 + below < least) {
                ++dead;
                node.places[i] = -1;
            }
        }
        __syncwarp();
        const double n_maximal = warp_total(maximal);
        found.add_words(multiply(weight, (double)((long long)n * w)));
        found.add_nodes(multiply(weight, (double)warp_total(dead)));
        if (held + 1 >= least) found.add_motifs(multiply(weight, n_maximal), multiply(weight, n_maximal * (held + 1)));
        const int chosen = chances.draw(draws, node.places, n, bounds, bound_roots);
        if (chosen < 0) return;
        node.enter(node.kids[chosen], true);
        n_excluded = keep_excluded(node, n_excluded, chosen, node.kids[chosen]);
    }
}

#else

/// Take the candidates adjacent to all others as free, and return the first one adjacent to most of the others, or -1.
__device__ __forceinline__ int choose_pivot(const Node& node, int size, int& free) {
    unsigned most = 0, best = 0;
#pragma unroll 1
    for (int k = 0; k < node.matrix.n_words; ++k) {
        const int row = 32 * k + lane_id();
        const bool is_there = node.candidates[k] >> lane_id() & 1u;
        const int shared = is_there ? node.shared_of(row) : 0;
        const unsigned all = __ballot_sync(kFullMask, is_there && shared == size - 1);
        if (is_there && shared < size - 1 && (unsigned)shared + 1 > most) {
            most = (unsigned)shared + 1;
            best = (unsigned)row;
        }
        if (lane_id() == 0) node.rest[k] = all;
    }
    __syncwarp();
    free += set_size(node.rest, node.matrix.n_words);
#pragma unroll 1
    for (int k = lane_id(); k < node.matrix.n_words; k += kWarpSize) node.candidates[k] &= ~node.rest[k];
    best = Node::first_of_most(most, best);
    __syncwarp();
    return most == 0 ? -1 : (int)best;
}

/// The edges among the candidates.
__device__ __forceinline__ long long count_edges(const Node& node) {
    unsigned long long ends = 0;
#pragma unroll 1
    for (int k = 0; k < node.matrix.n_words; ++k)
        if (node.candidates[k] >> lane_id() & 1u) ends += (unsigned)node.shared_of(32 * k + lane_id());
    return (long long)(warp_sum(ends) / 2);
}

/// Words that the search intersects in order at a node that lacks two vertices: from the word of each candidate on.
__device__ __forceinline__ long long count_words_after(const Node& node, int w) {
    unsigned words = 0;
#pragma unroll 1
    for (int k = lane_id(); k < node.matrix.n_words; k += kWarpSize)
        words += (unsigned)(__popc(node.candidates[k]) * (w - k / 2));
    return (long long)warp_sum(words);
}

/// A branch below a root.
__device__ __forceinline__ void walk(Node& node, const Found& found, Draws& draws, bool oriented, int per, const Leaves& leaves, const double* bounds,
                     const double* bound_roots) {
    const int n_words = node.matrix.n_words, lane = lane_id();
    const int least = leaves.least, most = leaves.most;
    Chances chances(draws);
    int held = 1, free = 0, n_columns = node.n;  // of the matrix that the search has here
#pragma unroll 1
    for (;;) {
        const int size = set_size(node.candidates, n_words), missing = most - held;
        const double weight = chances.weight();
        found.add_nodes(weight);
        if (held + free + size < least) return;
        int w = wide_words(n_columns);
        if (missing == 1 || missing == 2) {
            leaves.add(found, weight, 1, held, free);
            leaves.add(found, weight, size, held + 1, free);
            long long words = 0, edges = 0;
            if (missing == 2 && size > 1) {
                edges = count_edges(node);
                leaves.add(found, weight, edges, held + 2, free);
                words = oriented ? count_words_after(node, w) : (long long)size * w / 2;
            }
            found.add_words(multiply(weight, (double)(words + count_sums(per, held + free, size, edges))));
            return;
        }
        const bool is_few = size > kWarpSize && 2 * words_for(size) <= words_for(n_columns);
        if (!oriented && missing != 0 && node.n > leaves.whole && is_few) {
            n_columns = size;
            w = wide_words(size);
            found.add_words(multiply(weight, (double)((long long)size * w)));
        }
        int pivot = -1;
        if (!oriented && missing != 0) {
            pivot = choose_pivot(node, size, free);
            found.add_words(multiply(weight, (double)((long long)size * w)));
        }
        if (missing == 0 || (pivot < 0 && !oriented)) {
            leaves.add(found, weight, 1, held, free);
            found.add_words(multiply(weight, (double)count_sums(per, held + free, 0, 0)));
            return;
        }
        const int n_pivots = pivot >= 0;
#pragma unroll 1
        for (int k = lane; k < n_words; k += kWarpSize) {
            const unsigned own = n_pivots ? bit_of(pivot, k) : 0u;
            node.rest[k] = node.candidates[k] & ~(n_pivots ? node.matrix.at(k, pivot) | own : 0u);
            node.candidates[k] &= ~own;
        }
        __syncwarp();
        const int n_kids = list_members(node.rest, n_words, node.kids), n = n_kids + n_pivots;
        // Places count from the row of the kids on.
        const long long row = leaves.row(held + 1);
        unsigned none = 0, single = 0, dead = 0;
        if (n_pivots && lane == 0) {
            const int shared = free + 1 + node.shared_of(pivot);
            const bool is_dead = held + shared < least;
            node.places[0] = is_dead ? -1 : (int)(leaves.row(held) - row) + shared;
            dead += is_dead;
        }
#pragma unroll 1
        for (int i = lane; i < n_kids; i += kWarpSize) {
            const int below = node.size_of_branch(node.kids[i]);
            const bool is_dead = held + 1 + free + below < least;
            dead += is_dead;
            none += !is_dead && below == 0;
            single += !is_dead && below == 1;
            node.places[n_pivots + i] = is_dead || below <= 1 ? -1 : free + below;
        }
        none = warp_total(none);
        single = warp_total(single);
        dead = warp_total(dead);
        __syncwarp();
        found.add_nodes(multiply(weight, (double)((long long)none + single + dead)));
        leaves.add(found, weight, none, held + 1, free);
        if (missing - 1 <= 2) {
            leaves.add(found, weight, single, held + 1, free);
            leaves.add(found, weight, single, held + 2, free);
        } else {
            leaves.add(found, weight, single, held + 1, free + 1);
            found.add_words(multiply(weight, (double)((long long)single * w)));
        }
        const long long n_path = held + 1 + free;
        const long long sums = none * count_sums(per, n_path, 0, 0) + single * count_sums(per, n_path, 1, 0);
        found.add_words(multiply(weight, (double)sums));
        found.add_words(multiply(weight, (double)((long long)n * w)));
        const int chosen = chances.draw(draws, node.places, n, bounds + row, bound_roots + row);
        if (chosen < 0) return;
        const bool is_kid = chosen >= n_pivots;
        node.enter(is_kid ? node.kids[chosen - n_pivots] : pivot, is_kid);
        (is_kid ? held : free) += 1;
    }
}

#endif

/// The number of later neighbours of n vertices: entries read to open a root. The warp.
__device__ __forceinline__ long long count_entries(const Adjacency& later, const int* ids, int n) {
    unsigned long long entries = 0;
#pragma unroll 1
    for (int i = lane_id(); i < n; i += kWarpSize) entries += (unsigned long long)later.size(ids[i]);
    return (long long)warp_sum(entries);
}

extern "C" __global__ void __launch_bounds__(128, 4)
clique_probe(const long long* __restrict__ later_indptr, const int* __restrict__ later_ids,
             const long long* __restrict__ earlier_indptr, const int* __restrict__ earlier_ids,
             const int* __restrict__ roots, const unsigned long long* __restrict__ seeds, const int n_probes,
             const int near_words, unsigned* slab, const long long far_words, const int oriented, const int per,
             const int least, const int most, const int whole, const double* __restrict__ ways, const double* __restrict__ bounds,
             const double* __restrict__ bound_roots, const int n_rows, const int stride, double* found) {
    const Adjacency later{later_indptr, later_ids};
    for_each_probe(n_probes, near_words, slab, far_words, [&](Arena& arena, int probe) {
        const int root = roots[probe], n = (int)later.size(root);
        const Found own(found, probe);
        Draws draws{seeds[probe]};
#if MAXIMAL
        const long long first = earlier_indptr[root];
        const int n_earlier = (int)(earlier_indptr[root + 1] - first);
        if (n == 0) {
            own.add_nodes(1.0);
            if (n_earlier == 0 && least <= 1) own.add_motifs(1.0, 1.0);
            return;
        }
        Node node(arena, n, n_earlier);
        node.open(later, root);
        walk(node, own, draws, fill_earlier(node, later, earlier_ids + first, n_earlier), least, bounds, bound_roots);
        own.add_words((double)count_entries(later, later_ids + later_indptr[root], n));
        own.add_words((double)count_entries(later, earlier_ids + first, n_earlier));
#else
        Node node(arena, n, 0);
        if (n != 0) node.open(later, root);
        walk(node, own, draws, oriented != 0, per, Leaves{ways, n_rows - 1, stride, least, most, whole}, bounds, bound_roots);
        // Triangles are counted as the lists are read, without a matrix.
        if (oriented != 0 && most == 3 && lane_id() == 0) own.sums[3] = 0.0;
        own.add_words((double)count_entries(later, later_ids + later_indptr[root], n));
#endif
    });
}
