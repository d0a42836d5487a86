"""A directory that hosts share, but that is slow or stale, as on a loaded file server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Self

_POLL_S = 0.05

_Mark = tuple[int, int]
"""Size of a file in bytes and time of its last change in nanoseconds."""

_FOLDER, _GONE = (-1, 0), (-2, 0)


def slow_down(folder: Path, seconds: float) -> str:
    """Return Python code that makes a process wait whenever its Python code opens, renames or lists below a folder."""
    events = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir")
    return (
        f"import sys, time\n"
        f"def wait(event, given):\n"
        f"    if event in {events} and given and str(given[0]).startswith({str(folder)!r}):\n"
        f"        time.sleep({seconds})\n"
        f"sys.addaudithook(wait)\n"
    )


class DelayedViews:
    """Directories that hold the same a while later, from entering to leaving, as views of a shared one.

    A file or directory that is new, changed or removed in one view is so in the others after ``delay_s``. Files appear
    whole there, and one after the other.
    """

    def __init__(self, views: Sequence[Path], delay_s: float) -> None:
        self._views, self._delay_s = views, delay_s
        self._known: dict[Path, _Mark] = {}  # as in all views
        self._seen: dict[tuple[Path, Path], float] = {}  # changes by view and path: when they were first seen
        self._ended = Event()
        self._thread = Thread(target=self._run, name="views", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            for view in self._views:
                with suppress(FileNotFoundError):  # removed meanwhile: the next look finds it gone
                    self._spread(view)

    def _spread(self, view: Path) -> None:
        now, found = monotonic(), _marks_in(view)
        for path in sorted(found.keys() | self._known.keys()):
            mark = found.get(path, _GONE)
            if mark == self._known.get(path, _GONE):
                self._seen.pop((view, path), None)
            elif now - self._seen.setdefault((view, path), now) >= self._delay_s:
                for other in self._views:
                    if other != view:
                        self._known[path] = _copy(view / path, other / path, mark)
                del self._seen[view, path]


def _marks_in(view: Path) -> dict[Path, _Mark]:
    found: dict[Path, _Mark] = {}
    for root, folders, files in os.walk(view):
        below = Path(root).relative_to(view)
        found |= {below / name: _FOLDER for name in folders}
        for name in files:
            with suppress(FileNotFoundError):
                status = os.stat(Path(root, name))
                found[below / name] = status.st_size, status.st_mtime_ns
    return found


def _copy(source: Path, target: Path, mark: _Mark) -> _Mark:
    """Make the target as the source; return its mark, since the source may have changed meanwhile."""
    if mark == _GONE:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        return _GONE
    if mark == _FOLDER:
        target.mkdir(exist_ok=True)
        return _FOLDER
    copy = target.with_name(f".copy-{target.name}")
    shutil.copy2(source, copy)
    status = copy.stat()
    copy.replace(target)
    return status.st_size, status.st_mtime_ns
