"""`papilio doctor`: check a machine and a cluster before a run, one line per check, each ``ok`` or with advice.

The checks of a machine are one table of name, probe and advice. Nothing here creates a CUDA context in this process.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psutil
from packaging.requirements import Requirement

from papilio.arguments import plural, show_bytes
from papilio.cluster.executor import ONE_WORKER_PER_GPU, find_shared_gpu
from papilio.errors import ClusterError, EngineUnavailableError, ExecutionError, PapilioError, StoreError
from papilio.extras import how_to_install
from papilio.kernels.code_files import count_packaged, list_folders
from papilio.kernels.device.compile import Toolchain, count_cubins, inspect_toolchain, kernel_cache_directory
from papilio.kernels.device.discovery import GpuInfo, driver_cuda_version, list_gpus
from papilio.kernels.threads import available_threads
from papilio.settings import VISIBLE_DEVICES
from papilio.storage.records import read_record, write_record
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.machine import (
    SHARED_FILESYSTEMS,
    find_filesystem,
    is_writable,
    read_cgroup_limits,
)
from papilio.version import __version__

if TYPE_CHECKING:
    from papilio.cluster.executor import Executor

Status = Literal["ok", "warn", "fail", "skip"]
Version = tuple[int, int]
"""Major and minor, of CUDA or of a compute capability."""

MIN_FREE_BYTES = 2 << 30
"""Free memory or temporary space below this is warned about."""

MIN_CAPABILITY = (7, 5)
"""The oldest architecture that the CUDA sources are compiled for."""

_TOO_OLD = f"too old: at least {MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]} is needed; use --engine cpu"

OPTIONAL = {
    "dask-jobqueue": "Slurm clusters",
    "bokeh": "Dask's dashboard",
    "matplotlib": "figures of reports",
    "pandas": "data frames of pandas",
    "polars": "data frames of polars",
    "networkx": "graphs of NetworkX",
    "scipy": "sparse arrays",
    "aiohttp": "edge lists at https addresses",
}
"""Optional packages, and their use."""

_SLURM_COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
_COMPARED = ("numpy", "numba", "dask", "distributed", "pyarrow")


@dataclass(frozen=True)
class Check:
    """One line of the report.

    ``warn``: works, but not as well as it could. ``fail``: something installed or requested does not work. ``skip``:
    absent, and not needed here. ``advice`` names a remedy, and is empty without a problem.
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


Outcome = tuple[Status, str] | tuple[Status, str, str]
"""Status and finding; the third is advice in place of the table's."""


def check_machine() -> list[Check]:
    """Run all checks of this machine."""
    gpus, driver, tools = list_gpus(), driver_cuda_version(), _find_toolchain()
    capabilities = sorted({gpu.capability for gpu in gpus})
    wants_cupy = tools is not None or len(gpus) > 0
    kernel_cache = _probe_cache(kernel_cache_directory(), "CUPY_CACHE_DIR") if wants_cupy else None
    # Name, outcome of the probe, and advice for a problem; no line without an outcome.
    table: list[tuple[str, Outcome | None, str]] = [
        ("python", ("ok", f"{platform.python_version()}, papilio {__version__}"), ""),
        *(("packages", outcome, "") for outcome in _probe_packages()),
        ("processors", _probe_processors(), ""),
        ("memory", _probe_memory(), "little memory is free: end other programs or request more memory"),
        ("gpu driver", _probe_driver(gpus, driver), "see nvidia-smi; under Slurm request GPUs (--gpus)"),
        *((f"gpu {index}", _probe_gpu(gpu), _TOO_OLD) for index, gpu in enumerate(gpus)),
        ("cupy", _probe_cupy(tools, driver, gpus), "set CUPY_CACHE_DIR to a writable directory, or install it again"),
        ("nvrtc", _probe_nvrtc(tools), ""),
        *(("machine code", _probe_machine_code(capability, driver), "") for capability in capabilities),
        ("dask-cuda", _probe_dask_cuda(gpus), 'pip install "dask-cuda[cu13]" (or cu12)'),
        ("cpu code", _probe_cpu_code(), ""),
        ("numba cache", _probe_cache(numba_cache_directory(), "NUMBA_CACHE_DIR"), ""),
        ("kernel cache", kernel_cache, ""),
        ("temporary space", _probe_temporary(), "free some space, or set TMPDIR to a larger file system"),
        *((name, _probe_optional(name, use), "") for name, use in OPTIONAL.items()),
        ("slurm", _probe_slurm(), "load the Slurm module, or correct PATH"),
    ]  # fmt: skip
    checks = []
    for name, outcome, advice in table:
        if outcome is not None:
            status, found, *own = outcome
            checks.append(Check(name, status, found, *own or [advice if status in ("warn", "fail") else ""]))
    return checks


