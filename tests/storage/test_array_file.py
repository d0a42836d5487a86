"""Scratch arrays on disk and in memory: what is written is read, and what goes wrong is said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from papilio.errors import StoreError
from papilio.storage.files import ArrayFile, ArrayMemory, empty_pages


@pytest.mark.parametrize("on_disk", [False, True])
def test_pieces_come_back(tmp_path: Path, on_disk: bool) -> None:
    array = ArrayFile(tmp_path / "a", np.int64, 100) if on_disk else ArrayMemory(np.int64, 100)
    values = np.arange(100) * 10**12
    for start in (60, 0, 30):
        array.write(start, values[start : start + 30])
    np.testing.assert_array_equal(array.read(5, 85), values[5:85])
    np.testing.assert_array_equal(array.read(90, 100), np.zeros(10, np.int64))
    assert array.read(7, 7).size == 0
    array.remove()
    assert os.listdir(tmp_path) == []


def test_reading_into_an_array(tmp_path: Path) -> None:
    array, out = ArrayFile(tmp_path / "a", np.int32, 10), np.full(8, -1, np.int32)
    array.write(0, np.arange(10, dtype=np.int32))
    assert np.shares_memory(array.read(3, 6, out), out)
    assert out.tolist() == [3, 4, 5, -1, -1, -1, -1, -1]
    array.remove()


def test_places_and_types_are_checked(tmp_path: Path) -> None:
    array = ArrayFile(tmp_path / "a", np.int32, 10)
    with pytest.raises(ValueError, match=r"\[8, 11\) is not within \[0, 10\)"):
        array.write(8, np.zeros(3, np.int32))
    with pytest.raises(ValueError, match=r"\[-1, 4\) is not within \[0, 10\)"):
        array.read(-1, 4)
    with pytest.raises(ValueError, match="holds int32; got int64"):
        array.write(0, np.zeros(3, np.int64))
    array.remove()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    array = ArrayFile(tmp_path / "a", np.int32, 10)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(
        StoreError, match=r"a \(40 bytes\) cannot be written \(No space left .*; free space there, or use another"
    ):
        array.write(0, np.zeros(3, np.int32))
    array.remove()


def test_a_file_that_cannot_be_made_or_was_cut(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/a \(40 bytes\) cannot be made \(No such file"):
        ArrayFile(tmp_path / "nowhere" / "a", np.int32, 10)
    array = ArrayFile(tmp_path / "a", np.int32, 10)
    os.truncate(tmp_path / "a", 20)
    with pytest.raises(StoreError, match="ends at byte 20: it was changed by another program"):
        array.read(0, 10)
    array.remove()


def test_writes_go_on_where_the_system_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, write, read = ArrayFile(tmp_path / "a", np.int64, 10), os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:7], at))
    monkeypatch.setattr(os, "preadv", lambda file, parts, at: read(file, [parts[0][:11]], at))
    values = np.arange(10) << 40
    array.write(0, values)
    np.testing.assert_array_equal(array.read(0, 10), values)
    array.remove()


def test_pages() -> None:
    pages = empty_pages(5, np.int32)
    pages[:] = 3
    assert (pages.dtype, pages.tolist()) == (np.dtype(np.int32), [3] * 5)
    assert empty_pages(0, np.int64).flags.writeable
