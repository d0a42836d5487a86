"""Job sessions: each interval once, the same question and items, nothing unregistered left, leases for the rest."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio
from papilio import Butterfly
from papilio.errors import InputError, StoreError, TilingError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import CostTable
from papilio.motifs import Motif
from papilio.storage.answers import write_partial_shard
from papilio.storage.edge_files import ContentHash
from papilio.storage.ledger import Ledger
from papilio.storage.sealed import SealedReader
from papilio.storage.store import write_store
from papilio.tasks import leases as lease_policy
from papilio.tasks.directory import JobDirectory, list_jobs
from papilio.tasks.job import Budget, JobSpec, LeaseResult, PartitionRef, ShardRef
from papilio.tasks.leases import FinishedIntervals, ItemRange, split_shares
from papilio.tasks.plan import CountPlan, make_plan
from papilio.tasks.session import JobSession
from tests.conftest import share_of_examples
from tests.tasks.fakes import make_job, make_report, make_worker, plan_of
from tests.tools.tampering import reseal

COSTS = np.arange(30, 0, -1, dtype=np.int64)
SETTINGS = {"cluster": "inline", "engine": "cpu", "workers": None, "output": None}


def session_of(root: Path, job: JobSpec | None = None) -> JobSession:
    return JobSession(root, job or make_job(), "/nowhere/graph", SETTINGS)


def result_of(start: int, stop: int, shard: ShardRef | None = None) -> LeaseResult:
    return LeaseResult(0, start, stop, 2**70 + start, stop - start, "w0", "cpu", {"run": 0.5}, 9, shard, {}, 1.5, 2.0)


@st.composite
def tables_with_gaps(draw: st.DrawFn) -> tuple[CostTable, list[tuple[int, int]]]:
    """Draw a cost table, coarse or fine, and missing items whose ends need not be its breakpoints."""
    costs = np.array(draw(st.lists(st.integers(0, 50), min_size=1, max_size=40)), dtype=np.int64)
    table = CostTable.from_costs(costs, draw(st.integers(1, 50)))
    ends = sorted(draw(st.sets(st.integers(0, costs.size), max_size=10)))
    return table, list(zip(ends[::2], ends[1::2], strict=False))


@settings(max_examples=share_of_examples(150), deadline=None, derandomize=True, database=None)
@given(tables_with_gaps(), st.integers(1, 4), st.integers(0, 60))
def test_leases_for_the_rest_tile_the_gaps(
    drawn: tuple[CostTable, list[tuple[int, int]]], n_workers: int, min_work: int
) -> None:
    table, gaps = drawn
    leases = split_shares([table], [ItemRange(0, *gap) for gap in gaps], n_workers, min_work)
    pieces = [(lease.start, lease.stop) for lease in leases]
    items = [item for start, stop in pieces for item in range(start, stop)]
    assert items == [item for start, stop in gaps for item in range(start, stop)]
    assert all(start < stop for start, stop in pieces)
    assert sum(table.work_between(*each) for each in pieces) == sum(table.work_between(*gap) for gap in gaps)


def resumed_plan(plan: CountPlan, finished: list[tuple[int, int, int]], n_workers: int = 2) -> CountPlan:
    workers = tuple(make_worker(f"w{i}") for i in range(n_workers))
    return make_plan(plan.job, "cpu", "asked for", workers, make_report(COSTS), plan.memory, finished)


def test_the_plan_of_a_resumed_job_covers_the_rest_under_the_same_key() -> None:
    first = plan_of(COSTS)
    plan = resumed_plan(first, [(0, 5, 9), (0, 20, 30)])
    plan.validate()
    assert [(lease.start, lease.stop) for lease in plan.leases] == [(0, 5), (9, 20)]
    assert plan.key == first.key
    assert plan.work_finished + sum(lease.work for lease in plan.leases) == plan.predicted_ns
    assert CountPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    with pytest.raises(TilingError, match="overlap"):
        resumed_plan(first, [(0, 5, 9), (0, 8, 10)])
    assert resumed_plan(first, [(0, 0, 30)]).leases == ()


def test_intervals_are_registered_once_and_found_by_the_next_session(tmp_path: Path) -> None:
    root, plan = tmp_path / "job", plan_of(COSTS)
    with session_of(root) as session:
        assert session.finished_leases == ()
        assert session.begin_leases(plan, "inline") is None
        session.record(result_of(0, 10))
        before = (root / "ledger.jsonl").read_bytes()
        for start, stop in ((0, 10), (9, 12), (3, 4), (25, 31), (12, 12)):
            with pytest.raises(TilingError):
                session.record(result_of(start, stop))
        assert (root / "ledger.jsonl").read_bytes() == before
        session.record(result_of(20, 30))
    with session_of(root) as session:
        assert session.finished_leases == (result_of(0, 10), result_of(20, 30))
        again = resumed_plan(plan, session.finished_intervals)
        session.begin_leases(again, "local")
        with pytest.raises(TilingError, match=r"items \[0, 10\)"):
            session.record(result_of(0, 10))
        session.record(result_of(10, 20))
    history = JobDirectory(root).history()
    assert [(each.number, each.leases, each.cluster) for each in history.sessions] == [
        (1, 2, "inline"), (2, 1, "local"),
    ]  # fmt: skip
    status = JobDirectory(root).status()
    assert (status.state, status.items_done, status.share) == ("interrupted", 30, 0.999)


def test_an_overlap_in_the_ledger_is_refused_when_it_is_read(tmp_path: Path) -> None:
    root, plan = tmp_path / "job", plan_of(COSTS)
    with session_of(root) as session:
        session.begin_leases(plan, "inline")
        session.record(result_of(0, 10))
    with Ledger(root / "ledger.jsonl") as ledger:
        ledger.append({**ledger.content.records[1], "start": 9, "stop": 12})
    with session_of(root) as session, pytest.raises(TilingError, match="overlap"):
        session.begin_leases(plan, "inline")


def test_an_answer_with_a_gap_is_refused(tmp_path: Path) -> None:
    with session_of(tmp_path / "job") as session:
        session.begin_leases(plan_of(COSTS), "inline")
        session.record(result_of(0, 29))
        result: Any = None
        with pytest.raises(TilingError, match=r"items \[29, 30\)"):
            session.finish(result, {})
    assert not (tmp_path / "job" / "result.json").exists()


def test_other_questions_items_and_versions_are_refused_with_both_named(tmp_path: Path) -> None:
    root, plan = tmp_path / "job", plan_of(COSTS)
    with session_of(root) as session:
        session.begin_leases(plan, "inline")
    for other in (make_job(graph_hash="f" * 32), make_job(per="edge")):
        with pytest.raises(InputError, match=r"0{32}") as caught, session_of(root, other):
            pass
        assert other.graph_hash in str(caught.value)
    changed = plan_of(COSTS[:-1])
    with session_of(root) as session, pytest.raises(TilingError) as tiling:
        session.begin_leases(changed, "inline")
    assert plan.key in str(tiling.value)
    assert changed.key in str(tiling.value)
    parted = make_job(partition=PartitionRef("/parts", "a" * 32))
    with pytest.raises(InputError, match=r"the whole graph; this run uses the partition a{32}"):
        JobDirectory(root).require_question(parted)
    reseal(root / "job.json", version="0.0.9")
    with (
        pytest.raises(InputError, match=rf"papilio 0\.0\.9; the work items of {papilio.__version__}"),
        session_of(root),
    ):
        pass
    assert len(JobDirectory(root).history().sessions) == 1


def test_a_job_of_parts_goes_on_with_the_same_parts_wherever_they_are(tmp_path: Path) -> None:
    root, job = tmp_path / "job", make_job(partition=PartitionRef("/parts", "a" * 32))
    (root / "partition").mkdir(parents=True)
    with session_of(root, job):
        pass
    held = JobDirectory(root)
    assert held.job == job
    held.require_question(replace(job, partition=PartitionRef("/elsewhere", "a" * 32), budget=Budget(1, 1)))
    for other in (PartitionRef("/parts", "b" * 32), None):
        with pytest.raises(InputError, match=r"was begun on the partition a{32}"):
            held.require_question(replace(job, partition=other))


def test_foreign_and_damaged_directories_are_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty and not a job directory"), session_of(foreign):
        pass
    assert [entry.name for entry in foreign.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match="is not a job directory"):
        JobDirectory(foreign)
    root = tmp_path / "job"
    with session_of(root) as session:
        session.begin_leases(plan_of(COSTS), "inline")
    (root / "job.json").unlink()
    with pytest.raises(InputError, match="not a job directory"), session_of(root):
        pass
    (root / "plan.json").unlink()
    with pytest.raises(StoreError, match=r"a ledger but no job\.json"), session_of(root):
        pass


def test_a_session_that_was_killed_before_it_was_described_is_begun_anew(tmp_path: Path) -> None:
    root = tmp_path / "job"
    root.mkdir()
    with Ledger(root / "ledger.jsonl"):
        (root / ".job.json.new-1-abcd").write_text("{")
    with session_of(root) as session:
        session.begin_leases(plan_of(COSTS), "inline")
    assert not list(root.glob(".job.json*"))


def test_shards_are_kept_once_registered_and_swept_otherwise(tmp_path: Path) -> None:
    root, job = tmp_path / "job", make_job(per="edge")
    vectors = {"edge": np.arange(9, dtype=np.uint64)}
    with session_of(root, job) as session:
        shards = session.begin_leases(plan_of(COSTS, job=job), "local")
        assert shards == str(root / "shards" / "1")
        paths = [Path(shards) / f"0-{start}.parquet" for start in (0, 10)]
        checksums = [write_partial_shard(path, vectors) for path in paths]
        (Path(shards) / ".0-20.parquet.new-1-ab").write_text("torn")
        session.record(result_of(0, 10, ShardRef(str(paths[0]), checksums[0], 9)))
        with pytest.raises(StoreError, match="is lost"):
            session.record(result_of(10, 20, ShardRef(str(root / "shards" / "1" / "none"), checksums[1], 9)))
    with session_of(root, job) as session:
        assert sorted(root.rglob("*parquet*")) == [paths[0]]
        (lease,) = session.finished_leases
        assert lease.shard == ShardRef(str(paths[0]), checksums[0], 9)


def test_a_moved_directory_is_still_whole(tmp_path: Path) -> None:
    graph = BipartiteGraph.from_edges(*np.nonzero(np.ones((5, 4))))
    papilio.count(graph, Butterfly(), per="vertex", engine="cpu", job=tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    checked, again = papilio.verify_job(tmp_path / "b")
    assert (checked.count, checked.shards, checked.graph, again) == (60, 1, None, None)
    (status,) = list_jobs(tmp_path)
    assert not isinstance(status, tuple)
    assert (status.path, status.count, status.state) == (str(tmp_path / "b"), 60, "finished")


def test_a_store_whose_edges_were_changed_under_the_same_name_is_found_by_verifying(tmp_path: Path) -> None:
    """Other edges, as many, with the manifest of the ones that were counted but for the sizes of the files."""
    graph = BipartiteGraph.from_edges(*np.nonzero(np.ones((5, 4))))
    source = np.random.default_rng(1)
    other = BipartiteGraph.from_edges(*np.divmod(np.sort(source.choice(200, 20, replace=False)), 40), n_u=5, n_v=40)
    one, two = (write_store(tmp_path / name, each, provenance={}) for name, each in (("one", graph), ("two", other)))
    papilio.count(one, Butterfly(), engine="cpu", job=tmp_path / "job")
    assert papilio.verify_job(tmp_path / "job")[0].graph == one.hash
    manifest = json.loads((tmp_path / "one" / "graph.json").read_text())
    manifest["n_v"] = 40
    for entry, changed in zip(manifest["edge_files"], two.manifest.edge_files, strict=True):
        (tmp_path / "one" / entry["name"]).write_bytes((tmp_path / "two" / changed.name).read_bytes())
        entry |= {"n_bytes": changed.n_bytes, "digest": changed.digest}
    reseal(tmp_path / "one" / "graph.json", **manifest)
    with pytest.raises(StoreError, match="the edges were changed"):
        papilio.verify_job(tmp_path / "job")


def hashed_edges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of edges whenever some in memory are hashed."""
    hashed: list[int] = []
    update = ContentHash.update

    def note(content: ContentHash, u: Any, v: Any, sign: Any = None) -> None:
        hashed.append(u.size)
        update(content, u, v, sign)

    monkeypatch.setattr(ContentHash, "update", note)
    return hashed


