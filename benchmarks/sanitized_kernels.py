"""CUDA kernels of all families under compute-sanitizer: no access out of bounds, no hazard in shared memory.

Each question is answered on small graphs by the kernels and by the CPU engine, which must agree; those on pairs of
vertices also by each kernel that only large graphs are counted by otherwise. The tools make kernels
tens to hundreds of times slower; the emulator of the tests looks for the same mistakes, and for more, without a GPU.

    python -m benchmarks.sanitized_kernels --tools memcheck,racecheck --families butterfly,clique --at-once 4
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from papilio.graph import BipartiteGraph, RowColumn, UnipartiteGraph
from papilio.kernels.engine import Engine, EngineName, Partial
from papilio.kernels.peel.decompose import Decomposed, decompose_graph
from papilio.kernels.peel.phases import PeelingKind
from papilio.kernels.tuning import TableClass, WedgeTuning
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import (
    GRANULARITIES,
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Census,
    Clique,
    Granularity,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
)
from papilio.registry import load_engine, motif_row

QUESTIONS: dict[str, list[tuple[Motif, Granularity]]] = {
    "butterfly": [(Butterfly(), per) for per in GRANULARITIES],
    "signed": [(BalancedButterfly(), "total"), (BalancedButterfly(None), "total"), (Census("u"), "total")],
    "biclique": [
        *((Biclique(p, q), "total") for p, q in ((2, 3), (3, 3), (4, 4), (5, 5), (None, None))),
        (Biclique(3, 3), "vertex"),
        (BalancedBiclique(3, 3), "total"),
    ],
    "maximal": [(MaximalBiclique(), "total")],
    "clique": [(Clique(4), per) for per in GRANULARITIES] + [(Clique(), "total"), (MaximalClique(), "total")],
    "peel": [],
    "listing": [(MaximalClique(), "total"), (Clique(4), "total"), (MaximalBiclique(), "total")],
    "projection": [(Projection("u"), "total"), (Projection("v", 3, "hyperbolic"), "total")],
}
"""Questions by the name of a family; ``peel`` stands for tips and wings, ``listing`` for all other listings on GPUs."""

_TABLES = WedgeTuning(
    hub_min_wedges=1 << 40,
    hub_vertex_wedges=1 << 40,
    match_max_wedges=-1,
    tables=(TableClass("dense", 128, 64, 1 << 40),),
)
_HUBS = replace(_TABLES, hub_words=1, hub_min_wedges=0, hub_vertex_wedges=0, hub_least_wedges=0)

TUNINGS = {
    "tiles": _TABLES,
    "hash tables": replace(_TABLES, tables=(TableClass("hash", 128, 8 * 512, 320), *_TABLES.tables)),
    "split starts": replace(_TABLES, split_least=1, split_share=1 << 40, split_threads=128, split_table_bytes=64),
    "hub columns by warp": _HUBS,
    "hub columns by block": replace(_HUBS, block_degree=0, crowd_threads=128),
    "hub columns by large block": replace(_HUBS, block_degree=0, large_degree=0, large_threads=128),
}
"""Tunings that make the named kernels count a graph, for families that count pairs of vertices."""

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def draw_bipartite(n_u: int, n_v: int, n_edges: int) -> BipartiteGraph:
    """Return a graph with hubs in both layers and random signs."""
    random = np.random.default_rng(1)
    ends = [(random.random(n_edges) ** 2 * size).astype(np.int64) for size in (n_u, n_v)]
    graph = BipartiteGraph.from_edges(*ends, n_u, n_v)
    return BipartiteGraph(n_u, n_v, graph.u, graph.v, random.choice(np.array([-1, 1], np.int8), graph.n_edges))


def draw_unipartite(n: int, n_edges: int) -> UnipartiteGraph:
    """Return a graph with hubs."""
    random = np.random.default_rng(2)
    a, b = ((random.random(n_edges) ** 2 * n).astype(np.int64) for _ in range(2))
    return UnipartiteGraph.from_edges(a[a != b], b[a != b], n)


def draw(motif: Motif) -> Any:
    """Return a graph of the kind that a motif needs."""
    is_bipartite = motif_row(motif).graph_kind == "bipartite"
    return draw_bipartite(150, 120, 1_200) if is_bipartite else draw_unipartite(120, 900)


def load(motif: Motif, engine: EngineName, tuning: WedgeTuning | None = None, listing: Listing | None = None) -> Engine:
    """Return an engine that counts, or lists."""
    used = load_engine(motif, engine, listing=listing)
    if tuning is None:
        return used
    assert isinstance(used, ButterflyGpu)
    given: dict[str, Any] = {} if listing is None else {"listing": listing}
    return type(used)(used.device, tuning=tuning, **given)


def count(motif: Motif, per: Granularity, engine: EngineName, tuning: WedgeTuning | None = None) -> Partial:
    """Count on one engine."""
    used = load(motif, engine, tuning)
    prepared = used.prepare(draw(motif), motif, per)
    return used.run(prepared, 0, prepared.n_items)


def list_rows(motif: Motif, engine: EngineName, tuning: WedgeTuning | None = None) -> list[list[tuple[float, ...]]]:
    """List on one engine; return the rows in an order of their own, as the ids of each column, then numbers."""
    used: Any = load(motif, engine, tuning, Listing())
    prepared = used.prepare(draw(motif), motif, "total")
    ids = [getattr(prepared, f"ids_{layer}") for layer in motif_row(motif).columns(motif)]
    rows: list[list[tuple[float, ...]]] = []

    def take(*columns: RowColumn, part: int | None = None) -> None:
        sides = [np.split(each[1], each[0][1:-1]) if isinstance(each, tuple) else each for each in columns]
        rows.extend(
            [
                [
                    *(tuple(of[places].tolist()) for of, places in zip(ids, row, strict=False)),
                    tuple(row[len(ids) :]),
                ]
                for row in zip(*sides, strict=True)
            ]
        )

    used.run(prepared, 0, prepared.n_items, sink=take)
    return sorted(rows)


def decompose(kind: PeelingKind, engine: EngineName) -> Decomposed:
    """Decompose on one engine."""
    graph = draw_bipartite(80, 60, 500)
    return decompose_graph(
        graph, kind, "u" if kind == "tip" else None, engine,
        threads=1, memory_bytes=None, with_forest=True, report=lambda *_: None,
    )  # fmt: skip


def allocate_apart() -> None:
    """Allocate every array separately: the tools do not see the bounds of arrays within one allocation.

    Sizes are whole multiples of 16 bytes, as kernels read up to the end of the 16 bytes that an array ends in.
    """
    import cupy

    def allocate(size: int) -> Any:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(-(-size // 16) * 16), 0)

    cupy.cuda.set_allocator(allocate)


def check_counts(motif: Motif, per: Granularity, tunings: Mapping[str, WedgeTuning | None]) -> int:
    """Count in several ways on a GPU, and once on CPUs; return how many answers differ."""
    theirs, wrong = count(motif, per, "cpu"), 0
    for kernels, tuning in tunings.items():
        ours = count(motif, per, "gpu", tuning)
        same = (ours.total, ours.cells, ours.checksum) == (
            theirs.total,
            theirs.cells,
            theirs.checksum,
        ) and all(np.array_equal(ours.vectors[name], vector) for name, vector in theirs.vectors.items())
        print(f"{motif} {per} {kernels}: {ours.total} {'as' if same else 'NOT as'} on the CPU", flush=True)
        wrong += not same
    return wrong


def check(family: str) -> int:
    """Answer the questions of a family on both engines; return how many answers differ."""
    wrong = 0
    forced = TUNINGS if family in ("butterfly", "signed", "projection") else {}
    for motif, per in QUESTIONS[family]:
        if family in ("listing", "projection"):
            theirs = list_rows(motif, "cpu")
            for kernels, tuning in {"": None, **forced}.items():
                same = list_rows(motif, "gpu", tuning) == theirs
                print(f"{motif} {kernels}: rows {'as' if same else 'NOT as'} on the CPU", flush=True)
                wrong += not same
        if family != "listing":
            wrong += check_counts(motif, per, {"": None, **forced})
    for kind in ("tip", "wing") if family == "peel" else ():
        found, wanted = (decompose(kind, engine).peeled.numbers for engine in ("gpu", "cpu"))
        same = np.array_equal(found, wanted)
        print(f"{kind}: {'as' if same else 'NOT as'} on the CPU", flush=True)
        wrong += not same
    return wrong


def sanitize(tool: str, family: str, seconds: float) -> int:
    """Run the questions of a family under a tool; return its exit status, 124 when it took too long."""
    own = [sys.executable, "-m", "benchmarks.sanitized_kernels", "--within", family]
    command = [
        "compute-sanitizer",
        "--tool",
        tool,
        "--error-exitcode",
        "9",
        "--kernel-name-exclude",
        "kns=cupy",
        *own,
    ]
    started = perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        status, lines = done.returncode, (done.stdout + done.stderr).splitlines()
    except subprocess.TimeoutExpired:
        status, lines = 124, ["========= not finished"]
    told = [line for line in lines if line.startswith("=========") or "NOT" in line]
    told = told[1:4] + told[-1:] if status else told[-1:]  # the first error, and how many there are
    print(f"{tool} {family}: exit {status} after {perf_counter() - started:.0f} s {' '.join(told)}", flush=True)
    return status


def main() -> int:
    """Run the requested tools; the exit status is 1 when one of them reports anything, or an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS[:2]), help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--families", default=",".join(QUESTIONS), help=f"of {', '.join(QUESTIONS)}")
    parser.add_argument("--seconds", type=float, default=600.0, help="most for a tool and a family")
    parser.add_argument("--at-once", type=int, default=1, help="how many of them")
    parser.add_argument("--within", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        allocate_apart()
        return check(options.within) and 1
    if shutil.which("compute-sanitizer") is None:
        sys.exit("compute-sanitizer is not in the path; it comes with the CUDA toolkit")
    runs = product(options.tools.split(","), options.families.split(","))
    with ThreadPoolExecutor(options.at_once) as pool:
        statuses = list(pool.map(lambda run: sanitize(run[0], run[1], options.seconds), runs))
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
