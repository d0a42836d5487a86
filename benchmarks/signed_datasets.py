"""Balanced butterflies on generated graphs of the sizes of fifteen published networks, on CPU and GPU.

The networks are those of the G-BBC++ paper (arXiv 2601.17707, tables 2, 3 and 5). Each graph has the layers and the
number of edges of its network, and random signs, 70 % positive. It is drawn by ``benchmarks.skewed_graphs``: in both
layers, expected degrees fall as a power of the place. One exponent for both layers is chosen so that the expected
number of balanced butterflies is the published one; where no such exponent reaches it (NAP, JE), a low one is
set for V, and that of U chosen.

    python -m benchmarks.signed_datasets --engine cpu
    python -m benchmarks.signed_datasets --engine both --max-edges 300000000 --output signed-gpu.json

A count of the first engine that runs (GPU before CPU) must equal that of its census of sign classes, and a count of the
second that of the first. Rates are those of the counting kernels (on the CPU: of the run). Rates per thread are wedges
per second of processor time, and so is the CPU's rate with signs over that without: other programs on the machine do
not count. Published times are of another machine and of the networks themselves: for orientation, not for a ratio.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.balanced_butterfly import POSITIVE, SIZES
from benchmarks.harness import Measurement, describe_machine, measure
from benchmarks.skewed_graphs import draw_skewed, expected_butterflies
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.kernels.threads import available_threads
from papilio.motifs import CENSUS_CLASSES, BalancedButterfly, Butterfly, Census
from papilio.registry import load_engine

__all__ = ["DATASETS", "Dataset", "SignedRow", "draw_dataset", "expected_balanced", "measure_dataset"]

GPU_LIMIT = 0.95e12
"""Wedges/s of one H200 when every wedge costs one returning atomic in shared memory and nothing else bounds it."""

PUBLISHED_ON = "M-BBC: two Xeon E5-2697 v3, 56 threads; G-BBC++: Quadro RTX 6000, 24 GB (GDDR6)"

_BALANCED_SHARE = (1.0 + (2.0 * POSITIVE - 1.0) ** 4) / 2.0
"""Probability that the product of four independent signs is positive."""

_SMALL_EDGES = 20_000_000


@dataclass(frozen=True)
class Dataset:
    """Generated graph of one published network.

    Attributes
    ----------
    falls : tuple of float
        Exponents of the layers U and V.
    balanced : float
        Published number of balanced butterflies of the network, to three digits or so.
    m_bbc_s, g_bbc_s : float
        Published seconds of M-BBC and G-BBC++.
    """

    falls: tuple[float, float]
    balanced: float
    m_bbc_s: float
    g_bbc_s: float


DATASETS = {
    "SE": Dataset((1.021, 1.021), 15.32e6, 0.01, 0.001),
    "DBLP": Dataset((0.82, 0.82), 0.85e6, 0.02, 0.001),
    "HO": Dataset((0.939, 0.939), 280.79e6, 0.11, 0.003),
    "NAP": Dataset((2.043, 0.6), 2.24e9, 0.14, 0.007),
    "BC": Dataset((0.707, 0.707), 1.11e6, 0.35, 0.029),
    "NIPS": Dataset((0.845, 0.845), 3.75e9, 2.42, 0.013),
    "LF": Dataset((0.931, 0.931), 2.35e9, 1.15, 0.014),
    "MV": Dataset((0.912, 0.912), 8.90e9, 3.52, 0.052),
    "JE": Dataset((1.759, 0.2), 136.88e9, 1.35, 0.035),
    "KDD": Dataset((0.694, 0.694), 9.20e6, 2.45, 0.049),
    "DG": Dataset((0.804, 0.804), 15.06e9, 11.05, 0.133),
    "AOL": Dataset((0.718, 0.718), 104.47e6, 7.55, 1.001),
    "EP": Dataset((0.927, 0.927), 158.33e9, 23.71, 0.587),
    "Netflix": Dataset((0.626, 0.626), 8.39e12, 2706.0, 40.0),
    "Yahoo": Dataset((0.686, 0.686), 5.20e12, 9303.53, 250.0),
}
"""By the names of ``SIZES``, smallest first."""


@dataclass(frozen=True)
class SignedRow:
    """One engine on one dataset; seconds are medians, rates wedges per second."""

    dataset: str
    engine: EngineName
    threads: int
    n_u: int
    n_v: int
    n_edges: int
    falls: tuple[float, float]
    wedges: int
    balanced: int
    butterflies: int
    correct: bool
    generate_s: float
    seconds: dict[str, float]
    unsigned_s: dict[str, float]
    published_s: dict[str, float]

    @property
    def rate(self) -> float:
        """Wedges per second of the kernels."""
        return self.wedges / self.seconds["kernels"]

    @property
    def rate_per_thread(self) -> float:
        """Wedges per second of processor time; of the CPU engine."""
        return self.wedges / self.seconds["processor"]

    @property
    def signed_share(self) -> float:
        """Rate with signs over the rate without, on the same graph."""
        phase = "processor" if self.engine == "cpu" else "kernels"
        return self.unsigned_s[phase] / self.seconds[phase]


def expected_balanced(name: str) -> float:
    """Return the balanced butterflies expected of a dataset's graph."""
    return _BALANCED_SHARE * expected_butterflies(*SIZES[name], DATASETS[name].falls)


