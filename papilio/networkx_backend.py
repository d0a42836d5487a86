"""Papilio as a backend of NetworkX: equivalent functions are computed here.

``networkx.config.backend_priority = ["papilio"]``, or ``backend="papilio"`` in a call. A graph is converted once, and
NetworkX keeps the converted graph. Directed graphs, parallel edges and small questions stay with NetworkX.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sized
from functools import cached_property
from itertools import count as count_from
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

MIN_EDGES = 10_000
"""Graphs of fewer edges are left to NetworkX, unless the backend is named: starting takes longer than counting."""

MIN_SHARE = 0.1
"""Questions about a smaller share of the nodes are left to NetworkX, which visits only these nodes; Papilio reads the
whole graph."""

Node = Hashable


def get_info() -> dict[str, Any]:
    """Return the description of the backend for NetworkX."""
    names = [name for name in vars(Backend) if not name.startswith(("_", "can_", "should_", "convert_"))]
    return {
        "backend_name": "papilio",
        "project": "papilio",
        "package": "papilio",
        "short_summary": "Exact counts of dense motifs, on GPUs and CPUs.",
        "functions": {name: {} for name in sorted(names)},
    }


class Graph:
    """A graph of NetworkX, in the forms used by Papilio, which are created when first needed."""

    __networkx_backend__ = "papilio"

    def __init__(self, graph: nx.Graph[Any]) -> None:
        self.nx = graph

    def is_directed(self) -> bool:
        return bool(self.nx.is_directed())

    def is_multigraph(self) -> bool:
        return bool(self.nx.is_multigraph())

    @cached_property
    def unipartite(self) -> Any:
        """All nodes; their positions are their ids."""
        from papilio.api.read import read
        from papilio.graph import UnipartiteGraph

        ends = self._ends(self.nx, self.nx.edges())
        return read(UnipartiteGraph.from_edges(ends[0], ends[1], len(self.nx)))

    @cached_property
    def bipartite(self) -> Layered:
        """The layers of a two-colouring; node attributes are ignored, as NetworkX ignores them. NetworkXError for none.

        Which colour becomes which layer matters to no function here, so any colouring will do if there are several.
        """
        return self.layered([node for node, colour in nx.bipartite.color(self.nx).items() if colour])

    def layered(self, u: Collection[Node]) -> Layered:
        """Return the graph with these nodes as layer U."""
        from papilio.api.read import read
        from papilio.graph import BipartiteGraph

        of_u = set(u)
        names = {"u": list(u), "v": [node for node in self.nx if node not in of_u]}
        edges = ((a, b) if a in of_u else (b, a) for a, b in self.nx.edges())
        ends = self._ends([*names["u"], *names["v"]], edges)
        return Layered(read(BipartiteGraph.from_edges(ends[0], ends[1] - len(u), *map(len, names.values()))), names)

    def _ends(self, nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> NDArray[np.int64]:
        """Return the positions of the ends of all edges among the nodes, shape (2, n_edges)."""
        places = {node: at for at, node in enumerate(nodes)}
        ends = np.fromiter((places[node] for edge in edges for node in edge), np.int64)
        return ends.reshape(-1, 2).T

    def by_node(self, values: Mapping[str, Any], nodes: Iterable[Node] | None) -> dict[Node, Any]:
        """Return values of both layers, by id, as a dictionary in the order of ``nodes``, or of all nodes."""
        found: dict[Node, Any] = {}
        for layer, of in values.items():
            found |= zip(self.bipartite.names[layer], of.tolist(), strict=True)
        return {node: found[node] for node in (self.nx if nodes is None else nodes)}

    def chosen(self, values: Iterable[Any], nodes: Any) -> Any:
        """Return the value of one node, or a dictionary of some nodes or all; ``values`` has all nodes in order."""
        found = dict(zip(self.nx, values, strict=True))
        if nodes in self.nx:
            return found[nodes]
        return found if nodes is None else {node: found[node] for node in self.nx.nbunch_iter(nodes)}

    def triangles(self) -> list[int]:
        """Return the number of triangles of every node."""
        import papilio

        counts: list[int] = papilio.count(self.unipartite, papilio.Clique(3), per="vertex").vectors.by_id("n").tolist()
        return counts

    def degrees(self) -> list[int]:
        """Return the number of neighbours of every node, itself not among them."""
        degrees: list[int] = self.unipartite.arrays().degree.tolist()
        return degrees

    def listed(self, motif: Any, containing: Collection[Node] = ()) -> Iterator[list[Node]]:
        """Yield motifs as lists of nodes, in the order of the nodes of the graph."""
        import papilio

        names = list(self.nx)
        ids = {name: i for i, name in enumerate(names)} if containing else {}
        wanted = [ids[node] for node in containing]
        for row in papilio.enumerate(self.unipartite, motif, containing=wanted):
            yield [names[i] for i in row]

    def projected(self, nodes: Collection[Node], weighting: Any = None) -> Projected:
        """Return the pairs of nodes of a layer that share a neighbour."""
        import papilio

        layered = self.layered(nodes)
        rows = papilio.project(layered.graph, "u", min_common=1, weighting=weighting).to_arrow()
        columns = [column.to_numpy() for column in rows.columns]
        order = np.lexsort((columns[1], columns[0]))
        return Projected(self.nx, layered, *(column[order] for column in columns))


class Layered(NamedTuple):
    """A bipartite graph of Papilio, and the nodes of its layers by id."""

    graph: Any
    names: dict[str, list[Node]]


class Projected(NamedTuple):
    """A projection to layer U of a graph: its pairs, by ids in ascending order, with their numbers."""

    network: nx.Graph[Any]
    layered: Layered
    source: NDArray[np.int64]  # as all columns of shape (n_pairs,)
    target: NDArray[np.int64]
    common: NDArray[np.int32]
    weight: NDArray[np.float64] | None = None

    def degrees(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the degrees of both nodes of each pair."""
        degree = self.layered.graph.arrays().degree_u
        return degree[self.source], degree[self.target]

    def to_networkx(self, weights: Any = None) -> nx.Graph[Any]:
        """Return a graph of the nodes with their attributes, and of the pairs."""
        nodes, projected = self.layered.names["u"], nx.Graph()
        projected.graph.update(self.network.graph)
        projected.add_nodes_from((node, self.network.nodes[node]) for node in nodes)
        ends = ([nodes[i] for i in column.tolist()] for column in (self.source, self.target))
        if weights is None:
            projected.add_edges_from(zip(*ends, strict=True))
        else:
            projected.add_weighted_edges_from(zip(*ends, weights.tolist(), strict=True))
        return projected


