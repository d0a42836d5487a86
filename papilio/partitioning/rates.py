"""How fast each engine works: the constants that turn work units into predicted seconds.

They only size leases and progress bars; no count depends on them. A rate that is wrong by a factor of three
makes leases three times too long or too short, which the guided split forgives.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkRate", "work_rate"]


@dataclass(frozen=True)
class WorkRate:
    """Speed of one motif on one kind of processor.

    Attributes
    ----------
    unit : str
        What one unit of work is, in the plural.
    per_second : float
        Units per second of one CPU thread (``cpu``) or of one device (``gpu``) for a plain count.
    vector_share : float
        Speed of a per-vertex or per-edge run as a share of ``per_second``: those traverse twice.
    """

    unit: str
    per_second: float
    vector_share: float


_RATES: dict[tuple[str, str], WorkRate] = {
    ("butterfly", "cpu"): WorkRate("wedges", 4.0e8, 0.4),
    ("butterfly", "gpu"): WorkRate("wedges", 2.0e11, 0.4),
}
_FALLBACK = {"cpu": WorkRate("units", 1.0e8, 0.4), "gpu": WorkRate("units", 5.0e10, 0.4)}


def work_rate(motif: str, engine: str) -> WorkRate:
    """Return the row of ``motif`` on ``engine`` (``cpu`` or ``gpu``), or the generic one of that engine."""
    return _RATES.get((motif, engine), _FALLBACK[engine])
