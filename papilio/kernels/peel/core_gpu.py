"""Cores on the GPU (``core.cu``, ``rounds.cuh``): as :mod:`papilio.kernels.peel.core` on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.arrays import fill_ints, load_arrays, make_offsets
from papilio.kernels.device.protocol import Device, Module, check_fits, launch_over
from papilio.kernels.exact import require_room
from papilio.kernels.memory import MAX_EDGES, MAX_ROWS
from papilio.kernels.peel.core import NONE_FIXED, Fixed, count_vertices
from papilio.kernels.peel.phases import Peeled

_BLOCK_EDGES = 1 << 17
"""Maximum edges that a single block peels: its barriers cost less than grid barriers.

One H200, kernels, ms, block and grid: facebook_combined (88,234) 1.0 and 1.5, ca-AstroPh (198,050) 1.6 and 1.5,
soc-Epinions1 (405,740) 5.1 and 2.5.
"""

_BATCH_EDGES = 1 << 22
"""Maximum edges for the table of all cores by peelings side by side, a block each: one alone is bound by its rounds."""

_PEEL_THREADS = 1024

_BYTES_PER_EDGE, _BYTES_PER_VERTEX = 16, 40


@dataclass(frozen=True, eq=False)
class CoreRowsGpu:
    """The edges, the degrees and the neighbours of all vertices, on the device."""

    # ``u`` and ``v``, their number, and the first vertex of layer V: the first arguments of the kernels of edges
    edges: tuple[Any, ...]
    degree: Any  # int32, shape (n,)
    offsets: Any  # int64, shape (n + 1,)
    others: Any  # int32, shape (2 * n_edges,)

    @property
    def n(self) -> int:
        return int(self.degree.size)

    @property
    def first_v(self) -> int:
        return int(self.edges[3])


def require_size(n: int, n_edges: int) -> None:
    """Raise CapacityError for more than 2^32 - 2^13 edges or 2^31 - 2^20 vertices."""
    check_fits("the number of edges", n_edges, MAX_EDGES, "edges")
    check_fits("the number of vertices", n, MAX_ROWS, "vertices")


def count_degrees(
    device: Device, module: Module, graph: BipartiteGraph | UnipartiteGraph
) -> tuple[tuple[Any, ...], Any]:
    """Return the edges and the degrees of :class:`CoreRowsGpu`; ``module`` includes ``rounds.cuh``."""
    n, first_v = count_vertices(graph)
    require_size(n, graph.n_edges)
    load_arrays(device)
    edges = device.to_device(graph.u), device.to_device(graph.v), np.int64(graph.n_edges), np.int32(first_v)
    degree = device.xp.zeros(n, dtype=np.int32)
    if graph.n_edges:
        launch_over(device, module, "count_neighbours", graph.n_edges, *edges, degree)
    return edges, degree


def index_rows(device: Device, module: Module, edges: tuple[Any, ...], degree: Any) -> CoreRowsGpu:
    """Return the neighbours of all vertices, given what :func:`count_degrees` returns."""
    n_edges, offsets = int(edges[2]), make_offsets(device, degree)
    others = device.xp.empty(2 * n_edges, dtype=np.int32)
    if n_edges:
        cursor = offsets[:-1].copy().view(np.uint64)
        launch_over(device, module, "list_neighbours", n_edges, *edges, cursor, others)
    return CoreRowsGpu(edges, degree, offsets, others)


def peel_rows(device: Device, module: Module, rows: CoreRowsGpu, fixed: Fixed, by_round: bool) -> tuple[Any, Any]:
    """Return the level at which each vertex is removed, or its round; and the counters (``rounds.cuh``). Both int32."""
    told, listed = fill_ints(device, rows.n, -1), device.xp.empty(2 * rows.n, dtype=np.int32)
    counters = device.to_device(np.array([0, 0, 0, 2**31 - 1, 2**31 - 1, 0], np.int32))
    module.get_function("peel_rounds")(
        (1 if rows.others.size <= 2 * _BLOCK_EDGES else device.sm_count,),
        (_PEEL_THREADS,),
        (
            np.int32(rows.n), rows.offsets, rows.others, *map(np.int32, fixed), np.int32(by_round),
            rows.degree.copy(), told, listed, counters, device.xp.zeros(1, dtype=np.uint64),
        ),
        together=True,
    )  # fmt: skip
    return told, counters


def index_core_gpu(device: Device, graph: BipartiteGraph | UnipartiteGraph) -> CoreRowsGpu:
    """Return the neighbours of all vertices; CapacityError if the device has too little memory."""
    needed = _BYTES_PER_EDGE * graph.n_edges + _BYTES_PER_VERTEX * count_vertices(graph)[0]
    remedy = "use a device with more memory, or use --engine cpu"
    require_room(f"cores of {graph.n_edges} edges need", needed, device.free_bytes(), remedy, "device memory")
    module = device.load("core", {})
    return index_rows(device, module, *count_degrees(device, module, graph))


def peel_core_gpu(device: Device, rows: CoreRowsGpu, fixed: Fixed = NONE_FIXED) -> Peeled:
    """Return the core number of every vertex, as :func:`~papilio.kernels.peel.core.peel_core`."""
    began = perf_counter()
    numbers, counters = peel_rows(device, device.load("core", {}), rows, fixed, False)
    on_host, rounds = device.to_host(numbers).astype(np.uint64), int(device.to_host(counters)[5])
    return Peeled(on_host, 0, 0, rounds, rows.others.size, {"coarse": 0.0, "fine": perf_counter() - began})


def choose_batch(device: Device, rows: CoreRowsGpu, n_levels: int) -> int:
    """Return the number of peelings at once, each by one block; 1 for graphs that keep the whole device busy."""
    if rows.others.size > 2 * _BATCH_EDGES:
        return 1
    return max(1, min(device.sm_count, device.free_bytes() // 2 // (16 * rows.n + 24 * n_levels + 1)))


def count_batch_gpu(
    device: Device, rows: CoreRowsGpu, fixed: Sequence[Fixed], n_levels: int
) -> Sequence[NDArray[np.int64]]:
    """Return what :func:`count_levels_gpu` returns, for several fixed layers."""
    xp, module, size, n = device.xp, device.load("core", {}), len(fixed), rows.n
    left, told, listed = (xp.empty(words * size * n, dtype=np.int32) for words in (1, 1, 2))
    each = device.to_device(np.array(fixed, np.int32))
    module.get_function("peel_each")(
        (size,),
        (_PEEL_THREADS,),
        (np.int32(n), rows.offsets, rows.others, rows.degree, each, left, told, listed),
    )
    counts = xp.zeros((size, 3, n_levels), dtype=np.uint64)
    for at in range(size):
        _count_levels(device, rows, told[at * n : (at + 1) * n], counts[at])
    return list(device.to_host(counts).astype(np.int64))


def _count_levels(device: Device, rows: CoreRowsGpu, numbers: Any, counts: Any) -> None:
    launch_over(
        device, device.load("core", {}), "count_levels", rows.n + int(rows.edges[2]), *rows.edges, np.int32(rows.n),
        numbers, np.int32(counts.shape[1]), counts,
    )  # fmt: skip


def count_levels_gpu(device: Device, rows: CoreRowsGpu, fixed: Fixed, n_levels: int) -> NDArray[np.int64]:
    """Return the vertices of both layers and the edges by number, as in :mod:`papilio.kernels.peel.core_table`."""
    module, counts = device.load("core", {}), device.xp.zeros((3, n_levels), dtype=np.uint64)
    numbers, _ = peel_rows(device, module, rows, fixed, False)
    _count_levels(device, rows, numbers, counts)
    return device.to_host(counts).astype(np.int64)
