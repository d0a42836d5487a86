"""What ``auto`` chooses, by probes or by rules, beside every way that can be asked for.

    python -m benchmarks.choice --data DATA --most 4 --output choice.json
    python -m benchmarks.choice --data DATA --graphs senate marvel --sizes 3 6 9 --kinds one-size
    python -m benchmarks.choice --engine gpu --threads 1 --data DATA

Seconds are of preparing and running once everything is compiled, probes included: of the processors, with all threads,
for the cpu engine, of the clock for the gpu engine. A way is ended when it has taken longer than ``auto``, or longer
than --most where ``auto`` did, and stands as ``-``. An answer is *behind* where ``auto`` takes more than 1.3 times the
best way and 3 ms; such questions are asked once more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

from benchmarks.cases import load_graph
from benchmarks.harness import Asker, describe_machine, make_parser, print_rows, show_ms
from papilio.graph import UnipartiteGraph
from papilio.motifs import Biclique, Clique, MaximalBiclique
from papilio.question import Question

Ways = dict[str, dict[str, str]]

ANCHORS: Ways = {f"{anchor.upper()}": {"anchor": anchor} for anchor in "uv"}
ORDERS: Ways = {order: {"order": order} for order in ("degeneracy", "degree")}
ALGORITHMS: Ways = {
    f"{layer} {algorithm}": {**anchor, "algorithm": algorithm}
    for (layer, anchor), algorithm in product(ANCHORS.items(), ("enumerate", "pivot"))
}
CLIQUE_ALGORITHMS: Ways = {
    f"{name} {algorithm}": {**order, "algorithm": algorithm}
    for (name, order), algorithm in product(ORDERS.items(), ("orient", "pivot"))
}
GRAPHS = ("southern-women", "moreno-crime", "opsahl-ucforum", "senate", "bonanza", "marvel", "youtube-groupmemberships",
          "rmat", "planted", "crown-30", "nested-40", "movielens-100k", "yelp2018", "movielens-1m", "ca-GrQc",
          "email-Eu-core", "ca-HepTh", "wiki-Vote", "ca-HepPh", "ca-AstroPh", "facebook_combined",
          "soc-Epinions1")  # fmt: skip
KINDS = ("one-size", "every-size", "vertex", "edge", "maximal")

RATIO, SLACK_S = 1.3, 0.003
"""How far ``auto`` may be behind the best way."""


@dataclass(frozen=True)
class Row:
    """One question; seconds by way, None where it took too long."""

    graph: str
    question: str
    count: int | None
    seconds: dict[str, float | None]
    chosen: str
    agree: bool

    @property
    def best(self) -> str:
        """The best way that was named and ended; empty if none did."""
        ended = {way: s for way, s in self.seconds.items() if way != "auto" and s is not None}
        return min(ended, key=lambda way: ended[way], default="")

    @property
    def is_behind(self) -> bool:
        """Whether ``auto`` is too far behind the best way."""
        auto, best = self.seconds["auto"], self.seconds.get(self.best)
        return best is not None and (auto is None or auto > RATIO * best + SLACK_S)

    @property
    def behind(self) -> str:
        """Return how far ``auto`` is behind the best way."""
        auto, best = self.seconds["auto"], self.seconds.get(self.best)
        if auto is None or best is None:
            return "-" if best is None else "MISSED"
        return f"{auto / best:.2f}, {1e3 * (auto - best):.1f} ms" + (" BEHIND" if self.is_behind else "")


def list_questions(graph: Any, kinds: list[str], sizes: list[int]) -> Iterator[tuple[Question, Ways]]:
    """Yield the questions of these kinds about a graph, with the ways to answer each."""
    if isinstance(graph, UnipartiteGraph):
        for k in sizes:
            if "one-size" in kinds and k > 2:
                yield Question(Clique(k), "total"), CLIQUE_ALGORITHMS
        if "every-size" in kinds:
            yield Question(Clique(), "total"), ORDERS
        for per in ("vertex", "edge"):
            for k in (3, 4, 6, 8):
                if per in kinds and k in sizes:
                    yield Question(Clique(k), per), ORDERS  # type: ignore[arg-type]
        return
    if "one-size" in kinds:
        for p, q in product(sizes, sizes):
            yield Question(Biclique(p, q), "total"), ALGORITHMS
    if "every-size" in kinds:
        yield Question(Biclique(), "total"), ANCHORS
    if "vertex" in kinds:
        for p, q in ((3, 3), (3, 4), (4, 3), (4, 4), (6, 6)):
            if p in sizes and q in sizes:
                yield Question(Biclique(p, q), "vertex"), ANCHORS
    if "maximal" in kinds:
        yield Question(MaximalBiclique(), "total"), ANCHORS


def measure(name: str, question: Question, ways: Ways, asker: Asker, options: argparse.Namespace) -> Row:
    """Time all ways of one question; once more where ``auto`` is behind."""
    by_processor = options.engine == "cpu"

    def ask(within_s: float, way: dict[str, str]) -> tuple[float, int, Any] | None:
        wait_s = options.slowdown * 3 * within_s + options.grace
        return asker.ask(question.motif, wait_s, question.per, within_s=within_s, by_processor=by_processor, **way)

    found: dict[str, tuple[float, int, Any] | None] = {"auto": ask(options.most, {})}
    for _ in range(2):
        auto = found["auto"]
        for way, chosen in ways.items():
            again = ask(options.most if auto is None else auto[0], chosen)
            before = found.get(way)
            found[way] = before if again is None or (before and before[0] < again[0]) else again
        counts = {each[1] for each in found.values() if each is not None}
        row = Row(
            name,
            question.motif.title + ("" if question.per == "total" else f" per {question.per}"),
            next(iter(counts), None),
            {way: None if each is None else each[0] for way, each in found.items()},
            "" if auto is None else "; ".join(f"{what}: {why}" for what, why in auto[2]),
            len(counts) <= 1,
        )
        if not row.is_behind:
            break
        again = ask(options.most, {})
        found["auto"] = auto if again is None or (auto and auto[0] < again[0]) else again
    return row


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each question in its order, while there is time."""
    began = perf_counter()
    for name in options.graphs:
        graph = load_graph(name, options.data)
        if graph is None:
            continue
        first = Clique(3) if isinstance(graph, UnipartiteGraph) else Biclique(3, 3)
        asker = Asker(graph, options.engine, options.threads, first=first)
        for question, ways in list_questions(graph, options.kinds, options.sizes):
            if perf_counter() - began > options.seconds:
                print(f"{name} {question}: no time left", file=sys.stderr)
                continue
            yield measure(name, question, ways, asker, options)
        asker.close()


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "question": lambda row: row.question,
    "count": lambda row: ("" if row.count is None else str(row.count)) + ("" if row.agree else " WRONG"),
    "auto, ms": lambda row: show_ms(row.seconds["auto"]),
    "ways, ms": lambda row: ", ".join(f"{way} {show_ms(s)}" for way, s in row.seconds.items() if way != "auto"),
    "behind": lambda row: row.behind,
    "chosen": lambda row: row.chosen,
}


