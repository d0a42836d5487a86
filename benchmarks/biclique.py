"""(p,q)-bicliques on CPUs: one size or all sizes, by each algorithm, anchored layer and order of its vertices.

python -m benchmarks.biclique --threads 1,2 --data DATA --output benchmarks/results/biclique-cpu.json
python -m benchmarks.biclique --cases marvel:4,4 --algorithms enumerate,pivot --anchors u,v --orders all
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, make_parser, print_rows
from papilio.errors import UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique import index as biclique_index
from papilio.kernels.biclique.core import Pairs, Rows, count_partners
from papilio.motifs import Biclique
from papilio.registry import load_engine

__all__ = ["CASES", "BicliqueCase", "Row", "measure"]


@dataclass(frozen=True)
class BicliqueCase:
    """A question about one graph, with answers that other programs gave.

    Attributes
    ----------
    graph : str
        Its name in :mod:`benchmarks.cases`.
    motif : Biclique
    answers : dict of (int, int) to int
        By (p, q): all for one size, some of a table.
    peers_s : dict of str to float
        What other systems needed on one CPU thread.
    """

    graph: str
    motif: Biclique
    answers: dict[tuple[int, int], int] = field(default_factory=dict)
    peers_s: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``marvel:3,3``; ``marvel:all``."""
        sizes = "all" if self.motif.p is None else f"{self.motif.p},{self.motif.q}"
        return f"{self.graph}:{sizes}"


def _one(graph: str, p: int, q: int, answer: int, peer_s: float | None = None) -> BicliqueCase:
    return BicliqueCase(graph, Biclique(p, q), {(p, q): answer}, {"BCList++": peer_s} if peer_s else {})


MARVEL, YOUTUBE = "marvel", "youtube-groupmemberships"
CASES: tuple[BicliqueCase, ...] = (
    _one(MARVEL, 2, 3, 896_875_631),
    _one(MARVEL, 3, 3, 462_550_547, 0.16),
    _one(MARVEL, 4, 4, 8_634_112_357, 0.62),
    _one(MARVEL, 8, 8, 4_316_588_655, 15.7),
    BicliqueCase(
        MARVEL,
        Biclique(),
        {(2, 2): 10_709_594, (3, 3): 462_550_547, (8, 8): 4_316_588_655},
        {"EPivoter": 18.6},
    ),
    _one(YOUTUBE, 2, 3, 29_386_656),
    _one(YOUTUBE, 3, 3, 146_517_782, 1.4),
    _one(YOUTUBE, 4, 4, 626_892_852, 4.5),
    _one(YOUTUBE, 6, 6, 1_309_342_703),
    _one(YOUTUBE, 8, 8, 205_411_586, 21.8),
    BicliqueCase(
        YOUTUBE,
        Biclique(),
        {(2, 2): 12_540_261, (3, 3): 146_517_782, (8, 8): 205_411_586},
        {"EPivoter": 23.4},
    ),
    _one("senate", 4, 5, 17_445_456_680_663),
    _one("movielens-100k", 3, 3, 94_084_647_182),
    _one("yelp2018", 2, 3, 1_633_657_016),
    _one("yelp2018", 3, 3, 1_338_627_800, 600.0),
    _one("yelp2018", 4, 4, 2_902_288_106, 600.0),
    _one("yelp2018", 8, 8, 108_309_892, 515.0),
)
"""BCList++ was stopped after 600 s where that is its time; those two answers are Papilio's own, by both algorithms."""

Order = Callable[[Rows, Pairs], NDArray[np.int64]]


def _sorted_by(keys: Callable[[Rows, Pairs], NDArray[np.int64]]) -> Order:
    return lambda rows, pairs: np.argsort(keys(rows, pairs), kind="stable")


ORDERS: dict[str, Order] = {
    "pairs": _sorted_by(lambda rows, pairs: count_partners(pairs)),
    "pairs-falling": _sorted_by(lambda rows, pairs: -count_partners(pairs)),
    "degree": _sorted_by(lambda rows, pairs: np.diff(rows.indptr)),
    "degree-falling": _sorted_by(lambda rows, pairs: -np.diff(rows.indptr)),
    "random": lambda rows, pairs: np.random.default_rng(1).permutation(rows.indptr.size - 1),
}
"""Orders of the anchored layer; Papilio's is the first."""


