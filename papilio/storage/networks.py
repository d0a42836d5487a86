"""Graphs of the libraries of networks: NetworkX, igraph, graph-tool. None is imported to read its objects."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import checked
from papilio.errors import GraphError
from papilio.graph import GraphKind
from papilio.storage.labelled import (
    LabelledGraph,
    NetworkEdges,
    assemble,
    find_missing,
    label_array,
    read_signs,
)
from papilio.storage.sides import Sides

if TYPE_CHECKING:
    import networkx


@checked
def from_networkx(
    graph: networkx.Graph[Any],
    *,
    kind: GraphKind = "bipartite",
    u_nodes: Collection[Hashable] | None = None,
    sign: str | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read a NetworkX graph; directions and parallel edges are merged, nodes without edges stay.

    Parameters
    ----------
    u_nodes : collection of nodes, optional
        The nodes of layer U. By default those whose attribute ``bipartite`` is 0; those of V have 1.
    sign : str, optional
        Edge attribute whose value gives the sign.
    positive_from : float, optional
        As :func:`from_numpy`.

    Raises
    ------
    GraphError
        For a node of no layer, an edge within a layer, or an edge without a sign.
    """
    nodes = list(graph.nodes)
    sides: list[Any] = [side for _, side in graph.nodes(data="bipartite")]
    if kind == "bipartite":
        layer_u = _layer_u(graph, u_nodes)
        sides = [node not in layer_u for node in nodes]
    place = {node: at for at, node in enumerate(nodes)}
    ends = [(place[a], place[b]) for a, b in graph.edges()]
    names = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    values = None if sign is None else _edge_values(graph, sign)
    return _by_sides(kind, nodes, ends, sides, values, positive_from, "bipartite", names)


def _require_names(names: list[Any]) -> None:
    at = find_missing(label_array(names))
    if at is not None:
        raise GraphError(
            f"vertex {at} has the name {names[at]!r}, which is a missing value; name or remove it"
        )


def _sides_by(attribute: str, sides: list[Any] | None, ends: NDArray[np.int64]) -> Sides:
    """Return evidence of two layers in an attribute of vertices that are read as one set."""
    if sides is None or not len(ends):
        return Sides()
    if any(not isinstance(side, int | np.integer | np.bool_) or side not in (0, 1) for side in sides):
        return Sides()
    in_v = np.array(sides, dtype=bool)
    is_proper = bool((in_v[ends[:, 0]] != in_v[ends[:, 1]]).all())
    return Sides(
        said=f"the attribute {attribute} of its vertices tells two layers apart" if is_proper else ""
    )


def _layer_u(graph: networkx.Graph[Any], u_nodes: Collection[Hashable] | None) -> set[Any]:
    if u_nodes is not None:
        layer = set(u_nodes)
        for node in layer:
            if node not in graph:
                raise GraphError(f"u_nodes holds {node!r}, which is not a node of the graph")
        return layer
    layer = set()
    for node, side in graph.nodes(data="bipartite"):
        if side not in (0, 1):
            raise GraphError(
                f"the node {node!r} has bipartite={side!r}; expected 0 (layer U) or 1 (layer V), or give u_nodes"
            )
        if side == 0:
            layer.add(node)
    return layer


def _edge_values(graph: networkx.Graph[Any], attribute: str) -> list[Any]:
    values = []
    for a, b, value in graph.edges(data=attribute):
        if value is None:
            raise GraphError(f"the edge ({a!r}, {b!r}) has no attribute {attribute!r}")
        values.append(value)
    return values


