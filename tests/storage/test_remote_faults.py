"""Whatever call of a remote file system times out: one error that names the file, the time-out and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import papilio
from papilio.errors import PapilioError
from papilio.graph import BipartiteGraph
from papilio.storage.store import write_store

CALLS = ("info", "ls", "_open", "exists", "isfile", "isdir", "glob", "find")


class _Far(MemoryFileSystem):
    """Files in memory, under URLs ``far://``; one call times out, as those of a network do, without a word."""

    protocol = "far"
    cachable = False
    n_calls, fails_at = 0, -1

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return MemoryFileSystem._strip_protocol(path.replace("far://", "memory://"))

    def _note(self) -> None:
        number = _Far.n_calls
        _Far.n_calls += 1
        if number == _Far.fails_at:
            raise TimeoutError

    def cat_file(self, *args: Any, **options: Any) -> Any:
        self._note()
        return super().cat_file(*args, **options)


def _noting(name: str) -> Any:
    def call(self: _Far, *args: Any, **options: Any) -> Any:
        self._note()
        found = getattr(super(_Far, self), name)(*args, **options)
        if name == "_open":
            read = found.read

            def read_or_fail(*args: Any) -> Any:
                self._note()
                return read(*args)

            found.read = read_or_fail
        return found

    return call


for _name in CALLS:
    setattr(_Far, _name, _noting(_name))


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL with an edge list, a Parquet file and a store."""
    monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path / "cache"))
    fsspec.register_implementation("far", _Far, clobber=True)
    monkeypatch.setattr(_Far, "store", {})
    monkeypatch.setattr(_Far, "pseudo_dirs", [""])
    write_store(tmp_path / "graph", BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1]), provenance={})
    (tmp_path / "edges.csv").write_text("u,v\n1,1\n1,2\n2,1\n2,2\n")
    files = _Far()
    files.put(str(tmp_path / "graph"), "/graph", recursive=True)
    files.put(str(tmp_path / "edges.csv"), "/edges.csv")
    return "far://"


def count(url: str, folder: Path) -> int:
    return papilio.count(url, papilio.Butterfly(), engine="cpu").count


def convert(url: str, folder: Path) -> int:
    papilio.convert(url, folder / "out")
    return 1


@pytest.mark.parametrize(
    ("work", "name"), [(count, "graph"), (count, "edges.csv"), (convert, "edges.csv"), (convert, "*.csv")]
)
def test_a_call_that_times_out_is_one_error_that_says_so(
    work: Callable[[str, Path], int], name: str, far: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Far, "n_calls", 0)
    folder = tmp_path / "first"
    folder.mkdir()
    assert work(f"{far}{name}", folder) == 1
    n_calls, told = _Far.n_calls, list[str]()
    assert n_calls > 3
    for number in range(n_calls):
        monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path / f"cache-{number}"))
        monkeypatch.setattr(_Far, "n_calls", 0)
        monkeypatch.setattr(_Far, "fails_at", number)
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            assert work(f"{far}{name}", folder) == 1
        except PapilioError as error:
            told.append(str(error))
    assert told
    for each in told:
        assert all(words in each for words in (name.removeprefix("*"), "timed out", "network")), each
        assert "space" not in each
