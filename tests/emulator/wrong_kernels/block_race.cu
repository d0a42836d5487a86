// fails: data race: .* \(blocks of one launch are not ordered
// Each block writes its cell and reads its neighbour's.
extern "C" __global__ void block_race(const int* in, int* out) {
    if (threadIdx.x == 0) out[blockIdx.x] = in[blockIdx.x];  // <-- here
    __syncthreads();
    if (threadIdx.x == 1) out[gridDim.x + blockIdx.x] = out[(blockIdx.x + 1) % gridDim.x];  // <-- here
}
