"""How much memory a run on the whole graph needs, from the sizes of the graph alone, before anything is read.

The formulas are sums of ``bytes per edge * edges + bytes per vertex * vertices`` over the arrays that are
alive at the peak, with the widths that the engines use. They leave out what depends on the shape of the graph
(all of it small) and are meant to be above the measured peak, by less than a factor of two on graphs that
matter.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from papilio.kernels.engine import EngineName
from papilio.kernels.wedge.part_bytes import PAIRS_PER_EDGE
from papilio.motifs import Biclique
from papilio.tasks.job import JobSpec

__all__ = ["CONTEXT_BYTES", "PROCESS_BYTES", "MemoryForecast", "gib", "predict_memory"]

PROCESS_BYTES = {"cpu": 350 << 20, "gpu": 900 << 20}
"""An idle worker after its imports (Python, NumPy, Arrow, Dask, and Numba or CuPy with a CUDA context)."""

CONTEXT_BYTES = 768 << 20
"""Device memory of a CUDA context with its modules."""

_SEARCH_BYTES = 32 << 20
"""What one thread searches bicliques in."""

_DEVICE_SEARCH_BYTES = 2 << 30
"""What a device searches bicliques in: local matrices, stacks and tables of all its blocks."""

_ROWS_BYTES = 32 << 20
"""What one thread of a listing holds: a block of rows, their names, and the file that it writes."""

_NAME_BYTES = 24
"""Name of a vertex in a listing, and the column of labels that it is read from."""

_SIGNED_COUNTERS = 4
"""Counters of a pair of vertices by the signs at their common neighbours."""

_ID = 4
_OFFSET = 8
_COUNT = 8


@dataclass(frozen=True)
class MemoryForecast:
    """Predicted peak of one worker that runs one lease at a time.

    Attributes
    ----------
    host_bytes : int
        Host memory of the worker process.
    device_bytes : int
        Device memory; 0 for the cpu engine.
    client_bytes : int
        Host memory of the process that folds.
    """

    host_bytes: int
    device_bytes: int
    client_bytes: int

    def to_json(self) -> dict[str, int]:
        """Return the fields as a JSON object."""
        return asdict(self)


def predict_memory(job: JobSpec, engine: EngineName, threads: int = 1) -> MemoryForecast:
    """Predict the peaks of a job on one worker.

    graph (host)        2 ids and perhaps a sign byte per edge
    prepared            both directions: id and prefix length per entry, an edge id for supports; 2 offsets,
                        an order, an item and its cost per vertex, and as much again while it is built
    counters            an id-wide counter and its touch list per vertex of the larger layer and thread; four of them
                        for signed motifs, which need edge ids while they are prepared
    vectors             one count per vertex and thread, or per edge, with the kept starts of each edge

    The gpu engine holds on the device what the cpu engine holds on the host, and the keys of a sort.

    Bicliques have another index, of which the pairs of vertices with enough common neighbours are the part that no
    size of the graph tells: 16 for each edge are assumed (measured: 0.5 to 15), and the engine refuses more than
    memory has room for as it finds them.

    Parameters
    ----------
    job : JobSpec
    engine : str
    threads : int
        Threads of the cpu engine.
    """
    if isinstance(job.motif, Biclique):
        return _predict_biclique(job, engine, threads)
    vertices, edges = job.n_u + job.n_v, job.n_edges
    graph = edges * (2 * _ID + (1 if job.signed else 0))
    entry = 2 * _ID + (_ID if job.per == "edge" or job.motif.needs_signs else 0)
    prepared = 2 * edges * entry + vertices * 2 * (2 * _OFFSET + _ID + 2 * _OFFSET)
    vectors = job.vector_entries * _COUNT
    client = PROCESS_BYTES["cpu"] + 3 * vectors
    if engine == "gpu":
        sort_keys = 2 * edges * 2 * _OFFSET
        device = CONTEXT_BYTES + graph + prepared + sort_keys + 2 * vectors
        return MemoryForecast(PROCESS_BYTES["gpu"] + graph + 2 * vectors, device, client)
    counters = (
        threads * max(job.n_u, job.n_v) * 2 * _COUNT * (_SIGNED_COUNTERS if job.motif.needs_signs else 1)
    )
    per_thread = threads * vectors if job.per == "vertex" else vectors
    kept = 2 * edges * _ID if job.per == "edge" else 0
    host = PROCESS_BYTES["cpu"] + graph + prepared + counters + per_thread + vectors + kept
    return MemoryForecast(host, 0, client)


def _predict_biclique(job: JobSpec, engine: EngineName, threads: int) -> MemoryForecast:
    """Predict the peaks of a count of bicliques.

    cover      of balanced ones: a graph of twice as many vertices and edges is searched
    index      both directions, and a place in the other row per entry, twice while the core is cut out; an order, an
               offset and a count for each vertex; the pairs twice while they are laid out
    search     tables and a stack for each thread, or once on a device
    listing    rows on their way to a file for each thread, a name for each vertex
    """
    copies = 2 if job.motif.needs_signs else 1
    vertices, edges = copies * (job.n_u + job.n_v), copies * job.n_edges
    graph = job.n_edges * (2 * _ID + (1 if job.signed else 0)) + (edges * 2 * _ID if copies > 1 else 0)
    index = 2 * edges * (2 * _ID + _OFFSET) + vertices * 2 * (2 * _OFFSET + 2 * _ID + _COUNT)
    pairs = 2 * PAIRS_PER_EDGE * edges * 2 * _ID
    vectors = job.vector_entries * _COUNT
    client = PROCESS_BYTES["cpu"] + 3 * vectors
    host = PROCESS_BYTES[engine] + graph + index + pairs
    if job.listing is not None:
        host += threads * _ROWS_BYTES + 2 * vertices * _NAME_BYTES
    if engine == "gpu":
        device = CONTEXT_BYTES + graph + index + pairs // 2 + _DEVICE_SEARCH_BYTES + 2 * vectors
        return MemoryForecast(host + 2 * vectors, device, client)
    return MemoryForecast(host + threads * (_SEARCH_BYTES + vectors) + vectors, 0, client)


def gib(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    return f"{n_bytes / 2**30:.2f} GiB"
