"""What a command begins before it is loaded: the GPU driver and a context, or the process that its workers come from.

All of these take as long as the remaining imports, and run beside them. On an H200, driver and context take 0.14 and
0.13 s, in which they use no processor. A worker that imports its libraries itself starts a second later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Thread

_COUNTING = ("count", "enumerate", "decompose", "census", "measure")
"""Commands that run in this process by default."""

_ELSEWHERE = ("--cluster", "--engine=cpu", "--help")
"""Prefixes of arguments that send the command elsewhere or to the CPU, or run nothing."""


def begin_driver(words: Sequence[str]) -> None:
    """Start the driver in a thread if these arguments will run on a GPU of this process.

    This is a guess: a command that uses no GPU after all only loses the memory of a context while it runs. If there are
    several GPUs, workers may use them, and no context is created.
    """
    if not words or words[0] not in _COUNTING or any(word.startswith(_ELSEWHERE) for word in words):
        return
    if "cpu" in words or find_spec("cupy") is None:
        return
    # Import in the main thread: a second importing thread may see half-imported modules.
    from papilio.kernels.device.discovery import begin_context

    # Not a daemon: the interpreter waits for it at exit, because a driver abandoned during its start may crash.
    Thread(target=begin_context, name="papilio-driver").start()


_METHOD = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
"""Environment variable by which Dask starts the processes of workers."""

_PRELOADED = ("distributed", "papilio.cluster.dispatcher")
_OF_GPUS = ("dask_cuda", "cupy")
"""Modules that every worker imports, and those of workers with GPUs. They start no driver, and no thread but one of
Arrow's allocator, which is prepared for forks: others would not survive one."""

_OF_WORKERS = {
    "MALLOC_TRIM_THRESHOLD_": "65536", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip
"""Variables that Dask sets before it starts a worker, as they are read when a process or a library starts."""


def begin_workers(words: Sequence[str]) -> None:
    """Start the process that forks workers, if these arguments will start a cluster on this machine.

    It imports the libraries of the workers meanwhile. A program that uses Papilio as a library may change its
    environment between two clusters, and gets workers that start afresh.
    """
    cluster = _read_cluster(words)
    if _METHOD in os.environ or "--help" in words or cluster not in ("local", "cuda"):
        return
    from multiprocessing import forkserver, util

    from papilio.signals import hold_interrupts, keep_until_end

    with hold_interrupts(), _set_beside(_OF_WORKERS), suppress(OSError):
        forkserver.set_forkserver_preload([*_PRELOADED, *(_OF_GPUS if cluster == "cuda" else ())])
        keep_until_end(util.get_temp_dir())  # has the socket of the process; no socket has a long path
        forkserver.ensure_running()
        os.environ[_METHOD] = "forkserver"


def _read_cluster(words: Sequence[str]) -> str:
    """Return the name in ``--cluster NAME`` or ``--cluster=NAME:OPTIONS``; empty without any."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        if option == "--cluster":
            return (value if equals else after).partition(":")[0]
    return ""


@contextmanager
def _set_beside(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, during the block."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
