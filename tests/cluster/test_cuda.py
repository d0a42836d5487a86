"""The cluster of this machine's GPUs; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import papilio
from papilio.cluster.executor import missing_for_cuda
from papilio.kernels.device.discovery import list_gpus
from papilio.storage.store import GraphStore
from papilio.tasks import leases as lease_policy
from tests.cluster.intruder import addresses_of, intrude

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_for_cuda() is not None, reason=f"no cuda cluster: {missing_for_cuda()}"),
]


def test_cuda_cluster_agrees_with_cpu(senate: GraphStore) -> None:
    with papilio.open_cluster("cuda") as cluster:
        assert len(cluster.workers) == len(list_gpus())
        for per in ("total", "vertex", "edge"):
            right = papilio.count(senate, papilio.Butterfly(), per=per, engine="cpu")
            result = papilio.count(senate, papilio.Butterfly(), per=per, cluster=cluster)
            assert result.engine == "gpu"
            assert (result.count, result.work, result.plan_key) == (right.count, right.work, right.plan_key)
            assert all(np.array_equal(result.vectors[name], right.vectors[name]) for name in right.vectors)


def test_no_process_of_the_cuda_cluster_talks_to_strangers(senate: GraphStore) -> None:
    with papilio.open_cluster("cuda", workers=1) as cluster:
        addresses = addresses_of(cluster)
        assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
        answers = intrude(addresses)
        assert all(answer.startswith("refused: ") for answer in answers.values())
        result = papilio.count(senate, papilio.Butterfly(), cluster=cluster)
        assert (result.count, result.engine) == (25_666_956, "gpu")


@pytest.mark.multi_gpu
@pytest.mark.skipif(len(list_gpus()) < 2, reason=f"{len(list_gpus())} GPUs are visible; needs 2")
def test_every_gpu_answers_leases(senate: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_policy, "SHORTEST_LEASE_S", 1e-9)
    monkeypatch.setattr(lease_policy, "MAX_LEASE_S", 1e-6)
    monkeypatch.setattr(lease_policy, "VECTOR_OVERHEAD", 1e9)
    with papilio.open_cluster("cuda") as cluster:
        assert len({worker.pid for worker in cluster.workers}) == len(list_gpus())
        for per in ("total", "vertex", "edge"):
            result = papilio.count(senate, papilio.Butterfly(), per=per, cluster=cluster)
            assert result.count == 25_666_956
            assert all(count > 0 for count in result.leases_by_worker.values())
    with papilio.open_cluster("cuda", workers=1) as cluster:
        assert len(cluster.workers) == 1
