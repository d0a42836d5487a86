"""How fast each engine works: the constants that turn work units into predicted seconds.

They only size leases and progress bars; no count depends on them. A rate that is wrong by a factor of three
makes leases three times too long or too short, which the guided split forgives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["WorkRate", "predict_speed", "work_rate"]


@dataclass(frozen=True)
class WorkRate:
    """Speed of one motif on one kind of processor.

    Attributes
    ----------
    unit : str
        What one unit of work is, in the plural.
    per_second : float
        Units per second of one CPU thread (``cpu``) or of one device (``gpu``) for a plain count.
    share : mapping of str to float
        Speed by granularity (``total``, ``vertex``, ``edge``) as a share of ``per_second``: vectors need further
        traversals.
    """

    unit: str
    per_second: float
    share: Mapping[str, float]


_CPU_SHARE = {"total": 1.0, "vertex": 0.45, "edge": 0.15}
"""Measured on MovieLens-1M, an R-MAT graph and a complete graph: 0.39 to 0.46 and 0.13 to 0.23."""

_GPU_SHARE = {"total": 1.0, "vertex": 0.15, "edge": 0.15}
"""Measured on one H200, on R-MAT and MovieLens-1M: 0.13 to 0.21; only a total can use the hub columns."""

_RATES: dict[tuple[str, str], WorkRate] = {
    ("balanced-butterfly", "cpu"): WorkRate("wedges", 4.5e8, _CPU_SHARE),
    ("balanced-butterfly", "gpu"): WorkRate("wedges", 4.5e11, _GPU_SHARE),
    ("census", "cpu"): WorkRate("wedges", 1.5e8, _CPU_SHARE),
    ("census", "gpu"): WorkRate("wedges", 1.5e11, _GPU_SHARE),
    ("butterfly", "cpu"): WorkRate("wedges", 5.0e8, _CPU_SHARE),
    ("butterfly", "gpu"): WorkRate("wedges", 5.0e11, _GPU_SHARE),
    ("balanced-biclique", "cpu"): WorkRate("set operations", 2.0e7, _CPU_SHARE),
    ("balanced-biclique", "gpu"): WorkRate("set operations", 2.0e9, _GPU_SHARE),
    ("biclique", "cpu"): WorkRate("set operations", 2.0e7, _CPU_SHARE),
    ("biclique listing", "cpu"): WorkRate("steps", 5.0e6, _CPU_SHARE),
    ("biclique", "gpu"): WorkRate("set operations", 2.0e9, _GPU_SHARE),
}
"""CPU, on the same graphs: 2.5e8 (sparse) to 1.4e9 (dense) wedges per second and thread. One H200: 4.8e11 on
MovieLens-1M, 5.5e11 on R-MAT.

Balanced butterflies: 0.9 of the rate of butterflies on a CPU, on the same graphs; a census 0.3. GPU: by the same
ratios; measured on one H200: 0.5 to 1.0, and 0.1 to 1.1.

Bicliques: predicted set operations, which leave out how deep the search goes. CPU: 5e6 (all sizes of marvel) to 1.3e8
((3,3) of movielens-100k) per second and thread. GPU: the CPU's rate by the ratio of set
operations per second of both, not measured as a whole. Listings: set operations and rows; 2e6 to 1e7 per second and
thread, nine tenths of the time for writing them."""

_FALLBACK = {"cpu": WorkRate("units", 1.0e8, _CPU_SHARE), "gpu": WorkRate("units", 5.0e10, _GPU_SHARE)}


def work_rate(motif: str, engine: str) -> WorkRate:
    """Return the row of ``motif`` on ``engine`` (``cpu`` or ``gpu``), or the generic one of that engine."""
    return _RATES.get((motif, engine), _FALLBACK[engine])


def predict_speed(motif: str, engine: str, per: str, threads: int) -> float:
    """Return the work units per second of one worker, before anything was measured."""
    rate = work_rate(motif, engine)
    return rate.per_second * rate.share[per] * (threads if engine == "cpu" else 1)
