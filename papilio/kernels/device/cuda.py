"""The current CUDA device through CuPy.

Large host arrays are copied through pinned buffers filled by several threads: a plain copy from pageable memory is
staged by a single thread of the driver and reaches only a fraction of the link's speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from threading import Lock, Timer
from time import perf_counter, sleep
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from papilio.errors import DeviceLostError, EngineUnavailableError, InputError
from papilio.kernels.announce import say_compiling
from papilio.kernels.device.compile import find_cubin, read_source
from papilio.kernels.device.constants import with_constants
from papilio.kernels.device.discovery import list_gpus
from papilio.kernels.device.protocol import N_STREAMS, Kernel, Module

_COMPILERS = 4
"""Number of modules compiled at the same time."""

_LOAD_S = 0.2
"""A module that takes longer to load was not in CuPy's cache."""

_BESIDE_BYTES = 1 << 16
"""Maximum size of an array copied while kernels run."""

_WAIT_SHARE, _LEAST_WAIT_S, _MOST_WAIT_S = 0.02, 2e-5, 5e-3
"""Interval between two looks whether an event is reached: a share of the time waited so far, and its bounds."""

_SHARED_DEFAULT_BYTES = 48 << 10
"""Shared memory, static and dynamic, available to a kernel by default."""


class _CudaModule:
    """A CuPy module, possibly still compiling, whose kernels may use all the shared memory of a block."""

    def __init__(self, compiled: Future[Any]) -> None:
        self._compiled = compiled
        self._kernels: dict[str, Kernel] = {}

    def get_function(self, name: str) -> Kernel:
        if name not in self._kernels:
            function = self._compiled.result().get_function(name)

            def launch(
                grid: tuple[int, ...],
                block: tuple[int, ...],
                args: tuple[Any, ...],
                shared_mem: int = 0,
                together: bool = False,
            ) -> None:
                needed = shared_mem + function.shared_size_bytes
                if needed > _SHARED_DEFAULT_BYTES and function.max_dynamic_shared_size_bytes < shared_mem:
                    function.max_dynamic_shared_size_bytes = shared_mem
                if together:
                    (blocks,), (threads,) = grid, block
                    function.kernel.linear_launch(
                        blocks * threads, args, shared_mem, threads, enable_cooperative_groups=True
                    )
                else:
                    function(grid, block, args, shared_mem=shared_mem)

            self._kernels[name] = launch
        return self._kernels[name]


def _put_on_device(module: Any) -> Any:
    module.compile()
    return module


