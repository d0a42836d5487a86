"""Ways to group roots into parts: copies that they make, what they cost, and how fast their parts are counted.

python -m benchmarks.partitions --data DATA --output benchmarks/results/partitions.md
python -m benchmarks.partitions --cases community --tables groups,chunks
python -m benchmarks.partitions --cases soc-Epinions1,marvel --tables searches

Four tables, after the comparison of BCPar with METIS in the GBC paper (ICDE 2024, Figure 10): ``groups`` (in memory;
our closure and the paper's), ``parts`` (cut by the cutters, stored, read and counted by the CPU engines), ``searches``
(the same for cliques and what is maximal) and ``chunks`` (growth within a bound of host memory). Seconds are processor
time of one thread, so that other programs on the machine change them little.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, get_args

import numpy as np

from benchmarks import cases
from benchmarks.groupings import (
    Grouping,
    Ids,
    Ints,
    cutting_by,
    hash_groups,
    metis_groups,
    paper_groups,
    paper_rows,
)
from benchmarks.harness import describe_machine, make_parser
from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.motifs import Biclique, Butterfly, Clique, MaximalBiclique, MaximalClique, Motif
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.cut_run import PeakMemory
from papilio.partitioning.cutters import cutter_of
from papilio.partitioning.growth import PricedRows, closure_cost, grow_chunks, grow_groups, growth_bytes
from papilio.partitioning.partition import Partition
from papilio.registry import load_engine, motif_row
from papilio.storage.store import GraphStore, open_store, write_store

__all__ = ["GRAPHS", "PartCase", "community_graph"]

PARTS = (4, 16, 64)
"""Numbers of parts that the budgets aim at, with the growth of groups."""

ENTRY_BYTES, COLUMN_BYTES, ROOT_BYTES = 4, 8, 16
"""Prices of the tables in memory: an id, an offset, and an id with an offset and its work."""

GROUPINGS: dict[str, Grouping] = {
    "growth": grow_groups,
    "growth, paper's score": partial(grow_groups, by_share=False),
    "hash": hash_groups,
    "METIS": metis_groups,
}


@dataclass(frozen=True)
class PartCase:
    """A graph, the layer that the engines anchor for its (3,3)-bicliques, what budgets aim at, and where it stands."""

    name: str
    anchor: str
    counted_parts: tuple[int, ...] = PARTS
    tables: tuple[str, ...] = ("groups", "parts", "chunks")
    searches: tuple[Motif, ...] = ()  # of the table of this name


GRAPHS = (
    PartCase("marvel", "u", searches=(MaximalBiclique(),)),
    PartCase("youtube-groupmemberships", "v", searches=(MaximalBiclique(),)),
    PartCase("yelp2018", "v", counted_parts=(4, 16)),
    PartCase("community", "u"),
    PartCase("large-community", "u", tables=("chunks",)),
    PartCase("opsahl-ucforum", "u", tables=(), searches=(MaximalBiclique(),)),
    PartCase("ca-AstroPh", "n", tables=(), searches=(Clique(5), Clique(), MaximalClique())),
    PartCase("wiki-Vote", "n", tables=(), searches=(Clique(5), MaximalClique())),
    PartCase("soc-Epinions1", "n", tables=(), searches=(Clique(5), MaximalClique())),
)


def community_graph(
    communities: int = 64, size: int = 500, degree: int = 24, stray: float = 0.05, seed: int = 1
) -> BipartiteGraph:
    """Return communities of ``size`` x ``size`` vertices with skewed columns, in any order; some edges are astray."""
    random = np.random.default_rng(seed)
    n = communities * size
    u = np.repeat(np.arange(n), degree)
    v = u // size * size + (size * random.random(u.size) ** 2).astype(np.int64)
    is_stray = random.random(u.size) < stray
    v[is_stray] = random.integers(0, n, int(is_stray.sum()))
    return BipartiteGraph.from_edges(random.permutation(n)[u], random.permutation(n)[v])


def load_graph(case: PartCase, data: Path) -> Any:
    """Return the graph of a case, or None when its file is not in ``data``."""
    if case.name in ("community", "large-community"):
        return community_graph(size=500 if case.name == "community" else 4_000)
    return cases.load_graph(case.name, data)


def rows_of(graph: BipartiteGraph, anchor: str, least: int) -> tuple[Ints, Ids, int]:
    """Return the rows of the anchored layer, by rising degree, and the size of the other; reduced to the core."""
    left, right = (graph.u, graph.v) if anchor == "u" else (graph.v, graph.u)
    while True:
        keep = (np.bincount(left)[left] >= least) & (np.bincount(right)[right] >= least)
        if keep.all():
            break
        left, right = left[keep], right[keep]
    names, left = np.unique(left, return_inverse=True)
    n_right, right = (lambda pair: (pair[0].size, pair[1]))(np.unique(right, return_inverse=True))
    place = np.empty(names.size, np.int64)
    place[np.argsort(np.bincount(left), kind="stable")] = np.arange(names.size)
    left = place[left]
    order = np.lexsort((right, left))
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(left))))
    return indptr, right[order].astype(np.int32), n_right


@dataclass(frozen=True)
class Closure:
    """Rows and prices of one kind of closure; ``edges`` of the graph are what replication is measured by."""

    rows: PricedRows
    edges: int

    @property
    def whole_bytes(self) -> int:
        """Bytes of one group of all roots."""
        return int(closure_cost(self.rows, np.zeros(self.rows.root_bytes.size, np.int32))[0])

    def stored(self, groups: Ids) -> float:
        """Return ids in the lists of all groups, over the edges of the graph."""
        rows = self.rows
        costs = rows.column_bytes if not rows.entry_bytes else np.zeros_like(rows.column_bytes)
        found = closure_cost(replace(rows, column_bytes=costs, root_bytes=0 * rows.root_bytes), groups)
        return int(found.sum()) / ENTRY_BYTES / self.edges


def our_closure(graph: BipartiteGraph, anchor: str) -> Closure:
    """Columns of the roots, each with the vertices of its list that no earlier part has for roots."""
    indptr, columns, n_columns = rows_of(graph, anchor, 3)
    prices = np.full(n_columns, COLUMN_BYTES, np.int64), np.full(indptr.size - 1, ROOT_BYTES, np.int64)
    return Closure(PricedRows(indptr, columns, *prices, ENTRY_BYTES), columns.size)


def paper_closure(graph: BipartiteGraph, anchor: str) -> Closure:
    """Roots and later vertices that share 3 neighbours, each with its 1-hop and 2-hop lists, as in the GBC paper."""
    indptr, ids, n_right = rows_of(graph, anchor, 3)
    return Closure(paper_rows(indptr, ids, n_right, 3), ids.size)


def seek_limit(count: Callable[[int], int], wanted: int, whole: int, tries: int = 7) -> int | None:
    """Return a limit that gives about ``wanted`` parts; None if a part of one root is larger."""
    low, high = whole / wanted / 4, float(whole)
    best: tuple[float, int] | None = None
    for _ in range(tries):
        limit = int(exp((log(low) + log(high)) / 2))
        try:
            n_parts = count(limit)
        except CapacityError:
            low = limit
            continue
        miss = abs(log(n_parts / wanted))
        if best is None or miss < best[0]:
            best = miss, limit
        if n_parts == wanted:
            break
        low, high = (limit, high) if n_parts > wanted else (low, limit)
    return best[1] if best is not None else None


def mib(n_bytes: float) -> str:
    return f"{n_bytes / 2**20:.2f}"


def groups_table(case: PartCase, graph: BipartiteGraph) -> Iterator[list[str]]:
    """Yield rows: graph, closure, budget, and for each grouping its parts, replication and seconds."""
    for name, make in (("columns", our_closure), ("paper's", paper_closure)):
        closure = make(graph, case.anchor)
        count = cache(lambda limit, c=closure: int(grow_groups(c.rows, limit).max()) + 1)
        limits = [seek_limit(count, wanted, closure.whole_bytes) for wanted in PARTS]
        for limit in dict.fromkeys(one for one in limits if one is not None):
            yield [
                case.name,
                name,
                mib(limit),
                *(_tell_groups(g, closure, limit) for g in GROUPINGS.values()),
            ]


def _tell_groups(group: Grouping, closure: Closure, limit: int) -> str:
    began = process_time()
    try:
        groups = group(closure.rows, limit)
    except CapacityError:
        return "a root does not fit"
    seconds = process_time() - began
    return f"{int(groups.max()) + 1} / {closure.stored(groups):.2f} / {seconds:.2f}"


def count_parts(partition: Partition, motif: Motif) -> tuple[int, int, float]:
    """Return the count of all parts, the work done, and the seconds with reading and preparing."""
    engine: Any = load_engine(motif, "cpu", threads=1)
    total = work = 0
    began = process_time()
    for info in partition.manifest.parts:
        prepared = engine.prepare(partition.read_part(info.index), motif, "total")
        partial_count = engine.run(prepared, 0, prepared.n_items)
        total += partial_count.total
        work += partial_count.work
    return total, work, process_time() - began


def count_whole(store: GraphStore, motif: Motif) -> tuple[Any, float]:
    """Return the answer for the whole graph, and the seconds with reading and preparing, once all is compiled."""
    engine: Any = load_engine(motif, "cpu", threads=1)
    seconds = 0.0
    for _ in range(2):
        began = process_time()
        prepared = engine.prepare(store.read(), motif, "total")
        answer = engine.run(prepared, 0, prepared.n_items)
        seconds = process_time() - began
    return answer, seconds


Cut = Callable[[Path, int, str], Partition]


def cut_for(store: GraphStore, motif: Motif, host_bytes: int) -> Cut:
    """Return a function that cuts a store for a motif into ``(directory, limit, strategy or other groups)``."""

    def cut(output: Path, limit: int, strategy: str) -> Partition:
        known, cutter = get_args(Strategy), cutter_of(family.parted.kind)
        asked = CutRequest("total", price, limit, host_bytes, 1, strategy=strategy if strategy in known else "bcpar")
        with nullcontext() if strategy in known else cutting_by(OTHER_GROUPS[strategy]):
            made: Partition = cutter(store, output, motif, {}, asked)
        return made

    family = motif_row(motif)
    assert family.parted is not None
    price = family.memory.raw("total")
    return cut


OTHER_GROUPS: dict[str, Grouping] = {
    "bcpar, paper's closure": partial(paper_groups, least=3),
    "hash": hash_groups,
    "metis": metis_groups,
}
"""Groups that only this benchmark cuts by."""

STRATEGIES: dict[str, tuple[str, ...]] = {
    "biclique": ("bcpar", "bcpar, paper's closure", "hash", "metis"),
    "butterfly": ("bcpar", "pair_blocks", "hash", "metis"),
}


def parts_table(case: PartCase, graph: Any, motif: Motif) -> Iterator[list[str]]:
    """Yield rows: graph, question, budget, strategy, parts, replication, and how fast they are cut and counted."""
    unit = "wedges" if isinstance(motif, Butterfly) else "motifs"
    whole = 16 * graph.n_edges + 32 * (graph.n_u + graph.n_v)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        write_store(place / "store", graph, provenance={"source": case.name})
        cut = cut_for(open_store(place / "store"), motif, 2 << 30)
        known, seconds = count_whole(open_store(place / "store"), motif)
        done = known.work if unit == "wedges" else known.total
        yield [case.name, motif.title, "", "the graph, not cut", "1", "1.00", "", f"{seconds:.2f}",
               f"{done / seconds:.3g}", ""]  # fmt: skip

        names = iter(range(10**6))

        def n_parts(limit: int) -> int:
            return len(cut(place / f"try-{next(names)}", limit, "bcpar").manifest.parts)

        limits = [seek_limit(n_parts, wanted, whole, tries=5) for wanted in case.counted_parts]
        for limit in dict.fromkeys(one for one in limits if one is not None):
            for strategy in STRATEGIES.get(motif.name, ("bcpar", "hash")):
                head = [case.name, motif.title, mib(limit), strategy]
                began = process_time()
                try:
                    partition = cut(place / f"{strategy}-{limit}", limit, strategy)
                except CapacityError:
                    yield [*head, "", "", "", "", "", "a root does not fit"]
                    continue
                cut_s = process_time() - began
                total, _, run_s = count_parts(partition, motif)
                manifest = partition.manifest
                yield [*head, str(len(manifest.parts)), f"{manifest.replication:.2f}", f"{cut_s:.2f}",
                       f"{run_s:.2f}", f"{done / run_s:.3g}", "yes" if total == known.total else "NO"]  # fmt: skip


def chunks_table(case: PartCase, graph: BipartiteGraph) -> Iterator[list[str]]:
    """Yield rows: graph, budget, host memory, measured peak, parts, replication, seconds; rows are read from a file."""
    closure = our_closure(graph, case.anchor)
    rows = closure.rows
    need = growth_bytes(rows.root_bytes.size, rows.column_bytes.size, rows.columns.size)
    count = cache(lambda limit: int(grow_groups(rows, limit).max()) + 1)
    limit = seek_limit(count, 16, closure.whole_bytes)
    if limit is None:
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        place = Path(directory)
        rows.columns.tofile(place / "columns")
        prices = {"column_bytes": rows.column_bytes, "root_bytes": rows.root_bytes}
        np.savez(place / "rows.npz", indptr=rows.indptr, **prices)
        for share in (1.0, 0.75, 0.5, 0.35):
            host_bytes = int(share * need)
            try:
                groups, seconds, peak = pool.submit(grow_from_files, place, limit, host_bytes).result()
            except CapacityError:
                continue
            yield [case.name, mib(limit), f"{mib(host_bytes)} ({share:.0%})", mib(peak),
                   str(int(groups.max()) + 1), f"{closure.stored(groups):.2f}", f"{seconds:.2f}"]  # fmt: skip


def grow_from_files(place: Path, limit: int, host_bytes: int) -> tuple[Ids, float, int]:
    """Grow groups in a separate process; return them, the seconds, and the memory growth."""
    block = np.arange(65) * 64, np.tile(np.arange(64, dtype=np.int32), 64)
    some = np.ones(64, np.int64), np.ones(64, np.int64), 10**6
    for bytes_once in (40_000, 10**6):  # compiles, by chunks and in one
        grow_chunks(block[0], lambda a, b: block[1][64 * a : 64 * b], *some, bytes_once, 1, entry_bytes=ENTRY_BYTES)
    with PeakMemory() as peak, np.load(place / "rows.npz") as rows:
        indptr = rows["indptr"]

        def read(first: int, last: int) -> Ids:
            begin, end = int(indptr[first]), int(indptr[last])
            return np.fromfile(place / "columns", np.int32, end - begin, offset=4 * begin)

        began = process_time()
        groups = grow_chunks(
            indptr,
            read,
            rows["column_bytes"],
            rows["root_bytes"],
            limit,
            host_bytes,
            1,
            entry_bytes=ENTRY_BYTES,
        )
        seconds = process_time() - began
    return groups, seconds, peak.grown_bytes


HEADS = {
    "groups": ["graph", "closure", "budget, MiB", *GROUPINGS],
    "parts": ["graph", "question", "budget, MiB", "strategy", "parts", "replication", "cutting, s", "counting, s",
              "per s", "same count"],
    "chunks": ["graph", "budget, MiB", "host memory, MiB", "peak, MiB", "parts", "replication", "s"],
}  # fmt: skip
HEADS["searches"] = HEADS["parts"]


def print_rows(head: Sequence[str], rows: Iterator[list[str]], lines: list[str]) -> bool:
    """Print a table as it comes and keep its lines; return whether all counts were right."""
    correct = True
    new = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        new.append("| " + " | ".join(row) + " |")
        correct &= "NO" not in row
        print(new[-1], flush=True)
    lines += [*new, ""]
    return correct


def main() -> int:
    """Print the tables; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("--cases", default=",".join(case.name for case in GRAPHS))
    parser.add_argument("--tables", default=",".join(HEADS))
    options = parser.parse_args()
    facts = describe_machine("cpu")
    lines = [*(f"- {name}: {value}" for name, value in facts.items()), ""]
    asked = [case for case in GRAPHS if case.name in options.cases.split(",")]
    graphs = {case: graph for case in asked if (graph := load_graph(case, options.data)) is not None}
    correct = True
    for table in options.tables.split(","):

        def rows(table: str = table) -> Iterator[list[str]]:
            for case, graph in graphs.items():
                if table == "searches":
                    for motif in case.searches:
                        yield from parts_table(case, graph, motif)
                if table not in case.tables:
                    continue
                if table == "groups":
                    yield from groups_table(case, graph)
                elif table == "chunks":
                    yield from chunks_table(case, graph)
                else:
                    yield from parts_table(case, graph, Biclique(3, 3))
                    yield from parts_table(case, graph, Butterfly())

        correct &= print_rows(HEADS[table], rows(), lines)
    if options.output is not None:
        options.output.write_text("\n".join(lines), encoding="utf-8")
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
