"""What each filter of the search for maximal bicliques saves: branches for each maximal biclique, without and with it.

A plain search on Python's integers as sets of columns, slow and apart from the engines, with the rows in their order
(``papilio.kernels.biclique.index``). Branches that an excluded row ends at once count, too.

python -m benchmarks.maximal_ablation --data DATA opsahl-ucforum bonanza marvel
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from time import process_time

from benchmarks.cases import load_graph
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.index import build_maximal_index
from papilio.motifs import MaximalBiclique

__all__ = ["FILTERS", "Ablation", "ablate", "count_branches"]

FILTERS = ("least two columns", "inside a taken row", "inside an excluded row")
"""Candidates that are left out: of too few columns; inside a row whose branch is done (GMBE, theorem 4.1); inside an
excluded row, as a branch is opened."""


@dataclass(frozen=True)
class Ablation:
    """Branches and set operations of a graph with some of the filters."""

    filters: tuple[str, ...]
    maximal: int
    branches: int
    intersections: int
    seconds: float


def count_branches(
    rows: list[int], earlier: list[list[int]], later: list[list[int]], filters: tuple[str, ...]
) -> Ablation:
    """Search below every row; rows are sets of columns, the others are all rows that share a column with each."""
    few, taken_row, excluded_row = (name in filters for name in FILTERS)
    least = 2 if few else 1
    found = branches = intersections = 0
    began = process_time()

    def open_branch(shared: int, candidates: list[int], excluded: list[int]) -> None:
        nonlocal found, branches, intersections
        branches += 1
        intersections += len(excluded)
        if any(row & shared == shared for row in excluded):
            return
        intersections += len(candidates)
        found += shared.bit_count() >= 2
        below = [row & shared for row in candidates]
        below = [row for row in below if row != shared and row.bit_count() >= least]
        left_out = [row & shared for row in excluded]
        left_out = [row for row in left_out if row.bit_count() >= least]
        if excluded_row:
            below = [row for row in below if not any(row & ~other == 0 for other in left_out)]
        while below:
            row = below.pop(0)
            open_branch(row, below, left_out)
            left_out.append(row)
            if taken_row:
                below = [other for other in below if other & ~row]

    for root, columns in enumerate(rows):
        open_branch(columns, [rows[row] for row in later[root]], [rows[row] for row in earlier[root]])
    return Ablation(filters, found, branches, intersections, process_time() - began)


def ablate(graph: BipartiteGraph) -> list[Ablation]:
    """Count with no filter, with each alone, and with more of them."""
    index = build_maximal_index(graph, MaximalBiclique(), 1)
    bounds = index.indptr.tolist()
    sets = [sum(1 << column for column in index.columns[a:b].tolist()) for a, b in pairwise(bounds)]
    holders: dict[int, list[int]] = {}
    for row, (a, b) in enumerate(pairwise(bounds)):
        for column in index.columns[a:b].tolist():
            holders.setdefault(column, []).append(row)
    near: list[set[int]] = [set() for _ in sets]
    for row, (a, b) in enumerate(pairwise(bounds)):
        near[row].update(*(holders[column] for column in index.columns[a:b].tolist()))
    earlier = [sorted(other for other in around if other < row) for row, around in enumerate(near)]
    later = [sorted(other for other in around if other > row) for row, around in enumerate(near)]
    chosen = [tuple(each) for n in range(len(FILTERS) + 1) for each in combinations(FILTERS, n)]
    return [count_branches(sets, earlier, later, filters) for filters in chosen]


def main(arguments: list[str] | None = None) -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    asked = parser.parse_args(arguments)
    sys.setrecursionlimit(10_000)
    print(
        "| graph | filters | branches for each maximal biclique | intersections for each | s |\n|---|---|---|---|---|"
    )
    for name in asked.graphs:
        graph = load_graph(name, asked.data)
        if graph is None:
            return 1
        for each in ablate(graph):
            print(
                f"| {name} | {', '.join(each.filters) or 'none'} | {each.branches / each.maximal:.2f} "
                f"| {each.intersections / each.maximal:.1f} | {each.seconds:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
