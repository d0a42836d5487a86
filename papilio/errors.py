"""The exception tree. Every error that a user can cause descends from :class:`PapilioError`.

    PapilioError
    ├── InputError              an input file, option or object is not what it should be
    │   ├── MalformedLineError      one line of a text file cannot be read
    │   ├── DuplicateEdgeError      duplicates met under the policy "error"
    │   └── GraphError              an in-memory graph breaks an invariant
    ├── StoreError              a graph store is missing, corrupt, truncated, foreign or of another version
    ├── UnsupportedError        the motif, engine or graph kind do not go together
    ├── CapacityError           a size passes a limit (ids, counts, memory); says which and what to do
    ├── EngineUnavailableError  the engine asked for cannot run here (no GPU, CuPy not installed)
    └── ExecutionError          a run did not end with an exact answer
        ├── TilingError             finished intervals do not tile the work items exactly
        └── ClusterError            the cluster cannot be reached or lost what the run needs

Messages hold the name, the actual value, the limit with its unit and what to change.
"""

from __future__ import annotations

__all__ = [
    "CapacityError",
    "ClusterError",
    "DuplicateEdgeError",
    "EngineUnavailableError",
    "ExecutionError",
    "GraphError",
    "InputError",
    "MalformedLineError",
    "PapilioError",
    "StoreError",
    "TilingError",
    "UnsupportedError",
]


class PapilioError(Exception):
    """Root of every error that Papilio raises on purpose."""


class InputError(PapilioError):
    """An input file, option or object is not what it should be."""


class MalformedLineError(InputError):
    """One line of a text file cannot be read as an edge; names file, line number and text."""


class DuplicateEdgeError(InputError):
    """Duplicate edges met under the policy ``error``."""


class GraphError(InputError):
    """An in-memory graph breaks an invariant of :mod:`papilio.graph`."""


class StoreError(PapilioError):
    """A graph store is missing, corrupt, truncated, foreign or of another version."""


class UnsupportedError(PapilioError):
    """The motif, the engine and the kind of graph do not go together."""


class CapacityError(PapilioError):
    """A size passes a limit: vertex ids, exact counters or memory."""


class EngineUnavailableError(PapilioError):
    """The engine asked for cannot run on this machine."""


class ExecutionError(PapilioError):
    """A run did not end with an exact answer."""


class TilingError(ExecutionError):
    """Finished intervals leave a gap, overlap or pass the end of the work items."""


class ClusterError(ExecutionError):
    """The cluster cannot be reached, has no fitting worker, or lost what the run needs."""
