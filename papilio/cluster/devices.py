"""One process per GPU: two on one GPU would share its memory and slow each other down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from papilio.errors import ClusterError
from papilio.extras import how_to_install
from papilio.kernels.device.discovery import missing_for_gpu
from papilio.tasks.worker import WorkerInfo

ONE_WORKER_PER_GPU = (
    "start one worker per GPU: 'dask cuda worker', or one CUDA_VISIBLE_DEVICES for each, or use --engine cpu"
)
"""What to do about a GPU with several workers."""


def find_shared_gpu(users: Iterable[tuple[str, str]]) -> tuple[str, list[str]] | None:
    """Return the first GPU that several users name, and these users; None when each has its own.

    Each user comes with the UUID of its GPU; an empty one says nothing.
    """
    found: dict[str, list[str]] = {}
    for uuid, user in users:
        if uuid:
            found.setdefault(uuid, []).append(user)
    return next(((uuid, names) for uuid, names in found.items() if len(names) > 1), None)


def check_devices(workers: Sequence[WorkerInfo]) -> None:
    """Refuse, with a ClusterError, two processes that use one GPU, by its UUID; several workers of one may."""
    processes = {(worker.host, worker.pid): worker for worker in workers}
    named = ((w.gpu_uuid, f"{w.name} (process {w.pid} on {w.host})") for w in processes.values())
    shared = find_shared_gpu(named)
    if shared is not None:
        uuid, users = shared
        raise ClusterError(f"workers {' and '.join(users)} use the same GPU, {uuid}; {ONE_WORKER_PER_GPU}")


def missing_for_cuda() -> str | None:
    """Say what a cluster of this machine's GPUs lacks, or None when it can be started."""
    missing = missing_for_gpu()
    if missing is None and find_spec("dask_cuda") is None:
        return f"dask-cuda is not installed: {how_to_install('dask_cuda')}"
    return missing
