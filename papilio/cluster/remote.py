"""What runs inside a Dask worker: its description, its checks and the call of a task."""

from __future__ import annotations

import os
import traceback
from threading import Timer
from typing import Any

from distributed import Worker, get_worker

from papilio.cluster.executor import AnyTask, Result, TaskFunction, machine_errors_named
from papilio.errors import DeviceLostError, ExecutionError, PapilioError
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


def _describe(dask_worker: Worker) -> WorkerInfo:
    limit = dask_worker.memory_manager.memory_limit or None
    return describe_worker(dask_worker.address, dask_worker.state.nthreads, limit)


def find_store_problem(source: str, graph_hash: str) -> str | None:
    """Say why this worker cannot use the store, or None when it finds the graph of ``graph_hash``."""
    try:
        store = open_store(source)
    except PapilioError as error:
        return str(error)
    if store.hash != graph_hash:
        return f"{source} holds another graph there ({store.hash}, not {graph_hash})"
    return None


def call_task(function: TaskFunction[AnyTask, Result], task: AnyTask) -> Result:
    """Call ``function`` for ``task`` with this worker's name and threads; its errors name the worker.

    They keep their class if they are Papilio's, are those of :func:`machine_errors_named` where the machine is the
    cause, and an ExecutionError with the traceback for anything else. A process that lost its GPU ends once its error
    is on the way: its nanny, if it has one, starts another.
    """
    seat = _describe(get_worker()).seat
    where = f"worker {seat.worker}, {task}"
    with machine_errors_named(where):
        try:
            return function(task, seat)
        except DeviceLostError as error:
            Timer(FAREWELL_S, os._exit, [DEVICE_LOST_EXIT]).start()
            raise DeviceLostError(f"{where}: {error}; this worker process ends") from None
        except PapilioError as error:
            raise type(error)(f"{where}: {error}") from None
        except (MemoryError, OSError):
            raise
        except Exception:
            raise ExecutionError(f"{where} failed:\n{traceback.format_exc()}") from None