class CudaDevice:
    """The current CUDA device, through CuPy.

    Arrays may take ``limit_bytes``; the context of the driver comes on top. This limits CuPy's pool, and thus
    everything this process does on the device; None leaves the limit of the pool unchanged.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.xp = cupy
        try:
            self.limit_memory(limit_bytes)
            attributes = cupy.cuda.Device().attributes
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise EngineUnavailableError(f"no usable CUDA device ({error}); use --engine cpu") from error
        self.sm_count = int(attributes["MultiProcessorCount"])
        self.max_shared_bytes = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._modules: dict[tuple[Any, ...], _CudaModule] = {}
        self._compilers = ThreadPoolExecutor(_COMPILERS, thread_name_prefix="papilio-nvrtc")
        self._streams = [cupy.cuda.Stream() for _ in range(N_STREAMS)]
        self._number = int(cupy.cuda.Device().id)
        self._staging_stream, self._aside_stream = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        # Before any kernel runs, as allocating pinned memory waits for running kernels.
        self._beside = cupy.cuda.Stream(non_blocking=True)
        self._beside_bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(_BESIDE_BYTES), np.uint8, _BESIDE_BYTES)
        self._beside_lock = Lock()

    @staticmethod
    def limit_memory(limit_bytes: int | None) -> None:
        """Limit the device memory of this process's arrays on the current device. None leaves the limit unchanged."""
        if limit_bytes is None:
            return
        if limit_bytes < 1:
            raise InputError(f"the limit of device memory is {limit_bytes} bytes; expected at least 1")
        cupy.get_default_memory_pool().set_limit(size=limit_bytes)

    def load(self, stem: str, defines: Mapping[str, int]) -> Module:
        key = (stem, *sorted(defines.items()))
        if key not in self._modules:
            self._modules[key] = _CudaModule(self._compilers.submit(self._compile, stem, with_constants(defines)))
        return self._modules[key]

    def _compile(self, stem: str, defines: Mapping[str, int]) -> Any:
        text = read_source(f"{stem}.cu")
        with cupy.cuda.Device(self._number) as device:  # threads start on device 0
            cuda = cupy.cuda.runtime.driverGetVersion() // 1000
            built = find_cubin(text, defines, device.compute_capability, cuda)
            if built is not None:
                with suppress(cupy.cuda.driver.CUDADriverError):  # the driver may be older than the compiler
                    return _put_on_device(cupy.RawModule(path=str(built)))
            slow = Timer(_LOAD_S, say_compiling)
            slow.daemon = True
            slow.start()
            try:
                given = (f"-D{name}={value}" for name, value in sorted(defines.items()))
                return _put_on_device(cupy.RawModule(code=text, options=("-std=c++17", *given)))
            finally:
                slow.cancel()

    def to_device(self, array: NDArray[Any]) -> Any:
        return copy_to_device(array)

    def to_host(self, array: Any) -> NDArray[Any]:
        return copy_to_host(array)

    def synchronize(self) -> None:
        cupy.cuda.get_current_stream().synchronize()

    def stream(self, number: int) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._streams[number % N_STREAMS]
        return stream

    def mark(self) -> Any:
        event = cupy.cuda.Event(disable_timing=True)
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        # Python handles signals between two looks, but not while CUDA waits.
        began = perf_counter()
        while not mark.done:
            sleep(min(max(_WAIT_SHARE * (perf_counter() - began), _LEAST_WAIT_S), _MOST_WAIT_S))

    def write_beside(self, array: Any, value: int) -> None:
        with self._beside_lock:
            host = self._beside_bytes[: array.nbytes].view(array.dtype)
            host[:] = value
            self._copy_beside(array.data.ptr, host.ctypes.data, array.nbytes, "memcpyHostToDevice")

    def read_beside(self, array: Any) -> NDArray[Any]:
        with self._beside_lock:
            host = self._beside_bytes[: array.nbytes].view(array.dtype)
            self._copy_beside(host.ctypes.data, array.data.ptr, array.nbytes, "memcpyDeviceToHost")
            found: NDArray[Any] = host.reshape(array.shape).copy()
            return found

    def _copy_beside(self, target: int, source: int, n_bytes: int, kind: str) -> None:
        runtime = cupy.cuda.runtime
        with cupy.cuda.Device(self._number):
            runtime.memcpyAsync(target, source, n_bytes, getattr(runtime, kind), self._beside.ptr)
            self._beside.synchronize()

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            yield
        except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            if _is_lost():
                raise DeviceLostError(
                    f"a kernel failed, and this process can no longer use {_name_device(self._number)} ({error}): "
                    "check the device with papilio doctor, or use --engine cpu"
                ) from error
            raise

    @contextmanager
    def staging(self) -> Iterator[None]:
        # A thread starts on device 0 and on the stream that waits for all others.
        with cupy.cuda.Device(self._number), self._staging_stream:
            yield
            self._staging_stream.synchronize()

    @contextmanager
    def aside(self) -> Iterator[None]:
        with cupy.cuda.Device(self._number), self._aside_stream:
            yield

    def free_bytes(self) -> int:
        free, _ = cupy.cuda.runtime.memGetInfo()
        pool = cupy.get_default_memory_pool()
        available, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
        return min(available, max(0, limit - int(pool.used_bytes()))) if limit else available


