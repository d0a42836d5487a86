"""Maximal cliques on the GPU: the graph is ordered and oriented on the device, ``clique_maximal.cu`` searches it.

Items and their order are those of the CPU engine, and so are the counts by size and the checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.gpu_graph import (
    DeviceItems,
    DeviceLater,
    list_earlier_on_device,
    list_items,
    orient_on_device,
)
from papilio.kernels.device.arrays import hash_vertices, lengths_of, take
from papilio.kernels.device.constants import MAXIMAL_LANE_WORDS
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Cut, Partial, Prepared, never_cut, require_request
from papilio.kernels.tree.gpu import TreeClass, TreeEngine, TreeSearch, add_aligned
from papilio.kernels.tuning import TreeTuning, maximal_clique_tuning
from papilio.motifs import Granularity, MaximalClique, Motif
from papilio.parts import CliquePart, Part

_NODE_HEAD = 4
"""Words of a node beside its sets (clique_maximal.cu)."""


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueGpu(Prepared):
    """A graph ready for :meth:`MaximalCliqueGpu.run`; arrays on the device but for the costs."""

    later: DeviceLater
    # The earlier neighbours of every vertex, by rank: int64 (n + 1,), int32 (n_edges,).
    earlier: tuple[Any, Any]
    hashes: Any  # of the vertices, by rank: uint64
    items: DeviceItems
    least: int
    most_later: int
    classes: tuple[TreeClass, ...]
    decisions: tuple[tuple[str, str], ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.items.costs

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        own = (*self.earlier, self.hashes)
        return self.later.nbytes + self.items.nbytes + sum(int(array.nbytes) for array in own)


class MaximalCliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.MaximalClique` on one device.

    ``tuning`` are launch constants; by default those of the device. With ``lists`` it is for
    :class:`~papilio.kernels.clique.list_gpu.MaximalCliqueGpuLister`, and counts nothing.
    """

    def __init__(self, device: Device, tuning: TreeTuning | None = None, lists: bool = False) -> None:
        super().__init__(
            device, tuning if tuning is not None else maximal_clique_tuning(device.max_shared_bytes)
        )
        self._defines = {"LISTS": 1} if lists else {}

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueGpu:
        """Order the vertices by degeneracy and orient the graph on the device, a part of it as it is.

        O(n_edges log n_edges).
        """
        require_request("gpu maximal-clique", MaximalClique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, MaximalClique)
        part = graph if isinstance(graph, CliquePart) else None
        with self.device.guard():
            self._search.load_on(self.device)
            later = orient_on_device(self.device, graph, by_degree=False)
            ids = later.vertices if part is None else self.device.to_device(part.ids_n)
            earlier = list_earlier_on_device(self.device, later)
            back = lengths_of(self.device, earlier[0])
            roots = None if part is None else part.roots
            items = list_items(self.device, later, motif.min_size, roots, back)
            most_later = int(later.out.max()) if later.out.size else 0
            earlier_of = self.device.to_host(take(self.device, back, items.roots)).astype(np.int64)
            need = _estimate_need(items.sizes, earlier_of, bool(self._defines))
            classes, shortage = self._make_ready(self._search, need)
            order = "degeneracy" if part is None else "degree"
            decisions = (("order", f"by {order}: at most {most_later} later neighbours"), *shortage)
            return PreparedMaximalCliqueGpu(
                later, earlier, hash_vertices(self.device, ids, 0), items, motif.min_size, most_later, classes,
                decisions,
            )  # fmt: skip

    @property
    def _search(self) -> TreeSearch:
        blocks_per_sm = self.tuning.blocks_per_sm[0]
        stem = "clique_maximal"
        return TreeSearch(stem, stem, self._defines, self.tuning, MAXIMAL_LANE_WORDS, blocks_per_sm)

    def _count(self, prepared: PreparedMaximalCliqueGpu, bounds: Sequence[int], cut: Cut) -> Partial:
        if bounds[0] == bounds[-1]:
            return Partial(0, 0, 0)
        n_slices, sums, checksum = self._search_items(prepared, bounds, cut)
        host, check = self.device.to_host(sums), int(self.device.to_host(checksum)[0])
        cells: dict[tuple[int, ...], int] = {
            (size,): int(host[size]) for size in np.flatnonzero(host).tolist()
        }
        n_items = bounds[n_slices] - bounds[0]
        return Partial(n_items, sum(cells.values()), self._work_done(), {}, cells, checksum=check)

    def leave_records(
        self, prepared: PreparedMaximalCliqueGpu, start: int, stop: int, arguments: tuple[Any, ...]
    ) -> None:
        """Search items; ``arguments`` are RECORD_PARAMETERS of records.cuh."""
        self._search_items(prepared, [start, stop], never_cut, arguments)

    def _search_items(
        self,
        prepared: PreparedMaximalCliqueGpu,
        bounds: Sequence[int],
        cut: Cut,
        arguments: tuple[Any, ...] = (),
    ) -> tuple[int, Any, Any]:
        """Return how many slices were launched, the cliques by size, and their checksum; both on the device."""
        xp, later, items = self.device.xp, prepared.later, prepared.items
        sums = xp.zeros(prepared.most_later + 2, dtype=np.uint64)
        checksum = xp.zeros(1, dtype=np.uint64)
        searched = (
            later.indptr, later.ids, *prepared.earlier, prepared.hashes, items.roots, items.first, items.last
        )  # fmt: skip
        own = np.int32(prepared.least), sums, checksum, *arguments
        n_slices = self._launch(self._search, prepared.classes, bounds, items.costs, cut, searched, own)
        return n_slices, sums, checksum


def _estimate_need(later: NDArray[np.int64], earlier: NDArray[np.int64], lists: bool) -> NDArray[np.int64]:
    """Return the words that a warp needs for roots of so many neighbours, as ``take_memory`` of clique_maximal.cu."""
    words, rows = (later + 31) // 32, later + earlier
    node = _NODE_HEAD + 3 * words + (rows + 31) // 32  # earlier ones; in a sub-tree candidates before it, too
    path = [later + 1] if lists else []
    return add_aligned([rows * words, later, later, rows, node, (later // 2 + 3) * node, *path])
