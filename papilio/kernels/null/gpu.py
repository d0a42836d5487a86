"""Samples of null models on a GPU, which runs the global trades of bipartite graphs (``trade.cu``).

The host draws all other samples, including those of unipartite graphs with fixed degrees, whose pairs trade one after
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.device.arrays import load_arrays, turn_rows
from papilio.kernels.device.constants import TRADE_THREADS
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.null.cpu import Randomizer, RowTrades, draw_words, make_randomizer
from papilio.kernels.null.loops import layer_of
from papilio.kernels.null.models import Graph, NullModel

BLOCKS_PER_PROCESSOR = 64
"""Largest number of blocks per multiprocessor; further pairs are shared out among them."""


class DeviceTrades(RowTrades):
    """Global curveball trades on a device, with the same samples, bit for bit, as on a CPU.

    Drawing a sample takes up to 44 bytes of device memory per edge. With ``stays``, its ``u`` and ``v`` are device
    arrays.
    """

    def __init__(self, device: Device, graph: BipartiteGraph, model: NullModel, *, stays: bool) -> None:
        super().__init__(graph, model)
        self._device, self._stays = device, stays
        self._module = device.load("trade", {})
        load_arrays(device)
        self._u, self._v = device.to_device(graph.u), device.to_device(graph.v)
        self._rows = [_DeviceRows.place(device, *layer) for layer in self._layers]

    def _begin(self) -> Any:
        return [self._v.copy()]

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        xp, n = self._device.xp, self._v.size
        ranks, before, traded = xp.empty(n, np.int32), xp.empty(n, np.uint64), xp.empty(n, np.int32)
        columns, current = state[0], 0
        for trade in range(begin, end):
            if layer_of(trade) != current:
                columns, current = self._turn(columns, current), 1 - current
            rows = self._rows[current]
            if rows.active.size > 1:
                if not rows.is_whole:
                    traded[:] = columns
                self._trade(rows, draw_words(key, 2 * trade, 2), columns, ranks, before, traded)
                columns, traded = traded, columns
        state[0] = self._turn(columns, current) if current else columns

    def _turn(self, columns: Any, layer: int) -> Any:
        return turn_rows(self._device, self._rows[layer].offsets, columns, self._rows[1 - layer].n)[1]

    def _trade(self, rows: _DeviceRows, keys: NDArray[np.uint64], columns: Any, *room: Any) -> None:
        device, n = self._device, rows.active.size
        pairing, dealing = keys
        order = device.xp.empty(n, np.uint64)
        launch_over(device, self._module, "order_keys", n, rows.active, np.int64(n), pairing, order)
        order.sort()
        self._module.get_function("trade_pairs")(
            (min((n + 1) // 2, BLOCKS_PER_PROCESSOR * device.sm_count),),
            (rows.threads,),
            (rows.offsets, order, np.int32(n), dealing, columns, *room),
        )

    def _read(self, state: Any) -> BipartiteGraph:
        graph, columns = self.graph, state[0].copy()
        if self._stays:
            return BipartiteGraph(graph.n_u, graph.n_v, self._u, columns)
        return BipartiteGraph(graph.n_u, graph.n_v, graph.u, self._device.to_host(columns))


@dataclass(frozen=True, eq=False)
class _DeviceRows:
    n: int
    offsets: Any  # int64, on the device
    active: Any  # int32, on the device: rows that can change
    is_whole: bool  # whether these have all entries
    threads: int  # of a block: about as many as the mean pair of rows has entries

    @classmethod
    def place(cls, device: Device, offsets: NDArray[np.int64], active: NDArray[np.int32]) -> _DeviceRows:
        n_entries = int(np.diff(offsets)[active].sum())
        mean = 2 * n_entries // max(1, active.size)
        threads = min(max(32, 1 << mean.bit_length()), TRADE_THREADS)
        is_whole = n_entries == int(offsets[-1])
        return cls(offsets.size - 1, device.to_device(offsets), device.to_device(active), is_whole, threads)


def make_randomizer_gpu(device: Device, graph: Graph, model: NullModel, *, stays: bool = False) -> Randomizer:
    """Return the randomizer for a graph and a null model, on the device where possible.

    With ``stays``, samples drawn on the device keep their edges there.

    Raises
    ------
    UnsupportedError, CapacityError
        If the model does not apply to the graph.
    """
    if model.name == "degrees" and isinstance(graph, BipartiteGraph):
        return DeviceTrades(device, graph, model, stays=stays)
    return make_randomizer(graph, model)
