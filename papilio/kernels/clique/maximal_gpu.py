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
from papilio.kernels.checksum import mix
from papilio.kernels.clique.gpu_items import DeviceItems, choose_maximal
from papilio.kernels.clique.gpu_order import DeviceLater, list_earlier_on_device, orient_on_device
from papilio.kernels.device.constants import MAXIMAL_LANE_WORDS
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import (
    Cut,
    EngineName,
    Loadable,
    Partial,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.tree.launch import TreeLauncher
from papilio.kernels.tree.layout import TreeClass, add_aligned, explain_layout, make_classes
from papilio.kernels.tuning import TreeTuning, maximal_clique_tuning
from papilio.motifs import Granularity, MaximalClique, Motif
from papilio.parts import Part

_NODE_HEAD = 4
"""Words of a node beside its sets (clique_maximal.cu)."""


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueGpu:
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
    def n_items(self) -> int:
        """Number of work items: the vertices that have enough later neighbours."""
        return int(self.items.costs.size)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        own = (*self.earlier, self.hashes)
        return self.later.nbytes + self.items.nbytes + sum(int(array.nbytes) for array in own)


class MaximalCliqueGpu:
    """The GPU engine of :class:`~papilio.motifs.MaximalClique` on one device.

    ``tuning`` are launch constants; by default those of the device.
    """

    name: EngineName = "gpu"

    def __init__(self, device: Device, tuning: TreeTuning | None = None) -> None:
        self.device = device
        self.tuning = tuning if tuning is not None else maximal_clique_tuning(device.max_shared_bytes)
        self.block_words = np.zeros(0, dtype=np.uint64)
        """Words of 32 bits that each block of threads intersected in the last run: the balance of its work."""

    def stage(self, block: Loadable) -> Loadable:
        """Return the block itself: graphs are counted whole."""
        return block

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueGpu:
        """Order the vertices by degeneracy and orient the graph on the device; O(n_edges log n_edges).

        Raises
        ------
        UnsupportedError
            For another motif, kind of graph or granularity.
        CapacityError
            For more vertices or edges than the kernels number.
        """
        require_request("gpu maximal-clique", MaximalClique, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph)
        assert isinstance(motif, MaximalClique)
        with self.device.guard():
            later = orient_on_device(self.device, graph, by_degree=False)
            earlier = list_earlier_on_device(self.device, later)
            back = earlier[0][1:] - earlier[0][:-1]
            items = choose_maximal(self.device, later, back, motif.min_size)
            most_later = int(later.out.max()) if later.out.size else 0
            need = _estimate_need(items.sizes, self.device.to_host(back[items.roots]))
            classes = make_classes(need, self.tuning)
            decisions = (
                ("order", f"by degeneracy: at most {most_later} later neighbours"),
                *explain_layout(
                    self.device, self.tuning, classes, MAXIMAL_LANE_WORDS, self.tuning.blocks_per_sm[0]
                ),
            )
            return PreparedMaximalCliqueGpu(
                later, earlier, mix(later.vertices.astype(np.uint64)), items, motif.min_size, most_later, classes,
                decisions,
            )  # fmt: skip

    def work(self, prepared: PreparedMaximalCliqueGpu) -> NDArray[np.int64]:
        """Predicted set operations of each item, int64 of shape (n_items,), host; heaviest first."""
        return prepared.items.costs

    def slice_work(self, prepared: PreparedMaximalCliqueGpu) -> int:
        """A slice costs its launches alone, which run while the slice before still does."""
        return 1

    def run(
        self,
        prepared: PreparedMaximalCliqueGpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
    ) -> Partial:
        """Count the maximal cliques of the items ``[start, stop)``, or of the first of them if the run is cut.

        Work is in words of 64 bits intersected.

        Raises
        ------
        InputError
            When the interval does not lie in ``[0, n_items]``.
        LeaseTooLargeError
            When the device has no room for the search of one block.
        DeviceLostError
            When a kernel failed and the device is lost to this process.
        """
        require_interval(start, stop, prepared.n_items)
        self.block_words = np.zeros(0, dtype=np.uint64)
        if start == stop:
            return Partial(0, 0, 0)
        bounds, xp = [start, *bounds, stop], self.device.xp
        with self.device.guard():
            sums = xp.zeros(prepared.most_later + 2, dtype=np.uint64)
            checksum = xp.zeros(1, dtype=np.uint64)
            blocks_per_sm = self.tuning.blocks_per_sm[0]
            launcher = TreeLauncher(
                self.device,
                self.tuning,
                self.device.load("clique_maximal", {"MIN_BLOCKS": blocks_per_sm}).get_function(
                    "clique_maximal"
                ),
                prepared.classes,
                bounds,
                prepared.items.costs,
                MAXIMAL_LANE_WORDS,
                blocks_per_sm,
            )
            later, items = prepared.later, prepared.items
            searched = (
                later.indptr, later.ids, *prepared.earlier, prepared.hashes, items.roots, items.first, items.last
            )  # fmt: skip
            end = bounds[launcher.run(cut, searched, (np.int32(prepared.least), sums, checksum))]
            self.block_words = self.device.to_host(launcher.block_words)
            host, check = self.device.to_host(sums), int(self.device.to_host(checksum)[0])
        cells: dict[tuple[int, ...], int] = {
            (size,): int(host[size]) for size in np.flatnonzero(host).tolist()
        }
        work = (int(self.block_words.sum()) + 1) // 2
        return Partial(end - start, sum(cells.values()), work, {}, cells, checksum=check)


def _estimate_need(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the words that a warp needs for roots of so many neighbours, as ``take_memory`` of clique_maximal.cu."""
    words, rows = (later + 31) // 32, later + earlier
    node = _NODE_HEAD + 3 * words + (earlier + 31) // 32
    return add_aligned([rows * words, later, later, rows, node, (later // 2 + 2) * node])
