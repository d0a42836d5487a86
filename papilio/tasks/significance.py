"""A count compared with random graphs: mean, standard deviation, z and empirical p, from exact integers.

Sums of counts and of their squares are integers of any size; only the statistics made of them are rounded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import ceil, fsum, inf, isfinite, isnan, ldexp, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.arguments import Count, plural, read_argument
from papilio.errors import InputError
from papilio.kernels.null.ensemble import MOMENTS, MOST_BIAS, MOST_DOUBLINGS, RANKS, Ensemble
from papilio.motifs import Cell
from papilio.registry import motif_row
from papilio.storage import answers
from papilio.storage.labelled import Vectors
from papilio.storage.records import table_rows
from papilio.tasks.citing import describe_significance
from papilio.tasks.many_tests import CONFIDENCE, Corrected, correct, interval_of_share
from papilio.tasks.result import CountResult, TopValue, find_top_values

if TYPE_CHECKING:
    from papilio.charts import Axes
    from papilio.storage.foreign import ArrowTable

QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
"""Shares of the samples whose largest counts are reported."""

MIXING_T = 3.9
"""Standard errors from which on a chain mixes too slowly: Student's t with 19 degrees of freedom passes this once in
1,000 cases."""

LEAST_DRAWS = 0.5
"""Independent graphs below which the steps of a sample are doubted. The default number of steps is worth 1.8 or more by
the rates that it is chosen by; 80 products of counts put 0.5 four standard errors below that."""

VERTEX_COLUMNS = ("mean", "std", "z", "p_more", "p_less", "p_value")
"""Columns of vertices, besides their counts."""

CORRECTIONS = ("q_value", "q_yekutieli", "p_holm")
"""Columns of p-values corrected for the number of tests (Benjamini-Hochberg, Benjamini-Yekutieli, Holm)."""

SMALL_Q = 0.05
"""A q-value that more samples are recommended for."""

_DIGITS = 128
"""Bits of a ratio before its root is taken."""


def _divide(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf


def _root(numerator: int, denominator: int) -> float:
    """Return the square root of the ratio of two integers of any size, both above 0 or the first 0."""
    shift = max(0, numerator.bit_length() - denominator.bit_length() - _DIGITS) & ~1
    try:
        return ldexp(sqrt((numerator >> shift) / denominator), shift // 2)
    except OverflowError:
        return inf


def _score(observed: int, n: int, total: int, squares: int) -> float:
    """Return z of an observed count among ``n`` counts, by their sum and the sum of their squares; NaN for std 0."""
    off, spread = n * observed - total, n * squares - total**2
    if not spread:
        return float("nan")
    if not off:
        return 0.0
    z = _root(off**2 * (n - 1), n * spread)
    return z if off > 0 else -z


def _spread_of_z(z: float, off: Sequence[float]) -> float:
    """Return half the width of the interval of z, from the samples in standard deviations from their mean.

    By the delta method: the variance of z is (1 + z g + z^2 (k - 1) / 4) / n, for skewness g and kurtosis k of the
    samples.
    """
    n = len(off)
    skewness, kurtosis = fsum(each**3 for each in off) / n, fsum(each**4 for each in off) / n
    return NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * sqrt(
        max(1 + z * skewness + z * z * (kurtosis - 1) / 4, 0.0) / n
    )


@dataclass(frozen=True)
class Comparison:
    """One count, or another value, compared with the counts of random graphs."""

    observed: float  # a count is an int
    mean: float
    std: float  # of one sample: the squares are divided by the samples less 1
    z: float | None  # (observed - mean) / std; None where all random graphs have the same count
    z_low: float | None  # 95 % interval of z: mean and std come from samples
    z_high: float | None
    # share of the samples that have at least, or at most, the count observed; that is itself one of them
    p_more: float
    p_less: float
    p_value: float  # two-sided: twice the smaller one of both, at most 1
    p_low: float  # 95 % interval of what p_value estimates (Clopper and Pearson)
    p_high: float
    quantiles: dict[float, float] = field(default_factory=dict)  # counts of samples by :data:`QUANTILES`

    @classmethod
    def of(cls, observed: int, counts: Sequence[int]) -> Comparison:
        """Compare a count with the counts of at least two samples."""
        n, total, ordered = len(counts), sum(counts), sorted(counts)
        squares = sum(count * count for count in counts)
        z, std = _score(observed, n, total, squares), _root(n * squares - total**2, n * (n - 1))
        spread = _spread_of_z(z, [_divide(n * count - total, n) / std for count in counts]) if 0 < std < inf else None
        p_more = (1 + n - bisect_left(ordered, observed)) / (1 + n)
        p_less = (1 + bisect_right(ordered, observed)) / (1 + n)
        low, high = interval_of_share(min(n - bisect_left(ordered, observed), bisect_right(ordered, observed)), n)
        return cls(
            observed=observed,
            mean=_divide(total, n),
            std=std,
            z=None if z != z else z,
            z_low=None if spread is None else z - spread,
            z_high=None if spread is None else z + spread,
            p_more=p_more,
            p_less=p_less,
            p_value=min(1.0, 2 * min(p_more, p_less)),
            p_low=min(1.0, 2 * low),
            p_high=min(1.0, 2 * high),
            quantiles={share: ordered[-(-n * round(1000 * share) // 1000) - 1] for share in QUANTILES},
        )

    def scaled(self, unit: int) -> Comparison:
        """Return the comparison of values from the comparison of their multiples by ``unit``, which are integers."""
        quantiles = {share: each / unit for share, each in self.quantiles.items()}
        observed, mean, std = self.observed / unit, self.mean / unit, self.std / unit
        return replace(self, observed=observed, mean=mean, std=std, quantiles=quantiles)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object; floats beyond the range of double precision are null."""
        found = {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in self.row.items()
        }
        return found | {"quantiles": {f"{share:g}": count for share, count in self.quantiles.items()}}

    @property
    def row(self) -> dict[str, Any]:
        """All but the quantiles."""
        return {name: value for name, value in asdict(self).items() if name != "quantiles"}


