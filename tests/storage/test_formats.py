"""Every format in every compression: detected, reported, read, and forceable."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.errors import CapacityError, InputError, MalformedLineError
from papilio.storage.convert import convert
from tests.storage.convert_helpers import COMPRESS, labelled_edges, write_input
from tests.tools.pairs import all_pairs


def npy_of(header: bytes) -> bytes:
    """Return a .npy file with this header and no values."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@dataclass(frozen=True)
class Case:
    """A file, the format that it is taken for, and what it holds.

    Attributes
    ----------
    format : str
    data : bytes or str
    edges : list of tuples
        In terms of labels.
    sizes : tuple of two ints
    options : dict
        Arguments of ``convert``.
    name : str
        Of the file.
    """

    format: str
    data: bytes | str
    edges: list[tuple[Any, ...]]
    sizes: tuple[int, int]
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "input.txt"


PLAIN = [(0, 1), (1, 0), (1, 2)]
MATRIX = "%%MatrixMarket matrix coordinate"

CASES = {
    "konect": Case("konect", "% bip unweighted\n% 3 2 4\n1 2 \n2 1 \n2 3 \n", [(1, 2), (2, 1), (2, 3)], (2, 4)),
    "konect without sizes": Case("konect", "% bip\n7 2\n9 1\n9 3", [(7, 2), (9, 1), (9, 3)], (2, 3)),
    "konect weights and times": Case(
        "konect",
        "% bip signed\n1 2 -1 50\n2 1\t1 60\n1 2 +1 40\n",
        [(1, 2, 1), (2, 1, 1)],
        (2, 2),
        {"sign": 3},
    ),
    "konect unipartite": Case(
        "konect",
        "% sym unweighted\n% 3 5 5\n2 1\n3 2\n1 2\n",
        [(1, 2), (2, 3)],
        (5, 5),
        {"kind": "unipartite"},
    ),
    "snap": Case(
        "snap",
        "# Directed graph\r\n# FromNodeId\tToNodeId\r\n30\t1412\r\n1412\t30\r\n30\t30\r\n30\t5\r\n",
        [(5, 30), (30, 1412)],
        (3, 3),
        {"kind": "unipartite"},
    ),
    "sizes": Case("sizes", "2\t4\t3\n0\t1\n1\t0\n1\t2\n", PLAIN, (2, 4)),
    "sizes signed": Case(
        "sizes",
        "2 4 3\n0 1 1\n1 0 -1\n1 2 1\n",
        [(0, 1, 1), (1, 0, -1), (1, 2, 1)],
        (2, 4),
        {"sign": 3},
    ),
    "sizes from one": Case("sizes", "2 4 3\n1 2\n2 1\n2 4\n", [(1, 2), (2, 1), (2, 4)], (2, 4)),
    "movielens tabs": Case(
        "movielens",
        "1\t2\t3\t881\n2\t1\t5\t882\n2\t3\t4\t883\n",
        [(1, 2, -1), (2, 1, 1), (2, 3, 1)],
        (2, 3),
        {"positive_from": 4},
        "u.data",
    ),
    "movielens colons": Case(
        "movielens",
        "1::2::3::881\n2::1::5::882\n2::3::3.5::883\n",
        [(1, 2, -1), (2, 1, 1), (2, 3, 1)],
        (2, 3),
        {"positive_from": 3.5},
        "ratings.dat",
    ),
    "mtx pattern": Case(
        "mtx", f"{MATRIX} pattern general\n% c\n2 4 3\n1 2\n2 1\n2 3\n", [(1, 2), (2, 1), (2, 3)], (2, 4)
    ),
    "mtx real": Case(
        "mtx",
        f"{MATRIX} real general\n2 4 3\n1 2 0.5\n2 1 -1e3\n2 3 0\n",
        [(1, 2, 1), (2, 1, -1)],
        (2, 4),
        {"sign": 3},
    ),
    "mtx integer": Case("mtx", f"{MATRIX} integer general\r\n2 4 1\r\n2 4 -7\r\n", [(2, 4)], (2, 4)),
    "mtx complex": Case("mtx", f"{MATRIX} complex general\n2 4 1\n2 4 1 0\n", [(2, 4)], (2, 4)),
    "mtx symmetric": Case(
        "mtx",
        f"{MATRIX} pattern symmetric\n3 3 3\n1 1\n2 1\n3 2\n",
        [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2)],
        (3, 3),
    ),
    "mtx symmetric unipartite": Case(
        "mtx",
        f"{MATRIX} pattern symmetric\n4 4 3\n1 1\n2 1\n3 2\n",
        [(1, 2), (2, 3)],
        (4, 4),
        {"kind": "unipartite"},
    ),
    "mtx skew": Case(
        "mtx",
        f"{MATRIX} real skew-symmetric\n2 2 1\n2 1 0.5\n",
        [(1, 2, -1), (2, 1, 1)],
        (2, 2),
        {"sign": 3},
    ),
    "mtx without entries": Case("mtx", f"{MATRIX} pattern general\n2 4 0\n", [], (2, 4)),
    "csv": Case("csv", "0,1\n1,0\n1,2\n", PLAIN, (2, 3), {}, "edges.csv"),
    "csv with names": Case("csv", "userId,movieId\n0,1\n1,0\n1, 2\n", PLAIN, (2, 3)),
    "csv quoted": Case(
        "csv",
        'who;what\r\n"Ann; Bo";"a ""b"""\r\nCy;" d"\r\n',
        [("Ann; Bo", 'a "b"'), ("Cy", "d")],
        (2, 2),
        {"header": True},
    ),
    "csv with times": Case(
        "csv", "user,item,rating,timestamp\n0,1,5,20\n0,1,1,10\n", [(0, 1, -1)], (1, 1), {"positive_from": 3}
    ),
    "tsv": Case("tsv", "0\t1\n1\t0\n1\t2\n", PLAIN, (2, 3)),
    "tsv of words": Case(
        "tsv",
        "New York\tBoston\nParis\tLyon\n",
        [("New York", "Boston"), ("Paris", "Lyon")],
        (2, 2),
        {"header": False},
    ),
    "edges": Case("edges", "0 1\n1 0\n\n1  2", PLAIN, (2, 3)),
    "edges with names": Case("edges", "from to\n0 1\n1 0\n 1\t2 \n", PLAIN, (2, 3)),
    "edges of words": Case("edges", "a x\nb y\na y\n", [("a", "x"), ("a", "y"), ("b", "y")], (2, 2)),
    "edges with a mark": Case("edges", b"\xef\xbb\xbf0 1\n1 0\n1 2\n", PLAIN, (2, 3)),
    "edges with sign words": Case(
        "edges",
        "0 1 yea\n1 0 nay\n1 2 aye\n",
        [(0, 1, 1), (1, 0, -1), (1, 2, 1)],
        (2, 3),
        {"sign_values": "yea,aye:nay"},
    ),
    "edges with sign marks": Case(
        "edges", "0 1 +\n1 0 -\n1 2 +\n", [(0, 1, 1), (1, 0, -1), (1, 2, 1)], (2, 3), {"sign_values": "+:-"}
    ),
    "npy": Case("npy", npy(np.array([[0, 1], [1, 0], [1, 2]])), PLAIN, (2, 3)),
    "npy by columns": Case("npy", npy(np.asfortranarray(np.array([[0, 1], [1, 0], [1, 2]], np.uint8))), PLAIN, (2, 3)),
    "npy signed": Case(
        "npy",
        npy(np.array([[0, 1, -4], [1, 0, 2]], ">i4")),
        [(0, 1, -1), (1, 0, 1)],
        (2, 2),
        {"sign": 3},
    ),
    "parquet": Case("parquet", parquet(a=[0, 1, 1], b=[1, 0, 2]), PLAIN, (2, 3)),
    "parquet by names": Case("parquet", parquet(w=[9, 9, 9], v=[1, 0, 2], u=[0, 1, 1]), PLAIN, (2, 3)),
    "parquet of words": Case(
        "parquet",
        parquet(
            a=pa.array(["x", "y"]).dictionary_encode(),
            b=pa.array([5, 6], pa.uint8()),
            time=[1.5, 2.5],
            s=[True, False],
        ),
        [("x", 5, 1), ("y", 6, -1)],
        (2, 2),
        {"sign": 4},
    ),
}


