// Collectives of parts of a warp: each group of equal values sums itself under its own mask.
extern "C" __global__ void split_warp(const int* in, int* out) {
    const int value = in[threadIdx.x];
    const unsigned group = __match_any_sync(0xffffffffu, value % 3);
    int sum = 0;
    for (unsigned rest = group; rest != 0; rest &= rest - 1)
        sum += __shfl_sync(group, value, __ffs(rest) - 1);
    out[threadIdx.x] = sum;
    const unsigned half = threadIdx.x % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
    if (threadIdx.x % 32 < 16) {  // the other half does not take part
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(half, sum, step, 16);
        out[blockDim.x + threadIdx.x] = sum;
    }
}
