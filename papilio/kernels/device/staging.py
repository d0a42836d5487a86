"""Copies of large host arrays to a CUDA device through pinned buffers that several threads fill.

A plain copy from pageable memory is staged by one thread of the driver and reaches a fraction of the link's speed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

_LEAST_BYTES = 64 << 20
"""Below this a plain copy takes a few milliseconds."""

_LEAST_PINNED_BYTES = 1 << 20

_CHUNK_BYTES = 8 << 20
_BUFFERS = 2
"""Of each thread: one is filled while the device reads the other."""

_THREADS = 6


def copy_to_device(host: NDArray[Any]) -> Any:
    """Return a copy of ``host``, of the same shape and dtype, on the current device; complete on return.

    What is on the device already stays as it is.

    Takes 96 MiB of pinned memory for arrays of 64 MiB or more, which CuPy's pool keeps for the next copy.
    """
    if not isinstance(host, np.ndarray) or host.nbytes < _LEAST_BYTES:
        return cupy.asarray(host)
    device = cupy.empty(host.shape, host.dtype)
    source = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    number = cupy.cuda.Device().id
    # The pool may have given memory that work of this stream still reads; the copies run in other streams.
    cupy.cuda.get_current_stream().synchronize()

    def copy(thread: int) -> None:
        with cupy.cuda.Device(number):
            _copy_chunks(source, int(device.data.ptr), thread)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(copy, range(_THREADS)))
    return device


def copy_to_host(array: Any) -> NDArray[Any]:
    """Return a copy of a device array, of the same shape and dtype, on the host; complete on return.

    One of 1 to 64 MiB lies in pinned memory, which goes back to CuPy's pool with it: such copies come again and again,
    and pageable memory takes several times as long.
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
