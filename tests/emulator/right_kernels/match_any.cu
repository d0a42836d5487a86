// One atomic per distinct value of a warp: the lanes with equal values elect the lowest of them.
extern "C" __global__ void match_any(const int* in, const long long* wide, unsigned* out, unsigned* wide_out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    const unsigned peers = __match_any_sync(0xffffffffu, in[i]);
    if (__ffs(peers) - 1 == lane) atomicAdd(&out[in[i]], (unsigned)__popc(peers));
    const unsigned wide_peers = __match_any_sync(0xffffffffu, wide[i]);
    if (__ffs(wide_peers) - 1 == lane) atomicAdd(&wide_out[wide[i] >> 40], (unsigned)__popc(wide_peers));
}
