"""Rows of a graph on disk: the sort of Papilio against the same work by DuckDB.

    python -m benchmarks.disk_rows --edges 3e7 --memory-gib 0.5 2
    python -m benchmarks.disk_rows --edges 3e7 --memory-gib 0.5 --edge-ids

Both rank the vertices by falling degree and write the rows of each layer, neighbours ascending, into scratch files
within a bound of host memory. ``duckdb`` gets the ranked edges as one 64-bit key each, which it sorts fastest, and
leaves out what Papilio adds up on the way (prefix lengths and work). Each run is a process of its own; its peak is the
resident memory that it grew by (``papilio.partitioning.cut_run``). Both must write the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.rows.index import order_falling
from papilio.partitioning.cut_run import PeakMemory
from papilio.partitioning.disk_rows import write_disk_rows
from papilio.storage.store import GraphStore, open_store, write_store

__all__ = ["DUCKDB_SHARE", "sort_by_duckdb"]

DUCKDB_SHARE = 0.5
"""Share of the bound that DuckDB may plan with: its process takes more than its limit."""

Keys = NDArray[np.uint64]
Ranks = NDArray[np.int64]


def skewed_graph(n_edges: int) -> BipartiteGraph:
    """Return a graph of about ``n_edges`` edges, of n_edges / 20 by n_edges / 40 vertices with skewed degrees."""
    rng = np.random.default_rng(1)
    n_u, n_v = max(n_edges // 20, 1), max(n_edges // 40, 1)
    u = (n_u * rng.random(n_edges) ** 2).astype(np.int64)
    v = (n_v * rng.random(n_edges) ** 3).astype(np.int64)
    key = np.unique(rng.permutation(n_u)[u] * n_v + rng.permutation(n_v)[v])
    return BipartiteGraph(n_u, n_v, (key // n_v).astype(np.int32), (key % n_v).astype(np.int32))


def _read_edges(store: GraphStore) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    for u, v, _ in store.read_groups(store.row_groups):
        yield u, v


def _ranks(degree: Ranks) -> Ranks:
    """Return the rank of each vertex."""
    rank = np.empty(degree.size, np.int64)
    rank[order_falling(degree)] = np.arange(degree.size)
    return rank


def sort_by_duckdb(store: GraphStore, directory: Path, memory_bytes: int, threads: int, edge_ids: bool) -> None:
    """Write the neighbours in the rows of each layer to ``ids-u`` and ``ids-v``, and edge ids to ``edges-u`` and -v."""
    degrees = np.zeros(store.n_u, np.int64), np.zeros(store.n_v, np.int64)
    for edge_ends in _read_edges(store):
        for degree, ends in zip(degrees, edge_ends, strict=True):
            degree += np.bincount(ends, minlength=degree.size)
    ranks = tuple(map(_ranks, degrees))
    columns = ["key", "edge"] if edge_ids else ["key"]
    schema = pa.schema([("key", pa.uint64()), ("edge", pa.int64())][: len(columns)])
    limit = int(DUCKDB_SHARE * memory_bytes) >> 20
    for layer, own in (("v", 1), ("u", 0)):

        def batches(own: int = own) -> Iterator[pa.RecordBatch]:
            first = 0
            for ends in _read_edges(store):
                keys: Keys = (ranks[own][ends[own]] << 32 | ranks[1 - own][ends[1 - own]]).view(np.uint64)
                edges = np.arange(first, first + keys.size)
                first += keys.size
                yield pa.record_batch([pa.array(each) for each in (keys, edges)[: len(columns)]], schema=schema)

        config = {
            "memory_limit": f"{limit}MB",
            "threads": threads,
            "temp_directory": str(directory / "spill"),
        }
        with (
            duckdb.connect(config=config) as connection,
            (directory / f"ids-{layer}").open("wb") as file,
            (directory / f"edges-{layer}").open("wb") as edge_file,
        ):
            connection.register("edges", pa.RecordBatchReader.from_batches(schema, batches()))
            found: Any = connection.execute(f"SELECT {', '.join(columns)} FROM edges ORDER BY key")
            for batch in found.to_arrow_reader(1 << 20):
                keys: Keys = batch.column(0).to_numpy()
                file.write((keys & np.uint64(0xFFFFFFFF)).astype(np.int32).tobytes())
                if edge_ids:
                    edge_file.write(batch.column(1).to_numpy().tobytes())


def _digest(directory: Path, edge_ids: bool) -> str:
    found = hashlib.blake2b(digest_size=8)
    for name in ("ids-u", "ids-v", *(("edges-u", "edges-v") if edge_ids else ())):
        with (directory / name).open("rb") as file:
            while piece := file.read(1 << 24):
                found.update(piece)
    return found.hexdigest()


def run_once(way: str, path: str, place: Path, memory_bytes: int, threads: int, edge_ids: bool) -> dict[str, Any]:
    """Make the rows in this process, after compiling; return time and memory."""
    with write_disk_rows(open_store(f"{path}-small"), place, memory_bytes, threads, with_edges=edge_ids):
        store = open_store(path)
    with ExitStack() as stack:
        with PeakMemory() as peak:
            started, cpu_started = perf_counter(), process_time()
            if way == "papilio":
                rows = write_disk_rows(store, place, memory_bytes, threads, with_edges=edge_ids)
                place = stack.enter_context(rows).directory
            else:
                sort_by_duckdb(store, place, memory_bytes, threads, edge_ids)
            wall_s, cpu_s = perf_counter() - started, process_time() - cpu_started
        found = _digest(place, edge_ids)
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": peak.grown_bytes, "hash": found}


def main() -> int:
    """Run the benchmark; the exit status is 1 when the two write different rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, default=3e7)
    parser.add_argument("--memory-gib", type=float, nargs="+", default=[0.5, 2])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--edge-ids", action="store_true", help="keep the id of every edge beside it")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        way, path, place = options.once
        memory = int(options.memory_gib[0] * 2**30)
        print(json.dumps(run_once(way, path, Path(place), memory, options.threads, options.edge_ids)))
        return 0
    hashes = set()
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        graph = skewed_graph(int(options.edges))
        n_edges = graph.n_edges
        write_store(path, graph, provenance={"source": "benchmark"})
        write_store(f"{path}-small", skewed_graph(10_000), provenance={"source": "benchmark"})
        del graph
        for memory_gib in options.memory_gib:
            for repeat in range(options.repeats):
                for way in ("papilio", "duckdb"):
                    place = Path(directory) / f"{way}-{memory_gib}-{repeat}"
                    place.mkdir()
                    load = os.getloadavg()[0]
                    command = [sys.executable, "-m", "benchmarks.disk_rows", "--memory-gib", str(memory_gib)]
                    command += ["--threads", str(options.threads), "--once", way, path, str(place)]
                    command += ["--edge-ids"] if options.edge_ids else []
                    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    run = json.loads(out)
                    hashes.add(run["hash"])
                    print(
                        f"{n_edges:,} edges | {way} | {memory_gib} GiB | load {load:.1f} | {run['wall_s']:.1f} s | "
                        f"{run['cpu_s']:.1f} s of CPU | peak {run['peak_bytes'] / 2**20:,.0f} MiB",
                        flush=True,
                    )
    return 0 if len(hashes) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
