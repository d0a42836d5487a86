"""Conversion: labels and ids, duplicates and loops, malformed lines, failures that leave nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.errors import CapacityError, DuplicateEdgeError, MalformedLineError, StoreError
from papilio.storage import convert as converting
from papilio.storage import disk_sort as ordering
from papilio.storage import text as textlines
from papilio.storage.convert import convert
from papilio.storage.disk_sort import DiskSorter
from papilio.storage.store import StoreWriter, open_store
from tests.storage.convert_helpers import labelled_edges, write_input


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and heads of a few dozen bytes, so that small files are parsed in many pieces."""
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 64)
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 96)
    monkeypatch.setattr(ordering, "_BATCH_ROWS", 7)


def labels(store: Any, layer: str) -> list[Any] | None:
    found = store.labels(layer)
    return None if found is None else list(found)


# Ids


def test_integer_labels_from_zero_without_gaps_are_the_ids(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "0 1\n1 1\n2 0\n"), tmp_path / "g")
    assert (store.n_u, store.n_v) == (3, 2)
    assert labels(store, "u") is None
    assert labels(store, "v") is None
    assert store.manifest.provenance["ids"] == ["labels", "labels"]


def test_integer_labels_with_gaps_get_their_ranks(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "10 7\n-3 8\n5000000000 7\n9 7\n"), tmp_path / "g")
    assert labels(store, "u") == [-3, 9, 10, 5_000_000_000]
    assert labels(store, "v") == [7, 8]
    assert labelled_edges(store) == [(-3, 8), (9, 7), (10, 7), (5_000_000_000, 7)]


def test_declared_vertices_without_edges_are_kept(tmp_path: Path) -> None:
    konect = convert(write_input(tmp_path, "% bip\n% 1 5 4\n2 3\n"), tmp_path / "a")
    assert (konect.n_u, konect.n_v) == (5, 4)
    assert labels(konect, "u") == [1, 2, 3, 4, 5]
    sizes = convert(write_input(tmp_path, "5 4 1\n1 2\n"), tmp_path / "b")
    assert (sizes.n_u, sizes.n_v) == (5, 4)
    assert labels(sizes, "u") is None
    assert sizes.hash == konect.hash


def test_text_labels_are_sorted_by_code_point(tmp_path: Path) -> None:
    text = "Zoë b\nann c\nAnn b\nΩ 10\nann 9\n"
    store = convert(write_input(tmp_path, text), tmp_path / "g")
    assert labels(store, "u") == sorted({"Zoë", "ann", "Ann", "Ω"})
    assert labels(store, "v") == sorted({"b", "c", "10", "9"})


def test_each_layer_has_its_own_type_of_labels(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "10 x\n9 y\n"), tmp_path / "g")
    assert labels(store, "u") == [9, 10]
    assert labels(store, "v") == ["x", "y"]


def test_leading_zeros_belong_to_a_label(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "007 1\n7 2\n"), tmp_path / "g")
    assert labels(store, "u") == ["007", "7"]


def test_label_type_can_be_forced(tmp_path: Path) -> None:
    path = write_input(tmp_path, "10 1\nA2 1\n9 1\n")
    with pytest.raises(MalformedLineError, match=r"'A2' is not a 64-bit integer .*set labels to text"):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", labels="text")
    assert labels(store, "u") == ["10", "9", "A2"]
    with pytest.raises(MalformedLineError, match="line 1"):
        convert(write_input(tmp_path, "x 1\n"), tmp_path / "h", labels="integer")


def test_unipartite_text_labels_share_ids(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "b a\na c\nc c\nb c\nc b\nd d\n"), tmp_path / "g", kind="unipartite")
    assert labels(store, "u") == ["a", "b", "c"]
    assert labelled_edges(store) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert store.manifest.dropped == {"duplicates": 1, "self_loops": 2, "malformed": 0, "comments": 0}


@pytest.mark.parametrize("scale", [1, 3, 10**11])
def test_paths_of_relabelling_agree(tmp_path: Path, scale: int) -> None:
    rng = np.random.default_rng(scale)
    edges = rng.integers(0, 50, (400, 2)) * scale
    text = "".join(f"{a} {b}\n" for a, b in edges)
    path = write_input(tmp_path, text)
    for kind in ("bipartite", "unipartite"):
        as_integers = convert(path, tmp_path / f"i{kind}", kind=kind)
        as_text = convert(path, tmp_path / f"t{kind}", kind=kind, labels="text")
        found = {(int(a), int(b)) for a, b in labelled_edges(as_text)}
        expected = set(labelled_edges(as_integers))
        if kind == "unipartite":
            found = {(min(e), max(e)) for e in found}
        assert found == expected
        assert len(labels(as_text, "u") or []) == as_integers.n_u


