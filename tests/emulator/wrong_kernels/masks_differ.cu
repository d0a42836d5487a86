// fails: __reduce_add_sync with mask 0x.* meets another mask: lanes .* wait in __reduce_add_sync with mask 0x
// Lanes of one collective disagree about who takes part.
extern "C" __global__ void masks_differ(const int* in, int* out) {
    const unsigned mask = threadIdx.x == 7 ? 0x000000ffu : 0xffffffffu;
#if __CUDA_ARCH__ >= 800
    out[threadIdx.x] = __reduce_add_sync(mask, in[threadIdx.x]);  // <-- here
#endif
}
