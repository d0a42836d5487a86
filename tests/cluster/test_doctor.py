"""The doctor: every check on facts made up for it, and the whole on this machine and a running cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from papilio.cluster.doctor import (
    Check,
    check_cache,
    check_cupy,
    check_dask_cuda,
    check_gpus,
    check_machine,
    check_machine_code,
    check_memory,
    check_optional,
    check_packages,
    check_processors,
    check_slurm,
    check_store,
    check_temporary,
    failure_of,
    numba_cache_directory,
)
from papilio.cluster.doctor_workers import (
    WorkerFacts,
    check_cluster,
    check_worker_gpus,
    check_worker_stores,
    check_worker_versions,
    describe_as_json,
    describe_process,
)
from papilio.errors import ClusterError, EngineUnavailableError, ExecutionError, StoreError
from papilio.graph import BipartiteGraph
from papilio.kernels.device import cubins
from papilio.kernels.device.discovery import GpuInfo
from papilio.kernels.device.toolchain import Toolchain
from papilio.storage.records import read_record
from papilio.storage.store import write_store
from papilio.tasks.machine import CgroupLimits, find_filesystem, is_writable, read_cgroup_limits
from tests.conftest import ROOT
from tests.tools.commands import Result, run_command
from tests.tools.fake_driver import FAKE_MEMORY_BYTES, build_driver, fake_uuid, with_driver

GIB = 2**30
H200 = GpuInfo("NVIDIA H200", 140 * GIB, (9, 0), "GPU-11111111-0000-0000-0000-000000000000")
OTHER = GpuInfo("NVIDIA H200", 140 * GIB, (9, 0), "GPU-22222222-0000-0000-0000-000000000000")
FREE = CgroupLimits(None, None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "graph"
    write_store(path, BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1]), provenance={})
    return path


def statuses(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def test_packages_are_compared_with_the_metadata() -> None:
    requirements = ["numpy>=2.0", "dask[array]>=2026.1.1", "bokeh>=3.4; extra == 'dashboard'"]
    installed = {"numpy": "2.4.6", "dask": "2026.1.1"}
    assert statuses(check_packages(requirements, installed.get)) == {"python": "ok", "packages": "ok"}
    old = check_packages(requirements, {"numpy": "1.26.4", "dask": "2026.8.0"}.get)[1]
    assert (old.status, old.advice) == ("fail", 'pip install "numpy>=2.0"')
    assert "1.26.4" in old.found
    absent = check_packages(requirements, {"numpy": "2.0"}.get)[1]
    assert absent.status == "fail"
    assert "dask is not installed" in absent.found
    assert check_packages([])[1].status == "warn"
    assert check_packages(["numpy>=2.0"], {"numpy": "2.1.0rc1+cu12"}.get)[1].status == "ok"
    assert check_packages(["numpy>=2.10"], {"numpy": "2.9"}.get)[1].status == "fail"
    assert check_packages(["numpy<3,>=2"], {"numpy": "3.0"}.get)[1].advice == 'pip install "numpy<3,>=2"'
    assert check_packages(["tomli>=2; python_version < '3'"], {}.get)[1].found == ""


def test_processors_beyond_the_quota_are_warned_of() -> None:
    assert check_processors(8, 4, FREE) == Check("processors", "ok", "8 threads usable, 4 physical cores")
    bound = check_processors(8, 4, CgroupLimits(2.5, None))
    assert bound.status == "warn"
    assert "limit 2.5" in bound.found
    assert "taskset -c 0-1" in bound.advice
    assert check_processors(2, 2, CgroupLimits(2.0, None)).status == "ok"


def test_memory_is_bound_by_the_control_group() -> None:
    assert check_memory(64 * GIB, 60 * GIB, FREE).found == "64.00 GiB, 60.00 GiB available"
    assert check_memory(64 * GIB, 60 * GIB, CgroupLimits(None, 8 * GIB)).found.endswith("limit 8.00 GiB")
    assert check_memory(64 * GIB, 60 * GIB, CgroupLimits(None, GIB)).status == "warn"
    assert check_memory(64 * GIB, GIB, FREE).status == "warn"


def test_control_groups_of_version_two(tmp_path: Path) -> None:
    group = tmp_path / "root" / "a" / "b"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("max 100000\n")
    (group.parent / "cpu.max").write_text("250000 100000\n")
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    (group.parent / "memory.max").write_text(f"{8 * GIB}\n")
    membership = tmp_path / "cgroup"
    membership.write_text("0::/a/b\n")
    assert read_cgroup_limits(membership, tmp_path / "root") == CgroupLimits(2.5, 4 * GIB)


def test_control_groups_of_version_one(tmp_path: Path) -> None:
    processors, memory = tmp_path / "cpu" / "job", tmp_path / "memory" / "job"
    for group in (processors, memory, memory.parent):
        group.mkdir(parents=True, exist_ok=True)
    (processors / "cpu.cfs_quota_us").write_text("300000\n")
    (processors / "cpu.cfs_period_us").write_text("100000\n")
    (memory / "memory.limit_in_bytes").write_text(f"{2 * GIB}\n")
    (memory.parent / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    membership = tmp_path / "cgroup"
    membership.write_text("3:cpu,cpuacct:/job\n2:memory:/job\n1:pids:/job\n")
    assert read_cgroup_limits(membership, tmp_path) == CgroupLimits(3.0, 2 * GIB)
    (processors / "cpu.cfs_quota_us").write_text("-1\n")
    (memory / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert read_cgroup_limits(membership, tmp_path) == FREE
    assert read_cgroup_limits(tmp_path / "absent", tmp_path) == FREE


def test_gpus_are_described() -> None:
    assert statuses(check_gpus([], None)) == {"gpu driver": "skip"}
    assert statuses(check_gpus([], (13, 0))) == {"gpu driver": "warn"}
    driver, gpu = check_gpus([H200], (13, 0))
    assert (driver.status, driver.found) == ("ok", "CUDA up to 13.0")
    assert gpu.found == f"NVIDIA H200, 140.00 GiB, compute capability 9.0, {H200.uuid}"
    old = check_gpus([GpuInfo("V100", 16 * GIB, (7, 0), "GPU-3")], (12, 4))[1]
    assert old.status == "fail"


def test_machine_code_is_counted_for_each_kind_of_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cubins, "FOLDER", tmp_path)
    old = GpuInfo("V100", 16 * GIB, (7, 0), "GPU-3")
    assert [check.status for check in check_machine_code([H200, H200, old], (13, 0))] == ["skip", "skip"]
    for text in ("one", "two"):
        (tmp_path / cubins.name_cubin(text, {}, 90, 13, b"code")).write_bytes(b"code")
    found = check_machine_code([H200, old], (13, 0))
    assert [check.status for check in found] == ["skip", "ok"]
    assert found[1].found == "2 modules for compute capability 9.0"
    assert [check.status for check in check_machine_code([H200], (12, 8))] == ["skip"], "an older driver"
    assert check_machine_code([], None) == []


def test_a_hidden_gpu_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is ''" in check_gpus([], (13, 0))[0].advice


def test_the_driver_library_is_asked(tmp_path: Path) -> None:
    build_driver(tmp_path)
    code = (
        "import json; from dataclasses import astuple; from papilio.kernels.device import discovery as d;"
        "print(json.dumps([d.driver_cuda_version(), [astuple(gpu) for gpu in d.list_gpus()]]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=with_driver(tmp_path, CUDA_VISIBLE_DEVICES="0,1"),
        capture_output=True,
        check=True,
        timeout=600,
    ).stdout
    version, gpus = json.loads(output)
    assert version == [13, 1]
    assert gpus == [["Test GPU", FAKE_MEMORY_BYTES, [9, 1], fake_uuid(i)] for i in (0, 1)]


def test_cupy_must_fit_the_driver() -> None:
    def found() -> Toolchain:
        return Toolchain("14.2.0", (13, 2), "13.5", "")

    def silent() -> Toolchain:
        return Toolchain("14.2.0", (13, 2), None, "no libnvrtc\nmore")

    def broken() -> Toolchain:
        raise FileNotFoundError("no directory")

    assert statuses(check_cupy((13, 0), 1, True, found)) == {"cupy": "ok", "nvrtc": "ok"}
    assert statuses(check_cupy(None, 0, True, found)) == {"cupy": "ok", "nvrtc": "ok"}
    older = check_cupy((12, 4), 1, True, found)[0]
    assert (older.status, "papilio[cuda12]" in older.advice) == ("fail", True)
    assert check_cupy((13, 0), 1, True, silent)[1].found == "cannot compile: no libnvrtc"
    unable = check_cupy((13, 0), 1, True, broken)
    assert statuses(unable) == {"cupy": "fail"}
    assert "no directory" in unable[0].found
    assert statuses(check_cupy(None, 0, False)) == {"cupy": "skip"}
    assert "papilio[cuda12]" in check_cupy((12, 4), 1, False)[0].advice


def test_nvrtc_compiles_here_where_cupy_is() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    assert statuses(check_cupy(None, 0)) == {"cupy": "ok", "nvrtc": "ok"}


def test_dask_cuda_is_wanted_only_with_gpus() -> None:
    def broken() -> str | None:
        raise ModuleNotFoundError("cuda.bindings")

    assert check_dask_cuda(0, lambda: None).status == "skip"
    assert check_dask_cuda(1, lambda: None).status == "warn"
    assert check_dask_cuda(1, lambda: "26.4") == Check("dask-cuda", "ok", "26.4")
    assert check_dask_cuda(1, broken).status == "fail"
    assert check_dask_cuda(0, broken).status == "warn"


def test_file_systems_are_found_by_the_longest_mount_point() -> None:
    mounts = [
        ("/", "rootfs"),
        ("/", "ext4"),
        ("/home", "nfs4"),
        ("/home/my dir", "lustre"),
        ("/tmp", "tmpfs"),
    ]
    assert find_filesystem(Path("/usr/lib"), mounts) == "ext4"
    assert find_filesystem(Path("/home/someone/.cupy"), mounts) == "nfs4"
    assert find_filesystem(Path("/home/my dir/x"), mounts) == "lustre"
    assert find_filesystem(Path("/homes"), mounts) == "ext4"
    assert find_filesystem(Path("/x"), []) is None
    assert find_filesystem(Path("/proc/self")) == "proc"


def test_caches_belong_on_the_node(tmp_path: Path) -> None:
    def on(kind: str) -> Check:
        return check_cache("kernel cache", tmp_path / "a" / "b", "CUPY_CACHE_DIR", lambda path: kind)

    assert on("ext4").status == "ok"
    assert {on(kind).status for kind in ("nfs", "nfs4", "lustre", "gpfs", "beegfs")} == {"warn"}
    assert "CUPY_CACHE_DIR" in on("nfs").advice
    (tmp_path / "file").touch()
    assert check_cache("kernel cache", tmp_path / "file" / "x", "CUPY_CACHE_DIR").status == "fail"
    assert not (tmp_path / "a").exists()


def test_writing_is_tried(tmp_path: Path) -> None:
    assert is_writable(tmp_path / "new" / "newer")
    assert list(tmp_path.iterdir()) == []
    assert not is_writable(Path("/proc/papilio"))


def test_the_numba_cache_follows_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert numba_cache_directory() == tmp_path
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert numba_cache_directory().name in ("__pycache__", "numba")


def test_space_optional_packages_and_slurm(tmp_path: Path) -> None:
    assert check_temporary(tmp_path, 10 * GIB).status == "ok"
    assert check_temporary(tmp_path, GIB).status == "warn"
    optional = {check.name: check.status for check in check_optional({"bokeh": "3.9"}.get)}
    assert (optional.pop("bokeh"), set(optional.values())) == ("ok", {"skip"})
    assert check_slurm(lambda name: None).status == "skip"
    assert check_slurm(lambda name: f"/bin/{name}").status == "ok"
    partial = check_slurm(lambda name: None if name == "srun" else name)
    assert (partial.status, partial.found) == ("warn", "srun missing")


def test_a_store_is_opened_and_read(store: Path, tmp_path: Path) -> None:
    check, opened = check_store(str(store))
    assert opened is not None
    assert (check.status, opened.hash in check.found, "format version" in check.found) == ("ok", True, True)
    part = next((store / "edges").iterdir())
    part.write_bytes(b"x" * part.stat().st_size)
    assert check_store(str(store))[0].status == "fail"
    check, opened = check_store(str(tmp_path / "absent"))
    assert (check.status, opened) == ("fail", None)


def facts(*gpus: GpuInfo, **versions: str) -> WorkerFacts:
    return WorkerFacts("node", {"python": "3.11.7", "numpy": "2.4.6", **versions}, gpus)


def test_versions_of_workers_are_compared() -> None:
    assert check_worker_versions(facts(), {"a": facts(), "b": facts()}).status == "ok"
    other = check_worker_versions(facts(), {"a": facts(), "b": facts(numpy="2.0.0", python="3.12.1")})
    assert other.status == "warn"
    assert other.found == "b on node has python 3.12.1, this process 3.11.7 (and 1 more)"


def test_a_gpu_has_one_worker() -> None:
    assert check_worker_gpus({"a": facts(), "b": facts()}).status == "skip"
    assert check_worker_gpus({"a": facts(H200), "b": facts(OTHER)}).status == "ok"
    shared = check_worker_gpus({"a": facts(H200), "b": facts(OTHER), "c": facts(H200)})
    assert (shared.status, shared.found) == ("fail", f"a, c share {H200.uuid}")
    assert check_worker_gpus({"a": facts(H200, OTHER), "b": facts(OTHER, H200)}).status == "ok"
    idle = check_worker_gpus({"a": facts(H200, OTHER)})
    assert (idle.status, idle.found) == (
        "warn",
        "1 of 1 workers use a GPU; 1 of the GPUs they see are nobody's",
    )
    unnamed = GpuInfo("old", GIB, (8, 0), "")
    assert check_worker_gpus({"a": facts(unnamed), "b": facts(unnamed)}).status == "warn"


def test_workers_reach_the_store() -> None:
    assert check_worker_stores("/g", {"a": None, "b": None}).status == "ok"
    check = check_worker_stores("/g", {"a": None, "b": "/g does not exist"})
    assert (check.status, check.found) == ("fail", "1 of 2 workers do not; b: /g does not exist")


def test_a_process_describes_itself_as_json() -> None:
    described = json.loads(json.dumps(describe_as_json()))
    own = read_record(WorkerFacts, described, "", "")
    assert own == describe_process()
    assert own.versions["python"].startswith("3.")
    data = {"host": "h", "versions": {}, "gpus": [{**vars(H200), "capability": [9, 0]}]}
    assert read_record(WorkerFacts, data, "", "").gpus == (H200,)


def test_a_failure_has_the_exit_code_of_its_kind() -> None:
    def error(*names: str) -> object:
        return type(failure_of([Check("a", "ok", ""), *(Check(name, "fail", "") for name in names)]))

    assert failure_of([Check("a", "warn", ""), Check("b", "skip", "")]) is None
    assert error("store", "cluster") is StoreError
    assert error("worker gpus") is ClusterError
    assert error("gpu 3") is EngineUnavailableError
    assert error("packages") is ExecutionError
    failed = failure_of([Check("nvrtc", "fail", ""), Check("a", "ok", ""), Check("store", "fail", "")])
    assert str(failed) == "2 of 3 checks failed: nvrtc, store"


def test_this_machine_passes(store: Path) -> None:
    checks = check_machine()
    assert [check for check in checks if check.status == "fail"] == []
    assert all(check.found for check in checks)
    found = statuses(checks)
    assert found["processors"] in ("ok", "warn")
    assert {"python", "memory", "gpu driver", "cupy", "numba cache", "temporary space", "slurm"} <= set(found)


def test_clusters_are_reached(store: Path) -> None:
    opened = check_store(str(store))[1]
    checks = check_cluster("local", opened, 2)
    assert statuses(checks) == {"cluster": "ok", "worker versions": "ok", "worker store reach": "ok"}
    assert "local: 2 workers on 1 host," in checks[0].found
    assert statuses(check_cluster("inline", opened))["cluster"] == "ok"
    store.joinpath("graph.json").rename(store / "gone")
    moved = check_cluster("local", opened, 1)[-1]
    assert (moved.name, moved.status) == ("worker store reach", "fail")


def test_the_command_reports_and_exits_by_code(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object) -> Result:
        return run_command(capsys, "doctor", *arguments)

    monkeypatch.chdir(tmp_path)
    code, output, errors = run("graph", "--cluster", "inline")
    assert (code, errors) == (0, "")
    assert any(line.startswith("ok    store") for line in output.splitlines())
    code, output, errors = run(tmp_path / "absent", "--json")
    report = json.loads(output)
    assert (code, report["ok"]) == (3, False)
    assert {check["name"]: check["status"] for check in report["checks"]}["store"] == "fail"
    assert "1 of" in errors
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.devnull)
    code, output, errors = run("--cluster", tmp_path / "no.json")
    assert code == 1
    assert "FAIL  numba cache" in output
    assert "-> set NUMBA_CACHE_DIR" in output
    assert "2 of" in errors
