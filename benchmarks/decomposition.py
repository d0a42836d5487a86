"""Wing and tip decomposition: rounds, seconds by phase, updates per second; on the CPU, on the GPU, or both compared.

    python -m benchmarks.decomposition --data DATA --engine gpu --output decomposition-gpu.json

Seconds of a run are from the graph in host memory to the numbers there, without compiling the kernels: ``index`` (with
the copy to the device), ``coarse`` and ``fine``. Of several repeats the median by total is reported. ``--ranges`` tries
other numbers of ranges than the default (0); answers must be equal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.kernels.peel.decompose import Decomposed
from papilio.kernels.peel.phases import Layer, PeelingKind, ignore_report

BASELINE_S = {"marvel": 1.28, "youtube-groupmemberships": 0.56, "yelp2018": 5.24}
"""Bitruss decomposition by GPU_Bitruss on one H200, its device work."""

CASES: tuple[tuple[str, PeelingKind, Layer | None], ...] = (
    ("marvel", "wing", None),
    ("youtube-groupmemberships", "wing", None),
    ("yelp2018", "wing", None),
    ("marvel", "tip", "u"),
    ("marvel", "tip", "v"),
    ("youtube-groupmemberships", "tip", "u"),
    ("youtube-groupmemberships", "tip", "v"),
    ("movielens-1m", "tip", "u"),
)


def run_cpu(graph: BipartiteGraph, kind: PeelingKind, layer: Layer | None, n_ranges: int | None) -> Decomposed:
    """Decompose on all processors."""
    from papilio.kernels.peel.decompose import decompose_on_cpu

    return decompose_on_cpu(graph, kind, layer, None, None, False, ignore_report, n_ranges)


def run_gpu(graph: BipartiteGraph, kind: PeelingKind, layer: Layer | None, n_ranges: int | None) -> Decomposed:
    """Decompose on the first GPU."""
    from papilio.kernels.device.cuda import CudaDevice
    from papilio.kernels.peel.decompose import decompose_on_gpu

    if not DEVICES:
        DEVICES.append(CudaDevice())
    return decompose_on_gpu(DEVICES[0], graph, kind, layer, False, ignore_report, n_ranges)


DEVICES: list[Any] = []
"""The GPU, once it is used: it keeps the kernels that it has compiled."""

RUNS = {"cpu": run_cpu, "gpu": run_gpu}


def measure(
    engine: str,
    name: str,
    graph: BipartiteGraph,
    asked: tuple[PeelingKind, Layer | None],
    ranges: list[int],
    repeats: int,
) -> Iterator[tuple[dict[str, Any], NDArray[np.uint64]]]:
    """Yield a row of the table, and the numbers, for each number of ranges."""
    kind, layer = asked
    run = RUNS[engine]
    run(graph, kind, layer, None)
    for n_ranges in ranges:
        runs = [run(graph, kind, layer, n_ranges or None).peeled for _ in range(repeats)]
        peeled = sorted(runs, key=lambda each: sum(each.seconds.values()))[repeats // 2]
        total = sum(peeled.seconds.values())
        peel_s = peeled.seconds["coarse"] + peeled.seconds["fine"]
        row = {
            "graph": name,
            "what": kind if layer is None else f"{kind} {layer}",
            "engine": engine,
            "asked": n_ranges,
            "ranges": peeled.ranges,
            "coarse rounds": peeled.coarse_rounds,
            "fine rounds": peeled.fine_rounds,
            "max": int(peeled.numbers.max()),
            **{f"{phase} s": round(peeled.seconds[phase], 5) for phase in ("index", "coarse", "fine")},
            "total s": round(total, 5),
            "updates/s": round(peeled.updates / peel_s) if peel_s > 0 else 0,
            "baseline/ours": round(BASELINE_S[name] / total, 1) if kind == "wing" and name in BASELINE_S else None,
        }
        yield row, peeled.numbers


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with bipartite/<name>.txt.gz")
    parser.add_argument("--engine", choices=["cpu", "gpu", "both"], default="both")
    parser.add_argument("--graphs", nargs="*", help="names; by default all that are there")
    parser.add_argument("--ranges", type=int, nargs="*", default=[0], help="numbers of ranges to try; 0 is the default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, kind, layer in CASES:
        if given.graphs and name not in given.graphs:
            continue
        graph = load_graph(name, given.data)
        if graph is None:
            continue
        answers: list[NDArray[np.uint64]] = []
        for engine in ("cpu", "gpu") if given.engine == "both" else (given.engine,):
            for row, numbers in measure(engine, name, graph, (kind, layer), given.ranges, given.repeats):
                if not rows:
                    print("  ".join(row))
                print("  ".join(str(value) for value in row.values()), flush=True)
                rows.append(row)
                answers.append(numbers)
        if not all(np.array_equal(answers[0], other) for other in answers):
            sys.exit(f"{name} {kind} {layer}: the answers differ")
    if given.output:
        machine: EngineName = "cpu" if given.engine == "cpu" else "gpu"
        given.output.write_text(json.dumps({"machine": describe_machine(machine), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
