"""Counts beside random graphs, from the shell: time beside an obvious chain in NumPy and the sampler of ``bicm``.

    python -m benchmarks.significance --data DATA
    python -m benchmarks.significance --data DATA --cases yelp2018:degrees:1000 --engine gpu --peer-samples 0

Every row is one call of ``papilio significance butterfly`` in a process of its own, on the store DATA/stores/NAME if it
exists, else on a file that was converted before; ``seconds`` are those of the call with its start, ``processor`` those
of all its threads. Peers draw a few samples in this process, whose mean stands for all of them: ``switching`` exchanges
the ends of random pairs of edges, ten times as often as there are edges (a loop over a set in Python, as such chains
are written), ``bicm`` draws from the matrix of chances of that package, where it is installed. Both count butterflies
by a sparse product.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import scipy.sparse

from benchmarks.cases import load_graph
from benchmarks.harness import describe_machine, make_parser, print_rows
from papilio.graph import BipartiteGraph

CASES = (
    "southern-women:degrees:1000",
    "moreno-crime:degrees:1000",
    "moreno-crime:expected-degrees:1000",
    "moreno-crime:edges:1000",
    "senate:degrees:100",
    "senate:expected-degrees:100",
    "bonanza:degrees:100",
)
"""Graph, null model, samples."""

SWITCHES = 10
"""For each edge, as is usual."""


@dataclass(frozen=True)
class Row:
    """One comparison."""

    case: str
    z: float | None
    seconds: float
    processor_s: float
    peer: str
    peer_s: float | None  # processor time, for as many samples


def count_pairs(n_u: int, n_v: int, u: np.ndarray, v: np.ndarray) -> int:
    """Count butterflies by a sparse product."""
    if n_v < n_u:
        n_u, n_v, u, v = n_v, n_u, v, u
    one = scipy.sparse.csr_array((np.ones(u.size, np.int64), (u, v)), (n_u, n_v))
    common = scipy.sparse.triu(one @ one.T, 1).data
    return int((common * (common - 1) // 2).sum())


def switch_edges(graph: BipartiteGraph, random: np.random.Generator) -> int:
    """Return the butterflies of a graph whose edges have been switched."""
    us, vs = graph.u.tolist(), graph.v.tolist()
    there = set(zip(us, vs, strict=True))
    for a, b in random.integers(0, len(us), (SWITCHES * len(us), 2)).tolist():
        one, other = (us[a], vs[b]), (us[b], vs[a])
        if one in there or other in there:
            continue
        there -= {(us[a], vs[a]), (us[b], vs[b])}
        there |= {one, other}
        vs[a], vs[b] = vs[b], vs[a]
    return count_pairs(graph.n_u, graph.n_v, np.array(us), np.array(vs))


def find_peer(graph: BipartiteGraph, null: str) -> tuple[str, Callable[[], int]] | None:
    """Return the name of another program of the same null model, and what draws and counts a sample."""
    random = np.random.default_rng(1)
    if null == "degrees":
        return "switching", lambda: switch_edges(graph, random)
    if null != "expected-degrees":
        return None
    try:
        import bicm
        from bicm.network_functions import sample_bicm
    except ImportError:
        return None
    matrix = np.zeros((graph.n_u, graph.n_v), int)
    matrix[graph.u, graph.v] = 1
    solved = bicm.BipartiteGraph(biadjacency=matrix)
    solved.solve_tool(verbose=False)
    chances = solved.get_bicm_matrix()
    return "bicm", lambda: count_pairs(graph.n_u, graph.n_v, *np.nonzero(sample_bicm(chances)))


def processor_seconds() -> float:
    """Return the time that the children of this process have had on processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_case(case: str, data: Path, engine: str, peer_samples: int) -> Row:
    """Compare a count, and time a peer."""
    name, null, samples = case.split(":")
    store, file = data / "stores" / name, data / "bipartite" / f"{name}.txt.gz"
    words = [
        sys.executable, "-m", "papilio", "significance", "butterfly", str(store if store.exists() else file),
        "--null", null, "--samples", samples, "--engine", engine, "--cluster", "inline", "--json", "--quiet",
    ]  # fmt: skip
    for _ in range(2):  # the first one converts and compiles
        before, began = processor_seconds(), perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        seconds, processor_s = perf_counter() - began, processor_seconds() - before
    graph = load_graph(name, data)
    peer = find_peer(graph, null) if isinstance(graph, BipartiteGraph) and peer_samples else None
    peer_s = None
    if peer is not None:
        began = process_time()
        for _ in range(peer_samples):
            peer[1]()
        peer_s = (process_time() - began) / peer_samples * int(samples)
    return Row(case, json.loads(done.stdout)["z"], seconds, processor_s, "-" if peer is None else peer[0], peer_s)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "graph, null model, samples": lambda row: row.case.replace(":", ", "),
    "z": lambda row: "undefined" if row.z is None else f"{row.z:.4g}",
    "seconds": lambda row: f"{row.seconds:.2f}",
    "processor": lambda row: f"{row.processor_s:.2f}",
    "peer": lambda row: row.peer,
    "peer, processor": lambda row: "-" if row.peer_s is None else f"{row.peer_s:,.1f}",
    "ratio": lambda row: "-" if row.peer_s is None else f"{row.peer_s / row.processor_s:,.0f}",
}


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__, engines=True)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--peer-samples", type=int, default=3)
    options = parser.parse_args()

    def rows() -> Iterator[Row]:
        for case in options.cases:
            yield run_case(case, options.data, options.engine, options.peer_samples)

    print_rows(describe_machine(options.engine), COLUMNS, rows(), options.output)


if __name__ == "__main__":
    main()
