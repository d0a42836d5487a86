// fails: data race: (write|read) of shared `slot` \+ 0 bytes, unordered with the (write|read)
// The barrier before the second use of a buffer is missing: a late warp still reads the first value.
extern "C" __global__ void reused_too_early(const int* in, int* out) {
    __shared__ int slot;
    for (int i = 0; i < 2; ++i) {
        if (threadIdx.x == 0) slot = in[i];  // <-- here
        __syncthreads();
        out[i * blockDim.x + threadIdx.x] = slot;  // <-- here
    }
}
