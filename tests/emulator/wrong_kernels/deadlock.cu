// fails: no end after 100000 steps: a deadlock or an endless loop; in this block 1 threads run, 63 wait in __syncthreads
// One thread waits for a flag that would be set behind the barrier it keeps from opening.
extern "C" __global__ void deadlock(const int* in, int* out) {
    if (threadIdx.x == 0)
        while (atomicAdd(&out[0], 0) != in[1]) {  // <-- here
        }
    __syncthreads();
    if (threadIdx.x == 1) atomicExch(&out[0], in[1]);
}
