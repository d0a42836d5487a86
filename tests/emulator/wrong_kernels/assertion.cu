// fails: assertion failed: in\[threadIdx.x\] < 63
extern "C" __global__ void assertion(const int* in, int* out) {
    assert(in[threadIdx.x] < 63);  // <-- here
    out[threadIdx.x] = 0;
}
