"""The contract between a motif's kernels and everything that schedules them.

A motif has one engine per processor kind, with the same work items and the same partials, so that leases
of one job may run on either and be checked on the other:

* ``stage`` copies the data of a part to where the engine runs, while it runs another;
* ``prepare`` reduces, orders and builds the form that the kernels need, of a whole graph or of a part, and compiles
  what ``run`` launches: a lease waits for no compiler, and measures the speed of the engine alone;
* ``work`` gives the exact or estimated cost of every work item, heaviest first;
* ``run`` is exact for exactly the items of ``[start, stop)``, or, when it is cut, for the first of them;
* partials fold associatively and commutatively (:func:`fold_partials`).

Laws, tested on every engine: any split of ``[0, n_items)`` folds to the same partial; CPU equals GPU equals
the oracle; the item order depends on the graph alone, never on the engine.

Ranges of work items and what they cost, from the costs of all items at a few breakpoints.

Items are ordered heaviest first. Everything here is a pure function of integers, the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import le, lt
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph, array_bytes
from papilio.kernels.probe import Found, Rates, VertexFound
from papilio.motifs import Cell, Granularity, Motif
from papilio.parts import CliquePart, EndBlock, MaximalPart, Part, RootPart, StartBlock

EngineName = Literal["cpu", "gpu"]
ENGINES: tuple[EngineName, ...] = ("cpu", "gpu")

Loadable = TypeVar("Loadable", StartBlock, EndBlock, RootPart, MaximalPart, CliquePart)
"""What is read from storage and copied to a device as one: a block of a part, or a part that has no blocks."""

Choice = tuple[str, str]
"""What an engine decided as it prepared a graph, and why: it goes into the plan."""

StopCheck = Callable[[], bool]
"""Asked by a run, again and again, from any of its threads: whether it should end early."""


def never_cut() -> bool:
    """Let a run go on to its end."""
    return False


class SharedCut(Protocol):
    """A stop check of a run of which another worker may take over half of what is left.

    Engines look at it as often as at any stop check. One that never does so is ended early where somebody waits.
    """

    def __call__(self) -> bool:
        """Return whether the run should end early."""
        ...

    def is_wanted(self) -> bool:
        """Return whether another worker waits for half of the rest, and has not been answered yet."""
        ...

    def is_worth(self, done: float, left: float) -> bool:
        """Return whether what is left is worth sharing, given the work done so far; if not, that is the answer."""
        ...

    def leave(self, stop: int | None) -> None:
        """Answer that the run ends before item ``stop``, and all from there on is left; None for nothing."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether the run has left items to another worker."""
        ...


def shared_cut(cut: StopCheck) -> SharedCut | None:
    """Return the stop check of a run of which another worker wants half; None when nobody does."""
    shared: Any = cut
    return shared if hasattr(cut, "is_wanted") and shared.is_wanted() else None


@dataclass(frozen=True, order=True)
class LargestMotif:
    """One of the largest motifs."""

    value: int
    members: tuple[tuple[int, ...], ...]  # ids, rising, of each layer


@dataclass(frozen=True)
class Partial:
    """The exact answer for an interval of work items.

    ``work`` is in units of work: for the wedge engine wedges, exactly as predicted; for the others what was measured,
    which need not be what another engine does.

    ``vectors`` are empty for granularity ``total``. Per vertex they are ``u`` of shape (n_u,) and ``v`` of shape
    (n_v,), or ``n`` of shape (n,) of a unipartite graph; per edge ``edge`` of shape (n_edges,), in edge-id order.
    Original dense ids throughout. Of a part: entry i is for the id that ``Partition.read_vector_ids`` has there.

    ``cells`` are the counts of a motif whose answer is a table, in terms of U and V, without those that are 0;
    ``total`` is their sum. ``checksum`` is the sum, modulo 2^64, of the hashes of all motifs
    (:mod:`papilio.kernels.exact`), where the family has one. ``best`` are the ``n_best`` largest, by falling value,
    then rising members.
    """

    n_items: int
    total: int  # motifs that these items answer for
    work: int
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    cells: dict[Cell, int] = field(default_factory=dict)
    capped: bool = False  # whether a listing ended because it had as many rows as were asked for
    checksum: int = 0
    best: tuple[LargestMotif, ...] = ()
    n_best: int = 0