def _name_device(number: int) -> str:
    """Return the name of the GPU as in nvidia-smi, without querying the device, which may be lost."""
    gpus = list_gpus()
    return f"GPU {number} ({gpus[number].name}, {gpus[number].uuid})" if number < len(gpus) else f"GPU {number}"


def shared_device(limit_bytes: int | None = None) -> CudaDevice:
    """Return this process's object for the current device; all engines share its compiled modules.

    Parameters and errors are as for :class:`CudaDevice`.
    """
    device = _device_of(_current_number())
    device.limit_memory(limit_bytes)
    return device


@cache
def _device_of(number: int) -> CudaDevice:
    return CudaDevice()


def _current_number() -> int:
    """Return the number of the current device; 0 if no device is usable, which its constructor then reports."""
    try:
        return int(cupy.cuda.Device().id)
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def _is_lost() -> bool:
    try:
        cupy.cuda.runtime.deviceSynchronize()
    except cupy.cuda.runtime.CUDARuntimeError:
        return True
    return False


_LEAST_BYTES = 64 << 20
"""Minimum size; a plain copy of a smaller array takes a few milliseconds."""

_LEAST_PINNED_BYTES = 1 << 20

_CHUNK_BYTES = 8 << 20
_BUFFERS = 2
"""Per thread: one is filled while the device reads the other."""

_THREADS = 6


def copy_to_device(host: NDArray[Any]) -> Any:
    """Return a copy of ``host`` on the current device, of the same shape and dtype. Complete on return.

    Arrays already on the device are returned unchanged. For arrays of 64 MiB or more this takes 96 MiB of pinned
    memory, which CuPy's pool keeps for the next copy.
    """
    if not isinstance(host, np.ndarray) or host.nbytes < _LEAST_BYTES:
        return cupy.asarray(host)
    device = cupy.empty(host.shape, host.dtype)
    source = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    number = cupy.cuda.Device().id
    # The pool may have returned memory that work of this stream still reads; the copies run in other streams.
    cupy.cuda.get_current_stream().synchronize()

    def copy(thread: int) -> None:
        with cupy.cuda.Device(number):
            _copy_chunks(source, int(device.data.ptr), thread)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(copy, range(_THREADS)))
    return device


def copy_to_host(array: Any) -> NDArray[Any]:
    """Return a copy of a device array on the host, of the same shape and dtype. Complete on return.

    A copy of 1 to 64 MiB lies in pinned memory, which returns to CuPy's pool with it: such copies are frequent, and
    pageable memory takes several times as long.
    """
    host: NDArray[Any]
    if not isinstance(array, cupy.ndarray) or not _LEAST_PINNED_BYTES <= array.nbytes <= _LEAST_BYTES:
        host = cupy.asnumpy(array)
        return host
    memory = cupy.cuda.alloc_pinned_memory(array.nbytes)
    host = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    cupy.asnumpy(array, out=host)
    return host


def _copy_chunks(source: NDArray[np.uint8], target: int, thread: int) -> None:
    """Copy every chunk whose number is ``thread`` modulo the number of threads."""
    stream = cupy.cuda.Stream(non_blocking=True)
    memory = [cupy.cuda.alloc_pinned_memory(_CHUNK_BYTES) for _ in range(_BUFFERS)]
    buffers = [np.frombuffer(one, np.uint8, _CHUNK_BYTES) for one in memory]
    events = [cupy.cuda.Event(disable_timing=True) for _ in range(_BUFFERS)]
    try:
        for turn, begin in enumerate(range(thread * _CHUNK_BYTES, source.size, _THREADS * _CHUNK_BYTES)):
            size = min(_CHUNK_BYTES, source.size - begin)
            buffer, event = buffers[turn % _BUFFERS], events[turn % _BUFFERS]
            event.synchronize()
            buffer[:size] = source[begin : begin + size]
            cupy.cuda.runtime.memcpyAsync(
                target + begin,
                buffer.ctypes.data,
                size,
                cupy.cuda.runtime.memcpyHostToDevice,
                stream.ptr,
            )
            event.record(stream)
    finally:
        stream.synchronize()
