"""The loader of parts: what is kept stays within the limits, the next part is read while the current one runs."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import StoreError
from papilio.partitioning.partition import PartInfo
from papilio.parts import EndBlock, PartBytes, PartSizes, StartBlock, WedgePart
from papilio.tasks.memory import PartMemory
from papilio.tasks.parts import PartLoader
from tests.conftest import share_of_examples

ENTRY = PartBytes(0, 0, 4, 0, 4)
"""Bytes of the blocks below, by the sizes of a part: entries alone."""

NONE = PartBytes(0, 0, 0, 0, 0)


def ids(size: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.zeros(size, np.int32)


def longs() -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.zeros(0, np.int64)


@dataclass
class Manifest:
    """As much of a manifest as the loader looks at."""

    parts: tuple[PartInfo, ...]


@dataclass
class FakeStorage:
    """A grid of blocks of so many entries, which is slow to read, and an engine that stages; both remember."""

    starts: list[int]
    ends: list[int]
    read_s: float = 0.0
    broken: set[str] = field(default_factory=set)
    events: list[tuple[str, str, float, float]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    check: Any = None
    path: str = "/parts"

    def __post_init__(self) -> None:
        cells = [(s, e) for s in range(len(self.starts)) for e in range(len(self.ends))]
        self.manifest = Manifest(
            tuple(
                PartInfo(
                    index, (f"s{s}", f"e{e}"), "u", PartSizes(1, self.starts[s], 1, self.ends[e]), 1, 1,
                    {"items": [0, 1], "work": [0, 1]}, 4 * (self.starts[s] + self.ends[e]),
                )
                for index, (s, e) in enumerate(cells)
            )
        )  # fmt: skip

    def _log(self, what: str, name: str, seconds: float) -> None:
        began = time.perf_counter()
        self.threads.add(threading.current_thread().name)
        if name in self.broken:
            raise StoreError(f"{name} is corrupt")
        time.sleep(seconds)
        self.events.append((what, name, began, time.perf_counter()))
        if self.check is not None:
            self.check()

    def read_block(self, name: str) -> StartBlock | EndBlock:
        self._log("read", name, self.read_s)
        if name.startswith("e"):
            entries = ids(self.ends[int(name[1:])])
            return EndBlock("u", ids(0), ids(0), ids(0), ids(0), longs(), entries, longs())
        return StartBlock("u", ids(0), ids(0), longs(), longs(), ids(self.starts[int(name[1:])]), longs())

    def stage(self, block: Any) -> Any:
        self._log("stage", type(block).__name__, self.read_s / 2)
        return block

    def read(self) -> list[str]:
        return [name for what, name, *_ in self.events if what == "read"]


def loader_of(storage: FakeStorage, host_bytes: int, device_bytes: int | None, peak: PartBytes = NONE) -> PartLoader:
    memory = PartMemory(ENTRY, ENTRY, peak, peak)
    return PartLoader(storage, storage, memory, host_bytes, device_bytes)  # type: ignore[arg-type]


def test_the_next_part_is_read_and_staged_while_the_current_one_runs() -> None:
    storage = FakeStorage([10, 10], [10, 10], read_s=0.05)
    loader = loader_of(storage, 1000, 1000)
    loader.load(0)
    first = loader.take_movement()
    assert first.waited_s >= 0.15
    assert (first.read_bytes, first.staged_bytes) == (80, 80)
    began = time.perf_counter()
    loader.read_ahead(0, 3)
    while len(storage.events) < 8 and time.perf_counter() < began + 120:
        time.sleep(0.01)
    ended = time.perf_counter()
    assert isinstance(loader.load(3), WedgePart)
    ahead = [event for event in storage.events if event[2] >= began]
    assert [event[:2] for event in ahead] == [
        ("read", "s1"), ("stage", "StartBlock"), ("read", "e1"), ("stage", "EndBlock"),
    ]  # fmt: skip
    assert all(event[3] <= ended for event in ahead), "during the run"
    moved = loader.take_movement()
    assert moved.load_s >= 0.1
    assert moved.stage_s >= 0.05
    assert moved.waited_s < moved.load_s + moved.stage_s, "less than in a row"
    assert "papilio-read-ahead_0" in storage.threads
    loader.close()
    assert loader.held_bytes == (0, 0)


def test_blocks_that_parts_share_are_read_once() -> None:
    storage = FakeStorage([10, 20, 30], [40, 50])
    loader = loader_of(storage, 4 * 90, None)
    for index in (0, 2, 4, 5):
        loader.load(index)
    assert storage.read() == ["s0", "e0", "s1", "s2", "e1"]
    assert loader.take_movement().read_bytes == 4 * 150
    assert loader.take_movement().read_bytes == 0
    loader.close()


@pytest.mark.parametrize(
    ("host", "device", "read", "staged"),
    [(160, None, ["s1", "e1"], 0), (159, None, ["s1"], 0), (119, None, [], 0),
     (160, 160, ["s1", "e1"], 2), (160, 159, ["s1", "e1"], 1), (160, 80, ["s1", "e1"], 0), (100, 160, [], 0)],
)  # fmt: skip
def test_no_more_is_read_ahead_than_there_is_room_for(
    host: int, device: int | None, read: list[str], staged: int
) -> None:
    storage = FakeStorage([10, 10], [10, 10])
    loader = loader_of(storage, host, device)
    loader.load(0)
    before = len(storage.events)
    loader.read_ahead(0, 3)
    loader._settle()
    ahead = storage.events[before:]
    assert [name for what, name, *_ in ahead if what == "read"] == read
    assert sum(what == "stage" for what, *_ in ahead) == staged
    loader.load(3)
    assert storage.read() == ["s0", "e0", "s1", "e1"], "nothing is read twice"
    loader.close()


def test_what_fails_ahead_fails_when_it_is_needed() -> None:
    storage = FakeStorage([10, 10], [10], broken={"s1"})
    loader = loader_of(storage, 1000, None)
    loader.load(0)
    loader.read_ahead(0, 1)
    with pytest.raises(StoreError, match="s1 is corrupt"):
        loader.load(1)
    storage.broken.clear()
    loader.load(1)
    loader.close()


def test_when_memory_runs_out_only_the_part_that_runs_is_kept() -> None:
    storage = FakeStorage([10, 10], [10, 10])
    loader = loader_of(storage, 1000, 1000)
    loader.load(3)
    loader.load(0)
    loader.read_ahead(0, 2)
    loader.keep_only(0)
    assert loader.held_bytes == (80, 80)
    loader.close()
    loader.load(1)
    loader.read_ahead(1, 2)
    assert loader._under_way is None


@settings(max_examples=share_of_examples(150), deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.integers(0, 200),
    st.booleans(),
    st.integers(0, 2**32).map(random.Random),
)
def test_the_limits_hold_at_every_moment(
    starts: list[int], ends: list[int], spare: int, with_device: bool, chance: random.Random
) -> None:
    storage = FakeStorage(starts, ends)
    peak = PartBytes(16, 0, 3, 0, 2)
    parts = storage.manifest.parts
    needs = [peak.of(part.sizes) + part.nbytes for part in parts]
    limit = max(needs) + spare
    loader = loader_of(storage, 2 * limit if with_device else limit, limit if with_device else None, peak)
    running = 0

    def check() -> None:
        host, device = loader.held_bytes
        reserved = peak.of(parts[running].sizes)
        assert device + reserved <= limit or not with_device
        assert host + reserved <= (2 * limit if with_device else limit)

    storage.check = check
    for _ in range(12):
        running = chance.randrange(len(parts))
        part = loader.load(running)
        assert isinstance(part, WedgePart)
        sizes = parts[running].sizes
        assert (part.starts.middles.size, part.ends.ends.size) == (sizes.root_entries, sizes.entries)
        check()
        if chance.random() < 0.8:
            loader.read_ahead(running, chance.randrange(len(parts)))
        loader._settle()
        check()
    loader.close()
