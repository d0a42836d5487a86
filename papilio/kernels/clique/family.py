"""What the layers above know about k-cliques and maximal cliques."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

from papilio.kernels.engine import Engine
from papilio.kernels.memory import CLIQUES
from papilio.kernels.motif_row import ListingSupport, MotifRow, PartitionSupport, no_members
from papilio.motifs import Cell, Clique, MaximalClique


def _cpu() -> Callable[..., Engine]:
    from papilio.kernels.clique.cpu import CliqueCpu

    return CliqueCpu


def _gpu() -> Callable[..., Engine]:
    from papilio.kernels.clique.gpu import CliqueGpu

    return CliqueGpu


def _lister() -> Callable[..., Engine]:
    from papilio.kernels.clique.list import CliqueLister

    return CliqueLister


def _gpu_lister() -> Callable[..., Engine]:
    from papilio.kernels.clique.list_gpu import CliqueGpuLister

    return CliqueGpuLister


def _maximal_cpu() -> Callable[..., Engine]:
    from papilio.kernels.clique.cpu import MaximalCliqueCpu

    return MaximalCliqueCpu


def _maximal_gpu() -> Callable[..., Engine]:
    from papilio.kernels.clique.gpu import MaximalCliqueGpu

    return MaximalCliqueGpu


def _maximal_lister() -> Callable[..., Engine]:
    from papilio.kernels.clique.list import MaximalCliqueLister

    return MaximalCliqueLister


def _maximal_gpu_lister() -> Callable[..., Engine]:
    from papilio.kernels.clique.list_gpu import MaximalCliqueGpuLister

    return MaximalCliqueGpuLister


def _clique_members(motif: Clique, cell: Cell) -> dict[str, int]:
    return {"n": motif.k, "edge": comb(motif.k, 2)} if motif.k else {}


def _clique_columns(motif: Clique) -> dict[str, int | None]:
    return {"n": motif.k} if motif.k else {}


CLIQUE = MotifRow(
    Clique,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=CLIQUES,
    members=_clique_members,
    graph_kind="unipartite",
    key=("k",),
    same_work=False,
    listed=ListingSupport(
        {"cpu": _lister, "gpu": _gpu_lister},
        columns=_clique_columns,
    ),
    parted=PartitionSupport(
        "cliques",
        least_sizes=lambda motif: (motif.k or 1, 1),
    ),
)

MAXIMAL_CLIQUE = MotifRow(
    MaximalClique,
    engines={"cpu": _maximal_cpu, "gpu": _maximal_gpu},
    memory=CLIQUES,
    members=no_members,
    graph_kind="unipartite",
    key=("k",),
    same_work=False,
    listed=ListingSupport(
        {"cpu": _maximal_lister, "gpu": _maximal_gpu_lister},
        columns=lambda motif: {"n": None},
    ),
    parted=PartitionSupport(
        "maximal-cliques",
        least_sizes=lambda motif: (motif.min_size, 1),
    ),
    has_checksum=True,
)
