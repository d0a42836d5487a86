"""Null models: distributions of random graphs that keep some property of a given graph.

* ``degrees``: uniform over all graphs in which every vertex keeps its degree; global curveball trades
  (Carstens, Berger and Strona, arXiv 1609.05137; Carstens et al., ESA 2018).
* ``expected-degrees``: independent edges, with expected degrees equal to the degrees in the graph
  (:mod:`papilio.kernels.null.fitness`).
* ``edges``: uniform over all graphs with the same number of edges.
* ``signs``: the same edges, uniform over all placements of the negative signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph

Graph = BipartiteGraph | UnipartiteGraph

NullName = Literal["degrees", "expected-degrees", "edges", "signs"]
NULL_NAMES: tuple[NullName, ...] = get_args(NullName)

MAX_CLASSES = 8192
"""Different degrees of all layers for which expected degrees are solved: their square is the size of a matrix."""

DEFAULT_STEPS = 20
"""Steps of a chain from the graph to a sample; :func:`count_trades` gives the length of a step. A plot of a statistic
against steps shows whether they are enough."""


@dataclass(frozen=True)
class NullModel:
    """A null model and the length of its chains.

    Raises
    ------
    InputError
        For an unknown name, or a number of steps that the model does not take.
    """

    name: NullName
    """See :mod:`papilio.kernels.null.models`."""
    steps: int = -1
    """Steps of the chain from the graph to each sample of "degrees", -1 for the default; 0 for the other models."""

    def __post_init__(self) -> None:
        if self.name not in NULL_NAMES:
            raise InputError(f"null model is {self.name!r}; use one of {', '.join(NULL_NAMES)}")
        if self.steps == -1:
            object.__setattr__(self, "steps", DEFAULT_STEPS if self.is_chain else 0)
        if self.is_chain and self.steps < 1:
            raise InputError(f"steps is {self.steps}; the null model 'degrees' needs at least 1")
        if not self.is_chain and self.steps:
            raise InputError(f"steps is {self.steps}; only the null model 'degrees' takes steps")

    @property
    def is_chain(self) -> bool:
        """Whether samples are states of a Markov chain."""
        return self.name == "degrees"

    @property
    def keeps_signs(self) -> bool:
        """Whether samples have signs; only samples of the model "signs" do."""
        return self.name == "signs"

    def check(self, graph: Graph) -> None:
        """Check that the model applies to a graph.

        Raises
        ------
        UnsupportedError
            For "signs" on a graph without signs.
        """
        if self.keeps_signs and not graph.signed:
            raise UnsupportedError("the null model 'signs' permutes signs, and the graph has none; use 'degrees'")


def count_cells(graph: Graph) -> int:
    """Return the number of possible edges, which is below 2^62."""
    return graph.n_u * graph.n_v if isinstance(graph, BipartiteGraph) else graph.n * (graph.n - 1) // 2


def count_trades(graph: Graph) -> int:
    """Return the number of global trades in a step of a chain.

    With it, the default number of steps is at least four relaxation times. When rows of U trade, an edge between
    vertices of degrees d and e appears and disappears at a rate of about e / n_u + m / (n_u d): the partner row has
    the edge, or receives it as one of the m / n_u entries that a row exchanges on average. When rows of V trade, the
    rate is d / n_v + m / (n_v e). The relaxation rate is the minimum, over all degrees up to the largest ones, of the
    mean of both; it is low for sparse graphs with hubs. In a unipartite graph both ends of an edge trade.
    """
    if graph.n_edges == 0:
        return 1
    if isinstance(graph, BipartiteGraph):
        rate = 0.5 * (_least_rate(graph.degree_u, graph.degree_v) + _least_rate(graph.degree_v, graph.degree_u))
    else:
        rate = 2.0 * _least_rate(graph.degree, graph.degree)
    return math.ceil(4.0 / (rate * DEFAULT_STEPS))


def _least_rate(own: NDArray[np.int64], others: NDArray[np.int64]) -> float:
    """Return the minimum over d of m / (n_own d) + d / n_others, where m is the sum of the degrees."""
    n_own, n_others, total = int(np.count_nonzero(own)), int(np.count_nonzero(others)), int(own.sum())
    degree = min(int(own.max()), math.sqrt(total * n_others / n_own))
    return total / (n_own * degree) + degree / n_others


def is_only_realisation(graph: Graph) -> bool:
    """Return whether no other simple graph has the same degrees; O(vertices log vertices).

    This holds for nested bipartite graphs, in which the degrees of one layer are the conjugate partition of the other
    (Gale and Ryser), and for threshold graphs, which disappear when vertices with no or all possible edges are removed
    one by one.
    """
    if isinstance(graph, BipartiteGraph):
        at_least = np.cumsum(np.bincount(graph.degree_u, minlength=graph.n_v + 1)[::-1])[::-1]
        return bool(np.array_equal(at_least[1:], np.sort(graph.degree_v)[::-1]))
    degrees: NDArray[np.int64] = np.sort(graph.degree)
    low, high, n_full = 0, graph.n - 1, 0
    while low <= high:
        if degrees[low] == n_full:
            low += 1
        elif degrees[high] - n_full == high - low:
            high, n_full = high - 1, n_full + 1
        else:
            return False
    return True
