"""What the layers above know about (p,q)-bicliques, signed or not."""

from __future__ import annotations

from collections.abc import Callable

from papilio.kernels.engine import Engine
from papilio.kernels.memory import BICLIQUES
from papilio.kernels.motif_row import ListingSupport, MotifRow, PartitionSupport
from papilio.motifs import BalancedBiclique, Biclique, Cell


def _cpu() -> Callable[..., Engine]:
    from papilio.kernels.biclique.cpu import BicliqueCpu

    return BicliqueCpu


def _gpu() -> Callable[..., Engine]:
    from papilio.kernels.biclique.gpu import BicliqueGpu

    return BicliqueGpu


def _lister() -> Callable[..., Engine]:
    from papilio.kernels.biclique.list import BicliqueLister

    return BicliqueLister


def _biclique_members(motif: Biclique, cell: Cell) -> dict[str, int]:
    return {"u": motif.p, "v": motif.q} if motif.p and motif.q else {}


def _biclique_columns(motif: Biclique) -> dict[str, int | None]:
    return {"u": motif.p, "v": motif.q} if motif.p and motif.q else {}


BICLIQUE = MotifRow(
    Biclique,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=BICLIQUES,
    members=_biclique_members,
    same_work=False,
    listed=ListingSupport(
        {"cpu": _lister},
        columns=_biclique_columns,
    ),
    parted=PartitionSupport(
        "roots",
        least_sizes=lambda motif: (motif.p or 1, motif.q or 1),
    ),
)

BALANCED_BICLIQUE = MotifRow(
    BalancedBiclique,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=BICLIQUES,
    members=_biclique_members,
    same_work=False,
)