@pytest.mark.parametrize(
    ("name", "compression"),
    [*((name, "none") for name in CASES), *all_pairs(CASES, [each for each in COMPRESS if each != "none"])],
)
def test_format_is_detected_and_read(tmp_path: Path, name: str, compression: str) -> None:
    case = CASES[name]
    data = case.data.encode() if isinstance(case.data, str) else case.data
    path = write_input(tmp_path, COMPRESS[compression](data), case.name)
    store = convert(path, tmp_path / "g", **case.options)
    provenance = store.manifest.provenance
    assert provenance["format"] == case.format
    assert provenance["compression"] == compression
    assert provenance["format_forced"] is False
    assert provenance["source"] == case.name
    assert str(tmp_path) not in store.manifest.to_json()
    assert (store.n_u, store.n_v) == case.sizes
    assert labelled_edges(store) == case.edges
    store.verify()
    forced = convert(path, tmp_path / "h", format=case.format, **case.options)
    assert forced.hash == store.hash
    assert forced.manifest.provenance["format_forced"] is True
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["g", "h", case.name])


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "zstd"])
def test_several_compressed_streams_in_one_file(tmp_path: Path, compression: str) -> None:
    compress = COMPRESS[compression]
    path = write_input(tmp_path, compress(b"0 1\n1 ") + compress(b"0\n1 2\n"))
    assert labelled_edges(convert(path, tmp_path / "g")) == PLAIN


