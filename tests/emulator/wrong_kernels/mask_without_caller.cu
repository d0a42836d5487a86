// fails: __syncwarp with mask 0x0000ffff does not contain the calling lane
// The upper half of the warp calls with the mask of the lower half.
extern "C" __global__ void mask_without_caller(const int* in, int* out) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncwarp(0x0000ffffu);  // <-- here
}
