"""Work items that are dealt out to several GPUs."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.clique_scale import deal
from papilio.kernels.clique.gpu import CliqueGpu
from papilio.motifs import Clique
from tests.kernels.clique.test_clique import random_graph
from tests.kernels.clique.test_gpu_clique import EAGER, count
from tests.tools.devices import emulator


@pytest.mark.parametrize("root", ["vertex", "edge"])
def test_what_all_gpus_count_is_the_whole(root: str) -> None:
    engine, graph = CliqueGpu(emulator(1), "pivot", root=root, tuning=EAGER), random_graph(3, 24, 0.5)
    prepared, cells = engine.prepare(graph, Clique(), "total"), Counter[tuple[int, ...]]()
    for number in range(3):
        own = deal(prepared, number, 3)
        assert 0 < own.n_items < prepared.n_items
        cells += Counter(engine.run(own, 0, own.n_items).cells)
    assert cells == count(engine, graph, Clique()).cells
