"""Inputs of every format, whole and damaged: the right graph, or an error that names the file; nothing left behind.

A graph is drawn with its labels and written in one of the formats. As it is, it must come back exactly, which an own
reading by definition tells: the set of pairs of labels that were written. Then its text is changed by what a seed
draws: what comes of it may be any graph or an error of Papilio, but no other error, and no partial store.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import InputError, PapilioError
from tests.storage.convert_helpers import COMPRESS, labelled_edges

CASES = int(os.environ.get("PAPILIO_FUZZED", "3000"))
"""Damaged inputs of the long test."""

SEED = int(os.environ.get("PAPILIO_SEED", "1"))

Edges = list[tuple[Any, Any]]


def _lines(edges: Edges, mark: str, head: str = "", after: str = "") -> bytes:
    return (head + "".join(f"{u}{mark}{v}{after}\n" for u, v in edges)).encode()


def _quoted(edges: Edges) -> bytes:
    return ("user,item\n" + "".join(f'"{u}","{v}"\n' for u, v in edges)).encode()


def _matrix(edges: Edges) -> bytes:
    head = f"%%MatrixMarket matrix coordinate pattern general\n% made\n9 9 {len(edges)}\n"
    return _lines(edges, " ", head)


def _npy(edges: Edges) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(edges, np.int64).reshape(-1, 2))
    return file.getvalue()


def _parquet(edges: Edges) -> bytes:
    file = io.BytesIO()
    u, v = zip(*edges, strict=True)
    pq.write_table(pa.table({"u": list(u), "v": list(v)}), file)
    return file.getvalue()


FORMATS: dict[str, tuple[Callable[[Edges], bytes], bool]] = {
    "konect": (lambda edges: _lines(edges, " ", "% bip unweighted\n"), False),
    "konect sizes": (lambda edges: _lines(edges, "\t", f"% bip unweighted\n% {len(edges)} 9 9\n"), False),
    "snap": (lambda edges: _lines(edges, "\t", "# Directed graph\n# FromNodeId ToNodeId\n"), False),
    "sizes": (lambda edges: _lines([(u, v) for u, v in edges], " ", f"10 10 {len(edges)}\n"), False),
    "movielens": (lambda edges: _lines(edges, "::", after="::5::978300760"), False),
    "mtx": (_matrix, False),
    "csv": (lambda edges: _lines(edges, ","), True),
    "csv names": (lambda edges: _lines(edges, ";", "user;item;stars\n", ";4"), True),
    "csv quotes": (_quoted, True),
    "tsv": (lambda edges: _lines(edges, "\t", after="\tx"), True),
    "edges": (lambda edges: _lines(edges, "   "), True),
    "npy": (_npy, False),
    "parquet": (_parquet, True),
}
"""How edges are written, and whether labels may be words."""

NUMBERS = (
    b"99999999999999999999",
    b"-1",
    b"NaN",
    b"0x1f",
    b"1e3",
    b"1.5",
    b"+2",
    b"007",
    b"inf",
    b"",
    b"\xd9\xa3",
)
PIECES = (
    b"\r", b"\0", b"\xef\xbb\xbf", b'"', b",", b"\t", b"  ", b"::", b"\n\n", b"\r\n", b"#", b"%", b"\xff", b"\x0c",
    "é".encode("latin-1"), "é".encode("utf-16"), "\u2028".encode(), b"x" * 70_000, b"1 2", b"%%MatrixMarket\n",
)  # fmt: skip


def draw_edges(rng: random.Random, words: bool) -> Edges:
    """Draw up to 30 edges between 1 to 9, or words; some of them twice."""
    name: Callable[[int], Any] = (lambda i: f"n{i}ä") if words else int
    return [(name(rng.randint(1, 9)), name(rng.randint(1, 9))) for _ in range(rng.randint(1, 30))]


def _number(rng: random.Random, data: bytes) -> bytes:
    places = [at for at in range(len(data)) if data[at : at + 1].isdigit()]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice(NUMBERS) + data[at + 1 :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(PIECES) + data[at + rng.randint(0, 2) :]


def _lines_moved(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines)) if lines else 0
    how = rng.choice(("drop", "double", "join", "first"))
    if how == "drop":
        del lines[at : at + 1]
    elif how == "double":
        lines[at:at] = lines[at : at + 1] * rng.choice((1, 2000))
    elif how == "join":
        lines[at : at + 1] = [line.rstrip(b"\n") for line in lines[at : at + 1]]
    else:
        lines[:0] = lines[at : at + 1]
    return b"".join(lines)


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 8)) if data else 0):
        changed[rng.randrange(min(len(changed), rng.choice((12, 200, len(changed)))))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _recode(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", errors="replace")
    return text.encode(rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32")), errors="replace")


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _number,
    _insert,
    _lines_moved,
    _flip,
    _recode,
    lambda rng, data: data[: rng.randint(0, len(data))],
    lambda rng, data: data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r"))),
)

OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"skip_malformed": True}, {"kind": "unipartite"}, {"labels": "text"}, {"labels": "integer"},
    {"sign": 3}, {"positive_from": 3.0}, {"sign_values": "4,x:5"}, {"header": True}, {"header": False},
    {"duplicates": "error"}, *({"format": name} for name in ("csv", "tsv", "mtx", "sizes", "konect", "npy", "parquet")),
)  # fmt: skip


def write_case(rng: random.Random, name: str, directory: Path, damaged: bool) -> tuple[Path, Edges]:
    """Write an input; return it and the edges that were meant."""
    write, may_have_words = FORMATS[name]
    edges = draw_edges(rng, may_have_words and rng.random() < 0.5)
    data, compression = write(edges), rng.choice(list(COMPRESS))
    for _ in range(rng.choice((1, 1, 2, 3)) if damaged else 0):
        data = rng.choice(MUTATIONS)(rng, data)
    data = COMPRESS[compression](data)
    if damaged and compression != "none" and rng.random() < 0.3:
        data = rng.choice(MUTATIONS[3:4] + MUTATIONS[5:6])(rng, data)
    path = directory / "input"
    path.write_bytes(data)
    return path, edges


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_whole_comes_back(tmp_path: Path, name: str) -> None:
    rng = random.Random(f"{SEED} {name}")
    for at in range(2):
        path, edges = write_case(rng, name, tmp_path, damaged=False)
        store = papilio.convert(path, tmp_path / f"out{at}")
        assert labelled_edges(store) == sorted(set(edges))
        assert store.manifest.dropped["duplicates"] == len(edges) - len(set(edges))


def check(seed: str, name: str, directory: Path) -> None:
    """Convert a damaged input; only its store, or nothing, may be beside it afterwards."""
    rng = random.Random(seed)
    path, _ = write_case(rng, name, directory, damaged=True)
    options, before = rng.choice(OPTIONS), path.read_bytes()
    what = f"seed {seed!r}: {name} {options} {before[:60]!r}"
    left, said = {"input"}, "input"
    try:
        store = papilio.convert(path, directory / "out", **options)
        store.verify()
        left |= {"out"}
    except PapilioError as error:
        said = str(error)
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    assert "input" in said, f"{what}: {said}"
    assert {each.name for each in directory.iterdir()} == left, what
    assert path.read_bytes() == before, what


def test_a_few_damaged_inputs(tmp_path: Path) -> None:
    for at, name in enumerate([*FORMATS] * 4):
        (tmp_path / str(at)).mkdir()
        check(f"{SEED} {at}", name, tmp_path / str(at))


@pytest.mark.slow
def test_thousands_of_damaged_inputs(tmp_path: Path) -> None:
    """``PAPILIO_FUZZED`` says how many, ``PAPILIO_SEED`` which."""
    for at in range(CASES):
        (tmp_path / str(at)).mkdir()
        check(f"long {SEED} {at}", list(FORMATS)[at % len(FORMATS)], tmp_path / str(at))


def test_damaged_parquet_files_are_errors_of_the_input(tmp_path: Path) -> None:
    """Most damage is done to the footer, which no checksum covers; text that is no UTF-8 is met there and in pages."""
    labels = [f"us\N{LATIN SMALL LETTER E WITH ACUTE}r {number % 37}" for number in range(400)]
    table = pa.table({"user": labels, "item": [number * 7 % 91 for number in range(400)]})
    path = tmp_path / "edges.parquet"
    pq.write_table(table, path)
    whole = path.read_bytes()
    footer = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    rng, messages = random.Random(SEED), []
    names = whole.index(b"item", footer), whole.index(labels[0].encode()) + 2
    for case in range(150):
        data = bytearray(whole)
        data[names[case] if case < 2 else rng.randrange(footer if case % 3 else 4, len(data))] ^= 1 << 7
        path.write_bytes(data)
        try:
            papilio.convert(path, tmp_path / "g", overwrite=True)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(str(path) in message for message in messages)
    assert {each.name for each in tmp_path.iterdir()} <= {"edges.parquet", "g"}
