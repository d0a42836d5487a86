"""Numba twins of the CUDA kernels."""
