// fails: data race: (read|atomic) of argument 1 \+ 0 bytes, unordered with the (read|atomic)
// A plain read of a counter that others still add to.
extern "C" __global__ void atomic_and_plain(const int* in, int* out) {
    if (in[threadIdx.x] >= 0) atomicAdd(&out[0], 1);  // <-- here
    if (threadIdx.x == 9) out[1] = out[0];  // <-- here
}
