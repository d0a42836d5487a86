"""What a process that runs tasks has: cores, memory, GPU, version of Papilio."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, ClassVar

import psutil

from papilio.kernels.device.discovery import list_gpus, missing_for_gpu
from papilio.storage.records import read_record
from papilio.tasks.machine import read_cgroup_limits
from papilio.version import __version__


@dataclass(frozen=True)
class Seat:
    """Where a task runs and what it may use there."""

    worker: str  # name of the worker
    threads: int  # threads that the CPU engine may use
    memory_bytes: int  # host memory that the worker may use


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
    gpu: str | None  # name of the first GPU that it sees
    gpu_memory_bytes: int  # total memory of that GPU; 0 without one
    gpu_missing: str | None  # why the gpu engine cannot run there; None when it can
    # identity of that GPU, or of its slice; empty without one, or where the driver gives none
    gpu_uuid: str = ""

    @property
    def seat(self) -> Seat:
        return Seat(self.name, self.threads, self.memory_bytes)

    @property
    def can_gpu(self) -> bool:
        return self.gpu_missing is None


def read_worker(described: dict[str, Any]) -> WorkerInfo:
    """Rebuild the description of a worker that may have another version; errors as :func:`read_record`."""
    return read_record(WorkerInfo, described, "a worker", "install the same version of papilio there")


def describe_worker(name: str, threads: int | None = None, memory_bytes: int | None = None) -> WorkerInfo:
    """Describe this process; ``threads`` and ``memory_bytes`` are the limits set for it, if any."""
    gpus = list_gpus()
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    machine_bytes = int(psutil.virtual_memory().total)
    machine_bytes = min(machine_bytes, read_cgroup_limits().memory_bytes or machine_bytes)
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
