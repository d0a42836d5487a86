"""Samples of null models on a GPU, which runs the global trades of bipartite graphs (``trade.cu``).

The host draws all other samples, including those of unipartite graphs with fixed degrees, whose pairs trade one after
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import unwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.device.arrays import load_arrays, sort_rows
from papilio.kernels.device.constants import TRADE_SMALL, TRADE_THREADS
from papilio.kernels.device.protocol import THREADS, Device, launch_over
from papilio.kernels.null import loops
from papilio.kernels.null.cpu import Randomizer, RowTrades, draw_words, make_randomizer
from papilio.kernels.null.models import Graph, NullModel

BLOCKS_PER_PROCESSOR = 64
"""Largest number of blocks per multiprocessor; further pairs are shared out among them."""

_PAIRS = TRADE_THREADS // 32
"""Pairs of rows of a block, one for each warp."""


layer_of = unwrap(loops.layer_of)
"""Calling the compiled function takes longer than computing the layer."""


class DeviceTrades(RowTrades):
    """Global curveball trades on a device, with the same samples as on a CPU.

    Drawing a sample takes up to 32 bytes of device memory per edge. With ``stays``, its ``u`` and ``v`` are device
    arrays, and the neighbours of a vertex of U are in any order.
    """

    def __init__(self, device: Device, graph: BipartiteGraph, model: NullModel, *, stays: bool) -> None:
        super().__init__(graph, model)
        self._device, self._stays = device, stays
        self._module = device.load("trade", {})
        load_arrays(device)
        self._u, self._v = device.to_device(graph.u), device.to_device(graph.v)
        self._rows = [_DeviceRows.place(device, *layer) for layer in self._layers]
        device.synchronize()  # samples may be drawn in another stream

    def _begin(self) -> _State:
        return _State(self._v.copy(), [rows.offsets[:-1].astype(np.uint64) for rows in self._rows])

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        xp, n = self._device.xp, self._v.size
        spare, room, marks = xp.empty(n, np.int32), xp.empty(n, np.int32), xp.empty(n, np.uint8)
        orders = [_Orders(self, layer, key, end) for layer in range(2)]
        dealings = draw_words(key, 2 * begin + 1, 2 * (end - begin))[::2]
        if begin < end and layer_of(begin):
            self._pass(self._rows[0], state.columns, state.sink(1), spare, all_rows=True)
            state.columns, spare = spare, state.columns
        for trade, dealing in enumerate(dealings, begin):
            layer = layer_of(trade)
            after = layer_of(trade + 1) if trade + 1 < end else 0
            sink, rows = state.sink(after, turns=after != layer), self._rows[layer]
            if rows.can_trade:
                order, n_large, large = orders[layer].find(trade)
                n_blocks = self._most_blocks(large.size)
                self._launch("trade_pairs", n_blocks + self._most_blocks(-(-order.size // (2 * _PAIRS))),
                    TRADE_THREADS, rows.offsets, order, np.int32(order.size), np.int32(rows.row_bits), n_large, large,
                    np.int32(n_blocks), dealing, state.columns, room, marks, *sink, spare,
                )  # fmt: skip
            self._pass(rows, state.columns, sink, spare, all_rows=not rows.can_trade)
            state.columns, spare = spare, state.columns

    def _pass(
        self, rows: _DeviceRows, columns: Any, sink: tuple[Any, np.int32], passed: Any, *, all_rows: bool
    ) -> None:
        """Pass on the rows that no trade changes, or all rows."""
        for numbers in (rows.passive, rows.active) if all_rows else (rows.passive,):
            if n := numbers.size:
                self._launch("pass_rows", n, THREADS, rows.offsets, numbers, np.int32(n), columns, *sink, passed)

    def _most_blocks(self, n: int) -> int:
        return min(n, BLOCKS_PER_PROCESSOR * self._device.sm_count)

    def _launch(self, kernel: str, n_blocks: int, threads: int, *arguments: Any) -> None:
        self._module.get_function(kernel)((n_blocks,), (threads,), arguments)

    def _read(self, state: Any) -> BipartiteGraph:
        graph = self.graph
        if self._stays:
            return BipartiteGraph(graph.n_u, graph.n_v, self._u, state.columns.copy())
        columns = sort_rows(self._device, self._rows[0].offsets, state.columns)
        return BipartiteGraph(graph.n_u, graph.n_v, graph.u, self._device.to_host(columns))


@dataclass(eq=False)
class _State:
    """The rows of U of a chain, in any order within a row, and where the rows of each layer are filled next.

    Cursors are at the first place of each row, or at the end once it has been filled upwards; it is then filled
    downwards.
    """

    columns: Any  # int32, on the device
    cursors: list[Any]  # uint64, on the device
    steps: list[int] = field(default_factory=lambda: [1, 1])

    def sink(self, layer: int, *, turns: bool = True) -> tuple[Any, np.int32]:
        """Return the cursors that fill the rows of a layer once, and their step; 0 if the rows are not turned."""
        step = self.steps[layer] if turns else 0
        self.steps[layer] *= -1 if turns else 1
        return self.cursors[layer], np.int32(step)


@dataclass(frozen=True, eq=False)
class _DeviceRows:
    offsets: Any  # int64, on the device
    active: Any  # int32, on the device: rows that can change
    passive: Any  # int32, on the device: the other rows with entries
    row_bits: int  # that the number of a row needs
    most_large: int  # pairs of more than TRADE_SMALL entries: one of their rows has more than half of that

    @property
    def can_trade(self) -> bool:
        return bool(self.active.size > 1)

    @classmethod
    def place(cls, device: Device, offsets: NDArray[np.int64], active: NDArray[np.int32]) -> _DeviceRows:
        degrees = np.diff(offsets)
        is_passive = degrees > 0
        is_passive[active] = False
        return cls(
            device.to_device(offsets),
            device.to_device(active),
            device.to_device(np.flatnonzero(is_passive).astype(np.int32)),
            max(1, (degrees.size - 1).bit_length()),
            int(np.count_nonzero(degrees[active] > TRADE_SMALL // 2)),
        )


class _Orders:
    """Random orders of the rows of a layer; one sort makes those of several trades, about as many words as edges."""

    def __init__(self, trades: DeviceTrades, layer: int, key: np.uint64, end: int) -> None:
        self._trades, self._layer, self._key, self._end = trades, layer, key, end
        self._first = 0
        self._orders: Sequence[tuple[Any, Any, Any]] = ()

    def find(self, trade: int) -> tuple[Any, Any, Any]:
        """Return the order for a trade, the number of its large pairs (shape (1,)) and a list with their places.

        The order has words whose lower bits are rows, shape (active rows,); all are on the device.
        """
        turn = trade >> 1
        if turn >= self._first + len(self._orders):
            self._first, self._orders = turn, self._draw(turn)
        return self._orders[turn - self._first]

    def _draw(self, first: int) -> Sequence[tuple[Any, Any, Any]]:
        trades, rows = self._trades, self._trades._rows[self._layer]
        device, n = trades._device, rows.active.size
        n_trades = max(1, min((self._end + 1) // 2 - first, trades.graph.n_edges // n, 1 << (32 - rows.row_bits)))
        xp, count, bits = device.xp, np.int64(n_trades), np.int32(rows.row_bits)
        orders = xp.empty((n_trades, n), np.uint64)
        launch_over(device, trades._module, "order_keys", orders.size, rows.active, np.int64(n), count,
            self._key, np.int64(first), np.int32(self._layer), bits, orders,
        )  # fmt: skip
        orders.ravel().sort()
        n_large, large = xp.zeros((n_trades, 1), np.int32), xp.empty((n_trades, rows.most_large), np.int32)
        if rows.most_large:
            launch_over(device, trades._module, "list_large", n_trades * ((n + 1) // 2), rows.offsets, orders,
                np.int32(n), count, bits, np.int64(rows.most_large), n_large, large,
            )  # fmt: skip
        return list(zip(orders, n_large, large, strict=True))


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
