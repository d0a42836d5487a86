// fails: (with mask 0xffffffff names lanes that have finished|finished .* while lanes .* wait for it in __shfl_xor_sync)
// Half of the warp has left; the others name it in the mask.
extern "C" __global__ void mask_names_finished(const int* in, int* out) {
    if (threadIdx.x >= 16) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 1);  // <-- here
}
