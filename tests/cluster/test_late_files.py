"""Files that another host has written, and that this one finds later."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from papilio.cluster.driver import _with_files
from papilio.storage import files
from papilio.storage.files import await_paths


def test_a_late_file_is_awaited_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "_LATE_TOLD_S", 0.0)
    late = tmp_path / "late"
    timer = Timer(0.1, late.touch)
    timer.start()
    with caplog.at_level(logging.WARNING, "papilio"):
        await_paths([str(tmp_path), str(late)])
    timer.join()
    assert late.exists()
    assert [record.getMessage() for record in caplog.records] == [
        f"papilio: another machine wrote {late}, which this one does not find yet; waiting up to 60 s"
    ]


def test_a_file_that_never_comes_is_awaited_for_some_time(tmp_path: Path) -> None:
    await_paths([str(tmp_path / "never")], 0.05)


@dataclass(frozen=True)
class Lease:
    """A result, of which only the files matter."""

    files: tuple[str, ...]


def test_other_results_overtake_one_whose_file_is_late(tmp_path: Path) -> None:
    late, there = tmp_path / "late", tmp_path / "there"
    there.touch()

    def results() -> Iterator[Any]:
        yield Lease((str(there), str(late)))
        yield Lease((str(there),))
        yield Lease(())
        late.touch()
        yield Lease((str(there), str(there)))

    seen = [[Path(path).name for path in result.files] for result in _with_files(results())]
    assert seen == [["there"], [], ["there", "late"], ["there", "there"]]
