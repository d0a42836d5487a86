"""Listings from one GPU: what the search, the rows, the copy and the files take, each apart.

python -m benchmarks.listing_gpu --data DATA --cases senate epinions
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from benchmarks.cases import load_graph
from benchmarks.harness import TimedKernels, describe_machine, in_time, make_parser, print_rows
from papilio.motifs import Clique, Listing, MaximalBiclique, MaximalClique, Motif, Projection
from papilio.registry import load_engine, motif_row
from papilio.storage.listings import ListingWriter
from papilio.storage.vertex_names import read_names
from papilio.tasks.job import digest

CASES: dict[str, tuple[str, Motif, int | None, int, int]] = {
    "senate": ("senate", MaximalBiclique(), None, 19_610_854, 7_476_688_869_957_617_628),
    "youtube": ("youtube-groupmemberships", MaximalBiclique(), None, 1_826_587, 6_844_677_407_271_797_498),
    "facebook-4": ("facebook_combined", Clique(4), None, 30_004_668, 0),
    "facebook-limit": ("facebook_combined", MaximalClique(), 20_000_000, 20_000_000, 0),
    "epinions": ("soc-Epinions1", MaximalClique(2), None, 1_775_065, 13_069_692_573_542_389_138),
    "astro": ("ca-AstroPh", MaximalClique(2), None, 36_427, 4_781_126_201_181_975_883),
    "yelp-users": ("yelp2018", Projection("u"), None, 19_367_069, 0),
    "yelp-businesses": ("yelp2018", Projection("v", 2, "resource"), None, 16_174_029, 0),
}
"""Graph, motif, limit, rows, and the checksum that counting on CPUs gives; 0 where there is none."""


_ROW_KERNELS = (
    "clique_copy", "clique_choose", "maximal_expand", "record_keys", "sort_rows", "pair_rows", "sum_terms"
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One listing; times in seconds, of kernels alone where noted."""

    case: str
    rows: int
    vertices: int  # and numbers, of all rows
    prepare_s: float
    search_s: float  # kernels that search
    rows_s: float  # kernels that make rows
    listed_s: float  # all but the files: search, order, rows, copy
    written_s: float  # with the files
    disk_s: float  # the same bytes once more, to the disk itself
    file_bytes: int
    n_files: int
    correct: bool


COLUMNS: dict[str, Callable[[Row], str]] = {
    "case": lambda row: row.case,
    "rows": lambda row: f"{row.rows:,}{'' if row.correct else ' WRONG'}",
    "vertices/row": lambda row: f"{row.vertices / max(1, row.rows):.1f}",
    "prepare ms": lambda row: f"{1e3 * row.prepare_s:.1f}",
    "search ms": lambda row: f"{1e3 * row.search_s:.1f}",
    "rows ms": lambda row: f"{1e3 * row.rows_s:.1f}",
    "listed s": lambda row: f"{row.listed_s:.3f}",
    "written s": lambda row: f"{row.written_s:.3f}",
    "rows/s": lambda row: f"{row.rows / row.written_s:.3g}",
    "bytes/row": lambda row: f"{row.file_bytes / max(1, row.rows):.2f}",
    "files": lambda row: str(row.n_files),
    "disk s": lambda row: f"{row.disk_s:.3f}",
}


def measure(name: str, graph: Any, folder: Path | None) -> Row:
    """List once into nothing, untimed, then timed, then into files below ``folder``."""
    _, motif, limit, expected, checksum = CASES[name]
    lister: Any = load_engine(motif, "gpu", listing=Listing(limit))
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
    of_rows = sum(sums.get(kernel, 0.0) for kernel in _ROW_KERNELS)
    columns, numbers = motif_row(motif).columns(motif), motif_row(motif).numbers(motif)
    store: Any = SimpleNamespace(label_column=lambda layer: None)
    names = read_names(store, {layer: getattr(prepared, f"ids_{layer}") for layer in columns})
    names = {layer: ids.cast("int64") for layer, ids in names.items()}
    question = {"graph": digest(name), "motif": {"name": motif.name}, "listing": {"limit": limit}}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        began = perf_counter()
        with ListingWriter(Path(scratch) / "rows", names, columns, question, numbers) as writer:
            written = lister.run(prepared, 0, prepared.n_items, sink=writer.write)
        written_s = perf_counter() - began
        paths = [Path(shard.path) for shard in writer.shards]
        file_bytes = sum(path.stat().st_size for path in paths)
        vertices = sum(count_vertices(path) for path in paths)
        disk_s = time_disk(paths)
    counts = {partial.total, written.total, sum(shard.rows for shard in writer.shards)}
    return Row(
        case=name,
        rows=written.total,
        vertices=vertices,
        prepare_s=prepare_s,
        search_s=sum(sums.values()) - of_rows,
        rows_s=of_rows,
        listed_s=listed_s,
        written_s=written_s,
        disk_s=disk_s,
        file_bytes=file_bytes,
        n_files=len(paths),
        correct=counts == {expected} and {partial.checksum, written.checksum} == {checksum},
    )


def count_vertices(path: Path) -> int:
    """Return how many vertices, and numbers, all rows of a file have."""
    metadata = pq.read_metadata(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(group.column(column).num_values for group in groups for column in range(group.num_columns))


def time_disk(paths: Sequence[Path]) -> float:
    """Write the same bytes to other files, a thread for each, until the disk has them; return the seconds."""

    def write(target: Path, content: bytes) -> None:
        with target.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    contents = [path.read_bytes() for path in paths]
    os.sync()
    began = perf_counter()
    with ThreadPoolExecutor(max(1, len(paths))) as pool:
        list(pool.map(write, [path.with_suffix(".again") for path in paths], contents))
    return perf_counter() - began


def run_cases(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the requested cases in order, while there is time."""
    for name in in_time(options.cases, options.seconds):
        graph_name = CASES[name][0]
        graph = load_graph(graph_name, options.data)
        if graph is not None:
            yield measure(name, graph, options.folder)


def main() -> int:
    """Run the requested cases; the exit status is 1 when a number of rows is wrong."""
    parser = make_parser(__doc__, seconds=60.0)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--folder", type=Path, help="where the files go; by default that of temporary files")
    options = parser.parse_args()
    rows = print_rows(describe_machine("gpu"), COLUMNS, run_cases(options), options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
