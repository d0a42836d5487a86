// fails: out of bounds: write of 4 bytes: \d+ bytes behind the end of shared `small` \(64 bytes\)
// The pointer hides the size of the array from the compiler, not from the emulator.
extern "C" __global__ void out_of_bounds_static(const int* in, int* out) {
    __shared__ int small[16], large[64];
    int* at = threadIdx.x < 32 ? small : large;
    at[threadIdx.x] = in[threadIdx.x];  // <-- here
    __syncthreads();
    out[threadIdx.x] = large[32 + (threadIdx.x & 31)];
}
