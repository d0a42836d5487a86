// fails: out of bounds: read of 4 bytes: \d+ bytes behind the end of argument 0, which has 256 bytes
// Reads past the end of the input.
extern "C" __global__ void out_of_bounds_global(const int* in, int* out) {
    out[threadIdx.x] = in[threadIdx.x + 1];  // <-- here
}
