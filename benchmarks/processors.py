"""One GPU beside two CPU threads, on every kind of question: is the GPU ever slower where it matters?

    python -m benchmarks.processors --data DATA --most 4 --output processors.json

Seconds are of preparing and running once everything is compiled, in a process for each graph and processor; what takes
longer than --most is ended, and stands as ``-``. On the CPU graphs are counted beside each other, two threads each, on
the GPU one after the other. A row is marked where the GPU is slower and the CPU takes 0.2 s or more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks.cases import load_graph
from benchmarks.harness import Asker, describe_machine, make_parser, print_rows, show_ms
from papilio.kernels.engine import EngineName
from papilio.motifs import Biclique, Butterfly, Clique, MaximalBiclique, MaximalClique
from papilio.question import Question

THREADS = 2

QUESTIONS: dict[str, list[Question]] = {
    "bipartite": [
        *(Question(Butterfly(), per) for per in ("total", "vertex", "edge")),
        *(Question(Biclique(p, q), "total") for p in (2, 3, 4, 6, 9) for q in (2, 3, 4, 6, 9)),
        *(Question(Biclique(p, q), "vertex") for p, q in ((3, 3), (4, 4))),
        Question(Biclique(), "total"),
        Question(MaximalBiclique(), "total"),
    ],
    "unipartite": [
        *(Question(Clique(k), "total") for k in range(3, 13)),
        *(Question(Clique(k), per) for k in (4, 6, 8) for per in ("vertex", "edge")),
        Question(Clique(), "total"),
        Question(MaximalClique(), "total"),
    ],
}


@dataclass(frozen=True)
class Row:
    """One question about one graph; seconds by processor, None where it took too long."""

    graph: str
    question: str
    seconds: dict[str, float | None]
    agree: bool

    @property
    def is_slower(self) -> bool:
        """Whether the GPU takes longer than the CPU, which takes 0.2 s or more."""
        cpu, gpu = self.seconds["cpu"], self.seconds["gpu"]
        return cpu is not None and cpu >= 0.2 and (gpu is None or gpu > cpu)


def ask_all(
    engine: EngineName, graph: Any, questions: list[Question], most: float
) -> list[tuple[float, int, Any] | None]:
    """Return the answers of a processor in order, None for what takes too long; compiling comes on top."""
    asker = Asker(graph, engine, THREADS)
    found = [asker.ask(question.motif, 2 * most + 8, question.per) for question in questions]
    asker.close()
    return [None if each is None or each[0] > most else each for each in found]


def run_all(options: argparse.Namespace) -> list[Row]:
    """Return a row for each question and graph."""
    graphs = {}
    for kind, questions in QUESTIONS.items():
        names = sorted(each.name.removesuffix(".txt.gz") for each in (options.data / kind).glob("*.txt.gz"))
        for name in (*names, *(options.generated if kind == "bipartite" else [])):
            if not options.graphs or name in options.graphs:
                graphs[name] = load_graph(name, options.data), questions
    began = perf_counter()
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // THREADS)) as pool:
        asked = {
            name: pool.submit(ask_all, "cpu", graph, questions, options.most)
            for name, (graph, questions) in graphs.items()
        }
        on_cpu = {name: future.result() for name, future in asked.items()}
    print(f"CPU: {perf_counter() - began:.0f} s", file=sys.stderr)
    rows = []
    for name, (graph, questions) in graphs.items():
        if perf_counter() - began > options.seconds:
            print(f"{name}: no time left", file=sys.stderr)
            continue
        for question, cpu, gpu in zip(
            questions, on_cpu[name], ask_all("gpu", graph, questions, options.most), strict=True
        ):
            agree = cpu is None or gpu is None or cpu[1] == gpu[1]
            seconds = {"cpu": cpu and cpu[0], "gpu": gpu and gpu[0]}
            rows.append(Row(name, question.title, seconds, agree))
    return rows


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "question": lambda row: row.question + ("" if row.agree else " WRONG"),
    "two threads, ms": lambda row: show_ms(row.seconds["cpu"]),
    "GPU, ms": lambda row: show_ms(row.seconds["gpu"]),
    "": lambda row: "GPU slower" if row.is_slower else "",
}


def main() -> int:
    """Print the table; the exit status is 1 when the processors count differently."""
    parser = make_parser(__doc__, seconds=1e9)
    parser.add_argument("--graphs", nargs="+", default=[], help="only these")
    parser.add_argument("--generated", nargs="+", default=["rmat", "planted", "nested-140", "crown-90", "dense-200"])
    parser.add_argument("--most", type=float, default=4.0, help="seconds after which a question is given up")
    options = parser.parse_args()
    rows = print_rows(describe_machine("gpu"), COLUMNS, run_all(options), options.output)
    return 0 if all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
