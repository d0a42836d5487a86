"""An append-only record file that survives a kill at any instant, with one writer at a time.

One record is one line, a JSON object ``{"record": {...}, "checksum": "..."}``. The checksum covers the record and the
checksum of the previous line, so a line that was changed, removed or moved breaks the chain. A line counts once its
newline is on disk: :meth:`Ledger.append` returns only after an fsync, and text after the last newline was never
acknowledged. Readers skip such a torn line, and the next writer cuts it off. A complete line that does not fit the
chain is damage and raises an error.

The writer holds an flock on ``<name>.lock`` next to the file. The system releases it when the process ends in any way,
so the lock file of a dead process blocks nobody. If a file system does not share locks between hosts, two hosts may
both get it. The lock file therefore contains the claim of the last process that took it, and a writer stops before
writing if it no longer finds its own claim there, or finds that the file has grown. If both write in the same instant,
one line breaks the chain: this is reported as damage, never read as two records.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from papilio.errors import JobBusyError, StoreError
from papilio.storage.records import parse_json, read_record, read_regular, seal_json, unseal_json
from papilio.system_errors import explain

LOCK_WAIT_S = 1.0
"""How long a writer tries to get the lock, because a look-up of the holder takes a shared lock for an instant."""

_LOCK_PAUSE_S = 0.05


@dataclass(frozen=True)
class Holder:
    """The process that writes a ledger."""

    host: str
    pid: int
    since: float  # time when it took the lock, in seconds since 1970
    token: str = ""  # its claim, different each time


@dataclass(frozen=True)
class LedgerContent:
    """The records of a ledger, in the order written, and the state of its file."""

    records: tuple[dict[str, Any], ...]
    tip: str  # checksum of the last line, which covers all of them; empty without lines
    n_bytes: int  # bytes of the complete lines
    torn_bytes: int  # bytes after them, left by a kill


def _checksum(before: str, record: Mapping[str, Any]) -> str:
    text = before + json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _encode(record: Mapping[str, Any], checksum: str) -> bytes:
    return json.dumps({"record": record, "checksum": checksum}, separators=(",", ":")).encode() + b"\n"


def read_ledger(path: str | os.PathLike[str]) -> LedgerContent:
    """Read and check all records; works while another process appends. O(bytes).

    Raises StoreError, naming file and line, if the file cannot be read or a complete line does not fit the chain.
    """
    try:
        content = read_regular(Path(path), "start a new job directory", any_size=True)
    except FileNotFoundError as error:
        raise StoreError(f"{os.fspath(path)} cannot be read {explain(error)}") from error
    whole = content.rfind(b"\n") + 1
    records, tip = [], ""
    for number, line in enumerate(content[:whole].split(b"\n")[:-1], start=1):
        try:
            data = json.loads(line)
            record, found = data["record"], data["checksum"]
            expected = _checksum(tip, record)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(_damage(path, number, f"is not a record ({error!r})")) from error
        if line + b"\n" != _encode(record, expected) or not isinstance(record, dict):
            raise StoreError(_damage(path, number, f"does not match its checksum (found {found}, expected {expected})"))
        records.append(record)
        tip = expected
    return LedgerContent(tuple(records), tip, whole, len(content) - whole)


def _damage(path: str | os.PathLike[str], number: int, what: str) -> str:
    return f"{os.fspath(path)}, line {number} {what}: the ledger was damaged; start a new job directory"


def _lock_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    return target.with_name(target.name + ".lock")


def find_holder(path: str | os.PathLike[str]) -> Holder | None:
    """Return the process that is currently writing the ledger ``path``, or None."""
    try:
        descriptor = os.open(_lock_path(path), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _read_claim(path: str) -> Holder:
    """Return the last process that took the lock; opening the file makes a network file system ask the server."""
    descriptor = os.open(_lock_path(path), os.O_RDONLY)
    try:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)


def _read_holder(descriptor: int) -> Holder:
    try:
        return read_record(Holder, unseal_json(parse_json(os.pread(descriptor, 4096, 0), "", ""), "", ""), "", "")
    except (StoreError, OSError):
        return Holder("unknown", 0, 0.0)


class Ledger:
    """The only writer of a record file; a context manager. Not safe for several threads at once.

    Entering creates a missing file (its directory must exist), takes the lock, reads and checks existing records, and
    cuts off a torn last line. ``content`` has the records found on entry.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.content = LedgerContent((), "", 0, 0)
        self.tip = self.token = ""
        self.n_records = self._n_bytes = 0
        self._file = self._lock = -1
        self._is_torn = False

    def __enter__(self) -> Self:
        """Take the lock and read; raise JobBusyError naming the current holder, or StoreError naming the damage."""
        try:
            self._lock, self.token = _take_lock(self.path)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self.content = read_ledger(self.path)
            if self.content.torn_bytes:
                os.ftruncate(self._file, self.content.n_bytes)
            os.fsync(self._file)
            sync_path(Path(self.path).parent)
        except OSError as error:
            self.close()
            raise StoreError(f"{self.path}: cannot be written {explain(error, 'then resume')}") from error
        except BaseException:
            self.close()
            raise
        self.tip, self._n_bytes = self.content.tip, self.content.n_bytes
        self.n_records = len(self.content.records)
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Free the lock; safe to call twice."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                # The file is closed even if the system reports an error, and all records are on disk already.
                with suppress(OSError):
                    os.close(descriptor)
        self._file = self._lock = -1

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record; when this returns, it is on disk.

        Raises JobBusyError if another process has taken over the file, even if this file system's locks do not show it.
        Raises StoreError if the record cannot be written; the written part of it is cut off.
        """
        self.require_claim()
        checksum = _checksum(self.tip, record)
        line = _encode(record, checksum)
        try:
            self._cut_torn()
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            self._is_torn = True
            with suppress(OSError):
                self._cut_torn()
            raise StoreError(
                f"{self.path}: cannot append a record of {len(line)} bytes to the {self.n_records} that are kept "
                f"{explain(error, 'then resume')}"
            ) from error
        self.tip, self._n_bytes, self.n_records = checksum, self._n_bytes + len(line), self.n_records + 1

    def _cut_torn(self) -> None:
        """Cut off the remains of a failed append.

        If that fails too, it is retried before the next line, and the next writer cuts off a torn line that stays. A
        complete line that stays is a valid record that was not acknowledged.
        """
        if self._is_torn:
            os.ftruncate(self._file, self._n_bytes)
            self._is_torn = False

    def require_claim(self) -> None:
        """Raise unless this writer was the last to take the lock, and the only one to write.

        The JobBusyError names the process that took over the file.
        """
        try:
            claim, n_bytes = _read_claim(self.path), os.fstat(self._file).st_size
        except OSError as error:
            raise StoreError(
                f"{self.path}: registered results are kept, but its lock file cannot be read "
                f"{explain(error, 'then resume')}"
            ) from error
        if claim.token != self.token or (n_bytes != self._n_bytes and not self._is_torn):
            raise JobBusyError(
                f"{self.path} was taken over by process {claim.pid} on {claim.host} (it has {n_bytes} bytes, "
                f"{self._n_bytes} were written here): this process stops; its registered results are kept"
            )


def _take_lock(path: str) -> tuple[int, str]:
    lock_path = _lock_path(path)
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait_for_lock(descriptor, path)
        claim = Holder(socket.gethostname(), os.getpid(), time.time(), secrets.token_hex(8))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, seal_json(asdict(claim)).encode(), 0)
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, claim.token


def _wait_for_lock(descriptor: int, path: str) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            if time.monotonic() > deadline:
                holder = _read_holder(descriptor)
                raise JobBusyError(
                    f"{path} is being written by process {holder.pid} on {holder.host}; wait until it ends, or stop "
                    f"it and resume"
                ) from error
            time.sleep(_LOCK_PAUSE_S)
        else:
            return


def sync_path(path: str | os.PathLike[str]) -> None:
    """Return once a file's content, or a directory's list of names, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: str | os.PathLike[str], text: str) -> None:
    """Write a small file under a temporary name, and rename it into place once it is on disk.

    Raises StoreError if it cannot be written; the previous content stays.
    """
    target = Path(path)
    scratch = target.with_name(f".{target.name}.new-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
        sync_path(target.parent)
    except OSError as error:
        raise StoreError(f"{target}: cannot be written {explain(error, 'then resume')}") from error
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
