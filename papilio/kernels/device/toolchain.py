"""What compiles the CUDA sources in this process: CuPy, its runtime, NVRTC, its cache of kernels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROBE = 'extern "C" __global__ void probe(unsigned long long *out) { atomicAdd(out, 1ULL); }'


@dataclass(frozen=True)
class Toolchain:
    """CuPy as it was found."""

    cupy: str  # version
    cuda: tuple[int, int]  # that CuPy is built for, major and minor
    nvrtc: str | None  # version, when it compiled a small kernel
    nvrtc_problem: str  # why it did not; else empty


def inspect_toolchain() -> Toolchain:
    """Import CuPy and compile a small kernel; needs no GPU and creates no CUDA context.

    Raises
    ------
    ImportError, OSError
        When CuPy cannot be imported; among the reasons is a kernel cache that cannot be created.
    """
    import cupy
    from cupy.cuda import nvrtc

    version = int(cupy.cuda.runtime.runtimeGetVersion())
    found, problem = None, ""
    try:
        program = nvrtc.createProgram(_PROBE, "probe.cu", (), ())
        nvrtc.compileProgram(program, (f"--gpu-architecture=sm_{min(nvrtc.getSupportedArchs())}",))
        if not nvrtc.getCUBIN(program):
            problem = "it returned no code"
        nvrtc.destroyProgram(program)
        found = "{}.{}".format(*nvrtc.getVersion())
    except (ImportError, RuntimeError, nvrtc.NVRTCError) as error:
        problem = str(error)
    return Toolchain(
        cupy.__version__, (version // 1000, version % 1000 // 10), None if problem else found, problem
    )


def kernel_cache_directory() -> Path:
    """Return where CuPy keeps compiled kernels: ``CUPY_CACHE_DIR``, else ``~/.cupy/kernel_cache``."""
    return Path(os.environ.get("CUPY_CACHE_DIR", Path.home() / ".cupy" / "kernel_cache"))
