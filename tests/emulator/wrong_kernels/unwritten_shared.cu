// fails: read of 4 bytes that no one wrote: shared `part` \+ 124 bytes
// The last slot is never filled.
extern "C" __global__ void unwritten_shared(const int* in, int* out) {
    __shared__ int part[32];
    if (threadIdx.x < 31) part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = part[threadIdx.x];  // <-- here
}
