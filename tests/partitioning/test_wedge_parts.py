"""Parts of wedges: every pair in one part, every part within its budget, by any strategy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError, InputError, StoreError
from papilio.graph import BipartiteGraph
from papilio.motifs import Butterfly, Granularity
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.partition import Partition
from papilio.partitioning.wedge_parts import cut_wedges
from papilio.partitioning.wedge_plan import PART_OVERHEAD_BYTES
from tests import conftest
from tests.conftest import share_of_examples
from tests.partitioning.wedge_reference import BYTES, check_partition, limits, moved_bytes, store_of
from tests.tools.oracle import count_butterflies
from tests.tools.strategies import bipartite_graphs, complete_graph, edge_list, graph_of, skewed_graph

HOST = 64 << 20

STRATEGIES: list[Strategy] = ["auto", "pair_blocks", "bcpar"]


def ask(
    limit: int, strategy: Strategy = "auto", per: Granularity = "total", host: int = HOST, threads: int = 2
) -> CutRequest:
    return CutRequest(per, BYTES, limit, host, threads, strategy)


def star_of_stars(arms: int) -> BipartiteGraph:
    """One vertex of U next to every one of V, each of which has two more neighbours that all share."""
    edges = {(0, v) for v in range(arms)} | {(1 + v % 3, v) for v in range(arms)}
    return graph_of(edges | {(1 + (v + 1) % 3, v) for v in range(arms)}, 4, arms)


GRAPHS: dict[str, Callable[[], BipartiteGraph]] = {
    "nothing": lambda: graph_of(set(), 3, 4),
    "one edge": lambda: graph_of({(0, 0)}, 1, 1),
    "a star": lambda: graph_of({(0, v) for v in range(30)}, 1, 30),
    "a square": lambda: complete_graph(2, 2),
    "complete": lambda: complete_graph(9, 7),
    "ties": lambda: graph_of({(u, (u + k) % 12) for u in range(12) for k in range(4)}, 12, 12),
    "one hub": lambda: star_of_stars(40),
    "one hub of V": lambda: star_of_stars(40).swap_layers(),
    "skewed": lambda: skewed_graph(7, 60, 40, 500),
}


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Callable[[BipartiteGraph, CutRequest], Partition]:
    """Cut a graph; each time in a directory of its own."""

    def run(graph: BipartiteGraph, request: CutRequest) -> Partition:
        directory = tmp_path_factory.mktemp("cut")
        store = store_of(directory / "graph", graph)
        partition = cut_wedges(store, directory / "parts", Butterfly(), {}, request)
        assert sorted(path.name for path in directory.iterdir()) == ["graph", "parts"]
        return partition

    return run


Cut = Callable[[BipartiteGraph, CutRequest], Partition]


@pytest.mark.parametrize("name", GRAPHS)
def test_parts_hold_every_pair_once(cut: Cut, name: str) -> None:
    graph = GRAPHS[name]()
    expected = count_butterflies(edge_list(graph)).total
    asked = [*product(STRATEGIES, ("total", "edge"), limits(graph, (1.0, 0.4, 0.15)))]
    asked = asked if conftest.thorough else asked[::2]
    fitted = 0
    for strategy, per, limit in asked:
        request = ask(limit, strategy, per)
        try:
            partition = cut(graph, request)
        except CapacityError:
            continue
        fitted += 1
        assert check_partition(partition, graph, request).butterflies() == expected
        assert partition.manifest.strategy == strategy or strategy == "auto"
    assert fitted >= len(asked) // 4


@settings(
    max_examples=share_of_examples(40),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    graph=bipartite_graphs(),
    share=st.sampled_from((0.8, 0.5, 0.3, 0.2, 0.1)),
    strategy=st.sampled_from(STRATEGIES),
    per=st.sampled_from(("total", "vertex", "edge")),
)
def test_parts_of_drawn_graphs(
    cut: Cut, graph: BipartiteGraph, share: float, strategy: Strategy, per: Granularity
) -> None:
    request = ask(limits(graph, (share,))[0], strategy, per)
    try:
        partition = cut(graph, request)
    except CapacityError:
        return
    assert check_partition(partition, graph, request).butterflies() == count_butterflies(edge_list(graph)).total


def test_every_strategy_is_obeyed_and_says_what_it_moves(cut: Cut) -> None:
    graph = skewed_graph(3, 80, 60, 900)
    limit = limits(graph, (0.25,))[0]
    costs = {}
    for strategy in STRATEGIES[1:]:
        manifest = cut(graph, ask(limit, strategy)).manifest
        moved = int(manifest.reason.split(" moves ")[1].split(" bytes")[0].replace(",", ""))
        costs[strategy] = moved + PART_OVERHEAD_BYTES * len(manifest.parts)
        assert manifest.strategy == strategy
        assert f"in {len(manifest.parts):,} parts" in manifest.reason
        assert len(manifest.parts) > 2
    chosen = cut(graph, ask(limit)).manifest
    assert chosen.strategy == min(("pair_blocks", "bcpar"), key=costs.__getitem__)
    assert any(what in ("no bcpar", "no pair_blocks") for what, _ in chosen.decisions)


@pytest.mark.parametrize("per", ["total", "edge"])
def test_pair_blocks_move_exactly_what_the_plan_says(cut: Cut, per: Granularity) -> None:
    graph = skewed_graph(4, 70, 90, 1200)
    for limit in limits(graph, (1.0, 0.5, 0.2, 0.1)):
        partition = cut(graph, ask(limit, "pair_blocks", per))
        assert f"moves {moved_bytes(partition):,} bytes" in partition.manifest.reason


def test_closures_move_no_more_than_the_plan_says(cut: Cut) -> None:
    graph = skewed_graph(4, 70, 90, 1200)
    for limit in limits(graph, (1.0, 0.5, 0.3)):
        partition = cut(graph, ask(limit, "bcpar"))
        told = int(partition.manifest.reason.split(" moves ")[1].split(" bytes")[0].replace(",", ""))
        assert 0.5 * told < moved_bytes(partition) <= told


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("room", [10**6, 10**12])
def test_what_fits_is_one_part_for_each_layer(cut: Cut, strategy: Strategy, room: int) -> None:
    graph = skewed_graph(4, 70, 90, 1200)
    manifest = cut(graph, ask(room, strategy)).manifest
    assert [info.layer for info in manifest.parts] == ["u", "v"]
    assert 1 < manifest.replication <= 3


def test_graph_of_separate_blocks_is_grouped(cut: Cut) -> None:
    """Closures of separate blocks do not overlap; a grid would pair blocks that share nothing."""
    side, blocks = 6, 30
    edges = {(side * k + i, side * k + j) for k in range(blocks) for i in range(side) for j in range(side)}
    graph = graph_of(edges, side * blocks, side * blocks)
    limit = limits(graph, (0.05,))[0]
    grouped, grid = cut(graph, ask(limit)), cut(graph, ask(limit, "pair_blocks"))
    assert grouped.manifest.strategy == "bcpar"
    assert moved_bytes(grouped) < moved_bytes(grid) / 3
    assert check_partition(grouped, graph, ask(limit)).butterflies() == blocks * 15 * 15


def test_parts_of_one_end_block_follow_each_other(cut: Cut) -> None:
    graph = skewed_graph(5, 90, 90, 1500)
    partition = cut(graph, ask(limits(graph, (0.1,))[0], "pair_blocks"))
    names = [info.blocks[1] for info in partition.manifest.parts]
    runs = [name for before, name in pairwise(["", *names]) if name != before]
    assert len(runs) == len(set(runs)) > 2
    for info in partition.manifest.parts:
        part = partition.read_part(info.index)
        assert part.ends.rank[0] < part.starts.rank[-1]
    used = {name for info in partition.manifest.parts for name in info.blocks}
    assert used == {block.name for block in partition.manifest.blocks}


def test_tables_share_the_work_of_a_start_block(cut: Cut) -> None:
    graph = skewed_graph(6, 90, 70, 1500)
    manifest = (partition := cut(graph, ask(limits(graph, (0.15,))[0], "pair_blocks"))).manifest
    given: dict[str, list[int]] = {}
    for info in manifest.parts:
        given.setdefault(info.blocks[0], []).append(info.work)
    for name, shares in given.items():
        work = partition.read_block(name).work
        assert work.sum() - len(shares) <= sum(shares) <= work.sum() + len(shares)
        one = next(info for info in manifest.parts if info.blocks[0] == name)
        assert one.table["items"] == list(range(work.size + 1))


def test_a_hub_has_blocks_of_its_own(cut: Cut) -> None:
    """The hub of U is an end for every start of the same layer, and its row is most of the graph."""
    arms = 400
    graph = star_of_stars(arms)
    least = BYTES.fixed + math.ceil(
        (BYTES.root + BYTES.root_entry * 267) + BYTES.vertex * (1 + arms) + BYTES.entry * arms
    )
    partition = cut(graph, ask(least + 1, "pair_blocks"))
    assert any(part.sizes.vertices == 1 + arms for part in partition.manifest.parts)
    expected = count_butterflies(edge_list(graph)).total
    assert check_partition(partition, graph, ask(least + 1)).butterflies() == expected
    with pytest.raises(CapacityError, match=r"vertex 1 of layer U, a start with 267 middles, and vertex 0, an end"):
        cut(graph, ask(least, "pair_blocks"))


def test_pair_blocks_go_on_where_no_closure_fits(cut: Cut) -> None:
    graph = skewed_graph(4, 70, 90, 1200)
    request = ask(limits(graph, (0.1,))[0])
    with pytest.raises(CapacityError, match=r"vertex \d+ of layer [UV] with its closure needs .* or use pair_blocks"):
        cut(graph, ask(request.limit_bytes, "bcpar"))
    partition = cut(graph, request)
    assert partition.manifest.strategy == "pair_blocks"
    assert partition.manifest.reason.startswith("bcpar cannot")
    assert check_partition(partition, graph, request).butterflies() == count_butterflies(edge_list(graph)).total


def test_the_budget_that_a_refusal_names_will_do(cut: Cut) -> None:
    graph = skewed_graph(8, 50, 50, 700)
    with pytest.raises(CapacityError) as refused:
        cut(graph, ask(BYTES.fixed + 1, "pair_blocks"))
    limit = int(re.findall(r"take ([\d,]+) as a part", str(refused.value))[0].replace(",", ""))
    with pytest.raises(CapacityError):
        cut(graph, ask(limit - 1, "pair_blocks"))
    while True:
        try:
            partition = cut(graph, ask(limit, "pair_blocks"))
            break
        except CapacityError as error:  # the other layer
            limit = int(re.findall(r"take ([\d,]+) as a part", str(error))[0].replace(",", ""))
    assert check_partition(partition, graph, ask(limit)).butterflies() == count_butterflies(edge_list(graph)).total


@pytest.mark.parametrize("strategy", ["pair_blocks", "bcpar"])
def test_threads_change_nothing(cut: Cut, strategy: Strategy) -> None:
    graph = skewed_graph(9, 90, 70, 1500)
    limit = limits(graph, (0.3,))[0]
    assert len({cut(graph, ask(limit, strategy, threads=threads)).hash for threads in (1, 2, 5)}) == 1


@pytest.mark.parametrize(("strategy", "host"), [("pair_blocks", 250_000), ("bcpar", 250_000)])
def test_little_host_memory_makes_smaller_steps(cut: Cut, strategy: Strategy, host: int) -> None:
    graph = skewed_graph(10, 300, 250, 2500, exponent=1.3)
    limit = limits(graph, (0.5,))[0]
    request = ask(limit, strategy, host=host)
    partition = cut(graph, request)
    assert check_partition(partition, graph, request).butterflies() == count_butterflies(edge_list(graph)).total
    with pytest.raises(CapacityError, match="host memory"):
        cut(graph, ask(limit, strategy, host=host // 4))


def test_groups_are_not_tried_where_that_takes_longer_than_it_saves(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.partitioning.wedge_parts._GROWN_ENTRIES_PER_S", 1.0)
    manifest = cut(skewed_graph(3, 80, 60, 900), ask(limits(skewed_graph(3, 80, 60, 900), (0.25,))[0])).manifest
    assert manifest.strategy == "pair_blocks"
    assert manifest.reason.startswith("bcpar is not tried")


def test_progress_never_falls_and_ends_at_one(tmp_path: Path) -> None:
    graph = skewed_graph(3, 80, 60, 900)
    told: list[float] = []
    cut_wedges(
        store_of(tmp_path / "graph", graph),
        tmp_path / "parts",
        Butterfly(),
        {},
        ask(limits(graph, (0.3,))[0]),
        told.append,
    )
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(set(told)) > 8


def test_a_cut_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = store_of(tmp_path / "graph", skewed_graph(3, 80, 60, 900))
    with pytest.raises(CapacityError):
        cut_wedges(store, tmp_path / "parts", Butterfly(), {}, ask(BYTES.fixed + 50))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine").touch()
    told: list[float] = []
    with pytest.raises(StoreError):
        cut_wedges(store, tmp_path / "parts", Butterfly(), {}, ask(10**6), told.append)
    assert not told, "the edges were read before the output was looked at"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("parts/*")) == ["parts/mine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "parts"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"per": "wedge"}, InputError, "per is 'wedge'"),
        ({"strategy": "best"}, InputError, "strategy is 'best'"),
        ({"threads": 0}, InputError, "threads is 0"),
        ({"limit_bytes": 1000}, CapacityError, "1000 bytes, but an empty part takes 1000"),
        ({"host_bytes": 0}, CapacityError, "0 bytes of host memory"),
    ],
)
def test_requests_that_make_no_sense(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replace(ask(10_000), **change)


@pytest.mark.parametrize("per", ["total", "edge"])
def test_ends_are_gathered_as_they_are_turned_round(cut: Cut, per: Granularity) -> None:
    """Few blocks of ends are gathered from the rows of middles where there are threads, else from their own rows."""
    graph = skewed_graph(9, 90, 70, 1500)
    for limit in limits(graph, (0.9, 0.6, 0.4)):
        one, many = (cut(graph, ask(limit, "pair_blocks", per, threads=threads)) for threads in (1, 16))
        assert 1 <= len({info.blocks[1] for info in one.manifest.parts if info.layer == "u"}) <= 6
        assert one.hash == many.hash
        check_partition(many, graph, ask(limit, "pair_blocks", per))
