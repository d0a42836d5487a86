"""Count k-cliques and maximal cliques on the GPU, which also orders and orients the graph.

The items and their order match the CPU engines. ``clique.cu`` counts leaves by (held, free), or cliques if it takes
vertices in order; the host converts leaves to cliques in Python integers. ``clique_maximal.cu`` counts maximal cliques
by size, with their checksum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.clique.gpu_graph import (
    DeviceItems,
    DeviceLater,
    list_earlier_on_device,
    list_items,
    orient_on_device,
    roots_on_host,
)
from papilio.kernels.clique.gpu_prober import copy_both, copy_later
from papilio.kernels.clique.prober import CliqueProber, MaximalCliqueProber
from papilio.kernels.clique.question import (
    Narrowing,
    choose_algorithm,
    choose_probed,
    expand_leaves,
    find_rates,
    list_choices,
    list_closed,
    require_part_order,
    size_range,
)
from papilio.kernels.device.arrays import hash_vertices, lengths_of, take
from papilio.kernels.device.constants import (
    CLIQUE_SUM_WORDS,
    LANE_WORDS,
    MAXIMAL_LANE_WORDS,
    OUTER_MATRIX_WORDS,
    SUM_WORDS,
)
from papilio.kernels.device.protocol import Device, check_fits
from papilio.kernels.engine import Choice, Partial, Prepared, StopCheck, require_request
from papilio.kernels.probe import Prober
from papilio.kernels.search.gpu import Pieces, TreeEngine, TreeSearch
from papilio.kernels.search.layout import TreeClass, add_aligned
from papilio.kernels.threads import choose_threads
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Clique, Granularity, MaximalClique, Motif
from papilio.parts import CliquePart, Part

_MOST_LATER = (1 << 16) - 2
"""Maximum later neighbours of a vertex: the kernel stores their numbers, and the numbers held and free, in 16 bits."""

_PER: Mapping[Granularity, int] = {"total": 0, "vertex": 1, "edge": 2}
"""Codes passed to the compilation of clique.cu."""

_LANES = 32
"""Maximum candidates that one lane searches; larger nodes need their own memory."""

_NODE_HEAD = 4
"""Words of a node besides its sets (clique_matrix.cuh)."""


@dataclass(frozen=True, eq=False)
class PreparedCliqueGpu(Prepared):
    """A graph ready for :meth:`CliqueGpu.run`."""

    later: DeviceLater
    items: DeviceItems
    motif: Clique
    per: Granularity
    algorithm: str  # orient or pivot
    probed: str  # the same for probes, which do not depend on the engine
    search: TreeSearch
    max_later: int  # maximum later neighbours of a vertex
    classes: tuple[TreeClass, ...]
    decisions: tuple[Choice, ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.items.costs

    @property
    def sizes(self) -> tuple[int, int]:
        return size_range(self.motif, self.max_later)


class CliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.Clique` on one device.

    ``algorithm`` and ``order`` are as in :class:`~papilio.kernels.clique.cpu.CliqueCpu`; ``tuning`` defaults to the
    rows of the device. With ``lists`` the engine serves :class:`~papilio.kernels.clique.list_gpu.CliqueGpuLister` and
    counts nothing: it then accepts only granularity ``vertex``, whose kernel has the vertices of each clique.
    """

    stem = "clique"

    def __init__(
        self,
        device: Device,
        algorithm: str = "auto",
        order: str = "auto",
        tuning: TreeTuning | None = None,
        lists: bool = False,
    ) -> None:
        super().__init__(device, tuning)
        self.algorithm, self.order = algorithm, order
        self._defines = {"LISTS": 1} if lists else {}

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedCliqueGpu:
        """Order and orient the graph on the device, leaving a part unchanged; O(n_edges log n_edges)."""
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
            max_later = int(later.out.max()) if later.out.size else 0
            check_fits("the most later neighbours of a vertex", max_later, _MOST_LATER, "vertices")
            algorithm, reason = choose_algorithm(motif, per, self.algorithm, self.name, max_later)
            search = self._choose_search(algorithm, per)
            items = list_items(self.device, later, motif.k or 1, None if part is None else part.roots, hands=self.hands)
            classes, shortage = self._make_ready(search, _estimate_need(items.sizes, algorithm, motif, per))
            ordered = f"by {'degree' if by_degree else 'degeneracy'}: at most {max_later} later neighbours"
            decisions = (("order", ordered), ("algorithm", f"{algorithm}: {reason}"), *shortage)
            prepared = PreparedCliqueGpu(
                later, items, motif, per, algorithm, choose_probed(motif, per, self.algorithm), search,
                max_later, classes, decisions,
            )  # fmt: skip
            self._check_leaves(prepared)
        return prepared

    def prober(self, prepared: PreparedCliqueGpu) -> Prober:
        rates = find_rates(self.name, prepared.probed, prepared.per, prepared.motif.k)
        whole = _find_whole(prepared.search.tuning.near_words, _LANES if prepared.search.fixed_words else 0)
        search = prepared.sizes, prepared.probed == "orient", _PER[prepared.per], prepared.max_later
        return CliqueProber(
            prepared.items.costs, roots_on_host(self.device, prepared.items),
            partial(copy_later, self.device, prepared.later), *search, Narrowing(whole, 32, _LANES), rates,
            choose_threads(None),
        )  # fmt: skip

    def _count(self, prepared: PreparedCliqueGpu, start: int, stop: int, cut: StopCheck) -> Partial:
        end = start
        later, vector = prepared.later, _make_vector(self.device, prepared)
        sums = np.zeros(_count_sums(prepared), np.uint64)
        least, most = prepared.sizes
        if start < stop:
            counts = self.device.to_device(sums)
            choices = _list_choices(self.device, prepared)
            end = self._search_items(prepared, (start, stop), cut, (choices, vector), counts)
            sums = self.device.to_host(counts)
        vectors = {}
        if prepared.per != "total":
            found = self.device.xp.empty_like(vector)
            found[later.vertices if prepared.per == "vertex" else later.edges] = vector
            vectors = {"n" if prepared.per == "vertex" else "edge": self.device.to_host(found)}
        cells: dict[tuple[int, ...], int] = {}
        low, high, carries = (int(number) for number in sums[:CLIQUE_SUM_WORDS])
        expand_leaves(sums[CLIQUE_SUM_WORDS:], prepared.max_later + 2, least, most, cells)
        if of_one_size := low + (high << 32) + (carries << 64):
            cells[(most,)] = cells.get((most,), 0) + of_one_size
        table = cells if prepared.motif.is_table else {}
        return Partial(end - start, sum(cells.values()), self._work_done(), vectors, table)

    def leave_records(
        self, prepared: PreparedCliqueGpu, span: tuple[int, int], cut: StopCheck, arguments: tuple[Any, ...]
    ) -> int:
        """Search items and return where the search ended; ``arguments`` are RECORD_PARAMETERS of records.cuh."""
        nothing, counts = (self.device.xp.zeros(n, dtype=np.uint64) for n in (1, _count_sums(prepared)))
        return self._search_items(prepared, span, cut, (nothing, nothing, *arguments), counts)

    def _search_items(
        self,
        prepared: PreparedCliqueGpu,
        span: tuple[int, int],
        cut: StopCheck,
        arguments: tuple[Any, ...],
        counts: Any,
    ) -> int:
        """Search items, passing ``arguments`` to the kernel after the counts; return where the run ended."""
        later, items = prepared.later, prepared.items
        searched = (later.indptr, later.ids, items.roots, items.first, items.last)
        own = (
            *map(np.int32, prepared.sizes), self.device.to_device(list_closed()), counts,
            np.int32(prepared.max_later + 2), *arguments,
        )  # fmt: skip
        pieces = Pieces.of(*span)
        return self._launch(prepared.search, prepared.classes, pieces, lambda: items.costs, cut, searched, own).stop

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
                f"cliques among {prepared.max_later} later neighbours need {need} bytes of device memory for the "
                f"counts of leaves; {room} bytes are free: count a single small k, or use --engine cpu"
            )


