"""Build the index of (p,q)-bicliques on the device, equal to :func:`build_biclique_index` on the host.

Edges, wedges and pairs stay on the device (``biclique_index.cu``). Decisions, closed forms and the list of work items
use the CPU engine's functions and arrays, so workers with and without a GPU have the same list.

The work items equal the ones that :mod:`papilio.kernels.biclique.index` cuts on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.forms import (
    Cells,
    Degrees,
    RootStars,
    closed_cells,
    find_root_stars,
    needs_stars,
)
from papilio.kernels.biclique.gpu_pairs import PairRows, Pairs, count_pairs, find_pairs
from papilio.kernels.biclique.items import (
    ITEMS_PER_JOB,
    LEAST_ITEM_COST,
    BicliqueItems,
    SizeRange,
    add_pairs,
    deal_pieces,
    divide_pieces,
    make_root_items,
    make_star_item,
    number_roots,
    place_roots,
    split_pairs,
)
from papilio.kernels.biclique.question import choose_anchor, choose_sizes
from papilio.kernels.biclique.signed_cover import choose_half, halve_cells
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
from papilio.kernels.tuning import PairTuning, pair_tuning, wedge_tuning
from papilio.kernels.wedge.gpu_graph import check_rows, count_degrees, link_rows
from papilio.motifs import Biclique


def cut_items(device: Device, module: Module, pairs: Pairs, deep: bool, items: Any) -> tuple[Any, Any, Any, Any]:
    """Return root, first and last child, and cost of each piece, in order.

    ``items`` holds the item of each left vertex of a part, -1 for vertices that are not roots; None for a whole graph.
    """
    xp = device.xp
    n_left = pairs.indptr.size - 1
    n_threads, n_rows = 32 * n_left, np.int32(n_left)
    ends = _sum_child_costs(device, module, pairs, deep)
    most = np.int64(max(LEAST_ITEM_COST, int(device.to_host(ends[-1:])[0]) // ITEMS_PER_JOB))
    n_items = xp.empty(n_left, dtype=np.int32)
    launch_over(device, module, "count_items", n_threads, pairs.indptr, ends, n_rows, most, n_items)
    places = make_offsets(device, n_items)
    n = int(device.to_host(places[-1:])[0])
    roots = xp.empty(n, dtype=np.int32)
    firsts, lasts, costs = (xp.empty(n, dtype=np.int64) for _ in range(3))
    launch_over(
        device, module, "write_items", n_threads, pairs.indptr, ends, n_rows, most, places, roots, firsts,
        lasts, costs,
    )  # fmt: skip
    order = order_falling(device, costs)
    if items is not None:
        order = order[xp.argsort(items[roots[order]], kind="stable")]
    roots, firsts, lasts, costs = (take(device, each, order) for each in (roots, firsts, lasts, costs))
    return roots, firsts, lasts, costs


def _sum_child_costs(device: Device, module: Module, pairs: Pairs, deep: bool) -> Any:
    n_left = pairs.indptr.size - 1
    child_costs = device.xp.empty(pairs.others.size, dtype=np.int64)
    launch_over(
        device, module, "estimate_children", 32 * n_left, pairs.indptr, pairs.common, np.int32(n_left),
        np.int32(deep), child_costs,
    )  # fmt: skip
    return device.xp.cumsum(child_costs)


def measure_items(
    device: Device, module: Module, pairs: Pairs, indptr: Any, pieces: tuple[Any, Any, Any]
) -> NDArray[np.int64]:
    """Return ``item_later``, ``item_degree`` and ``item_common`` of pieces (root, first, last); shape (3, n_pieces)."""
    roots, firsts, lasts = pieces
    measures = device.xp.empty(3 * roots.size, dtype=np.int64)
    launch_over(
        device, module, "measure_items", 32 * roots.size, roots, firsts, lasts, np.int64(roots.size), indptr,
        pairs.indptr, pairs.common, measures,
    )  # fmt: skip
    return device.to_host(measures).reshape(3, -1)


def list_roots(
    device: Device, module: Module, pairs: Pairs, deep: bool, items: NDArray[np.int32], n_items: int
) -> tuple[Any, Any, Any, Any]:
    """Return one item per root of a part, as :func:`cut_items`; ``items`` is on the host."""
    indptr = device.to_host(pairs.indptr)
    before = np.zeros_like(indptr)
    if pairs.others.size:
        ends = _sum_child_costs(device, module, pairs, deep)
        before[indptr > 0] = device.to_host(ends[device.to_device(indptr[indptr > 0] - 1)])
    made = make_root_items(indptr, before, items, n_items)
    roots, firsts, lasts, costs = (device.to_device(each) for each in made)
    return roots, firsts, lasts, costs


_ROUNDS = 4
"""Passes over all edges between two checks whether the core is reached."""

_MAX_INT = 2**31 - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class BicliqueDeviceIndex(BicliqueItems):
    """A graph ready for the GPU engine: the rows on the device, the work items on both."""

    # The arrays of BicliqueIndex by name, all but costs.
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
        return tuple(self.arrays[name] for name in (*names, "item_root", "item_first", "item_last"))


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


@dataclass(frozen=True, eq=False)
class _Core:
    """Rows of the core by rank; original ids of the left vertices by rank and of the right ones, int32.

    For a part, also the item of each left vertex by rank, -1 for vertices that are not roots, the number of items, and
    the excluded left vertices, if they matter.
    """

    rows: PairRows
    left_ids: Any
    right_ids: Any
    items: Any = None
    n_items: int = 0
    excluded: Any = None


def build_device_index(
    device: Device,
    graph: BipartiteGraph,
    motif: Biclique,
    anchor: str = "auto",
    keep_pairs: bool = True,
    tuning: PairTuning | None = None,
    roots: NDArray[np.int32] | None = None,
) -> BicliqueDeviceIndex:
    """Copy the edges to the device, then reduce, order, pair and cut there; signs are ignored.

    ``anchor`` is the layer whose vertices are searched one after the other: ``auto``, ``u`` or ``v``. ``keep_pairs``
    keeps pairs even if nothing is searched below them; otherwise they are counted as closed forms. With ``roots``
    (int32, host), of the layer ``anchor``, the graph is the graph of a part.
    """
    device.load("biclique_index", {})  # compiled while the rows are linked
    load_arrays(device)
    edges, layers = load_edges(device, graph)
    swapped = choose_anchor(layers, motif, anchor)
    sizes = choose_sizes(layers, motif, swapped)
    closed = closed_cells(layers, motif, _stars_of(device, graph, edges, motif, swapped, roots))
    return build_index(device, edges, swapped, sizes, closed, keep_pairs, tuning, roots)


def build_index(
    device: Device,
    edges: DeviceEdges,
    swapped: bool,
    sizes: SizeRange,
    closed: Cells | None = None,
    keep_pairs: bool = True,
    tuning: PairTuning | None = None,
    roots: NDArray[np.int32] | None = None,
    excluded: NDArray[np.int32] | None = None,
) -> BicliqueDeviceIndex:
    """Build the index as :func:`papilio.kernels.biclique.index.build_index`; uses up the edges on the device.

    The pairs with excluded vertices are the arrays ``apart_indptr`` and ``apart``.
    """
    chosen = tuning if tuning is not None else pair_tuning(device.max_shared_bytes)
    closed = closed or {}
    if swapped:
        edges.swap()
    if sizes.is_empty or not _peel(device, edges, sizes):
        return _empty_index(device, swapped, sizes, closed, roots, excluded)
    core = _link_core(device, edges, sizes, roots, excluded)
    edges.drop()
    least = min(sizes.min_right, _MAX_INT)
    if sizes.max_left == 2 and not keep_pairs:
        shared, choices = count_pairs(device, core.rows, least, chosen)
        closed = add_pairs(closed, shared, sizes, swapped)
        pairs = replace(_no_pairs(device, core.rows), choices=choices)
    else:
        pairs = find_pairs(device, core.rows, least, chosen)
    return _make_index(device, core, pairs, swapped, sizes, closed)


def halve_device_index(device: Device, index: BicliqueDeviceIndex) -> BicliqueDeviceIndex:
    """Halve the index as :func:`~papilio.kernels.biclique.index.halve_index`."""
    half = choose_half(index.item_root, device.to_host(index.arrays["left_ids"]))
    pieces = {name: getattr(index, name)[half] for name in (*_ON_BOTH, "costs", "item_later")}
    index = _put_pieces(device, index, pieces, half)
    return replace(index, closed_cells=halve_cells(index.closed_cells))


def divide_device_index(device: Device, index: BicliqueDeviceIndex, wanted: int) -> BicliqueDeviceIndex:
    """Divide the index as :func:`~papilio.kernels.biclique.index.divide_index`."""
    divided = divide_pieces(index, wanted)
    return index if divided is None else _put_pieces(device, index, *divided)


def deal_device_index(device: Device, index: BicliqueDeviceIndex, hands: int) -> BicliqueDeviceIndex:
    """Return the index of a whole graph with its items dealt in hands."""
    return index if hands == 1 else _put_pieces(device, index, *deal_pieces(index, hands))


_ON_BOTH = ("item_root", "item_first", "item_last")
"""Arrays of the pieces on both host and device."""


def _put_pieces(
    device: Device, index: BicliqueDeviceIndex, pieces: dict[str, Any], parents: NDArray[Any]
) -> BicliqueDeviceIndex:
    """Return the index with other pieces, each within a present one, or a mask of the pieces to keep."""
    arrays = index.arrays | {name: device.to_device(pieces[name]) for name in _ON_BOTH}
    measures = {name: getattr(index, name)[parents] for name in ("item_degree", "item_common")}
    return replace(index, **pieces, **measures, arrays=arrays)


def _stars_of(
    device: Device,
    graph: BipartiteGraph,
    edges: DeviceEdges,
    motif: Biclique,
    swapped: bool,
    roots: NDArray[np.int32] | None,
) -> RootStars | None:
    """Return the stars of a part to count, on the host, if the motif includes stars; None for a whole graph."""
    if roots is None or not needs_stars(motif):
        return None
    on_device = BipartiteGraph(graph.n_u, graph.n_v, edges.lefts, edges.rights)
    found = find_root_stars(on_device, "v" if swapped else "u", roots, device.xp)
    return RootStars(found.layer, device.to_host(found.is_root), device.to_host(found.others))


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


def _peel(device: Device, edges: DeviceEdges, sizes: SizeRange) -> int:
    """Keep the edges of the core in ``edges``, in order, and its degrees, 0 outside. Return their number.

    Rounds pass over all edges; the removed ones are dropped when they are more than half.
    """
    xp = device.xp
    module = device.load("biclique_index", {})
    least = [np.int32(min(each, _MAX_INT)) for each in (sizes.min_right, sizes.min_left)]
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


def _link_core(
    device: Device,
    edges: DeviceEdges,
    sizes: SizeRange,
    roots: NDArray[np.int32] | None,
    excluded: NDArray[np.int32] | None,
) -> _Core:
    """Number the core: left vertices by descending degree, then id, roots last. Sort its edges into rows."""
    xp, linker, n_all = device.xp, _load_linker(device), edges.degree_left.size
    lefts, rights = (find_least(device, each, 1) for each in (edges.degree_left, edges.degree_right))
    n_left, n_edges = lefts.size, edges.lefts.size
    items: Any = None if roots is None else device.to_device(number_roots(roots, n_all))
    degree = xp.empty(n_left + rights.size, dtype=np.int32)
    left_ids, rank_left = _rank_core(device, lefts, edges.degree_left, degree[:n_left], True, items)
    right_ids, new_right = _rank_core(device, rights, edges.degree_right, degree[n_left:])
    indptr = make_offsets(device, degree)
    degree = degree[:n_left]
    first = xp.empty(n_edges, dtype=np.uint64)
    launch_over(
        device, linker, "first_keys", n_edges, edges.lefts, edges.rights, np.int64(n_edges), rank_left,
        new_right, first,
    )  # fmt: skip
    adjacency, prefix, _ = link_rows(device, linker, first, indptr, n_left)
    n_roots, n_items = n_left, 0
    if roots is not None:
        items, n_items = items[left_ids], int(roots.size)
        n_roots = int((items >= 0).astype(np.int64).sum())
    max_shared = int(device.to_host(degree[n_left - n_roots :][:1]).max(initial=0))
    rows = PairRows(n_left, n_roots, degree, indptr, adjacency, prefix, max_shared)
    is_excluded: Any = None
    if excluded is not None:
        is_excluded = xp.zeros(n_all, dtype=np.bool_)
        is_excluded[device.to_device(excluded)] = True
        is_excluded = is_excluded[left_ids]
    return _Core(rows, left_ids, right_ids, items, n_items, is_excluded)


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


def _no_pairs(device: Device, rows: PairRows) -> Pairs:
    """Return rows without pairs, in the order of :class:`Pairs`: by ascending degree, then id."""
    xp, n_left = device.xp, rows.n_left
    none = xp.zeros(0, dtype=np.int32)
    order = fill_ints(device, n_left, n_left - 1, -1)
    return Pairs(order, xp.zeros(n_left + 1, dtype=np.int64), none, none)


def _empty_index(
    device: Device,
    swapped: bool,
    sizes: SizeRange,
    closed: Cells,
    roots: NDArray[np.int32] | None,
    excluded: NDArray[np.int32] | None,
) -> BicliqueDeviceIndex:
    xp = device.xp
    none, start = xp.zeros(0, dtype=np.int32), xp.zeros(1, dtype=np.int64)
    rows = PairRows(0, 0, none, start, none, none, 0)
    core = _Core(rows, none, none)
    if roots is not None:
        apart = None if excluded is None else none.astype(np.bool_)
        core = _Core(rows, none, none, none, int(roots.size), apart)
    return _make_index(device, core, _no_pairs(device, rows), swapped, sizes, closed)


def _make_index(
    device: Device, core: _Core, pairs: Pairs, swapped: bool, sizes: SizeRange, closed: Cells
) -> BicliqueDeviceIndex:
    """Put the rows in search order and cut the work items."""
    xp, to_host = device.xp, device.to_host
    rows, n_left = core.rows, core.rows.n_left
    module = device.load("biclique_index", {})
    indptr = make_offsets(device, take(device, rows.degree, pairs.order))
    columns = xp.empty(rows.adjacency.size // 2, dtype=np.int32)
    if n_left:
        launch_over(
            device, module, "copy_rows", 32 * n_left, rows.indptr, rows.adjacency,
            pairs.order, indptr, np.int32(n_left), columns,
        )  # fmt: skip
    arrays = {
        "indptr": indptr,
        "columns": columns,
        "left_ids": take(device, core.left_ids, pairs.order),
        "right_ids": core.right_ids,
    }
    if core.excluded is not None:
        kept, apart = split_pairs(pairs.indptr, pairs.others, pairs.common, core.excluded[pairs.order])
        pairs = replace(pairs, indptr=kept[0], others=kept[1], common=kept[2])
        arrays |= {"apart_indptr": apart[0], "apart": apart[1]}
    arrays |= {"hop_indptr": pairs.indptr, "hop": pairs.others, "hop_common": pairs.common}
    items = None if core.items is None else core.items[pairs.order]
    if core.excluded is not None:
        items, n_items = to_host(items), core.n_items
        roots, firsts, lasts, costs = list_roots(device, module, pairs, sizes.max_left > 2, items, n_items)
        items = None
    elif pairs.others.size:
        roots, firsts, lasts, costs = cut_items(device, module, pairs, sizes.max_left > 2, items)
    else:
        is_one = closed and items is None
        stars = make_star_item() if is_one else tuple(each[:0] for each in make_star_item())
        roots, firsts, lasts, costs = (device.to_device(each) for each in stars)
    measures = measure_items(device, module, pairs, indptr, (roots, firsts, lasts))
    arrays |= {"item_root": roots, "item_first": firsts, "item_last": lasts}
    item_ptr = None if items is None else place_roots(to_host(items[roots]), core.n_items)
    return BicliqueDeviceIndex(
        swapped=swapped,
        sizes=sizes,
        n_left=n_left,
        n_right=core.right_ids.size,
        item_root=to_host(roots),
        item_first=to_host(firsts),
        item_last=to_host(lasts),
        costs=to_host(costs),
        closed_cells=closed,
        arrays=arrays,
        item_later=measures[0],
        item_degree=measures[1],
        item_common=measures[2],
        item_ptr=item_ptr,
        choices=pairs.choices,
    )
