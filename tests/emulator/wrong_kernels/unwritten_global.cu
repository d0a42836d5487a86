// fails: read of 4 bytes that no one wrote: argument 1 \+ \d+ bytes
// Adds to a result that comes from xp.empty.
extern "C" __global__ void unwritten_global(const int* in, int* out) {
    out[threadIdx.x] += in[threadIdx.x];  // <-- here
}
