"""Laws of the split into leases: it tiles the items for any costs, in equal shares that are never too small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.kernels.engine import CostTable, deal_items, find_hands
from papilio.registry import MOTIF_ROWS
from papilio.storage.records import read_record, write_record
from papilio.tasks.leases import (
    KEPT_LEASE_S,
    KEPT_SLOWDOWN,
    MAX_LEASE_S,
    SHORTEST_LEASE_S,
    ItemRange,
    PendingWork,
    choose_lengths,
    split_shares,
)
from tests.conftest import share_of_examples

costs_lists = st.lists(st.integers(0, 10**12), max_size=200)


def table_of(costs: list[int], max_entries: int = 4096) -> CostTable:
    falling = np.array(sorted(costs, reverse=True), dtype=np.int64)
    return CostTable.from_costs(falling, max_entries)


def split_table(
    table: CostTable,
    n_workers: int,
    min_work: int,
    max_work: int | None = None,
    gaps: list[tuple[int, int]] | None = None,
) -> tuple[tuple[int, int], ...]:
    missing = gaps if gaps is not None else [(0, table.n_items)] if table.n_items else []
    pieces = [ItemRange(0, start, stop) for start, stop in missing]
    leases = split_shares([table], pieces, n_workers, min_work, max_work)
    return tuple((lease.start, lease.stop) for lease in leases)


@given(costs_lists, st.integers(1, 64))
def test_table_keeps_items_total_and_cumulative_work(costs: list[int], max_entries: int) -> None:
    table = table_of(costs, max_entries)
    falling = sorted(costs, reverse=True)
    assert table.n_items == len(costs)
    assert table.total == sum(costs)
    assert all(sum(falling[:item]) == work for item, work in zip(table.items, table.work, strict=True))
    assert len(table.items) <= max(max_entries, 1) + 1
    assert read_record(CostTable, write_record(table), "a table", "") == table


@settings(max_examples=share_of_examples(300))
@given(
    costs_lists,
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 10**12),
    st.one_of(st.none(), st.integers(0, 10**12)),
)
def test_leases_tile_the_items_and_respect_the_minimum(
    costs: list[int], max_entries: int, n_workers: int, min_work: int, max_work: int | None
) -> None:
    table = table_of(costs, max_entries)
    leases = split_table(table, n_workers, min_work, max_work)
    at = 0
    for start, stop in leases:
        assert start == at
        assert stop > start
        at = stop
    assert at == len(costs)
    if len(leases) > 1:
        assert min(table.work_between(*lease) for lease in leases) >= min_work


@given(st.integers(1, 50), st.integers(1, 1000), st.integers(2, 20))
def test_every_worker_gets_a_lease_when_the_work_allows(n_workers: int, min_work: int, spare: int) -> None:
    unit = max(1, min_work // 10)
    n_items = spare * n_workers * min_work // unit + 1
    table = CostTable.from_costs(np.full(n_items, unit, dtype=np.int64), max_entries=10**6)
    assert len(split_table(table, n_workers, min_work)) >= n_workers


def test_shares_of_uniform_work_are_equal() -> None:
    table = CostTable.from_costs(np.ones(100_000, dtype=np.int64), max_entries=100_000)
    sizes = [stop - start for start, stop in split_table(table, 4, 100)]
    assert sizes == [25_000] * 4


def test_maximum_caps_the_first_leases() -> None:
    table = CostTable.from_costs(np.ones(10_000, dtype=np.int64), max_entries=10_000)
    sizes = [stop - start for start, stop in split_table(table, 1, 10, max_work=500)]
    assert max(sizes) == 500


def test_heavy_first_items_stand_alone() -> None:
    costs = np.array([10**9, 10**9] + [1] * 100_000, dtype=np.int64)
    table = CostTable.from_costs(costs, max_entries=64)
    assert {1, 2} <= set(table.items)
    assert split_table(table, 8, 1000)[0] == (0, 1)


def test_no_items_and_work_without_cost() -> None:
    assert split_table(table_of([]), 3, 5) == ()
    assert split_table(table_of([0, 0, 0]), 3, 5) == ((0, 3),)


@given(costs_lists, st.integers(1, 40), st.data())
def test_work_between_is_exact_at_breakpoints_and_adds_up_everywhere(
    costs: list[int], max_entries: int, data: st.DataObject
) -> None:
    table = table_of(costs, max_entries)
    items = st.integers(0, len(costs))
    start, middle, stop = sorted((data.draw(items), data.draw(items), data.draw(items)))
    parts = table.work_between(start, middle) + table.work_between(middle, stop)
    assert parts == table.work_between(start, stop)
    falling = sorted(costs, reverse=True)
    if {start, stop} <= set(table.items):
        assert parts == sum(falling[start:stop])


@settings(max_examples=share_of_examples(200))
@given(costs_lists, st.integers(1, 40), st.integers(1, 9), st.integers(0, 10**12), st.data())
def test_a_pool_hands_out_every_item_whatever_is_put_back(
    costs: list[int], max_entries: int, n_workers: int, min_work: int, data: st.DataObject
) -> None:
    table = table_of(costs, max_entries)
    pool = PendingWork([table], [ItemRange(0, 0, len(costs))] if costs else [])
    answered: list[tuple[int, int]] = []
    returns = 0
    while (piece := pool.take(n_workers, min_work)) is not None:
        assert piece.start < piece.stop
        done = data.draw(st.integers(piece.start, piece.stop)) if returns < 10 else piece.stop
        if done < piece.stop:
            returns += 1
            pool.put_back(ItemRange(0, done, piece.stop, piece.attempt))
        if piece.start < done:
            answered.append((piece.start, done))
    assert pool.work_left == 0
    assert not pool
    ends = [0, *(stop for _, stop in sorted(answered))]
    assert ends[-1] == len(costs)
    assert [start for start, _ in sorted(answered)] == ends[:-1]


def test_what_is_put_back_goes_first_and_keeps_its_attempts() -> None:
    table = CostTable.from_costs(np.ones(100, dtype=np.int64))
    pool = PendingWork([table], [ItemRange(0, 50, 100)])
    pool.put_back(ItemRange(0, 0, 5, 2), ItemRange(0, 5, 9, 1))
    assert pool.work_left == 59
    assert pool.take(1, 100) == ItemRange(0, 0, 5, 2)
    assert pool.take(1, 100) == ItemRange(0, 5, 9, 1)
    assert pool.take(2, 10) == ItemRange(0, 50, 75, 0)
    assert pool.work_left == 25


def test_a_rest_is_joined_to_what_follows_it() -> None:
    table = CostTable.from_costs(np.ones(100, dtype=np.int64))
    pool = PendingWork([table], [ItemRange(0, 50, 100)])
    pool.join(ItemRange(0, 40, 50))
    assert (pool.work_left, pool.take(1, 1)) == (60, ItemRange(0, 40, 100))
    pool.join(ItemRange(0, 70, 100, 1))
    pool.join(ItemRange(0, 60, 70))
    pool.join(ItemRange(0, 10, 50))
    assert [pool.take(1, 1) for _ in range(3)] == [
        ItemRange(0, 10, 50),
        ItemRange(0, 60, 70),
        ItemRange(0, 70, 100, 1),
    ]
    assert (pool.work_left, bool(pool)) == (0, False)


def test_gaps_are_split_one_by_one() -> None:
    table = CostTable.from_costs(np.ones(100, dtype=np.int64))
    leases = split_table(table, 2, 10, gaps=[(10, 15), (40, 80)])
    assert leases == ((10, 15), (40, 80))


def test_lengths_follow_the_vectors() -> None:
    assert choose_lengths(3600, 0).min_s == SHORTEST_LEASE_S
    assert choose_lengths(3600, 2).min_s == 20
    assert choose_lengths(3600, 6).max_s == 60
    assert choose_lengths(3600, 0).max_s == MAX_LEASE_S


@pytest.mark.parametrize("fair_s", [0.1, 60, 36_000])
def test_kept_leases_are_short(fair_s: float) -> None:
    kept = choose_lengths(fair_s, 0, kept_by=4)
    assert kept.min_s == choose_lengths(fair_s, 0).min_s
    assert kept.max_s == KEPT_LEASE_S < 5


@pytest.mark.parametrize("vector_s", [0.001, 0.02, 0.04, 0.2, 1.0, 5.0, 50.0])
def test_kept_leases_cost_no_more_than_a_hundredth_for_their_vectors(vector_s: float) -> None:
    kept, usual = choose_lengths(3600, vector_s, kept_by=1), choose_lengths(3600, vector_s)
    assert usual.min_s <= kept.max_s <= usual.max_s
    assert vector_s / kept.max_s - vector_s / usual.max_s <= KEPT_SLOWDOWN + 1e-12


def test_kept_leases_of_many_workers_leave_the_client_time() -> None:
    longest = [choose_lengths(3600, 0, kept_by=n).max_s for n in (1, 200, 1000, 2000, 4096)]
    assert longest == [2, 2, 10, MAX_LEASE_S, MAX_LEASE_S]


def test_pieces_are_taken_of_the_partition_that_is_asked_for() -> None:
    tables = [table_of([10] * 4), table_of([10] * 4), table_of([10] * 2)]
    pool = PendingWork(tables, [ItemRange(0, 0, 4), ItemRange(1, 0, 4), ItemRange(2, 0, 2)])
    assert (pool.left, pool.work_left) == ({0: 40, 1: 40, 2: 20}, 100)
    assert pool.take(1, 10, 20, 1) == ItemRange(1, 0, 2)
    assert pool.take(1, 10, 20, 2) == ItemRange(2, 0, 2)
    assert (pool.left, pool.work_left) == ({0: 40, 1: 20}, 60)
    pool.put_back(ItemRange(2, 1, 2, 1))
    assert pool.take(1, 10, 20) == ItemRange(2, 1, 2, 1)
    assert pool.take(1, 10, 20) == ItemRange(0, 0, 2)
    with pytest.raises(KeyError):
        pool.take(1, 10, 20, 2)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=200),
    st.integers(1, 6),
    st.integers(1, 400),
    st.none() | st.integers(1, 800),
)
def test_leases_tile_the_hands_whatever_their_number(
    costs: list[int], hands: int, min_work: int, max_work: int | None
) -> None:
    n = len(costs)
    table = CostTable.from_costs(np.sort(costs)[::-1][deal_items(n, hands)])
    leases = split_shares([table], [ItemRange(0, 0, n)], hands, min_work, max_work, hands)
    assert [lease.start for lease in leases] == [0, *(lease.stop for lease in leases[:-1])]
    assert leases[-1].stop == n
    for lease in leases[:-1]:
        inside = [end for end in find_hands(n, hands).tolist() if lease.start < end < lease.stop]
        assert not inside or table.work_between(lease.start, inside[0]) < min_work, "it was too short"


def test_each_worker_gets_a_hand_whatever_the_items_seem_to_cost() -> None:
    heavy_first = [100 - k for k in range(100)]
    costs = np.array(heavy_first)[deal_items(100, 4)]
    leases = split_shares([CostTable.from_costs(costs)], [ItemRange(0, 0, 100)], 4, 10, None, 4)
    assert [lease.stop for lease in leases] == find_hands(100, 4)[1:].tolist()


def test_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match="the minimum is 1"):
        PendingWork([table_of([1])], [ItemRange(0, 0, 1)]).take(0, 1)
    with pytest.raises(ValueError, match="strictly increasing"):
        CostTable((0, 2, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="must not decrease"):
        CostTable((0, 1, 2), (0, 3, 2))
    with pytest.raises(ValueError, match="must start at item 0"):
        CostTable((1, 2), (0, 3))
    with pytest.raises(CapacityError, match="the maximum for a job"):
        CostTable.from_costs(np.full(4, 2**61, dtype=np.int64))


def test_rates_of_wedges_are_their_own() -> None:
    assert MOTIF_ROWS["butterfly"].rates["gpu"].unit == "wedges"
    assert MOTIF_ROWS["butterfly"].rates["gpu"].per_second > MOTIF_ROWS["butterfly"].rates["cpu"].per_second
    assert MOTIF_ROWS["clique"].rates["cpu"].unit == "set operations"
