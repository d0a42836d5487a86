"""Graphs of more than 2^31 edges are cut as small ones are: all rows and edges of a small graph behind so many others.

The rows lie in sparse files, after 2^33 places that nobody writes, and the edges of the store are numbered from there
on. Any offset, place or edge id that is kept in 32 bits somewhere would lead to other parts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.motifs import Biclique, Butterfly, Clique, Granularity, MaximalBiclique, MaximalClique, Motif
from papilio.partitioning import disk_rows
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.cutters import cutter_of
from papilio.partitioning.disk_rows import Ranking
from papilio.partitioning.partition import Partition
from papilio.parts import PartBytes, PartSizes
from papilio.registry import motif_row
from papilio.storage.store import GraphStore, write_store
from tests.tools.strategies import planted_graph

FAR = 1 << 33

PART_BYTES = PartBytes(100, 20, 9, 8, 6)


def cut(store: GraphStore, output: Path, motif: Motif, per: Granularity, strategy: Strategy) -> Partition:
    """Cut into several parts."""
    whole = PART_BYTES.of(PartSizes(store.n_u, store.n_edges, store.n_v, store.n_edges))
    request = CutRequest(per, PART_BYTES, int(0.4 * whole), 256 << 20, 2, strategy)
    parted = motif_row(motif).parted
    assert parted is not None
    found: Partition = cutter_of(parted.kind)(store, output, motif, {}, request)
    return found


def arrays_of(block: Any) -> dict[str, Any]:
    """Return the arrays of a block by name, with those of its graph."""
    graph = getattr(block, "graph", None)
    found = {name: each for name, each in vars(block).items() if isinstance(each, np.ndarray)}
    return found if graph is None else found | {"of_u": graph.u, "of_v": graph.v}


@pytest.mark.parametrize(
    ("motif", "per", "strategy"),
    [
        (Butterfly(), "edge", "pair_blocks"),
        (Butterfly(), "edge", "bcpar"),
        (Butterfly(), "vertex", "auto"),
        (Biclique(2, 2), "total", "auto"),
        (MaximalBiclique(), "total", "auto"),
        (Clique(3), "edge", "auto"),
        (MaximalClique(), "total", "auto"),
    ],
)
def test_parts_do_not_depend_on_where_rows_lie(
    motif: Motif, per: Granularity, strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph: BipartiteGraph | UnipartiteGraph = planted_graph(
        5, 90, 80, blocks=6, block_side=12, noise_edges=300, missing=0.1
    )
    if motif_row(motif).graph_kind == "unipartite":
        graph = UnipartiteGraph.from_edges(graph.u, graph.v + np.int32(40))
    store = write_store(tmp_path / "graph", graph, provenance={})
    near = cut(store, tmp_path / "near", motif, per, strategy)
    assert len(near.manifest.parts) > 1

    monkeypatch.setattr(disk_rows, "Ranking", lambda order, rank, indptr: Ranking(order, rank, indptr + FAR))
    far_store = GraphStore(store.path, store.manifest)
    groups = tuple(replace(group, first_edge=group.first_edge + FAR) for group in store.row_groups)
    monkeypatch.setitem(vars(far_store), "row_groups", groups)
    far = cut(far_store, tmp_path / "far", motif, per, strategy)

    assert [each.sizes for each in far.manifest.parts] == [each.sizes for each in near.manifest.parts]
    assert [each.work for each in far.manifest.parts] == [each.work for each in near.manifest.parts]
    for info in near.manifest.blocks:
        ours, theirs = arrays_of(near.read_block(info.name)), arrays_of(far.read_block(info.name))
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            shift = FAR if name == "edges" else 0
            assert np.array_equal(theirs[name], values + shift), name
