// fails: atomic of 4 bytes that no one wrote: dynamic shared memory \+ \d+ bytes
// Counters that were never cleared.
extern "C" __global__ void unwritten_counter(const int* in, int* out) {
    extern __shared__ unsigned counters[];
    atomicAdd(&counters[in[threadIdx.x] & 7], 1u);  // <-- here
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = (int)counters[threadIdx.x];
}
