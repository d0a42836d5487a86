"""Finished intervals: exactly the tilings are complete."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.errors import TilingError
from papilio.tasks.leases import FinishedIntervals


@st.composite
def tilings(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    n_items = draw(st.integers(1, 1000))
    cuts = sorted(draw(st.sets(st.integers(1, n_items), max_size=20)) | {0, n_items})
    intervals = list(pairwise(cuts))
    random.Random(draw(st.integers(0, 10**6))).shuffle(intervals)
    return n_items, intervals


@given(tilings())
def test_any_order_of_a_tiling_is_complete(tiling: tuple[int, list[tuple[int, int]]]) -> None:
    n_items, intervals = tiling
    done = FinishedIntervals([n_items])
    for start, stop in intervals:
        done.record(0, start, stop)
    done.require_complete()
    assert done.missing(0) == ()
    assert done.n_finished == len(intervals)


@given(tilings(), st.data())
def test_a_missing_interval_is_reported_as_the_gap(
    tiling: tuple[int, list[tuple[int, int]]], data: st.DataObject
) -> None:
    n_items, intervals = tiling
    left_out = data.draw(st.sampled_from(intervals))
    done = FinishedIntervals([n_items])
    for interval in intervals:
        if interval != left_out:
            done.record(0, *interval)
    assert done.missing(0) == (left_out,)
    with pytest.raises(TilingError, match=rf"\[{left_out[0]}, {left_out[1]}\) of partition 0 were never"):
        done.require_complete()


@given(tilings(), st.data())
def test_any_overlap_is_refused(tiling: tuple[int, list[tuple[int, int]]], data: st.DataObject) -> None:
    n_items, intervals = tiling
    done = FinishedIntervals([n_items])
    for interval in intervals:
        done.record(0, *interval)
    start = data.draw(st.integers(0, n_items - 1))
    stop = data.draw(st.integers(start + 1, n_items))
    with pytest.raises(TilingError, match="overlap"):
        done.record(0, start, stop)
    done.require_complete()


@pytest.mark.parametrize("interval", [(3, 3), (4, 2), (-1, 2), (8, 11)])
def test_empty_and_outside_intervals_are_refused(interval: tuple[int, int]) -> None:
    with pytest.raises(TilingError, match="the partition has items"):
        FinishedIntervals([10]).record(0, *interval)


def test_partitions_are_separate() -> None:
    done = FinishedIntervals([5, 5])
    done.record(0, 0, 5)
    with pytest.raises(TilingError, match="of partition 1"):
        done.require_complete()
    done.record(1, 0, 5)
    done.require_complete()
    with pytest.raises(TilingError, match="the plan has 2"):
        done.record(2, 0, 1)


def test_a_job_without_items_is_complete() -> None:
    FinishedIntervals([0]).require_complete()
