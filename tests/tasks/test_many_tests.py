"""Corrections and intervals, against SciPy and the definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from papilio.tasks.many_tests import correct, interval_of_share


def test_corrections_are_those_of_scipy_and_of_holm() -> None:
    random = np.random.default_rng(1)
    for n in (1, 2, 7, 100):
        p_values = np.round(random.random(n) ** random.choice([1, 5]), 3).clip(0.001)
        found = correct(p_values)
        assert found.hochberg == pytest.approx(scipy.stats.false_discovery_control(p_values, method="bh"))
        assert found.yekutieli == pytest.approx(scipy.stats.false_discovery_control(p_values, method="by"))
        order = np.argsort(p_values)
        stepped = [min(1.0, max((n - i) * p_values[order[i]] for i in range(at + 1))) for at in range(n)]
        assert found.holm[order] == pytest.approx(stepped)


def test_what_is_no_test_counts_for_nothing() -> None:
    p_values = np.array([0.01, np.nan, 0.02, np.nan])
    found = correct(p_values)
    for each, alone in zip(found, correct(p_values[[0, 2]]), strict=True):
        assert np.isnan(each[[1, 3]]).all()
        assert each[[0, 2]].tolist() == alone.tolist()
    assert np.isnan(correct(np.full(3, np.nan)).holm).all()


@pytest.mark.parametrize("n", [2, 19, 1000, 100_000])
def test_intervals_of_shares_are_those_of_the_beta_distribution(n: int) -> None:
    for successes in sorted({0, 1, n // 50, n // 3, n - 1, n}):
        low, high = interval_of_share(successes, n)
        beta = scipy.stats.beta.ppf
        assert low == pytest.approx(beta(0.025, successes, n - successes + 1) if successes else 0.0)
        assert high == pytest.approx(beta(0.975, successes + 1, n - successes) if successes < n else 1.0)