def _probe_packages() -> list[Outcome]:
    """Compare the required packages with the minima in Papilio's metadata; every misfit is a line."""
    requirements = metadata.requires("papilio") if installed_version("papilio") is not None else None
    if not requirements:
        advice = "install it with pip, so that the versions of its packages can be checked"
        return [("warn", "papilio is not installed as a package", advice)]
    found, misfits = [], list[Outcome]()
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name, specifier = requirement.name, requirement.specifier
        version = installed_version(name)
        found.append(f"{name} {version or 'missing'}")
        if version is None or not specifier.contains(version, prereleases=True):
            what = f"{name} is {version or 'not installed'}; {specifier} is needed"
            misfits.append(("fail", what, f'pip install "{name}{specifier}"'))
    return misfits or [("ok", ", ".join(found))]


def _probe_processors() -> Outcome:
    usable, quota = available_threads(), read_cgroup_limits().processors
    found = f"{usable} threads usable, {psutil.cpu_count(logical=False) or usable} physical cores"
    if quota is None:
        return "ok", found
    found += f", control group limit {quota:g}"
    last = max(1, int(quota)) - 1
    advice = f"the CPU engine starts {usable} threads: run under 'taskset -c 0-{last}', or raise the limit"
    return ("warn", found, advice) if quota < usable else ("ok", found)


def _probe_memory() -> Outcome:
    memory, limit = psutil.virtual_memory(), read_cgroup_limits().memory_bytes
    total, free = int(memory.total), int(memory.available)
    found = f"{show_bytes(total)}, {show_bytes(free)} available"
    if limit is not None and limit < total:
        found += f", control group limit {show_bytes(limit)}"
        free = min(free, limit)
    return "warn" if free < MIN_FREE_BYTES else "ok", found


def _probe_driver(gpus: Sequence[GpuInfo], driver: Version | None) -> Outcome:
    if driver is None:
        return "skip", "no CUDA driver library; the cpu engine needs none"
    if gpus:
        return "ok", "CUDA up to {}.{}".format(*driver)
    found, visible = "a CUDA driver, but no GPU is visible", VISIBLE_DEVICES.value
    if visible is None:
        return "warn", found
    return "warn", found, f"CUDA_VISIBLE_DEVICES is {visible!r}: unset it or name GPUs"


def _probe_gpu(gpu: GpuInfo) -> Outcome:
    capability = "{}.{}".format(*gpu.capability)
    found = f"{gpu.name}, {show_bytes(gpu.memory_bytes)}, compute capability {capability}, {gpu.uuid}"
    return "fail" if gpu.capability < MIN_CAPABILITY else "ok", found


def _find_toolchain() -> Toolchain | Exception | None:
    """Return CuPy, the error of importing it, or None if it is not installed."""
    try:
        return None if find_spec("cupy") is None else inspect_toolchain()
    except Exception as error:
        return error


def _probe_cupy(tools: Toolchain | Exception | None, driver: Version | None, gpus: Sequence[GpuInfo]) -> Outcome:
    if tools is None:
        if not gpus:
            return "skip", "not installed; the cpu engine needs none"
        extra = "cuda12" if driver is not None and driver[0] < 13 else "cuda13"
        return "fail", "not installed, although there is a GPU", f'pip install "papilio[{extra}]"'
    if isinstance(tools, Exception):
        return "fail", f"cannot be imported: {type(tools).__name__}: {tools}"
    found = f"{tools.cupy} for CUDA {tools.cuda[0]}.{tools.cuda[1]}"
    if driver is None or driver[0] >= tools.cuda[0]:
        return "ok", found
    advice = f'remove cupy-cuda{tools.cuda[0]}x and pip install "papilio[cuda{driver[0]}]", or update the driver'
    return "fail", f"{found}; the driver runs CUDA up to {driver[0]}.{driver[1]}", advice


def _probe_nvrtc(tools: Toolchain | Exception | None) -> Outcome | None:
    if not isinstance(tools, Toolchain):
        return None
    if tools.nvrtc is not None:
        return "ok", f"{tools.nvrtc} compiles"
    first = next(iter(tools.nvrtc_problem.strip().splitlines()), "no reason given")
    advice = f'pip install "cupy-cuda{tools.cuda[0]}x[ctk]", or load a module with the CUDA toolkit'
    return "fail", f"cannot compile: {first}", advice


