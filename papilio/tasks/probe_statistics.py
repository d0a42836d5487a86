"""Estimates of counts from probes: the probes of one task, and the statistics of all probes.

Items are drawn independently within each stratum, in proportion to their lots. Each probe of an item estimates the
count of its stratum, and so does the mean over the probes of a stratum; the estimate of the count is the sum of these
means. Its variance and third moment are computed from the strata.

Every slice of probes has the same share of every stratum, so any number of slices gives an estimate. The result of a
slice depends only on its number and the seed, so the estimate is the same for any number of workers.

Probes of a search are skewed: few are heavy, and whether some were drawn moves both the mean and its error. Intervals
follow Hall (J. R. Stat. Soc. B 54, 1992), whose cubic transform removes the skewness from the ratio of the two; the
quantiles are Student's, with degrees of freedom from the fourth moment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import cbrt, ceil, copysign, frexp, inf, isfinite, ldexp, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.errors import CapacityError
from papilio.kernels.engine import EngineName
from papilio.kernels.exact import mix
from papilio.kernels.probe import Prober, cut_strata, draw_items
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

EVEN = 1e-6
"""Errors below this share of an estimate are rounding errors, whose skewness is meaningless."""

_POWERS = (1, 2, 3, 4)


class Moments(NamedTuple):
    """Sums over probes of each stratum; arrays of shape (n_strata,).

    A value is a probe's estimate of the count of its whole stratum, times 2^-scale, to keep powers in range.
    """

    scale: int
    n: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    cubes: NDArray[np.float64]
    fourths: NDArray[np.float64]
    largest: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], strata: NDArray[np.int64], n: NDArray[np.int64]) -> Moments:
        """Return the sums over some probes; ``n`` is the number of probes in each stratum."""
        most = float(values.max(initial=0.0))
        scale = frexp(most)[1] if isfinite(most) else 0
        small = np.ldexp(values, -scale)
        largest = np.zeros(n.size)
        np.maximum.at(largest, strata, small)
        one, two, three, four = (np.bincount(strata, small**k, n.size).astype(np.float64) for k in _POWERS)
        return cls(scale, n.astype(np.float64), one, two, three, four, largest)

    def __add__(self, other: Any) -> Moments:
        """Add the probes of another slice."""
        scale = max(self.scale, other.scale)
        one, two = self._scaled(scale), other._scaled(scale)
        return Moments(
            scale,
            one.n + two.n,
            one.sums + two.sums,
            one.squares + two.squares,
            one.cubes + two.cubes,
            one.fourths + two.fourths,
            np.maximum(one.largest, two.largest),
        )

    def _scaled(self, scale: int) -> Moments:
        down = self.scale - scale
        one, two, three, four = (np.ldexp(each, k * down) for k, each in zip(_POWERS, self[2:6], strict=True))
        return Moments(scale, self.n, one, two, three, four, np.ldexp(self.largest, down))


class Sample(NamedTuple):
    """The estimate of a count from probes, with the part that is counted exactly."""

    value: float
    std_error: float
    skewness: float  # of the estimate
    freedom: float  # degrees of freedom of its error (Satterthwaite)
    probes: int
    effective: float  # equivalent number of probes of equal weight
    largest_share: float  # of the estimate, carried by the heaviest probe
    spreads: NDArray[
        np.float64
    ]  # standard deviation of a probe in each stratum, relative to the estimate; shape (n_strata,)

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
        return cls(
            value=value,
            std_error=_up(sqrt(variance), found.scale),
            skewness=float((third / n / free).sum()) / variance**1.5 if variance > 0 else 0.0,
            freedom=2 * variance**2 / doubt if doubt > 0 else inf,
            probes=int(found.n.sum()),
            effective=total**2 / weights if weights > 0 else 0.0,
            largest_share=float((found.largest / n).max(initial=0.0)) / total if total > 0 else 0.0,
            spreads=np.sqrt(second * n / free) / max(_up(value, -found.scale), 1e-300),
        )

    @classmethod
    def exactly(cls, count: int) -> Sample:
        """Return an exact count as a sample; CapacityError beyond floating point."""
        if count.bit_length() > 1023:
            raise CapacityError(BEYOND_FLOATS)
        return cls(float(count), 0.0, 0.0, inf, 0, 0.0, 0.0, np.zeros(0))

    def interval(self, confidence: float, known: int) -> tuple[float, float]:
        """Return the interval that holds the count with this probability; its lower end is at least ``known``."""
        t = _student(NormalDist().inv_cdf(0.5 + confidence / 2), self.freedom)
        low, high = (self.value - self.std_error * _unskewed(x, self.skewness) for x in (t, -t))
        return max(low, float(known)), high

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
        is_skewed = abs(self.skewness) > GOOD_SKEWNESS and self.std_error > EVEN * self.value
        if self.effective < GOOD_PROBES or self.largest_share > GOOD_SHARE or is_skewed:
            return (
                f"few probes dominate the estimate: {self.probes:,} are equivalent to {self.effective:,.0f} of equal "
                f"weight, and the heaviest is {self.largest_share:.1%} of it; heavier ones may be missing, and the "
                f"count larger: choose a smaller error, or count exactly"
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


def walk_slice(prober: Prober, shares: tuple[float, ...], seed: int, number: int) -> Moments:
    """Return the results of about ``SLICE`` probes, divided among the strata by their shares, at least two each."""
    lots = np.asarray(prober.count_lots)
    bounds = cut_strata(lots, STRATA)
    even = np.full(bounds.size - 1, 1 / max(bounds.size - 1, 1))
    n = np.maximum(np.rint(SLICE * (np.array(shares) if shares else even)), 2).astype(np.int64)
    if not n.size or not float(lots.sum()) > 0.0:
        return Moments.of(np.zeros(0), np.zeros(0, np.int64), 0 * n)
    start = int(mix(np.array([seed ^ number << 40], np.uint64))[0])
    drawn = draw_items(lots, bounds, n, start, independent=True)
    # The first slice is the pilot.
    slow = find_slow(prober.count, drawn.items, drawn.seeds, (64, 8)) if number == 0 else None
    if slow is not None:
        raise CapacityError(
            f"{plural(slow[0], 'probe')} of the search took {slow[1]:.1f} s, and an estimate needs at least "
            f"{drawn.items.size}: ask for smaller sizes, or leave out the vertices of the highest degrees"
        )
    found = prober.count(drawn.items, drawn.seeds)
    return Moments.of(found * drawn.weights * n[drawn.strata], drawn.strata, n)
