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

MOMENTS = ("sum0", "sum1", "square0", "square1", "square2", "square3")
"""Vectors of each layer, besides the counts in the given graph: sums over the samples of digits to base 2^32, of the
count of each vertex and of its square. No sum of 32-bit digits passes 2^64, so that they add up in any order."""


@dataclass(frozen=True)
class Ensemble:
    """Random graphs whose counts are compared with the counts in a graph.

    The work items are the chains, then the graph as given, then the samples. An item has its number as the first entry
    of the cells of its counts. A chain has a count after each of several numbers of steps, which is the second entry.
    """

    null: NullName
    steps: int  # of the chain from the graph to a sample; 0 where each sample is drawn anew
    samples: Samples
    seed: Seed
    chains: int = 0  # chains of twice as many steps, which show whether those of a sample are enough

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, null: NullName, samples: int, seed: int, steps: int | None = None) -> Ensemble:
        """Return the ensemble that a call asks for; InputError for steps of a null model that takes none."""
        model = NullModel(null) if steps is None else NullModel(null, steps)
        chains = CHAINS if model.is_chain and samples >= LEAST_SAMPLES else 0
        return cls(null, model.steps, samples, seed, chains)

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
    def stops(self) -> tuple[int, ...]:
        """Steps after which the graph of a chain is counted: for 20 steps 1 to 20, doubling, then 25, 30, 35, 40."""
        steps = self.steps
        early = (ceil(steps / 2**halvings) for halvings in range(6))
        return tuple(sorted({*early, *(steps + ceil(steps * quarter / 4) for quarter in range(1, 5))}))

    def has_cell(self, motif: Motif, cell: Cell) -> bool:
        """Whether the counts of a motif can have this cell."""
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
