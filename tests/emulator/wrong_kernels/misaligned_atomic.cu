// fails: misaligned access of 8 bytes, 4 bytes past a boundary: argument 1 \+ 4 bytes
// A 64-bit atomic on a 32-bit boundary.
extern "C" __global__ void misaligned_atomic(const int* in, int* out) {
    atomicAdd(reinterpret_cast<unsigned long long*>(out + 1), (unsigned long long)in[0]);  // <-- here
}
