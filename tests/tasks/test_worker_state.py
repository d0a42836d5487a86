"""The cache of prepared graphs: one maker per key, bounded, errors are not kept."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from papilio.tasks.worker_state import PreparedCache


@dataclass
class Thing:
    nbytes: int


def test_many_threads_make_one_object() -> None:
    cache = PreparedCache(100)
    made: list[Thing] = []
    gate = threading.Barrier(8)

    def make() -> Thing:
        time.sleep(0.02)
        made.append(Thing(10))
        return made[-1]

    def ask() -> Thing:
        gate.wait()
        return cache.get("key", 10, make)

    with ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert len(made) == 1
    assert all(thing is made[0] for thing in found)


def test_oldest_goes_first_and_only_when_needed() -> None:
    cache = PreparedCache(100)
    for name in "abc":
        cache.get(name, 30, lambda: Thing(30))
    cache.get("a", 30, lambda: Thing(0))
    cache.get("d", 30, lambda: Thing(30))
    assert ["b" in cache, "c" in cache, "a" in cache, "d" in cache] == [False, True, True, True]
    cache.get("huge", 1000, lambda: Thing(1000))
    assert len(cache) == 1
    assert "huge" in cache


def test_room_is_made_before_the_next_object_is_made() -> None:
    cache = PreparedCache(100)
    cache.get("old", 80, lambda: Thing(80))

    def make() -> Thing:
        assert "old" not in cache
        return Thing(80)

    cache.get("new", 80, make)


def test_an_error_reaches_every_waiting_thread_and_is_not_kept() -> None:
    cache = PreparedCache(100)
    entered, go_on = threading.Event(), threading.Event()

    def fail() -> Thing:
        entered.set()
        go_on.wait()
        raise KeyError("lost")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "key", 1, fail)
        entered.wait()
        second = pool.submit(cache.get, "key", 1, fail)
        time.sleep(0.02)
        go_on.set()
        for future in (first, second):
            with pytest.raises(KeyError, match="lost"):
                future.result()
    assert cache.get("key", 1, lambda: Thing(1)).nbytes == 1


def test_forget_takes_the_chosen() -> None:
    cache = PreparedCache(100)
    for name in "ab":
        cache.get(name, 1, lambda: Thing(1))
    cache.forget(lambda key: key == "a")
    assert ["a" in cache, "b" in cache] == [False, True]
