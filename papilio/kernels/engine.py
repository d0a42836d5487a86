"""The contract between a motif's kernels and everything that schedules them.

A motif has one engine per kind of processor. Its engines have the same work items and the same partials, so the
leases of a job can run on either and be checked on the other:

* ``stage`` copies the data of a part to where the engine runs, while the engine runs another part;
* ``prepare`` reduces and orders a graph or a part, builds the form that the kernels need, and compiles what ``run``
  launches, so that leases do not wait for a compiler and measure only the speed of the engine;
* ``work`` returns the exact or estimated cost of every work item, in their order;
* ``run`` counts exactly the items of ``[start, stop)``, or the first of them if it is cut;
* partials fold associatively and commutatively (:func:`fold_partials`).

Laws, tested on every engine: any split of ``[0, n_items)`` folds to the same partial; CPU, GPU and oracle give the
same counts; the order of the items depends only on the graph and the number of hands, never on the engine.

This module also holds ranges of work items and their costs, computed from the costs at a few breakpoints.

Items are ordered heaviest first, or dealt in hands, each of which is heaviest first (:func:`deal_items`). Everything
here is a pure function of integers, the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import le, lt
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph, array_bytes
from papilio.kernels.probe import Prober
from papilio.motifs import Cell, EngineOptions, Granularity, Motif
from papilio.parts import CliquePart, EndBlock, MaximalPart, Part, RootPart, StartBlock

EngineName = Literal["cpu", "gpu"]
ENGINES: tuple[EngineName, ...] = ("cpu", "gpu")

EngineChoice = Literal["auto", "cpu", "gpu"]
"""``auto`` uses GPUs on workers that have them; ``cpu`` and ``gpu`` are used as given, or raise."""

Loadable = TypeVar("Loadable", StartBlock, EndBlock, RootPart, MaximalPart, CliquePart)
"""Data read from storage and copied to a device at once: a block of a part, or a part without blocks."""

Choice = tuple[str, str]
"""A decision of an engine during preparation, and its reason; both are shown in the plan."""

StopCheck = Callable[[], bool]
"""Called repeatedly by a run, from any of its threads: returns whether the run should end early."""


def never_cut() -> bool:
    """Return False: the run continues to its end."""
    return False


class SharedCut(Protocol):
    """Stop check that also lets another worker take over half of the remaining items.

    Engines check it as often as any stop check. An engine that never does is ended early if another worker waits.
    """

    def __call__(self) -> bool:
        """Return whether the run should end early."""
        ...

    def is_wanted(self) -> bool:
        """Return whether another worker is waiting for half of the remaining items."""
        ...

    def is_worth(self, done: float, left: float) -> bool:
        """Return whether the remaining work is worth sharing, given the work done. False answers the request."""
        ...

    def times_of(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the predicted time of each of the items [start, stop), in any unit."""
        ...

    def leave(self, stop: int | None) -> None:
        """Answer that the run ends before item ``stop`` and leaves all later items. None leaves nothing."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether the run has left items to another worker."""
        ...


def shared_cut(cut: StopCheck) -> SharedCut | None:
    """Return the stop check if another worker is waiting for half of the run, else None."""
    shared: Any = cut
    return shared if hasattr(cut, "is_wanted") and shared.is_wanted() else None


@dataclass(frozen=True, order=True)
class LargestMotif:
    """One of the largest motifs."""

    value: int
    members: tuple[tuple[int, ...], ...]  # ids, ascending, of each layer


