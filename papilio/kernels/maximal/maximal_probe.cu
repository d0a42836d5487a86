// Probes of the search for maximal bicliques: one random branch each.
//
// Requires: the index of maximal.cu and the rows of the right layer; root, first child and end, as places in `hop`, of the
// work item of each probe. A warp owns a probe. It draws a child of the root, fills the rows around the root over the
// columns of the child, and descends from node to node: all maximal bicliques of a node's branches are counted, and one of
// the branches is drawn. Results equal those of kernels/maximal/probe_loops.py, bit for bit.
// found: the results of each probe (Found of probe.cuh).
// Memory of a warp: `near_words` of shared memory, `far_words` of the slab.
// Source: Knuth, Math. Comp. 29, 1975.
#include "maximal_counts.cuh"

#include "probe.cuh"

struct Limits {
    SizeLimits sizes;

    __device__ __forceinline__ bool is_asked(int rows, int columns) const {
        return sizes.min_left <= rows && rows <= sizes.max_left && columns <= sizes.max_right;
    }
    __device__ __forceinline__ bool are_enough(int taken, int candidates) const {
        return candidates > 0 && taken < sizes.max_left && taken + candidates >= sizes.min_left;
    }
};

/// Weight for drawing a child.
__device__ __forceinline__ long long bound_below(int rows, int columns) {
    return (long long)rows * columns * min(min(rows, columns), PROBE_SIDE);
}

/// Whether an earlier row has all columns of a root.
__device__ __forceinline__ bool is_ended(const RootGraph& graph, int root) {
    const int* const own = graph.columns + graph.indptr[root];
    const int n = graph.n_columns(root);
    bool ends = false;
#pragma unroll 1
    for (int i = lane_id(); i < graph.n_before(root); i += kWarpSize) {
        const int row = graph.earlier[graph.earlier_indptr[root] + i], size = graph.n_columns(row);
        int j = size < n ? -1 : 0;
#pragma unroll 1
        while (j >= 0 && j < n) j = find_id(graph.columns + graph.indptr[row], size, own[j]) >= 0 ? j + 1 : -1;
        ends = ends || j == n;
    }
    return __any_sync(kFullMask, ends) != 0;
}

/// The rows around a root over the columns of a child: those before it, then those after it, which include the child.
struct Around {
    RowList before;
    RowList after;
    int kid;         // row of the child among those after the root
    int first;       // of the children of the work item
    int size;        // columns
    int degree;      // of the root
    const int* common;  // with the root, of the rows after it

    __device__ __forceinline__ int n_before() const { return before.n + kid; }
};

/// Rows below a child: candidates first, then excluded ones.
struct Sorted {
    RowList rows;
    int n;
    int n_excluded;
    int joined;  // rows taken with the child; -1 if an excluded row has all of its columns, -2 if an earlier child has
    unsigned long long met;  // equivalent in words of finding the rows
};

__device__ __forceinline__ Sorted sort_rows(Arena& arena, const Around& around, int least) {
    const RowList &before = around.before, &after = around.after;
    const int stride = before.n + after.n, size = around.size;
    Sorted sorted{RowList{nullptr, 0, stride, after.n_words}, 0, 0, 0, 0};
    unsigned joined = 0;
    bool ends = false, ends_item = false;
#pragma unroll 1
    for (int i = lane_id(); i < stride; i += kWarpSize) {
        const RowList& list = i < before.n ? before : after;
        const int row = i < before.n ? i : i - before.n;
        const int common = count_row(list, row);
        sorted.met += (unsigned long long)PROBE_ENTRY_WORDS * common + (common > 0 ? PROBE_ROW_WORDS : 0);
        if (common < size || (i >= before.n && (row == around.kid || around.common[row] == around.degree))) continue;
        ends = ends || i < around.n_before();
        ends_item = ends_item || (i < around.n_before() && i >= before.n + around.first);
        joined += i < around.n_before() ? 0u : 1u;
    }
    sorted.met = warp_sum(sorted.met);
    sorted.joined = (int)warp_total(joined);
    if (__any_sync(kFullMask, ends)) {
        sorted.joined = __any_sync(kFullMask, ends_item) ? -2 : -1;
        return sorted;
    }
    sorted.rows.words = arena.take((long long)stride * after.n_words);
    const auto is_useful = [&](int common) { return common >= least && common < size; };
    const auto is_earlier = [&](int row) { return is_useful(count_row(before, row)); };
    const auto is_child = [&](int row) { return is_useful(count_row(after, row)) && around.common[row] != around.degree; };
    sorted.n = move_rows(after, around.kid + 1, after.n, nullptr, sorted.rows, 0, is_child);
    int end = move_rows(before, 0, before.n, nullptr, sorted.rows, sorted.n, is_earlier);
    end = move_rows(after, 0, around.kid, nullptr, sorted.rows, end, is_child);
    sorted.n_excluded = end - sorted.n;
    sorted.rows.n = end;
    return sorted;
}