def test_too_many_vertices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.storage.labels.MAX_VERTICES", 2)
    with pytest.raises(CapacityError, match="more than 2 labels"):
        convert(write_input(tmp_path, "a x\nb x\nc x\n"), tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


# Duplicates and loops


def test_duplicates_by_place_in_the_file(tmp_path: Path) -> None:
    path = write_input(tmp_path, "0 0 1\n1 0 -1\n0 0 -1\n0 0 -1\n1 0 1\n0 1 1\n")
    first = convert(path, tmp_path / "f", sign=3)
    last = convert(path, tmp_path / "l", sign=3, duplicates="last")
    assert labelled_edges(first) == [(0, 0, 1), (0, 1, 1), (1, 0, -1)]
    assert labelled_edges(last) == [(0, 0, -1), (0, 1, 1), (1, 0, 1)]
    assert first.manifest.dropped["duplicates"] == last.manifest.dropped["duplicates"] == 3


@pytest.mark.parametrize(
    ("times", "first", "last"),
    [
        ((30, 10, 20), -1, 1),
        ((10, 10, 10), 1, 1),
        ((1.5, 1.25, 9.0), -1, 1),
        (("2024-02-01", "2024-01-31", "2024-01-30"), 1, 1),
        ((10, 9, 9), -1, 1),
    ],
)
def test_duplicates_by_time_then_place(tmp_path: Path, times: tuple[Any, ...], first: int, last: int) -> None:
    signs = (1, -1, 1)
    text = "".join(f"4 4 {sign} {time}\n" for sign, time in zip(signs, times, strict=True))
    path = write_input(tmp_path, text)
    for duplicates, expected in (("first", first), ("last", last)):
        store = convert(path, tmp_path / duplicates, sign=3, time=4, duplicates=duplicates)
        assert labelled_edges(store) == [(4, 4, expected)]
    assert store.manifest.provenance["layout"]["time_column"] == 4


@pytest.mark.parametrize(("text", "edge"), [("7 9\n8 9\n7 9\n", "7, 9"), ("x y\nw y\nx y\n", "x, y")])
def test_duplicates_as_an_error(tmp_path: Path, text: str, edge: str) -> None:
    path = write_input(tmp_path, text)
    with pytest.raises(DuplicateEdgeError, match=rf"input.txt: the edge \({edge}\) occurs more than once"):
        convert(path, tmp_path / "g", duplicates="error")
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]
    convert(write_input(tmp_path, "1 2\n2 1\n"), tmp_path / "g", duplicates="error")
    with pytest.raises(DuplicateEdgeError, match=r"\(1, 2\)"):
        convert(write_input(tmp_path, "1 2\n2 1\n"), tmp_path / "h", duplicates="error", kind="unipartite")


def test_duplicates_across_batches(tmp_path: Path, small_blocks: None) -> None:
    text = "".join(f"{i % 3} 1 {1 if i < 3 else -1}\n" for i in range(300))
    store = convert(write_input(tmp_path, text), tmp_path / "g", sign=3)
    assert labelled_edges(store) == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    assert store.manifest.dropped["duplicates"] == 297


def test_equal_numbers_are_a_loop_in_a_unipartite_graph_only(tmp_path: Path) -> None:
    path = write_input(tmp_path, "0 0\n0 1\n1 0\n2 2\n")
    bipartite = convert(path, tmp_path / "b")
    assert bipartite.n_edges == 4
    assert bipartite.manifest.dropped == {"duplicates": 0, "self_loops": 0, "malformed": 0, "comments": 0}
    unipartite = convert(path, tmp_path / "u", kind="unipartite")
    assert labelled_edges(unipartite) == [(0, 1)]
    assert unipartite.n_u == 2
    assert unipartite.manifest.dropped == {"duplicates": 1, "self_loops": 2, "malformed": 0, "comments": 0}


def test_signs_of_an_undirected_edge(tmp_path: Path) -> None:
    path = write_input(tmp_path, "5 3 -1\n3 5 1\n3 4 1\n")
    store = convert(path, tmp_path / "g", kind="unipartite", sign=3)
    assert labelled_edges(store) == [(3, 4, 1), (3, 5, -1)]


# Malformed lines

