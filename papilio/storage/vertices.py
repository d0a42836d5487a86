"""Graphs as a list of vertices with attributes and a list of edges: of NetworkX, igraph, graph-tool, and of files."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from papilio.errors import GraphError, InputError
from papilio.graph import GraphKind
from papilio.storage.evidence import note_unused
from papilio.storage.labelled import (
    LabelledGraph,
    NetworkEdges,
    assemble,
    find_missing,
    label_array,
    read_signs,
)
from papilio.storage.layers import defining_attribute, find_layers
from papilio.storage.sides import Sides
from papilio.storage.where import Condition, arrow_column

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True)
class Vertices:
    """The vertices of a graph in one list, and its edges."""

    names: list[Any]
    ends: Sequence[tuple[int, int]]  # positions in ``names``
    attributes: Mapping[str, Sequence[Any]]  # of the vertices; None for a missing value
    edge_names: list[tuple[Hashable, ...]] | None = None  # by default pairs of names
    edge_values: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # attributes of the edges
    directed: bool = False

    @classmethod
    def of_networkx(cls, graph: networkx.Graph[Any]) -> Self:
        """Return the nodes and edges of a NetworkX graph."""
        nodes = list(graph.nodes)
        place = {node: at for at, node in enumerate(nodes)}
        names = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
        ends = [(place[edge[0]], place[edge[1]]) for edge in names]
        vertices, edges = ([data for *_, data in each] for each in (graph.nodes(data=True), graph.edges(data=True)))
        return cls(nodes, ends, _by_name(vertices), names, _by_name(edges), graph.is_directed())

    @classmethod
    def of_igraph(cls, graph: Any) -> Self:
        """Return the vertices and edges of an igraph graph."""
        attributes = {name: list(graph.vs[name]) for name in graph.vs.attributes()}
        names = attributes.pop("name", None) or list(range(graph.vcount()))
        values = {name: list(graph.es[name]) for name in graph.es.attributes()}
        directed = bool(graph.is_directed())
        return cls(names, graph.get_edgelist(), attributes, edge_values=values, directed=directed)

    @classmethod
    def of_graph_tool(cls, graph: Any) -> Self:
        """Return the vertices and edges of a graph-tool graph or view, with its internal property maps."""
        maps = [dict(each.items()) for each in (graph.vertex_properties, graph.edge_properties)]
        rows = [[int(row[0]), *row[1:]] for row in graph.iter_vertices([*maps[0].values(), graph.vertex_index])]
        place = {row[0]: at for at, row in enumerate(rows)}
        attributes = {name: [row[1 + at] for row in rows] for at, name in enumerate(maps[0])}
        names = attributes.pop("name", None) or [row[0] for row in rows]
        edges = list(graph.iter_edges([*maps[1].values(), graph.edge_index]))
        values = {name: [edge[2 + at] for edge in edges] for at, name in enumerate(maps[1])}
        ends = [(place[int(edge[0])], place[int(edge[1])]) for edge in edges]
        return cls(names, ends, attributes, edge_values=values)

    def with_edges(self, kept: Sequence[int]) -> Self:
        """Return the same vertices with some of the edges, by their places."""
        return replace(
            self,
            ends=[self.ends[at] for at in kept],
            edge_names=None if self.edge_names is None else [self.edge_names[at] for at in kept],
            edge_values={name: [values[at] for at in kept] for name, values in self.edge_values.items()},
        )


def _by_name(rows: list[dict[Any, Any]]) -> dict[str, list[Any]]:
    """Return the values of rows by key; None for a missing value."""
    found: dict[str, list[Any]] = {}
    for at, data in enumerate(rows):
        for name, value in data.items():
            if isinstance(name, str):
                found.setdefault(name, [None] * len(rows))[at] = value
    return found


def from_vertices(
    vertices: Vertices,
    kind: GraphKind,
    u: str | Collection[Hashable] | None,
    sign: str | None,
    positive_from: float | None,
    where: Sequence[Condition] = (),
) -> LabelledGraph:
    """Return the graph of some vertices and edges; see :func:`papilio.storage.layers.find_layers`.

    ``where`` are conditions on attributes of the edges. All edges show the layers, and all vertices are kept.
    """
    names = vertices.names
    _require_distinct(names)
    at = find_missing(label_array(names))
    if at is not None:
        raise GraphError(f"vertex {at} has the name {names[at]!r}, a missing value; name the vertex or remove it")
    every = ends = np.array(vertices.ends, dtype=np.int64).reshape(-1, 2)
    n_filtered = 0
    if where:
        kept = _kept_edges(vertices, where)
        n_filtered = int(kept.size - np.count_nonzero(kept))
        vertices = vertices.with_edges(np.flatnonzero(kept).tolist())
        ends = ends[kept]
    pairs = vertices.edge_names or [(names[a], names[b]) for a, b in vertices.ends]
    signs = None if sign is None else read_signs(_edge_values(vertices, sign, pairs), positive_from)
    origin = NetworkEdges(names=pairs)
    notes = (note_unused(["weight"]),) if signs is None and "weight" in vertices.edge_values else ()
    if kind == "unipartite":
        if u is not None:
            raise InputError("u names the nodes of layer U, but a unipartite graph has no layers; leave it out")
        result = _with_filtered(assemble(kind, ends[:, 0], ends[:, 1], signs, len(names), len(names)), n_filtered)
        defining = defining_attribute(ends, vertices.attributes)
        said = "" if defining is None else f"the attribute {defining} of its vertices defines two layers"
        return replace(result, labels_u=label_array(names), origin=origin, sides=Sides(said=said), notes=notes)
    in_v, layers = find_layers(names, every, vertices.attributes, u, directed=vertices.directed)
    ids = np.where(in_v, np.cumsum(in_v), np.cumsum(~in_v)) - 1
    turned = in_v[ends[:, 0]]
    left, right = np.where(turned, ends[:, 1], ends[:, 0]), np.where(turned, ends[:, 0], ends[:, 1])
    result = assemble(kind, ids[left], ids[right], signs, int((~in_v).sum()), int(in_v.sum()))
    result = _with_filtered(result, n_filtered)
    labels = [label_array([names[at] for at in np.flatnonzero(in_v == of)]) for of in (False, True)]
    return replace(result, labels_u=labels[0], labels_v=labels[1], origin=origin, layers=layers, notes=notes)


def _with_filtered(result: LabelledGraph, n_filtered: int) -> LabelledGraph:
    return replace(result, dropped={**result.dropped, "filtered": n_filtered}) if n_filtered else result


def _kept_edges(vertices: Vertices, where: Sequence[Condition]) -> NDArray[np.bool_]:
    """Return which edges meet all conditions, shape (k,); InputError for an attribute that no edge has."""
    kept = np.ones(len(vertices.ends), bool)
    for condition in where:
        values = vertices.edge_values.get(str(condition.column))
        if values is None and kept.size:
            known = ", ".join(map(repr, vertices.edge_values)) or "none"
            raise InputError(f"where={condition.text!r}: the edges have no such attribute; they have {known}")
        found = condition.mask(arrow_column(list(values or ())))
        if found is None:
            raise InputError(
                f"the attribute {condition.column!r} of the edges does not hold numbers only, so "
                f"where={condition.text!r} does not apply"
            )
        kept &= found
    return kept


def _edge_values(vertices: Vertices, attribute: str, pairs: Sequence[tuple[Hashable, ...]]) -> NDArray[Any]:
    """Return an attribute of the edges, shape (k,); GraphError if an edge has no value."""
    values = vertices.edge_values.get(attribute)
    if values is None and pairs:
        known = ", ".join(map(repr, vertices.edge_values)) or "none"
        raise GraphError(f"the edges have no attribute {attribute!r}; they have {known}")
    found = list(values or ())
    missing = next((at for at, value in enumerate(found) if value is None), None)
    if missing is not None:
        ends = ", ".join(map(repr, pairs[missing][:2]))
        raise GraphError(f"the edge ({ends}) has no attribute {attribute!r}")
    return label_array(found)


def _require_distinct(names: list[Any]) -> None:
    """Raise GraphError if two vertices have the same name: values by name would lose one of them."""
    first: dict[Any, int] = {}
    for at, name in enumerate(names):
        if first.setdefault(name, at) != at:
            raise GraphError(
                f"vertices {first[name]} and {at} have the same name {name!r}; make the names distinct, or remove them"
            )
