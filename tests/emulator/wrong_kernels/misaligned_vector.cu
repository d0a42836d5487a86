// fails: misaligned access, 4 bytes past a boundary of 16: argument 0 \+ \d+ bytes
// A 16-byte load of an address that is a multiple of 4 only.
extern "C" __global__ void misaligned_vector(const int* in, int* out) {
    const int4 four = *reinterpret_cast<const int4*>(in + 1 + 4 * (threadIdx.x & 7));  // <-- here
    out[threadIdx.x] = four.x + four.w;
}
