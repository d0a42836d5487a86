"""Communities by percolation, beside NetworkX and a join of all pairs of maximal motifs that share a vertex.

    python -m benchmarks.communities --data DATA

Seconds are from the graph in memory to the vertices of all communities, with the search for the maximal cliques or
bicliques; compiled code is loaded before. Programs that take longer than ``--limit`` seconds are ended. The communities
of cliques of all programs must be equal.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import papilio
from benchmarks.cases import load_graph

CASES: tuple[tuple[str, papilio.Clique | papilio.Biclique, str], ...] = (
    ("ca-GrQc", papilio.Clique(4), "smaller"),
    ("ca-AstroPh", papilio.Clique(3), "smaller"),
    ("ca-AstroPh", papilio.Clique(4), "smaller"),
    ("ca-AstroPh", papilio.Clique(8), "smaller"),
    ("ca-AstroPh", papilio.Clique(), "smaller"),
    ("wiki-Vote", papilio.Clique(4), "smaller"),
    ("wiki-Vote", papilio.Clique(7), "smaller"),
    ("wiki-Vote", papilio.Clique(), "smaller"),
    ("soc-Epinions1", papilio.Clique(4), "smaller"),
    ("soc-Epinions1", papilio.Clique(10), "smaller"),
    ("soc-Epinions1", papilio.Clique(), "smaller"),
    ("marvel", papilio.Biclique(3, 3), "smaller"),
    ("marvel", papilio.Biclique(3, 3), "same"),
    ("youtube-groupmemberships", papilio.Biclique(3, 3), "smaller"),
    ("youtube-groupmemberships", papilio.Biclique(3, 3), "same"),
    ("youtube-groupmemberships", papilio.Biclique(6, 6), "smaller"),
)

Found = frozenset[tuple[int, ...]]


def by_papilio(graph: Any, motif: Any, shared: Any, threads: int) -> Any:
    """Return the communities."""
    return papilio.communities(graph, motif, shared=shared, threads=threads)


def by_networkx(graph: Any, k: int) -> tuple[float, Found]:
    """Return the seconds and the communities of k-cliques."""
    import networkx as nx

    given = nx.Graph(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    began = perf_counter()
    found = list(nx.community.k_clique_communities(given, k, backend="networkx"))
    return perf_counter() - began, frozenset(tuple(sorted(each)) for each in found)


def run_limited(function: Callable[..., Any], limit_s: float, *given: Any) -> Any | None:
    """Return the result of a function in a process of its own, or None if it takes longer."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            return pool.apply_async(function, given).get(limit_s)
        except multiprocessing.TimeoutError:
            return None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with bipartite/ and unipartite/<name>.txt.gz")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds for NetworkX")
    parser.add_argument("--graphs", nargs="*", help="names; by default all that are there")
    given = parser.parse_args()
    print("graph  motif  shared  maximal  communities  largest  search s  join s  total s  NetworkX s", flush=True)
    for name, motif, shared in CASES:
        graph = None if given.graphs and name not in given.graphs else load_graph(name, given.data)
        if graph is None:
            continue
        by_papilio(graph, motif, shared, given.threads)
        runs = [by_papilio(graph, motif, shared, given.threads) for _ in range(given.repeats)]
        best = min(runs, key=lambda each: each.seconds["total"])
        has_peer = getattr(motif, "k", None) is not None
        peer = run_limited(by_networkx, given.limit, graph, motif.k) if has_peer else None
        if peer is not None and peer[1] != frozenset(each.ids["n"] for each in best):
            sys.exit(f"{name} {motif.title}: the communities differ")
        seconds = best.seconds
        print(
            name, motif.title, shared, f"{best.maximal:,}", f"{len(best):,}", f"{best.sizes.max(initial=0):,}",
            *(f"{seconds[phase]:.2f}" for phase in ("search", "join", "total")),
            f"{peer[0]:.1f}" if peer else f"> {given.limit:g}" * has_peer, sep="  ", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
