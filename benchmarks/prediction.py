"""What plans predict beside what runs take: seconds, rows and bytes of listings, and the end of a run as it goes.

    python -m benchmarks.prediction --data DATA --output benchmarks/results/prediction.json
    python -m benchmarks.prediction --data DATA --only vector progress

Each question is planned and run by the product in this process, short ones twice, so that everything is compiled. On
CPUs ``--threads`` threads work, one by default, and seconds are those that the processors spent on the run, which
other work on the machine changes less; on GPUs they are of the clock. ``ratio`` is predicted by measured; ``OUT``
says that the interval did not hold the truth. ``vector`` are counts per vertex and edge. Progress is how far the end
of a run is off that follows from what is done, in percent of the run, at worst from its first tenth on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import papilio
from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, in_time, make_parser, print_rows
from papilio.cluster.events import Event, LeaseFinished, LeasesStarted, PlanMade
from papilio.cluster.executor import InlineExecutor
from papilio.cluster.progress import time_left
from papilio.errors import CapacityError
from papilio.motifs import Biclique, Butterfly, Clique, MaximalBiclique, MaximalClique, Motif
from papilio.tasks.forecast import Range

REPEATED_S = 1.0
"""A shorter run is repeated, and one that takes three times as long as predicted: it may have compiled."""

EVERYTHING = 10**15
"""The limit of a listing that ends at none: rows are not counted again to check them."""

Question = tuple[str, Motif, str]  # graph, motif, per


def total(*questions: tuple[str, Motif]) -> tuple[Question, ...]:
    """Return the questions, each for the total."""
    return tuple((name, motif, "total") for name, motif in questions)


COUNTS = total(
    *(("senate", Biclique(p, q)) for p, q in ((8, 8), (9, 5), (9, 9), (12, 8))),
    *(("movielens-100k", Biclique(p, q)) for p, q in ((3, 3), (4, 4), (5, 4), (4, 6))),
    *(("yelp2018", Biclique(p, q)) for p, q in ((3, 3), (4, 4), (5, 5), (6, 6), (8, 8), (7, 4), (4, 7))),
    *(("youtube-groupmemberships", Biclique(p, q)) for p, q in ((3, 6), (4, 8))),
    *(("rmat", Biclique(p, q)) for p, q in ((3, 3), (4, 4), (4, 5))),
    ("dense-100", Biclique(6, 6)),
    ("dense-130", Biclique(7, 7)),
    *(("movielens-100k", Biclique(p, q)) for p, q in ((5, 5), (5, 6), (6, 6))),
    *(("movielens-1m", Biclique(p, q)) for p, q in ((3, 3), (4, 3), (4, 4), (4, 5))),
    *((name, MaximalBiclique()) for name in ("marvel", "youtube-groupmemberships", "senate", "yelp2018", "rmat")),
    *(("yelp2018", MaximalBiclique(min_u=u, min_v=v)) for u, v in ((5, 8), (7, 5))),
    *(("facebook_combined", Clique(k)) for k in (4, 5, 6, 7, 8, 10)),
    *(("ca-HepPh", Clique(k)) for k in (4, 5)),
    *(("ca-AstroPh", Clique(k)) for k in (5, 6, 7)),
    *(("soc-Epinions1", Clique(k)) for k in (5, 6, 8)),
    *((name, Clique()) for name in ("wiki-Vote", "soc-Epinions1", "facebook_combined")),
    *((name, MaximalClique()) for name in ("wiki-Vote", "soc-Epinions1", "facebook_combined")),
    *((name, Butterfly()) for name in ("movielens-1m", "yelp2018")),
)  # fmt: skip

LISTINGS = total(
    *((name, Biclique(2, 2)) for name in ("marvel", "youtube-groupmemberships", "bonanza")),
    *((name, Biclique(3, 3)) for name in ("bonanza", "youtube-groupmemberships")),
    ("facebook_combined", Clique(4)),
    ("ca-AstroPh", Clique(4)),
    ("soc-Epinions1", Clique(5)),
    *((name, MaximalBiclique()) for name in ("marvel", "youtube-groupmemberships", "senate")),
    *((name, MaximalClique()) for name in ("wiki-Vote", "soc-Epinions1")),
)  # fmt: skip

VECTORS: tuple[Question, ...] = (
    *(("movielens-1m", Biclique(p, q), "vertex") for p, q in ((3, 3), (3, 4), (4, 3))),
    *(("movielens-100k", Biclique(p, q), "vertex") for p, q in ((3, 3), (4, 4), (5, 4), (4, 5))),
    *(("yelp2018", Biclique(p, q), "vertex") for p, q in ((3, 3), (4, 4), (5, 5))),
    *(("rmat", Biclique(p, q), "vertex") for p, q in ((3, 3), (4, 4))),
    *(("facebook_combined", Clique(k), per) for k in (6, 7, 8, 9) for per in ("vertex", "edge")),
    *(("ca-AstroPh", Clique(k), "vertex") for k in (6, 8)),
)  # fmt: skip

PROGRESS = total(
    ("movielens-1m", Biclique(3, 3)),
    ("dense-130", Biclique(7, 7)),
    ("dense-160", Biclique(6, 6)),
    ("rmat", Biclique(4, 5)),
    ("yelp2018", MaximalBiclique()),
    ("senate", MaximalBiclique()),
    ("facebook_combined", Clique(9)),
)


@dataclass(frozen=True)
class Row:
    """One question; an estimate is None without a prediction, and a truth if the run was too long."""

    graph: str
    question: str
    probes: int
    seconds: Range | None
    took_s: float | None
    rows: Range | None = None
    found: int | None = None
    n_bytes: Range | None = None
    written: int | None = None
    worst: float | None = None  # how far the end was off that the progress gave, by the time that the run took
    worst_later: float | None = None  # ... from its half on


class Watch:
    """A listener that records the share done during a run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._done, self._ended = clock, 0, threading.Event()
        self.total, self.expected_s, self.notes = 0, 0.0, list[tuple[float, int]]()
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, PlanMade):
            self.total = event.plan.predicted_ns
            self.expected_s = 0.0 if event.plan.run_s is None else event.plan.run_s.value
        elif isinstance(event, LeasesStarted):
            self._thread = threading.Thread(target=self._look, args=(event.work_underway,), daemon=True)
            self._thread.start()
        elif isinstance(event, LeaseFinished):
            self._done += event.work

    def _look(self, work_underway: Callable[[], int]) -> None:
        began = self._clock()
        while not self._ended.wait(0.1):
            self.notes.append((self._clock() - began, self._done + work_underway()))

    def worst(self, first: float) -> float | None:
        """Stop, and return the error of the predicted end from the share ``first`` of the run on."""
        self._ended.set()
        end, reached, before, off = self.notes[-1][0] if self.notes else 0.0, 0.0, 0, []
        for at, done in self.notes:
            reached, before = (at, done) if done > before else (reached, before)
            left = time_left(0, before, self.total, reached, at, self.expected_s)
            if at >= first * end and left is not None:
                off.append(abs(at + left - end) / end)
        return max(off, default=None)


