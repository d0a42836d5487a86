"""CUDA devices as launchers see them, and what all CUDA sources share."""

import os

# Before CuPy is imported, which reads it then: its headers are parsed once in a process, and not for each expression.
os.environ.setdefault("CUPY_NVRTC_USE_PCH", "1")
