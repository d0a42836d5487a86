"""k-cliques on the GPU: the graph is ordered and oriented on the device, ``clique.cu`` searches, the host multiplies.

Items and their order are those of the CPU engine. The kernel counts leaves by (held, free), or, where it takes vertices
in order, cliques; what leaves stand for is worked out on the host in Python integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.gpu_graph import (
    DeviceItems,
    DeviceLater,
    list_items,
    orient_on_device,
)
from papilio.kernels.clique.question import (
    choose_algorithm,
    expand_leaves,
    list_choices,
    list_closed,
    require_part_order,
    size_range,
)
from papilio.kernels.device.constants import CLIQUE_SUM_WORDS, LANE_WORDS
from papilio.kernels.device.protocol import Device, check_fits
from papilio.kernels.engine import Cut, Partial, Prepared, never_cut, require_request
from papilio.kernels.tree.gpu import TreeClass, TreeEngine, TreeSearch, add_aligned
from papilio.kernels.tuning import TreeTuning, clique_tuning
from papilio.motifs import Clique, Granularity, Motif
from papilio.parts import CliquePart, Part

_MOST_LATER = (1 << 16) - 2
"""Later neighbours of a vertex that the kernel takes: numbers of them, and of what is held and free, have 16 bits."""

_PER: Mapping[Granularity, int] = {"total": 0, "vertex": 1, "edge": 2}
"""As clique.cu is compiled."""

_LANES = 32
"""Candidates up to which a lane searches; larger nodes need memory of their own."""

_NODE_HEAD = 4
"""Words of a node beside its sets (clique.cu)."""


@dataclass(frozen=True, eq=False)
class PreparedCliqueGpu(Prepared):
    """A graph ready for :meth:`CliqueGpu.run`."""

    later: DeviceLater
    items: DeviceItems
    motif: Clique
    per: Granularity
    algorithm: str  # orient or pivot
    search: TreeSearch
    most_later: int  # most later neighbours of a vertex
    classes: tuple[TreeClass, ...]
    decisions: tuple[tuple[str, str], ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.items.costs

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return self.later.nbytes + self.items.nbytes

    @property
    def sizes(self) -> tuple[int, int]:
        """The least and the most vertices of a clique that is counted; the most is never beyond the graph's."""
        return size_range(self.motif, self.most_later)


class CliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.Clique` on one device.

    Parameters
    ----------
    device : Device
        Where to run.
    algorithm, order : str
        As those of :class:`~papilio.kernels.clique.cpu.CliqueCpu`.
    tuning : TreeTuning, optional
        Launch constants; by default those of the device.
    lists : bool
        Whether it is for :class:`~papilio.kernels.clique.list_gpu.CliqueGpuLister`, and counts nothing: then it takes
        granularity ``vertex`` alone, whose kernel knows the vertices of each clique.
    """

    def __init__(
        self,
        device: Device,
        algorithm: str = "auto",
        order: str = "auto",
        tuning: TreeTuning | None = None,
        lists: bool = False,
    ) -> None:
        super().__init__(device, tuning if tuning is not None else clique_tuning(device.max_shared_bytes))
        self.algorithm, self.order = algorithm, order
        self._defines = {"LISTS": 1} if lists else {}

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedCliqueGpu:
        """Order the vertices and orient the graph on the device, a part of it as it is; O(n_edges log n_edges)."""
        require_request("gpu clique", Clique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, Clique)
        likely, _ = choose_algorithm(motif, per, self.algorithm, self.name)
        with self.device.guard():
            self._choose_search(likely, per).load_on(self.device)
            part = graph if isinstance(graph, CliquePart) else None
            if part is not None:
                require_part_order(self.order)
            by_degree = part is not None or self.order == "degree"
            later = orient_on_device(self.device, graph, by_degree, per == "edge")
            most_later = int(later.out.max()) if later.out.size else 0
            check_fits("the most later neighbours of a vertex", most_later, _MOST_LATER, "vertices")
            algorithm, reason = choose_algorithm(motif, per, self.algorithm, self.name, most_later)
            search = self._choose_search(algorithm, per)
            items = list_items(self.device, later, motif.k or 1, None if part is None else part.roots)
            classes, shortage = self._make_ready(search, _estimate_need(items.sizes, algorithm, motif, per))
            ordered = f"by {'degree' if by_degree else 'degeneracy'}: at most {most_later} later neighbours"
            decisions = (("order", ordered), ("algorithm", f"{algorithm}: {reason}"), *shortage)
            prepared = PreparedCliqueGpu(
                later, items, motif, per, algorithm, search, most_later, classes, decisions
            )
            self._check_leaves(prepared)
        return prepared

    def _count(self, prepared: PreparedCliqueGpu, bounds: Sequence[int], cut: Cut) -> Partial:
        start = end = bounds[0]
        later, vector = prepared.later, _make_vector(self.device, prepared)
        sums = np.zeros(_count_sums(prepared), np.uint64)
        least, most = prepared.sizes
        if start < bounds[-1]:
            counts = self.device.to_device(sums)
            choices = _list_choices(self.device, prepared)
            n_slices = self._search_items(prepared, bounds, cut, (choices, vector), counts)
            end, sums = bounds[n_slices], self.device.to_host(counts)
        vectors = {}
        if prepared.per != "total":
            found = self.device.xp.empty_like(vector)
            found[later.vertices if prepared.per == "vertex" else later.edges] = vector
            vectors = {"n" if prepared.per == "vertex" else "edge": self.device.to_host(found)}
        cells: dict[tuple[int, ...], int] = {}
        low, high, carries = (int(number) for number in sums[:CLIQUE_SUM_WORDS])
        expand_leaves(sums[CLIQUE_SUM_WORDS:], prepared.most_later + 2, least, most, cells)
        if of_one_size := low + (high << 32) + (carries << 64):
            cells[(most,)] = cells.get((most,), 0) + of_one_size
        table = cells if prepared.motif.is_table else {}
        return Partial(end - start, sum(cells.values()), self._work_done(), vectors, table)

    def leave_records(
        self, prepared: PreparedCliqueGpu, start: int, stop: int, arguments: tuple[Any, ...]
    ) -> None:
        """Search items; ``arguments`` are RECORD_PARAMETERS of records.cuh."""
        nothing, counts = (self.device.xp.zeros(n, dtype=np.uint64) for n in (1, _count_sums(prepared)))
        self._search_items(prepared, [start, stop], never_cut, (nothing, nothing, *arguments), counts)

    def _search_items(
        self,
        prepared: PreparedCliqueGpu,
        bounds: Sequence[int],
        cut: Cut,
        arguments: tuple[Any, ...],
        counts: Any,
    ) -> int:
        """Launch the slices, with what follows the counts in the kernel's arguments; return how many."""
        later, items = prepared.later, prepared.items
        searched = (later.indptr, later.ids, items.roots, items.first, items.last)
        own = (
            *map(np.int32, prepared.sizes), self.device.to_device(list_closed()), counts,
            np.int32(prepared.most_later + 2), *arguments,
        )  # fmt: skip
        return self._launch(prepared.search, prepared.classes, bounds, items.costs, cut, searched, own)

    def _choose_search(self, algorithm: str, per: Granularity) -> TreeSearch:
        orients = algorithm == "orient"
        which, fixed_words = (int(not orients), LANE_WORDS) if per == "total" else (2, 0)
        defines = {"ORIENT": int(orients), "PER": _PER[per], **self._defines}
        tuning, blocks_per_sm = self.tuning, self.tuning.blocks_per_sm[which]
        if orients:  # the memory of the lanes, which do not search
            tuning, fixed_words = replace(tuning, near_words=tuning.near_words + LANE_WORDS), 0
        return TreeSearch("clique", "clique_search", defines, tuning, fixed_words, blocks_per_sm)

    def _check_leaves(self, prepared: PreparedCliqueGpu) -> None:
        need, room = 8 * _count_sums(prepared), self.device.free_bytes()
        if need > room:
            raise CapacityError(
                f"cliques among {prepared.most_later} later neighbours need {need} bytes of device memory for the "
                f"counts of leaves; {room} bytes are free: ask for one small k, or use --engine cpu"
            )


def _estimate_need(
    sizes: NDArray[np.int64], algorithm: str, motif: Clique, per: Granularity
) -> NDArray[np.int64]:
    """Return the words that a warp needs for roots of so many later neighbours, as ``take_memory`` of clique.cu."""
    words, has_lanes = (sizes + 31) // 32, per == "total" and algorithm != "orient"
    levels = (np.maximum(sizes - (_LANES if has_lanes else 0), 0) + 1) // 2 + 2
    node, square = _NODE_HEAD + 2 * words, sizes * words
    if algorithm == "orient":
        assert motif.k is not None
        levels, square = np.minimum(sizes, motif.k) + 1, square - 16 * words * (words - 1)
    paths = [sizes, sizes + 1, sizes] if per != "total" else []
    is_bounded = per == "total" and (motif.k or motif.max_k) is not None
    triangles = square if is_bounded else np.zeros_like(sizes)
    return add_aligned([sizes, node, levels * node, *paths, square, triangles])


def _make_vector(device: Device, prepared: PreparedCliqueGpu) -> Any:
    """Return what vertices, by rank, or edges, by entry, are counted into; device, uint64."""
    later = prepared.later
    size = {"total": 1, "vertex": later.vertices.size, "edge": later.ids.size}[prepared.per]
    return device.xp.zeros(size, dtype=np.uint64)


def _list_choices(device: Device, prepared: PreparedCliqueGpu) -> Any:
    """Return C(n, j) modulo 2^64 at [n * (k + 1) + j], device, for counts of vertices and edges."""
    if prepared.per == "total":
        return device.xp.zeros(1, dtype=np.uint64)
    most_later, k = prepared.most_later, prepared.sizes[1]
    return device.to_device(list_choices(most_later + 1, k))


def _count_sums(prepared: PreparedCliqueGpu) -> int:
    """Return how many numbers the kernel counts into: those of a sum, and one for each kind of leaf."""
    if prepared.algorithm == "orient":
        return CLIQUE_SUM_WORDS
    stride = prepared.most_later + 2
    return CLIQUE_SUM_WORDS + (min(prepared.sizes[1], stride - 1) + 1) * stride
