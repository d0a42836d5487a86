"""k-cliques and maximal cliques on one GPU: order, kernels, share of the AND+popcount limit, balance over blocks.

python -m benchmarks.clique_gpu --data DATA --output benchmarks/results/clique-gpu.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from math import inf
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.cases import load_graph
from benchmarks.clique import CHOICES
from benchmarks.harness import TimedKernels, describe_machine, make_parser
from benchmarks.limits import popcount_limit_gpu
from papilio.graph import UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.motifs import Clique, Granularity, MaximalClique
from papilio.registry import load_engine


@dataclass(frozen=True)
class CliqueCase:
    """A question about one graph, with answers of other programs, by size; None if unknown."""

    graph: str
    motif: Clique | MaximalClique
    answers: dict[int, int] = field(default_factory=dict)
    total: int | None = None
    target_s: float | None = None  # kernels, on one H200
    per: Granularity = "total"
    # The fastest known: KCGPU (ICS 2022), RDMCE (PPoPP 2026), mce-gpu (PACT 2023).
    peer_s: float | None = None

    @property
    def name(self) -> str:
        """``ca-HepPh:6``; ``ca-HepPh:all``; ``ca-HepPh:maximal``."""
        if isinstance(self.motif, MaximalClique):
            return f"{self.graph}:maximal"
        return f"{self.graph}:{self.motif.k or 'all'}{'' if self.per == 'total' else f':{self.per}'}"


FACEBOOK = "facebook_combined"
FACEBOOK_TOTALS = {
    4: 30_004_668,
    5: 517_965_151,
    6: 7_830_937_838,
    7: 101_416_510_158,
    8: 1_121_740_700_496,
}
"""By k; from 7 on by the engines of CPU and GPU."""

CASES = (
    CliqueCase("ca-HepPh", Clique(), {5: 6_491_049_885, 6: 246_404_858_376}, target_s=0.003),
    CliqueCase("ca-HepPh", Clique(6), total=246_404_858_376, peer_s=11.0),
    CliqueCase(FACEBOOK, Clique(4), total=30_004_668, target_s=0.002, peer_s=0.008),
    CliqueCase(FACEBOOK, Clique(5), total=517_965_151),
    CliqueCase(FACEBOOK, Clique(6), total=7_830_937_838, target_s=0.03, peer_s=0.62),
    CliqueCase(FACEBOOK, Clique(7), target_s=0.2, peer_s=13.3),
    CliqueCase("ca-AstroPh", Clique(7), target_s=0.005, peer_s=0.49),
    CliqueCase("ca-AstroPh", Clique(), {6: 400_401_488, 57: 1}, target_s=0.005),
    CliqueCase("wiki-Vote", Clique(), {6: 6_931_312, 17: 23}),
    CliqueCase("email-Eu-core", Clique(), {6: 2_701_759, 18: 56}),
    CliqueCase("soc-Epinions1", Clique(7), target_s=0.02, peer_s=0.239),
    CliqueCase("soc-Epinions1", Clique(), {6: 45_703_641, 23: 18}, target_s=0.1),
    CliqueCase(FACEBOOK, Clique(8)),
    CliqueCase(FACEBOOK, Clique(), {5: 517_965_151, 6: 7_830_937_838}, target_s=0.8),
    CliqueCase(FACEBOOK, Clique(5), total=517_965_151, per="vertex"),
    CliqueCase(FACEBOOK, Clique(5), total=517_965_151, per="edge"),
    CliqueCase("soc-Epinions1", Clique(7), total=104_164_178, per="edge"),
    CliqueCase("ru1", Clique(4), target_s=0.02, peer_s=0.093),
    CliqueCase("ru1", Clique(5), target_s=0.2, peer_s=2.34),
    CliqueCase("soc-Epinions1", MaximalClique(), total=1_775_065, target_s=0.005, peer_s=0.02),
    CliqueCase("ca-HepPh", MaximalClique(), total=14_937, target_s=0.002, peer_s=0.013),
    CliqueCase("ca-AstroPh", MaximalClique(), total=36_427, target_s=0.002, peer_s=0.01),
    CliqueCase("wiki-Vote", MaximalClique(), total=459_002, target_s=0.002, peer_s=0.01),
    CliqueCase("email-Eu-core", MaximalClique(), total=42_709, target_s=0.001, peer_s=0.009),
    CliqueCase(FACEBOOK, MaximalClique(), total=869_325_383, target_s=1.0, peer_s=2.82),
)

# Every choice by hand is measured of these; `auto` beside them.
GRID = (
    *(CliqueCase(FACEBOOK, Clique(k), total=total) for k, total in FACEBOOK_TOTALS.items() if k < 8),
    CliqueCase("soc-Epinions1", Clique(5), total=17_417_432),
    CliqueCase("soc-Epinions1", Clique(7), total=104_164_178),
    CliqueCase("ca-HepPh", Clique(5), total=6_491_049_885),
    CliqueCase("ca-AstroPh", Clique(7), total=2_218_947_958),
    CliqueCase("ru1", Clique(4), total=10_588_378_149),
    CliqueCase("ru1", Clique(5), total=372_059_770_102),
    CliqueCase(FACEBOOK, Clique(8), total=FACEBOOK_TOTALS[8]),
    CliqueCase("ca-HepPh", Clique(6), total=246_404_858_376),
    CliqueCase("ru1", Clique(6)),
)

_PIECES = 16
"""Slices of the first run of a case; it can end after each."""


@dataclass(frozen=True)
class Way:
    """The variant: the flags of the command, and whether sub-trees are shared between warps."""

    algorithm: str = "auto"
    order: str = "auto"
    alone: bool = False

    def load(self, case: CliqueCase) -> Any:
        """Return the engine."""
        given = {name: value for name, value in asdict(self).items() if value != "auto" and name != "alone"}
        engine: Any = load_engine(case.motif, "gpu", **given)
        if self.alone:
            engine.tuning = replace(engine.tuning, slots=0)
        return engine

    @property
    def variant(self) -> str:
        """The settings that differ from the default."""
        words = ("" if self.order == "auto" else self.order, "alone" if self.alone else "")
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Row:
    """One case by one way; times are medians in seconds.

    ``order_s`` are the kernels of the order, of ``prepare_s``. ``words`` of 32 bits are the rows intersected.
    ``balance`` is the least and the most of them in a block, by the mean, over the blocks that were launched.
    """

    case: str
    algorithm: str
    variant: str
    order_s: float
    prepare_s: float
    kernels_s: float
    run_s: float
    words: int
    balance: tuple[float, float]
    blocks: int
    is_whole: bool  # else the first run ended at the limit, and times are its own
    total: str
    correct: bool


def time_prepare(engine: Any, graph: UnipartiteGraph, case: CliqueCase) -> tuple[Any, float, float]:
    """Prepare once to compile, then three times; return the prepared graph, the kernels' time and the whole time."""
    kernels, times = [], []
    for _ in range(4):
        timer = TimedKernels(engine.device)
        engine.device.load = timer
        engine.device.synchronize()
        started = perf_counter()
        prepared = engine.prepare(graph, case.motif, case.per)
        engine.device.synchronize()
        times.append(perf_counter() - started)
        del engine.device.load
        kernels.append(timer.seconds()[0])
    return prepared, median(kernels[1:]), median(times[1:])


