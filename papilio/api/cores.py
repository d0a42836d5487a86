"""The public functions of cores: the table of all cores of a graph, and one core as a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.decompose import PHASES, PeelProgress, choose_engine, describe_graph, read_arrays
from papilio.api.read import Graph, open_graph
from papilio.arguments import Count, Threads, checked, plural, read_argument
from papilio.cluster.progress import shows_phases
from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.kernels.engine import EngineChoice, EngineName
from papilio.kernels.peel.core_table import list_cores
from papilio.kernels.peel.decompose import decompose_graph
from papilio.kernels.peel.phases import ignore_report
from papilio.storage.answers import Answer, Preview, integer_table, preview
from papilio.storage.labelled import LabelledGraph
from papilio.storage.layers import show_sizes
from papilio.storage.reading import GraphOptions
from papilio.storage.sides import Sides
from papilio.tasks.machine import free_memory_bytes

_PAIR_COLUMNS = ("alpha", "beta", "n_u", "n_v", "n_edges")
_LEVEL_COLUMNS = ("k", "n", "n_edges")


class CoreSize(NamedTuple):
    """The vertices of both layers and the edges of an (alpha, beta)-core."""

    n_u: int
    n_v: int
    n_edges: int


@dataclass(frozen=True, eq=False, repr=False)
class CoreTable(Answer):
    """The sizes of all cores of a graph, each core once: at its largest alpha and beta, or its largest k."""

    # int64, a row for each core: alpha, beta, vertices of U, vertices of V, edges; for a unipartite graph k, vertices,
    # edges. Rows ascend by the first columns.
    cores: NDArray[np.int64]
    engine: EngineName
    graph: dict[str, Any]  # ``path`` and ``hash`` (None for a graph in memory), ``n_u``, ``n_v``, ``n_edges``
    seconds: dict[str, float] = field(repr=False)  # wall time by phase: ``read``, ``peel``, and ``total``

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return _PAIR_COLUMNS if self.cores.shape[1] == len(_PAIR_COLUMNS) else _LEVEL_COLUMNS

    @property
    def degeneracy(self) -> int:
        """The largest k such that a subgraph has all degrees at least k; 0 without edges."""
        least = self.cores[:, :2].min(axis=1) if self.columns == _PAIR_COLUMNS else self.cores[:, 0]
        return int(least.max(initial=0))

    @property
    def headline(self) -> str:
        names = self.graph["provenance"]["layers"]
        of = f"{self.graph['n_u']:,} vertices"
        if self.columns == _PAIR_COLUMNS:
            of = show_sizes(self.graph["n_u"], self.graph["n_v"], names)
        how = f"{self.engine}, {self.seconds['total']:.2f} s"
        return f"{plural(len(self.cores), 'distinct core')} of {of}: degeneracy {self.degeneracy:,} ({how})"

    def size(self, alpha: int, beta: int) -> CoreSize:
        """Return the size of the (alpha, beta)-core, zeros if it is empty; InputError for a unipartite graph."""
        if self.columns != _PAIR_COLUMNS:
            raise InputError("the graph is unipartite, and has k-cores: see the column k of cores")
        read_argument("alpha", alpha, Count)
        read_argument("beta", beta, Count)
        inside = self.cores[(self.cores[:, 0] >= alpha) & (self.cores[:, 1] >= beta), 2:]
        sizes = inside[np.argmax(inside[:, 0] + inside[:, 1])] if len(inside) else np.zeros(3, np.int64)
        return CoreSize(*sizes.tolist())

    def _preview(self) -> Preview:
        return preview(self.columns, ([f"{x:,}" for x in row] for row in self.cores.tolist()), len(self.cores))

    def to_arrow(self) -> Any:
        """Return a row for each core, with the :attr:`columns`."""
        return integer_table(dict(zip(self.columns, self.cores.T, strict=True)))

    def _draw(self, axes: Any) -> None:
        """Draw the largest beta of each alpha, or the vertices and edges of each k-core."""
        if self.columns == _PAIR_COLUMNS:
            alphas, at = np.unique(self.cores[::-1, 0], return_index=True)
            betas = self.cores[::-1, 1][at]
            charts.draw_lines(axes, alphas.tolist(), {"largest beta": betas.tolist()}, "alpha")
        else:
            lines = {"vertices": self.cores[:, 1].tolist(), "edges": self.cores[:, 2].tolist()}
            charts.draw_lines(axes, self.cores[:, 0].tolist(), lines, "k")

    def to_dict(self) -> dict[str, Any]:
        """Return the table as one JSON object: ``cores`` has a list for each row."""
        return {
            "measure": "core-table",
            "degeneracy": self.degeneracy,
            "columns": list(self.columns),
            "cores": self.cores.tolist(),
            "engine": self.engine,
            "graph": self.graph,
            "seconds": {phase: round(value, 6) for phase, value in self.seconds.items()},
        }


@checked
@shows_phases(PHASES)
def core_table(
    graph: Any,
    *,
    engine: EngineChoice = "auto",
    threads: Threads | None = None,
    progress: PeelProgress | bool | None = None,
    **reading: Unpack[GraphOptions],
) -> CoreTable:
    """Find the sizes of all cores of a graph: (alpha, beta)-cores if it is bipartite, else k-cores.

    Many pairs (alpha, beta) have the same core; it has one row, at the largest alpha and beta. The core of any other
    pair is the largest one in the rows with at least that alpha and beta (:meth:`CoreTable.size`).

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.read`. Signs are ignored.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` uses the first usable GPU, if any; ``gpu`` never falls back to ``cpu``.
    threads : int, optional
        Number of threads of the cpu engine; by default all processors available to this process.
    progress : bool or callable, optional
        As for :func:`papilio.decompose`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    PapilioError
        As :func:`papilio.decompose`.

    Examples
    --------
    >>> papilio.core_table("graph/").size(3, 4)
    CoreSize(n_u=12, n_v=9, n_edges=61)
    """
    began = perf_counter()
    report: PeelProgress = progress if callable(progress) else ignore_report
    source = open_graph(graph, "bipartite", reading, "the table of (alpha, beta)-cores", needs_signs=False)
    chosen = choose_engine(engine)
    report("read", 0, 1)
    arrays = read_arrays(source, "core")
    seconds = {"read": perf_counter() - began}
    cores = list_cores(arrays, chosen, threads=threads, memory_bytes=free_memory_bytes(), report=report)
    seconds |= {"peel": perf_counter() - began - seconds["read"], "total": perf_counter() - began}
    return CoreTable(cores, chosen, describe_graph(source, arrays), seconds)


@checked
@shows_phases(PHASES)
def core(
    graph: Any,
    *,
    k: Count | None = None,
    alpha: Count | None = None,
    beta: Count | None = None,
    engine: EngineChoice = "auto",
    threads: Threads | None = None,
    progress: PeelProgress | bool | None = None,
    **reading: Unpack[GraphOptions],
) -> Graph:
    """Return the k-core of a unipartite graph, or the (alpha, beta)-core of a bipartite one, as a graph.

    The core is the largest subgraph with all degrees at least k, or at least alpha in layer U and beta in layer V; it
    may be empty. Its vertices keep their labels; without labels, they are labelled by their ids. Signs are kept.

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.read`; a file or an object without a kind is read as unipartite with ``k``.
    k : int, optional
        Minimum degree, for a unipartite graph.
    alpha, beta : int, optional
        Minimum degrees of vertices of U and of V, both for a bipartite graph.
    engine, threads, progress
        As for :func:`papilio.core_table`.
    **reading
        How the graph is read, as for :func:`papilio.read`.

    Raises
    ------
    PapilioError
        As :func:`papilio.decompose`.

    Examples
    --------
    >>> papilio.core("graph/", alpha=3, beta=4).to_networkx()
    """
    report: PeelProgress = progress if callable(progress) else ignore_report
    if (k is None) == (alpha is None) or (alpha is None) != (beta is None):
        raise InputError(
            f"k is {k}, alpha is {alpha} and beta is {beta}; give k for a unipartite graph, or alpha and beta"
        )
    needed: GraphKind = "bipartite" if k is None else "unipartite"
    source = open_graph(graph, needed, reading, "the (alpha, beta)-core")
    if source.kind != needed:
        raise UnsupportedError(f"{source.name} is {source.kind}: give {'k' if k is None else 'alpha and beta'}")
    chosen = choose_engine(engine)
    report("read", 0, 1)
    arrays = read_arrays(source, "core")
    made = decompose_graph(
        arrays, "core", None if alpha is None else "u", chosen, least=alpha, threads=threads,
        memory_bytes=free_memory_bytes(), with_forest=False, report=report,
    )  # fmt: skip
    least = k if beta is None else beta
    return _induce(source, arrays, made.peeled.numbers >= np.uint64(least or 0))


def _induce(source: Graph, graph: BipartiteGraph | UnipartiteGraph, kept: NDArray[np.bool_]) -> Graph:
    """Return the subgraph of the kept vertices; layer V follows layer U."""
    in_u, in_v = (kept, kept) if isinstance(graph, UnipartiteGraph) else (kept[: graph.n_u], kept[graph.n_u :])
    edges = np.flatnonzero(in_u[graph.u] & in_v[graph.v])
    u, v = ((np.cumsum(of) - 1).astype(np.int32)[ends[edges]] for of, ends in ((in_u, graph.u), (in_v, graph.v)))
    sign = None if graph.sign is None else graph.sign[edges]
    n_u, n_v = int(np.count_nonzero(in_u)), int(np.count_nonzero(in_v))
    labels_u = _labels(source, "u", in_u)
    if isinstance(graph, UnipartiteGraph):
        return Graph(None, LabelledGraph(UnipartiteGraph(n_u, u, v, sign), labels_u))
    sides = Sides([*source.layer_names.values()])
    labels_v, made = _labels(source, "v", in_v), BipartiteGraph(n_u, n_v, u, v, sign)
    return Graph(None, LabelledGraph(made, labels_u, labels_v, sides=sides, layers=source.layers))


def _labels(source: Graph, layer: str, kept: NDArray[np.bool_]) -> NDArray[Any]:
    labels = source.labels(layer)
    return np.flatnonzero(kept) if labels is None else labels[kept]
