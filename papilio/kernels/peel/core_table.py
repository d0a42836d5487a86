"""The sizes of all cores of a graph.

Every (alpha, beta)-core has alpha or beta of at most the degeneracy: both at once is a subgraph with all degrees above
it. So it is enough to peel once for every alpha up to the degeneracy, and once for every beta: O(degeneracy * n_edges)
(Liu et al., WWW 2020). Many pairs have the same core; the table has each core once, at its largest alpha and beta, the
least degrees of its vertices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import EngineName
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.peel.core import (
    NONE_FIXED,
    CoreRows,
    Fixed,
    Ids32,
    fix_layer,
    index_core,
    peel_by_degree,
)
from papilio.kernels.peel.decompose import shared_gpu
from papilio.kernels.peel.phases import Layer, Report
from papilio.kernels.threads import ChunkRunner, choose_threads

_BYTES_PER_VERTEX = 24
"""Memory of a thread."""


class Levels(NamedTuple):
    """The cores at ascending levels above 0, each at the last level before it shrinks."""

    levels: Ints
    """Shape (n,)."""
    sizes: Ints
    """Vertices of layer U, vertices of layer V (all vertices of a unipartite graph), edges; shape (n, 3)."""

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Levels:
        """Return the cores, given the vertices of both layers and the edges of each number; shape (3, n_levels)."""
        levels = np.flatnonzero(counts[0] + counts[1])
        levels = levels[levels > 0]
        return cls(levels, np.cumsum(counts[:, levels[::-1]], axis=1)[:, ::-1].T)

    def vertices_at(self, levels: Ints) -> Ints:
        """Return the number of vertices of the cores at any levels."""
        vertices = np.append(self.sizes[:, 0] + self.sizes[:, 1], 0)
        found: Ints = vertices[np.searchsorted(self.levels, levels)]
        return found


@compiled
def _count_levels(u: Ids32, v: Ids32, first_v: int, numbers: Ids32, counts: Ints) -> None:
    """Add the vertices of both layers and the edges by number; an edge has the lower number of its ends."""
    for x in range(numbers.size):
        counts[0 if x < first_v else 1, numbers[x]] += 1
    for edge in range(u.size):
        counts[2, min(numbers[u[edge]], numbers[first_v + v[edge]])] += 1


def _measure(graph: BipartiteGraph | UnipartiteGraph, rows: CoreRows, degree: Ints, fixed: Fixed) -> Levels:
    numbers, _ = peel_by_degree(rows.indptr, rows.ids, degree, fixed, False)
    counts = np.zeros((3, int(numbers.max(initial=0)) + 1), np.int64)
    _count_levels(graph.u, graph.v, rows.first_v, numbers, counts)
    return Levels.of(counts)


def list_cores_on_cpu(
    graph: BipartiteGraph | UnipartiteGraph, threads: int | None, memory_bytes: int | None, report: Report
) -> Ints:
    """Return all cores as :func:`list_cores`, on threads that each peel for another alpha or beta."""
    report("index", 0, 1)
    threads = choose_threads(threads)
    if memory_bytes is not None:
        memory_bytes -= _BYTES_PER_VERTEX * threads * (graph.n_u + graph.n_v)
    rows = index_core(graph, memory_bytes)
    degree = np.diff(rows.indptr)
    whole = _measure(graph, rows, degree, NONE_FIXED)
    if isinstance(graph, UnipartiteGraph):
        return _by_level(whole)
    n_levels = int(whole.levels.max(initial=0))
    asked: list[tuple[Layer, int]] = [(layer, 1 + at) for at in range(n_levels) for layer in ("u", "v")]
    found: dict[tuple[Layer, int], Levels] = {}

    def measure(_: None, start: int, stop: int) -> None:
        for layer, least in asked[start:stop]:
            found[layer, least] = _measure(graph, rows, degree, fix_layer(rows.first_v, rows.n, layer, least))
            report("fine", len(found), len(asked))

    ChunkRunner(lambda: None, threads).run([(at, at + 1) for at in range(len(asked))], measure)
    return _by_pair(found, n_levels)


def list_cores_on_gpu(device: Device, graph: BipartiteGraph | UnipartiteGraph, report: Report) -> Ints:
    """Return all cores as :func:`list_cores`: a block of the device peels for an alpha or beta, or the whole device."""
    from papilio.kernels.peel.core_gpu import choose_batch, count_batch_gpu, count_levels_gpu, index_core_gpu

    report("index", 0, 1)
    with device.guard():
        rows = index_core_gpu(device, graph)
        n_levels = int(rows.degree.max()) + 1 if rows.n else 1
        whole = Levels.of(count_levels_gpu(device, rows, NONE_FIXED, n_levels))
        if isinstance(graph, UnipartiteGraph):
            return _by_level(whole)
        most = int(whole.levels.max(initial=0))
        asked: list[tuple[Layer, int]] = [(layer, 1 + at) for at in range(most) for layer in ("u", "v")]
        found: dict[tuple[Layer, int], Levels] = {}
        size = choose_batch(device, rows, n_levels)
        for start in range(0, len(asked), size):
            batch = asked[start : start + size]
            fixed = [fix_layer(rows.first_v, rows.n, *each) for each in batch]
            if size > 1:
                counts = count_batch_gpu(device, rows, fixed, n_levels)
            else:
                counts = [count_levels_gpu(device, rows, fixed[0], n_levels)]
            found |= zip(batch, map(Levels.of, counts), strict=True)
            report("fine", len(found), len(asked))
        return _by_pair(found, most)


def _by_level(found: Levels) -> Ints:
    return np.column_stack((found.levels, found.sizes[:, 1:]))


def _by_pair(found: dict[tuple[Layer, int], Levels], most: int) -> Ints:
    """Return the cores that differ from the cores of the next alpha and beta, by alpha, then beta.

    ``found`` has the cores of every alpha and of every beta up to ``most``; larger ones do not occur together.
    """
    none = Levels(np.zeros(0, np.int64), np.zeros((0, 3), np.int64))
    rows = [np.zeros((0, 5), np.int64)]
    for alpha in range(1, most + 1):
        at = found["u", alpha]
        if alpha < most:
            beyond = found["u", alpha + 1].vertices_at(at.levels)
        else:
            past = np.array([alpha + 1])
            beyond = np.array([found.get(("v", beta), none).vertices_at(past)[0] for beta in at.levels.tolist()], int)
        rows.append(_rows(np.full(at.levels.size, alpha), at.levels, at, beyond))
    for beta in range(1, most + 1):
        whole = found["v", beta]
        at = Levels(*(each[whole.levels > most] for each in whole))
        beyond = found.get(("v", beta + 1), none).vertices_at(at.levels)
        rows.append(_rows(at.levels, np.full(at.levels.size, beta), at, beyond))
    table = np.concatenate(rows)
    return table[np.lexsort((table[:, 1], table[:, 0]))]


def _rows(alphas: Ints, betas: Ints, at: Levels, beyond: Ints) -> Ints:
    """Return the rows of the cores that have more vertices than the ones ``beyond``."""
    return np.column_stack((alphas, betas, at.sizes))[at.vertices_at(at.levels) > beyond]


def list_cores(
    graph: BipartiteGraph | UnipartiteGraph,
    engine: EngineName,
    *,
    threads: int | None,
    memory_bytes: int | None,
    report: Report,
) -> Ints:
    """Return all cores, each once.

    For a bipartite graph shape (n_cores, 5): alpha, beta, vertices of U, vertices of V, edges; by alpha, then beta. For
    a unipartite graph shape (n_cores, 3): k, vertices, edges; by k.
    """
    if engine == "cpu":
        return list_cores_on_cpu(graph, threads, memory_bytes, report)
    return list_cores_on_gpu(shared_gpu(), graph, report)
