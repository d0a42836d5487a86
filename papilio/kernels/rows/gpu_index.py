"""Build the graph of the wedge engine on the device (``wedge_graph.cu``): ranks, rows, wedge counts, hub columns.

``wedge_part.cu`` joins the blocks of a part: middles, prefixes, wedge counts, hub columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.device.protocol import THREADS, Device, Module, check_fits, launch_over
from papilio.kernels.engine import Loadable
from papilio.kernels.exact import MAX_RUN_ENTRIES
from papilio.kernels.memory import MAX_EDGES, MAX_ROWS
from papilio.kernels.tuning import WedgeTuning
from papilio.motifs import Granularity
from papilio.parts import EndBlock, Layer, RootPart, StartBlock, WedgePart


@dataclass(frozen=True)
class Counting:
    """The kind of counters of the wedges, and the result made of them; compile settings of ``butterfly.cu``."""

    # Counters of a pair of ends: 1 without signs, 2 by whether both edges have the same sign, 4 by both signs.
    kinds: int = 1
    # 0: the sum of C(c, 2) over the counters; 1: number of counters that end at c, for every c from 2 on; 2: the
    # census; 3: pairs of ends by their common neighbours.
    gives: int = 0
    # Layer of the pairs of a census: 0 for U, 1 for V.
    side: int = 0

    @property
    def signs(self) -> int:
        """Return the number of possible signs of an edge: 1 without signs."""
        return min(self.kinds, 2)

    @property
    def defines(self) -> dict[str, int]:
        given = {"KINDS": (self.kinds, 1), "GIVES": (self.gives, 0), "SIDE": (self.side, 0)}
        return {name: value for name, (value, default) in given.items() if value != default}


UNSIGNED = Counting()
"""Count butterflies and ignore any signs."""


@dataclass(frozen=True)
class WedgeGraph:
    """A graph in rank space, on the device. Rows of layer U by rank, then rows of layer V.

    A unipartite graph has only layer V: starts, middles and ends are rows of one layer.
    """

    n_u: int
    n_v: int
    n_edges: int
    # Side-local rank of each original id: int32. In a unipartite graph both are of the same vertices.
    rank_u: Any
    rank_v: Any
    # Row offsets: int64, shape (n_rows + 1,).
    indptr: Any
    # Side-local ranks of the neighbours, ascending within a row; with signs twice that, plus 1 for a negative edge:
    # int32, shape (2 n_edges,).
    adjacency: Any
    # Counted wedges of each entry: the ends of (row, neighbour) are that long a prefix of the neighbour's row.
    prefix: Any
    # Of each row: its ends among the hub columns, and its length (int32); its place in the order over both layers, with
    # 0 for the largest hub (int64); its counted wedges as a start, and those that end in the hub columns (uint64).
    hub_count: Any
    degree: Any
    priority: Any
    wedges: Any
    hub_wedges: Any
    hub_columns: int  # a multiple of the columns of a tile
    wanted_columns: int  # more, if they do not fit in memory
    counting: Counting = UNSIGNED

    @property
    def n_rows(self) -> int:
        return self.n_u + self.n_v

    @property
    def widest(self) -> int:
        """Return a bound of all degrees."""
        return max(self.n_u, self.n_v)

    @property
    def defines(self) -> dict[str, int]:
        return self.counting.defines

    @property
    def n_start_rows(self) -> int:
        """Return the number of rows that can be starts."""
        return self.n_rows

    @property
    def hub_lists(self) -> tuple[Any, Any, Any]:
        """Return the rows of the bit matrix of the hub columns: offsets, entries, number among the columns."""
        return self.indptr, self.adjacency, self.hub_count

    @property
    def ranks(self) -> tuple[Any, Any]:
        """Return the arrays that bound the ends of a start: its side-local rank, by the size of layer U."""
        return self.degree, np.int32(self.n_u)

    def arguments(self) -> tuple[Any, ...]:
        """Return the first arguments of every counting kernel."""
        rows = (self.indptr, self.adjacency, self.prefix, self.hub_count)
        return *rows, np.int32(self.hub_columns), np.int32(self.n_u)

    def result_size(self, per: Granularity) -> int:
        """Return the number of counts that kernels write."""
        return self.n_rows if per == "vertex" else 2 * self.n_edges if per == "edge" else 1


def check_rows(n_edges: int, n_rows: int) -> None:
    """Raise :class:`CapacityError` for more than 2^32 - 2^13 edges, or 2^31 - 2^20 vertices over both layers."""
    check_fits("the number of edges", n_edges, MAX_EDGES, "edges")
    check_fits("the number of vertices of both layers", n_rows, MAX_ROWS, "vertices")


def link_rows(device: Device, module: Module, first: Any, indptr: Any, n_u: int) -> tuple[Any, Any, Any]:
    """Sort the edges into the rows of both layers; return adjacency, prefix and second.

    ``module`` is ``wedge_graph``. ``first``, uint64, holds the keys (rank in layer V, rank in layer U) from its kernel
    ``first_keys``, and is sorted in place. ``indptr``, int64, has the row offsets by rank, layer U first.

    Adjacency and prefix, int32 of shape (2 n_edges,), are the rank of the neighbour and the place of the entry's own
    vertex in the neighbour's row. Second, uint64 of shape (n_edges,), has the sorted keys of layer U: rank in layer U,
    place in ``first``.
    """
    xp, n = device.xp, first.size
    count = np.int64(n)
    first.sort()
    adjacency, prefix = xp.empty(2 * n, dtype=np.int32), xp.empty(2 * n, dtype=np.int32)
    second = xp.empty(n, dtype=np.uint64)
    launch_over(device, module, "second_keys", n, first, count, adjacency[n:], second)
    second.sort()
    launch_over(device, module, "link_directions", n, first, second, count, indptr, np.int32(n_u), adjacency, prefix)
    return adjacency, prefix, second


def build_wedge_graph(
    device: Device,
    graph: BipartiteGraph | UnipartiteGraph,
    tuning: WedgeTuning,
    counting: Counting = UNSIGNED,
    first_layer: Layer | None = None,
    max_tiles: int = 1,
) -> WedgeGraph:
    """Copy the edges to the device and build everything else there: two sorts of 64-bit keys, see ``wedge_graph.cu``.

    A unipartite graph becomes one layer, by one sort of both directions of its edges.

    Device memory at the peak: 50 bytes per edge, measured on 28 million edges. With several kinds of ``counting`` the
    graph has signs. With ``first_layer`` all vertices of that layer come first in the order over both: wedges then have
    both ends in it, and the wedges of a pair of ends are all its common neighbours. There is one tile of hub columns,
    or up to ``max_tiles`` if they have enough wedges. The limits are 2^32 - 2^13 edges and 2^31 - 2^20 vertices over
    both layers; with signs, a layer has at most as many vertices as counters; with a first layer, degrees are below
    2^27.
    """
    is_layer = isinstance(graph, UnipartiteGraph)
    n, n_u, n_v = graph.n_edges, 0 if is_layer else graph.n_u, graph.n_v
    check_rows(n, n_u + n_v)
    if counting.kinds > 1:
        check_fits("the larger layer", max(n_u, n_v), (2**31 - 1) // counting.kinds, "vertices")
    xp = device.xp
    order = device.load("wedge_order", {})  # compiles at the same time as the other module
    module = _load_module(device, tuning, counting)
    u, v = device.to_device(graph.u), device.to_device(graph.v)
    degree_of = xp.zeros(n_u + n_v, dtype=np.int32)
    for ids, degrees in ((u, degree_of if is_layer else degree_of[:n_u]), (v, degree_of[n_u:])):
        add_degrees(device, module, ids, degrees)
    rank, degree, ahead, priority, indptr = _place_rows(device, order, degree_of, n_u, first_layer)
    if first_layer is not None:
        check_fits("the largest degree", int(degree.max()), 2**27 - 1, "neighbours")
    rank_u, rank_v = rank if is_layer else rank[:n_u], rank[n_u:]
    first = xp.empty(2 * n if is_layer else n, dtype=np.uint64)
    signs: tuple[Any, ...] = ()
    if counting.kinds > 1:
        assert graph.sign is not None
        signs = ((device.to_device(graph.sign) < 0).astype(np.uint8),)
    launch_over(device, module, "first_keys", n, u, v, np.int64(n), rank_u, rank_v, *signs, first[:n])
    if is_layer:
        launch_over(device, module, "first_keys", n, v, u, np.int64(n), rank_u, rank_v, first[n:])
    del u, v, signs
    keys: tuple[Any, ...]
    if is_layer:
        ahead, keys = priority.astype(np.int32), (first,)
        adjacency, prefix = _link_layer(device, module, first, indptr)
    else:
        adjacency, prefix, second = link_rows(device, module, first, indptr, n_u)
        keys = second, first
    built = WedgeGraph(
        n_u=n_u,
        n_v=n_v,
        n_edges=n,
        rank_u=rank_u,
        rank_v=rank_v,
        indptr=indptr,
        adjacency=adjacency,
        prefix=prefix,
        hub_count=xp.zeros(n_u + n_v, dtype=np.int32),
        degree=degree,
        priority=priority,
        wedges=xp.zeros(n_u + n_v, dtype=np.uint64),
        hub_wedges=xp.zeros(n_u + n_v, dtype=np.uint64),
        hub_columns=tuning.tile_columns,
        wanted_columns=tuning.tile_columns,
        counting=counting,
    )
    return _count_wedges(device, tuning, built, ahead, keys, max_tiles)


def _link_layer(device: Device, module: Module, keys: Any, indptr: Any) -> tuple[Any, Any]:
    """Sort the entries of a unipartite graph, (rank of the row, rank of the neighbour), in place.

    Returns adjacency and prefix as :func:`link_rows`, int32 of shape (2 n_edges,).
    """
    keys.sort()
    adjacency, prefix = (device.xp.empty(keys.size, dtype=np.int32) for _ in range(2))
    launch_over(device, module, "link_layer", keys.size, keys, np.int64(keys.size), indptr, adjacency, prefix)
    return adjacency, prefix


def count_degrees(device: Device, module: Module, ids: Any, n: int) -> Any:
    """Return the frequency of each of ``n`` vertices in ``ids``, int32, device; ``module`` is ``wedge_graph``."""
    degree = device.xp.zeros(n, dtype=np.int32)
    add_degrees(device, module, ids, degree)
    return degree


def add_degrees(device: Device, module: Module, ids: Any, degree: Any) -> None:
    """Add the frequency of each vertex in ``ids`` to ``degree``, int32; ``module`` is ``wedge_graph``."""
    if ids.size:
        launch_over(device, module, "count_degrees", ids.size, ids, np.int64(ids.size), degree)


def _place_rows(
    device: Device, module: Module, degree_of: Any, n_u: int, first_layer: Layer | None
) -> tuple[Any, Any, Any, Any, Any]:
    """Return the ranks by id and the degrees, places and offsets of all rows.

    By row: its degree, the rows of the other layer ahead of it (int32), its place in the order over both layers
    (int64); last the offsets of all rows (int64). ``module`` is ``wedge_order``.
    """
    xp, n_rows = device.xp, degree_of.size
    sizes = np.int32(n_u), np.int32(n_rows)
    keys = xp.empty(n_rows, dtype=np.uint64)
    launch_over(device, module, "rank_keys", n_rows, degree_of, *sizes, keys)
    keys.sort()
    rank, degree, ahead = (xp.empty(n_rows, dtype=np.int32) for _ in range(3))
    priority, indptr = xp.empty(n_rows, dtype=np.int64), xp.empty(n_rows + 1, dtype=np.int64)
    first = np.int32({None: 0, "u": 1, "v": 2}[first_layer])
    launch_over(device, module, "place_rows", n_rows, keys, *sizes, first, rank, degree, ahead, priority, indptr)
    xp.cumsum(indptr, out=indptr)
    return rank, degree, ahead, priority, indptr


def _count_wedges(
    device: Device, tuning: WedgeTuning, graph: WedgeGraph, ahead: Any, keys: tuple[Any, ...], max_tiles: int
) -> WedgeGraph:
    """Fill ``hub_count``, ``wedges`` and ``hub_wedges``, cut ``prefix`` to the counted ends, choose ``hub_columns``.

    ``keys`` are the sorted keys of each layer.
    """
    module = _load_module(device, tuning, graph.counting)
    preceding = device.xp.empty(graph.n_rows, dtype=np.int32)

    def fill_bounds() -> None:
        launch_over(
            device, module, "row_bounds", graph.n_rows, graph.indptr, graph.adjacency, ahead,
            np.int32(graph.n_rows), np.int32(graph.hub_columns), preceding, graph.hub_count,
        )  # fmt: skip

    fill_bounds()
    if max_tiles > 1:
        used, wanted = _choose_tiles(device, tuning, graph, keys, preceding, max_tiles)
        columns = tuning.tile_columns
        graph = replace(graph, hub_columns=used * columns, wanted_columns=wanted * columns)
        fill_bounds()
    for layer, of_layer in enumerate(keys):
        n, entries = of_layer.size, slice(layer * of_layer.size, (layer + 1) * of_layer.size)
        offsets = np.int32(layer * graph.n_u), np.int32((1 - layer) * graph.n_u)
        launch_over(
            device, module, "count_wedges", n, of_layer, np.int64(n), graph.adjacency[entries], preceding,
            graph.hub_count, *offsets, graph.prefix[entries], graph.wedges, graph.hub_wedges,
        )  # fmt: skip
    return graph


def _choose_tiles(
    device: Device, tuning: WedgeTuning, graph: WedgeGraph, keys: tuple[Any, ...], preceding: Any, most: int
) -> tuple[int, int]:
    """Return the numbers of tiles of hub columns used and wanted, at least one.

    The last of the wanted ones has enough wedges in a layer. Those used fit in their share of the free memory, unless
    there is only one tile.
    """
    n, module = keys[0].size, _load_module(device, tuning, graph.counting)
    most = max(1, min(most, (2**31 - 1) // (2 * graph.n_rows + 2)))
    found = device.xp.zeros((len(keys), most), dtype=np.uint64)
    for layer, offset in enumerate((graph.n_u, 0)[: len(keys)]):
        entries = slice(layer * n, (layer + 1) * n)
        launch_over(
            device, module, "count_tile_wedges", n, keys[layer], np.int64(n), graph.adjacency[entries],
            graph.prefix[entries], preceding, graph.degree, np.int32(offset), np.int32(most), found[layer],
        )  # fmt: skip
    enough = device.to_host(found).max(axis=0) >= np.uint64(tuning.hub_tile_wedges * n)
    wanted = max(1, int(np.flatnonzero(enough).max(initial=-1)) + 1)
    tile_bytes = (graph.n_rows + 1) * graph.counting.signs * tuning.tile_columns // 8
    return min(wanted, max(1, int(tuning.hub_memory_fraction * device.free_bytes()) // tile_bytes)), wanted


def _load_module(device: Device, tuning: WedgeTuning, counting: Counting) -> Module:
    kinds = {"KINDS": 2} if counting.kinds > 1 else {}
    return device.load("wedge_graph", {"HUB_WORDS": tuning.hub_words, **kinds})


def fill_hub_rows(device: Device, graph: WedgeGraph | WedgePartGraph, tuning: WedgeTuning) -> Any:
    """Return the bit matrix of a graph, uint32 of shape (n_rows + 1, signs * hub_columns / 32), device.

    The last row is empty.
    """
    lists, n_tiles = graph.hub_lists, graph.hub_columns // tuning.tile_columns
    words, n_rows = graph.counting.signs * graph.hub_columns // 32, int(lists[2].size)
    rows = device.xp.empty((n_rows + 1, words), dtype=np.uint32)
    module = _load_module(device, tuning, graph.counting)
    module.get_function("fill_hub_rows")(
        (min(n_rows // 8 + 1, 64 * device.sm_count),),
        (THREADS,),
        (*lists, np.int32(n_rows), np.int32(n_tiles), rows),
        shared_mem=THREADS // 32 * words * 4,
    )
    return rows


def gather_edges(
    device: Device, graph: WedgeGraph, source: BipartiteGraph | UnipartiteGraph, tuning: WedgeTuning, by_entry: Any
) -> Any:
    """Add the two directions of each edge of ``by_entry``; uint64 of shape (n_edges,) in edge-id order, device."""
    xp = device.xp
    by_edge = xp.empty(graph.n_edges, dtype=np.uint64)
    module = device.load("wedge_graph", {"HUB_WORDS": tuning.hub_words})
    launch_over(
        device, module, "gather_edges", graph.n_edges, device.to_device(source.u), device.to_device(source.v),
        np.int64(graph.n_edges), graph.rank_u, graph.rank_v, graph.indptr, graph.adjacency,
        np.int32(graph.n_u), by_entry, by_edge,
    )  # fmt: skip
    return by_edge


_MAX_LIST = 2**26
"""Maximum ends of one middle: the wedges of the 32 entries that a warp holds then fit in 32 bits."""


@dataclass(frozen=True)
class WedgePartGraph:
    """A part on the device, in the form that kernels scan with ``PART=1``; see ``wedges.cuh``."""

    layer: str  # of the starts and ends; ``n`` in a unipartite graph, for the middles, too
    n_starts: int
    n_ends: int
    n_middles: int
    # Row offsets of the starts, int64; their middles as places in the block of ends, -1 for a missing one, and the
    # counted wedges of each entry, int32.
    indptr: Any
    adjacency: Any
    prefix: Any
    # Ends of each middle, from the block: int64, shape (n_middles + 1,), and int32.
    end_indptr: Any
    ends: Any
    # Ends of each middle among the hub columns: int32.
    hub_count: Any
    # By start: the ends that precede it and its row length (int32); its counted wedges, and the ones that end in the
    # hub columns (uint64), both 0 if it shares fewer than two middles with ends.
    preceding: Any
    degree: Any
    wedges: Any
    hub_wedges: Any
    widest_middle: int  # maximum ends of a middle
    hub_columns: int  # one tile
    counting: Counting = UNSIGNED  # parts are counted without signs

    @property
    def wanted_columns(self) -> int:
        return self.hub_columns

    @property
    def widest(self) -> int:
        """Return a bound of the degrees of starts."""
        return int(self.adjacency.size)

    @property
    def defines(self) -> dict[str, int]:
        return {"PART": 1}

    @property
    def n_start_rows(self) -> int:
        return self.n_starts

    @property
    def hub_lists(self) -> tuple[Any, Any, Any]:
        return self.end_indptr, self.ends, self.hub_count

    @property
    def ranks(self) -> tuple[Any, Any]:
        return self.preceding, np.int32(-1)

    def arguments(self) -> tuple[Any, ...]:
        """Return the first arguments of every counting kernel."""
        rows = (self.indptr, self.adjacency, self.prefix, self.hub_count, np.int32(self.hub_columns))
        ends = (self.end_indptr, self.ends, self.preceding, np.int32(self.n_starts + self.n_ends))
        return (*rows, np.int32(self.n_starts), *ends)

    def result_size(self, per: Granularity) -> int:
        """Return the number of counts that kernels write."""
        if per == "vertex":
            return self.n_starts + self.n_ends + self.n_middles
        return int(self.adjacency.size + self.ends.size) if per == "edge" else 1

    def vectors(self, device: Device, per: Granularity, result: Any) -> dict[str, NDArray[np.uint64]]:
        """Return a result as the vectors of a partial, on the host."""
        if per == "total":
            return {}
        if per == "edge":
            return {"edge": device.to_host(result)}
        if self.layer == "n":
            return {"n": device.to_host(result)}
        at = self.n_starts + self.n_ends
        own, other = device.to_host(result[:at]), device.to_host(result[at:])
        return {"u": own, "v": other} if self.layer == "u" else {"u": other, "v": own}


def stage_wedges(device: Device, block: Loadable) -> Loadable:
    """Copy the arrays that kernels read to the device; ids, edge ids and work stay on the host."""
    assert not isinstance(block, RootPart)
    names = ("rank", "indptr", "middles") if isinstance(block, StartBlock) else _END_ARRAYS
    return replace(block, **{name: device.to_device(getattr(block, name)) for name in names})


_END_ARRAYS = ("rank", "middle_rank", "indptr", "ends")


def build_wedge_part(device: Device, part: WedgePart, tuning: WedgeTuning, layer: str | None = None) -> WedgePartGraph:
    """Copy the missing arrays to the device and join the part there; ``layer`` is by default that of the part.

    Device memory at the peak, besides the blocks: 8 bytes per entry of a start, 37 per start, 12 per middle. The limits
    are 2^31 - 2^20 starts, ends and middles, 2^36 entries of starts, and 2^26 ends of one middle.
    """
    xp = device.xp
    n_starts, n_ends = int(part.starts.rank.size), int(part.ends.rank.size)
    n_middles, n_entries = int(part.ends.middle_rank.size), int(part.starts.middles.size)
    check_fits("the number of vertices of a part", n_starts + n_ends + n_middles, MAX_ROWS, "vertices")
    check_fits("the number of entries of the starts of a part", n_entries, MAX_RUN_ENTRIES, "entries")
    ends = stage_wedges(device, part.ends)
    indptr = device.to_device(part.starts.indptr)
    widest = int((ends.indptr[1:] - ends.indptr[:-1]).max()) if n_middles else 0
    check_fits("the longest row of a part", widest, _MAX_LIST, "ends of a vertex")
    built = WedgePartGraph(
        layer=layer or part.layer,
        n_starts=n_starts,
        n_ends=n_ends,
        n_middles=n_middles,
        indptr=indptr,
        adjacency=xp.empty(n_entries, dtype=np.int32),
        prefix=xp.empty(n_entries, dtype=np.int32),
        end_indptr=ends.indptr,
        ends=ends.ends,
        hub_count=xp.zeros(n_middles, dtype=np.int32),
        preceding=xp.zeros(n_starts, dtype=np.int32),
        degree=(indptr[1:] - indptr[:-1]).astype(np.int32),
        wedges=xp.zeros(n_starts, dtype=np.uint64),
        hub_wedges=xp.zeros(n_starts, dtype=np.uint64),
        widest_middle=widest,
        hub_columns=tuning.tile_columns,
    )
    if n_entries and n_middles:
        module = device.load("wedge_part", {"HUB_WORDS": tuning.hub_words})
        _join(device, module, built, part.starts, ends)
    device.synchronize()  # The blocks may be given back once this returns.
    return built


def _join(device: Device, module: Module, graph: WedgePartGraph, starts: StartBlock, ends: EndBlock) -> None:
    """Fill the fields that :func:`build_wedge_part` leaves open."""
    xp = device.xp
    n_starts, n_middles = np.int32(graph.n_starts), np.int32(graph.n_middles)
    launch_over(
        device, module, "count_preceding", graph.n_starts, device.to_device(starts.rank), n_starts, ends.rank,
        np.int32(graph.n_ends), graph.preceding,
    )  # fmt: skip
    launch_over(
        device, module, "count_hubs", graph.n_middles, graph.end_indptr, graph.ends, n_middles,
        np.int32(graph.hub_columns), graph.hub_count,
    )  # fmt: skip

    span = int(ends.middle_rank[-1]) - int(ends.middle_rank[0]) + 1
    shift = max(0, ((span - 1) // (2 * graph.n_middles)).bit_length())
    n_buckets = ((span - 1) >> shift) + 1
    first = xp.empty(n_buckets + 1, dtype=np.int32)
    table = np.int32(shift), np.int32(n_buckets)
    launch_over(device, module, "fill_table", graph.n_middles, ends.middle_rank, n_middles, *table, first)

    joined = xp.zeros(graph.n_starts, dtype=np.int32)
    n_entries = int(graph.adjacency.size)
    launch_over(
        device, module, "join_starts", (n_entries + 31) // 32, graph.indptr, device.to_device(starts.middles),
        n_starts, graph.preceding, ends.middle_rank, first, *table, graph.end_indptr, graph.ends,
        graph.hub_count, graph.adjacency, graph.prefix, joined, graph.wedges, graph.hub_wedges,
    )  # fmt: skip
    for counts in (graph.wedges, graph.hub_wedges):
        counts[joined < 2] = 0
