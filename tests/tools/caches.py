"""What tests compile, kept by content in the user's cache folder and shared between checkouts.

The folder is ``$PAPILIO_TEST_CACHE``, or ``papilio-tests`` in ``$XDG_CACHE_HOME`` or ``~/.cache``, or, where nothing
can be written there, one of this user in the system's temporary folder. What was not used for a month is removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

__all__ = ["cache_folder", "content_key", "locked", "mark_used"]

_KEPT_S = 30 * 24 * 3600


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("PAPILIO_TEST_CACHE"):
        yield Path(named)
        return
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "papilio-tests"
    yield Path(tempfile.gettempdir()) / f"papilio-tests-{os.getuid()}"


def cache_folder(kind: str) -> Path:
    """Return the folder of one kind of compiled things; made, and old entries removed, at the first call.

    Raises
    ------
    PermissionError
        When the folder belongs to another user, who could change what is run from it.
    """
    *first, last = _candidates()
    for root in first:
        with suppress(OSError):
            return _open_folder(root / kind)
    return _open_folder(last / kind)


@cache
def _open_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} belongs to another user; set PAPILIO_TEST_CACHE to a folder of your own")
    old = time.time() - _KEPT_S
    for entry in folder.iterdir():
        if entry.lstat().st_mtime < old:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    return folder


def mark_used(entry: Path) -> None:
    """Note that an entry of a cache folder is still of use."""
    os.utime(entry)


def content_key(parts: Iterable[str | bytes]) -> str:
    """Return a name for what is made of these parts, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


@contextmanager
def locked(key: str) -> Iterator[None]:
    """Hold the lock of what is about to be made, so that no other process or thread makes it meanwhile.

    The system releases the lock of a process that dies.
    """
    descriptor = os.open(cache_folder("locks") / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
