"""Forecasts of runs: time, rows and bytes with intervals, and the pace of the work items, from probes.

The host walks 64 probes of the items (:mod:`papilio.kernels.probe`), and thousands where the run is long. Their
results and the engine's rates give the number of motifs, and the time of the run and of each stratum of items. These
times, in nanoseconds, are the work of items in plans, leases, slices and progress. If an engine has no probes, or its
costs are exactly its work, its rate alone gives the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from math import exp, inf, log, log1p, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.arguments import plural
from papilio.errors import UnsupportedError
from papilio.kernels.announce import run_clock
from papilio.kernels.engine import MAX_TABLE_ENTRIES, CostTable, Engine, deal_items, find_breakpoints
from papilio.kernels.probe import MAX_FOUND, SEED, Prober, cut_strata, draw_items

NS = 10**9
"""Units of work of a plan in a second: nanoseconds, as predicted for one worker."""

_MAX_NS = 2**61
"""Largest predicted work of all items, 73 years: longer predictions are scaled down to it."""

PILOT, LEAST, MOST = 4, 32, 256
"""Mean number of probes per stratum: of the pilot, and the bounds of further rounds for longer runs. A round replaces
the estimates of the round before, which decide only how long it is, and how its probes are distributed. Few probes see
too little of a search whose work is in rare, large subtrees: each round finds more of it, and may take longer."""

SLOW_PROBES_S, QUICK_PROBE_S = 5.0, 0.02
"""Searches of which one or few probes take as long are not predicted: all would take minutes. If a probe of the
heaviest item is quick, so are all."""

LONG_S = 0.05
"""A count that is predicted to be shorter needs no further round."""

PROBE_SHARE, PROBE_S = 0.02, 0.01
"""All further rounds may take this share of the predicted run and of its standard error, plus this time."""

GOOD_ERROR = 0.05
"""Target for the relative standard error of the prediction."""

RATE_FACTOR = 2.0
"""Rates of probes are right within this factor in nine cases of ten."""

UNPROBED_FACTOR = 3.0
"""The same for a rate if costs are exactly an engine's work."""

TIMED_FACTOR = 2.0
"""The same where one item was timed, and all are alike."""

ROW_BYTES, FIXED_ROW_BYTES = 9.0, 2.4
"""Bytes of a row of any length, and of a row of one length, on disk: a row mostly repeats the one before it, so its
length matters little. Measured: 5.6 to 12.6 on eight graphs with 7 to 53 vertices in a row, 1.2 to 3.6 on six."""

BYTES_FACTOR = 2.0
"""These are right within this factor."""

MEMBER_S = {"cpu": 1.2e-8, "gpu": 2e-9}
"""Seconds to list a vertex of a row, in addition to the search: a thread of a CPU, and a device with its host."""

KNOTS = 256
"""Approximate number of places in the items between which the pace is constant."""

_NORMAL = NormalDist()

_Z = 1.645
"""Standard deviations on either side of an interval of 90 percent."""


@dataclass(frozen=True)
class Range:
    """An estimate, with an interval that holds the true value in about nine cases of ten."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by a factor."""
        return Range(self.value * factor, self.low * factor, self.high * factor)

    def show(self, unit: str = "") -> str:
        """Return the estimate and the interval as text, ``12.3 s (6.1 to 25 s)``."""
        value, low, high = (f"{each:.3g} {unit}".rstrip() for each in (self.value, self.low, self.high))
        return value if low == high else f"{value} ({low} to {high})"

    def at_most(self, limit: float | None) -> Range:
        """Return the range of the smaller of this value and a limit."""
        limit = inf if limit is None else limit
        return Range(min(self.value, limit), min(self.low, limit), min(self.high, limit))

    @property
    def is_wide(self) -> bool:
        """Whether the interval spans more than a factor of ten."""
        return self.high > 10 * self.low


@dataclass(frozen=True)
class Forecast:
    """Predicted time and number of motifs of a run of all items of a graph."""

    probes: int  # 0 if only the engine's rate was used
    reason: str  # why there are no probes; empty if there are some
    seconds: Range | None  # of the run on one worker; None for a search predicted by its rate alone
    rows: Range | None = None  # motifs, which are the rows of a listing
    members: Range | None = None  # vertices of all rows


