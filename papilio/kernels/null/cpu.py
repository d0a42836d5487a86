"""Samples of null models on CPUs: each thread draws whole samples.

Under fixed degrees the layers take turns to trade rows. A long row among short ones changes slowly, because a trade
exchanges at most as many entries as the shorter row has; in the rows of the other layer the same entries change fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.exact import mix
from papilio.kernels.null.fitness import draw_independent, make_skips, solve_chances
from papilio.kernels.null.loops import (
    MAX_BINS,
    LayerRows,
    TradeRoom,
    VertexRoom,
    draw_positions,
    draw_signs,
    place_edges,
    trade_rows,
    trade_vertices,
)
from papilio.kernels.null.models import Graph, NullModel, count_cells, count_trades, is_only_realisation
from papilio.kernels.probe import STEP


def draw_words(key: np.uint64, first: int, n: int) -> NDArray[np.uint64]:
    """Return the random words of n numbers under a key, as the loops draw them; shape (n,)."""
    return mix(key + np.arange(first, first + n, dtype=np.uint64) * STEP)


def sample_keys(seed: int, first: int, n: int) -> NDArray[np.uint64]:
    """Return the keys of all random words of n samples; shape (n,)."""
    return draw_words(mix(np.array([seed], np.uint64))[0], first, n)


def sample_key(seed: int, index: int) -> np.uint64:
    """Return the key of all random words of a sample."""
    return np.uint64(sample_keys(seed, index, 1)[0])


class Randomizer(ABC):
    """Draws random graphs under a null model. A sample depends only on the seed and its number; thread-safe."""

    def __init__(self, graph: Graph, model: NullModel) -> None:
        self.graph, self.model = graph, model

    @abstractmethod
    def sample(self, seed: int, index: int) -> Graph:
        """Return a sample: a graph of the class and the sizes of the given one, with signs only under "signs".

        Parameters
        ----------
        seed : int
            0 to 2^64 - 1.
        index : int
            Number of the sample, 0 to 2^63 - 1.
        """

    @abstractmethod
    def has_one_realisation(self) -> bool:
        """Return whether every sample is the same graph."""

    def chain(self, seed: int, index: int, stops: Iterable[int]) -> Iterator[Graph]:
        """Yield the graphs of a sample after these numbers of steps, which rise; after 0 steps it is the graph itself.

        Raises
        ------
        UnsupportedError
            If the model draws samples in one step.
        """
        raise UnsupportedError(f"the null model {self.model.name!r} draws samples in one step; it has no chain")


class ChainRandomizer(Randomizer):
    """Samples that are states of a chain which begins at the graph; a step is ``trades_per_step`` global trades."""

    def __init__(self, graph: Graph, model: NullModel) -> None:
        super().__init__(graph, model)
        self.trades_per_step = count_trades(graph)

    @property
    def steps_in_words(self) -> str:
        """The steps of a sample and the trades of a step, as a plan shows them."""
        return f"{plural(self.model.steps, 'step')} of {plural(self.trades_per_step, 'global trade')}"

    def sample(self, seed: int, index: int) -> Graph:
        return next(self.chain(seed, index, (self.model.steps,)))

    def chain(self, seed: int, index: int, stops: Iterable[int]) -> Iterator[Graph]:
        state, key, done = self._begin(), sample_key(seed, index), 0
        for stop in stops:
            trades = stop * self.trades_per_step
            self._advance(state, key, done, trades)
            done = trades
            yield self._read(state)

    def has_one_realisation(self) -> bool:
        return is_only_realisation(self.graph)

    @abstractmethod
    def _begin(self) -> Any: ...

    @abstractmethod
    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None: ...

    @abstractmethod
    def _read(self, state: Any) -> Graph:
        """Return the graph in a state, which may go on changing."""


class RowTrades(ChainRandomizer):
    """Global curveball trades of a bipartite graph."""

    graph: BipartiteGraph

    def __init__(self, graph: BipartiteGraph, model: NullModel) -> None:
        super().__init__(graph, model)
        self._layers = []
        for degrees, n_others in ((graph.degree_u, graph.n_v), (graph.degree_v, graph.n_u)):
            active = np.flatnonzero((degrees > 0) & (degrees < n_others)).astype(np.int32)
            self._layers.append((np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees))), active))

    def make_rows(self) -> tuple[LayerRows, LayerRows]:
        """Return the rows of both layers and the working memory of a thread; those of V are room alone."""
        columns = self.graph.v.copy(), np.empty_like(self.graph.v)
        u, v = (
            LayerRows(
                offsets, active, own, np.empty(offsets.size - 1, np.int64),
                TradeRoom.make(active.size, int(np.diff(offsets)[active].max(initial=0))),
            )
            for (offsets, active), own in zip(self._layers, columns, strict=True)
        )  # fmt: skip
        return u, v

    def _begin(self) -> Any:
        return self.make_rows()

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        u, v = state
        trade_rows(u, v, key, begin, end)

    def _read(self, state: Any) -> BipartiteGraph:
        return BipartiteGraph(self.graph.n_u, self.graph.n_v, self.graph.u, state[0].columns.copy())


class VertexTrades(ChainRandomizer):
    """Global undirected trades of a unipartite graph, on CPUs: the pairs of a trade depend on each other."""

    graph: UnipartiteGraph

    def __init__(self, graph: UnipartiteGraph, model: NullModel) -> None:
        super().__init__(graph, model)
        self._offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(graph.degree)))
        self._active = np.flatnonzero(graph.degree).astype(np.int32)
        self._max_degree = int(graph.degree.max(initial=0))

    def _begin(self) -> Any:
        graph = self.graph
        room = VertexRoom.make(graph.n, 2 * graph.n_edges, self._active.size, self._max_degree)
        return (graph.u.copy(), graph.v.copy()), room

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        edges, room = state
        trade_vertices(self._offsets, edges, self._active, key, begin, end, room)

    def _read(self, state: Any) -> UnipartiteGraph:
        (us, vs), _ = state
        return UnipartiteGraph(self.graph.n, *_sort_edges(np.minimum(us, vs), np.maximum(us, vs)))


def _sort_edges(us: NDArray[np.int32], vs: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    keys = us.astype(np.int64) << 32 | vs
    keys.sort()
    return (keys >> 32).astype(np.int32), keys.astype(np.int32)


def _with_edges(graph: Graph, us: NDArray[np.int32], vs: NDArray[np.int32]) -> Graph:
    return replace(graph, u=us, v=vs, sign=None)


class UniformEdges(Randomizer):
    """Graphs with the same number of edges."""

    def sample(self, seed: int, index: int) -> Graph:
        graph, n_cells = self.graph, count_cells(self.graph)
        is_absent = 2 * graph.n_edges > n_cells
        count = n_cells - graph.n_edges if is_absent else graph.n_edges
        positions = np.empty(count, np.int64)
        draw_positions(sample_key(seed, index), n_cells, count, np.empty(3 * count + 2, np.int64), positions)
        us, vs = np.empty((2, graph.n_edges), np.int32)
        is_square = isinstance(graph, UnipartiteGraph)
        place_edges(positions, is_absent, graph.n_v, is_square, us, vs)
        return _with_edges(graph, us, vs)

    def has_one_realisation(self) -> bool:
        return self.graph.n_edges in (0, count_cells(self.graph))


class IndependentEdges(Randomizer):
    """Graphs of independent edges with the same expected degrees."""

    def __init__(self, graph: Graph, model: NullModel) -> None:
        super().__init__(graph, model)
        self.chances = solve_chances(graph)

    def sample(self, seed: int, index: int) -> Graph:
        chances, key = self.chances, sample_key(seed, index)
        expected = chances.expect_edges()
        room = int(expected + 6 * expected**0.5) + 16
        while True:
            us, vs = np.empty((2, room), np.int32)
            found = draw_independent(
                key, chances.members, chances.offsets, chances.n_u_classes, chances.is_bipartite,
                chances.chances, make_skips(), us, vs,
            )  # fmt: skip
            if found <= room:
                break
            room = found
        us, vs = us[:found], vs[:found]
        if not chances.is_bipartite:
            us, vs = np.minimum(us, vs), np.maximum(us, vs)
        return _with_edges(self.graph, *_sort_edges(us, vs))

    def has_one_realisation(self) -> bool:
        return self.chances.is_certain


class PermutedSigns(Randomizer):
    """The graph with its signs permuted."""

    def sample(self, seed: int, index: int) -> Graph:
        n_edges, sign = self.graph.n_edges, np.empty(self.graph.n_edges, np.int8)
        words, chosen = np.empty((2, n_edges), np.uint64)
        draw_signs(sample_key(seed, index), self._n_negative, words, chosen, np.empty(MAX_BINS, np.int64), sign)
        return replace(self.graph, sign=sign)

    def has_one_realisation(self) -> bool:
        return self._n_negative in (0, self.graph.n_edges)

    @property
    def _n_negative(self) -> int:
        return int(np.count_nonzero(self.graph.sign == -1))


def make_randomizer(graph: Graph, model: NullModel) -> Randomizer:
    """Return the randomizer for a graph and a null model.

    Raises
    ------
    UnsupportedError, CapacityError
        If the model does not apply to the graph.
    """
    model.check(graph)
    made: Any = {"edges": UniformEdges, "expected-degrees": IndependentEdges, "signs": PermutedSigns}.get(
        model.name, RowTrades if isinstance(graph, BipartiteGraph) else VertexTrades
    )
    randomizer: Randomizer = made(graph, model)
    return randomizer
