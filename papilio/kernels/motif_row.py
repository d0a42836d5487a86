"""The row of a motif: what every layer above its kernels knows about it.

The rows of a family of kernels lie beside them, in ``kernels/<family>/family.py``; :mod:`papilio.registry` lists them.
Engines are given as functions that import them, so that planning loads no kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from papilio.errors import UnsupportedError
from papilio.graph import GraphKind
from papilio.kernels.engine import Engine, EngineName
from papilio.kernels.memory import Memory
from papilio.motifs import Cell, CensusClass, Motif
from papilio.parts import PartitionKind

Engines = Mapping[EngineName, Callable[[], Callable[..., Engine]]]
"""By kind of processor, a function that imports the class of an engine; cpu ones are made with threads, gpu ones with a
device."""


@dataclass(frozen=True)
class WorkRate:
    """Speed of one motif on one kind of processor, for items without timed probes; counts do not depend on it."""

    unit: str  # of work, in the plural
    per_second: float  # of one CPU thread, or of one device, for a plain count
    share: Mapping[str, float]  # of ``per_second``, by granularity: vectors need further traversals

    def speed(self, engine: EngineName, per: str, threads: int) -> float:
        """Return the predicted work units per second of one worker."""
        return self.per_second * self.share[per] * (threads if engine == "cpu" else 1)


_CPU_SHARE = {"total": 1.0, "vertex": 0.45, "edge": 0.15}
"""Measured on MovieLens-1M, an R-MAT graph and a complete graph: 0.39 to 0.46 and 0.13 to 0.23."""

_GPU_SHARE = {"total": 1.0, "vertex": 0.15, "edge": 0.15}
"""Measured on one H200, on R-MAT and MovieLens-1M: 0.13 to 0.21; only a total can use the hub columns."""


def rates_of(unit: str, cpu: float, gpu: float) -> dict[EngineName, WorkRate]:
    """Return the rates of a motif whose vectors cost as measured."""
    return {"cpu": WorkRate(unit, cpu, _CPU_SHARE), "gpu": WorkRate(unit, gpu, _GPU_SHARE)}


SEARCH_RATES = rates_of("set operations", 2.0e7, 2.0e9)
"""For searches without timed probes, such as searches in parts: predicted operations, which ignore the depth of the
search. Depending on motif and graph, one thread does 5e6 to 2e8 of them a second, one H200 7e6 to 2e10."""

LISTING_RATES = rates_of("steps", 5.0e6, 1.0e8)
"""The same with rows: most of the time is spent writing them."""


@dataclass(frozen=True)
class ListingSupport:
    """How the motifs of a family are listed.

    ``columns`` gives the content of a row: the vertices of a layer (``u``, ``v``, or ``n`` of a unipartite graph), and
    their number, None for rows of variable length; empty for a question that cannot be listed. A lister is created with
    threads, or a device, then the :class:`~papilio.motifs.Listing` and the options of the motif.

    ``numbers`` are the numbers that a lister returns after the vertices, with their types; files then have a column
    for each vertex.
    """

    engines: Engines
    columns: Callable[[Any], Mapping[str, int | None]]
    numbers: Callable[[Any], Mapping[str, str]] = lambda motif: {}
    rates: Mapping[EngineName, WorkRate] = field(default_factory=lambda: LISTING_RATES)


@dataclass(frozen=True)
class PartitionSupport:
    """How a graph beyond memory is cut into parts for a family.

    ``kind`` is the kind of its partitions, see :data:`papilio.parts.PartitionKind`. ``least_sizes`` gives
    the least p and q of a question; for cliques the least k, and 1.
    """

    kind: PartitionKind
    least_sizes: Callable[[Any], tuple[int, int]]


@dataclass(frozen=True)
class MotifRow:
    """One motif, as all layers above its kernels see it."""

    motif: type[Motif]
    engines: Engines
    memory: Memory
    # vertices or edges of one motif, by vector, of one cell
    members: Callable[[Any, Cell], Mapping[str, int]]
    rates: Mapping[EngineName, WorkRate] = field(default_factory=lambda: SEARCH_RATES)
    graph_kind: GraphKind = "bipartite"
    key: tuple[str, ...] = ("p", "q")  # names of the parts of a cell's key
    classes: tuple[CensusClass, ...] = ()  # meaning of cells that are not sizes
    same_work: bool = True  # whether all engines do the same units of work for the same items
    listed: ListingSupport | None = None
    parted: PartitionSupport | None = None
    # why a listing is rejected
    has_small_way: bool = False  # whether other functions count small graphs
    condition: str = ""  # what an error adds to the name where it applies to some of its motifs
    not_listed: str = "bicliques of one p and one q, cliques of one k, and maximal ones of both can"
    has_checksum: bool = False  # whether partials have the sum of the hashes of all motifs

    def columns(self, motif: Motif) -> Mapping[str, int | None]:
        """Return the columns of a listing of ``motif``, see :class:`ListingSupport`.

        Raises UnsupportedError if it cannot be listed.
        """
        columns = {} if self.listed is None else self.listed.columns(motif)
        if not columns:
            raise UnsupportedError(f"{motif.title} cannot be listed; {self.not_listed}")
        return columns

    def numbers(self, motif: Motif) -> Mapping[str, str]:
        """Return the numbers in the rows of a listing of ``motif``, and their types."""
        return {} if self.listed is None else self.listed.numbers(motif)

    def vector_sums(self, motif: Motif, total: int, cells: Mapping[Cell, int]) -> dict[str, int]:
        """Return the sum of the entries of each vector: every motif adds 1 at each of its members."""
        sums: dict[str, int] = {}
        for cell, count in (cells or {(): total}).items():
            for name, size in self.members(motif, cell).items():
                sums[name] = sums.get(name, 0) + size * count
        return sums


def no_members(motif: Motif, cell: Cell) -> dict[str, int]:
    """For motifs that are counted in whole graphs only."""
    return {}
