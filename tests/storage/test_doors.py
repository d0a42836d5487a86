"""One table, a hundred doors: however a table is brought, the same graph comes out, or an error.

A table of zeros and other numbers, with names, is drawn by a seed and written in every layout and form. What the graph
is, is told by the table itself: its entries other than 0, as pairs of names.

More seeds: ``PAPILIO_DOORS=1000 PAPILIO_DOORS_EACH=200 PAPILIO_SEED=7 pytest tests/storage/test_doors.py``.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
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
from papilio.storage.evidence import ABSENT, NAMES_OF_ROWS, PRESENT
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


def cells(table: Table) -> Iterable[tuple[str, Any]]:
    return zip(table.u, table.values.tolist(), strict=True)


def crlf(rows: str) -> str:
    return rows.replace("\n", "\r\n")


def joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def grouped(value: float, mark: str = ",") -> str:
    """Return a number with a mark after the thousands."""
    return f"{value:,}".replace(",", mark)


def zstd_pack(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


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
    "a title above": (lambda t: "Visits of 2024\n" + text(t.wide(), ","), "names", "csv", {}),
    "a title above, filled": (
        lambda t: text([["Visits of 2024", *[""] * len(t.v)], *t.wide()], ","), "names", "csv", {}
    ),
    "byte order mark": (lambda t: b"\xef\xbb\xbf" + crlf(text(t.wide(), ";")).encode(), "names", "csv", {}),
    "byte order mark, pairs": (
        lambda t: b"\xef\xbb\xbf" + crlf(text([t.head, *t.pairs], ",")).encode(), "names", "csv", {}
    ),
    "thousands": (lambda t: text([t.wide()[0], *([n, *map(grouped, row)] for n, row in cells(t))], ","),
        "names", "csv", {}),
    "thousands by blanks": (
        lambda t: text([t.wide()[0], *([n, *(grouped(x, " ") for x in row)] for n, row in cells(t))], ";"),
        "names", "csv", {}),
    "marks at the ends": (lambda t: text(t.wide(), ",").replace("\n", ",\n"), "names", "csv", {}),
    "marks at the ends, pairs": (lambda t: text([t.head, *t.pairs], ";").replace("\n", ";\n"), "names", "csv", {}),
    "rows counted": (lambda t: t.titled.to_csv(), "names", "csv", {}),
    "rows counted, weights": (lambda t: t.table().to_csv(), "names", "csv", {}),
    "crosses": (lambda t: t.frame.rename_axis("plant").map(lambda x: "+" if x else "").to_csv(), "names", "csv", {}),
    "present, absent": (
        lambda t: t.frame.rename_axis("plant").map(lambda x: "present" if x else "absent").to_csv(), "names", "csv", {}
    ),
    "truth values of R": (
        lambda t: t.frame.rename_axis("plant").map(lambda x: "TRUE" if x else "FALSE").to_csv(), "names", "csv", {}
    ),
    "ones": (lambda t: t.frame.rename_axis("plant").map(lambda x: "1" if x else "").to_csv(), "names", "csv", {}),
    "NaN": (lambda t: t.frame.where(t.frame > 0).to_csv(na_rep="NaN"), "names", "csv", {}),
    "totals": (
        lambda t: text([*t.wide(), ["Total", *(t.show(x) for x in t.values.sum(axis=0))]], ","), "names", "csv", {}
    ),
    "Windows": (lambda t: text(t.wide(), ";").encode("cp1252"), "names", "csv", {"encoding": "cp1252"}),
    "Windows, undeclared": (lambda t: text(t.wide(), ";").encode("cp1252"), "names", "csv", {}),
    "tabs and blanks": (lambda t: "".join(f"{u} \t {v}\n" for u, v in t.pairs), "names", "txt", {}),
    "header twice": (lambda t: text([t.head, *t.pairs, t.head, *t.pairs], ","), "names", "csv", {}),
    "printed frame": (lambda t: t.frame.to_string() + "\n", "names", "txt", {}),
    "Markdown": (
        lambda t: "".join(f"| {' | '.join(row)} |\n" for row in [t.wide()[0], ["---"] * (len(t.v) + 1), *t.wide()[1:]]),
        "names", "txt", {},
    ),
    "records in JSON": (lambda t: pd.DataFrame(t.pairs, columns=t.head).to_json(orient="records"), "names", "json", {}),
    "JSON Lines": (
        lambda t: pd.DataFrame(t.pairs, columns=t.head).to_json(orient="records", lines=True), "names", "txt", {}
    ),
    "NetworkX, node-link": (lambda t: json.dumps(nx.node_link_data(t.network, edges="links")), "names", "txt", {}),
    "NetworkX, adjacency list": (lambda t: joined(nx.generate_adjlist(nx.Graph(t.pairs))), "ends", "txt", {}),
    "NetworkX, multiline": (lambda t: joined(nx.generate_multiline_adjlist(nx.Graph(t.pairs))), "ends", "txt", {}),
    "NetworkX, edge list": (lambda t: joined(nx.generate_edgelist(nx.Graph(t.pairs))), "ends", "txt", {}),
    "NetworkX, Pajek": (lambda t: joined(nx.generate_pajek(nx.Graph(t.pairs))), "ends", "txt", {}),
    "NetworkX, GML": (lambda t: joined(nx.generate_gml(t.network)), "names", "txt", {}),
    "NetworkX, GraphML": (lambda t: joined(nx.generate_graphml(t.network)), "names", "txt", {}),
    "NetworkX, GEXF": (lambda t: joined(nx.generate_gexf(t.network)), "names", "txt", {}),
    "NetworkX, DOT": (
        lambda t: "graph {\n" + "".join(f'  "{u}" -- "{v}";\n' for u, v in t.pairs) + "}\n", "names", "txt", {}
    ),
}  # fmt: skip
for pack, name in ((gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz"), (zstd_pack, "zstd")):
    FILES[f"pairs, packed by {name}"] = (
        lambda t, p=pack: p(text([t.head, *t.pairs], ",").encode()), "names", "csv", {}
    )  # fmt: skip
for mark, name in ((",", "commas"), (";", "semicolons"), ("\t", "tabs"), (" ", "blanks")):
    FILES |= {
        f"wide, {name}": (lambda t, m=mark: text(t.wide(), m), "names", "csv", {}),
        f"wide, {name}, asked": (lambda t, m=mark: text(t.wide(), m), "names", "csv", {"layout": "matrix"}),
        f"wide, {name}, quotes": (lambda t, m=mark: text(t.wide(), m, csv.QUOTE_ALL), "names", "csv", {}),
        f"bare, {name}": (lambda t, m=mark: text([row[1:] for row in t.wide()[1:]], m), "places", "csv", {}),
        f"no names of rows, {name}": (lambda t, m=mark: text([row[1:] for row in t.wide()], m), "columns", "csv", {}),
        f"no names of columns, {name}": (lambda t, m=mark: text(t.wide()[1:], m), "rows", "csv", {}),
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
    "frame of text": (lambda t: t.frame.astype(str), "names", "", {}),
    "frame, nullable": (lambda t: t.frame.where(t.frame > 0).convert_dtypes(), "names", "", {"missing": "drop"}),
    "frame, sparse": (lambda t: t.frame.astype(pd.SparseDtype(t.frame.dtypes.iloc[0], 0)), "names", "", {}),
    "frame of categories": (
        lambda t: pd.DataFrame(t.pairs, columns=t.head).astype("category"), "names", "", {}
    ),
    "categories, wide": (lambda t: t.titled.astype({"species": "category"}), "names", "", {}),
    "columns of two levels": (lambda t: t.table().set_index(["plant", "bee"]).unstack(), "names", "", {}),
    "rows counted, frame": (lambda t: t.table().reset_index(), "names", "", {}),
    "polars, categories": (
        lambda t: pl.DataFrame(t.pairs, [*t.head], orient="row").cast(pl.Categorical), "names", "", {}
    ),
    "Arrow, dictionaries": (
        lambda t: pa.table([pa.array(column).dictionary_encode() for column in zip(*t.pairs, strict=True)], [*t.head]),
        "names", "", {},
    ),
    "structured": (lambda t: np.array(t.pairs, [(name, "U20") for name in t.head]), "names", "", {}),
    "structured, weights": (
        lambda t: t.table().to_records(index=False, column_dtypes={"plant": "U20", "bee": "U20"}), "names", "", {}
    ),
    "NumPy of objects": (lambda t: np.array(t.pairs, object), "names", "", {}),
    "NumPy of text, pairs": (lambda t: np.array(t.pairs), "names", "", {}),
    "NumPy, masked": (lambda t: np.ma.masked_equal(t.values, 0), "places", "", {}),
    "NumPy matrix": (lambda t: np.asmatrix(t.values), "places", "", {}),
    "generator": (lambda t: (pair for pair in t.pairs), "names", "", {}),
    "zip": (lambda t: zip(*zip(*t.pairs, strict=True), strict=True), "names", "", {}),
    "set of pairs": (lambda t: set(t.pairs), "names", "", {}),
    "list of lists": (lambda t: [*map(list, t.pairs)], "names", "", {}),
    "records": (lambda t: [dict(zip(t.head, pair, strict=True)) for pair in t.pairs], "names", "", {}),
    "dictionary of weights": (lambda t: {tuple(row[:2]): float(row[2]) for row in t.long()}, "names", "", {}),
    "counter": (lambda t: Counter(t.pairs), "names", "", {}),
    "dictionary of lists": (lambda t: dict(zip(t.u, t.groups, strict=True)), "names", "", {}),
    "dictionary of arrays": (
        lambda t: dict(zip(t.head, map(np.array, zip(*t.pairs, strict=True)), strict=True)), "names", "", {}
    ),
    "igraph, frame": (lambda t: igraph.Graph.DataFrame(pd.DataFrame(t.pairs), use_vids=False), "ends", "", {}),
    "NetworkX, weights": (
        lambda t: nx.from_pandas_edgelist(t.table(), "plant", "bee", edge_attr="value"), "ends", "", {}
    ),
}  # fmt: skip


def are_numbers(names: list[str]) -> bool:
    return all(name.replace(".", "").isdigit() for name in names)


def is_another(table: Table, door: str, kind: str, read: list[tuple[Any, Any]]) -> bool:
    """Return whether what was brought is another table as well, which no reader could tell from it.

    Each rule holds for one other reading only: of any third one, the law is broken.
    """
    kind_u, kind_v = table.kinds
    # Usual names of ends, of values and times are a header, and say which columns are the ends.
    if kind_v == "headers" and door not in ("frame bool", "truth values"):
        return True
    if kind_u == "headers" and door in FILES:
        return True
    # Numbers with a fraction are no names.
    if door in FILES and "3.5" in (*table.u, *table.v):
        return True
    # Words such as yes and x in the cells are the entries of a matrix.
    if "truth" in (kind_u, kind_v) and any(
        word in door for word in ("pairs", "groups", "baskets", "long", "lists of", "truth")
    ):
        return True
    found = {(shown(u), shown(v)) for u, v in read}
    return any(found == other for other in other_readings(table, door, kind))


def other_readings(table: Table, door: str, kind: str) -> Iterator[set[tuple[str, str]]]:
    """Yield the edges of what was brought, read in the other ways that are as good."""
    values, n_u, n_v = table.values, *table.values.shape
    are_whole = bool((values % 1 == 0).all())
    are_few = are_whole and n_v in (2, 3)
    rows = [[str(int(value)) if are_whole else str(value) for value in row] for row in values.tolist()]
    # Two or three columns of whole numbers without names are edges (and a weight) if they are sorted, or hold no 0.
    # So are two columns without a 0 below words; and numbers do not show that they are names.
    is_list = kind == "places" and not any(word in door for word in ("npz", "mtx", "cs", "coo", "bsr", "ids", "KONECT"))
    if is_list or kind == "columns":
        firsts = [(row[0], row[-1] if n_v < 2 else row[1]) for row in rows]
        with_names = [tuple(table.v[:2]), *firsts] if n_v > 1 else []
        numbers = [(float(u), float(v)) for u, v in firsts]
        are_ends = are_few and (all(u and v for u, v in numbers) or sorted(numbers) == numbers)
        if are_ends and (is_list or n_v == 2):
            yield {*firsts}
        if kind == "columns" and n_v == 3 and are_few and table.v[2] == f"{n_u}":
            yield {*firsts}  # the names are sizes, of n_u lines
        if are_few and is_list and rows[0][-1] == f"{n_u - 1}":
            yield {*firsts[1:]}  # below sizes
        if are_ends and kind == "columns" and are_numbers(table.v):
            yield {(str(int(u)), str(int(v))) for u, v in with_names}
        if kind == "columns" and are_numbers(table.v):
            lines = [map(float, table.v), *values]
            yield {(f"{u}", f"{v}") for u, line in enumerate(lines, 1) for v, cell in enumerate(line, 1) if cell}
    # Names and one or two columns of numbers are edges, and a weight; a lone line before one may be sizes.
    if kind == "rows" and (n_v == 1 or (n_v == 2 and are_numbers(table.u) and are_whole)):
        pairs = [(name, row[0]) for name, row in zip(table.u, rows, strict=True)]
        yield {*pairs}
        yield {*pairs[1:]}
    # Below a usual name of a column of names, numbers are names of columns.
    if kind == "rows" and n_v > 2 and table.u[0] in NAMES_OF_ROWS:
        yield {(table.u[u], rows[0][v]) for u, v in table.cells if u}
    # With a 0 among them, numbers may be entries as well as names.
    if kind == "rows" and are_numbers(table.u) and "0" in table.u:
        lines = [[float(name), *row] for name, row in zip(table.u, values.tolist(), strict=True)]
        yield {(f"{u}", f"{v}") for u, line in enumerate(lines, 1) for v, cell in enumerate(line, 1) if cell}
    if kind == "names" and n_v == 1 and are_numbers(table.u) and (are_whole or door == "ones"):
        yield {(name, row[0]) for name, row in zip(table.u, rows, strict=True)}
        yield {(name, "1") for name, cell in zip(table.u, values[:, 0], strict=True) if cell}
    # So are two columns of whole numbers below words, after numbers in order that count rows.
    is_index = are_numbers(table.u) and table.u in [sorted(table.u, key=float, reverse=way) for way in (False, True)]
    if kind == "names" and n_v == 2 and are_whole and is_index:
        yield {(row[0], row[1]) for row in rows}
    # A first line of three numbers, the last of which counts the others, has sizes.
    lines = table.long(zeros=door.startswith("stacked"))
    if door.startswith(("stacked", "weights")) and lines[0][2] == f"{len(lines) - 1}":
        yield {(line[0], line[1]) for line in lines[1:]}
    # Ends that are all words for entries are those of a column of a matrix.
    if kind == "names" and {name.lower() for _, name in table.pairs} <= ABSENT | PRESENT:
        yield {(u, table.head[1]) for u, v in table.pairs if v.lower() in PRESENT}
    # A symmetric table without names is an adjacency.
    if kind == "places" and n_u == n_v and (values == values.T).all() and not values.diagonal().any():
        yield {(f"{u}", f"{v}") for u, v in table.cells if u < v}
        yield {(f"{u + 1}", f"{v + 1}") for u, v in table.cells if u < v}
    # Members in twos are pairs, and so is a lone line, whatever follows its first two words; in threes, whole numbers
    # are edges and a weight.
    lines = [table.named, [group for group in table.groups if group]]["baskets" in door]
    brought = table.pairs
    if any(word in door for word in ("groups", "baskets", "lists of names")):
        brought = [(line[0], line[1]) for line in lines if len(line) > 1]
        are_triples = {*map(len, lines)} == {3} and all(map(are_numbers, lines))
        if len(lines) == 1 or max(map(len, lines)) == 2 or are_triples:
            yield {*brought}
    # Zeros and ones in twos, over and over, are a matrix.
    if brought and {*map(len, lines)} == {2} and {*chain(*lines)} == {"0", "1"}:
        yield {(f"{at}", f"{v + 1}") for at, line in enumerate(lines, 1) for v in (0, 1) if line[v] == "1"}
    if door in FILES and brought:
        # Of two columns of words, a first pair whose words occur nowhere else in their columns is a header; of numbers,
        # the sizes of the others.
        u, v = brought[0]
        if [a for a, _ in brought].count(u) == 1 == [b for _, b in brought].count(v) or are_numbers([u, v]):
            yield {*brought[1:]}
        rest = [pair for pair in brought if pair != brought[0]]  # a header may stand there again
        if u not in {a for a, _ in rest} and v not in {b for _, b in rest}:
            yield {*rest}
        # Only usual names are a header before pairs that blanks separate.
        if door == "pairs, header, blanks":
            yield {*brought, table.head}
    if door in ("ids from 0", "ids from 1"):
        first = door == "ids from 1"
        yield {(f"{u + first}", f"{v + first}") for u, v in table.cells[1:]}


def fits(table: Table, door: str, kind: str) -> bool:
    """Return whether a table can be brought through a door at all."""
    letters = "".join((*table.u, *table.v, table.corner))
    if "Windows" in door and letters.encode("cp1252", "ignore").decode("cp1252") != letters:
        return False
    if door == "Markdown" and "|" in letters:
        return False
    if (kind == "ends" or "igraph" in door or "NetworkX" in door or door == "GraphML") and not table.are_apart:
        return False
    if door == "DuckDB, wide" and len({name.lower() for name in table.v}) < len(table.v):
        return False  # names differ by case only
    if table.corner == "#OTU ID" and '"' in letters and ("tabs" in door or door == "UTF-16"):
        return False  # comments have no quotes
    in_blanks = ("blanks" in door and "thousands" not in door) or door in (
        "visits", "arrows", "printed frame", "NetworkX, adjacency list", "NetworkX, multiline", "NetworkX, edge list"
    )  # fmt: skip
    if len(table.v) == 1 and (door == "totals" or ("no names of rows" in door and '"' in letters)):
        return False
    if "baskets" in door and max(map(len, table.groups)) == 1:
        return False  # nothing shows what separates members
    if in_blanks and any(mark in name for name in (*table.u, *table.v) for mark in ",;"):
        return False
    if in_blanks and any(" " in name or '"' in name or "'" in name for name in (*table.u, *table.v, table.corner)):
        return False
    if in_blanks and "wide" in door and not table.corner:
        return False
    return not (door.startswith("R") and '"' in "".join((*table.u, *table.v)))


def shown(label: Any) -> str:
    if isinstance(label, tuple):  # a column of two levels
        return str(label[-1])
    return str(label)[:10] if hasattr(label, "isoformat") else str(label)


def ranks(pairs: Iterable[tuple[Any, Any]]) -> set[tuple[int, int]]:
    u, v = ({at: rank for rank, at in enumerate(sorted(set(ends)))} for ends in zip(*pairs, strict=True))
    return {(u[a], v[b]) for a, b in pairs}


def half_ranks(pairs: set[tuple[str, str]], named: int) -> set[tuple[str, int]]:
    """Return pairs as names of one side, and ranks of the numbers of the other one."""
    numbers = sorted({float(pair[1 - named]) for pair in pairs})
    return {(pair[named], numbers.index(float(pair[1 - named]))) for pair in pairs}


def is_right(table: Table, kind: str, read: list[tuple[Any, Any]]) -> bool:
    """Return whether edges are those of the table: by names, as ends without layers, by places, or by their members."""
    found = {(shown(u), shown(v)) for u, v in read}
    if kind == "names" or not found:
        return found == {*table.pairs}
    if kind == "ends":
        return {frozenset(pair) for pair in found} == {frozenset(pair) for pair in table.pairs}
    if kind in ("rows", "columns"):
        at = 0 if kind == "rows" else 1
        cells = [(table.u[u], f"{v}") if kind == "rows" else (f"{u}", table.v[v]) for u, v in table.cells]
        return are_numbers([pair[1 - at] for pair in found]) and half_ranks(found, at) == half_ranks({*cells}, at)
    if kind == "members":
        members: dict[str, set[str]] = {}
        for u, v in found:
            members.setdefault(u, set()).add(v)
        return sorted(map(sorted, members.values())) == sorted(sorted(each) for each in table.groups if each)
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


@pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning", "ignore:the matrix subclass")
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
