"""Decompositions on the CPU: index, peel, and build the forest from the same index."""

from __future__ import annotations

from time import perf_counter

from papilio.graph import BipartiteGraph
from papilio.kernels.peel.components import Forest
from papilio.kernels.peel.decomposers import Decomposed, finish_forest
from papilio.kernels.peel.forest import build_tip_forest, build_wing_forest
from papilio.kernels.peel.phases import Layer, PeelingKind, Report
from papilio.kernels.peel.tip import index_tip, peel_tip
from papilio.kernels.peel.wing import index_wing, peel_wing
from papilio.kernels.threads import choose_threads


def decompose_on_cpu(
    graph: BipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    threads: int | None,
    memory_bytes: int | None,
    with_forest: bool,
    report: Report,
    n_ranges: int | None = None,
) -> Decomposed:
    """Decompose a graph; the parameters are those of :func:`papilio.kernels.peel.decomposers.decompose_graph`.

    ``n_ranges`` is that of :func:`~papilio.kernels.peel.wing.peel_wing`.
    """
    threads = choose_threads(threads)
    began = perf_counter()
    report("index", 0, 1)
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
            return build_tip_forest(peeled.numbers, pairs.offsets, pairs.others)

    return finish_forest(peeled, index_s, build if with_forest else None, report)