def fold_partials(a: Partial, b: Partial) -> Partial:
    """Add two partials of the same job; associative and commutative.

    Entries of vectors are exact modulo 2^64. An engine either refuses, when it prepares, a graph on which one could
    pass 2^63, or the finished sums are checked (see :class:`papilio.tasks.fold.Fold`). Totals and cells are
    Python integers.
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
        _add_cells(a.cells, b.cells),
        checksum=(a.checksum + b.checksum) % (1 << 64),
        best=choose_best((*a.best, *b.best), n_best),
        n_best=n_best,
    )


def choose_best(found: Iterable[LargestMotif], n: int) -> tuple[LargestMotif, ...]:
    """Return the ``n`` largest, by falling value, then rising members."""
    return tuple(sorted(found, key=lambda each: (-each.value, each.members))[:n])


def _add_cells(a: dict[Cell, int], b: dict[Cell, int]) -> dict[Cell, int]:
    more, fewer = (a, b) if len(a) >= len(b) else (b, a)
    cells = dict(more)
    for cell, count in fewer.items():
        cells[cell] = cells.get(cell, 0) + count
    return cells


def require_interval(start: int, stop: int, n_items: int) -> None:
    """Refuse an interval that is not within the work items."""
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
    """Refuse what an engine of ``motif_type`` in graphs of ``graph_type``, and parts of ``part_type``, cannot count."""
    if not isinstance(motif, motif_type):
        raise UnsupportedError(f"the {engine} engine cannot count {motif.name!r}")
    if isinstance(graph, Part) and type(graph) is not part_type:
        raise UnsupportedError(f"the {engine} engine cannot count a {type(graph).__name__}")
    if not isinstance(graph, graph_type | Part):
        kind = graph_type.__name__.removesuffix("Graph").lower()
        raise UnsupportedError(f"the {engine} engine requires a {kind} graph, not a {type(graph).__name__}")
    if per not in motif.granularities:
        raise UnsupportedError(
            f"{motif.title} cannot be counted per {per!r}; known: {', '.join(motif.granularities)}"
        )
    if motif.needs_signs and isinstance(graph, graph_type) and graph.sign is None:
        raise UnsupportedError(f"{motif.title} needs a sign for every edge; the graph has none")


class Prepared:
    """A graph in the form that one engine's kernels need; made by :meth:`Engine.prepare`, opaque otherwise.

    Where the engine had a choice, ``decisions`` are what it decided and why. ``costs`` are on the host.
    """

    costs: NDArray[np.int64]
    decisions: tuple[Choice, ...] = ()

    @property
    def work(self) -> NDArray[np.int64]:
        """Exact or estimated cost of each work item, shape (n_items,), host; heaviest first, but for parts."""
        return self.costs

    @property
    def n_items(self) -> int:
        return int(self.work.size)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays where the engine runs; those of the graph as given do not count."""
        return array_bytes(self)