@dataclass(frozen=True)
class Row:
    """One case by one way; times are medians in seconds, ``cpu_s`` of all threads, prepare and run together.

    ``algorithm`` is what ran.
    """

    case: str
    algorithm: str
    anchored: str
    order: str
    threads: int
    prepare_s: float
    run_s: float
    cpu_s: float
    work: int
    correct: bool
    peers_s: dict[str, float]

    @property
    def compared_s(self) -> float:
        """The time for comparisons: on one thread the processor's time, which other programs change little."""
        return self.cpu_s if self.threads == 1 else self.prepare_s + self.run_s


def measure(
    case: BicliqueCase, graph: BipartiteGraph, options: dict[str, str], order: str, threads: int, repeats: int
) -> Row:  # fmt: skip
    """Time one way; a first, untimed round on a small graph compiles.

    Raises
    ------
    UnsupportedError
        When the algorithm cannot count the case.
    """
    engine: Any = load_engine(case.motif, "cpu", threads, **options)
    times = []
    with patch.object(biclique_index, "order_left", ORDERS[order]):
        small = _small_graph()
        compiled = engine.prepare(small, case.motif, "total")
        engine.run(compiled, 0, compiled.n_items)
        for _ in range(repeats):
            cpu, started = process_time(), perf_counter()
            prepared = engine.prepare(graph, case.motif, "total")
            ready = perf_counter()
            partial = engine.run(prepared, 0, prepared.n_items)
            ended = perf_counter()
            times.append((ready - started, ended - ready, process_time() - cpu))
    cells = partial.cells if case.motif.is_table else {(case.motif.p, case.motif.q): partial.total}
    return Row(
        case=case.name,
        algorithm=prepared.algorithm,
        anchored=prepared.index.anchor.upper(),
        order=order,
        threads=threads,
        prepare_s=median(one[0] for one in times),
        run_s=median(one[1] for one in times),
        cpu_s=median(one[2] for one in times),
        work=partial.work,
        correct=all(cells.get(cell) == answer for cell, answer in case.answers.items()),
        peers_s=case.peers_s,
    )


def _small_graph() -> BipartiteGraph:
    u, v = np.divmod(np.arange(0, 900, 2), 30)
    return BipartiteGraph.from_edges(u, v, 30, 30)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "case": lambda row: row.case,
    "algorithm": lambda row: row.algorithm,
    "anchored": lambda row: row.anchored,
    "order": lambda row: row.order,
    "threads": lambda row: str(row.threads),
    "prepare s": lambda row: f"{row.prepare_s:.3f}",
    "run s": lambda row: f"{row.run_s:.3f}",
    "together s": lambda row: f"{row.prepare_s + row.run_s:.3f}",
    "CPU time s": lambda row: f"{row.cpu_s:.3f}",
    "set operations": lambda row: f"{row.work:.3g}",
    "correct": lambda row: "yes" if row.correct else "NO",
    "others": lambda row: ", ".join(f"{peer} {_bound(seconds)}" for peer, seconds in row.peers_s.items()),
    "times faster": lambda row: ", ".join(f"{s / row.compared_s:.1f}" for s in row.peers_s.values()),
}


def _bound(seconds: float) -> str:
    return f"more than {seconds:.0f}" if seconds == 600 else f"{seconds:g}"


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the requested cases in every requested way."""
    graphs: dict[str, BipartiteGraph | None] = {}
    ways = [each.split(",") for each in (options.threads, options.algorithms, options.anchors, options.orders)]
    for case in (case for case in CASES if not options.cases or case.name in options.cases.split()):
        if case.graph not in graphs:
            graphs[case.graph] = load_graph(case.graph, options.data)
        graph = graphs[case.graph]
        if graph is None:
            continue
        for threads, algorithm, anchor, order in product(*ways):
            chosen = {"algorithm": algorithm, "anchor": anchor}
            try:
                yield measure(case, graph, chosen, order, int(threads), options.repeats)
            except UnsupportedError as error:
                print(f"{case.name}: {error}", file=sys.stderr)


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("--cases", help="names with spaces between, as marvel:3,3 or marvel:all; default all")
    parser.add_argument("--algorithms", default="auto", help="comma-separated: auto, enumerate, pivot")
    parser.add_argument("--anchors", default="auto", help="comma-separated: auto, u, v")
    parser.add_argument("--orders", default="pairs", help=f"comma-separated: {', '.join(ORDERS)}; or all")
    parser.add_argument("--threads", default="1", help="comma-separated numbers")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.orders == "all":
        options.orders = ",".join(ORDERS)
    if unknown := set(options.orders.split(",")) - set(ORDERS):
        parser.error(f"unknown orders {', '.join(sorted(unknown))}; known: {', '.join(ORDERS)}")
    rows = print_rows(describe_machine("cpu"), COLUMNS, run_cases(options), options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
