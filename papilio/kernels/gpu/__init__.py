"""CuPy launchers of the CUDA kernels."""
