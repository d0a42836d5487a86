"""Named graphs of the benchmarks, with their right answers and what other systems needed for them.

Files ``bipartite/<name>.txt.gz`` and ``unipartite/<name>.txt.gz`` (lines ``u v ...``, 0-based) are looked for in the
data directory. ``rb1``, ``ru1``, ``rmat``, ``planted``, and names that end in a size are generated:
``complete``, ``pair``, ``nested`` (vertex i of U has the first i + 1 of V), ``crown`` (complete without a matching) and
``dense`` (each vertex of U has half of twice as many vertices, drawn alike). ``hidden-cliques`` is a K18 among 200
communities of 12 vertices, ``hidden-blocks`` a K(12,12) among 80 blocks of 12 x 12: four fifths of the pairs in each
community or block are edges, and 20 edges for each vertex join random ones. ``block-30`` is a
K(30,30) planted in 200 x 200 vertices, of whose pairs a twentieth are edges.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.graphs import rmat_baseline
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.generate import generate_graph
from papilio.storage.graph_models import Planted

__all__ = ["CASES", "Case", "load_graph", "read_columns"]


@dataclass(frozen=True)
class Case:
    """One graph.

    Attributes
    ----------
    name : str
    butterflies : int
        The right answer.
    target_s : float or None
        Our target for the kernels on one H200.
    peers_s : dict of str to float
        What other systems measured for the same phases on one H200 (kernels).
    """

    name: str
    butterflies: int
    target_s: float | None = None
    peers_s: dict[str, float] | None = None


CASES: tuple[Case, ...] = (
    Case("southern-women", 341),
    Case("senate", 25_666_956),
    Case("marvel", 10_709_594),
    Case("movielens-100k", 220_548_028),
    Case("youtube-groupmemberships", 12_540_261, 0.0003, {"IOBufs": 0.00117, "GPU_Bitruss": 0.0036}),
    Case("movielens-1m", 16_671_201_295, 0.0006, {"IOBufs": 0.00156, "GPU_Bitruss": 0.0949}),
    Case("yelp2018", 185_725_582, 0.0005, {"IOBufs": 0.00276, "GPU_Bitruss": 0.0197}),
    Case("complete-2000", comb(2000, 2) ** 2),
    Case("pair-3000000", comb(3_000_000, 2)),
    Case("rb1", 661_283_978_094, 0.024, {"IOBufs": 0.120, "GPU_Bitruss": 1.705}),
)


def read_columns(path: Path) -> NDArray[np.int64]:
    """Return the columns of a compressed file of edges, one in each row."""
    with gzip.open(path, "rb") as file:
        first = file.readline()
        rest = file.read()
    columns = len(first.split())
    return np.array((first + rest).split(), dtype=np.int64).reshape(-1, columns).T


def _generate(kind: str, size: int) -> BipartiteGraph | None:
    """Return the graph of a case that ends in its size; None for another name."""
    u, v = np.indices((2 if kind == "pair" else size, size), np.int32).reshape(2, -1)
    chosen = {"complete": u >= 0, "pair": u >= 0, "nested": v <= u, "crown": v != u}.get(kind)
    if kind == "dense":
        u, v = np.indices((size, 2 * size), np.int32).reshape(2, -1)
        chosen = np.random.default_rng(size).random(u.size) < 0.5
    return None if chosen is None else BipartiteGraph.from_edges(u[chosen], v[chosen])


def _hide(made: type[BipartiteGraph] | type[UnipartiteGraph], n_blocks: int, side: int, hidden: int) -> Any:
    """Return blocks of density 0.8, a complete one of ``hidden`` random vertices a layer, and edges drawn at random."""
    random, n = np.random.default_rng(7), n_blocks * side

    def pairs_of(side: int) -> NDArray[np.int64]:
        pairs = np.indices((side, side)).reshape(2, -1)
        return pairs if made is BipartiteGraph else pairs[:, pairs[0] < pairs[1]]

    blocks = pairs_of(side)[:, None] + side * np.arange(n_blocks)[:, None]
    kept = blocks[:, random.random(blocks.shape[1:]) < 0.8]
    return made.from_edges(
        *np.hstack([kept, random.permutation(n)[pairs_of(hidden)], random.integers(0, n, (2, 20 * n))])
    )


def load_graph(name: str, data: Path) -> Any:
    """Return a graph of either kind; None, with a line on stderr, where its file is not in ``data``."""
    if name == "rb1":
        return BipartiteGraph(*rmat_baseline("bipartite", 21, 19, 30_000_000, 1))
    if name == "ru1":
        n, _, u, v = rmat_baseline("unipartite", 19, 19, 10_000_000, 1)
        return UnipartiteGraph.from_edges(u, v, n)
    if name == "rmat":
        return BipartiteGraph(*rmat_baseline("bipartite", 15, 14, 300_000, 1))
    if name == "planted":
        return generate_graph(Planted(n_u=3_000, n_v=3_000, count=40, size_u=16, size_v=20, noise=90_000), 1)
    if name == "hidden-cliques":
        return _hide(UnipartiteGraph, 200, 12, 18)
    if name == "hidden-blocks":
        return _hide(BipartiteGraph, 80, 12, 12)
    if name == "block-30":
        return generate_graph(Planted(n_u=200, n_v=200, count=1, size_u=30, size_v=30, noise=2_000), 1)
    kind, _, size = name.rpartition("-")
    generated = _generate(kind, int(size)) if size.isdigit() else None
    if generated is not None:
        return generated
    for folder, made in (("bipartite", BipartiteGraph), ("unipartite", UnipartiteGraph)):
        path = data / folder / f"{name}.txt.gz"
        if path.is_file():
            return made.from_edges(*read_columns(path)[:2])
    print(f"{name}: not in {data}, skipped", file=sys.stderr)
    return None
