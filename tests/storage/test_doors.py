"""One table, a hundred doors: however a table is brought, the same graph comes out, or an error.

A table of zeros and other numbers, with names, is drawn by a seed and written in every layout and form. What the graph
is, is told by the table itself: its entries other than 0, as pairs of names.

More seeds: ``PAPILIO_DOORS=1000 PAPILIO_DOORS_EACH=200 PAPILIO_SEED=7 pytest tests/storage/test_doors.py``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from scipy.io import mmwrite

import papilio
from papilio.errors import PapilioError
from papilio.storage.any_object import label_any
from papilio.storage.formats import ReadOptions
from papilio.storage.graph_files import HEAD_BYTES, find_graph_format, is_graph_format, read_graph_file
from papilio.storage.inputs import InputFile, expand_inputs
from papilio.storage.labelled import LabelledGraph
from papilio.storage.sources import open_source
from papilio.storage.where import read_conditions

igraph = pytest.importorskip("igraph")
pl = pytest.importorskip("polars")

SEEDS = int(os.environ.get("PAPILIO_DOORS", "100"))
"""Tables that are drawn; offline thousands."""

DOORS = int(os.environ.get("PAPILIO_DOORS_EACH", "5"))
"""Doors that each table goes through, drawn by its seed; offline all."""

NAMES = {
    "plants": ["Salvia", "Rosa", "Thymus", "Bellis", "Viola", "Malva", "Abies", "Acer"],
    "bees": ["Apis", "Bombus", "Vespa", "Musca", "Osmia", "Andrena", "Nomada", "Eucera"],
    "unicode": ["Süß", "Éa", "日本", "Ωm", "ñu", "Čeh", "ß", "東京"],
    "blanks": ["Salvia alba", "Rosa canina", "Viola odorata", "Bellis perennis", "A b", "a B", "c d e", "x y"],
    "marks": ['Apis "una"', "Vespa, tres", "O'Brien", "a;b", 'c"d', "'q'", "d;e", "e,f"],
    "one": list("12345678"),
    "zero": list("01234567"),
    "ids": ["17", "4", "203", "9", "88", "3", "1001", "12"],
    "codes": ["007", "010", "003", "042", "100", "011", "000", "020"],
    "years": [str(year) for year in range(1999, 2007)],
    "dates": [f"2024-0{month}-01" for month in range(1, 9)],
    "headers": ["user", "item", "weight", "source", "target", "id", "rating", "time"],
    "mixed": ["Apis", "7", "2024-01-01", "x1", "3.5", "B", "0", "é"],
    "truth": ["yes", "no", "true", "x", "t", "n", "false", "present"],
}
HEADS = [("plant", "bee"), ("u", "v"), ("species", "site"), ("user", "item"), ("source", "target"), ("from", "to")]
CORNERS = ["", "plant", "#OTU ID", "species", "id", "Unnamed: 0", "X"]

Pairs = set[tuple[str, str]]


class Table:
    """A table drawn by a seed: up to 8 x 8 numbers, or a few columns of many rows, with names of a few kinds."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        n_u, n_v = draw.choice((1, 2, 2, 3, 3, 4, 5, 6, 7, 8)), draw.choice((1, 2, 2, 3, 3, 4, 5, 6, 7, 8))
        if draw.random() < 0.08:
            n_u, n_v = draw.choice((12, 30, 60, 300)), draw.choice((2, 3, 4, 6))
        most = draw.choice((1, 1, 3, 40, 4000))
        density = draw.choice((0.2, 0.4, 0.6, 0.6, 0.8, 1.0))
        cells = [[draw.randint(1, most) * (draw.random() < density) for _ in range(n_v)] for _ in range(n_u)]
        cells[0][0] = cells[0][0] or 1
        self.values = np.array(cells) * (0.5 if draw.random() < 0.15 else 1)
        self.are_whole = self.values.dtype.kind == "i"
        kinds = draw.choice((("plants", "bees"), ("one", "bees"), ("ids", "plants"), ("unicode", "bees")))
        kinds = kinds if draw.random() < 0.5 else (draw.choice([*NAMES]), draw.choice([*NAMES]))
        self.kinds = kinds
        self.u, self.v = (self._names(kind, n) for kind, n in zip(kinds, (n_u, n_v), strict=True))
        self.cells: list[tuple[int, int]] = [(u, v) for u, v in np.argwhere(self.values).tolist()]
        order = draw.choice(("rows", "columns", "random"))
        if order == "columns":
            self.cells.sort(key=lambda cell: cell[::-1])
        elif order == "random":
            draw.shuffle(self.cells)
        self.pairs = [(self.u[u], self.v[v]) for u, v in self.cells]
        self.head = draw.choice(HEADS)
        self.corner = draw.choice(CORNERS)
        self.frame = pd.DataFrame(self.values, self.u, self.v)
        self.are_apart = not {*self.u} & {*self.v}
        self.groups = [[self.v[at] for at in np.flatnonzero(row)] for row in self.values]
        self.named = [[name, *group] for name, group in zip(self.u, self.groups, strict=True) if group]

    def _names(self, kind: str, n: int) -> list[str]:
        base = NAMES[kind]
        if n > len(base):
            return [f"{base[0]}-{at}" for at in range(n)]
        return base[:n] if self.draw.random() < 0.5 else self.draw.sample(base, n)

    def show(self, value: Any, point: str = ".") -> str:
        return (str(int(value)) if self.are_whole else str(float(value))).replace(".", point)

    def wide(self, point: str = ".") -> list[list[str]]:
        rows = zip(self.u, self.values, strict=True)
        return [[self.corner, *self.v], *([name, *(self.show(each, point) for each in row)] for name, row in rows)]

    def long(self, *, zeros: bool = False, point: str = ".") -> list[list[str]]:
        cells = [*np.ndindex(*self.values.shape)] if zeros else self.cells
        return [[self.u[u], self.v[v], self.show(self.values[u, v], point)] for u, v in cells]

    def table(self, *, zeros: bool = False, names: Iterable[str] = ("plant", "bee", "value")) -> pd.DataFrame:
        cells = [*np.ndindex(*self.values.shape)] if zeros else self.cells
        rows = [(self.u[u], self.v[v], self.values[u, v]) for u, v in cells]
        return pd.DataFrame(rows, columns=[*names])

    @property
    def titled(self) -> pd.DataFrame:
        return self.frame.reset_index(names="species")

    @property
    def zeros(self) -> Any:
        """All cells as entries of a sparse matrix, the zeros as well."""
        places = np.indices(self.values.shape).reshape(2, -1)
        return sparse.coo_array((self.values.ravel(), places), self.values.shape)

    @property
    def network(self) -> Any:
        graph = nx.Graph()
        graph.add_nodes_from(self.u, bipartite=0)
        graph.add_nodes_from(self.v, bipartite=1)
        graph.add_edges_from(self.pairs)
        return graph


