"""Which columns of a table are read: named by the user, by usual names, by place; and lines of names."""

from __future__ import annotations

import io
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papilio.errors import InputError
from papilio.storage.column_choice import pick_ends
from papilio.storage.convert import convert
from papilio.storage.interop import from_arrow, from_pandas
from tests.storage.convert_helpers import COMPRESS, labelled_edges, write_input

COLUMNS: dict[str, list[Any]] = {"u": [5, 6, 7], "v": [2, 1, 1], "value": [4, 2, 5], "time": [30, 20, 10]}
EDGES = [(5, 2), (6, 1), (7, 1)]
SIGNED = [(5, 2, 1), (6, 1, -1), (7, 1, 1)]

TABLES: dict[str, dict[str, str]] = {
    "pandas with its index": {"": "time", "user": "u", "item": "v"},
    "pandas with its index, any names": {"": "time", "foo": "u", "bar": "v"},
    "index read again": {"Unnamed: 0": "time", "foo": "u", "bar": "v"},
    "named index": {"index": "time", "foo": "u", "bar": "v"},
    "rating first": {"rating": "value", "user": "u", "item": "v"},
    "time first": {"timestamp": "time", "user_id": "u", "item_id": "v", "rating": "value"},
    "camel case": {"Rating": "value", "userId": "u", "movieId": "v", "Date": "time"},
    "graph": {"weight": "value", "Source": "u", "Target": "v", "anything": "time"},
    "endpoints among others": {"price": "value", "customer": "u", "shop": "time", "product": "v"},
    "one usual name": {"time": "time", "user": "u", "site": "v", "stars": "value"},
    "u and v": {"w": "value", "v": "v", "x": "time", "u": "u"},
    "plain": {"a": "u", "b": "v"},
    "backwards": {"item": "u", "user": "v"},
    "no names at all": {"weight": "u", "time": "v"},
}


def table_of(columns: dict[str, str]) -> dict[str, list[Any]]:
    return {name: COLUMNS[what] for name, what in columns.items()}


def text_of(columns: dict[str, list[Any]], separator: str, quote: str = "") -> str:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(separator.join(f"{quote}{cell}{quote}" for cell in row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in TABLES for kind in (",", "parquet")),
        *(("time first", kind) for kind in (";", "\t", "quoted", "mark", "parquet.gz")),
        *(("pandas with its index", kind) for kind in (";", "\t", "quoted", "mark", "parquet.gz")),
    ],
)
def test_ends_are_found_by_names(tmp_path: Path, name: str, kind: str) -> None:
    columns = table_of(TABLES[name])
    if kind.startswith("parquet"):
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file)
        data = file.getvalue()
        if kind.endswith(".gz"):
            data = COMPRESS["gzip"](data)
    elif kind == "quoted":
        data = text_of(columns, ",", '"').encode()
    elif kind == "mark":
        data = b"\xef\xbb\xbf" + text_of(columns, ",").replace("\n", "\r\n").encode()
    else:
        data = text_of(columns, kind).encode()
    store = convert(write_input(tmp_path, data), tmp_path / "g")
    assert labelled_edges(store) == EDGES
    places = {what: list(columns).index(given) + 1 for given, what in TABLES[name].items()}
    read = store.manifest.provenance["layout"]["read"]
    for role in "uv":
        assert read[role].endswith(f"(column {places[role]})")


