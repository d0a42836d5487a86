"""R-MAT graphs with the random stream on which published baselines were measured; NumPy alone.

The stream equals ``numpy.random.default_rng(seed).random(edges, dtype=numpy.float32)``, called once per level of the
recursion: level after level, each over all edges. It is reproduced here in blocks of edges (PCG64 can jump), with
integer comparisons and on several threads, so that memory stays close to the size of the result.

    python -m benchmarks.graphs bipartite 21 19 3e7 1 rb1.npy    # 1,017,049 x 374,241, 28,200,008 edges
    python -m benchmarks.graphs unipartite 19 19 1e7 1 ru1.npy   # 9,144,391 edges
"""

from __future__ import annotations

import argparse
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.random import PCG64
from numpy.typing import NDArray

__all__ = ["rmat_baseline"]

A, B, C = 0.57, 0.19, 0.19
"""Quadrant probabilities of the baselines; the fourth is 0.05."""

_BLOCK = 1 << 20
_LOW = 0xFFFFFFFF


def _float32_threshold(probability: float) -> np.uint32:
    """Smallest 24-bit k with ``float32(k / 2^24) >= float32(probability)``: random float32s are such k / 2^24."""
    return np.uint32(math.ceil(float(np.float32(probability)) * 2**24))


def _words32(seed: int, start: int, n: int) -> NDArray[np.uint32]:
    """Words [start, start + n) of the 32-bit stream of ``default_rng(seed)``, low half of each raw word first."""
    source = PCG64(seed)
    source.advance(start // 2)
    raw: NDArray[np.uint64] = source.random_raw((start % 2 + n + 1) // 2)
    return raw.astype("<u8", copy=False).view("<u4")[start % 2 : start % 2 + n]


def _draw_block(scale_u: int, scale_v: int, edges: int, seed: int, start: int, stop: int) -> NDArray[np.int64]:
    """Keys ``u << 32 | v`` of the draws [start, stop), in the order drawn."""
    at_a, at_ab, at_abc = (_float32_threshold(p) for p in (A, A + B, A + B + C))
    u = np.zeros(stop - start, dtype=np.int64)
    v = np.zeros(stop - start, dtype=np.int64)
    for level in range(max(scale_u, scale_v)):
        x = _words32(seed, level * edges + start, stop - start) >> np.uint32(8)
        below = x >= at_ab
        if level < scale_u:
            u <<= 1
            u |= below
        if level < scale_v:
            v <<= 1
            v |= (x >= at_a) ^ below | (x >= at_abc)
    u <<= 32
    u |= v
    return u


def _compact(ids: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """New ids of the vertices in use, in the old order, shape (size,), and their number."""
    used = np.zeros(size, dtype=bool)
    used[ids] = True
    return np.cumsum(used) - 1, int(np.count_nonzero(used))


def rmat_baseline(
    kind: str, scale_u: int, scale_v: int, edges: int, seed: int, *, workers: int | None = None
) -> tuple[int, int, NDArray[np.int32], NDArray[np.int32]]:
    """Return the R-MAT graph of a published baseline, bit for bit.

    Parameters
    ----------
    kind : {"bipartite", "unipartite"}
        Unipartite: ends in ascending order, self loops removed; ``scale_v`` equals ``scale_u``.
    scale_u, scale_v : int
        2^scale vertices per layer before those without edges are removed.
    edges : int
        Draws; duplicates are removed.
    seed : int
    workers : int, optional
        Threads; by default one per CPU.

    Returns
    -------
    n_u, n_v : int
        Layer sizes (the same number twice for a unipartite graph); no vertex is isolated.
    u, v : ndarray of int32, shape (n_edges,), host
        Edges sorted by (u, v).
    """
    if kind not in ("bipartite", "unipartite"):
        raise ValueError(f"kind is {kind!r}; expected 'bipartite' or 'unipartite'")
    keys = np.empty(edges, dtype=np.int64)

    def fill(start: int) -> None:
        stop = min(start + _BLOCK, edges)
        keys[start:stop] = _draw_block(scale_u, scale_v, edges, seed, start, stop)

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        list(pool.map(fill, range(0, edges, _BLOCK)))
    if kind == "unipartite":
        u, v = keys >> 32, keys & _LOW
        proper = u != v
        keys = (np.minimum(u, v) << 32 | np.maximum(u, v))[proper]
    keys.sort()
    first = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    keys = keys[first]
    u, v = keys >> 32, keys & _LOW
    if kind == "unipartite":
        new, n = _compact(np.concatenate((u, v)), 1 << max(scale_u, scale_v))
        return n, n, new[u].astype(np.int32), new[v].astype(np.int32)
    new_u, n_u = _compact(u, 1 << scale_u)
    new_v, n_v = _compact(v, 1 << scale_v)
    return n_u, n_v, new_u[u].astype(np.int32), new_v[v].astype(np.int32)


def main() -> None:
    """Write an int64 array of shape (n_edges, 2)."""
    parser = argparse.ArgumentParser(description="Write an R-MAT graph of a published baseline as .npy pairs")
    parser.add_argument("kind", choices=["bipartite", "unipartite"])
    parser.add_argument("scale_u", type=int)
    parser.add_argument("scale_v", type=int)
    parser.add_argument("edges", type=lambda text: int(float(text)), help="draws, such as 3e7")
    parser.add_argument("seed", type=int)
    parser.add_argument("output", help="path of the .npy file")
    options = parser.parse_args()
    n_u, n_v, u, v = rmat_baseline(options.kind, options.scale_u, options.scale_v, options.edges, options.seed)
    np.save(options.output, np.stack((u, v), axis=1).astype(np.int64))
    print(f"{options.output}: {n_u} x {n_v} vertices, {u.size} edges")


if __name__ == "__main__":
    main()
