"""What this machine and a cluster offer, one check per line, each ``ok`` or with what to do.

A check is a pure function of facts that its arguments name, so that tests pass other facts; the defaults are
those of this machine. Nothing here creates a CUDA context in this process.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement

from papilio.errors import ClusterError, EngineUnavailableError, ExecutionError, PapilioError, StoreError
from papilio.extras import how_to_install
from papilio.kernels import __file__ as kernels_file
from papilio.kernels.device.cubins import count_cubins
from papilio.kernels.device.discovery import GpuInfo, driver_cuda_version, list_gpus
from papilio.kernels.device.toolchain import Toolchain, inspect_toolchain, kernel_cache_directory
from papilio.kernels.threads import available_threads
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.machine import (
    SHARED_FILESYSTEMS,
    CgroupLimits,
    find_filesystem,
    is_writable,
    read_cgroup_limits,
)
from papilio.version import __version__
from papilio.wording import show_bytes

Status = Literal["ok", "warn", "fail", "skip"]

MIN_FREE_BYTES = 2 << 30
"""Less free memory or temporary space than this is worth a word."""

MIN_CAPABILITY = (7, 5)
"""The oldest architecture that the CUDA sources are compiled for."""

_SLURM_COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")


@dataclass(frozen=True)
class Check:
    """One line of the report.

    ``warn``: works, but not as well as it could. ``fail``: something that is installed or was asked for does not
    work. ``skip``: absent, and nothing here needs it. ``advice`` says what to do, and is empty when nothing is.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_packages(
    requirements: Iterable[str] | None = None, version_of: Callable[[str], str | None] = installed_version
) -> list[Check]:
    """Compare Python and the required packages with the minima in Papilio's metadata."""
    checks = [Check("python", "ok", f"{platform.python_version()}, papilio {__version__}")]
    if requirements is None:
        requirements = metadata.requires("papilio") if installed_version("papilio") is not None else None
    listed = list(requirements or [])
    if not listed:
        advice = "install it with pip, so that the versions of its packages can be checked"
        return [*checks, Check("packages", "warn", "papilio is not installed as a package", advice)]
    found = []
    for requirement in map(Requirement, listed):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name, specifier = requirement.name, requirement.specifier
        version = version_of(name)
        found.append(f"{name} {version or 'missing'}")
        if version is None or not specifier.contains(version, prereleases=True):
            what = f"{name} is {version or 'not installed'}; {specifier} is needed"
            checks.append(Check("packages", "fail", what, f'pip install "{name}{specifier}"'))
    if len(checks) == 1:
        checks.append(Check("packages", "ok", ", ".join(found)))
    return checks


def check_processors(
    allowed: int | None = None, cores: int | None = None, limits: CgroupLimits | None = None
) -> Check:
    """Compare the processors that this process may use with the time that its control group grants."""
    usable = allowed or available_threads()
    physical = cores or psutil.cpu_count(logical=False) or usable
    quota = (limits or read_cgroup_limits()).processors
    found = f"{usable} threads usable, {physical} physical cores"
    if quota is not None:
        found += f", control group limit {quota:g}"
        if quota < usable:
            least = max(1, int(quota))
            advice = f"the CPU engine starts {usable} threads: run under 'taskset -c 0-{least - 1}', or raise the limit"
            return Check("processors", "warn", found, advice)
    return Check("processors", "ok", found)


def check_memory(
    total_bytes: int | None = None, available_bytes: int | None = None, limits: CgroupLimits | None = None
) -> Check:
    """Report the memory of the machine, what is free of it, and the limit of the control group."""
    memory = psutil.virtual_memory()
    total, available = total_bytes or int(memory.total), available_bytes or int(memory.available)
    limit = (limits or read_cgroup_limits()).memory_bytes
    found = f"{show_bytes(total)}, {show_bytes(available)} available"
    if limit is not None and limit < total:
        found += f", control group limit {show_bytes(limit)}"
        available = min(available, limit)
    if available < MIN_FREE_BYTES:
        return Check("memory", "warn", found, "little is left: end other programs or ask for more memory")
    return Check("memory", "ok", found)


