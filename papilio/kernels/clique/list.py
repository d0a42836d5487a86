"""List cliques on the CPU: the counting searches write each clique as a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.cpu import (
    CliqueCpu,
    MaximalCliqueCpu,
    PreparedCliqueCpu,
    PreparedMaximalCliqueCpu,
    RootsCpu,
)
from papilio.kernels.clique.loops import CliqueStack, RowBuffer, list_cliques, make_rows
from papilio.kernels.clique.question import Restricted, restrict_graph
from papilio.kernels.engine import Prepared, require_request
from papilio.kernels.exact import mix
from papilio.kernels.listing import empty_block
from papilio.kernels.probe import Prober, RowProber
from papilio.kernels.threads import Outlet
from papilio.motifs import Clique, Granularity, Listing, MaximalClique, Motif
from papilio.parts import Part


@dataclass(frozen=True, eq=False, kw_only=True)
class _Named(Prepared):
    """Data for rows of cliques, besides the remaining graph to search."""

    row_size: int | None  # vertices of a row; None for any number
    positions: NDArray[np.int32]  # in ``ids_n``, of every rank
    held: NDArray[np.int32]  # positions added to each clique
    held_hash: int  # sum of the hashes of these vertices
    ids_n: NDArray[np.int32]  # ids of all vertices that can be in a row, ascending


@dataclass(frozen=True, eq=False)
class PreparedCliqueListing(_Named, PreparedCliqueCpu):
    """A graph ready for :meth:`CliqueLister.run`."""


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueListing(_Named, PreparedMaximalCliqueCpu):
    """A graph ready for :meth:`MaximalCliqueLister.run`."""


def _name_rows(
    graph: UnipartiteGraph,
    left: Restricted,
    searched: PreparedCliqueCpu | PreparedMaximalCliqueCpu,
    row_size: int | None,
) -> dict[str, Any]:
    """Return the fields of the remaining graph and of its rows."""
    ids = np.union1d(left.ids, left.held).astype(np.int32)
    decisions = searched.decisions[:1]
    return vars(searched) | {
        "decisions": decisions if left.graph is graph else (left.reason, *decisions),
        "row_size": row_size,
        "positions": np.searchsorted(ids, left.ids[searched.later.vertices]).astype(np.int32),
        "held": np.searchsorted(ids, left.held).astype(np.int32),
        "held_hash": int(mix(left.held.astype(np.uint64)).sum(dtype=np.uint64)),
        "ids_n": ids,
    }


def refuse_counting(algorithm: str) -> None:
    """Reject the algorithm that cannot list."""
    if algorithm == "pivot":
        raise UnsupportedError("algorithm 'pivot' counts without visiting every clique; use 'orient' to list them")


class _Lister(RootsCpu):
    """Base of the listers."""

    listing: Listing

    def _make_rows(self, prepared: Any) -> RowBuffer:
        most = prepared.max_later + 1
        longest = most if prepared.row_size is None else min(prepared.row_size, most)
        names = prepared.positions, prepared.held, prepared.held_hash
        return make_rows(longest, *names, self.listing.limit)

    def prober(self, prepared: Any) -> Prober:
        """Return the prober of the counting engine; the leaves of its tree are rows here."""
        return RowProber(super().prober(prepared), prepared.held.size, leaves=True)

    def _pass_on(self, prepared: _Named, state: tuple[Any, RowBuffer], outlet: Outlet) -> None:
        outlet.take(empty_block(state[1].block, prepared.row_size))


class CliqueLister(_Lister, CliqueCpu):
    """Lists the k-cliques of a ``listing``; the other parameters are as in the engine.

    ``pivot`` cannot list.
    """

    def __init__(
        self,
        threads: int | None,
        listing: Listing,
        algorithm: str = "auto",
        order: str = "auto",
    ) -> None:
        refuse_counting(algorithm)
        super().__init__(threads, order=order)
        self.listing = listing

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedCliqueListing:
        """Set aside the required vertices, then prepare as the engine does."""
        require_request("listing", Clique, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph)
        assert isinstance(motif, Clique)
        assert motif.k is not None
        left = restrict_graph(graph, np.array(self.listing.with_u, np.int32), motif.k)
        searched = super().prepare(left.graph, Clique(max(motif.k - left.held.size, 1)), per)
        named = _name_rows(graph, left, searched, motif.k)
        return PreparedCliqueListing(**named | {"probed": "pivot"})

    def _search(self, prepared: PreparedCliqueCpu, state: tuple[CliqueStack, RowBuffer], end: int) -> bool:
        return list_cliques(prepared.later, *state, prepared.roots, end, prepared.sizes[0])


class MaximalCliqueLister(_Lister, MaximalCliqueCpu):
    """Lists the maximal cliques of a ``listing``."""

    def __init__(self, threads: int | None, listing: Listing) -> None:
        super().__init__(threads)
        self.listing = listing

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueListing:
        require_request("listing", MaximalClique, graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph)
        assert isinstance(motif, MaximalClique)
        left = restrict_graph(graph, np.array(self.listing.with_u, np.int32), None)
        searched = super().prepare(left.graph, MaximalClique(max(motif.min_size - left.held.size, 1)), per)
        named = _name_rows(graph, left, searched, None)
        ids = left.ids[searched.later.vertices]
        return PreparedMaximalCliqueListing(**named | {"hashes": mix(ids.astype(np.uint64))})
