// fails: data race: .* \(no __syncwarp or __syncthreads between them
// The lanes of each half are ordered, the halves are not.
extern "C" __global__ void partial_syncwarp(const int* in, int* out) {
    __shared__ int part[32];
    part[threadIdx.x] = 0;
    __syncthreads();
    part[threadIdx.x] = in[threadIdx.x];  // <-- here
    const unsigned half = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
    __syncwarp(half);
    out[threadIdx.x] = part[threadIdx.x ^ 16];  // <-- here
}
