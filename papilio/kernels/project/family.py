"""What the layers above know about projections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from papilio.kernels.engine import Engine
from papilio.kernels.memory import PROJECTIONS
from papilio.kernels.motif_row import ListingSupport, MotifRow, no_members, rates_of
from papilio.motifs import Projection


def _cpu() -> Callable[..., Engine]:
    from papilio.kernels.project.cpu import ProjectionCpu

    return ProjectionCpu


def _gpu() -> Callable[..., Engine]:
    from papilio.kernels.project.gpu import ProjectionGpu

    return ProjectionGpu


def _sampled_cpu() -> Callable[..., Engine]:
    from papilio.kernels.project.sampled import SampledProjectionCpu

    return SampledProjectionCpu


def _signed_cpu() -> Callable[..., Engine]:
    from papilio.kernels.project.signed import SignedProjectionCpu

    return SignedProjectionCpu


def _pair_columns(motif: Projection) -> dict[str, int | None]:
    return {motif.layer: 2}


def _pair_numbers(motif: Projection) -> dict[str, str]:
    if motif.needs_signs:
        return {**dict.fromkeys(("common", "concordant", "discordant", "sign"), "int32"), "p": "double"}
    weight = {} if motif.weighting is None else {"weight": "double"}
    return {"common": "int32", **weight, **({} if motif.significance is None else {"p": "double"})}


_PAIR_RATES = rates_of("wedges", 1.3e8, 7e9)
"""CPU: on yelp2018, both layers, pairs with 2 or more in common. GPU: the same, one H200, while listing."""

_PAIR_LISTING_RATES = rates_of("steps", 4e7, 3.5e8)
"""The same with the rows, which are steps as wedges are, and written to files. GPU: one H200, 16 cores."""

PROJECTION = MotifRow(
    Projection,
    engines={"cpu": _cpu, "gpu": _gpu},
    memory=PROJECTIONS,
    members=no_members,
    rates=_PAIR_RATES,
    listed=ListingSupport(
        {"cpu": _cpu, "gpu": _gpu},
        columns=_pair_columns,
        numbers=_pair_numbers,
        rates=_PAIR_LISTING_RATES,
    ),
)

_SAMPLED_LISTING = ListingSupport(
    {"cpu": _sampled_cpu}, columns=_pair_columns, numbers=_pair_numbers, rates=_PAIR_LISTING_RATES
)

SAMPLED_PROJECTION = replace(
    PROJECTION,
    engines={"cpu": _sampled_cpu},
    listed=_SAMPLED_LISTING,
    has_small_way=True,
    condition=' with significance "degrees"',
)
"""Of projections that are compared with random graphs."""

SIGNED_PROJECTION = replace(
    PROJECTION,
    engines={"cpu": _signed_cpu},
    listed=ListingSupport(
        {"cpu": _signed_cpu}, columns=_pair_columns, numbers=_pair_numbers, rates=_PAIR_LISTING_RATES
    ),
    condition=' with significance "signs"',
)
"""Of projections that test the signs of pairs."""
