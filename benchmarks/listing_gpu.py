"""Listings from one GPU: what the search, the rows, the copy and the files take, each apart.

python -m benchmarks.listing_gpu --data ../shared/data --cases senate soc-Epinions1
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from benchmarks.cases import Case, load_case
from benchmarks.clique_gpu import read_graph
from benchmarks.harness import TimedKernels, describe_machine
from papilio.families import family_of, load_lister
from papilio.motifs import Clique, MaximalBiclique, MaximalClique, Motif
from papilio.questions import Listing
from papilio.storage.listings import ListingWriter
from papilio.storage.names import read_names
from papilio.tasks.job import digest

CASES: dict[str, tuple[str, Motif, int | None, int, int]] = {
    "senate": ("senate", MaximalBiclique(), None, 19_610_854, 7_476_688_869_957_617_628),
    "youtube": ("youtube-groupmemberships", MaximalBiclique(), None, 1_826_587, 6_844_677_407_271_797_498),
    "facebook-4": ("facebook_combined", Clique(4), None, 30_004_668, 0),
    "facebook-limit": ("facebook_combined", MaximalClique(), 20_000_000, 20_000_000, 0),
    "epinions": ("soc-Epinions1", MaximalClique(2), None, 1_775_065, 13_069_692_573_542_389_138),
    "astro": ("ca-AstroPh", MaximalClique(2), None, 36_427, 4_781_126_201_181_975_883),
}
"""Graph, motif, limit, rows, and the checksum that counting on CPUs gives; 0 where there is none."""


@dataclass(frozen=True)
class Row:
    """One listing; seconds, of kernels alone where it says so."""

    case: str
    rows: int
    prepare_s: float
    search_s: float  # kernels that search
    rows_s: float  # kernels that make rows
    listed_s: float  # all but the files: search, order, rows, copy
    written_s: float  # with the files
    file_bytes: int
    n_files: int
    correct: bool


def measure(name: str, graph: Any) -> Row:
    """List once into nothing, untimed, then timed, then into files."""
    _, motif, limit, expected, checksum = CASES[name]
    lister: Any = load_lister(motif, Listing(limit), "gpu")
    began = perf_counter()
    prepared = lister.prepare(graph, motif, "total")
    prepare_s = perf_counter() - began
    lister.run(prepared, max(0, prepared.n_items - 1), prepared.n_items)
    device: Any = lister.device
    timer = TimedKernels(device)
    device.load = timer
    began = perf_counter()
    partial = lister.run(prepared, 0, prepared.n_items)
    listed_s = perf_counter() - began
    del device.load
    _, sums = timer.seconds()
    of_rows = sum(s for kernel, s in sums.items() if "expand" in kernel or kernel in _ROW_KERNELS)
    columns = family_of(motif).columns(motif)
    store: Any = SimpleNamespace(label_column=lambda layer: None)
    names = read_names(store, {layer: getattr(prepared, f"ids_{layer}") for layer in columns})
    question = {"graph": digest(name), "motif": {"name": motif.name}, "listing": {"limit": limit}}
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        with ListingWriter(Path(folder) / "rows", names, columns, question) as writer:
            written = lister.run(prepared, 0, prepared.n_items, sink=writer.write)
        written_s = perf_counter() - began
        file_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
    counts = {partial.total, written.total, sum(shard.rows for shard in writer.shards)}
    return Row(
        case=name,
        rows=written.total,
        prepare_s=prepare_s,
        search_s=sum(sums.values()) - of_rows,
        rows_s=of_rows,
        listed_s=listed_s,
        written_s=written_s,
        file_bytes=file_bytes,
        n_files=len(writer.shards),
        correct=counts == {expected} and {partial.checksum, written.checksum} == {checksum},
    )


_ROW_KERNELS = ("clique_copy", "clique_choose", "record_keys", "sort_rows")


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the cases asked for, in their order, while there is time."""
    began = perf_counter()
    for name in options.cases:
        graph_name, motif, *_ = CASES[name]
        if perf_counter() - began > options.seconds:
            print(f"{name}: no time left, skipped", file=sys.stderr)
            continue
        if family_of(motif).graph_kind == "bipartite":
            graph: Any = load_case(Case(graph_name, 0), options.data)
        else:
            graph = read_graph(options.data, graph_name)
        if graph is None:
            print(f"{name}: {graph_name} is not in {options.data}, skipped", file=sys.stderr)
            continue
        yield measure(name, graph)


def main() -> int:
    """Run the cases asked for; the exit status is 1 when a number of rows is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with bipartite and unipartite"
    )
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seconds", type=float, default=60.0, help="begin nothing more after this time")
    options = parser.parse_args()
    print("\n".join(f"- {name}: {value}" for name, value in describe_machine("gpu").items()) + "\n")
    head = [
        "case",
        "rows",
        "prepare ms",
        "search ms",
        "rows ms",
        "listed s",
        "written s",
        "rows/s",
        "B/row",
        "files",
    ]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    wrong = 0
    for row in run_cases(options):
        wrong += not row.correct
        print(
            f"| {row.case} | {row.rows:,}{'' if row.correct else ' WRONG'} | {1e3 * row.prepare_s:.1f} "
            f"| {1e3 * row.search_s:.1f} | {1e3 * row.rows_s:.1f} | {row.listed_s:.2f} | {row.written_s:.2f} "
            f"| {row.rows / row.written_s:.3g} | {row.file_bytes / max(1, row.rows):.2f} | {row.n_files} |",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