MALFORMED: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "too few fields": ("0 1\n0\n1 1\n", {}, 2, "'0': 1 fields; expected 2"),
    "too many fields": ("0 1\n1 1\n0 1 5\n", {}, 3, "3 fields; expected 2"),
    "word": ("0 1\nx y\n1 1\n", {}, 2, "'x y': 'x' is not a 64-bit integer"),
    "fraction": ("0 1\n0 1.5\n1 1\n", {}, 2, "'1.5' is not a 64-bit integer"),
    "hexadecimal": ("0 1\n0x1 1\n1 1\n", {}, 2, "'0x1' is not a 64-bit integer"),
    "too large": (f"0 1\n{2**63} 1\n1 1\n", {}, 2, "is not a 64-bit integer"),
    "after comments": ("# c\n\n0 1\n1 2\n1 z\n", {}, 5, "'z' is not a 64-bit integer"),
    "first line": ("0\n0 1\n1 1\n1 2\n", {}, 1, "1 fields; expected 2"),
    "after a header": ("u,v\n0,1\n0,\n", {}, 3, "'' is not a 64-bit integer"),
    "crlf": ("0\t1\r\n1\t\r\n", {}, 2, "'' is not a 64-bit integer"),
    "empty label": ("a,b\nx,\n", {"header": False}, 2, "a label is empty"),
    "quotes": (
        'a,b\n"x,y\n',
        {"header": False, "labels": "text"},
        2,
        "its quotes do not follow the rules of CSV",
    ),
    "sign word": ("0 1 1\n1 1 up\n", {"sign": 3}, 2, "column 3 is 'up', not a number; name the words"),
    "sign not finite": ("0 1 1\n1 1 nan\n", {"sign": 3}, 2, "column 3 is 'nan', not a number"),
    "unknown sign": ("0 1 a\n1 1 c\n", {"sign_values": "a:b"}, 2, "the sign values are 'a', 'b'"),
    "sign missing": ("0,1,1\n1,1,\n", {"sign": 3}, 2, "it is empty"),
    "time": ("0 1 1 5\n1 1 1 x\n", {"sign": 3, "time": 4}, 2, "the time 'x' is not a number"),
    "colons": ("1::2::3::4\n1:2:3:4\n", {}, 2, "1 fields; expected 4"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_line_is_named(tmp_path: Path, name: str) -> None:
    text, options, line, message = MALFORMED[name]
    path = write_input(tmp_path, text)
    with pytest.raises(MalformedLineError) as caught:
        convert(path, tmp_path / "g", layout="edges", **options)
    assert f"{path}, line {line}: " in str(caught.value)
    assert message in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_line_is_skipped_and_counted(tmp_path: Path, name: str) -> None:
    text, options, line, _ = MALFORMED[name]
    lines = text.split("\n")
    without = "\n".join(lines[: line - 1] + lines[line:])
    path = write_input(tmp_path, text)
    store = convert(path, tmp_path / "g", skip_malformed=True, layout="edges", **options)
    assert store.manifest.dropped["malformed"] == 1
    clean = convert(write_input(tmp_path, without), tmp_path / "h", layout="edges", **options)
    assert clean.manifest.dropped["malformed"] == 0
    assert store.hash == clean.hash
    assert labelled_edges(store) == labelled_edges(clean)


def test_labels_that_are_not_utf8(tmp_path: Path) -> None:
    path = write_input(tmp_path, b"a b\nc \xff\n")
    with pytest.raises(MalformedLineError, match=r"line 2: .*a label is not UTF-8"):
        convert(path, tmp_path / "g")


def test_line_numbers_and_counts_over_many_blocks(tmp_path: Path, small_blocks: None) -> None:
    bad = {137, 138, 400, 950}
    lines = [f"{i} oops" if i in bad else f"{i % 7} {i % 11}" for i in range(1, 1001)]
    path = write_input(tmp_path, "\n".join(lines))
    with pytest.raises(MalformedLineError, match=r"line 137: '137 oops'"):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert store.manifest.dropped == {"duplicates": 996 - 77, "self_loops": 0, "malformed": 4, "comments": 0}
    assert labelled_edges(store) == [(u, v) for u in range(7) for v in range(11)]


def test_malformed_lines_count_towards_declared_lines(tmp_path: Path) -> None:
    path = write_input(tmp_path, "2 2 3\n0 0\n0 x\n1 1\n")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert (store.n_edges, store.manifest.dropped["malformed"]) == (2, 1)


def test_long_lines_are_shortened_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MalformedLineError, match=r"x{199}\.\.\.': 1 fields"):
        convert(write_input(tmp_path, "1 1\n2 1\n" + "x" * 5000 + "\n"), tmp_path / "g")
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(textlines, "_MAX_LINE_BYTES", 3000)
    with pytest.raises(MalformedLineError, match="line 301: longer than 3000 bytes"):
        convert(write_input(tmp_path, "1 2\n" * 300 + "x" * 9000 + "\n"), tmp_path / "g")


# Failures and the surroundings