@dataclass(frozen=True)
class Partial:
    """The exact answer for an interval of work items.

    ``work`` is in units of work: wedges, exactly as predicted, for the wedge engine; a measured number for the other
    engines, which may differ between them.

    ``vectors`` is empty for granularity ``total``. Per vertex it holds ``u`` of shape (n_u,) and ``v`` of shape
    (n_v,), or ``n`` of shape (n,) for a unipartite graph; per edge, ``edge`` of shape (n_edges,), in edge-id order.
    Ids are the original dense ids. For a part, entry i belongs to the id at place i of ``Partition.read_vector_ids``.

    ``cells`` holds the nonzero counts of a motif whose answer is a table, in terms of U and V; ``total`` is their sum.
    ``checksum`` is the sum, modulo 2^64, of the hashes of all motifs (:mod:`papilio.kernels.exact`), if the family has
    one. ``best`` holds the ``n_best`` largest motifs, by descending value, then ascending members.
    """

    n_items: int
    total: int  # motifs of these items
    work: int
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    cells: dict[Cell, int] = field(default_factory=dict)
    capped: bool = False  # whether a listing ended because it reached the requested number of rows
    checksum: int = 0
    best: tuple[LargestMotif, ...] = ()
    n_best: int = 0


def fold_partials(a: Partial, b: Partial) -> Partial:
    """Add two partials of the same job; associative and commutative.

    Entries of vectors are exact modulo 2^64. Either the engine rejects, when it prepares, a graph whose entries could
    exceed 2^63, or the finished sums are checked (see :class:`papilio.tasks.fold.Fold`). Totals and cells are Python
    integers.
    """
    if a.vectors.keys() != b.vectors.keys():
        raise UnsupportedError(
            f"cannot fold partials of different granularities: {sorted(a.vectors)} and {sorted(b.vectors)}"
        )
    n_best = max(a.n_best, b.n_best)
    return Partial(
        a.n_items + b.n_items,
        a.total + b.total,
        a.work + b.work,
        {name: a.vectors[name] + b.vectors[name] for name in a.vectors},
        add_cells(a.cells, b.cells),
        checksum=(a.checksum + b.checksum) % (1 << 64),
        best=choose_best((*a.best, *b.best), n_best),
        n_best=n_best,
    )


def choose_best(found: Iterable[LargestMotif], n: int) -> tuple[LargestMotif, ...]:
    """Return the ``n`` largest, by descending value, then ascending members."""
    return tuple(sorted(found, key=lambda each: (-each.value, each.members))[:n])


def add_cells(a: dict[Cell, int], b: dict[Cell, int]) -> dict[Cell, int]:
    """Return the sums of cells."""
    sums = a | b
    for cell in a.keys() & b.keys():
        sums[cell] = a[cell] + b[cell]
    return sums


def require_interval(start: int, stop: int, n_items: int) -> None:
    """Raise InputError for an interval outside the work items."""
    if not 0 <= start <= stop <= n_items:
        raise InputError(f"items [{start}, {stop}) are not within [0, {n_items})")


def require_request(
    engine: str,
    motif_type: type[Motif] | tuple[type[Motif], ...],
    graph: object,
    motif: Motif,
    per: str,
    part_type: type[Part] | None = None,
    graph_type: type[BipartiteGraph | UnipartiteGraph] = BipartiteGraph,
) -> None:
    """Raise UnsupportedError unless the engine can count the motif, in the graph or part, at this granularity."""
    if not isinstance(motif, motif_type):
        raise UnsupportedError(f"the {engine} engine cannot count {motif.name!r}")
    if isinstance(graph, Part) and type(graph) is not part_type:
        raise UnsupportedError(f"the {engine} engine cannot count a {type(graph).__name__}")
    if not isinstance(graph, graph_type | Part):
        kind = graph_type.__name__.removesuffix("Graph").lower()
        raise UnsupportedError(f"the {engine} engine requires a {kind} graph, not a {type(graph).__name__}")
    if per not in motif.granularities:
        raise UnsupportedError(
            f"{motif.title} cannot be counted per {per!r}; expected one of {', '.join(motif.granularities)}"
        )
    if motif.needs_signs and isinstance(graph, graph_type) and graph.sign is None:
        raise UnsupportedError(f"{motif.title} needs a sign for every edge; the graph has none")


