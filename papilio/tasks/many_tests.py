"""Many p-values at once, and the precision of a single one.

Corrections for m tests with the sorted p-values p(1) <= ... <= p(m):

* Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995): the least of m p(i) / i over all i from the rank of a test on.
* Benjamini and Yekutieli (Ann. Stat. 29, 2001): the same times 1 + 1/2 + ... + 1/m, whatever the tests have in common.
* Holm (Scand. J. Stat. 6, 1979): the largest of (m - i + 1) p(i) over all i up to the rank; any error is as unlikely.

The interval of a p-value is Clopper and Pearson's (Biometrika 26, 1934), of the probability that a random graph has a
count at least as extreme.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
"""Of all intervals."""

_HALVINGS = 60


class Corrected(NamedTuple):
    """Corrected p-values of tests; float64 of shape (n_tests,), NaN for p-values that are NaN, which are no tests."""

    hochberg: Floats
    yekutieli: Floats
    holm: Floats


def correct(p_values: Floats) -> Corrected:
    """Correct p-values for their number."""
    none = np.full(p_values.size, np.nan)
    found = Corrected(none, none.copy(), none.copy())
    tests = np.flatnonzero(~np.isnan(p_values))
    if not tests.size:
        return found
    order = tests[np.argsort(p_values[tests], kind="stable")]
    m, ranked, ranks = tests.size, p_values[order], np.arange(1, tests.size + 1)
    q_values = np.minimum.accumulate((ranked * (m / ranks))[::-1])[::-1]
    found.hochberg[order] = np.minimum(q_values, 1.0)
    found.yekutieli[order] = np.minimum(q_values * (1.0 / ranks).sum(), 1.0)
    found.holm[order] = np.minimum(np.maximum.accumulate(ranked * (m + 1 - ranks)), 1.0)
    return found


def _at_least(successes: int, n: int, chance: float) -> float:
    """Return the probability of ``successes`` of n, or more."""
    if successes <= 0 or chance >= 1.0:
        return 1.0
    if chance <= 0.0:
        return 0.0
    is_upper = successes > n * chance
    k = successes if is_upper else successes - 1
    first = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(chance) + (n - k) * log1p(-chance)
    odds, term, total = chance / (1.0 - chance), 1.0, 1.0
    while term > 1e-17 * total and (k < n if is_upper else k > 0):
        term *= odds * (n - k) / (k + 1) if is_upper else k / (odds * (n - k + 1))
        k += 1 if is_upper else -1
        total += term
    found = exp(first) * total
    return min(found, 1.0) if is_upper else max(1.0 - found, 0.0)


def _solve(successes: int, n: int, probability: float) -> float:
    """Return the chance of a success for which so many of n, or more, have a probability."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _at_least(successes, n, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def interval_of_share(successes: int, n: int) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of the chance of a success, from n tries."""
    outside = (1.0 - CONFIDENCE) / 2
    low = 0.0 if successes == 0 else _solve(successes, n, outside)
    high = 1.0 if successes == n else _solve(successes + 1, n, 1.0 - outside)
    return low, high
