"""P-values of pairs: P(X >= c), where X is the number of common neighbours in a random graph; compiled loops.

With the test "hypergeometric" two vertices of degrees d and e choose their neighbours among n at random. The
probability of one value follows Loader's saddle-point expansion (Fast and accurate computation of binomial
probabilities, 2000), which keeps some 14 digits without tables; the tail is a sum of positive terms by their ratios.

With "expected-degrees" every vertex of the other layer is a common neighbour by itself, with a probability that
depends on its degree (Saracco et al., New J. Phys. 19, 053022, 2017): X is a Poisson-binomial variable, a sum of
binomial ones, one for each degree. Its distribution below a ``top``, and the probability of ``top`` or more, are
computed in two steps, which lose few digits:

1. Degrees of small odds r = p / (1 - p) come together: with the power sums T_i of their odds, the probabilities of
   their sum are k h_k = T_1 h_(k-1) - T_2 h_(k-2) + ... (Newton's identities). The digits that alternating sums cost
   are bounded. With weights t^k, where t makes ``top`` the mean of X, let the largest r t be s, and the mean of the
   group m: rounding errors grow by exp(m s) at most. Groups have s <= 1/16 and m s <= 3.
2. The binomial variables of all other degrees are added one by one: positive terms alone.

Relative errors are below 1e-11, also in the far tail.

Most pairs have the degrees and the common neighbours of another pair: :class:`PValues` keeps what has been computed. A
value does not depend on which others are kept, so that threads fill a table together and without locks.
"""

from __future__ import annotations

from collections import OrderedDict
from math import exp, log, log1p, pi
from threading import Lock
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import xxhash
from numpy.typing import NDArray

from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.search.probe_loops import Floats

TESTS = (None, "hypergeometric", "expected-degrees")
"""Tests of pairs; a question holds the place of its test here."""

_HYPERGEOMETRIC = 1

_TERMS = 16
"""Power sums of a group: the next one would be 1/16^16 of the first at most."""

_MOST_ODDS, _MOST_GROWTH, _MOST_MEAN = 1 / 16, 3.0, 600.0
"""Limits of a group: its largest odds, with and without weights; m s; and its mean, as exp(-mean) must be a number."""

_NEGLIGIBLE = 1e-20
"""Share of a sum from which on its remaining terms, which fall, are left out."""

_UNKNOWN, _LEAST = 0.0, 5e-324
"""P-values in a table: not computed yet, and too small for a float."""


_SHARED: WeakValueDictionary[str, PValues] = WeakValueDictionary()
_SHARED_LOCK = Lock()


class TailQuestion(NamedTuple):
    """The test of all pairs of a layer. Without a test, arrays are empty."""

    test: int  # place in :data:`TESTS`
    n_choices: int  # vertices of the other layer
    classes: NDArray[np.int32]  # by degree: its place among the different degrees, from the lowest on
    chances: Floats  # of edges, by different degrees of both layers, where rows fall; only of "expected-degrees"
    sizes: Ints  # vertices of the other layer, by its different degrees, in the order of the rows

    @classmethod
    def of(cls, test: int, n_choices: int, degrees: Ints, chances: Floats, sizes: Ints) -> TailQuestion:
        """Make the question from the different degrees of the layer, which rise."""
        classes = np.zeros(int(degrees.max(initial=0)) + 1, np.int32)
        classes[degrees] = np.arange(degrees.size)
        return cls(test, n_choices, classes, chances, sizes)


class TailRoom(NamedTuple):
    """Working memory of one thread; see :func:`make_room`."""

    below: Floats  # by common neighbours, from 0 on
    spare: Floats
    binomial: Floats
    odds: Floats  # by degree of the other layer
    powers: Floats
    sums: Floats  # power sums, with signs
    recent: Floats


def make_room(question: TailQuestion) -> TailRoom:
    """Return the working memory of one thread."""
    most, n_others = question.classes.size + 1, question.sizes.size
    return TailRoom(*np.empty((3, most)), *np.empty((2, n_others)), *np.empty((2, _TERMS + 1)))


