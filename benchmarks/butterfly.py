"""Butterflies and 4-cycles: phases and rates on the named cases, or counts per vertex by tiles of hub columns.

python -m benchmarks.butterfly --engine gpu --data DATA --output benchmarks/results/butterfly-gpu.json
python -m benchmarks.butterfly --engine gpu --data DATA --hub-tiles 0 1 16 --cases movielens-1m --rmat 16,3e7
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases import CASES, Case, load_graph
from benchmarks.graphs import rmat_baseline
from benchmarks.harness import (
    Measurement,
    TimedKernels,
    describe_machine,
    make_parser,
    measure,
    print_table,
    show_ms,
)
from benchmarks.limits import wedge_limit_cpu, wedge_limit_gpu
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.kernels.tuning import wedge_tuning
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import GRANULARITIES, Butterfly, FourCycle
from papilio.registry import load_engine
from papilio.storage.store import open_store

_CPU_SKIPS = ("rb1", "ru1")

CYCLES: tuple[Case, ...] = (
    Case("email-Eu-core", 4_647_873),
    Case("facebook_combined", 144_023_053),
    Case("ca-AstroPh", 44_916_549),
    Case("soc-Epinions1", 166_635_817),
    Case("ru1", 247_898_088_913),
)
"""Unipartite graphs, with their 4-cycles: by products of sparse matrices, of ``ru1`` by the engine for CPUs."""


_PARTS = 5


class Timed(NamedTuple):
    """Counts, the time in which kernels ran, and the time of each kernel."""

    partial: Partial
    seconds: float
    kernels: dict[str, float]


def draw_graphs(options: Namespace) -> Iterator[tuple[str, BipartiteGraph]]:
    """Yield the graphs of ``--cases`` and ``--stores``, and R-MAT graphs of the scales and draws in ``--rmat``."""
    for name in options.cases.split(",") if options.cases else ():
        graph = load_graph(name, options.data)
        if graph is not None:
            yield name, graph
    for path in options.stores:
        yield path.name, open_store(path).read()
    for text in options.rmat:
        scale, draws = text.split(",")
        yield (
            f"rmat {text}",
            BipartiteGraph(*rmat_baseline("bipartite", int(scale), int(scale), int(float(draws)), 1)),
        )


def time_items(engine: ButterflyGpu, prepared: Any, items: tuple[int, int], repeats: int) -> Timed:
    """Count some items, after a round that compiles; times are medians in seconds."""
    rounds = []
    for _ in range(repeats + 1):
        timer = TimedKernels(engine.device)
        vars(engine.device)["load"] = timer
        partial = engine.run(prepared, *items)
        del engine.device.load
        rounds.append(timer.seconds())
    seconds, kernels = sorted(rounds[1:], key=lambda each: each[0])[repeats // 2]
    return Timed(partial, seconds, kernels)


def show_tiles(engine: ButterflyGpu, prepared: Any, repeats: int) -> tuple[Partial, str]:
    """Return the counts, and their rates: of all items, and by fifths of the wedges, heaviest starts first."""
    done = np.concatenate(([0], np.cumsum(engine.work(prepared))))
    bounds = np.searchsorted(done, np.linspace(0, done[-1], _PARTS + 1)).tolist()
    whole, *parts = (
        time_items(engine, prepared, items, repeats) for items in [(0, prepared.n_items), *pairwise(bounds)]
    )
    rates = " ".join(f"{each.partial.work / max(each.seconds, 1e-9):.3g}" for each in parts)
    columns = 0 if prepared.hub_rows is None else prepared.graph.hub_columns
    return whole.partial, (
        f"{columns} columns, {show_ms(whole.seconds, 3)} ms, {whole.partial.work / whole.seconds:.3g} wedges/s "
        f"(by fifths {rates}); "
        + ", ".join(f"{name} {show_ms(seconds, 3)}" for name, seconds in sorted(whole.kernels.items()))
    )


def compare_tiles(options: Namespace) -> int:
    """Count with each number of tiles; 1 if counts differ. Only counts per vertex depend on it."""
    device = load_engine(Butterfly(), "gpu").device
    tuning, wrong = wedge_tuning(device.max_shared_bytes), 0
    print(describe_machine("gpu"))
    for name, graph in draw_graphs(options):
        expected: dict[str, Any] = {}
        for per in options.per.split(","):
            for tiles in options.hub_tiles if per == "vertex" else options.hub_tiles[:1]:
                engine = ButterflyGpu(device, replace(tuning, hub_tiles=tiles))
                started = perf_counter()
                prepared = engine.prepare(graph, Butterfly(), per)
                device.synchronize()
                prepare_s = perf_counter() - started
                counted, text = show_tiles(engine, prepared, options.repeats)
                found = {"total": counted.total, **counted.vectors}
                same = all(np.array_equal(each, expected.setdefault(key, each)) for key, each in found.items())
                wrong += not same
                print(
                    f"{name} per {per}, {graph.n_edges} edges, {counted.work} wedges, at most {tiles} tiles: "
                    f"{'equal' if same else 'WRONG'}, prepare {show_ms(prepare_s)} ms, {text}",
                    flush=True,
                )
    return 1 if wrong else 0


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("--engine", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--cases", help="comma-separated names; by default all (rb1, ru1 only on a GPU)")
    parser.add_argument("--per", default=",".join(GRANULARITIES), help="comma-separated granularities")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--hub-tiles", type=int, nargs="+", help="compare maximum tiles of hub columns, 0 for none")
    parser.add_argument("--rmat", nargs="*", default=[], help="with --hub-tiles: scale and draws, such as 16,3e7")
    parser.add_argument("--stores", nargs="*", type=Path, default=[], help="with --hub-tiles: graph stores")
    options = parser.parse_args()
    if options.hub_tiles:
        return compare_tiles(options)
    wanted = options.cases.split(",") if options.cases else None
    limit = wedge_limit_gpu() if options.engine == "gpu" else wedge_limit_cpu()
    rows: list[Measurement] = []
    for case in (*CASES, *CYCLES):
        if case.name not in wanted if wanted else options.engine == "cpu" and case.name in _CPU_SKIPS:
            continue
        graph = load_graph(case.name, options.data)
        if graph is None:
            continue
        for per in GRANULARITIES:
            if per in options.per.split(","):
                total_only = per == "total" and options.engine == "gpu"
                rows.append(
                    measure(
                        case.name,
                        graph,
                        FourCycle() if isinstance(graph, UnipartiteGraph) else Butterfly(),
                        options.engine,
                        per,
                        limit=limit,
                        expected=case.butterflies,
                        repeats=options.repeats,
                        target_s=case.target_s if total_only else None,
                        peers_s=case.peers_s if total_only else None,
                    )
                )
    facts = describe_machine(options.engine)
    print_table(facts, rows, options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
