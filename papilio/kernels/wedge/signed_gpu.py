"""Signed motifs on the GPU: what is prepared, and the answers that follow from what ``butterfly.cu`` counts.

Kernels, schedules and work items are those of butterflies; see ``wedges.cuh`` for what signs change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.census_motif import CENSUS_CLASSES, Census
from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Loadable, Partial, require_request
from papilio.kernels.wedge.gpu import ButterflyGpu, PreparedButterflyGpu
from papilio.kernels.wedge.gpu_graph import Counting
from papilio.kernels.wedge.signed_forms import census_cells, needs_all_neighbours, size_cells
from papilio.motifs import BalancedButterfly, Granularity, Motif
from papilio.parts import Part

_SUM, _HISTOGRAM, _CENSUS = 0, 1, 2
"""What the kernels give: ``GIVES`` of ``sweep.cuh``."""


class BalancedButterflyGpu(ButterflyGpu):
    """The GPU engine of :class:`~papilio.motifs.BalancedButterfly` and :class:`~papilio.motifs.Census`."""

    def stage(self, block: Loadable) -> Loadable:
        """Refuse: only whole graphs are counted.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise UnsupportedError(f"signed motifs are counted on whole graphs, not in a {type(block).__name__}")

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyGpu:
        """Rank, relabel and build both CSR directions with signs on the device, and schedule.

        Raises
        ------
        UnsupportedError
            For another motif, a graph without signs, a part, or another granularity.
        CapacityError
            When the graph or one of its counts passes what the kernels are proven for.
        """
        require_request("balanced-butterfly", (BalancedButterfly, Census), graph, motif, per)
        assert isinstance(motif, BalancedButterfly | Census)
        assert isinstance(graph, BipartiteGraph)
        counting, first_layer = Counting(2, _SUM), None
        if isinstance(motif, Census):
            counting = Counting(4, _CENSUS, "uv".index(motif.pair_side))
        elif needs_all_neighbours(motif):
            counting, first_layer = Counting(2, _HISTOGRAM), motif.pair_side
        return self._prepare_graph(graph, motif, per, counting, first_layer)

    def _empty_result(self, prepared: PreparedButterflyGpu) -> Any:
        graph = prepared.graph
        if graph is None or graph.counting.gives == _SUM:
            return super()._empty_result(prepared)
        histogram = graph.counting.gives == _HISTOGRAM
        size = int(graph.degree.max()) + 1 if histogram else 2 * len(CENSUS_CLASSES)
        return self.device.xp.zeros(size, dtype=np.uint64)

    def _answer(self, prepared: PreparedButterflyGpu, counted: Partial, total: Any, result: Any) -> Partial:
        graph, motif = prepared.graph, prepared.motif
        if graph is None or graph.counting.gives == _SUM:
            return super()._answer(prepared, counted, total, result)
        found = [int(each) for each in self.device.to_host(result)]
        if isinstance(motif, Census):
            sums = [low + (high << 32) for low, high in zip(found[::2], found[1::2], strict=True)]
            cells = census_cells(sums)
        else:
            assert isinstance(motif, BalancedButterfly)
            cells = size_cells(motif, {size: times for size, times in enumerate(found) if times})
        table = cells if motif.is_table else {}
        return Partial(counted.n_items, sum(cells.values()), counted.work, cells=table)
