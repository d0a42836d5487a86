"""Files to convert, and what a store holds in terms of the original labels."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa

from papilio.storage.store import GraphStore


def zstd(data: bytes) -> bytes:
    """Compress with zstd."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


COMPRESS = {"none": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstd}


def write_input(directory: Path, data: bytes | str, name: str = "input.txt") -> Path:
    """Write a file to convert; the directory has nothing else in it afterwards but what was there."""
    path = directory / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def labelled_edges(store: GraphStore) -> list[tuple[Any, ...]]:
    """Return the edges in store order as (label of u, label of v), with the sign in a signed graph."""
    graph = store.read()
    labels_u, labels_v = store.labels("u"), store.labels("v")
    u = graph.u.tolist() if labels_u is None else labels_u[graph.u].tolist()
    v = graph.v.tolist() if labels_v is None else labels_v[graph.v].tolist()
    if graph.sign is None:
        return list(zip(u, v, strict=True))
    return list(zip(u, v, graph.sign.tolist(), strict=True))
