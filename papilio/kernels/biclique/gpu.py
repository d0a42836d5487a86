"""(p,q)-bicliques on the GPU: the index goes to the device, ``biclique.cu`` searches it, the host multiplies.

The index (core, order, pairs of left vertices, work items) is built on the device and equals the index of the CPU
engine for the same layer, with the same items in the same order. The kernels count leaves, by size or by key; the host
converts them to bicliques in Python integers. A count of leaves fits 64 bits: 1,024 leaves cost a warp at least some 30
instructions, and a GPU executes 1e12 per second, so 2^64 leaves of one run would take more than a week.

Counts per vertex, for one p and one q, use enumeration (``biclique_vertices.cu``). Their sums are kept modulo 2^64 and
are exact given the total, which the host computes from the number of sets of left vertices by shared right ones; see
:mod:`papilio.kernels.biclique.search`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.choice import find_rates, plan_search
from papilio.kernels.biclique.forms import Cells, Leaf, expand_leaves, expand_sizes, turn
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex, build_device_index
from papilio.kernels.biclique.gpu_prober import probe_device, rows_near_on_device
from papilio.kernels.biclique.items import LONG_S, deal_index, divide_index, halve_index
from papilio.kernels.biclique.prober import measure_with
from papilio.kernels.biclique.question import BicliqueQuestion, ask_bicliques
from papilio.kernels.biclique.signed_cover import fold_vectors
from papilio.kernels.device.arrays import find_counted, take, turn_rows
from papilio.kernels.device.constants import (
    BIT_PLANES,
    KEPT_WORDS,
    LEAF_BINS,
    LEAF_WORDS,
    PIVOT_FRAME_WORDS,
    RUN_WORDS,
    SIDE_BITS,
    SLICED_COLUMNS,
    SUBSET_FRAME_WORDS,
    SUM_WORDS,
    VERTEX_FRAME_WORDS,
)
from papilio.kernels.device.protocol import Device, check_fits
from papilio.kernels.engine import Choice, Partial, Prepared, StopCheck, add_cells
from papilio.kernels.exact import choose_modulo
from papilio.kernels.probe import Prober
from papilio.kernels.search.gpu import Pieces, TreeEngine, TreeSearch
from papilio.kernels.search.layout import TreeClass
from papilio.kernels.threads import choose_threads
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique, EngineOptions, Granularity, Motif
from papilio.parts import Part

_CODES = {"enumerate": 0, "pivot": 1}
"""Algorithms, as in biclique.cu."""

_BLOCK_LEFTS = (3, 4)
"""Left sizes enumerated by blocks: their search is short, and its work follows from the items."""

_SHARE_S = 1e-5
"""Predicted time of a CPU thread that justifies a warp, in seconds."""

_SPARE_WORDS = 64
"""Words for rounding up, besides lists and matrices."""

_MAX_SIDE = (1 << SIDE_BITS) - 2
"""Maximum candidates and shared columns of the kernels: with the root and its child, they fit a side of a key, as do
the places and gaps that decide the choice of pivots."""

_MAX_LEAST = 1 << BIT_PLANES
"""Maximum right side that the planes of bit_matrix.cuh can count."""

_SLOT_BYTES = 16
"""Bytes per slot of the table of leaves: a key and its count."""

_MAX_SLOTS = 1 << 31
"""Maximum slots of the table of leaves: their number is passed in 32 bits."""

_FIRST_SHARE = 4
"""The first table takes at most 1 / _FIRST_SHARE of the free memory, as the search needs some too."""

_SIDE_MASK = np.uint64(0xFFFF)


@dataclass(frozen=True, eq=False)
class _VertexTables:
    """Tables for counts per vertex, besides the index."""

    # C(n, q) and C(n - 1, q - 1) modulo 2^64, for n up to the maximum number of right vertices that two left ones
    # share: uint64, on the device.
    sets: Any
    members: Any
    # Sizes of U and V, of the cover for balanced bicliques.
    layers: tuple[int, int]
    # Counts per vertex if p or q is 1, on the host; else empty.
    stars: dict[str, NDArray[np.uint64]]


def _make_tables(device: Device, question: BicliqueQuestion, index: BicliqueDeviceIndex) -> _VertexTables:
    """Return the tables for a given p and q. The edges are on the host or the device."""
    most, min_right = int(index.item_common.max(initial=0)), index.sizes.min_right
    sets = choose_modulo(most, min_right)
    members = np.zeros_like(sets)
    members[1:] = choose_modulo(most, min_right - 1)[:-1]
    source, searched = question.source, question.searched
    stars = {}
    if index.closed_cells:
        ids = device.to_host(source.u), device.to_host(source.v)
        stars = question.star_vectors(BipartiteGraph(source.n_u, source.n_v, *ids))
    layers = searched.n_u, searched.n_v
    return _VertexTables(device.to_device(sets), device.to_device(members), layers, stars)


class _VertexSums:
    """Sums of one run, on the device: left sets by the number of shared right vertices, bicliques of vertices."""

    def __init__(self, device: Device, index: BicliqueDeviceIndex, tables: _VertexTables) -> None:
        self.device, self.index, self.tables = device, index, tables
        sizes = tables.sets.size, index.n_left, index.n_right
        self.sums, self.of_left, self.of_right = (device.xp.zeros(n, dtype=np.uint64) for n in sizes)

    @property
    def arguments(self) -> tuple[Any, ...]:
        sizes, tables = self.index.sizes, self.tables
        numbers = np.int32(sizes.min_left - 2), np.int32(sizes.min_right)
        sums = self.sums, self.of_left, self.of_right
        return (self.index.arrays["hop_common"], *numbers, tables.sets, tables.members, *sums)

    def add_to(self, vectors: dict[str, NDArray[np.uint64]]) -> int:
        """Add the sums to the vectors of the original vertices; return the total."""
        index, to_host = self.index, self.device.to_host
        left, right = ("u", "v") if index.anchor == "u" else ("v", "u")
        vectors[left][to_host(index.arrays["left_ids"])] += to_host(self.of_left)
        vectors[right][to_host(index.arrays["right_ids"])] += to_host(self.of_right)
        sums, sizes = to_host(self.sums), index.sizes
        shared = {int(n): int(sums[n]) for n in np.flatnonzero(sums)}
        rights = range(sizes.min_right, sizes.min_right + 1)
        return sum(expand_sizes(shared, sizes.min_left, rights).values())


@dataclass(frozen=True, eq=False)
class PreparedBicliqueGpu(Prepared):
    """A graph ready for :meth:`BicliqueGpu.run`."""

    motif: Biclique
    # Includes the rows of its right layer: "right_indptr", int64, shape (n_right + 1,); "right_rows", int32, ascending.
    index: BicliqueDeviceIndex
    # "enumerate" or "pivot".
    algorithm: str
    vertices: _VertexTables | None
    classes: tuple[TreeClass, ...]
    # Maximum number of right vertices that two left ones share.
    max_common: int
    decisions: tuple[Choice, ...]
    settled: EngineOptions  # the layer, if probes chose it

    @property
    def work(self) -> NDArray[np.int64]:
        return self.index.work


class _Counts(NamedTuple):
    """Counters of the kernels, on the device."""

    sums: Any  # sets of left vertices by the number of shared right ones
    keys: Any  # a hash table of leaves
    leaves: Any
    full: Any  # nonzero if the table was too small


class BicliqueGpu(TreeEngine):
    """The GPU engine of :class:`~papilio.motifs.Biclique` on one device.

    ``algorithm`` is ``auto``, ``enumerate`` or ``pivot``
    (:meth:`~papilio.kernels.biclique.question.BicliqueQuestion.choose_algorithm`); ``anchor`` (``auto``, ``u`` or
    ``v``) is the layer whose vertices are searched one after the other. ``tuning`` defaults to the device's constants.
    """

    stem = "biclique"

    def __init__(
        self,
        device: Device,
        algorithm: str = "auto",
        anchor: str = "auto",
        tuning: TreeTuning | None = None,
    ) -> None:
        super().__init__(device, tuning)
        self.algorithm, self.anchor = algorithm, anchor
        self._slots = WeakKeyDictionary[PreparedBicliqueGpu, int]()  # of tables that were too small

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedBicliqueGpu:
        question = ask_bicliques(graph, motif, per, self.anchor, self.algorithm)
        motif = question.motif
        with self.device.guard():
            index, algorithm, decisions, settled = plan_search(
                question,
                self._build(question, question.anchor),
                measure_with(partial(rows_near_on_device, self.device), choose_threads(None)),
                partial(self._build, question),
                divide_index,
                lambda index: np.diff(self.device.to_host(index.arrays["indptr"])),
                self.name,
            )
            index = deal_index(index, self.hands if question.part is None else 1)
            is_wide = max(index.item_common.max(initial=0), index.item_later.max(initial=0)) > _MAX_SIDE
            if self.algorithm == "auto" and algorithm == "pivot" and is_wide and question.algorithms(index):
                algorithm = "enumerate"
                decisions = (
                    *decisions,
                    ("algorithm enumerate", f"more than {_MAX_SIDE} candidates of a vertex"),
                )
            max_common = _check_sizes(index, algorithm != "enumerate" or per == "vertex")
            decisions = (*decisions, *index.choices)
            vertices = _make_tables(self.device, question, index) if per == "vertex" else None
            classes: tuple[TreeClass, ...] = ()
            if index.n_pairs:
                search = self._choose_search(algorithm, index, vertices)
                together = _matrix_words(index) if search.by_blocks else None
                classes, shortage = self._make_ready(search, _NEEDS[search.stem](index), together)
                decisions = (*decisions, *shortage)
        return PreparedBicliqueGpu(motif, index, algorithm, vertices, classes, max_common, decisions, settled)

    def prober(self, prepared: PreparedBicliqueGpu) -> Prober:
        rates = find_rates(self.name, "vertex" if prepared.vertices else "total")[prepared.algorithm]
        return probe_device(self.device, prepared.index, prepared.algorithm, rates, choose_threads(None))

    def _build(self, question: BicliqueQuestion, anchor: str) -> BicliqueDeviceIndex:
        """Return the index for an anchor, with the rows of its right layer."""
        index = build_device_index(
            self.device,
            question.searched,
            question.motif,
            anchor,
            keep_pairs=question.keep_pairs,
            roots=question.roots,
        )
        if question.motif.needs_signs:
            index = halve_index(index)
        return _add_right_rows(self.device, index)

    def _choose_search(self, algorithm: str, index: BicliqueDeviceIndex, vertices: _VertexTables | None) -> TreeSearch:
        tuning = self.tuning
        _, _, of_vertices = tuning.blocks_per_sm
        alone = replace(tuning, slots=0)  # warps do not share sub-trees
        if vertices is not None:
            return TreeSearch("biclique_vertices", "biclique_vertices", {}, alone, LEAF_WORDS, of_vertices)
        if _goes_by_blocks(index, algorithm):
            left = index.sizes.max_left
            if left == 3:
                alone, blocks = replace(alone, near_words=tuning.pair_near_words), tuning.pair_blocks_per_sm
                words = LEAF_WORDS
            else:
                alone, blocks = replace(alone, near_words=tuning.list_near_words), tuning.list_blocks_per_sm
                words = LEAF_WORDS + RUN_WORDS
            return TreeSearch("biclique_blocks", "biclique_blocks", {"LEFT": left}, alone, words, blocks, True)
        code, words = _CODES[algorithm], 0 if algorithm == "pivot" else LEAF_WORDS + RUN_WORDS
        defines = {"ALGORITHM": code}
        if algorithm != "pivot" and _has_large_leaves(index):
            defines["DENSE"] = 1
        if index.seconds >= LONG_S:
            # Costs omit the depth of the trees, which is nearly all of the work on dense graphs.
            worth = int(_SHARE_S * float(index.costs.sum()) / index.seconds)
            tuning = replace(tuning, share_cost=min(max(worth, 1), tuning.share_cost))
        return TreeSearch("biclique", "biclique_search", defines, tuning, words, tuning.blocks_per_sm[code])

    def _count(self, prepared: PreparedBicliqueGpu, start: int, stop: int, cut: StopCheck) -> Partial:
        if prepared.vertices is not None:
            return self._count_vertices(prepared, prepared.vertices, (start, stop), cut)
        end, cells = stop, Cells()
        if start < end and prepared.classes:
            end, cells = self._search(prepared, (start, stop), cut)
        if start == 0 and end > 0:
            cells = add_cells(cells, prepared.index.closed_cells)
        table = cells if prepared.motif.is_table else {}
        return Partial(end - start, sum(cells.values()), self._work_done(), {}, table)

    def _count_vertices(
        self, prepared: PreparedBicliqueGpu, tables: _VertexTables, span: tuple[int, int], cut: StopCheck
    ) -> Partial:
        (start, end), total = span, 0
        if start == 0 < end and tables.stars and not prepared.classes:
            stars = {layer: vector.copy() for layer, vector in tables.stars.items()}
            return Partial(end - start, prepared.index.closed_total, 0, stars)
        vectors = {layer: np.zeros(n, np.uint64) for layer, n in zip("uv", tables.layers, strict=True)}
        if start < end and prepared.classes:
            sums = _VertexSums(self.device, prepared.index, tables)
            end = self._search_items(prepared, span, cut, sums.arguments)
            total = sums.add_to(vectors)
        if prepared.motif.needs_signs:
            vectors = fold_vectors(vectors)
        return Partial(end - start, total, self._work_done(), vectors)

    def _search_items(
        self, prepared: PreparedBicliqueGpu, span: tuple[int, int], cut: StopCheck, own: tuple[Any, ...]
    ) -> int:
        """Search items, with the kernel's ``own`` arguments; return the end of the run."""
        index, (start, stop) = prepared.index, span
        pieces = Pieces(start, index.pieces_at(np.arange(start, stop + 1)))
        search = self._choose_search(prepared.algorithm, index, prepared.vertices)
        return self._launch(search, prepared.classes, pieces, lambda: index.costs, cut, index.searched, own).stop

    def _search(self, prepared: PreparedBicliqueGpu, span: tuple[int, int], cut: StopCheck) -> tuple[int, Cells]:
        """Search items, again with a larger table if one was full. Return the end of the run, and the cells."""
        full, (start, stop) = 0, span
        wanted = self._slots.get(prepared, self.tuning.leaf_slots) if prepared.algorithm != "enumerate" else 1
        while True:
            n_keys = self._fit_table(wanted, full, stop - start)
            counts = self._make_counts(prepared, n_keys)
            stop = self._search_items(prepared, (start, stop), cut, self._arguments(prepared, counts))
            if not int(self.device.to_host(counts.full)[0]):
                return stop, self._expand(prepared.index, counts)
            wanted, full = 4 * n_keys, n_keys
            self._slots[prepared] = wanted

    def _fit_table(self, wanted: int, full: int, n_items: int) -> int:
        """Return the number of slots for the table of leaves: ``wanted``, halved until it fits."""
        room_bytes = self.device.free_bytes()
        most = min(_MAX_SLOTS, (room_bytes if full else room_bytes // _FIRST_SHARE) // _SLOT_BYTES)
        while wanted > most:
            wanted //= 2
        if wanted <= full:
            raise LeaseTooLargeError(
                f"the leaves of {n_items} work items need a table of more than {full} slots of "
                f"{_SLOT_BYTES} bytes; {room_bytes} bytes of device memory are free, and the maximum is {_MAX_SLOTS} "
                "slots: use a device with more memory, or --engine cpu"
            )
        return wanted

    def _make_counts(self, prepared: PreparedBicliqueGpu, n_keys: int) -> _Counts:
        xp = self.device.xp
        sums, keys, leaves = (xp.zeros(n, dtype=np.uint64) for n in (prepared.max_common + 1, n_keys, n_keys))
        return _Counts(sums, keys, leaves, xp.zeros(1, dtype=np.int32))

    def _arguments(self, prepared: PreparedBicliqueGpu, counts: _Counts) -> tuple[Any, ...]:
        sizes = prepared.index.sizes
        if _goes_by_blocks(prepared.index, prepared.algorithm):
            return np.int32(min(sizes.min_right, _MAX_SIDE + 2)), counts.sums
        limits = (sizes.min_left, sizes.max_left, sizes.min_right, sizes.max_right)
        return (
            *(np.int32(min(limit, _MAX_SIDE + 2)) for limit in limits),
            counts.sums, counts.keys, counts.leaves, np.uint32(counts.keys.size), counts.full,
        )  # fmt: skip

    def _expand(self, index: BicliqueDeviceIndex, counts: _Counts) -> Cells:
        """Turn the counts of leaves into bicliques by (p, q); keys are as in pivot_tree.cuh."""
        sizes, to_host = index.sizes, self.device.to_host
        lefts = range(sizes.min_left, sizes.max_left + 1)
        rights = range(sizes.min_right, sizes.max_right + 1)
        sums = to_host(counts.sums)
        shared = {int(size): int(sums[size]) for size in np.flatnonzero(sums)}
        leaves: dict[Leaf, int] = {}
        if counts.leaves.size > 1:  # else the search counted sets, which have no keys
            used = find_counted(self.device, counts.leaves)
            keys, times = (to_host(take(self.device, each, used)) for each in (counts.keys, counts.leaves))
            parts = [(keys >> np.uint64(low) & _SIDE_MASK).tolist() for low in (48, 32, 16, 0)]
            leaves = dict(zip(zip(*parts, strict=True), times.tolist(), strict=True))
        cells = add_cells(expand_sizes(shared, lefts.start, rights), expand_leaves(leaves, lefts, rights))
        return turn(cells, index.anchor)


def _add_right_rows(device: Device, index: BicliqueDeviceIndex) -> BicliqueDeviceIndex:
    indptr, rows = turn_rows(device, index.arrays["indptr"], index.arrays["columns"], index.n_right)
    return replace(index, arrays=index.arrays | {"right_indptr": indptr, "right_rows": rows})


def _has_large_leaves(index: BicliqueDeviceIndex) -> bool:
    """Whether left sets share more right vertices than a warp has counters for, if each vertex keeps an equal share.

    The block then counts these sets, which takes 6 to 20 % longer if there are none. In device memory, all lanes
    would contend for the few sizes of a dense graph.
    """
    degree = float(index.item_degree.mean()) if index.item_degree.size else 0.0
    shared = float(index.item_common.mean()) / max(degree, 1.0) if index.item_common.size else 0.0
    return degree * min(shared, 1.0) ** (index.sizes.max_left - 1) >= index.sizes.min_right + LEAF_BINS


def _goes_by_blocks(index: BicliqueDeviceIndex, algorithm: str) -> bool:
    """Whether ``biclique_blocks.cu`` counts the totals: if at most pairs lie below a child."""
    return algorithm == "enumerate" and index.sizes.max_left in _BLOCK_LEFTS


def _check_sizes(index: BicliqueDeviceIndex, halves: bool) -> int:
    """Reject sizes too large for the words of the kernels, which hold two sizes each if ``halves``.

    Returns the maximum number of right vertices that two left ones share.
    """
    max_common = int(index.item_common.max(initial=0))
    if halves:
        check_fits("the largest neighbourhood that two vertices share", max_common, _MAX_SIDE, "vertices")
        check_fits("the largest set of candidates", int(index.item_later.max(initial=0)), _MAX_SIDE, "vertices")
    if index.n_pairs:
        check_fits("the right side", index.sizes.min_right, _MAX_LEAST, "vertices")
    return max_common


def _estimate_need(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the maximum words that a warp needs for each work item: matrix, lists, frames; int64, shape (n_items,).

    With n later children and c columns shared with one of them, a list is n rows of c / 32 words. Enumeration has one
    list per level, and the slices of one. Pivots have the columns of one list, and frames of two sets of rows and two
    of columns for each of min(n, c).
    """
    later, common = index.item_later, index.item_common
    row_words, column_words = (common + 31) // 32, (later + 31) // 32
    levels = np.clip(index.sizes.max_left - 3, 1, later)
    lists = levels * (later * row_words + 4) + SUBSET_FRAME_WORDS * levels
    frames = (np.minimum(later, common) + 1) * (2 * (row_words + column_words) + PIVOT_FRAME_WORDS)
    pivots = common * column_words + frames + 2 * (row_words + column_words)
    below = np.maximum(pivots, _slice_words(index))
    need: NDArray[np.int64] = _matrix_words(index) + later + lists + below + 128
    return need


def _matrix_words(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the words of the matrix of each work item, and of what fills it."""
    words: NDArray[np.int64] = index.item_later * ((index.item_degree + 31) // 32) + index.item_degree
    return words


def _slice_words(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the words of slices (``pairs.cuh``): columns of two lists by rows, and some of them."""
    blocks, row_words = (index.item_later + 31) // 32, (index.item_common + 31) // 32
    words: NDArray[np.int64] = 64 * row_words * blocks + (SLICED_COLUMNS + 4) * (blocks + 3) + row_words
    return words + _SPARE_WORDS


def _estimate_blocks_need(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the words that a warp needs for each work item, besides the matrix that its block shares.

    For four left vertices these are the candidates of a strip of children and, for one child, their numbers and rows,
    or slices.
    """
    later, degree, common = index.item_later, index.item_degree, index.item_common
    need = np.full(later.size, _SPARE_WORDS)
    if index.sizes.max_left > 3:
        row_words = np.maximum((common + 31) // 32, np.minimum((degree + 31) // 32, KEPT_WORDS))
        need += 2 * later + np.maximum(later * row_words, _slice_words(index))
    return need


def _estimate_vertex_need(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the maximum words that a warp needs for each work item: sums, matrix, lists; int64, shape (n_items,).

    With n later children and c columns shared with one of them, a list is n rows of c / 32 words and n places. There is
    one list for the child, and a list and a frame for every row taken before the last two. The last list is transposed:
    n / 32 words for each column. With three left vertices the matrix is there twice.
    """
    later, degree, common = index.item_later, index.item_degree, index.item_common
    row_words, column_words = (common + 31) // 32, (later + 31) // 32
    taken = np.where(later > index.sizes.min_left - 2, max(0, index.sizes.min_left - 4), 0)
    lists = (taken + 1) * (later * (row_words + 1) + 8) + VERTEX_FRAME_WORDS * taken
    sums = SUM_WORDS * (later + degree)
    copies = 2 if index.sizes.min_left == 3 else 1
    need: NDArray[np.int64] = (copies * degree + common) * column_words + degree + sums + lists + _SPARE_WORDS
    return need


_NEEDS = {
    "biclique": _estimate_need,
    "biclique_blocks": _estimate_blocks_need,
    "biclique_vertices": _estimate_vertex_need,
}
"""Words that a warp needs for each work item, by the source of its kernel."""
