"""Kernels of the motifs: CUDA sources, their CuPy launchers and Numba twins."""