class Prepared:
    """A graph in the form that an engine's kernels need; made by :meth:`Engine.prepare`, otherwise opaque.

    ``decisions`` holds the choices of the engine and their reasons, ``settled`` the options left open that determine
    the items, and that another engine may settle differently. ``costs`` is on the host.
    """

    costs: NDArray[np.int64]
    decisions: tuple[Choice, ...] = ()
    settled: EngineOptions = ()

    @property
    def work(self) -> NDArray[np.int64]:
        """Exact or estimated cost of each work item, shape (n_items,), host.

        In the order of :func:`deal_items`, except for parts.
        """
        return self.costs

    @property
    def n_items(self) -> int:
        return int(self.work.size)

    @cached_property
    def nbytes(self) -> int:
        """Size of the arrays of the engine, in bytes, without the arrays of the given graph."""
        return array_bytes(self)


class Engine(Protocol):
    """One motif on one kind of processor."""

    name: EngineName
    least_slice_s: ClassVar[float] = 0.0
    """Minimum predicted time of a slice of a run (see :meth:`run`), in seconds."""
    hands: int = 1
    """Number of hands into which :meth:`prepare` deals the items of a whole graph; searches only."""
    takes_device_graphs: ClassVar[bool] = False
    """Whether :meth:`prepare` accepts whole graphs with their edges on the device, sorted by U only."""

    def prepare(self, graph: Any, motif: Motif, per: Granularity) -> Any:
        """Reduce, order and build; see :class:`Prepared`. A part may be staged or not, and is left unchanged.

        Raises UnsupportedError for a motif, graph, part or granularity that the engine cannot count, and for options
        that do not apply. Raises CapacityError if the graph, or a count, is too large for the memory or the engine's
        numbers.
        """
        ...

    def stage(self, block: Loadable) -> Loadable:
        """Return a block with its large arrays where the engine runs: on the device, or unchanged on the CPU.

        Complete on return. May be called from another thread while the engine runs.
        """
        return block

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Return the cost of each work item; see :attr:`Prepared.work`."""
        work: NDArray[np.int64] = prepared.work
        return work

    def slice_work(self, prepared: Any) -> int:
        """Minimum work of a slice of a run (see :meth:`run`), given the fixed cost of a slice."""
        return 1

    def prober(self, prepared: Any) -> Prober:
        """Return what probes the prepared graph on the host; UnsupportedError if this count has no probes."""
        raise UnsupportedError(f"the {self.name} engine cannot probe this count")

    def in_butterflies(self, prepared: Any) -> tuple[int, int, int] | None:
        """Return (b, p, c) if the total of any graph with these degrees is b butterflies + p paths of three edges + c.

        None if there is no such form.
        """
        return None

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: StopCheck = never_cut
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``bounds``, strictly increasing and inside the interval, are the ends of slices, for engines that can stop only
        between slices. Once ``cut`` returns true, no further slice or item begins, but all that have begun are
        finished: the partial answers for ``n_items`` items from ``start`` on. If ``cut`` is a :class:`SharedCut`, the
        run may leave the last items to another worker.

        Raises InputError if the interval is not within ``[0, n_items]``, LeaseTooLargeError if the device has too
        little memory for these items or their results, and DeviceLostError if a kernel failed and this process can no
        longer use the device.
        """
        ...


def deal_items(n_items: int, hands: int) -> NDArray[np.int64]:
    """Return the rank, from 0 for the heaviest, of the item at each position, shape (n_items,).

    Items are dealt like cards: hand h has the ranks h, h + hands, h + 2 hands and so on. All hands are alike, whatever
    the items cost in truth, so that workers that take a hand each end at about the same time.
    """
    return np.concatenate([np.arange(hand, n_items, hands) for hand in range(hands)])


