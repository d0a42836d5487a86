// The hash of which checksums are sums.
#pragma once

/// The finalizer of SplitMix64, as `mix` of kernels/checksum.py; any lane alone.
__device__ __forceinline__ unsigned long long mix(unsigned long long value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}
