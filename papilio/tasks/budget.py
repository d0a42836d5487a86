"""How much memory a job may use on each of its workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from papilio.arguments import Bytes, read_bytes
from papilio.errors import CapacityError, InputError


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


class LeastBudget(NamedTuple):
    """A budget that works: the least in whole MiB, unless the search ended early."""

    budget: Budget
    is_exact: bool


def find_least_budget(
    require: Callable[[Budget], object], given: Budget, most: Budget, limit_s: float
) -> LeastBudget | None:
    """Return the least budget that ``require`` accepts, where ``given`` is too small; None without one up to ``most``.

    Raises one kind of memory where that is enough, else both; a kind that ``given`` leaves out stays out. The search
    ends after ``limit_s`` seconds.

    Parameters
    ----------
    require : callable
        Raises CapacityError for a budget that is too small, and for no larger budget than one that it accepts.
    """
    search = _Search(require, monotonic() + limit_s)
    device, host = given.device_bytes, given.host_bytes
    most_device, most_host = most.device_bytes or 0, most.host_bytes or 0
    if host is not None:
        found = search.least(lambda each: Budget(device, each), host, most_host)
        if found is not None:
            return LeastBudget(Budget(device, found), search.is_exact)
    if device is None:
        return None
    found = search.least(lambda each: Budget(each, host), device, most_device)
    if found is not None or host is None:
        return None if found is None else LeastBudget(Budget(found, host), search.is_exact)
    both = search.least(lambda each: Budget(each, most_host), device, most_device)
    if both is None:
        return None
    found = search.least(lambda each: Budget(both, each), host, most_host)
    return None if found is None else LeastBudget(Budget(both, found), search.is_exact)


class _Search:
    """Looks for the least bytes, in whole MiB, with which budgets are accepted."""

    def __init__(self, require: Callable[[Budget], object], ends_s: float) -> None:
        self._require, self._ends_s, self.is_exact = require, ends_s, True

    def _accepts(self, budget: Budget) -> bool:
        try:
            self._require(budget)
        except CapacityError:
            return False
        return True

    def least(self, make: Callable[[int], Budget], low_bytes: int, most_bytes: int) -> int | None:
        """Return the least bytes above ``low_bytes``, which are too few; None where none up to ``most_bytes`` is."""
        low, most = low_bytes // _MIB, most_bytes // _MIB
        step = max(1, low // 16)
        high = low
        while True:
            if high >= most or monotonic() > self._ends_s:
                return None
            low, high = high, min(high + step, most)
            if self._accepts(make(high * _MIB)):
                break
            step *= 2
        while high - low > 1:
            if monotonic() > self._ends_s:
                self.is_exact = False
                break
            middle = (low + high) // 2
            if self._accepts(make(middle * _MIB)):
                high = middle
            else:
                low = middle
        return high * _MIB


_MIB = 1 << 20
