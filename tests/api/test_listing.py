"""Listings from the question to the files: exact, limited, filtered, resumed; nothing left where they fail."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import papilio
from papilio.cluster.events import Event, LeaseFinished
from papilio.errors import ExecutionError, InputError, StoreError, TilingError, UnsupportedError
from papilio.motifs import Listing
from papilio.storage.ledger import Ledger, read_ledger
from papilio.storage.listings import ListingShard
from papilio.storage.records import digest_file, read_record, write_record
from papilio.storage.store import open_store
from papilio.tasks import leases as lease_policy
from papilio.tasks.fold import Fold
from papilio.tasks.job import JobSpec, LeaseResult, LeaseTask
from tests.tasks.fakes import make_job, plan_of
from tests.tools.listings import rows_of, write_many, write_women
from tests.tools.tampering import reseal


@pytest.fixture(scope="module")
def women(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> Path:
    """The Southern Women graph, with women and events as labels."""
    return write_women(example_data, tmp_path_factory.mktemp("women"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose listing has several leases of half a millisecond."""
    return write_many(tmp_path_factory.mktemp("many"))


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 0.0005)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 0.0005)


def neighbours_of(path: Path) -> dict[int, set[int]]:
    graph: Any = open_store(path).read()
    neighbours: dict[int, set[int]] = {}
    for u, v in zip(graph.u.tolist(), graph.v.tolist(), strict=True):
        neighbours.setdefault(u, set()).add(v)
    return neighbours


def bicliques_of(path: Path, p: int, q: int) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """List by definition, in ids."""
    neighbours = neighbours_of(path)
    return {
        (us, vs)
        for us in combinations(sorted(neighbours), p)
        for vs in combinations(sorted(set.intersection(*(neighbours[u] for u in us))), q)
    }


@pytest.mark.parametrize(("p", "q"), [(3, 4), (2, 2), (1, 5), (4, 1)])
@pytest.mark.parametrize("anchor", ["u", "v"])
def test_the_women_and_their_events(women: Path, tmp_path: Path, p: int, q: int, anchor: str) -> None:
    motif = papilio.Biclique(p, q)
    options = {"anchor": anchor}
    result = papilio.enumerate(women, motif, output=tmp_path / "out", limit=None, options=options)
    rows = rows_of(result.output)
    assert Counter(rows) == Counter(
        (tuple(f"woman {u}" for u in us), tuple(100 + v for v in vs)) for us, vs in bicliques_of(women, p, q)
    )
    assert result.rows == len(rows) == papilio.count(women, motif, engine="cpu").count
    assert (result.limit_reached, result.engine, result.output) == (False, "cpu", str(tmp_path / "out"))
    assert result.checked
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("with_u", "with_v"),
    [(["woman 2"], []), ([], [104]), (["woman 2", "woman 0"], ["105", 107]), (["woman 15"], [100])],
)
def test_only_those_that_hold_given_vertices(
    women: Path, tmp_path: Path, with_u: list[str], with_v: list[str | int]
) -> None:
    result = papilio.enumerate(
        women, papilio.Biclique(3, 3), output=tmp_path / "out", limit=None, with_u=with_u, with_v=with_v
    )
    everything = papilio.enumerate(women, papilio.Biclique(3, 3), output=tmp_path / "all", limit=None)
    expected = [
        (us, vs)
        for us, vs in rows_of(everything.output)
        if set(with_u) <= set(us) and {int(v) for v in with_v} <= set(vs)
    ]
    assert sorted(rows_of(result.output)) == sorted(expected)
    assert result.items <= everything.items


@pytest.mark.parametrize("limit", [1, 17, 35, 36, 37])
def test_a_limit_is_met_exactly(women: Path, tmp_path: Path, limit: int) -> None:
    result = papilio.enumerate(women, papilio.Biclique(3, 4), output=tmp_path / "out", limit=limit)
    rows = rows_of(result.output)
    assert len(rows) == len(set(rows)) == result.rows == min(limit, 36)
    assert result.limit_reached == (limit <= 36)
    said = json.loads((tmp_path / "out" / "_listing.json").read_text())
    assert (said["rows"], said["limit_reached"]) == (result.rows, result.limit_reached)
    assert said["listing"]["limit"] == limit


