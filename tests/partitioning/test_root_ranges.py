"""Laws of the split into leases: it tiles the items for any costs, guided and never too small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.partitioning.rates import work_rate
from papilio.partitioning.root_ranges import CostTable, split_guided

costs_lists = st.lists(st.integers(0, 10**12), max_size=200)


def table_of(costs: list[int], max_entries: int = 4096) -> CostTable:
    falling = np.array(sorted(costs, reverse=True), dtype=np.int64)
    return CostTable.from_costs(falling, max_entries)


@given(costs_lists, st.integers(1, 64))
def test_table_keeps_items_total_and_cumulative_work(costs: list[int], max_entries: int) -> None:
    table = table_of(costs, max_entries)
    falling = sorted(costs, reverse=True)
    assert table.n_items == len(costs)
    assert table.total == sum(costs)
    assert all(sum(falling[:item]) == work for item, work in zip(table.items, table.work, strict=True))
    assert len(table.items) <= max(max_entries, 1) + 1
    assert CostTable.from_json(table.to_json()) == table


@settings(max_examples=300)
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
    leases = split_guided(table, n_workers, min_work, max_work)
    at = 0
    for start, stop in leases:
        assert start == at
        assert stop > start
        at = stop
    assert at == len(costs)
    if len(leases) > 1:
        assert min(table.work_of(*lease) for lease in leases) >= min_work


@given(st.integers(1, 50), st.integers(1, 1000), st.integers(2, 20))
def test_every_worker_gets_a_lease_when_the_work_allows(n_workers: int, min_work: int, spare: int) -> None:
    unit = max(1, min_work // 10)
    n_items = spare * n_workers * min_work // unit + 1
    table = CostTable.from_costs(np.full(n_items, unit, dtype=np.int64), max_entries=10**6)
    assert len(split_guided(table, n_workers, min_work)) >= n_workers


def test_leases_shrink_on_uniform_work_down_to_the_minimum() -> None:
    table = CostTable.from_costs(np.ones(100_000, dtype=np.int64), max_entries=100_000)
    sizes = [stop - start for start, stop in split_guided(table, 4, 100)]
    assert sizes[0] == 100_000 // 8
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert 100 <= sizes[-1] < 200


def test_maximum_caps_the_first_leases() -> None:
    table = CostTable.from_costs(np.ones(10_000, dtype=np.int64), max_entries=10_000)
    sizes = [stop - start for start, stop in split_guided(table, 1, 10, max_work=500)]
    assert max(sizes) == 500


def test_heavy_first_items_stand_alone() -> None:
    costs = np.array([10**9, 10**9] + [1] * 100_000, dtype=np.int64)
    table = CostTable.from_costs(costs, max_entries=64)
    assert {1, 2} <= set(table.items)
    assert split_guided(table, 8, 1000)[0] == (0, 1)


def test_no_items_and_work_without_cost() -> None:
    assert split_guided(table_of([]), 3, 5) == ()
    assert split_guided(table_of([0, 0, 0]), 3, 5) == ((0, 3),)


def test_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split_guided(table_of([1]), 0, 1)
    with pytest.raises(ValueError, match="rise strictly"):
        CostTable((0, 2, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="never falls"):
        CostTable((0, 1, 2), (0, 3, 2))
    with pytest.raises(ValueError, match="starts at item 0"):
        CostTable((1, 2), (0, 3))
    with pytest.raises(ValueError, match="no breakpoint"):
        CostTable((0, 5), (0, 9)).work_of(0, 3)
    with pytest.raises(CapacityError, match="cannot be planned"):
        CostTable.from_costs(np.full(4, 2**61, dtype=np.int64))


def test_rates_fall_through_to_the_generic_row() -> None:
    assert work_rate("butterfly", "gpu").unit == "wedges"
    assert work_rate("no such motif", "cpu").unit == "units"
    assert work_rate("butterfly", "gpu").per_second > work_rate("butterfly", "cpu").per_second
