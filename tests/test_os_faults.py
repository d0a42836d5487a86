"""Whatever the operating system refuses to a job: one clear error, nothing torn, and the job goes on exactly."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import papilio
from papilio.errors import PapilioError, StoreError
from papilio.graph import BipartiteGraph
from papilio.storage.ledger import Ledger, read_ledger
from papilio.storage.store import GraphStore, write_store
from papilio.tasks.leases import lengths as lease_policy
from tests.tools.faulty_os import FaultyOs, faulty_os

Work = Callable[[GraphStore, Path], int]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GraphStore:
    """A small graph whose jobs have several leases."""
    monkeypatch.setattr(lease_policy, "MIN_LEASE_S", 1e-9)
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
    return papilio.enumerate_motifs(store, papilio.Biclique(2, 2), limit=None, output=output, job=root).count


def places_of(faults: FaultyOs) -> list[int]:
    """Return the last call of each kind at each place of the package."""
    return sorted({each: number for number, each in enumerate(faults.calls)}.values())


def open_files_of(root: Path) -> list[str]:
    """Return the open files of this process whose paths begin with ``root``; what only errors still hold is let go."""
    gc.collect()
    links = Path("/proc/self/fd").iterdir()
    names = [os.path.realpath(each) for each in links]
    return [name for name in names if name.startswith(str(root))]


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
                with pytest.raises(StoreError, match=r"its 1 records are kept: make room, then resume"):
                    ledger.append({"n": 1})
        assert os.ftruncate is cut
        ledger.append({"n": 2})
    assert [record["n"] for record in read_ledger(tmp_path / "ledger").records] == [0, 2]
