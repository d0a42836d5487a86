"""Memory that a count of bicliques is predicted to need."""

from __future__ import annotations

from typing import Any

import pytest

from papilio.errors import CapacityError
from papilio.kernels.engine import load_engine
from papilio.motifs import Biclique, Listing
from papilio.tasks.forecast import predict_memory
from papilio.tasks.memory import require_memory
from tests.strategies import planted_graph
from tests.tasks.fakes import make_job, make_worker


def test_bicliques_are_given_room_for_pairs_of_vertices() -> None:
    sizes = {"n_u": 10**5, "n_v": 10**5, "n_edges": 10**6}
    one = make_job(**sizes, motif=Biclique(3, 3))
    cpu, more_threads = predict_memory(one, "cpu", 1), predict_memory(one, "cpu", 8)
    assert cpu.host_bytes > 16 * 10**6 * 8
    assert cpu.device_bytes == 0 < more_threads.host_bytes - cpu.host_bytes
    vertex = predict_memory(make_job(**sizes, motif=Biclique(3, 3), per="vertex"), "cpu", 1)
    assert vertex.host_bytes > cpu.host_bytes
    listing = predict_memory(make_job(**sizes, motif=Biclique(3, 3), listing=Listing(5)), "cpu", 1)
    assert listing.host_bytes > cpu.host_bytes + 2 * 10**5 * 8 + (4 << 20)
    gpu = predict_memory(one, "gpu")
    assert gpu.device_bytes > 2 << 30
    worker = make_worker(memory_bytes=1 << 42, gpu="GPU", gpu_memory_bytes=1 << 30, gpu_missing=None)
    with pytest.raises(CapacityError, match="of device memory"):
        require_memory(one, "gpu", (worker,))


def test_the_memory_of_a_count_of_bicliques_is_predicted_from_above() -> None:
    graph = planted_graph(3, 2000, 1500, blocks=40, block_side=12, noise_edges=9000, missing=0.1)
    engine: Any = load_engine(Biclique(3, 3), "cpu", 1)
    prepared = engine.prepare(graph, Biclique(3, 3), "total")
    job = make_job(n_u=graph.n_u, n_v=graph.n_v, n_edges=graph.n_edges, motif=Biclique(3, 3))
    assert prepared.nbytes < predict_memory(job, "cpu", 1).host_bytes - (350 << 20)