def measure(
    name: str, motif: Motif, per: str, options: argparse.Namespace, *, lists: bool, watches: bool
) -> Row | None:
    """Plan a question and run it; None where the graph is not there, or the motif cannot be listed."""
    graph = load_graph(name, options.data)
    if graph is None:
        return None
    clock = process_time if options.engine == "cpu" else perf_counter
    divisor = options.threads if options.engine == "cpu" else 1
    with tempfile.TemporaryDirectory() as scratch, InlineExecutor(threads=options.threads) as executor:
        where: dict[str, Any] = {"cluster": executor, "engine": options.engine}
        watch = Watch(clock)
        where |= {"limit": EVERYTHING} if lists else {"per": per}
        plan = papilio.plan_listing if lists else papilio.plan
        try:
            made = plan(graph, motif, **where)
        except CapacityError as error:
            print(f"{name} {motif.title}: {error}", file=sys.stderr)
            return None
        took = found = written = None
        is_run = options.shortest <= made.predicted_run_s <= options.most
        for number in range(2 if is_run else 0):
            began = clock()
            if lists:
                output = Path(scratch) / f"rows-{number}"
                found = papilio.enumerate(graph, motif, output=output, **where).rows
                written = sum(path.stat().st_size for path in output.glob("*.parquet"))
            else:
                watch = Watch(clock)
                papilio.count(graph, motif, progress=watch if watches else None, **where)
            took = (clock() - began) / divisor
            if REPEATED_S < took < 3 * made.predicted_run_s:
                break
    return Row(
        graph=name,
        question=("list " if lists else "") + motif.title + ("" if per == "total" else f" per {per}"),
        probes=0 if made.forecast is None else made.forecast.probes,
        seconds=made.run_s,
        took_s=took,
        rows=made.listing_rows,
        found=found,
        n_bytes=made.listing_bytes,
        written=written,
        worst=watch.worst(0.1) if watches else None,
        worst_later=watch.worst(0.5) if watches else None,
    )


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each question, while there is time."""
    kinds = {"count": COUNTS, "list": LISTINGS, "vector": VECTORS, "progress": PROGRESS}
    asked = [(kind, *each) for kind in options.only for each in kinds[kind] if each[0] in (options.graphs or [each[0]])]
    for kind, name, motif, per in in_time(asked, options.seconds):
        row = measure(name, motif, per, options, lists=kind == "list", watches=kind == "progress")
        if row is not None:
            yield row


def show_ratio(estimate: Range | None, truth: float | None) -> str:
    """Return how the estimate compares with the truth."""
    if estimate is None or truth is None or not truth:
        return ""
    return f"{estimate.value / truth:.2f}{'' if estimate.low <= truth <= estimate.high else ' OUT'}"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "question": lambda row: row.question,
    "probes": lambda row: f"{row.probes:,}",
    "predicted": lambda row: "" if row.seconds is None else row.seconds.show("s"),
    "took, s": lambda row: "" if row.took_s is None else f"{row.took_s:.2f}",
    "ratio": lambda row: show_ratio(row.seconds, row.took_s),
    "rows": lambda row: "" if row.found is None else f"{row.found:,}",
    "ratio of rows": lambda row: show_ratio(row.rows, row.found),
    "bytes": lambda row: "" if row.written is None else f"{row.written:,}",
    "ratio of bytes": lambda row: show_ratio(row.n_bytes, row.written),
    "end off": lambda row: "" if row.worst is None else f"{row.worst:.0%}, {row.worst_later or 0:.0%} from half on",
}


def summary(rows: list[Row], least_s: float) -> str:
    """Return how many jobs of ``least_s`` or more were predicted within two times, and how often intervals held."""
    lines = []
    for what, pairs in {
        "seconds": [(row.seconds, row.took_s) for row in rows if (row.took_s or 0) >= least_s],
        "rows": [(row.rows, row.found) for row in rows],
        "bytes": [(row.n_bytes, row.written) for row in rows],
    }.items():
        known = [(a, b) for a, b in pairs if a is not None and b]
        near = sum(0.5 <= a.value / b <= 2 for a, b in known)
        held = sum(a.low <= b <= a.high for a, b in known)
        lines.append(f"{what}: {near} of {len(known)} within two times, {held} within the interval")
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = make_parser(__doc__, engines=True, seconds=1e9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--graphs", nargs="+")
    parser.add_argument("--only", nargs="+", choices=["count", "list", "vector", "progress"], default=["count", "list"])
    parser.add_argument("--most", type=float, default=30.0, help="run nothing that is predicted to take longer")
    parser.add_argument("--shortest", type=float, default=0.0, help="... nor less time")
    parser.add_argument("--least", type=float, default=1.0, help="seconds of the jobs that the summary is about")
    options = parser.parse_args()
    facts = describe_machine(options.engine) | {"threads": str(options.threads)}
    rows = print_rows(facts, COLUMNS, run_cases(options), options.output)
    print(f"\n{summary(rows, options.least)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
