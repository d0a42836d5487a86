"""First lines of sizes: told from edges by arithmetic, in every format of text, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from papilio.errors import InputError, MalformedLineError
from papilio.storage import formats as size_headers
from papilio.storage import text as textlines
from papilio.storage.convert import convert
from tests.storage.convert_helpers import COMPRESS, labelled_edges, write_input

PATH = [(1, 2), (2, 3), (3, 4), (4, 5)]
LINES = "1 2\n2 3\n3 4\n4 5\n"


def notes_of(store: Any) -> str:
    return " | ".join(store.manifest.provenance["notes"])


@pytest.fixture(params=["whole", "pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files whole, and in blocks of a few bytes of which detection sees the first."""
    if request.param == "pieces":
        monkeypatch.setattr(textlines, "BLOCK_BYTES", 7)
        monkeypatch.setattr(textlines, "_HEAD_BYTES", 32)


@pytest.mark.parametrize(
    ("separator", "compression"),
    [
        (" ", "none"),
        ("\t", "none"),
        (",", "none"),
        (";", "none"),
        ("  ", "gzip"),
        (" ", "bzip2"),
        (",", "zstd"),
    ],
)
@pytest.mark.parametrize("header", ["5 4", "6 4", "62586 4"])
def test_vertices_and_lines_are_a_header(
    tmp_path: Path, pieces: None, header: str, separator: str, compression: str
) -> None:
    text = f"{header}\n{LINES}".replace(" ", separator)
    store = convert(write_input(tmp_path, COMPRESS[compression](text.encode())), tmp_path / "g")
    assert labelled_edges(store) == PATH
    assert "line 1 is a header" in notes_of(store)
    assert "--no-header if it is an edge" in notes_of(store)


@pytest.mark.parametrize("comment", ["# a b\n", "% no kind\n", "# a\n\n# b\n"])
def test_header_after_comments(tmp_path: Path, comment: str) -> None:
    store = convert(write_input(tmp_path, f"{comment}5 4\n{LINES}"), tmp_path / "g")
    assert labelled_edges(store) == PATH
    assert f"line {comment.count(chr(10)) + 1} is a header" in notes_of(store)


def test_vertices_of_the_header_are_kept_in_a_graph_of_one_layer(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, f"9 4\n{LINES}"), tmp_path / "g", kind="unipartite")
    assert (store.n_u, store.n_edges) == (9, 4)
    assert labelled_edges(store) == PATH


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        (f"5 3\n{LINES}", True),
        (f"6 5\n{LINES}", True),
        (f"4 4\n{LINES}", True),
        (f"62586 147892\n{LINES}", True),
        (f"4 6\n{LINES}", True),
        (f"0 1\n{LINES}", False),
        (f"1 9\n{LINES}", False),
        ("4 4\n0 2\n1 2\n2 3\n3 4\n", True),
    ],
)
def test_first_edge_stays_an_edge_and_doubt_is_said(tmp_path: Path, pieces: None, text: str, doubtful: bool) -> None:
    store = convert(write_input(tmp_path, text), tmp_path / "g", layout="edges")
    expected = {tuple(map(int, line.split())) for line in text.splitlines()}
    assert labelled_edges(store) == sorted(expected)
    first = text.split("\n", 1)[0]
    assert (f"line 1 read as an edge: {first}; use --header if it contains sizes" in notes_of(store)) is doubtful


def test_header_and_no_header_decide(tmp_path: Path) -> None:
    sized = write_input(tmp_path, f"5 4\n{LINES}", "a.txt")
    assert labelled_edges(convert(sized, tmp_path / "a", header=False)) == [*PATH, (5, 4)]
    other = write_input(tmp_path, f"9 7\n{LINES}", "b.txt")
    store = convert(other, tmp_path / "b", header=True)
    assert labelled_edges(store) == PATH
    assert "line 1 is a header: 9, 7" in notes_of(store)
    three = write_input(tmp_path, "5 5 4\n" + LINES.replace("\n", " 1\n"), "c.txt")
    assert convert(three, tmp_path / "c").n_edges == 4
    assert convert(three, tmp_path / "d", header=False).n_edges == 5


def test_a_held_edge_counts_as_a_duplicate(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, f"4 5\n{LINES}"), tmp_path / "g", kind="unipartite")
    assert labelled_edges(store) == PATH
    assert store.manifest.dropped["duplicates"] == 1
    assert store.manifest.provenance["edges_read"] == 5


@pytest.mark.parametrize("number", [4, 5, 70])
def test_one_number_above_edges(tmp_path: Path, pieces: None, number: int) -> None:
    store = convert(write_input(tmp_path, f"{number}\n{LINES}"), tmp_path / "g")
    assert labelled_edges(store) == PATH
    assert f"line 1 is a header: {number}" in notes_of(store)


def test_one_number_that_is_no_size_is_malformed(tmp_path: Path) -> None:
    path = write_input(tmp_path, f"3\n{LINES}")
    with pytest.raises(MalformedLineError, match=r"input.txt, line 1: '3': 1 fields; expected 2 \(use --header"):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert (store.n_edges, store.manifest.dropped["malformed"]) == (4, 1)
    assert convert(path, tmp_path / "h", header=True).n_edges == 4


