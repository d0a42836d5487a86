// Probes of the searches for (p,q)-bicliques: one random branch each, by enumeration and by pivots.
//
// Requires: the index of biclique.cu; `probe_roots`, `probe_children` (places in `hop`), weights and seeds of each probe.
// A warp owns a probe. It fills the rows of the candidates of the child over the columns shared with the root, descends
// one branch of a pivot tree, or of the tree of subsets, or of both, and divides by the probability of each step. The
// branches equal those of kernels/biclique/probe_loops.py bit for bit: every draw is a hash, every product is rounded
// separately.
// by_size[n]: bicliques of a left side that shares n columns.
// by_sets, by_pivots: the results of each probe (Found of probe.cuh), without vertices; by_sets if bit 0 of `walks` is
// set, by_pivots if bit 1 is. Words have 64 bits.
// Memory of a warp: `near_words` of shared memory, `far_words` of the slab.
// Source: Knuth, Math. Comp. 29, 1975.
#include "search.cuh"

#include "bit_matrix.cuh"
#include "probe.cuh"

/// The number of sets of `low` to `high` of `free` vertices.
__device__ __forceinline__ double sum_choices(int free, int low, int high) {
    if (low > free) return 0.0;
    double ways = 1.0;
#pragma unroll 1
    for (int taken = 0; taken < low; ++taken) ways = multiply(ways, (double)(free - taken)) / (taken + 1);
    double total = ways;
#pragma unroll 1
    for (int taken = low; taken < min(high, free); ++taken) {
        ways = multiply(ways, (double)(free - taken)) / (taken + 1);
        total += ways;
    }
    return total;
}

/// Keep the rows from `first` on with at least `least` of the columns of `mask`, cut to these columns.
__device__ __forceinline__ void keep_rows(RowList& list, const unsigned* mask, int first, int least) {
    const auto is_kept = [&](int row) { return count_in_set(list, row, mask) >= least; };
    list.n = move_rows(list, first, list.n, mask, list, 0, is_kept);
}

/// A branch of the tree of sets of `take` rows of a list, which is overwritten.
__device__ __forceinline__ void probe_subsets(RowList list, int n_columns, int take, int least, double weight, Draws draws,
                              const double* by_size, unsigned* mask, const Found found) {
    const int n_words = wide_words(n_columns);
    if (take == 0) {
        found.add_motifs(multiply(weight, by_size[n_columns]), 0.0);
        return;
    }
#pragma unroll 1
    for (; take > 2; --take) {
        if (list.n < take) return;
        const long long n = list.n, pairs = n * (n - 1) / 2 - (long long)(take - 1) * (take - 2) / 2;
        found.add_words(multiply(weight, (double)(pairs * n_words)));
        found.add_nodes(multiply(weight, (double)(n - take + 1)));
        const int first = draws.least(list.n, take);
        if (first > list.n - take) return;
        weight /= power_gap(list.n - first, list.n - first - 1, list.n, take);
#pragma unroll 1
        for (int k = lane_id(); k < list.n_words; k += kWarpSize) mask[k] = list.at(k, first);
        __syncwarp();
        keep_rows(list, mask, first + 1, least);
    }
    if (list.n < take) return;
    const long long pairs = (long long)list.n * (list.n - 1) / 2;
    if (take == 2) found.add_words(multiply(weight, (double)(pairs * n_words)));
    double sum = 0.0;
#pragma unroll 1
    for (int i = 0; i < PROBE_PAIRS; ++i) {
        const int one = draws(list.n);
        int two = one;
        if (take == 2) {
            two = draws(list.n - 1);
            two += two >= one;
        }
        unsigned size = 0;
#pragma unroll 1
        for (int k = lane_id(); k < list.n_words; k += kWarpSize) size += (unsigned)__popc(list.at(k, one) & list.at(k, two));
        sum += by_size[warp_total(size)];
    }
    found.add_motifs(multiply(weight * (double)(take == 2 ? pairs : list.n), sum / PROBE_PAIRS), 0.0);
}

/// The line of a set with the fewest gaps, and their number; lines without gaps are taken out of the set.
struct Pivot {
    unsigned gaps;  // kFullMask: no line has any
    int line;
};

