"""Memory of parts of bicliques is predicted from above, and, given how many pairs there are, not from far above."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph
from papilio.kernels.memory import BICLIQUES, PAIRS_PER_EDGE
from papilio.motifs import Biclique, Granularity
from papilio.parts import Layer, PartBytes, PartSizes, RootPart
from tests.conftest import ROOT
from tests.tools.devices import cuda_device
from tests.tools.strategies import planted_graph, skewed_graph

NOTHING = PartBytes(0, 0, 0, 0, 0)


def make_part(graph: BipartiteGraph, layer: Layer) -> RootPart:
    """Return the part whose roots are every third vertex of a layer, with all edges of the graph."""
    n = graph.n_u if layer == "u" else graph.n_v
    roots = np.arange(0, n, 3, dtype=np.int32)
    ids = (np.arange(size, dtype=np.int32) for size in (graph.n_u, graph.n_v))
    return RootPart(layer, graph, *ids, roots, np.ones(roots.size, np.int64))


def sizes_of(part: RootPart) -> PartSizes:
    """Return how large a part is."""
    graph = part.graph
    of_roots = int(np.isin(graph.u if part.layer == "u" else graph.v, part.roots).sum())
    n_roots = part.roots.size
    return PartSizes(n_roots, of_roots, graph.n_u + graph.n_v - n_roots, graph.n_edges - of_roots)


def drawn_graph(name: str) -> BipartiteGraph:
    """Return a graph of some hundred thousand edges with many pairs, with hardly any, or a small one."""
    if name == "many pairs":
        return planted_graph(3, 30_000, 30_000, 500, 24, 150_000, 0.1)
    if name == "few pairs":
        return skewed_graph(4, 60_000, 60_000, 500_000, 1.1)
    return planted_graph(3, 300, 300, 5, 10, 900, 0.1)


def measure(name: str, p: int, q: int, per: Granularity, threads: int) -> None:
    """Print the peak of preparing and running a part in this process, and the number of pairs."""
    from papilio.kernels.biclique.cpu import BicliqueCpu

    def figure(key: str) -> int:
        text = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(key))

    engine, motif = BicliqueCpu(threads), Biclique(p or None, q or None)
    before, prepared = 0, None
    for each in ("small", name):
        part = make_part(drawn_graph(each), "u")
        Path("/proc/self/clear_refs").write_text("5")
        before = figure("VmRSS")
        prepared = engine.prepare(part, motif, per)
        engine.run(prepared, 0, prepared.n_items)
    assert prepared is not None
    print(json.dumps([figure("VmHWM") - before, int(prepared.index.hop.size)]))


CASES: list[tuple[str, int, int, Granularity]] = [
    ("many pairs", 3, 3, "vertex"),
    ("few pairs", 0, 0, "total"),
]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are measured on Linux")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "p", "q", "per"), CASES)
def test_cpu_parts_stay_below_what_is_predicted(name: str, p: int, q: int, per: Granularity) -> None:
    threads = 2
    command = f"from {__name__} import measure; measure({name!r}, {p}, {q}, {per!r}, {threads})"
    # What an array took goes back to the system at once, so that nothing hides in what was freed before.
    done = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        check=True,
    )
    measured, n_pairs = json.loads(done.stdout)
    sizes = sizes_of(make_part(drawn_graph(name), "u"))
    found = n_pairs / sizes.root_entries
    assert found <= PAIRS_PER_EDGE
    motif = Biclique(p or None, q or None)
    host, device = BICLIQUES.predict_part(motif, "cpu", per, threads, layer="u", pairs_per_edge=found)
    assumed, _ = BICLIQUES.predict_part(motif, "cpu", per, threads, layer="u")
    # What the search of a thread may take is not taken here.
    assert measured <= host.of(sizes) <= 3 * measured + host.fixed
    assert host.of(sizes) <= assumed.of(sizes)
    assert device == NOTHING


def test_pairs_that_are_counted_or_not_looked_for_take_nothing() -> None:
    def root_entry(motif: Biclique, per: Granularity = "total", layer: Layer | None = None) -> float:
        host, _ = BICLIQUES.predict_part(motif, "cpu", per, 1, layer=layer)
        return host.root_entry

    kept, none = root_entry(Biclique(3, 3)), root_entry(Biclique(2, 2))
    assert kept > none
    assert root_entry(Biclique(2, 3), layer="u") == root_entry(Biclique(max_p=2), layer="u") == none
    assert root_entry(Biclique(1, 3), "vertex") == root_entry(Biclique(4, 1)) == none
    assert root_entry(Biclique(2, 3), layer="v") == root_entry(Biclique(2, 3), "vertex", "u") == kept
    assert root_entry(Biclique(2, 3)) == root_entry(Biclique(3, 2)) == none


@pytest.mark.parametrize("layer", ["u", "v"])
def test_bytes_of_a_raw_part_are_exact(layer: Layer) -> None:
    part = make_part(drawn_graph("small"), layer)
    assert BICLIQUES.raw("total").of(sizes_of(part)) == part.nbytes


@pytest.fixture
def pool() -> Iterator[Any]:
    """Return the pool of device memory, empty; without a limit afterwards."""
    cuda_device()
    import cupy

    found = cupy.get_default_memory_pool()
    found.free_all_blocks()
    yield found
    found.set_limit(size=0)


@pytest.mark.gpu
@pytest.mark.parametrize("per", ["total", "vertex"])
@pytest.mark.parametrize("name", ["many pairs", "few pairs"])
def test_gpu_parts_run_within_what_is_predicted(pool: Any, name: str, per: Granularity) -> None:
    """A limit of what is predicted, with the pairs that there are, is enough for the same answer."""
    from papilio.kernels.biclique.cpu import BicliqueCpu
    from papilio.kernels.biclique.gpu import BicliqueGpu
    from papilio.kernels.device.cuda import CudaDevice

    motif, part = Biclique(3, 3), make_part(drawn_graph(name), "u")
    cpu = BicliqueCpu()
    on_cpu = cpu.prepare(part, motif, per)
    wanted = cpu.run(on_cpu, 0, on_cpu.n_items)
    sizes = sizes_of(part)
    found = on_cpu.index.hop.size / sizes.root_entries
    _, device = BICLIQUES.predict_part(motif, "gpu", per, 1, layer="u", pairs_per_edge=found)
    used = int(pool.used_bytes())
    limit = used + (BICLIQUES.staged + device).of(sizes)
    engine = BicliqueGpu(CudaDevice(limit))
    staged = engine.stage(part)
    assert pool.used_bytes() - used <= BICLIQUES.staged.of(sizes)
    prepared = engine.prepare(staged, motif, per)
    got = engine.run(prepared, 0, prepared.n_items)
    assert pool.total_bytes() <= limit
    assert (got.n_items, got.total) == (wanted.n_items, wanted.total)
    for layer, vector in wanted.vectors.items():
        np.testing.assert_array_equal(got.vectors[layer], vector)
