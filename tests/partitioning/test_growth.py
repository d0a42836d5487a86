"""Groups of roots: what they cost, the limit, and how few copies they make; against plain loops over sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.groupings import Grouping, hash_groups, metis_groups
from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.partitioning.growth import PricedRows, closure_cost, grow_chunks, grow_groups, growth_bytes
from tests.conftest import share_of_examples

Ids = NDArray[np.int32]
Ints = NDArray[np.int64]


def pack(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ids]:
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([column for row in rows for column in sorted(row)], dtype=np.int32)


def chunks_within(host_bytes: int, threads: int) -> Grouping:
    """Return ``grow_chunks`` with the signature of ``grow_groups``."""

    def group(rows: PricedRows, limit: int) -> Ids:
        def read(first: int, last: int) -> Ids:
            return rows.columns[rows.indptr[first] : rows.indptr[last]]

        costs, entry = (rows.column_bytes, rows.root_bytes), rows.entry_bytes
        return grow_chunks(rows.indptr, read, *costs, limit, host_bytes, threads, entry_bytes=entry)

    return group


def chunks_of_least_memory(rows: PricedRows, limit: int) -> Ids:
    """Call ``grow_chunks`` with about the least memory that it takes, so that there are many chunks."""
    host_bytes = 200
    while True:
        try:
            return chunks_within(host_bytes, 2)(rows, limit)
        except CapacityError as error:
            if "--host-memory" not in str(error):
                raise
        host_bytes += host_bytes // 10


def costs_by_sets(
    rows: Sequence[Sequence[int]], column_bytes: Ints, root_bytes: Ints, groups: Ids, entry_bytes: int
) -> list[int]:
    """Return the cost of each group by definition."""
    costs = []
    for group in range(max(groups.tolist(), default=-1) + 1):
        members = [root for root in range(len(rows)) if groups[root] == group]
        later = [set(rows[root]) for root in range(len(rows)) if groups[root] >= group]
        needed = set().union(*(rows[root] for root in members))
        held = sum(len(needed & row) for row in later)
        costs.append(int(root_bytes[members].sum()) + sum(int(column_bytes[c]) for c in needed) + entry_bytes * held)
    return costs


def grow_by_definition(
    rows: Sequence[Sequence[int]], column_bytes: Ints, root_bytes: Ints, limit: int, by_share: bool
) -> list[int]:
    """Grow groups as the module says, looking at every root in every step; for fixed columns and few roots."""
    weight = [sum(int(column_bytes[c]) for c in row) for row in rows]
    seeds = sorted(range(len(rows)), key=lambda r: (-(weight[r] // max(len(rows[r]), 1)), r))
    groups = [-1] * len(rows)
    group = 0
    while -1 in groups:
        held: set[int] = set()
        cost, refused_at, starters = 0, {}, list(seeds)
        while True:
            open_roots = [r for r in range(len(rows)) if groups[r] < 0]
            shared = {r: sum(int(column_bytes[c]) for c in held & set(rows[r])) for r in open_roots}
            touched = [r for r in open_roots if held & set(rows[r]) and refused_at.get(r) != held & set(rows[r])]
            if touched:
                key = {r: shared[r] / max(weight[r], 1) if by_share else shared[r] for r in touched}
                root = min(touched, key=lambda r: (-key[r], r))
            else:
                while starters and groups[starters[0]] >= 0:
                    starters.pop(0)
                if not starters:
                    break
                root = starters.pop(0)
            if cost + int(root_bytes[root]) + weight[root] - shared[root] <= limit:
                groups[root] = group
                cost += int(root_bytes[root]) + weight[root] - shared[root]
                held |= set(rows[root])
            else:
                refused_at[root] = held & set(rows[root])
        group += 1
    return groups


@st.composite
def priced_rows(draw: st.DrawFn) -> tuple[list[list[int]], Ints, Ints]:
    """Draw rows of roots, some of them empty or equal, with the bytes of columns and of roots."""
    n_columns = draw(st.integers(1, 9))
    row = st.sets(st.integers(0, n_columns - 1))
    rows = [sorted(one) for one in draw(st.lists(row, max_size=12))]
    rows += draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    numbers = st.integers(0, 20)
    column_bytes = draw(st.lists(numbers, min_size=n_columns, max_size=n_columns))
    root_bytes = draw(st.lists(numbers, min_size=len(rows), max_size=len(rows)))
    return rows, np.array(column_bytes, dtype=np.int64), np.array(root_bytes, dtype=np.int64)


GROUPINGS: dict[str, Grouping] = {
    "share": grow_groups,
    "shared": partial(grow_groups, by_share=False),
    "chunks": chunks_of_least_memory,
    "hash": hash_groups,
    "metis": metis_groups,
}


@settings(deadline=None)
@given(priced_rows(), st.integers(0, 5), st.lists(st.integers(0, 3), min_size=16, max_size=16))
def test_costs_are_those_of_the_sets(
    priced: tuple[list[list[int]], Ints, Ints], entry_bytes: int, labels: list[int]
) -> None:
    rows, column_bytes, root_bytes = priced
    groups = np.unique(np.array(labels[: len(rows)]), return_inverse=True)[1].astype(np.int32)
    indptr, columns = pack(rows)
    found = closure_cost(PricedRows(indptr, columns, column_bytes, root_bytes, entry_bytes), groups)
    assert found.tolist() == costs_by_sets(rows, column_bytes, root_bytes, groups, entry_bytes)


@pytest.mark.parametrize("name", GROUPINGS)
@settings(max_examples=share_of_examples(60), deadline=None)
@given(priced_rows(), st.integers(0, 5), st.integers(0, 60))
def test_every_root_has_one_group_and_no_group_passes_the_limit(
    name: str, priced: tuple[list[list[int]], Ints, Ints], entry_bytes: int, more: int
) -> None:
    rows, column_bytes, root_bytes = priced
    indptr, columns = pack(rows)
    priced_rows = PricedRows(indptr, columns, column_bytes, root_bytes, entry_bytes)
    limit = int(priced_rows.root_costs().max(initial=0)) + more
    groups = GROUPINGS[name](priced_rows, limit)
    assert groups.dtype == np.int32
    assert groups.shape == (len(rows),)
    assert sorted(set(groups.tolist())) == list(range(int(groups.max(initial=-1)) + 1))
    assert all(cost <= limit for cost in costs_by_sets(rows, column_bytes, root_bytes, groups, entry_bytes))


@pytest.mark.parametrize("by_share", [True, False])
@settings(max_examples=share_of_examples(150), deadline=None)
@given(priced_rows(), st.integers(0, 60))
def test_growth_is_that_of_the_definition(
    by_share: bool, priced: tuple[list[list[int]], Ints, Ints], more: int
) -> None:
    rows, column_bytes, root_bytes = priced
    indptr, columns = pack(rows)
    priced_rows = PricedRows(indptr, columns, column_bytes, root_bytes)
    limit = int(priced_rows.root_costs().max(initial=0)) + more
    groups = grow_groups(priced_rows, limit, by_share)
    expected = grow_by_definition(rows, column_bytes, root_bytes, limit, by_share)
    assert groups.tolist() == expected


@pytest.mark.parametrize("name", GROUPINGS)
def test_a_root_too_large_for_any_part_is_named(name: str) -> None:
    rows = [[0], [0, 1], [1, 2, 3, 4], [4]]
    indptr, columns = pack(rows)
    bytes_each = np.full(5, 10, np.int64)
    with pytest.raises(CapacityError, match=r"root 2 with its closure needs 41 bytes, more than the 40 bytes"):
        GROUPINGS[name](PricedRows(indptr, columns, bytes_each, np.ones(4, np.int64)), 40)


@pytest.mark.parametrize("name", GROUPINGS)
def test_a_root_that_fits_only_after_others_waits_for_them(name: str) -> None:
    rows = [[0, 1, 2, 3], *([column] for column in range(4) for _ in range(5))]
    indptr, columns = pack(rows)
    nothing, one = np.zeros(4, np.int64), np.ones(len(rows), np.int64)
    waiting = PricedRows(indptr, columns, nothing, one, 1)
    assert waiting.root_costs()[0] == 25
    groups = GROUPINGS[name](waiting, 12)
    assert groups[0] >= 2
    assert max(costs_by_sets(rows, nothing, one, groups, 1)) <= 12
    with pytest.raises(CapacityError, match="more than the 4 bytes of a part"):
        GROUPINGS[name](waiting, 4)


def test_one_large_root_does_not_end_a_group_with_room() -> None:
    rows = [[0, 1], [0, *range(2, 9)], *([0] for _ in range(20))]
    indptr, columns = pack(rows)
    groups = grow_groups(PricedRows(indptr, columns, np.ones(9, np.int64), np.zeros(22, np.int64)), 8, by_share=False)
    assert groups.tolist().count(groups[0]) == 21
    assert groups[1] != groups[0]


def planted_rows() -> PricedRows:
    """Return 40 blocks of 100 x 100 vertices, in any order, of 20 columns each; one entry of 50 is anywhere."""
    random = np.random.default_rng(5)
    roots = np.repeat(np.arange(4_000), 20)
    columns = roots // 100 * 100 + random.integers(0, 100, roots.size)
    stray = random.random(roots.size) < 0.02
    columns[stray] = random.integers(0, 4_000, int(stray.sum()))
    graph = BipartiteGraph.from_edges(random.permutation(4_000)[roots], random.permutation(4_000)[columns])
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(graph.u, minlength=graph.n_u))))
    return PricedRows(indptr, graph.v, np.full(graph.n_v, 8, np.int64), np.full(graph.n_u, 16, np.int64), 4)


def replication(rows: PricedRows, groups: Ids) -> float:
    """Return entries stored over entries, where parts leave out the roots of parts before them."""
    nothing = np.zeros(int(rows.columns.max()) + 1, np.int64), np.zeros(rows.indptr.size - 1, np.int64)
    counted = PricedRows(rows.indptr, rows.columns, *nothing, 1)
    return int(closure_cost(counted, groups).sum()) / rows.columns.size


def test_growth_finds_planted_blocks() -> None:
    rows = planted_rows()
    limit = int(rows.column_bytes.sum() + rows.root_bytes.sum() + 4 * rows.columns.size) // 10
    rates = {}
    for name in ("share", "hash", "metis"):
        groups = GROUPINGS[name](rows, limit)
        rates[name] = replication(rows, groups)
    assert rates["share"] < 1.35
    assert rates["hash"] > 3 * rates["share"]
    assert rates["metis"] < rates["hash"]


def test_chunks_are_close_to_growth_in_memory_and_the_same_for_any_number_of_threads() -> None:
    rows = planted_rows()
    limit = int(rows.column_bytes.sum() + rows.root_bytes.sum() + 4 * rows.columns.size) // 10
    host_bytes = growth_bytes(rows.root_bytes.size, rows.column_bytes.size, rows.columns.size) * 9 // 10
    whole = grow_groups(rows, limit)
    found = [chunks_within(host_bytes, threads)(rows, limit) for threads in (1, 2, 5)]
    assert all(np.array_equal(found[0], one) for one in found[1:])
    assert not np.array_equal(found[0], whole)
    assert replication(rows, found[0]) < 1.3 * replication(rows, whole)
    costs = closure_cost(rows, found[0])
    assert costs.max() <= limit
    assert sorted(set(found[0].tolist())) == list(range(costs.size))


def test_chunks_smaller_than_a_part_are_joined() -> None:
    rows = planted_rows()
    limit = int(rows.column_bytes.sum() + rows.root_bytes.sum() + 4 * rows.columns.size) * 6 // 10
    host_bytes = growth_bytes(rows.root_bytes.size, rows.column_bytes.size, rows.columns.size) * 17 // 20
    groups = chunks_within(host_bytes, 2)(rows, limit)
    costs = closure_cost(rows, groups)
    assert costs.size <= 3
    assert costs.max() <= limit
    assert replication(rows, groups) < 1.4


def test_one_chunk_is_growth_in_memory() -> None:
    rows = planted_rows()
    whole = grow_groups(rows, 100_000)
    grouped = chunks_within(10**8, 2)(rows, 100_000)
    assert np.array_equal(whole, grouped)


def test_chunks_refuse_too_little_memory() -> None:
    rows = planted_rows()
    with pytest.raises(CapacityError, match="--host-memory"):
        chunks_within(300_000, 1)(rows, 100_000)


def test_metis_leaves_out_hubs_where_the_pairs_are_too_many() -> None:
    rows = planted_rows()
    groups = metis_groups(rows, 100_000, max_pairs=20_000)
    assert closure_cost(rows, groups).max() <= 100_000
    assert groups.min() == 0
