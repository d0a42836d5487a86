"""Searches that are ended in the middle: they answer soon, for a prefix of the items, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.search.gpu import TreeLauncher
from papilio.motifs import Biclique, Clique, Granularity, MaximalBiclique, MaximalClique, Motif
from papilio.registry import load_engine
from papilio.tasks.forecast import NS, Pace, predict
from papilio.tasks.worker_state import MAX_STEPS, PreparedGraph, find_breakpoints
from tests.kernels.biclique.test_gpu_biclique import EAGER
from tests.kernels.search.test_gpu import CutAfter, ask, assert_same
from tests.tools.devices import cuda_device, emulator


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
    return UnipartiteGraph.from_edges(*copies(n, np.array([u, v])[:, u // 3 != v // 3], (3 * parts, 3 * parts)))


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


class AtLook:
    """A stop check that is true from some look at a run on: the looks are a hundredth of a second apart."""

    def __init__(self, look: int) -> None:
        self.look, self.looks = look, 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.looks > self.look


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_search_ends_soon_and_the_rest_folds_to_the_whole(name: str) -> None:
    """Two searches that are ended do less than the whole one, with what they do in vain."""
    cuda_device()
    make, motif, known = CASES[name]
    engine = load_engine(motif, "gpu")
    prepared = engine.prepare(make(), motif, "total")
    whole = engine.run(prepared, 0, prepared.n_items)
    assert known is None or whole.total == known
    parts = run_cut(engine, prepared, [(), ()], (1, 1))
    assert sum(part.work for part in parts[:2]) < whole.work
    assert_same(reduce(fold_partials, parts), whole)


def run_cut(engine: Any, prepared: Any, bounds: Sequence[Any], looks: Sequence[int]) -> list[Partial]:
    """Run all items, ended at these looks, each time with slices that begin at some bounds; the last part is the rest.

    Each part leaves something to the next one.
    """
    done, n_items, parts = 0, prepared.n_items, list[Partial]()
    for slices, look in zip(bounds, looks, strict=True):
        parts.append(engine.run(prepared, done, n_items, slices, AtLook(look)))
        done += parts[-1].n_items
        assert parts[-1].n_items > 0
        assert done < n_items
    return [*parts, engine.run(prepared, done, n_items)]


@pytest.mark.gpu
def test_a_search_of_heavy_items_ends_soon() -> None:
    """Each item of the dense graph takes the device milliseconds, and there are thousands of warps."""
    cuda_device()
    engine: Any = load_engine(Biclique(6, 6), "gpu")
    prepared = engine.prepare(dense(1, 320, 640), Biclique(6, 6), "total")
    n_items, costs = prepared.n_items, engine.work(prepared)
    held = PreparedGraph(prepared, Pace.even(1.0, 1.0), *find_breakpoints(costs, MAX_STEPS))
    held.foresee(*predict(engine, prepared, 1, held.pace, same_work=False), engine.work(prepared))
    bounds = held.bounds(0, n_items, int(engine.least_slice_s * NS))
    assert len(bounds) > 2
    whole = engine.run(prepared, 0, n_items)
    parts = run_cut(engine, prepared, [bounds] * 3, (5, 40, 80))
    assert sum(part.work for part in parts[:3]) < whole.work
    assert_same(reduce(fold_partials, parts), whole)


def spy_launches(patch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list to which every launch is added from now on."""
    made: list[Any] = []
    find = TreeLauncher._make_launches

    def listen(launcher: TreeLauncher, chosen: Any) -> Any:
        launched = find(launcher, chosen)
        made.extend(launched)
        return launched

    patch.setattr(TreeLauncher, "_make_launches", listen)
    return made


SHARING: list[tuple[Motif, Granularity, bool]] = [
    (Biclique(5, 5), "total", True),
    (Biclique(), "total", True),
    (Clique(), "total", True),
    (Clique(4), "edge", True),
    (MaximalBiclique(), "total", True),
    (MaximalClique(), "total", True),
    (Biclique(4, 3), "total", False),
    (Biclique(3, 3), "vertex", False),
]


@pytest.mark.parametrize(
    ("motif", "per", "shares"), SHARING, ids=[f"{motif.title} per {per}" for motif, per, _ in SHARING]
)
def test_slices_of_few_items_are_launches_of_their_own(
    motif: Motif, per: Granularity, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where warps share items; all warps do, however little the items cost."""
    most_finished = "papilio.kernels.search.gpu._MOST_FINISHED"
    monkeypatch.setattr(most_finished, 1)
    engine, prepared = ask(motif, per, replace(EAGER, blocks_per_sm=(16, 16, 16), share_cost=1 << 30))
    n_items = prepared.n_items
    bounds = [3, 4, 9, n_items // 2, n_items - 2]
    whole = engine.run(prepared, 0, n_items)
    with monkeypatch.context() as patch:
        launches = spy_launches(patch)
        assert_same(engine.run(prepared, 0, n_items, bounds), whole)
    pieces = [each.pieces.tolist() for each in launches]
    assert all(max(one) < min(other) for one, other in pairwise(pieces))
    assert (len(launches) >= 3) == shares
    with monkeypatch.context() as patch:
        patch.setattr(most_finished, n_items * launches[0].launch.blocks)
        engine._plans.clear()
        together = spy_launches(patch)
        assert_same(engine.run(prepared, 0, n_items, bounds), whole)
    assert len(together) < len(launches) or not shares
    if shares:
        assert len({each.launch.blocks for each in launches}) == 1
        assert launches[0].launch.blocks > min(map(len, pieces))
    for n_taken in (1, 6, 12):
        with monkeypatch.context() as patch:
            first = engine.run(prepared, 0, n_items, bounds, CutAfter(patch, n_taken))
        rest = engine.run(prepared, first.n_items, n_items, [n_items - 1])
        assert_same(fold_partials(first, rest), whole)


def test_an_item_of_a_long_search_gets_all_warps() -> None:
    """Its cost is worth one block, the time that probes predicted for it is worth them all."""
    engine = BicliqueGpu(emulator(4), "enumerate", "u", replace(EAGER, share_cost=1 << 30))
    prepared = engine.prepare(dense(1, 24, 40), Biclique(5, 4), "total")
    used, totals = [], set()
    for seconds in (0.0, 1e6):
        long = replace(prepared, index=replace(prepared.index, seconds=seconds))
        totals.add(engine.run(long, 0, 1).total)
        used.append(int(np.count_nonzero(engine.block_words)))
    assert len(totals) == 1
    assert used[0] == 1 < used[1]
