// fails: data race: .* \(blocks of one launch are not ordered
// __threadfence_block orders nothing between blocks.
extern "C" __global__ void fence_too_narrow(const int* in, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = in[0];  // <-- here
        __threadfence_block();
        atomicExch(&out[0], 1);
    } else {
        while (atomicAdd(&out[0], 0) == 0) {
        }
        __threadfence_block();
        out[2] = out[1];  // <-- here
    }
}
