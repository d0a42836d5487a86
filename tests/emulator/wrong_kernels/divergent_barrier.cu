// fails: __syncthreads in divergent code: \d+ threads of the block wait at another one
// A barrier on each side of a branch that depends on the thread.
extern "C" __global__ void divergent_barrier(const int* in, int* out) {
    if (in[threadIdx.x] >= 0 && threadIdx.x < 20) {
        __syncthreads();  // <-- here
        out[threadIdx.x] = 1;
    } else {
        __syncthreads();  // <-- here
        out[threadIdx.x] = 2;
    }
}
