"""What a null model is: random graphs that share something with a given graph, against which its counts are judged.

* ``degrees``: all graphs with the same degree of every vertex, each as likely; global curveball trades
  (Carstens, Berger and Strona, arXiv 1609.05137; Carstens et al., ESA 2018).
* ``expected-degrees``: independent edges whose expected degrees are those of the graph
  (:mod:`papilio.kernels.null.fitness`).
* ``edges``: all graphs with the same number of edges, each as likely.
* ``signs``: the graph itself, with all placements of its negative signs as likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph

Graph = BipartiteGraph | UnipartiteGraph

NullName = Literal["degrees", "expected-degrees", "edges", "signs"]
NULL_NAMES: tuple[NullName, ...] = get_args(NullName)

DEFAULT_STEPS = 20
"""Global trades of a sample. Each touches every edge; a statistic against trades shows whether they are enough."""


@dataclass(frozen=True)
class NullModel:
    """A null model by its name.

    Raises
    ------
    InputError
        For an unknown name, or a number of steps that the model does not take.
    """

    name: NullName
    """See :mod:`papilio.kernels.null.models`."""
    steps: int = -1
    """Global trades from the graph to each sample of "degrees"; -1 for the default. Others take none."""

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
        """Whether samples have signs; those of all models but "signs" have none."""
        return self.name == "signs"

    def check(self, graph: Graph) -> None:
        """Check that the model applies to a graph.

        Raises
        ------
        UnsupportedError
            For "signs" on a graph without signs.
        """
        if self.keeps_signs and not graph.signed:
            raise UnsupportedError(
                "the null model 'signs' permutes signs, and the graph has none; use 'degrees'"
            )


def count_cells(graph: Graph) -> int:
    """Return the number of possible edges, which is below 2^62."""
    return graph.n_u * graph.n_v if isinstance(graph, BipartiteGraph) else graph.n * (graph.n - 1) // 2


def is_only_realisation(graph: Graph) -> bool:
    """Return whether no other simple graph has the degrees of a graph; O(vertices log vertices).

    These are the nested bipartite graphs, whose degrees of one layer are the conjugate of those of the other (Gale and
    Ryser), and the threshold graphs, from which vertices with no or all possible edges can be taken away one by one.
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
