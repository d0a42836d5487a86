"""Signed motifs: rates beside the rate of butterflies without signs on the same graph.

Graphs: signed ones of the data directory, those of ``benchmarks.butterfly`` with random signs (70 % positive), and, by
name, generated ones with the layers and edges of fifteen networks on which balanced butterflies were counted before
(G-BBC++, arXiv 2601.17707); ``benchmarks.signed_datasets`` has all of these with the degrees that fit each.

    python -m benchmarks.balanced_butterfly --engine gpu --data DATA --output balanced-gpu.json
    python -m benchmarks.balanced_butterfly --engine cpu --data DATA --cases movielens-1m,NIPS

The counts are checked against each other: the census has as many butterflies as there are, its coherent and incoherent
ones are the balanced ones, and so is the first cell of the table of every k.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.cases import load_graph, read_columns
from benchmarks.harness import Measurement, describe_machine, make_parser, measure, print_table
from benchmarks.limits import wedge_limit_cpu, wedge_limit_gpu
from benchmarks.skewed_graphs import draw_skewed
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Butterfly, Census, Motif
from papilio.registry import load_engine

POSITIVE = 0.7
"""Share of positive edges where signs are random."""

SIGNED = {"senate": 1, "bonanza": 1, "movielens-100k": 4, "movielens-1m": 4}
"""Least positive value of the third column."""

RANDOM = ("yelp2018", "rb1")
"""Cases of butterflies that are given random signs."""

SIZES = {
    "SE": (145, 1_201, 27_083),
    "DBLP": (6_001, 1_308, 29_256),
    "HO": (515, 1_281, 114_378),
    "NAP": (1_753, 25_881, 265_546),
    "BC": (77_802, 185_955, 433_652),
    "NIPS": (1_500, 12_375, 746_315),
    "LF": (992, 174_077, 898_062),
    "MV": (6_040, 3_706, 1_000_208),
    "JE": (50_692, 140, 1_728_847),
    "KDD": (255_170, 1_848_114, 2_766_393),
    "DG": (139_409, 3_553, 3_010_197),
    "AOL": (4_811_647, 1_632_788, 10_741_953),
    "EP": (120_492, 755_760, 13_668_320),
    "Netflix": (480_189, 17_770, 100_480_507),
    "Yahoo": (1_000_990, 624_961, 256_804_235),
}
"""Vertices of both layers and edges of the fifteen networks."""

FALL = 0.6
"""Exponent by which degrees of generated graphs fall with their place, in both layers."""

DEFAULT = (*SIGNED, *RANDOM, "NIPS")

_CPU_SKIPS = ("rb1",)


def with_random_signs(graph: BipartiteGraph) -> BipartiteGraph:
    """Return the graph with a random sign for each edge."""
    signs = np.where(np.random.default_rng(1).random(graph.n_edges) < POSITIVE, 1, -1).astype(np.int8)
    return BipartiteGraph(graph.n_u, graph.n_v, graph.u, graph.v, signs)


def load_signed(name: str, data: Path) -> BipartiteGraph | None:
    """Return the graph of a case, or None when its file is not in ``data``."""
    if name in SIZES:
        return draw_skewed(*SIZES[name], (FALL, FALL), positive=POSITIVE, seed=1)
    graph = load_graph(name, data)
    if graph is None:
        return None
    if name not in SIGNED:
        return with_random_signs(graph)
    u, v, rating, *_ = read_columns(data / "bipartite" / f"{name}.txt.gz")
    return BipartiteGraph.from_edges(u, v, sign=np.where(rating >= SIGNED[name], 1, -1))


def measure_case(
    name: str, graph: BipartiteGraph, engine: EngineName, limit: float, repeats: int, tables: bool
) -> dict[str, Measurement]:
    """Measure butterflies without and with signs, the census, and every k for pairs of either layer."""

    def run(what: str, motif: Motif, expected: int) -> Measurement:
        return measure(f"{name} {what}", graph, motif, engine, "total", limit=limit, expected=expected, repeats=repeats)

    def count(motif: Motif) -> tuple[int, dict[tuple[int, int], int]]:
        used = load_engine(motif, engine)
        prepared = used.prepare(graph, motif, "total")
        partial = used.run(prepared, 0, prepared.n_items)
        return partial.total, partial.cells

    butterflies, classes = count(Census("u"))
    balanced = sum(classes.get(each.cell, 0) for each in CENSUS_CLASSES if each.group != "mixed")
    rows = {
        "unsigned": run("unsigned", Butterfly(), butterflies),
        "signed": run("signed", BalancedButterfly(), balanced),
        "census": run("census", Census("u"), butterflies),
    }
    if tables:
        for side in ("u", "v"):
            motif = BalancedButterfly(None, pair_side=side)
            total, cells = count(motif)
            wrong = 0 if cells.get((2, 2), 0) == balanced else -1
            rows[f"every k, {side}"] = run(f"every k, pairs of {side.upper()}", motif, total + wrong)
    return rows


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("--engine", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--cases", help="comma-separated names; by default those of a minute (rb1 only on a GPU)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tables", action="store_true", help="every k, for pairs of either layer, as well")
    options = parser.parse_args()
    names = options.cases.split(",") if options.cases else DEFAULT
    limit = wedge_limit_gpu() if options.engine == "gpu" else wedge_limit_cpu()
    rows: list[Measurement] = []
    ratios: list[str] = []
    for name in names:
        if not options.cases and options.engine == "cpu" and name in _CPU_SKIPS:
            continue
        graph = load_signed(name, options.data)
        if graph is None:
            continue
        found = measure_case(name, graph, options.engine, limit, options.repeats, options.tables)
        rows += found.values()
        ratio = found["signed"].rate / found["unsigned"].rate
        ratios.append(f"{name}: signed at {ratio:.0%} of the unsigned rate")
    facts = describe_machine(options.engine)
    print_table(facts, rows, options.output)
    print("\n".join(["", *ratios]))
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
