"""The pilot of the null model "degrees": samples are as if drawn after many more trades, at no more than they need."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from benchmarks.null_models import MADE, beside_singles, star
from papilio.arguments import plural
from papilio.graph import BipartiteGraph
from papilio.kernels.null.cpu import ChainRandomizer, make_randomizer
from papilio.kernels.null.ensemble import MOST_BIAS, MOST_DOUBLINGS, Ensemble
from papilio.kernels.null.mixing import Pilot, _carry_on, run_pilot
from papilio.kernels.null.models import NullModel
from papilio.kernels.null.small import SmallSamples
from papilio.kernels.project.sampled import SampledProjectionCpu

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu", "progress": False}


def ask(graph: Any, **options: Any) -> Any:
    motif = ("butterfly", {}) if isinstance(graph, BipartiteGraph) else ("clique", {"k": 3})
    return papilio.significance(graph, motif[0], **motif[1], **options, **HERE)


@pytest.mark.parametrize("name", MADE)
def test_samples_are_as_after_400_steps(name: str) -> None:
    graph = MADE[name]()
    found, far = ask(graph, samples=1000), ask(graph, samples=1000, steps=400, seed=1)
    assert found.bias <= MOST_BIAS
    assert not found.warning
    # 0.1 standard deviations, and what two means of so many samples differ by in 999 of 1,000 cases
    assert abs(found.mean - far.mean) <= (0.1 + 3.3 * (2 / 1000) ** 0.5) * far.std


def test_graphs_that_mix_at_once_take_no_more_trades(example_data: Path) -> None:
    for graph in (papilio.read(example_data / "southern-women.txt.gz").arrays(), star()):
        found, plain = ask(graph, samples=100), ask(graph, samples=100, steps=20)
        assert (found.trades, found.samples) == (plain.trades, plain.samples)
        assert plain.bias is None


def test_blocks_take_more_trades_whatever_the_seed() -> None:
    found = ask(beside_singles(), samples=100)
    plain = ask(beside_singles(), samples=100, steps=20)
    assert found.trades >= 2 * plain.trades
    assert found.trades == ask(beside_singles(), samples=100, seed=5).trades
    assert found.to_dict()["trades"] == found.trades
    assert f"of {found.trades // 20} global trades" in str(
        papilio.plan(beside_singles(), "butterfly", samples=100, cluster="inline", engine="cpu")
    )


@pytest.mark.parametrize("is_small", [True, False])
def test_projections_take_as_many_trades_as_counts(is_small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_small:
        monkeypatch.setattr(SmallSamples, "of", lambda *given, **named: None)
    chosen = []
    for samples in (100, 99):
        motif = papilio.Projection("u", significance="degrees", samples=samples)
        prepared = SampledProjectionCpu(2).prepare(beside_singles(), motif, "total")
        chosen.append(prepared.randomizer.trades_per_step)
        assert f"of {plural(chosen[-1], 'global trade')}" in prepared.decisions[1][0]
    assert chosen[0] == ask(beside_singles(), samples=100).trades // 20 > chosen[1]


def test_too_few_samples_have_no_pilot() -> None:
    assert not Ensemble.of("degrees", 99, 0).pilot
    assert Ensemble.of("degrees", 100, 0).pilot
    assert not Ensemble.of("degrees", 100, 0, steps=20).pilot
    assert not Ensemble.of("edges", 100, 0).pilot


class Slow(ChainRandomizer):
    """Chains that keep the graph: they never mix."""

    def __init__(self, graph: Any, model: NullModel) -> None:
        super().__init__(graph, model)
        self.longest = 0

    def _begin(self) -> Any:
        return None

    def _advance(self, state: Any, key: np.uint64, begin: int, end: int) -> None:
        self.longest = max(self.longest, end)

    def _read(self, state: Any) -> Any:
        return self.graph


def test_a_chain_whose_count_falls_slowly_ends_at_the_limit() -> None:
    graph = star()
    randomizer = Slow(graph, NullModel("degrees", 20))
    looks = iter(range(10**6))
    found = run_pilot(randomizer, lambda _: 10**6 - next(looks) % 9, 10**7, np)
    assert isinstance(found, Pilot)
    assert found.doublings <= MOST_DOUBLINGS
    assert randomizer.longest <= randomizer.trades_per_step * 20 << MOST_DOUBLINGS


def test_what_is_left_at_the_end_is_carried_on() -> None:
    stops = [5, 10, 20, 40]
    falling = [(0.5 ** (stop / 5), 0.01) for stop in stops[:-1]]
    assert _carry_on(1.0, falling, stops) == pytest.approx(0.5**8)
    hidden = [falling[0], falling[1], (0.5, 0.6)]  # the last one is noise
    assert _carry_on(1.0, hidden, stops) == pytest.approx(0.5**8)
    assert _carry_on(1.0, [(0.2, 0.3)] * 3, stops) == 0.0
    level = [(0.2, 0.1)] * 3
    assert _carry_on(1.0, level, stops) == 0.2  # it does not fall
    assert all(a > b for a, b in pairwise(_carry_on(1.0, [(x, 0.0)] * 1, [5, 20]) for x in (0.7, 0.5, 0.3)))
    assert ceil(1000 * _carry_on(2.0, [(0.0, 0.0)], [5, 20])) == 0


def test_warnings_name_the_steps_that_would_do() -> None:
    found = ask(star(), samples=100)
    table = {**found.table, found.ensemble.bias_cell: 700}
    doubt = replace(found, table=table).warning
    assert "0.7 standard deviations off" in doubt
    assert "--steps 2560" in doubt


def test_make_randomizer_takes_the_steps_of_the_model() -> None:
    randomizer = make_randomizer(star(), NullModel("degrees", 20))
    assert isinstance(randomizer, ChainRandomizer)
    assert run_pilot(randomizer, lambda graph: graph.n_edges, star().n_edges, np) == Pilot(0, 0.0)
