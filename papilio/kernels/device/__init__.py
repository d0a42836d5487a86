"""CUDA devices as launchers see them, and code shared by all CUDA sources."""

import os

# CuPy reads this on import: it then parses its headers once per process, not once per expression.
os.environ.setdefault("CUPY_NVRTC_USE_PCH", "1")
