// Two warps of one block hand a value over through a flag; __threadfence_block is enough within a block.
extern "C" __global__ void mailbox(const int* in, int* out) {
    __shared__ int box[32], flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        box[threadIdx.x] = in[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) {
            __threadfence_block();
            atomicExch(&flag, 1);
        }
    } else {
        if (threadIdx.x == 32)
            while (atomicAdd(&flag, 0) == 0) {
            }
        __threadfence_block();
        __syncwarp();
        out[threadIdx.x - 32] = box[63 - threadIdx.x];
    }
}
