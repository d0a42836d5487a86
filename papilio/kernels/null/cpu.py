"""Samples of null models on CPUs: one thread draws one sample, and several draw at once.

Under fixed degrees the rows of one layer trade columns: those of the layer with fewer rows whose entries can change.
Its pools are larger, so that a trade changes more, and there are fewer rows to pair; a trade touches every edge
whichever layer it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.exact import mix
from papilio.kernels.null.fitness import draw_independent, make_skips, solve_chances
from papilio.kernels.null.loops import (
    MAX_BINS,
    TradeRoom,
    VertexRoom,
    draw_positions,
    draw_signs,
    place_edges,
    trade_rows,
    trade_vertices,
    turn_rows,
)
from papilio.kernels.null.models import Graph, NullModel, count_cells, is_only_realisation
from papilio.kernels.probe import STEP


def draw_words(key: np.uint64, first: int, n: int) -> NDArray[np.uint64]:
    """Return the random words of n numbers under a key, as the loops draw them; shape (n,)."""
    return mix(key + np.arange(first, first + n, dtype=np.uint64) * STEP)


def sample_key(seed: int, index: int) -> np.uint64:
    """Return the key of all random words of a sample."""
    key = mix(np.array([seed], np.uint64))[0]
    return np.uint64(draw_words(key, index, 1)[0])


class Randomizer(ABC):
    """Random graphs of a null model of a graph: each depends on the seed and the number of the sample alone.

    Several threads may draw at once.
    """

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

    def chain(self, seed: int, index: int, steps: int) -> Iterator[Graph]:
        """Yield the graph, and what it is after each of so many steps of a sample.

        Raises
        ------
        UnsupportedError
            If the model draws samples in one step.
        """
        raise UnsupportedError(
            f"the null model {self.model.name!r} draws samples in one step; it has no chain"
        )


class ChainRandomizer(Randomizer):
    """Samples that are states of a chain which begins at the graph."""

    def sample(self, seed: int, index: int) -> Graph:
        state = self._begin()
        self._advance(state, sample_key(seed, index), 0, self.model.steps)
        return self._read(state)

    def chain(self, seed: int, index: int, steps: int) -> Iterator[Graph]:
        state, key = self._begin(), sample_key(seed, index)
        yield self._read(state)
        for step in range(steps):
            self._advance(state, key, step, step + 1)
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
        active_u = (graph.degree_u > 0) & (graph.degree_u < graph.n_v)
        active_v = (graph.degree_v > 0) & (graph.degree_v < graph.n_u)
        self.is_turned = bool(np.count_nonzero(active_v) < np.count_nonzero(active_u))
        rows = graph.swap_layers() if self.is_turned else graph
        self.offsets, self.columns = rows.indptr, rows.v
        self.rows = np.flatnonzero(active_v if self.is_turned else active_u).astype(np.int32)
        self.max_degree = int(np.diff(self.offsets)[self.rows].max(initial=0))

    def _begin(self) -> Any:
        return self.columns.copy(), TradeRoom.make(self.rows.size, self.max_degree)

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        columns, room = state
        trade_rows(self.offsets, columns, self.rows, key, begin, end, room)

    def _read(self, state: Any) -> BipartiteGraph:
        graph, columns = self.graph, state[0].copy()
        if self.is_turned:
            turned = np.empty_like(columns)
            turn_rows(self.offsets, columns, graph.indptr, np.empty(graph.n_u, np.int64), turned)
            columns = turned
        return BipartiteGraph(graph.n_u, graph.n_v, graph.u, columns)


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
        draw_signs(
            sample_key(seed, index), self._n_negative, words, chosen, np.empty(MAX_BINS, np.int64), sign
        )
        return replace(self.graph, sign=sign)

    def has_one_realisation(self) -> bool:
        return self._n_negative in (0, self.graph.n_edges)

    @property
    def _n_negative(self) -> int:
        return int(np.count_nonzero(self.graph.sign == -1))


def make_randomizer(graph: Graph, model: NullModel) -> Randomizer:
    """Return what draws samples of a null model of a graph on a CPU.

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
