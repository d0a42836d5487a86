"""Searches that are ended in the middle, on a GPU: they answer soon, for a prefix of the items, and nothing is lost."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest

from papilio.families import load_engine
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import fold_partials
from papilio.motifs import Biclique, Clique, MaximalBiclique, MaximalClique, Motif
from tests.tools.devices import cuda_device


def copies(n: int, ends: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """Return the edges of so many disjoint copies of a graph, shape (2, n x edges)."""
    shift = np.arange(n)[:, None, None] * np.array(sizes)[None, :, None]
    return (ends[None] + shift).transpose(1, 0, 2).reshape(2, -1)


def crowns(n: int, side: int) -> BipartiteGraph:
    """Return copies of a complete graph without a matching, which has 2^side - 2 maximal bicliques."""
    u, v = np.indices((side, side)).reshape(2, -1)
    return BipartiteGraph.from_edges(*copies(n, np.array([u, v])[:, u != v], (side, side)))


def dense(n: int, n_u: int, n_v: int) -> BipartiteGraph:
    u, v = np.nonzero(np.random.default_rng(3).random((n_u, n_v)) < 0.5)
    return BipartiteGraph.from_edges(*copies(n, np.array([u, v]), (n_u, n_v)))


def thirds(n: int, parts: int) -> UnipartiteGraph:
    """Return copies of the graph of Moon and Moser with 3^parts maximal cliques."""
    u, v = np.triu_indices(3 * parts, 1)
    return UnipartiteGraph.from_edges(
        *copies(n, np.array([u, v])[:, u // 3 != v // 3], (3 * parts, 3 * parts))
    )


def thick(n: int, side: int) -> UnipartiteGraph:
    u, v = np.triu_indices(side, 1)
    chosen = np.random.default_rng(4).random(u.size) < 0.8
    return UnipartiteGraph.from_edges(*copies(n, np.array([u, v])[:, chosen], (side, side)))


CASES: dict[str, tuple[Any, Motif, int | None]] = {
    "bicliques": (lambda: dense(400, 100, 200), Biclique(6, 6), None),
    "maximal bicliques": (lambda: crowns(1500, 18), MaximalBiclique(), 1500 * (2**18 - 2)),
    "cliques": (lambda: thick(150, 130), Clique(11), None),
    "maximal cliques": (lambda: thirds(3000, 13), MaximalClique(), 3000 * 3**13),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_search_ends_soon_and_the_rest_folds_to_the_whole(name: str) -> None:
    cuda_device()
    make, motif, known = CASES[name]
    engine = load_engine(motif, "gpu")
    prepared = engine.prepare(make(), motif, "total")
    n_items = prepared.n_items
    engine.run(prepared, 0, n_items)
    began = perf_counter()
    whole = engine.run(prepared, 0, n_items)
    took = perf_counter() - began
    assert known is None or whole.total == known
    done, parts, began = 0, [], perf_counter()
    while done < n_items and len(parts) < 2:
        ends_at = perf_counter() + took / 8
        parts.append(
            engine.run(prepared, done, n_items, (), lambda ends_at=ends_at: perf_counter() > ends_at)
        )  # type: ignore[misc]
        done += parts[-1].n_items
    assert 0 < done < n_items, f"a quarter of {took:.3f} s did all items"
    assert perf_counter() - began < took + 0.2
    parts.append(engine.run(prepared, done, n_items))
    folded = parts[0]
    for part in parts[1:]:
        folded = fold_partials(folded, part)
    assert (folded.total, folded.cells, folded.checksum) == (whole.total, whole.cells, whole.checksum)
    print(f"{name}: {took:.3f} s, {n_items} items, cuts after {[part.n_items for part in parts]}")
