"""Core numbers, (alpha, beta)-cores and the table of all cores: seconds beside NetworkX and igraph.

    python -m benchmarks.cores --data DATA --engine gpu --stores STORES/rmat-27 --output cores-gpu.json

Seconds of a run are from the graph in host memory to the numbers there, without compiling: ``index`` (with the copy to
the device) and ``peel``; the median of the repeats. ``forest`` are the components of all levels, ``table`` the sizes of
all cores, each run once. Unipartite graphs have core numbers, bipartite ones those of alpha = 1 and 3. ``read`` is the
time to read a store once, and ``of reading`` the time of index and peel by it. NetworkX and igraph get the edges in
their own graphs; their time is that of ``core_number`` and ``coreness``, whose numbers must be the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.cases import load_graph
from benchmarks.decomposition import DEVICES
from benchmarks.harness import describe_machine
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.kernels.peel.core_table import list_cores_on_cpu, list_cores_on_gpu
from papilio.kernels.peel.decompose import Decomposed, decompose_on_cpu, decompose_on_gpu
from papilio.kernels.peel.phases import Layer, ignore_report
from papilio.storage.store import open_store

GRAPHS = (
    "facebook_combined", "ca-HepPh", "ca-AstroPh", "soc-Epinions1", "ru1", "marvel", "youtube-groupmemberships",
    "movielens-1m", "yelp2018", "rb1",
)  # fmt: skip

Graph = BipartiteGraph | UnipartiteGraph

PEER_EDGES = 2_000_000
"""Maximum edges of a graph for NetworkX and igraph."""


def device() -> Any:
    """Return the first GPU, which keeps its kernels."""
    from papilio.kernels.device.cuda import CudaDevice

    if not DEVICES:
        DEVICES.append(CudaDevice())
    return DEVICES[0]


def run(engine: str, graph: Graph, layer: Layer | None, least: int, *, forest: bool = False) -> Decomposed:
    """Find the core numbers of a graph on an engine."""
    if engine == "cpu":
        return decompose_on_cpu(graph, "core", layer, None, None, forest, ignore_report, least=least)
    return decompose_on_gpu(device(), graph, "core", layer, forest, ignore_report, least=least)


def tabulate(engine: str, graph: Graph) -> Any:
    """Find the sizes of all cores."""
    if engine == "cpu":
        return list_cores_on_cpu(graph, None, None, ignore_report)
    return list_cores_on_gpu(device(), graph, ignore_report)


def ask_peers(graph: UnipartiteGraph, numbers: Any) -> dict[str, float]:
    """Return the milliseconds of NetworkX and igraph, where they are installed; exit if their numbers differ."""
    edges, found = np.column_stack((graph.u, graph.v)), {}

    def ask(name: str, function: Callable[[], Any]) -> None:
        began = perf_counter()
        given = function()
        found[f"{name} ms"] = round(1e3 * (perf_counter() - began), 2)
        theirs = [given[x] for x in range(graph.n)]
        if theirs != numbers.tolist():
            sys.exit(f"{name} has other core numbers")

    try:
        import networkx

        network = networkx.empty_graph(graph.n)
        network.add_edges_from(edges.tolist())
        ask("NetworkX", lambda: networkx.core_number(network))
    except ImportError:
        print("NetworkX is not installed", file=sys.stderr)
    try:
        import igraph

        other = igraph.Graph(n=graph.n, edges=edges)
        ask("igraph", other.coreness)
    except ImportError:
        print("igraph is not installed", file=sys.stderr)
    return found


def measure(engine: str, name: str, graph: Graph, layer: Layer | None, least: int, repeats: int) -> dict[str, Any]:
    """Return a row of the table, and the numbers as ``numbers``."""
    run(engine, graph, layer, least)
    runs = [run(engine, graph, layer, least).peeled for _ in range(repeats)]
    peeled = sorted(runs, key=lambda each: sum(each.seconds.values()))[repeats // 2]
    index_s, peel_s = peeled.seconds["index"], peeled.seconds["fine"]
    return {
        "graph": name,
        "edges": graph.n_edges,
        "what": "k" if layer is None else f"{'alpha' if layer == 'u' else 'beta'} = {least}",
        "engine": engine,
        "max": int(peeled.numbers.max(initial=0)),
        "rounds": peeled.fine_rounds,
        "index ms": round(1e3 * index_s, 2),
        "peel ms": round(1e3 * peel_s, 2),
        "total ms": round(1e3 * (index_s + peel_s), 2),
        "numbers": peeled.numbers,
    }


def measure_graph(engine: str, name: str, graph: Graph, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of a graph."""
    asked: list[tuple[Layer | None, int]] = [(None, 1)]
    if isinstance(graph, BipartiteGraph):
        asked = [("u", 1), ("u", 3)]
    rows = [measure(engine, name, graph, layer, least, given.repeats) for layer, least in asked]
    forest = run(engine, graph, *asked[0], forest=True).peeled.seconds["hierarchy"]
    rows[0]["forest ms"] = round(1e3 * forest, 2)
    if graph.n_edges <= given.table_edges:
        began = perf_counter()
        rows[0]["cores"] = len(tabulate(engine, graph))
        rows[0]["table s"] = round(perf_counter() - began, 3)
    if isinstance(graph, UnipartiteGraph) and graph.n_edges <= PEER_EDGES and not given.no_peers:
        rows[0] |= ask_peers(graph, rows[0]["numbers"])
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows of a graph."""
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items() if name != "numbers"), flush=True)


def main() -> None:
    """Print the rows, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with bipartite/ and unipartite/")
    parser.add_argument("--engine", choices=["cpu", "gpu", "both"], default="both")
    parser.add_argument("--graphs", nargs="*", default=GRAPHS, help="names; by default all that are there")
    parser.add_argument("--stores", nargs="*", default=[], help="stores, which are read once")
    parser.add_argument("--table-edges", type=int, default=2_000_000, help="maximum edges for the table of all cores")
    parser.add_argument("--no-peers", action="store_true", help="leave NetworkX and igraph out")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    graphs: list[tuple[str, Graph | None, float | None]] = []
    graphs += [(name, load_graph(name, given.data), None) for name in given.graphs]
    for path in given.stores:
        began = perf_counter()
        graphs.append((Path(path).name, open_store(path).read(), perf_counter() - began))
    for name, graph, read_s in graphs:
        if graph is None:
            continue
        engines = ("cpu", "gpu") if given.engine == "both" else (given.engine,)
        by_engine = [measure_graph(engine, name, graph, given) for engine in engines]
        for rows in by_engine:
            if read_s is not None:
                for row in rows:
                    row |= {"read s": round(read_s, 2), "of reading": round(row["total ms"] / 1e3 / read_s, 2)}
            if not all(np.array_equal(a["numbers"], b["numbers"]) for a, b in zip(rows, by_engine[0], strict=True)):
                sys.exit(f"{name}: the numbers differ")
            show(rows)
            found += [{key: value for key, value in row.items() if key != "numbers"} for row in rows]
    if given.output:
        machine: EngineName = "cpu" if given.engine == "cpu" else "gpu"
        given.output.write_text(json.dumps({"machine": describe_machine(machine), "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