def check_gpus(gpus: Sequence[GpuInfo] | None = None, driver: tuple[int, int] | None = None) -> list[Check]:
    """Report the driver and every GPU that this process sees."""
    if gpus is None:
        gpus, driver = list_gpus(), driver_cuda_version()
    if driver is None:
        return [Check("gpu driver", "skip", "no CUDA driver library; the cpu engine needs none")]
    if not gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        advice = (
            f"CUDA_VISIBLE_DEVICES is {visible!r}: unset it or name GPUs"
            if visible is not None
            else "see nvidia-smi; under Slurm ask for GPUs (--gpus)"
        )
        return [Check("gpu driver", "warn", "a CUDA driver, but no GPU is visible", advice)]
    checks = [Check("gpu driver", "ok", "CUDA up to {}.{}".format(*driver))]
    for index, gpu in enumerate(gpus):
        capability = "{}.{}".format(*gpu.capability)
        found = f"{gpu.name}, {show_bytes(gpu.memory_bytes)}, compute capability {capability}, {gpu.uuid}"
        old = gpu.capability < MIN_CAPABILITY
        advice = f"too old: at least {MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]} is needed; use --engine cpu"
        checks.append(Check(f"gpu {index}", "fail" if old else "ok", found, advice if old else ""))
    return checks


def check_cupy(
    driver: tuple[int, int] | None,
    n_gpus: int,
    installed: bool | None = None,
    inspect: Callable[[], Toolchain] = inspect_toolchain,
) -> list[Check]:
    """Check that CuPy imports, fits the driver and compiles."""
    if not (find_spec("cupy") is not None if installed is None else installed):
        if not n_gpus:
            return [Check("cupy", "skip", "not installed; the cpu engine needs none")]
        extra = "cuda12" if driver is not None and driver[0] < 13 else "cuda13"
        return [Check("cupy", "fail", "not installed, and there is a GPU", f'pip install "papilio[{extra}]"')]
    try:
        tools = inspect()
    except Exception as error:
        # Whatever an installation breaks with is what the report is for.
        what = f"cannot be imported: {type(error).__name__}: {error}"
        return [
            Check("cupy", "fail", what, "set CUPY_CACHE_DIR to a writable directory, or install it again")
        ]
    found = f"{tools.cupy} for CUDA {tools.cuda[0]}.{tools.cuda[1]}"
    if driver is not None and driver[0] < tools.cuda[0]:
        what = f"{found}; the driver runs CUDA up to {driver[0]}.{driver[1]}"
        advice = f'remove cupy-cuda{tools.cuda[0]}x and pip install "papilio[cuda{driver[0]}]", or update the driver'
        checks = [Check("cupy", "fail", what, advice)]
    else:
        checks = [Check("cupy", "ok", found)]
    if tools.nvrtc is None:
        first = (
            tools.nvrtc_problem.strip().splitlines()[0] if tools.nvrtc_problem.strip() else "no reason given"
        )
        advice = f'pip install "cupy-cuda{tools.cuda[0]}x[ctk]", or load a module with the CUDA toolkit'
        checks.append(Check("nvrtc", "fail", f"cannot compile: {first}", advice))
    else:
        checks.append(Check("nvrtc", "ok", f"{tools.nvrtc} compiles"))
    return checks


def check_machine_code(gpus: Sequence[GpuInfo], driver: tuple[int, int] | None) -> list[Check]:
    """Say for which GPUs the package brings machine code, and where kernels are compiled at their first run."""
    checks = []
    for capability in sorted({gpu.capability for gpu in gpus}):
        n, title = count_cubins("{}{}".format(*capability), (driver or (0,))[0]), "{}.{}".format(*capability)
        found = f"{n} modules for compute capability {title}" if n else f"none for compute capability {title}"
        advice = "" if n else "kernels are compiled at their first run; papilio doctor --warm does it ahead"
        checks.append(Check("machine code", "ok" if n else "skip", found, advice))
    return checks


def check_dask_cuda(n_gpus: int, load: Callable[[], str | None] | None = None) -> Check:
    """Check that dask-cuda imports; it is needed for one worker per GPU."""
    try:
        version = (load or _import_dask_cuda)()
    except Exception as error:
        what = f"cannot be imported: {type(error).__name__}: {error}"
        return Check(
            "dask-cuda", "fail" if n_gpus else "warn", what, 'pip install "dask-cuda[cu13]" (or cu12)'
        )
    if version is None:
        if n_gpus:
            advice = f"for --cluster cuda: {how_to_install('dask_cuda')}"
            return Check("dask-cuda", "warn", "not installed, and there is a GPU", advice)
        return Check("dask-cuda", "skip", "not installed; needed only for GPUs")
    return Check("dask-cuda", "ok", version)


def _import_dask_cuda() -> str | None:
    if find_spec("dask_cuda") is None:
        return None
    import dask_cuda

    return str(dask_cuda.__version__)


def check_cache(
    name: str, path: Path, variable: str, find_kind: Callable[[Path], str | None] = find_filesystem
) -> Check:
    """Check that a cache of compiled code can be written to and is not shared between machines."""
    if not is_writable(path):
        return Check(name, "fail", f"{path} cannot be written to", f"set {variable} to a writable directory")
    kind = find_kind(path)
    found = f"{path} ({kind or 'file system unknown'})"
    if kind in SHARED_FILESYSTEMS:
        advice = (
            f"machines that compile at the same time may spoil it: set {variable} to a node-local directory"
        )
        return Check(name, "warn", found, advice)
    return Check(name, "ok", found)


