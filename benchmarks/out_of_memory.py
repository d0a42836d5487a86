"""Graphs beyond memory: a count part by part, within a budget, against the count of the whole graph.

python -m benchmarks.out_of_memory --rmat 23,22,1.1e9 --engine gpu --workers 1,2 --fractions 0.25,0.1 --output FILE
python -m benchmarks.out_of_memory --rmat 18,17,2e7 --engine cpu --workers 1 --fractions 0.5,0.25

A budget is a fraction of what the unrestricted run is predicted to need: of device memory with the gpu engine, of host
memory with the cpu engine. The rows say what it cost: cutting (once for each budget, in this process), and the count.
Every count must be the unrestricted one; peaks are measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import papilio
from benchmarks.harness import describe_machine
from papilio.cluster.events import Event, LeaseFinished, PlanMade
from papilio.motifs import Granularity, Motif
from papilio.storage.generate import Rmat, generate
from papilio.storage.store import open_store
from papilio.tasks.job import LeaseResult
from papilio.tasks.result import CountResult

__all__ = ["Row", "count_once", "measure", "print_row"]


@dataclass(frozen=True)
class Row:
    """One count. ``budget_bytes`` is None for the whole graph; seconds are wall time of this process.

    ``busy_s`` are the seconds of all workers by activity; ``read_bytes`` come from storage, ``staged_bytes`` go to
    devices; ``driver_peak_bytes`` is the most memory of a device in use by all when a lease ended, by the driver.
    """

    workers: int
    fraction: float | None
    budget_bytes: int | None
    strategy: str
    parts: int
    replication: float
    cut_s: float
    cut_peak_bytes: int
    count: int
    seconds: dict[str, float]
    busy_s: dict[str, float]
    work: int
    read_bytes: int
    staged_bytes: int
    predicted_bytes: int
    device_peak_bytes: int
    driver_peak_bytes: int
    host_peak_bytes: int


class _Ledger:
    """The facts from the events of one count."""

    def __init__(self) -> None:
        self.results: list[LeaseResult] = []
        self.plan: Any = None

    def __call__(self, event: Event) -> None:
        match event:
            case PlanMade(plan):
                self.plan = plan
            case LeaseFinished(result, _):
                self.results.append(replace(result, vectors={}))

    def busy_s(self) -> dict[str, float]:
        names = sorted({name for result in self.results for name in result.seconds})
        return {name: sum(result.seconds.get(name, 0.0) for result in self.results) for name in names}


def count_once(
    store: Path, motif: Motif, cluster: Any, workers: int, fraction: float | None,
    budget: dict[str, int], parts: Path | None, cut_s: float, per: Granularity = "total",
) -> tuple[Row, CountResult]:  # fmt: skip
    """Count with an open cluster, from existing ``parts`` if given; return the row and the result."""
    heard = _Ledger()
    result = papilio.count(store, motif, per=per, cluster=cluster, progress=heard, parts=parts, **budget)
    plan = heard.plan
    manifest = None if plan.job.partition is None else papilio.open_partition(plan.job.partition.path).manifest
    engine = plan.engine
    row = Row(
        workers=workers,
        fraction=fraction,
        budget_bytes=next(iter(budget.values()), None),
        strategy=plan.strategy,
        parts=len(plan.partitions),
        replication=1.0 if manifest is None else manifest.replication,
        cut_s=cut_s,
        cut_peak_bytes=0 if manifest is None else manifest.peak_bytes,
        count=result.count,
        seconds=dict(result.seconds),
        busy_s=heard.busy_s(),
        work=result.work,
        read_bytes=sum(each.read_bytes for each in heard.results),
        staged_bytes=sum(each.staged_bytes for each in heard.results),
        predicted_bytes=plan.memory.device_bytes if engine == "gpu" else plan.memory.host_bytes,
        device_peak_bytes=max(each.device_peak_bytes for each in heard.results),
        driver_peak_bytes=max(each.device_used_bytes for each in heard.results),
        host_peak_bytes=max(each.peak_bytes for each in heard.results),
    )
    return row, result


def measure(
    store: Path, scratch: Path, engine: str, workers: tuple[int, ...], fractions: tuple[float, ...]
) -> list[Row]:
    """Count the whole graph, then part by part within each budget, on each number of workers."""
    motif, rows = papilio.Butterfly(), []
    kind = "device_memory" if engine == "gpu" else "host_memory"
    cluster = "cuda" if engine == "gpu" else "local"
    cuts: dict[float, float] = {}
    for n in workers:
        with papilio.open_cluster(cluster, engine=engine, workers=n) as executor:  # type: ignore[arg-type]
            whole, _ = count_once(store, motif, executor, n, None, {}, None, 0.0)
            rows.append(whole)
            print_row(whole)
        for fraction in fractions:
            budget = {kind: int(fraction * whole.predicted_bytes)}
            parts = scratch / f"parts-{fraction}"
            if fraction not in cuts:
                started = perf_counter()
                papilio.partition(store, parts, motif, **budget)  # type: ignore[arg-type]
                cuts[fraction] = perf_counter() - started
                steps = papilio.open_partition(parts).manifest.seconds
                print("   cut " + ", ".join(f"{name} {value:.2f}" for name, value in steps.items()), flush=True)
            with papilio.open_cluster(cluster, engine=engine, workers=n) as executor:  # type: ignore[arg-type]
                row, _ = count_once(store, motif, executor, n, fraction, budget, parts, cuts[fraction])
            rows.append(row)
            print_row(row)
            if row.count != whole.count:
                raise SystemExit(f"{row.count} butterflies part by part; the whole graph has {whole.count}")
    return rows


def print_row(row: Row) -> None:
    """Print one line of the table; GB are 1e9 bytes."""
    run_s = row.seconds["run"]
    print(
        f"{row.workers} workers, budget {'none' if row.fraction is None else row.fraction}, {row.strategy}, "
        f"{row.parts} parts, replication {row.replication:.2f}, cut {row.cut_s:.1f} s, "
        f"total {row.seconds['total']:.2f} s, run {run_s:.2f} s, "
        f"read {row.read_bytes / 1e9:.2f} GB, staged {row.staged_bytes / 1e9:.2f} GB, "
        f"peak pool {row.device_peak_bytes / 1e9:.2f}, driver {row.driver_peak_bytes / 1e9:.2f}, "
        f"host {row.host_peak_bytes / 1e9:.2f} GB of {(row.budget_bytes or row.predicted_bytes) / 1e9:.2f}, "
        f"count {row.count}",
        flush=True,
    )
    print("   phases " + ", ".join(f"{name} {value:.2f}" for name, value in row.seconds.items()), flush=True)
    print("   busy " + ", ".join(f"{name} {value:.2f}" for name, value in row.busy_s.items()), flush=True)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(float(word)) for word in text.split(","))


def main(arguments: list[str] | None = None) -> None:
    """Generate the graph unless one is given, measure, print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, help="a graph store; else one is generated")
    parser.add_argument("--rmat", type=_numbers, default=(18, 17, 20_000_000), help="scale of U, of V, edges drawn")
    parser.add_argument("--engine", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--workers", type=_numbers, default=(1,))
    parser.add_argument("--fractions", default="0.5,0.25", help="budgets, as shares of the unrestricted need")
    parser.add_argument("--scratch", type=Path, help="directory for the graph and its parts")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    fractions = tuple(float(word) for word in given.fractions.split(","))
    with TemporaryDirectory(dir=given.scratch) as scratch:
        store = given.store or Path(scratch) / "graph"
        started = perf_counter()
        if given.store is None:
            generate(Rmat(*given.rmat), store, seed=1)
        n_edges = open_store(store).n_edges
        print(f"{n_edges} edges, generated in {perf_counter() - started:.1f} s", flush=True)
        rows = measure(store, Path(scratch), given.engine, given.workers, fractions)
        if given.store is None:
            shutil.rmtree(store)
    if given.output is not None:
        data = {
            "machine": describe_machine(given.engine),
            "rmat": given.rmat,
            "edges": n_edges,
            "rows": [asdict(r) for r in rows],
        }
        given.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
