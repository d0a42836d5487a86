"""Where CUDA kernels run in tests: the GPU, and the emulator."""

from __future__ import annotations

import pytest

from papilio.errors import EngineUnavailableError
from papilio.kernels.device.protocol import Device

__all__ = ["cuda_device", "emulator"]


def cuda_device() -> Device:
    """Return the GPU, or skip with the reason why there is none."""
    try:
        from papilio.kernels.device.cuda import CudaDevice

        return CudaDevice()
    except (ImportError, EngineUnavailableError) as error:
        pytest.skip(str(error))


def emulator(seed: int, **options: int) -> Device:
    """Return an emulator with this schedule of threads, or skip where there is no compiler for it."""
    from tests.emulator import EmulatorDevice, find_compiler

    if find_compiler() is None:
        pytest.skip("no GCC found ($CXX, g++, c++); the emulator compiles kernels with it")
    return EmulatorDevice(seed=seed, **options)