@pytest.mark.parametrize("name", TABLES)
def test_tables_in_memory_follow_the_same_names(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    columns = table_of(TABLES[name])
    for labelled in (from_pandas(pandas.DataFrame(columns)), from_arrow(pa.table(columns))):
        assert labelled.labels_u is not None
        assert labelled.labels_v is not None
        graph = labelled.graph
        ends = zip(labelled.labels_u[graph.u].tolist(), labelled.labels_v[graph.v].tolist(), strict=True)
        assert sorted(ends) == EDGES


@pytest.mark.parametrize("name", [name for name in TABLES if "value" in TABLES[name].values()])
@pytest.mark.parametrize("kind", [",", "parquet"])
def test_values_are_found_by_names(tmp_path: Path, name: str, kind: str) -> None:
    columns = table_of(TABLES[name])
    place = list(TABLES[name].values()).index("value") + 1
    usual = {"rating", "weight", "stars"} & {column.lower() for column in columns}
    if kind == "parquet":
        pq.write_table(pa.table(columns), tmp_path / "input.txt")
    else:
        write_input(tmp_path, text_of(columns, kind))
    given = {} if usual else {"sign": place}
    store = convert(tmp_path / "input.txt", tmp_path / "g", positive_from=4, **given)
    assert labelled_edges(store) == SIGNED
    assert store.manifest.provenance["layout"]["read"]["sign"].endswith(f"(column {place})")
    assert f"(column {place}): positive from 4 on" in store.manifest.provenance["options"]["sign"]


def test_time_by_name_or_number_orders_duplicates(tmp_path: Path) -> None:
    path = write_input(tmp_path, "timestamp,rating,user,item,seen\n20,1,7,8,10\n10,5,7,8,20\n")
    store = convert(path, tmp_path / "a", positive_from=3)
    assert labelled_edges(store) == [(7, 8, 1)]
    assert store.manifest.provenance["layout"]["read"]["time"] == "timestamp (column 1)"
    for at, column in enumerate(("seen", "SEEN", 5)):
        other = convert(path, tmp_path / str(at), positive_from=3, time=column)
        assert labelled_edges(other) == [(7, 8, -1)]


def test_dates_of_parquet_order_duplicates(tmp_path: Path) -> None:
    days = [date(2024, 2, 1), date(2024, 1, 31)]
    for at, times in enumerate((days, [datetime(day.year, day.month, day.day) for day in days])):
        pq.write_table(
            pa.table({"date": times, "user": [7, 7], "item": [8, 8], "rating": [1, 5]}), tmp_path / f"{at}.pq"
        )
        for policy, sign in (("first", 1), ("last", -1)):
            store = convert(tmp_path / f"{at}.pq", tmp_path / f"{at}{policy}", positive_from=3, duplicates=policy)
            assert labelled_edges(store) == [(7, 8, sign)]


ASKED: dict[str, dict[str, Any]] = {
    "names": {"u": "b", "v": "c"},
    "other case": {"u": "B", "v": "C"},
    "numbers": {"u": 2, "v": 3},
    "both": {"u": 2, "v": "c"},
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", [",", " ", "parquet"])
def test_columns_that_are_asked_for(tmp_path: Path, asked: str, kind: str) -> None:
    columns = {"a": [1, 2, 3], "b": COLUMNS["u"], "c": COLUMNS["v"], "d": COLUMNS["value"]}
    if kind == "parquet":
        pq.write_table(pa.table(columns), tmp_path / "input.txt")
    else:
        write_input(tmp_path, text_of(columns, kind))
    store = convert(tmp_path / "input.txt", tmp_path / "g", sign="d", positive_from=4, **ASKED[asked])
    assert labelled_edges(store) == SIGNED
    assert store.manifest.provenance["layout"]["read"] == {
        "u": "b (column 2)",
        "v": "c (column 3)",
        "sign": "d (column 4)",
    }


def test_columns_by_number_without_names(tmp_path: Path) -> None:
    text = "9 5 2\n9 6 1\n8 7 1\n"
    for at, data in enumerate([text, text.replace(" ", ","), text.replace(" ", "::")]):
        store = convert(write_input(tmp_path, data), tmp_path / str(at), u=2, v=3)
        assert labelled_edges(store) == EDGES
        turned = convert(write_input(tmp_path, data), tmp_path / f"{at}t", u=3, v=2)
        assert labelled_edges(turned) == sorted((v, u) for u, v in EDGES)
    file = io.BytesIO()
    np.save(file, np.array([[9, 5, 2], [9, 6, 1], [8, 7, 1]]))
    path = write_input(tmp_path, file.getvalue(), "a.npy")
    assert labelled_edges(convert(path, tmp_path / "n", u=2, v=3)) == EDGES
    assert labelled_edges(convert(path, tmp_path / "m", u=2, v=3, sign=1)) == [(*e, 1) for e in EDGES]


def test_names_in_the_last_comment(tmp_path: Path) -> None:
    for at, comment in enumerate(["# timestamp user item", "#timestamp\tuser\titem", "% a\n% time source target"]):
        separator = "\t" if "\t" in comment else " "
        text = f"{comment}\n30 5 2\n20 6 1\n10 7 1\n".replace(" ", separator)
        store = convert(write_input(tmp_path, text), tmp_path / str(at), format="edges" if at == 2 else None)
        assert labelled_edges(store) == EDGES
    store = convert(write_input(tmp_path, "#rating,user,item\n1,5,2\n2,6,1\n3,7,1\n"), tmp_path / "csv")
    assert labelled_edges(store) == EDGES


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "three unknown": (
        "a,b,c\n1,2,3\n",
        {},
        r"not clear: a \(column 1\), b \(column 2\), c \(column 3\); name them by u",
    ),
    "three known": ("user,item,movie\n1,2,3\n", {}, "not clear: user .*--u and --v"),
    "one left": ("user,rating,time\n1,2,3\n", {}, "not clear"),
    "index and value": (",user,rating\n1,2,3\n", {}, "not clear"),
    "no such name": ("a,b,c\n1,2,3\n", {"u": "x", "v": "b"}, "no column 'x' for u; it has a"),
    "several": ("a,a,b\n1,2,3\n", {"u": "b", "v": "a"}, "several columns 'a': use a number for v"),
    "no names": ("1 2\n", {"u": "a", "v": "b"}, "has no line of names, so u 'a' is not a column"),
    "too large": ("1 2\n", {"u": 1, "v": 3}, "2 columns; there is no column 3 for v"),
    "zero": ("1 2\n", {"u": 0}, "u is 0; expected a column number from 1"),
    "not a number": ("1 2\n", {"u": 1.0}, "u is 1.0; expected"),
    "true": ("1 2\n", {"sign": True}, "sign is True; expected"),
    "the same": ("1 2\n", {"u": 1, "v": 1}, "column 1 cannot be both u and v"),
    "half": ("1 2 3\n", {"u": 2}, "not clear: column 1, column 2, column 3"),
    "sign at an end": (
        "1 2 3\n",
        {"u": 2, "v": 3, "sign": 3},
        "but columns 2 and 3 are the endpoints",
    ),
    "values at an end": ("1 2 3\n", {"u": 2, "v": 3, "positive_from": 1}, "column 3 is an endpoint"),
    "several values": (
        "user,item,rating,weight\n1,2,3,4\n",
        {"positive_from": 1},
        "several columns of values: rating",
    ),
    "konect": ("% bip\n1 2\n", {"u": 2, "v": 1}, "the format konect defines the endpoint columns"),
    "sizes": ("2 3 1\n1 2\n", {"u": 2, "v": 1}, "the format sizes defines the endpoint columns"),
    "short names": ("user item\n1 5 7\n2 6 8\n", {}, r"line 1: 2 names \(user, item\) for 3 columns"),
    "long names": ("user,item,rating\n1,5\n2,6\n", {}, "3 names .* for 2 columns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unclear_columns_are_refused(tmp_path: Path, name: str) -> None:
    text, options, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        convert(write_input(tmp_path, text), tmp_path / "g", **options)
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


def test_parquet_that_is_unclear_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"the two endpoint columns are not clear: a \(column 1\)"):
        convert(tmp_path / "p.parquet", tmp_path / "g")
    pq.write_table(pa.table({"x": [1.5], "b": [2], "__index_level_0__": [9], "c": [3]}), tmp_path / "q.parquet")
    assert labelled_edges(convert(tmp_path / "q.parquet", tmp_path / "h")) == [(2, 3)]
    with pytest.raises(InputError, match="the endpoint columns of the table are unknown"):
        from_arrow(pa.table({"a": [1], "b": [2], "c": [3]}))


def test_short_names_with_numbers(tmp_path: Path) -> None:
    path = write_input(tmp_path, "user item\n1 5 2\n2 6 1\n3 7 1\n")
    assert labelled_edges(convert(path, tmp_path / "g", u=2, v=3)) == EDGES


def test_ends_of_names() -> None:
    assert pick_ends(["v", "u"]) == (1, 0)
    assert pick_ends(["x", "u", "v"], excluded=(1,)) == (0, 2)
    assert pick_ends(["a"]) is None
    assert pick_ends(["user", "item", "rating", "x"]) == (0, 1)


# Lines of names


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("names", ["customer product", "User Item", "source target", "reviewer_id ASIN"])
def test_usual_names_above_words_are_no_edge(tmp_path: Path, names: str, separator: str) -> None:
    text = f"{names}\nann bread\nbob milk\n".replace(" ", separator)
    store = convert(write_input(tmp_path, text), tmp_path / "g")
    assert labelled_edges(store) == [("ann", "bread"), ("bob", "milk")]
    assert store.manifest.provenance["layout"]["read"]["u"].startswith(names.split()[0])
    assert convert(write_input(tmp_path, text), tmp_path / "h", header=False).n_edges == 3


def test_unknown_names_above_words_are_said(tmp_path: Path) -> None:
    path = write_input(tmp_path, "Kunde,Ware\nann,bread\nbob,milk\n")
    store = convert(path, tmp_path / "g")
    assert store.n_edges == 2
    assert "line of names: line 1 (Kunde, Ware); --no-header if it is an edge" in store.manifest.provenance["notes"]
    again = convert(path, tmp_path / "h", header=True)
    assert (again.n_edges, again.manifest.provenance["notes"]) == (2, [])
    data = convert(write_input(tmp_path, "ann,bread\nbob,milk\nann,milk\n"), tmp_path / "i")
    assert data.manifest.provenance["notes"] == []


def test_an_index_without_a_name_is_said(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "".join(f"{i},{i % 3 + 1},{i % 2 + 1}\n" for i in range(9))), tmp_path / "g")
    assert "column 1 counts the lines; if it is an index: --u 2 --v 3" in store.manifest.provenance["notes"]


def test_columns_that_are_not_used_are_said(tmp_path: Path) -> None:
    store = convert(write_input(tmp_path, "rating,user,item\n1,2,3\n"), tmp_path / "g")
    assert store.manifest.provenance["notes"] == ["not used: rating (column 1); a sign rule makes the graph signed"]
