"""Damage to files, by structure: what a seed draws for one file of a directory that Papilio wrote."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from papilio.storage.records import seal_json
from papilio.storage.sealed import SealedWriter

__all__ = ["MUTATIONS", "mutate", "replace_sealed", "reseal"]


def reseal(path: Path, **values: Any) -> None:
    """Change, or with ``...`` remove, keys of a sealed JSON file, as a writer with an error would have written it."""
    data = (json.loads(path.read_text()) if path.exists() else {}) | values
    path.write_text(seal_json({key: value for key, value in data.items() if value is not ...}))


def replace_sealed(path: Path, table: pa.Table, rows: int = 1 << 20, **options: Any) -> str:
    """Write another sealed Parquet file, with this many rows in a row group, in the place of one; return its digest."""
    with SealedWriter(path, table.schema, **options) as writer:
        for start in range(0, table.num_rows, rows):
            writer.write(table.slice(start, rows))
    return writer.digest


_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 1.5, 2.0, 10**30, "", "x", "../x", "7", "\ud800", [], ["x"], [[]], {}, {"x": 1},
    float("nan"), float("inf"),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _places(each, (*path, key))


def _holder(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def _drop(rng: random.Random, data: Any, other: Any) -> None:
    place = rng.choice(list(_places(data)))
    del _holder(data, place)[place[-1]]


def _retype(rng: random.Random, data: Any, other: Any) -> None:
    place = rng.choice(list(_places(data)))
    _holder(data, place)[place[-1]] = rng.choice(_VALUES)


def _nudge(rng: random.Random, data: Any, other: Any) -> None:
    """Change a number by a little, a text by a letter."""
    places = list(_places(data))
    rng.shuffle(places)
    for place in places:
        holder, key = _holder(data, place), place[-1]
        if type(holder[key]) in (int, float):
            holder[key] += rng.choice((-1, 1, 10))
            return
        if isinstance(holder[key], str) and holder[key]:
            at = rng.randrange(len(holder[key]))
            holder[key] = holder[key][:at] + rng.choice("0189af/x") + holder[key][at + 1 :]
            return


def _exchange(rng: random.Random, data: Any, other: Any) -> None:
    """Swap two values of one file."""
    first, second = (rng.choice(list(_places(data))) for _ in range(2))
    if first[: len(second)] == second or second[: len(first)] == first:
        return
    a, b = _holder(data, first), _holder(data, second)
    a[first[-1]], b[second[-1]] = b[second[-1]], a[first[-1]]


def _borrow(rng: random.Random, data: Any, other: Any) -> None:
    """Take a value from the file of another directory."""
    shared = [place for place in _places(data) if place in set(_places(other))]
    if shared:
        place = rng.choice(shared)
        _holder(data, place)[place[-1]] = _holder(other, place)[place[-1]]


def _add(rng: random.Random, data: Any, other: Any) -> None:
    places = [place for place in _places({"": data}) if isinstance(_holder({"": data}, (*place, "")), dict)]
    _holder({"": data}, (*rng.choice(places), ""))["added"] = rng.choice(_VALUES)


def _wrap(rng: random.Random, data: Any, other: Any) -> None:
    place = rng.choice(list(_places(data)))
    holder = _holder(data, place)
    for _ in range(rng.choice((1, 900))):
        holder[place[-1]] = [holder[place[-1]]]


_STRUCTURED = {
    "drop": _drop, "retype": _retype, "nudge": _nudge, "exchange": _exchange, "borrow": _borrow, "add": _add,
    "wrap": _wrap,
}  # fmt: skip


def _duplicate(rng: random.Random, text: bytes) -> bytes:
    """Write a key of a JSON object twice, or a line of a ledger."""
    if text.count(b"\n") > 1 and text.startswith(b'{"record"'):
        lines = text.splitlines(keepends=True)
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        return b"".join(lines)
    at = text.find(b"{") + 1
    key = rng.choice(list(json.loads(text)) or ["x"])
    return text[:at] + json.dumps({key: rng.choice(_VALUES)})[1:-1].encode() + b", " + text[at:]


def _flip(rng: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 4)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _exchange_ranges(rng: random.Random, text: bytes) -> bytes:
    """Swap two ranges of 8 to 4,096 bytes, or half of a file that is smaller."""
    size = min(rng.choice((8, 16, 64, 512, 4096)), len(text) // 2)
    first = rng.randrange(len(text) - 2 * size + 1)
    second = rng.randrange(first + size, len(text) - size + 1)
    a, b = text[first : first + size], text[second : second + size]
    return text[:first] + b + text[first + size : second] + a + text[second + size :]


_BYTES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flip": _flip,
    "ranges": _exchange_ranges,
    "truncate": lambda rng, text: text[: rng.randrange(len(text) + 1)],
    "empty": lambda rng, text: b"",
    "latin": lambda rng, text: text[:20] + b"\xff\xfe" + text[20:],
    "twice": lambda rng, text: text + text,
    "zeros": lambda rng, text: bytes(len(text)),
}


def _replace(kind: str, path: Path, other: Path | None) -> None:
    """Put something else in the place of a file."""
    if kind == "swap":
        if other is not None:
            shutil.copyfile(other, path)
        return
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "pipe":
        os.mkfifo(path)


_REPLACED = ("swap", "delete", "directory", "loop", "dangling", "pipe")

MUTATIONS = (*_STRUCTURED, "duplicate", *_BYTES, *_REPLACED)
"""What can be done to a file."""


def mutate(rng: random.Random, kind: str, path: Path, other: Path | None) -> bool:
    """Damage a file; return whether it is another one now.

    Parameters
    ----------
    rng : Random
    kind : str
        One of :data:`MUTATIONS`.
    path : Path
    other : Path or None
        The file of the same name in another directory.
    """
    before = path.read_bytes()
    if kind in _REPLACED:
        if kind == "pipe" and path.suffix not in (".json", ".jsonl"):
            return False
        _replace(kind, path, other)
        return kind != "swap" or path.read_bytes() != before
    if kind in _BYTES:
        path.write_bytes(_BYTES[kind](rng, before))
    elif path.suffix == ".json" or (path.suffix == ".jsonl" and kind == "duplicate"):
        text = _duplicate(rng, before) if kind == "duplicate" else _restructured(rng, kind, before, other)
        path.write_bytes(text)
    elif path.suffix == ".jsonl":
        lines = before.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = _restructured(rng, kind, lines[at], None)
        path.write_bytes(b"\n".join(lines) + b"\n")
    else:
        return False
    return path.read_bytes() != before


def _restructured(rng: random.Random, kind: str, text: bytes, other: Path | None) -> bytes:
    data = json.loads(text)
    _STRUCTURED[kind](rng, data, json.loads(other.read_bytes()) if other is not None else {})
    return json.dumps(data).encode()
