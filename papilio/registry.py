"""The registry: one row per motif, with all its facts for the layers above the kernels.

A new family is a folder in ``kernels`` with its rows in ``family.py``, a dataclass in :mod:`papilio.motifs` for each
motif, and the rows here.
"""

from __future__ import annotations

from typing import Any

from papilio.errors import UnsupportedError
from papilio.extras import missing_package
from papilio.kernels.biclique.family import BALANCED_BICLIQUE, BICLIQUE
from papilio.kernels.clique.family import CLIQUE, MAXIMAL_CLIQUE
from papilio.kernels.engine import ENGINES, Engine, EngineName
from papilio.kernels.maximal.family import MAXIMAL_BICLIQUE
from papilio.kernels.motif_row import MotifRow
from papilio.kernels.project.family import PROJECTION, SAMPLED_PROJECTION, SIGNED_PROJECTION
from papilio.kernels.wedge.family import (
    BALANCED_BUTTERFLY,
    BUTTERFLY,
    CENSUS,
    CHECKERBOARD,
    FOUR_CYCLE,
    TOGETHERNESS,
)
from papilio.motifs import Listing, Motif, Projection, choose_options

_ROWS = (
    BUTTERFLY, BALANCED_BUTTERFLY, CENSUS, BICLIQUE, BALANCED_BICLIQUE, CLIQUE, FOUR_CYCLE, MAXIMAL_CLIQUE,
    MAXIMAL_BICLIQUE, PROJECTION, CHECKERBOARD, TOGETHERNESS,
)  # fmt: skip

MOTIF_ROWS: dict[str, MotifRow] = {row.motif.name: row for row in _ROWS}
"""The rows, by the name of the motif."""


def motif_row(motif: Motif) -> MotifRow:
    """Return the row of a motif, or raise UnsupportedError."""
    if motif.name not in MOTIF_ROWS:
        raise UnsupportedError(f"motif {motif.name!r} has no engine; known: {', '.join(MOTIF_ROWS)}")
    if isinstance(motif, Projection) and motif.samples is not None:
        return SAMPLED_PROJECTION
    if isinstance(motif, Projection) and motif.needs_signs:
        return SIGNED_PROJECTION
    return MOTIF_ROWS[motif.name]


def load_engine(
    motif: Motif,
    name: EngineName,
    threads: int | None = None,
    *,
    memory_bytes: int | None = None,
    listing: Listing | None = None,
    **options: str,
) -> Engine:
    """Return the engine that counts ``motif`` on ``name``, or lists it; imports CuPy or Numba only now.

    Raises EngineUnavailableError if CuPy or a device is missing, UnsupportedError or InputError if the motif has no
    such engine or option.

    Parameters
    ----------
    threads : int, optional
        Number of threads of the cpu engine; by default all processors that this process may use.
    memory_bytes : int, optional
        Maximum device memory for arrays of the gpu engine, for all engines of this process together.
    listing : Listing, optional
        If set, the engine lists: its ``run`` has an additional parameter ``sink`` for the rows.
    **options : str
        See ``Motif.choices``.
    """
    if name not in ENGINES:
        raise UnsupportedError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    row, chosen = motif_row(motif), dict[str, Any](choose_options(motif, options))
    engines = row.engines
    if listing is not None:
        row.columns(motif)
        assert row.listed is not None
        engines, chosen["listing"] = row.listed.engines, listing
    if name not in engines:
        can = "" if listing is None else f" for listings, only for {' or '.join(engines)}"
        raise UnsupportedError(f"motif {motif.name!r} has no {name} engine{can}")
    if name == "cpu":
        return engines[name]()(threads, **chosen)
    try:
        from papilio.kernels.device.cuda import shared_device

        gpu_class = engines[name]()
    except ImportError as error:
        raise missing_package("the gpu engine needs", "cupy", f"use --engine cpu ({error})") from error
    return gpu_class(shared_device(memory_bytes), **chosen)
