"""A family of motifs on unipartite graphs, in whole outside of the package: edges and triangles by brute force.

It stands for the families to come: it has its own row, vectors of one layer, tables by a key of one part, a checksum,
the largest motifs, and listings whose rows have two or three vertices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import Between, check_fields
from papilio.graph import RowColumn, UnipartiteGraph
from papilio.kernels.engine import (
    Engine,
    EngineName,
    LargestMotif,
    Partial,
    Prepared,
    StopCheck,
    choose_best,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.kernels.memory import GraphMemory, Memory, Terms
from papilio.kernels.motif_row import ListingSupport, MotifRow, WorkRate
from papilio.motifs import Cell, Granularity, Listing, Motif

__all__ = ["ROW", "LittleClique", "all_cliques", "make_rows"]

Members = tuple[int, ...]


@dataclass(frozen=True)
class LittleClique(Motif):
    """A clique of k vertices, 2 or 3; of either size where k is None. ``best`` of them are named."""

    name: ClassVar[str] = "little-clique"

    k: Annotated[int, Between(2, 3)] | None = None
    best: Annotated[int, Between(0, 100)] = 0

    def __post_init__(self) -> None:
        check_fields(self, " of a little clique")

    @property
    def is_table(self) -> bool:
        return self.k is None

    @property
    def n_best(self) -> int:
        return self.best

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        return ("total", "vertex", "edge") if self.k else ("total", "vertex")

    def has_cell(self, cell: Cell) -> bool:
        return cell in ((2,), (3,))


def all_cliques(graph: UnipartiteGraph, motif: LittleClique) -> set[Members]:
    """Return all cliques asked for, by definition."""
    edges = set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    sizes = (2, 3) if motif.k is None else (motif.k,)
    return {
        members
        for size in sizes
        for members in combinations(range(graph.n), size)
        if all(pair in edges for pair in combinations(members, 2))
    }


def make_rows(found: list[Members]) -> RowColumn:
    """Return cliques as rows of any length."""
    offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return offsets, np.array([vertex for each in found for vertex in each], np.int32)


@dataclass(frozen=True, eq=False)
class LittlePrepared(Prepared):
    """The later neighbours of every vertex; an item is the least vertex of its cliques."""

    graph: UnipartiteGraph
    motif: LittleClique
    per: Granularity
    later: list[list[int]]
    order: NDArray[np.int64]
    costs: NDArray[np.int64]
    ids_n: NDArray[np.int32]
    decisions: tuple[tuple[str, str], ...] = ()


class LittleCliqueCpu(Engine):
    """Counts and lists; a row that its sink gets has as many vertices as the clique."""

    name: EngineName = "cpu"

    def __init__(self, threads: int | None = None, listing: Listing | None = None) -> None:
        self.listing = listing

    def prepare(self, graph: Any, motif: Any, per: Granularity) -> LittlePrepared:
        require_request("little clique", LittleClique, graph, motif, per, graph_type=UnipartiteGraph)
        later: list[list[int]] = [[] for _ in range(graph.n)]
        for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
            later[u].append(v)
        costs = np.array([1 + len(each) ** 2 for each in later], np.int64)
        order = np.argsort(-costs, kind="stable")
        return LittlePrepared(graph, motif, per, later, order, costs[order], np.arange(graph.n, dtype=np.int32))

    def run(
        self,
        prepared: LittlePrepared,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
        sink: Callable[..., None] | None = None,
    ) -> Partial:
        require_interval(start, stop, prepared.n_items)
        found: list[Members] = []
        end = start
        for begin, until in zip((start, *bounds), (*bounds, stop), strict=True):
            if begin > start and cut():
                break
            for item in range(begin, until):
                found += self._cliques_of(prepared, int(prepared.order[item]))
            end = until
        limit = None if self.listing is None else self.listing.limit
        capped = limit is not None and len(found) >= limit
        if capped:
            found, end = found[:limit], stop
        if sink is not None and found:
            sink(np.array(found, np.int32) if prepared.motif.k else make_rows(found))
        return self._partial(prepared, found, start, end, capped)

    def _cliques_of(self, prepared: LittlePrepared, least: int) -> Iterator[Members]:
        held = set() if self.listing is None else set(self.listing.with_u)
        later, k = prepared.later, prepared.motif.k
        for v in later[least]:
            pairs = [(least, v)] if k != 3 else []
            triangles = [(least, v, w) for w in later[least] if w in later[v]] if k != 2 else []
            yield from (each for each in pairs + triangles if held <= set(each))

    def _partial(self, prepared: LittlePrepared, found: list[Members], start: int, end: int, capped: bool) -> Partial:
        graph, motif = prepared.graph, prepared.motif
        vectors: dict[str, NDArray[np.uint64]] = {}
        if prepared.per == "vertex":
            vectors["n"] = np.zeros(graph.n, np.uint64)
            for members in found:
                vectors["n"][list(members)] += np.uint64(1)
        elif prepared.per == "edge":
            places = {pair: i for i, pair in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True))}
            vectors["edge"] = np.zeros(graph.n_edges, np.uint64)
            for members in found:
                for pair in combinations(members, 2):
                    vectors["edge"][places[pair]] += np.uint64(1)
        cells = {(size,): sum(len(each) == size for each in found) for size in (2, 3)}
        return Partial(
            end - start,
            len(found),
            int(prepared.costs[start:end].sum()),
            vectors,
            {cell: count for cell, count in cells.items() if count} if motif.is_table else {},
            capped=capped,
            checksum=sum_hashes(hash_rows(make_rows(found))),
            best=choose_best((LargestMotif(sum(each), (each,)) for each in found), motif.n_best),
            n_best=motif.n_best,
        )


def members(motif: LittleClique, cell: Cell) -> dict[str, int]:
    """Return how many vertices, and edges, a clique has."""
    k = cell[0] if cell else motif.k or 0
    return {"n": k, "edge": k * (k - 1) // 2}


_RATE = {"cpu": WorkRate("pairs", 1.0e2, {"total": 1.0, "vertex": 1.0, "edge": 1.0})}

ROW = MotifRow(
    LittleClique,
    engines={"cpu": lambda: LittleCliqueCpu},
    memory=Memory(lambda motif, per, engine: GraphMemory(Terms(edge=100, vertex=100, vector=8), Terms(), Terms())),
    members=members,
    rates=_RATE,  # type: ignore[arg-type]
    graph_kind="unipartite",
    key=("k",),
    listed=ListingSupport(
        {"cpu": lambda: LittleCliqueCpu},
        columns=lambda motif: {"n": motif.k},
        rates=_RATE,  # type: ignore[arg-type]
    ),
    has_checksum=True,
)
