"""Estimates of counts from probes: the probes of one task, and the statistics of all probes.

Items are drawn independently within each stratum, in proportion to their lots. Each probe of an item estimates the
count of its stratum, and so does the mean over the probes of a stratum; the estimate of the count is the sum of these
means. Its variance and third moment are computed from the strata.

Every slice of probes has the same share of every stratum, so any number of slices gives an estimate. The result of a
slice depends only on its number and the seed, so the estimate is the same for any number of workers.

Probes of a search are skewed: few are heavy, and whether some were drawn moves both the mean and its error. Intervals
follow Hall (J. R. Stat. Soc. B 54, 1992), whose cubic transform removes the skewness from the ratio of the two; the
quantiles are Student's, with degrees of freedom from the fourth moment.

That needs a finite variance. The heaviest probes show whether there is one: the shape of a generalized Pareto
distribution fitted to them is below 1/2 (Vehtari et al., J. Mach. Learn. Res. 25, 2024). If it is not, no upper end of
an interval can be trusted, as the heaviest branches may not have been met. The lower end of such an answer holds for
any nonnegative estimates: by their product, a bet against a smaller count (Waudby-Smith and Ramdas, J. R. Stat. Soc. B
86, 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import cbrt, ceil, copysign, exp, frexp, inf, isfinite, ldexp, log, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.errors import CapacityError
from papilio.kernels.announce import run_clock
from papilio.kernels.engine import EngineName
from papilio.kernels.exact import mix
from papilio.kernels.probe import Draws, Prober, cut_strata, draw_items
from papilio.tasks.forecast import find_slow
from papilio.tasks.job import JobSpec, digest

STRATA = 32
"""Largest number of strata of work items."""

SLICE = 4096
"""Approximate number of probes in a task."""

LEAST_SLICES = 2
"""Slices of the first estimate: a pilot, not part of it, decides how many more are needed."""

SPARE, DOUBTS = 1.1, 3.0
"""Probes to walk per predicted probe, at least, and the standard errors of a pilot's variance to allow for: most
samples then reach the error at once."""

DOUBTFUL = 8.0
"""Least degrees of freedom of the error of a pilot: fewer are an accident."""

MOST_NEEDED = 1e12
"""Largest number of slices to ask for."""

BEYOND_FLOATS = "the count exceeds 1e308, the range of floating point: count it instead"
"""Reason for the lack of an estimate."""

GOOD_PROBES, GOOD_SHARE, GOOD_SKEWNESS = 100.0, 0.1, 1.0
"""An estimate is reliable if its probes are worth at least this many of equal weight, none carries more than this
share, and the skewness of the estimate is at most this."""

GOOD_TAIL, GOOD_FREEDOM = 0.5, 200.0
"""Largest shape of the tail of a reliable estimate, unless the variance has this many degrees of freedom: then it is
known well enough, and large shapes come from a few values that occur often. The first is of theory, the second was
chosen on the graphs of benchmarks/results/estimate.md."""

EVEN = 1e-6
"""Errors below this share of an estimate are rounding errors, whose skewness is meaningless. No interval is narrower,
as draws are rounded, too."""

HEAVIEST = 1024
"""Number of heaviest probes that are kept, for the shape of their tail."""

LEAST_TAIL, PRIOR = 5, 10
"""Number of values in the shortest tail, and the number of values that the prior of its shape is worth."""

BATCHES, MOST_BATCHES = 16, 1 << 14
"""Independent estimates in which the probes of a slice are counted, for the lower end of an unreliable answer, and the
largest number that is kept."""

STAKES = np.array([0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95])
"""Shares of the capital in the bets of these estimates; the capital is divided equally among them."""

TINY = 1e-12
"""Smallest mean of batches to consider, as a share of the largest batch."""

_POWERS = (1, 2, 3, 4)


class Moments(NamedTuple):
    """Sums over probes of each stratum; arrays of shape (n_strata,).

    A value is a probe's estimate of the count of its whole stratum, times 2^-scale, to keep powers in range.
    """

    slices: int  # whole ones
    scale: int
    n: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    cubes: NDArray[np.float64]
    fourths: NDArray[np.float64]
    largest: NDArray[np.float64]
    heaviest: NDArray[np.float64]  # value / n x all probes of the slice, of HEAVIEST probes at most; ascending
    n_positive: int  # probes that found anything
    batches: NDArray[np.float64]  # independent estimates of the count, some for each slice

    @classmethod
    def of(
        cls, values: NDArray[np.float64], strata: NDArray[np.int64], n: NDArray[np.int64], *, is_whole: bool = True
    ) -> Moments:
        """Return the sums over the probes of a slice; ``n`` is the number of probes in each stratum."""
        most = float(values.max(initial=0.0))
        scale = frexp(most)[1] if isfinite(most) else 0
        small = np.ldexp(values, -scale)
        largest = np.zeros(n.size)
        np.maximum.at(largest, strata, small)
        one, two, three, four = (np.bincount(strata, small**k, n.size).astype(np.float64) for k in _POWERS)
        parts = small / n[strata] * n.sum()
        return cls(
            int(is_whole),
            scale,
            n.astype(np.float64),
            one,
            two,
            three,
            four,
            largest,
            np.sort(parts[parts > 0.0])[-HEAVIEST:],
            int(np.count_nonzero(parts)),
            _add_batches(small, strata, n),
        )

    def __add__(self, other: Any) -> Moments:
        """Add the probes of another slice."""
        scale = max(self.scale, other.scale)
        one, two = self._scaled(scale), other._scaled(scale)
        return Moments(
            one.slices + two.slices,
            scale,
            one.n + two.n,
            one.sums + two.sums,
            one.squares + two.squares,
            one.cubes + two.cubes,
            one.fourths + two.fourths,
            np.maximum(one.largest, two.largest),
            np.sort(np.concatenate((one.heaviest, two.heaviest)))[-HEAVIEST:],
            one.n_positive + two.n_positive,
            _halve(np.concatenate((one.batches, two.batches))),
        )

    def _scaled(self, scale: int) -> Moments:
        down = self.scale - scale
        one, two, three, four = (np.ldexp(each, k * down) for k, each in zip(_POWERS, self[3:7], strict=True))
        largest, heaviest, batches = (np.ldexp(each, down) for each in (self.largest, self.heaviest, self.batches))
        return Moments(self.slices, scale, self.n, one, two, three, four, largest, heaviest, self.n_positive, batches)


def _add_batches(values: NDArray[np.float64], strata: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return independent estimates of the count: each has its own probes of every stratum, one or more."""
    size = min(BATCHES, int(n.min(initial=BATCHES)))
    order = np.argsort(strata, kind="stable")
    places = np.arange(strata.size) - np.repeat(np.cumsum(n) - n, n)
    cells = strata[order] * size + places % max(size, 1)
    sums, counts = (np.bincount(cells, weights, n.size * size) for weights in (values[order], None))
    batches: NDArray[np.float64] = (sums / counts).reshape(n.size, size).sum(axis=0)
    return batches