def draw_dataset(name: str) -> BipartiteGraph:
    """Return the generated graph of a dataset; the same every time."""
    return draw_skewed(*SIZES[name], DATASETS[name].falls, positive=POSITIVE, seed=1)


def _count_classes(graph: BipartiteGraph, name: EngineName) -> tuple[int, int]:
    """Return the balanced butterflies and all butterflies by the census."""
    motif = Census("u")
    engine = load_engine(motif, name)
    prepared = engine.prepare(graph, motif, "total")
    partial = engine.run(prepared, 0, prepared.n_items)
    cells = partial.cells
    balanced = sum(cells.get(each.cell, 0) for each in CENSUS_CLASSES if each.group != "mixed")
    return balanced, partial.total


def measure_dataset(
    name: str, graph: BipartiteGraph, generate_s: float, engines: Sequence[EngineName], repeats: int
) -> list[SignedRow]:
    """Measure balanced and all butterflies with each engine; the first also counts what the others must find.

    Parameters
    ----------
    generate_s : float
        Seconds that the graph took to draw; reported.
    """
    balanced, butterflies = _count_classes(graph, engines[0])
    dataset = DATASETS[name]
    rows = []
    for engine in engines:

        def run(motif: Butterfly | BalancedButterfly, expected: int, engine: EngineName = engine) -> Measurement:
            return measure(
                name, graph, motif, engine, "total",
                limit=GPU_LIMIT, expected=expected, repeats=repeats, through_store=False,
            )  # fmt: skip

        signed, unsigned = run(BalancedButterfly(), balanced), run(Butterfly(), butterflies)
        rows.append(
            SignedRow(
                dataset=name,
                engine=engine,
                threads=available_threads() if engine == "cpu" else 1,
                n_u=graph.n_u,
                n_v=graph.n_v,
                n_edges=graph.n_edges,
                falls=dataset.falls,
                wedges=signed.work,
                balanced=signed.count,
                butterflies=unsigned.count,
                correct=signed.correct and unsigned.correct and signed.work == unsigned.work,
                generate_s=generate_s,
                seconds=signed.seconds,
                unsigned_s=unsigned.seconds,
                published_s={"M-BBC": dataset.m_bbc_s, "G-BBC++": dataset.g_bbc_s},
            )
        )
    return rows


