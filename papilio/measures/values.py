"""What measures of a graph give: exact numbers, and the values that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.measures.levels import Level
from papilio.motifs import Granularity
from papilio.storage.vectors import Vectors
from papilio.tasks.result import CountResult

__all__ = [
    "CohesionLevel",
    "CohesionProfile",
    "LatapyClustering",
    "LocalClustering",
    "RobinsAlexander",
    "Summary",
    "summarise",
]

Values = Mapping[str, NDArray[np.float64]]
"""By name, a value of each vertex of a layer, or of each edge; NaN where it is undefined."""


@dataclass(frozen=True)
class Summary:
    """The values of a layer, or of the edges.

    Attributes
    ----------
    size : int
        Vertices or edges.
    defined : int
        How many of them have values.
    mean : dict of str to float or None
        Mean of those; None without any.
    mean_of_all : dict of str to float or None
        Mean where an undefined value is taken for 0, as NetworkX does; None of nothing at all.
    """

    size: int
    defined: int
    mean: dict[str, float | None]
    mean_of_all: dict[str, float | None]


def summarise(values: Values) -> Summary:
    """Return the summary of values that are undefined at the same places."""
    first = next(iter(values.values()))
    known = ~np.isnan(first)
    defined, size = int(np.count_nonzero(known)), int(first.size)
    sums = {name: float(each[known].sum()) for name, each in values.items()}
    return Summary(
        size,
        defined,
        {name: total / defined if defined else None for name, total in sums.items()},
        {name: total / size if size else None for name, total in sums.items()},
    )


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {phase: round(value, 6) for phase, value in seconds.items()}


@dataclass(frozen=True, eq=False)
class RobinsAlexander:
    """Clustering of a whole graph after Robins and Alexander.

    Attributes
    ----------
    butterflies, three_paths : int
        Cycles of four edges, and paths of three.
    counted : CountResult
        The count of the butterflies, with its proof of work.
    seconds : dict of str to float
        Wall time by phase: ``paths``, and ``total``.
    """

    butterflies: int
    three_paths: int
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)

    @property
    def fraction(self) -> Fraction | None:
        """``4 * butterflies / three_paths``, exactly; None, undefined, without paths of three edges."""
        return Fraction(4 * self.butterflies, self.three_paths) if self.three_paths else None

    @property
    def value(self) -> float | None:
        """The float next to the fraction; None where it is undefined."""
        fraction = self.fraction
        return None if fraction is None else float(fraction)

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        fraction = self.fraction
        return {
            "measure": "robins-alexander",
            "butterflies": self.butterflies,
            "three_paths": self.three_paths,
            "fraction": None if fraction is None else [fraction.numerator, fraction.denominator],
            "value": self.value,
            "graph": self.counted.graph,
            "seconds": _rounded(self.seconds),
            "count": self.counted.to_json(),
        }


@dataclass(frozen=True, eq=False)
class LatapyClustering:
    """Clustering of every vertex of some layers after Latapy, Magnien and Del Vecchio.

    Attributes
    ----------
    values : Vectors of dict of str to ndarray of float64, host
        By layer, ``dot``, ``min`` and ``max`` of each vertex; shapes (n_u,) and (n_v,). NaN for a vertex that shares no
        neighbour with another.
    partners : Vectors of ndarray of int64, host
        By layer, with how many vertices each shares a neighbour.
    graph : dict
        As in :class:`~papilio.tasks.result.CountResult`.
    seconds : dict of str to float
        Wall time by phase: ``read``, ``pairs``, ``write``, and ``total``.
    output : str or None
        The file written.
    """

    values: Vectors[dict[str, NDArray[np.float64]]]
    partners: Vectors[NDArray[np.int64]]
    graph: dict[str, Any]
    seconds: dict[str, float] = field(repr=False)
    output: str | None = None

    def summaries(self) -> dict[str, Summary]:
        """Return the summary of each layer."""
        return {layer: summarise(self.values.by_id(layer)) for layer in self.values}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object."""
        return {
            "measure": "latapy",
            "layers": {layer: asdict(summary) for layer, summary in self.summaries().items()},
            "graph": self.graph,
            "seconds": _rounded(self.seconds),
            "output": self.output,
        }


