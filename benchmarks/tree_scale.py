"""Searches on several GPUs of one host: seconds from a common begin to the last end, beside those of one GPU.

Each GPU has a process that reads and prepares the graph; time begins when all have. The work items are divided without
a scheduler in between, so that what is measured are the items and the kernels, in three ways:

* ``dealt``: every n-th item in their order, which is a fair sample of them; not maximal bicliques;
* ``predicted``: intervals of the same predicted cost;
* ``timed``: intervals moved until they take about the same time, as leases of a long job would end up.

``largest`` is the share of all words intersected that the heaviest work item has, which nothing but finer items
divides, or a bound of it.

python -m benchmarks.tree_scale --data ../shared/data --gpus 1,2,4
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.biclique import CASES as BICLIQUES
from benchmarks.cases import Case as NamedGraph
from benchmarks.cases import load_case
from benchmarks.clique_gpu import FACEBOOK, read_graph
from benchmarks.harness import TimedKernels, describe_machine
from benchmarks.maximal_gpu import ANSWERS as MAXIMAL_BICLIQUES
from papilio.families import family_of, load_engine
from papilio.kernels.tree.gpu import TreeClass
from papilio.motifs import Biclique, Clique, MaximalBiclique, MaximalClique, Motif


@dataclass(frozen=True)
class ScaleCase:
    """A question, its known answer if there is one, and how the engine is to answer it."""

    name: str
    graph: str
    motif: Motif
    total: int | None = None
    options: dict[str, str] = field(default_factory=dict)

    def read(self, data: Path) -> Any:
        """Return the graph from the folder of known answers; FileNotFoundError when it is not there."""
        if family_of(self.motif).graph_kind == "unipartite":
            return read_graph(data, self.graph)
        graph = load_case(NamedGraph(self.graph, 0), data)
        if graph is None:
            raise FileNotFoundError(f"{data}/bipartite/{self.graph}.txt.gz")
        return graph


def _clique(graph: str, k: int | None, total: int | None, **options: str) -> ScaleCase:
    name = ":".join((graph, str(k or "all"), *options.values()))
    return ScaleCase(name, graph, Clique(k) if k else Clique(), total, options)


def _biclique(graph: str, p: int, q: int, total: int | None = None) -> ScaleCase:
    known = {case.name: case.answers.get((p, q)) for case in BICLIQUES}
    name = f"{graph}:{p},{q}"
    return ScaleCase(name, graph, Biclique(p, q), total or known.get(name))


CASES = (
    _clique(FACEBOOK, 8, 1_121_740_700_496),
    _clique(FACEBOOK, None, 10_754_095_501_028_599_775_018_467),
    ScaleCase(f"{FACEBOOK}:maximal", FACEBOOK, MaximalClique(), 869_325_383),
    *(ScaleCase(f"{graph}:maximal", graph, MaximalBiclique(), MAXIMAL_BICLIQUES[graph])
      for graph in ("senate", "yelp2018")),
    _biclique("movielens-1m", 3, 3, 47_604_269_608_734),
    _biclique("yelp2018", 8, 8),
    _clique("ca-HepPh", 6, 246_404_858_376, algorithm="orient"),
    _biclique("movielens-100k", 6, 6),
    _clique("ru1", 6, None, algorithm="orient"),
)  # fmt: skip

_ROUNDS = 12
"""How often intervals are moved towards equal times."""

_SHORT_S = 1.0
"""Up to which runs are repeated, and the heaviest item is looked for."""

_HALVED = 40
"""Intervals that are halved on the way to the heaviest item, at most."""

_BEGIN_S = 0.05
"""From handing out shares to their common begin."""


@dataclass(frozen=True)
class Share:
    """Items of one GPU: those of ``[start, stop)`` that leave ``turn`` over when divided by ``turns``."""

    start: int
    stop: int
    turn: int = 0
    turns: int = 1


@dataclass(frozen=True)
class Ran:
    """What a GPU did of its share, when it ended, and for how long at least one kernel ran."""

    ended: float
    kernels_s: float
    total: int
    words: int


@dataclass(frozen=True)
class Timed:
    """One way to divide the items: median seconds, those of the kernels, what was counted, words intersected by GPU."""

    seconds: float
    kernels_s: float
    totals: frozenset[int]
    words: tuple[int, ...]


def deal(prepared: Any, turn: int, turns: int) -> Any:
    """Return what was prepared, with every ``turns``-th item alone to be searched, from item ``turn`` on.

    Not for maximal bicliques: a kernel beside their search takes whole intervals of items.
    """

    def keep(one: TreeClass) -> TreeClass:
        kept = one.items % turns == turn
        return TreeClass(one.need_words[kept], one.items[kept])

    dealt = map(keep, prepared.classes)
    return replace(prepared, classes=tuple(one for one in dealt if one.items.size))


class Searcher:
    """An engine and the graph that it prepared for a case; ``make_timer`` is one as ``TimedKernels``, the default."""

    def __init__(
        self, engine: Any, graph: Any, motif: Motif, make_timer: Callable[[Any], Any] | None = None
    ) -> None:
        self.engine, self._make_timer = engine, make_timer or TimedKernels
        self.prepared = engine.prepare(graph, motif, "total")
        self.costs: NDArray[np.int64] = engine.work(self.prepared)

    def run(self, share: Share, begin_at: float = 0.0) -> Ran:
        """Search a share from ``begin_at`` on, by the clock that the processes of a host have in common."""
        prepared = self.prepared if share.turns == 1 else deal(self.prepared, share.turn, share.turns)
        device = self.engine.device
        timer = self._make_timer(device)
        device.load = timer
        while monotonic() < begin_at:  # an idle device takes milliseconds to wake
            device.xp.zeros(1 << 20)
            device.synchronize()
        partial = self.engine.run(prepared, share.start, share.stop)
        ended = monotonic()
        del device.load
        return Ran(ended, timer.seconds()[0], partial.total, int(self.engine.block_words.sum()))

    def find_largest(self) -> tuple[float, bool]:
        """Return the largest share of the words that an item has, or a bound of it, and whether it is the share.

        Intervals are halved, the heaviest one first, until that is an item or has been done often.
        """
        whole = self.run(Share(0, self.costs.size)).words
        waiting = [(-whole, 0, self.costs.size)]
        for _ in range(_HALVED):
            if waiting[0][2] - waiting[0][1] == 1:
                break
            _, start, stop = heappop(waiting)
            middle = (start + stop) // 2
            for part in ((start, middle), (middle, stop)):
                heappush(waiting, (-self.run(Share(*part)).words, *part))
        words, start, stop = waiting[0]
        return -words / max(1, whole), stop - start == 1


_held: Searcher | None = None
"""In the process of a GPU."""


def _see(gpu: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu


def _hold(case: ScaleCase, data: Path) -> NDArray[np.int64]:
    global _held
    _held = None
    engine: Any = load_engine(case.motif, "gpu", None, memory_bytes=None, **case.options)
    _held = Searcher(engine, case.read(data), case.motif)
    return _held.costs


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    assert _held is not None
    return question(_held, *arguments)


@contextmanager
def start_gpus(n: int) -> Iterator[list[Executor]]:
    """Start a process for each of ``n`` GPUs; one that fails, or ends, raises its error where it was asked."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(n)))).split(",")[:n]
    if len(gpus) < n:
        raise SystemExit(
            f"{n} GPUs are asked for, and CUDA_VISIBLE_DEVICES has {len(gpus)}: {','.join(gpus)}"
        )
    with ExitStack() as stack:
        context = get_context("spawn")
        yield [stack.enter_context(ProcessPoolExecutor(1, context, _see, (gpu,))) for gpu in gpus]