def _probe_machine_code(capability: Version, driver: Version | None) -> Outcome:
    number, title = "{}{}".format(*capability), "{}.{}".format(*capability)
    n_modules = count_cubins(number, (driver or (0,))[0])
    if n_modules:
        return "ok", f"{n_modules} modules for compute capability {title}"
    advice = "kernels are compiled at their first run; papilio doctor --warm compiles them now"
    return "skip", f"none for compute capability {title}", advice


def _import_dask_cuda() -> str | None:
    if find_spec("dask_cuda") is None:
        return None
    import dask_cuda

    return str(dask_cuda.__version__)


def _probe_dask_cuda(gpus: Sequence[GpuInfo]) -> Outcome:
    try:
        version = _import_dask_cuda()
    except Exception as error:
        return "fail" if gpus else "warn", f"cannot be imported: {type(error).__name__}: {error}"
    if version is not None:
        return "ok", version
    if not gpus:
        return "skip", "not installed; needed only for GPUs"
    return (
        "warn",
        "not installed, although there is a GPU",
        f"for --cluster cuda: {how_to_install('dask_cuda')}",
    )


def _probe_cache(path: Path, variable: str) -> Outcome:
    """Check that a cache of compiled code is writable, and not shared between machines."""
    if not is_writable(path):
        return "fail", f"{path} cannot be written to", f"set {variable} to a writable directory"
    kind = find_filesystem(path)
    found = f"{path} ({kind or 'file system unknown'})"
    advice = f"machines that compile at the same time may corrupt it: set {variable} to a node-local directory"
    return ("warn", found, advice) if kind in SHARED_FILESYSTEMS else ("ok", found)


def numba_cache_directory() -> Path:
    """Return where CPU kernels compiled here are kept: ``NUMBA_CACHE_DIR``, next to them, or the user's cache."""
    *first, last = list_folders()
    return next((folder for folder in first if is_writable(folder)), last)


def _probe_cpu_code() -> Outcome:
    found = count_packaged()
    if found is not None:
        return "ok", "{1} functions for {0} processors".format(*found)
    advice = "kernels are compiled at their first run; papilio doctor --warm compiles them now"
    return "skip", "none for this processor", advice


def _probe_temporary() -> Outcome:
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    return "warn" if free < MIN_FREE_BYTES else "ok", f"{place}, {show_bytes(free)} free"


def _probe_optional(name: str, use: str) -> Outcome:
    version = installed_version(name)
    if version is not None:
        return "ok", version
    return "skip", f"not installed; for {use}", f"if wanted: {how_to_install(name.replace('-', '_'))}"


def _probe_slurm() -> Outcome:
    missing = [name for name in _SLURM_COMMANDS if shutil.which(name) is None]
    if len(missing) == len(_SLURM_COMMANDS):
        return "skip", "no Slurm commands here"
    return ("warn", f"{', '.join(missing)} missing") if missing else ("ok", ", ".join(_SLURM_COMMANDS))


def check_store(path: str, open_graph: Callable[[str], GraphStore] = open_store) -> tuple[Check, GraphStore | None]:
    """Open the graph at a path and read its first edges."""
    try:
        store = open_graph(path)
        next(store.batches(), None)
    except PapilioError as error:
        advice = "see docs/formats.md; 'papilio convert' writes a store"
        return Check("store", "fail", str(error), advice), None
    found = (
        f"{path}: {store.kind}, {store.n_u:,} x {store.n_v:,} vertices, {store.n_edges:,} edges, "
        f"format version {store.manifest.format_version}, hash {store.hash}"
    )
    return Check("store", "ok", found), store


@dataclass(frozen=True)
class WorkerFacts:
    """One process that runs tasks."""

    host: str
    versions: Mapping[str, str]  # of Python, Papilio and the packages that must be alike on both ends
    gpus: tuple[GpuInfo, ...]  # visible GPUs; the first one is used


def describe_process() -> WorkerFacts:
    """Describe the process that this runs in; creates no CUDA context."""
    versions = {"python": platform.python_version(), "papilio": __version__}
    versions |= {name: version for name in _COMPARED if (version := installed_version(name)) is not None}
    return WorkerFacts(platform.node(), versions, list_gpus())


def describe_as_json() -> dict[str, Any]:
    """Describe the worker process that this runs in, as JSON, so that versions may differ."""
    return write_record(describe_process())