class PValues:
    """The p-values of a layer, in a table for each different degree: those of its pairs with higher degrees.

    The latest tables are kept, up to ``most_bytes`` and at least one; thread-safe.
    """

    def __init__(self, question: TailQuestion, most_bytes: int) -> None:
        self._question, self._most_bytes = question, most_bytes
        self._tables: OrderedDict[int, Floats] = OrderedDict()
        self._lock, self._bytes = Lock(), 0

    @classmethod
    def shared(cls, question: TailQuestion, most_bytes: int) -> PValues:
        """Return the p-values of a question that this process has already, or none yet: pairs are counted, then listed.

        They live as long as anything that asks.
        """
        digest = xxhash.xxh3_128(repr((question.test, question.n_choices)).encode())
        for each in (question.classes, question.chances, question.sizes):
            digest.update(each.data)
        key = digest.hexdigest()
        with _SHARED_LOCK:
            found = _SHARED.get(key)
            if found is None:
                found = _SHARED[key] = cls(question, most_bytes)
            return found

    def find_table(self, degree: int) -> Floats:
        """Return the table of a degree; entries are computed by :func:`find_p_value`."""
        classes = self._question.classes
        with self._lock:
            if degree in self._tables:
                self._tables.move_to_end(degree)
                return self._tables[degree]
            n_others = 1 + int(classes[-1]) - int(classes[degree])
            table = self._tables[degree] = np.zeros(n_others * (degree + 1))  # memory once it is written
            self._bytes += table.nbytes
            while self._bytes > self._most_bytes and len(self._tables) > 1:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes
            return table


@compiled
def find_p_value(
    question: TailQuestion, table: Floats, room: TailRoom, common: Index, lower: Index, higher: Index
) -> float:  # fmt: skip
    """Return the p-value of a pair by its common neighbours and degrees; ``table`` is that of the lower degree."""
    one, other = np.int64(question.classes[lower]), np.int64(question.classes[higher])
    begin = (other - one) * (lower + 1)
    if table[begin + common] == _UNKNOWN:
        if question.test == _HYPERGEOMETRIC:
            table[begin + common] = max(hypergeometric_tail(common, lower, higher, question.n_choices), _LEAST)
        else:
            first: Index = 0
            top: Index = 7
            while top < common:
                first, top = top + 1, 4 * top + 3
            top = min(top, lower)
            sum_tails(question.chances[one], question.chances[other], question.sizes, top, room)
            for c in range(first, top + 1):
                table[begin + c] = max(room.below[c], _LEAST)
    found = table[begin + common]
    return 0.0 if found == _LEAST else float(found)


@compiled
def _stirling_error(n: float) -> float:
    """Return log(n!) less Stirling's formula, log(sqrt(2 pi n) (n / e)^n)."""
    if n <= 15.0:
        factorial = 1.0
        for k in range(2, int(n) + 1):
            factorial *= k
        return log(factorial) - (n + 0.5) * log(n) + n - 0.5 * log(2 * pi)
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


