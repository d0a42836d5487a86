// Persistent blocks that take items from one counter in device memory; the block of each item is recorded.
extern "C" __global__ void work_queue(const int* in, const int n, int* counter, int* owner, unsigned long long* sum) {
    __shared__ int next;
    unsigned long long mine = 0;
    for (;;) {
        if (threadIdx.x == 0) next = atomicAdd(counter, 1);
        __syncthreads();
        const int item = next;
        __syncthreads();
        if (item >= n) break;
        if (threadIdx.x == 0) owner[item] = blockIdx.x;
        if (threadIdx.x < in[item]) mine += 1;
    }
    if (mine != 0) atomicAdd(sum, mine);
}
