"""Papilio as a backend of NetworkX: equivalent functions are computed here.

``networkx.config.backend_priority = ["papilio"]``, or ``backend="papilio"`` in a call. A graph is converted once, and
NetworkX keeps the converted graph. Directed graphs, parallel edges and small questions stay with NetworkX.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sized
from functools import cached_property
from itertools import count as count_from
from typing import Any

import networkx as nx
import numpy as np

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
        from papilio.storage.interop import from_networkx

        return read(from_networkx(self.nx, kind="unipartite").graph)

    @cached_property
    def bipartite(self) -> Any:
        """The layers of a two-colouring; node attributes are ignored, as NetworkX ignores them. NetworkXError for none.

        Which colour becomes which layer matters to no function here, so any colouring will do if there are several.
        """
        from papilio.api.read import read

        colours = nx.bipartite.color(self.nx)
        return read(self.nx, kind="bipartite", u=[node for node, colour in colours.items() if colour])

    def by_node(self, values: Mapping[str, Any], nodes: Iterable[Node] | None) -> dict[Node, Any]:
        """Return values of both layers, by id, as a dictionary in the order of ``nodes``, or of all nodes."""
        found: dict[Node, Any] = {}
        for layer, of in values.items():
            found |= zip(self.bipartite.labels(layer).tolist(), of.tolist(), strict=True)
        return {node: found[node] for node in (self.nx if nodes is None else nodes)}

    def of_all(self, values: Any, nodes: Any) -> Any:
        """Return values of all nodes, by id, as a dictionary of ``nodes``, or of all; the value of a single node."""
        found = dict(zip(self.nx, values.tolist(), strict=True))
        if nodes in self.nx:
            return found[nodes]
        return found if nodes is None else {node: found[node] for node in self.nx.nbunch_iter(nodes)}

    def listed(self, motif: Any, containing: Collection[Node] = ()) -> Iterator[list[Node]]:
        """Yield motifs as lists of nodes."""
        import papilio

        names = list(self.nx)
        ids = {name: i for i, name in enumerate(names)} if containing else {}
        wanted = [ids[node] for node in containing]
        for row in papilio.enumerate(self.unipartite, motif, containing=wanted):
            yield [names[i] for i in row]


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
        graph = args[0] if args else kwargs["G"]
        if graph.is_directed() or graph.is_multigraph():
            return "directed graphs and parallel edges are left to NetworkX"
        graph = graph.nx if isinstance(graph, Graph) else graph
        if name in _FOUR_CYCLES and not nx.is_bipartite(graph):
            return "the graph is not bipartite, and NetworkX counts its cycles of four edges"
        return True

    @staticmethod
    def should_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
        graph = args[0] if args else kwargs["G"]
        graph = graph.nx if isinstance(graph, Graph) else graph
        if graph.number_of_edges() < MIN_EDGES:
            return f"{graph.number_of_edges()} edges are fewer than {MIN_EDGES}"
        nodes = args[1] if len(args) > 1 else kwargs.get("nodes")
        if name in _NODE_BY_NODE:
            wanted = 1 if nodes in graph else len(nodes) if isinstance(nodes, Sized) else len(graph)
            return wanted >= MIN_SHARE * len(graph) or f"only {wanted} of {len(graph)} nodes are requested"
        return True

    @staticmethod
    def butterflies(G: Graph, nodes: Any = None) -> dict[Node, int]:
        import papilio

        found = papilio.count(G.bipartite, papilio.Butterfly(), per="vertex").vectors
        counts = {layer: found.by_id(layer) for layer in found}
        return G.by_node(counts, None if nodes is None else G.nx.nbunch_iter(nodes))

    @staticmethod
    def robins_alexander_clustering(G: Graph) -> float:
        import papilio

        return papilio.robins_alexander(G.bipartite).value or 0

    @staticmethod
    def latapy_clustering(G: Graph, nodes: Any = None, mode: str = "dot") -> dict[Node, float]:
        import papilio

        graph = G.bipartite
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
    def triangles(G: Graph, nodes: Any = None) -> Any:
        import papilio

        return G.of_all(papilio.count(G.unipartite, papilio.Clique(3), per="vertex").vectors.by_id("n"), nodes)

    @staticmethod
    def square_clustering(G: Graph, nodes: Any = None) -> Any:
        import papilio

        return G.of_all(np.nan_to_num(papilio.local_clustering(G.unipartite).values.by_id("n")["square"]), nodes)

    @staticmethod
    def find_cliques(G: Graph, nodes: Any = None) -> Iterator[list[Node]]:
        import papilio

        held = [] if nodes is None else list(dict.fromkeys(nodes))
        if any(b not in G.nx[a] for i, a in enumerate(held) for b in held[:i]):
            raise ValueError(f"The given `nodes` {nodes} do not form a clique")
        return G.listed(papilio.MaximalClique(), held)

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


_FOUR_CYCLES = ("butterflies", "robins_alexander_clustering")
"""Functions that NetworkX runs on graphs of every kind."""

_NODE_BY_NODE = ("bipartite_average_clustering", "latapy_clustering", "square_clustering", "triangles")
"""Functions in which NetworkX visits only the requested nodes."""

backend = Backend()
