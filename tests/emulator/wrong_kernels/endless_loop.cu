// fails: no end: an endless loop in which nothing happens
// Waits for a value that is never read again.
extern "C" __global__ void endless_loop(const int* in, int* out) {
    int value = in[0];
    while (value != 7) value = value * 3 & 0xff00;  // <-- here
    out[threadIdx.x] = value;
}
