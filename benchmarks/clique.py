"""k-cliques on CPUs: one thread beside kClist and Pivoter, serial; maximal cliques and 4-cycles for themselves.

Everything from the graph in memory to the answer is timed, the order of the vertices included.

python -m benchmarks.clique --data DATA --output benchmarks/results/clique-cpu.md
python -m benchmarks.clique --data DATA --grid
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.cases import load_graph
from benchmarks.clique_peers import count_by_kclist, count_by_pivoter
from benchmarks.harness import describe_machine, make_parser
from papilio.graph import UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.motifs import Clique, FourCycle, MaximalClique
from papilio.registry import load_engine

__all__ = ["CASES", "Row", "measure", "table_lines"]

Motif = Clique | FourCycle | MaximalClique

CASES: tuple[tuple[str, Motif], ...] = (
    *((name, Clique(k)) for name in ("email-Eu-core", "wiki-Vote", "ca-AstroPh", "soc-Epinions1") for k in (3, 4, 5)),
    ("ca-HepPh", Clique(3)),
    ("ca-HepPh", Clique(4)),
    *(("facebook_combined", Clique(k)) for k in (3, 4, 5)),
    ("wiki-Vote", Clique(7)),
    *((name, Clique()) for name in ("email-Eu-core", "wiki-Vote", "ca-HepPh", "ca-AstroPh", "soc-Epinions1")),
    *((name, MaximalClique()) for name in ("email-Eu-core", "wiki-Vote", "ca-AstroPh", "soc-Epinions1")),
    *((name, FourCycle()) for name in ("email-Eu-core", "facebook_combined", "ca-AstroPh", "soc-Epinions1")),
)  # fmt: skip
"""Graphs and questions; no case takes kClist or Pivoter more than some seconds."""


CHOICES: tuple[dict[str, Any], ...] = tuple(
    dict(zip(Clique.choices, each, strict=True))
    for each in product(*(values[1:] for values in Clique.choices.values()))
)
"""Every algorithm with every order."""

GRID: tuple[tuple[str, int], ...] = (
    *(("facebook_combined", k) for k in (3, 4, 5, 6)),
    *(("ca-HepPh", k) for k in (3, 4, 5, 6)),
    *(("soc-Epinions1", k) for k in (3, 4, 5, 7)),
)
"""Graphs and one k, each counted by every choice."""


@dataclass(frozen=True)
class Row:
    """One case; processor seconds of one thread, the least of the repeats, as other programs run beside."""

    graph: str
    motif: Motif
    count: int
    ours_s: float
    peer: str  # kClist or Pivoter; nothing for maximal cliques
    peer_s: float | None
    correct: bool  # both count the same; Pivoter's floats up to their rounding

    @property
    def share(self) -> float | None:
        """Our time divided by the peer's."""
        return None if self.peer_s is None else self.ours_s / self.peer_s


def _least(function: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """Return the answer, and the least processor time of this thread; the first call compiles and is left out."""
    answer, best = function(), float("inf")
    for _ in range(repeats):
        began = thread_time()
        answer = function()
        best = min(best, thread_time() - began)
    return answer, best


def measure(name: str, graph: UnipartiteGraph, motif: Motif, repeats: int) -> Row:
    """Measure one case."""
    engine = load_engine(motif, "cpu", 1)

    def count() -> Partial:
        prepared = engine.prepare(graph, motif, "total")
        return engine.run(prepared, 0, prepared.n_items)

    found, ours_s = _least(count, repeats)
    if not isinstance(motif, Clique):
        return Row(name, motif, found.total, ours_s, "", None, True)
    if motif.k is not None:
        k = motif.k
        number, peer_s = _least(lambda: count_by_kclist(graph, k), repeats)
        return Row(name, motif, found.total, ours_s, "kClist", peer_s, number == found.total)
    counts, peer_s = _least(lambda: count_by_pivoter(graph), repeats)
    sizes = {(size,) for size in np.flatnonzero(counts).tolist()}
    same = all(np.isclose(counts[size], float(number), rtol=1e-9) for (size,), number in found.cells.items())
    return Row(name, motif, found.total, ours_s, "Pivoter", peer_s, same and sizes == found.cells.keys())


def measure_choices(name: str, graph: UnipartiteGraph, k: int, repeats: int) -> list[str]:
    """Return a line for each choice: processor seconds of the order and of the search, and the count.

    The last column is the sum divided by the sum of the fastest choice.

    Raises
    ------
    AssertionError
        When two of them differ.
    """
    found = []
    for choice in ({}, *CHOICES):
        engine = load_engine(Clique(k), "cpu", 1, **choice)
        prepared, prepare_s = _least(partial(engine.prepare, graph, Clique(k), "total"), repeats)
        answer, run_s = _least(partial(engine.run, prepared, 0, prepared.n_items), repeats)
        found.append((choice, prepare_s, run_s, answer.total))
    assert len({total for *_, total in found}) == 1, found
    best = min(prepare_s + run_s for choice, prepare_s, run_s, _ in found if choice)
    return [
        f"| {name} | {k} | {', '.join(choice.values()) or 'auto'} | {prepare_s:.4f} | {run_s:.4f} | {total:,} "
        f"| {(prepare_s + run_s) / best:.2f} |"
        for choice, prepare_s, run_s, total in found
    ]


def table_lines(rows: list[Row], facts: dict[str, str]) -> list[str]:
    """Return the page of results."""
    lines = [
        "# Cliques on CPUs",
        "",
        "Command: `python -m benchmarks.clique --data DATA`, with one thread. The tables give processor time in "
        "seconds from the graph in memory to the answer, including the order of the vertices: the smallest of the"
        " repeats, because the machine was shared. kClist (Danisch, Balalau and Sozio, WWW 2018) and Pivoter "
        "(Jain and Seshadhri, WSDM 2020) are serial reimplementations from their papers with the same compiler "
        "(`benchmarks/clique_peers.py`), not their authors' programs.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| graph | question | cliques | CPU time, s | other, s | times its time | correct |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        beside = "" if row.peer_s is None else f"{row.peer} {row.peer_s:.4f}"
        share = "" if row.share is None else f"{row.share:.2f}"
        asked = f"k = {row.motif.k or 'all'}" if isinstance(row.motif, Clique) else row.motif.title
        number = f"{row.count:,}" if row.count < 10**18 else f"{row.count:.3e}"
        correct = ("yes" if row.correct else "NO") if row.peer else ""
        lines.append(f"| {row.graph} | {asked} | {number} | {row.ours_s:.4f} | {beside} | {share} | {correct} |")
    return lines


def main() -> int:
    """Measure, print, write."""
    parser = make_parser(__doc__)
    parser.add_argument("--graphs", default="", help="only these, with commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--grid", action="store_true", help="every choice of one k beside the others")
    given = parser.parse_args()
    names = given.graphs.split(",") if given.graphs else [name for name, _ in CASES]
    found = {name: load_graph(name, given.data) for name in dict.fromkeys(names)}
    graphs = {name: graph for name, graph in found.items() if graph is not None}
    if given.grid:
        print("| graph | k | algorithm, order | order, s | search, s | cliques | times the best |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, k in GRID:
            if name in graphs:
                print("\n".join(measure_choices(name, graphs[name], k, given.repeats)), flush=True)
        return 0
    rows = []
    for name, motif in CASES:
        if name in graphs:
            rows.append(measure(name, graphs[name], motif, given.repeats))
            print(rows[-1], flush=True)
    lines = table_lines(rows, describe_machine("cpu"))
    print("\n".join(lines))
    if given.output is not None:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