__device__ __forceinline__ Pivot choose_pivot(const RowList& lines, unsigned* own, const unsigned* other) {
    unsigned fewest = kFullMask, line = kFullMask;
#pragma unroll 1
    for (int k = 0; k < words_for(lines.n); ++k) {
        const int i = 32 * k + lane_id();
        const bool is_in = own[k] >> lane_id() & 1u;
        unsigned gaps = 0;
        if (is_in)
#pragma unroll 1
            for (int w = 0; w < lines.n_words; ++w) gaps += (unsigned)__popc(other[w] & ~lines.at(w, i));
        const unsigned stays = __ballot_sync(kFullMask, is_in && gaps != 0);
        __syncwarp();
        if (lane_id() == 0) own[k] = stays;
        if (is_in && gaps != 0 && gaps < fewest) {
            fewest = gaps;
            line = (unsigned)i;
        }
        __syncwarp();
    }
    const unsigned best = warp_least(fewest);
    return Pivot{best, (int)warp_least(fewest == best ? line : kFullMask)};
}

/// Cut two sets to a branch of a pivot, a line of `own`: 0 takes the pivot's own, i holds its i-th gap.
__device__ __forceinline__ void take_branch(const RowList& lines, const RowList& across, unsigned* own, unsigned* other,
                                            int pivot, int branch, unsigned* gaps) {
    const int n_other = lines.n_words;
#pragma unroll 1
    for (int k = lane_id(); k < n_other; k += kWarpSize) gaps[k] = other[k] & ~lines.at(k, pivot);
    __syncwarp();
    const int held = branch == 0 ? -1 : find_member(gaps, n_other, branch - 1);
#pragma unroll 1
    for (int k = lane_id(); k < n_other; k += kWarpSize)
        other[k] &= ~(gaps[k] & (held < 0 ? kFullMask : bits_below(held + 1 - 32 * k)));
#pragma unroll 1
    for (int k = lane_id(); k < across.n_words; k += kWarpSize) {
        const unsigned word = own[k] & ~(pivot / 32 == k ? 1u << (pivot & 31) : 0u);
        own[k] = held < 0 ? word : word & across.at(k, held);
    }
    __syncwarp();
}