def test_a_graph_in_memory_is_hashed_once_for_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = BipartiteGraph.from_edges(*np.nonzero(np.ones((6, 5))))
    hashed = hashed_edges(monkeypatch)
    for _ in ("counted", "found finished"):
        hashed.clear()
        assert papilio.count(graph, Butterfly(), per="vertex", engine="cpu", job=tmp_path / "job").count == 150
        assert sum(hashed) == graph.n_edges
    hashed.clear()
    papilio.count(graph, Butterfly(), engine="cpu")
    assert sum(hashed) == graph.n_edges


def test_ledger_and_vectors_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_store(tmp_path / "g", BipartiteGraph.from_edges(*np.nonzero(np.ones((6, 5)))), provenance={})
    papilio.count(store, Butterfly(), per="vertex", engine="cpu", job=tmp_path / "job")
    opened: Counter[str] = Counter()
    read_sealed, read_bytes = SealedReader.__init__, Path.read_bytes

    def note_vectors(file: SealedReader, system: Any, path: str, *args: Any) -> None:
        opened[Path(path).name] += 1
        read_sealed(file, system, path, *args)

    def note_bytes(path: Path) -> bytes:
        opened[path.name] += 1
        return read_bytes(path)

    monkeypatch.setattr(SealedReader, "__init__", note_vectors)
    monkeypatch.setattr(Path, "read_bytes", note_bytes)
    papilio.verify_job(tmp_path / "job")
    assert opened["vectors.parquet"] == opened["ledger.jsonl"] == 1
    opened.clear()
    with session_of(tmp_path / "new"):
        assert opened["ledger.jsonl"] == 1


