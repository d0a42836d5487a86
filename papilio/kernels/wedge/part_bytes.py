"""Memory that engines need for a part, as a sum over its sizes: what cutters and plans go by.

Upper bounds, tested against measured peaks. What a process has before it prepares a part (interpreter, imported
libraries, compiled kernels, the context of a driver) is not in them.
"""

from __future__ import annotations

from papilio.kernels.engine import EngineName
from papilio.motifs import Biclique, Granularity
from papilio.parts import Layer, PartBytes

__all__ = [
    "PAIRS_PER_EDGE",
    "predict_root_part",
    "predict_wedge_part",
    "raw_root_part",
    "raw_wedge_part",
    "staged_root_part",
    "staged_wedge_part",
]

PAIRS_PER_EDGE = 16
"""Pairs of vertices with enough common neighbours that each edge of a root is assumed to bring; measured: 0.5 to 15."""

_PAIR_BYTES = 24
_DEVICE_PAIR_BYTES = 36
"""A pair while they are laid into rows, on the host; while they are sorted, on a device, with what that leaves free."""

_SEARCH_BYTES = 16 << 20
"""What one thread searches bicliques in: what is around a root, lists of candidates, tables of leaves."""

_THREAD_BYTES = 1 << 20
"""Of a thread of the CPU engine: what its allocator keeps, and its stack as far as it is used."""

_FEW_THREADS = 4
"""Up to here the vectors of all threads are counted, beyond it the memory that bounds their number."""

_DEVICE_FIXED_BYTES = 48 << 20
"""Of any part on a device: tables of one slice of the schedule, and what the pool rounds up."""


_PINNED_BYTES = 97 << 20
"""Of any part on the host of a device: buffers through which large arrays are copied, and what is small."""


def raw_wedge_part(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.WedgePart` on the host; an end counts as a middle."""
    edge = 8 if per == "edge" else 0
    return PartBytes(16, 24, 4 + edge, 16, 4 + edge)


def staged_wedge_part() -> PartBytes:
    """Return the bytes of a staged :class:`~papilio.parts.WedgePart` on the device.

    Ids, edge ids and work stay on the host.
    """
    return PartBytes(6 << 9, 12, 4, 12, 4)


def predict_wedge_part(engine: EngineName, per: Granularity, threads: int) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    Parameters
    ----------
    engine : {"cpu", "gpu"}
    per : {"total", "vertex", "edge"}
    threads : int
        Of the cpu engine.
    """
    edge = 8 if per == "edge" else 0
    vertex = 8 if per == "vertex" else 0
    if engine == "gpu":
        host = PartBytes(_PINNED_BYTES, 8 + vertex, edge, vertex, edge)
        return host, PartBytes(_DEVICE_FIXED_BYTES, 120 + vertex, 8 + edge, 12 + vertex, edge)
    # Threads have vectors of their own: few threads, or as many as 8 bytes per entry allow.
    few = threads <= _FEW_THREADS
    rows = vertex * (threads + 1 if few else 2)
    more = 0 if few else vertex
    # A middle has an offset and two entries of the table that finds it, an end two counters of each thread.
    each = max(16, 5 * threads)
    host = PartBytes(_THREAD_BYTES * threads, 56 + rows, 8 + edge + more, each + rows, edge + more)
    return host, PartBytes(0, 0, 0, 0, 0)


def raw_root_part() -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.RootPart` on the host."""
    return PartBytes(0, 16, 8, 4, 8)


def staged_root_part() -> PartBytes:
    """Return the bytes of a staged :class:`~papilio.parts.RootPart` on the device: its edges."""
    return PartBytes(2 << 9, 0, 8, 0, 8)


def predict_root_part(
    engine: EngineName,
    motif: Biclique,
    per: Granularity,
    threads: int,
    *,
    layer: Layer | None = None,
    pairs_per_edge: float = PAIRS_PER_EDGE,
) -> tuple[PartBytes, PartBytes]:
    """Return the most host and device memory that preparing and running one part takes, without the part itself.

    Pairs of vertices are most of it, and no size of a part tells how many it has: ``pairs_per_edge`` for each edge of
    a root are assumed. The engines refuse more than memory has room for as they find them, and on a device the search
    takes what is left.

    Parameters
    ----------
    engine : {"cpu", "gpu"}
    motif : Biclique
    per : {"total", "vertex"}
    threads : int
        Of the cpu engine.
    layer : {"u", "v"}, optional
        Layer of the roots; by default the one of which two vertices are taken, if there is one.
    pairs_per_edge : float
    """
    pairs = pairs_per_edge if _keeps_pairs(motif, per, layer) else 0
    vector = 8 if per == "vertex" else 0
    if engine == "gpu":
        host = PartBytes(
            16 << 20, 150 + 2 * vector, 16 if vector else 0, 24 + 2 * vector, 16 if vector else 0
        )
        vertex = 100 + vector
        device = PartBytes(_DEVICE_FIXED_BYTES, vertex + 60, 52 + pairs * _DEVICE_PAIR_BYTES, vertex, 52)
        return host, device
    vertex = 30 + 12 * threads + vector * (1 + threads)
    host = PartBytes(_SEARCH_BYTES * threads, vertex + 60, 40 + pairs * _PAIR_BYTES, vertex, 40)
    return host, PartBytes(0, 0, 0, 0, 0)


def _keeps_pairs(motif: Biclique, per: Granularity, layer: Layer | None) -> bool:
    """Return whether pairs of roots and others are kept: not where stars are all, or pairs that are only counted."""
    most_p, most_q = motif.p or motif.max_p, motif.q or motif.max_q
    if 1 in (most_p, most_q):
        return False
    of_two = [most == 2 for most, side in ((most_p, "u"), (most_q, "v")) if layer in (None, side)]
    return per == "vertex" or not any(of_two)
