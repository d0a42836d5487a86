// fails: __ldg of memory that this launch writes
// The read-only path may return the values from before the launch.
extern "C" __global__ void read_only_load(const int* in, int* out) {
    out[threadIdx.x] = in[threadIdx.x];  // <-- here
    out[threadIdx.x] += __ldg(&out[threadIdx.x]);  // <-- here
}