def test_a_graph_in_memory_goes_on_by_counting_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(5)
    graph = BipartiteGraph.from_edges(*np.nonzero(source.random((60, 50)) < 0.3))
    expected = papilio.count(graph, Butterfly(), per="edge", engine="cpu")
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-9)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)

    class Stop(Exception):
        pass

    left = random.Random(3).randrange(3, 9)

    def stop(event: object) -> None:
        nonlocal left
        left -= type(event).__name__ == "LeaseFinished"
        if left == 0:
            raise Stop

    with pytest.raises(Stop):
        papilio.count(graph, Butterfly(), per="edge", engine="cpu", job=tmp_path / "job", progress=stop)
    with pytest.raises(InputError, match="was in memory"):
        papilio.resume_job(tmp_path / "job")
    with pytest.raises(InputError, match="is not finished"):
        papilio.verify_job(tmp_path / "job")
    result = papilio.count(graph, Butterfly(), per="edge", engine="cpu", job=tmp_path / "job")
    assert result.count == expected.count
    assert np.array_equal(result.vectors["edge"], expected.vectors["edge"])
    assert 0 < result.leases_before < result.leases
    assert papilio.open_job(tmp_path / "job").status().sessions[0].outcome == "Stop"
    reused = papilio.count(graph, Butterfly(), per="edge", job=tmp_path / "job")
    assert reused.reused
    assert replace(reused, vectors={}).to_dict()["count"] == expected.count
    assert np.array_equal(reused.vectors["edge"], expected.vectors["edge"])


