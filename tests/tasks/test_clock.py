"""Leases of job directories end by the clock: whatever is asked, they tile the items, and a killed job goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster import driver
from papilio.errors import ExecutionError
from papilio.graph import BipartiteGraph
from papilio.kernels import threads as chunks
from papilio.kernels.biclique import cpu as biclique
from papilio.kernels.biclique.list import BicliqueLister
from papilio.kernels.wedge import cpu as butterfly
from papilio.motifs import Granularity, Motif
from papilio.storage.ledger import read_ledger
from papilio.storage.store import GraphStore, write_store
from papilio.tasks import leases as lease_policy
from papilio.tasks import run
from papilio.tasks import session as jobsession
from papilio.tasks import worker_state as ready
from papilio.tasks.lease_scheduler import LeaseScheduler
from tests.conftest import ROOT
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

HERE = {"cluster": "inline", "engine": "cpu"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that are believed to have time for all items, and have none, on a graph whose slices are items."""
    monkeypatch.setattr(lease_policy, "KEPT_LEASE_S", 1e-9)
    monkeypatch.setattr(lease_policy, "KEPT_SLOWDOWN", 1e9)
    monkeypatch.setattr(lease_policy, "KEPT_SHARE_S", 0.0)
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-9)
    monkeypatch.setattr(LeaseScheduler, "_speed", lambda scheduler: 1e21)
    monkeypatch.setattr(chunks, "SERIAL_COST", 1)
    monkeypatch.setattr(biclique, "SHORT_S", 0.0)
    for engine in (biclique.BicliqueCpu, BicliqueLister):
        monkeypatch.setattr(engine, "serial_cost", 1)
    monkeypatch.setattr(butterfly, "SLICE_WEDGES_PER_EDGE", 0)
    monkeypatch.setattr(run, "SLICE_S", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    source = np.random.default_rng(5)
    graph = BipartiteGraph.from_edges(source.integers(0, 60, 900), source.integers(0, 70, 900))
    return write_store(tmp_path / "graph", graph, provenance={})


def leases_of(job: Path) -> list[dict[str, Any]]:
    return [record for record in read_ledger(job / "ledger.jsonl").records if record["type"] == "lease"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("motif", "per"),
    [
        (papilio.Butterfly(), "total"),
        (papilio.Butterfly(), "vertex"),
        (papilio.Butterfly(), "edge"),
        (papilio.Biclique(3, 3), "total"),
        (papilio.Biclique(3, None), "total"),
        (papilio.Biclique(3, 3), "vertex"),
    ],
    ids=str,
)
def test_counts_by_many_leases_are_exact(motif: Motif, per: Granularity, store: GraphStore, tmp_path: Path) -> None:
    whole = papilio.count(store, motif, per=per, **HERE)
    kept = papilio.count(store, motif, per=per, job=tmp_path / "job", **HERE)
    assert (kept.count, kept.table) == (whole.count, whole.table)
    assert all(np.array_equal(kept.vectors[name], whole.vectors[name]) for name in whole.vectors)
    leases = leases_of(tmp_path / "job")
    assert len(leases) == kept.leases > 5 > whole.leases
    assert sum(lease["stop"] - lease["start"] for lease in leases) == kept.items
    assert papilio.verify_job(tmp_path / "job")[0].count == whole.count


@pytest.mark.usefixtures("clock")
def test_listings_by_many_leases_are_whole(store: GraphStore, tmp_path: Path) -> None:
    motif = papilio.Biclique(2, 3)
    count = papilio.count(store, motif, **HERE).count
    listed = papilio.enumerate(
        store, motif, output=tmp_path / "rows", limit=None, job=tmp_path / "job", cluster="inline"
    )
    assert (listed.rows, listed.checked) == (count, True)
    assert listed.leases > 5


@pytest.mark.usefixtures("clock")
def test_parts_by_many_leases_are_exact(store: GraphStore, tmp_path: Path) -> None:
    whole = papilio.count(store, papilio.Butterfly(), per="vertex", **HERE)
    papilio.partition(store, tmp_path / "parts", papilio.Butterfly(), per="vertex", host_memory=1 << 29)
    kept = papilio.count(
        store, papilio.Butterfly(), per="vertex", job=tmp_path / "job", parts=tmp_path / "parts", **HERE
    )
    assert kept.count == whole.count
    assert all(np.array_equal(kept.vectors[name], whole.vectors[name]) for name in whole.vectors)
    assert kept.leases > 5


class Killed(BaseException):
    """In place of a process that ends."""


@pytest.mark.usefixtures("clock")
def test_every_session_that_is_killed_adds_a_lease(
    store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session ends without a word after the first lease that it registers."""
    whole = papilio.count(store, papilio.Butterfly(), **HERE)
    job, record = tmp_path / "job", jobsession.JobSession.record

    def record_and_die(self: Any, result: Any) -> None:
        record(self, result)
        raise Killed

    held = 0
    monkeypatch.setattr(jobsession.JobSession, "record", record_and_die)
    for _ in range(4):
        with pytest.raises(Killed):
            papilio.count(store, papilio.Butterfly(), job=job, **HERE)
        status = papilio.open_job(job).status()
        assert held < status.items_done < status.items
        assert 0 < status.work_done < status.work
        held = status.items_done
    monkeypatch.setattr(jobsession.JobSession, "record", record)
    ready.forget_graphs()
    resumed = papilio.resume_job(job, **HERE)
    assert (resumed.count, resumed.leases_before) == (whole.count, 4)
    done = papilio.open_job(job).status()
    assert (done.work_done, done.items_done) == (done.work, done.items)


SEARCH_AND_DIE = """
import os, sys, threading
import papilio
from papilio import registry
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.search import gpu as tree
from papilio.tasks import leases, session, worker_state
from papilio.tasks.lease_scheduler import LeaseScheduler
from tests.kernels.biclique.test_gpu_biclique import EAGER
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

engine = BicliqueGpu(emulator(1), "pivot", "u", EAGER)
engine.name = "cpu"
registry.load_engine = lambda *key, **options: engine
worker_state.warm_engine = lambda *key: None
tree._LOOK_S = 1e-4
leases.SHORTEST_LEASE_S = leases.KEPT_SHARE_S = 1e-9
leases.KEPT_LEASE_S = 0.004
LeaseScheduler._speed = lambda scheduler: 1e21
record, n_recorded = session.JobSession.record, 0

def record_and_die(self, result):
    global n_recorded
    record(self, result)
    n_recorded += 1
    if n_recorded == 2 and sys.argv[2] == "die":
        threading.Timer(0.004, os._exit, [7]).start()

session.JobSession.record = record_and_die
graph = planted_graph(3, 60, 70, 4, 9, 400, 0.1)
print(papilio.count(graph, papilio.Biclique(5, 3), cluster="inline", job=sys.argv[1]).count)
"""
"""Counts on an emulated GPU that seems fast enough for all items; where it is to die, ends soon after two leases."""

KILLED = 2
"""Processes that are told to die."""


def test_a_search_on_a_gpu_keeps_what_it_has_searched_when_it_is_killed(tmp_path: Path) -> None:
    """Each lease is one launch of all items that are left, ended by the clock; the first processes die in a launch."""
    emulator(1)
    job, ended = tmp_path / "job", list[int]()
    while not ended or ended[-1] == 7:
        fate = "die" if len(ended) < KILLED else "live"
        process = subprocess.run(
            [sys.executable, "-c", SEARCH_AND_DIE, str(job), fate], cwd=ROOT, capture_output=True, text=True
        )
        ended.append(process.returncode)
        assert process.returncode in (0, 7), process.stderr
    graph = planted_graph(3, 60, 70, 4, 9, 400, 0.1)
    assert int(process.stdout) == papilio.count(graph, papilio.Biclique(5, 3), **HERE).count
    leases = leases_of(job)
    assert ended.count(7) >= 1
    assert len(leases) >= 2 * ended.count(7)
    assert max(lease["stop"] - lease["start"] for lease in leases) < leases[-1]["stop"]


@pytest.mark.usefixtures("clock")
def test_a_job_of_many_workers_goes_on_and_is_recounted_on_one(
    store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    motif, job = papilio.Biclique(3, 3), tmp_path / "job"
    whole = papilio.count(store, motif, **HERE).count
    record = jobsession.JobSession.record

    def stop_after_some(session: jobsession.JobSession, result: Any) -> None:
        record(session, result)
        if len(leases_of(job)) == 4:
            raise ExecutionError("no longer")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "choose_hands", lambda job, n_workers: 3)
        patch.setattr(jobsession.JobSession, "record", stop_after_some)
        with pytest.raises(ExecutionError, match="no longer"):
            papilio.count(store, motif, job=job, **HERE)
    assert papilio.open_job(job).job.hands == 3
    assert papilio.resume_job(job, cluster="inline").count == whole
    checked, recount = papilio.verify_job(job, sample=1000)
    assert checked.count == whole
    assert recount is not None
    assert recount.leases == len(leases_of(job)) > 4