def run_together(gpus: Sequence[Executor], shares: Sequence[Share]) -> tuple[list[float], list[Ran]]:
    """Search a share on each GPU at once; return the seconds that each took, and what it did."""
    begin_at = monotonic() + _BEGIN_S
    asked = [gpu.submit(_ask, Searcher.run, share, begin_at) for gpu, share in zip(gpus, shares, strict=True)]
    ran = [each.result() for each in asked]
    return [one.ended - begin_at for one in ran], ran


def cut(costs: NDArray[Any], n: int) -> list[Share]:
    """Return ``n`` intervals of about the same cost; none is empty where there are as many items."""
    before = np.concatenate(([0], np.cumsum(costs)))
    bounds = np.searchsorted(before, before[-1] * np.arange(1, n) / n)
    bounds = np.clip(bounds, np.arange(1, n), costs.size - np.arange(n - 1, 0, -1))
    ends = [0, *bounds.tolist(), costs.size]
    return [Share(start, stop) for start, stop in pairwise(ends)]


def list_dealt(costs: NDArray[np.int64], n: int) -> list[Share]:
    """Return every ``n``-th item for each GPU; what belongs to item 0 beside its search is counted with it alone."""
    return [Share(min(turn, 1), costs.size, turn, n) for turn in range(n)]


