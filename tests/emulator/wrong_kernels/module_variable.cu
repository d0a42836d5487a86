// fails: write to a variable at module scope
// State between launches belongs into buffers.
__device__ int last_seen;
extern "C" __global__ void module_variable(const int* in, int* out) {
    if (threadIdx.x == 0) last_seen = in[0];  // <-- here
    out[threadIdx.x] = 0;
}
