"""An engine that counts nothing and remembers everything, and plans made by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.engine import CostTable, Engine, EngineName, Partial, Prepared, StopCheck, never_cut
from papilio.motifs import Butterfly, Granularity, Motif
from papilio.registry import motif_row
from papilio.tasks.job import JobSpec, PrepareReport
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import predict_memory
from papilio.tasks.plan import CountPlan, make_plan


@dataclass
class FakePrepared(Prepared):
    """A prepared graph: one item per vertex of U, of the vertex's degree as cost."""

    costs: NDArray[np.int64]
    shape: dict[str, int]
    nbytes: int = 1000


@dataclass
class FakeEngine(Engine):
    """Total = number of items run; every vector entry = 1 per item run; records its calls."""

    name: EngineName = "cpu"
    prepare_s: float = 0.0
    slice_s: float = 0.005
    prepared: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)
    running: int = 0
    overlapped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> FakePrepared:
        self.prepared += 1
        time.sleep(self.prepare_s)
        sizes = {"total": {}, "vertex": {"u": graph.n_u, "v": graph.n_v}, "edge": {"edge": graph.n_edges}}
        return FakePrepared(np.sort(graph.degree_u)[::-1].copy(), sizes[per])

    def run(
        self,
        prepared: FakePrepared,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        with self._lock:
            self.running += 1
            self.overlapped |= self.running > 1
            self.intervals.append((start, stop))
        end = start
        for bound in (*bounds, stop):
            if end == bound or cut():
                break
            time.sleep(self.slice_s)
            end = bound
        with self._lock:
            self.running -= 1
        vectors = {name: np.zeros(size, np.uint64) for name, size in prepared.shape.items()}
        for name, vector in vectors.items():
            vector[-1] = (4 if name == "edge" else 2) * (end - start)
        return Partial(end - start, end - start, int(prepared.costs[start:end].sum()), vectors)


def make_job(**changes: Any) -> JobSpec:
    """Return a job on a graph that need not exist."""
    motif = changes.get("motif", Butterfly())
    known: dict[str, Any] = {
        "source": "/nowhere/graph", "graph_hash": "0" * 32, "kind": motif_row(motif).graph_kind, "n_u": 4, "n_v": 6,
        "n_edges": 9, "signed": False, "motif": motif, "per": "total",
    }  # fmt: skip
    return JobSpec(**{**known, **changes})


def make_worker(name: str = "w0", **changes: Any) -> WorkerInfo:
    """Return the description of a CPU worker with 4 threads and 8 GiB."""
    known: dict[str, Any] = {
        "name": name, "host": "h", "pid": 1, "version": "0", "threads": 4, "memory_bytes": 8 << 30,
        "gpu": None, "gpu_memory_bytes": 0, "gpu_missing": "no CUDA device is visible",
    }  # fmt: skip
    return WorkerInfo(**{**known, **changes})


def make_report(costs: NDArray[np.int64]) -> PrepareReport:
    """Return the report of a prepared graph whose items take so many nanoseconds."""
    table = CostTable.from_costs(costs)
    return PrepareReport("w0", "cpu", table.n_items, table.total, "d" * 32, table, 1000, {}, 0)


def plan_of(costs: NDArray[np.int64], n_workers: int = 1, job: JobSpec | None = None) -> CountPlan:
    """Return the plan for items of these costs on CPU workers."""
    chosen = job or make_job()
    workers = tuple(make_worker(f"w{i}") for i in range(n_workers))
    return make_plan(chosen, "cpu", "asked for", workers, make_report(costs), predict_memory(chosen, "cpu", 4))
