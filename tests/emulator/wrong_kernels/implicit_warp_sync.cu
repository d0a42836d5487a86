// fails: data race: .* \(no __syncwarp or __syncthreads between them
// A tree reduction that counts on the lanes of a warp running in step.
extern "C" __global__ void implicit_warp_sync(const int* in, int* out) {
    __shared__ int part[32];
    const int lane = threadIdx.x;
    part[lane] = in[lane];
    __syncwarp();
    if (lane < 16) part[lane] += part[lane + 16];  // <-- here
    if (lane < 8) part[lane] += part[lane + 8];  // <-- here
    __syncwarp();
    if (lane == 0) out[0] = part[0] + part[1] + part[2] + part[3] + part[4] + part[5] + part[6] + part[7];
}
