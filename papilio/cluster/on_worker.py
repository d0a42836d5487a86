"""What runs in a Dask worker: it describes itself, looks for the store, announces compilations, and calls tasks."""

from __future__ import annotations

import os
import traceback
from socket import gethostname
from threading import Timer
from typing import Any

from distributed import Worker, get_worker

from papilio.cluster.executor import AnyTask, Result, TaskFunction, machine_errors_named
from papilio.errors import DeviceLostError, ExecutionError, PapilioError
from papilio.kernels.announce import tell_compiling_by
from papilio.storage.records import write_record
from papilio.storage.store import open_store
from papilio.tasks.machine import WorkerInfo, describe_worker

FAREWELL_S = 1.0
"""Time for the error of a lost GPU to reach the scheduler before its process ends."""

DEVICE_LOST_EXIT = 75
"""Exit code of a worker process that lost its GPU."""


def describe_dask_worker(dask_worker: Worker) -> dict[str, Any]:
    """Describe the worker that this runs in, as JSON, so that versions may differ."""
    return write_record(_describe(dask_worker))


COMPILING_TOPIC = "papilio-compiling"
"""Topic of Dask's events by which workers announce compilations to their clients."""


def forward_compiling(client: tuple[str, int], dask_worker: Worker) -> None:
    """Announce compilations of this worker's process to the clients of its cluster from now on.

    ``client`` is the machine and process of a client; a worker in that very process needs no forwarding.
    """
    if client != name_process() and not hasattr(dask_worker, "_papilio_forwards"):
        dask_worker._papilio_forwards = True
        tell_compiling_by(lambda line: dask_worker.log_event(COMPILING_TOPIC, line))


def name_process() -> tuple[str, int]:
    """Return the name of this machine and the number of this process."""
    return gethostname(), os.getpid()


def _describe(dask_worker: Worker) -> WorkerInfo:
    limit = dask_worker.memory_manager.memory_limit or None
    return describe_worker(dask_worker.address, dask_worker.state.nthreads, limit)


def find_store_problem(source: str, graph_hash: str) -> str | None:
    """Return why this worker cannot use the store, or None when it finds the graph of ``graph_hash``."""
    try:
        store = open_store(source)
    except PapilioError as error:
        return str(error)
    if store.hash != graph_hash:
        return f"{source} is a different graph there ({store.hash}, not {graph_hash})"
    return None


def call_task(function: TaskFunction[AnyTask, Result], task: AnyTask) -> Result:
    """Call ``function`` for ``task`` with this worker's name and threads; its errors name the worker.

    Errors of Papilio keep their class, errors of the machine are raised as in :func:`machine_errors_named`, and any
    other becomes an ExecutionError with the traceback. A process that lost its GPU ends once its error is on the way:
    its nanny, if it has one, starts another.
    """
    worker = _describe(get_worker())
    where = f"worker {worker.name}, {task}"
    with machine_errors_named(where):
        try:
            return function(task, worker)
        except DeviceLostError as error:
            Timer(FAREWELL_S, os._exit, [DEVICE_LOST_EXIT]).start()
            raise DeviceLostError(f"{where}: {error}; this worker process ends") from None
        except PapilioError as error:
            raise type(error)(f"{where}: {error}") from None
        except (MemoryError, OSError):
            raise
        except Exception:
            raise ExecutionError(f"{where} failed:\n{traceback.format_exc()}") from None