HEAD = (
    "dataset", "engine", "U", "V", "edges", "exponents", "wedges", "balanced butterflies", "published",
    "correct", "prepare", "kernels", "run", "wedges/s", "of limit / per thread", "signed / unsigned",
    "M-BBC, G-BBC++ published",
)  # fmt: skip


def format_row(row: SignedRow) -> str:
    """Return a row of the table; times in milliseconds."""
    share = f"{row.rate / GPU_LIMIT:.0%}" if row.engine == "gpu" else f"{row.rate_per_thread:.3g}"
    cells = [row.dataset, row.engine, f"{row.n_u:,}", f"{row.n_v:,}", f"{row.n_edges:,}"]
    cells += [", ".join(f"{fall:g}" for fall in dict.fromkeys(row.falls)), f"{row.wedges:,}"]
    cells += [f"{row.balanced:,}", f"{DATASETS[row.dataset].balanced:.4g}", "yes" if row.correct else "NO"]
    cells += [f"{row.seconds[phase] * 1e3:,.2f}" for phase in ("prepare", "kernels", "run")]
    cells += [f"{row.rate:.3g}", share, f"{row.signed_share:.0%}"]
    cells.append(", ".join(f"{seconds * 1e3:,g}" for seconds in row.published_s.values()))
    return "| " + " | ".join(cells) + " |"


def _engines(choice: str, n_edges: int, cpu_max_edges: int) -> list[EngineName]:
    """Return the engines for a graph of this size, the GPU first."""
    engines: list[EngineName] = []
    if choice in ("gpu", "both"):
        engines.append("gpu")
    if choice in ("cpu", "both") and n_edges <= cpu_max_edges:
        engines.append("cpu")
    return engines


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "gpu", "both"), required=True)
    parser.add_argument("--datasets", help=f"comma-separated names of {', '.join(DATASETS)}; by default all")
    parser.add_argument("--max-edges", type=int, default=_SMALL_EDGES, help="leave larger graphs out")
    parser.add_argument("--cpu-max-edges", type=int, default=_SMALL_EDGES, help="larger graphs run on the GPU alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file for the measurements")
    options = parser.parse_args()
    options.names = options.datasets.split(",") if options.datasets else list(DATASETS)
    unknown = [name for name in options.names if name not in DATASETS]
    if unknown:
        parser.error(f"--datasets: no {', '.join(unknown)}; there are {', '.join(DATASETS)}")
    return options


def main() -> int:
    """Run the requested datasets; the exit status is 1 when a count is wrong."""
    options = _parse()
    facts = {}
    for name in ("cpu", "gpu"):
        if options.engine in (name, "both"):
            facts[name] = describe_machine(name)
            print(f"- {name}: " + ", ".join(f"{key} {value}" for key, value in facts[name].items()))
    if "gpu" in facts:
        print(f"- limit of one H200: {GPU_LIMIT:.3g} wedges/s")
    print(f"- times are in milliseconds; published ones: {PUBLISHED_ON}\n")
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD), flush=True)
    rows: list[SignedRow] = []
    for name in options.names:
        n_edges = SIZES[name][2]
        engines = _engines(options.engine, n_edges, options.cpu_max_edges)
        if n_edges > options.max_edges or not engines:
            print(f"{name}: {n_edges:,} edges, left out (--max-edges, --cpu-max-edges)", file=sys.stderr)
            continue
        started = perf_counter()
        graph = draw_dataset(name)
        found = measure_dataset(name, graph, perf_counter() - started, engines, options.repeats)
        print("\n".join(map(format_row, found)), flush=True)
        rows += found
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            document = {"machine": facts, "limit": GPU_LIMIT, "published_on": PUBLISHED_ON}
            measurements = [{**asdict(row), "rate": row.rate, "signed_share": row.signed_share} for row in rows]
            text = json.dumps({**document, "measurements": measurements}, indent=1)
            options.output.write_text(text + "\n", encoding="utf-8")
    return 0 if rows and all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
