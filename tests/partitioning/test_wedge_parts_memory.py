"""Memory of cutters: jobs that share it, and what is measured of it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.kernels.memory import WEDGES
from papilio.motifs import Butterfly, Granularity
from papilio.partitioning.cut_request import CutRequest, Strategy
from papilio.partitioning.cut_run import PeakMemory, run_within
from papilio.partitioning.wedge_parts import cut_wedges
from tests.partitioning.wedge_reference import store_of
from tests.tools.strategies import skewed_graph


def test_a_peak_is_seen_after_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, sample = threading.Semaphore(0), PeakMemory._sample

    def count_and_sample(watch: PeakMemory) -> int:
        taken.release()
        return sample(watch)

    monkeypatch.setattr(PeakMemory, "_sample", count_and_sample)
    with PeakMemory() as peak:
        block = np.ones(1 << 24, np.int64)
        while taken.acquire(blocking=False):
            pass
        for _ in range(2):  # at the second one, the first is kept
            taken.acquire()
        del block
    assert 0.9 * (1 << 27) < peak.grown_bytes < 1.5 * (1 << 27)


@pytest.mark.parametrize(("limit", "threads", "most"), [(30, 8, 3), (10, 8, 1), (1, 8, 1), (10_000, 4, 4)])
def test_jobs_stay_within_the_memory_that_they_share(limit: int, threads: int, most: int) -> None:
    lock, running, seen, done = threading.Lock(), [0], [0], []
    together = threading.Barrier(most, timeout=300)

    def job(value: int) -> int:
        with lock:
            running[0] += 1
            seen[0] = max(seen[0], running[0])
        if value < most:
            together.wait()
        time.sleep(0.002)  # for others than may run
        with lock:
            running[0] -= 1
        return value

    jobs = ((10, lambda value=value: job(value)) for value in range(20))
    assert run_within(jobs, limit, threads, done.append) == list(range(20))
    assert seen[0] == most
    assert done == [10] * 20


def test_no_job_is_begun_after_one_that_raised() -> None:
    begun = []

    def job(value: int) -> None:
        begun.append(value)
        if value == 3:
            raise CapacityError("three")

    with pytest.raises(CapacityError, match="three"):
        run_within(((1, lambda value=value: job(value)) for value in range(100)), 1, 2)
    assert begun == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("strategy", "per"),
    [("pair_blocks", "edge"), pytest.param("bcpar", "total", marks=pytest.mark.slow)],
)
def test_a_cut_stays_within_its_host_memory(tmp_path: Path, strategy: Strategy, per: Granularity) -> None:
    """The entries of both directions, with edge ids, take more than the cutter may."""
    host = 88 << 20
    small, large = skewed_graph(1, 50, 50, 500), skewed_graph(2, 60_000, 40_000, 4_000_000, exponent=1.5)
    assert per == "total" or 2 * 12 * large.n_edges > host
    part = WEDGES.raw(per)
    for name, graph, share in (
        ("small", small, 0.5),
        ("large", large, 0.3 if strategy == "pair_blocks" else 0.7),
    ):
        request = CutRequest(per, part, 4096 + int(share * part.entry * graph.n_edges), host, 2, strategy)
        store = store_of(tmp_path / name, graph)
        cut = cut_wedges(store, tmp_path / f"{name}-parts", Butterfly(), {}, request)
    assert len(cut.manifest.parts) > 4
    assert 0 < cut.manifest.peak_bytes <= host
