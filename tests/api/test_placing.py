"""Where a call runs that names no cluster: in this process, unless there is more work than one device should do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.api import call as placing
from papilio.cluster import own_cluster as cuda
from papilio.cluster import selection
from papilio.cluster.executor import InlineExecutor
from papilio.errors import CapacityError, EngineUnavailableError, InputError
from papilio.storage.store import GraphStore, write_store

K34 = papilio.BipartiteGraph.from_edges([u for u in range(3) for _ in range(4)], [*range(4)] * 3)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has this machine as many GPUs as it is called with."""

    def have(n_gpus: int, *, dask_cuda: bool = True) -> None:
        missing = None if n_gpus else "no CUDA device is visible"
        for module in (selection, cuda, placing):
            monkeypatch.setattr(module, "list_visible_ids", lambda: tuple(map(str, range(n_gpus))))
        monkeypatch.setattr(selection, "missing_for_gpu", lambda: missing)
        found = missing if dask_cuda else "dask-cuda is not installed"
        for module in (selection, cuda):
            monkeypatch.setattr(module, "missing_for_cuda", lambda: found)

    return have


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    return write_store(tmp_path / "k34", K34, provenance={})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters that were started; each is this process under that name."""
    names: list[str] = []

    def make(name: str, engine: str, workers: int | None) -> InlineExecutor:
        names.append(name)
        executor = InlineExecutor()
        executor.name = name
        return executor

    monkeypatch.setattr(placing, "make_executor", make)
    return names


def test_auto_is_this_process_for_one_device(gpus: Any) -> None:
    for n_gpus, engine, workers, name, why in (
        (0, "auto", None, "inline", "no CUDA device is visible: this process"),
        (0, "auto", 3, "local", "3 workers are requested; no CUDA device"),
        (1, "auto", None, "inline", "one GPU is visible"),
        (1, "gpu", None, "inline", "one GPU is visible"),
        (4, "cpu", None, "inline", "the engine is cpu"),
        (4, "cpu", 2, "local", "2 workers are requested; the engine is cpu"),
        (4, "auto", 1, "inline", "one GPU is requested"),
        (4, "auto", 2, "cuda", "2 workers are requested"),
        (4, "gpu", None, "cuda", "4 GPUs are visible: one worker per GPU"),
    ):  # fmt: skip
        gpus(n_gpus)
        executor = papilio.open_cluster("auto", engine=engine, workers=workers)  # type: ignore[arg-type]
        assert (executor.name, executor.why_chosen[: len(why)]) == (name, why)


def test_several_gpus_without_dask_cuda_are_one(gpus: Any) -> None:
    gpus(4, dask_cuda=False)
    executor = papilio.open_cluster("auto", engine="gpu")
    assert executor.name == "inline"
    assert executor.why_chosen.endswith("on one of them: dask-cuda is not installed")
    assert papilio.open_cluster("auto", workers=2).name == "local"
    with pytest.raises(EngineUnavailableError, match="dask-cuda is not installed"):
        papilio.open_cluster("auto", engine="gpu", workers=2)


def test_gpus_that_are_not_there_are_never_replaced(gpus: Any) -> None:
    gpus(0)
    with pytest.raises(EngineUnavailableError, match="engine gpu cannot run here"):
        papilio.open_cluster("auto", engine="gpu")
    gpus(2)
    with pytest.raises(InputError, match="this machine supports 1 to 2, one per GPU"):
        papilio.open_cluster("cuda", workers=3)


def test_little_work_stays_in_this_process_with_what_was_prepared(
    gpus: Any, store: GraphStore, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(4)
    reads: list[str] = []
    read = papilio.tasks.worker_state.read_job_graph  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "papilio.tasks.worker_state.read_job_graph", lambda job: (reads.append(job.source), read(job))[1]
    )
    result = papilio.count(store, "butterfly", cluster="auto")
    assert (result.count, result.cluster, started, len(reads)) == (18, "inline", [], 1)
    first = result.decisions[0]
    assert (first.number, first.what) == (1, "cluster inline")
    assert "one GPU of 4 is predicted to take" in first.reason
    assert "starting workers takes about 3 s" in first.reason


@pytest.mark.parametrize("cause", ["work", "edges", "memory", "parts"])
def test_much_work_goes_to_a_worker_for_each_gpu(
    cause: str, gpus: Any, store: GraphStore, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(4)
    given: dict[str, Any] = {"host_memory": "4GiB"} if cause == "parts" else {}
    match cause:
        case "work":
            monkeypatch.setattr(placing, "START_WORKERS_S", 0.0)
        case "edges":
            monkeypatch.setattr(placing, "MOST_TRIED_EDGES", 11)
        case "memory":
            monkeypatch.setattr(placing, "plan_job", lambda *given: (_ for _ in ()).throw(CapacityError("small")))
    why = {
        "work": ", because one GPU alone is predicted to take",
        "edges": ", and the graph has more than 11 edges",
        "memory": ", and one GPU is too small for the whole job",
        "parts": "",
    }[cause]
    result = papilio.count(store, "butterfly", cluster="auto", **given)
    assert (result.count, result.cluster, started) == (18, "cuda", ["cuda"])
    assert result.decisions[0].reason.startswith(f"4 GPUs are visible: one worker per GPU{why}")


def test_a_plan_says_where_it_would_run(gpus: Any, store: GraphStore) -> None:
    gpus(0)
    for made in (
        papilio.plan(store, "butterfly", cluster="auto"),
        papilio.plan_listing(store, papilio.Biclique(2, 2), cluster="auto"),
        papilio.plan(K34, "butterfly", cluster="auto"),
    ):
        assert made.decisions[0].what == "cluster inline"
    assert papilio.plan(store, "butterfly", cluster="inline").decisions[0].what == "engine cpu"
