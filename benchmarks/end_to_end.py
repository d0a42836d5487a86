"""A whole job, as a user runs it: from a store on disk through Dask workers to the answer.

    python -m benchmarks.end_to_end --cluster cuda --workers 1,2 --output end-to-end.json

The graph is generated straight to a store (R-MAT, 2^scale_u x 2^scale_v vertices). Each number of workers runs
``--repeats`` jobs on one started cluster; the first includes reading, preparing and compiling.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import papilio
from benchmarks.harness import describe_machine
from papilio.kernels.device.discovery import list_gpus
from papilio.storage.generate import Rmat, generate


def main() -> int:
    """Run the jobs; the exit status is 1 when two of them disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=("local", "cuda"), required=True)
    parser.add_argument("--workers", help="comma-separated; by default 1 and all GPUs (1 and 2 on local)")
    parser.add_argument("--scale-u", type=int, default=21)
    parser.add_argument("--scale-v", type=int, default=19)
    parser.add_argument("--edges", type=float, default=3e7, help="draws")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    most = len(list_gpus()) if options.cluster == "cuda" else 2
    workers = [int(n) for n in options.workers.split(",")] if options.workers else sorted({1, most})
    rows, counts = [], set()
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "rmat"
        started = perf_counter()
        made = generate(Rmat(options.scale_u, options.scale_v, int(options.edges)), store, seed=1)
        print(f"{made.n_edges:,} edges generated in {perf_counter() - started:.1f} s")
        for n_workers in workers:
            started = perf_counter()
            with papilio.open_cluster(options.cluster, workers=n_workers) as executor:
                start_s = perf_counter() - started
                for repeat in range(options.repeats):
                    result = papilio.count(store, papilio.Butterfly(), cluster=executor)
                    counts.add(result.count)
                    row = {"workers": n_workers, "repeat": repeat, "start_s": start_s, **result.to_dict()}
                    rows.append(row)
                    phases = " ".join(f"{name} {1e3 * s:.0f}" for name, s in result.seconds.items())
                    print(f"workers {n_workers} repeat {repeat} count {result.count} ms: {phases}", flush=True)
    if options.output is not None:
        facts = describe_machine("gpu" if options.cluster == "cuda" else "cpu")
        options.output.write_text(json.dumps({"machine": facts, "jobs": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if len(counts) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
