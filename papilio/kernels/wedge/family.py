"""What the layers above know about butterflies, signed or not, 4-cycles, and submatrices that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from papilio.kernels.engine import Engine
from papilio.kernels.memory import SUBMATRICES, WEDGES
from papilio.kernels.motif_row import MotifRow, PartitionSupport, rates_of
from papilio.motifs import (
    CENSUS_CLASSES,
    BalancedButterfly,
    Butterfly,
    Cell,
    Census,
    Checkerboard,
    FourCycle,
    Togetherness,
)


def _cpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.cpu import ButterflyCpu

    return ButterflyCpu


def _gpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.gpu import ButterflyGpu

    return ButterflyGpu


def _signed_cpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.cpu import BalancedButterflyCpu

    return BalancedButterflyCpu


def _signed_gpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.gpu import BalancedButterflyGpu

    return BalancedButterflyGpu


def _cycles_cpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.cycles import FourCycleCpu

    return FourCycleCpu


def _submatrices_cpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.submatrices import SubmatrixCpu

    return SubmatrixCpu


def _submatrices_gpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.submatrices import SubmatrixGpu

    return SubmatrixGpu


def _cycles_gpu() -> Callable[..., Engine]:
    from papilio.kernels.wedge.gpu import FourCycleGpu

    return FourCycleGpu


def _wedge_members(motif: Butterfly | BalancedButterfly | Census, cell: Cell) -> dict[str, int]:
    return {"u": 2, "v": 2, "edge": 4}


BUTTERFLY = MotifRow(
    Butterfly,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=WEDGES,
    members=_wedge_members,
    # CPU, on the graphs of the shares: 2.5e8 (sparse) to 1.4e9 (dense) per second and thread. One H200: 4.8e11 on
    # MovieLens-1M, 5.5e11 on R-MAT.
    rates=rates_of("wedges", 5.0e8, 5.0e11),
    parted=PartitionSupport(
        "wedges",
        least_sizes=lambda motif: (2, 2),
    ),
)

BALANCED_BUTTERFLY = MotifRow(
    BalancedButterfly,
    engines={"cpu": _signed_cpu, "gpu": _signed_gpu},
    memory=WEDGES,
    members=_wedge_members,
    # 0.9 of the rate of butterflies on a CPU, on the same graphs. GPU: by the same ratio; measured on one H200: 0.5
    # to 1.0.
    rates=rates_of("wedges", 4.5e8, 4.5e11),
)

FOUR_CYCLE = MotifRow(
    FourCycle,
    engines={"cpu": _cycles_cpu, "gpu": _cycles_gpu},
    memory=WEDGES,
    members=lambda motif, cell: {"n": 4, "edge": 4},
    rates=BUTTERFLY.rates,
    graph_kind="unipartite",
    parted=PartitionSupport("cycles", least_sizes=lambda motif: (2, 2)),
)

CHECKERBOARD = MotifRow(
    Checkerboard,
    engines={"cpu": _submatrices_cpu, "gpu": _submatrices_gpu},
    memory=SUBMATRICES,
    members=lambda motif, cell: {"u": 2, "v": 2},
    rates=BUTTERFLY.rates,
)

TOGETHERNESS = replace(CHECKERBOARD, motif=Togetherness)

CENSUS = MotifRow(
    Census,
    engines={"cpu": _signed_cpu, "gpu": _signed_gpu},
    memory=WEDGES,
    members=_wedge_members,
    # 0.3 of the rate of butterflies on a CPU. GPU: by the same ratio; measured on one H200: 0.1 to 1.1.
    rates=rates_of("wedges", 1.5e8, 1.5e11),
    classes=CENSUS_CLASSES,
)