def test_crash_while_reading_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_input(tmp_path, "0 1\n")
    original = textlines.TextSource.batches

    def crashing(self: textlines.TextSource) -> Iterator[pa.RecordBatch]:
        yield from original(self)
        assert len(list(tmp_path.iterdir())) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr(textlines.TextSource, "batches", crashing)
    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


def test_crash_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_input(tmp_path, "0 1\n")

    def crashing(self: StoreWriter, *columns: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 3
        raise RuntimeError("power cut")

    monkeypatch.setattr(StoreWriter, "append", crashing)
    with pytest.raises(RuntimeError, match="power cut"):
        convert(path, tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


def test_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_input(tmp_path, "0 1\n")

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(converting.pq.ParquetWriter, "write_batch", full)
    with pytest.raises(CapacityError, match=rf"{tmp_path}: .*use another temp_dir; the disk is full"):
        convert(path, tmp_path / "g")


def test_sorting_beyond_the_memory_is_said(tmp_path: Path) -> None:
    raw = tmp_path / "raw.parquet"
    pq.write_table(pa.table({"u": np.arange(3_000_000), "v": np.arange(3_000_000)}), raw)
    with (
        ordering.DiskSorter(tmp_path, 4 << 20, 1) as duck,
        pytest.raises(CapacityError, match="sorting failed with 4 MiB of memory"),
    ):
        list(duck.order_edges(raw, ("u", "v"), last=False))


def test_existing_output_is_refused_before_reading(tmp_path: Path) -> None:
    path = write_input(tmp_path, "0 1\n")
    old = convert(path, tmp_path / "g")
    with pytest.raises(StoreError, match="already exists"):
        convert(tmp_path / "not-even-there.txt", tmp_path / "g")
    new = convert(write_input(tmp_path, "1 1\n2 1\n"), tmp_path / "g", overwrite=True)
    assert open_store(tmp_path / "g").hash == new.hash != old.hash


def test_scratch_files_go_where_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    seen: list[list[str]] = []

    def progress(phase: str, done: int, total: int) -> None:
        seen.append([p.name for p in (tmp_path / "scratch").iterdir()])

    path = write_input(tmp_path, "5 1\n")
    convert(path, tmp_path / "g", temp_dir=tmp_path / "scratch", progress=progress)
    assert all(len(names) == 1 for names in seen)
    assert list((tmp_path / "scratch").iterdir()) == []
    with pytest.raises(StoreError, match="does not exist; create it first"):
        convert(path, tmp_path / "h", temp_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("named", [False, True])
def test_a_directory_that_can_only_be_read_is_named_not_its_space(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**given: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), f"{given['dir']}/.h.convert-x")

    path = write_input(tmp_path, "5 1\n")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", fail)
    with pytest.raises(StoreError) as caught:
        convert(path, tmp_path / "h", temp_dir=tmp_path if named else None)
    what = f"temp_dir {tmp_path} cannot be used" if named else f"{tmp_path / 'h'} cannot be created in {tmp_path}"
    remedy = "it can only be read: have it mounted for writing, or choose another directory"
    assert str(caught.value) == f"{what} (Read-only file system); {remedy}"


def test_progress_ends_at_the_whole(tmp_path: Path, small_blocks: None) -> None:
    path = write_input(tmp_path, "".join(f"{i % 50} {i % 3}\n" for i in range(500)))
    calls: list[tuple[str, int, int]] = []
    convert(path, tmp_path / "g", progress=lambda *call: calls.append(call))
    for phase, total in (("read", path.stat().st_size), ("write", 500)):
        done = [call[1] for call in calls if call[0] == phase]
        assert {call[2] for call in calls if call[0] == phase} == {total}
        assert done == sorted(done)
        assert done[-1] == total
        assert len(done) > 10


def test_duckdb_draws_no_progress_bar_of_its_own(tmp_path: Path) -> None:
    # Its default depends on the main module, which has no file with python -c, as in notebooks.
    code = (
        "import sys; from pathlib import Path; from papilio.storage.convert import DiskSorter\n"
        "with DiskSorter(Path(sys.argv[1]), 1 << 28, 1) as sorter:\n"
        "    (batch,) = sorter.stream(\"SELECT current_setting('enable_progress_bar') AS shown\")\n"
        "assert not batch.column(0)[0].as_py(), batch\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_a_notebook_whose_progress_bar_cannot_be_changed_converts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Notebook:
        """A connection in a notebook without ipywidgets."""

        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def execute(self, query: str, *parameters: Any) -> Any:
            if "progress_bar" in query:
                raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return self._connection.execute(query, *parameters)

    real = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda **options: Notebook(real(**options)))
    with DiskSorter(tmp_path, 1 << 28, 1) as sorter:
        assert [batch.to_pylist() for batch in sorter.stream("SELECT 1 AS one")] == [[{"one": 1}]]