def _halve(batches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of pairs of batches if there are too many."""
    if batches.size <= MOST_BATCHES:
        return batches
    even = batches.size // 2 * 2
    return np.concatenate((batches[:even].reshape(-1, 2).mean(axis=1), batches[even:]))


def fit_tail(heaviest: NDArray[np.float64], n_positive: int) -> float:
    """Return the shape of the tail of positive values, whose moments of order 1 / shape and more are infinite.

    ``heaviest`` holds the largest of ``n_positive`` values, ascending. Three times the root of their number, at most a
    fifth, are fitted by a generalized Pareto distribution (Zhang and Stephens, Technometrics 51, 2009), with a weak
    prior at 1/2 as in Vehtari et al. Minus infinity if there is no tail: they are alike.
    """
    m = min(int(3 * sqrt(n_positive)), n_positive // 5, heaviest.size - 1)
    if m < LEAST_TAIL or not isfinite(heaviest[-1]):
        return -inf
    excess = heaviest[-m:] - heaviest[-m - 1]
    n = np.count_nonzero(excess > EVEN * heaviest[-1])
    if n < LEAST_TAIL:
        return -inf
    excess = excess[-n:] / excess[-1]
    grid = 30 + int(sqrt(n))
    rates = 1 + (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * excess[int(n / 4 + 0.5) - 1])
    rates = rates[rates != 0.0]
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    likelihoods = n * (np.log(-rates / shapes) - shapes - 1)
    weights = np.exp(likelihoods - likelihoods.max())
    rate = float((rates * weights).sum() / weights.sum())
    return (float(np.log1p(-rate * excess).sum()) + PRIOR * GOOD_TAIL) / (n + PRIOR)


class Sample(NamedTuple):
    """The estimate of a count from probes, with the part that is counted exactly."""

    value: float
    std_error: float
    skewness: float  # of the estimate
    freedom: float  # degrees of freedom of its error (Satterthwaite)
    probes: int
    effective: float  # equivalent number of probes of equal weight
    largest_share: float  # of the estimate, carried by the heaviest probe
    tail: float  # shape of the tail of its probes, see fit_tail
    batches: NDArray[np.float64]  # independent estimates of what probes find
    # standard deviation of a probe in each stratum, relative to the estimate; shape (n_strata,)
    spreads: NDArray[np.float64]

    @classmethod
    def of(cls, found: Moments, known: int) -> Sample:
        """Return the estimate of a count that includes ``known`` certain motifs."""
        n = np.maximum(found.n, 1.0)
        means = found.sums / n
        second = np.maximum(found.squares / n - means**2, 0.0)
        third = found.cubes / n - 3 * means * found.squares / n + 2 * means**3
        fourth = (found.fourths - 4 * means * found.cubes + 6 * means**2 * found.squares) / n - 3 * means**4
        free = np.maximum(n - 1, 1.0)
        variance = float((second / free).sum())
        doubt = float((np.maximum(fourth - second**2, 0.0) / n**3).sum())  # variance of the variance
        total = float(means.sum())
        weights = float((found.squares / n**2).sum())
        value = (known if known.bit_length() < 1024 else inf) + _up(total, found.scale)
        with np.errstate(over="ignore"):
            batches = np.ldexp(found.batches, found.scale)
        return cls(
            value=value,
            std_error=_up(sqrt(variance), found.scale),
            skewness=float((third / n / free).sum()) / variance**1.5 if variance > 0 else 0.0,
            freedom=2 * variance**2 / doubt if doubt > 0 else inf,
            probes=int(found.n.sum()),
            effective=total**2 / weights if weights > 0 else 0.0,
            largest_share=float((found.largest / n).max(initial=0.0)) / total if total > 0 else 0.0,
            tail=fit_tail(found.heaviest, found.n_positive),
            batches=batches,
            spreads=np.sqrt(second * n / free) / max(_up(value, -found.scale), 1e-300),
        )

    @classmethod
    def exactly(cls, count: int) -> Sample:
        """Return an exact count as a sample; CapacityError beyond floating point."""
        if count.bit_length() > 1023:
            raise CapacityError(BEYOND_FLOATS)
        return cls(float(count), 0.0, 0.0, inf, 0, 0.0, 0.0, -inf, np.zeros(0), np.zeros(0))

    def interval(self, confidence: float, known: int) -> tuple[float, float]:
        """Return the interval that holds the count with this probability; its lower end is at least ``known``."""
        if self.std_error <= EVEN * self.value:
            return max(self.value * (1 - EVEN), float(known)), self.value * (1 + EVEN)
        t = _student(NormalDist().inv_cdf(0.5 + confidence / 2), self.freedom)
        low, high = (self.value - self.std_error * _unskewed(x, self.skewness) for x in (t, -t))
        return max(low, float(known)), high

    def at_least(self, confidence: float, known: int) -> float:
        """Return a number that the count exceeds with this probability, however skewed the probes are.

        If the mean of the batches is m, a gambler who stakes a share s of the capital on each gains the factor
        1 + s (batch / m - 1), 1 on average, and seldom multiplies the capital by 1 / (1 - confidence): with probability
        1 - confidence at most (Ville 1939), whenever the probes end. The number is the m at which the bets gain that.
        """
        most = float(self.batches.max(initial=0.0))
        if not 0.0 < most < inf:
            return float(known)
        goal, gains = -log(1 - confidence), self.batches / most

        def gained(mean: float) -> float:
            capitals = np.log1p(STAKES[:, None] * (gains / mean - 1)).sum(axis=1)
            return float(np.logaddexp.reduce(capitals)) - log(STAKES.size)

        low, high = log(TINY), 0.0  # no factor exceeds 1 if the mean is the largest batch
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if gained(exp(middle)) >= goal else (low, middle)
        return known + most * exp(low)

    def slices_needed(self, shares: tuple[float, ...], error: float, confidence: float) -> int:
        """Return the approximate number of slices with these shares for an interval of this relative half-width."""
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        variance = float((self.spreads**2 / np.array(shares)).sum())
        spare = max(SPARE, 1 + DOUBTS * sqrt(2 / max(self.freedom, DOUBTFUL)))
        return ceil(min(spare * variance * (z / error) ** 2 / SLICE, MOST_NEEDED))

    def why_unreliable(self) -> str:
        """Return why few probes may carry the estimate; empty if they do not."""
        if not self.effective:
            return f"{self.probes:,} probes found none: there are few or none; count them instead"
        few = self.effective < GOOD_PROBES or self.largest_share > GOOD_SHARE
        is_heavy = self.tail >= GOOD_TAIL and self.freedom < GOOD_FREEDOM
        if few or ((abs(self.skewness) > GOOD_SKEWNESS or is_heavy) and self.std_error > EVEN * self.value):
            return (
                f"few probes dominate the estimate: {self.probes:,} are equivalent to {self.effective:,.0f} of equal "
                f"weight, the heaviest is {self.largest_share:.1%} of it, and the shape of their tail is "
                f"{self.tail:.2f}; heavier ones may be missing, and the count larger: choose a smaller error, allow "
                f"more seconds, or count exactly"
            )
        return ""


def _up(value: float, scale: int) -> float:
    """Return value x 2^scale, infinite beyond floating point."""
    try:
        return ldexp(value, scale)
    except OverflowError:
        return copysign(inf, value)


def _student(z: float, freedom: float) -> float:
    """Return the quantile of Student's distribution where the normal one has ``z`` (Abramowitz and Stegun 26.7.5)."""
    freedom = max(freedom, 3.0)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _unskewed(z: float, skewness: float) -> float:
    """Return the quantile of a mean over its error, where the transformed one has the normal quantile ``z``."""
    if abs(skewness) < 1e-6:
        return z
    skewness = min(max(skewness, -3.0), 3.0)
    return 3 / skewness * (cbrt(1 + skewness * (z - skewness / 6)) - 1)


@dataclass(frozen=True)
class ProbeTask:
    """Walk the probes of one slice."""

    job: JobSpec
    engine: EngineName
    run_id: str  # identifies one call; results are never shared between calls
    number: int  # of the slice, from 0 on
    seed: int  # of the call
    costs_digest: str  # hash of the costs of all items in the plan: the worker must have the same items
    shares: tuple[float, ...] = ()  # of each stratum; empty for equal shares
    limit_s: float | None = None  # time after which no more probes begin
    attempt: int = 0  # how many times the task was dispatched before

    @property
    def key(self) -> str:
        parts = [getattr(self, each.name) for each in fields(self) if each.name != "job"]
        return f"papilio-probe-{digest([self.job.identity, *parts])}"

    def __str__(self) -> str:
        return f"probes of slice {self.number}"


class ProbeResult(NamedTuple):
    """The result of the probes of a slice."""

    number: int
    moments: Moments
    known: int  # motifs that no probe finds, see :class:`papilio.kernels.probe.Prober`
    worker: str


def walk_slice(
    prober: Prober, shares: tuple[float, ...], seed: int, number: int, limit_s: float | None = None
) -> Moments:
    """Return the results of about ``SLICE`` probes, divided among the strata by their shares, at least two each.

    After ``limit_s`` seconds no more begin: the probes so far count, if there are two in each stratum; none, otherwise.
    CapacityError if a pilot is too slow: the first slice, on which all others depend.
    """
    lots = np.asarray(prober.count_lots)
    bounds = cut_strata(lots, STRATA)
    even = np.full(bounds.size - 1, 1 / max(bounds.size - 1, 1))
    n = np.maximum(np.rint(SLICE * (np.array(shares) if shares else even)), 2).astype(np.int64)
    if not n.size or not float(lots.sum()) > 0.0:
        return Moments.of(np.zeros(0), np.zeros(0, np.int64), 0 * n)
    start = int(mix(np.array([seed ^ number << 40], np.uint64))[0])
    drawn = draw_items(lots, bounds, n, start, independent=True)
    if limit_s is not None:
        found, walked = _count_until(prober, drawn, n, limit_s)
    else:
        slow = find_slow(prober.count, drawn.items, drawn.seeds, (64, 8)) if number == 0 else None
        if slow is not None:
            raise _too_slow(*slow, drawn.items.size)
        found, walked = prober.count(drawn.items, drawn.seeds), np.ones(drawn.items.size, np.bool_)
    values = found * drawn.weights * n[drawn.strata]
    counts = np.bincount(drawn.strata[walked], minlength=n.size)
    if counts.min() < 2:
        if number == 0:
            raise _too_slow(int(counts.sum()), limit_s or 0.0, 2 * n.size, "allow more seconds, ")
        counts, walked = 0 * counts, walked & False
    return Moments.of(values[walked], drawn.strata[walked], counts, is_whole=bool(walked.all()))


def _too_slow(probes: int, taken_s: float, least: int, advice: str = "") -> CapacityError:
    return CapacityError(
        f"{plural(probes, 'probe')} of the search took {taken_s:.1f} s, and an estimate needs at least {least}: "
        f"{advice}ask for smaller sizes, or leave out the vertices of the highest degrees"
    )


def _count_until(
    prober: Prober, drawn: Draws, n: NDArray[np.int64], limit_s: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Walk probes until the time is over, and return their results, and which were walked; of all strata alike."""
    places = np.arange(drawn.items.size) - np.repeat(np.cumsum(n) - n, n)
    order = np.argsort(np.where(places < 2, places - 2.0, places / n[drawn.strata]), kind="stable")
    found, walked = np.zeros(order.size), np.zeros(order.size, np.bool_)
    began, done, taken_s = run_clock(), 0, 0.0
    while done < order.size and (not done or taken_s < limit_s):
        affordable = (limit_s - taken_s) * done / max(taken_s, 1e-9)
        chosen = order[done : done + max(1, int(min(done, affordable)))]
        found[chosen] = prober.count(drawn.items[chosen], drawn.seeds[chosen])
        walked[chosen] = True
        done, taken_s = done + chosen.size, run_clock() - began
    return found, walked