def predict_bytes(rows: Range, sizes: Iterable[int | None]) -> Range:
    """Return the size of the files of a listing; ``sizes`` are the vertices of each column, None for any number."""
    n_bytes = rows.scaled(ROW_BYTES if None in sizes else FIXED_ROW_BYTES)
    return Range(n_bytes.value, n_bytes.low / BYTES_FACTOR, n_bytes.high * BYTES_FACTOR)


class Pace(NamedTuple):
    """Predicted time of the items, heaviest first, as a function of their costs; arrays of shape (n_knots + 1,)."""

    work: NDArray[np.float64]  # cost of all items before a knot, in the engine's units
    ns: NDArray[np.float64]  # predicted nanoseconds of these items on one worker

    @classmethod
    def even(cls, total: float, speed: float) -> Pace:
        """Return the pace of items that run at ``speed`` units a second."""
        work = np.array([0.0, max(total, 1.0)])
        return cls.of(work, work / speed)

    @classmethod
    def of(cls, work: NDArray[np.float64], seconds: NDArray[np.float64]) -> Pace:
        """Return the pace with these knots: the items before a knot cost ``work`` and take ``seconds``."""
        ns = seconds * float(NS)
        return cls(work, ns * min(1.0, _MAX_NS / max(ns[-1], 1.0)))

    def ns_of(self, work: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Return the nanoseconds of the first items, with total cost ``work``."""
        return np.rint(np.interp(work, self.work, self.ns)).astype(np.int64)

    def ns_at(
        self, items: NDArray[np.int64], work: NDArray[np.int64], costs: NDArray[np.int64], hands: int
    ) -> NDArray[np.int64]:
        """Return the nanoseconds before each breakpoint of items dealt in ``hands``.

        ``items`` and ``work`` are as :func:`find_breakpoints` returns them for ``costs``, the costs of all items.
        """
        if hands == 1:
            return self.ns_of(work)
        rank = deal_items(costs.size, hands)
        by_rank = np.empty_like(costs)
        by_rank[rank] = costs
        ns = np.diff(self.ns_of(np.cumsum(by_rank)), prepend=0)
        return np.concatenate(([0], np.cumsum(ns[rank])))[items]

    def time_table(self, costs: NDArray[np.int64], hands: int = 1) -> CostTable:
        """Return the table of the predicted nanoseconds of items of these costs, as :meth:`CostTable.from_costs`."""
        items, work = find_breakpoints(costs, MAX_TABLE_ENTRIES)
        return CostTable(tuple(items.tolist()), tuple(self.ns_at(items, work, costs, hands).tolist()))


def _share_seen(weighted: NDArray[np.float64]) -> float:
    """Return the share of the true mean that a sample shows, if its upper half is that of a lognormal distribution.

    A small sample misses the rare, large values that make up most of such a mean, and its standard error does not show
    that. If s is the standard deviation of the logarithm, the share of the mean below z deviations is Phi(z - s); n
    values reach to about the quantile 1 - 1/n.
    """
    logs = np.log(weighted[weighted > 0.0])
    if logs.size < 2:
        return 1.0
    middle, upper = np.quantile(logs, (0.5, _NORMAL.cdf(_Z)))
    return max(_NORMAL.cdf(_NORMAL.inv_cdf(1 - 1 / logs.size) - float(upper - middle) / _Z), 1e-3)


class _Sums(NamedTuple):
    """Estimates of one quantity by stratum, and their standard errors; shape (n_strata,)."""

    sums: NDArray[np.float64]
    errors: NDArray[np.float64]
    seen: float = 1.0  # share of the total that so many probes find, see _share_seen

    @classmethod
    def of(cls, weighted: NDArray[np.float64], strata: NDArray[np.int64], n: NDArray[np.int64]) -> _Sums:
        """Add up the weighted results of probes; ``n`` is the number of probes of each stratum, at least 2."""
        weighted = np.minimum(weighted, MAX_FOUND)
        scale = float(weighted.max(initial=0.0)) or 1.0  # no square passes the range of double precision
        small = weighted / scale
        sums: NDArray[np.float64] = np.bincount(strata, small, n.size).astype(np.float64)
        squares = np.bincount(strata, (small - (sums / n)[strata]) ** 2, n.size)
        return cls(scale * sums, scale * np.sqrt(squares * n / (n - 1)), _share_seen(small))

    def range(self, known: float = 0.0, factor: float = 1.0) -> Range:
        """Return the total plus ``known``, which is certain; rates are right within ``factor``."""
        total, error = self.total, self.relative_error
        if not total > 0.0:
            return Range(known, known, known)
        spread = exp(_Z * sqrt(log1p(error**2) + (log(factor) / _Z) ** 2))
        ends = total / spread, total, total * spread / self.seen
        low, value, high = (min(known + each, MAX_FOUND) for each in ends)
        return Range(value, low, high)

    @property
    def total(self) -> float:
        return float(self.sums.sum())

    @property
    def relative_error(self) -> float:
        """Return the standard error of the total by the total; infinite if nothing was found."""
        return float(np.sqrt(((self.errors / self.total) ** 2).sum())) if self.total else inf


def predict(
    engine: Engine,
    prepared: Any,
    threads: int,
    even: Pace,
    *,
    same_work: bool,
    lists: bool = False,
    hands: int = 1,
    limit_s: float | None = None,
) -> tuple[Forecast, Pace]:
    """Predict the run of all items of a prepared graph on one worker.

    The speed of the probes decides their number, but not their results. ``threads`` is the number of threads that share
    the items: the engine's on CPUs, else 1. ``even`` is the pace by the rate of the engine, used without probes. Set
    ``same_work`` if costs are exactly the engine's work, ``lists`` if motifs are written as rows. Items are dealt in
    ``hands``. Probes end after ``limit_s``.
    """
    if same_work:
        seconds = float(even.ns[-1]) / NS
        spread = Range(seconds, seconds / UNPROBED_FACTOR, seconds * UNPROBED_FACTOR)
        return Forecast(0, "the work is known exactly", spread), even
    try:
        prober = engine.prober(prepared)
        timed_s = prober.time()
        if timed_s is not None:
            seconds, total = max(timed_s / threads, 1e-9), float(even.work[-1])
            spread = Range(seconds, seconds / TIMED_FACTOR, seconds * TIMED_FACTOR)
            return Forecast(0, "one random graph was drawn and counted", spread), Pace.even(total, total / seconds)
        if not prober.costs.any():
            return _nothing(_as_float(prober.known)), even
        return _probe(
            prober, threads, MEMBER_S[engine.name] if lists else 0.0, hands, inf if limit_s is None else limit_s
        )
    except UnsupportedError as error:
        return Forecast(0, str(error), None), even


def _as_float(count: int) -> float:
    """Return a count in floating point, capped like estimates."""
    return float(min(count, int(MAX_FOUND)))


def _nothing(known: float) -> Forecast:
    nothing, rows = Range(0.0, 0.0, 0.0), Range(known, known, known)
    return Forecast(0, "nothing is left to search", nothing, rows)


class _Found(NamedTuple):
    """The results of the probes of one round."""

    took: _Sums  # seconds of one thread
    rows: _Sums
    members: _Sums
    probes: int
    probe_s: float  # mean time of a probe


def find_slow(
    probe: Callable[[NDArray[np.int64], NDArray[np.uint64]], Any],
    items: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    shares: tuple[int, ...],
    limit_s: float = inf,
) -> tuple[int, float] | None:
    """Return a number of probes that take longer than SLOW_PROBES_S, or ``limit_s``, and their seconds; else None.

    Of the heaviest item, and, unless that is quick, of one in so many ``items``. Memory can be short for more.
    Compiling is not counted.
    """

    def take(items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> float:
        began = run_clock()
        probe(items, seeds)
        return run_clock() - began

    most_s = min(SLOW_PROBES_S, limit_s)
    taken_s = take(np.zeros(1, np.int64), np.zeros(1, np.uint64))
    if taken_s >= most_s:
        return 1, taken_s
    if taken_s >= QUICK_PROBE_S:
        for share in shares:
            taken_s = take(items[::share].copy(), seeds[::share].copy())  # code is compiled for contiguous arrays
            if taken_s >= most_s:
                return -(-items.size // share), taken_s
    return None


def _probe(prober: Prober, threads: int, member_s: float, hands: int, limit_s: float) -> tuple[Forecast, Pace]:
    began_s = run_clock()
    rates, costs, lots = prober.rates, prober.costs, prober.lots
    place = np.empty(costs.size, np.int64)
    place[deal_items(costs.size, hands)] = np.arange(costs.size)  # of the items, heaviest first
    costs, lots = costs[place], lots[place]
    bounds = cut_strata(lots)

    def walk(n: NDArray[np.int64], seed: int) -> _Found:
        draws = draw_items(lots, bounds, n, seed)
        began = run_clock()
        found = prober.walk(place[draws.items], draws.seeds)
        probe_s = (run_clock() - began) / draws.items.size
        seconds, motifs, listed = (
            np.minimum(each, MAX_FOUND)  # motifs of all sizes may pass the range of double precision
            for each in (rates.seconds_of(costs[draws.items], found), found.motifs, found.members)
        )
        took, rows, members = (
            _Sums.of(each * draws.weights, draws.strata, n) for each in (seconds + member_s * listed, motifs, listed)
        )
        return _Found(took, rows, members, draws.items.size, probe_s)

    n_strata = bounds.size - 1
    pilot = draw_items(lots, bounds, np.full(n_strata, PILOT), SEED)
    slow = find_slow(prober.walk, place[pilot.items], pilot.seeds, (PILOT,), limit_s)
    if slow is not None:
        raise UnsupportedError(f"{plural(slow[0], 'probe')} of the search took {slow[1]:.1f} s")
    found, spent_s = walk(np.full(n_strata, PILOT), SEED), 0.0
    for seed in count(SEED + 1):
        run_s = found.took.total / threads
        if not member_s and run_s < LONG_S:
            break
        error = max(each.relative_error for each in ((found.took, found.rows) if member_s else (found.took,)))
        needed = max(2 * found.probes / n_strata * (error / GOOD_ERROR) ** 2, LEAST)
        left_s = PROBE_S + PROBE_SHARE * run_s * (1 + min(error, 1.0)) - spent_s
        left_s = min(left_s, limit_s - (run_clock() - began_s))
        affordable = left_s / max(found.probe_s, 1e-9) / n_strata
        n_probes = min(needed, affordable, MOST) * n_strata
        if n_probes < 2 * found.probes:
            break
        shares = np.array(allocate(found.took.errors, even_share=0.5))
        found = walk(np.rint(n_probes * shares).astype(np.int64), seed)
        spent_s += found.probe_s * found.probes
    took = found.took
    run = took._replace(sums=took.sums / threads, errors=took.errors / threads)
    seconds = run.range(rates.begin_s, RATE_FACTOR)
    forecast = Forecast(found.probes, "", seconds, found.rows.range(_as_float(prober.known)), found.members.range())
    return forecast, _find_pace(costs, lots, bounds, took, threads)


def _find_pace(
    costs: NDArray[np.int64], lots: NDArray[Any], bounds: NDArray[np.int64], took: _Sums, threads: int
) -> Pace:
    """Return the pace of items from the probed times of the strata.

    Within a stratum, time is proportional to lots. Strata differ in time per lot partly by chance: the logarithm of
    each is shrunk towards the mean, the more so the larger its error is beside the true differences (James and Stein
    1961).
    """
    knots = np.union1d(bounds, cut_strata(lots, KNOTS))
    ends, work = (np.concatenate(([0.0], np.cumsum(each, dtype=np.float64)[knots[1:] - 1])) for each in (lots, costs))
    at = np.searchsorted(knots, bounds)
    expected = np.diff(ends[at]) * took.total / ends[-1]
    found = (took.sums > 0) & (expected > 0)
    seconds = np.zeros(expected.size)
    if found.any():
        sums, weights = took.sums[found], expected[found]
        levels = np.log(sums / weights)
        mean = np.average(levels, weights=weights)
        errors = np.log1p((took.errors[found] / sums) ** 2)
        differences = max(0.0, float(np.average((levels - mean) ** 2 - errors, weights=weights)))
        levels = mean + (levels - mean) * differences / np.maximum(differences + errors, 1e-300)
        seconds = expected * np.exp(levels.min())  # where probes found nothing
        seconds[found] = weights * np.exp(levels)
    seconds *= took.total / max(float(seconds.sum()), 1e-300) / threads
    ends_s = np.concatenate(([0.0], np.cumsum(np.maximum(seconds, 0.0))))
    return Pace.of(work, np.interp(ends, ends[at], ends_s))


def allocate(spreads: NDArray[np.float64], even_share: float = 0.25) -> tuple[float, ...]:
    """Return the share of the probes of each stratum: most where values differ most (Neyman).

    ``even_share`` of the probes is divided equally, so that no stratum is skipped because few of its probes found
    anything yet.
    """
    even = np.full(spreads.size, 1 / max(spreads.size, 1))
    total = float(spreads.sum())
    if not total > 0.0:
        return tuple(even.tolist())
    return tuple((even_share * even + (1 - even_share) * spreads / total).tolist())
