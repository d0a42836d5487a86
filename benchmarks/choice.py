"""(p,q)-bicliques: what ``auto`` chooses by probes, beside every anchored layer and algorithm.

    python -m benchmarks.choice --engine cpu --data ../shared/data --graphs senate marvel --sizes 3 4 6 8 --most 10

Seconds are of preparing and running once everything is compiled, probes included. A way that takes longer than --most
is ended, and stands as ``-``. ``behind`` is how far ``auto`` is behind the best way, as a ratio and in milliseconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, print_rows, write_json
from papilio.families import load_engine
from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique

WAYS = {"auto": {}} | {
    f"{anchor} {algorithm}": {"anchor": anchor, "algorithm": algorithm}
    for anchor, algorithm in product("uv", ("enumerate", "pivot"))
}
GRAPHS = ("moreno-crime", "opsahl-ucforum", "senate", "bonanza", "marvel", "movielens-100k",
          "youtube-groupmemberships", "movielens-1m", "yelp2018")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One question; seconds by way, None where it took too long."""

    graph: str
    p: int
    q: int
    count: int | None
    seconds: dict[str, float | None]
    chosen: str
    agree: bool

    @property
    def best_s(self) -> float | None:
        """Seconds of the best way that was named."""
        ended = [value for way, value in self.seconds.items() if way != "auto" and value is not None]
        return min(ended, default=None)

    @property
    def behind(self) -> str:
        """Return how far ``auto`` is behind the best way."""
        auto, best = self.seconds["auto"], self.best_s
        if auto is None or best is None:
            return "-" if best is None else "MISSED"
        return f"{auto / best:.2f}, {1e3 * (auto - best):.1f} ms"


def answer(pipe: Connection, engine: str, threads: int | None, graph: BipartiteGraph) -> None:
    """Answer questions from a pipe: (p, q, options) to (seconds, count, decisions); the second of two runs is timed."""
    while True:
        p, q, options = pipe.recv()
        made: Any = load_engine(Biclique(p, q), engine, threads, **options)  # type: ignore[arg-type]
        best = float("inf")
        for _ in range(2):
            began = perf_counter()
            prepared = made.prepare(graph, Biclique(p, q), "total")
            count = made.run(prepared, 0, prepared.n_items).total
            best = min(best, perf_counter() - began)
        pipe.send((best, count, prepared.decisions))


class Asker:
    """A process that answers, begun again when an answer takes too long."""

    def __init__(self, graph: BipartiteGraph, options: argparse.Namespace) -> None:
        self.graph, self.options = graph, options
        self._process: Any = None

    def ask(self, p: int, q: int, way: str) -> tuple[float, int, Any] | None:
        """Return the answer, or None when it takes too long; compiling comes on top of the time."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            arguments = (theirs, self.options.engine, self.options.threads, self.graph)
            self._process = context.Process(target=answer, args=arguments, daemon=True)
            self._process.start()
            self._pipe.send((3, 3, {}))
            self._pipe.poll(300)
            self._pipe.recv()
        self._pipe.send((p, q, WAYS[way]))
        if self._pipe.poll(2 * self.options.most + self.options.grace):
            found: tuple[float, int, Any] = self._pipe.recv()
            return found
        self.close()
        return None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def measure(name: str, p: int, q: int, asker: Asker) -> Row:
    """Time all ways of one question; those that would take much longer than others are ended first."""
    found = {way: asker.ask(p, q, way) for way in WAYS}
    counts = {each[1] for each in found.values() if each is not None}
    auto = found["auto"]
    return Row(
        graph=name,
        p=p,
        q=q,
        count=next(iter(counts), None),
        seconds={way: None if each is None else each[0] for way, each in found.items()},
        chosen="" if auto is None else "; ".join(f"{what}: {why}" for what, why in auto[2]),
        agree=len(counts) <= 1,
    )


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each question in its order, while there is time."""
    began = perf_counter()
    for name in options.graphs:
        graph = load_graph(name, options.data)
        if graph is None:
            continue
        asker = Asker(graph, options)
        for p, q in product(options.sizes, options.sizes):
            if perf_counter() - began > options.seconds:
                print(f"{name} {p},{q}: no time left", file=sys.stderr)
                continue
            yield measure(name, p, q, asker)
        asker.close()


def _way(way: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value = row.seconds[way]
        return "-" if value is None else f"{1e3 * value:.1f}"

    return show


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "p,q": lambda row: f"{row.p},{row.q}",
    "count": lambda row: ("" if row.count is None else str(row.count)) + ("" if row.agree else " WRONG"),
    **{f"{way}, ms": _way(way) for way in WAYS},
    "behind": lambda row: row.behind,
    "chosen": lambda row: row.chosen,
}


def main() -> int:
    """Print the table; the exit status is 1 when two ways count differently."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with bipartite")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[3, 4, 5, 6, 7, 8, 9])
    parser.add_argument("--most", type=float, default=10.0, help="seconds after which a way is ended")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds for compiling, beside --most")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing more after this time")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    facts = describe_machine(options.engine)
    rows = print_rows(facts, COLUMNS, run_cases(options))
    if options.output:
        write_json(options.output, facts, rows)
    return 0 if all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
