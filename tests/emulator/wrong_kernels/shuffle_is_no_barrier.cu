// fails: data race: .* other warp collectives do not order memory
// A vote makes the lanes meet, but orders none of their accesses.
extern "C" __global__ void shuffle_is_no_barrier(const int* in, int* out) {
    __shared__ int part[32];
    part[threadIdx.x] = 0;
    __syncthreads();
    part[threadIdx.x] = in[threadIdx.x];  // <-- here
    __ballot_sync(0xffffffffu, 1);
    out[threadIdx.x] = part[threadIdx.x ^ 1];  // <-- here
}