def summarize(rows: list[Row]) -> str:
    """Return a table of graphs: questions, how many ended, and how many ``auto`` was too far behind in."""
    lines = ["| graph | questions | ended | behind | slowest, ms |", "| --- | --- | --- | --- | --- |"]
    for name in dict.fromkeys(row.graph for row in rows):
        own = [row for row in rows if row.graph == name]
        ended = [row.seconds["auto"] for row in own if row.seconds["auto"] is not None]
        behind = ", ".join(row.question for row in own if row.is_behind)
        slowest = show_ms(max(ended, default=None), 0)
        lines.append(f"| {name} | {len(own)} | {len(ended)} | {behind} | {slowest} |")
    return "\n".join(lines)


def main() -> int:
    """Print the tables; the exit status is 1 when two ways count differently."""
    parser = make_parser(__doc__, engines=True, seconds=1e9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(range(2, 10)))
    parser.add_argument("--most", type=float, default=4.0, help="seconds after which a way is ended")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds for compiling, beside --most")
    parser.add_argument("--slowdown", type=float, default=4.0, help="by other work on the machine")
    options = parser.parse_args()
    rows = print_rows(describe_machine(options.engine), COLUMNS, run_cases(options), options.output)
    print("\n" + summarize(rows))
    return 0 if all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
