"""The public functions: what they accept, what they return, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.cluster.events import Event, LeaseFinished, PhaseStarted, PlanMade
from papilio.errors import (
    CapacityError,
    ClusterError,
    EngineUnavailableError,
    InputError,
    StoreError,
    TilingError,
    UnsupportedError,
)
from papilio.graph import UnipartiteGraph
from papilio.kernels.device import discovery
from papilio.storage.labelled import LabelledGraph
from papilio.storage.store import GraphStore, open_store, write_store
from papilio.tasks import run
from papilio.tasks import worker_state as ready
from papilio.tasks.result import find_top
from tests.conftest import read_edges
from tests.tools.oracle import count_butterflies

K23 = papilio.BipartiteGraph.from_edges([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
"""Three butterflies: U vertices in 3 each, V vertices in 2 each, edges in 2 each."""


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.tasks.machine.list_gpus", tuple)
    monkeypatch.setattr("papilio.tasks.machine.missing_for_gpu", lambda: "no CUDA device is visible")


@pytest.fixture
def women(tmp_path: Path, example_data: Path) -> GraphStore:
    graph = read_edges(example_data / "southern-women.txt.gz")
    names = [f"woman {i}" for i in range(graph.n_u)]
    return write_store(
        tmp_path / "women", graph, provenance={}, labels_u=names, labels_v=np.arange(100, 100 + graph.n_v)
    )


def test_store_path_store_and_memory_give_one_answer(women: GraphStore) -> None:
    graph = women.read()
    for given in (women, women.path, Path(women.path), graph):
        result = papilio.count(given, papilio.Butterfly())
        assert result.count == 341
        assert result.graph["hash"] == women.hash
    assert open_store(women.path).hash == women.hash
    assert papilio.count(graph, papilio.Butterfly()).graph["path"] is None


def test_objects_of_other_libraries_are_accepted() -> None:
    import networkx
    import scipy.sparse

    matrix = scipy.sparse.csr_array(np.ones((4, 5), dtype=np.int8))
    assert papilio.count(matrix, papilio.Butterfly()).count == 60
    assert papilio.count(networkx.complete_bipartite_graph(3, 4), papilio.Butterfly()).count == 18
    assert papilio.count(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), papilio.Butterfly()).count == 1
    with pytest.raises(InputError):
        papilio.count(object(), papilio.Butterfly())


def test_vectors_and_top_agree_with_the_oracle(women: GraphStore) -> None:
    graph = women.read()
    ends = list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    right = count_butterflies(ends)
    result = papilio.count(women, papilio.Butterfly(), per="vertex")
    assert result.count == right.total
    assert result.vectors["u"].tolist() == [right.vertex["u", u] for u in range(graph.n_u)]
    assert result.vectors["v"].tolist() == [right.vertex["v", v] for v in range(graph.n_v)]
    edges = papilio.count(women, papilio.Butterfly(), per="edge")
    assert edges.vectors["edge"].tolist() == [right.edge[pair] for pair in ends]
    best = max(range(graph.n_u), key=lambda u: (right.vertex["u", u], -u))
    first = result.top()[0]
    assert (first.place, first.ids, first.labels) == ("u", (best,), (f"woman {best}",))
    assert first.count == right.vertex["u", best]
    assert len(result.top()) == 20
    pair = max(ends, key=lambda pair: (right.edge[pair], [-x for x in pair]))
    assert edges.top()[0].ids == pair
    assert edges.top()[0].labels == (f"woman {pair[0]}", 100 + pair[1])


def test_result_is_complete_and_json_is_exact(women: GraphStore) -> None:
    result = papilio.count(women, papilio.Butterfly())
    assert set(result.seconds) - {"compile"} == {
        "start",
        "plan",
        "read",
        "prepare",
        "run",
        "fold",
        "write",
        "total",
    }
    phases = sum(value for phase, value in result.seconds.items() if phase != "total")
    assert 0.5 * result.seconds["total"] < phases <= result.seconds["total"] * 1.01
    assert result.work == result.to_dict()["work"]["wedges"] > 0
    assert result.items > 0
    assert json.loads(json.dumps(result.to_dict()))["count"] == 341
    assert result.peak_memory_bytes > 1 << 20


def test_counts_beyond_64_bits_survive_json() -> None:
    result = papilio.count(K23, papilio.Butterfly())
    big = papilio.CountResult(**{**vars(result), "count": 2**70 + 1})
    assert json.loads(json.dumps(big.to_dict()))["count"] == 2**70 + 1


def test_events_tell_the_story(women: GraphStore) -> None:
    events: list[Event] = []
    papilio.count(women, papilio.Butterfly(), progress=events.append)
    phases = [event.name for event in events if isinstance(event, PhaseStarted)]
    assert phases == ["start", "plan", "run", "write"]
    plan = next(event.plan for event in events if isinstance(event, PlanMade))
    leases = [event for event in events if isinstance(event, LeaseFinished)]
    ends = [0, *(event.result.stop for event in leases)]
    assert [event.result.start for event in leases] == ends[:-1]
    assert ends[-1] == plan.n_items
    assert sum(event.work for event in leases) == plan.predicted_ns


def test_an_interrupted_listener_ends_the_run_without_remains(women: GraphStore, tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, LeaseFinished):
            raise KeyboardInterrupt

    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        papilio.count(women, papilio.Butterfly(), per="vertex", output=tmp_path / "x.parquet", progress=stop)
    assert sorted(tmp_path.iterdir()) == before


def test_output_for_a_graph_in_memory(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    target = tmp_path / "counts.parquet"
    result = papilio.count(K23, papilio.Butterfly(), per="edge", output=target)
    table = pq.read_table(target).to_pydict()
    assert table["support"] == [2] * 6
    assert result.output == str(target)
    assert [path.name for path in tmp_path.iterdir()] == ["counts.parquet"]


def test_outputs_that_cannot_be_are_refused_before_anything_runs(
    women: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_prepare", None)
    for per, output, kind, text in (
        ("total", tmp_path / "x", InputError, "files are for counts per vertex or edge"),
        ("edge", tmp_path, InputError, "is a directory"),
        ("edge", tmp_path / "no" / "x", StoreError, "does not exist"),
    ):
        with pytest.raises(kind, match=text):
            papilio.count(women, papilio.Butterfly(), per=per, output=output)


def test_empty_and_butterfly_free_graphs() -> None:
    empty = papilio.BipartiteGraph.from_edges([], [], n_u=3, n_v=2)
    star = papilio.BipartiteGraph.from_edges([0] * 5, range(5))
    for graph in (empty, star):
        for per in ("total", "vertex", "edge"):
            result = papilio.count(graph, papilio.Butterfly(), per=per)
            assert result.count == 0
            assert result.largest == ()
            assert {name: int(v.sum()) for name, v in result.vectors.items()} == dict.fromkeys(result.vectors, 0)
    assert papilio.count(empty, papilio.Butterfly()).leases == 0


@pytest.mark.usefixtures("no_gpu")
def test_gpu_is_never_replaced_silently(women: GraphStore) -> None:
    with pytest.raises(EngineUnavailableError, match="no CUDA device is visible"):
        papilio.count(women, papilio.Butterfly(), engine="gpu")
    with pytest.raises(InputError, match="engine is 'tpu'; expected auto, cpu or gpu"):
        papilio.count(women, papilio.Butterfly(), engine="tpu")  # type: ignore[arg-type]
    result = papilio.count(women, papilio.Butterfly(), engine="auto")
    assert result.engine == "cpu"
    assert result.decisions[0].reason == "no worker can use a GPU: no CUDA device is visible"


def test_local_cluster_does_not_offer_the_gpu(women: GraphStore) -> None:
    from papilio.cluster.executor import choose_engine
    from papilio.cluster.own_cluster import LocalExecutor

    with pytest.raises(UnsupportedError, match="use --cluster cuda"):
        choose_engine(LocalExecutor(), "gpu")


def test_discovery_without_a_driver_or_with_a_failing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise OSError(name)

    class Failing:
        def __init__(self, name: str) -> None:
            self.cuInit = lambda flags: 100

    for library in (no_library, Failing):
        discovery.list_gpus.cache_clear()
        monkeypatch.setattr(discovery.ctypes, "CDLL", library)
        assert discovery.list_gpus() == ()
        assert discovery.missing_for_gpu() == "no CUDA device is visible"
    monkeypatch.setattr(discovery, "list_gpus", lambda: (discovery.GpuInfo("H", 1),))
    monkeypatch.setattr(discovery, "find_spec", lambda name: None)
    assert "CuPy is not installed" in str(discovery.missing_for_gpu())
    monkeypatch.undo()
    discovery.list_gpus.cache_clear()


def test_a_job_that_cannot_fit_is_refused_before_it_reads(women: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.tasks.memory.PROCESS_BYTES", {"cpu": 1 << 60, "gpu": 1 << 60})
    monkeypatch.setattr(GraphStore, "read", None)
    with pytest.raises(CapacityError, match="worker inline"):
        papilio.count(women, papilio.Butterfly())


def test_unipartite_graphs_are_refused(tmp_path: Path) -> None:
    graph = UnipartiteGraph.from_edges([0, 1, 2], [1, 2, 0])
    store = write_store(tmp_path / "g", graph, provenance={})
    for given in (graph, store):
        with pytest.raises(UnsupportedError, match="is defined on bipartite graphs"):
            papilio.count(given, papilio.Butterfly(), cluster="tcp://127.0.0.1:1")


def test_plan_is_the_plan_of_the_count(women: GraphStore) -> None:
    plan = papilio.plan(women, papilio.Butterfly(), per="edge")
    result = papilio.count(women, papilio.Butterfly(), per="edge")
    assert (plan.key, plan.n_items, plan.total_work) == (result.plan_key, result.items, result.work)
    plan.validate()
    assert papilio.CountPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    tampered = {**plan.to_dict(), "strategy": "other"}
    with pytest.raises(TilingError):
        papilio.CountPlan.from_dict(tampered)


def test_missing_stores_and_clusters(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        papilio.count(tmp_path / "none", papilio.Butterfly())
    with pytest.raises(ClusterError, match="existing scheduler file"):
        papilio.count(K23, papilio.Butterfly(), cluster=str(tmp_path / "none.json"))


def test_inline_forgets_the_graph_afterwards(women: GraphStore) -> None:
    before = len(ready.worker_state.graphs["cpu"])  # of graphs that other tests hold
    papilio.count(women, papilio.Butterfly())
    assert len(ready.worker_state.graphs["cpu"]) == before
    with papilio.open_cluster("inline") as cluster:
        papilio.count(women, papilio.Butterfly(), cluster=cluster)
        again = papilio.count(women, papilio.Butterfly(), cluster=cluster)
        assert again.seconds["read"] == 0.0
    assert len(ready.worker_state.graphs["cpu"]) == before


def test_top_is_by_falling_count_then_id() -> None:
    counts = np.array([0, 7, 3, 7, 0, 2**63, 1], dtype=np.uint64)
    entries = find_top({"u": counts}, LabelledGraph(K23), 4)
    assert [(entry.ids[0], entry.count) for entry in entries] == [(5, 2**63), (1, 7), (3, 7), (2, 3)]
    assert [entry.ids[0] for entry in find_top({"u": counts}, LabelledGraph(K23), 100)] == [5, 1, 3, 2, 6]
    best = find_top({"edge": counts[:6]}, LabelledGraph(K23, labels_v=np.array(["a", "b", "c"])), 1)
    assert [(entry.ids, entry.labels) for entry in best] == [((1, 2), (1, "c"))]