@pytest.mark.usefixtures("short_leases")
def test_many_leases_list_what_is_counted(many: Path, tmp_path: Path) -> None:
    motif = papilio.Biclique(3, 3)
    result = papilio.enumerate(many, motif, output=tmp_path / "out", limit=None)
    assert result.rows == papilio.count(many, motif, engine="cpu").count
    assert result.leases > 3
    assert result.files > 3
    rows = rows_of(result.output)
    assert len(rows) == len(set(rows)) == result.rows
    neighbours = neighbours_of(many)
    assert all(set(vs) <= neighbours[u] for us, vs in rows for u in us)
    assert all(list(us) == sorted(us) and list(vs) == sorted(vs) for us, vs in rows)
    less = papilio.enumerate(many, motif, output=tmp_path / "less", limit=result.rows - 5)
    assert less.rows == len(set(rows_of(less.output)) & set(rows)) == result.rows - 5
    assert less.limit_reached
    few = papilio.enumerate(many, motif, output=tmp_path / "few", limit=10)
    assert few.leases < result.leases


class Stop(Exception):
    """Ends a run from its listener."""


class StopAfter:
    """Ends a run when so many leases have been listed."""

    def __init__(self, leases: int) -> None:
        self.left = leases

    def __call__(self, event: Event) -> None:
        if isinstance(event, LeaseFinished):
            self.left -= 1
            if self.left == 0:
                raise Stop


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("limit", [None, 30_000])
def test_a_job_goes_on_where_it_ended(many: Path, tmp_path: Path, limit: int | None) -> None:
    motif, out, job = papilio.Biclique(3, 3), tmp_path / "out", tmp_path / "job"
    with pytest.raises(Stop):
        papilio.enumerate(many, motif, output=out, limit=limit, job=job, progress=StopAfter(1))
    assert not out.exists()
    status = papilio.open_job(job).status()
    assert (status.state, status.leases) == ("interrupted", 1)
    limited = "all" if limit is None else "up to 30,000"
    assert status.title == f"listing of biclique (3, 3), {limited}"
    with pytest.raises(InputError, match="is not finished"):
        papilio.verify_job(job)
    with pytest.raises(InputError, match=r"has job .*listing"):
        papilio.enumerate(many, motif, output=out, limit=5, job=job)
    with pytest.raises(InputError, match=r"has job .*listing"):
        papilio.count(many, motif, job=job)
    result = papilio.resume_job(job)
    assert isinstance(result, papilio.ListingResult)
    assert result.leases_before == 1
    rows = rows_of(out)
    there_are = papilio.count(many, motif, engine="cpu").count
    assert len(rows) == len(set(rows)) == result.rows == (limit or there_are)
    assert result.limit_reached == (limit is not None)
    checked, again = papilio.verify_job(job, sample=3)
    assert checked.count == result.rows
    assert checked.shards >= result.files
    assert again is not None
    assert again.leases == 3
    again_result = papilio.enumerate(many, motif, output=tmp_path / "copy", limit=limit, job=job)
    assert again_result.reused
    assert rows_of(tmp_path / "copy") == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "job", "out"]


