"""Statistics of estimates: intervals hold the count as often as they say, and say when they cannot."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.kernels.biclique.cpu import BicliqueCpu
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.probe import cut_strata, draw_items
from papilio.motifs import Biclique
from papilio.tasks import forecast
from papilio.tasks import probe_statistics as estimate
from papilio.tasks.forecast import allocate
from papilio.tasks.probe_statistics import SLICE, Moments, Sample, _up, walk_slice
from tests.conftest import share_of_examples
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph, skewed_graph


def sample_of(rng: np.random.Generator, n: Any, sigma: Any) -> tuple[Moments, float]:
    """Draw log-normal values of strata, with means of 1, 2, ...; return them and the sum of these means."""
    n, sigma = np.asarray(n), np.asarray(sigma)
    means = 1.0 + np.arange(n.size)
    strata = np.repeat(np.arange(n.size), n)
    values = np.exp(rng.normal(-(sigma[strata] ** 2) / 2, sigma[strata])) * means[strata]
    return Moments.of(values, strata, n), float(means.sum())


@pytest.mark.parametrize(
    ("n", "sigma"),
    [((400,), (1.0,)), ((200, 300, 50), (0.5, 1.2, 0.2)), ((2000, 100), (1.5, 0.1))],
)  # fmt: skip
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_hold_the_mean_as_often_as_they_say(
    n: tuple[int, ...], sigma: tuple[float, ...], confidence: float
) -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(1000):
        moments, exact = sample_of(rng, n, sigma)
        low, high = Sample.of(moments, 0).interval(confidence, 0)
        held += low <= exact <= high
    assert abs(held / 1000 - confidence) <= 0.025


def test_slices_add_up_to_the_whole_at_any_scale() -> None:
    rng = np.random.default_rng(1)
    values, strata = rng.lognormal(0, 2, 900) * 10.0 ** rng.integers(0, 60, 900), np.arange(900) % 3
    whole = Sample.of(Moments.of(values, strata, np.full(3, 300)), 7)
    parts = [Moments.of(values[at : at + 300], strata[at : at + 300], np.full(3, 100)) for at in (0, 300, 600)]
    added = Sample.of(parts[0] + parts[1] + parts[2], 7)
    assert (added.probes, added.value) == (900, pytest.approx(whole.value))
    assert added.std_error == pytest.approx(whole.std_error)
    assert added.skewness == pytest.approx(whole.skewness)
    assert added.largest_share == pytest.approx(whole.largest_share)
    large = Sample.of(Moments.of(values * 1e240, strata, np.full(3, 300)), 0)
    assert large.value == pytest.approx((whole.value - 7) * 1e240)
    assert large.skewness == pytest.approx(whole.skewness)


def test_probes_go_where_values_differ() -> None:
    shares = allocate(np.array([0.0, 1.0, 3.0]))
    assert sum(shares) == pytest.approx(1)
    assert shares == pytest.approx((0.25 / 3, 0.25 / 3 + 0.75 / 4, 0.25 / 3 + 0.75 * 3 / 4))
    assert allocate(np.zeros(4)) == (0.25,) * 4


def test_what_few_probes_carry_is_doubted() -> None:
    even = Moments.of(np.ones(4000), np.zeros(4000, np.int64), np.array([4000]))
    assert Sample.of(even, 0).why_unreliable() == ""
    rounded = Moments.of(1.1 + np.arange(4000) % 3 * 1e-15, np.zeros(4000, np.int64), np.array([4000]))
    assert Sample.of(rounded, 0).why_unreliable() == "", "rounding is no doubt"
    heavy = np.ones(4000)
    heavy[17] = 1e6
    doubted = Sample.of(Moments.of(heavy, np.zeros(4000, np.int64), np.array([4000])), 0)
    assert doubted.why_unreliable().startswith(
        "few probes dominate the estimate: 4,000 are equivalent to 1 of equal weight"
    )
    assert doubted.interval(0.95, 3)[0] == 3, "what is known is the least that there is"
    nothing = Sample.of(Moments.of(np.zeros(40), np.zeros(40, np.int64), np.array([40])), 0)
    assert nothing.why_unreliable().startswith("40 probes found none")
    with pytest.raises(CapacityError, match="exceeds 1e308"):
        Sample.exactly(2**2000)


def test_items_are_drawn_each_for_itself() -> None:
    lots = np.array([5.0, 1.0, 1.0, 3.0])
    bounds = np.array([0, 1, 4])
    drawn = draw_items(lots, bounds, np.array([10, 20_000]), 9, independent=True)
    assert set(drawn.items[:10].tolist()) == {0}
    times = np.bincount(drawn.items[10:], minlength=4)[1:]
    assert np.abs(times / 20_000 - np.array([0.2, 0.2, 0.6])).max() < 0.01
    assert len(set(drawn.seeds.tolist())) == drawn.seeds.size
    even = draw_items(lots, bounds, np.array([10, 20_000]), 9)
    assert np.abs(np.bincount(even.items[10:], minlength=4)[1:] / 20_000 - np.array([0.2, 0.2, 0.6])).max() < 1e-3


@pytest.mark.parametrize(
    ("graph", "motif"),
    [
        (skewed_graph(3, 120, 90, 1500), Biclique(3, 3)),
        pytest.param(
            planted_graph(5, 90, 80, blocks=4, block_side=24, noise_edges=400, missing=0.2), Biclique(4, 4),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["skewed", "planted"],
)  # fmt: skip
def test_intervals_of_searches_hold_the_count(graph: Any, motif: Biclique, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a quarter of the probes of a slice, which is less for an interval to go by."""
    monkeypatch.setattr(estimate, "SLICE", SLICE // 4)
    engine = BicliqueCpu(2)
    prepared = engine.prepare(graph, motif, "total")
    exact = engine.run(prepared, 0, prepared.n_items).total
    known, held = engine.prober(prepared).known, 0
    shares = allocate(Sample.of(walk_slice(engine.prober(prepared), (), 1, 0), known).spreads)
    slices = share_of_examples(60)
    for number in range(1, slices + 1):
        sample = Sample.of(walk_slice(engine.prober(prepared), shares, 1, number), known)
        low, high = sample.interval(0.95, known)
        held += low <= exact <= high
        assert SLICE // 4 * 0.9 <= sample.probes <= SLICE // 4 * 1.1
        assert sample.why_unreliable() == ""
    assert held >= {60: 53, 20: 16}[slices]


def test_slices_are_the_same_on_a_device() -> None:
    graph, motif = skewed_graph(3, 30, 25, 200), Biclique(3, 3)
    cpu, gpu = BicliqueCpu(2, "enumerate", "u"), BicliqueGpu(emulator(3), "enumerate", "u")
    one, other = (walk_slice(engine.prober(engine.prepare(graph, motif, "total")), (), 4, 2) for engine in (cpu, gpu))
    for mine, theirs in zip(one, other, strict=True):
        assert np.array_equal(mine, theirs)


def test_nothing_to_search_is_an_empty_slice() -> None:
    engine = BicliqueCpu(1)
    prepared = engine.prepare(skewed_graph(3, 20, 20, 60), Biclique(15, 15), "total")
    sample = Sample.of(walk_slice(engine.prober(prepared), (), 0, 0), 5)
    assert (sample.value, sample.std_error, sample.probes) == (5, 0, 0)
    assert cut_strata(engine.prober(prepared).count_lots).size == 1


def test_a_sum_beyond_floating_point_is_infinite_without_a_warning() -> None:
    assert (_up(0.75, 1100), _up(-0.75, 1100), _up(0.75, 3), _up(0.0, 5000)) == (inf, -inf, 6.0, 0.0)


@pytest.mark.parametrize(("seconds", "probes"), [((6,), "1 probe"), ((1, 6), "64 probes"), ((1, 1, 9), "512 probes")])
def test_no_estimate_begins_where_few_probes_take_seconds(
    seconds: tuple[int, ...], probes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papilio.tasks.forecast.SLOW_PROBES_S", 5.0)
    engine = BicliqueCpu(1)
    graph = planted_graph(5, 90, 80, blocks=4, block_side=24, noise_edges=400, missing=0.2)
    prepared = engine.prepare(graph, Biclique(4, 4), "total")
    clock = iter([at for taken in seconds for at in (0, taken)])
    monkeypatch.setattr(forecast, "run_clock", lambda: next(clock))
    found = rf"{probes} of the search took {seconds[-1]}.0 s, and an estimate needs at least 4\d{{3}}: ask for"
    with pytest.raises(CapacityError, match=found):
        walk_slice(engine.prober(prepared), (), 1, 0)
    assert walk_slice(engine.prober(prepared), (), 1, 1).n.sum() >= SLICE
