"""Graphs given to other libraries: NumPy, pyarrow, pandas, SciPy sparse, NetworkX.

Every function takes a graph, or a :class:`~papilio.storage.labelled.LabelledGraph` whose labels then stand in
place of the ids. The libraries are imported inside the functions that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import GraphError
from papilio.extras import import_extra
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.labelled import LabelledGraph, sparse_array

if TYPE_CHECKING:
    import networkx
    import pandas
    import pyarrow

Graph = BipartiteGraph | UnipartiteGraph


def _labelled(graph: Graph | LabelledGraph) -> LabelledGraph:
    return graph if isinstance(graph, LabelledGraph) else LabelledGraph(graph)


def _columns(labelled: LabelledGraph) -> dict[str, NDArray[Any]]:
    """Return the columns u, v and, if signed, sign, each of shape (n_edges,)."""
    graph = labelled.graph
    labels_v = labelled.labels_u if labelled.kind == "unipartite" else labelled.labels_v
    columns: dict[str, NDArray[Any]] = {
        "u": graph.u.astype(np.int64) if labelled.labels_u is None else labelled.labels_u[graph.u],
        "v": graph.v.astype(np.int64) if labels_v is None else labels_v[graph.v],
    }
    if graph.sign is not None:
        columns["sign"] = graph.sign
    return columns


def to_numpy(graph: Graph | LabelledGraph) -> NDArray[np.int64]:
    """Return the edges as ids (labels do not enter), shape (n_edges, 2), or (n_edges, 3) with signs."""
    bare = _labelled(graph).graph
    return np.stack([bare.u, bare.v] + ([] if bare.sign is None else [bare.sign]), axis=1).astype(np.int64)


def to_pandas(graph: Graph | LabelledGraph) -> pandas.DataFrame:
    """Return a data frame with columns ``u``, ``v`` and, for a signed graph, ``sign``; one row per edge.

    Vertices without edges do not appear.
    """
    frame: pandas.DataFrame = import_extra("pandas", "to_pandas needs").DataFrame(_columns(_labelled(graph)))
    return frame


def to_arrow(graph: Graph | LabelledGraph) -> pyarrow.Table:
    """Return a pyarrow table with columns ``u``, ``v`` and, for a signed graph, ``sign``; one row per edge.

    Vertices without edges do not appear. GraphError for labels that have no Arrow type, such as a mixture of integers
    and strings.
    """
    import pyarrow

    try:
        return pyarrow.table(_columns(_labelled(graph)))
    except pyarrow.ArrowException as error:
        raise GraphError(
            f"the labels have no common Arrow type ({error}); leave them out or unify them"
        ) from error


def to_scipy(graph: Graph | LabelledGraph, *, format: str = "csr") -> Any:
    """Return a SciPy sparse array of int64, with 1 or the sign at each edge, in any format of ``coo_array.asformat``.

    The biadjacency matrix, shape (n_u, n_v), of a bipartite graph; the symmetric adjacency matrix, shape (n, n), of a
    unipartite one. Labels do not enter.
    """
    bare = _labelled(graph).graph
    data = np.ones(bare.n_edges, np.int64) if bare.sign is None else bare.sign.astype(np.int64)
    return sparse_array(bare, data, format)


def to_networkx(graph: Graph | LabelledGraph) -> networkx.Graph[Any]:
    """Return a NetworkX graph; all vertices are nodes, those without edges too.

    Nodes are the labels, or the ids; in a bipartite graph without labels V's ids follow U's, from ``n_u`` on. Nodes of
    a bipartite graph have the attribute ``bipartite``, 0 for U and 1 for V; edges of a signed graph have the attribute
    ``sign``. GraphError when two vertices have the same label.
    """
    labelled = _labelled(graph)
    bare, result = labelled.graph, import_extra("networkx", "to_networkx needs").Graph()
    n_u, n_v = (bare.n_u, bare.n_v) if isinstance(bare, BipartiteGraph) else (bare.n, 0)
    nodes_u = list(range(n_u)) if labelled.labels_u is None else labelled.labels_u.tolist()
    if isinstance(bare, BipartiteGraph):
        nodes_v = list(range(n_u, n_u + n_v)) if labelled.labels_v is None else labelled.labels_v.tolist()
        result.add_nodes_from(nodes_u, bipartite=0)
        result.add_nodes_from(nodes_v, bipartite=1)
    else:
        nodes_v = nodes_u
        result.add_nodes_from(nodes_u)
    if result.number_of_nodes() != n_u + n_v:
        raise GraphError(
            f"{n_u + n_v} vertices have {result.number_of_nodes()} different labels, and NetworkX nodes are their "
            "labels; make the labels of both layers distinct, or leave them out"
        )
    signs = [None] * bare.n_edges if bare.sign is None else bare.sign.tolist()
    for u, v, sign in zip(bare.u.tolist(), bare.v.tolist(), signs, strict=True):
        result.add_edge(nodes_u[u], nodes_v[v], **({} if sign is None else {"sign": sign}))
    network: networkx.Graph[Any] = result
    return network
