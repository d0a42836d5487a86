// A lock per bucket: the threads of a warp take it one after the other (independent thread scheduling).
extern "C" __global__ void spin_lock(const int* in, int* lock, int* sum, int* most) {
    const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    const int bucket = value % 4;
    for (bool done = false; !done;) {
        if (atomicCAS(&lock[bucket], 0, 1) == 0) {
            __threadfence();
            sum[bucket] += value;
            if (value > most[bucket]) most[bucket] = value;
            __threadfence();
            atomicExch(&lock[bucket], 0);
            done = true;
        }
    }
}