def find_hands(n_items: int, hands: int) -> NDArray[np.int64]:
    """Return the first position of each hand, and the end of the last one, shape (hands + 1,)."""
    sizes = np.maximum((n_items - np.arange(hands) + hands - 1) // hands, 0)
    return np.concatenate(([0], np.cumsum(sizes)))


Interval = tuple[int, int]
"""Work items [start, stop)."""

MAX_TABLE_ENTRIES = 16_384
"""Maximum entries of a cost table: 32 leases for each of 512 workers, and about 400 KiB to send."""

LEAST_TABLE_ENTRIES = 8
"""Minimum entries of the cost table of a part, however many parts there are."""

_MAX_WORK = 2**62


@dataclass(frozen=True)
class CostTable:
    """Cumulative cost of the work items at a few breakpoints.

    ``items`` holds the breakpoints, strictly increasing from 0 to the number of items, at most
    ``MAX_TABLE_ENTRIES + 1``; ``work[i]`` is the cost of all items before ``items[i]``, in work units.
    """

    items: tuple[int, ...]
    work: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.items) != len(self.work) or not self.items or (self.items[0], self.work[0]) != (0, 0):
            raise ValueError("a cost table must start at item 0 with work 0, and have as many items as work values")
        if not all(map(lt, self.items, self.items[1:])):
            raise ValueError("the items of a cost table must be strictly increasing")
        if not all(map(le, self.work, self.work[1:])):
            raise ValueError("the work of a cost table must not decrease")

    @classmethod
    def from_costs(cls, costs: NDArray[np.int64], max_entries: int = MAX_TABLE_ENTRIES) -> CostTable:
        """Summarise the costs of all items; parameters and errors of :func:`find_breakpoints`."""
        items, work = find_breakpoints(costs, max_entries)
        return cls(tuple(items.tolist()), tuple(work.tolist()))

    @property
    def n_items(self) -> int:
        return self.items[-1]

    @property
    def total(self) -> int:
        """Cost of all items, in work units."""
        return self.work[-1]

    def work_between(self, start: int, stop: int) -> int:
        """Cost of the items [start, stop): exact between breakpoints, interpolated by the number of items elsewhere."""
        return self._work_before(stop) - self._work_before(start)

    def _work_before(self, item: int) -> int:
        index = bisect_left(self.items, item)
        if self.items[index] == item:
            return self.work[index]
        first, last = self.items[index - 1], self.items[index]
        below, above = self.work[index - 1], self.work[index]
        return below + (above - below) * (item - first) // (last - first)

    def advance(self, start: int, work: int) -> int:
        """Return the first breakpoint after ``start`` that adds at least ``work`` units, or the last breakpoint."""
        first = bisect_right(self.items, start)
        index = bisect_left(self.work, self._work_before(start) + work, lo=first)
        return self.items[min(index, len(self.items) - 1)]


def find_breakpoints(costs: NDArray[np.int64], max_entries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return breakpoints of the items and the cost of all items before each; O(n_items).

    Breakpoints lie at equal steps of the work, so that no interval between two of them holds more than one heavy
    item, or more than ``1 / max_entries`` of the work. They begin with 0 and end with ``n_items``; both arrays are
    int64 and have the same shape.
    """
    n_items = int(costs.size)
    if n_items == 0:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    if float(costs.sum(dtype=np.float64)) > _MAX_WORK:
        raise CapacityError(f"the predicted work exceeds {_MAX_WORK} units, the maximum for a job")
    cumulative = np.cumsum(costs, dtype=np.int64)
    total = int(cumulative[-1])
    if n_items <= max_entries:
        ends = np.arange(1, n_items + 1)
    else:
        whole, rest = divmod(total, max_entries)  # no product exceeds 64 bits
        k = np.arange(1, max_entries + 1, dtype=np.int64)
        ends = np.searchsorted(cumulative, whole * k + rest * k // max_entries, side="left") + 1
        ends = ends[np.diff(ends, prepend=0) > 0]
        ends[-1] = n_items
    return np.concatenate(([0], ends)), np.concatenate(([0], cumulative[ends - 1]))
