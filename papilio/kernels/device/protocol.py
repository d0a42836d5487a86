"""A CUDA device as the launchers see it: arrays, kernels from the ``.cu`` sources, limits.

The launchers use nothing but this small interface; :mod:`papilio.kernels.device.cuda` implements it with
CuPy, and the tests with NumPy on an emulator of the CUDA sources.
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
"""Streams of a device: enough that a launch fills the processors that the one before leaves idle."""

THREADS = 256
"""Of a block of the kernels that build graphs and indices."""

Kernel = Callable[..., None]
"""``kernel(grid, block, args, shared_mem=0, together=False)``, as CuPy's.

With ``together`` all blocks run at the same time, so that they may wait for each other; grid and block are then linear,
and a grid that the device cannot hold at once is refused.
"""


Launch = Callable[[int], None]
"""A launch in the stream of the given number."""


class Module(Protocol):
    """A compiled ``.cu`` file."""

    def get_function(self, name: str) -> Kernel:
        """Return the kernel of that name, once it is compiled."""
        ...


class Device(Protocol):
    """What the launchers need of a device."""

    # CuPy, or NumPy on the emulator.
    xp: Any
    # Multiprocessors.
    sm_count: int
    # Shared memory that one block can have.
    max_shared_bytes: int

    def load(self, stem: str, defines: Mapping[str, int]) -> Module:
        """Compile ``<stem>.cu`` with the constants of the launchers and these ``-D`` defines; cached.

        It returns at once where it can: what a run will launch is loaded first, and is ready when it is needed.
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
        """Send the launches of the block to one of :data:`N_STREAMS` streams, the one of this number modulo.

        Launches of one stream run in order. All streams wait for what was submitted outside of them, and what is
        submitted outside waits for them.
        """
        ...

    def mark(self) -> Any:
        """Return an event at the present end of the current stream."""
        ...

    def wait(self, mark: Any) -> None:
        """Wait until the stream of an event has come by it, without the interpreter lock."""
        ...

    def write_beside(self, array: Any, value: int) -> None:
        """Set all of a short int32 array beside the kernels that run; from any thread, done on return."""
        ...

    def read_beside(self, array: Any) -> NDArray[Any]:
        """Copy a short array to the host beside the kernels that run; from any thread."""
        ...

    def guard(self) -> AbstractContextManager[None]:
        """Name what goes wrong inside the block.

        DeviceLostError says that the process cannot use the device any more.
        """
        ...

    def staging(self) -> AbstractContextManager[None]:
        """Copy to the device inside the block beside the kernels of other threads, complete at its end."""
        ...

    def free_bytes(self) -> int:
        """Device memory that can still be allocated within the limit of the device, if it has one, in bytes."""
        ...


def launch_over(device: Device, module: Module, kernel: str, n_threads: int, *arguments: Any) -> None:
    """Launch a kernel of grid-stride loops with a thread for each element, or for some where there are very many."""
    blocks = min((n_threads + THREADS - 1) // THREADS, 16 * device.sm_count)
    module.get_function(kernel)((max(1, blocks),), (THREADS,), arguments)


def stage_part(device: Device, block: Loadable) -> Loadable:
    """Return a part of roots with its edges on the device; any other block as it is."""
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
        raise CapacityError(
            f"{name} is {size} {unit}; the maximum for the gpu engine is {limit}; use --engine cpu"
        )


def launch_slices(
    device: Device,
    bounds: Sequence[int],
    launches: Callable[[int], Iterable[Launch]],
    cut: StopCheck,
) -> int:
    """Launch slice after slice, one ahead of the one that runs, in streams by turns; return where the run ended.

    Slices lie between ``bounds``; ``launches`` gives those of a slice by its number. Once ``cut`` is true no further
    slice begins. If another worker waits, it is left half of the slices that have not begun.
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
