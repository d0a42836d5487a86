// fails: meets another collective, the warp has diverged
// The same intrinsic with the same mask, in the two branches of an if.
extern "C" __global__ void warp_diverged(const int* in, int* out) {
    int value = in[threadIdx.x];
    if (threadIdx.x & 1)
        value += __shfl_down_sync(0xffffffffu, value, 1);  // <-- here
    else
        value -= __shfl_down_sync(0xffffffffu, value, 1);  // <-- here
    out[threadIdx.x] = value;
}
