"""Whatever the operating system refuses to a job: one clear error, nothing torn, and the job goes on exactly."""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import CapacityError, PapilioError, StoreError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.ledger import Ledger, read_ledger
from papilio.storage.store import GraphStore, write_store
from papilio.tasks import leases as lease_policy
from tests.tools.commands import call_command
from tests.tools.faulty_os import FaultyOs, faulty_os

Work = Callable[[GraphStore, Path], int]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GraphStore:
    """A small graph whose jobs have several leases."""
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-9)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)
    graph = BipartiteGraph.from_edges(*np.nonzero(np.random.default_rng(5).random((4, 4)) < 0.8))
    return write_store(tmp_path / "graph", graph, provenance={})


def count_in_all(store: GraphStore, root: Path) -> int:
    return papilio.count(store, papilio.Butterfly(), engine="cpu", job=root).count


def count_per_vertex(store: GraphStore, root: Path) -> int:
    output = root.with_name(f"{root.name}.parquet")
    result = papilio.count(store, papilio.Butterfly(), per="vertex", engine="cpu", job=root, output=output)
    assert int(result.vectors["u"].sum()) == 2 * result.count
    return result.count


def enumerate_bicliques(store: GraphStore, root: Path) -> int:
    output = root.with_name(f"{root.name}-listing")
    return papilio.enumerate(store, papilio.Biclique(2, 2), limit=None, output=output, job=root).count


def places_of(faults: FaultyOs) -> list[int]:
    """Return the last call of each kind at each place of the package."""
    return sorted({each: number for number, each in enumerate(faults.calls)}.values())


def open_files_of(root: Path) -> list[str]:
    """Return the open files of this process whose paths begin with ``root``; what only errors still hold is let go."""

    def find() -> list[str]:
        names = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
        return [name for name in names if name.startswith(str(root))]

    if find():
        gc.collect()
    return find()


def check_faults(work: Work, store: GraphStore, folder: Path, every: bool, forever: bool) -> None:
    """Fail call after call of the same job, each time in a new directory, and finish it afterwards."""
    with faulty_os(folder / "job-") as whole:
        right = work(store, folder / "job-")
    assert len(whole.calls) > 50, "the job passes through here"
    for number in range(len(whole.calls)) if every else places_of(whole):
        root = folder / f"job-{number}-"
        said = str(root)
        with faulty_os(root, number, forever=forever) as faults:
            try:
                assert work(store, root) == right
            except PapilioError as error:
                said = str(error)
        assert str(root) in said
        where = faults.calls[number] if number < len(faults.calls) else ("none", "")
        assert not open_files_of(root), where
        assert work(store, root) == right, where
        assert papilio.verify_job(root)[0].count == right, where
        assert not [path for path in folder.rglob(".*") if path.name != ".papilio"], where


@pytest.mark.parametrize(
    ("work", "forever"),
    [
        (count_in_all, False),
        pytest.param(count_per_vertex, False, marks=pytest.mark.slow),
        pytest.param(enumerate_bicliques, False, marks=pytest.mark.slow),
        pytest.param(count_in_all, True, marks=pytest.mark.slow),
        pytest.param(count_per_vertex, True, marks=pytest.mark.slow),
    ],
)
def test_each_call_that_fails_is_a_clear_error_and_the_job_goes_on(
    work: Work, forever: bool, store: GraphStore, tmp_path: Path
) -> None:
    check_faults(work, store, tmp_path, every=False, forever=forever)


@pytest.mark.slow
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("work", [count_in_all, count_per_vertex])
def test_every_single_call_that_fails_is_a_clear_error_and_the_job_goes_on(
    work: Work, forever: bool, store: GraphStore, tmp_path: Path
) -> None:
    check_faults(work, store, tmp_path, every=True, forever=forever)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_a_ledger_keeps_what_it_acknowledged_whatever_fails(forever: bool, tmp_path: Path) -> None:
    """A failed append leaves no torn line behind it for the next one, even when it cannot be cut off at once."""
    with faulty_os(tmp_path / "ledger") as whole, Ledger(tmp_path / "ledger") as ledger:
        for number in range(3):
            ledger.append({"n": number})
    for at in range(len(whole.calls)):
        path, kept, said = tmp_path / f"ledger-{at}", list[int](), list[str]()
        with faulty_os(path, at, forever=forever):
            try:
                with Ledger(path) as ledger:
                    for number in range(3):
                        try:
                            ledger.append({"n": number})
                        except StoreError as error:
                            said.append(str(error))
                        else:
                            kept.append(number)
            except StoreError as error:
                said.append(str(error))
        assert all(str(path) in each for each in said)
        with Ledger(path) as ledger:
            held = [record["n"] for record in ledger.content.records]
            assert set(kept) <= set(held), whole.calls[at]
            assert held == sorted(set(held)), "each at most once"
            ledger.append({"n": 3})
        assert [record["n"] for record in read_ledger(path).records] == [*held, 3]


