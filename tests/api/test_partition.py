"""Parts of a graph through the command line and the public functions: cut once, or where a budget needs them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster.events import Event, LeaseFinished, PhaseAdvanced
from papilio.errors import CapacityError, InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.storage import edge_files as edges
from papilio.storage.generate import Rmat, generate
from papilio.storage.store import open_store, write_store
from papilio.tasks.job import Budget
from papilio.tasks.memory import PROCESS_BYTES
from tests.tools.budgets import named_budget
from tests.tools.commands import Run
from tests.tools.pairs import all_pairs

ROOM = 7_000_000
"""Bytes for parts beside the process: about half of what the graph of these tests needs as a whole."""

EDGE_ROOM = 5_000_000
"""More of them for counts per edge: folding these takes most of what is left, which would make thousands of parts."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "rmat"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "ROW_GROUP_EDGES", 1 << 14)
        generate(Rmat(14, 13, 600_000), path, seed=5)
    return path


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of which cutting takes more than a MiB."""
    path = tmp_path_factory.mktemp("even") / "graph"
    generate(Rmat(14, 14, 60_000, a=0.25, b=0.25, c=0.25), path, seed=3)
    return path


@pytest.fixture(scope="module")
def whole(graph: Path) -> dict[str, Any]:
    """Answers on the whole graph."""
    butterfly = papilio.Butterfly()
    return {per: papilio.count(graph, butterfly, per=per, engine="cpu") for per in ("vertex", "edge")}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def budget() -> int:
    """A budget of host memory that the graph passes, and its parts do not."""
    return PROCESS_BYTES["cpu"] + ROOM


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory grows with threads: let every machine of the tests have as many."""
    two = set(sorted(os.sched_getaffinity(0))[:2])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: two)