def text(rows: Iterable[Iterable[Any]], mark: str, quoting: Any = csv.QUOTE_MINIMAL) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=mark, quoting=quoting, lineterminator="\n").writerows(rows)
    return file.getvalue()


def saved(write: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def parquet(frame: pd.DataFrame) -> bytes:
    return saved(lambda file: pq.write_table(pa.Table.from_pandas(frame), file))


def relation(frame: pd.DataFrame) -> Any:
    connection = duckdb.connect()
    connection.register("brought", frame)
    return connection.sql("select * from brought")


def hif(table: Table) -> str:
    rows = [{"node": u, "edge": v} for u, v in table.pairs]
    return json.dumps({"network-type": "undirected", "incidences": rows})


def typed(table: Table) -> Any:
    names = [*table.u, *table.v]
    graph = igraph.Graph(len(names), [(names.index(u), names.index(v)) for u, v in table.pairs])
    graph.vs["name"], graph.vs["type"] = names, [False] * len(table.u) + [True] * len(table.v)
    return graph


Door = tuple[Callable[[Table], Any], str, str, dict[str, Any]]
"""The text, bytes or object of a table; what is told by it, see :func:`is_right`; suffix of a file; options."""

FILES: dict[str, Door] = {
    "visits": (lambda t: "".join(f"{u} visits {v}\n" for u, v in t.pairs), "names", "txt", {}),
    "arrows": (lambda t: "".join(f"{u} -> {v}\n" for u, v in t.pairs), "names", "txt", {}),
    "wide, commas of decimals": (lambda t: text(t.wide(","), ";"), "names", "csv", {}),
    "wide, tabs, commas of decimals": (lambda t: text(t.wide(","), "\t"), "names", "csv", {"decimal": ","}),
    "weights, commas of decimals": (
        lambda t: text([[*t.head, "n"], *t.long(point=",")], ";"), "names", "csv", {}
    ),
    "melted, chosen, commas of decimals": (
        lambda t: text([["plant", "bee", "value"], *t.long(zeros=True, point=",")], ";"), "names", "csv",
        {"where": "value > 0", "decimal": ","},
    ),
    "declared separator": (lambda t: "sep=;\n" + text(t.wide(), ";"), "names", "csv", {}),
    "declared separator, pairs": (
        lambda t: "sep=;\n" + text([t.head, *t.pairs], ";"), "names", "csv", {}
    ),
    "line ends of Windows": (lambda t: text(t.wide(), ",").replace("\n", "\r\n"), "names", "csv", {}),
    "UTF-16": (lambda t: text(t.wide(), "\t").encode("utf-16"), "names", "txt", {}),
    "truth values": (
        lambda t: text([t.wide()[0], *([n, *map(str, row)] for n, row in zip(t.u, t.values > 0, strict=True))], ","),
        "names", "csv", {},
    ),
    "marks": (
        lambda t: t.frame.rename_axis("plant").map(lambda value: "x" if value else "").to_csv(), "names", "csv", {}
    ),
    "NA, dropped": (lambda t: t.frame.where(t.frame > 0).to_csv(na_rep="NA"), "names", "csv", {"missing": "drop"}),
    "R": (
        lambda t: " ".join(f'"{n}"' for n in t.v)
        + "\n" + "".join(" ".join([f'"{r[0]}"', *r[1:]]) + "\n" for r in t.wide()[1:]),
        "names", "txt", {},
    ),
    "R, tabs": (
        lambda t: "\t".join(t.v) + "\n" + "".join("\t".join(row) + "\n" for row in t.wide()[1:]), "names", "txt", {}
    ),
    "Neo4j": (
        lambda t: text([[":START_ID(P)", "n:int", ":END_ID", ":TYPE"], *([u, "1", v, "R"] for u, v in t.pairs)], ","),
        "names", "csv", {},
    ),
    "index of pandas": (lambda t: pd.DataFrame(t.pairs, columns=t.head).to_csv(), "names", "csv", {}),
    "time": (
        lambda t: text([[*t.head, "rating", "time"], *([*pair, 3, at] for at, pair in enumerate(t.pairs))], ","),
        "names", "csv", {},
    ),
    "HIF": (hif, "names", "hif.json", {}),
    "GraphML": (lambda t: "\n".join(nx.generate_graphml(t.network)), "names", "graphml", {}),
    "gene sets": (
        lambda t: "".join("\t".join([row[0], "about", *row[1:]]) + "\n" for row in t.named), "names", "gmt", {}
    ),
    "npy": (lambda t: saved(lambda file: np.save(file, t.values)), "places", "npy", {}),
    "npy of truth values": (lambda t: saved(lambda file: np.save(file, t.values > 0)), "places", "npy", {}),
    "npy of floats": (lambda t: saved(lambda file: np.save(file, t.values.astype(float))), "places", "npy", {}),
    "npy of ids": (lambda t: saved(lambda file: np.save(file, np.array(t.cells))), "places", "npy", {}),
    "npz": (lambda t: saved(lambda file: sparse.save_npz(file, sparse.csr_array(t.values))), "places", "npz", {}),
    "mtx": (lambda t: saved(lambda file: mmwrite(file, t.zeros)), "places", "mtx", {}),
    "Parquet, wide": (lambda t: parquet(t.titled), "names", "parquet", {}),
    "Parquet, index": (lambda t: parquet(t.frame), "names", "parquet", {}),
    "Parquet, long": (lambda t: parquet(pd.DataFrame(t.pairs, columns=t.head)), "names", "parquet", {}),
    "ids from 0": (lambda t: text(t.cells, " "), "places", "txt", {}),
    "ids from 1": (lambda t: text([(u + 1, v + 1) for u, v in t.cells], "\t"), "places", "txt", {}),
    "KONECT": (lambda t: "% bip\n" + text([(u + 1, v + 1) for u, v in t.cells], " "), "places", "txt", {}),
}  # fmt: skip
for mark, name in ((",", "commas"), (";", "semicolons"), ("\t", "tabs"), (" ", "blanks")):
    FILES |= {
        f"wide, {name}": (lambda t, m=mark: text(t.wide(), m), "names", "csv", {}),
        f"wide, {name}, asked": (lambda t, m=mark: text(t.wide(), m), "names", "csv", {"layout": "matrix"}),
        f"wide, {name}, quotes": (lambda t, m=mark: text(t.wide(), m, csv.QUOTE_ALL), "names", "csv", {}),
        f"bare, {name}": (lambda t, m=mark: text([row[1:] for row in t.wide()[1:]], m), "places", "csv", {}),
        f"no names of rows, {name}": (lambda t, m=mark: text([row[1:] for row in t.wide()], m), "places", "csv", {}),
        f"no names of columns, {name}": (lambda t, m=mark: text(t.wide()[1:], m), "places", "csv", {}),
        f"pairs, {name}": (lambda t, m=mark: text(t.pairs, m), "names", "csv", {}),
        f"pairs, header, {name}": (lambda t, m=mark: text([t.head, *t.pairs], m), "names", "csv", {}),
        f"weights, {name}": (lambda t, m=mark: text(t.long(), m), "names", "csv", {}),
        f"weights, header, {name}": (lambda t, m=mark: text([[*t.head, "n"], *t.long()], m), "names", "csv", {}),
        f"melted, {name}": (lambda t, m=mark: text([[*t.head, "n"], *t.long(zeros=True)], m), "names", "csv", {}),
        f"stacked, {name}": (lambda t, m=mark: text(t.long(zeros=True), m), "names", "csv", {}),
        f"groups, {name}": (lambda t, m=mark: text(t.named, m), "names", "csv", {}),
        f"baskets, {name}": (lambda t, m=mark: text(filter(None, t.groups), m), "members", "csv", {}),
    }

OBJECTS: dict[str, Door] = {
    "NumPy": (lambda t: t.values, "places", "", {}),
    "NumPy, asked": (lambda t: t.values, "places", "", {"layout": "matrix"}),
    "NumPy bool": (lambda t: t.values > 0, "places", "", {}),
    "NumPy float": (lambda t: t.values.astype(float), "places", "", {}),
    "NumPy with NaN": (lambda t: np.where(t.values, t.values, np.nan), "places", "", {}),
    "NumPy with NaN, dropped": (lambda t: np.where(t.values, t.values, np.nan), "places", "", {"missing": "drop"}),
    "NumPy of text": (lambda t: t.values.astype(str), "places", "", {}),
    "NumPy of words": (lambda t: np.array(t.pairs), "names", "", {}),
    "NumPy of ids": (lambda t: np.array(t.cells), "places", "", {}),
    "NumPy of weights": (lambda t: np.array([(u, v, t.values[u, v]) for u, v in t.cells]), "places", "", {}),
    "csr": (lambda t: sparse.csr_array(t.values), "places", "", {}),
    "csc with zeros": (lambda t: sparse.csc_array(t.zeros), "places", "", {}),
    "coo with zeros": (lambda t: t.zeros, "places", "", {}),
    "bsr": (lambda t: sparse.csr_matrix(t.values).asformat("bsr"), "places", "", {}),
    "csr with NaN": (lambda t: sparse.csr_array(np.where(t.values, t.values, np.nan)), "places", "", {}),
    "frame": (lambda t: t.frame, "names", "", {}),
    "frame bool": (lambda t: t.frame > 0, "names", "", {}),
    "frame, titled": (lambda t: t.titled, "names", "", {}),
    "frame, no names": (lambda t: pd.DataFrame(t.values), "places", "", {}),
    "frame, index": (lambda t: t.frame.rename_axis("species"), "names", "", {}),
    "cross table": (
        lambda t: pd.crosstab(*(pd.Series([pair[at] for pair in t.pairs], name="uv"[at]) for at in (0, 1))),
        "names", "", {},
    ),
    "pivot": (lambda t: t.table().pivot(index="plant", columns="bee", values="value"), "names", "", {}),
    "pivot, dropped": (
        lambda t: t.table().pivot(index="plant", columns="bee", values="value"), "names", "", {"missing": "drop"}
    ),
    "stacked": (lambda t: t.frame.stack(), "names", "", {}),
    "series of two levels": (lambda t: t.table().set_index(["plant", "bee"])["value"], "names", "", {}),
    "series of lists": (lambda t: t.table().groupby("plant")["bee"].agg(list), "names", "", {}),
    "melted": (lambda t: t.table(zeros=True), "names", "", {}),
    "melted, chosen": (lambda t: t.table(zeros=True), "names", "", {"where": "value > 0"}),
    "index of ends": (lambda t: t.table().set_index("plant"), "names", "", {}),
    "frame of pairs": (lambda t: pd.DataFrame(t.pairs, columns=t.head), "names", "", {}),
    "Arrow, wide": (lambda t: pa.Table.from_pandas(t.titled, preserve_index=False), "names", "", {}),
    "Arrow, long": (lambda t: pa.Table.from_pandas(t.table()), "names", "", {}),
    "polars, wide": (lambda t: pl.from_pandas(t.titled), "names", "", {}),
    "polars, lazy": (lambda t: pl.from_pandas(t.titled).lazy(), "names", "", {}),
    "polars, nulls": (
        lambda t: pl.from_pandas(t.titled).with_columns(
            pl.when(pl.col(v) != 0).then(pl.col(v)).alias(v) for v in t.v
        ),
        "names", "", {"missing": "drop"},
    ),
    "polars, long": (lambda t: pl.DataFrame(t.pairs, [*t.head], orient="row"), "names", "", {}),
    "polars, melted": (lambda t: pl.from_pandas(t.table(zeros=True)), "names", "", {}),
    "polars, lists": (lambda t: pl.from_pandas(t.table()).group_by("plant").agg("bee"), "names", "", {}),
    "DuckDB, wide": (lambda t: relation(t.titled), "names", "", {}),
    "DuckDB, long": (lambda t: relation(t.table()), "names", "", {}),
    "Dask, wide": (lambda t: dd.from_pandas(t.titled, npartitions=2), "names", "", {}),
    "Dask, long": (lambda t: dd.from_pandas(pd.DataFrame(t.pairs, columns=t.head), npartitions=2), "names", "", {}),
    "NetworkX": (lambda t: nx.Graph(t.pairs), "ends", "", {}),
    "NetworkX with layers": (lambda t: t.network, "names", "", {}),
    "igraph": (lambda t: igraph.Graph.TupleList(t.pairs), "ends", "", {}),
    "igraph with layers": (typed, "names", "", {}),
    "dictionary of sets": (lambda t: dict(zip(t.u, map(set, t.groups), strict=True)), "names", "", {}),
    "dictionary of dictionaries": (lambda t: t.frame.to_dict("index"), "names", "", {}),
    "dictionary of neighbours": (lambda t: nx.to_dict_of_lists(nx.Graph(t.pairs)), "ends", "", {}),
    "dictionary of columns": (
        lambda t: dict(zip(("source", "target"), map(list, zip(*t.pairs, strict=True)), strict=True)), "names", "", {}
    ),
    "lists": (lambda t: t.values.tolist(), "places", "", {}),
    "pairs": (lambda t: t.pairs, "names", "", {}),
    "triples": (lambda t: [tuple(row) for row in t.table().to_numpy().tolist()], "names", "", {}),
    "list of sets": (lambda t: [*map(set, t.groups)], "members", "", {}),
    "lists of names": (lambda t: t.named, "names", "", {}),
}  # fmt: skip


def are_numbers(names: list[str]) -> bool:
    return all(name.replace(".", "").isdigit() for name in names)


def is_another(table: Table, door: str, kind: str, read: list[tuple[Any, Any]]) -> bool:
    """Return whether what was brought is another table as well, which nobody could tell from it.

    * Two or three columns of whole numbers without names are edges if they are sorted, or hold no 0.
    * Groups of two are pairs, one line of members is an edge, and a lone first pair is a header.
    * A symmetric table without names is an adjacency.
    * Three columns of whole numbers without a 0 are edges and their index, or weights.
    * Numbers do not show that they are names, words of a header or matrix not that they are labels.
    * Names with blanks, quotes or commas do not fit into every text; nor do names of both layers into one set.
    """
    values, (kind_u, kind_v) = table.values, table.kinds
    n_u, n_v = values.shape
    rows = values.tolist()
    if kind == "places":
        if n_u == 1 or (n_u == n_v and (values == values.T).all() and not values.diagonal().any()):
            return True
        if n_v in (1, 2, 3) and table.are_whole:
            pairs = [tuple(row[:2]) for row in rows]
            first = sorted(set(pairs)) == pairs or rows[0][-1] == n_u - 1
            if "names" in door or not (values[:, :2] == 0).any() or first:
                return True
        if "names" in door and (are_numbers(table.u) or are_numbers(table.v)):
            return True
    if (n_v == 1 or "asked" in door) and (are_numbers(table.u) or are_numbers(table.v)):
        return True
    if n_v == 2 and are_numbers(table.u) and table.are_whole and ((values != 0).all() or "dropped" in door):
        return True
    sizes = [len(group) for group in table.groups if group]
    if ("groups" in door or door == "lists of names") and (max(sizes) < 2 or len(sizes) == 1):
        return True
    if "baskets" in door and (max(sizes) < 3 or len(sizes) == 1 or len(set(map(tuple, table.groups))) == 1):
        return True
    u, v = table.pairs[0]
    is_alone = sum(each == u for each, _ in table.pairs) == 1 == sum(each == v for _, each in table.pairs)
    if is_alone and door.startswith(("pairs, ", "weights, ")) and "header" not in door:
        return True
    if {"headers", "truth"} & {kind_u, kind_v} or (door.startswith("pairs, header, blanks")):
        return True
    if door == "ids from 1" and table.cells[0][1] + 1 == len(table.cells) - 1:
        return True
    return "marks" in (kind_u, kind_v)


def fits(table: Table, door: str, kind: str) -> bool:
    """Return whether a table can be brought through a door at all."""
    if (kind == "ends" or "igraph" in door or "NetworkX" in door or door == "GraphML") and not table.are_apart:
        return False
    in_blanks = "blanks" in door or door in ("visits", "arrows")
    if in_blanks and any(" " in name or '"' in name or "'" in name for name in (*table.u, *table.v, table.corner)):
        return False
    if in_blanks and "wide" in door and not table.corner:
        return False
    return not (door.startswith("R") and '"' in "".join((*table.u, *table.v)))


def shown(label: Any) -> str:
    return str(label)[:10] if hasattr(label, "isoformat") else str(label)


def ranks(pairs: Iterable[tuple[Any, Any]]) -> set[tuple[int, int]]:
    u, v = ({at: rank for rank, at in enumerate(sorted(set(ends)))} for ends in zip(*pairs, strict=True))
    return {(u[a], v[b]) for a, b in pairs}


def is_right(table: Table, kind: str, read: list[tuple[Any, Any]]) -> bool:
    """Return whether edges are those of the table: by names, as ends without layers, by places, or by their members."""
    found = {(shown(u), shown(v)) for u, v in read}
    if kind == "names" or not found:
        return found == {*table.pairs}
    if kind == "ends":
        return {frozenset(pair) for pair in found} == {frozenset(pair) for pair in table.pairs}
    if kind == "members" or not all(are_numbers([*pair]) for pair in found):
        columns = table.groups if kind == "members" else [[f"{at}" for at in np.flatnonzero(r)] for r in table.values]
        members: dict[str, set[str]] = {}
        for u, v in found:
            members.setdefault(u, set()).add(v)
        if kind == "members":
            return sorted(map(sorted, members.values())) == sorted(sorted(each) for each in columns if each)
        return Counter(map(len, members.values())) == Counter(len(each) for each in columns if each)
    return ranks([(float(u), float(v)) for u, v in found]) == ranks(table.cells)


def edges_of(labelled: LabelledGraph) -> list[tuple[Any, Any]]:
    graph = labelled.graph
    ends = [(graph.u, labelled.labels_u), (graph.v, labelled.labels_v)]
    u, v = (ids.tolist() if labels is None else labels[ids].tolist() for ids, labels in ends)
    return [*zip(u, v, strict=True)]


def read_file(path: Path, given: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return the edges of a file as its reader hands them on, without the store that a conversion writes."""
    where = read_conditions(given.get("where"), given.get("decimal"))
    options = ReadOptions(**(given | {"where": where}))
    places = expand_inputs(path)
    scratch = path.parent / "scratch" / path.name
    scratch.mkdir(parents=True)
    with InputFile(places[0]) as first:
        format = find_graph_format(first.name, first.peek(HEAD_BYTES))
        if is_graph_format(format):
            return edges_of(read_graph_file(first.spool(scratch), first.name, ReadOptions(format=format))[0])
        source = open_source(first, places, options, scratch, 1, lambda _: None)
        batches = [*source.batches()]
    return [pair for each in batches for pair in zip(each["u"].to_pylist(), each["v"].to_pylist(), strict=True)]


def doors(table: Table, where: Path) -> Iterator[tuple[str, str, Callable[[], list[tuple[Any, Any]]]]]:
    """Yield every door that a table fits through: its name, what it tells, and how it is read."""
    for at, (name, (make, kind, suffix, options)) in enumerate((FILES | OBJECTS).items()):
        if not fits(table, name, kind):
            continue

        def read(
            at: int = at, make: Any = make, suffix: str = suffix, options: dict[str, Any] = options
        ) -> list[tuple[Any, Any]]:
            brought = make(table)
            if not suffix:
                return edges_of(label_any(brought, **options))
            path = where / f"{at}.{suffix}"
            path.write_bytes(brought if isinstance(brought, bytes) else brought.encode())
            return read_file(path, options)

        yield name, kind, read


def butterflies(table: Table) -> int:
    """Count pairs of rows and pairs of columns that are all entries, by definition."""
    shared = (len({*a} & {*b}) for a, b in combinations(table.groups, 2))
    return sum(k * (k - 1) // 2 for k in shared)


@pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")
def test_one_table_through_many_doors(tmp_path: Path) -> None:
    given: Counter[str] = Counter()
    first = int(os.environ.get("PAPILIO_SEED", "1")) * 1_000_000
    for seed in range(first, first + SEEDS):
        where = tmp_path / str(seed)
        where.mkdir()
        table = Table(seed)
        brought = [*doors(table, where)]
        for name, kind, read in random.Random(seed).sample(brought, min(DOORS, len(brought))):
            try:
                found = read()
            except PapilioError:
                given["error"] += 1
                continue
            is_same = is_right(table, kind, found) or is_another(table, name, kind, found)
            assert is_same, f"seed {seed}, {name}: {sorted(map(str, found))[:9]}\n{table.frame.to_csv()}"
            given["read"] += 1
    # Missing entries, zeros in a list of all pairs and tables of few columns are errors that say what to set.
    assert given["read"] > given["error"], given


def test_tables_in_files_have_their_butterflies(tmp_path: Path) -> None:
    for seed in range(8):
        table = Table(seed)
        table.u, table.v = (
            [f"{side}{at}" for at in range(n)] for side, n in zip("pb", table.values.shape, strict=True)
        )
        path = tmp_path / f"{seed}.csv"
        path.write_text(text(table.wide(), ","))
        found = papilio.read(path, layout="matrix")
        assert papilio.count(found, "butterfly", engine="cpu").count == butterflies(table)
