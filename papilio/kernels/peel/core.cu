// Cores: the numbers come from rounds.cuh; here are the sizes of the cores at all levels.
#include "rounds.cuh"

constexpr int kBins = LEVEL_BINS;

/// Several peelings at once, each by one block: block i fixes [fixed[3 * i], fixed[3 * i + 1]) at the limit fixed[3 * i + 2].
/// Row i of `left` and of `told` has n words, of `listed` 2 * n; `told` gets the level of each vertex.
extern "C" __global__ void __launch_bounds__(1024, 1)
peel_each(const int n, const long long* __restrict__ indptr, const int* __restrict__ neighbours,
          const int* __restrict__ degree, const int* __restrict__ fixed, int* left, int* told, int* listed) {
    __shared__ PeelCounters counters;
    const long long first = (long long)blockIdx.x * n;
    for (int x = threadIdx.x; x < n; x += blockDim.x) {
        left[first + x] = degree[x];
        told[first + x] = -1;
    }
    if (threadIdx.x == 0) counters = {{0, 0, 0}, {kNoDegree, kNoDegree}, 0};
    __syncthreads();
    const int* const own = fixed + 3 * blockIdx.x;
    peel_vertices(BlockTeam{}, n, indptr, neighbours, Fixed{own[0], own[1], own[2]}, false, left + first, told + first,
                  listed + 2 * first, &counters);
}

/// Count the vertices below first_v, the other vertices and the edges by number, that of an edge being the lower one of its
/// ends: three rows of n_levels. Blocks count numbers below kBins in shared memory.
extern "C" __global__ void __launch_bounds__(256)
count_levels(const int* __restrict__ u, const int* __restrict__ v, const long long n_edges, const int first_v, const int n,
             const int* __restrict__ numbers, const int n_levels, unsigned long long* counts) {
    __shared__ unsigned bins[3 * kBins];
    for (int bin = threadIdx.x; bin < 3 * kBins; bin += blockDim.x) bins[bin] = 0;
    __syncthreads();
    const auto add = [&](int row, int level) {
        if (level < kBins)
            atomicAdd(&bins[row * kBins + level], 1u);
        else
            atomicAdd(&counts[(long long)row * n_levels + level], 1ull);
    };
    for (long long x = global_thread(); x < n; x += grid_threads()) add(x >= first_v, numbers[x]);
    for (long long e = global_thread(); e < n_edges; e += grid_threads())
        add(2, min(numbers[u[e]], numbers[first_v + v[e]]));
    __syncthreads();
    for (int bin = threadIdx.x; bin < 3 * kBins; bin += blockDim.x)
        if (bins[bin]) atomicAdd(&counts[(long long)(bin / kBins) * n_levels + bin % kBins], (unsigned long long)bins[bin]);
}