@dataclass(frozen=True, eq=False, repr=False)
class SignificanceResult(CountResult):
    """A count compared with the counts of random graphs; ``count`` is the count in the graph itself.

    ``table`` holds all counts, by item of the ensemble, then size. ``vectors`` hold the counts of vertices in the graph
    itself and, per layer, the exact sums that :attr:`means`, :attr:`stds` and :attr:`scores` are made of.
    """

    ensemble: Ensemble = field(default_factory=lambda: Ensemble("degrees", 1, 2, 0))

    @property
    def null(self) -> str:
        return self.ensemble.null

    @cached_property
    def _counts(self) -> Mapping[Cell, Mapping[int, int]]:
        """Counts above 0 by size, then item, in the graph as given and the samples."""
        found: dict[Cell, dict[int, int]] = defaultdict(dict)
        for (item, *cell), count in self.table.items():
            if self.ensemble.given <= item < self.ensemble.n_items:
                found[tuple(cell)][item] = count
        return found

    def _compare(self, counts: Mapping[int, int]) -> Comparison:
        given = self.ensemble.given
        samples = [counts.get(item, 0) for item in range(given + 1, self.ensemble.n_items)]
        return Comparison.of(counts.get(given, 0), samples)

    @cached_property
    def samples(self) -> tuple[int, ...]:
        """The count in each random graph; for a table, of all sizes together."""
        totals: dict[int, int] = defaultdict(int)
        for counts in self._counts.values():
            for item, count in counts.items():
                totals[item] += count
        return tuple(totals[item] for item in range(self.ensemble.given + 1, self.ensemble.n_items))

    @cached_property
    def total(self) -> Comparison:
        """The count, compared with the random graphs; for a table, of all sizes together."""
        return Comparison.of(self.count, self.samples)

    @property
    def observed(self) -> int:
        return self.count

    @property
    def mean(self) -> float:
        return self.total.mean

    @property
    def std(self) -> float:
        return self.total.std

    @property
    def z(self) -> float | None:
        """How many standard deviations the count lies above the mean; None if all random graphs have the same count."""
        return self.total.z

    @property
    def p_more(self) -> float:
        """One-sided p for more: (1 + samples with this count or a larger one) / (1 + samples)."""
        return self.total.p_more

    @property
    def p_less(self) -> float:
        """One-sided p for less: (1 + samples with this count or a smaller one) / (1 + samples)."""
        return self.total.p_less

    @property
    def p_value(self) -> float:
        """Two-sided p: twice the smaller one of both, at most 1."""
        return self.total.p_value

    @property
    def quantiles(self) -> dict[float, float]:
        """Share of the samples, and the largest count among this share of the samples in increasing order."""
        return self.total.quantiles

    @cached_property
    def cells(self) -> dict[Cell, Comparison]:
        """Each size of a table, by increasing key; sizes that neither the graph nor any sample has are left out."""
        if not self.motif.is_table:
            return {}
        return {cell: self._compare(counts) for cell, counts in sorted(self._counts.items())}

    @cached_property
    def _statistics(self) -> dict[str, tuple[NDArray[np.float64], ...]]:
        """Mean, standard deviation, z, p_more, p_less and p_value of the vertices of each layer, each of shape (n,)."""
        n = self.ensemble.samples
        found = {}
        for layer in [name for name in self.vectors if "." not in name]:
            observed = self.vectors.by_id(layer).astype(object)
            digits = [self.vectors.by_id(f"{layer}.{each}").astype(object) for each in MOMENTS]
            totals = digits[0] + (digits[1] << 32)
            squares = sum(each << 32 * place for place, each in enumerate(digits[2:]))
            spreads = n * squares - totals**2
            more, less = ((1 + self.vectors.by_id(f"{layer}.{each}")) / (1 + n) for each in RANKS)
            scores = tuple(
                np.array([make(*row) for row in zip(*columns, strict=True)], np.float64)
                for make, columns in (
                    (lambda total: _divide(total, n), (totals,)),
                    (lambda spread: _root(spread, n * (n - 1)), (spreads,)),
                    (lambda own, total, square: _score(own, n, total, square), (observed, totals, squares)),
                )
            )
            found[layer] = (*scores, more, less, np.minimum(2 * np.minimum(more, less), 1.0))
        return found

    @cached_property
    def _corrected(self) -> dict[str, Corrected]:
        """The corrected p-values of each layer: the tests are the vertices of both whose count varies."""
        names = list(self._statistics)
        sizes = [self._statistics[name][0].size for name in names]
        p_values = np.concatenate([np.where(each[1] > 0, each[5], np.nan) for each in self._statistics.values()])
        parts = [np.split(each, np.cumsum(sizes)[:-1]) for each in correct(p_values)]
        return {name: Corrected(*(each[at] for each in parts)) for at, name in enumerate(names)}

    def _by_layer(self, place: int) -> Vectors[NDArray[np.float64]]:
        vectors: Any = self.vectors
        found: Vectors[NDArray[np.float64]] = vectors.like(
            {layer: each[place] for layer, each in self._statistics.items()}
        )
        return found

    @property
    def means(self) -> Vectors[NDArray[np.float64]]:
        """Per vertex, the mean count in the random graphs: float64 of shape (n,) for each layer."""
        return self._by_layer(0)

    @property
    def stds(self) -> Vectors[NDArray[np.float64]]:
        """Per vertex, the standard deviation, as :attr:`means`."""
        return self._by_layer(1)

    @property
    def scores(self) -> Vectors[NDArray[np.float64]]:
        """Per vertex, z, as :attr:`means`; NaN if all random graphs have the same count."""
        return self._by_layer(2)

    @property
    def p_values(self) -> Vectors[NDArray[np.float64]]:
        """Per vertex, the two-sided p, as :attr:`means`: (1 + samples at least as extreme) / (1 + samples), doubled."""
        return self._by_layer(5)

    @property
    def q_values(self) -> Vectors[NDArray[np.float64]]:
        """Per vertex, q of Benjamini and Hochberg, as :attr:`means`; NaN if all random graphs have the same count."""
        vectors: Any = self.vectors
        found: Vectors[NDArray[np.float64]] = vectors.like(
            {layer: each.hochberg for layer, each in self._corrected.items()}
        )
        return found

    @cached_property
    def mixing(self) -> tuple[tuple[int, float], ...]:
        """Numbers of steps, each with the mean count of the chains after them; empty without chains."""
        ensemble = self.ensemble
        if not ensemble.chains:
            return ()
        later = ((stop, _divide(sum(self._of_chains(stop)), ensemble.chains)) for stop in ensemble.stops)
        return ((0, _divide(self.count, 1)), *later)

    def _of_chains(self, stop: int) -> list[int]:
        return [self.table.get((chain, stop), 0) for chain in range(self.ensemble.chains)]

    @cached_property
    def independent_draws(self) -> float | None:
        """Independent graphs that the steps of a sample are worth, by the autocorrelation of counts along the chains.

        The integrated autocorrelation time of a first-order process is (1 + r) / (1 - r) stretches of a
        quarter of the steps, where r is the correlation of the counts at both ends of one. At most 4 are seen; None
        without chains, or where all random graphs have the same count.
        """
        later = [stop for stop in self.ensemble.stops if stop >= self.ensemble.steps]
        if not self.ensemble.chains or not 0 < self.std < inf:
            return None
        n, total = len(self.samples), sum(self.samples)
        off = [[_divide(n * count - total, n) / self.std for count in self._of_chains(stop)] for stop in later]
        products = [a * b for one, other in pairwise(off) for a, b in zip(one, other, strict=True)]
        correlation = min(max(sum(products) / len(products), 0.0), 1.0)
        return (len(later) - 1) * (1 - correlation) / (1 + correlation)

    @property
    def trades(self) -> int | None:
        """Global trades from the graph to a sample; None for null models without a chain."""
        per_step = self.table.get(self.ensemble.trades_cell)
        return None if per_step is None else per_step * self.ensemble.steps

    @property
    def bias(self) -> float | None:
        """Bias of the mean that a pilot has predicted, in standard deviations; None if there was no pilot."""
        return self.table.get(self.ensemble.bias_cell, 0) / 1000 if self.ensemble.pilot else None

    @property
    def warning(self) -> str:
        """What to doubt; empty for nothing."""
        if self.z is None and all(each.z is None for each in self.cells.values()):
            return (
                f"all {self.ensemble.samples:,} random graphs have the same count, {self.samples[0]:,}: std is 0 and z "
                f"is undefined; null model {self.null!r} may allow this graph alone"
            )
        return self._mixing_doubt() or self._samples_doubt()

    @cached_property
    def _tests(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The p-values of the sizes or vertices whose counts vary, and their q-values."""
        if self.per == "vertex":
            p_values = np.concatenate([each[5] for each in self._statistics.values()])
            q_values = np.concatenate([each.hochberg for each in self._corrected.values()])
        else:
            p_values = np.array([each.p_value if each.std > 0 else np.nan for each in self.cells.values()])
            q_values = correct(p_values).hochberg
        return p_values[~np.isnan(q_values)], q_values[~np.isnan(q_values)]

    def _samples_doubt(self) -> str:
        """Return whether more samples might give a small q, where none has one and some p are the least possible."""
        n, (p_values, q_values) = self.ensemble.samples, self._tests
        n_least = int((p_values <= 2 / (1 + n)).sum())
        if not n_least or q_values.min() <= SMALL_Q:
            return ""
        wanted = ceil(2 * p_values.size / (SMALL_Q * n_least)) - 1
        return (
            f"{n:,} samples are too few for q below {q_values.min():.2g}: no p is below {2 / (1 + n):.2g}, and "
            f"{p_values.size:,} are corrected; {max(wanted, n + 1):,} samples may give q up to {SMALL_Q:g}"
        )

    def _mixing_doubt(self) -> str:
        """Compare the second half of the chains with the samples, which end at its beginning (Welch's t)."""
        ensemble = self.ensemble
        if not ensemble.chains:
            return ""
        if self.bias is not None and self.bias > MOST_BIAS:
            return (
                f"{self.trades:,} global trades for a sample are too few, and the most that are taken unasked: the "
                f"mean count is still about {self.bias:.2g} standard deviations off; twice as many take --steps "
                f"{ensemble.steps << MOST_DOUBLINGS + 1}"
            )
        stops = [stop for stop in ensemble.stops if stop > ensemble.steps]
        sums = [sum(each) for each in zip(*map(self._of_chains, stops), strict=True)]
        chains = Comparison.of(0, sums)
        error = sqrt((chains.std / len(stops)) ** 2 / len(sums) + self.std**2 / len(self.samples))
        off = chains.mean / len(stops) - self.mean
        too_few = f"{plural(ensemble.steps, 'step')} {'is' if ensemble.steps == 1 else 'are'} too few: "
        if not abs(off) > MIXING_T * error:
            draws = self.independent_draws
            if draws is None or draws >= LEAST_DRAWS:
                return ""
            return f"{too_few}the counts along a chain are so alike that they are worth {draws:.2f} independent graphs"
        return (
            f"{too_few}with more of them the mean count is {chains.mean / len(stops):.6g}, "
            f"{abs(off) / error if error else inf:.1f} standard errors away: increase steps (--steps)"
        )

    @property
    def n_tests(self) -> int:
        """How many p-values are corrected together: of the sizes or vertices whose count varies."""
        return int(self._tests[0].size)

    def methods(self) -> str:
        return describe_significance(self)

    @property
    def headline(self) -> str:
        z = "z undefined" if self.z is None else f"z {self.z:.4g}"
        return (
            f"{self._title}: {self.count:,}, {z} compared with {self.ensemble.samples:,} random graphs of null model "
            f"{self.null} (mean {self.mean:.6g}, std {self.std:.4g}, {self._circumstances})"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each size, or one alone: its key, then the fields of :class:`Comparison`.

        Rows of sizes also have :data:`CORRECTIONS`. The tests are the sizes whose counts vary; others have None.
        """
        row = motif_row(self.motif)
        if not self.motif.is_table:
            return [self.total.row]
        if row.classes:
            none = self._compare({})
            keys: list[dict[str, Any]] = [{"class": each.name, "group": each.group} for each in row.classes]
            found = [self.cells.get(each.cell, none) for each in row.classes]
        else:
            keys = [dict(zip(row.key, cell, strict=True)) for cell in self.cells]
            found = list(self.cells.values())
        corrected = correct(np.array([each.p_value if each.std > 0 else np.nan for each in found]))
        numbers = [[None if isnan(q) else q for q in each.tolist()] for each in corrected]
        return [
            {**key, **each.row, **dict(zip(CORRECTIONS, numbers_of, strict=True))}
            for key, each, *numbers_of in zip(keys, found, *numbers, strict=True)
        ]

    def _preview(self) -> answers.Preview:
        if self.per == "vertex":
            found = [(each.place, ", ".join(map(str, each.labels)), each.value) for each in self.top()]
            return answers.preview(("of", "label", "z"), found)
        rows = self.rows()
        return answers.preview(list(rows[0]), [list(row.values()) for row in rows]) if rows else answers.Preview()

    def top(self, n: int = 10) -> tuple[TopValue, ...]:  # type: ignore[override]
        """Return the ``n`` vertices of each layer with the largest z above 0, with their labels.

        InputError if nothing was counted per vertex.
        """
        read_argument("n", n, Count)
        if self.per == "total":
            raise InputError("the answer has no z of vertices; give per='vertex'")
        return find_top_values({name: self.scores.by_id(name) for name in self.scores}, self.held, n)

    def to_arrow(self) -> ArrowTable:
        """Return the answer as a ``pyarrow.Table``.

        Of one count a row for each random graph: sample, count. Of a table a row for each size, as :meth:`rows`. Per
        vertex a row for each: layer, id, label (if there are labels), count, mean, std, z, p_more, p_less, p_value,
        q_value, q_yekutieli, p_holm. z and the corrected p-values are null if all random graphs have the same count.

        Raises
        ------
        InputError
            If the graph was in memory and is gone.
        StoreError
            If the store with the labels does not exist any more.
        """
        if self.per == "vertex":
            columns = {
                layer: {
                    "count": self.vectors.by_id(layer),
                    **dict(zip(VERTEX_COLUMNS, found, strict=True)),
                    **dict(zip(CORRECTIONS, self._corrected[layer], strict=True)),
                }
                for layer, found in self._statistics.items()
            }
            return answers.columns_table(self.held, columns)
        if self.motif.is_table:
            keys = [*motif_row(self.motif).key, *self.total.row, *CORRECTIONS]
            return answers.rows_table(self.rows(), keys)
        return answers.rows_table([{"sample": at, "count": n} for at, n in enumerate(self.samples)])

    def plot(self, axes: Axes | None = None, kind: Literal["samples", "mixing"] = "samples") -> Axes:
        """Draw the counts of the random graphs as a histogram, with the observed count as a line.

        ``kind`` "mixing" draws the mean count of the chains against the number of steps. Returns the axes, by default
        of a new figure. InputError for "mixing" without chains; MissingPackageError without matplotlib.
        """
        if kind not in ("samples", "mixing"):
            raise InputError(f"kind is {kind!r}; expected samples or mixing")
        if kind == "mixing" and not self.mixing:
            raise InputError("the answer has no chains: null model 'degrees' has some, from 100 samples on")
        return self._draw_on(axes, self._draw if kind == "samples" else self._draw_mixing)

    def _draw(self, axes: Any) -> None:
        samples = [float(each) for each in self.samples]
        charts.draw_histogram(axes, samples, float(self.count), f"count of {self.motif.title}")

    def _draw_mixing(self, axes: Any) -> None:
        charts.draw_mixing(axes, self.mixing, self.ensemble.steps, f"count of {self.motif.title}")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the vectors as one JSON object; integers in full, undefined values as null."""
        observed = {cell: int(each.observed) for cell, each in self.cells.items() if each.observed}
        return {
            **super().to_dict(),
            "table": table_rows(observed) if self.motif.is_table else None,
            "ensemble": asdict(self.ensemble),
            **self.total.to_dict(),
            "samples": list(self.samples),
            "cells": [{"cell": list(cell), **each.to_dict()} for cell, each in self.cells.items()],
            "mixing": [{"steps": steps, "mean": mean} for steps, mean in self.mixing],
            "trades": self.trades,
            "bias": self.bias,
            "independent_draws": self.independent_draws,
            "warning": self.warning,
        }
