// fails: shift by 32 bits
// The mask of all lanes before lane 32.
extern "C" __global__ void wide_shift(const int* in, int* out) {
    out[threadIdx.x] = in[0] + (int)((1u << (threadIdx.x + 1)) - 1u);  // <-- here
}