@checked
def from_igraph(
    graph: Any,
    *,
    kind: GraphKind = "bipartite",
    sign: str | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read a graph of igraph: U are the vertices whose attribute ``type`` is false, names are labels.

    Vertices without the attribute ``name`` have their igraph ids as labels. Directions and parallel edges are merged.

    Parameters
    ----------
    sign : str, optional
        Edge attribute whose value gives the sign.

    Raises
    ------
    GraphError
        For a bipartite graph without the attribute ``type``, an edge within a layer, or an edge without a sign.
    """
    attributes = graph.vs.attributes()
    names = list(graph.vs["name"]) if "name" in attributes else list(range(graph.vcount()))
    if sign is not None and sign not in graph.es.attributes():
        raise GraphError(f"the edges have no attribute {sign!r}")
    values = None if sign is None else list(graph.es[sign])
    sides = list(graph.vs["type"]) if "type" in attributes else None
    return _by_sides(kind, names, graph.get_edgelist(), sides, values, positive_from)


@checked
def from_graph_tool(
    graph: Any,
    *,
    kind: GraphKind = "bipartite",
    sign: str | None = None,
    positive_from: float | None = None,
) -> LabelledGraph:
    """Read a graph of graph-tool, or a view of one, by its internal property maps; parameters and errors as igraph's.

    U are the vertices whose property ``type`` (or ``bipartite``) is 0 or false; labels are the property ``name``, else
    the indices of the vertices.
    """
    maps = graph.vertex_properties
    layer = next((maps[name] for name in ("type", "bipartite") if name in maps), None)
    wanted = [each for each in (maps.get("name"), layer) if each is not None]
    rows = [[int(row[0]), *row[1:]] for row in graph.iter_vertices([*wanted, graph.vertex_index])]
    place = {row[0]: at for at, row in enumerate(rows)}
    names = [row[1] if "name" in maps else row[0] for row in rows]
    if sign is not None and sign not in graph.edge_properties:
        raise GraphError(f"the edges have no attribute {sign!r}")
    values = None if sign is None else graph.edge_properties[sign]
    found = list(graph.iter_edges([graph.edge_index if values is None else values]))
    return _by_sides(
        kind,
        names,
        [(place[int(edge[0])], place[int(edge[1])]) for edge in found],
        None if layer is None else [row[-2] for row in rows],
        None if values is None else [edge[2] for edge in found],
        positive_from,
    )


def _by_sides(
    kind: GraphKind,
    names: list[Any],
    edges: Sequence[tuple[int, int]],
    sides: list[Any] | None,
    values: list[Any] | None,
    positive_from: float | None,
    attribute: str = "type",
    edge_names: list[tuple[Hashable, ...]] | None = None,
) -> LabelledGraph:
    """Return the graph whose edges join places in ``names``; ``sides``, an ``attribute``, say which are in V."""
    _require_names(names)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    signs = None if values is None else read_signs(label_array(values), positive_from)
    origin = NetworkEdges([(names[a], names[b]) for a, b in edges] if edge_names is None else edge_names)
    if kind == "unipartite":
        result = assemble(kind, ends[:, 0], ends[:, 1], signs, len(names), len(names))
        evidence = _sides_by(attribute, sides, ends)
        return replace(result, labels_u=label_array(names), origin=origin, sides=evidence)
    if sides is None:
        raise GraphError(
            "the vertices have no attribute 'type', which says the layer (False for U, True for V)"
        )
    in_v = np.array([bool(side) for side in sides], dtype=bool)
    inside = in_v[ends[:, 0]] == in_v[ends[:, 1]]
    if bool(inside.any()):
        a, b = ends[int(np.argmax(inside))]
        raise GraphError(
            f"the edge ({names[a]!r}, {names[b]!r}) joins two nodes of layer {'V' if in_v[a] else 'U'}; the graph "
            "is not bipartite"
        )
    ids = np.where(in_v, np.cumsum(in_v), np.cumsum(~in_v)) - 1
    turned = in_v[ends[:, 0]]
    u, v = np.where(turned, ends[:, 1], ends[:, 0]), np.where(turned, ends[:, 0], ends[:, 1])
    result = assemble(kind, ids[u], ids[v], signs, int((~in_v).sum()), int(in_v.sum()))
    labels = [label_array([names[at] for at in np.flatnonzero(in_v == of)]) for of in (False, True)]
    return replace(result, labels_u=labels[0], labels_v=labels[1], origin=origin)
