"""One GPU beside two CPU threads, on every kind of question: is the GPU ever slower where it matters?

    python -m benchmarks.processors --data ../shared/data --most 4 --output processors.json

Seconds are of preparing and running once everything is compiled, in a process for each graph and processor; what takes
longer than --most is ended, and stands as ``-``. On the CPU graphs are counted beside each other, two threads each, on
the GPU one after the other. A row is marked where the GPU is slower and the CPU takes 0.2 s or more.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, print_rows, write_json
from papilio.families import Question, load_engine
from papilio.motifs import Biclique, Butterfly, Clique, MaximalBiclique, MaximalClique

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


def answer(pipe: Any, engine: Any, graph: Any) -> None:
    """Answer questions from a pipe by seconds, of the second of two runs, and count."""
    while True:
        question = pipe.recv()
        made = load_engine(question.motif, engine, THREADS)
        for _ in range(2):
            began = perf_counter()
            prepared = made.prepare(graph, question.motif, question.per)
            count = made.run(prepared, 0, prepared.n_items).total
            seconds = perf_counter() - began
        pipe.send((seconds, count))


def ask_all(
    engine: str, graph: Any, questions: list[Question], most: float
) -> list[tuple[float, int] | None]:
    """Return the answers of a processor in order, None for what takes too long; compiling comes on top."""
    context = multiprocessing.get_context("spawn")
    found: list[tuple[float, int] | None] = []
    process = None
    for question in questions:
        if process is None:
            pipe, theirs = context.Pipe()
            process = context.Process(target=answer, args=(theirs, engine, graph), daemon=True)
            process.start()
        pipe.send(question)
        if pipe.poll(2 * most + 8):
            seconds, count = pipe.recv()
            found.append((seconds, count) if seconds <= most else None)
        else:
            found.append(None)
            process.kill()
            process.join()
            process = None
    if process is not None:
        process.kill()
        process.join()
    return found


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


def _show(engine: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value = row.seconds[engine]
        return "-" if value is None else f"{1e3 * value:.1f}"

    return show


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph": lambda row: row.graph,
    "question": lambda row: row.question + ("" if row.agree else " WRONG"),
    "two threads, ms": _show("cpu"),
    "GPU, ms": _show("gpu"),
    "": lambda row: "GPU slower" if row.is_slower else "",
}


def main() -> int:
    """Print the table; the exit status is 1 when the processors count differently."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with bipartite and unipartite"
    )
    parser.add_argument("--graphs", nargs="+", default=[], help="only these")
    parser.add_argument(
        "--generated", nargs="+", default=["rmat", "planted", "nested-140", "crown-90", "dense-200"]
    )
    parser.add_argument("--most", type=float, default=4.0, help="seconds after which a question is given up")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further graph after this time")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    facts = describe_machine("gpu")
    rows = print_rows(facts, COLUMNS, run_all(options))
    if options.output:
        write_json(options.output, facts, rows)
    return 0 if all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
