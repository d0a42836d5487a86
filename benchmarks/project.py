"""Projections into Parquet files, beside a self-join in DuckDB and a sparse product in SciPy, each in its own process.

Every program reads the same edges and writes all pairs of a layer with at least some common neighbours: two ids and the
number, in Parquet with zstd. The process is started anew for each, with its compiled code in its caches; wall time,
processor time and the largest resident size are those of the whole process without its imports.

    python -m benchmarks.project yelp2018.txt.gz --layer u --min-common 2
    python -m benchmarks.project yelp2018.txt.gz --programs papilio papilio-gpu "papilio-gpu hyperbolic"

``benchmarks.listing_gpu`` times the kernels of ``papilio-gpu``, and its rows without files.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import papilio

PROGRAMS = ("papilio", "papilio jaccard", "papilio hypergeometric", "papilio expected-degrees", "duckdb", "scipy")
ON_GPU = ("papilio-gpu", "papilio-gpu hyperbolic", "papilio-gpu hypergeometric", "papilio-gpu expected-degrees")
_MEMORY = "8GB"
"""Memory limit of DuckDB, which spills to disk beyond it."""


def _by_papilio(store: str, edges: str, target: str, layer: str, least: int, how: str, engine: str = "cpu") -> int:
    asked: Any = {"significance": how} if how in ("hypergeometric", "expected-degrees") else {"weighting": how or None}
    given: Any = {"layer": layer, "min_common": least, "output": target, "engine": engine, **asked}
    return int(papilio.project(store, **given).rows)


def _by_duckdb(store: str, edges: str, target: str, layer: str, least: int, how: str) -> int:
    import duckdb

    own, other = ("u", "v") if layer == "u" else ("v", "u")
    Path(target).mkdir()
    with duckdb.connect(config={"threads": 2, "memory_limit": _MEMORY, "temp_directory": f"{target}.tmp"}) as found:
        found.execute(f"CREATE TABLE e AS SELECT u, v FROM read_parquet('{edges}')")
        found.execute(
            f"COPY (SELECT a.{own} AS source, b.{own} AS target, count(*)::INTEGER AS common FROM e a JOIN e b ON "
            f"a.{other} = b.{other} AND a.{own} < b.{own} GROUP BY ALL HAVING count(*) >= {least}) "
            f"TO '{target}/x.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )
        row = found.execute(f"SELECT count(*) FROM read_parquet('{target}/x.parquet')").fetchone()
        assert row is not None
        return int(row[0])


def _by_scipy(store: str, edges: str, target: str, layer: str, least: int, how: str) -> int:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from scipy import sparse

    table = pq.read_table(edges, columns=["u", "v"])
    u, v = (table.column(name).to_numpy() for name in ("u", "v"))
    matrix = sparse.csr_matrix((np.ones(u.size, np.int32), (u, v) if layer == "u" else (v, u)))
    product = (matrix @ matrix.T).tocoo()
    kept = (product.row < product.col) & (product.data >= least)
    columns = {"source": product.row[kept], "target": product.col[kept], "common": product.data[kept]}
    Path(target).mkdir()
    pq.write_table(pa.table(columns), f"{target}/x.parquet", compression="zstd")
    return int(kept.sum())


_BY = {
    "papilio": _by_papilio, "papilio-gpu": partial(_by_papilio, engine="gpu"), "duckdb": _by_duckdb,
    "scipy": _by_scipy,
}  # fmt: skip


def run_one(program: str, store: str, edges: str, target: str, layer: str, least: int) -> None:
    """Run one program in this process and print its time and memory."""
    name, _, how = program.partition(" ")
    if not name.startswith("papilio"):
        __import__(name)
    began, used = perf_counter(), process_time()
    rows = _BY[name](store, edges, target, layer, least, how)
    wall, processor = perf_counter() - began, process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = sum(path.stat().st_size for path in Path(target).glob("*.parquet")) / max(rows, 1)
    print(
        f"| {program} | {rows:,} | {wall:.2f} | {processor:.2f} | {rows / wall / 1e6:.1f} | {peak:.2f} | {size:.1f} |"
    )


def main() -> None:
    """Run all programs, one after the other, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--layer", choices=("u", "v"), default="u")
    parser.add_argument("--min-common", type=int, default=2)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS + ON_GPU, default=PROGRAMS)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        program, store, edges, target = given.one
        run_one(program, store, edges, target, given.layer, given.min_common)
        return
    with tempfile.TemporaryDirectory() as scratch:
        store = papilio.convert(given.graph, f"{scratch}/graph")
        edges = str(next(Path(store.path).glob("edges*")))
        print("| program | rows | s | processor s | million rows/s | GiB | bytes/row |\n|---|---|---|---|---|---|---|")
        for program in given.programs:
            for number in range(given.repeat):
                target = f"{scratch}/{program.replace(' ', '-')}-{number}"
                words = [given.graph, "--layer", given.layer, "--min-common", str(given.min_common)]
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.project",
                    *words,
                    "--one",
                    program,
                    store.path,
                    edges,
                    target,
                ]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