class Backend:
    """The functions; each has the signature and the meaning of its counterpart in NetworkX."""

    @staticmethod
    def convert_from_nx(graph: nx.Graph[Any], **_: Any) -> Graph:
        return Graph(graph)

    @staticmethod
    def convert_to_nx(result: Any, **_: Any) -> Any:
        return result.nx if isinstance(result, Graph) else result

    @staticmethod
    def can_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
        graph, asked = _read_call(name, args, kwargs)
        if graph.is_directed() or graph.is_multigraph():
            return "directed graphs and parallel edges are left to NetworkX"
        for parameter, why in _LEFT.items():
            if asked.get(parameter):
                return f"{parameter} is {asked[parameter]!r}: {why}"
        if name == "core_number" and nx.number_of_selfloops(graph):
            return "NetworkX reports loops as an error"
        if name in _PROJECTIONS:
            return _can_project(graph, asked["nodes"])
        if name in _ANY_GRAPH and not nx.is_bipartite(graph):
            return "the graph is not bipartite, and NetworkX runs this function on every graph"
        return True

    @staticmethod
    def should_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
        graph, asked = _read_call(name, args, kwargs)
        if graph.number_of_edges() < MIN_EDGES:
            return f"{graph.number_of_edges()} edges are fewer than {MIN_EDGES}"
        if name in _NODE_BY_NODE:
            nodes = asked["nodes"]
            wanted = 1 if nodes in graph else len(nodes) if isinstance(nodes, Sized) else len(graph)
            return wanted >= MIN_SHARE * len(graph) or f"only {wanted} of {len(graph)} nodes are requested"
        return True

    @staticmethod
    def butterflies(G: Graph, nodes: Any = None) -> dict[Node, int]:
        import papilio

        found = papilio.count(G.bipartite.graph, papilio.Butterfly(), per="vertex").vectors
        counts = {layer: found.by_id(layer) for layer in found}
        return G.by_node(counts, None if nodes is None else G.nx.nbunch_iter(nodes))

    @staticmethod
    def robins_alexander_clustering(G: Graph) -> float:
        import papilio

        return papilio.robins_alexander(G.bipartite.graph).value or 0

    @staticmethod
    def latapy_clustering(G: Graph, nodes: Any = None, mode: str = "dot") -> dict[Node, float]:
        import papilio

        graph = G.bipartite.graph
        if mode not in ("dot", "min", "max"):
            raise nx.NetworkXError("Mode for bipartite clustering must be: dot, min or max")
        found = papilio.latapy_clustering(graph).values
        return G.by_node({layer: np.nan_to_num(found.by_id(layer)[mode]) for layer in found}, nodes)

    @staticmethod
    def bipartite_average_clustering(G: Graph, nodes: Any = None, mode: str = "dot") -> float:
        nodes = G.nx if nodes is None else nodes
        found = Backend.latapy_clustering(G, nodes, mode)
        return sum(found[node] for node in nodes) / len(nodes)

    @staticmethod
    def node_redundancy(G: Graph, nodes: Any = None) -> dict[Node, float]:
        from papilio.measures.redundancy import count_redundant_pairs

        nodes = list(G.nx if nodes is None else nodes)
        if any(len(G.nx[node]) < 2 for node in nodes):
            raise nx.NetworkXError(
                "Cannot compute redundancy coefficient for a node that has fewer than two neighbors."
            )
        counts = count_redundant_pairs(G.bipartite.graph.arrays())
        return {node: 2 * n / (d * (d - 1)) for node, n in G.by_node(counts, nodes).items() if (d := len(G.nx[node]))}

    @staticmethod
    def triangles(G: Graph, nodes: Any = None) -> Any:
        return G.chosen(G.triangles(), nodes)

    @staticmethod
    def clustering(G: Graph, nodes: Any = None, weight: None = None) -> Any:
        values = [t and 2 * t / (d * (d - 1)) for t, d in zip(G.triangles(), G.degrees(), strict=True)]
        return G.chosen(values, nodes)

    @staticmethod
    def average_clustering(G: Graph, nodes: Any = None, weight: None = None, count_zeros: bool = True) -> float:
        values = [value for value in Backend.clustering(G, nodes).values() if value or count_zeros]
        return float(sum(values) / len(values))

    @staticmethod
    def transitivity(G: Graph) -> float:
        triangles = sum(G.triangles())
        return triangles and 2 * triangles / sum(d * (d - 1) for d in G.degrees())

    @staticmethod
    def generalized_degree(G: Graph, nodes: Any = None) -> Any:
        import papilio

        edges, found = G.unipartite.arrays(), [Counter[int]() for _ in G.nx]
        counts = papilio.count(G.unipartite, papilio.Clique(3), per="edge").vectors.by_id("edge")
        for u, v, count in zip(edges.u.tolist(), edges.v.tolist(), counts.tolist(), strict=True):
            found[u][count] += 1
            found[v][count] += 1
        return G.chosen(found, nodes)

    @staticmethod
    def square_clustering(G: Graph, nodes: Any = None) -> Any:
        import papilio

        values = papilio.local_clustering(G.unipartite).values.by_id("n")["square"]
        return G.chosen(np.nan_to_num(values).tolist(), nodes)

    @staticmethod
    def find_cliques(G: Graph, nodes: Any = None) -> Iterator[list[Node]]:
        import papilio

        held = [] if nodes is None else list(dict.fromkeys(nodes))
        if any(a not in G.nx or any(b not in G.nx[a] for b in held[:i]) for i, a in enumerate(held)):
            raise ValueError(f"The given `nodes` {nodes} do not form a clique")
        return G.listed(papilio.MaximalClique(), held)

    @staticmethod
    def find_cliques_recursive(G: Graph, nodes: Any = None) -> Iterator[list[Node]]:
        return Backend.find_cliques(G, nodes)

    @staticmethod
    def enumerate_all_cliques(G: Graph) -> Iterator[list[Node]]:
        import papilio

        for k in count_from(1):
            at_least_one = False
            for clique in G.listed(papilio.Clique(k)):
                at_least_one = True
                yield clique
            if not at_least_one:
                return

    @staticmethod
    def k_clique_communities(G: Graph, k: int, cliques: None = None) -> Iterator[frozenset[Node]]:
        import papilio

        if k < 2:
            raise nx.NetworkXError(f"k={k}, k must be greater than 1.")
        names = list(G.nx)
        for each in papilio.communities(G.unipartite, papilio.Clique(k)) if cliques is None else ():
            yield frozenset(names[i] for i in each.ids["n"])

    @staticmethod
    def node_clique_number(G: Graph, nodes: Any = None, cliques: None = None, separate_nodes: bool = False) -> Any:
        import papilio

        sizes = papilio.maximum_clique(G.unipartite, per="vertex").sizes.by_id("n").tolist()
        if nodes is not None and nodes not in G.nx:
            nodes = list(nodes)
            if absent := [node for node in nodes if node not in G.nx]:
                raise nx.NodeNotFound(f"Source {absent[0]} is not in G")
        return G.chosen(sizes, nodes)

    @staticmethod
    def max_weight_clique(G: Graph, weight: str | None = "weight") -> tuple[list[Node], int]:
        import papilio

        found, names = papilio.maximum_clique(G.unipartite), list(G.nx)
        return [names[i] for i in found.members], found.size

    @staticmethod
    def core_number(G: Graph) -> dict[Node, int]:
        import papilio

        numbers = papilio.decompose(G.unipartite, "core", hierarchy=False).vectors.by_id("number").tolist()
        return dict(zip(G.nx, numbers, strict=True))

    @staticmethod
    def projected_graph(B: Graph, nodes: Collection[Node], multigraph: bool = False) -> nx.Graph[Any]:
        return B.projected(nodes).to_networkx()

    @staticmethod
    def weighted_projected_graph(B: Graph, nodes: Collection[Node], ratio: bool = False) -> nx.Graph[Any]:
        pairs = B.projected(nodes)
        return pairs.to_networkx(pairs.common / (len(B.nx) - len(nodes)) if ratio else pairs.common)

    @staticmethod
    def collaboration_weighted_projected_graph(B: Graph, nodes: Collection[Node]) -> nx.Graph[Any]:
        pairs = B.projected(nodes, "hyperbolic")
        return pairs.to_networkx(pairs.weight)

    @staticmethod
    def overlap_weighted_projected_graph(B: Graph, nodes: Collection[Node], jaccard: bool = True) -> nx.Graph[Any]:
        pairs = B.projected(nodes)
        d, e = pairs.degrees()
        return pairs.to_networkx(pairs.common / (d + e - pairs.common if jaccard else np.minimum(d, e)))

    @staticmethod
    def generic_weighted_projected_graph(
        B: Graph, nodes: Collection[Node], weight_function: None = None
    ) -> nx.Graph[Any]:
        return Backend.weighted_projected_graph(B, nodes)


