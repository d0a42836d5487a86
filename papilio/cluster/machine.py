"""What the operating system grants this process: processors, memory, file systems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

__all__ = [
    "SHARED_FILESYSTEMS",
    "CgroupLimits",
    "Mount",
    "free_memory_bytes",
    "is_writable",
    "mount_of",
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
    """The tightest limits of the control groups that this process is in.

    Attributes
    ----------
    processors : float or None
        Processor seconds per second; None without a limit.
    memory_bytes : int or None
    """

    processors: float | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Attributes
    ----------
    point : str
        Directory where it is mounted.
    kind : str
        Its type, such as ``ext4`` or ``nfs4``.
    """

    point: str
    kind: str

    @property
    def shared(self) -> bool:
        """Whether other machines may see it too."""
        return self.kind in SHARED_FILESYSTEMS


def read_cgroup_limits(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> CgroupLimits:
    """Read the limits of control groups, version 1 or 2; a group is also bound by those above it.

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


def mount_of(path: Path, table: Path = Path("/proc/mounts")) -> Mount | None:
    """Return the file system that a path lies on, whether or not the path exists; None when unknown."""
    resolved = path.resolve()
    best: Mount | None = None
    for line in _lines(table):
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].encode().decode("unicode_escape")
        # Of several file systems at one place the last covers the others.
        if resolved.is_relative_to(point) and (best is None or len(point) >= len(best.point)):
            best = Mount(point, fields[2])
    return best


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
