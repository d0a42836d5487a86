"""The exception tree. Every error that a user can cause descends from :class:`PapilioError`.

    PapilioError
    ├── InputError              a wrong input file, option or object; also a ValueError
    │   ├── MalformedLineError      one line of a text file cannot be read
    │   ├── DuplicateEdgeError      duplicates under the policy "error"
    │   ├── GraphError              an in-memory graph breaks an invariant
    │   └── InputNotFoundError      an input file does not exist; also a FileNotFoundError
    ├── StoreError              a graph store is missing, corrupt, truncated, foreign or of another version
    │   ├── JobBusyError            another process has the job directory
    │   └── StoreNotFoundError      a store, job or partition does not exist; also a FileNotFoundError
    ├── UnsupportedError        the motif, engine and graph kind do not match
    ├── CapacityError           a size exceeds a limit (ids, counts, memory); names both and the remedy
    │   └── LeaseTooLargeError      a lease does not fit in the memory of its worker; part of it may
    ├── EngineUnavailableError  the requested engine cannot run here (no GPU)
    │   └── MissingPackageError     an optional package is not installed; names the extra that installs it
    ├── JobUnfinishedError      a job did not end within the given waiting time
    └── ExecutionError          a run did not end with an exact answer
        ├── TilingError             finished intervals do not tile the work items exactly
        ├── JobCancelledError       the job was cancelled on request; its ledger is kept
        ├── WorkerError             a worker or its machine is unusable; no lease is to blame
        │   └── DeviceLostError         a GPU is unusable after a failed kernel, until its process ends
        ├── FailedItemsError        some work items fail on every worker; the others are finished
        └── ClusterError            the cluster cannot be reached or started, or lost something that the run needs

:class:`InputWarning` reports a doubt about how a file of edges was read; it is not an error.

Messages contain the name, the actual value, the limit with its unit, and the change to make. A missing or unknown
argument of a function is a TypeError, as everywhere in Python. :data:`FAULTS` maps each error of a lease to the cause.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal

from papilio.settings import TRACEBACK


class PapilioError(Exception):
    """Base class of every error that Papilio raises on purpose."""

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """IPython calls it to show the error: the lines of the caller, and the message.

        ``PAPILIO_TRACEBACK=full`` removes the attribute, and IPython shows the whole traceback.
        """
        if TRACEBACK.value == "full":
            raise AttributeError(f"{TRACEBACK.name} is full")
        return self._short_traceback

    def _short_traceback(self) -> list[str]:
        frames = traceback.StackSummary.extract((tb.tb_frame, tb.tb_lineno) for tb in _of_caller(self.__traceback__))
        lines = "".join(frames.format()).splitlines()
        return [
            *lines,
            *f"{type(self).__name__}: {self}".splitlines(),
            f"(%env {TRACEBACK.name}=full and %tb show all)",
        ]


def _of_caller(tb: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of a traceback before the first of this package, except those of IPython."""
    while tb is not None:
        package = str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package == "papilio":
            return
        if package != "IPython":
            yield tb
        tb = tb.tb_next


class InputError(PapilioError, ValueError):
    """A wrong input file, option or object; also a ValueError."""


class InputWarning(UserWarning):
    """How a file of edges was read, or a graph that looks like a different kind."""


class MalformedLineError(InputError):
    """One line of a text file cannot be read as an edge; names file, line number and text."""


class DuplicateEdgeError(InputError):
    """Duplicate edges under the policy ``error``."""


class GraphError(InputError):
    """An in-memory graph breaks an invariant of :mod:`papilio.graph`."""


class InputNotFoundError(InputError, FileNotFoundError):
    """An input file does not exist; also a FileNotFoundError."""


class StoreError(PapilioError):
    """A graph store is missing, corrupt, truncated, foreign or of another version."""


class JobBusyError(StoreError):
    """Another process has the job directory."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """A graph store, a job or another directory does not exist; also a FileNotFoundError."""


class UnsupportedError(PapilioError):
    """The motif, the engine and the kind of graph do not match."""


class CapacityError(PapilioError):
    """A size exceeds a limit: vertex ids, exact counters or memory."""


class LeaseTooLargeError(CapacityError):
    """A lease does not fit in the memory of its worker, even with everything else dropped; part of it may."""


class EngineUnavailableError(PapilioError):
    """The requested engine cannot run on this machine."""


class MissingPackageError(EngineUnavailableError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class JobUnfinishedError(PapilioError):
    """A job did not end within the given waiting time."""


class ExecutionError(PapilioError):
    """A run did not end with an exact answer."""


class JobCancelledError(ExecutionError):
    """The job was cancelled on request; its ledger is kept."""


class TilingError(ExecutionError):
    """Finished intervals leave a gap, overlap or pass the end of the work items."""


class WorkerError(ExecutionError):
    """A worker or its machine is unusable; its leases are not the cause."""


class DeviceLostError(WorkerError):
    """A GPU is unusable after a failed kernel; the process that holds it must end."""


class FailedItemsError(ExecutionError):
    """Some work items fail on every worker; all others are finished."""


class ClusterError(ExecutionError):
    """The cluster cannot be reached or started, has no suitable worker, or lost something that the run needs."""


Fault = Literal["lease", "size", "worker", "run"]
"""Cause of an error in a lease. ``lease``: perhaps its items; it is retried, then bisected. ``size``: too large here;
it is halved. ``worker``: the worker, which gets no more leases while others continue. ``run``: every worker would raise
the same error; the run ends at once."""

FAULTS: dict[type[BaseException], Fault] = {
    PapilioError: "run",
    InputError: "run",
    MalformedLineError: "run",
    DuplicateEdgeError: "run",
    GraphError: "run",
    InputNotFoundError: "run",
    StoreError: "run",
    JobBusyError: "run",
    StoreNotFoundError: "run",
    UnsupportedError: "run",
    CapacityError: "run",
    LeaseTooLargeError: "size",
    EngineUnavailableError: "worker",
    MissingPackageError: "worker",
    JobUnfinishedError: "run",
    ExecutionError: "lease",
    TilingError: "run",
    JobCancelledError: "run",
    WorkerError: "worker",
    DeviceLostError: "worker",
    FailedItemsError: "run",
    ClusterError: "run",
    MemoryError: "run",
    OSError: "worker",
    Exception: "lease",
}
"""The fault by class of error, Papilio's and others; ``lease`` if in doubt."""


def fault_of(error: Exception) -> Fault:
    """Return the fault of a lease that raises ``error``, by the nearest class in :data:`FAULTS`."""
    return next(FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS)
