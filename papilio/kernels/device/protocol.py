"""A CUDA device as the launchers see it: arrays, kernels from the ``.cu`` sources, limits.

The launchers use only this small interface; :mod:`papilio.kernels.device.cuda` implements it with CuPy, and the tests
with NumPy on an emulator of the CUDA sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.engine import Loadable, StopCheck, shared_cut
from papilio.parts import CliquePart, RootPart

N_STREAMS = 4
"""Streams of a device: enough for a launch to fill the processors that the previous one leaves idle."""

THREADS = 256
"""Threads per block of the kernels that build graphs and indices."""

Kernel = Callable[..., None]
"""``kernel(grid, block, args, shared_mem=0, together=False)``, as CuPy's.

With ``together`` all blocks run at the same time, so that they may wait for each other; grid and block are then linear,
and a grid too large for the device to hold at once is an error.
"""


Launch = Callable[[int], None]
"""A launch in the stream of the given number."""


class Module(Protocol):
    """A compiled ``.cu`` file."""

    def get_function(self, name: str) -> Kernel:
        """Return the kernel of that name; wait for its compilation."""
        ...


class Device(Protocol):
    """The features of a device that the launchers use."""

    # CuPy, or NumPy on the emulator.
    xp: Any
    # Multiprocessors.
    sm_count: int
    # Maximum shared memory of a block.
    max_shared_bytes: int

    def load(self, stem: str, defines: Mapping[str, int]) -> Module:
        """Compile ``<stem>.cu`` with the constants of the launchers and these ``-D`` defines; cached.

        Returns immediately if possible: the kernels of a run are loaded first, and are compiled by the time they run.
        """
        ...

    def to_device(self, array: NDArray[Any]) -> Any:
        """Copy a host array to the device."""
        ...

    def to_host(self, array: Any) -> NDArray[Any]:
        """Copy a device array to the host."""
        ...

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""
        ...

    def stream(self, number: int) -> AbstractContextManager[Any]:
        """Send the launches of the block to stream ``number`` modulo :data:`N_STREAMS`.

        Launches of one stream run in order. All streams wait for work submitted outside them before, and work submitted
        outside them later waits for them.
        """
        ...

    def mark(self) -> Any:
        """Return an event at the current end of the current stream."""
        ...

    def wait(self, mark: Any) -> None:
        """Wait, without the interpreter lock, until the stream reaches an event; signals are handled meanwhile."""
        ...

    def write_beside(self, array: Any, value: int) -> None:
        """Fill a short int32 array while kernels run; from any thread, done on return."""
        ...

    def read_beside(self, array: Any) -> NDArray[Any]:
        """Copy a short array to the host while kernels run; from any thread."""
        ...

    def guard(self) -> AbstractContextManager[None]:
        """Raise the errors of the block as errors of Papilio.

        DeviceLostError means that the process cannot use the device any more.
        """
        ...

    def staging(self) -> AbstractContextManager[None]:
        """Copy to the device while kernels of other threads run. Copies are complete at the end of the block."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Send the launches and copies of the block to a stream that waits for no other, and none for it.

        What the block uses must be complete before. An array made there may be used elsewhere after its :meth:`mark`.
        """
        ...

    def free_bytes(self) -> int:
        """Device memory that can still be allocated within the limit of the device, if any, in bytes."""
        ...


def launch_over(device: Device, module: Module, kernel: str, n_threads: int, *arguments: Any) -> None:
    """Launch a grid-stride kernel with one thread per element, or fewer for very many elements."""
    blocks = min((n_threads + THREADS - 1) // THREADS, 16 * device.sm_count)
    module.get_function(kernel)((max(1, blocks),), (THREADS,), arguments)


def stage_part(device: Device, block: Loadable) -> Loadable:
    """Return a part of roots with its edges on the device, or any other block unchanged."""
    part: Any = block
    if isinstance(part, RootPart | CliquePart):
        graph: Any = part.graph
        with device.guard(), device.staging():
            edges = {name: device.to_device(getattr(graph, name)) for name in ("u", "v")}
        part = replace(part, graph=replace(graph, **edges))
    assert isinstance(part, type(block))
    return part


def check_fits(name: str, size: int, limit: int, unit: str) -> None:
    """Raise :class:`CapacityError` when ``size`` passes ``limit``."""
    if size > limit:
        raise CapacityError(f"{name} is {size} {unit}; the maximum for the gpu engine is {limit}; use --engine cpu")


def launch_slices(
    device: Device,
    bounds: Sequence[int],
    launches: Callable[[int], Iterable[Launch]],
    cut: StopCheck,
) -> int:
    """Launch slices in order, one ahead of the running one, in alternating streams. Return the end of the run.

    Slices lie between ``bounds``; ``launches`` returns the launches of slice ``number``. Once ``cut`` is true no
    further slice begins. If another worker waits, it is left half of the slices that have not begun.
    """
    marks: list[list[Any]] = []
    number, n_slices, at = 0, len(bounds) - 1, 0
    while at < n_slices:
        marks.append([])
        for launch in launches(at):
            with device.stream(number % N_STREAMS):
                launch(number % N_STREAMS)
                marks[at].append(device.mark())
            number += 1
        at += 1
        if at == n_slices:
            break
        for mark in marks[at - 2] if at > 1 else []:
            device.wait(mark)
        if cut():
            break
        shared = shared_cut(cut)
        if shared is not None and shared.is_worth(at, n_slices - at):
            n_slices = (at + n_slices) // 2
            shared.leave(bounds[n_slices])
    return bounds[at]
