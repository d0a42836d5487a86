// Exclusive prefix sum of one block: warp scans by shuffles, then a scan of the warps' totals.
__device__ __forceinline__ int warp_scan(int value) {
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(0xffffffffu, value, step);
        if (threadIdx.x % 32 >= step) value += left;
    }
    return value;
}
extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int totals[32];
    const int value = in[threadIdx.x];
    const int inclusive = warp_scan(value);
    if (threadIdx.x % 32 == 31) totals[threadIdx.x / 32] = inclusive;
    __syncthreads();
    if (threadIdx.x < 32) {
        const int n_warps = blockDim.x / 32;
        const int total = warp_scan(threadIdx.x < n_warps ? totals[threadIdx.x] : 0);
        __syncwarp();
        if (threadIdx.x < n_warps) totals[threadIdx.x] = total;
    }
    __syncthreads();
    out[threadIdx.x] = inclusive - value + (threadIdx.x < 32 ? 0 : totals[threadIdx.x / 32 - 1]);
}
