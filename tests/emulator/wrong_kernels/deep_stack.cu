// fails: local variables of one thread exceed 65536 bytes
// A recursion that has no end in sight.
__device__ __noinline__ int deeper(const int* in, int depth) {
    int room[2048];
    for (int i = 0; i < 4; ++i) room[i] = in[i & 15] + depth;
    if (depth == 0) return room[in[0] & 3];
    return deeper(in, depth - 1) + room[depth & 3];
}
extern "C" __global__ void deep_stack(const int* in, int* out) {
    out[threadIdx.x] = deeper(in, 1000);
}