def balance(costs: NDArray[np.int64], gpus: Sequence[Executor]) -> list[Share]:
    """Return the intervals with the earliest last end; each round weighs costs by the times of the one before."""
    weights, found = costs.astype(np.float64), []
    for _ in range(_ROUNDS):
        shares = cut(weights, len(gpus))
        seconds, _ = run_together(gpus, shares)
        found.append((max(seconds), shares))
        for share, each in zip(shares, seconds, strict=True):
            own = slice(share.start, share.stop)
            weights[own] *= each / weights[own].sum()
    return min(found, key=lambda one: one[0])[1]


DIVISIONS: dict[str, Callable[[NDArray[np.int64], Sequence[Executor]], list[Share]]] = {
    "dealt": lambda costs, gpus: list_dealt(costs, len(gpus)),
    "predicted": lambda costs, gpus: cut(costs, len(gpus)),
    "timed": balance,
}


def time_shares(gpus: Sequence[Executor], shares: Sequence[Share], repeats: int) -> Timed:
    """Search again and again, but once where it takes long; the first round is not timed where it does not."""
    seconds: list[float] = []
    kernels: list[float] = []
    totals: set[int] = set()
    run_together(gpus, [Share(0, 1)] * len(gpus))
    while len(seconds) < repeats and (not seconds or seconds[0] < _SHORT_S):
        ends, ran = run_together(gpus, shares)
        seconds.append(max(ends))
        kernels.append(max(one.kernels_s for one in ran))
        totals.add(sum(one.total for one in ran))
    return Timed(median(seconds), median(kernels), frozenset(totals), tuple(one.words for one in ran))


def measure(case: ScaleCase, gpus: Sequence[Executor], options: argparse.Namespace) -> bool:
    """Print a row for each number of GPUs and division; return whether all counts are equal, and the known one."""
    costs, *_ = [each.result() for each in [gpu.submit(_hold, case, options.data) for gpu in gpus]]
    alone = time_shares(gpus[:1], [Share(0, costs.size)], options.repeats)
    totals, largest = set(alone.totals), ""
    if alone.seconds < _SHORT_S:
        share, is_item = gpus[0].submit(_ask, Searcher.find_largest).result()
        largest = f"{'' if is_item else 'below '}{share:.3f}"
    (total,) = totals
    print(
        f"| {case.name} | {costs.size} | {largest} | 1 | | {alone.seconds * 1e3:.2f} | 1 | "
        f"{alone.kernels_s * 1e3:.2f} | 1 | 1 | {total} |",
        flush=True,
    )
    for n in options.gpus:
        for name in options.divisions if n > 1 else ():
            if name == "dealt" and isinstance(case.motif, MaximalBiclique):
                continue
            timed = time_shares(gpus[:n], DIVISIONS[name](costs, gpus[:n]), options.repeats)
            totals |= timed.totals
            words = "/".join(f"{each / max(1, sum(timed.words)):.2f}" for each in timed.words)
            times = f"{timed.seconds * 1e3:.2f} | {alone.seconds / timed.seconds:.2f} | {timed.kernels_s * 1e3:.2f}"
            times += f" | {alone.kernels_s / max(timed.kernels_s, 1e-9):.2f}"
            print(f"| | | | {n} | {name} | {times} | {words} | {max(timed.totals)} |", flush=True)
    return totals == ({total} if case.total is None else {case.total})


def main() -> int:
    """Measure and print; the exit status is 1 when a count is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with bipartite/ and unipartite/"
    )
    parser.add_argument(
        "--cases", default=";".join(case.name for case in CASES), help="names, split by semicolons"
    )
    parser.add_argument("--gpus", type=_numbers, default=(1, 2), help="numbers of GPUs, split by commas")
    parser.add_argument("--divisions", nargs="+", default=list(DIVISIONS), choices=list(DIVISIONS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    cases, right = {case.name: case for case in CASES}, True
    print("\n".join(f"- {name}: {value}" for name, value in describe_machine("gpu").items()) + "\n")
    head = (
        "case",
        "items",
        "largest",
        "GPUs",
        "division",
        "ms",
        "times",
        "kernels ms",
        "times",
        "words",
        "count",
    )
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    with start_gpus(max(options.gpus)) as gpus:
        for name in options.cases.split(";"):
            right &= measure(cases[name], gpus, options)
    print("counts are equal and the known ones" if right else "WRONG COUNTS", flush=True)
    return 0 if right else 1


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
