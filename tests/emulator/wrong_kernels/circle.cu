// fails: deadlock: waits here for threads that wait for others; no thread can go on
// Three lanes, each waiting for the next one in a collective of the two.
extern "C" __global__ void circle(const int* in, int* out) {
    if (threadIdx.x < 3) {
        const unsigned next = (threadIdx.x + 1) % 3;
        __syncwarp(1u << threadIdx.x | 1u << next);  // <-- here
    }
    out[threadIdx.x] = in[threadIdx.x];
}