def numba_cache_directory() -> Path:
    """Return where Numba keeps the CPU kernels: ``NUMBA_CACHE_DIR``, beside them, or the user's cache."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    beside = Path(kernels_file).parent / "__pycache__"
    return beside if is_writable(beside) else Path.home() / ".cache" / "numba"


def check_temporary(path: Path | None = None, free_bytes: int | None = None) -> Check:
    """Check the space for temporary files."""
    where = path or Path(tempfile.gettempdir())
    free = shutil.disk_usage(where).free if free_bytes is None else free_bytes
    found = f"{where}, {show_bytes(free)} free"
    if free < MIN_FREE_BYTES:
        return Check("temporary space", "warn", found, "free some, or set TMPDIR to a larger file system")
    return Check("temporary space", "ok", found)


def check_optional(version_of: Callable[[str], str | None] = installed_version) -> list[Check]:
    """Report the optional packages."""
    wanted = (
        ("dask-jobqueue", "Slurm clusters"),
        ("bokeh", "Dask's dashboard"),
        ("matplotlib", "figures of reports"),
        ("pandas", "data frames of pandas"),
        ("polars", "data frames of polars"),
        ("networkx", "graphs of NetworkX"),
        ("scipy", "sparse arrays"),
        ("aiohttp", "edge lists at https addresses"),
        ("pymetis", "the strategy metis of partitions"),
    )
    return [
        Check(name, "ok", version)
        if (version := version_of(name)) is not None
        else Check(
            name, "skip", f"not installed; for {use}", f"if wanted: {how_to_install(name.replace('-', '_'))}"
        )
        for name, use in wanted
    ]


def check_slurm(which: Callable[[str], str | None] = shutil.which) -> Check:
    """Look for the commands of Slurm."""
    present = [name for name in _SLURM_COMMANDS if which(name) is not None]
    missing = [name for name in _SLURM_COMMANDS if name not in present]
    if not present:
        return Check("slurm", "skip", "no Slurm commands here")
    if missing:
        return Check("slurm", "warn", f"{', '.join(missing)} missing", "load the Slurm module, or mend PATH")
    return Check("slurm", "ok", f"{', '.join(present)}")


def check_machine() -> list[Check]:
    """Run all checks of this machine."""
    gpus, driver = list_gpus(), driver_cuda_version()
    toolchain = check_cupy(driver, len(gpus))
    caches = [check_cache("numba cache", numba_cache_directory(), "NUMBA_CACHE_DIR")]
    if toolchain[0].status != "skip":
        caches.append(check_cache("kernel cache", kernel_cache_directory(), "CUPY_CACHE_DIR"))
    return [
        *check_packages(),
        check_processors(),
        check_memory(),
        *check_gpus(gpus, driver),
        *toolchain,
        *check_machine_code(gpus, driver),
        check_dask_cuda(len(gpus)),
        *caches,
        check_temporary(),
        *check_optional(),
        check_slurm(),
    ]


def check_store(path: str) -> tuple[Check, GraphStore | None]:
    """Open a graph store and read its first edges."""
    try:
        store = open_store(path)
        next(store.batches(), None)
    except StoreError as error:
        return Check(
            "store", "fail", str(error), "see docs/formats.md; 'papilio convert' writes a store"
        ), None
    manifest = store.manifest
    found = (
        f"{path}: {store.kind}, {store.n_u:,} x {store.n_v:,} vertices, {store.n_edges:,} edges, "
        f"format version {manifest.format_version}, hash {store.hash}"
    )
    return Check("store", "ok", found), store


_ERRORS: Mapping[str, type[PapilioError]] = {
    "store": StoreError,
    "cluster": ClusterError,
    "worker": ClusterError,
    "gpu": EngineUnavailableError,
    "cupy": EngineUnavailableError,
    "nvrtc": EngineUnavailableError,
    "dask-cuda": EngineUnavailableError,
    "kernel": EngineUnavailableError,
}
"""Error of a failed check, by the first word of its name."""


def failure_of(checks: Sequence[Check]) -> PapilioError | None:
    """Return the error that stands for the first failed check, with the names of all, or None."""
    failed = [check.name for check in checks if check.status == "fail"]
    if not failed:
        return None
    kind = _ERRORS.get(failed[0].split()[0], ExecutionError)
    names = ", ".join(dict.fromkeys(failed))
    return kind(f"{len(failed)} of {len(checks)} checks failed: {names}")
