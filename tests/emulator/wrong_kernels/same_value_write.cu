// fails: data race: write of shared `seen`.* unordered with the write
// All threads write the same value: still a race.
extern "C" __global__ void same_value_write(const int* in, int* out) {
    __shared__ int seen;
    if (in[threadIdx.x] > 0) seen = 1;  // <-- here
    __syncthreads();
    out[threadIdx.x] = seen;
}
