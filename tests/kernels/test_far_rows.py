"""Rows that begin after 2^32 entries: loops and kernels count in them as in those of a small graph.

A prepared graph is copied into sparse files behind so many zeros. Loops that pass over all entries are left out: they
would touch the zeros.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.graph import UnipartiteGraph
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.clique.cpu import CliqueCpu, MaximalCliqueCpu
from papilio.kernels.clique.gpu import CliqueGpu, MaximalCliqueGpu
from papilio.kernels.engine import Partial
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.kernels.maximal.gpu_roots import fill_matrices
from papilio.kernels.rows.gpu_index import WedgeGraph, WedgePartGraph, fill_hub_rows
from papilio.kernels.rows.index import WedgeIndex, index_wedges
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.kernels.wedge.loops import count_start_edges, make_tables
from papilio.kernels.wedge.part import WedgePartIndex
from papilio.motifs import (
    Biclique,
    Butterfly,
    Clique,
    Granularity,
    MaximalBiclique,
    MaximalClique,
)
from tests.kernels.biclique.test_gpu_biclique import SCHEDULES as TREE_SCHEDULES
from tests.kernels.wedge.test_gpu_butterfly import SCHEDULES, VECTORS
from tests.tools.devices import emulator
from tests.tools.far import FAR, far_array
from tests.tools.parts import whole_parts
from tests.tools.strategies import planted_graph

GRAPH = planted_graph(2, 60, 150, 3, 9, 220, 0.1)
NETWORK = UnipartiteGraph.from_edges(GRAPH.u, GRAPH.v % 70)


def assert_same(far: Partial, near: Partial) -> None:
    assert near.total > 0
    assert (far.total, far.cells, far.checksum) == (near.total, near.cells, near.checksum)
    for name, vector in near.vectors.items():
        assert np.array_equal(far.vectors[name], vector)


def move_far(index: Any, folder: Path, *names: str) -> Any:
    """Return an index whose rows, in the arrays of these names, lie behind 2^32 entries."""
    arrays = {name: far_array(folder / name, getattr(index, name)) for name in names}
    return replace(index, offsets=index.offsets + FAR, **arrays)


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_cpu_loops(per: Granularity, tmp_path: Path) -> None:
    engine = ButterflyCpu(threads=2)
    prepared = engine.prepare(GRAPH, Butterfly(), per)
    index = prepared.index
    assert isinstance(index, WedgeIndex)
    far = move_far(index, tmp_path, "ids", "prefix")
    assert_same(
        engine.run(replace(prepared, index=far), 0, prepared.n_items),
        engine.run(prepared, 0, prepared.n_items),
    )


def test_cpu_loops_of_edges(tmp_path: Path) -> None:
    index = index_wedges(GRAPH, with_edge_ids=True)
    far = index.rows._replace(
        offsets=index.offsets + FAR,
        ids=(ids := far_array(tmp_path / "ids", index.ids)),
        prefix=far_array(tmp_path / "prefix", index.prefix),
        ends=ids,
    )
    found = []
    for rows, edge_ids in (
        (index.rows, index.edge_ids),
        (far, far_array(tmp_path / "edges", index.edge_ids)),
    ):
        tables, support = make_tables(index.n_counters, index.max_degree), np.zeros(GRAPH.n_edges, np.uint64)
        count_start_edges(rows, edge_ids, index.items, 0, index.items.size, tables, support)
        found.append(support)
    assert found[0].any()
    assert np.array_equal(*found)


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_cpu_loops_of_parts(per: Granularity, tmp_path: Path) -> None:
    engine = ButterflyCpu(threads=2)
    prepared = engine.prepare(whole_parts(GRAPH)[0], Butterfly(), per)
    index = prepared.index
    assert isinstance(index, WedgePartIndex)
    far = move_far(index, tmp_path, "ids", "prefix", "ends")
    assert_same(
        engine.run(replace(prepared, index=far), 0, prepared.n_items),
        engine.run(prepared, 0, prepared.n_items),
    )


@pytest.mark.parametrize(
    ("schedule", "per"),
    [*((name, "total") for name in SCHEDULES), *VECTORS],
)
def test_cuda_kernels(schedule: str, per: Granularity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ButterflyGpu(emulator(1), SCHEDULES[schedule])
    prepared = engine.prepare(GRAPH, Butterfly(), per)
    near = engine.run(prepared, 0, prepared.n_items)
    graph = prepared.graph
    assert isinstance(graph, WedgeGraph)
    far = replace(
        graph,
        indptr=graph.indptr + FAR,
        adjacency=far_array(tmp_path / "adjacency", np.asarray(graph.adjacency)),
        prefix=far_array(tmp_path / "prefix", np.asarray(graph.prefix)),
    )
    hub_rows = prepared.hub_rows
    if hub_rows is not None:
        hub_rows = fill_hub_rows(engine.device, far, engine.tuning)
        assert np.array_equal(hub_rows, prepared.hub_rows)
    if per == "edge":
        by_entry = far_array(tmp_path / "by entry", np.zeros(2 * GRAPH.n_edges, np.uint64))
        monkeypatch.setattr(engine, "_empty_result", lambda _: by_entry)
    moved = replace(prepared, graph=far, hub_rows=hub_rows)
    assert_same(engine.run(moved, 0, prepared.n_items), near)


@pytest.mark.parametrize("per", ["total", "vertex"])
@pytest.mark.parametrize("schedule", ["dense, tiles", "hash, four warps", "match", "split, four warps"])
def test_cuda_kernels_of_parts(schedule: str, per: Granularity, tmp_path: Path) -> None:
    engine = ButterflyGpu(emulator(1), SCHEDULES[schedule])
    prepared = engine.prepare(whole_parts(GRAPH)[0], Butterfly(), per)
    graph = prepared.graph
    assert isinstance(graph, WedgePartGraph)
    far = replace(
        graph,
        indptr=graph.indptr + FAR,
        adjacency=far_array(tmp_path / "adjacency", np.asarray(graph.adjacency)),
        prefix=far_array(tmp_path / "prefix", np.asarray(graph.prefix)),
        end_indptr=graph.end_indptr + FAR,
        ends=far_array(tmp_path / "ends", np.asarray(graph.ends)),
    )
    assert_same(
        engine.run(replace(prepared, graph=far), 0, prepared.n_items),
        engine.run(prepared, 0, prepared.n_items),
    )


@pytest.mark.parametrize(
    ("motif", "algorithm"),
    [
        (Biclique(3, 3), "enumerate"),
        (Biclique(4, 5), "enumerate"),
        (Biclique(4, 5), "pivot"),
        (Biclique(), "pivot"),
    ],
)
@pytest.mark.parametrize("schedule", ["eager", "near"])
def test_cuda_kernels_of_bicliques(motif: Biclique, algorithm: str, schedule: str, tmp_path: Path) -> None:
    engine = BicliqueGpu(emulator(2), algorithm=algorithm, tuning=TREE_SCHEDULES[schedule])
    prepared = engine.prepare(GRAPH, motif, "total")
    moved = replace(prepared, index=move_index(prepared.index, tmp_path))
    assert_same(
        engine.run(moved, 0, prepared.n_items),
        engine.run(prepared, 0, prepared.n_items),
    )


def move_index(index: Any, path: Path) -> Any:
    """Move the rows and the children of all work items of a device index."""
    arrays = dict(index.arrays)
    for name in ("indptr", "hop_indptr", "right_indptr", "item_first", "item_last"):
        if name in arrays:
            arrays[name] = arrays[name] + FAR
    for name in ("columns", "hop", "hop_common", "right_rows"):
        if name in arrays:
            arrays[name] = far_array(path / name, np.asarray(arrays[name]))
    return replace(index, arrays=arrays)


def test_cuda_kernels_of_maximal_bicliques(tmp_path: Path) -> None:
    engine = MaximalBicliqueGpu(emulator(3))
    prepared = engine.prepare(GRAPH, MaximalBiclique(), "total")
    roots, matrices, (root, first, last) = prepared.roots, prepared.matrices, prepared.ranges.arrays
    assert matrices is not None
    index = move_index(prepared.index, tmp_path)
    roots = replace(
        roots,
        earlier_indptr=roots.earlier_indptr + FAR,
        earlier=far_array(tmp_path / "earlier", np.asarray(roots.earlier)),
        right_indptr=roots.right_indptr + FAR,
        right_rows=far_array(tmp_path / "right rows", np.asarray(roots.right_rows)),
    )
    filled = fill_matrices(engine.device, index, roots, 0, index.n_items)
    assert np.array_equal(filled.words, matrices.words)
    moved = replace(
        prepared,
        index=index,
        roots=roots,
        matrices=replace(
            matrices,
            words=far_array(tmp_path / "words", np.asarray(matrices.words)),
            starts=matrices.starts + FAR,
        ),
        ranges=replace(prepared.ranges, arrays=(root, first + FAR, last + FAR)),
    )
    assert_same(engine.run(moved, 0, prepared.n_items), engine.run(prepared, 0, prepared.n_items))


@pytest.mark.parametrize(
    ("k", "algorithm", "per"),
    [(4, "orient", "total"), (5, "pivot", "total"), (None, "pivot", "total"), (5, "pivot", "vertex")],
)
def test_cliques(k: int | None, algorithm: str, per: Granularity, tmp_path: Path) -> None:
    for engine in (CliqueCpu(2, algorithm), CliqueGpu(emulator(4), algorithm)):
        prepared: Any = engine.prepare(NETWORK, Clique(k), per)
        moved = move_later(prepared, tmp_path / engine.name)
        assert_same(engine.run(moved, 0, prepared.n_items), engine.run(prepared, 0, prepared.n_items))


def move_later(prepared: Any, path: Path) -> Any:
    """Move the later neighbours, the earlier ones if there are any, and the work items on a device."""
    path.mkdir()
    later, changes = prepared.later, {}
    far = {
        "indptr": later.indptr + FAR,
        "ids": far_array(path / "ids", np.asarray(later.ids)),
        "edges": far_array(path / "edges", np.asarray(later.edges)),
    }
    changes["later"] = later._replace(**far) if isinstance(later, tuple) else replace(later, **far)
    if hasattr(prepared, "items"):
        items = prepared.items
        changes["items"] = replace(items, first=items.first + FAR, last=items.last + FAR)
    if hasattr(prepared, "earlier"):
        offsets, ids, *rest = prepared.earlier
        ids = far_array(path / "earlier", np.asarray(ids))
        kind = type(prepared.earlier)
        changes["earlier"] = (offsets + FAR, ids) if kind is tuple else kind(offsets + FAR, ids, *rest)
    return replace(prepared, **changes)


def test_maximal_cliques(tmp_path: Path) -> None:
    for engine in (MaximalCliqueCpu(2), MaximalCliqueGpu(emulator(5))):
        prepared: Any = engine.prepare(NETWORK, MaximalClique(), "total")
        moved = move_later(prepared, tmp_path / engine.name)
        assert_same(engine.run(moved, 0, prepared.n_items), engine.run(prepared, 0, prepared.n_items))