@pytest.mark.usefixtures("short_leases")
def test_rows_that_were_changed_are_found(many: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    papilio.enumerate(many, papilio.Biclique(3, 3), output=tmp_path / "out", limit=None, job=job)
    shard = max((job / "shards" / "1").iterdir())
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(StoreError, match=f"{shard.name} has digest"):
        papilio.verify_job(job)


def test_a_recount_compares_rows(women: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from papilio.kernels.biclique.list import BicliqueLister

    job = tmp_path / "job"
    papilio.enumerate(women, papilio.Biclique(3, 4), output=tmp_path / "out", limit=None, job=job)
    right = BicliqueLister.run

    def swapped(self: Any, prepared: Any, start: int, stop: int, bounds: Any, cut: Any, sink: Any = None) -> Any:
        def wrong(u: Any, v: Any) -> None:
            u = u.copy()
            u[0] = u[-1]
            sink(u, v)

        return right(self, prepared, start, stop, bounds, cut, *(() if sink is None else (wrong,)))

    monkeypatch.setattr(BicliqueLister, "run", swapped)
    with pytest.raises(ExecutionError, match=r"1 of the 36 rows of .* are missing from the new listing"):
        papilio.verify_job(job, sample=1)


def test_nothing_is_left_where_a_listing_fails(women: Path, tmp_path: Path) -> None:
    motif = papilio.Biclique(3, 4)
    with pytest.raises(Stop):
        papilio.enumerate(women, motif, output=tmp_path / "out", limit=None, progress=StopAfter(1))
    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_is_not_what_is_counted_is_refused(
    women: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from papilio.kernels.biclique.cpu import BicliqueCpu

    right = BicliqueCpu.run

    def wrong(*args: Any, **options: Any) -> Any:
        partial = right(*args, **options)
        return replace(partial, total=partial.total + 1)

    monkeypatch.setattr(BicliqueCpu, "run", wrong)
    motif = papilio.Biclique(3, 4)
    with pytest.raises(ExecutionError, match=r"36 of biclique \(3, 4\) were listed .* but 3[78] were counted"):
        papilio.enumerate(women, motif, output=tmp_path / "out", limit=None)
    assert list(tmp_path.iterdir()) == []
    assert not papilio.enumerate(women, motif, output=tmp_path / "few", limit=50).checked


def test_a_target_that_is_taken_is_refused(women: Path, tmp_path: Path) -> None:
    motif, out = papilio.Biclique(3, 4), tmp_path / "out"
    out.mkdir()
    papilio.enumerate(women, motif, output=out, limit=1)
    with pytest.raises(StoreError, match="already exists; choose another name, or replace it"):
        papilio.enumerate(women, motif, output=out, limit=1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="already exists"):
        papilio.enumerate(women, motif, output=tmp_path / "file", limit=1)
    with pytest.raises(StoreError, match="already exists"):
        papilio.enumerate(women, motif, output=out, limit=2, job=tmp_path / "job")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_a_listing_replaces_only_listings_and_files_that_may_go(women: Path, tmp_path: Path) -> None:
    motif = papilio.Biclique(3, 4)
    for name in ("out", "out.csv"):
        papilio.enumerate(women, motif, output=tmp_path / name, limit=1)
        papilio.enumerate(women, motif, output=tmp_path / name, limit=2, overwrite=True)
    assert len(rows_of(tmp_path / "out")) == 2
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    with pytest.raises(StoreError, match="not overwritten; remove it"):
        papilio.enumerate(women, motif, output=tmp_path / "mine", limit=1, overwrite=True)


def test_a_job_replaces_what_it_was_begun_to_replace_when_it_resumes(women: Path, tmp_path: Path) -> None:
    motif, out, job = papilio.Biclique(3, 4), tmp_path / "out", tmp_path / "job"
    papilio.enumerate(women, motif, output=out, limit=1)
    with pytest.raises(StoreError, match="exists"):
        papilio.enumerate(women, motif, output=out, limit=2, job=job)
    papilio.enumerate(women, motif, output=out, limit=2, job=job, overwrite=True)
    papilio.enumerate(women, motif, output=out, limit=1, overwrite=True)
    papilio.enumerate(women, motif, output=out, limit=2, job=job)
    assert len(rows_of(out)) == 2


@pytest.mark.parametrize("name", ["cliques.txt", "cliques.csv.gz", "cliques.XLSX"])
def test_a_name_of_another_file_is_no_directory(women: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is neither a directory nor a table"):
        papilio.enumerate(women, papilio.Biclique(3, 4), output=tmp_path / name)
    with pytest.raises(InputError, match="is neither a directory nor a table"):
        papilio.decompose(women, "wing", output=tmp_path / name)
    made = papilio.decompose(women, "wing", engine="cpu", output=tmp_path / "wings.csv")
    assert 0 < made.seconds["write"] < made.seconds["total"]
    assert (tmp_path / "wings.csv").read_text().startswith('"u","v","u_label","v_label","number"')


def test_graphs_in_memory_are_listed_with_their_labels(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], bipartite=0)
    graph.add_nodes_from(["x", "y", "z"], bipartite=1)
    graph.add_edges_from((u, v) for u in "ab" for v in "xyz")
    job = tmp_path / "job"
    motif = papilio.Biclique(2, 2)
    result = papilio.enumerate(graph, motif, output=tmp_path / "out", limit=None, with_v=["y"], job=job)
    assert sorted(rows_of(result.output)) == [(("a", "b"), ("x", "y")), (("a", "b"), ("y", "z"))]
    again = papilio.enumerate(graph, motif, output=tmp_path / "out", limit=None, with_v=["y"], job=job)
    assert again.reused
    with pytest.raises(InputError, match="in memory"):
        papilio.resume_job(job)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "out"]
    relabelled = nx.relabel_nodes(graph, {"a": "c"})
    with pytest.raises(InputError, match="has job"):
        papilio.enumerate(relabelled, motif, output=tmp_path / "out", limit=None, with_v=["y"], job=job)


def test_workers_in_other_processes_list_the_same(many: Path, tmp_path: Path) -> None:
    motif = papilio.Biclique(3, 3)
    with papilio.open_cluster("local", workers=2) as cluster:
        result = papilio.enumerate(many, motif, output=tmp_path / "out", limit=None, cluster=cluster)
        few = papilio.enumerate(many, motif, output=tmp_path / "few", limit=100, cluster=cluster)
        here = papilio.enumerate(many, motif, output=tmp_path / "here", limit=None)
    assert set(rows_of(result.output)) == set(rows_of(here.output))
    assert result.rows == len(rows_of(result.output)) == here.rows
    assert len(set(rows_of(few.output))) == few.rows == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few", "here", "out"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"limit": 0}, InputError, "limit is 0"),
        ({"engine": "gpu"}, UnsupportedError, "bicliques are listed on CPUs, and engine is 'gpu'"),
        ({"motif": papilio.Biclique(3)}, UnsupportedError, r"biclique \(3, q\) cannot be listed"),
        ({"motif": papilio.Butterfly()}, UnsupportedError, "butterfly cannot be listed"),
        ({"with_u": ["woman 1", "woman 2"], "motif": papilio.Biclique(1, 1)}, InputError, "2 vertices of U"),
        (
            {"with_u": ["Evelyn"]},
            InputError,
            "no vertex with the label 'Evelyn'; its labels look like 'woman 0'",
        ),
        ({"with_v": [1]}, InputError, "layer V of .* no vertex with the label 1"),
        ({"options": {"algorithm": "pivot"}}, UnsupportedError, "'pivot' counts without visiting"),
        ({"options": {"depth": "1"}}, InputError, "no option 'depth'"),
        ({"output": "/nowhere/at/all"}, StoreError, "does not exist"),
    ],
)
def test_what_cannot_be_listed_is_refused(
    women: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    asked = {"motif": papilio.Biclique(2, 2), "output": tmp_path / "out", "limit": 5, **changes}
    with pytest.raises(error, match=message):
        papilio.enumerate(women, asked.pop("motif"), **asked)
    assert list(tmp_path.iterdir()) == []


def test_jobs_and_leases_that_list_survive_json() -> None:
    job = make_job(motif=papilio.Biclique(3, 4), listing=Listing(5, (1, 2), (), "abc"))
    assert read_record(JobSpec, json.loads(json.dumps(write_record(job))), "a job", "") == job
    assert job.identity["listing"] == {"limit": 5, "with_u": (1, 2), "with_v": (), "labels": "abc"}
    assert "listing" not in make_job().identity
    assert job.title == "listing of biclique (3, 4), up to 5 with vertices u 1, 2"
    task = LeaseTask(job, "cpu", "plan", "run", 0, 1, 2, 3, "costs")
    assert read_record(LeaseTask, json.loads(json.dumps(write_record(task))), "a task", "") == task


def test_the_fold_refuses_what_does_not_fit(tmp_path: Path) -> None:
    job = make_job(motif=papilio.Biclique(3, 4), listing=Listing(5))
    fold = Fold(plan_of(np.array([3, 2, 1]), job=job), keep_shards=True)
    lost = (ListingShard(str(tmp_path / "x"), "", 3, 9),)
    for total, listed, capped, message in (
        (3, (), False, "listed 3 motifs, but its files have 0 rows"),
        (0, lost, False, "listed 0 motifs, but its files have 3 rows"),
        (3, lost, True, "ended a lease at 3 motifs; the limit is 5"),
    ):
        with pytest.raises(ExecutionError, match=message):
            fold.add(LeaseResult(0, 0, 1, total, 1, "w0", "cpu", {}, 0, listed=listed, capped=capped))
    with pytest.raises(StoreError, match="is missing"):
        fold.add(LeaseResult(0, 0, 1, 3, 1, "w0", "cpu", {}, 0, listed=lost))
    fold.add(LeaseResult(0, 0, 1, 0, 1, "w0", "cpu", {}, 0))
    assert not fold.is_full
    with pytest.raises(TilingError, match="never finished"):
        fold.finish()


def test_more_rows_than_anybody_wants_end_at_the_limit(tmp_path: Path) -> None:
    side = 60
    graph = papilio.BipartiteGraph.from_edges(np.repeat(np.arange(side), side), np.tile(np.arange(side), side))
    assert comb(side, 20) ** 2 > 2**64
    result = papilio.enumerate(graph, papilio.Biclique(20, 20), output=tmp_path / "out", limit=1000)
    rows = rows_of(result.output)
    assert len(set(rows)) == 1000
    assert all(len(set(us)) == len(set(vs)) == 20 for us, vs in rows)


@pytest.fixture
def finished(women: Path, tmp_path: Path) -> Path:
    """A finished job whose listing is at ``out`` beside it."""
    papilio.enumerate(women, papilio.Biclique(3, 4), output=tmp_path / "out", limit=None, job=tmp_path / "job")
    return tmp_path / "job"


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # the file may be linked elsewhere
    path.write_bytes(content)


def test_a_finished_job_publishes_no_damaged_shard(finished: Path, tmp_path: Path) -> None:
    rows, shard = rows_of(tmp_path / "out"), max((finished / "shards" / "1").iterdir())
    damage(shard)
    assert papilio.resume_job(finished).output == str(tmp_path / "out"), "the listing itself is whole"
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(StoreError, match=f"{shard.name} has digest .* run the lease again"):
        papilio.resume_job(finished)
    assert not (tmp_path / "out").exists()
    damage(shard)  # back again
    papilio.resume_job(finished)
    assert rows_of(tmp_path / "out") == rows


def test_a_damaged_listing_is_written_again_from_the_shards(finished: Path, tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "out")
    damage(max((tmp_path / "out").glob("*.parquet")))
    papilio.resume_job(finished)
    assert rows_of(tmp_path / "out") == rows
    max((tmp_path / "out").glob("*.parquet")).unlink()
    papilio.resume_job(finished)
    assert rows_of(tmp_path / "out") == rows


def rewrite_ledger(job: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write a ledger of other records, and an answer that names it, as whoever gives a job to others could."""
    records = read_ledger(job / "ledger.jsonl").records
    (job / "ledger.jsonl").unlink()
    with Ledger(job / "ledger.jsonl") as ledger:
        for record in records:
            change(record)
            ledger.append(record)
        reseal(job / "result.json", ledger={"n_records": ledger.n_records, "tip": ledger.tip})


@pytest.mark.parametrize("where", ["{0}", "shards/../../{1}", "../{1}", "shards/1/../../../{1}", "{1}"])
def test_a_ledger_leads_to_no_file_outside_its_job(finished: Path, tmp_path: Path, where: str) -> None:
    secret = tmp_path / "secret.parquet"
    secret.write_bytes(max((finished / "shards" / "1").iterdir()).read_bytes())
    secret.chmod(0o600)
    shutil.rmtree(tmp_path / "out")

    def mislead(record: dict[str, Any]) -> None:
        for each in record.get("listed", ()):
            each |= {"path": where.format(secret, secret.name), "digest": digest_file(secret)}

    rewrite_ledger(finished, mislead)
    with pytest.raises(StoreError, match=r"the shard .* is not a file in shards/N"):
        papilio.resume_job(finished)
    assert (secret.stat().st_nlink, secret.stat().st_mode & 0o777) == (1, 0o600)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "link", ["shards", "shards/1", "shards/1/file", "control", "vectors.parquet", "ledger.jsonl.lock"]
)
def test_links_in_a_job_directory_are_not_followed(finished: Path, tmp_path: Path, link: str) -> None:
    """An unfinished job writes, sweeps and publishes: nothing of it may happen elsewhere."""
    precious = tmp_path / "precious"
    place = finished / link
    if link == "shards/1/file":
        place = max((finished / "shards" / "1").iterdir())
    is_file = place.is_file() or place.suffix != ""
    if place.exists():
        place.rename(precious)
    elif is_file:
        precious.write_bytes(b"precious")
    else:
        precious.mkdir()
    (tmp_path / "kept").mkdir()
    if precious.is_dir():
        (precious / "thesis").write_text("precious")
    before = {each: each.read_bytes() for each in precious.rglob("*") if each.is_file()}
    content = precious.read_bytes() if precious.is_file() else b""
    place.symlink_to(precious)
    shutil.rmtree(tmp_path / "out")
    for unfinished in (False, True):
        if unfinished:
            (finished / "result.json").unlink()
        with pytest.raises(StoreError, match="is a symbolic link, which jobs never create"):
            papilio.resume_job(finished)
        assert {each: each.read_bytes() for each in precious.rglob("*") if each.is_file()} == before
        assert not precious.is_file() or precious.read_bytes() == content
        assert not (tmp_path / "out").exists()
