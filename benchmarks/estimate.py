"""Estimates: how often their intervals hold the exact count, and their error against time.

    python -m benchmarks.estimate --data DATA --seeds 1000 --error 0.05
    python -m benchmarks.estimate --data DATA --seeds 3 --error 0.01 --cases movielens-100k:biclique:6:6
    python -m benchmarks.estimate --data DATA --seeds 5 --error 0.01 --threads 1 --cases senate:biclique:4:5
    python -m benchmarks.estimate --data DATA --seeds 200 --error 0.1 --seconds 4 --cases hard

Every seed is one estimate through :func:`papilio.estimate`'s own code, on a graph that stays prepared; nothing is
counted instead. ``held`` is the share of intervals that hold the count, ``reliable`` the share that call themselves
reliable, and ``held if reliable`` and ``held if not`` are the shares of these and of the others. ``least`` is the
median lower end of the others, which have no upper one, as a share of the count. ``apart`` is the mean and the largest
error of estimates, also as shares, ``bias`` the error of their mean, also in standard errors.
A count that follows the case after ``=`` is not counted again; with --no-exact, the mean of all estimates stands for
it. ``cpu`` is the processor time of all threads for the first estimate, with preparing and planning, and for a further
one. The exit status is 1 where fewer than 93 or more than 97 % of 1,000 reliable intervals of 95 % hold the count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from time import process_time

import numpy as np

import papilio
from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, print_rows, write_json
from papilio.api.estimate import Estimate, EstimateCall
from papilio.cluster.estimate_job import Goal
from papilio.cluster.executor import InlineExecutor
from papilio.motifs import MOTIFS, Motif

CASES = (
    "southern-women:biclique:3:3",
    "opsahl-ucforum:biclique:3:3",
    "senate:biclique:3:3",
    "senate:biclique:4:4",
    "bonanza:biclique:3:3",
    "marvel:biclique:4:4",
    "youtube-groupmemberships:biclique:4:4",
    "opsahl-ucforum:butterfly",
    "senate:butterfly",
    "marvel:butterfly",
    "movielens-100k:butterfly",
)
"""Graph, motif and its sizes."""

HARD = (
    "email-Eu-core:clique:18=56",
    "hidden-cliques:clique:7",
    "hidden-cliques:clique:8",
    "hidden-blocks:biclique:4:4",
    "block-30:biclique:6:6",
    "nested-120:biclique:3:3",
    "marvel:biclique:8:8=4316588655",
    "youtube-groupmemberships:biclique:8:8=205411586",
    "senate:maximal-biclique=19610854",
    f"crown-20:maximal-biclique={2**20 - 2}",
    f"crown-40:maximal-biclique={2**40 - 2}",
)
"""Questions whose probes are skewed, rounded, or seldom meet the motifs, most with their counts."""


@dataclass(frozen=True)
class Row:
    """The estimates of one question."""

    case: str
    exact: float
    held: list[bool]  # whether each interval holds the count
    reliable: list[bool]  # what each estimate calls itself
    least: list[float]  # lower end of the others, relative to the count
    mean_error: float
    largest_error: float
    bias: float  # of the mean of all, relative to the count
    deviations: float  # the same in standard errors
    probes: float
    seconds: float  # of the probes of one estimate, the median
    first_cpu_s: float  # processor time of the first estimate, which prepares the graph
    cpu_s: float  # of a further one, the median

    def held_of(self, kind: bool) -> list[bool]:
        """Return whether the intervals of reliable estimates, or of the others, hold the count."""
        return [held for held, each in zip(self.held, self.reliable, strict=True) if each == kind]


def read_motif(words: list[str]) -> Motif:
    """Return the motif that ``biclique:3:3`` names."""
    name, *sizes = words
    return MOTIFS[name](*map(int, sizes))


def run_case(case: str, options: argparse.Namespace) -> Row:
    """Estimate with every seed."""
    case, _, known = case.partition("=")
    name, *words = case.split(":")
    graph, motif = load_graph(name, options.data), read_motif(words)
    if graph is None:
        raise SystemExit(1)
    goal = Goal(options.error, options.confidence, options.seconds)
    cpu_s: list[float] = []
    with InlineExecutor(threads=options.threads) as cluster:

        def ask(seed: int) -> Estimate:
            began = process_time()
            call = EstimateCall(graph, motif, goal, seed, cluster=cluster, engine=options.engine)
            found = call.estimate(may_count=False)
            cpu_s.append(process_time() - began)
            return found

        found = [ask(seed) for seed in range(options.first, options.first + options.seeds)]
        exact = float(known or fmean(each.count for each in found))
        if options.exact and not known:
            exact = papilio.count(graph, motif, cluster=cluster, engine=options.engine).count
    counts = np.array([each.count for each in found])
    errors, missed = np.abs(counts - exact) / max(exact, 1), counts.mean() - exact
    return Row(
        case,
        exact,
        [each.interval[0] <= exact <= each.interval[1] for each in found],
        [each.is_reliable for each in found],
        [each.interval[0] / max(exact, 1) for each in found if not each.is_reliable],
        float(errors.mean()),
        float(errors.max()),
        float(missed / max(exact, 1)),
        float(missed / max(counts.std() / np.sqrt(counts.size), 1e-300)),
        fmean(each.probes for each in found),
        median(each.seconds["probe"] for each in found),
        cpu_s[0],
        median(cpu_s[1:] or cpu_s),
    )


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each case."""
    for case in HARD if options.cases == ["hard"] else options.cases:
        yield run_case(case, options)


def show_share(held: list[bool]) -> str:
    """Return the share of intervals that hold the count, and their number."""
    return f"{fmean(held):.1%} of {len(held):,}" if held else "-"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "question": lambda row: row.case.replace(":", " "),
    "count": lambda row: f"{row.exact:.6g}",
    "held": lambda row: show_share(row.held),
    "reliable": lambda row: f"{fmean(row.reliable):.1%}",
    "held if reliable": lambda row: show_share(row.held_of(True)),
    "held if not": lambda row: show_share(row.held_of(False)),
    "least": lambda row: f"{median(row.least):.2f}" if row.least else "-",
    "apart": lambda row: f"{row.mean_error:.2%}, {row.largest_error:.2%}",
    "bias": lambda row: f"{row.bias:+.2%}, {row.deviations:+.1f} s.e.",
    "probes": lambda row: f"{row.probes:,.0f}",
    "seconds": lambda row: f"{row.seconds:.3g}",
    "cpu": lambda row: f"{row.first_cpu_s:.3g}, {row.cpu_s:.3g}",
}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with bipartite and unipartite")
    parser.add_argument("--cases", nargs="+", default=CASES, help="'hard': those of HARD")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--threads", type=int, help="of the cpu engine; all processors by default")
    parser.add_argument("--no-exact", dest="exact", action="store_false", help="do not count")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    facts = describe_machine(options.engine)
    rows = print_rows(facts, COLUMNS, run_cases(options))
    if options.output:
        write_json(options.output, facts, rows)
    reliable = [row.held_of(True) for row in rows]
    return int(any(len(held) >= 1000 and abs(fmean(held) - options.confidence) > 0.02 for held in reliable))


if __name__ == "__main__":
    sys.exit(main())
