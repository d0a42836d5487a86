"""The laws of parts of the butterfly engines: every one runs on every engine (see the ``engine`` fixture)."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import Partial, StopCheck, fold_partials
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from papilio.parts import EndBlock, RootPart, StartBlock, WedgePart
from tests.conftest import EngineCase, read_edges
from tests.kernels.wedge.test_butterfly import assert_same
from tests.tools import oracle
from tests.tools.parts import add_vectors, cut_closures, cut_grid, vector_ids, whole_parts
from tests.tools.strategies import (
    bipartite_graphs,
    complete_graph,
    edge_list,
    graph_of,
    planted_graph,
    skewed_graph,
)


def count_part(engine: EngineCase, part: WedgePart, per: Granularity) -> Partial:
    """Count all items of a part at once."""
    prepared = engine.engine.prepare(part, Butterfly(), per)
    assert prepared.n_items == part.starts.rank.size
    return engine.engine.run(prepared, 0, prepared.n_items)


def check_sum(engine: EngineCase, graph: BipartiteGraph, per: Granularity, parts: list[WedgePart]) -> None:
    """Compare the sum over all parts with the definition."""
    wanted = oracle.count_butterflies(edge_list(graph))
    partials = [(part, count_part(engine, part, per)) for part in parts]
    assert sum(partial.total for _, partial in partials) == wanted.total
    vectors = add_vectors(graph, per, partials)
    if per == "vertex":
        assert vectors["u"].tolist() == [wanted.vertex["u", x] for x in range(graph.n_u)]
        assert vectors["v"].tolist() == [wanted.vertex["v", x] for x in range(graph.n_v)]
    elif per == "edge":
        assert vectors["edge"].tolist() == [wanted.edge[edge] for edge in edge_list(graph)]


@pytest.mark.parametrize("per", GRANULARITIES)
def test_pairs_of_blocks_sum_to_the_whole(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int, bool]) -> None:
        graph, starts, ends, lean = drawn
        check_sum(engine, graph, per, cut_grid(graph, starts, ends, per, lean=lean))

    blocks = st.integers(1, 4)
    graphs = bipartite_graphs(min(engine.max_side, 10))
    engine.check(st.tuples(graphs, blocks, blocks, st.booleans()), law)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_closures_sum_to_the_whole(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, int, int]) -> None:
        graph, groups, seed = drawn
        check_sum(engine, graph, per, cut_closures(graph, groups, seed, per))

    graphs = bipartite_graphs(min(engine.max_side, 10))
    engine.check(st.tuples(graphs, st.integers(1, 4), st.integers(0, 99)), law)


SHAPES = {
    "skewed": lambda: skewed_graph(1, 70, 50, 450),
    "planted": lambda: planted_graph(2, 30, 60, 2, 8, 80, 0.1),
    "complete": lambda: complete_graph(9, 17),
    "star": lambda: graph_of({(0, i) for i in range(50)}, 1, 50),
    "two stars": lambda: graph_of({(0, i) for i in range(9)} | {(i, 9) for i in range(9)}, 9, 10),
    "two hubs": lambda: graph_of({(u, v) for u in (3, 5) for v in range(70)} | {(6, 1), (6, 2)}, 7, 70),
    "ties": lambda: graph_of({(u, (u + k) % 24) for u in range(24) for k in (0, 1, 5, 6)}, 24, 24),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("per", GRANULARITIES)
def test_shapes(engine: EngineCase, shape: str, per: Granularity) -> None:
    graph = SHAPES[shape]()
    check_sum(engine, graph, per, cut_grid(graph, 3, 2, per))
    check_sum(engine, graph, per, cut_closures(graph, 3, 7, per))


@pytest.mark.parametrize("per", GRANULARITIES)
def test_the_whole_as_a_part_is_the_whole(engine: EngineCase, per: Granularity) -> None:
    graph = skewed_graph(4, 80, 70, 500)
    whole = engine.count(graph, per)
    partials = [(part, count_part(engine, part, per)) for part in whole_parts(graph, per)]
    assert sum(partial.n_items for _, partial in partials) == whole.n_items
    assert sum(partial.total for _, partial in partials) == whole.total
    for name, vector in add_vectors(graph, per, partials).items():
        np.testing.assert_array_equal(vector, whole.vectors[name])


@pytest.mark.parametrize("per", GRANULARITIES)
def test_bundled_graphs(engine: EngineCase, example_data: Path, per: Granularity) -> None:
    for name in ("southern-women", "senate-votes"):
        graph = read_edges(example_data / f"{name}.txt.gz")
        if engine.name == "emulator" and graph.n_edges > 1000:
            continue
        whole = engine.count(graph, per)
        for parts in (cut_grid(graph, 3, 2, per), cut_closures(graph, 3, 5, per)):
            partials = [(part, count_part(engine, part, per)) for part in parts]
            assert sum(partial.total for _, partial in partials) == whole.total > 0
            for layer, vector in add_vectors(graph, per, partials).items():
                np.testing.assert_array_equal(vector, whole.vectors[layer])


def expected_work(part: WedgePart) -> list[int]:
    """Return the wedges of each item by plain loops; 0 where fewer than two middles have any."""
    starts, ends = part.starts, part.ends
    lists = {
        int(middle): [int(ends.rank[at]) for at in ends.ends[ends.indptr[row] : ends.indptr[row + 1]]]
        for row, middle in enumerate(ends.middle_rank)
    }
    work = {}
    for row, rank in enumerate(starts.rank.tolist()):
        middles = starts.middles[starts.indptr[row] : starts.indptr[row + 1]].tolist()
        wedges = [sum(end < rank for end in lists.get(middle, [])) for middle in middles]
        work[rank] = sum(wedges) if sum(count > 0 for count in wedges) > 1 else 0
    order = sorted(zip((-starts.work).tolist(), starts.rank.tolist(), strict=True))
    return [work[rank] for _, rank in order]


@pytest.mark.parametrize("per", GRANULARITIES)
def test_items_are_starts_by_their_work_in_the_whole_graph(engine: EngineCase, per: Granularity) -> None:
    for graph in (skewed_graph(5, 40, 30, 200), SHAPES["ties"]()):
        for part in [*cut_grid(graph, 2, 2, per), *cut_closures(graph, 2, 1, per)]:
            prepared = engine.engine.prepare(part, Butterfly(), per)
            work = engine.engine.work(prepared)
            assert work.dtype == np.int64
            assert work.tolist() == expected_work(part)
            partial = engine.engine.run(prepared, 0, prepared.n_items)
            assert partial.work == sum(expected_work(part))


@pytest.mark.parametrize("per", GRANULARITIES)
def test_any_split_folds_to_the_whole_part(engine: EngineCase, per: Granularity) -> None:
    def law(drawn: tuple[BipartiteGraph, list[int]]) -> None:
        graph, cuts = drawn
        for part in cut_grid(graph, 2, 2, per):
            prepared = engine.engine.prepare(part, Butterfly(), per)
            ends = sorted({min(cut, prepared.n_items) for cut in cuts} | {0, prepared.n_items})
            folded = engine.engine.run(prepared, 0, 0)
            for start, stop in pairwise(ends):
                folded = fold_partials(engine.engine.run(prepared, start, stop), folded)
            assert_same(folded, engine.engine.run(prepared, 0, prepared.n_items))

    cuts = st.lists(st.integers(0, 12), max_size=4)
    engine.check(st.tuples(bipartite_graphs(min(engine.max_side, 10)), cuts), law)


def cut_after(times: int) -> StopCheck:
    """Return what is true when it has been asked so many times."""
    asked = count()
    return lambda: next(asked) >= times


@pytest.mark.parametrize("per", GRANULARITIES)
def test_a_run_that_is_cut_answers_for_the_items_that_it_finished(engine: EngineCase, per: Granularity) -> None:
    part = whole_parts(skewed_graph(6, 60, 50, 400), per)[0]
    prepared = engine.engine.prepare(part, Butterfly(), per)
    bounds = list(range(5, prepared.n_items, 5))
    for patience in range(4):
        first = engine.engine.run(prepared, 0, prepared.n_items, bounds, cut_after(patience))
        assert_same(first, engine.engine.run(prepared, 0, first.n_items))
        rest = engine.engine.run(prepared, first.n_items, prepared.n_items)
        assert_same(fold_partials(first, rest), engine.engine.run(prepared, 0, prepared.n_items))


def copy_of(block: Any) -> Any:
    """Return a block with copies of the arrays."""
    arrays = {item.name: getattr(block, item.name) for item in fields(block)}
    return replace(block, **{name: a.copy() for name, a in arrays.items() if isinstance(a, np.ndarray)})


def arrays_of(part: WedgePart) -> list[Any]:
    """Return everything that a part holds, as comparable Python values."""
    blocks = (part.starts, part.ends)
    return [np.asarray(getattr(block, item.name)).tolist() for block in blocks for item in fields(block)]


@pytest.mark.parametrize("per", GRANULARITIES)
def test_blocks_are_taken_staged_or_not_and_left_as_they_are(engine: EngineCase, per: Granularity) -> None:
    for part in cut_closures(skewed_graph(7, 50, 40, 300), 2, 3, per):
        before = arrays_of(WedgePart(copy_of(part.starts), copy_of(part.ends)))
        wanted = count_part(engine, part, per)
        starts, ends = engine.engine.stage(part.starts), engine.engine.stage(part.ends)
        assert (type(starts), type(ends)) == (StartBlock, EndBlock)
        for staged in (WedgePart(starts, ends), WedgePart(starts, part.ends), WedgePart(part.starts, ends)):
            assert_same(count_part(engine, staged, per), wanted)
            for name, ids in vector_ids(staged, per).items():
                assert isinstance(ids, np.ndarray)
                np.testing.assert_array_equal(ids, vector_ids(part, per)[name])
        assert arrays_of(part) == before


def empty_starts(layer: Any) -> StartBlock:
    """Return a block without starts."""
    ids, wide = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return StartBlock(layer, ids, ids, wide, np.zeros(1, np.int64), ids, wide)


def empty_ends(layer: Any) -> EndBlock:
    """Return a block without ends."""
    ids = np.zeros(0, np.int32)
    return EndBlock(layer, ids, ids, ids, ids, np.zeros(1, np.int64), ids, np.zeros(0, np.int64))


@pytest.mark.parametrize("per", GRANULARITIES)
@pytest.mark.parametrize("missing", ["starts", "ends", "both"])
def test_parts_without_starts_or_ends_count_nothing(engine: EngineCase, per: Granularity, missing: str) -> None:
    part = whole_parts(complete_graph(4, 5), per)[0]
    if missing != "ends":
        part = replace(part, starts=empty_starts(part.layer))
    if missing != "starts":
        part = replace(part, ends=empty_ends(part.layer))
    partial = count_part(engine, part, per)
    assert (partial.total, partial.work) == (0, 0)
    assert partial.n_items == part.starts.rank.size
    sizes = {name: ids.shape for name, ids in vector_ids(part, per).items()}
    assert {name: vector.shape for name, vector in partial.vectors.items()} == sizes
    assert not any(vector.any() for vector in partial.vectors.values())


@pytest.mark.parametrize("per", GRANULARITIES)
def test_middles_that_lie_far_apart(engine: EngineCase, per: Granularity) -> None:
    """Ranks of middles up to 2^31 - 2, with gaps: only their order matters."""
    part = whole_parts(skewed_graph(8, 50, 40, 300), per)[0]
    wanted = count_part(engine, part, per)
    random = np.random.default_rng(1)
    steps = random.choice([1, 2, 3, 1000, 2**24], 40, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    far = (2**31 - 2 - np.cumsum(steps)[::-1]).astype(np.int32)
    assert far[0] >= 0
    moved = WedgePart(
        replace(part.starts, middles=far[part.starts.middles]),
        replace(part.ends, middle_rank=far[part.ends.middle_rank]),
    )
    assert_same(count_part(engine, moved, per), wanted)
    # Of the other half of the middles the block of ends knows nothing.
    half = part.ends.middle_rank % 2 == 0
    entries = np.repeat(half, np.diff(part.ends.indptr))
    fewer = replace(
        part.ends,
        middle_rank=far[part.ends.middle_rank[half]],
        middle_ids=part.ends.middle_ids[half],
        indptr=np.concatenate(([0], np.cumsum(np.diff(part.ends.indptr)[half]))),
        ends=part.ends.ends[entries],
        edges=part.ends.edges[entries] if per == "edge" else part.ends.edges,
    )
    lean = WedgePart(moved.starts, fewer)
    partial = count_part(engine, lean, per)
    assert partial.work == sum(expected_work(lean))
    assert 0 < partial.total < wanted.total


def test_intervals_outside_the_items_are_refused(engine: EngineCase) -> None:
    part = whole_parts(complete_graph(4, 5))[0]
    prepared = engine.engine.prepare(part, Butterfly(), "total")
    with pytest.raises(InputError, match=f"{prepared.n_items + 1}"):
        engine.engine.run(prepared, 0, prepared.n_items + 1)


def test_parts_of_another_engine_are_refused(engine: EngineCase) -> None:
    ids = np.arange(4, dtype=np.int32)
    roots = RootPart("u", complete_graph(4, 4), ids, ids, ids, np.ones(4, np.int64))
    with pytest.raises(UnsupportedError, match="RootPart"):
        engine.engine.prepare(roots, Butterfly(), "total")


def test_a_prepared_part_tells_its_memory(engine: EngineCase) -> None:
    part = whole_parts(complete_graph(30, 30))[0]
    prepared = engine.engine.prepare(part, Butterfly(), "total")
    assert prepared.nbytes >= 8 * part.sizes.root_entries + 4 * part.sizes.entries
