"""Several files, directories, patterns, URLs and standard input become one store, as one file with their rows would."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import sys
import threading
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import InputError, MalformedLineError, PapilioError, StoreError
from papilio.storage import text as textlines
from papilio.storage.convert import convert
from tests.storage.convert_helpers import COMPRESS, labelled_edges, write_input

ROWS = [("ann", "x", 5), ("bob", "y", 1), ("ann", "y", 4), ("cy", "x", 2), ("bob", "x", 3), ("dee", "z", 5)]
EDGES = sorted((user, film) for user, film, _ in ROWS)


def lines(rows: list[tuple[Any, ...]], header: str = "user,film,stars\n") -> str:
    return header + "".join(",".join(map(str, row)) + "\n" for row in rows)


def notes(store: Any) -> str:
    return " | ".join(store.manifest.provenance["notes"])


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A directory as Spark writes it: parts with a line of names each, one of them compressed, two empty."""
    folder = tmp_path / "ratings"
    folder.mkdir()
    write_input(folder, lines(ROWS[:2]), "part-2.csv")
    write_input(folder, gzip.compress(lines(ROWS[2:4]).encode()), "part-10.csv.gz")
    write_input(folder, lines(ROWS[4:]), "part-9.csv")
    write_input(folder, "", "part-11.csv")
    write_input(folder, lines([]), "part-12.csv")
    write_input(folder, "", "_SUCCESS")
    write_input(folder, "x", ".part-2.csv.crc")
    return folder


def test_files_are_read_in_the_order_of_their_numbers(parts: Path, tmp_path: Path) -> None:
    rows = [*ROWS[:2], *ROWS[4:], *ROWS[2:4]]
    whole = convert(write_input(tmp_path, lines(rows), "whole.csv"), tmp_path / "whole", positive_from=4)
    for at, given in enumerate((parts, parts / "part-*.csv*", tmp_path / "r*" / "part-*", f"file://{parts}")):
        store = convert(given, tmp_path / f"g{at}", positive_from=4)
        assert (store.hash, labelled_edges(store)) == (whole.hash, labelled_edges(whole))
        found = store.manifest.provenance
        assert (found["source_files"], found["edges_read"]) == (5, 6)
        assert found["layout"]["read"]["u"] == "user (column 1)"


@pytest.mark.parametrize(("duplicates", "sign"), [("first", -1), ("last", 1)])
def test_of_equal_edges_the_place_in_all_files_counts(tmp_path: Path, duplicates: Any, sign: int) -> None:
    names = [str(write_input(tmp_path, f"a,b,{stars}\n", f"{stars}.csv")) for stars in (1, 3, 5)]
    store = convert(names, tmp_path / "g", positive_from=4, duplicates=duplicates)
    assert labelled_edges(store) == [("a", "b", sign)]
    assert store.manifest.dropped["duplicates"] == 2


def test_columns_are_found_by_their_names_in_every_file(tmp_path: Path) -> None:
    one = write_input(tmp_path, lines(ROWS[:3]), "a.csv")
    swapped = [(stars, film, user) for user, film, stars in ROWS[3:]]
    other = write_input(tmp_path, lines(swapped, "stars,film,user\n"), "b.csv")
    bare = write_input(tmp_path, lines(ROWS[3:], ""), "c.csv")
    assert labelled_edges(convert([one, other], tmp_path / "g")) == EDGES
    assert labelled_edges(convert([one, bare], tmp_path / "h")) == EDGES
    assert labelled_edges(convert([one, bare], tmp_path / "i", header=True)) == EDGES
    with pytest.raises(InputError, match=r"b.csv has a line of names, but the first file has none"):
        convert([bare, other], tmp_path / "j")
    renamed = write_input(tmp_path, lines(swapped, "stars,film,who\n"), "d.csv")
    with pytest.raises(InputError, match=r"d.csv has no column 'user' for u; it has stars .*who"):
        convert([one, renamed], tmp_path / "j")


def test_labels_are_of_the_type_of_the_first_file(tmp_path: Path) -> None:
    words, numbers = write_input(tmp_path, "a1 7\n", "a"), write_input(tmp_path, "7 7\n17 8\n", "b")
    store = convert([words, numbers], tmp_path / "g")
    assert labelled_edges(store) == [("17", 8), ("7", 7), ("a1", 7)]
    with pytest.raises(MalformedLineError, match=r"a, line 1: 'a1 7': 'a1' is not a 64-bit integer"):
        convert([numbers, words], tmp_path / "h")


