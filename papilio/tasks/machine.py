"""The resources of this process, as the operating system grants them: processors, memory, file systems.

Describes a process that runs tasks: cores, memory, GPU, version of Papilio.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar

import psutil

from papilio.kernels.device.discovery import list_gpus, missing_for_gpu
from papilio.storage.records import read_record
from papilio.version import __version__

SHARED_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs",
     "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)  # fmt: skip
"""Types of file systems that several machines may share."""

_UNLIMITED_BYTES = 2**60
"""cgroup version 1 writes "no limit" as a number beyond any memory."""


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits of the control groups that this process is in; None without a limit."""

    processors: float | None  # processor seconds per second
    memory_bytes: int | None


def read_cgroup_limits(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> CgroupLimits:
    """Read the limits of control groups, version 1 or 2; a group is also bound by those above it.

    ``dask.system`` and ``distributed.system`` look at one group only, and round the processors up. ``membership`` has
    one line ``id:controllers:path`` per hierarchy; the hierarchies are mounted under ``root``.
    """
    processors: list[float] = []
    memory: list[int] = []
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        # Version 2 has one hierarchy without a name; of version 1 each is mounted by the names of its controllers.
        for hierarchy in {controllers, *controllers.split(",")}:
            for group in _with_parents(root / hierarchy, path):
                processors += _read_quota(group)
                memory += _read_limit(group)
    return CgroupLimits(min(processors, default=None), min(memory, default=None))


def free_memory_bytes() -> int:
    """Return the host memory that this process may still take."""
    free = int(psutil.virtual_memory().available)
    limit = read_cgroup_limits().memory_bytes
    return free if limit is None else min(free, max(0, limit - psutil.Process().memory_info().rss))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _with_parents(root: Path, path: str) -> list[Path]:
    """Return the group and all above it; a container sees its own group as the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _read_quota(group: Path) -> list[float]:
    """Return the processor seconds per second of a group, unless there is no quota."""
    names = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    fields = [field for name in names for field in _text(group / name).split()]
    return [int(fields[0]) / int(fields[1])] if len(fields) == 2 and fields[0] not in ("max", "-1") else []


def _read_limit(group: Path) -> list[int]:
    text = _text(group / "memory.max") or _text(group / "memory.limit_in_bytes")
    return [int(text)] if text.strip() not in ("", "max") and int(text) < _UNLIMITED_BYTES else []


def find_filesystem(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str | None:
    """Return the type of the file system of a path, such as ``nfs4``, even for a missing path; None if unknown.

    ``mounts`` holds directory and type of every mounted file system, by default the mounts of this machine.
    """
    resolved = path.resolve()
    if mounts is None:
        mounts = ((each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True))
    # If several file systems are mounted at one place, the last covers the others.
    found = [
        (len(point), number, kind) for number, (point, kind) in enumerate(mounts) if resolved.is_relative_to(point)
    ]
    return max(found)[2] if found else None


def is_writable(path: Path) -> bool:
    """Return whether the directory can be written, or created if missing; by trying."""
    nearest = path.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with TemporaryFile(dir=nearest):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class WorkerInfo:
    """One worker, as it describes itself."""

    may_grow: ClassVar[bool] = True

    name: str  # address on a cluster, ``inline`` in this process
    host: str
    pid: int
    version: str  # version of Papilio
    threads: int  # threads that the CPU engine may use
    memory_bytes: int  # host memory that the worker may use
    gpu: str | None  # name of the first visible GPU
    gpu_memory_bytes: int  # total memory of that GPU; 0 without one
    gpu_missing: str | None  # why the gpu engine cannot run there; None when it can
    # identity of that GPU, or of its slice; empty without one, or if the driver reports none
    gpu_uuid: str = ""

    @property
    def can_gpu(self) -> bool:
        return self.gpu_missing is None


def read_worker(described: dict[str, Any]) -> WorkerInfo:
    """Rebuild the description of a worker of perhaps another version; errors as :func:`read_record`."""
    return read_record(WorkerInfo, described, "a worker", "install the same version of papilio there")


@cache
def _find_limit() -> int | None:
    """Return the memory limit of this process; read once, since it takes longer than a small count."""
    return read_cgroup_limits().memory_bytes


def describe_worker(name: str, threads: int | None = None, memory_bytes: int | None = None) -> WorkerInfo:
    """Describe this process; ``threads`` and ``memory_bytes`` are its limits, if any."""
    gpus = list_gpus()
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    machine_bytes = int(psutil.virtual_memory().total)
    machine_bytes = min(machine_bytes, _find_limit() or machine_bytes)
    return WorkerInfo(
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        threads=threads or available,
        memory_bytes=min(memory_bytes or machine_bytes, machine_bytes),
        gpu=gpus[0].name if gpus else None,
        gpu_memory_bytes=gpus[0].memory_bytes if gpus else 0,
        gpu_missing=missing_for_gpu(),
        gpu_uuid=gpus[0].uuid if gpus else "",
    )