def test_a_record_that_can_neither_be_written_nor_cut_off_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append({"n": 0})
        write, cut, refused = os.write, os.ftruncate, OSError(28, "No space left on device")

        def write_some(descriptor: int, data: memoryview) -> int:
            if len(data) > 5:
                return write(descriptor, data[:5])
            raise refused

        def refuse(*args: object) -> None:
            raise refused

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_some)
            patch.setattr(os, "ftruncate", refuse)
            for _ in range(2):
                with pytest.raises(StoreError, match=r"to the 1 that are kept \(.*\); free space there, then resume"):
                    ledger.append({"n": 1})
        assert os.ftruncate is cut
        ledger.append({"n": 2})
    assert [record["n"] for record in read_ledger(tmp_path / "ledger").records] == [0, 2]


WRITERS: dict[str, tuple[str, ...]] = {
    "convert": ("convert", "ids.csv", "out"),
    "convert text": ("convert", "words.csv", "out"),
    "convert parquet": ("convert", "edges.parquet", "out"),
    "generate": ("generate", "complete", "out", "--n-u", "300", "--n-v", "300"),
    "partition": ("partition", "graph", "out", "--motif", "butterfly", "--host-memory", "1GiB"),
    "partition of cliques": ("partition", "friends", "out", "--motif", "clique", "-k", "3", "--host-memory", "1GiB"),
    "count, parquet": ("count", "butterfly", "graph", "--per", "vertex", "--output", "out.parquet"),
    "count, csv": ("count", "butterfly", "graph", "--per", "edge", "--output", "out.csv"),
    "count, json": ("count", "butterfly", "graph", "--per", "edge", "--output", "out.json"),
    "count, job": ("count", "butterfly", "graph", "--per", "edge", "--job", "out"),
    "enumerate": ("enumerate", "biclique", "graph", "-p", "2", "-q", "2", "--output", "out"),
    "decompose": ("decompose", "wing", "graph", "--output", "out"),
    "measure": ("measure", "latapy", "graph", "--output", "out.parquet"),
}  # fmt: skip
"""Commands that write, by what they write; ``out`` is theirs."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with graphs as text, Parquet and stores, each a few hundred kilobytes at most."""
    root = tmp_path_factory.mktemp("inputs")
    u, v = np.nonzero(np.random.default_rng(3).random((120, 90)) < 0.3)
    (root / "ids.csv").write_text("".join(f"{a * 7},{b * 11}\n" for a, b in zip(u, v, strict=True)))
    (root / "words.csv").write_text("".join(f"user {a},item {b}\n" for a, b in zip(u, v, strict=True)))
    pq.write_table(pa.table({"user": u, "item": v}), root / "edges.parquet")
    labels = [f"{i} {'x' * 50}" for i in range(120)]
    write_store(root / "graph", BipartiteGraph.from_edges(u, v), provenance={}, labels_u=labels)
    friends = UnipartiteGraph.from_edges(*np.nonzero(np.triu(np.ones((40, 40)), 1)))
    write_store(root / "friends", friends, provenance={})
    return root


def run_limited(words: tuple[str, ...], inputs: Path, n_bytes: int, root: Path) -> tuple[int, str]:
    """Run a command in a copy of the inputs, where no file may be larger; return its exit code and its messages."""
    shutil.copytree(inputs, root)
    places = {each.name for each in inputs.iterdir()}
    named = [str(root / word) if word in places or word.startswith("out") else word for word in words]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        code, _, message = call_command(*named)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return code, message


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_that_finds_no_room_ends_in_one_error_and_leaves_nothing(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    """No file may pass a size, which the system refuses to Python, Arrow and DuckDB as it does on a full disk."""
    before = {each.name for each in inputs.iterdir()}
    refused = 0
    for n_bytes in (0, 600, 5000, 40_000):
        root = tmp_path / str(n_bytes)
        code, message = run_limited(WRITERS[name], inputs, n_bytes, root)
        if code == 0:
            continue
        refused += 1
        lines = [line for line in message.splitlines() if line.startswith("papilio: ")]
        assert code in (3, 5), message
        assert len(lines) == 1, message
        assert str(root) in lines[0], message
        left = {each.name for each in root.iterdir()} - before
        assert left <= ({"out"} if name == "count, job" else set()), left
    assert refused > 0


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_scratch_directory_that_the_system_refuses_is_one_error(
    code: int, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(code, os.strerror(code), str(tmp_path))

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    kind = CapacityError if code in (errno.ENOSPC, errno.EDQUOT) else StoreError
    with pytest.raises(kind, match=rf"{tmp_path}.*{os.strerror(code)}.*choose another directory"):
        papilio.convert(inputs / "ids.csv", tmp_path / "out")
    code, _, message = call_command(
        "partition", inputs / "graph", tmp_path / "out", "--motif", "butterfly", "--host-memory", "1GiB"
    )
    assert code == 3
    assert message.splitlines()[-1].startswith(f"papilio: {tmp_path}")
    assert not list(tmp_path.iterdir())
