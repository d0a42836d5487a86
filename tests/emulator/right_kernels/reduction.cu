// Sum of an array: shared-memory tree down to a warp, then shuffles, one atomic per block.
extern "C" __global__ void __launch_bounds__(256) reduction(const int* in, unsigned long long* out, const int n) {
    extern __shared__ unsigned long long part[];
    unsigned long long sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = part[threadIdx.x];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