_LEFT = {
    "weight": "weights are left to NetworkX",
    "cliques": "nothing is left to search",
    "multigraph": "parallel edges are left to NetworkX",
    "weight_function": "Python functions are left to NetworkX",
}
"""Parameters with which a call stays with NetworkX, and why."""

_ANY_GRAPH = ("butterflies", "node_redundancy", "robins_alexander_clustering")
"""Functions for bipartite graphs that NetworkX runs on graphs of every kind."""

_PROJECTIONS = tuple(name for name in vars(Backend) if name.endswith("projected_graph"))

_NODE_BY_NODE = (
    "average_clustering", "bipartite_average_clustering", "clustering", "generalized_degree", "latapy_clustering",
    "node_clique_number", "node_redundancy", "square_clustering", "triangles",
)  # fmt: skip
"""Functions in which NetworkX visits only the requested nodes."""


def _read_call(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[nx.Graph[Any], dict[str, Any]]:
    """Return the graph of a call, as NetworkX holds it, and the values of all parameters by name."""
    bound = inspect.signature(getattr(Backend, name)).bind(*args, **kwargs)
    bound.apply_defaults()
    graph = next(iter(bound.arguments.values()))
    return graph.nx if isinstance(graph, Graph) else graph, bound.arguments


def _can_project(graph: nx.Graph[Any], nodes: Any) -> bool | str:
    """Return True, or why ``nodes`` are no layer of the graph: NetworkX projects to any nodes."""
    wanted = set(nodes) if isinstance(nodes, Collection) else set()
    if not wanted or len(wanted) < len(nodes) or len(wanted) == len(graph) or not wanted <= set(graph):
        return "nodes are not a collection of distinct nodes, and some of all"
    if any((a in wanted) == (b in wanted) for a, b in graph.edges()):
        return "nodes are not a layer: an edge has both ends in them, or none"
    return True


backend = Backend()
