"""The question about communities: which maximal motifs are joined, and which of them are adjacent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from papilio.errors import InputError, UnsupportedError
from papilio.kernels.communities.percolate import Level
from papilio.motifs import Biclique, Clique, MaximalBiclique, MaximalClique, Motif

Shared = Literal["smaller", "same"]
"""What adjacent (p, q)-bicliques share: a (p - 1, q - 1)-biclique, or all but one vertex."""

LEAST_K = 2
"""Smallest cliques with communities: single vertices share nothing."""


@dataclass(frozen=True)
class Percolation:
    """Cliques or bicliques, and the vertices that adjacent ones share.

    Raises UnsupportedError for other motifs, and InputError for sizes without communities.
    """

    motif: Motif
    shared: Shared = "smaller"

    def __post_init__(self) -> None:
        motif, shared = self.motif, self.shared
        if type(motif) is Clique:
            if shared != "smaller":
                raise InputError(f"shared is {shared!r}, which is for bicliques: leave it out for cliques")
            for name, k in (("k", motif.k), ("max_k", motif.max_k)):
                if k is not None and k < LEAST_K:
                    raise InputError(f"{name} is {k}; communities are of cliques of at least {LEAST_K} vertices")
        elif type(motif) is Biclique:
            if motif.is_table:
                raise InputError(f"communities of bicliques need both sizes, as in Biclique(3, 3), not {motif.title}")
            if motif.p == motif.q == 1 and shared == "smaller":
                raise InputError("any two edges share a (0, 0)-biclique: use at least 2 for p or q, or shared 'same'")
        else:
            raise UnsupportedError(f"communities are of cliques and bicliques; {motif.title} is neither")

    @property
    def maximal(self) -> MaximalClique | MaximalBiclique:
        """The maximal motifs that are joined."""
        if isinstance(self.motif, Clique):
            return MaximalClique(self.motif.k or LEAST_K)
        return MaximalBiclique(*self._sides)

    def levels(self, largest: int) -> list[Level]:
        """Return the sizes of communities, where the largest maximal clique has ``largest`` vertices."""
        if isinstance(self.motif, Clique):
            k, most = self.motif.k, min(largest, self.motif.max_k or largest)
            return [Level(k, (k - 1, 0)) for k in ([k] if k else range(most, LEAST_K - 1, -1))]
        p, q = self._sides
        less = 1 if self.shared == "smaller" else 0
        return [Level(p, (p - less, q - less))]

    @property
    def _sides(self) -> tuple[int, int]:
        assert isinstance(self.motif, Biclique)
        assert self.motif.p is not None
        assert self.motif.q is not None
        return self.motif.p, self.motif.q
