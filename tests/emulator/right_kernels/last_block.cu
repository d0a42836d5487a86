// Partial sums, then the block that finishes last adds them: fences around an atomic order the blocks.
extern "C" __global__ void last_block(const int* in, unsigned long long* part, unsigned* done, unsigned long long* out) {
    __shared__ bool last;
    const unsigned long long sum = __popc(__ballot_sync(0xffffffffu, in[blockIdx.x * 32 + threadIdx.x] & 1));
    if (threadIdx.x == 0) {
        part[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    unsigned long long all = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) all += part[i];
    for (int step = 16; step > 0; step /= 2) all += __shfl_xor_sync(0xffffffffu, all, step);
    if (threadIdx.x == 0) *out = all;
}
