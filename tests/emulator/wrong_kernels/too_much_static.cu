// fails: `large` takes the shared memory to 65536 bytes, 65536 of them static
// More static shared memory than any compiler accepts.
extern "C" __global__ void too_much_static(const int* in, int* out) {
    __shared__ int large[16384];  // <-- here
    large[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = large[threadIdx.x];
}
