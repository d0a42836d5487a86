"""The environment variables that Papilio reads; docs/cli.md has this table."""

from __future__ import annotations

import os
from typing import NamedTuple


class Variable(NamedTuple):
    """An environment variable: what it sets, and what holds without it."""

    name: str
    sets: str
    default: str

    @property
    def value(self) -> str | None:
        """The value in this process; None if it is not set."""
        return os.environ.get(self.name)


CACHE = Variable(
    "PAPILIO_CACHE", "the directory of files that were converted to stores", "`papilio` in `XDG_CACHE_HOME`"
)
XDG_CACHE = Variable("XDG_CACHE_HOME", "the directory of caches, if it is absolute", "`~/.cache`")
KEEP_MEMORY = Variable(
    "PAPILIO_KEEP_MEMORY", "a size such as `4GiB`, the most that prepared graphs may keep", "half of the memory"
)
MAX_UNPACKED = Variable(
    "PAPILIO_MAX_UNPACKED", "a size such as `200GiB`, the most that a member of an archive may unpack to", "`64GiB`"
)
COMPILE_SECONDS = Variable(
    "PAPILIO_COMPILE_SECONDS", "seconds for compiling kernels while the package is installed; 0 compiles none", "60"
)
JOIN_SECONDS = Variable("PAPILIO_JOIN_SECONDS", "seconds to wait for each further worker of a cluster", "60")
SILENCE_SECONDS = Variable(
    "PAPILIO_SILENCE_SECONDS", "seconds without a heartbeat after which others do the work of a worker", "10"
)
WRAP_UP_SECONDS = Variable(
    "PAPILIO_WRAP_UP_SECONDS", "seconds for running leases to end, and to be recorded, after a signal", "1.5"
)
TRACEBACK = Variable("PAPILIO_TRACEBACK", "`full` for whole tracebacks in notebooks", "your own lines and the message")
NUMBA_CACHE = Variable(
    "NUMBA_CACHE_DIR", "the directory of kernels for CPUs", "beside the modules, else `~/.cache/papilio`"
)
CUPY_CACHE = Variable("CUPY_CACHE_DIR", "the directory of kernels for GPUs", "`~/.cupy/kernel_cache`")
VISIBLE_DEVICES = Variable("CUDA_VISIBLE_DEVICES", "the GPUs that a process may use", "all")

VARIABLES = (
    CACHE, XDG_CACHE, KEEP_MEMORY, MAX_UNPACKED, COMPILE_SECONDS, JOIN_SECONDS, SILENCE_SECONDS, WRAP_UP_SECONDS,
    TRACEBACK, NUMBA_CACHE, CUPY_CACHE, VISIBLE_DEVICES,
)  # fmt: skip
"""All of them, in the order of the documents."""
