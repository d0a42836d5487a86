"""What the layers above know about maximal bicliques."""

from __future__ import annotations

from collections.abc import Callable

from papilio.kernels.engine import Engine
from papilio.kernels.memory import MAXIMAL_BICLIQUES
from papilio.kernels.motif_row import ListingSupport, MotifRow, PartitionSupport, no_members
from papilio.motifs import MaximalBiclique


def _cpu() -> Callable[..., Engine]:
    from papilio.kernels.maximal.cpu import MaximalBicliqueCpu

    return MaximalBicliqueCpu


def _gpu() -> Callable[..., Engine]:
    from papilio.kernels.maximal.gpu import MaximalBicliqueGpu

    return MaximalBicliqueGpu


def _lister() -> Callable[..., Engine]:
    from papilio.kernels.maximal.list import MaximalBicliqueLister

    return MaximalBicliqueLister


def _gpu_lister() -> Callable[..., Engine]:
    from papilio.kernels.maximal.list_gpu import MaximalBicliqueGpuLister

    return MaximalBicliqueGpuLister


MAXIMAL_BICLIQUE = MotifRow(
    MaximalBiclique,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=MAXIMAL_BICLIQUES,
    members=no_members,
    same_work=False,
    listed=ListingSupport(
        {"cpu": _lister, "gpu": _gpu_lister},
        columns=lambda motif: {"u": None, "v": None},
    ),
    parted=PartitionSupport(
        "maximal-bicliques",
        least_sizes=lambda motif: (motif.min_u, motif.min_v),
    ),
    has_checksum=True,
)
