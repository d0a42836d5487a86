"""The objects that graphs in memory were read from; values of edges and vertices are given back in their form."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from papilio.extras import import_extra
from papilio.graph import BipartiteGraph, UnipartiteGraph

Graph = BipartiteGraph | UnipartiteGraph


def plain_labels(labels: NDArray[Any]) -> list[Any]:
    """Return labels as Python objects; times stay as NumPy has them."""
    return list(labels) if labels.dtype.kind in "mM" else labels.tolist()


def sparse_array(graph: Graph, values: NDArray[Any], format: str) -> Any:
    """Return a SciPy sparse array with the value of each edge at its place: of a unipartite graph at both."""
    sparse = import_extra("scipy.sparse", "a sparse array needs")
    u, v = graph.u, graph.v
    if graph.kind == "unipartite":
        u, v, values = np.concatenate((u, v)), np.concatenate((v, u)), np.concatenate((values, values))
    return sparse.coo_array((values, (u, v)), shape=(graph.n_u, graph.n_v)).asformat(format)


@dataclass(frozen=True, eq=False)
class Origin:
    """The object that a graph was read from: edges in an order of its own, vertices under their labels."""

    name: ClassVar[str]
    rows: ClassVar[str] = "rows"

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        """Return values of the edges of ``graph``, shape (n_edges,), one for each row."""
        return values[edge_of_row]

    def vertices(self, labels: NDArray[Any], values: NDArray[Any]) -> Any:
        """Return values of vertices by their labels, both of shape (n,)."""
        return dict(zip(plain_labels(labels), values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class ArrayRows(Origin):
    """A NumPy array of edges: values of edges are an array with an entry for each row."""

    name = "NumPy array"


@dataclass(frozen=True, eq=False)
class PairRows(ArrayRows):
    """Pairs of labels: values of edges are an array with an entry for each pair."""

    name = "list of pairs"
    rows = "pairs"


@dataclass(frozen=True, eq=False)
class FrameRows(Origin):
    """A data frame: values of edges are a Series with its index, those of vertices a Series by label."""

    name = "data frame"

    index: Any

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        """Return a Series with an entry for each row of the frame."""
        pandas = import_extra("pandas", "a Series needs")
        return pandas.Series(values[edge_of_row], index=self.index)

    def vertices(self, labels: NDArray[Any], values: NDArray[Any]) -> Any:
        """Return a Series whose index holds the labels."""
        pandas = import_extra("pandas", "a Series needs")
        return pandas.Series(values, index=pandas.Index(labels))


@dataclass(frozen=True, eq=False)
class ArrowRows(Origin):
    """A pyarrow table: values of edges are a pyarrow array with an entry for each row."""

    name = "pyarrow table"

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        import pyarrow

        return pyarrow.array(values[edge_of_row])


@dataclass(frozen=True, eq=False)
class NetworkEdges(Origin):
    """A graph of NetworkX or igraph: values of edges are a dictionary by edge, as it names them, parallel ones too."""

    name = "graph"
    rows = "edges"

    names: list[tuple[Hashable, ...]]

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        """Return a dictionary, as ``networkx.set_edge_attributes`` takes it."""
        return dict(zip(self.names, values[edge_of_row].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class SparseEntries(Origin):
    """A SciPy sparse matrix: values of edges are a sparse array of the same shape and format."""

    name = "sparse matrix"
    rows = "entries"

    format: str

    def edges(self, graph: Graph, edge_of_row: NDArray[np.int64], values: NDArray[Any]) -> Any:
        """Return a sparse array with the value of each edge at its place."""
        return sparse_array(graph, values, self.format)
