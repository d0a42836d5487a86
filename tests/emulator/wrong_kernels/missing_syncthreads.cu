// fails: data race: .* \(no __syncthreads between them
// Two warps pass a value through shared memory without a barrier.
extern "C" __global__ void missing_syncthreads(const int* in, int* out) {
    __shared__ int slot;
    const int value = in[threadIdx.x];
    if (threadIdx.x == 0) slot = 0;
    __syncthreads();
    if (threadIdx.x == 5) slot = value;  // <-- here
    if (threadIdx.x == 40) out[0] = slot;  // <-- here
}
