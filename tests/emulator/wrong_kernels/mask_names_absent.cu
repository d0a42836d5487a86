// fails: __match_any_sync with mask 0xffffffff names lanes that the block does not have: 16, 17
// A full mask in a block of 48 threads.
extern "C" __global__ void mask_names_absent(const int* in, int* out) {
    if (threadIdx.x >= 32) out[threadIdx.x] = (int)__match_any_sync(0xffffffffu, in[threadIdx.x]);  // <-- here
}