/// Keep each row of [begin, end) once, and none that lies inside another one; returns the number of rows left.
__device__ __forceinline__ int keep_largest(const RowList& list, int begin, int end, int* over) {
#pragma unroll 1
    for (int row = begin + lane_id(); row < end; row += kWarpSize) {
        bool covered = false;
#pragma unroll 1
        for (int other = begin; other < end && !covered; ++other)
            covered = other != row && is_inside(list, row, other) && (other < row || !is_inside(list, other, row));
        over[row] = covered ? 1 : -1;
    }
    __syncwarp();
    return move_rows(list, begin, end, nullptr, list, begin, [&](int row) { return over[row] < 0; }) - begin;
}

/// Check of a candidate against the remaining earlier ones; any lane alone.
struct Looked {
    int columns;
    int joined;  // that have all of its columns
    int kept;    // that stay below it
    int left;
};

__device__ __forceinline__ Looked look_at(const RowList& list, int row, int least, const int* over) {
    Looked looked{count_row(list, row), 0, 0, 0};
#pragma unroll 1
    for (int other = 0; other < row; ++other) {
        if (over[other] > row) continue;
        const int common = count_shared<0>(list, row, other);
        looked.left += 1;
        looked.joined += common == looked.columns;
        looked.kept += least <= common && common < looked.columns;
    }
    return looked;
}

/// Descend from the node of a child.
__device__ __forceinline__ void walk(Arena& arena, const Limits& limits, Sorted sorted, int taken, int size, double weight, Draws& draws,
                     const Found& found) {
    const RowList& list = sorted.rows;
    const int least = limits.sizes.min_right;
    int n = sorted.n, excluded = n, n_excluded = sorted.n_excluded, shrunk = wide_words(size);
    int* const over = reinterpret_cast<int*>(arena.take(n + n_excluded));
    long long* const bounds = reinterpret_cast<long long*>(arena.take(2ll * n));
    unsigned* const own = arena.take(list.n_words);
    if (shrunk == 1) n_excluded = keep_largest(list, n, n + n_excluded, over);
#pragma unroll 1
    for (;;) {
        const int row_words = shrunk == 1 ? 1 : PROBE_WIDE_WORDS * shrunk;
        found.add_words(multiply(weight, (double)((long long)n * n_excluded * row_words)));
        n = move_rows(list, 0, n, nullptr, list, 0, [&](int row) {
            int other = excluded;
#pragma unroll 1
            while (other < excluded + n_excluded && !is_inside(list, row, other)) ++other;
            return other == excluded + n_excluded;
        });
        if (!limits.are_enough(taken, n)) return;
#pragma unroll 1
        for (int row = lane_id(); row < n; row += kWarpSize) {
            int other = n - 1;
#pragma unroll 1
            while (other > row && !is_inside(list, row, other)) --other;
            over[row] = other > row ? other : -1;
        }
        __syncwarp();
        int nodes = 0;
        unsigned motifs = 0;
        unsigned long long words = 0, members = 0;
#pragma unroll 1
        for (int first = (n - 1) / 32 * 32; first >= 0; first -= kWarpSize) {
            const int row = first + lane_id();
            const bool is_branch = row < n && over[row] < 0;
            const unsigned all = __ballot_sync(kFullMask, is_branch);
            if (row < n) bounds[row] = 0;
            if (is_branch) {
                const Looked looked = look_at(list, row, least, over);
                const int rows = taken + 1 + looked.joined, later = nodes + __popc(all >> lane_id() >> 1);
                if (limits.is_asked(rows, looked.columns)) {
                    motifs += 1;
                    members += (unsigned long long)(rows + looked.columns);
                }
                words += (unsigned long long)(n_excluded + later + 1 + looked.left) * row_words;
                if (limits.are_enough(rows, looked.kept))
                    bounds[row] = bound_below(looked.kept, looked.columns);
            }
            nodes += __popc(all);
            __syncwarp();
        }
        found.add_motifs(multiply(weight, (double)warp_total(motifs)), multiply(weight, (double)warp_sum(members)));
        found.add_nodes(multiply(weight, (double)nodes));
        found.add_words(multiply(weight, (double)warp_sum(words)));
        const DrawnChild drawn = draw_by_bound(draws, n, [&](int row) { return bounds[row]; });
        const int chosen = drawn.child;
        if (chosen < 0) return;
        weight /= drawn.chance;
        size = row_size(list, chosen);
        unsigned joined = 0;
#pragma unroll 1
        for (int other = lane_id(); other < chosen; other += kWarpSize) joined += is_inside(list, chosen, other) ? 1u : 0u;
        joined = warp_total(joined);
#pragma unroll 1
        for (int k = lane_id(); k < list.n_words; k += kWarpSize) own[k] = list.at(k, chosen);
        __syncwarp();
        const auto is_useful = [&](int row) {
            const int common = count_in_set(list, row, own);
            return least <= common && common < size;
        };
        const int below =
            move_rows(list, 0, chosen, own, list, 0, [&](int row) { return over[row] <= chosen && is_useful(row); });
        int end = move_rows(list, chosen + 1, n, own, list, below, [&](int row) { return over[row] < 0 && is_useful(row); });
        end = move_rows(list, excluded, excluded + n_excluded, own, list, end, is_useful);
        n = excluded = below;
        n_excluded = end - below;
        taken += 1 + (int)joined;
        if (2 * wide_words(size) <= shrunk) shrunk = wide_words(size);
    }
}