/// A branch of the pivot tree of a list.
__device__ __forceinline__ void probe_pivots(Arena& arena, const RowList& rows, int n_columns, int min_left, int max_left, int min_right,
                             int max_right, double weight, Draws draws, const Found found) {
    const RowList columns = transpose_rows(arena, rows, n_columns);
    const int n_left = columns.n_words, n_right = rows.n_words;
    unsigned* const left = arena.take(n_left);
    unsigned* const right = arena.take(n_right);
    unsigned* const gaps = arena.take(max(n_left, n_right));
    fill_set(left, rows.n);
    fill_set(right, n_columns);
    int hl = 2, pl = 0, hr = 0, pr = 0;
#pragma unroll 1
    for (;;) {
        int lefts = set_size(left, n_left), rights = set_size(right, n_right);
        if (hl > max_left || hr > max_right || hl + pl + lefts < min_left || hr + pr + rights < min_right) return;
        if (hl == max_left) {
            pl = lefts = 0;
#pragma unroll 1
            for (int k = lane_id(); k < n_left; k += kWarpSize) left[k] = 0;
        }
        if (hr == max_right) {
            pr = rights = 0;
#pragma unroll 1
            for (int k = lane_id(); k < n_right; k += kWarpSize) right[k] = 0;
        }
        __syncwarp();
        const long long words = (long long)lefts * wide_words(n_columns) + (long long)rights * wide_words(rows.n);
        found.add_words(multiply(weight, (double)words));
        found.add_nodes(weight);
        const Pivot row = choose_pivot(rows, left, right), column = choose_pivot(columns, right, left);
        pl += lefts - set_size(left, n_left);
        pr += rights - set_size(right, n_right);
        if (row.gaps == kFullMask) {
            const double of_left = sum_choices(pl, max(min_left - hl, 0), max_left - hl);
            const double of_right = sum_choices(pr, max(min_right - hr, 0), max_right - hr);
            found.add_motifs(multiply(weight * of_left, of_right), 0.0);
            return;
        }
        const bool is_row = row.gaps <= column.gaps;
        const Pivot best = is_row ? row : column;
        const int n_gaps = (int)best.gaps, others = is_row ? set_size(right, n_right) : set_size(left, n_left);
        const int take = max(is_row ? min_right - hr : min_left - hl, 1);
        int branch;
        if (draws(8) == 0) {
            branch = draws(n_gaps + 1);
        } else {
            const int first = draws.least(others, take);
            branch = first < n_gaps ? first + 1 : 0;
        }
        const double chance = branch != 0 ? power_gap(others - branch + 1, others - branch, others, take)
                                          : power_gap(others - n_gaps, 0, others, take);
        weight /= multiply(chance, 0.875) + 0.125 / (n_gaps + 1);
        if (is_row) {
            take_branch(rows, columns, left, right, best.line, branch, gaps);
            (branch == 0 ? pl : hr) += 1;
        } else {
            take_branch(columns, rows, right, left, best.line, branch, gaps);
            (branch == 0 ? pr : hl) += 1;
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
biclique_probe(const long long* __restrict__ indptr, const int* __restrict__ columns,
               const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
               const long long* __restrict__ right_indptr, const int* __restrict__ right_rows,
               const int* __restrict__ probe_roots, const long long* __restrict__ probe_children,
               const double* __restrict__ weights, const unsigned long long* __restrict__ seeds, const int n_probes,
               const int near_words, unsigned* slab, const long long far_words, const int min_left, const int max_left,
               const int min_right, const int max_right, const double* __restrict__ by_size, const int walks,
               double* by_sets, double* by_pivots) {
    const Adjacency rows{indptr, columns}, rights{right_indptr, right_rows};
    for_each_probe(n_probes, near_words, slab, far_words, [&](Arena& arena, int probe) {
        const int root = probe_roots[probe];
        if (root < 0) return;
        const long long child = probe_children[probe];
        const int n_later = (int)(hop_indptr[root + 1] - child) - 1;
        if (n_later < min_left - 2) return;
        int* const shared = reinterpret_cast<int*>(arena.take((long long)min(rows.size(root), rows.size(hop[child]))));
        const int n_columns = list_shared(rows, root, hop[child], shared);
        RowList list{nullptr, 0, 0, words_for(n_columns)};
        if (n_later > 0) list = fill_rows(arena, shared, n_columns, hop + child + 1, n_later, rows, rights);
        __syncwarp();
        unsigned* const mask = arena.take(list.n_words);
        fill_set(mask, n_columns);
        keep_rows(list, mask, 0, min_right);
        if (list.n < min_left - 2) return;
        if (walks & 2)
            probe_pivots(arena, list, n_columns, min_left, max_left, min_right, max_right, weights[probe],
                         Draws{seeds[probe]}, Found(by_pivots, probe));
        if (walks & 1)
            probe_subsets(list, n_columns, min_left - 2, min_right, weights[probe], Draws{~seeds[probe]}, by_size, mask,
                          Found(by_sets, probe));
    });
}

/// Weights by which estimates of counts draw children; see CountTables of kernels/biclique/probe.py.
struct ChildWeights {
    const int* commons;
    long long end;
    const double* by_common;
    int law;

    /// Weight of the child at a place of `hop`.
    __device__ __forceinline__ double weigh(long long at) const {
        const double each = by_common[commons[at]], later = (double)(end - at - 1);
        if (law == 0) return each;
        if (law == 1) return multiply(later, each);
        if (law == 2) return multiply(multiply(later, __dsqrt_rn(later)), each);
        return multiply(later + 1.0, each);
    }
};

/// Lots of each piece: the weights of its children; 0 for the root -1. A warp per piece.
extern "C" __global__ void __launch_bounds__(256)
biclique_lots(const long long* __restrict__ hop_indptr, const int* __restrict__ commons, const int* __restrict__ roots,
              const long long* __restrict__ firsts, const long long* __restrict__ lasts, const int n_pieces,
              const double* __restrict__ by_common, const int law, double* lots) {
    const long long warps = grid_threads() / kWarpSize;
    for (long long piece = global_thread() / kWarpSize; piece < n_pieces; piece += warps) {
        if (roots[piece] < 0) continue;
        const long long first = firsts[piece];
        const ChildWeights children{commons, hop_indptr[roots[piece] + 1], by_common, law};
        const double sum = sum_by_lanes((int)(lasts[piece] - first), [&](int i) { return children.weigh(first + i); });
        if (lane_id() == 0) lots[piece] = sum;
    }
}

/// An estimate of the bicliques of a root, its child and one or more rows of a list; see _count_sets of probe_loops.py.
__device__ __forceinline__ double count_sets(const RowList& list, RowList room, int min_left, int max_left, int least, Draws& draws,
                             const double* by_size, const double* by_columns, unsigned* mask) {
    double weight = 1.0, total = 0.0;
    RowList rows = list;
#pragma unroll 1
    for (int size = 3; size <= max_left; ++size) {
        if (rows.n < max(min_left - size, 0) + 1) break;
        if (size >= min_left) {
            const double all = sum_by_lanes(rows.n, [&](int i) { return by_size[count_row(rows, i)]; });
            total += multiply(weight, all) / (size - 2);
        }
        if (size == max_left) break;
        const Drawn drawn = draw_weighted(draws, rows.n, [&](int i) { return by_columns[count_row(rows, i)]; });
        weight = multiply(weight, drawn.times) / (size - 2);
#pragma unroll 1
        for (int k = lane_id(); k < rows.n_words; k += kWarpSize) mask[k] = rows.at(k, drawn.which);
        __syncwarp();
        room.n = move_rows(rows, 0, rows.n, mask, room, 0, [&](int row) {
            return row != drawn.which && count_in_set(rows, row, mask) >= least;
        });
        rows = room;
    }
    return total;
}

/// Estimates of the bicliques of pieces: `found[i]` for piece `pieces[i]`, -1 for none. Draws a child by its weight, then
/// rows of the candidates below it. `by_size`, `by_columns` and `by_common` are CountTables. Memory of a warp as above.
extern "C" __global__ void __launch_bounds__(128, 4)
biclique_counts(const long long* __restrict__ indptr, const int* __restrict__ columns,
                const long long* __restrict__ hop_indptr, const int* __restrict__ hop,
                const long long* __restrict__ right_indptr, const int* __restrict__ right_rows,
                const int* __restrict__ commons, const int* __restrict__ roots, const long long* __restrict__ firsts,
                const long long* __restrict__ lasts, const unsigned long long* __restrict__ seeds, const int n_probes,
                const int near_words, unsigned* slab, const long long far_words, const int min_left, const int max_left,
                const int least, const double* __restrict__ by_size, const double* __restrict__ by_columns,
                const double* __restrict__ by_common, const int law, double* found) {
    const Adjacency rows{indptr, columns}, rights{right_indptr, right_rows};
    for_each_probe(n_probes, near_words, slab, far_words, [&](Arena& arena, int probe) {
        const int root = roots[probe];
        if (root < 0) return;
        const long long first = firsts[probe];
        const ChildWeights children{commons, hop_indptr[root + 1], by_common, law};
        Draws draws{seeds[probe]};
        const Drawn drawn =
            draw_weighted(draws, (int)(lasts[probe] - first), [&](int i) { return children.weigh(first + i); });
        const long long child = first + drawn.which;
        double total = min_left <= 2 ? by_size[commons[child]] : 0.0;
        const int n_later = (int)(children.end - child) - 1;
        if (max_left > 2 && n_later >= max(min_left - 2, 1)) {
            int* const shared = reinterpret_cast<int*>(arena.take((long long)min(rows.size(root), rows.size(hop[child]))));
            const int n_columns = list_shared(rows, root, hop[child], shared);
            RowList list = fill_rows(arena, shared, n_columns, hop + child + 1, n_later, rows, rights);
            __syncwarp();
            unsigned* const mask = arena.take(list.n_words);
            fill_set(mask, n_columns);
            keep_rows(list, mask, 0, least);
            const RowList room{arena.take((long long)list.n * list.n_words), list.n, list.n, list.n_words};
            const int repeats = max_left > 3 ? PROBE_REPEATS : 1;
            double below = 0.0;
#pragma unroll 1
            for (int i = 0; i < repeats; ++i)
                below += count_sets(list, room, min_left, max_left, least, draws, by_size, by_columns, mask);
            total += below / repeats;
        }
        if (lane_id() == 0) found[probe] = multiply(drawn.times, total);
    });
}
