"""One process per GPU, checked by UUID before any work; and a client that creates no CUDA context."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio.cluster.executor import check_devices, choose_engine
from papilio.cluster.existing import ExistingExecutor
from papilio.cluster.own_cluster import missing_for_cuda
from papilio.errors import ClusterError
from papilio.kernels.device.discovery import list_gpus, missing_for_gpu
from papilio.storage.records import write_record
from papilio.storage.store import GraphStore
from papilio.tasks.machine import WorkerInfo, describe_worker, read_worker
from tests.cluster.conftest import dask_processes
from tests.conftest import ROOT
from tests.tasks.fakes import make_worker
from tests.tools.fake_driver import (
    ASKS_ONLY,
    FAKE_MEMORY_BYTES,
    build_driver,
    calls_of,
    fake_uuid,
    with_driver,
)

SENATE = 25_666_956

needs_cupy = pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


def gpu_worker(name: str, uuid: str, **changes: Any) -> WorkerInfo:
    known: dict[str, Any] = {"gpu": "H200", "gpu_memory_bytes": 1, "gpu_missing": None, "gpu_uuid": uuid}
    return make_worker(name, **{**known, **changes})


class Pool:
    """What the choice of an engine asks of an executor."""

    name = "existing"
    in_process = False
    gpu_refusal = None

    def __init__(self, *workers: WorkerInfo) -> None:
        self.workers = workers


def test_two_processes_on_one_gpu_are_refused_with_both_named() -> None:
    one, other = gpu_worker("tcp://a:1", "GPU-1", pid=11), gpu_worker("tcp://a:2", "GPU-1", pid=12)
    third = gpu_worker("tcp://a:3", "GPU-3", pid=13)
    match = r"tcp://a:1 \(process 11 on h\) and tcp://a:2 \(process 12 on h\) use the same GPU, GPU-1; start one"
    with pytest.raises(ClusterError, match=match):
        check_devices([third, one, other])
    for choice in ("gpu", "auto"):
        with pytest.raises(ClusterError, match=match):
            choose_engine(Pool(one, other, third), choice)  # type: ignore[arg-type]
    assert choose_engine(Pool(one, other), "cpu")[0] == "cpu"  # type: ignore[arg-type]
    assert choose_engine(Pool(one, third), "auto")[0] == "gpu"  # type: ignore[arg-type]


def test_who_may_share_a_gpu() -> None:
    one = gpu_worker("tcp://a:1", "GPU-1", pid=11)
    check_devices([one, gpu_worker("tcp://a:2", "GPU-1", pid=11)])
    check_devices([gpu_worker("a", "", pid=1), gpu_worker("b", "", pid=2)])
    check_devices([make_worker("a", pid=1), make_worker("b", pid=2)])
    with pytest.raises(ClusterError, match="process 11 on other"):
        check_devices([one, gpu_worker("tcp://b:1", "GPU-1", pid=11, host="other")])


def test_descriptions_of_other_versions_are_read() -> None:
    described = write_record(describe_worker("w"))
    assert read_worker({**described, "added_later": 1}) == read_worker(described)
    del described["gpu_uuid"]
    assert read_worker(described).gpu_uuid == ""


def test_visible_devices_are_those_of_the_process(driver: Path) -> None:
    first, second = (f"MIG-{c * 8}-{c * 4}-{c * 4}-{c * 4}-{c * 12}" for c in "1b")
    cases: dict[str, tuple[list[str], list[str]]] = {
        "unset": ([fake_uuid(i) for i in range(4)], ["0", "1", "2", "3"]),
        "": ([], []),
        "2": ([fake_uuid(2)], ["2"]),
        "3,1": ([fake_uuid(3), fake_uuid(1)], ["3", "1"]),
        "1,9,2": ([fake_uuid(1)], ["1"]),
        first: ([first], [first]),
        f"{second}, {first}, {second}": ([second], [second, first]),
    }
    code = f"""
