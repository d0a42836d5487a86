"""Work items that are divided among several GPUs, and the processes that search them."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import reduce
from typing import Any

import numpy as np
import pytest

from benchmarks import tree_scale
from benchmarks.tree_scale import (
    DIVISIONS,
    Ran,
    ScaleCase,
    Searcher,
    Share,
    balance,
    cut,
    deal,
    list_dealt,
    measure,
    start_gpus,
)
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.clique.gpu import CliqueGpu
from papilio.kernels.clique.maximal_gpu import MaximalCliqueGpu
from papilio.kernels.engine import fold_partials
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu
from papilio.motifs import Biclique, Clique, MaximalBiclique, MaximalClique, Motif
from tests.kernels.clique.test_clique import edges_of, random_graph
from tests.kernels.clique.test_gpu_clique import EAGER
from tests.kernels.maximal.test_gpu_maximal import EAGER as EAGER_MAXIMAL
from tests.kernels.maximal.test_gpu_maximal import dense_graph
from tests.tools.devices import emulator
from tests.tools.oracle_clique import count_cliques

SEARCHES: list[tuple[Callable[[Any], Any], Motif]] = [
    (lambda device: CliqueGpu(device, "pivot", tuning=EAGER), Clique()),
    (lambda device: MaximalCliqueGpu(device, tuning=EAGER), MaximalClique()),
    (BicliqueGpu, Biclique(4, 3)),
    (BicliqueGpu, Biclique(5, 3)),
    (lambda device: MaximalBicliqueGpu(device, tuning=EAGER_MAXIMAL), MaximalBiclique()),
]


class Untimed:
    """A timer of kernels where there is no clock."""

    def __init__(self, device: Any) -> None:
        self.load = device.load

    def __call__(self, *arguments: Any) -> Any:
        return self.load(*arguments)

    def seconds(self) -> tuple[float, dict[str, float]]:
        return 0.0, {}


@pytest.mark.parametrize(
    ("make", "motif", "divide"),
    [(*each, cut) for each in SEARCHES]
    + [(*each, list_dealt) for each in SEARCHES if not isinstance(each[1], MaximalBiclique)],
)
def test_what_all_gpus_count_is_the_whole(make: Any, motif: Motif, divide: Any) -> None:
    graph = (
        random_graph(3, 20, 0.5) if isinstance(motif, Clique | MaximalClique) else dense_graph(3, 18, 14, 0.6)
    )
    searcher = Searcher(make(emulator(1)), graph, motif, Untimed)
    engine, prepared, shares = searcher.engine, searcher.prepared, divide(searcher.costs, 3)
    partials = [
        engine.run(
            prepared if share.turns == 1 else deal(prepared, share.turn, share.turns), share.start, share.stop
        )
        for share in shares
    ]
    folded, whole = reduce(fold_partials, partials), engine.run(prepared, 0, prepared.n_items)
    assert (folded.total, folded.cells, folded.checksum) == (whole.total, whole.cells, whole.checksum)
    assert all(0 < partial.total < whole.total for partial in partials)
    assert [searcher.run(share).total for share in shares] == [partial.total for partial in partials]


def test_the_largest_item_is_found_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = Searcher(
        CliqueGpu(emulator(1), "pivot", tuning=EAGER),
        random_graph(3, 20, 0.5),
        Clique(),
        Untimed,
    )
    words = [searcher.run(Share(item, item + 1)).words for item in range(searcher.costs.size)]
    largest = max(words) / sum(words)
    found, is_item = searcher.find_largest()
    assert is_item
    assert found == pytest.approx(largest)
    monkeypatch.setattr(tree_scale, "_HALVED", 2)
    found, is_item = searcher.find_largest()
    assert not is_item
    assert largest <= found <= 1


class Inline(Executor):
    """A GPU that is this process."""

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*arguments))
        return future


@pytest.mark.parametrize("error", [0, 1])
def test_rows_are_printed_and_a_wrong_count_is_told(
    error: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, device = random_graph(3, 20, 0.5), emulator(1)
    total = count_cliques(20, edges_of(graph))[(4,)] + error
    case = ScaleCase("little", "none", Clique(4), total, {"order": "degree"})
    monkeypatch.setattr(tree_scale, "TimedKernels", Untimed)
    monkeypatch.setattr(ScaleCase, "read", lambda case, data: graph)
    monkeypatch.setattr(
        tree_scale, "load_engine", lambda *_, order, **__: CliqueGpu(device, order=order, tuning=EAGER)
    )
    options = Namespace(data=None, gpus=(1, 3), divisions=list(DIVISIONS), repeats=1)
    assert measure(case, [Inline()] * 3, options) == (error == 0)
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert [row[5] for row in rows[1:]] == ["dealt", "predicted", "timed"]
    assert {row[-2] for row in rows} == {str(total - error)}


class Here(Executor):
    """A GPU whose seconds are the true costs of its items."""

    def __init__(self, true_costs: Any) -> None:
        self.true_costs = true_costs

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        _, share, begin_at = arguments
        future: Future[Any] = Future()
        seconds = float(self.true_costs[share.start : share.stop].sum())
        future.set_result(Ran(begin_at + seconds, seconds, 1, 1))
        return future


def test_intervals_are_moved_until_all_end_together() -> None:
    true_costs = np.linspace(5, 0.1, 1000) ** 3  # where a cost of 1 is predicted for all
    shares = balance(np.ones(1000, np.int64), [Here(true_costs)] * 4)
    seconds = [true_costs[share.start : share.stop].sum() for share in shares]
    assert max(seconds) < 1.05 * sum(seconds) / 4
    assert [shares[0].start, *(share.stop for share in shares)] == [*(share.start for share in shares), 1000]


def test_intervals_are_not_empty_where_one_item_has_all_the_cost() -> None:
    assert cut(np.array([100, 1, 1, 1]), 3) == [Share(0, 1), Share(1, 2), Share(2, 4)]


def test_a_process_that_ends_is_an_error_and_not_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    with start_gpus(1) as (gpu,):
        assert gpu.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result(timeout=120) == "5"
        with pytest.raises(AssertionError):
            gpu.submit(tree_scale._ask, Searcher.run).result(timeout=120)
        with pytest.raises(BrokenProcessPool):
            gpu.submit(os._exit, 3).result(timeout=120)


def test_more_gpus_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(SystemExit, match="2 GPUs are asked for"), start_gpus(2):
        pass
