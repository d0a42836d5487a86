// fails: out of bounds: index 4 of an array of fixed size
// A stack of four entries that gets a fifth.
extern "C" __global__ void out_of_bounds_local(const int* in, int* out) {
    int stack[4];
    int depth = 0;
    for (int i = 0; i < 10; ++i)
        if (in[i] > 3) stack[depth++] = in[i];  // <-- here
    out[threadIdx.x] = stack[depth & 3];
}