def test_pair_of_npy_files(tmp_path: Path) -> None:
    u = write_input(tmp_path, npy(np.array([0, 1, 1], np.int16)), "u.npy")
    v = write_input(tmp_path, COMPRESS["gzip"](npy(np.array([1, 0, 2]))), "v.npy.gz")
    store = convert((u, v), tmp_path / "g")
    assert labelled_edges(store) == PLAIN
    assert store.manifest.provenance["source"] == ["u.npy", "v.npy.gz"]


@pytest.mark.parametrize("bipartite", [False, True])
def test_forcing_changes_the_reading(tmp_path: Path, bipartite: bool) -> None:
    path = write_input(tmp_path, "3 3 2\n0 1 1\n2 1 1\n")
    assert convert(path, tmp_path / "g", kind="bipartite" if bipartite else "unipartite").n_edges == 2
    forced = convert(path, tmp_path / "h", format="edges", kind="bipartite" if bipartite else "unipartite")
    assert forced.n_edges == (3 if bipartite else 2)
    assert forced.manifest.dropped["self_loops"] == (0 if bipartite else 1)


def test_first_line_with_three_numbers_is_an_edge_when_it_cannot_be_sizes(tmp_path: Path) -> None:
    for at, text in enumerate(["9 9 1\n0 1 1\n2 1 1\n", "1 1 5\n0 1 1\n2 1 1\n", "3 3 1700000000\n0 1 5\n1 0 4\n"]):
        store = convert(write_input(tmp_path, text), tmp_path / str(at), layout="edges")
        assert store.manifest.provenance["format"] == "edges"
        assert store.manifest.provenance["edges_read"] == 3