@dataclass(frozen=True, eq=False)
class LocalClustering:
    """Butterflies over possible ones, of every vertex or every edge.

    Attributes
    ----------
    per : str
        ``vertex`` or ``edge``.
    values : Vectors of dict of str to ndarray of float64, host
        For ``u`` and ``v``, or for ``edge``: ``closed``, and of vertices ``square``; NaN where no butterfly is
        possible. Edges are in the order of the edges sorted by (u, v); ``values.aligned("edge")`` has the order of what
        the graph was read from.
    butterflies, three_paths : Vectors of ndarray of uint64, host
        The same way, the exact numbers that they follow from.
    counted : CountResult
        The count of the butterflies, with its proof of work.
    seconds : dict of str to float
        Wall time by phase: ``paths``, ``write``, and ``total``.
    output : str or None
        The file written.
    """

    per: Granularity
    values: Vectors[dict[str, NDArray[np.float64]]]
    butterflies: Vectors[NDArray[np.uint64]]
    three_paths: Vectors[NDArray[np.uint64]]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)
    output: str | None = None

    def summaries(self) -> dict[str, Summary]:
        """Return the summary of each layer, or of the edges."""
        return {place: summarise(self.values.by_id(place)) for place in self.values}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the values as one JSON object; integers in full."""
        return {
            "measure": "local",
            "per": self.per,
            "places": {place: asdict(summary) for place, summary in self.summaries().items()},
            "graph": self.counted.graph,
            "seconds": _rounded(self.seconds),
            "output": self.output,
            "count": self.counted.to_json(),
        }


@dataclass(frozen=True)
class CohesionLevel:
    """The subgraph that the vertices in some butterflies or more induce.

    Attributes
    ----------
    least : int
        Its vertices are each in at least so many butterflies of the whole graph.
    n_u, n_v, n_edges : int
        Its sizes.
    components : int
        Connected components; a vertex without edges is one.
    largest : int
        Vertices of the largest component.
    least_degree : int
        Least degree of its vertices, within it.
    """

    least: int
    n_u: int
    n_v: int
    n_edges: int
    components: int
    largest: int
    least_degree: int

    @classmethod
    def of(cls, level: Level) -> CohesionLevel:
        """Return what a level is whose vertices are in ``2 ** (level - 1)`` butterflies or more; all in that of 0."""
        least = 1 << (level.level - 1) if level.level else 0
        sizes = {name: value for name, value in asdict(level).items() if name != "level"}
        return cls(least, **sizes)

    @property
    def cut_at_most(self) -> int:
        """As many edges, or fewer, disconnect it: none if it is in pieces, else those of a vertex of least degree."""
        return 0 if self.components > 1 else self.least_degree

    def to_json(self) -> dict[str, int]:
        """Return the fields, and ``cut_at_most``."""
        return {**asdict(self), "cut_at_most": self.cut_at_most}


@dataclass(frozen=True, eq=False)
class CohesionProfile:
    """How a graph hangs together, the more so the more butterflies its vertices are in.

    Attributes
    ----------
    levels : tuple of CohesionLevel
        From all vertices to those in the most butterflies, for 0, 1, 2, 4, 8, ... butterflies, without those that hold
        the same vertices as the next.
    counted : CountResult
        The count of the butterflies per vertex, with its proof of work.
    seconds : dict of str to float
        Wall time by phase: ``levels``, and ``total``.
    """

    levels: tuple[CohesionLevel, ...]
    counted: CountResult
    seconds: dict[str, float] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; integers in full."""
        return {
            "measure": "cohesion",
            "levels": [level.to_json() for level in self.levels],
            "graph": self.counted.graph,
            "seconds": _rounded(self.seconds),
            "count": self.counted.to_json(),
        }
