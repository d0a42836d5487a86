// Butterflies of starts that would take one block too long: several blocks share a start.
//
// Requires: the graph of wedges.cuh. A start is cut into *chunks*, consecutive entries of its row. A block counts the
// wedges of a chunk in shared memory, for all ends, and adds its counters to the start's counters in device memory, 32 bits
// each; the last block to finish processes them as butterfly.cu processes a table. Per vertex and per edge a second launch
// walks over all wedges again and reads the counters.
// Counted once, bounds and defines: see butterfly.cu. A counter is at most the degree of the start.
// A start of degree d has few ends, all of higher degree: at most m / d of m edges.
#include "butterfly.cuh"

#define SPLIT_PARAMETERS                                                                                        \
    const int *__restrict__ rows, const int *__restrict__ start_of, const int n_chunks, const int *__restrict__ first_chunk, \
        const int *__restrict__ chunk_entries, const long long *__restrict__ counters_at, unsigned *counters
#define SPLIT_FIELDS {rows, start_of, first_chunk, chunk_entries, counters_at, counters}

/// Starts by number; chunk c belongs to start start_of[c], whose chunks begin at first_chunk (one entry more than starts).
struct SplitStarts {
    const int* rows;
    const int* start_of;
    const int* first_chunk;
    const int* chunk_entries;      // maximum entries of a chunk of each start
    const long long* counters_at;  // start of the counters of each start
    unsigned* counters;            // 0 at launch

    /// The start of a chunk, with only the entries of the chunk.
    __device__ __forceinline__ Start load(const WedgeGraph& graph, int chunk) const {
        const int number = start_of[chunk];
        Start start = load_start(graph, rows[number], 0);
        start.begin += (long long)(chunk - first_chunk[number]) * chunk_entries[number];
        start.end = min(start.end, start.begin + chunk_entries[number]);
        return start;
    }
};

/// `arrived`: chunks of each start that are done, 0 at launch.
extern "C" __global__ void __launch_bounds__(TABLE_THREADS, kCensus ? 1 : 2)
butterfly_split(GRAPH_PARAMETERS, SPLIT_PARAMETERS, int* arrived, int* counter, const int table_words,
                RESULT_PARAMETERS) {
    extern __shared__ uint4 shared_quads[];
    __shared__ int next_position;
    __shared__ int is_last;
    const WedgeGraph graph GRAPH_FIELDS;
    const SplitStarts starts SPLIT_FIELDS;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    fill_quads(shared_quads, table_words / 4, 0);
    RunningSum sums{total};
    Sweep sweep SWEEP_FIELDS;
    BlockQueue queue(counter, &next_position);
    for (int chunk = queue.next(); chunk < n_chunks; chunk = queue.next()) {
        Start start = starts.load(graph, chunk);
        const int number = start_of[chunk];
        unsigned* const of_start = counters + counters_at[number];
        count_in_tiles(graph, start, shared_quads, table_words, warp, n_warps, [&](const DenseTile& tile, int low) {
            for (unsigned x = threadIdx.x; x < tile.range; x += blockDim.x) {
                const unsigned count = tile.count(x);
                if (count != 0) atomicAdd(&of_start[low + x], count);
            }
            __syncthreads();
        });
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            is_last = atomicAdd(&arrived[number], 1) == first_chunk[number + 1] - first_chunk[number] - 1;
        __syncthreads();
        if (!is_last) continue;
        __threadfence();
        const unsigned n_counters = (unsigned)(kKinds * start.rank);
        if (kSweeps) {
            sweep.begin(graph, start);
            sweep.take_counters(0, n_counters, [&](unsigned x) { return peek(&of_start[x]); });
            continue;
        }
        unsigned long long sum = 0;
        for (unsigned x = threadIdx.x; x < n_counters; x += blockDim.x) {
            const unsigned long long count = peek(&of_start[x]);
            sum += count * (count - 1) / 2;
            if (kPerVertex) give_end(graph, start, (int)x, (unsigned)count, result);
        }
        finish_start(start, sum, sums, result);
    }
    sums.flush();
    if (kSweeps) sweep.flush();
}

#if PER > 0
/// After butterfly_split: add the motifs to middles or edges.
extern "C" __global__ void TABLE_BOUNDS
butterfly_split_give(GRAPH_PARAMETERS, SPLIT_PARAMETERS, int* counter, RESULT_PARAMETERS) {
    __shared__ int next_position;
    const WedgeGraph graph GRAPH_FIELDS;
    const SplitStarts starts SPLIT_FIELDS;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    BlockQueue queue(counter, &next_position);
    for (int chunk = queue.next(); chunk < n_chunks; chunk = queue.next()) {
        const Start start = starts.load(graph, chunk);
        const unsigned* of_start = counters + counters_at[start_of[chunk]];
        give_wedges(graph, start, warp, n_warps, [&](int end) { return of_start[end] - 1; }, result);
    }
}
#endif
