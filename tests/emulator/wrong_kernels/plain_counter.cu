// fails: data race: (read|write) of argument 1 \+ 0 bytes, unordered with the (read|write)
// A counter that is incremented without an atomic.
extern "C" __global__ void plain_counter(const int* in, int* out) {
    if (in[threadIdx.x] >= 0) out[0] += 1;  // <-- here
}