REFUSED: dict[str, tuple[bytes | str, dict[str, Any], type[Exception], str]] = {
    "empty": ("", {}, InputError, "has no line of data"),
    "comments only": ("# a\n# b\n", {}, InputError, "has no line of data"),
    "names only": ("user,item\n", {}, InputError, "no line of data"),
    "binary": (b"\x7fELF\x00\x01\x02", {}, InputError, "not a text file"),
    "zip": (b"PK\x03\x04rest", {}, InputError, "the archive is damaged"),
    "one column": ("1\n2\n3\n", {}, InputError, "1 column as edges; an edge needs two"),
    "wrong forced format": ("1 2\n", {"format": "csv"}, InputError, "1 column as csv"),
    "unknown format": ("1 2\n", {"format": "xml"}, InputError, "format is 'xml'; expected konect"),
    "not sizes": ("a b\n", {"format": "sizes"}, InputError, "not 'n_u n_v m'"),
    "sizes too few": ("2 2 3\n0 1\n1 0\n", {}, InputError, "declares 3 edges but has 2 lines"),
    "sizes too small": (
        "2 2 2\n0 1\n2 0\n",
        {"format": "sizes"},
        InputError,
        "declares 2 and 2 vertices and holds ids 0 to 2",
    ),
    "sizes of two layers": ("2 3 1\n0 1\n", {"kind": "unipartite"}, InputError, "two layers"),
    "sizes beyond int32": (f"{2**31} 3 1\n0 1\n", {}, CapacityError, "2147483648"),
    "konect of two layers": (
        "% bip\n1 2\n",
        {"kind": "unipartite"},
        InputError,
        "is bipartite by its header",
    ),
    "no sign column": ("1 2\n", {"sign": 3}, InputError, "2 columns; there is no column 3"),
    "no time column": ("1 2 1\n", {"sign": 3, "time": 4}, InputError, "no column 4 for times"),
    "dense matrix": ("%%MatrixMarket matrix array real general\n2 2\n1\n", {}, InputError, "dense matrix"),
    "unknown symmetry": (f"{MATRIX} real odd\n1 1 1\n1 1 1\n", {}, InputError, "unknown symmetry 'odd'"),
    "unknown field": (f"{MATRIX} quaternion general\n1 1 1\n1 1 1\n", {}, InputError, "unknown field"),
    "short banner": ("%%MatrixMarket matrix\n", {}, InputError, "line 1: expected"),
    "no dimensions": (f"{MATRIX} pattern general\n1 1\n", {}, InputError, "rows columns entries"),
    "matrix truncated": (
        f"{MATRIX} pattern general\n2 2 3\n1 1\n",
        {},
        InputError,
        "declares 3 edges but has 1",
    ),
    "matrix not square": (
        f"{MATRIX} pattern general\n2 3 1\n1 1\n",
        {"kind": "unipartite"},
        InputError,
        "2 x 3",
    ),
    "matrix index": (
        f"{MATRIX} pattern general\n2 3 1\n1 4\n",
        {},
        MalformedLineError,
        "line 3: '1 4': 4 is outside",
    ),
    "matrix index zero": (
        f"{MATRIX} pattern general\n2 3 1\n0 1\n",
        {},
        MalformedLineError,
        "expected 1 to 2",
    ),
    "skew threshold": (
        f"{MATRIX} real skew-symmetric\n2 2 1\n2 1 1\n",
        {"positive_from": 2},
        InputError,
        "skew-symmetric",
    ),
    "matrix of words": (
        f"{MATRIX} pattern general\n1 1 1\n1 1\n",
        {"labels": "text"},
        InputError,
        "is a matrix",
    ),
    "carriage return in quotes": (
        'd,e\n"a\rb",c\n',
        {},
        MalformedLineError,
        "line 2: .*a label contains a line end",
    ),
    "field of 200 kB": (
        f'1,2\n"{"x" * 200_000}",y",3\n',
        {},
        MalformedLineError,
        "line 2: .*its quotes do not follow the rules of CSV",
    ),
    "npy tokens": (npy_of(b"{'descr': '<i8', 'shape': (1, 2"), {}, InputError, "not a readable .npy file"),
    "npy indent": (npy_of(b" {\n  1\n 2"), {}, InputError, "not a readable .npy file"),
    "npy nested": (npy_of(b"(" * 5000), {}, InputError, "not a readable .npy file"),
    "npy bytes": (npy_of(b"\xff\x00"), {}, InputError, "not a readable .npy file"),
    "npy no shape": (
        npy_of(b"{'descr': '<i8', 'fortran_order': False, 'shape': ()}"),
        {},
        InputError,
        r"shape \(\)",
    ),
    "npy negative": (
        npy_of(b"{'descr': '<i8', 'fortran_order': False, 'shape': (-1, 2)}"),
        {},
        InputError,
        r"shape \(-1, 2\); expected \(k, 2\)",
    ),
    "npy beyond": (
        npy_of(b"{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 4)}"),
        {},
        InputError,
        "describes 295147905179352825",
    ),
    "npy shape": (npy(np.zeros((2, 3, 2), int)), {}, InputError, r"shape \(2, 3, 2\); expected \(k, 2\)"),
    "npy vector": (npy(np.zeros(3, int)), {}, InputError, r"shape \(3,\)"),
    "npy floats": (
        npy(np.zeros((3, 2))),
        {},
        InputError,
        "as edges: .*; as a matrix: 3 x 2 vertices, 0 edges",
    ),
    "npy floats as edges": (
        npy(np.zeros((3, 2))),
        {"layout": "edges"},
        InputError,
        "dtype float64; expected integers",
    ),
    "npy truncated": (
        npy(np.zeros((3, 2), int))[:-8],
        {},
        InputError,
        "168 bytes, but its header describes 176",
    ),
    "npy too long": (
        npy(np.zeros((3, 2), int)) + b"x",
        {},
        InputError,
        "177 bytes, but its header describes 176",
    ),
    "npy too large": (npy(np.full((1, 2), 2**63, np.uint64)), {}, InputError, "2\\^63 - 1"),
    "npy words": (
        npy(np.zeros((3, 3), int)),
        {"sign_values": "a:b"},
        InputError,
        "sign_values are for words",
    ),
    "npy no column": (npy(np.zeros((3, 2), int)), {"sign": 3}, InputError, "no column 3"),
    "forced npy": ("1 2\n", {"format": "npy"}, InputError, "is not a readable .npy file"),
    "forced parquet": ("1 2\n", {"format": "parquet"}, InputError, "not a readable Parquet file"),
    "parquet truncated": (parquet(a=[1], b=[2])[:-9], {}, InputError, "not a readable Parquet file"),
    "parquet one column": (parquet(a=[1]), {}, InputError, "expected two or more"),
    "parquet floats": (parquet(a=[1.5], b=[2]), {}, InputError, "column a has type double"),
    "parquet missing": (
        parquet(a=[1, None], b=[2, 3]),
        {},
        InputError,
        "column a has 1 missing values in rows 0 to 1",
    ),
    "parquet no sign": (
        parquet(a=[1], b=[2], c=["x"]),
        {"sign": 3},
        InputError,
        "gives some of x... no sign",
    ),
    "sign column 2": ("1 2 3\n", {"sign": 2}, InputError, "but columns 1 and 2 are the endpoints"),
    "time column 1": ("1 2 3\n", {"time": 1}, InputError, "but columns 1 and 2 are the endpoints"),
    "two rules": ("1 2 3\n", {"positive_from": 2, "sign_values": "a:b"}, InputError, "cannot be combined"),
    "threshold": (
        "1 2 3\n",
        {"positive_from": float("nan")},
        InputError,
        "positive_from is nan; expected a number",
    ),
    "words": ("1 2 3\n", {"sign_values": "yea"}, InputError, "expected POSITIVE:NEGATIVE"),
    "common word": ("1 2 3\n", {"sign_values": "a:a"}, InputError, "without a common word"),
    "policy": ("1 2\n", {"duplicates": "some"}, InputError, "duplicates is 'some'"),
    "label type": ("1 2\n", {"labels": "float"}, InputError, "labels is 'float'"),
    "memory": (
        "1 2\n",
        {"memory_bytes": 2**20},
        CapacityError,
        r"converting may use 1.00 MiB; raise memory_bytes \(--memory\) to at least 512MiB",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_and_without_a_trace(tmp_path: Path, name: str) -> None:
    data, options, error, message = REFUSED[name]
    path = write_input(tmp_path, data)
    with pytest.raises(error, match=message):
        convert(path, tmp_path / "g", **options)
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "zstd"])
@pytest.mark.parametrize("cut", ["truncated", "damaged"])
def test_broken_compressed_data(tmp_path: Path, compression: str, cut: str) -> None:
    rng = np.random.default_rng(1)
    text = "".join(f"{a} {b}\n" for a, b in rng.integers(0, 10**9, (3000, 2)))
    data = COMPRESS[compression](text.encode())
    data = data[:-500] if cut == "truncated" else data[:-500] + b"\x55" * 500
    path = write_input(tmp_path, data)
    with pytest.raises(InputError, match=f"the {compression} data are truncated or corrupt"):
        convert(path, tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


def test_missing_input_and_wrong_number_of_inputs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        convert(tmp_path / "no.txt", tmp_path / "g")
    with pytest.raises(InputError, match="is a directory without an edge list"):
        convert(tmp_path, tmp_path / "g")
    with pytest.raises(InputError, match="no file was given"):
        convert([], tmp_path / "g")
    one = write_input(tmp_path, npy(np.zeros(3, int)), "a.npy")
    two = write_input(tmp_path, npy(np.zeros(4, int)), "b.npy")
    with pytest.raises(InputError, match=r"3 .npy files were given"):
        convert([one, one, two], tmp_path / "g")
    with pytest.raises(InputError, match=r"shapes \(3,\) and \(4,\)"):
        convert([one, two], tmp_path / "g")


def test_notes_tell_what_may_surprise(tmp_path: Path) -> None:
    path = write_input(tmp_path, "% asym positive\n% 2 3 3\n1 2 4\n5 1 2\n")
    notes = " ".join(convert(path, tmp_path / "g").manifest.provenance["notes"])
    assert "the header says unipartite" in notes
    assert "not used: column 3; a sign rule makes the graph signed" in notes
    assert "labels lie outside the sizes" in notes
