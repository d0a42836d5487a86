// fails: (names lane \d+, which waits in __syncthreads|__syncthreads in divergent code: lanes .* wait for this lane)
// One lane goes to the block's barrier while the other lanes of its warp wait in a vote.
extern "C" __global__ void barrier_against_collective(const int* in, int* out) {
    if (threadIdx.x == 3) {
        __syncthreads();  // <-- here
    } else {
        out[threadIdx.x] = __any_sync(0xffffffffu, in[threadIdx.x]);  // <-- here
        __syncthreads();
    }
}
