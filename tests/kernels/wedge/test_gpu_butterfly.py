"""Every schedule of the CUDA butterfly kernels, forced by the tuning, against the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import fold_partials
from papilio.kernels.tuning import TableClass, WedgeTuning, wedge_tuning
from papilio.kernels.wedge.gpu import ButterflyGpu
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from tests.tools.devices import cuda_device, emulator
from tests.tools.oracle import count_butterflies
from tests.tools.strategies import complete_graph, edge_list, graphs_of_all_starts, skewed_graph

NEVER = 1 << 40
TILED = TableClass("dense", 64, 32, NEVER)  # 32 counters of 8 bits: several tiles
PLAIN = WedgeTuning(
    hub_min_wedges=NEVER, hub_vertex_wedges=NEVER, hub_least_wedges=0, match_max_wedges=-1, tables=(TILED,),
    warp_items=3, warp_share=1, sm_threads=0, vertex_threads=64,
)  # fmt: skip

_HUBS = replace(PLAIN, hub_words=1, hub_min_wedges=0, hub_vertex_wedges=0, block_degree=0)

SCHEDULES: dict[str, WedgeTuning] = {
    "dense, tiles": PLAIN,
    "dense, one warp": replace(PLAIN, tables=(TableClass("dense", 32, 512, NEVER),)),
    "dense, four warps": replace(PLAIN, tables=(TableClass("dense", 128, 512, NEVER),)),
    "hash, one warp": replace(PLAIN, tables=(TableClass("hash", 32, 8 * 64, 40), TILED)),
    "hash, four warps": replace(PLAIN, tables=(TableClass("hash", 128, 8 * 256, 160), TILED)),
    "match": replace(PLAIN, match_max_wedges=32),
    "split, tiles": replace(PLAIN, split_least=1, split_share=NEVER, split_threads=64, split_table_bytes=64),
    "split, four warps": replace(
        PLAIN, split_least=1, split_share=NEVER, split_threads=128, split_table_bytes=512, split_bytes=400
    ),
    "hubs by warp": replace(_HUBS, block_degree=256),
    "hubs by block": replace(_HUBS, crowd_threads=128, vertex_threads=128),
    "hubs by crowded block": replace(_HUBS, crowd_threads=64),
    "hubs by few blocks": replace(_HUBS, crowd_threads=64, sm_threads=1 << 20),
    "hubs of large starts": replace(_HUBS, large_degree=0, large_threads=64),
    "hubs, two words": replace(_HUBS, hub_words=2, block_degree=256),
    "hubs, four words": replace(_HUBS, hub_words=4, hub_min_wedges=2, hub_vertex_wedges=2, block_degree=256),
}

VECTORS: list[tuple[str, Granularity]] = [
    (name, per)
    for name in SCHEDULES
    for per in GRANULARITIES[1:]
    if "hubs" not in name or (per == "vertex" and "warp" not in name and "crowded" not in name)
]
"""Per vertex blocks alone count hub columns, per edge there are none."""


@pytest.fixture(scope="module")
def graphs() -> dict[str, BipartiteGraph]:
    """Graphs with tiles, twins, hubs on both layers, and starts of one to many entries."""
    return graphs_of_all_starts()


def check_against_oracle(engine: ButterflyGpu, graph: BipartiteGraph, per: Granularity) -> None:
    """Compare the total and the vectors, counted in two intervals, with the definition."""
    expected = count_butterflies(edge_list(graph))
    prepared = engine.prepare(graph, Butterfly(), per)
    middle = prepared.n_items // 3
    partial = fold_partials(engine.run(prepared, 0, middle), engine.run(prepared, middle, prepared.n_items))
    assert partial.total == expected.total
    assert partial.work == int(engine.work(prepared).sum())
    if per == "vertex":
        assert partial.vectors["u"].tolist() == [expected.vertex["u", x] for x in range(graph.n_u)]
        assert partial.vectors["v"].tolist() == [expected.vertex["v", x] for x in range(graph.n_v)]
    elif per == "edge":
        assert partial.vectors["edge"].tolist() == [expected.edge[edge] for edge in edge_list(graph)]
    else:
        assert partial.vectors == {}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule_counts_totals(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    engine = ButterflyGpu(device, SCHEDULES[schedule])
    for graph in graphs.values():
        check_against_oracle(engine, graph, "total")


@pytest.mark.parametrize(("schedule", "per"), VECTORS)
def test_schedule_counts_vectors(
    device: Device, graphs: dict[str, BipartiteGraph], schedule: str, per: Granularity
) -> None:
    engine = ButterflyGpu(device, SCHEDULES[schedule])
    for graph in graphs.values():
        check_against_oracle(engine, graph, per)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tuning_reaches_the_schedule(device: Device, graphs: dict[str, BipartiteGraph], schedule: str) -> None:
    """The kernel that a schedule is named after is launched, so that the tests above test it."""
    engine = ButterflyGpu(device, SCHEDULES[schedule])
    kernel = {
        "dense": "butterfly_dense",
        "hash": "butterfly_hash",
        "match": "butterfly_match",
        "split": "butterfly_split",
        "hubs by block": "butterfly_hubs_block",
        "hubs by few": "butterfly_hubs_block",
        "hubs by crowded": "butterfly_hubs_block",
        "hubs of": "butterfly_hubs_large",
        "hubs": "butterfly_hubs_warp",
    }
    wanted = next(name for start, name in kernel.items() if schedule.startswith(start))
    launched = set()
    for graph in graphs.values():
        prepared = engine.prepare(graph, Butterfly(), "total")
        if prepared.split is not None and (prepared.split.chunks > 1).any():
            launched.add("butterfly_split")
        found = engine._find_bounds(prepared, [0, prepared.n_items])
        launched |= {
            launch.kernel for launch, (first, last) in zip(prepared.schedules, found, strict=True) if first < last
        }
    assert wanted in launched


def test_hub_columns_per_vertex_are_launched(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    kernels = {"hubs by block": "butterfly_hubs_block", "hubs of large starts": "butterfly_hubs_large"}
    for schedule, kernel in kernels.items():
        engine = ButterflyGpu(device, SCHEDULES[schedule])
        prepared = engine.prepare(graphs["skewed"], Butterfly(), "vertex")
        found = engine._find_bounds(prepared, [0, prepared.n_items])
        used = zip(prepared.schedules, found, strict=True)
        assert kernel in {launch.kernel for launch, (first, last) in used if first < last}
    engine = ButterflyGpu(device, replace(SCHEDULES["hubs by block"], hub_tiles=0))
    assert engine.prepare(graphs["skewed"], Butterfly(), "vertex").hub_rows is None
    assert engine.prepare(graphs["skewed"], Butterfly(), "total").hub_rows is not None


@pytest.mark.parametrize(
    ("ends", "middles", "least", "tiles", "used"), [(9, 12, 0, 3, 3), (9, 12, 1, 3, 1), (50, 54, 1, 3, 2)]
)
def test_tiles_of_hub_columns(device: Device, ends: int, middles: int, least: int, tiles: int, used: int) -> None:
    """A complete graph on ``middles`` has ends in two tiles: 3 of the 1,024 stars in the first one, ``ends`` others.

    A tile is used if it, or a later one, has ``least`` wedges per entry. Tables count what lies beyond.
    """
    stars, hubs, leaves = 1024, 3, middles + 1
    u, v = np.divmod(np.arange((hubs + ends) * middles), middles)
    u += np.where(u < hubs, 0, stars - hubs)
    of_star = np.repeat(np.arange(stars), leaves)
    graph = BipartiteGraph.from_edges(np.r_[u, of_star], np.r_[v, middles + np.arange(of_star.size)])
    tuning = replace(SCHEDULES["hubs by block"], hub_tiles=tiles, hub_tile_wedges=least)
    engine = ButterflyGpu(device, tuning)
    prepared = engine.prepare(graph, Butterfly(), "vertex")
    assert prepared.graph is not None
    assert prepared.graph.hub_columns == 1024 * used
    partial = engine.run(prepared, 0, prepared.n_items)
    side, of_u = hubs + ends, np.zeros(graph.n_u, np.int64)
    of_u[u] = (side - 1) * middles * (middles - 1) // 2
    of_v = np.zeros(graph.n_v, np.int64)
    of_v[:middles] = (middles - 1) * side * (side - 1) // 2
    assert partial.total == of_u.sum() // 2
    np.testing.assert_array_equal(partial.vectors["u"], of_u)
    np.testing.assert_array_equal(partial.vectors["v"], of_v)


def test_wide_counters(device: Device) -> None:
    """Degrees of 2^8 and more need 16-bit counters and more planes; K(2, n) puts all in one pair."""
    for n in (255, 256, 257, 300):
        for schedule in ("dense, four warps", "hubs by warp", "hubs by block"):
            tuning = SCHEDULES[schedule]
            if schedule == "hubs by warp":
                tuning = replace(tuning, block_degree=256)
            engine = ButterflyGpu(device, tuning)
            prepared = engine.prepare(complete_graph(2, n), Butterfly(), "total")
            assert engine.run(prepared, 0, prepared.n_items).total == n * (n - 1) // 2


@pytest.mark.parametrize(
    ("ends", "shared", "leaves"),
    [
        (10, 14, 0),
        (10, 15, 0),
        (10, 16, 0),
        (10, 17, 3),
        *(pytest.param(6, shared, 0, marks=pytest.mark.slow) for shared in (255, 256, 257)),
        pytest.param(6, 200, 100, marks=pytest.mark.slow),
    ],
)
def test_narrow_counters(device: Device, ends: int, shared: int, leaves: int) -> None:
    """Counters of 4 or 8 bits that fit the table are tried first; a start whose counts pass them is counted anew.

    Two complete graphs, all of whose pairs share ``shared`` neighbours: the ends of the second have places behind those
    of the first, so that wider counters do not fit. Leaves make degrees larger than counts. Stars take the hub columns.
    """
    tuning = replace(PLAIN, hub_words=1, hub_min_wedges=0, tables=(TableClass("dense", 64, 16, NEVER),))
    engine = ButterflyGpu(device, tuning)
    u, v = np.divmod(np.arange(2 * ends * shared), ends)
    v += ends * (u >= shared)
    stars = np.repeat(np.arange(1024), shared + leaves + 1) + 2 * ends
    more = np.repeat(np.arange(2 * ends), leaves)
    graph = BipartiteGraph.from_edges(np.r_[u, 2 * shared + np.arange(more.size + stars.size)], np.r_[v, more, stars])
    prepared = engine.prepare(graph, Butterfly(), "total")
    expected = ends * (ends - 1) * shared * (shared - 1) // 2
    assert engine.run(prepared, 0, prepared.n_items).total == expected


@pytest.mark.gpu
@pytest.mark.parametrize("degree", [4_095, 4_096, 65_535, 65_536, 200_000])
def test_widest_counters(degree: int) -> None:
    """Degrees of 2^16 and more need 32-bit counters and the large planes."""
    device = cuda_device()
    graph = complete_graph(3, degree)
    for schedule in ("dense, four warps", "hubs by warp"):
        tuning = replace(SCHEDULES[schedule], block_degree=256, large_degree=1 << 12)
        engine = ButterflyGpu(device, tuning)
        prepared = engine.prepare(graph, Butterfly(), "total")
        assert engine.run(prepared, 0, prepared.n_items).total == 3 * degree * (degree - 1) // 2
    prepared = engine.prepare(graph, Butterfly(), "vertex")
    assert prepared.hub_rows is not None
    vectors = engine.run(prepared, 0, prepared.n_items).vectors
    assert set(vectors["u"].tolist()) == {degree * (degree - 1)}
    assert set(vectors["v"].tolist()) == {3 * (degree - 1)}


def test_default_tuning_agrees_with_the_generic_one(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    for shared_bytes in (64 << 10, 227 << 10):
        engine = ButterflyGpu(device, wedge_tuning(min(shared_bytes, device.max_shared_bytes)))
        check_against_oracle(engine, graphs["skewed"], "total")


def test_interval_outside_the_items_is_refused(device: Device, graphs: dict[str, BipartiteGraph]) -> None:
    engine = ButterflyGpu(device)
    prepared = engine.prepare(graphs["complete"], Butterfly(), "total")
    with pytest.raises(InputError, match="are not within"):
        engine.run(prepared, 0, prepared.n_items + 1)


def test_a_start_beyond_64_bits_is_refused(device: Device) -> None:
    """The bound is checked on the costs themselves: no graph of that size fits a test."""
    from papilio.kernels.wedge.gpu_schedule import check_start_bound

    xp = device.xp
    wedges = xp.asarray(np.array([1 << 40, 1 << 20], dtype=np.uint64))
    degree = xp.asarray(np.array([1 << 20, 1 << 30], dtype=np.int32))
    items = xp.arange(2)
    check_start_bound(xp, 1 << 40, 1 << 30, wedges, items, degree)
    with pytest.raises(CapacityError, match="64 bits"):
        check_start_bound(xp, 1 << 40, 1 << 25, wedges, items, xp.asarray(np.array([1 << 25, 2], dtype=np.int32)))


def test_more_rows_than_32_bit_counters_allow_are_refused(device: Device) -> None:
    few = np.zeros(1, dtype=np.int32)
    graph = BipartiteGraph(2**31 - 1, 2**31 - 1, few, few)
    with pytest.raises(CapacityError, match=r"4294967294 vertices.*2146435072"):
        ButterflyGpu(device).prepare(graph, Butterfly(), "total")


def test_costs_beyond_32_bits_are_ordered_exactly(device: Device) -> None:
    """Item order with wedge counts that do not fit the fast sort key."""
    from papilio.kernels.wedge.gpu_schedule import order_items

    graph = skewed_graph(3, 30, 20, 120)
    built = ButterflyGpu(device).prepare(graph, Butterfly(), "total").graph
    assert built is not None
    rows, wedges = (device.to_host(array) for array in order_items(device, built)[:2])
    large = replace(built, wedges=built.wedges * np.uint64(1 << 33))
    large_rows, large_wedges = (device.to_host(array) for array in order_items(device, large)[:2])
    assert large_rows.tolist() == rows.tolist()
    assert (large_wedges >> np.uint64(33)).tolist() == wedges.tolist()


def test_hub_columns_without_room_are_told_and_not_missed(graphs: dict[str, BipartiteGraph]) -> None:
    graph, tuning = graphs["skewed"], SCHEDULES["hubs by warp"]
    matrix_bytes = 128 * (graph.n_u + graph.n_v + 1)
    for free_bytes in (4 * matrix_bytes, 4 * matrix_bytes - 1):
        engine = ButterflyGpu(emulator(1, free_bytes=free_bytes), tuning)
        prepared = engine.prepare(graph, Butterfly(), "total")
        told = prepared.decisions
        fits = free_bytes == 4 * matrix_bytes
        assert (prepared.hub_rows is not None) == fits == (told == ())
        check_against_oracle(engine, graph, "total")
    ((what, reason),) = told
    assert what == "no hub columns, only counter tables"
    assert f"takes {matrix_bytes} bytes of device memory; {matrix_bytes - 1} bytes are available" in reason
    never = ButterflyGpu(emulator(1, free_bytes=1), replace(tuning, hub_min_wedges=NEVER))
    assert never.prepare(graph, Butterfly(), "total").decisions == (), "none are wanted"


def test_tiles_of_hub_columns_without_room_are_told_and_not_missed(graphs: dict[str, BipartiteGraph]) -> None:
    graph, tuning = graphs["skewed"], replace(SCHEDULES["hubs by block"], hub_tiles=3, hub_tile_wedges=0)
    tile_bytes = 128 * (graph.n_u + graph.n_v + 1)
    for tiles in (2, 3):
        engine = ButterflyGpu(emulator(1, free_bytes=4 * tiles * tile_bytes), tuning)
        decisions = engine.prepare(graph, Butterfly(), "vertex").decisions
        assert [what for what, _ in decisions] == ["2048 hub columns"][: 3 - tiles]
        assert all("of 3072 exceeds its share" in reason for _, reason in decisions)
        check_against_oracle(engine, graph, "vertex")
