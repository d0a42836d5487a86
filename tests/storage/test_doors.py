"""One table, twenty doors: however a table is brought, the same graph comes out, or an error.

A table of zeros and other numbers, with names, is drawn by a seed and written in every layout and form. What the graph
is, is told by the table itself: its entries other than 0, as pairs of names, and the number of butterflies among them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

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

SEEDS = int(os.environ.get("PAPILIO_DOORS", "100"))
"""Tables that are drawn; offline thousands."""

DOORS = int(os.environ.get("PAPILIO_DOORS_EACH", "2"))
"""Doors that each table goes through, drawn by its seed; offline all."""

PLANTS = ["Salvia", "Rosa", "Thymus", "Bellis", "Viola", "Malva"]
BEES = ["Apis", "Bombus", "Vespa", "Musca", "Osmia"]

Table = np.ndarray[Any, Any]


def butterflies(table: Table) -> int:
    """Count pairs of rows and pairs of columns that are all entries, by definition."""
    rows = [set(np.flatnonzero(row).tolist()) for row in table]
    shared = [len(a & b) for a, b in combinations(rows, 2)]
    return sum(k * (k - 1) // 2 for k in shared)


def draw(rng: random.Random) -> Table:
    """Draw a table of up to 6 x 5 counts, or of zeros and ones, about half of them 0."""
    n_u, n_v = rng.randint(2, 6), rng.randint(2, 5)
    most = rng.choice((1, 1, 3, 40))
    return np.array([[rng.randint(1, most) * (rng.random() < 0.6) for _ in range(n_v)] for _ in range(n_u)])


def frame_of(table: Table) -> pd.DataFrame:
    return pd.DataFrame(table, PLANTS[: len(table)], BEES[: table.shape[1]])


def pairs_of(table: Table) -> list[tuple[str, str]]:
    return [(PLANTS[u], BEES[v]) for u, v in np.argwhere(table).tolist()]


def wide(table: Table, mark: str, corner: str = "plant", names: bool = True, quote: str = "") -> str:
    head = mark.join(f"{quote}{name}{quote}" for name in [corner, *BEES[: table.shape[1]]]) + "\n"
    rows = zip(PLANTS, table.tolist(), strict=False)
    lines = (mark.join([f"{quote}{name}{quote}" * names, *map(str, row)]) + "\n" for name, row in rows)
    return (head if names else "") + "".join(line if names else line[len(mark) :] for line in lines)


def long(table: Table, mark: str, head: str) -> str:
    lines = [f"{PLANTS[u]}{mark}{BEES[v]}{mark}{table[u, v]}\n" for u, v in np.ndindex(table.shape)]
    return head + "".join(lines)


def groups(table: Table, mark: str, named: bool) -> str:
    rows = [[PLANTS[u]] * named + [BEES[v] for v in np.flatnonzero(row)] for u, row in enumerate(table)]
    return "".join(mark.join(row) + "\n" for row in rows if len(row) > named)


def with_zeros(table: Table) -> Any:
    """Return all cells as entries of a sparse matrix, the zeros as well."""
    return sparse.coo_array((table.ravel(), np.indices(table.shape).reshape(2, -1)), table.shape)


def crosstab(table: Table) -> pd.DataFrame:
    plants, bees = zip(*pairs_of(table), strict=True)
    return pd.crosstab(pd.Series(plants, name="plant"), pd.Series(bees, name="bee"))


TEXTS: dict[str, Callable[[Table], str]] = {
    "csv": lambda table: wide(table, ","),
    "csv without a corner": lambda table: wide(table, ",", ""),
    "csv with quotes": lambda table: wide(table, ",", "", quote='"'),
    "semicolons": lambda table: wide(table, ";"),
    "tsv": lambda table: wide(table, "\t", "#OTU ID"),
    "csv without names": lambda table: wide(table, ",", names=False),
    "blanks without names": lambda table: wide(table, " ", names=False),
    "pairs": lambda table: "".join(f"{u},{v}\n" for u, v in pairs_of(table)),
    "pairs with names": lambda table: "plant,bee\n" + "".join(f"{u},{v}\n" for u, v in pairs_of(table)),
    "melted": lambda table: long(table, ",", "plant,bee,value\n"),
    "stacked": lambda table: long(table, ",", ""),
    "groups": lambda table: groups(table, " ", named=True),
    "groups of tabs": lambda table: groups(table, "\t", named=True),
    "baskets": lambda table: groups(table, " ", named=False),
    "visits": lambda table: "".join(f"{u} visits {v}\n" for u, v in pairs_of(table)),
}  # fmt: skip

OBJECTS: dict[str, Callable[[Table], Any]] = {
    "numpy": lambda table: table,
    "numpy bool": lambda table: table > 0,
    "numpy float": lambda table: table.astype(float),
    "numpy with NaN": lambda table: np.where(table, table, np.nan),
    "csr": sparse.csr_array,
    "coo with zeros": with_zeros,
    "csr with NaN": lambda table: sparse.csr_array(np.where(table, table, np.nan)),
    "adjacency": lambda table: sparse.bmat([[None, sparse.coo_array(table)], [sparse.coo_array(table.T), None]]),
    "wide frame": frame_of,
    "wide frame of truth values": lambda table: frame_of(table) > 0,
    "wide frame, names in a column": lambda table: frame_of(table).reset_index(names="plant"),
    "crosstab": crosstab,
    "pivot with NaN": lambda table: frame_of(table).where(lambda each: each > 0),
    "stacked": lambda table: frame_of(table).stack(),
    "melted": lambda table: frame_of(table).reset_index(names="plant").melt("plant", var_name="bee"),
    "arrow wide": lambda table: pa.Table.from_pandas(frame_of(table).reset_index(names="plant")),
    "networkx": lambda table: nx.Graph(pairs_of(table)),
    "sets": lambda table: {PLANTS[u]: {BEES[v] for v in np.flatnonzero(row)} for u, row in enumerate(table)},
    "lists": lambda table: table.tolist(),
    "list of pairs": pairs_of,
    "list of sets": lambda table: [{BEES[v] for v in np.flatnonzero(row)} for row in table],
}  # fmt: skip

if find_spec("polars"):
    import polars as pl

    OBJECTS |= {
        "polars wide": lambda table: pl.from_pandas(frame_of(table).reset_index(names="plant")),
        "polars long": lambda table: pl.DataFrame(pairs_of(table), ["plant", "bee"], orient="row"),
    }


def doors(table: Table, where: Path) -> Iterator[tuple[str, Any]]:
    """Yield every form of a table, by name: a file or an object."""
    for name, text in TEXTS.items():
        path = where / f"{name}.txt".replace(" ", "_")
        path.write_text(text(table), encoding="utf-8")
        yield f"file: {name}", path
    for name, array in (("int", table), ("float", table.astype(float)), ("bool", table > 0)):
        np.save(where / f"{name}.npy", array)
        yield f"npy: {name}", where / f"{name}.npy"
    mmwrite(where / "table.mtx", with_zeros(table))
    yield "mtx with zeros", where / "table.mtx"
    pq.write_table(OBJECTS["arrow wide"](table), where / "wide.parquet")
    yield "parquet wide", where / "wide.parquet"
    for name, make in OBJECTS.items():
        yield f"object: {name}", make(table)


def _is_another(name: str, table: Table) -> bool:
    """Return whether a form is another table as well, which nobody could tell from it.

    Groups of two are pairs, a lone first pair is a header, and rows of numbers are edges if they are sorted, or
    hold no 0.
    """
    sizes = {int(np.count_nonzero(row)) for row in table} - {0}
    u, v = np.argwhere(table)[0]
    is_alone = np.count_nonzero(table[u]) == np.count_nonzero(table[:, v]) == 1
    bare = name in ("npy: int", "object: numpy", "object: lists") or name.endswith("without names")
    ids = table[:, :2].tolist()
    if bare and (ids == sorted(ids) or table.all()):
        return True
    if "groups" in name and (np.count_nonzero(table.any(axis=1)) == 1 or max(sizes) == 1):
        return True
    return ("baskets" in name and max(sizes) <= 2) or (name == "file: pairs" and bool(is_alone))


def check_seed(seed: int, where: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Bring one table through every door; return which of them gave the graph and no error."""
    rng = random.Random(seed)
    table = draw(rng)
    while not pairs_of(table):
        table = draw(rng)
    right = butterflies(table)
    named = {(u, v) for u, v in pairs_of(table)}
    gave = {}
    brought = [each for each in doors(table, where) if not _is_another(each[0], table)]
    for name, source in rng.sample(brought, min(DOORS, len(brought))):
        monkeypatch.setenv("PAPILIO_CACHE", str(where / "cache" / name.replace(":", "").replace(" ", "_")))
        try:
            graph = papilio.read(source)
        except PapilioError:
            gave[name] = False
            continue
        except nx.NetworkXException:
            gave[name] = False
            continue
        gave[name] = True
        found = papilio.count(graph, "butterfly", engine="cpu").count
        shown = f"seed {seed}, {name}: {found} butterflies, {right} are right; {graph.reading}\n{table}"
        assert found == right, shown
        assert graph.n_edges == len(named), shown
        labels = [graph.labels(layer) for layer in ("u", "v")]  # type: ignore[arg-type]
        if all(each is not None and each.dtype == object for each in labels):
            held = graph.to_pandas()
            ends = {frozenset(pair) for pair in zip(held["u"], held["v"], strict=True)}
            assert ends == {frozenset(pair) for pair in named} or "baskets" in name or "sets" in name, shown
    return gave


@pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")
def test_one_table_through_many_doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, int] = {}
    first = int(os.environ.get("PAPILIO_SEED", "1")) * 1_000_000
    for seed in range(first, first + SEEDS):
        where = tmp_path / str(seed)
        where.mkdir()
        for name, gave in check_seed(seed, where, monkeypatch).items():
            given[name] = given.get(name, 0) + gave
        shutil.rmtree(where)
    # Missing entries, and zeros in a list of all pairs, are errors that say what to set.
    assert sum(given.values()) > SEEDS * DOORS / 4, given