def test_two_numbers_above_weighted_edges(tmp_path: Path) -> None:
    weighted = LINES.replace("\n", " 7\n")
    store = convert(write_input(tmp_path, f"5 4\n{weighted}"), tmp_path / "g", sign=3)
    assert labelled_edges(store) == [(u, v, 1) for u, v in PATH]
    with pytest.raises(MalformedLineError, match="line 1: '5 9': 2 fields; expected 3"):
        convert(write_input(tmp_path, f"5 9\n{weighted}"), tmp_path / "h", sign=3)


@pytest.mark.parametrize("separator", [" ", ",", ";", "\t"])
def test_two_layers_and_lines(tmp_path: Path, separator: str) -> None:
    text = ("5 6 4\n" + LINES.replace("\n", " 1\n")).replace(" ", separator)
    store = convert(write_input(tmp_path, text), tmp_path / "g")
    assert store.manifest.provenance["format"] == "sizes"
    assert (store.n_u, store.n_v, store.n_edges) == (5, 6, 4)
    cut = convert(write_input(tmp_path, text.rsplit("4", 1)[0]), tmp_path / "h", skip_malformed=True)
    assert cut.n_edges == 4
    assert "line 1 read as an edge: " in notes_of(cut)


def test_sizes_after_comments_are_no_edge(tmp_path: Path) -> None:
    for at, comment in enumerate(["# c\n", "% c\n"]):
        text = f"{comment}5 5 4\n" + LINES.replace("\n", " 1\n")
        store = convert(write_input(tmp_path, text), tmp_path / str(at))
        assert store.manifest.provenance["format"] == "sizes"
        assert store.n_edges == 4


def test_only_the_file_decides_and_not_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 4000)
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 4000)
    lines = [f"{i} {i + 1}" for i in range(1, 3001)]
    text = "\n".join(["3001 3000", *lines])
    assert convert(write_input(tmp_path, text), tmp_path / "a").n_edges == 3000
    store = convert(write_input(tmp_path, text + "\n1 1"), tmp_path / "b")
    assert store.n_edges == 3002
    assert "line 1 read as an edge: 3001 3000; use --header if it contains sizes" in notes_of(store)
    assert size_headers.hold_line(0, b"0 1", [b"0", b"1"], 1000, 2) is None


# DIMACS and METIS

DIMACS = {
    "clique": ("c made by hand\np edge 5 3\ne 1 2\ne 2 3\ne 4 1\n", {}),
    "colours": ("p col 5 3\nc late\ne 1 2\ne 2 3\ne 4 1\n", {}),
    "paths": ("c a\nc\nc b\np sp 5 3\na 1 2 7\na 2 3 7\na 4 1 7\n", {}),
    "width": ("p tw 5 3\n1 2\n2 3\n4 1\n", {}),
}


@pytest.mark.parametrize("name", DIMACS)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_dimacs(tmp_path: Path, name: str, compression: str) -> None:
    text, options = DIMACS[name]
    path = write_input(tmp_path, COMPRESS[compression](text.encode()))
    store = convert(path, tmp_path / "g", kind="unipartite", **options)
    assert store.manifest.provenance["format"] == "dimacs"
    assert (store.n_u, labelled_edges(store)) == (5, [(1, 2), (1, 4), (2, 3)])
    assert store.manifest.dropped["comments"] == text.count("c ") + text.count("c\n")
    two = convert(path, tmp_path / "h", format="dimacs")
    assert "one set of vertices" in notes_of(two)
    assert labelled_edges(two) == [(1, 2), (2, 3), (4, 1)]


def test_dimacs_values_and_wrong_lines(tmp_path: Path) -> None:
    path = write_input(tmp_path, "p sp 3 9\na 1 2 7\na 2 3 -7\n")
    store = convert(path, tmp_path / "g", sign=4)
    assert labelled_edges(store) == [(1, 2, 1), (2, 3, -1)]
    assert store.hash == convert(path, tmp_path / "h", positive_from=0).hash
    assert "the header declares 9 edges; 2 lines hold them" in notes_of(store)
    with pytest.raises(MalformedLineError, match="line 3: 'n 1 2': the line begins with 'n'; expected 'e'"):
        convert(write_input(tmp_path, "p edge 3 2\ne 1 2\nn 1 2\n"), tmp_path / "i")
    with pytest.raises(InputError, match="'p cnf 3 2' is not 'p KIND n m'"):
        convert(write_input(tmp_path, "p cnf 3 2\n1 2 0\n1 3 0\n"), tmp_path / "i")


@pytest.mark.parametrize(
    "text", ["4 4\n2 4\n1 3\n2 4\n3 1\n", "3 2\n2 3\n1\n1\n", "4 6 0\n2 3 4\n1 3 4\n1 2 4\n1 2 3\n"]
)
def test_metis_graphs_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="looks like a METIS graph, in which line i lists the neighbours"):
        convert(write_input(tmp_path, text), tmp_path / "g")