def test_a_first_line_of_numbers_is_an_edge_in_all_files_or_looked_at_in_each(tmp_path: Path) -> None:
    rows = [(i % 7, i % 5) for i in range(20)]
    text = "".join(f"{u} {v}\n" for u, v in rows)
    one, two = write_input(tmp_path, text[:40], "a"), write_input(tmp_path, "7 10\n" + text[40:], "b")
    store = convert([one, two], tmp_path / "g", kind="unipartite", layout="edges")
    whole = convert(
        write_input(tmp_path, text[:40] + "7 10\n" + text[40:]),
        tmp_path / "h",
        kind="unipartite",
        layout="edges",
    )
    assert store.hash == whole.hash, "a file of ten edges that begins with 7 10"
    sized = [write_input(tmp_path, f"9 {len(part) // 4}\n" + part, "s" + part[0]) for part in (text[:40], text[40:])]
    store = convert(sized, tmp_path / "i", kind="unipartite", layout="edges")
    assert (store.n_u, store.n_edges) == (9, len({(min(e), max(e)) for e in rows if e[0] != e[1]}))
    assert "is a header: 9 10" in notes(store)


def test_declared_sizes_hold_for_all_files(tmp_path: Path) -> None:
    one = write_input(tmp_path, "% bip\n% 1 9 4\n1 1\n", "a")
    two = write_input(tmp_path, "% bip\n% 2 3 8\n3 8\n2 2\n", "b")
    store = convert([one, two], tmp_path / "g")
    assert (store.n_u, store.n_v, store.n_edges) == (9, 8, 3)
    other = write_input(tmp_path, "4 4 3\n0 0\n1 1\n", "c")
    with pytest.raises(InputError, match=r"c declares 3 edges but has 2"):
        convert([write_input(tmp_path, "2 2 1\n0 1\n", "d"), other], tmp_path / "h")


def test_errors_name_the_file_and_its_line(parts: Path, tmp_path: Path) -> None:
    write_input(parts, lines([*ROWS[4:], ("eve",)]), "part-9.csv")
    with pytest.raises(MalformedLineError, match=r"ratings/part-9.csv, line 4: 'eve': 1 fields; expected 3"):
        convert(parts, tmp_path / "g")
    store = convert(parts, tmp_path / "g", skip_malformed=True)
    assert (store.manifest.dropped["malformed"], store.n_edges) == (1, 6)
    write_input(parts, lines(ROWS[4:]), "part-9.csv")
    pq.write_table(pa.table({"user": ["a"], "film": ["b"]}), parts / "part-13.parquet")
    with pytest.raises(InputError, match=r"part-13.parquet is of the format parquet, and the first file is text"):
        convert(parts, tmp_path / "h")


def test_what_is_not_there(parts: Path, tmp_path: Path) -> None:
    for given, message in (
        (parts / "*.tsv", r"\*.tsv matches no file"),
        (parts / "part-1.csv", "part-1.csv does not exist"),
        (["-", "-"], "standard input .* was given twice"),
    ):
        with pytest.raises(InputError, match=message):
            convert(given, tmp_path / "g")  # type: ignore[arg-type]
    store = convert(parts, tmp_path / "g")
    with pytest.raises(InputError, match="is already a graph store"):
        convert(store.path, tmp_path / "h")
    odd = write_input(tmp_path, "1 2\n", "a[1].txt")
    assert convert(odd, tmp_path / "h").n_edges == 1
    with pytest.raises(StoreError, match=r"nonsense://host/file: cannot be reached \(Protocol not known"):
        convert("nonsense://host/file", tmp_path / "i")
    with pytest.raises(PapilioError, match=r"https://127.0.0.1:1/file.* cannot be reached"):
        convert("https://127.0.0.1:1/file", tmp_path / "i")


def table(rows: list[tuple[Any, ...]], width: Any = None) -> pa.Table:
    users, films, stars = zip(*rows, strict=True)
    return pa.table({"user": users, "film": films, "stars": pa.array(stars, width)})


