"""How much memory a job may use on each of its workers."""

from __future__ import annotations

from dataclasses import dataclass

from papilio.arguments import Bytes, read_bytes
from papilio.errors import InputError


@dataclass(frozen=True)
class Budget:
    """Memory that a job may use on each of its workers; None leaves what a worker has."""

    device_bytes: int | None = None  # of its device, with the CUDA context
    # of its process, resident. Where the leases run in the process that folds, that is in it.
    host_bytes: int | None = None

    def __post_init__(self) -> None:
        for kind, limit in (("device", self.device_bytes), ("host", self.host_bytes)):
            if limit is not None and limit <= 0:
                raise InputError(f"the budget of {kind} memory is {limit} bytes; give at least 1")

    @classmethod
    def of(cls, device_memory: Bytes | None, host_memory: Bytes | None) -> Budget:
        """Return the budget that was asked for, in bytes or as ``8GiB``. InputError for what is no size."""
        return cls(read_bytes("device_memory", device_memory), read_bytes("host_memory", host_memory))

    @property
    def is_set(self) -> bool:
        return self.device_bytes is not None or self.host_bytes is not None

    def of_host(self, memory_bytes: int) -> int:
        """Return the host memory that the job may use on a worker that has ``memory_bytes``."""
        return memory_bytes if self.host_bytes is None else min(self.host_bytes, memory_bytes)

    def of_device(self, memory_bytes: int) -> int:
        """Return the device memory that the job may use on a device of ``memory_bytes``."""
        return memory_bytes if self.device_bytes is None else min(self.device_bytes, memory_bytes)


NO_BUDGET = Budget()
"""Whatever the workers have."""