def check_worker_versions(own: WorkerFacts, workers: Mapping[str, WorkerFacts]) -> Check:
    """Compare the versions of the workers with the versions here."""
    differing = [
        f"{address} on {facts.host} has {name} {facts.versions.get(name, 'missing')}, this process {version}"
        for address, facts in workers.items()
        for name, version in own.versions.items()
        if facts.versions.get(name) != version
    ]
    if not differing:
        return Check("worker versions", "ok", f"the same on all {len(workers)}, and here")
    more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
    return Check("worker versions", "warn", differing[0] + more, "install the same versions on both")


def check_worker_gpus(workers: Mapping[str, WorkerFacts]) -> Check:
    """Check that no two workers use one GPU, by its UUID."""
    first = {address: facts.gpus[0].uuid for address, facts in workers.items() if facts.gpus}
    if not first:
        return Check("worker gpus", "skip", "no worker sees a GPU; the cpu engine needs none")
    found = f"{len(first)} of {len(workers)} workers use a GPU"
    shared = find_shared_gpu((uuid, address) for address, uuid in first.items())
    if shared is not None:
        uuid, addresses = shared
        return Check("worker gpus", "fail", f"{', '.join(addresses)} share {uuid}", ONE_WORKER_PER_GPU)
    if list(first.values()).count("") > 1:
        what = f"{found}; the driver names no UUID, so sharing cannot be excluded"
        return Check("worker gpus", "warn", what, "update the driver")
    # dask-cuda lets every worker see all GPUs, each with another one first.
    idle = {gpu.uuid for facts in workers.values() for gpu in facts.gpus} - set(first.values()) - {""}
    if idle:
        advice = "a worker uses its first GPU only: start one worker per GPU with 'dask cuda worker'"
        return Check("worker gpus", "warn", f"{found}; {len(idle)} of the GPUs they see are unused", advice)
    return Check("worker gpus", "ok", f"{found}, each its own")


def check_worker_stores(path: str, problems: Mapping[str, str | None]) -> Check:
    """Check that all workers read the store; ``problems`` holds None for a worker that does."""
    failing = {address: problem for address, problem in problems.items() if problem is not None}
    if not failing:
        return Check("worker store reach", "ok", f"all {len(problems)} workers read {path}")
    address, problem = next(iter(failing.items()))
    what = f"{len(failing)} of {len(problems)} workers do not; {address}: {problem}"
    advice = "put the store where every worker can read it at the same path"
    return Check("worker store reach", "fail", what, advice)


def check_cluster(cluster: str, store: GraphStore | None = None, n_workers: int | None = None) -> list[Check]:
    """Start or reach a cluster, with ``n_workers`` workers, and check that all of them are fit and read the store."""
    from papilio.cluster.selection import make_executor

    try:
        with make_executor(cluster, "auto", n_workers) as executor:
            return _check_started(executor, store)
    except PapilioError as error:
        return [Check("cluster", "fail", str(error), "see docs/cli.md for the values of --cluster")]


def _check_started(executor: Executor, store: GraphStore | None) -> list[Check]:
    from papilio.cluster.on_worker import find_store_problem
    from papilio.cluster.pool import DaskPool

    workers, own = executor.workers, describe_process()
    hosts = len({worker.host for worker in workers})
    summary = (
        f"{executor.name}: {plural(len(workers), 'worker')} on {plural(hosts, 'host')}, "
        f"{sum(worker.threads for worker in workers)} threads"
    )
    checks = [Check("cluster", "ok", summary)]
    if not isinstance(executor, DaskPool):
        return [*checks, check_worker_gpus({workers[0].name: own})]
    answers: dict[str, Any] = executor.client.run(describe_as_json, on_error="return")
    facts = {}
    for address, answer in answers.items():
        if isinstance(answer, BaseException):
            what = f"{address} cannot be examined: {type(answer).__name__}: {answer}"
            advice = "see that worker's log; install the same papilio there"
            checks.append(Check("worker", "fail", what, advice))
        else:
            facts[address] = read_record(WorkerFacts, answer, address, "install the same papilio there")
    checks.append(check_worker_versions(own, facts))
    if executor.gpu_refusal is None:
        checks.append(check_worker_gpus(facts))
    if store is not None:
        path = store.path if "://" in store.path else os.path.abspath(store.path)
        found = executor.client.run(find_store_problem, path, store.hash, on_error="return")
        problems = {name: None if problem is None else str(problem) for name, problem in found.items()}
        checks.append(check_worker_stores(path, problems))
    return checks


_ERRORS: Mapping[str, type[PapilioError]] = {
    "store": StoreError,
    **dict.fromkeys(("cluster", "worker"), ClusterError),
    **dict.fromkeys(("gpu", "cupy", "nvrtc", "dask-cuda", "kernel"), EngineUnavailableError),
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
