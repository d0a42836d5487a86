// fails: (finished .* while \d+ threads of its block wait in __syncthreads|__syncthreads, but thread .* has finished)
// Threads without work leave before the barrier.
extern "C" __global__ void early_exit(const int* in, int* out) {
    if (in[threadIdx.x] < 0 || threadIdx.x >= 40) return;
    __syncthreads();  // <-- here
    out[threadIdx.x] = 1;
}
