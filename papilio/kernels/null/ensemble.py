"""Ensembles: which random graphs a count is compared with, and the exact sums that are kept of counts per vertex."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import Samples, Seed, check_fields
from papilio.kernels.null.models import NullModel, NullName
from papilio.motifs import Cell, Motif

CHAINS, LEAST_SAMPLES = 20, 100
"""Chains that show how a null model mixes, and the samples from which on they are worth their time."""

MOST_BIAS, MOST_DOUBLINGS = 0.05, 6
"""Largest predicted bias of a count that a pilot accepts, in its standard deviations, and how often it doubles the
trades of a sample for that. The end of a chain is slower than its beginning: where 0.05 is predicted, 0.1 is possible.
"""

MOMENTS = ("sum0", "sum1", "square0", "square1", "square2", "square3")
"""Vectors of each layer, besides the counts in the given graph: sums over the samples of digits to base 2^32, of the
count of each vertex and of its square. No sum of 32-bit digits passes 2^64, so that they add up in any order."""

RANKS = ("more", "less")
"""Two more: in how many samples the count of each vertex is at least, or at most, that in the given graph."""


@dataclass(frozen=True)
class Ensemble:
    """Random graphs whose counts are compared with the counts in a graph.

    The work items are the chains, then the graph as given, then the samples. An item has its number as the first entry
    of the cells of its counts. A chain has a count after each of several numbers of steps, which is the second entry.
    Two more cells, :attr:`trades_cell` and :attr:`bias_cell`, say what the samples of a chain took; they belong to the
    graph as given.
    """

    null: NullName
    steps: int  # of the chain from the graph to a sample; 0 where each sample is drawn anew
    samples: Samples
    seed: Seed
    chains: int = 0  # chains of twice as many steps, which show whether those of a sample are enough
    pilot: bool = False  # whether a pilot decides how many trades a step has, see papilio.kernels.null.mixing

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, null: NullName, samples: int, seed: int, steps: int | None = None) -> Ensemble:
        """Return the ensemble that a call asks for; InputError for steps of a null model that takes none."""
        model = NullModel(null) if steps is None else NullModel(null, steps)
        looks = model.is_chain and samples >= LEAST_SAMPLES
        return cls(null, model.steps, samples, seed, CHAINS if looks else 0, pilot=looks and steps is None)

    @property
    def model(self) -> NullModel:
        return NullModel(self.null, self.steps)

    @property
    def n_items(self) -> int:
        return self.chains + 1 + self.samples

    @property
    def given(self) -> int:
        """Item of the graph as given."""
        return self.chains

    @property
    def trades_cell(self) -> Cell:
        """Global trades of a step."""
        return (self.n_items,)

    @property
    def bias_cell(self) -> Cell:
        """Predicted bias of the counts, in thousandths of their standard deviation."""
        return (self.n_items + 1,)

    @property
    def stops(self) -> tuple[int, ...]:
        """Steps after which the graph of a chain is counted: for 20 steps 1 to 20, doubling, then 25, 30, 35, 40."""
        steps = self.steps
        early = (ceil(steps / 2**halvings) for halvings in range(6))
        return tuple(sorted({*early, *(steps + ceil(steps * quarter / 4) for quarter in range(1, 5))}))

    def has_cell(self, motif: Motif, cell: Cell) -> bool:
        """Whether the counts of a motif can have this cell."""
        if cell in (self.trades_cell, self.bias_cell):
            return bool(self.steps)
        if not cell or not 0 <= cell[0] < self.n_items:
            return False
        if cell[0] < self.chains:
            return len(cell) == 2 and cell[1] in self.stops
        return motif.has_cell(cell[1:]) if motif.is_table else len(cell) == 1


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def moments_of(counts: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], ...]:
    """Return the digits to base 2^32 of counts and of their squares, as :data:`MOMENTS` names them.

    A digit of a square may exceed 2^32, up to threefold: the product of both halves counts twice.
    """
    low, high = counts & _LOW, counts >> _HALF
    square, cross, top = low * low, low * high, high * high
    return (
        low,
        high,
        square & _LOW,
        (square >> _HALF) + ((cross & _LOW) << np.uint64(1)),
        ((cross >> _HALF) << np.uint64(1)) + (top & _LOW),
        top >> _HALF,
    )