import json, os
from dataclasses import asdict
from papilio.kernels.device.discovery import list_gpus, list_visible_ids
from papilio.tasks.machine import describe_worker
for case in {list(cases)!r}:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if case != "unset":
        os.environ["CUDA_VISIBLE_DEVICES"] = case
    list_gpus.cache_clear()
    worker = describe_worker("w")
    print(json.dumps([[gpu.uuid for gpu in list_gpus()], list_visible_ids(), asdict(worker)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=with_driver(driver), capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for (case, (uuids, ids)), line in zip(cases.items(), done.stdout.splitlines(), strict=True):
        seen, visible, worker = json.loads(line)
        assert (seen, visible) == (uuids, ids), case
        assert worker["gpu_uuid"] == (uuids[0] if uuids else ""), case
        assert worker["gpu_memory_bytes"] == (FAKE_MEMORY_BYTES if uuids else 0), case


CHECK_CLUSTER = """
import sys
from papilio.cluster.doctor import check_cluster
print([check.found for check in check_cluster(sys.argv[1], None, 2) if check.status == "fail"])
"""


def run_python(environment: dict[str, str], *words: object) -> tuple[int, int, str, str]:
    """Run Python and return its process id, exit code, output and errors."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, error = process.communicate(timeout=600)
    return process.pid, process.returncode, out, error


@pytest.mark.slow
@needs_cupy
def test_workers_that_share_a_gpu_do_no_gpu_work(
    driver: Path, senate: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two real worker processes that both see device 1, and the calls of every process to the driver."""
    log = tmp_path / "calls"
    environment = with_driver(driver, log, CUDA_VISIBLE_DEVICES="1")
    for name in ("LD_LIBRARY_PATH", "FAKE_CUDA_LOG", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, environment[name])
    with dask_processes(tmp_path, 2) as (scheduler_file, _):
        asked = (
            "-m",
            "papilio",
            "count",
            "butterfly",
            senate.path,
            "--cluster",
            scheduler_file,
            "--workers",
            2,
        )
        client, code, out, error = run_python(environment, *asked)
        with ExistingExecutor(scheduler_file, 2) as executor:
            workers = executor.workers
        assert (code, out) == (6, ""), error
        for worker in workers:
            assert worker.gpu_uuid == fake_uuid(1)
            assert f"{worker.name} (process {worker.pid} on {worker.host})" in error
            assert calls_of(log, worker.pid) <= ASKS_ONLY
        assert f"use the same GPU, {fake_uuid(1)}; start one worker per GPU" in error
        counting, code, out, error = run_python(environment, *asked, "--engine", "cpu")
        assert (code, out) == (0, f"{SENATE}\n"), error
        doctor, code, out, error = run_python(environment, "-c", CHECK_CLUSTER, scheduler_file)
        assert f"share {fake_uuid(1)}" in out, error
        assert all(worker.name in out for worker in workers)
    assert calls_of(log, doctor) > {"cuInit"}
    for process in (client, counting, doctor):
        assert calls_of(log, process) <= ASKS_ONLY


@pytest.mark.gpu
@pytest.mark.skipif(missing_for_cuda() is not None, reason=f"no cuda cluster: {missing_for_cuda()}")
def test_the_client_of_gpu_workers_creates_no_context(senate: GraphStore) -> None:
    """The driver says whether a primary context of any device is active in the client, after the count."""
    code = f"""
import ctypes, json, sys
import papilio
from papilio.kernels.device.discovery import list_gpus

driver = ctypes.CDLL("libcuda.so.1")

def active():
    states = []
    for ordinal in range(len(list_gpus())):
        device, flags, state = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int(-1)
        assert driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0
        assert driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(state)) == 0
        states.append(state.value)
    return states

if __name__ == "__main__":
    with papilio.open_cluster("cuda") as cluster:
        result = papilio.count({senate.path!r}, papilio.Butterfly(), cluster=cluster)
    before = active()
    cupy = "cupy" in sys.modules
    import cupy as own
    own.zeros(1)
    print(json.dumps([result.engine, result.count, before, cupy, active()[0]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    engine, count, before, cupy, after = json.loads(done.stdout)
    assert (engine, count, before, cupy) == ("gpu", SENATE, [0] * len(list_gpus()), False)
    assert after == 1, "the driver does not notice a context when there is one"


@pytest.mark.gpu
@pytest.mark.skipif(missing_for_gpu() is not None, reason=f"no gpu engine: {missing_for_gpu()}")
def test_two_processes_on_a_real_gpu_are_refused(
    senate: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = list_gpus()[0].uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid)
    with (
        dask_processes(tmp_path, 2) as (scheduler_file, _),
        ExistingExecutor(scheduler_file, 2) as executor,
    ):
        assert {worker.gpu_uuid for worker in executor.workers} == {uuid}
        with pytest.raises(ClusterError, match=f"use the same GPU, {uuid}"):
            papilio.count(senate, papilio.Butterfly(), cluster=executor)
        assert papilio.count(senate, papilio.Butterfly(), cluster=executor, engine="cpu").count == SENATE


@pytest.mark.gpu
@pytest.mark.multi_gpu
@pytest.mark.skipif(missing_for_cuda() is not None, reason=f"no cuda cluster: {missing_for_cuda()}")
@pytest.mark.skipif(len(list_gpus()) < 2, reason=f"{len(list_gpus())} GPUs are visible; needs 2")
def test_each_worker_of_the_cuda_cluster_has_its_own_gpu() -> None:
    with papilio.open_cluster("cuda") as cluster:
        assert {worker.gpu_uuid for worker in cluster.workers} == {gpu.uuid for gpu in list_gpus()}
        check_devices(cluster.workers)
