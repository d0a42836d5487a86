"""Generate a graph with hidden dense blocks, and see them in the butterfly counts of its vertices.

python examples/generate_planted.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import papilio
from papilio.storage.generate import Planted


def main() -> None:
    """Plant three bicliques K(20, 15) under 30,000 random edges, then look for their 60 vertices in U."""
    model = Planted(n_u=5000, n_v=4000, count=3, size_u=20, size_v=15, noise=30_000)
    with tempfile.TemporaryDirectory() as directory:
        store = papilio.generate(model, Path(directory) / "planted", seed=1)
        print(f"{store.n_u} x {store.n_v} vertices, {store.n_edges:,} edges, hash {store.hash}")
        result = papilio.count(store, papilio.Butterfly(), per="vertex")
    per_vertex = result.vectors["u"]
    planted_alone = 19 * (15 * 14 // 2)
    print(f"{result.count:,} butterflies; a planted vertex is in at least {planted_alone:,}")
    found = np.flatnonzero(per_vertex >= planted_alone)
    print(f"{found.size} vertices of U are in as many; all others in at most {np.delete(per_vertex, found).max()}")


if __name__ == "__main__":
    main()
