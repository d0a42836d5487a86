// Probes of the wedge engine: one random wedge of a start, and the wedges that its two ends share.
//
// Requires: the graph of wedges.cuh. A warp owns a probe, whose start has `wedges[probe]` wedges: it draws one of them, all
// equally likely, and counts the start's wedges with the same end; with KINDS = 2 only those whose edges agree likewise.
// found[probe]: wedges * worth[shared], the motifs. Equal to kernels/wedge/probe_loops.py, bit for bit.
#include "wedges.cuh"

#include "probe.cuh"

/// A wedge of a start, by its number: the entry of its end, and its counter.
struct DrawnWedge {
    int end;
    int counter;
};

__device__ __forceinline__ DrawnWedge find_wedge(const WedgeGraph& graph, const Start& start, long long number) {
#pragma unroll 1
    for (long long first = start.begin; first < start.end; first += kWarpSize) {
        const long long entry = first + lane_id();
        const unsigned length = entry < start.end ? (unsigned)graph.prefix[entry] : 0u;
        const unsigned until = warp_inclusive_sum(length);
        const unsigned reached = __ballot_sync(kFullMask, (long long)until > number);
        if (reached != 0) {
            const int at = __ffs((int)reached) - 1;
            const int held = graph.adjacency[first + at];
            const long long place = number - (long long)__shfl_sync(kFullMask, until - length, at);
            const int end = all_ends(graph)[graph.list_of(rank_of(held) + start.middle_offset) + place];
            return DrawnWedge{end, counter_of(end, sign_of(held))};
        }
        number -= (long long)__shfl_sync(kFullMask, until, kWarpSize - 1);
    }
    return DrawnWedge{0, 0};
}

/// The wedges of a start with the same end as one of them.
__device__ __forceinline__ unsigned count_shared(const WedgeGraph& graph, const Start& start, const DrawnWedge& drawn) {
    const int first_entry = entry_of(rank_of(drawn.end), 0);
    unsigned shared = 0;
#pragma unroll 1
    for (long long entry = start.begin + lane_id(); entry < start.end; entry += kWarpSize) {
        const int length = graph.prefix[entry];
        if (length == 0) continue;
        const int held = graph.adjacency[entry];
        const int* const ends = all_ends(graph) + graph.list_of(rank_of(held) + start.middle_offset);
        const int at = lower_bound(ends, length, first_entry);
        if (at == length || rank_of(ends[at]) != rank_of(drawn.end)) continue;
        shared += kKinds != 2 || counter_of(ends[at], sign_of(held)) == drawn.counter ? 1u : 0u;
    }
    __syncwarp();
    return warp_total(shared);
}

extern "C" __global__ void __launch_bounds__(256)
wedge_probe(GRAPH_PARAMETERS, const int* __restrict__ rows, const long long* __restrict__ wedges,
            const unsigned long long* __restrict__ seeds, const int n_probes, const double* __restrict__ worth,
            double* found) {
    const WedgeGraph graph GRAPH_FIELDS;
    const int n_warps = (int)(grid_threads() / kWarpSize);
#pragma unroll 1
    for (int probe = (int)(global_thread() / kWarpSize); probe < n_probes; probe += n_warps) {
        const long long n = wedges[probe];
        if (n == 0) continue;
        const Start start = load_start(graph, rows[probe], 0);
        const unsigned shared = count_shared(graph, start, find_wedge(graph, start, Draws{seeds[probe]}.wide(n)));
        if (lane_id() == 0) found[probe] = (double)n * worth[shared];
    }
}
