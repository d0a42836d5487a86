"""Device memory, which is host memory: NumPy under CuPy's name, aware of unwritten elements.

Arrays of ``empty`` and ``empty_like`` are filled with poison and tracked until they die. Kernels mark the bytes that
they write. Writes by the host are found by comparing with the poison before each launch: an element with any changed
byte holds a value (for elements of one or two bytes any change counts for the whole array, so that a value which
happens to equal the poison is no false alarm).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Memory", "Namespace"]

_POISON_LOW, _POISON_HIGH = 0xA0, 0xC0
_POISON_BYTES = 1 << 16
"""Drawn for an array; longer arrays repeat them."""


@dataclass
class _Buffer:
    array: weakref.ref[NDArray[Any]]
    poison: NDArray[np.uint8]
    written: NDArray[np.uint8]


def _root(array: NDArray[Any]) -> NDArray[Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Memory:
    """The buffers that were allocated without a value."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._buffers: dict[int, _Buffer] = {}

    def allocate(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A C-contiguous array without values."""
        array: NDArray[Any] = np.empty(shape, dtype)
        if array.nbytes == 0:
            return array
        drawn = self._random.integers(_POISON_LOW, _POISON_HIGH, min(array.nbytes, _POISON_BYTES), dtype=np.uint8)
        poison = np.resize(drawn, array.nbytes)
        array.reshape(-1).view(np.uint8)[:] = poison
        address = array.ctypes.data
        self._buffers[address] = _Buffer(weakref.ref(array), poison, np.zeros(array.nbytes, np.uint8))
        weakref.finalize(array, self._buffers.pop, address, None).atexit = False
        return array

    @property
    def live_buffers(self) -> int:
        """Number of arrays that are watched."""
        return len(self._buffers)

    def written_bytes(self, array: NDArray[Any]) -> int | None:
        """Address of the written-or-not bytes of a contiguous array; None when all of it holds values.

        Notices what the host has written since the last call.
        """
        root = _root(array)
        buffer = self._buffers.get(root.ctypes.data)
        if buffer is None or buffer.array() is not root:
            return None
        now, size = root.reshape(-1).view(np.uint8), root.itemsize
        if size <= 2:
            buffer.written[:] |= ((now != buffer.poison) & (buffer.written == 0)).any()
        else:
            # Whole elements first: few unwritten ones differ.
            unit = np.dtype(f"u{size}" if size in (4, 8) else "u1")
            differ = now.view(unit) != buffer.poison.view(unit)
            differ &= buffer.written.view(unit) != int.from_bytes(b"\1" * unit.itemsize)
            items = np.unique(np.flatnonzero(differ) * unit.itemsize // size)
            if items.size:
                rows = (each.reshape(-1, size) for each in (now, buffer.poison, buffer.written))
                values, poison, written = (each[items] for each in rows)
                found = ((values != poison) & (written == 0)).any(axis=1)
                buffer.written.reshape(-1, size)[items[found]] = 1
        return buffer.written.ctypes.data + (array.ctypes.data - root.ctypes.data)


class Namespace:
    """NumPy where a launcher expects CuPy: host input is copied, ``empty`` has no values."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
        """As ``cupy.empty``: no one has written it."""
        return self._memory.allocate(shape, dtype)

    def empty_like(self, prototype: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """As ``cupy.empty_like``: no one has written it."""
        return self._memory.allocate(prototype.shape, prototype.dtype if dtype is None else dtype)

    def asarray(self, values: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """As ``cupy.asarray`` of host data: a copy."""
        return np.array(values, dtype=dtype, order="C")

    def array(self, values: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """As ``cupy.array``: a copy."""
        return np.array(values, dtype=dtype, order="C")