def _estimate_need(sizes: NDArray[np.int64], algorithm: str, motif: Clique, per: Granularity) -> NDArray[np.int64]:
    """Return the words that a warp needs for roots by later neighbours, as ``take_memory`` of clique.cu."""
    words, has_lanes = (sizes + 31) // 32, per == "total" and algorithm != "orient"
    n_unlisted = _LANES if has_lanes else 0
    square = sizes * words
    if algorithm == "orient":
        assert motif.k is not None
        square -= 16 * words * (words - 1)
        levels = np.minimum(sizes, motif.k) + 1
    else:
        levels = _count_levels(sizes, n_unlisted)
    node = _NODE_HEAD + 2 * words
    parts = [sizes, node, levels * node, square, sizes]
    if per != "total":
        parts += [sizes, sizes + 1, sizes]
        parts += [sizes, SUM_WORDS * sizes] if per == "vertex" else []
    elif (motif.k or motif.max_k) is not None:
        parts.append(square)  # of a node whose triangles are counted
    # Matrices of nodes, each with at most half as many words in a row as the one before.
    widths = words if algorithm != "orient" else np.zeros_like(words)
    while (widths := widths // 2).max(initial=0) > 0:
        inner = np.where(32 * widths > n_unlisted, 32 * widths, 0)
        node = np.where(inner > 0, _NODE_HEAD + 2 * widths, 0)
        parts += [inner * widths, np.where(inner > 0, OUTER_MATRIX_WORDS, 0), node]
        parts += [_count_levels(inner, n_unlisted) * node, inner]
        parts += [inner] if per != "total" else []
    return add_aligned(parts)


@cache
def _find_whole(near_words: int, n_unlisted: int) -> int:
    """Return the most neighbours of a root whose matrix is in shared memory, behind its list and nodes."""
    sizes = np.arange(1, near_words)
    words = (sizes + 31) // 32
    need = sizes + (_count_levels(sizes, n_unlisted) + 1) * (_NODE_HEAD + 2 * words) + sizes * words
    return int(np.searchsorted(need, near_words, side="right"))


def _count_levels(sizes: NDArray[np.int64], n_unlisted: int) -> NDArray[np.int64]:
    """Return the maximum nodes on the stack of a search by pivots; the last ``n_unlisted`` candidates have none."""
    levels: NDArray[np.int64] = (np.maximum(sizes - n_unlisted, 0) + 1) // 2 + 2
    return levels


def _make_vector(device: Device, prepared: PreparedCliqueGpu) -> Any:
    """Return the counter of each vertex, by rank, or edge, by entry; device, uint64."""
    later = prepared.later
    size = {"total": 1, "vertex": later.vertices.size, "edge": later.ids.size}[prepared.per]
    return device.xp.zeros(size, dtype=np.uint64)


def _list_choices(device: Device, prepared: PreparedCliqueGpu) -> Any:
    """Return C(n, j) modulo 2^64 at [n * (k + 1) + j], device, for counts by vertex and edge."""
    if prepared.per == "total":
        return device.xp.zeros(1, dtype=np.uint64)
    max_later, k = prepared.max_later, prepared.sizes[1]
    return device.to_device(list_choices(max_later + 1, k))


def _count_sums(prepared: PreparedCliqueGpu) -> int:
    """Return the number of counters of the kernel: a sum, and one for each kind of leaf."""
    if prepared.algorithm == "orient":
        return CLIQUE_SUM_WORDS
    stride = prepared.max_later + 2
    return CLIQUE_SUM_WORDS + (min(prepared.sizes[1], stride - 1) + 1) * stride


@dataclass(frozen=True, eq=False)
class PreparedMaximalCliqueGpu(Prepared):
    """A graph ready for :meth:`MaximalCliqueGpu.run`; all arrays but the costs are on the device."""

    later: DeviceLater
    # The earlier neighbours of every vertex, by rank: int64 (n + 1,), int32 (n_edges,).
    earlier: tuple[Any, Any]
    hashes: Any  # of the vertices, by rank: uint64
    items: DeviceItems
    least: int
    max_later: int
    classes: tuple[TreeClass, ...]
    decisions: tuple[tuple[str, str], ...]

    @property
    def work(self) -> NDArray[np.int64]:
        return self.items.costs


class MaximalCliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.MaximalClique` on one device.

    ``tuning`` sets launch constants, by default for the device. With ``lists`` the engine serves
    :class:`~papilio.kernels.clique.list_gpu.MaximalCliqueGpuLister` and counts nothing.
    """

    stem = "clique_maximal"

    def __init__(self, device: Device, tuning: TreeTuning | None = None, lists: bool = False) -> None:
        super().__init__(device, tuning)
        self._defines = {"LISTS": 1} if lists else {}

    def prepare(
        self, graph: BipartiteGraph | UnipartiteGraph | Part, motif: Motif, per: Granularity
    ) -> PreparedMaximalCliqueGpu:
        """Order by degeneracy and orient the graph on the device, leaving a part unchanged.

        O(n_edges log n_edges).
        """
        require_request("gpu maximal-clique", MaximalClique, graph, motif, per, CliquePart, UnipartiteGraph)
        assert isinstance(graph, UnipartiteGraph | CliquePart)
        assert isinstance(motif, MaximalClique)
        part = graph if isinstance(graph, CliquePart) else None
        with self.device.guard():
            self._search.load_on(self.device)
            later = orient_on_device(self.device, graph, by_degree=False)
            ids = later.vertices if part is None else self.device.to_device(part.ids_n)
            earlier = list_earlier_on_device(self.device, later)
            back = lengths_of(self.device, earlier[0])
            roots = None if part is None else part.roots
            items = list_items(self.device, later, motif.min_size, roots, back, self.hands)
            max_later = int(later.out.max()) if later.out.size else 0
            earlier_of = self.device.to_host(take(self.device, back, items.roots)).astype(np.int64)
            need = _estimate_maximal_need(items.sizes, earlier_of, bool(self._defines))
            classes, shortage = self._make_ready(self._search, need)
            order = "degeneracy" if part is None else "degree"
            decisions = (("order", f"by {order}: at most {max_later} later neighbours"), *shortage)
            return PreparedMaximalCliqueGpu(
                later, earlier, hash_vertices(self.device, ids, 0), items, motif.min_size, max_later, classes,
                decisions,
            )  # fmt: skip

    @property
    def _search(self) -> TreeSearch:
        blocks_per_sm = self.tuning.blocks_per_sm[0]
        return TreeSearch(self.stem, self.stem, self._defines, self.tuning, MAXIMAL_LANE_WORDS, blocks_per_sm)

    def prober(self, prepared: PreparedMaximalCliqueGpu) -> Prober:
        rows_of = partial(copy_both, self.device, prepared.later, prepared.earlier)
        return MaximalCliqueProber(
            prepared.items.costs, roots_on_host(self.device, prepared.items), rows_of, prepared.least,
            prepared.max_later, find_rates(self.name, "maximal"), choose_threads(None),
        )  # fmt: skip

    def _count(self, prepared: PreparedMaximalCliqueGpu, start: int, stop: int, cut: StopCheck) -> Partial:
        if start == stop:
            return Partial(0, 0, 0)
        end, sums, checksum = self._search_items(prepared, (start, stop), cut)
        host, check = self.device.to_host(sums), int(self.device.to_host(checksum)[0])
        cells: dict[tuple[int, ...], int] = {(size,): int(host[size]) for size in np.flatnonzero(host).tolist()}
        return Partial(end - start, sum(cells.values()), self._work_done(), {}, cells, checksum=check)

    def leave_records(
        self,
        prepared: PreparedMaximalCliqueGpu,
        span: tuple[int, int],
        cut: StopCheck,
        arguments: tuple[Any, ...],
    ) -> int:
        """Search items and return where the search ended; ``arguments`` are RECORD_PARAMETERS of records.cuh."""
        return self._search_items(prepared, span, cut, arguments)[0]

    def _search_items(
        self,
        prepared: PreparedMaximalCliqueGpu,
        span: tuple[int, int],
        cut: StopCheck,
        arguments: tuple[Any, ...] = (),
    ) -> tuple[int, Any, Any]:
        """Return where the run ended, the cliques by size, and their checksum. The latter two are on the device."""
        xp, later, items = self.device.xp, prepared.later, prepared.items
        sums = xp.zeros(prepared.max_later + 2, dtype=np.uint64)
        checksum = xp.zeros(1, dtype=np.uint64)
        searched = (
            later.indptr, later.ids, *prepared.earlier, prepared.hashes, items.roots, items.first, items.last
        )  # fmt: skip
        own = np.int32(prepared.least), sums, checksum, *arguments
        pieces = Pieces.of(*span)
        end = self._launch(self._search, prepared.classes, pieces, lambda: items.costs, cut, searched, own).stop
        return end, sums, checksum


def _estimate_maximal_need(later: NDArray[np.int64], earlier: NDArray[np.int64], lists: bool) -> NDArray[np.int64]:
    """Return the words that a warp needs for roots by neighbours, as ``take_memory`` of clique_maximal.cu."""
    words, rows = (later + 31) // 32, later + earlier
    node = _NODE_HEAD + 3 * words + (rows + 31) // 32  # earlier ones; in a sub-tree candidates before it, too
    path = [later + 1] if lists else []
    return add_aligned([rows * words, later, later, rows, node, (later // 2 + 3) * node, *path])
