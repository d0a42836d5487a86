"""Hypothesis strategies for graphs; every law test draws from here."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph


def graph_of(edges: set[tuple[int, int]], n_u: int, n_v: int) -> BipartiteGraph:
    """Return the graph with exactly these edges."""
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return BipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], n_u, n_v)


def edge_list(graph: BipartiteGraph) -> list[tuple[int, int]]:
    """Return the edges as pairs of Python integers, in edge-id order."""
    return list(zip(graph.u.tolist(), graph.v.tolist(), strict=True))


@st.composite
def bipartite_graphs(draw: st.DrawFn, max_side: int = 14) -> BipartiteGraph:
    """Draw a small graph: empty, sparse, dense, with hubs, twins, complete blocks or isolated vertices."""
    n_u = draw(st.integers(0, max_side))
    n_v = draw(st.integers(0, max_side))
    edges: set[tuple[int, int]] = set()
    if n_u and n_v:
        us, vs = st.integers(0, n_u - 1), st.integers(0, n_v - 1)
        edges |= draw(st.sets(st.tuples(us, vs), max_size=4 * max_side))
        for shape in draw(st.lists(st.sampled_from(["hub_u", "hub_v", "block", "twin_u", "twin_v"]), max_size=4)):
            if shape == "hub_u":
                hub = draw(us)
                edges |= {(hub, v) for v in draw(st.sets(vs))}
            elif shape == "hub_v":
                hub = draw(vs)
                edges |= {(u, hub) for u in draw(st.sets(us))}
            elif shape == "block":
                columns = draw(st.sets(vs))
                edges |= {(u, v) for u in draw(st.sets(us)) for v in columns}
            elif shape == "twin_u":
                one, two = draw(us), draw(us)
                edges |= {(two, v) for u, v in edges if u == one}
            else:
                one, two = draw(vs), draw(vs)
                edges |= {(u, two) for u, v in edges if v == one}
    return graph_of(edges, n_u, n_v)


def complete_graph(m: int, n: int) -> BipartiteGraph:
    """Return K(m, n)."""
    return BipartiteGraph.from_edges(np.repeat(np.arange(m), n), np.tile(np.arange(n), m), m, n)


def planted_graph(
    seed: int, n_u: int, n_v: int, blocks: int, block_side: int, noise_edges: int, missing: float
) -> BipartiteGraph:
    """Return bicliques with some edges missing, on a background of random edges."""
    random = np.random.default_rng(seed)
    parts = [np.stack([random.integers(0, n_u, noise_edges), random.integers(0, n_v, noise_edges)], axis=1)]
    for _ in range(blocks):
        us = random.choice(n_u, block_side, replace=False)
        vs = random.choice(n_v, block_side, replace=False)
        block = np.stack([np.repeat(us, block_side), np.tile(vs, block_side)], axis=1)
        parts.append(block[random.random(len(block)) >= missing])
    pairs = np.concatenate(parts)
    return BipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], n_u, n_v)


def skewed_graph(seed: int, n_u: int, n_v: int, n_edges: int, exponent: float = 2.0) -> BipartiteGraph:
    """Return a graph with few hubs and many vertices of low degree, on both layers."""
    random = np.random.default_rng(seed)
    us = (n_u * random.random(n_edges) ** exponent).astype(np.int64)
    vs = (n_v * random.random(n_edges) ** exponent).astype(np.int64)
    return BipartiteGraph.from_edges(us, vs, n_u, n_v)


def relabelled(graph: BipartiteGraph, seed: int) -> tuple[BipartiteGraph, np.ndarray, np.ndarray]:
    """Return the graph under random relabelling, with the new id of every old one."""
    random = np.random.default_rng(seed)
    new_u, new_v = random.permutation(graph.n_u), random.permutation(graph.n_v)
    return (
        BipartiteGraph.from_edges(new_u[graph.u], new_v[graph.v], graph.n_u, graph.n_v),
        new_u,
        new_v,
    )


def graphs_of_all_starts() -> dict[str, BipartiteGraph]:
    """Return graphs with hubs on both layers, twins, tiles, stars, and starts of one to many entries and wedges."""
    return {
        "skewed": skewed_graph(1, 90, 60, 700),
        "planted": planted_graph(2, 40, 150, 3, 9, 120, 0.1),
        "complete": complete_graph(9, 17),
        "two hubs": BipartiteGraph.from_edges(
            np.r_[np.zeros(70, int), np.ones(70, int), np.arange(2, 12)],
            np.r_[np.arange(70), np.arange(70), np.arange(10)],
        ),
    }