/// Location of the work item of a probe: its root, and its children as places in `hop`.
struct ProbedItem {
    int root;
    long long first;
    long long last;
};

__device__ __forceinline__ void probe_item(Arena& arena, const RootGraph& graph, const int* hop_common, const Adjacency& rights,
                           const Limits& limits, const ProbedItem& item, Draws& draws, const Found& found) {
    const int root = item.root;
    if (root < 0 || is_ended(graph, root)) return;
    const long long base = graph.hop_indptr[root];
    const int degree = graph.n_columns(root), n_later = (int)(graph.hop_indptr[root + 1] - base);
    const int* const common = hop_common + base;
    unsigned n_full = 0;
#pragma unroll 1
    for (int row = lane_id(); row < n_later; row += kWarpSize) n_full += common[row] == degree ? 1u : 0u;
    const int n_taken = 1 + (int)warp_total(n_full), first = (int)(item.first - base);
    if (n_taken > limits.sizes.max_left) return;
    if (first == 0 && n_taken > 1 && limits.is_asked(n_taken, degree)) found.add_motifs(1.0, (double)(n_taken + degree));
    if (degree <= limits.sizes.min_right || !limits.are_enough(1, n_later - first)) return;
    unsigned long long entries = 0;
#pragma unroll 1
    for (int i = lane_id(); i < degree; i += kWarpSize)
        entries += (unsigned long long)rights.size(graph.columns[graph.indptr[root] + i]);
    found.add_words((double)(PROBE_ENTRY_WORDS * warp_sum(entries)));
    const DrawnChild drawn = draw_by_bound(draws, (int)(item.last - item.first), [&](int kid) {
        const int size = common[first + kid];
        return size < degree ? bound_below(n_later - first - kid, size) : 0ll;
    });
    if (drawn.child < 0) return;
    const double weight = 1.0 / drawn.chance;
    const int kid = first + drawn.child, child = graph.hop[base + kid], n_before = graph.n_before(root);
    const Adjacency lefts{graph.indptr, graph.columns};
    int* const shared = reinterpret_cast<int*>(arena.take(common[kid]));
    const int size = list_shared(lefts, root, child, shared);
    RowList before{nullptr, 0, 0, words_for(size)};
    if (n_before > 0)
        before = fill_rows(arena, shared, size, graph.earlier + graph.earlier_indptr[root], n_before, lefts, rights);
    const RowList after = fill_rows(arena, shared, size, graph.hop + base, n_later, lefts, rights);
    __syncwarp();
    const Sorted sorted = sort_rows(arena, Around{before, after, kid, first, size, degree, common}, limits.sizes.min_right);
    if (sorted.joined > -2) {
        found.add_nodes(weight);
        found.add_words(multiply(weight, (double)sorted.met));
    }
    if (sorted.joined < 0) return;
    const int taken = n_taken + 1 + sorted.joined;
    if (limits.is_asked(taken, size)) found.add_motifs(weight, multiply(weight, (double)(taken + size)));
    if (limits.are_enough(taken, sorted.n)) walk(arena, limits, sorted, taken, size, weight, draws, found);
}

extern "C" __global__ void __launch_bounds__(128, 4)
maximal_probe(ROOT_PARAMETERS, const int* __restrict__ hop_common, const long long* __restrict__ right_indptr,
              const int* __restrict__ right_rows, const int* __restrict__ probe_roots,
              const long long* __restrict__ probe_first, const long long* __restrict__ probe_last,
              const unsigned long long* __restrict__ seeds, const int n_probes, const int near_words, unsigned* slab,
              const long long far_words, const int min_left, const int max_left, const int min_right, const int max_right,
              double* found) {
    const RootGraph graph ROOT_ARGUMENTS;
    const Limits limits{SizeLimits{min_left, max_left, min_right, max_right}};
    for_each_probe(n_probes, near_words, slab, far_words, [&](Arena& arena, int probe) {
        Draws draws{seeds[probe]};
        probe_item(arena, graph, hop_common, Adjacency{right_indptr, right_rows}, limits,
                   ProbedItem{probe_roots[probe], probe_first[probe], probe_last[probe]}, draws,
                   Found(found, probe));
    });
}
