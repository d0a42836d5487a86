"""Decompose a graph on either engine, with the same numbers and the same forest.

Each engine indexes the graph and peels it. The host builds the forest, from the CPU index or from the pairs that span
the items on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from papilio.extras import missing_package
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import EngineName
from papilio.kernels.peel.core import fix_layer, index_core, peel_core
from papilio.kernels.peel.phases import Forest, Layer, Peeled, PeelingKind, Report
from papilio.kernels.threads import choose_threads

if TYPE_CHECKING:
    from papilio.kernels.peel.core_gpu import CoreRowsGpu
    from papilio.kernels.peel.gpu import PeelIndex, PeelTuning
    from papilio.kernels.peel.gpu_index import BloomsGpu, PairsGpu


@dataclass(frozen=True, eq=False)
class Decomposed:
    """Numbers and forest."""

    peeled: Peeled  # Its ``seconds`` also include ``index``, and ``hierarchy`` if there is a forest
    forest: Forest | None  # None if it was not requested


def decompose_graph(
    graph: BipartiteGraph | UnipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    engine: EngineName,
    *,
    least: int | None = None,
    threads: int | None,
    memory_bytes: int | None,
    with_forest: bool,
    report: Report,
) -> Decomposed:
    """Decompose a graph on one engine of this process.

    ``layer`` is the layer of tips, or the one whose vertices need ``least`` neighbours in cores of a bipartite graph.
    ``memory_bytes`` is of the host.
    """
    if engine == "cpu":
        return decompose_on_cpu(graph, kind, layer, threads, memory_bytes, with_forest, report, least=least)
    return decompose_on_gpu(shared_gpu(), graph, kind, layer, with_forest, report, least=least)


def shared_gpu() -> Device:
    """Return the GPU of this process; MissingPackageError without CuPy."""
    try:
        from papilio.kernels.device.cuda import shared_device
    except ImportError as error:
        raise missing_package("the gpu engine needs", "cupy", f"use --engine cpu ({error})") from error
    return shared_device()


def finish_forest(peeled: Peeled, index_s: float, build: Callable[[], Forest] | None, report: Report) -> Decomposed:
    """Build the forest, if requested, and add up the seconds."""
    seconds = {"index": index_s, **peeled.seconds}
    forest = None
    if build is not None:
        began = perf_counter()
        report("hierarchy", 0, 1)
        forest = build()
        seconds["hierarchy"] = perf_counter() - began
    return Decomposed(replace(peeled, seconds=seconds), forest)


def decompose_on_cpu(
    graph: BipartiteGraph | UnipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    threads: int | None,
    memory_bytes: int | None,
    with_forest: bool,
    report: Report,
    n_ranges: int | None = None,
    least: int | None = None,
) -> Decomposed:
    """Decompose a graph; the parameters are as in :func:`decompose_graph`.

    ``n_ranges`` is as in :func:`~papilio.kernels.peel.wing.peel_wing`.
    """
    from papilio.kernels.peel.forest import build_pair_forest, build_wing_forest
    from papilio.kernels.peel.tip import index_tip, peel_tip
    from papilio.kernels.peel.wing import index_wing, peel_wing

    threads = choose_threads(threads)
    began = perf_counter()
    report("index", 0, 1)
    if kind == "core":
        rows = index_core(graph, memory_bytes)
        index_s = perf_counter() - began
        peeled = peel_core(rows, fix_layer(rows.first_v, rows.n, layer, least), report)

        def build() -> Forest:
            return build_pair_forest(peeled.numbers, rows.indptr, rows.ids)

        return finish_forest(peeled, index_s, build if with_forest else None, report)
    assert isinstance(graph, BipartiteGraph)
    if kind == "wing":
        blooms = index_wing(graph, threads, memory_bytes)
        index_s = perf_counter() - began
        peeled = peel_wing(blooms, threads, report, n_ranges)

        def build() -> Forest:
            links = (blooms.link_offsets, blooms.link_bloom, blooms.link_twin)
            return build_wing_forest(peeled.numbers, *links, blooms.n_blooms)

    else:
        assert layer is not None
        pairs = index_tip(graph, layer, threads, memory_bytes)
        index_s = perf_counter() - began
        peeled = peel_tip(pairs, threads, report, n_ranges)

        def build() -> Forest:
            return build_pair_forest(peeled.numbers, pairs.offsets, pairs.others)

    return finish_forest(peeled, index_s, build if with_forest else None, report)


def decompose_on_gpu(
    device: Device,
    graph: BipartiteGraph | UnipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    with_forest: bool,
    report: Report,
    n_ranges: int | None = None,
    tuning: PeelTuning | None = None,
    least: int | None = None,
) -> Decomposed:
    """Decompose a graph on a device.

    The parameters are as in :func:`decompose_graph`; ``n_ranges`` and ``tuning`` as in
    :func:`~papilio.kernels.peel.gpu.peel_on_gpu`.
    """
    from papilio.kernels.peel.core_gpu import index_core_gpu, peel_core_gpu
    from papilio.kernels.peel.gpu import peel_on_gpu
    from papilio.kernels.peel.gpu_index import index_tip_gpu, index_wing_gpu, span_pairs, span_wings

    began = perf_counter()
    report("index", 0, 1)
    with device.guard(), ThreadPoolExecutor(1) as beside:
        if with_forest:
            device.load("forest", {})
            # Import here rather than in that thread: a module may be half imported while two threads import it.
            from papilio.kernels.peel.forest import build_pair_forest, build_wing_forest

            loading = beside.submit(_load_forest, build_pair_forest)  # while the device works

        def build_from_pairs(pairs: PairsGpu | CoreRowsGpu) -> Forest:
            spanning = span_pairs(device, pairs.offsets, pairs.others, peeled.numbers)
            loading.result()
            if spanning is not None:
                return build_pair_forest(peeled.numbers, *spanning)
            on_host = (device.to_host(pairs.offsets), device.to_host(pairs.others))
            return build_pair_forest(peeled.numbers, *on_host)

        def build_from_blooms(blooms: BloomsGpu) -> Forest:
            spanning = span_wings(device, blooms, peeled.numbers)
            loading.result()
            if spanning is not None:
                return build_pair_forest(peeled.numbers, *spanning)
            links = blooms.wedges
            return build_wing_forest(
                peeled.numbers,
                device.to_host(links.link_offsets),
                device.to_host(links.link_segment),
                device.to_host(links.link_twin),
                blooms.n_blooms,
            )

        build: Callable[[], Forest]
        peel: Callable[[], Peeled]
        index: PeelIndex
        if kind == "core":
            rows = index_core_gpu(device, graph)
            fixed = fix_layer(rows.first_v, rows.n, layer, least)
            build, peel = partial(build_from_pairs, rows), partial(peel_core_gpu, device, rows, fixed)
        else:
            assert isinstance(graph, BipartiteGraph)
            if kind == "wing":
                index = blooms = index_wing_gpu(device, graph)
                build = partial(build_from_blooms, blooms)
            else:
                assert layer is not None
                index = pairs = index_tip_gpu(device, graph, layer)
                build = partial(build_from_pairs, pairs)
            peel = partial(peel_on_gpu, device, index, report, n_ranges, tuning)
        device.synchronize()
        index_s = perf_counter() - began
        peeled = peel()
        return finish_forest(peeled, index_s, build if with_forest else None, report)


def _load_forest(build: Callable[..., Forest]) -> None:
    """Load or compile the loops of forests, by building the forest of one pair."""
    build(np.ones(2, np.uint64), np.arange(3), np.array([1, 0], np.int32))
