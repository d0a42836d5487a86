"""Source stamps of compiled code, over a module and all modules that it imports.

Only modules of this package count, whether imported directly or indirectly.

The machine code of a function includes everything that the function calls, also from other modules, so this stamp is
part of its file name (:mod:`papilio.kernels.jit`).
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Folder that contains the package."""

_IMPORT = re.compile(r" (papilio\.[\w.]+)(?: import (\([^)]*\)|[^(\n]+))?")
_NAMES = re.compile(r"[,()]|#[^\n]*")


@cache
def _file_of(name: str, root: Path) -> Path | None:
    """Return the file of a module or package of this name, or None."""
    place = os.path.join(root, *name.split("."))
    choices = (f"{place}.py", os.path.join(place, "__init__.py"))
    return next((Path(choice) for choice in choices if os.path.isfile(choice)), None)


@cache
def imported_files(path: Path, root: Path = ROOT) -> frozenset[Path]:
    """Return the files of the package below ``root`` that a file imports directly.

    Names in text after a space also count as imports: this is fast, and at worst causes needless compilations.
    """
    found = set[Path | None]()
    for whole, parts in _IMPORT.findall(path.read_text("utf-8")):
        names = [whole, *(f"{whole}.{name.split()[0]}" for name in _NAMES.split(parts) if name.strip())]
        file = _file_of(whole, root)
        of_package = file is None or file.name == "__init__.py"
        found.update(_file_of(name, root) for name in (names if of_package else names[:1]))
    return frozenset(file for file in found if file is not None)


def sources_of(path: Path, root: Path = ROOT) -> set[Path]:
    """Return a file and everything it imports, directly or indirectly."""
    found, waiting = set[Path](), [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported_files(file, root)
    return found


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def source_stamp(path: Path, root: Path = ROOT) -> str:
    """Return a digest of the content of a file and everything it imports."""
    whole = hashlib.sha256()
    for file in sorted(sources_of(path, root)):
        whole.update(str(file.relative_to(root)).encode() + b"\0" + _digest(file))
    return whole.hexdigest()[:24]
