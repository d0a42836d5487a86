"""Kernels of the motifs, a folder for each family: CUDA sources, their CuPy launchers, Numba twins."""
