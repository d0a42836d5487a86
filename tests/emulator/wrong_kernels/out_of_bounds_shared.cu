// fails: out of bounds: (write|read) of 4 bytes: \d+ bytes behind the end of the 256 bytes of dynamic shared memory
// One slot more than the launch requested.
extern "C" __global__ void out_of_bounds_shared(const int* in, int* out) {
    extern __shared__ int buffer[];
    buffer[threadIdx.x + 1] = in[threadIdx.x];  // <-- here
    __syncthreads();
    out[threadIdx.x] = buffer[threadIdx.x + 1];
}
