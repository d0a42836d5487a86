"""Maximal bicliques on one GPU: preparation, search, balance, and branches with and without each filter.

python -m benchmarks.maximal_gpu --data DATA --graphs marvel senate
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.cases import load_graph
from benchmarks.harness import TimedKernels, describe_machine, in_time, make_parser, print_rows
from papilio.graph import BipartiteGraph
from papilio.kernels.device.cuda import shared_device
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.motifs import MaximalBiclique

ANSWERS: dict[str, int] = {
    "opsahl-ucforum": 16_261,
    "bonanza": 54_036,
    "marvel": 206_135,
    "youtube-groupmemberships": 1_826_587,
    "senate": 19_610_854,
    "yelp2018": 88_977_524,
}

SEARCHES = ("maximal_search", "maximal_children")

VARIANTS: dict[str, dict[str, int]] = {
    "": {},
    "no tables": {"TABLES": 0},
    "no tables, keeps what lies within a branch": {"TABLES": 0, "DROPS": 0},
    "no tables, keeps what excluded rows cover": {"TABLES": 0, "FILTERS": 0},
    "no tables, keeps both": {"TABLES": 0, "DROPS": 0, "FILTERS": 0},
}
"""Tables of maximal_subsets.cuh and filters of maximal_narrow.cuh that are left out."""


@dataclass(frozen=True)
class Row:
    """One graph in one way; times are medians in seconds, for ``search`` of its kernels alone.

    ``words`` of 64 bits counts the rows that were intersected; ``most`` is the number of the busiest block over
    the mean of all blocks.
    """

    graph: str
    variant: str
    prepare_s: float
    search_s: float
    run_s: float
    branches: float  # for each maximal biclique
    words: int
    most: float
    correct: bool


def measure(name: str, graph: BipartiteGraph, variant: str, repeats: int) -> Row:
    """Time one way, ``repeats`` times; an untimed round compiles."""
    engine = MaximalBicliqueGpu(shared_device(), defines=VARIANTS[variant])
    prepares = []
    for _ in range(2):
        began = perf_counter()
        prepared = engine.prepare(graph, MaximalBiclique(), "total")
        engine.device.synchronize()
        prepares.append(perf_counter() - began)
    engine.run(prepared, 0, min(1, prepared.n_items))
    searches, runs = [], []
    for _ in range(repeats):
        device: Any = engine.device
        timer = TimedKernels(device)
        device.load = timer
        began = perf_counter()
        partial = engine.run(prepared, 0, prepared.n_items)
        runs.append(perf_counter() - began)
        del device.load
        _, sums = timer.seconds()
        searches.append(sum(sums.get(kernel, 0.0) for kernel in SEARCHES))
    words = engine.block_words
    return Row(
        graph=name,
        variant=variant,
        prepare_s=prepares[-1],
        search_s=median(searches),
        run_s=median(runs),
        branches=engine.n_branches / max(1, partial.total),
        words=partial.work,
        most=float(words.max() / max(1.0, words.mean())),
        correct=partial.total == ANSWERS[name],
    )


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "without": lambda row: row.variant,
    "prepare ms": lambda row: f"{1e3 * row.prepare_s:.2f}",
    "search ms": lambda row: f"{1e3 * row.search_s:.2f}",
    "run ms": lambda row: f"{1e3 * row.run_s:.2f}",
    "branches": lambda row: f"{row.branches:.2f}",
    "words": lambda row: f"{row.words:.3g}",
    "most": lambda row: f"{row.most:.2f}",
    "correct": lambda row: "yes" if row.correct else "NO",
}


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the requested graphs in order, while there is time."""
    variants = VARIANTS if options.filters else [""]
    for variant, name in in_time(product(variants, options.graphs), options.seconds):
        graph = load_graph(name, options.data)
        if graph is not None:
            yield measure(name, graph, variant, options.repeats)


def main() -> int:
    """Run the requested graphs; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__, seconds=60.0)
    parser.add_argument("--graphs", nargs="+", default=list(ANSWERS), choices=list(ANSWERS))
    parser.add_argument("--filters", action="store_true", help="also without each filter")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = print_rows(describe_machine("gpu"), COLUMNS, run_cases(options), options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
