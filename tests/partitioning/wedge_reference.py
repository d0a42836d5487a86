"""What parts of wedges must hold, by definition: every counted wedge of a graph, and those that a part counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb
from pathlib import Path

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.partitioning.cut_request import CutRequest
from papilio.partitioning.partition import Partition
from papilio.parts import PartBytes, WedgePart
from papilio.storage.store import GraphStore, write_store
from tests.tools.oracle import neighbour_sets
from tests.tools.strategies import edge_list

Pair = tuple[str, int, int]
"""Layer, start and end, by ids in the whole graph."""

BYTES = PartBytes(1000, 40, 9, 25, 7)
"""Of a part, for tests: no two alike."""


@dataclass
class Wedges:
    """Counted wedges: the middles of every pair, and how many start at each vertex."""

    middles: dict[Pair, set[int]] = field(default_factory=lambda: defaultdict(set))
    work: Counter[tuple[str, int]] = field(default_factory=Counter)

    def at_least_two(self) -> dict[Pair, set[int]]:
        """Return the pairs that have butterflies."""
        return {pair: middles for pair, middles in self.middles.items() if len(middles) > 1}

    def butterflies(self) -> int:
        """Return the number of butterflies."""
        return sum(comb(len(middles), 2) for middles in self.middles.values())


def all_wedges(graph: BipartiteGraph) -> Wedges:
    """Visit every wedge whose end precedes its middle and its start: falling degree, ties U first, then by id."""
    neighbours = neighbour_sets(edge_list(graph))
    order = sorted(neighbours, key=lambda vertex: (-len(neighbours[vertex]), vertex))
    place = {vertex: at for at, vertex in enumerate(order)}
    wedges = Wedges()
    for start in order:
        for middle in neighbours[start]:
            for end in neighbours[middle]:
                if place[end] < min(place[middle], place[start]):
                    wedges.middles[start[0], start[1], end[1]].add(middle[1])
                    wedges.work[start] += 1
    return wedges


def count_part(part: WedgePart, wedges: Wedges, graph: BipartiteGraph | None = None) -> None:
    """Add the wedges of a part, one at a time; no pair may come twice. Checks edge ids where ``graph`` is given."""
    starts, ends = part.starts, part.ends
    assert starts.layer == ends.layer
    row_of = {int(rank): row for row, rank in enumerate(ends.middle_rank)}
    found: dict[Pair, set[int]] = defaultdict(set)
    for i, rank in enumerate(starts.rank.tolist()):
        for at in range(int(starts.indptr[i]), int(starts.indptr[i + 1])):
            row = row_of.get(int(starts.middles[at]))
            if row is None:
                continue
            middle = int(ends.middle_ids[row])
            check_edge(graph, starts.layer, starts.edges, at, int(starts.ids[i]), middle)
            for to in range(int(ends.indptr[row]), int(ends.indptr[row + 1])):
                end = int(ends.ends[to])
                check_edge(graph, starts.layer, ends.edges, to, int(ends.ids[end]), middle)
                if ends.rank[end] < rank:
                    found[starts.layer, int(starts.ids[i]), int(ends.ids[end])].add(middle)
    assert not found.keys() & wedges.middles.keys(), "a pair is in two parts"
    wedges.middles.update(found)


def check_edge(graph: BipartiteGraph | None, layer: str, edges: np.ndarray, at: int, own: int, middle: int) -> None:
    """Check that an edge id is that of the edge between a vertex and a middle; none is kept without a graph."""
    if graph is None:
        assert edges.size == 0
        return
    edge = int(edges[at])
    ends = (int(graph.u[edge]), int(graph.v[edge]))
    assert ends == ((own, middle) if layer == "u" else (middle, own))


def check_form(part: WedgePart, wedges: Wedges) -> None:
    """Check what :mod:`papilio.parts` says of both blocks, and the work of the starts."""
    starts, ends = part.starts, part.ends
    for ranks in (starts.rank, ends.rank, ends.middle_rank):
        assert (np.diff(ranks) > 0).all()
    for indptr, row in ((starts.indptr, starts.middles), (ends.indptr, ends.ends)):
        assert indptr[0] == 0
        assert indptr[-1] == row.size
        assert all((np.diff(one) > 0).all() for one in np.split(row, indptr[1:-1]))
    assert (np.diff(starts.indptr) >= 2).all()
    assert (np.diff(ends.indptr) >= 1).all()
    assert set(ends.ends.tolist()) == set(range(ends.rank.size))
    for vertex, work in zip(starts.ids.tolist(), starts.work.tolist(), strict=True):
        assert work == wedges.work[part.layer, vertex] > 0
    types = {np.dtype(np.int32): (starts.rank, starts.ids, starts.middles, ends.rank, ends.ids, ends.middle_rank)}
    types[np.dtype(np.int32)] += (ends.middle_ids, ends.ends)
    types[np.dtype(np.int64)] = (starts.work, starts.indptr, starts.edges, ends.indptr, ends.edges)
    assert all(array.dtype == dtype for dtype, arrays in types.items() for array in arrays)


def check_partition(partition: Partition, graph: BipartiteGraph, request: CutRequest) -> Wedges:
    """Check every part of a partition against the graph; return the wedges of all parts."""
    expected, found = all_wedges(graph), Wedges()
    manifest = partition.manifest
    for info in manifest.parts:
        part = partition.read_part(info.index)
        assert isinstance(part, WedgePart)
        check_form(part, expected)
        before = len(found.middles)
        count_part(part, found, graph if request.per == "edge" else None)
        assert len(found.middles) > before or manifest.strategy == "pair_blocks"
        assert (info.sizes, info.nbytes, info.n_items) == (part.sizes, part.nbytes, part.starts.rank.size)
        assert info.layer == part.layer
        assert request.fits(info.sizes)
        items, work = info.table["items"], info.table["work"]
        assert (items[0], work[0], items[-1], work[-1]) == (0, 0, info.n_items, info.work)
        assert all(a < b for a, b in pairwise(items))
        assert all(a <= b for a, b in pairwise(work))
    assert found.at_least_two() == expected.at_least_two()
    assert all(middles == expected.middles[pair] for pair, middles in found.middles.items())
    return found


def moved_bytes(partition: Partition) -> int:
    """Return the bytes that one worker moves that keeps the ends as long as the next part has the same."""
    moved, kept = 0, ""
    for info in partition.manifest.parts:
        starts, ends = partition.read_block(info.blocks[0]), partition.read_block(info.blocks[1])
        moved += starts.nbytes + (ends.nbytes if info.blocks[1] != kept else 0)
        kept = info.blocks[1]
    return moved


def store_of(directory: Path, graph: BipartiteGraph) -> GraphStore:
    """Write a graph as a store."""
    return write_store(directory, graph, provenance={"made": "for a test"})


def limits(graph: BipartiteGraph, shares: Iterable[float]) -> list[int]:
    """Return limits of a part: shares of what the whole graph may take as one part of either layer."""
    whole = graph.n_edges * (BYTES.root_entry + BYTES.entry)
    whole += (graph.n_u + graph.n_v) * (BYTES.root + BYTES.vertex) + 2
    return [BYTES.fixed + int(whole * share) + 1 for share in shares]
