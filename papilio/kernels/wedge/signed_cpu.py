"""Signed motifs on the CPU: the engine of butterflies on signed rows, and the answers that follow from other counts.

Balanced butterflies and the census count every butterfly from the pair with its vertex that is first in the total
order, as :mod:`papilio.kernels.wedge.cpu` does. Balanced (2,k)-bicliques need all common neighbours of every pair of
one layer: there that layer comes first in the total order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papilio.census_motif import CENSUS_CLASSES, Census
from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.bounds import check_vertices
from papilio.kernels.engine import Cut, Loadable, Partial, never_cut, require_interval, require_request
from papilio.kernels.wedge.cpu import ButterflyCpu, PreparedButterflyCpu
from papilio.kernels.wedge.graph import FOUR_KINDS, TWO_KINDS
from papilio.kernels.wedge.loops import join_sums
from papilio.kernels.wedge.signed_forms import census_cells, needs_all_neighbours, size_cells
from papilio.kernels.wedge.signed_loops import count_census, count_histogram, index_signed
from papilio.motifs import BalancedButterfly, Granularity, Motif
from papilio.parts import Part


class BalancedButterflyCpu(ButterflyCpu):
    """The CPU engine of :class:`~papilio.motifs.BalancedButterfly` and :class:`~papilio.motifs.Census`."""

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedButterflyCpu:
        """Rank, index and cost the graph, O(n_u + n_v + n_edges).

        Raises
        ------
        UnsupportedError
            For another motif, a graph without signs, a part, or another granularity.
        CapacityError
            When ``per`` is ``vertex`` and a count could pass 2^63 - 1.
        """
        require_request("balanced-butterfly", (BalancedButterfly, Census), graph, motif, per)
        assert isinstance(motif, BalancedButterfly | Census)
        assert isinstance(graph, BipartiteGraph)
        first_layer = motif.pair_side if needs_all_neighbours(motif) else None
        kinds = FOUR_KINDS if isinstance(motif, Census) else TWO_KINDS
        index = index_signed(graph, first_layer, kinds)
        if per == "vertex":
            check_vertices(graph, index.max_degree)
        return PreparedButterflyCpu(index, motif, per)

    def stage(self, block: Loadable) -> Loadable:
        """Refuse with an UnsupportedError: only whole graphs are counted."""
        raise UnsupportedError(f"signed motifs are counted on whole graphs, not in a {type(block).__name__}")

    def run(
        self,
        prepared: PreparedButterflyCpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: Cut = never_cut,
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        Raises
        ------
        InputError
            When the interval is not within ``[0, n_items]``.
        """
        index, motif = prepared.index, prepared.motif
        require_interval(start, stop, prepared.n_items)
        span, n_slices = (start, stop), len(bounds) + 1
        if isinstance(motif, Census):
            own, side = (len(CENSUS_CLASSES), 2), "uv".index(motif.pair_side)
            counted = self._count(index, span, n_slices, cut, count_census, own, (side,))
            classes = [sums for _, sums in counted.states]
            cells = census_cells([sum(map(join_sums, sums)) for sums in zip(*classes, strict=True)])
            return Partial(counted.n_items, sum(cells.values()), counted.work, cells=cells)
        assert isinstance(motif, BalancedButterfly)
        if needs_all_neighbours(motif):
            shape = (index.max_degree + 1,)
            counted = self._count(index, span, n_slices, cut, count_histogram, shape)
            histogram = counted.add_up(shape)
            times = {size: int(histogram[size]) for size in np.flatnonzero(histogram).tolist()}
            cells = size_cells(motif, times)
            table = cells if motif.is_table else {}
            return Partial(counted.n_items, sum(cells.values()), counted.work, cells=table)
        return super().run(prepared, start, stop, bounds, cut)
