"""Decompositions on the GPU: index, peel and span there; the host builds the forest from the pairs that span it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.peel.components import Forest
from papilio.kernels.peel.decomposers import Decomposed, finish_forest
from papilio.kernels.peel.gpu_forest import span_tips, span_wings
from papilio.kernels.peel.gpu_rounds import PeelIndex, PeelTuning, peel_on_gpu
from papilio.kernels.peel.gpu_tip import index_tip_gpu
from papilio.kernels.peel.gpu_wing import index_wing_gpu
from papilio.kernels.peel.phases import Layer, PeelingKind, Report


def decompose_on_gpu(
    device: Device,
    graph: BipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    with_forest: bool,
    report: Report,
    n_ranges: int | None = None,
    tuning: PeelTuning | None = None,
) -> Decomposed:
    """Decompose a graph on a device.

    The parameters are those of :func:`papilio.kernels.peel.decomposers.decompose_graph`; ``n_ranges`` and ``tuning``
    as in :func:`~papilio.kernels.peel.gpu_rounds.peel_on_gpu`.
    """
    began = perf_counter()
    report("index", 0, 1)
    with device.guard(), ThreadPoolExecutor(1) as beside:
        if with_forest:
            device.load("forest", {})
            # Imported here and not by that thread: a module may be half imported where two threads import.
            from papilio.kernels.peel.forest import build_tip_forest, build_wing_forest

            loading = beside.submit(_load_forest, build_tip_forest)  # while the device works
        index: PeelIndex
        if kind == "wing":
            index = blooms = index_wing_gpu(device, graph)

            def build() -> Forest:
                spanning = span_wings(device, blooms, peeled.numbers)
                loading.result()
                if spanning is not None:
                    return build_tip_forest(peeled.numbers, *spanning)
                links = blooms.wedges
                return build_wing_forest(
                    peeled.numbers,
                    device.to_host(links.link_offsets),
                    device.to_host(links.link_segment),
                    device.to_host(links.link_twin),
                    blooms.n_blooms,
                )

        else:
            assert layer is not None
            index = pairs = index_tip_gpu(device, graph, layer)

            def build() -> Forest:
                spanning = span_tips(device, pairs, peeled.numbers)
                loading.result()
                if spanning is not None:
                    return build_tip_forest(peeled.numbers, *spanning)
                on_host = (device.to_host(pairs.offsets), device.to_host(pairs.others))
                return build_tip_forest(peeled.numbers, *on_host)

        device.synchronize()
        index_s = perf_counter() - began
        peeled = peel_on_gpu(device, index, report, n_ranges, tuning)
        return finish_forest(peeled, index_s, build if with_forest else None, report)


def _load_forest(build: Callable[..., Forest]) -> None:
    """Load or compile the loops of forests, by building the forest of one pair."""
    build(np.ones(2, np.uint64), np.arange(3), np.array([1, 0], np.int32))
