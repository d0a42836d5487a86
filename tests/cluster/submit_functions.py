"""What the tests of submitted jobs run on workers and on the scheduler."""

from __future__ import annotations

from distributed import Scheduler

from papilio.cluster.submit import find_folder_problem
from papilio.kernels.engine import ENGINES
from papilio.tasks.worker_state import worker_state


def look_elsewhere(folder: str, probe: str) -> str | None:
    """Look for a folder as a machine does that has not mounted it."""
    return find_folder_problem(f"/nowhere{folder}", probe)


def count_prepared(graph_hash: str) -> int:
    """Return how many prepared forms of a graph this process keeps."""
    return sum(key[0] == graph_hash for engine in ENGINES for key in worker_state.graphs[engine]._entries)


async def give_up(address: str, dask_scheduler: Scheduler) -> None:
    """Have the scheduler take a worker for lost, as it does with one that it has not heard of for long."""
    await dask_scheduler.remove_worker(address, stimulus_id="test")
