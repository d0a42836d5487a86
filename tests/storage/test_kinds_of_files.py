"""What is read: files, directories of files and pipes, whose names are text; anything else is one error, at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import papilio
from papilio.errors import InputError, PapilioError, StoreError
from tests.tools.commands import call_command

SQUARE = "u,v\n1,1\n1,2\n2,1\n2,2\n"


def count(path: Any, folder: Path) -> int:
    return papilio.count(path, papilio.Butterfly(), engine="cpu").count


def convert(path: Any, folder: Path) -> int:
    return count(papilio.convert(path, folder / "out"), folder)


def write_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("work", [count, convert])
@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_pipe_is_read_once_from_its_beginning(work: Callable[[Any, Path], int], kind: str, tmp_path: Path) -> None:
    content = SQUARE.encode()
    if kind == "parquet":
        pq.write_table(pa.table({"u": [1, 1, 2, 2], "v": [1, 2, 1, 2]}), tmp_path / "file")
        content = (tmp_path / "file").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
    writer.start()
    assert work(tmp_path / "pipe", tmp_path) == 1
    writer.join()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/dev/zero", "a character device"),
        ("/proc/kmsg", "a file of the kernel"),
        ("/proc/self/../self/status", "a file of the kernel"),
        ("socket", "a socket"),
    ],
)
@pytest.mark.parametrize("command", [("convert",), ("count", "butterfly"), ("info",)], ids=lambda words: words[0])
def test_what_may_never_end_is_refused_with_its_kind(
    path: str, kind: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.path.exists(path) and path != "socket":
        pytest.skip(f"there is no {path} here")
    monkeypatch.chdir(tmp_path)
    write_socket(Path("socket"))
    code, _, message = call_command(*command, path, *(["out"] if command == ("convert",) else []))
    assert (code, message) == (2, f"papilio: {path} is {kind}; only files, pipes and standard input (-) are read\n")


NAME = os.fsdecode(b"a\xff.csv")
"""A name that is not text."""


@pytest.mark.parametrize(
    "work",
    [
        lambda: papilio.read(NAME),
        lambda: papilio.read("*.csv"),
        lambda: papilio.read([NAME]),
        lambda: papilio.convert(".", "out"),
        lambda: papilio.convert("good.txt", NAME),
        lambda: papilio.open_partition(NAME),
        lambda: papilio.open_job(NAME),
        lambda: papilio.count("good.txt", papilio.Butterfly(), job=NAME),
        lambda: papilio.count("good.txt", papilio.Butterfly(), per="vertex", output=NAME),
    ],
)
def test_a_name_that_is_not_text_is_one_error(
    work: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(NAME).write_text(SQUARE)
    Path("good.txt").write_text(SQUARE)
    with pytest.raises(InputError, match=r"not UTF-8.*rename it"):
        work()


def test_a_pattern_passes_over_other_names_that_are_not_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(NAME).write_text("no edges")
    Path("good.txt").write_text(SQUARE)
    assert count("*.txt", tmp_path) == 1


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///", "file://", "data://", "ftp://", "github://", "zip://::", "://", "s3://a b"]
)
@pytest.mark.parametrize("work", [papilio.read, papilio.open_partition])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_half_a_url_is_one_error_that_names_it(work: Callable[[str], object], url: str) -> None:
    with pytest.raises(PapilioError) as caught:
        work(url)
    assert url in str(caught.value)
    assert isinstance(caught.value, InputError | StoreError)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0,)])
@pytest.mark.parametrize("format", ["coo", "csr"])
def test_a_matrix_is_no_path(shape: tuple[int, ...], format: str, tmp_path: Path) -> None:
    if len(shape) == 2:
        matrix = scipy.sparse.coo_matrix(shape).asformat(format)
        assert count(matrix, tmp_path) == 0
    else:
        matrix = scipy.sparse.coo_array(np.zeros(shape))
    with pytest.raises(InputError):
        papilio.convert(matrix, tmp_path / "out")
