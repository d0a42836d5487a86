"""What a source holds: edges, a matrix, an adjacency or groups; conditions, missing values, headers, odd lines."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import papilio
from papilio.errors import GraphError, InputError, InputWarning, MalformedLineError, PapilioError
from papilio.storage.evidence import Evidence
from papilio.storage.layout import decide
from papilio.storage.where import read_conditions
from tests.conftest import ROOT
from tests.tools.commands import Run

VISITS = np.array([[3, 0, 1, 2], [0, 5, 1, 0], [2, 2, 0, 1], [1, 1, 1, 1], [0, 0, 0, 4]])
"""Visits of four pollinators to five plants: 13 edges, 8 butterflies."""
BITS = [[1, 1], [1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
"""A matrix of 6 x 2: 3 butterflies."""
FRAME = pd.DataFrame(VISITS, list("ABCDE"), list("pqrs"))
NEVER = np.where(VISITS, VISITS, np.nan)


def count(source: Any, **reading: Any) -> int:
    return int(papilio.count(source, "butterfly", engine="cpu", **reading).count)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def npy(path: Path, array: Any) -> Path:
    file = io.BytesIO()
    np.save(file, np.array(array))
    path.write_bytes(file.getvalue())
    return path


def star(n: int) -> sparse.coo_array:
    """Return the adjacency matrix of the bipartite graph of visits."""
    table = sparse.coo_array(VISITS[:n])
    return sparse.coo_array(sparse.bmat([[None, table], [table.T, None]]))


RIGHT: dict[str, tuple[Callable[[], Any], int]] = {
    "array": (lambda: VISITS, 8),
    "array of two columns of bits": (lambda: np.array(BITS), 3),
    "array of truth values": (lambda: np.array(BITS, bool), 3),
    "array of floats": (lambda: np.array(BITS, float), 3),
    "list of lists": (lambda: BITS, 3),
    "frame with an index of words": (lambda: FRAME, 8),
    "frame of 3 x 2 ones": (lambda: pd.DataFrame(np.ones((3, 2), int), list("abc"), list("pq")), 3),
    "two columns of a frame": (lambda: FRAME[["p", "q"]], 1),
    "cross table of two columns": (
        lambda: pd.crosstab(pd.Series(list("aabbc")), pd.Series(list("xyxyx"))),
        1,
    ),
    "frame of a sparse type": (lambda: FRAME.astype(pd.SparseDtype(int, 0)), 8),
    "stacked frame": (lambda: FRAME.stack(), 8),
    "symmetric sparse matrix": (lambda: star(5), 8),
    "stored zeros": (lambda: sparse.coo_array(([4, 0, 5, 2, 0, 2], ([0, 0, 1, 1, 2, 2], [0, 1] * 3))), 0),
    "dictionary of sets": (lambda: {"a": {"x", "y"}, "b": {"x", "y"}}, 1),
    "dictionary of lists": (lambda: {"a": ["x", "y"], "b": ["x", "y"]}, 1),
    "series of lists": (lambda: pd.Series({"a": ["x", "y"], "b": ["x", "y"]}), 1),
    "dictionary of dictionaries": (lambda: {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 0}}, 0),
    "list of sets": (lambda: [{"x", "y"}, {"x", "y"}], 1),
    "triples with a weight": (lambda: [("a", "x", 3), ("a", "y", 4), ("b", "x", 1), ("b", "y", 2)], 1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_object_is_what_it_seems(name: str) -> None:
    make, right = RIGHT[name]
    assert count(make()) == right


RATINGS = np.array([[196, 242, 3, 881], [186, 302, 3, 891], [22, 377, 1, 878], [244, 51, 2, 880]])
"""User, item, rating, time."""


@pytest.mark.parametrize(
    "source",
    [RATINGS, RATINGS.astype(float), RATINGS.tolist(), list(map(tuple, RATINGS.tolist()))],
    ids=["integers", "floats", "lists", "tuples"],
)
def test_edges_with_a_weight_and_a_time_are_no_matrix(source: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="4 columns of numbers without names, and no zero"):
        papilio.read(source)
    with pytest.raises(InputError, match="4 columns of numbers without names, and no zero"):
        papilio.read(npy(tmp_path / "ratings.npy", source))
    assert papilio.read(source, layout="matrix").n_edges == 16
    assert papilio.read(RATINGS[:, :2]).n_edges == 4


FILES: dict[str, tuple[str, int]] = {
    "names": (",p,q,r,s\nA,3,0,1,2\nB,0,5,1,0\nC,2,2,0,1\nD,1,1,1,1\nE,0,0,0,4\n", 8),
    "numbers as names of rows": ("site,p,q,r,s\n7,3,0,1,2\n9,0,5,1,0\n4,2,2,0,1\n5,1,1,1,1\n6,0,0,0,4\n", 8),
    "no names": ("3,0,1,2\n0,5,1,0\n2,2,0,1\n1,1,1,1\n0,0,0,4\n", 8),
    "a comment of names": ("# made by a program\n#OTU ID\ts1\ts2\n17\t1\t1\n4\t2\t1\n9\t0\t3\n", 1),
    "a last column of words": (
        "#OTU ID\ts1\ts2\ttaxonomy\n17\t1\t1\tA; B\n4\t2\t1\tA; C\n9\t0\t3\tA; B\n",
        1,
    ),
    "bits": ("".join(f"{a},{b}\n" for a, b in BITS), 3),
    "marks": ("plant,p,q,r\nA,x,,x\nB,x,,x\nC,,x,\n", 1),
    "true and false": ("plant,p,q\nA,TRUE,TRUE\nB,TRUE,TRUE\nC,FALSE,TRUE\n", 1),
    "baskets": ("1 2 7\n1 2\n2 3 4 5\n1 4 5 6\n", 2),
    "gene sets": ("S1\thttp://a.b/1\tg1\tg2\nS2\thttp://a.b/2\tg1\tg2\tg3\nS3\thttp://a.b/3\tg3\n", 1),
    "a word between": ("a visits x\na visits y\nb visits x\nb visits y\n", 1),
    "an arrow between": ("1 -> 10\n1 -> 11\n2 -> 10\n2 -> 11\n", 1),
    "a header of words": ("species,site\na,x\na,y\nb,x\nb,y\n", 1),
    "a header again": ("customer,product\na,x\na,y\ncustomer,product\nb,x\nb,y\n", 1),
    "a header again among numbers": ("user,item\n1,10\n1,11\nuser,item\n2,10\n2,11\n", 1),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")
def test_a_file_is_what_it_seems(tmp_path: Path, name: str) -> None:
    text, right = FILES[name]
    assert count(write(tmp_path / "table.txt", text)) == right


def test_matrices_of_arrays_and_tables_in_files(tmp_path: Path) -> None:
    for at, array in enumerate((BITS, np.array(BITS, bool), np.array(BITS, float))):
        assert count(npy(tmp_path / f"{at}.npy", array)) == 3
    pq.write_table(pa.Table.from_pandas(FRAME.reset_index(names="plant")), tmp_path / "wide.parquet")
    graph = papilio.read(tmp_path / "wide.parquet")
    assert count(graph) == 8
    assert list(graph.labels("v")) == list("pqrs")  # type: ignore[arg-type]


AMBIGUOUS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "one column": (
        lambda at: write(at / "a.csv", "site,abundance\nA,3\nB,2\nC,0\n"),
        r"as edges: 3 x 3 vertices, 3 edges; as a matrix: 3 x 1 vertices, 2 edges. Choose layout='edges' or "
        r"layout='matrix' \(--layout edges or --layout matrix\)",
    ),
    "groups of one length": (
        lambda at: write(at / "a.dat", "1 4 7\n5 10 12\n1 3 6\n3 6 12\n7 8 12\n7 9 10\n2 9 11\n5 9 10\n4 7 11\n"),
        "as edges: .*; as groups: 9 x 12 vertices, 27 edges",
    ),
    "neighbours": (
        lambda at: write(at / "a.txt", "1 6 8 9\n2 7 8\n3 6 7 9\n4 6 7 8 9\n5 9\n6\n7\n8\n9\n"),
        "as groups: 9 x 9 .*; as neighbours of one set of vertices: 9 vertices, 13 edges",
    ),
    "ends of a wide table": (
        lambda at: write(at / "a.csv", "3,0,1,2\n0,5,1,0\n2,2,7,1\n1,1,1,1\n"),
        "as edges: 4 x 4 vertices, 4 edges; as a matrix: 4 x 4",
    ),
    "transposed pairs": (lambda at: npy(at / "a.npy", [[0, 1, 2, 3], [5, 6, 5, 6]]), r"shape \(2, 4\).*Transpose it"),
    "triangles": (lambda _: nx.to_scipy_sparse_array(nx.complete_graph(4)), "4 vertices, 6 edges"),
    "neighbours by key": (lambda _: {"a": {"b"}, "b": {"a"}}, "layout='groups' or layout='adjacency'"),
    "lists in cells": (
        lambda _: pd.DataFrame({"user": ["a", "b"], "items": ["x;y", "x;y"]}), "holds lists separated by ';'.*explode"
    ),
    "properties": (
        lambda _: pd.DataFrame({"i": [0, 0, 1], "j": [0, 1, 0], "y": [0.1, 0.2, 0.3], "t": [1, 1, 1]}), "i.*j.*name two"
    ),
    "totals": (lambda _: pd.crosstab(pd.Series(list("aab")), pd.Series(list("xyx")), margins=True), "totals"),
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_an_error_with_both(tmp_path: Path, name: str) -> None:
    make, message = AMBIGUOUS[name]
    with pytest.raises(PapilioError, match=message):
        count(make(tmp_path))


def test_every_layout_can_be_asked_for(tmp_path: Path, run: Run) -> None:
    lists = write(tmp_path / "lists.txt", "1 6 8 9\n2 7 8\n3 6 7 9\n4 6 7 8 9\n5 9\n6\n7\n8\n9\n")
    assert count(lists, layout="adjacency") == 8
    assert papilio.read(lists, layout="groups").n_edges == 22
    assert papilio.read(lists, layout="adjacency", kind="unipartite").n_edges == 13
    square = "".join(" ".join(map(str, row)) + "\n" for row in star(5).toarray().tolist())
    matrix = write(tmp_path / "square.txt", square)
    assert count(matrix) == count(matrix, layout="adjacency") == 8
    assert count(matrix, layout="matrix") == count(star(5), layout="matrix") == 16
    assert papilio.read(star(5), kind="unipartite").n_edges == 13
    column = write(tmp_path / "column.csv", "site,abundance\nA,3\nB,2\nC,0\n")
    code, out, _ = run("count", "butterfly", column, "--layout", "matrix")
    assert (code, out.strip()) == (0, "0")
    assert [papilio.read(column, layout=each).n_edges for each in ("edges", "matrix")] == [3, 2]


def test_edges_with_few_zeros_stay_edges() -> None:
    rng = np.random.default_rng(1)
    edges = np.unique(rng.integers(0, 60, (1500, 2)), axis=0)
    for rows in (edges, rng.permutation(edges)):
        assert papilio.read(rows).n_edges == len(edges)
    assert decide(Evidence("a", [[0, 1], [1, 0], [1, 2]], ends=(0, 1)), None).layout == "edges"


# Zeros, missing values, conditions, signs


def test_a_weight_of_zero_in_all_pairs_is_an_error_that_shows_the_condition(tmp_path: Path) -> None:
    melted = FRAME.reset_index(names="plant").melt("plant", var_name="bee", value_name="visits")
    path = tmp_path / "melted.csv"
    melted.to_csv(path, index=False)
    for source in (path, melted):
        ends = {"u": "plant", "v": "bee"}
        with pytest.raises(
            InputError, match=r'5 x 4 vertices, 20 edges; without zeros: 13 edges.*--where "visits > 0"'
        ):
            count(source, **ends)
        assert count(source, **ends, where="visits > 0") == 8
        assert count(source, **ends, layout="edges") == 60


@pytest.mark.parametrize(
    "matrix", [NEVER, sparse.csr_array(NEVER), FRAME.where(FRAME > 0)], ids=["array", "csr", "pivot"]
)
def test_missing_entries_of_a_matrix_are_an_error_or_no_edges(matrix: Any) -> None:
    with pytest.raises(GraphError, match=r"missing \(NaN\).*missing='drop'"):
        count(matrix)
    assert count(matrix, missing="drop") == 8


def test_missing_entries_of_a_file_are_an_error_or_no_edges(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "plant,p,q,r\nA,1,NA,0\nB,0,1,\nC,1,1,0\n")
    with pytest.raises(
        InputError, match=r"2 entries of the matrix are missing .*, the first in line 2; missing='drop'"
    ):
        papilio.read(path)
    assert papilio.read(path, missing="drop").n_edges == 4


def test_words_for_missing_ends_are_an_error_with_their_number(tmp_path: Path, run: Run) -> None:
    path = write(tmp_path / "a.csv", "user,item\na,x\na,NA\nb,NULL\nb,x\n")
    with pytest.raises(InputError, match=r"2 ends of edges are missing .*, the first in line 3"):
        papilio.read(path)
    dropped = papilio.read(path, missing="drop")
    assert (dropped.n_edges, dropped.reading["dropped"]["missing"]) == (2, 2)
    assert papilio.read(path, missing="label").n_edges == 4
    assert run("info", path, "--missing", "label")[0] == 0
    pq.write_table(pa.table({"user": ["a", "b"], "item": ["x", "NA"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column item has 1 words for missing values"):
        papilio.read(tmp_path / "a.parquet")
    assert papilio.read(tmp_path / "a.parquet", missing="drop").n_edges == 1


RATED = [
    ("a", "x", 5, "2024-01-05"),
    ("a", "y", 2, "2024-03-01"),
    ("b", "x", 4, "2023-12-31"),
    ("b", "y", 4, "2024-02-02"),
]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("stars >= 4", [0, 2, 3]),
        ("day >= 2024-01-01", [0, 1, 3]),
        (["stars >= 4", "day < 2024-02-01"], [0, 2]),
        ("user == a", [0, 1]),
        ("item != 'x'", [1, 3]),
        ("3 < 5", [1, 2, 3]),
    ],
)
def test_conditions_choose_rows_of_every_source(tmp_path: Path, where: Any, left: list[int]) -> None:
    names = ["user", "item", "stars", "day"]
    frame = pd.DataFrame(RATED, columns=names)
    frame.to_csv(tmp_path / "a.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    for source in (frame, pa.Table.from_pandas(frame), tmp_path / "a.csv", tmp_path / "a.parquet"):
        read = papilio.read(source, u="user", v="item", where=where).to_pandas()
        assert sorted(zip(read["u"], read["v"], strict=True)) == sorted(RATED[at][:2] for at in left)


def test_conditions_on_numbers_and_entries(tmp_path: Path, run: Run) -> None:
    rows = np.array([[1, 10, 5], [1, 11, 2], [2, 10, 4], [2, 11, 4]])
    assert papilio.read(rows, where="3 > 2").n_edges == 3
    assert papilio.read(npy(tmp_path / "a.npy", rows), where="3 > 2").n_edges == 3
    assert papilio.read(rows.tolist(), where="3 > 2").n_edges == 3
    for matrix in (VISITS, FRAME, sparse.csr_array(VISITS)):
        assert papilio.read(matrix, where="value >= 2").n_edges == 6
    with pytest.raises(InputError, match="its entries are called value"):
        papilio.read(VISITS, where="3 > 2")
    path = write(tmp_path / "a.csv", "u,v,stars\n1,1,5\n1,2,many\n")
    with pytest.raises(MalformedLineError, match=r"stars .column 3. is 'many', not a number"):
        papilio.read(path, where="stars > 2")
    code, out, _ = run("count", "butterfly", path, "--where", "stars == many", "--where", "u < 3")
    assert (code, out.strip()) == (0, "0")


@pytest.mark.parametrize("text", ["stars", ">= 4", "stars >=", 4])
def test_conditions_that_are_none(text: Any) -> None:
    with pytest.raises(InputError, match="expected a column, one of"):
        read_conditions([text])


def test_a_threshold_is_an_error_for_a_question_without_signs() -> None:
    frame = pd.DataFrame(RATED, columns=["user", "item", "stars", "day"])
    with pytest.raises(InputError, match=r"positive_from makes signs.*where='stars >= 4' \(--where 'stars >= 4'\)"):
        count(frame, u="user", v="item", sign="stars", positive_from=4)


def test_triples_are_weights_unless_signs_are_asked_for() -> None:
    triples = [("a", "x", 3), ("a", "y", 1), ("b", "x", 2), ("b", "y", 5)]
    graph = papilio.read(triples)
    assert not graph.signed
    assert graph.reading["notes"] == [
        "not used: column 3; sign=3 makes it the sign, and where='3 > 0' leaves out zeros"
    ]
    assert papilio.read(triples, positive_from=3).signed
    assert papilio.count(triples, "balanced-butterfly", engine="cpu").count == 1
    assert papilio.read([("a", "x", -1), ("a", "y", 1)]).signed


# Lines


def test_skipping_most_lines_is_an_error(tmp_path: Path, run: Run) -> None:
    text = "".join(f"{at} {at + 100}\n" for at in range(1, 30)) + "odd\nodd too long\n"
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(MalformedLineError, match=r"2 of 31 lines cannot be read as edges.*\(--max-malformed\)"):
        papilio.read(path, skip_malformed=True)
    assert papilio.read(path, skip_malformed=True, max_malformed=0.1).n_edges == 29
    assert run("info", path, "--skip-malformed", "--max-malformed", "10%")[0] == 0
    with pytest.raises(InputError, match="together with skip_malformed"):
        papilio.read(path, max_malformed=0.1)


def test_a_clean_file_is_quiet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.csv", "species,site,visits\na,x,1\na,y,2\nb,x,3\nb,y,1\n")
    with caplog.at_level(logging.INFO, logger="papilio"):
        graph = papilio.read(path, u="species", v="site")
    assert graph.n_edges == 4
    assert [record.levelname for record in caplog.records if "a.csv" in record.message] == ["INFO"]
    assert graph.reading["header"] == ["species", "site", "visits"]


def test_a_first_line_whose_words_come_again_late_is_an_edge(tmp_path: Path) -> None:
    rows = [f"u{at},v{at % 50}" for at in range(3000)]
    path = write(tmp_path / "a.csv", "\n".join(["one,two", *rows, "u1,two"]) + "\n")
    with pytest.warns(InputWarning, match="line 1 read as an edge, because its words occur in other lines"):
        graph = papilio.read(path)
    assert graph.n_edges == 3002


FIRST = "".join(f"a{at},b{at % 7},1\n" for at in range(1500))
SQUARE = np.triu(np.random.default_rng(3).random((1200, 1200)) < 0.002, 1)
BOTH = (SQUARE + SQUARE.T).astype(int)
GROUPS = "".join(f"g{at} {' '.join(('m', 'n', 'o', 'p')[at % 2 : 2 + at % 3])}\n" for at in range(1100))
LATE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a weight of 0": (lambda at: write(at / "a.csv", FIRST + "a1,b1,0\n"), r"column 3 is 0 in line 1,501.*3 > 0"),
    "a named weight of 0": (
        lambda at: write(at / "a.csv", "u,v,visits\n" + FIRST + "a1,b1,0.0\n"), r"visits is 0 in line 1,502.*visits > 0"
    ),
    "a weight of 0 in a frame": (
        lambda _: pd.DataFrame({"u": range(3000), "v": range(3000), "visits": [1] * 2999 + [0]}),
        "visits is 0 in rows after the first 2,000",
    ),
    "a group again": (lambda at: write(at / "a.txt", GROUPS + "g7 m\n"), "lines 8 and 1,101 of data begin with 'g7'"),
    "a group that is a member": (
        lambda at: write(at / "a.txt", GROUPS + "h g7\n"), "'g7' is the first word of a line and a later word"
    ),
    "symmetry": (
        lambda at: write(at / "a.txt", "".join(" ".join(map(str, row)) + "\n" for row in BOTH.tolist())),
        "symmetric matrix of 1,200 rows",
    ),
    "symmetry of an array": (lambda _: np.pad(BOTH, (0, 1200)), "can be read in 2 ways"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_a_later_line_that_shows_another_layout_is_an_error(tmp_path: Path, name: str) -> None:
    make, message = LATE[name]
    with pytest.raises(InputError, match=message):
        papilio.read(make(tmp_path))


def test_a_late_weight_of_zero_in_parquet_is_an_error(tmp_path: Path) -> None:
    frame = pd.DataFrame({"u": range(5000), "v": range(5000), "visits": [1] * 4999 + [0]})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="visits is 0 in rows"):
        papilio.read(tmp_path / "a.parquet")
    assert papilio.read(tmp_path / "a.parquet", where="visits > 0").n_edges == 4999


def test_conditions_on_the_edges_of_a_graph(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "x", 3), ("a", "y", 1), ("b", "x", 2), ("b", "y", 5)])
    graph.add_edge("b", "z")
    nx.set_node_attributes(graph, {node: int(node in "xyz") for node in graph}, "bipartite")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    for source in (graph, tmp_path / "a.graphml"):
        read = papilio.read(source, where="weight >= 2")
        assert (read.n_edges, read.n_u + read.n_v, read.reading["dropped"]["filtered"]) == (3, 5, 2)
    with pytest.raises(InputError, match="the edges have no such attribute; they have 'weight'"):
        papilio.read(graph, where="size > 2")


def test_decimal_commas_in_conditions_and_matrices(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user;item;rate\na;x;3,5\na;y;0,5\nb;x;1,25\n")
    assert papilio.read(path, where="rate >= 1,25", decimal=",").n_edges == 2
    assert papilio.read(path, where="rate >= 1.25", decimal=",").n_edges == 2
    with pytest.raises(InputError, match=r"write 'rate >= 1.25'|write '1.25'"):
        papilio.read(path, where="rate >= 1,25")
    assert papilio.read(write(tmp_path / "b.csv", ";p;q\nA;0,5;0,0\nB;1,5;2,0\n")).n_edges == 3


WAYS = {
    "a declared separator": "sep=;\nplant;bee\na;x\na;y\nb;x\nb;y\n",
    "Neo4j": ":START_ID(P),:END_ID(B),:TYPE\na,x,R\na,y,R\nb,x,R\nb,y,R\n",
    "quotes in TSV": '"plant"\t"bee"\n"a"\t"x"\n"a"\t"y"\n"b"\t"x"\n"b"\t"y"\n',
    "a matrix of R": "x\ty\tz\na\t1\t2\t0\nb\t3\t1\t0\n",
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.filterwarnings("error")
def test_tables_of_other_programs(tmp_path: Path, name: str) -> None:
    read = papilio.read(write(tmp_path / "a.csv", WAYS[name]))
    assert {*read.labels("u")} == {"a", "b"}  # type: ignore[misc]
    assert {*read.labels("v")} >= {"x", "y"}  # type: ignore[misc]
    assert count(read) == 1


DOUBTFUL = {
    "names of columns that are numbers": ("K7,1999,2000,2001\na,1,2,0\nb,0,1,0\n", "names of columns, or a row"),
    "names of rows that are numbers": ("7,0,2,0,0\n3,1,0,0,0\n5,0,0,1,0\n", "column 1 holds another number"),
    "columns of a dictionary": ({"source": ["a", "b"], "target": ["x", "y"]}, "pass pandas.DataFrame"),
    "an index that is an end": (
        pd.DataFrame({"source": ["a", "b"], "target": ["x", "y"], "n": [1, 2]}).set_index("source"), "reset_index"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_names_that_may_be_values_are_an_error(tmp_path: Path, name: str) -> None:
    brought, message = DOUBTFUL[name]
    with pytest.raises(InputError, match=message):
        papilio.read(write(tmp_path / "a.csv", brought) if isinstance(brought, str) else brought)


def test_small_lists_of_ids_from_zero_are_edges_and_counts_are_not() -> None:
    draw = np.random.default_rng(0)
    lists = [(at % 11, at * 4 % 9) for at in range(30)]
    assert papilio.read(draw.permutation(np.array(lists))).n_edges == 30
    for _ in range(200):
        counts = draw.poisson(draw.choice((1.5, 3, 6)), (int(draw.integers(8, 50)), 2))
        if (counts == 0).any():
            with pytest.raises(InputError, match="can be read in 2 ways"):
                papilio.read(counts)


CASES = ROOT.parent / "shared" / "cases"

EXPECTED: dict[str, set[int]] = {
    "01-weboflife-matrix/M_PL_999.csv": {8},
    "01-weboflife-matrix/M_PL_999_nonames.csv": {8},
    "01-weboflife-matrix/bare_5x2.csv": {1},
    "01-weboflife-matrix/bare_6x2.csv": {3},
    "01-weboflife-matrix/bare_6x3.csv": {7},
    "01-weboflife-matrix/bare_blank.txt": {8},
    "01-weboflife-matrix/binary_semicolon.csv": {8},
    "01-weboflife-matrix/counts_named.csv": {0},
    "01-weboflife-matrix/counts_one_species.csv": {0},
    "01-weboflife-matrix/counts_two_species.csv": {0},
    "01-weboflife-matrix/two_columns.csv": {1},
    "07-baskets-gmt/baskets.dat": {138},
    "07-baskets-gmt/baskets_equal.dat": {28},
    "07-baskets-gmt/sets.gmt": {138},
    "10-concatenated-csv/both.csv": {5},
    "10-concatenated-csv/both_ids.csv": {1},
    "10-concatenated-csv/trailing_comma.csv": {5},
    "10-concatenated-csv/spaces.csv": {5},
    "22-melted-zeros/melted.csv": {8},
    "22-melted-zeros/melted_present.csv": {8},
    "22-melted-zeros/stacked.csv": {8},
    "24-tool-exports/cytoscape.sif": {8},
    "24-tool-exports/cytoscape_multi.sif": {8},
    "24-tool-exports/gephi_edges.csv": {8},
    "24-tool-exports/plants.ncol": {8},
    "28-explicit-zeros/zeros.mtx": {0},
}
"""Files as people bring them, and what is right; an error is right as well."""


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")
def test_files_as_people_bring_them(name: str) -> None:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found, said = None, ""
    try:
        found = count(path)
    except PapilioError as error:
        said = str(error)
    assert found in EXPECTED[name] or any(word in said for word in ("--layout", "--where", "name them by u and v"))


FEW_LINES: dict[str, tuple[str, str]] = {
    "a row of numbers with points": ("1,18.0,6.5\n", "2 ways: as edges.*as a matrix"),
    "two rows of numbers with points": ("1,18.0,6.5\n2,3.0,4.5\n", "2 ways: as edges.*as a matrix"),
    "a line above marks": ("plant,Apis,7\nRosa,x,\n", "header=True.*header=False"),
    "a line above numbers": ("Apis,7,2024-01-01\n3123,48,3028\n", "header=True.*header=False"),
    "two lines of four dates": ("2024-05-01 2024-01-01 2024-04-01 2024-06-01\n" * 2, "2 ways: as edges.*as groups"),
    "semicolons in a few baskets": ("c d e\nc d e;a B\na B\nc d e\na B\n", "layout='groups'.*sep=;"),
    "tabs in a few baskets": ("c d e\nc d e\ta B\na B\nc d e\na B\n", "layout='groups'.*format='tsv'"),
}


@pytest.mark.parametrize("name", FEW_LINES)
def test_few_lines_with_two_readings_are_an_error(name: str, tmp_path: Path) -> None:
    text, message = FEW_LINES[name]
    with pytest.raises(InputError, match=message):
        papilio.read(write(tmp_path / "few.txt", text))


def test_a_declared_separator_decides_about_baskets(tmp_path: Path) -> None:
    text = FEW_LINES["semicolons in a few baskets"][0]
    assert papilio.read(write(tmp_path / "a.txt", "sep=;\n" + text), layout="groups").n_v == 2
    assert papilio.read(write(tmp_path / "b.txt", text), layout="groups").n_v == 6


def test_numbers_with_points_as_text_are_no_labels() -> None:
    with pytest.raises(InputError, match="2 ways"):
        papilio.read(np.array([["18.0", "8.0", "16.5"]]))


def test_quoted_numbers_above_a_table_of_r_are_names(tmp_path: Path) -> None:
    file = write(tmp_path / "r.txt", '"4" "3"\n"1" 1 2\n"2" 2 0\n"3" 1 1\n')
    found = papilio.read(file, layout="matrix")
    assert found.n_edges == 5
    assert [*found.labels("v")] == ["3", "4"]


def test_ids_of_mixed_types_stay_apart() -> None:
    for source in ({1: ["x", "y"], "1": ["x"]}, [(1, "x"), (1, "y"), ("1", "x")]):
        assert (papilio.read(source).n_u, papilio.read(source).n_edges) == (2, 3)


def test_a_first_line_of_names_that_stand_below_is_an_edge(tmp_path: Path) -> None:
    (path := tmp_path / "friends.txt").write_text("Ada Grace\nAda 2\nAda 3\nGrace 3\n2 3\n", "utf-8")
    assert papilio.read(path, kind="unipartite").n_edges == 5
    path.write_text("Ada Grace\nAda 2\nAda 3\nLin 3\n2 3\n", "utf-8")
    with pytest.raises(InputError, match="names of columns, or an edge"):
        papilio.read(path, kind="unipartite")
