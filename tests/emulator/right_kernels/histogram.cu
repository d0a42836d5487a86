// Byte counters packed four to a word in shared memory, flushed to global memory by atomics.
extern "C" __global__ void histogram(const unsigned char* in, unsigned* out, const int n) {
    __shared__ unsigned packed[64];
    __shared__ unsigned char largest[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) packed[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&packed[in[i] / 4], 1u << (in[i] % 4 * 8));
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) {  // bytes of one word, written by different threads
        unsigned char most = 0;
        for (int k = 0; k < 4; ++k) most = max((unsigned)most, packed[i] >> (8 * k) & 255);
        largest[i] = most;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        const unsigned count = packed[i / 4] >> (i % 4 * 8) & 255;
        if (count != 0 && largest[i / 4] != 0) atomicAdd(&out[i], count);
    }
}
