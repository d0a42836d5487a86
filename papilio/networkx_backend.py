"""Papilio as a backend of NetworkX: functions of the same meaning are computed here.

``networkx.config.backend_priority = ["papilio"]``, or ``backend="papilio"`` in a call. A graph is converted once, and
kept by NetworkX. What cannot be done here (directed graphs, parallel edges, weights) NetworkX does itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import count as count_from
from pathlib import Path
from typing import Any

import networkx as nx

MIN_EDGES = 10_000
"""Graphs of fewer edges are left to NetworkX, unless the backend is named: starting takes longer than counting."""

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
    """A graph of NetworkX, in the forms that Papilio counts in, which are made when first needed."""

    __networkx_backend__ = "papilio"

    def __init__(self, graph: nx.Graph[Any]) -> None:
        self.nx = graph

    def is_directed(self) -> bool:
        return bool(self.nx.is_directed())

    def is_multigraph(self) -> bool:
        return bool(self.nx.is_multigraph())

    @cached_property
    def unipartite(self) -> Any:
        """All nodes, with their names."""
        from papilio.storage.interop import from_networkx

        return from_networkx(self.nx, kind="unipartite")

    @cached_property
    def bipartite(self) -> Any:
        """Two layers: those that the nodes name, else those of a two-colouring; NetworkXError where there is none."""
        from papilio.storage.interop import from_networkx

        colours = nx.bipartite.color(self.nx)
        return from_networkx(self.nx, u=[node for node, colour in colours.items() if colour])

    def listed(self, motif: Any, containing: Iterable[Node] = ()) -> Iterator[list[Node]]:
        """Yield motifs as lists of nodes, from files that end with the listing."""
        import papilio
        from papilio.storage.answers import listing_batches

        names = list(self.nx)
        ids = {name: i for i, name in enumerate(names)}
        graph, wanted = self.unipartite.graph, [ids[node] for node in containing]
        with tempfile.TemporaryDirectory(prefix="papilio-networkx-") as scratch:
            target = Path(scratch) / "listing"
            papilio.enumerate(graph, motif, output=target, limit=None, containing=wanted)
            for batch in listing_batches(str(target)):
                for row in batch.column("n").to_pylist():
                    yield [names[i] for i in row]


class Backend:
    """The functions; each has the signature and the meaning of the one of NetworkX that it stands for."""

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
        if name in _OF_BIPARTITE:
            return nx.is_bipartite(graph) or "the graph is not bipartite"
        return True

    @staticmethod
    def should_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
        graph = args[0] if args else kwargs["G"]
        size = (graph.nx if isinstance(graph, Graph) else graph).number_of_edges()
        return size >= MIN_EDGES or f"{size} edges are fewer than {MIN_EDGES}"

    @staticmethod
    def robins_alexander_clustering(G: Graph) -> float:
        import papilio

        return papilio.robins_alexander(G.bipartite).value or 0

    @staticmethod
    def latapy_clustering(G: Graph, nodes: Any = None, mode: str = "dot") -> dict[Node, float]:
        import papilio

        if mode not in ("dot", "min", "max"):
            raise nx.NetworkXError("Mode for bipartite clustering must be: dot, min or max")
        found = papilio.latapy_clustering(G.bipartite)
        values: dict[Node, float] = {}
        for layer in ("u", "v"):
            values |= found.values.aligned(layer)[mode]
        wanted = list(G.nx) if nodes is None else nodes
        return {node: 0.0 if values[node] != values[node] else values[node] for node in wanted}

    @staticmethod
    def triangles(G: Graph, nodes: Any = None) -> Any:
        import papilio

        if nodes in G.nx:
            return Backend.triangles(G)[nodes]
        counts = papilio.count(G.unipartite, papilio.Clique(3), per="vertex").vectors.by_id("n").tolist()
        found = dict(zip(G.nx, counts, strict=True))
        return found if nodes is None else {node: found[node] for node in G.nx.nbunch_iter(nodes)}

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


_OF_BIPARTITE = ("robins_alexander_clustering", "latapy_clustering")

backend = Backend()
