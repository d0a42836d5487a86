"""More than 2^31 edges: a graph whose counts are known, generated, read, cut and counted, against its closed forms.

python -m benchmarks.large --scratch DIR --output FILE                         # CPUs, two budgets of host memory
python -m benchmarks.large --scratch DIR --engine gpu --workers 1,2 --output FILE
python -m benchmarks.large --scratch DIR --shapes 8x2e5+1e5x8+20*50x50 --fractions 1,0.6    # a small one

The graph consists of disjoint complete blocks (``papilio generate blocks``). Butterflies are counted in all and per
vertex: in the whole graph if the fraction is 1, else part by part, within that share of the memory predicted for the
whole graph. The limits of the disk and of counting wedges are measured in the same run. The scratch directory needs 24
bytes per edge. An existing graph or existing parts in it are reused, so an interrupted run can be resumed; the seconds
of cutting are read from the manifest of the parts.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import papilio
from benchmarks.harness import describe_machine
from benchmarks.limits import wedge_limit_cpu, wedge_limit_gpu
from benchmarks.out_of_memory import Row, count_once, print_row
from papilio.kernels.threads import available_threads
from papilio.motifs import Granularity
from papilio.question import Question
from papilio.storage.generate import Blocks, generate
from papilio.storage.graph_models import Shape
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.job import job_of
from papilio.tasks.memory import predict_memory

__all__ = ["count_bicliques", "count_cliques", "require_vertices"]

SHAPES = "64x23e6+12e6x64+2000*200x200+100*1x20000+100*20000x1"
"""2,324,000,000 edges with hubs in both layers, dense blocks and stars; 31 counted wedges for each edge."""

_PROBE_BYTES = 1 << 30
"""Bytes written and read to measure the disk."""


def count_bicliques(terms: tuple[Shape, ...], p: int, q: int) -> int:
    """Return the (p,q)-bicliques of disjoint complete bipartite blocks; butterflies are those of 2 and 2."""
    return sum(term.copies * comb(term.size_u, p) * comb(term.size_v or 0, q) for term in terms)


def count_cliques(terms: tuple[Shape, ...], k: int) -> int:
    """Return the k-cliques of disjoint cliques."""
    return sum(term.copies * comb(term.size_u, k) for term in terms)


def _runs(terms: tuple[Shape, ...], p: int, q: int, layer: str) -> Iterator[tuple[int, int]]:
    """Yield, for runs of vertices of a layer, the number of vertices and the (p,q)-bicliques of each."""
    for term in terms:
        size_u, size_v = term.size_u, term.size_v or 0
        if layer == "u":
            yield term.copies * size_u, comb(size_u - 1, p - 1) * comb(size_v, q) if size_u else 0
        else:
            yield term.copies * size_v, comb(size_u, p) * comb(size_v - 1, q - 1) if size_v else 0


def require_vertices(terms: tuple[Shape, ...], vectors: dict[str, NDArray[np.uint64]], p: int = 2, q: int = 2) -> None:
    """Compare the (p,q)-bicliques of every vertex with the closed form; SystemExit names the first that differs."""
    for layer, counts in vectors.items():
        runs = list(_runs(terms, p, q, layer))
        ends = [0, *np.cumsum([size for size, _ in runs]).tolist()]
        if ends[-1] != counts.size:
            raise SystemExit(f"layer {layer} has {counts.size} counts; expected {ends[-1]}")
        for (begin, end), (_, expected) in zip(pairwise(ends), runs, strict=True):
            wrong = np.flatnonzero(counts[begin:end] != np.uint64(expected))
            if wrong.size:
                at = begin + int(wrong[0])
                raise SystemExit(f"vertex {at} of {layer} is in {counts[at]} bicliques; expected {expected}")


def measure_disk(directory: Path) -> dict[str, float]:
    """Return the bytes per second that a file in the directory is written and read at, past the page cache."""
    path, piece = directory / "probe", 8 << 20
    buffer = mmap.mmap(-1, piece)  # aligned to a page, as direct access requires
    rates = {}
    try:
        for name, flags in (("write", os.O_CREAT | os.O_WRONLY), ("read", os.O_RDONLY)):
            file = os.open(path, flags | os.O_DIRECT, 0o600)
            began = perf_counter()
            for _ in range(_PROBE_BYTES // piece):
                if name == "write":
                    os.write(file, buffer)
                else:
                    os.readv(file, [buffer])
            os.close(file)
            rates[f"disk_{name}_bytes_per_s"] = _PROBE_BYTES / (perf_counter() - began)
    finally:
        path.unlink(missing_ok=True)
    return rates


def make_graph(path: Path, model: Blocks) -> tuple[GraphStore, float | None]:
    """Open the graph, or generate it within 1 GiB; return it and the seconds of generating."""
    began, seconds = perf_counter(), None
    if not path.exists():
        generate(model, path, memory_bytes=1 << 30)
        seconds = perf_counter() - began
    store = open_store(path)
    if store.manifest.provenance.get("shapes") != model.shapes:
        raise SystemExit(f"{path} holds another graph; name another scratch directory")
    return store, seconds


def read_graph(store: GraphStore) -> float:
    """Read all edges once, checked and hashed, and compare their number; return the seconds."""
    began = perf_counter()
    n_edges = sum(u.size for u, _, _ in store.batches())
    if n_edges != store.n_edges:
        raise SystemExit(f"{n_edges} edges were read; the manifest says {store.n_edges}")
    return perf_counter() - began


def cut_parts(store: Path, parts: Path, budget: dict[str, int]) -> dict[str, float]:
    """Cut the graph unless that was done before; return the seconds of each step."""
    if not parts.exists():
        papilio.partition(store, parts, papilio.Butterfly(), per="vertex", **budget)  # type: ignore[arg-type]
    manifest = papilio.open_partition(parts).manifest
    steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in manifest.seconds.items())
    print(f"   cut: {steps}, {manifest.stored_edges:,} entries in {len(manifest.parts)} parts", flush=True)
    return manifest.seconds


def count_all(
    store: GraphStore,
    scratch: Path,
    model: Blocks,
    engine: str,
    workers: int,
    fraction: float,
    granularities: list[Granularity],
) -> list[Row]:
    """Count butterflies within a share of the memory of the whole; SystemExit for a wrong count."""
    job = job_of(store, Question.of(papilio.Butterfly(), "vertex"))
    forecast = predict_memory(job, engine, available_threads())  # type: ignore[arg-type]
    kind, whole = ("host_memory", forecast.host_bytes) if engine == "cpu" else ("device_memory", forecast.device_bytes)
    budget: dict[str, int] = {} if fraction >= 1 else {kind: int(fraction * whole)}
    parts, cut_s = None, 0.0
    if budget:
        parts = scratch / f"parts-{engine}-{fraction}"
        cut_s = sum(cut_parts(Path(store.path), parts, budget).values())
    rows = []
    for per in granularities:
        cluster = "inline" if engine == "cpu" else "cuda"
        with papilio.open_cluster(cluster, engine=engine, workers=None if engine == "cpu" else workers) as executor:  # type: ignore[arg-type]
            row, result = count_once(
                Path(store.path),
                papilio.Butterfly(),
                executor,
                workers,
                fraction,
                budget,
                parts,
                cut_s,
                per=per,
            )
        print(f"per {per}:")
        print_row(row)
        if row.count != (expected := count_bicliques(model.terms, 2, 2)):
            raise SystemExit(f"{row.count} butterflies were counted; there are {expected}")
        require_vertices(model.terms, dict(result.vectors))
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Make the graph, count it within each budget on each number of workers, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="directory for the graph and its parts")
    parser.add_argument("--shapes", default=SHAPES, help="blocks, as of papilio generate blocks")
    parser.add_argument("--engine", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--workers", default="1", help="numbers of GPUs; the cpu engine counts in this process")
    parser.add_argument("--fractions", default="0.25,0.1", help="budgets, as shares of the memory of the whole")
    parser.add_argument("--per", default="total,vertex", help="what is counted")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    model = Blocks(given.shapes)
    facts: dict[str, Any] = {"machine": describe_machine(given.engine), "shapes": model.shapes}
    facts |= measure_disk(given.scratch)
    facts["wedge_limit_per_s"] = wedge_limit_cpu() if given.engine == "cpu" else wedge_limit_gpu()
    store, facts["generate_s"] = make_graph(given.scratch / "graph", model)
    facts |= {"n_edges": store.n_edges, "stored_bytes": store.stored_bytes(), "read_s": read_graph(store)}
    print(json.dumps(facts, indent=1), flush=True)
    rows: list[Row] = []
    for workers in map(int, given.workers.split(",")):
        for fraction in map(float, given.fractions.split(",")):
            rows += count_all(store, given.scratch, model, given.engine, workers, fraction, given.per.split(","))
            if given.output is not None:
                data = facts | {"rows": [asdict(row) for row in rows]}
                given.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
