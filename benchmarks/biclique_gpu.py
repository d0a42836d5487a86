"""(p,q)-bicliques on one GPU: index, kernels, share of the AND+popcount limit, balance over blocks, with switches.

python -m benchmarks.biclique_gpu --data DATA --output benchmarks/results/biclique-gpu.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.biclique import CASES, BicliqueCase
from benchmarks.cases import load_graph
from benchmarks.harness import TimedKernels, describe_machine, make_parser, print_rows
from benchmarks.limits import popcount_limit_gpu
from papilio.graph import BipartiteGraph
from papilio.registry import load_engine

TARGETS_S: dict[str, float] = {
    "youtube-groupmemberships:3,3": 0.005,
    "youtube-groupmemberships:4,4": 0.01,
    "youtube-groupmemberships:8,8": 0.05,
    "youtube-groupmemberships:all": 0.25,
    "marvel:3,3": 0.002,
    "marvel:4,4": 0.004,
    "marvel:8,8": 0.05,
    "marvel:all": 0.25,
    "yelp2018:3,3": 2.0,
    "yelp2018:4,4": 2.0,
    "yelp2018:8,8": 0.5,
}
"""Kernels, on one H200."""

GBC_S: dict[str, float] = {
    "youtube-groupmemberships:3,3": 0.100,
    "youtube-groupmemberships:4,4": 0.266,
    "youtube-groupmemberships:8,8": 3.22,
    "marvel:3,3": 0.017,
    "marvel:4,4": 0.046,
    "yelp2018:8,8": 8.9,
}
"""GBC (ICDE'24) on one H200, kernels; its counts are wrong there."""


VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    "alone": {"slots": 0},
    "patient": {"check_steps": 1024},
    "crowded": {"blocks_per_sm": (5, 5, 4), "list_blocks_per_sm": 6},
}
"""Changes to the tuning: no sub-trees are shared, waiting warps are looked for less often, more warps with fewer
registers."""


@dataclass(frozen=True)
class Row:
    """One case by one way; times are medians in seconds.

    ``words`` of 32 bits are what intersecting rows below the children takes, so for (4,4) the pairs of rows of the last
    level; work on the index, on matrices and on lists of candidates takes time but counts for nothing. ``balance`` is
    the least and the most of them in a block, by the mean, over the blocks that were launched.
    """

    case: str
    algorithm: str
    variant: str
    prepare_s: float
    kernels_s: float
    run_s: float
    words: int
    balance: tuple[float, float]
    blocks: int
    correct: bool


def measure(case: BicliqueCase, engine: Any, prepared: Any, prepare_s: float, variant: str, repeats: int) -> Row:
    """Time one way, ``repeats`` times, but once only when it takes longer than a second; an untimed round compiles."""
    engine.run(prepared, 0, min(1, prepared.n_items))
    kernels, runs = [], []
    while len(runs) < repeats and (not runs or runs[0] < 1.0):
        timer = TimedKernels(engine.device)
        engine.device.load = timer
        engine.device.synchronize()
        started = perf_counter()
        partial = engine.run(prepared, 0, prepared.n_items)
        runs.append(perf_counter() - started)
        del engine.device.load
        kernels.append(timer.seconds()[0])
    cells = partial.cells if case.motif.is_table else {(case.motif.p, case.motif.q): partial.total}
    words = engine.block_words
    mean = max(1.0, float(words.mean())) if words.size else 1.0
    return Row(
        case=case.name,
        algorithm=prepared.algorithm,
        variant=variant,
        prepare_s=prepare_s,
        kernels_s=median(kernels),
        run_s=median(runs),
        words=int(words.sum()),
        balance=(float(words.min()) / mean, float(words.max()) / mean),
        blocks=int(words.size),
        correct=all(cells.get(cell) == answer for cell, answer in case.answers.items()),
    )


def ways(case: BicliqueCase) -> list[tuple[str, str]]:
    """Return the (algorithm, variant) pairs to measure, targets first."""
    if case.motif.is_table:
        return [("pivot", variant) for variant in ("", "alone", "patient")]
    if max(case.motif.p or 0, case.motif.q or 0) > 4:
        chosen = [("auto", variant) for variant in ("", "alone", "patient")]
        chosen += [("enumerate", "")]
    else:
        chosen = [("enumerate", variant) for variant in ("", "alone", "patient")]
    if case.name == "yelp2018:4,4":
        chosen += [("enumerate", "crowded")]
    return chosen if case.graph == "yelp2018" else [*chosen, ("pivot", "")]


def time_prepare(engine: Any, graph: BipartiteGraph, case: BicliqueCase, repeats: int) -> tuple[Any, float]:
    """Prepare once to compile, then a few times; return the prepared graph and the median time."""
    times = []
    for _ in range(1 + repeats):
        started = perf_counter()
        prepared = engine.prepare(graph, case.motif, "total")
        engine.device.synchronize()
        times.append(perf_counter() - started)
    return prepared, median(times[1:])


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the requested cases in order, while there is time."""
    began = perf_counter()
    wanted = options.cases.split(";") if options.cases else list(TARGETS_S)
    order = {case.name: case for case in CASES}
    for name in wanted:
        case = order[name]
        graph = load_graph(case.graph, options.data)
        if graph is None:
            continue
        engine: Any = load_engine(case.motif, "gpu")
        usual = engine.tuning
        made: dict[str, tuple[Any, float]] = {}  # each algorithm has separate working memory
        for algorithm, variant in ways(case):
            if perf_counter() - began > options.seconds:
                print(f"{name}, {algorithm}: no time left", file=sys.stderr)
                continue
            engine.tuning, engine.algorithm = usual, algorithm
            if algorithm not in made:
                made[algorithm] = time_prepare(engine, graph, case, 3)
            engine.tuning = replace(usual, **VARIANTS[variant])
            yield measure(case, engine, *made[algorithm], variant, options.repeats)


def list_columns(limit: float) -> dict[str, Callable[[Row], str]]:
    """Return the columns of the table, for a limit of intersected words a second."""

    def show(seconds: float | None) -> str:
        return "" if seconds is None else f"{seconds * 1e3:g}"

    return {
        "case": lambda row: row.case,
        "algorithm": lambda row: row.algorithm,
        "variant": lambda row: row.variant,
        "prepare ms": lambda row: f"{row.prepare_s * 1e3:.3f}",
        "kernels ms": lambda row: f"{row.kernels_s * 1e3:.3f}",
        "run ms": lambda row: f"{row.run_s * 1e3:.3f}",
        "words": lambda row: f"{row.words:.3g}",
        "words/s": lambda row: f"{row.words / row.kernels_s:.3g}",
        "of limit": lambda row: f"{row.words / row.kernels_s / limit:.1%}",
        "blocks": lambda row: str(row.blocks),
        "least/most of mean": lambda row: f"{row.balance[0]:.2f}/{row.balance[1]:.2f}",
        "correct": lambda row: "yes" if row.correct else "NO",
        "target ms": lambda row: show(TARGETS_S.get(row.case)),
        "GBC ms": lambda row: show(GBC_S.get(row.case)),
    }


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__, seconds=25.0)
    parser.add_argument("--cases", help="names such as marvel:4,4;yelp2018:all, split by semicolons")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    limit = popcount_limit_gpu()
    facts = describe_machine("gpu") | {"limit measured in this run": f"{limit:.3g} words of 32 bits/s"}
    rows = print_rows(facts, list_columns(limit), run_cases(options), options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
