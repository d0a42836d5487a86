"""The graph of a measure: its edges in passes, the seconds of its phases, its values in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.api.inputs import GraphInput, Question
from papilio.cluster.events import Listener, PhaseAdvanced, PhaseStarted, ignore_events
from papilio.graph import GraphKind
from papilio.kernels.bounds import require_room
from papilio.measures.values import write_values
from papilio.motifs import Butterfly, MaximalClique
from papilio.storage.array_file import SLICE_ENTRIES
from papilio.storage.results import Columns
from papilio.tasks.graphs import require_graph_kind
from papilio.tasks.machine import free_memory_bytes


class Edges:
    """The edges of the graph of a call, in passes that are reported; and how long its phases take."""

    def __init__(
        self, graph: Any, measure: str, progress: Listener | None, kind: GraphKind = "bipartite"
    ) -> None:
        self._began = perf_counter()
        self._seconds: dict[str, float] = {}
        self.source = GraphInput(graph, kind)
        require_graph_kind(f"{measure} is", kind, self.source.kind, self.source.name)
        described = self.describe()
        self.n_u, self.n_v, self.n_edges = (int(described[name]) for name in ("n_u", "n_v", "n_edges"))
        self._listener = progress or ignore_events
        self._passes, self._seen = 1, 0

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph."""
        motif = Butterfly() if self.source.kind == "bipartite" else MaximalClique()
        return self.source.describe(self.source.job(Question(motif, "total"), "memory:"))

    @contextmanager
    def phase(self, name: str, passes: int = 1) -> Iterator[None]:
        """Time a block, which passes over the edges so many times."""
        began = perf_counter()
        self._passes, self._seen = passes, 0
        self._listener(PhaseStarted(name))
        yield
        self._seconds[name] = perf_counter() - began

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time by phase, and ``total`` until now."""
        return {**self._seconds, "total": perf_counter() - self._began}

    def report(self, share: float) -> None:
        """Say which share of a phase is done."""
        self._listener(PhaseAdvanced(share))

    def once(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Yield all edges in order, in pieces."""
        for u, v in self._pieces():
            yield u, v
            self._seen += int(u.size)
            self.report(self._seen / max(1, self._passes * self.n_edges))

    def _pieces(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        if self.source.store is not None:
            yield from ((u, v) for u, v, _ in self.source.store.batches())
            return
        graph = self.source.read()
        for start in range(0, graph.n_edges, SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield graph.u[start:stop], graph.v[start:stop]

    def write(
        self, target: Path | None, columns: Mapping[Any, Columns], measure: str, overwrite: bool
    ) -> None:
        """Write columns of each vertex by layer, or of each ``edge``, where a file is asked for."""
        if target is not None:
            with self.phase("write"):
                write_values(target, self.source, columns, {"measure": measure}, overwrite=overwrite)

    def require_memory(self, needed_bytes: int, what: str, threads: int) -> None:
        """Refuse what will not fit the memory: CapacityError."""
        require_room(
            f"{self.source.name} has {self.n_edges} edges, {what}, with {threads} threads,",
            needed_bytes,
            free_memory_bytes(),
            "use fewer threads or a machine with more memory",
        )
