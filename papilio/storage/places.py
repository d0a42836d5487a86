"""The files that are meant by paths, URLs, patterns, directories and ``-``, which is standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pyarrow import fs as arrow_fs

from papilio.errors import InputError
from papilio.storage.files import MANIFEST_NAME, filesystem_of, is_url

InputPath = str | os.PathLike[str]

STANDARD_INPUT = "-"

_LEFT_OUT = ("_", ".")
"""Beginnings of the names of files and directories that hold no data: ``_SUCCESS``, ``.part-0.crc``."""


@dataclass(frozen=True)
class Place:
    """Where a file is."""

    name: str  # the path or the URL, for messages
    filesystem: arrow_fs.FileSystem | None  # None for standard input
    path: str = ""  # within the file system
    n_bytes: int = 0  # as stored; 0 where nothing tells
    root: str = ""  # the directory that it was found below


def find_places(given: InputPath | Sequence[InputPath]) -> list[Place]:
    """Return the files that are meant, in the order given; part-2 before part-10 in a directory or a pattern.

    InputError for what does not exist or holds no file.
    """
    several = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    if not several:
        raise InputError("no file was given; convert reads one or more")
    if [os.fspath(each) for each in several].count(STANDARD_INPUT) > 1:
        raise InputError("standard input (-) was given twice; it can be read once")
    return [place for each in several for place in _find(os.fspath(each))]


def _find(given: str) -> list[Place]:
    if given == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input (-) is closed; name a file")
        return [Place("standard input", None)]
    filesystem, path = filesystem_of(given)
    try:
        info = filesystem.get_file_info(path)
        if info.is_file:
            return [Place(given, filesystem, path, info.size or 0)]
        if info.type == arrow_fs.FileType.Directory:
            return _below(given, filesystem, path)
        if info.type != arrow_fs.FileType.NotFound:
            raise InputError(f"{given} is not a file")
        pattern = "*" if is_url(given) else "*?["
        if not any(mark in given for mark in pattern):
            unknown = ", or cannot be reached" if is_url(given) else ""
            raise InputError(f"{given} does not exist{unknown}")
        found = _matches(filesystem, path)
        root = path[: min(path.find(mark) for mark in pattern if mark in path)].rpartition("/")[0]
        places = [
            place
            for info in filesystem.get_file_info(sorted(found, key=_by_number))
            for place in (
                _below(_called(given, info.path), filesystem, info.path)
                if info.type == arrow_fs.FileType.Directory
                else [_place(_called(given, info.path), filesystem, info, root)]
            )
        ]
    except OSError as error:
        raise InputError(f"{given} cannot be read ({error})") from error
    if not places:
        raise InputError(f"{given} matches no file")
    return places


def _place(name: str, filesystem: arrow_fs.FileSystem, info: arrow_fs.FileInfo, root: str) -> Place:
    return Place(name, filesystem, info.path, info.size or 0, root)


def _below(given: str, filesystem: arrow_fs.FileSystem, root: str) -> list[Place]:
    """Return the files of a directory and of those below it, less what Spark and others write beside data."""
    found = {}
    for info in filesystem.get_file_info(arrow_fs.FileSelector(root, recursive=True)):
        inner = info.path[len(root) :].strip("/")
        if info.is_file and not any(part.startswith(_LEFT_OUT) for part in inner.split("/")):
            found[inner] = info
    if MANIFEST_NAME in found:
        raise InputError(f"{given} is a graph store already; count in it, or copy it")
    if not found:
        raise InputError(f"{given} is a directory without a file of edges")
    name = given.rstrip("/")
    return [
        _place(f"{name}/{inner}", filesystem, found[inner], root) for inner in sorted(found, key=_by_number)
    ]


def _matches(filesystem: arrow_fs.FileSystem, pattern: str) -> list[str]:
    """Return the paths that a pattern of shells matches."""
    handler = getattr(filesystem, "handler", None)
    if handler is not None:
        return list(handler.fs.glob(pattern))
    from fsspec.implementations.arrow import ArrowFSWrapper  # slow to import, and only needed for patterns

    return list(ArrowFSWrapper(filesystem).glob(pattern))


def _called(given: str, path: str) -> str:
    """Return what a file is called that a pattern has matched."""
    if is_url(given):
        return path if is_url(path) else f"{given.partition('://')[0]}://{path}"
    return path if os.path.isabs(given) else os.path.relpath(path)


def _by_number(path: str) -> list[tuple[int, str]]:
    """Return the key by which ``part.2`` comes before ``part.10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", path)]
