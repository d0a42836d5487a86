"""Archives with one file of data: tar (of KONECT, SuiteSparse), plain or compressed, and zip.

The member is read as a stream: nothing is unpacked, and names, links and devices in an archive are never followed. In a
tar file the first file of data is read; if another one follows, the conversion fails and names all of them. A member
named ``out.*`` (KONECT) or like the archive (SuiteSparse) goes before others.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from papilio.arguments import read_bytes, show_bytes
from papilio.errors import CapacityError, InputError
from papilio.settings import MAX_UNPACKED

_MAX_UNPACKED_BYTES = 64 << 30
"""Largest member by default: a small archive may unpack to any size."""

TAR_HEAD_BYTES = 512
"""The header of a tar file."""

_NO_DATA = re.compile(
    r"^(readme|licen[cs]e|copying|meta|ent|citation|changelog|about)\b"
    r"|\.(md|pdf|html?|bib|rtf|docx?|png|jpe?g|py|ipynb|r|m|c|h|java|sh|tex)$",
    re.IGNORECASE,
)
"""Names of members that describe the data."""

_SHOWN = 8
"""Number of members listed in a message."""


class Member(Protocol):
    """The file of data in an archive, read once from its beginning."""

    name: str

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes, at most ``n_bytes``; empty at the end. Raises InputError for a damaged archive."""
        ...


def is_tar(head: bytes) -> bool:
    """Return whether a file begins with the header of a tar file."""
    return head[257:262] == b"ustar"


def _rank(archive: str, member: str) -> int:
    """Return 0 for the file of data by its name, 1 for a possible one, 2 for a description."""
    parts = [part for part in member.split("/") if part not in ("", ".", "..")]
    base = parts[-1] if parts else ""
    stem = archive.rsplit("/", 1)[-1].split(".")[0]
    if base.startswith("out.") or base == f"{stem}.mtx":
        return 0
    is_hidden = any(part.startswith((".", "_")) for part in parts)  # __MACOSX, too
    return 2 if is_hidden or _NO_DATA.search(base) else 1


def _choose(archive: str, scheme: str, names: list[str]) -> str:
    """Return the member with the data; InputError if there is none, or more than one."""
    ranked = sorted((_rank(archive, name), name) for name in names)
    best = [name for rank, name in ranked if rank == ranked[0][0]] if ranked and ranked[0][0] < 2 else []
    if len(best) == 1:
        return best[0]
    if not best:
        raise InputError(f"{archive} holds no file of data (links are not followed); it has {_listed(names)}")
    raise InputError(
        f"{archive} holds several files of data: {_listed(best)}; choose one, as in {scheme}://{best[0]}::{archive}"
    )


def _listed(names: list[str]) -> str:
    shown = [name if name.isprintable() else repr(name) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (", ".join(shown) or "no files") + more


def _require_size(archive: str, member: str, n_bytes: int) -> None:
    limit = read_bytes(MAX_UNPACKED.name, MAX_UNPACKED.value or _MAX_UNPACKED_BYTES) or 0
    if n_bytes > limit:
        raise CapacityError(
            f"{member} in {archive} unpacks to {show_bytes(n_bytes)} or more; the limit is {show_bytes(limit)}: set "
            f"{MAX_UNPACKED.name} to a larger size if you trust the archive, or unpack it first"
        )


@contextmanager
def _damage_named(archive: str) -> Iterator[None]:
    try:
        yield
    except NotImplementedError as error:
        raise InputError(f"{archive} is compressed in an unsupported way ({error}); unpack it first") from error
    except InputError:
        raise
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        raise InputError(f"{archive}: the archive is damaged or encrypted ({error})") from error


class TarMember:
    """The file of data in a stream of a tar file; after its end, the other members are looked at."""

    def __init__(self, read: Callable[[int], bytes], archive: str) -> None:
        self._archive, self._seen = archive, list[str]()
        with _damage_named(archive):
            source: Any = _Readable(read)
            self._tar = tarfile.TarFile.open(fileobj=source, mode="r|")
            self._members = iter(self._tar)
            self.name = self._advance()
            if not self.name:
                _choose(archive, "tar", self._seen)

    def _advance(self) -> str:
        """Go to the next file of data and return its name, or an empty string."""
        for info in self._members:
            if not info.isfile():
                continue
            self._seen.append(info.name)
            if _rank(self._archive, info.name) < 2:
                _require_size(self._archive, info.name, info.size)
                self._left = int(info.size)
                self._file = self._tar.extractfile(info)
                return str(info.name)
        return ""

    def read(self, n_bytes: int) -> bytes:
        with _damage_named(self._archive):
            data = b"" if self._file is None else self._file.read(n_bytes)
            self._left -= len(data)
            if not data and self._left:
                raise InputError(f"{self._archive}: the archive is truncated, {self._left:,} bytes are missing")
            if not data and n_bytes and self._file is not None:
                self._file = None
                read = self.name
                while self._advance():
                    self._file = None
                self._left = 0
                if (chosen := _choose(self._archive, "tar", self._seen)) != read:
                    raise InputError(
                        f"{self._archive} holds several files of data: {_listed(self._seen)}; choose one, as in "
                        f"tar://{chosen}::{self._archive}"
                    )
        return data


class _Readable:
    """A file object for :mod:`tarfile`."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def read(self, n_bytes: int) -> bytes:
        blocks = []
        while n_bytes and (data := self._read(n_bytes)):
            blocks.append(data)
            n_bytes -= len(data)
        return b"".join(blocks)


class ZipMember:
    """The file of data in a zip file; ``file`` has random access."""

    def __init__(self, file: Any, archive: str) -> None:
        self._archive, self._n_bytes = archive, 0
        with _damage_named(archive):
            self._zip = zipfile.ZipFile(file)
            names = [info.filename for info in self._zip.infolist() if not info.is_dir()]
            self._refuse(names)
            self.name = _choose(archive, "zip", names)
            _require_size(archive, self.name, self._zip.getinfo(self.name).file_size)
            self._file = self._zip.open(self.name)

    def _refuse(self, names: list[str]) -> None:
        """Raise InputError for a workbook or arrays, which are zip files, too."""
        if "xl/workbook.xml" in names or "xl/workbook.bin" in names or "content.xml" in names:
            raise InputError(
                f"{self._archive} is a workbook; save the sheet as CSV, or read it with pandas.read_excel and pass the "
                "frame"
            )
        if names and all(name.endswith(".npy") for name in names):
            raise InputError(
                f"{self._archive} holds NumPy arrays; read it with scipy.sparse.load_npz or numpy.load and pass the "
                "matrix"
            )

    def read(self, n_bytes: int) -> bytes:
        with _damage_named(self._archive):
            data = self._file.read(n_bytes)
        self._n_bytes += len(data)
        _require_size(self._archive, self.name, self._n_bytes)
        return data