def test_command_cuts_and_counts_the_parts(run: Run, graph: Path, whole: Any, budget: int, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    cut = run("partition", graph, parts, "--motif", "butterfly", "--host-memory", budget, "--threads", 2)
    assert (cut.exit_code, cut.stdout) == (0, f"{parts}\n")
    assert "replication" in cut.stderr
    manifest = papilio.open_partition(parts).manifest
    assert len(manifest.parts) > 2
    counted = run("count", "butterfly", graph, "--cluster", "inline", "--engine", "cpu", "--parts", parts)
    assert counted.stdout == f"{whole['vertex'].count}\n"
    planned = run("plan", "butterfly", graph, "--cluster", "inline", "--engine", "cpu", "--parts", parts)
    assert f"strategy {manifest.strategy}" in planned.stdout


def test_parts_of_bicliques_serve_larger_ones(run: Run, tmp_path: Path) -> None:
    graph, parts = tmp_path / "graph", tmp_path / "parts"
    generate(Rmat(11, 11, 12_000), graph, seed=3)
    cut = run("partition", graph, parts, "--motif", "biclique", "-p", 3, "-q", 3, "--host-memory", "1GiB", "--json")
    data = json.loads(cut.stdout)
    assert (data["path"], data["family"], data["least_p"]) == (str(parts), "roots", 3)
    larger = papilio.count(graph, papilio.Biclique(3, 4), engine="cpu", parts=parts)
    assert larger.count == papilio.count(graph, papilio.Biclique(3, 4), engine="cpu").count > 0
    with pytest.raises(UnsupportedError, match="supports p >= 3 and q >= 3"):
        papilio.count(graph, papilio.Biclique(2, 3), engine="cpu", parts=parts)


def test_parts_are_anchored_on_the_layer_that_can_be_enumerated(tmp_path: Path) -> None:
    """Few vertices of U have many neighbours each: pivoting anchors U, and enumerate can only take V."""
    graph, motif = tmp_path / "graph", papilio.Biclique(q=3)
    generate(Rmat(5, 9, 4_000), graph, seed=3)
    free = papilio.partition(graph, tmp_path / "free", motif, host_memory=1 << 30)
    options = {"algorithm": "enumerate"}
    bound = papilio.partition(graph, tmp_path / "bound", motif, host_memory=1 << 30, options=options)
    assert (free.manifest.layer, bound.manifest.layer) == ("u", "v")
    found = papilio.count(graph, motif, engine="cpu", parts=bound.path, options=options)
    assert found.count == papilio.count(graph, motif, engine="cpu").count > 0


def test_a_graph_without_parts_counts_nothing(tmp_path: Path) -> None:
    path = BipartiteGraph.from_edges([0, 0, 1], [0, 1, 1], 3, 2)
    write_store(tmp_path / "graph", path, provenance={})
    for motif in (papilio.Butterfly(), papilio.Biclique(2, 2)):
        parts = papilio.partition(tmp_path / "graph", tmp_path / motif.name, motif, per="vertex", host_memory=1 << 30)
        assert parts.manifest.parts == ()
        found = papilio.count(tmp_path / "graph", motif, per="vertex", engine="cpu", parts=parts.path)
        assert (found.count, [found.vectors[name].tolist() for name in "uv"]) == (0, [[0, 0, 0], [0, 0]])


@pytest.mark.parametrize("per", ["vertex", "edge"])
def test_budget_alone_is_enough(graph: Path, whole: Any, budget: int, per: Any) -> None:
    heard: list[Event] = []
    budget += EDGE_ROOM if per == "edge" else 0
    before = set(graph.parent.iterdir())
    result = papilio.count(graph, papilio.Butterfly(), per=per, engine="cpu", host_memory=budget, progress=heard.append)
    assert result.count == whole[per].count
    for name, vector in whole[per].vectors.items():
        np.testing.assert_array_equal(result.vectors[name], vector)
    shares = [event.share for event in heard if isinstance(event, PhaseAdvanced)]
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert len({event.result.partition for event in heard if isinstance(event, LeaseFinished)}) > 2
    assert set(graph.parent.iterdir()) == before


def test_graph_that_fits_is_not_cut(graph: Path, whole: Any) -> None:
    heard: list[Event] = []
    result = papilio.count(graph, papilio.Butterfly(), engine="cpu", host_memory=1 << 30, progress=heard.append)
    assert result.count == whole["vertex"].count
    assert not any(isinstance(event, PhaseAdvanced) for event in heard)


def test_job_keeps_its_parts_and_resumes_on_them(graph: Path, whole: Any, budget: int, tmp_path: Path) -> None:
    job = tmp_path / "job"
    for left_by_a_killed_cut in (".partition.new-0123", ".papilio-rows-4567"):
        (job / left_by_a_killed_cut).mkdir(parents=True)

    class StopError(Exception):
        pass

    def stop(event: Event) -> None:
        if isinstance(event, LeaseFinished):
            raise StopError

    with pytest.raises(StopError):
        papilio.count(graph, papilio.Butterfly(), engine="cpu", host_memory=budget, job=job, progress=stop)
    assert not list(job.glob(".p*"))
    cut = papilio.open_partition(job / "partition").hash
    heard: list[Event] = []
    resumed = papilio.resume_job(job, progress=heard.append)
    assert resumed.count == whole["vertex"].count
    assert resumed.leases_before >= 1
    assert papilio.open_partition(job / "partition").hash == cut
    assert not any(isinstance(event, PhaseAdvanced) for event in heard)
    assert papilio.verify_job(job, sample=2, engine="cpu")[1] is not None


def test_graph_in_memory_is_cut_too(whole: Any, graph: Path, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "ROW_GROUP_EDGES", 1 << 14)
    held = open_store(graph).read()
    assert papilio.count(held, papilio.Butterfly(), engine="cpu", host_memory=budget).count == whole["vertex"].count


def test_parts_are_kept_where_they_are_asked_for(graph: Path, whole: Any, budget: int, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    for _ in range(2):
        found = papilio.count(graph, papilio.Butterfly(), engine="cpu", host_memory=budget, parts=parts)
        assert found.count == whole["vertex"].count
    with pytest.raises(UnsupportedError, match="not per edge"):
        papilio.count(graph, papilio.Butterfly(), per="edge", engine="cpu", parts=parts)


@pytest.mark.parametrize(
    ("asked", "host"),
    all_pairs(
        [("butterfly", "total"), ("butterfly", "edge"), (papilio.Biclique(2, 2), "vertex")],
        [300 << 20, 351 << 20],  # nothing is left, and little
        share=2,
    ),
    ids=str,
)
def test_a_count_runs_with_the_least_budget_that_a_refusal_names(even: Path, asked: tuple[Any, Any], host: int) -> None:
    motif, per = asked

    def count(budget: Budget) -> int:
        return papilio.count(even, motif, per=per, engine="cpu", host_memory=budget.host_bytes).count

    whole = papilio.count(even, motif, engine="cpu").count
    least = named_budget(lambda: count(Budget(None, host)), Budget(None, host))
    assert least.host_bytes is not None
    assert count(least) == whole
    assert named_budget(lambda: count(Budget(None, least.host_bytes - (1 << 20))), least) == least


@pytest.mark.parametrize(
    ("motif", "given"),
    all_pairs(
        ["butterfly", papilio.Biclique(2, 2), "maximal-biclique"],
        [Budget(500 << 20), Budget(500 << 20, 300 << 20), Budget(8 << 30, 900 << 20)],
    ),
    ids=str,
)
def test_parts_are_cut_with_the_least_budgets_that_a_refusal_names(
    even: Path, motif: Any, given: Budget, tmp_path: Path
) -> None:
    def cut(budget: Budget, name: str = "refused") -> int:
        memory: dict[str, Any] = {"device_memory": budget.device_bytes, "host_memory": budget.host_bytes}
        return len(papilio.partition(even, tmp_path / name, motif, **memory).manifest.parts)

    least = named_budget(lambda: cut(given), given)
    assert cut(least, "parts") > 0
    for kind in ("device_bytes", "host_bytes"):
        value = getattr(least, kind)
        if value != getattr(given, kind):
            less = replace(least, **{kind: value - (1 << 20)})
            assert named_budget(lambda: cut(less), less) == least  # noqa: B023
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_refusals(graph: Path, budget: int, tmp_path: Path) -> None:
    butterfly, parts = papilio.Butterfly(), tmp_path / "parts"
    with pytest.raises(InputError, match="set device_memory, host_memory or both"):
        papilio.partition(graph, parts, butterfly)
    with pytest.raises(CapacityError, match="raise --host-memory to at least"):
        papilio.partition(graph, parts, butterfly, host_memory=PROCESS_BYTES["cpu"])
    assert not list(tmp_path.iterdir())
    papilio.partition(graph, parts, butterfly, host_memory=budget)
    with pytest.raises(StoreError, match="exists"):
        papilio.partition(graph, parts, butterfly, host_memory=budget)
    other = tmp_path / "other"
    generate(Rmat(6, 6, 300), other, seed=1)
    with pytest.raises(UnsupportedError, match="partition of the graph"):
        papilio.count(other, butterfly, engine="cpu", parts=parts)
    with pytest.raises(UnsupportedError, match="parts for butterfly"):
        papilio.count(graph, papilio.Biclique(2, 2), engine="cpu", parts=parts)


def test_budget_is_passed_on_to_slurm(run: Run) -> None:
    script = run(
        "slurm", "render", "count", "butterfly", "graph", "--time", 60, "--memory", "64GiB",
        "--host-memory", "8GiB", "--parts", "parts",
    ).stdout  # fmt: skip
    assert f"--host-memory={8 << 30} --parts=parts" in script
