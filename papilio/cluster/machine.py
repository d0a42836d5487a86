"""What the operating system grants this process: processors, memory, file systems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

__all__ = [
    "SHARED_FILESYSTEMS",
    "CgroupLimits",
    "find_filesystem",
    "free_memory_bytes",
    "is_writable",
    "read_cgroup_limits",
]

SHARED_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs",
     "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)  # fmt: skip
"""Types of file systems that several machines may see."""

_UNLIMITED_BYTES = 2**60
"""cgroup version 1 writes "no limit" as a number beyond any memory."""


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits of the control groups that this process is in; None without a limit."""

    # Processor seconds per second.
    processors: float | None
    memory_bytes: int | None


def read_cgroup_limits(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> CgroupLimits:
    """Read the limits of control groups, version 1 or 2; a group is also bound by those above it.

    ``dask.system`` and ``distributed.system`` look at one group only, and round the processors up.

    Parameters
    ----------
    membership : Path
        File with one line ``id:controllers:path`` per hierarchy.
    root : Path
        Where the hierarchies are mounted.
    """
    processors: list[float] = []
    memory: list[int] = []
    for line in _lines(membership):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        names = controllers.split(",")
        if not controllers:
            for group in _with_parents(root, path):
                processors += _quota(_lines(group / "cpu.max"))
                memory += _limit(_lines(group / "memory.max"))
        if "cpu" in names:
            for group in _with_parents(_hierarchy(root, controllers, "cpu"), path):
                period = _lines(group / "cpu.cfs_period_us")
                quota = _lines(group / "cpu.cfs_quota_us")
                processors += _quota([f"{q} {p}" for q, p in zip(quota, period, strict=False)])
        if "memory" in names:
            for group in _with_parents(_hierarchy(root, controllers, "memory"), path):
                memory += _limit(_lines(group / "memory.limit_in_bytes"))
    return CgroupLimits(min(processors, default=None), min(memory, default=None))


def free_memory_bytes() -> int:
    """Return the host memory that this process may still take."""
    free = int(psutil.virtual_memory().available)
    limit = read_cgroup_limits().memory_bytes
    return free if limit is None else min(free, max(0, limit - psutil.Process().memory_info().rss))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split("\n")[:-1]
    except OSError:
        return []


def _hierarchy(root: Path, controllers: str, name: str) -> Path:
    return root / controllers if (root / controllers).is_dir() else root / name


def _with_parents(root: Path, path: str) -> list[Path]:
    """Return the group and all above it; a container sees its own group as the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _quota(lines: list[str]) -> list[float]:
    """Return ``quota / period`` of a line that holds both, unless there is no quota."""
    fields = lines[0].split() if lines else []
    if len(fields) != 2 or fields[0] in ("max", "-1"):
        return []
    return [int(fields[0]) / int(fields[1])]


def _limit(lines: list[str]) -> list[int]:
    if not lines or lines[0] == "max" or int(lines[0]) >= _UNLIMITED_BYTES:
        return []
    return [int(lines[0])]


def find_filesystem(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str | None:
    """Return the type of the file system of a path, whether or not the path exists; None when unknown.

    Parameters
    ----------
    mounts : iterable of (str, str)
        Directory and type, such as ``ext4`` or ``nfs4``, of every mounted file system; by default of this machine.
    """
    resolved = path.resolve()
    if mounts is None:
        mounts = ((each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True))
    # Of several file systems at one place the last covers the others.
    found = [
        (len(point), number, kind)
        for number, (point, kind) in enumerate(mounts)
        if resolved.is_relative_to(point)
    ]
    return max(found)[2] if found else None


def is_writable(path: Path) -> bool:
    """Whether the directory can be written to, or be created where it does not exist; by trying."""
    nearest = path.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with TemporaryFile(dir=nearest):
            return True
    except OSError:
        return False
