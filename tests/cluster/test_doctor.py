"""The doctor: every check on facts made up for it, and the whole on this machine and a running cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from papilio.cluster import doctor
from papilio.cluster.doctor import (
    Check,
    WorkerFacts,
    check_cluster,
    check_machine,
    check_store,
    check_worker_gpus,
    check_worker_stores,
    check_worker_versions,
    describe_as_json,
    describe_process,
    failure_of,
    numba_cache_directory,
)
from papilio.errors import ClusterError, EngineUnavailableError, ExecutionError, StoreError
from papilio.graph import BipartiteGraph
from papilio.kernels.device import compile as cubins
from papilio.kernels.device.compile import Toolchain
from papilio.kernels.device.discovery import GpuInfo
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


TOOLS = Toolchain("14.2.0", (13, 2), "13.5", "")


@pytest.fixture
def checks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Check]]:
    """Return a function that checks a machine of other facts, by the names of ``doctor``; the lines of some names."""
    monkeypatch.setattr(doctor, "_find_toolchain", lambda: TOOLS)

    def check(*names: str, **facts: Any) -> list[Check]:
        for name, value in facts.items():
            monkeypatch.setattr(doctor, name, value if callable(value) else lambda value=value: value)
        return [check for check in check_machine() if check.name in names]

    return check


Checks = Callable[..., list[Check]]


def test_packages_are_compared_with_the_metadata(checks_of: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(requirements: list[str], versions: dict[str, str]) -> list[Check]:
        monkeypatch.setattr(doctor.metadata, "requires", lambda name: requirements)
        return checks_of("python", "packages", installed_version={"papilio": "1", **versions}.get)

    requirements = ["numpy>=2.0", "dask[array]>=2026.1.1", "bokeh>=3.4; extra == 'dashboard'"]
    installed = {"numpy": "2.4.6", "dask": "2026.1.1"}
    assert statuses(check(requirements, installed)) == {"python": "ok", "packages": "ok"}
    old = check(requirements, {"numpy": "1.26.4", "dask": "2026.8.0"})[1]
    assert (old.status, old.advice) == ("fail", 'pip install "numpy>=2.0"')
    assert "1.26.4" in old.found
    absent = check(requirements, {"numpy": "2.0"})[1]
    assert absent.status == "fail"
    assert "dask is not installed" in absent.found
    assert [each.status for each in check(requirements, {})] == ["ok", "fail", "fail"]
    assert check([], {})[1].status == "warn"
    assert check(["numpy>=2.0"], {"numpy": "2.1.0rc1+cu12"})[1].status == "ok"
    assert check(["numpy>=2.10"], {"numpy": "2.9"})[1].status == "fail"
    assert check(["numpy<3,>=2"], {"numpy": "3.0"})[1].advice == 'pip install "numpy<3,>=2"'
    assert check(["tomli>=2; python_version < '3'"], {})[1].found == ""


def test_processors_beyond_the_quota_are_warned_of(checks_of: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(threads: int, cores: int, limits: CgroupLimits) -> Check:
        monkeypatch.setattr(doctor.psutil, "cpu_count", lambda logical: cores)
        return checks_of("processors", available_threads=threads, read_cgroup_limits=limits)[0]

    assert check(8, 4, FREE) == Check("processors", "ok", "8 threads usable, 4 physical cores")
    bound = check(8, 4, CgroupLimits(2.5, None))
    assert bound.status == "warn"
    assert "limit 2.5" in bound.found
    assert "taskset -c 0-1" in bound.advice
    assert check(2, 2, CgroupLimits(2.0, None)).status == "ok"


def test_memory_is_bound_by_the_control_group(checks_of: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(total: int, available: int, limits: CgroupLimits) -> Check:
        monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: SimpleNamespace(total=total, available=available))
        return checks_of("memory", read_cgroup_limits=limits)[0]

    assert check(64 * GIB, 60 * GIB, FREE) == Check("memory", "ok", "64.00 GiB, 60.00 GiB available")
    assert check(64 * GIB, 60 * GIB, CgroupLimits(None, 8 * GIB)).found.endswith("limit 8.00 GiB")
    little = check(64 * GIB, 60 * GIB, CgroupLimits(None, GIB))
    assert (little.status, little.advice[:23]) == ("warn", "little memory is free: ")
    assert check(64 * GIB, GIB, FREE).status == "warn"


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


def test_gpus_are_described(checks_of: Checks) -> None:
    def check(gpus: list[GpuInfo], version: tuple[int, int] | None) -> list[Check]:
        return checks_of("gpu driver", "gpu 0", "gpu 1", list_gpus=gpus, driver_cuda_version=lambda: version)

    assert statuses(check([], None)) == {"gpu driver": "skip"}
    assert statuses(check([], (13, 0))) == {"gpu driver": "warn"}
    driver, gpu = check([H200], (13, 0))
    assert (driver.status, driver.found) == ("ok", "CUDA up to 13.0")
    assert gpu == Check("gpu 0", "ok", f"NVIDIA H200, 140.00 GiB, compute capability 9.0, {H200.uuid}")
    old = check([H200, GpuInfo("V100", 16 * GIB, (7, 0), "GPU-3")], (12, 4))[2]
    assert (old.status, old.advice) == ("fail", "too old: at least 7.5 is needed; use --engine cpu")


def test_machine_code_is_counted_for_each_kind_of_gpu(
    checks_of: Checks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def check(gpus: list[GpuInfo], version: tuple[int, int] | None) -> list[Check]:
        return checks_of("machine code", list_gpus=gpus, driver_cuda_version=lambda: version)

    monkeypatch.setattr(cubins, "FOLDER", tmp_path)
    old = GpuInfo("V100", 16 * GIB, (7, 0), "GPU-3")
    absent = check([H200, H200, old], (13, 0))
    assert [each.status for each in absent] == ["skip", "skip"]
    assert all("papilio doctor --warm" in each.advice for each in absent)
    for text in ("one", "two"):
        (tmp_path / cubins.name_cubin(text, {}, 90, 13, b"code")).write_bytes(b"code")
    found = check([H200, old], (13, 0))
    assert [each.status for each in found] == ["skip", "ok"]
    assert found[1].found == "2 modules for compute capability 9.0"
    assert [each.status for each in check([H200], (12, 8))] == ["skip"], "an older driver"
    assert check([], None) == []


def test_a_hidden_gpu_is_explained(checks_of: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (driver,) = checks_of("gpu driver", list_gpus=[], driver_cuda_version=lambda: (13, 0))
    assert "CUDA_VISIBLE_DEVICES is ''" in driver.advice
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "nvidia-smi" in checks_of("gpu driver")[0].advice


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


def test_cupy_must_fit_the_driver(checks_of: Checks) -> None:
    def check(version: tuple[int, int] | None, n_gpus: int, tools: object) -> list[Check]:
        return checks_of(
            "cupy", "nvrtc", "kernel cache",
            list_gpus=[H200] * n_gpus, driver_cuda_version=lambda: version, _find_toolchain=lambda: tools,
        )  # fmt: skip

    fits = {"cupy": "ok", "nvrtc": "ok", "kernel cache": "ok"}
    assert statuses(check((13, 0), 1, TOOLS)) == fits
    assert statuses(check(None, 0, TOOLS)) == fits
    older = check((12, 4), 1, TOOLS)[0]
    assert (older.status, "papilio[cuda12]" in older.advice) == ("fail", True)
    silent = check((13, 0), 1, Toolchain("14.2.0", (13, 2), None, "no libnvrtc\nmore"))
    assert (silent[1].status, silent[1].found) == ("fail", "cannot compile: no libnvrtc")
    unable = check((13, 0), 1, FileNotFoundError("no directory"))
    assert statuses(unable) == {"cupy": "fail", "kernel cache": "ok"}
    assert unable[0].found == "cannot be imported: FileNotFoundError: no directory"
    assert "CUPY_CACHE_DIR" in unable[0].advice
    assert check(None, 0, None) == [Check("cupy", "skip", "not installed; the cpu engine needs none")]
    absent = check((12, 4), 1, None)
    assert statuses(absent) == {"cupy": "fail", "kernel cache": "ok"}
    assert "papilio[cuda12]" in absent[0].advice


def test_whatever_an_installation_breaks_with_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Toolchain:
        raise FileNotFoundError("no directory")

    monkeypatch.setattr(doctor, "inspect_toolchain", broken)
    monkeypatch.setattr(doctor, "find_spec", lambda name: name)
    assert isinstance(doctor._find_toolchain(), FileNotFoundError)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert doctor._find_toolchain() is None


def test_nvrtc_compiles_here_where_cupy_is() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    found = statuses(check_machine())
    assert (found["cupy"], found["nvrtc"]) == ("ok", "ok")


def test_dask_cuda_is_wanted_only_with_gpus(checks_of: Checks) -> None:
    def broken() -> str | None:
        raise ModuleNotFoundError("cuda.bindings")

    def check(n_gpus: int, load: Callable[[], str | None]) -> Check:
        return checks_of("dask-cuda", list_gpus=[H200] * n_gpus, _import_dask_cuda=load)[0]

    assert check(0, lambda: None).status == "skip"
    assert check(1, lambda: None).advice.startswith("for --cluster cuda: ")
    assert check(1, lambda: None).status == "warn"
    assert check(1, lambda: "26.4") == Check("dask-cuda", "ok", "26.4")
    assert (check(1, broken).status, check(1, broken).advice[:11]) == ("fail", "pip install")
    assert check(0, broken).status == "warn"


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


def test_caches_belong_on_the_node(checks_of: Checks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on(kind: str, place: Path = tmp_path / "a" / "b") -> Check:
        monkeypatch.setenv("CUPY_CACHE_DIR", str(place))
        return checks_of("kernel cache", find_filesystem=lambda path: kind)[0]

    assert on("ext4") == Check("kernel cache", "ok", f"{tmp_path / 'a' / 'b'} (ext4)")
    assert {on(kind).status for kind in ("nfs", "nfs4", "lustre", "gpfs", "beegfs")} == {"warn"}
    assert "CUPY_CACHE_DIR" in on("nfs").advice
    (tmp_path / "file").touch()
    assert on("ext4", tmp_path / "file" / "x").status == "fail"
    assert not (tmp_path / "a").exists()


def test_writing_is_tried(tmp_path: Path) -> None:
    assert is_writable(tmp_path / "new" / "newer")
    assert list(tmp_path.iterdir()) == []
    assert not is_writable(Path("/proc/papilio"))


def test_the_numba_cache_follows_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert numba_cache_directory() == tmp_path
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert numba_cache_directory().name in ("__pycache__", "papilio")


def test_space_optional_packages_and_slurm(checks_of: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    def space(free: int) -> str:
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
        return checks_of("temporary space")[0].status

    def slurm(which: Callable[[str], str | None]) -> Check:
        monkeypatch.setattr(doctor.shutil, "which", which)
        return checks_of("slurm")[0]

    assert (space(10 * GIB), space(GIB)) == ("ok", "warn")
    found = checks_of(*doctor.OPTIONAL, installed_version={"bokeh": "3.9"}.get)
    assert [check.status for check in found] == ["skip", "ok", *["skip"] * 6]
    assert found[0].advice == "if wanted: pip install 'papilio[slurm]'"
    assert slurm(lambda name: None) == Check("slurm", "skip", "no Slurm commands here")
    assert slurm(lambda name: f"/bin/{name}").found == "sbatch, srun, squeue, scancel, scontrol"
    partial = slurm(lambda name: None if name == "srun" else name)
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
        "1 of 1 workers use a GPU; 1 of the GPUs they see are unused",
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
