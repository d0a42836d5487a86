// fails: (no end: an endless loop in which nothing happens|data race: (read|atomic) of argument 1 \+ 0 bytes)
// Waits for a plain variable: the compiler reads it once.
extern "C" __global__ void hoisted_flag(const int* in, int* out) {
    if (threadIdx.x == 0) {
        while (out[0] == 0) {  // <-- here
        }
    } else if (threadIdx.x == 1) {
        atomicExch(&out[0], in[1]);
    }
}