class Engine(Protocol):
    """One motif on one kind of processor."""

    name: EngineName
    least_slice_s: ClassVar[float] = 0.0
    """Least predicted time of a slice of a run (see :meth:`run`)."""
    takes_device_graphs: ClassVar[bool] = False
    """Whether :meth:`prepare` takes whole graphs whose edges are on the device."""

    def prepare(self, graph: Any, motif: Motif, per: Granularity) -> Any:
        """Reduce, order and build; see :class:`Prepared`. A part may be staged or not, and is left as it is.

        UnsupportedError for another motif, kind of graph or part, or granularity, and for options that do not go with
        them. CapacityError when the graph, or a count, is too large for the memory or for the engine's numbers.
        """
        ...

    def stage(self, block: Loadable) -> Loadable:
        """Return a block with its large arrays where the engine runs: on the device, or as it is on the CPU.

        Complete on return. May be called from another thread while the engine runs.
        """
        return block

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Return the cost of each work item; see :attr:`Prepared.work`."""
        work: NDArray[np.int64] = prepared.work
        return work

    def slice_work(self, prepared: Any) -> int:
        """Least work of a slice of a run (see :meth:`run`), for what every slice costs beside its items'."""
        return 1

    def probe(self, prepared: Any, items: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Found:
        """Go down one random branch of the tree of each of some items, by its own seed.

        The same on every engine, bit for bit. ``items`` and ``seeds`` have the shape (n_probes,). UnsupportedError
        where there are no probes for the question.
        """
        raise UnsupportedError(f"the {self.name} engine cannot probe this count")

    def lots(self, prepared: Any) -> NDArray[Any]:
        """Return in proportion to what probes draw items, shape (n_items,); by default their costs."""
        return self.work(prepared)

    def probe_counts(
        self, prepared: Any, items: NDArray[np.int64], seeds: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Return an unbiased estimate of the motifs of each of some items, shape (n_probes,), as :meth:`probe`.

        Where there is a better way to estimate them than by branches of the tree, it is taken.
        """
        return self.probe(prepared, items, seeds).motifs

    def count_lots(self, prepared: Any) -> NDArray[Any]:
        """Return in proportion to what :meth:`probe_counts` wants items drawn; by default :meth:`lots`."""
        return self.lots(prepared)

    def probe_vertices(
        self,
        prepared: Any,
        items: NDArray[np.int64],
        seeds: NDArray[np.uint64],
        weights: NDArray[np.float64],
        groups: NDArray[np.int64],
    ) -> VertexFound:
        """Estimate the motifs that hold each vertex, of each of some items, and add them up by group of probes.

        ``weights`` (n_probes,) are the factors of the probes in these sums; the probes of group g are
        ``[groups[g], groups[g + 1])``. The same for any number of threads. UnsupportedError where probes of this engine
        do not tell vertices apart.
        """
        raise UnsupportedError(
            f"the {self.name} engine cannot estimate counts per vertex; use engine 'cpu'"
        )

    def probe_rates(self, prepared: Any) -> Rates:
        """Return the speed of one thread, or of the device, that turns what probes find into seconds."""
        raise UnsupportedError(f"the {self.name} engine cannot probe this count")

    def time_items(self, prepared: Any) -> float | None:
        """Return the seconds that all items take one thread, or the device, by running one; None for most engines."""
        return None

    def known_count(self, prepared: Any) -> int:
        """Return the motifs that :meth:`prepare` found, which :meth:`run` adds to the first item, and probes do not."""
        return 0

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: StopCheck = never_cut
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``bounds`` rise strictly, inside the interval: there slices end, for engines whose runs are cut between slices.
        Once ``cut`` is true no further slice begins, or no further item. What has begun is finished: the partial's
        ``n_items`` says how many items, from ``start`` on, it answers for. Where ``cut`` is a :class:`SharedCut`, the
        run may leave the last items to another worker.

        InputError when the interval does not lie in ``[0, n_items]``. LeaseTooLargeError when a device has no room for
        what these items need or find. DeviceLostError when a kernel failed and the device is lost to this process.
        """
        ...


Interval = tuple[int, int]
"""Work items [start, stop)."""

MAX_TABLE_ENTRIES = 16_384
"""Entries of a cost table: 32 leases for each of 512 workers, and about 400 KiB when it travels."""

LEAST_TABLE_ENTRIES = 8
"""Entries of the table of a part of a graph, at least, however many parts there are."""

_MAX_WORK = 2**62


@dataclass(frozen=True)
class CostTable:
    """Cumulative cost of the work items at a few breakpoints.

    ``items`` are the breakpoints, strictly rising, from 0 to the number of items, at most ``MAX_TABLE_ENTRIES + 1``;
    ``work[i]`` is the cost of all items before ``items[i]``, in work units.
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
        """Cost of the items [start, stop): exact between breakpoints, in proportion to the items elsewhere."""
        return self._work_before(stop) - self._work_before(start)

    def _work_before(self, item: int) -> int:
        index = bisect_left(self.items, item)
        if self.items[index] == item:
            return self.work[index]
        first, last = self.items[index - 1], self.items[index]
        below, above = self.work[index - 1], self.work[index]
        return below + (above - below) * (item - first) // (last - first)

    def advance(self, start: int, work: int) -> int:
        """Return the first breakpoint after ``start`` by which ``work`` more units are done, or the last one."""
        first = bisect_right(self.items, start)
        index = bisect_left(self.work, self._work_before(start) + work, lo=first)
        return self.items[min(index, len(self.items) - 1)]


def find_breakpoints(
    costs: NDArray[np.int64], max_entries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return breakpoints of the items and the cost of all items before each; O(n_items).

    Breakpoints lie at equal steps of the work, so that no step between two of them holds more than one heavy
    item, or more than ``1 / max_entries`` of the work. They begin with 0 and end with ``n_items``; both arrays are of
    int64 and one shape.
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
        whole, rest = divmod(total, max_entries)  # no product passes 64 bits
        k = np.arange(1, max_entries + 1, dtype=np.int64)
        ends = np.searchsorted(cumulative, whole * k + rest * k // max_entries, side="left") + 1
        ends = ends[np.diff(ends, prepend=0) > 0]
        ends[-1] = n_items
    return np.concatenate(([0], ends)), np.concatenate(([0], cumulative[ends - 1]))
