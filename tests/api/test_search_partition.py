"""Cliques, maximal ones and maximal bicliques beyond a budget, through the command line and the public functions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster.events import Event, LeaseFinished
from papilio.errors import CapacityError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.store import write_store
from papilio.tasks.memory import CONTEXT_BYTES, PROCESS_BYTES
from tests.tools.commands import Run
from tests.tools.devices import cuda_device

QUESTIONS: list[tuple[papilio.Motif, Any]] = [
    (papilio.Clique(), "total"),
    (papilio.Clique(4), "vertex"),
    (papilio.Clique(3), "edge"),
    (papilio.MaximalClique(), "total"),
    (papilio.MaximalBiclique(), "total"),
]


PAIRS_ROOM = 4 << 20
"""More of a budget for maximal bicliques, whose roots are charged with pairs."""


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory grows with threads: let every machine of the tests have as many."""
    two = set(sorted(os.sched_getaffinity(0))[:2])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: two)


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of buyers with what they bought, and edges astray."""
    random = np.random.default_rng(3)
    u, v = random.integers(0, 20, (2, 240, 90)) + 20 * np.arange(240)[:, None]
    astray = random.integers(0, 4800, (2, 500))
    ends = np.concatenate((u.ravel(), astray[0])), np.concatenate((v.ravel(), astray[1]))
    path = tmp_path_factory.mktemp("ratings") / "ratings"
    write_store(path, BipartiteGraph.from_edges(*ends, 4800, 4800), provenance={})
    return path


@pytest.fixture
def graph(request: pytest.FixtureRequest, friends: Path) -> Path:
    """The graph that a motif is asked of."""
    motif = request.node.callspec.params.get("motif") if hasattr(request.node, "callspec") else None
    if isinstance(motif, papilio.MaximalBiclique):
        ratings: Path = request.getfixturevalue("ratings")
        return ratings
    return friends


@pytest.fixture(scope="module")
def friends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of friends, some isolated, with edges astray."""
    random = np.random.default_rng(7)
    groups = np.concatenate([40 * group + random.integers(0, 40, (300, 2)) for group in range(240)])
    astray = random.integers(0, 9600, (3000, 2))
    ends = np.concatenate((groups, astray))
    path = tmp_path_factory.mktemp("graph") / "friends"
    write_store(path, UnipartiteGraph.from_edges(ends[:, 0], ends[:, 1], 9700), provenance={})
    return path


@pytest.fixture(scope="module")
def budget() -> int:
    """A budget of host memory that the graph passes, and its parts do not."""
    return PROCESS_BYTES["cpu"] + (33 << 20)


def assert_same(found: Any, whole: Any) -> None:
    assert (found.count, found.table, found.checksum) == (whole.count, whole.table, whole.checksum)
    assert found.count > 0
    for name, vector in whole.vectors.items():
        np.testing.assert_array_equal(found.vectors[name], vector)


@pytest.mark.parametrize(("motif", "per"), QUESTIONS)
def test_budget_alone_is_enough(graph: Path, budget: int, motif: papilio.Motif, per: Any) -> None:
    heard: list[Event] = []
    budget += {"total": 0, "vertex": 1 << 18, "edge": 1 << 20}[per]
    budget += PAIRS_ROOM if isinstance(motif, papilio.MaximalBiclique) else 0
    before = set(graph.parent.iterdir())
    found = papilio.count(graph, motif, per=per, engine="cpu", host_memory=budget, progress=heard.append)
    assert_same(found, papilio.count(graph, motif, per=per, engine="cpu"))
    assert len({event.result.partition for event in heard if isinstance(event, LeaseFinished)}) > 1
    assert set(graph.parent.iterdir()) == before


@pytest.mark.gpu
@pytest.mark.parametrize(("motif", "per"), QUESTIONS)
def test_device_budget_alone_is_enough(graph: Path, motif: papilio.Motif, per: Any) -> None:
    cuda_device()
    heard: list[Event] = []
    room = 130 << 20 if isinstance(motif, papilio.MaximalBiclique) else 114 << 20
    found = papilio.count(
        graph, motif, per=per, engine="gpu", device_memory=CONTEXT_BYTES + room, progress=heard.append
    )
    assert_same(found, papilio.count(graph, motif, per=per, engine="cpu"))
    assert found.engine == "gpu"
    assert len({event.result.partition for event in heard if isinstance(event, LeaseFinished)}) > 1


@pytest.mark.parametrize("motif", [papilio.Clique(4), papilio.MaximalBiclique()], ids=str)
def test_job_resumes_on_its_parts(graph: Path, budget: int, motif: papilio.Motif, tmp_path: Path) -> None:
    job = tmp_path / "job"
    budget += PAIRS_ROOM if isinstance(motif, papilio.MaximalBiclique) else 0

    class StopError(Exception):
        pass

    def stop(event: Event) -> None:
        if isinstance(event, LeaseFinished):
            raise StopError

    with pytest.raises(StopError):
        papilio.count(graph, motif, engine="cpu", host_memory=budget, job=job, progress=stop)
    kept = papilio.open_partition(job / "partition")
    assert len(kept.manifest.parts) > 1
    found = papilio.resume_job(job)
    assert_same(found, papilio.count(graph, motif, engine="cpu"))
    assert found.leases_before >= 1
    assert papilio.open_partition(job / "partition").hash == kept.hash
    assert papilio.verify_job(job, sample=2, engine="cpu")[1] is not None


def test_command_cuts_and_counts_the_parts(run: Run, graph: Path, budget: int, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    asked = ("--motif", "maximal-clique", "--min-size", 3, "--host-memory", budget, "--threads", 2, "--json")
    told = json.loads(run("partition", graph, parts, *asked).stdout)
    assert (told["family"], told["least_p"]) == ("maximal-cliques", 3)
    assert told["replication"] > 0
    here = ("--cluster", "inline", "--engine", "cpu", "--parts", parts)
    for least in (3, 4):
        found = json.loads(run("count", "maximal-clique", graph, "--min-size", least, *here, "--json").stdout)
        whole = papilio.count(graph, papilio.MaximalClique(least), engine="cpu")
        assert (int(found["count"]), found["strategy"]) == (whole.count, "bcpar")
    planned = run("plan", "maximal-clique", graph, "--min-size", 3, *here)
    assert "replication" in planned.stdout
    with pytest.raises(UnsupportedError, match="cliques of at least 3 vertices"):
        papilio.count(graph, papilio.MaximalClique(), engine="cpu", parts=parts)


def test_a_budget_without_room_for_a_part_is_refused(graph: Path) -> None:
    with pytest.raises(CapacityError, match="a part of one edge needs"):
        papilio.count(graph, papilio.Clique(3), engine="cpu", host_memory=PROCESS_BYTES["cpu"] + (30 << 20))