def test_the_book_tells_what_is_finished_and_missing() -> None:
    done = FinishedIntervals([10])
    done.record(0, 6, 8)
    done.record(0, 0, 2)
    assert done.finished(0) == ((0, 2), (6, 8))
    assert done.missing(0) == ((2, 6), (8, 10))


@pytest.mark.parametrize(
    ("motif", "per"),
    [(Butterfly(), "total"), (Butterfly(), "vertex"), (papilio.Biclique(), "total")],
    ids=str,
)
def test_an_answer_is_read_as_it_was_given(motif: Motif, per: Any, tmp_path: Path) -> None:
    """All but what says that it was counted before."""
    graph = BipartiteGraph.from_edges(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1]))
    given_ = papilio.count(graph, motif, per=per, job=tmp_path / "job", cluster="inline", engine="cpu")
    read = JobDirectory(tmp_path / "job").result()
    assert read.reused
    again = replace(read, reused=False, leases_before=0, leases_by_worker=given_.leases_by_worker)
    assert again.to_dict() == given_.to_dict()
    assert {name: values.tolist() for name, values in read.vectors.items()} == {
        name: values.tolist() for name, values in given_.vectors.items()
    }
    assert list(given_.to_dict()) == [
        "motif", "parameters", "per", "count", "table", "engine", "cluster", "workers", "worker_details", "items",
        "leases", "plan_key", "seconds", "work", "graph", "peak_memory_bytes", "peak_device_bytes", "used_device_bytes",
        "strategy", "replication", "moved", "decisions", "output", "top", "job",
    ]  # fmt: skip


@pytest.mark.parametrize("listed", [False, True])
def test_a_job_of_a_file_whose_conversion_is_cleared_converts_it_again(tmp_path: Path, listed: bool) -> None:
    file, job = tmp_path / "edges.csv", tmp_path / "job"
    edges = [(u, v) for u in range(30) for v in range(30) if (u * v) % 7]
    file.write_text("who,what\n" + "".join(f"a{u},b{v}\n" for u, v in edges))

    def stop(event: object) -> None:
        if type(event).__name__ == "LeaseFinished":
            raise InterruptedError

    how: dict[str, Any] = {"engine": "cpu", "job": job, "u": "who", "v": "what"}
    ask = partial(papilio.enumerate, output=tmp_path / "rows") if listed else papilio.count
    with pytest.raises(InterruptedError):
        ask(file, papilio.Biclique(2, 3), progress=stop, **how)
    papilio.clear_conversions(str(file))
    resumed = papilio.resume_job(job)
    assert resumed.leases_before >= 1
    assert resumed.count == papilio.count(edges, papilio.Biclique(2, 3)).count

    papilio.clear_conversions(str(file))
    file.unlink()
    if not listed:
        with pytest.raises(StoreError, match=r"edges\.csv"):
            papilio.resume_job(job)
