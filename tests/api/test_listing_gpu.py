"""Listings from a GPU, from the question to the files, on the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import papilio
from papilio.cluster.events import Event, LeaseFinished, RowsKnown
from papilio.errors import UnsupportedError
from papilio.kernels.device.discovery import GpuInfo
from papilio.kernels.project.gpu import ProjectionGpu
from papilio.kernels.search.gpu_listing import TreeLister
from papilio.motifs import Motif
from papilio.registry import motif_row
from papilio.storage.store import write_store
from papilio.tasks import leases as lease_policy
from tests.kernels.clique.test_clique import random_graph
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

QUESTIONS: dict[str, tuple[Any, Motif, list[int]]] = {
    "maximal cliques": (random_graph(3, 40, 0.4), papilio.MaximalClique(2), [3]),
    "cliques": (random_graph(5, 40, 0.4), papilio.Clique(4), [7]),
    "maximal bicliques": (planted_graph(5, 22, 60, 2, 9, 150, 0.1), papilio.MaximalBiclique(2, 2), []),
}


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that the engines find: the emulator."""
    cuda = pytest.importorskip("papilio.kernels.device.cuda", reason="needs CuPy, without a GPU")
    device = emulator(1)
    monkeypatch.setattr(cuda, "shared_device", lambda limit_bytes=None: device)
    for module in ("papilio.tasks.worker_state", "papilio.tasks.machine"):
        monkeypatch.setattr(f"{module}.list_gpus", lambda: (GpuInfo("emulated", 4 << 30),))
    for module in ("papilio.tasks.machine", "papilio.cluster.executor"):
        monkeypatch.setattr(f"{module}.missing_for_gpu", lambda: None)
    monkeypatch.setattr(TreeLister, "max_words", 1 << 12)
    monkeypatch.setattr(ProjectionGpu, "max_pairs", 1 << 10)


def rows_of(path: str | Path | None, motif: Motif) -> list[tuple[tuple[int, ...], ...]]:
    """Return the rows of a listing, in the order of its files."""
    assert path is not None
    columns = pq.read_table(path).to_pydict()
    return list(zip(*(map(tuple, columns[layer]) for layer in motif_row(motif).columns(motif)), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("maximal cliques", marks=pytest.mark.slow),
        "cliques",
        pytest.param("maximal bicliques", marks=pytest.mark.slow),
    ],
)
def test_all_are_listed_counted_and_the_same_as_on_cpus(tmp_path: Path, name: str) -> None:
    graph, motif, held = QUESTIONS[name]
    write_store(tmp_path / "graph", graph, provenance={})
    known: list[Event] = []
    papilio.count(tmp_path / "graph", motif, engine="cpu", job=tmp_path / "counted")
    result, wanted = (
        papilio.enumerate(
            tmp_path / "graph",
            motif,
            output=tmp_path / engine,
            limit=None,
            engine=engine,
            progress=known.append,
        )
        for engine in ("gpu", "cpu")
    )
    assert (result.engine, result.checked, result.limit_reached) == ("gpu", True, False)
    rows = rows_of(result.output, motif)
    assert len(rows) == len(set(rows)) == result.rows
    assert set(rows) == set(rows_of(wanted.output, motif))
    assert [event.rows for event in known if isinstance(event, RowsKnown)] == [result.rows] * 2
    few = papilio.enumerate(tmp_path / "graph", motif, output=tmp_path / "few", limit=9, engine="gpu", containing=held)
    found = rows_of(few.output, motif)
    assert len(set(found)) == few.rows == 9
    assert few.limit_reached
    assert set(found) <= set(rows)
    assert all(set(held) <= set(row[0]) for row in found)


def test_a_listing_that_ends_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-7)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-7)
    graph, motif = planted_graph(5, 12, 30, 2, 7, 60, 0.1), papilio.MaximalBiclique(2, 2)
    write_store(tmp_path / "graph", graph, provenance={})

    def stop(event: Event) -> None:
        if isinstance(event, LeaseFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        papilio.enumerate(
            tmp_path / "graph", motif, output=tmp_path / "out", limit=None, engine="gpu", job=tmp_path / "job",
            progress=stop,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
    result = papilio.resume_job(tmp_path / "job", engine="gpu")
    assert isinstance(result, papilio.ListingResult)
    assert (result.leases_before, result.checked) == (1, True)
    rows = rows_of(result.output, motif)
    assert len(rows) == len(set(rows)) == papilio.count(tmp_path / "graph", motif, engine="cpu").count
    _, again = papilio.verify_job(tmp_path / "job", sample=2, engine="cpu")
    assert again is not None
    assert again.leases == 2


@pytest.mark.parametrize("significance", [None, "hypergeometric"])
def test_projections_are_those_of_cpus_and_go_on(
    tmp_path: Path, significance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = planted_graph(7, 100, 100, 6, 10, 500, 0.1)
    write_store(tmp_path / "graph", graph, provenance={})
    asked: Any = {"weighting": "hyperbolic", "significance": significance}
    wanted, result = (
        papilio.project(tmp_path / "graph", "u", output=tmp_path / engine, engine=engine, **asked)
        for engine in ("cpu", "gpu")
    )
    assert (result.engine, result.checked, result.rows) == ("gpu", True, wanted.rows)
    counted = papilio.count(tmp_path / "graph", papilio.Projection("u"), engine="gpu")
    assert counted.count == papilio.count(tmp_path / "graph", papilio.Projection("u"), engine="cpu").count
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-7)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-7)
    leases = list[Event]()

    def stop(event: Event) -> None:
        leases.extend([event] if isinstance(event, LeaseFinished) else [])
        if len(leases) == 2:
            raise KeyboardInterrupt

    job: Any = {"output": tmp_path / "out", "job": tmp_path / "job", "engine": "gpu"}
    with pytest.raises(KeyboardInterrupt):
        papilio.project(tmp_path / "graph", "u", progress=stop, **job, **asked)
    assert not (tmp_path / "out").exists()
    again = papilio.resume_job(tmp_path / "job", engine="cpu")  # what one engine has begun the other one ends
    assert again.leases_before >= 1
    order = [("source", "ascending"), ("target", "ascending")]
    tables = [pq.read_table(tmp_path / name).sort_by(order) for name in ("cpu", "gpu", "out")]
    assert tables[0].num_rows > 100
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    for engine in ("gpu", "cpu"):
        _, checked = papilio.verify_job(tmp_path / "job", sample=2, engine=engine)  # type: ignore[arg-type]
        assert checked is not None
        assert checked.leases == 2


def test_bicliques_of_one_size_are_refused(tmp_path: Path) -> None:
    graph, _, _ = QUESTIONS["maximal bicliques"]
    with pytest.raises(UnsupportedError, match="listed on CPUs, and engine is 'gpu'"):
        papilio.enumerate(graph, papilio.Biclique(2, 2), output=tmp_path / "out", limit=1, engine="gpu")
