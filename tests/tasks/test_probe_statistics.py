"""Statistics of estimates: intervals hold the count as often as they say, and say when they cannot."""

from __future__ import annotations

from itertools import count
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
from papilio.tasks.probe_statistics import EVEN, SLICE, Moments, Sample, _up, fit_tail, walk_slice
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
    values, strata = rng.lognormal(0, 2, 1152) * 10.0 ** rng.integers(0, 60, 1152), np.arange(1152) % 3
    whole = Sample.of(Moments.of(values, strata, np.full(3, 384)), 7)
    parts = [Moments.of(values[at : at + 384], strata[at : at + 384], np.full(3, 128)) for at in (0, 384, 768)]
    added = Sample.of(parts[0] + parts[1] + parts[2], 7)
    assert (added.probes, added.value) == (1152, pytest.approx(whole.value))
    assert added.std_error == pytest.approx(whole.std_error)
    assert added.skewness == pytest.approx(whole.skewness)
    assert added.largest_share == pytest.approx(whole.largest_share)
    large = Sample.of(Moments.of(values * 1e240, strata, np.full(3, 384)), 0)
    assert large.value == pytest.approx((whole.value - 7) * 1e240)
    assert large.skewness == pytest.approx(whole.skewness)
    assert added.tail == pytest.approx(whole.tail)
    assert added.batches.mean() == pytest.approx(whole.value - 7)


def pareto(rng: np.random.Generator, shape: float, n: int) -> np.ndarray:
    """Draw values with a mean of 1, whose tail has this shape: no variance from 1/2 on."""
    return (rng.pareto(1 / shape, n) + 1) * (1 - shape)


def sample_alike(values: np.ndarray) -> Sample:
    return Sample.of(Moments.of(values, np.zeros(values.size, np.int64), np.array([values.size])), 0)


@pytest.mark.parametrize("shape", [0.25, 0.5, 0.8, 1.2])
def test_the_tail_of_a_pareto_distribution_has_its_shape(shape: float) -> None:
    values = np.sort((1 - (np.arange(20_000) + 0.5) / 20_000) ** -shape)
    assert fit_tail(values[-1024:], values.size) == pytest.approx(shape, abs=0.05)
    assert fit_tail(1e-200 * values[-1024:], values.size) == pytest.approx(shape, abs=0.05)


@pytest.mark.parametrize("n", [0, 1, 4, 30, 120, 4000])
def test_values_that_are_alike_have_no_tail(n: int) -> None:
    assert fit_tail(np.ones(n), n) == -inf
    assert fit_tail(np.sort(np.arange(n) % 3 + 1.0), n) == -inf


def test_an_estimate_without_variance_is_not_reliable() -> None:
    """And one whose largest values occur often is, as is one with a light tail."""
    rng = np.random.default_rng(3)
    heavy = [sample_alike(pareto(rng, 0.8, 8192)).why_unreliable() for _ in range(200)]
    assert sum(map(bool, heavy)) >= 195
    light = [sample_alike(rng.lognormal(0, 1, 8192)).why_unreliable() for _ in range(200)]
    assert sum(map(bool, light)) <= 4
    often = [sample_alike(np.where(rng.random(8192) < 0.1, 20.0, rng.random(8192))).why_unreliable() for _ in range(50)]
    assert not any(often)


@pytest.mark.parametrize("shape", [0.2, 0.6, 0.9])
@pytest.mark.parametrize("confidence", [0.8, 0.975])
def test_the_count_is_at_least_the_lower_end_as_often_as_it_says(shape: float, confidence: float) -> None:
    """For tails with or without a variance, few or many slices; and the lower end is not far below the mean."""
    rng, ends = np.random.default_rng(11), []
    for slices in (1, 8):
        for _ in range(200):
            found = [Moments.of(pareto(rng, shape, 64), np.arange(64) % 2, np.array([32, 32])) for _ in range(slices)]
            added = found[0]
            for each in found[1:]:
                added = added + each
            ends.append(Sample.of(added, 3).at_least(confidence, 3))
    assert np.mean(np.array(ends) <= 2 + 3) >= confidence
    assert np.median(ends) >= 3 + 2 * 0.15


def test_no_interval_is_narrower_than_rounding() -> None:
    alike = sample_alike(np.full(4000, 1 / 3) * (1 + 1e-9 * (np.arange(4000) % 2)))
    low, high = alike.interval(0.95, 0)
    assert low <= (1 - EVEN / 2) / 3 < (1 + EVEN / 2) / 3 <= high


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
    beyond = Sample.of(Moments.of(np.full(40, 1.5e308), np.arange(40) % 2, np.array([20, 20])), 0)
    assert (beyond.value, beyond.at_least(0.95, 7)) == (inf, 7)
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


def prepared_prober() -> Any:
    engine = BicliqueCpu(1)
    graph = planted_graph(5, 90, 80, blocks=4, block_side=24, noise_edges=400, missing=0.2)
    return engine.prober(engine.prepare(graph, Biclique(4, 4), "total"))


def test_a_slice_ends_by_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second: a cut slice has walked all strata alike."""
    prober = prepared_prober()
    whole = walk_slice(prober, (), 1, 3)
    walked = []
    for limit_s in (11.5, 14.5, 1000.0):
        clock = count()
        monkeypatch.setattr(estimate, "run_clock", lambda clock=clock: float(next(clock)))
        found = walk_slice(prober, (), 1, 3, limit_s)
        walked.append(found.n.sum())
        assert found.slices == (limit_s == 1000.0)
        assert found.n.min() >= 2
        assert found.n.max() <= found.n.min() + 1
    assert 64 <= walked[0] < walked[1] < walked[2] == whole.n.sum()
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found, whole, strict=True))
    cut = walk_slice(prober, (), 1, 3, 2.5)
    assert (cut.slices, cut.n.sum()) == (0, 0)
    assert (whole + cut).n.sum() == whole.n.sum()
    with pytest.raises(CapacityError, match=r"\d probes of the search took 2.5 s, and .* least 64: allow more seconds"):
        walk_slice(prober, (), 1, 0, 2.5)
