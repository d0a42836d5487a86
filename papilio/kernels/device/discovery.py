"""Find the GPUs visible to this process, without CuPy and without creating a CUDA context.

This calls the driver library directly: ``cuInit`` and the device queries below allocate nothing on a device, so
a client can list GPUs before it starts the worker processes that own them. Only :func:`retain_context` does.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from uuid import UUID

from papilio.extras import how_to_install
from papilio.settings import VISIBLE_DEVICES

_CUDA_SUCCESS = 0
_NAME_BYTES = 256
_UUID_BYTES = 16
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
"""Attributes in ``CUdevice_attribute``."""


@dataclass(frozen=True)
class GpuInfo:
    """One visible device."""

    name: str  # as reported by the driver
    memory_bytes: int
    capability: tuple[int, int] = (0, 0)  # compute capability, major and minor
    # GPU-..., or MIG-... for a slice of a partitioned GPU, as in nvidia-smi: the same in every process; empty if the
    # driver reports none.
    uuid: str = ""


@cache
def list_gpus() -> tuple[GpuInfo, ...]:
    """Return the devices visible to this process; empty without a driver.

    Respects ``CUDA_VISIBLE_DEVICES``, as the driver does.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int(0)
    if driver.cuInit(0) != _CUDA_SUCCESS or driver.cuDeviceGetCount(ctypes.byref(count)) != _CUDA_SUCCESS:
        return ()
    return tuple(_describe(driver, ordinal) for ordinal in range(count.value))


def retain_context() -> None:
    """Create the context of the first visible device for CuPy. Ignores failures, which CuPy reports."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(0), ctypes.c_void_p()
    if driver.cuDeviceGet(ctypes.byref(device), 0) == _CUDA_SUCCESS:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def begin_context() -> None:
    """Start the driver; create a context if exactly one device is visible. Runs in a thread, without imports."""
    if len(list_gpus()) == 1:
        retain_context()


def _describe(driver: ctypes.CDLL, ordinal: int) -> GpuInfo:
    device = ctypes.c_int(0)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    total = ctypes.c_size_t(0)
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    driver.cuDeviceGetName(name, _NAME_BYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, device)
    return GpuInfo(
        name.value.decode(errors="replace"),
        int(total.value),
        (major.value, minor.value),
        _uuid_of(driver, device),
    )


def _uuid_of(driver: ctypes.CDLL, device: ctypes.c_int) -> str:
    """Return the UUID of a device, or an empty string.

    The first form of the query returns the UUID of the whole GPU, the second the UUID of the slice; they differ only on
    a partitioned GPU.
    """
    answers = []
    for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"):
        uuid = ctypes.create_string_buffer(_UUID_BYTES)
        ask = getattr(driver, name, None)
        if ask is not None and ask(uuid, device) == _CUDA_SUCCESS:
            answers.append(UUID(bytes=uuid.raw))
    if not answers:
        return ""
    return f"{'GPU' if answers[0] == answers[-1] else 'MIG'}-{answers[0]}"


def list_visible_ids() -> tuple[str, ...]:
    """Return the value of ``CUDA_VISIBLE_DEVICES`` for each process that uses a single device.

    A process sees at most one slice of partitioned GPUs, whatever ``CUDA_VISIBLE_DEVICES`` lists; each listed slice
    is for a separate process.
    """
    gpus = list_gpus()
    listed = [entry.strip() for entry in (VISIBLE_DEVICES.value or "").split(",")]
    if listed == [""]:
        return tuple(str(ordinal) for ordinal in range(len(gpus)))
    if gpus and all(entry.startswith("MIG-") for entry in listed):
        return tuple(dict.fromkeys(listed))
    return tuple(listed[: len(gpus)])


def driver_cuda_version() -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports, such as (13, 0). None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(version)) != _CUDA_SUCCESS:
        return None
    return version.value // 1000, version.value % 1000 // 10


def held_device_bytes() -> int:
    """Return the bytes of device memory held by this process's CuPy pool. 0 without a GPU or CuPy.

    CuPy counts only if it is loaded. The pool does not release memory on its own, so this is the peak so far. The
    context and the code of the kernels come on top of it.
    """
    cupy = sys.modules.get("cupy")
    if cupy is None or not list_gpus():
        return 0
    return int(cupy.get_default_memory_pool().total_bytes())


def used_device_bytes() -> int:
    """Return the bytes of memory of the current device that all processes use, from the driver.

    0 without a GPU, if CuPy is not loaded, or if the device does not respond: the next kernel raises the error.
    """
    cupy = sys.modules.get("cupy")
    if cupy is None or not list_gpus():
        return 0
    try:
        free, total = cupy.cuda.runtime.memGetInfo()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0
    return int(total) - int(free)


def release_device_memory() -> None:
    """Release the device memory that CuPy's pool of this process keeps for later arrays."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and list_gpus():
        cupy.get_default_memory_pool().free_all_blocks()


def missing_for_gpu() -> str | None:
    """Return what the gpu engine lacks in this process, or None if it can run."""
    if not list_gpus():
        return "no CUDA device is visible"
    if find_spec("cupy") is None:
        return f"CuPy is not installed: {how_to_install('cupy')}"
    return None
