"""The record file: nothing acknowledged is lost, nothing damaged is read, one writer at a time."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from papilio.errors import JobBusyError, StoreError
from papilio.storage import ledger as module
from papilio.storage.ledger import Ledger, find_holder, read_ledger, write_durably
from tests.conftest import ROOT

RECORDS = [{"n": n, "text": "ä\n" * n, "big": str(3**n)} for n in range(5)]

FILL = """
import sys, resource
from papilio.errors import JobBusyError, StoreError
from papilio.storage.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    limit = int(sys.argv[2])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    number = ledger.n_records
    print("ready", flush=True)
    while True:
        try:
            ledger.append({"n": number, "padding": "x" * (number % 97)})
        except StoreError as error:
            sys.exit(str(error))
        print(number, flush=True)
        number += 1
"""


def start_filling(path: Path, limit: int = 0) -> subprocess.Popen[str]:
    """Start a process that appends until it is killed or refused, and prints each number once it is kept."""
    process = subprocess.Popen(
        [sys.executable, "-c", FILL, str(path), str(limit)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of five records."""
    written = tmp_path / "ledger.jsonl"
    with Ledger(written) as ledger:
        for record in RECORDS:
            ledger.append(record)
    return written


def test_records_come_back_in_order(path: Path) -> None:
    content = read_ledger(path)
    assert list(content.records) == RECORDS
    assert (content.n_bytes, content.torn_bytes) == (path.stat().st_size, 0)
    with Ledger(path) as ledger:
        assert (ledger.content, ledger.tip, ledger.n_records) == (content, content.tip, 5)
        ledger.append({"n": 5})
        assert ledger.tip != content.tip
    assert list(read_ledger(path).records) == [*RECORDS, {"n": 5}]


def test_a_torn_last_line_is_passed_over_and_cut_off_wherever_it_ends(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last + 1, len(whole)):
        path.write_bytes(whole[:end])
        content = read_ledger(path)
        assert list(content.records) == RECORDS[:4]
        assert (content.n_bytes, content.torn_bytes) == (last, end - last)
    with Ledger(path) as ledger:
        assert path.stat().st_size == last
        ledger.append(RECORDS[4])
    assert path.read_bytes() == whole


def test_every_changed_byte_is_noticed_and_its_line_named(path: Path) -> None:
    whole = path.read_bytes()
    source = random.Random(1)
    for _ in range(200):
        at = source.randrange(len(whole) - 1)
        changed = bytearray(whole)
        changed[at] ^= 1 << source.randrange(8)
        path.write_bytes(bytes(changed))
        number = whole[:at].count(b"\n") + 1
        with pytest.raises(StoreError, match=rf"ledger\.jsonl, line {number} "):
            read_ledger(path)
    with pytest.raises(StoreError, match="damaged"), Ledger(path):
        pass
    assert find_holder(path) is None


@pytest.mark.parametrize("order", [[0, 2, 3, 4], [1, 0, 2, 3, 4], [0, 1, 1, 2, 3, 4], [1, 2, 3, 4]])
def test_removed_moved_and_repeated_lines_are_noticed(path: Path, order: list[int]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in order))
    wrong = next(place for place, i in enumerate(order, start=1) if i != place - 1)
    with pytest.raises(StoreError, match=f"line {wrong} "):
        read_ledger(path)


def test_a_second_writer_is_refused_with_the_holder_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.1)
    assert find_holder(path) is None
    process = start_filling(path)
    try:
        holder = find_holder(path)
        assert holder is not None
        assert (holder.host, holder.pid) == (socket.gethostname(), process.pid)
        with (
            pytest.raises(StoreError, match=rf"process {process.pid} on {socket.gethostname()}"),
            Ledger(path),
        ):
            pass
        assert read_ledger(path).records[:5] == tuple(RECORDS)
    finally:
        process.kill()
        process.communicate()
    assert find_holder(path) is None
    with Ledger(path) as ledger:
        assert ledger.n_records >= 5
        found = find_holder(path)
        assert found is not None
        assert found.pid == os.getpid()


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "ledger.jsonl"
    source = random.Random(seed)
    for _ in range(3):
        process = start_filling(path)
        assert process.stdout is not None
        for _ in range(source.randrange(200)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        with process:
            numbers = [int(line) for line in process.stdout.read().split()]
        content = read_ledger(path)
        assert [record["n"] for record in content.records] == list(range(len(content.records)))
        assert not numbers or numbers[-1] < len(content.records) <= numbers[-1] + 2


@pytest.mark.skipif(sys.platform != "linux", reason="the file size limit is set as Linux does")
@pytest.mark.parametrize("room", [1, 100, 4096])
def test_a_full_disk_keeps_what_was_there(path: Path, room: int) -> None:
    limit = path.stat().st_size + room
    with start_filling(path, limit) as process:
        # communicate() would pass by what readline() has buffered.
        assert process.stdout is not None
        assert process.stderr is not None
        out, error = process.stdout.read(), process.stderr.read()
    assert "cannot append a record of" in error
    assert "(File too large)" in error
    assert str(path) in error
    content = read_ledger(path)
    assert content.torn_bytes == 0
    assert content.n_bytes <= limit
    assert len(content.records) == 5 + len(out.split())
    with Ledger(path) as ledger:
        ledger.append({"room": "again"})
    assert len(read_ledger(path).records) == 6 + len(out.split())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"), Ledger(tmp_path / "nowhere" / "ledger"):
        pass
    with pytest.raises(StoreError, match="cannot be read"):
        read_ledger(tmp_path / "none")


def test_a_durable_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_durably(path, json.dumps([1]))
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(StoreError, match=r"a\.json: cannot be written"):
        write_durably(path, json.dumps([2]))
    assert path.read_text() == "[1]"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that gives a lock to everybody, as some do to processes of different hosts."""
    monkeypatch.setattr(module.fcntl, "flock", lambda descriptor, operation: None)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_older_writer_stops(path: Path) -> None:
    with Ledger(path) as older, Ledger(path) as newer:
        with pytest.raises(JobBusyError, match=rf"was taken over by process {os.getpid()} on "):
            older.append({"n": "older"})
        newer.append({"n": "newer"})
        with pytest.raises(JobBusyError, match="this process stops"):
            older.append({"n": "older"})
    assert [record["n"] for record in read_ledger(path).records] == [0, 1, 2, 3, 4, "newer"]


@pytest.mark.usefixtures("no_locks")
def test_without_locks_what_the_older_writer_appended_is_never_overwritten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path) as older, Ledger(path) as newer:
        with monkeypatch.context() as patch:
            patch.setattr(older, "require_claim", lambda: None)
            older.append({"n": "in the instant before it could know"})
        with pytest.raises(JobBusyError, match="were written here"):
            newer.append({"n": "newer"})
    assert read_ledger(path).records[-1] == {"n": "in the instant before it could know"}
    with Ledger(path) as next_one:
        next_one.append({"n": "newer"})
    assert len(read_ledger(path).records) == len(RECORDS) + 2
