"""CUDA kernels on the CPU, for tests: the same sources, checked access by access. See ``docs/emulator.md``."""

from __future__ import annotations

from tests.emulator.build import find_compiler
from tests.emulator.device import EmulatorDevice, EmulatorKernel, EmulatorModule
from tests.emulator.errors import EmulatorError

__all__ = ["EmulatorDevice", "EmulatorError", "EmulatorKernel", "EmulatorModule", "find_compiler"]