def test_a_table_of_parquet_files(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    for year, rows in (("year=2023", ROWS[:3]), ("year=2024", ROWS[3:])):
        (folder / year).mkdir(parents=True)
        pq.write_table(table(rows, pa.int8() if year.endswith("3") else pa.int64()), folder / year / "part.0.parquet")
    write_input(folder, "", "_SUCCESS")
    for at, given in enumerate((folder, f"{folder}/*/*.parquet", f"file://{folder}")):
        store = convert(given, tmp_path / f"g{at}", positive_from=4)
        assert labelled_edges(store) == sorted((u, f, 1 if s > 3 else -1) for u, f, s in ROWS)
    by_year = convert(folder, tmp_path / "y", u="user", v="year")
    assert labelled_edges(by_year) == [
        ("ann", 2023),
        ("bob", 2023),
        ("bob", 2024),
        ("cy", 2024),
        ("dee", 2024),
    ]
    pq.write_table(table(ROWS).drop(["film"]), folder / "year=2024" / "part.1.parquet")
    with pytest.raises(InputError, match=r"part.1.parquet has no column film, unlike .*2023/part.0.parquet"):
        convert(folder, tmp_path / "h")
    pq.write_table(table([("a", None, 1)]), folder / "year=2024" / "part.1.parquet")
    with pytest.raises(InputError, match=r"part.1.parquet: column film has 1 missing values in rows 0 to 0"):
        convert(folder, tmp_path / "h")
    write_input(folder / "year=2024", "no table", "part.1.parquet")
    with pytest.raises(InputError, match=r"part.1.parquet is not a readable Parquet file"):
        convert(folder, tmp_path / "h")


def test_widths_of_integers_may_differ_from_file_to_file(tmp_path: Path) -> None:
    narrow = pa.table({"u": pa.array([1], pa.int32()), "v": pa.array([1], pa.int8())})
    wide = pa.table({"v": pa.array([2**40]), "u": pa.array([2**50])})
    for name, each in (("a", narrow), ("b", wide)):
        pq.write_table(each, tmp_path / f"{name}.parquet")
    store = convert([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "g")
    assert labelled_edges(store) == [(1, 1), (2**50, 2**40)]
    pq.write_table(pa.table({"u": ["x"], "v": [1]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"c.parquet and .*a.parquet do not match"):
        convert([tmp_path / "a.parquet", tmp_path / "c.parquet"], tmp_path / "h")


class _Pipe(io.RawIOBase):
    """A stream that cannot be sought in and gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def read(self, n_bytes: int = -1) -> bytes:
        data, self._rest = self._rest[: min(n_bytes, 7)], self._rest[min(n_bytes, 7) :]
        return data


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("kind", ["csv", "parquet", "sizes"])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str, kind: str) -> None:
    data = lines(ROWS).encode()
    if kind == "parquet":
        pq.write_table(table(ROWS), tmp_path / "table")
        data = (tmp_path / "table").read_bytes()
    elif kind == "sizes":  # longer than what is looked at
        monkeypatch.setattr(textlines, "_HEAD_BYTES", 101)
        monkeypatch.setattr(textlines, "BLOCK_BYTES", 51)
        data = b"99 99 90\n" + b"".join(b"%d %d 1\n" % (i, i) for i in range(90))

    class Standard:
        buffer = _Pipe(COMPRESS[compression](data))

    monkeypatch.setattr(sys, "stdin", Standard)
    store = convert("-", tmp_path / "g")
    assert (store.n_u, store.n_edges) == ((99, 90) if kind == "sizes" else (4, 6))
    assert store.manifest.provenance["source"] == "-"


def test_urls_of_fsspec(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for at, rows in enumerate((ROWS[:2], ROWS[2:])):
        memory.pipe(f"/papilio-test/csv/part-{at}.csv.gz", gzip.compress(lines(rows).encode()))
        with memory.open(f"/papilio-test/parquet/year={at}/a.parquet", "wb") as file:
            pq.write_table(table(rows), file)
    try:
        for at, given in enumerate(("csv", "csv/*.gz", "csv/part*", "parquet", "parquet/*/a.parquet")):
            assert labelled_edges(convert(f"memory://papilio-test/{given}", tmp_path / f"g{at}")) == EDGES
        memory.put(str(tmp_path / "g0"), "/papilio-test/store", recursive=True)
        assert papilio.read("memory://papilio-test/store").n_edges == len(EDGES)
        with pytest.raises(InputError, match="memory://papilio-test/none does not exist"):
            convert("memory://papilio-test/none", tmp_path / "h")
    finally:
        memory.rm("/papilio-test", recursive=True)


def test_files_of_a_web_server(tmp_path: Path, parts: Path) -> None:
    pytest.importorskip("aiohttp", reason="fsspec reads https with aiohttp (papilio[https])")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(parts))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        store = convert([f"{address}/part-{n}" for n in ("2.csv", "10.csv.gz", "9.csv")], tmp_path / "g")
        assert labelled_edges(store) == EDGES
        with pytest.raises(InputError, match=r"none.csv does not exist"):
            convert(f"{address}/none.csv", tmp_path / "h")
        server.shutdown()
