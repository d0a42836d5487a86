// The wedge limit: ids scanned from L2 and counted by returning atomics in shared memory, nothing else.
//
// Requires: n ids below `counters`, n a multiple of 4; shared memory of `counters` words. Every block scans all ids
// from a different start, `rounds` times; the sum of the old values keeps the atomics from being dropped.
extern "C" __global__ void __launch_bounds__(1024)
wedge_limit(const int4* ids, const int n_quads, const int rounds, const int counters, unsigned long long* sums) {
    extern __shared__ unsigned table[];
    for (int i = threadIdx.x; i < counters; i += blockDim.x) table[i] = 0;
    __syncthreads();
    unsigned long long sum = 0;
    for (int round = 0; round < rounds; ++round) {
        const int shift = (int)(((long long)blockIdx.x * n_quads / gridDim.x));
        for (int i = threadIdx.x; i < n_quads; i += blockDim.x) {
            int at = i + shift;
            if (at >= n_quads) at -= n_quads;
            const int4 quad = ids[at];
            sum += atomicAdd(&table[quad.x], 1u);
            sum += atomicAdd(&table[quad.y], 1u);
            sum += atomicAdd(&table[quad.z], 1u);
            sum += atomicAdd(&table[quad.w], 1u);
        }
    }
    atomicAdd(sums, sum);
}

// The limit of the bitmap-tree engine: 32-bit words in shared memory intersected with one in a register and counted.
//
// Requires: `n_quads` groups of 4 words in shared memory; every thread goes through all of them `rounds` times.
extern "C" __global__ void __launch_bounds__(256)
popcount_limit(const uint4* words, const int n_quads, const int rounds, unsigned long long* sums) {
    extern __shared__ uint4 quads[];
    for (int i = threadIdx.x; i < n_quads; i += blockDim.x) quads[i] = words[i];
    __syncthreads();
    unsigned mine = (blockIdx.x * blockDim.x + threadIdx.x + 1u) * 2654435761u, sum = 0;
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 4
        for (int i = 0; i < n_quads; ++i) {
            const uint4 quad = quads[i];
            sum += __popc(mine & quad.x) + __popc(mine & quad.y) + __popc(mine & quad.z) + __popc(mine & quad.w);
        }
        mine = mine << 1 | mine >> 31;
    }
    atomicAdd(sums, (unsigned long long)sum);
}
