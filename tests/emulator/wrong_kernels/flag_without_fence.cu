// fails: data race: .* \(blocks of one launch are not ordered
// The flag is atomic, but nothing orders the value before it.
extern "C" __global__ void flag_without_fence(const int* in, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = in[0];  // <-- here
        atomicExch(&out[0], 1);
    } else {
        while (atomicAdd(&out[0], 0) == 0) {
        }
        out[2] = out[1];  // <-- here
    }
}