def time_run(engine: Any, prepared: Any, pieces: int = 1, most_s: float = inf) -> tuple[Partial, float, float]:
    """Run all items, in slices that end after ``most_s``; return the result, the kernels' time and the time of all."""
    sums = np.cumsum(prepared.work, dtype=np.float64)
    cuts = np.searchsorted(sums, np.arange(1, pieces) / pieces * (sums[-1] if sums.size else 0))
    timer = TimedKernels(engine.device)
    engine.device.load = timer
    engine.device.synchronize()
    started = perf_counter()
    partial = engine.run(
        prepared, 0, prepared.n_items, np.unique(cuts).tolist(), lambda: perf_counter() - started > most_s
    )
    seconds = perf_counter() - started
    del engine.device.load
    return partial, timer.seconds()[0], seconds


def measure(
    case: CliqueCase,
    engine: Any,
    prepared: Any,
    times: tuple[float, float],
    way: Way,
    options: argparse.Namespace,
) -> Row:
    """Time one way, but once only when it takes longer than a second; a round before is not timed, but cut."""
    partial, *first = time_run(engine, prepared, _PIECES, options.most)
    is_whole = partial.n_items == prepared.n_items
    kernels, runs = ([], []) if is_whole else ([first[0]], [first[1]])
    while is_whole and len(runs) < options.repeats and (not runs or runs[0] < 1.0):
        partial, kernels_s, run_s = time_run(engine, prepared)
        kernels.append(kernels_s)
        runs.append(run_s)
    words = engine.block_words
    mean = max(1.0, float(words.mean())) if words.size else 1.0
    return Row(
        case=case.name,
        algorithm=getattr(prepared, "algorithm", ""),
        variant=way.variant,
        order_s=times[0],
        prepare_s=times[1],
        kernels_s=median(kernels),
        run_s=median(runs),
        words=int(words.sum()),
        balance=(float(words.min()) / mean, float(words.max()) / mean),
        blocks=int(words.size),
        is_whole=is_whole,
        total=str(partial.total),
        correct=not is_whole or is_right(case, partial),
    )


