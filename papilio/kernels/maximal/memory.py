"""Memory that maximal bicliques take, on a whole graph: what (p,q)-bicliques take, and rows of the earlier vertices."""

from __future__ import annotations

from papilio.kernels.biclique import memory
from papilio.kernels.engine import EngineName
from papilio.kernels.memory import ID, CountedGraph


def predict_graph(job: CountedGraph, engine: EngineName, threads: int) -> tuple[int, int]:
    """Return the peak of host and of device memory, in bytes, with the whole graph in memory.

    Beside the index, and one search for each thread or device, every pair is kept from both of its ends; on the host of
    a GPU there is none, as the index is built on the device.
    """
    host, device = memory.predict_graph(job, engine, threads)
    pairs = 2 * memory.PAIRS_PER_EDGE * job.n_edges * 2 * ID
    return (host + pairs, 0) if engine == "cpu" else (host, device + pairs)
