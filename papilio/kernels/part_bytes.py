"""Memory that engines need for a part, as a sum over its sizes: what cutters and plans go by.

Upper bounds, tested against measured peaks. What a process has before it prepares a part (interpreter, imported
libraries, compiled kernels, the context of a driver) is not in them.
"""

from __future__ import annotations

from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity
from papilio.parts import PartBytes

__all__ = ["predict_wedge_part", "raw_wedge_part", "staged_wedge_part"]

_THREAD_BYTES = 1 << 20
"""Of a thread of the CPU engine: what its allocator keeps, and its stack as far as it is used."""

_DEVICE_FIXED_BYTES = 48 << 20
"""Of any part on a device: tables of one slice of the schedule, and what the pool rounds up."""


def raw_wedge_part(per: Granularity) -> PartBytes:
    """Return the bytes of the arrays of a :class:`~papilio.parts.WedgePart` on the host."""
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
        host = PartBytes(1 << 20, 8 + 2 * vertex, 2 * edge, 2 * vertex, 2 * edge)
        return host, PartBytes(_DEVICE_FIXED_BYTES, 120 + 2 * vertex, 8 + edge, 8 + 2 * vertex, edge)
    # A middle has an offset and an entry of the table that finds it, an end two counters of each thread.
    more = 8 if vertex and threads > 1 else 0
    each = max(12, 5 * threads)
    host = PartBytes(
        _THREAD_BYTES * threads, 56 + 2 * vertex, 8 + edge + more, each + 2 * vertex, edge + more
    )
    return host, PartBytes(0, 0, 0, 0, 0)
