"""Speed and peak memory of ``papilio.convert`` on a generated edge list.

    python -m benchmarks.convert --edges 1e8 --memory-gib 2

The text is made first, with skewed degrees on both layers, one distinct edge in a few repeated. Each repeat converts
it in a process of its own, whose peak resident memory (VmHWM) is compared with the bound. ``wide`` labels are
64-bit integers and ``text`` labels are words: both are relabelled by a join instead of a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from benchmarks.harness import describe_machine

CHUNK_EDGES = 1 << 22
KINDS = ("integer", "wide", "text", "signed")


def write_text(path: Path, n_edges: int, kind: str) -> None:
    """Write ``n_edges`` lines ``u v``, or ``u v sign time`` for ``signed``; n_edges / 20 and / 40 vertices."""
    rng = np.random.default_rng(1)
    n_u, n_v = max(n_edges // 20, 1), max(n_edges // 40, 1)
    options = arrow_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    writer = None
    for start in range(0, n_edges, CHUNK_EDGES):
        count = min(CHUNK_EDGES, n_edges - start)
        columns: dict[str, Any] = {
            "u": (n_u * rng.random(count) ** 2).astype(np.int64),
            "v": (n_v * rng.random(count) ** 3).astype(np.int64),
        }
        if kind in ("wide", "text"):
            # An odd multiplier permutes 64-bit integers: distinct ids keep distinct labels.
            columns = {name: ids * 6364136223846793005 for name, ids in columns.items()}
        if kind == "text":
            prefixes = {"u": "user", "v": "item"}
            columns = {
                name: pc.binary_join_element_wise(prefixes[name], pa.array(ids).cast(pa.string()), "")
                for name, ids in columns.items()
            }
        if kind == "signed":
            columns["sign"] = rng.choice(np.array([-1, 1]), count)
            columns["time"] = rng.integers(1_000_000_000, 1_700_000_000, count)
        table = pa.table(columns)
        writer = writer or arrow_csv.CSVWriter(path, table.schema, write_options=options)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def convert_once(source: str, output: str, memory_bytes: int, kind: str) -> dict[str, Any]:
    """Convert in this process and return time and memory."""
    from papilio.storage.convert import convert

    phases: dict[str, float] = {}
    started, cpu_started = perf_counter(), process_time()
    signed: dict[str, Any] = {"sign": 3, "time": 4} if kind == "signed" else {}
    store = convert(
        source,
        output,
        memory_bytes=memory_bytes,
        progress=lambda phase, done, total: phases.update({phase: perf_counter() - started}),
        **signed,
    )
    wall_s, cpu_s = perf_counter() - started, process_time() - cpu_started
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    return {
        "edges_read": store.manifest.provenance["edges_read"],
        "n_u": store.n_u,
        "n_v": store.n_v,
        "n_edges": store.n_edges,
        "ids": store.manifest.provenance["ids"],
        "hash": store.hash,
        "wall_s": wall_s,
        "read_s": phases["read"],
        "cpu_s": cpu_s,
        "peak_bytes": peak,
    }


def main() -> int:
    """Run the benchmark; the exit status is 1 when a repeat passes its memory bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, default=2e7)
    parser.add_argument("--memory-gib", type=float, default=2)
    parser.add_argument("--kind", choices=KINDS, default="integer")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="for the text and the store, which are removed afterwards")
    parser.add_argument("--output", type=Path, help="JSON file for the measurements")
    parser.add_argument("--once", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    memory_bytes = int(options.memory_gib * 2**30)
    if options.once:
        print(json.dumps(convert_once(*options.once, memory_bytes, options.kind)))
        return 0
    runs = []
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        source = Path(directory) / "edges.txt"
        write_text(source, int(options.edges), options.kind)
        size = source.stat().st_size
        print(f"{options.kind}: {int(options.edges):,} lines, {size / 2**20:,.0f} MiB, load {os.getloadavg()[0]:.1f}")
        for repeat in range(options.repeats):
            command = [sys.executable, "-m", "benchmarks.convert", "--kind", options.kind]
            command += [
                "--memory-gib",
                str(options.memory_gib),
                "--once",
                str(source),
                f"{directory}/{repeat}",
            ]
            run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            runs.append(run)
            print(
                f"  {run['wall_s']:.1f} s ({run['read_s']:.1f} s parsing), {run['cpu_s']:.1f} s of CPU, "
                f"{run['edges_read'] / run['wall_s'] / 1e6:.2f} M edges/s, "
                f"peak {run['peak_bytes'] / 2**20:,.0f} of {memory_bytes / 2**20:,.0f} MiB, "
                f"{run['n_u']:,} x {run['n_v']:,}, {run['n_edges']:,} edges kept",
                flush=True,
            )
    if options.output is not None:
        facts = {"machine": describe_machine("cpu"), "kind": options.kind, "bytes": size, "runs": runs}
        options.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if all(run["peak_bytes"] <= memory_bytes for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
