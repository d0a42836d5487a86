"""Samples of null models on a GPU: global trades of bipartite graphs run there (``trade.cu``).

Every other model, and fixed degrees of unipartite graphs, whose pairs trade one after the other, are drawn on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.device.arrays import load_arrays, turn_rows
from papilio.kernels.device.constants import TRADE_THREADS
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.null.cpu import Randomizer, RowTrades, draw_words, make_randomizer, sample_key
from papilio.kernels.null.models import Graph, NullModel

BLOCKS_PER_PROCESSOR = 64
"""More pairs are traded by the same blocks."""


class DeviceTrades(RowTrades):
    """Global curveball trades on a device: the same graphs, bit for bit, as on a CPU.

    24 bytes of device memory per edge for each sample that is drawn, and 24 more where the rows of V trade.
    """

    def __init__(self, device: Device, graph: BipartiteGraph, model: NullModel) -> None:
        super().__init__(graph, model)
        self._device = device
        self._module = device.load("trade", {})
        load_arrays(device)
        self._u, self._offsets = device.to_device(graph.u), device.to_device(self.offsets)
        self._columns, self._rows = device.to_device(self.columns), device.to_device(self.rows)
        mean = 2 * int(np.diff(self.offsets)[self.rows].sum()) // max(1, self.rows.size)
        self._threads = min(max(32, 1 << mean.bit_length()), TRADE_THREADS)

    def sample_on_device(self, seed: int, index: int) -> BipartiteGraph:
        """Return what :meth:`sample` does, with ``u`` and ``v`` on the device."""
        state = self._begin()
        self._advance(state, sample_key(seed, index), 0, self.model.steps)
        return BipartiteGraph(self.graph.n_u, self.graph.n_v, self._u, self._read_columns(state))

    def _begin(self) -> Any:
        xp, n = self._device.xp, self._columns.size
        room = xp.empty(self.rows.size, np.uint64), xp.empty(n, np.int32), xp.empty(n, np.uint64)
        return [self._columns.copy(), self._columns.copy(), *room]

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        n_rows = self.rows.size
        if n_rows < 2:
            return
        blocks = min((n_rows + 1) // 2, BLOCKS_PER_PROCESSOR * self._device.sm_count)
        trade = self._module.get_function("trade_pairs")
        for step in range(begin, end):
            columns, traded, order, ranks, before = state
            pairing, dealing = draw_words(key, 2 * step, 2)
            launch_over(
                self._device, self._module, "order_keys", n_rows, self._rows, np.int64(n_rows), pairing, order
            )
            order.sort()
            trade(
                (blocks,), (self._threads,),
                (self._offsets, order, np.int32(n_rows), dealing, columns, ranks, before, traded),
            )  # fmt: skip
            state[:2] = traded, columns

    def _read_columns(self, state: Any) -> Any:
        if self.is_turned:
            return turn_rows(self._device, self._offsets, state[0], self.graph.n_u)[1]
        return state[0].copy()

    def _read(self, state: Any) -> BipartiteGraph:
        columns = self._device.to_host(self._read_columns(state))
        return BipartiteGraph(self.graph.n_u, self.graph.n_v, self.graph.u, columns)


def make_randomizer_gpu(device: Device, graph: Graph, model: NullModel) -> Randomizer:
    """Return what draws samples of a null model of a graph, on the device where it can.

    Raises
    ------
    UnsupportedError, CapacityError
        If the model does not apply to the graph.
    """
    if model.name == "degrees" and isinstance(graph, BipartiteGraph):
        return DeviceTrades(device, graph, model)
    return make_randomizer(graph, model)
