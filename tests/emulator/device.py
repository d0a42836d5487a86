"""The device that kernels are launched on, with the interface of the GPU's."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.compile import SOURCES
from papilio.kernels.device.constants import with_constants
from tests.emulator.build import build_kernels, build_runtime, resolve_locations
from tests.emulator.errors import EmulatorError
from tests.emulator.memory import Memory, Namespace
from tests.emulator.source import translate

__all__ = ["EmulatorDevice", "EmulatorKernel", "EmulatorModule"]

RESIDENT_BLOCKS = 4
"""Blocks that run interleaved; the next one starts when one of them ends."""

_BLOCK_LIMITS = (1024, 1024, 64)
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_REPORT_BYTES = 4096
_MAX_PARAMETERS = 64
_one_launch_at_a_time = threading.Lock()


class _Region(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("initialized", ctypes.c_void_p),
        ("argument", ctypes.c_uint64),
    ]


class _LaunchSpec(ctypes.Structure):
    _fields_ = [
        ("run", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared_bytes", ctypes.c_uint64),
        ("max_shared_bytes", ctypes.c_uint64),
        ("resident_blocks", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("max_steps", ctypes.c_uint64),
        ("regions", ctypes.c_void_p),
        ("n_regions", ctypes.c_uint64),
        ("report", ctypes.c_char_p),
        ("report_bytes", ctypes.c_uint64),
        ("switches", ctypes.c_uint64),
        ("steps", ctypes.c_uint64),
    ]


class _Parameter(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_char), ("kind", ctypes.c_char), ("size", ctypes.c_uint16)]


@cache
def _runtime(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


def _shape(name: str, given: tuple[int, ...], limits: tuple[int, int, int]) -> tuple[int, ...]:
    full = (*given, *(1,) * (3 - len(given)))
    if len(full) != 3 or any(not 1 <= size <= limit for size, limit in zip(full, limits, strict=True)):
        raise EmulatorError(f"{name} {given}: one to three sizes from 1 up to {limits} are allowed")
    return full


def _same_kind(kind: str, dtype: np.dtype[Any]) -> bool:
    return kind in "sv" or (kind == "f") == (dtype.kind == "f")


class EmulatorKernel:
    """One kernel of a module; call it as a CuPy kernel."""

    def __init__(self, device: EmulatorDevice, library: Path, functions: ctypes.CDLL, name: str) -> None:
        self.name = name
        self._device = device
        self._library = library
        self._run = ctypes.cast(getattr(functions, f"papilio_emu_run_{name}"), ctypes.c_void_p).value
        parameters = (_Parameter * _MAX_PARAMETERS)()
        bound = ctypes.c_int()
        describe = getattr(functions, f"papilio_emu_describe_{name}")
        count = describe(parameters, _MAX_PARAMETERS, ctypes.byref(bound))
        if count > _MAX_PARAMETERS:
            raise EmulatorError(f"{name} has {count} parameters; at most {_MAX_PARAMETERS}")
        self._parameters = parameters[:count]
        self.max_threads = bound.value

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        shared_mem: int = 0,
        together: bool = False,
    ) -> None:
        """Run the kernel to its end; ``together`` asks for all blocks to be resident.

        Raises
        ------
        EmulatorError
            When the launch is invalid or the kernel breaks a rule.
        """
        grid, block = _shape("grid", grid, _GRID_LIMITS), _shape("block", block, _BLOCK_LIMITS)
        if together and math.prod(grid) > RESIDENT_BLOCKS:
            raise EmulatorError(
                f"{self.name}: {math.prod(grid)} blocks together; at most {RESIDENT_BLOCKS} are resident"
            )
        threads = math.prod(block)
        if threads > min(1024, self.max_threads):
            raise EmulatorError(f"{self.name}: {threads} threads in a block; at most {min(1024, self.max_threads)}")
        if threads * math.prod(grid) >= 2**32:
            raise EmulatorError(f"{self.name}: {threads * math.prod(grid)} threads; the emulator numbers 2^32")
        if not 0 <= shared_mem <= self._device.max_shared_bytes:
            raise EmulatorError(
                f"{self.name}: {shared_mem} bytes of dynamic shared memory; 0 to {self._device.max_shared_bytes}"
            )
        if len(args) != len(self._parameters):
            raise EmulatorError(f"{self.name} takes {len(self._parameters)} arguments, got {len(args)}")
        values = [self._value(at, argument) for at, argument in enumerate(args)]
        self._launch(grid, block, values, self._regions(args), shared_mem)

    def _value(self, at: int, argument: Any) -> ctypes.Array[ctypes.c_char]:
        parameter = self._parameters[at]
        pointer, kind, size = parameter.pointer.decode(), parameter.kind.decode(), parameter.size
        where = f"{self.name}: argument {at}"
        if isinstance(argument, np.ndarray):
            if pointer == "-":
                raise EmulatorError(f"{where} is an array, the parameter is a value of {size} bytes")
            if not argument.flags.c_contiguous:
                raise EmulatorError(f"{where} is not C-contiguous")
            if pointer == "m" and not argument.flags.writeable:
                raise EmulatorError(f"{where} is read-only, the parameter points to what may be written")
            if kind not in "sv" and (argument.itemsize != size or not _same_kind(kind, argument.dtype)):
                raise EmulatorError(f"{where} has dtype {argument.dtype}, the parameter points to {kind}{size}")
            return ctypes.create_string_buffer(argument.ctypes.data.to_bytes(8, "little"), 8)
        if not isinstance(argument, np.generic):
            raise EmulatorError(f"{where} is of type {type(argument).__name__}; pass an array or a NumPy scalar")
        if pointer != "-":
            raise EmulatorError(f"{where} is the value {argument!r}, the parameter is a pointer")
        if argument.dtype.itemsize != size or not _same_kind(kind, argument.dtype):
            raise EmulatorError(f"{where} has dtype {argument.dtype}, the parameter is {kind}{size}")
        return ctypes.create_string_buffer(argument.tobytes(), size)

    def _regions(self, args: tuple[Any, ...]) -> list[_Region]:
        regions = []
        for at, array in enumerate(args):
            if isinstance(array, np.ndarray) and array.nbytes:
                written = self._device.memory.written_bytes(array)
                regions.append(_Region(array.ctypes.data, array.nbytes, written, at))
        return regions

    def _launch(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        values: list[ctypes.Array[ctypes.c_char]],
        regions: list[_Region],
        shared_mem: int,
    ) -> None:
        device = self._device
        arguments = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        table = (_Region * max(1, len(regions)))(*regions)
        report = ctypes.create_string_buffer(_REPORT_BYTES)
        spec = _LaunchSpec(
            run=self._run,
            arguments=ctypes.addressof(arguments),
            grid=(ctypes.c_uint32 * 3)(*grid),
            block=(ctypes.c_uint32 * 3)(*block),
            dynamic_shared_bytes=shared_mem,
            max_shared_bytes=device.max_shared_bytes,
            resident_blocks=RESIDENT_BLOCKS,
            seed=device.next_seed(),
            max_steps=device.max_steps,
            regions=ctypes.addressof(table),
            n_regions=len(regions),
            report=ctypes.cast(report, ctypes.c_char_p),
            report_bytes=_REPORT_BYTES,
        )
        with _one_launch_at_a_time:
            failed = _runtime(device.runtime).papilio_emu_launch(ctypes.byref(spec))
        device.switches += spec.switches
        device.steps += spec.steps
        if failed:
            text = resolve_locations(report.value.decode(), self._library)
            raise EmulatorError(f"kernel {self.name}: {text} [seed {device.seed}, launch {device.launches}]")


class EmulatorModule:
    """The kernels of one compiled source."""

    def __init__(self, device: EmulatorDevice, library: Path, names: tuple[str, ...]) -> None:
        self.kernel_names = names
        self._device = device
        self._library = library
        self._functions = ctypes.CDLL(str(library))

    def get_function(self, name: str) -> EmulatorKernel:
        """The kernel ``name``."""
        if name not in self.kernel_names:
            raise EmulatorError(f"no kernel {name!r}; there are: {', '.join(self.kernel_names)}")
        return EmulatorKernel(self._device, self._library, self._functions, name)


def _build_text(
    text: str, name: str, constants: Mapping[str, int], arch: int, runtime: Path
) -> tuple[Path, tuple[str, ...]]:
    """Return the library of a source and the names of its kernels."""
    sources = translate(text, name, SOURCES)
    names = tuple(kernel for source in sources for kernel in source.kernels)
    return build_kernels(sources, constants, arch, runtime), names


@cache  # devices load the same few sources thousands of times
def _build(stem: str, constants: tuple[tuple[str, int], ...], arch: int, runtime: Path) -> tuple[Path, tuple[str, ...]]:
    path = SOURCES[f"{stem}.cu"]
    return _build_text(path.read_text(), path.name, dict(constants), arch, runtime)


class EmulatorDevice:
    """A GPU emulated in this process: kernels run as fibers in a random order drawn from ``seed``.

    Parameters
    ----------
    seed : int
        Of the order of threads and blocks; each launch draws a new one from it.
    sm_count : int
        Number of SMs that launchers see.
    max_shared_bytes : int
        Shared memory of one block, static and dynamic together.
    arch : int
        ``__CUDA_ARCH__``: 750, 800, 900 ...
    max_steps : int
        Basic blocks after which a launch is taken for endless.
    free_bytes : int
        Free device memory that launchers see.
    ucontext : bool
        Switch fibers by the C library instead of by own code.
    """

    def __init__(
        self,
        seed: int = 0,
        sm_count: int = 2,
        max_shared_bytes: int = 232448,
        arch: int = 900,
        max_steps: int = 1_000_000_000,
        free_bytes: int = 1 << 32,
        ucontext: bool = False,
    ) -> None:
        self.seed = seed
        self.sm_count = sm_count
        self.max_shared_bytes = max_shared_bytes
        self.arch = arch
        self.max_steps = max_steps
        self._free_bytes = free_bytes
        self.runtime = build_runtime(ucontext)
        self.memory = Memory(seed)
        self.xp: Any = Namespace(self.memory)
        self.launches = 0
        self.switches = 0
        self.steps = 0

    def next_seed(self) -> int:
        """The seed of the next launch."""
        self.launches += 1
        return (self.seed * 1_000_003 + self.launches) % 2**64

    def load(self, stem: str, defines: Mapping[str, int]) -> EmulatorModule:
        """Compile the source ``<stem>.cu`` of Papilio."""
        constants = tuple(sorted(with_constants(defines).items()))
        return EmulatorModule(self, *_build(stem, constants, self.arch, self.runtime))

    def loads(self, text: str, name: str, defines: Mapping[str, int]) -> EmulatorModule:
        """Compile a source given as text, with the same constants; ``name`` is the file that messages show."""
        return EmulatorModule(self, *_build_text(text, name, with_constants(defines), self.arch, self.runtime))

    def to_device(self, array: NDArray[Any]) -> Any:
        """A copy on the device, which is here."""
        return self.xp.asarray(array)

    def to_host(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy on the host, which is here."""
        return np.array(array)

    def stream(self, number: int) -> AbstractContextManager[None]:
        """Launches end before they return, so all streams are one."""
        return nullcontext()

    def mark(self) -> None:
        """Nothing is under way."""

    def wait(self, mark: None) -> None:
        """Nothing to wait for."""

    def write_beside(self, array: NDArray[Any], value: int) -> None:
        """Set an array, while a launch may run in another thread."""
        array[...] = value

    def read_beside(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy, while a launch may run in another thread."""
        return np.array(array)

    def guard(self) -> AbstractContextManager[None]:
        """The emulator's errors name what goes wrong by themselves."""
        return nullcontext()

    def staging(self) -> AbstractContextManager[None]:
        """Copies end before they return."""
        return nullcontext()

    def aside(self) -> AbstractContextManager[None]:
        """Launches end before they return."""
        return nullcontext()

    def free_bytes(self) -> int:
        """Device memory that can still be allocated, in bytes."""
        return self._free_bytes

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it has ended."""
