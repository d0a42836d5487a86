"""Graphs to list, and what was listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import papilio
from papilio.storage.store import write_store
from tests.tools.strategies import planted_graph

Row = tuple[tuple[Any, ...], tuple[Any, ...]]


def write_women(example_data: Path, folder: Path) -> Path:
    """Write the Southern Women graph with strings as labels of the women and integers as those of the events."""
    plain = papilio.convert(example_data / "southern-women.txt.gz", folder / "plain")
    labels_u = [f"woman {i}" for i in range(plain.n_u)]
    write_store(
        folder / "graph",
        plain.read(),
        provenance={},
        labels_u=labels_u,
        labels_v=np.arange(plain.n_v) + 100,
    )
    return folder / "graph"


def write_many(folder: Path) -> Path:
    """Write a graph without labels and with some 40,000 (3,3)-bicliques."""
    write_store(folder / "graph", planted_graph(7, 100, 100, 6, 10, 500, 0.1), provenance={})
    return folder / "graph"


def rows_of(path: str | Path | None) -> list[Row]:
    """Return the rows of a listing, in the order of its files."""
    assert path is not None
    table = pq.read_table(path)
    return [(tuple(row["u"]), tuple(row["v"])) for row in table.to_pylist()]
