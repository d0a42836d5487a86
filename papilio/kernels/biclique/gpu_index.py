"""Build the index of (p,q)-bicliques on the device, equal to the index on the host.

Edges, wedges and pairs stay on the device (``biclique_index.cu``). Decisions and closed forms come from
:mod:`papilio.kernels.biclique.build`, so workers with and without a GPU have the same list of work items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.build import build_bicliques
from papilio.kernels.biclique.forms import Degrees, RootStars, find_root_stars
from papilio.kernels.biclique.gpu_pairs import PairRows, Pairs, count_pairs, find_pairs
from papilio.kernels.biclique.items import BicliqueItems, PieceArrays, split_pairs
from papilio.kernels.device.arrays import (
    fill_ints,
    find_least,
    load_arrays,
    make_offsets,
    order_falling,
    take,
)
from papilio.kernels.device.protocol import Device, Module, launch_over
from papilio.kernels.engine import Choice
from papilio.kernels.rows.gpu_index import check_rows, count_degrees, link_rows
from papilio.kernels.tuning import PairTuning, pair_tuning, wedge_tuning
from papilio.motifs import Biclique
from papilio.parts import Layer

_ROUNDS = 4
"""Passes over all edges between two checks whether the core is reached."""

_MAX_INT = 2**31 - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class BicliqueDeviceIndex(BicliqueItems):
    """A graph ready for the GPU engine: the rows on the device, the work items on both."""

    device: Device
    # The arrays of BicliqueIndex by name, all but costs; of a part with excluded vertices also the pairs with them,
    # "apart_indptr" and "apart".
    arrays: dict[str, Any]
    # Of each piece, on the host: right vertices of the root, and maximum number of right vertices that the root shares
    # with a child of the piece.
    item_degree: NDArray[np.int64]
    item_common: NDArray[np.int64]
    # Effects of too little device memory, and their reasons.
    choices: tuple[Choice, ...] = ()

    @property
    def n_pairs(self) -> int:
        return int(self.arrays["hop"].size)

    @property
    def searched(self) -> tuple[Any, ...]:
        """First arguments of every searching kernel: rows, children, rows of the right layer, work items."""
        names = ("indptr", "columns", "hop_indptr", "hop", "right_indptr", "right_rows")
        return tuple(self.arrays[name] for name in (*names, *_ON_BOTH))

    @property
    def host_ids(self) -> NDArray[np.int32]:
        return self.device.to_host(self.arrays["left_ids"])

    def with_ids(self, left_ids: NDArray[np.int32], right_ids: NDArray[np.int32]) -> Self:
        named = {
            name: self.device.to_device(ids)[self.arrays[name]]
            for name, ids in (("left_ids", left_ids), ("right_ids", right_ids))
        }
        return replace(self, arrays=self.arrays | named)

    def with_pieces(self, pieces: dict[str, Any], parents: NDArray[Any]) -> Self:
        arrays = self.arrays | {name: self.device.to_device(pieces[name]) for name in _ON_BOTH}
        measures = {name: getattr(self, name)[parents] for name in ("item_degree", "item_common")}
        return replace(super().with_pieces(pieces, parents), **measures, arrays=arrays)


_ON_BOTH = ("item_root", "item_first", "item_last")
"""Arrays of the pieces on both host and device."""


@dataclass(eq=False)
class DeviceEdges:
    """Edges on the device by left and right vertex; degrees of both layers, int32."""

    lefts: Any
    rights: Any
    degree_left: Any
    degree_right: Any

    def swap(self) -> None:
        """Swap the left and right layers."""
        self.lefts, self.rights = self.rights, self.lefts
        self.degree_left, self.degree_right = self.degree_right, self.degree_left

    def drop(self) -> None:
        """Release all memory."""
        self.lefts = self.rights = self.degree_left = self.degree_right = None


class DeviceRows:
    """A graph on the device as a :class:`~papilio.kernels.biclique.build.RowStore`; uses up the edges."""

    def __init__(self, device: Device, edges: DeviceEdges, layers: Degrees, tuning: PairTuning | None = None) -> None:
        none, start = device.xp.zeros(0, dtype=np.int32), device.xp.zeros(1, dtype=np.int64)
        self.device, self.layers, self._edges = device, layers, edges
        self._module = device.load("biclique_index", {})
        self._tuning = tuning if tuning is not None else pair_tuning(device.max_shared_bytes)
        # The core: left vertices by descending degree, then id, roots last; ``left_ids`` and ``items`` by rank.
        self._rows = PairRows(0, 0, none, start, none, none, 0)
        self._left_ids = self._right_ids = none
        self._items: Any = None
        self._pairs = Pairs(none, start, none, none)
        self._arrays: dict[str, Any] = {}
        self._ends: Any = None  # inclusive sums of the costs of all children

    @property
    def n_pairs(self) -> int:
        return int(self._pairs.others.size)

    def find_stars(self, layer: Layer, roots: NDArray[np.int32]) -> RootStars:
        device = self.device
        graph = BipartiteGraph(self.layers.n_u, self.layers.n_v, self._edges.lefts, self._edges.rights)
        found = find_root_stars(graph, layer, roots, device.xp)
        return RootStars(found.layer, device.to_host(found.is_root), device.to_host(found.others))

    def reduce(self, anchor: Layer, min_left: int, min_right: int) -> bool:
        if anchor == "v":
            self._edges.swap()
        return _peel(self.device, self._edges, min_left, min_right) > 0

    def rank(self, items: NDArray[np.int32] | None) -> None:
        """Rank the vertices of the core, and sort its edges into rows."""
        device, edges = self.device, self._edges
        xp, linker = device.xp, _load_linker(device)
        lefts, rights = (find_least(device, each, 1) for each in (edges.degree_left, edges.degree_right))
        n_left, n_edges = lefts.size, edges.lefts.size
        by_id: Any = None if items is None else device.to_device(items)
        degree = xp.empty(n_left + rights.size, dtype=np.int32)
        self._left_ids, rank_left = _rank_core(device, lefts, edges.degree_left, degree[:n_left], True, by_id)
        self._right_ids, new_right = _rank_core(device, rights, edges.degree_right, degree[n_left:])
        indptr = make_offsets(device, degree)
        degree = degree[:n_left]
        first = xp.empty(n_edges, dtype=np.uint64)
        launch_over(
            device, linker, "first_keys", n_edges, edges.lefts, edges.rights, np.int64(n_edges), rank_left,
            new_right, first,
        )  # fmt: skip
        adjacency, prefix, _ = link_rows(device, linker, first, indptr, n_left)
        edges.drop()
        n_roots = n_left
        if items is not None:
            self._items = by_id[self._left_ids]
            n_roots = int((self._items >= 0).astype(np.int64).sum())
        max_shared = int(device.to_host(degree[n_left - n_roots :][:1]).max(initial=0))
        self._rows = PairRows(n_left, n_roots, degree, indptr, adjacency, prefix, max_shared)
        self._pairs = self._no_pairs()

    def _no_pairs(self, choices: tuple[Choice, ...] = ()) -> Pairs:
        """Return rows without pairs, in the order of :class:`Pairs`: by ascending degree, then id."""
        xp, n_left = self.device.xp, self._rows.n_left
        none = xp.zeros(0, dtype=np.int32)
        order = fill_ints(self.device, n_left, n_left - 1, -1)
        return Pairs(order, xp.zeros(n_left + 1, dtype=np.int64), none, none, choices)

    def count_pairs(self, least: int) -> dict[int, int]:
        shared, choices = count_pairs(self.device, self._rows, min(least, _MAX_INT), self._tuning)
        self._pairs = self._no_pairs(choices)
        return shared

    def find_pairs(self, least: int) -> None:
        self._pairs = find_pairs(self.device, self._rows, min(least, _MAX_INT), self._tuning)

    def arrange(self, excluded: NDArray[np.int32] | None) -> None:
        device, rows, pairs = self.device, self._rows, self._pairs
        indptr = make_offsets(device, take(device, rows.degree, pairs.order))
        columns = device.xp.empty(rows.adjacency.size // 2, dtype=np.int32)
        if rows.n_left:
            launch_over(
                device, self._module, "copy_rows", 32 * rows.n_left, rows.indptr, rows.adjacency, pairs.order, indptr,
                np.int32(rows.n_left), columns,
            )  # fmt: skip
        left_ids = take(device, self._left_ids, pairs.order)
        self._arrays = {"indptr": indptr, "columns": columns, "left_ids": left_ids, "right_ids": self._right_ids}
        if self._items is not None:
            self._items = self._items[pairs.order]
        if excluded is not None:
            is_excluded = device.xp.zeros(max(self.layers.n_u, self.layers.n_v), dtype=np.bool_)
            is_excluded[device.to_device(excluded)] = True
            kept, apart = split_pairs(pairs.indptr, pairs.others, pairs.common, is_excluded[left_ids])
            pairs = replace(pairs, indptr=kept[0], others=kept[1], common=kept[2])
            self._arrays |= {"apart_indptr": apart[0], "apart": apart[1]}
        self._arrays |= {"hop_indptr": pairs.indptr, "hop": pairs.others, "hop_common": pairs.common}
        self._pairs = pairs

    def weigh(self, deep: bool) -> None:
        costs = self.device.xp.empty(self.n_pairs, dtype=np.int64)
        launch_over(
            self.device, self._module, "estimate_children", 32 * self._rows.n_left, self._pairs.indptr,
            self._pairs.common, np.int32(self._rows.n_left), np.int32(deep), costs,
        )  # fmt: skip
        self._ends = self.device.xp.cumsum(costs)

    def sum_costs(self) -> int:
        return int(self.device.to_host(self._ends[-1:])[0])

    def cut(self, most: int) -> tuple[PieceArrays, NDArray[np.int32] | None]:
        device, xp, items = self.device, self.device.xp, self._items
        n_threads = 32 * self._rows.n_left
        costs = self._pairs.indptr, self._ends, np.int32(self._rows.n_left), np.int64(most)
        n_pieces = xp.empty(self._rows.n_left, dtype=np.int32)
        launch_over(device, self._module, "count_items", n_threads, *costs, n_pieces)
        places = make_offsets(device, n_pieces)
        n = int(device.to_host(places[-1:])[0])
        pieces = PieceArrays(xp.empty(n, dtype=np.int32), *(xp.empty(n, dtype=np.int64) for _ in range(3)))
        launch_over(device, self._module, "write_items", n_threads, *costs, places, *pieces)
        order = order_falling(device, pieces.costs)
        if items is not None:
            order = order[xp.argsort(items[pieces.item_root[order]], kind="stable")]
        pieces = PieceArrays(*(take(device, each, order) for each in pieces))
        return pieces, None if items is None else device.to_host(items[pieces.item_root])

    def cost_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        device = self.device
        indptr = device.to_host(self._pairs.indptr)
        before = np.zeros_like(indptr)
        before[indptr > 0] = device.to_host(self._ends[device.to_device(indptr[indptr > 0] - 1)])
        return indptr, before, device.to_host(self._items)

    def make_index(self, pieces: PieceArrays, **fields: Any) -> BicliqueDeviceIndex:
        device, costs = self.device, pieces.costs
        arrays = self._arrays | {name: device.to_device(getattr(pieces, name)) for name in _ON_BOTH}
        n = int(arrays["item_root"].size)
        measures = device.xp.empty(3 * n, dtype=np.int64)
        launch_over(
            device, self._module, "measure_items", 32 * n, *(arrays[name] for name in _ON_BOTH), np.int64(n),
            arrays["indptr"], arrays["hop_indptr"], arrays["hop_common"], measures,
        )  # fmt: skip
        later, degree, common = device.to_host(measures).reshape(3, -1)
        return BicliqueDeviceIndex(
            device=device,
            n_left=self._rows.n_left,
            n_right=int(self._right_ids.size),
            arrays=arrays,
            costs=costs if isinstance(costs, np.ndarray) else device.to_host(costs),
            item_later=later,
            item_degree=degree,
            item_common=common,
            choices=self._pairs.choices,
            item_root=device.to_host(arrays["item_root"]),
            item_first=device.to_host(arrays["item_first"]),
            item_last=device.to_host(arrays["item_last"]),
            **fields,
        )


def build_device_index(
    device: Device,
    graph: BipartiteGraph,
    motif: Biclique,
    anchor: str = "auto",
    keep_pairs: bool = True,
    tuning: PairTuning | None = None,
    roots: NDArray[np.int32] | None = None,
) -> BicliqueDeviceIndex:
    """Copy the edges to the device; return the index as :func:`~papilio.kernels.biclique.build.build_bicliques`."""
    device.load("biclique_index", {})  # compiled while the rows are linked
    load_arrays(device)
    return build_bicliques(DeviceRows(device, *load_edges(device, graph), tuning), motif, anchor, keep_pairs, roots)


def load_edges(device: Device, graph: BipartiteGraph) -> tuple[DeviceEdges, Degrees]:
    """Copy the edges, U left, and count degrees. Return also the sizes and degrees for decisions, on the host.

    At most 2^32 - 2^13 edges, and 2^31 - 2^20 vertices in both layers.
    """
    check_rows(graph.n_edges, graph.n_u + graph.n_v)
    linker = _load_linker(device)
    u, v = device.to_device(graph.u), device.to_device(graph.v)
    edges = DeviceEdges(u, v, *(count_degrees(device, linker, ids, n) for ids, n in ((u, graph.n_u), (v, graph.n_v))))
    degrees = (device.to_host(each).astype(np.int64) for each in (edges.degree_left, edges.degree_right))
    return edges, Degrees(graph.n_u, graph.n_v, *degrees)


def _load_linker(device: Device) -> Module:
    return device.load("wedge_graph", {"HUB_WORDS": wedge_tuning(device.max_shared_bytes).hub_words})


def _peel(device: Device, edges: DeviceEdges, min_left: int, min_right: int) -> int:
    """Keep the edges of the core in ``edges``, in order, and its degrees, 0 outside. Return their number.

    Rounds pass over all edges; the removed ones are dropped when they are more than half.
    """
    xp = device.xp
    module = device.load("biclique_index", {})
    least = [np.int32(min(each, _MAX_INT)) for each in (min_right, min_left)]
    n = int(edges.lefts.size)
    while n:
        gone, n_removed = xp.zeros(n, dtype=np.int32), xp.zeros(1, dtype=np.uint64)
        degrees = (edges.degree_left, edges.degree_right)
        arguments = (edges.lefts, edges.rights, np.int64(n), *least, *degrees, gone, n_removed)
        removed, before = 0, -1
        while before < removed <= n // 2:
            for _ in range(_ROUNDS):
                launch_over(device, module, "peel_edges", n, *arguments)
            before, removed = removed, int(device.to_host(n_removed)[0])
        if removed:
            kept = find_least(device, gone, 0)
            edges.lefts, edges.rights = take(device, edges.lefts, kept), take(device, edges.rights, kept)
        n -= removed
        if before == removed:
            break
    return n


def _rank_core(
    device: Device, ids: Any, degree: Any, own_degree: Any, by_degree: bool = False, items: Any = None
) -> tuple[Any, Any]:
    """Return the ids of a layer of the core by rank, and the rank of each id, int32; write degrees by rank.

    Ranks follow ``ids``, or descending degree, then id, with vertices whose ``items`` is -1 first.
    """
    xp, module, n = device.xp, device.load("biclique_index", {}), np.int32(ids.size)
    keys = xp.empty(ids.size if by_degree else 0, dtype=np.uint64)
    if by_degree:
        has_items, given = np.int32(items is not None), degree if items is None else items
        launch_over(device, module, "core_keys", ids.size, ids, n, degree, has_items, given, keys)
        keys.sort()
    own_ids, rank_of = xp.empty(ids.size, dtype=np.int32), xp.empty(degree.size, dtype=np.int32)
    launch_over(
        device, module, "place_core", ids.size, ids, n, degree, np.int32(by_degree), keys, own_ids, own_degree,
        rank_of,
    )  # fmt: skip
    return own_ids, rank_of
