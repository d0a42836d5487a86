"""(p,q)-bicliques: what ``auto`` chooses by probes, beside every anchored layer and algorithm.

    python -m benchmarks.choice --engine cpu --data ../shared/data --graphs senate marvel --sizes 3 4 6 8 --most 10

Seconds are of preparing and running once everything is compiled, probes included. A way that takes longer than --most
is ended, and stands as ``-``. ``behind`` is how far ``auto`` is behind the best way, as a ratio and in milliseconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter

from benchmarks.cases import load_graph
from benchmarks.harness import Asker, describe_machine, make_parser, print_rows, show_ms
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


def measure(name: str, p: int, q: int, asker: Asker, most_s: float) -> Row:
    """Time all ways of one question."""
    found = {way: asker.ask(Biclique(p, q), most_s, **options) for way, options in WAYS.items()}
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
        asker = Asker(graph, options.engine, options.threads, first=Biclique(3, 3))
        for p, q in product(options.sizes, options.sizes):
            if perf_counter() - began > options.seconds:
                print(f"{name} {p},{q}: no time left", file=sys.stderr)
                continue
            yield measure(name, p, q, asker, 2 * options.most + options.grace)
        asker.close()


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "p,q": lambda row: f"{row.p},{row.q}",
    "count": lambda row: ("" if row.count is None else str(row.count)) + ("" if row.agree else " WRONG"),
    **{f"{way}, ms": lambda row, way=way: show_ms(row.seconds[way]) for way in WAYS},
    "behind": lambda row: row.behind,
    "chosen": lambda row: row.chosen,
}


def main() -> int:
    """Print the table; the exit status is 1 when two ways count differently."""
    parser = make_parser(__doc__, engines=True, seconds=1e9)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[3, 4, 5, 6, 7, 8, 9])
    parser.add_argument("--most", type=float, default=10.0, help="seconds after which a way is ended")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds for compiling, beside --most")
    options = parser.parse_args()
    rows = print_rows(describe_machine(options.engine), COLUMNS, run_cases(options), options.output)
    return 0 if all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
