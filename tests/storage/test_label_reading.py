"""Labels are read as they are written, or refused: comments, zeros, NaN, line ends, files that are no edge lists."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import DuplicateEdgeError, GraphError, InputError, MalformedLineError
from papilio.graph import BipartiteGraph
from papilio.storage import labelled
from papilio.storage import labels as relabel
from papilio.storage import text as textlines
from papilio.storage.answers import write_columns
from papilio.storage.convert import convert
from papilio.storage.interop import from_numpy, from_pandas
from papilio.storage.store import GraphStore, write_store
from papilio.storage.text_block import has_odd_zeros
from tests.storage.convert_helpers import COMPRESS, labelled_edges, write_input

BIG = 2**53 + 1
"""The first integer that a float does not hold."""


# Comments


@pytest.mark.parametrize(
    ("text", "comments", "edges"),
    [
        ("# a\n# b\n\n1 2\n", 2, [(1, 2)]),
        ("# a\n% b\n1 2\n", 2, [(1, 2)]),
        ("# a\n1,2\n", 1, [(1, 2)]),
        ("% bip\n% 1 2 2\n% more\n1 2\n", 1, [(1, 2)]),
        ("%%MatrixMarket matrix coordinate pattern general\n% c\n% d\n2 2 1\n1 2\n", 2, [(1, 2)]),
        ("# a\n2 2 1\n# b\n1 2\n", 2, [(1, 2)]),
        ("#x a\nb c\n", 1, [("b", "c")]),
    ],
)
def test_comments_before_the_data_are_counted(
    tmp_path: Path, text: str, comments: int, edges: list[tuple[Any, ...]]
) -> None:
    store = convert(write_input(tmp_path, text), tmp_path / "g")
    assert labelled_edges(store) == edges
    assert store.manifest.dropped["comments"] == comments


@pytest.mark.parametrize("mark", ["#", "%"])
@pytest.mark.parametrize("text", ["1 1\n{} half way\n2 1\n", "a b\n{} half\nc d\n", "u v\n{} x\n0 1\n0 2\n"])
def test_comments_among_the_data_are_refused(tmp_path: Path, text: str, mark: str) -> None:
    path = write_input(tmp_path, text.format(mark))
    with pytest.raises(MalformedLineError, match=f"line 2: '{mark} .*where comments end"):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert (store.n_edges, store.manifest.dropped["malformed"]) == (2, 1)


@pytest.mark.parametrize("head", ["% sym\n1 2\n", "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n"])
def test_comments_among_numbers_are_refused_in_every_format(tmp_path: Path, head: str) -> None:
    with pytest.raises(MalformedLineError, match="where comments end"):
        convert(write_input(tmp_path, head + "%1 2\n3 3\n"), tmp_path / "g")


def test_labels_that_begin_as_comments_do_are_data(tmp_path: Path) -> None:
    text = "ann #nlp\n#ml bob\n%x y\n#ml cy\n"
    store = convert(write_input(tmp_path, text), tmp_path / "g")
    assert labelled_edges(store) == sorted(tuple(line.split()) for line in text.splitlines())
    assert "lines of data that begin with # or %, read as edges: 3" in store.manifest.provenance["notes"]
    table = "tag,user\n#ml,1\n#nlp,2\n%,3\n"
    assert convert(write_input(tmp_path, table), tmp_path / "h").n_edges == 3
    other = convert(
        write_input(tmp_path, "t x y\n#a b c\n1 d e\n"),
        tmp_path / "i",
        u=2,
        v=3,
        header=False,
        format="edges",
    )
    assert other.n_edges == 3


# Zeros, decimals, NaN


@pytest.mark.parametrize("separator", [" ", ",", ";", "|", "\t", "::"])
@pytest.mark.parametrize(("code", "place"), [("00501", 0), ("-0501", 1), ("0x501", 0), ("00", 1)])
def test_codes_among_integers_are_refused(tmp_path: Path, code: str, place: int, separator: str) -> None:
    rows = [["501", "7"], ["12", "8"], ["3", "9"]]
    rows[1][place] = code
    text = "".join(separator.join(row) + "\n" for row in rows)
    with pytest.raises(MalformedLineError, match=f"line 2: .*'{code}' "):
        convert(write_input(tmp_path, text), tmp_path / "g")
    if separator != "::":
        store = convert(write_input(tmp_path, text), tmp_path / "g", labels="text")
        assert code in list(store.labels("uv"[place]))  # type: ignore[arg-type]


def test_zeros_in_other_columns_and_matrices_do_no_harm(tmp_path: Path) -> None:
    text = "1 2 0.05 007 2020-01-05\n0 10 1.07 08 2020-02-01\n"
    store = convert(write_input(tmp_path, text), tmp_path / "g", sign=3, time=4)
    assert labelled_edges(store) == [(0, 10, 1), (1, 2, 1)]
    matrix = "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n01 02\n3 1\n"
    assert labelled_edges(convert(write_input(tmp_path, matrix), tmp_path / "h")) == [(1, 2), (3, 1)]


def test_every_code_is_found_at_every_place() -> None:
    plain = b"10 200\n0 5\n-10 0\n7 0.05\n1 -0\n"
    assert not has_odd_zeros(plain * 5000, " ")
    for code in (b"07", b"-07", b"0x7", b"00"):
        for size in (0, 1, 2, 65_533, 65_534, 65_535, 65_536, 65_537):
            text = b"1" * max(size - 1, 0) + b"\n" * (size > 0) + code
            assert has_odd_zeros(text, " "), (code, size)
            assert has_odd_zeros(text + b"\n1 2\n", " ")
    assert has_odd_zeros(b"1;07\n", ";")
    assert not has_odd_zeros(b"0;0\n10;0\n0;1\n", ";")
    assert not has_odd_zeros(b"0|0\n10|0\n0|1\n", "|")


def test_decimals_that_are_integers_are_integers(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, f"1.0,{BIG}.0\n{BIG - 2}.0,2.\n1.0,3.00\n4,5\n"), tmp_path / "g")
    assert labelled_edges(store) == [(1, 3), (1, BIG), (4, 5), (BIG - 2, 2)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("1.5,2\n3,4\n", InputError, "line 1: '1.5' in column 1 is not a label"),
        ("u,v\n1,2e3\n", InputError, "line 2: '2e3' in v .column 2. is not a label"),
        ("NaN 2\n3 4\n", InputError, "1 ends of edges are missing .*, the first in line 1; missing='drop'"),
        ("1.0,2\n3.5,4\n", MalformedLineError, "line 2: '3.5,4': '3.5' is not a 64-bit integer"),
        ("1.0,2\nnan,4\n", InputError, "1 ends of edges are missing .*, the first in line 2;"),
        ("1,2\nnan,4\n", InputError, "1 ends of edges are missing .*, the first in line 2;"),
        ("1,2\n3.0,4\n", MalformedLineError, "line 2: '3.0,4': '3.0' is not"),
    ],
)
def test_what_is_no_label_is_refused(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    path = write_input(tmp_path, text)
    with pytest.raises(error, match=message):
        convert(path, tmp_path / "g", header=None if text.startswith("u") else False)
    assert convert(path, tmp_path / "g", labels="text", missing="label").n_edges > 0


def test_missing_labels_of_tables_in_memory_are_refused() -> None:
    with pytest.raises(GraphError, match="column 'u' has a missing value in row 1"):
        from_numpy(np.array([["a", "b"], [float("nan"), "b"]], dtype=object))
    with pytest.raises(GraphError, match="floats of 2\\^53 or more"):
        from_numpy(np.array([[float(BIG), 1.0], [2.0, 1.0]]), labels="integer")


# Labels beyond 2^53


@pytest.mark.parametrize("kind", ["edges", "csv", "tsv", "npy", "parquet", "pandas"])
@pytest.mark.parametrize("bipartite", [True, False])
def test_labels_beyond_a_float_stay_apart(tmp_path: Path, kind: str, bipartite: bool) -> None:
    edges = [(1, BIG - 1), (1, BIG), (1, BIG + 1), (2, 2**63 - 1), (2, 2**63 - 2)]
    u, v = (np.array(column, np.int64) for column in zip(*edges, strict=True))
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        labelled = from_pandas(pandas.DataFrame({"u": u, "v": v}), kind="bipartite" if bipartite else "unipartite")
        names = labelled.labels_v if bipartite else labelled.labels_u
        assert names is not None
        assert set(names.tolist()) >= set(v.tolist())
        assert labelled.graph.n_edges == 5
        return
    if kind == "npy":
        file = io.BytesIO()
        np.save(file, np.stack([u, v], axis=1))
        path = write_input(tmp_path, file.getvalue())
    elif kind == "parquet":
        path = tmp_path / "input.parquet"
        pq.write_table(pa.table({"u": u, "v": v}), path)
    else:
        mark = {"edges": " ", "csv": ",", "tsv": "\t"}[kind]
        path = write_input(tmp_path, "".join(f"{a}{mark}{b}\n" for a, b in edges))
    store = convert(path, tmp_path / "g", kind="bipartite" if bipartite else "unipartite")
    assert labelled_edges(store) == sorted(edges)


def test_labels_beyond_a_float_in_a_store(tmp_path: Path) -> None:
    names = [BIG - 1, BIG, BIG + 1]
    graph = BipartiteGraph.from_edges([0, 1, 2], [2, 0, 1])
    store = write_store(tmp_path / "g", graph, provenance={}, labels_u=np.array(names), labels_v=np.array(names[::-1]))
    assert labelled_edges(store) == [(BIG - 1, BIG - 1), (BIG, BIG + 1), (BIG + 1, BIG)]


def test_labels_beyond_a_float_in_an_error(tmp_path: Path) -> None:
    with pytest.raises(DuplicateEdgeError, match=rf"\(1, {BIG}\) occurs more than once"):
        convert(write_input(tmp_path, f"1 {BIG}\n1 {BIG - 1}\n1 {BIG}\n"), tmp_path / "g", duplicates="error")


# Duplicates of words, labels in chunks, labels of both layers


@pytest.mark.parametrize("time_column", [None, 4])
@pytest.mark.parametrize("bipartite", [True, False])
def test_first_and_last_of_equal_edges_between_words(tmp_path: Path, bipartite: bool, time_column: int | None) -> None:
    path = write_input(tmp_path, "ann x 1 30\nbob x -1 10\nann x -1 20\nbob x 1 10\nann x -1 10\n")
    expected = {
        ("first", None): (1, -1),
        ("last", None): (-1, 1),
        ("first", 4): (-1, -1),
        ("last", 4): (1, 1),
    }
    for policy in ("first", "last"):
        store = convert(
            path, tmp_path / policy, kind="bipartite" if bipartite else "unipartite", sign=3, time=time_column,
            duplicates=policy,
        )  # fmt: skip
        ann, bob = expected[policy, time_column]
        assert labelled_edges(store) == [("ann", "x", ann), ("bob", "x", bob)]
        assert store.manifest.dropped["duplicates"] == 3


@pytest.mark.parametrize("base", [3, 10**6])
def test_labels_that_fill_several_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: int) -> None:
    monkeypatch.setattr(relabel, "_CHUNK_LABELS", 4)
    dense = [(base + i, i) for i in range(11)]
    gaps = [(3 * i + (i > 5), 2 * i) for i in range(11)]
    for at, edges in enumerate((dense, gaps)):
        text = "".join(f"{u} {v}\n" for u, v in edges)
        store = convert(write_input(tmp_path, text), tmp_path / str(at), header=False)
        assert labelled_edges(store) == edges
        assert list(store.labels("u")) == [u for u, _ in edges]  # type: ignore[arg-type]


def test_layers_of_one_size_keep_their_own_labels(tmp_path: Path) -> None:
    graph = BipartiteGraph.from_edges([0, 1, 2], [2, 0, 1])
    store = write_store(
        tmp_path / "g",
        graph,
        provenance={},
        labels_u=np.array(["a", "b", "c"]),
        labels_v=np.array(["x", "y", "z"]),
    )
    numbers = {"u": {"count": np.arange(3)}, "v": {"count": np.arange(3) + 10}}
    write_columns(tmp_path / "t.parquet", store, numbers, {})
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == [
        {"layer": layer, "id": at, "label": names[at], "count": at + 10 * (layer == "v")}
        for layer, names in (("u", "abc"), ("v", "xyz"))
        for at in range(3)
    ]


# Line ends

TEXTS = {
    "edges": "# c\n3 1\n1 3\n2 2\n",
    "words": "ann x\nbob y\nann y\n",
    "csv": "user,item\n3,1\n1,3\n2,2\n",
    "tsv": "3\t1\n1\t3\n2\t2\n",
    "konect": "% bip\n% 3 3 3\n3 1\n1 3\n2 2\n",
    "mtx": "%%MatrixMarket matrix coordinate pattern general\n3 3 3\n3 1\n1 3\n2 2\n",
    "sizes": "3 3 3\n3 1\n1 3\n2 2\n",
    "movielens": "3::1::5::1\n1::3::4::2\n2::2::1::3\n",
    "dimacs": "c x\np edge 3 3\ne 3 1\ne 1 3\ne 2 2\n",
}


@pytest.mark.parametrize(
    ("name", "compression"),
    [*((name, "none") for name in TEXTS), ("edges", "gzip"), ("csv", "zstd"), ("mtx", "bzip2")],
)
@pytest.mark.parametrize("end", ["\r", "mixed"])
def test_line_ends_of_all_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: str, compression: str
) -> None:
    plain = convert(write_input(tmp_path, TEXTS[name]), tmp_path / "plain")
    ends = ["\r", "\n", "\r\n"] if end == "mixed" else [end]
    lines = TEXTS[name].splitlines()
    text = "".join(line + ends[at % len(ends)] for at, line in enumerate(lines))
    data = COMPRESS[compression](text.encode())
    for block in (None, 3):
        if block is not None:
            monkeypatch.setattr(textlines, "BLOCK_BYTES", block)
            monkeypatch.setattr(textlines, "_HEAD_BYTES", len(text) - 7)
        store = convert(write_input(tmp_path, data), tmp_path / str(block))
        assert store.hash == plain.hash
        assert labelled_edges(store) == labelled_edges(plain)
        assert store.manifest.provenance["format"] == plain.manifest.provenance["format"]


@pytest.mark.parametrize("end", ["\r", "\r\n"])
@pytest.mark.parametrize("text", ["1 2\n3 4\n5 x\n", "1,2\n3,4\n5,x\n"])
@pytest.mark.parametrize("block", [None, 3, 4, 5])
def test_line_numbers_with_other_line_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: str, block: int | None
) -> None:
    if block is not None:
        monkeypatch.setattr(textlines, "BLOCK_BYTES", block)
        monkeypatch.setattr(textlines, "_HEAD_BYTES", block + 5)
    with pytest.raises(MalformedLineError, match=r"line 3: '5.x': 'x' is not a 64-bit integer"):
        convert(write_input(tmp_path, text.replace("\n", end)), tmp_path / "g")


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_line_end_within_quotes_is_refused(tmp_path: Path, end: str) -> None:
    with pytest.raises(MalformedLineError, match=r"line 2: .*a label contains a line end"):
        convert(write_input(tmp_path, f'a,b\n"c{end}d",e\n'), tmp_path / "g", header=False)


@pytest.mark.parametrize("text", ["ann,2\nnan,4\n", "ann,2\nNaN,4\n", "NaN,2\nann,4\n", "cy nan\nNAN bob\n"])
def test_nan_among_words_is_a_label_if_asked_for(tmp_path: Path, text: str) -> None:
    n = text.lower().count("nan")
    with pytest.raises(InputError, match=f"{n} ends of edges are missing .*; missing='drop' .*; missing='label'"):
        convert(write_input(tmp_path, text), tmp_path / "g")
    dropped = convert(write_input(tmp_path, text), tmp_path / "d", missing="drop")
    assert dropped.n_edges == 2 - n
    assert dropped.manifest.dropped["missing"] == n
    store = convert(write_input(tmp_path, text), tmp_path / "g", missing="label")
    pairs = [tuple(line.replace(",", " ").split()) for line in text.splitlines()]
    assert sorted((str(u), str(v)) for u, v in labelled_edges(store)) == sorted(pairs)


BLANK_PAIRS = ["a\u00a0", "\u3000a", "a\x0b", "a\x0c", "a\u2003"]


@pytest.mark.parametrize("other", BLANK_PAIRS)
@pytest.mark.parametrize("mark", [",", "\t", " "])
def test_labels_that_differ_in_white_space_are_different(tmp_path: Path, other: str, mark: str) -> None:
    """Blanks and tabs around a field are no part of it; all other white space is."""
    pairs = sorted([("a", "x"), (other, "x")])
    text = "".join(f"{u}{mark}{v}\n" for u, v in pairs)
    for at, skip in enumerate((False, True)):
        store = convert(write_input(tmp_path, text), tmp_path / f"g{at}", skip_malformed=skip, labels="text")
        assert labelled_edges(store) == pairs


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\u00a0", "\u3000", "\u0663"])
@pytest.mark.parametrize("mark", [",", "\t", " ", "::"])
def test_what_only_one_line_has_costs_no_other_line(tmp_path: Path, odd: str, mark: str) -> None:
    """White space that is no blank makes one line malformed: with its number, and alone."""
    lines = [f"{at % 7}{mark}{at % 11}" + "::3::4" * (mark == "::") for at in range(5000)]
    lines[4321] = lines[4321].replace(mark, odd + mark, 1)
    path = write_input(tmp_path, "\n".join(lines) + "\n")
    with pytest.raises(MalformedLineError, match=r"line 4322: "):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert store.manifest.provenance["lines"] | {"comments": 0} == {
        "physical": 5000, "records": 4999, "malformed": 1,
        "blank": 0, "comments": 0, "continuation": 0, "header": 0,
    }  # fmt: skip
    assert store.n_edges == 77


def test_a_tab_at_the_end_of_a_line_of_colons_is_no_part_of_it(tmp_path: Path) -> None:
    text = "1::2::5::9\n" * 10 + "1::3::5::9\t\n" + "1\t::4::5::9\n"
    for at, skip in enumerate((False, True)):
        store = convert(write_input(tmp_path, text), tmp_path / f"g{at}", skip_malformed=skip)
        assert labelled_edges(store) == [(1, 2), (1, 3), (1, 4)]
    with pytest.raises(MalformedLineError, match=r"line 2: .*3 fields; expected 4"):
        convert(write_input(tmp_path, "1::2::5::9\n1\t2::5::9\n" + "1::2::5::9\n" * 9), tmp_path / "h")


# Files of other kinds, and signs that say nothing

OTHERS: dict[str, tuple[str, str]] = {
    "json lines": ('{"user": 1, "item": 2}\n{"user": 1, "item": 3}\n', "contains JSON.*jq"),
    "json": ('[\n  {"user": 1}\n]\n', "contains JSON"),
    "json lists": ("[1, 2]\n[2, 3]\n", "contains JSON"),
    "xml": ("<?xml version='1.0'?>\n<rss>\n", "looks like XML"),
    "incidence without names": ("0,1,0,1\n1,1,0,0\n", "as a matrix: 2 x 4 vertices, 4 edges"),
    "adjacency": (
        "0 1 0 1\n1 0 1 0\n0 1 0 0\n1 0 0 0\n",
        "as a matrix: 4 x 4 vertices, 6 edges; as neighbours of one set of vertices: 4 vertices, 3 edges",
    ),
    "names with blanks": ("New York Boston\nSan Jose Austin\n", "3 words; if names hold blanks"),
    "quotes": ('"ann" "new york"\n"bob" "rome"\n', "has quotes in a file separated by blanks"),
    "blanks in one name": (
        "Paris Rome\nNew York Boston\nOslo Bergen\n",
        "line 2: .*3 fields; expected 2; if names",
    ),
}


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_refused(tmp_path: Path, name: str, compression: str) -> None:
    text, message = OTHERS[name]
    with pytest.raises(InputError, match=message):
        convert(write_input(tmp_path, COMPRESS[compression](text.encode())), tmp_path / "g")


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(("codec", "encoding"), [("utf-16", None), ("utf-16-be", "utf-16-be"), ("latin-1", "latin-1")])
def test_text_of_other_encodings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str, codec: str, encoding: str | None
) -> None:
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 101)
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 51)
    data = "".join(f"näme{i},füm{i % 3}\r\n" for i in range(40)).encode(codec)
    path = write_input(tmp_path, COMPRESS[compression](data))
    store = convert(path, tmp_path / "g", encoding=encoding)
    assert sorted(labelled_edges(store)) == sorted((f"näme{i}", f"füm{i % 3}") for i in range(40))


def test_text_that_is_not_of_its_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"input.txt is not text in this encoding .*; use another"):
        convert(write_input(tmp_path, "1 2\n".encode("utf-16") + b"x"), tmp_path / "g")
    latin = write_input(tmp_path, "é,b\nc,d\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 1: .* a label is not UTF-8 \(set the encoding"):
        convert(latin, tmp_path / "g", header=False)
    for name in ("klingon", "hex", "rot13", "undefined", "a\0b", ""):
        with pytest.raises(InputError, match="unknown encoding"):
            convert(latin, tmp_path / "g", encoding=name)


def test_what_looks_like_other_kinds_can_be_forced(tmp_path: Path) -> None:
    words = write_input(tmp_path, "ann bob yea\nbob cy nay\n", "a.txt")
    assert labelled_edges(convert(words, tmp_path / "a", u=1, v=2)) == [("ann", "bob"), ("bob", "cy")]
    assert convert(words, tmp_path / "b", sign_values="yea:nay").n_edges == 2
    bits = write_input(tmp_path, "0 1 1 0\n1 1 0 1\n", "b.txt")
    assert labelled_edges(convert(bits, tmp_path / "c", u=1, v=2, layout="edges")) == [(0, 1), (1, 1)]
    matrix = convert(bits, tmp_path / "m", layout="matrix")
    assert labelled_edges(matrix) == [(1, 2), (1, 3), (2, 1), (2, 2), (2, 4)]
    assert labelled_edges(convert(bits, tmp_path / "d", format="edges")) == [(0, 1), (1, 1)]


def test_separators_within_words(tmp_path: Path) -> None:
    places = write_input(tmp_path, "New York, NY\tBoston\nRome\tParis, FR\n", "a.tsv")
    assert labelled_edges(convert(places, tmp_path / "a", header=False)) == [
        ("New York, NY", "Boston"),
        ("Rome", "Paris, FR"),
    ]
    same = write_input(tmp_path, "Doe, Jane\tParis\nRoe, Rick\tRome\n", "b.tsv")
    assert labelled_edges(convert(same, tmp_path / "b", header=False)) == [
        ("Doe, Jane", "Paris"),
        ("Roe, Rick", "Rome"),
    ]
    commas = write_input(tmp_path, "1;2;3,5\n2;3;1,5\n", "c.csv")
    assert labelled_edges(convert(commas, tmp_path / "c")) == [(1, 2), (2, 3)]


@pytest.mark.parametrize("kind", ["text", "npy", "parquet"])
@pytest.mark.parametrize(("threshold", "word"), [(1, "positive"), (9, "negative"), (4, None)])
def test_rules_that_give_one_sign_are_said(tmp_path: Path, kind: str, threshold: int, word: str | None) -> None:
    rows = [(1, 2, 3), (2, 3, 4), (3, 1, 5)]
    path = tmp_path / "input"
    if kind == "text":
        path.write_text("".join("{} {} {}\n".format(*row) for row in rows))
    elif kind == "npy":
        with path.open("wb") as file:
            np.save(file, np.array(rows))
    else:
        u, v, rating = zip(*rows, strict=True)
        pq.write_table(pa.table({"u": u, "v": v, "rating": rating}), path)
    notes = " | ".join(convert(path, tmp_path / "g", positive_from=threshold).manifest.provenance["notes"])
    assert (f"all 3 edges are {word} by the rule" in notes) is (word is not None)
    assert ("all 3 edges" in notes) is (word is not None)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_of_every_type_are_sorted_labels(dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    rng = np.random.default_rng(7)
    for values in (
        rng.integers(low, high, 500, dtype=dtype, endpoint=True),
        np.array([low, high, low], dtype),
        np.array(low, dtype) + rng.integers(0, 100, 500, dtype=dtype),
        np.array(high, dtype) - rng.integers(0, 100, 500, dtype=dtype),
        np.array([], dtype),
    ):
        pairs = np.stack((values, values[::-1]), axis=1)
        labelled = from_numpy(pairs, labels="integer")
        expected, ids = np.unique(values, return_inverse=True)
        assert labelled.labels_u is not None
        assert labelled.labels_u.tolist() == expected.tolist()
        found = {(int(u), int(v)) for u, v in zip(labelled.graph.u, labelled.graph.v, strict=True)}
        assert found == {(int(a), int(b)) for a, b in zip(ids, ids[::-1], strict=True)}


# Text too long for one array


LONG = 40
"""Most bytes of an array of the type ``string`` in these tests; 2^31 - 1 elsewhere."""


@pytest.fixture
def store_of_long_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GraphStore:
    """Return a graph whose labels of U take more than ``LONG`` bytes, in several row groups, and of V less."""
    graph = BipartiteGraph.from_edges([0, 1, 2, 3, 4, 4], [0, 1, 0, 1, 0, 1])
    monkeypatch.setattr(relabel, "_ROW_GROUP_LABELS", 2)
    monkeypatch.setattr(relabel, "_MAX_TEXT_BYTES", LONG)
    labels_u = [f"{letter * 9} of the first layer" for letter in "abcde"]
    return write_store(tmp_path / "long", graph, provenance={}, labels_u=labels_u, labels_v=["x", "y"])


def test_long_labels_are_one_array(store_of_long_labels: GraphStore) -> None:
    columns = [store_of_long_labels.label_column(layer) for layer in ("u", "v")]  # type: ignore[arg-type]
    joined = [relabel.join_labels(column) for column in columns if column is not None]
    assert [each.type for each in joined] == [pa.large_string(), pa.string()]
    assert [each.to_pylist() for each in joined] == [column.to_pylist() for column in columns if column is not None]
    some = relabel.take_labels(joined[0], pa.array([3]))
    assert (some.type, some.to_pylist()) == (pa.string(), ["ddddddddd of the first layer"])
    assert relabel.take_labels(joined[0], pa.array([3, 0])).type == pa.large_string()
    numbers = pa.chunked_array([pa.array([7, 8]), pa.array([9])])
    assert relabel.take_labels(relabel.join_labels(numbers), pa.array([2, 0])).to_pylist() == [9, 7]


def test_long_labels_are_written_beside_counts_of_edges(store_of_long_labels: GraphStore, tmp_path: Path) -> None:
    store = store_of_long_labels
    counts = np.arange(6, dtype=np.uint64)
    write_columns(tmp_path / "edges.csv", store, {"edge": {"count": counts}}, {})
    with (tmp_path / "edges.csv").open(newline="") as file:
        table = [*csv.DictReader(file)]
    labels = store.labels("u"), store.labels("v")
    graph = store.read()
    assert [row["u_label"] for row in table] == [labels[0][u] for u in graph.u]  # type: ignore[index]
    assert [row["v_label"] for row in table] == [labels[1][v] for v in graph.v]  # type: ignore[index]


def test_long_labels_are_names_of_a_listing(store_of_long_labels: GraphStore, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    papilio.enumerate(store_of_long_labels, "biclique", p=2, q=1, output=target, cluster="inline")
    found = pq.read_table(target)
    assert str(found.schema.field("u").type) == "fixed_size_list<element: string not null>[2]"
    labels_u = store_of_long_labels.labels("u")
    assert labels_u is not None
    a, b, c, d, e = labels_u.tolist()
    assert sorted((row["u"], row["v"]) for row in found.to_pylist()) == [
        ([a, c], ["x"]), ([a, e], ["x"]), ([b, d], ["y"]), ([b, e], ["y"]), ([c, e], ["x"]), ([d, e], ["y"])
    ]  # fmt: skip


@pytest.mark.parametrize("labels", [None, "text"])
def test_text_of_two_columns_is_joined_as_long_text(labels: Any) -> None:
    table = pa.table({"u": ["a", "b", "c"], "v": pa.array(["b", "c", "d"]).dictionary_encode()})
    graph = papilio.read(table, kind="unipartite", **({} if labels is None else {"labels": labels}))
    names = graph.labels("u")
    assert names is not None
    assert (graph.kind, names.tolist(), graph.n_edges) == ("unipartite", ["a", "b", "c", "d"], 3)
    joined = labelled._joined(pa.array(["a"]), pa.array(["b"]).dictionary_encode())
    assert joined.type == pa.large_string()