@compiled
def _deviance(x: float, mean: float) -> float:
    """Return x log(x / mean) + mean - x, also where both are close."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * log(x / mean) + mean - x
    ratio = (x - mean) / (x + mean)
    total, term, square = (x - mean) * ratio, 2 * x * ratio, ratio * ratio
    for j in range(1, 1000):
        term *= square
        larger = total + term / (2 * j + 1)
        if larger == total:
            break
        total = larger
    return total


@compiled
def _log_binomial(x: float, n: float, share: float, rest: float) -> float:
    """Return the logarithm of the probability of x among n at probability ``share``, which is 1 - ``rest``."""
    if x == 0.0:
        return n * (log1p(-share) if share < 0.5 else log(rest)) if n else 0.0
    if x == n:
        return n * (log1p(-rest) if rest < 0.5 else log(share))
    far = _deviance(x, n * share) + _deviance(n - x, n * rest)
    return (
        _stirling_error(n) - _stirling_error(x) - _stirling_error(n - x) - far
        - 0.5 * (log(2 * pi) + log(x) + log1p(-x / n))
    )  # fmt: skip


@compiled
def hypergeometric_tail(common: Index, degree: Index, other: Index, n: Index) -> float:
    """Return P(X >= common), where ``degree`` of n are marked and ``other`` of n are drawn without repetition."""
    least = max(0, degree + other - n)
    if common <= least:
        return 1.0
    if common > min(degree, other):
        return 0.0
    is_upper = common * float(n) > degree * float(other)
    at = common if is_upper else common - 1
    share, rest = other / n, (n - other) / n
    first = exp(
        _log_binomial(float(at), float(degree), share, rest)
        + _log_binomial(float(other - at), float(n - degree), share, rest)
        - _log_binomial(float(other), float(n), share, rest)
    )
    total, term, k = 1.0, 1.0, float(at)
    marked, drawn, spare = float(degree), float(other), float(n - degree - other)
    if is_upper:
        for _ in range(at, min(degree, other)):
            term *= (marked - k) * (drawn - k) / ((k + 1) * (spare + k + 1))
            total += term
            k += 1
            if term < 1e-18 * total:
                break
        return min(first * total, 1.0)
    for _ in range(least, at):
        term *= k * (spare + k) / ((marked - k + 1) * (drawn - k + 1))
        total += term
        k -= 1
        if term < 1e-18 * total:
            break
    return max(1.0 - first * total, 0.0)


@compiled
def sum_tails(one: Floats, other: Floats, sizes: Ints, top: Index, room: TailRoom) -> None:
    """Fill ``room.below`` with P(X >= c) for c from 0 to ``top``, where X is a sum of independent 0s and 1s.

    ``sizes[w]`` of them have the probability ``one[w] * other[w]`` of a 1, and these probabilities fall.
    """
    below, odds, n = room.below, room.odds, len(sizes)
    certain: Index = 0
    first = 0
    while first < n and one[first] * other[first] == 1.0:
        certain += sizes[first]
        first += 1
    if certain >= top:
        below[: top + 1] = 1.0
        return
    n_free = 0
    for w in range(first, n):
        chance = one[w] * other[w]
        odds[w] = chance / (1.0 - chance)
        n_free += sizes[w]
    top -= certain
    weight = _find_weight(odds, sizes, first, n_free, min(float(top), n_free - 0.5))
    group, mean, largest, plain = n, 0.0, 0.0, 0.0
    while group > first:
        largest = odds[group - 1]
        mean += sizes[group - 1] * largest * weight
        plain += sizes[group - 1] * largest
        if max(largest, largest * weight) > _MOST_ODDS or largest * weight * mean > _MOST_GROWTH or plain > _MOST_MEAN:
            break
        group -= 1
    above = _sum_group(sizes, group, top, room)
    for w in range(group - 1, first - 1, -1):
        above = _add_binomial(sizes[w], one[w] * other[w], top, above, room)
    for c in range(top, -1, -1):
        below[certain + c] = min(above, 1.0)
        if c:
            above += room.spare[c - 1]
    below[:certain] = 1.0


@compiled
def _find_weight(odds: Floats, sizes: Ints, first: Index, n_free: Index, goal: float) -> float:
    """Return about the t for which the sum of n r t / (1 + r t), over classes of n 0s and 1s with odds r, is ``goal``.

    Newton's method on log t, until both the 1s and the 0s, of ``n_free``, are a tenth off at most.
    """
    weight = 1.0
    for _ in range(60):
        mean = slope = 0.0
        for w in range(first, len(sizes)):
            share = odds[w] * weight
            share /= 1.0 + share
            mean += sizes[w] * share
            slope += sizes[w] * share * (1.0 - share)
        if abs(goal - mean) <= 0.1 * min(goal, n_free - goal) or slope <= 0.0:
            break
        weight *= exp(min(max((goal - mean) / slope, -1.5), 1.5))
    return weight


@compiled
def _sum_group(sizes: Ints, group: Index, top: Index, room: TailRoom) -> float:
    """Fill ``room.spare[:top]`` with the probabilities of the sum of all classes from one on; return that of more."""
    found, powers, odds, sums, recent, n = room.spare, room.powers, room.odds, room.sums, room.recent, len(sizes)
    found[:top] = 0.0
    found[0] = 1.0
    if group == n:
        return 0.0
    for k in range(group, n):
        powers[k] = sizes[k]
    sign, log_none = 1.0, 0.0
    for i in range(1, _TERMS + 1):
        a = b = c = d = 0.0  # four sums at once: a processor adds while it waits for another one
        w: Index = group
        while w + 4 <= n:
            for k in range(w, w + 4):
                powers[k] *= odds[k]
            a, b, c, d = a + powers[w], b + powers[w + 1], c + powers[w + 2], d + powers[w + 3]
            w += 4
        for k in range(w, n):
            powers[k] *= odds[k]
            a += powers[k]
        sums[i] = sign * ((a + b) + (c + d))
        log_none -= sums[i] / i
        sign = -sign
    found[0] = exp(log_none)
    for k in range(1, top):
        total = 0.0
        for i in range(1, min(k, _TERMS) + 1):
            total += sums[i] * found[k - i]
        found[k] = max(total / k, 0.0)
    for i in range(_TERMS):
        recent[i] = found[top - 1 - i] if i < top else 0.0
    above, at = 0.0, top
    while True:
        total = 0.0
        for i in range(_TERMS):
            total += sums[i + 1] * recent[i]
        total = max(total / at, 0.0)
        for i in range(_TERMS - 1, 0, -1):
            recent[i] = recent[i - 1]
        recent[0] = total
        above += total
        at += 1
        if total <= _NEGLIGIBLE * above and at > sums[1]:
            return above


@compiled
def _add_binomial(n: Index, chance: float, top: Index, above: float, room: TailRoom) -> float:
    """Add n 0s and 1s to the sum in ``room.spare[:top]``, of which ``above`` is the rest; return the new rest."""
    found, other, binomial = room.spare, room.below, room.binomial
    rest = 1.0 - chance
    if n == 1:
        above += chance * found[top - 1]
        for k in range(top - 1, 0, -1):
            found[k] = rest * found[k] + chance * found[k - 1]
        found[0] *= rest
        return above
    ratio, log_none = chance / rest, n * log1p(-chance)
    low: Index = 0
    term = exp(log_none)
    if log_none < -_MOST_MEAN:
        low = min(np.int64((n + 1) * chance), n)
        term = exp(_log_binomial(float(low), float(n), chance, rest))
        while low > 0 and term > 1e-290:
            term *= low / (ratio * (n - low + 1))
            low -= 1
    if low >= top:
        found[:top] = 0.0
        return 1.0
    for k in range(top):
        other[k] = found[k - low] * term if k >= low else 0.0
    binomial[low] = term
    last: Index = low
    before = 0.0
    for j in range(low + 1, min(n, top) + 1):
        term *= ratio * (n - j + 1) / j
        binomial[j] = term
        last = j
        for k in range(j, top):
            other[k] += term * found[k - j]
        if j < top:
            # Both factors are unimodal in j, and so is the product: after its largest value it falls
            now = term * found[top - 1 - j]
            if 0.0 < now < before and now < _NEGLIGIBLE * other[top - 1]:
                break
            before = now
    beyond = 0.0
    for j in range(last + 1, n + 1):
        term *= ratio * (n - j + 1) / j
        beyond += term
        if term <= _NEGLIGIBLE * beyond and j > n * chance:
            break
    for j in range(last, low, -1):
        beyond += binomial[j]
        above += found[top - j] * beyond
    for j in range(low, 0, -1):
        above += found[top - j]  # which at least ``low`` are added to
    for k in range(top):
        found[k] = other[k]
    return above
