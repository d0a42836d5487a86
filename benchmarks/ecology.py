"""Checkerboards, togetherness and nestedness of a graph on the CPU, beside dense matrices in NumPy, and random graphs.

NumPy multiplies the dense matrix of a layer by its transpose in float32, whose integers are exact below 2^24, and adds
up all pairs, a block of rows at a time. Papilio's times are of whole calls in this process, the best of several.

    python -m benchmarks.ecology movielens-100k.txt.gz --layer u
    python -m benchmarks.ecology yelp2018.txt.gz --layer u --without numpy
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

import papilio

HERE: Mapping[str, Any] = {"cluster": "inline", "engine": "cpu"}
_BLOCK = 1024
"""Rows that NumPy multiplies at a time."""


def _by_numpy(graph: papilio.BipartiteGraph, layer: str) -> tuple[int, int, float]:
    """Return checkerboards, togetherness and nestedness of a layer."""
    held = np.zeros((graph.n_u, graph.n_v), np.float32)
    held[graph.u, graph.v] = 1
    held = held if layer == "u" else np.ascontiguousarray(held.T)
    degrees, n = held.sum(axis=1).astype(np.int64), held.shape[1]
    apart = together = 0
    nested = 0.0
    for begin in range(0, len(held), _BLOCK):
        common = (held[begin : begin + _BLOCK] @ held.T).astype(np.int64)
        d, e = degrees[begin : begin + _BLOCK, None], degrees[None, :]
        own = np.arange(len(common)), np.arange(begin, begin + len(common))
        units, shared = (d - common) * (e - common), common * (n - d - e + common)
        units[own] = shared[own] = 0
        apart, together = apart + int(units.sum()), together + int(shared.sum())
        nested += float((common * (e > d) / np.maximum(d, 1)).sum())
    return apart // 2, together // 2, 100 * nested / (len(held) * (len(held) - 1) / 2)


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times = []
    for _ in range(repeats):
        began = perf_counter()
        found = call()
        times.append(perf_counter() - began)
    return min(times), found


def main() -> None:
    """Print a table of times, and compare the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--layer", choices=("u", "v"), default="u")
    parser.add_argument("--without", choices=("numpy",))
    parser.add_argument("--samples", type=int, default=0, help="random graphs, with the null model degrees")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    graph: Any = papilio.read(given.graph)
    graph = graph.arrays()
    togetherness = papilio.Togetherness(given.layer)
    calls: dict[str, Callable[[], Any]] = {
        "butterfly": lambda: papilio.count(graph, papilio.Butterfly(), **HERE),
        "checkerboard": lambda: papilio.count(graph, papilio.Checkerboard(), **HERE),
        "checkerboard per vertex": lambda: papilio.count(graph, papilio.Checkerboard(), per="vertex", **HERE),
        "togetherness": lambda: papilio.count(graph, togetherness, **HERE),
        "nestedness": lambda: papilio.nestedness(graph),
    }
    print(f"{given.graph}: {graph.n_u} x {graph.n_v}, {graph.n_edges} edges\n\n| what | s |\n|---|---|")
    found = {}
    for name, call in calls.items():
        seconds, found[name] = _best(call, given.repeat)
        print(f"| {name} | {seconds:.4f} |")
    if given.samples:
        for motif in (papilio.Checkerboard(), togetherness):
            seconds, result = _best(
                lambda motif=motif: papilio.significance(graph, motif, samples=given.samples, **HERE), 1
            )
            print(f"| {motif.title}, {given.samples:,} random graphs (z {result.z:.3g}) | {seconds:.3f} |")
        seconds, result = _best(lambda: papilio.nestedness(graph, samples=given.samples), 1)
        print(f"| nestedness, {given.samples:,} random graphs (z {result.comparisons['nodf'].z:.3g}) | {seconds:.3f} |")
    if given.without != "numpy":
        seconds, (apart, together, nested) = _best(lambda: _by_numpy(graph, given.layer), 1)
        print(f"| all three, one layer, dense in NumPy | {seconds:.3f} |")
        assert (found["checkerboard"].count, found["togetherness"].count) == (apart, together)
        assert abs(found["nestedness"].values[given.layer] / nested - 1) < 1e-9
    print(f"\ncheckerboards {found['checkerboard'].count}, NODF {found['nestedness'].nodf}")


if __name__ == "__main__":
    main()
