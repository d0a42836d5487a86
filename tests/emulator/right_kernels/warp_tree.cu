// The reduction that a warp must write when it goes through shared memory: __syncwarp after every step.
extern "C" __global__ void warp_tree(const int* in, int* out) {
    __shared__ int part[128];
    int* mine = part + threadIdx.x / 32 * 32;
    const int lane = threadIdx.x % 32;
    mine[lane] = in[threadIdx.x];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (lane < half) mine[lane] += mine[lane + half];
        __syncwarp();
    }
    if (lane == 0) out[threadIdx.x / 32] = mine[0];
}
