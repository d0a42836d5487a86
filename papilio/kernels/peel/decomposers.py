"""Which engine decomposes: the same numbers and the same forest from each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from papilio.extras import missing_package
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.kernels.peel.components import Forest
from papilio.kernels.peel.phases import Layer, Peeled, PeelingKind, Report


@dataclass(frozen=True, eq=False)
class Decomposed:
    """Numbers and forest."""

    peeled: Peeled  # Its ``seconds`` also hold ``index``, and ``hierarchy`` where there is a forest
    forest: Forest | None  # None where it was not asked for


def decompose_graph(
    graph: BipartiteGraph,
    kind: PeelingKind,
    layer: Layer | None,
    engine: EngineName,
    *,
    threads: int | None,
    memory_bytes: int | None,
    with_forest: bool,
    report: Report,
) -> Decomposed:
    """Decompose a graph on one engine of this process; ``layer`` is of tips, ``memory_bytes`` of the host.

    Raises
    ------
    EngineUnavailableError
        When the gpu engine is asked for and CuPy or a device is missing.
    CapacityError
        When the graph does not fit.
    """
    if engine == "cpu":
        from papilio.kernels.peel.cpu import decompose_on_cpu

        return decompose_on_cpu(graph, kind, layer, threads, memory_bytes, with_forest, report)
    try:
        from papilio.kernels.device.cuda import shared_device
        from papilio.kernels.peel.gpu import decompose_on_gpu
    except ImportError as error:
        raise missing_package("the gpu engine needs", "cupy", f"use --engine cpu ({error})") from error
    return decompose_on_gpu(shared_device(), graph, kind, layer, with_forest, report)


def finish_forest(
    peeled: Peeled, index_s: float, build: Callable[[], Forest] | None, report: Report
) -> Decomposed:
    """Build the forest, if it is asked for, and add up the seconds."""
    seconds = {"index": index_s, **peeled.seconds}
    forest = None
    if build is not None:
        began = perf_counter()
        report("hierarchy", 0, 1)
        forest = build()
        seconds["hierarchy"] = perf_counter() - began
    return Decomposed(replace(peeled, seconds=seconds), forest)
