"""Making rows on disk stays within the memory that it is given, which is a fraction of that of the edges."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.partitioning.cut_run import PeakMemory
from papilio.partitioning.disk_rows import write_disk_rows
from papilio.partitioning.rows import degrees
from papilio.storage import edge_files as edges
from papilio.storage.store import open_store, write_store

N_VERTICES = 100_000
DEGREE = 50


def even_graph() -> BipartiteGraph:
    """Return a graph of 5 million edges without isolated vertices in U."""
    step = N_VERTICES // DEGREE
    v = np.random.default_rng(0).integers(0, step, (N_VERTICES, DEGREE), dtype=np.int32)
    v += np.arange(DEGREE, dtype=np.int32) * step
    u = np.repeat(np.arange(N_VERTICES, dtype=np.int32), DEGREE)
    return BipartiteGraph(N_VERTICES, N_VERTICES, u, v.ravel())


def measure(path: str, host_bytes: int) -> int:
    """Return how far resident memory rises while the rows are made; in a process of its own."""
    parent = Path(path).parent
    small = write_store(f"{path}-small", BipartiteGraph.from_edges([0, 1], [1, 0]), provenance={}, overwrite=True)
    with write_disk_rows(small, parent, 1 << 30, 2):
        degrees(open_store(path), threads=2)  # libraries are loaded, and their first blocks of memory taken
    with PeakMemory() as peak, write_disk_rows(open_store(path), parent, host_bytes, 2) as rows:
        assert rows.n_edges == N_VERTICES * DEGREE
    return peak.grown_bytes


@pytest.mark.slow
def test_memory_is_less_than_that_of_the_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", 1 << 16)
    write_store(tmp_path / "g", even_graph(), provenance={})
    host_bytes = 32 << 20
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        peak, unbounded = pool.map(measure, [str(tmp_path / "g")] * 2, [host_bytes, 1 << 30])
    assert 28 * 2 * N_VERTICES < peak <= host_bytes
    assert unbounded > N_VERTICES * DEGREE * 8 > host_bytes