def is_right(case: CliqueCase, partial: Partial) -> bool:
    """Whether all that is known of a case was counted."""
    cells = [partial.cells.get((k,)) == answer for k, answer in case.answers.items()]
    return case.total in (None, partial.total) and all(cells)


def ways(case: CliqueCase, options: argparse.Namespace) -> list[Way]:
    """Return the ways to measure."""
    if not isinstance(case.motif, Clique):
        return [Way()] if options.plain else [Way(), Way(alone=True)]
    if options.grid:
        return [Way(), *(Way(**choice) for choice in CHOICES)]
    if options.plain or case.per != "total":
        return [Way()]
    orients = case.motif.k is not None and case.motif.k <= 7
    own = [Way(algorithm) for algorithm in (("orient", "pivot") if orients else ("pivot",))]
    return [*own, Way(alone=True)]


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the requested cases in order, while there is time."""
    began = perf_counter()
    cases = GRID if options.grid else CASES
    wanted = options.cases.split(";") if options.cases else [case.name for case in cases]
    graphs: dict[str, UnipartiteGraph | None] = {}
    for case in (case for case in cases if case.name in wanted):
        if case.graph not in graphs:
            graphs = {case.graph: load_graph(case.graph, options.data)}
        if graphs[case.graph] is None:
            continue
        for way in ways(case, options):
            if perf_counter() - began > options.seconds:
                return
            engine = way.load(case)
            prepared, *times = time_prepare(engine, graphs[case.graph], case)
            yield measure(case, engine, prepared, (times[0], times[1]), way, options)


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__, seconds=25.0)
    parser.add_argument("--cases", help="names such as ca-HepPh:6;ca-HepPh:all, split by semicolons")
    parser.add_argument("--plain", action="store_true", help="only what is chosen by default")
    parser.add_argument("--grid", action="store_true", help="every algorithm, order and kind of items")
    parser.add_argument("--most", type=float, default=3.0, help="seconds after which a first run is cut off")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    facts, limit = describe_machine("gpu"), popcount_limit_gpu()
    print("\n".join(f"- {name}: {value}" for name, value in facts.items()))
    print(f"- limit measured in this run: {limit:.3g} words of 32 bits/s\n")
    head = [
        "case",
        "algorithm",
        "variant",
        "order ms",
        "prepare ms",
        "kernels ms",
        "run ms",
        "words",
        "of limit",
    ]
    head += ["blocks", "least/most of mean", "total", "correct", "target ms", "peer ms"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    cases, rows = {case.name: case for case in (*GRID, *CASES)}, []
    for row in run_cases(options):
        rows.append(row)
        cells = [row.case, row.algorithm, row.variant]
        cells += [f"{seconds * 1e3:.3f}" for seconds in (row.order_s, row.prepare_s, row.kernels_s, row.run_s)]
        cells += [f"{row.words:.3g}", f"{row.words / row.kernels_s / limit:.1%}", str(row.blocks)]
        cells += [f"{row.balance[0]:.2f}/{row.balance[1]:.2f}", row.total if row.is_whole else "cut off"]
        cells += ["yes" if row.correct else "NO"]
        peers = (cases[row.case].target_s, cases[row.case].peer_s)
        cells += ["" if seconds is None else f"{seconds * 1e3:g}" for seconds in peers]
        print("| " + " | ".join(cells) + " |", flush=True)
    if options.output is not None:
        document = {
            "machine": facts,
            "limit_words_per_s": limit,
            "measurements": [asdict(row) for row in rows],
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
