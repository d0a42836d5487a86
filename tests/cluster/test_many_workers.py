"""Many worker processes, most of them idle: exact counts, and a lease costs no more than with few."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest

from benchmarks.lease_costs import LEASES_PER_WORKER, SIDE, measure, worker_processes
from papilio.storage.generate import generate
from papilio.storage.graph_models import Complete

MESSAGES = 5
"""Of a lease, as the scheduler receives them: submitted, finished, result collected, released by client and worker."""


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [8, 64])
def test_a_lease_costs_as_many_messages_with_many_workers(n_workers: int, tmp_path: Path) -> None:
    store = generate(Complete(n_u=SIDE, n_v=SIDE), tmp_path / "graph").path
    with worker_processes(tmp_path, n_workers) as path:
        costs = measure(path, n_workers, store, repeats=1)
    assert costs.count == comb(SIDE, 2) ** 2
    assert costs.leases >= LEASES_PER_WORKER * n_workers
    # In addition to the leases, the scheduler passes on requests to share.
    assert costs.lease.messages == pytest.approx(MESSAGES, abs=1)
