"""Leases of a job: their length, the pending work items, and the finished intervals.

Each worker without a lease gets an equal share of the predicted work that no worker holds. The items of a search are
dealt in a hand for each worker (:func:`papilio.kernels.engine.deal_items`), so that shares are alike even where
predictions are wrong, and leases end with hands. A worker that finishes early
gets half of another worker's remaining work (:meth:`papilio.tasks.lease_scheduler.LeaseScheduler.share`).

Finished intervals must hold each item of each partition exactly once; otherwise there is no answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from papilio.errors import TilingError
from papilio.kernels.engine import CostTable, Interval, find_hands

SHORTEST_LEASE_S = 0.05
"""Least predicted time of a lease: dispatching a shorter one takes longer than running it."""

MAX_LEASE_S = 20.0
"""A lease ends by the clock after this time, to show progress and to limit the loss of a worker."""

KEPT_LEASE_S = 2.0
"""The same where finished leases are kept: work that is not yet in the ledger is lost with the process."""

KEPT_SHARE_S = 0.01
"""Least length of kept leases per worker: registering one takes the client some 5 ms, half of this."""

KEPT_SLOWDOWN = 0.01
"""Largest share of the time that the vectors of kept leases may cost in addition."""

VECTOR_OVERHEAD = 0.1
"""Largest share of a lease that its vector may cost, while there is a lease for every worker."""

HAND_REST = 0.25
"""A lease takes the rest of its hand too, if that is at most this share of the lease."""

TAIL_VECTOR_OVERHEAD = 1.0
"""The same for the last work, when workers are waiting."""


@dataclass(frozen=True)
class LeaseLengths:
    """Bounds on the time of a lease."""

    min_s: float  # predicted, at least
    max_s: float  # predicted, at most; the clock ends the lease after this time, whatever was predicted
    reason: str  # why not shorter


def choose_lengths(fair_s: float, vector_s: float, *, tail: bool = False, kept_by: int = 0) -> LeaseLengths:
    """Bound the time of the leases of a job that is predicted to take ``fair_s`` on all its workers.

    ``vector_s`` is the cost of one lease's vector; 0 without one. Set ``tail`` when less work is left than the shortest
    lease for every worker. ``kept_by`` is the number of workers whose finished leases outlast the run, so that short
    leases lose less; 0 if leases are not kept.
    """
    min_s = SHORTEST_LEASE_S
    reason = f"dispatching less than {min_s:.3g} s of work takes longer than it saves"
    if vector_s > 0:
        overhead = TAIL_VECTOR_OVERHEAD if tail else VECTOR_OVERHEAD
        min_s = max(min_s, min(vector_s / overhead, fair_s / (1 + 1 / 64)))
        reason = f"every lease returns a vector of all counts, which takes about {vector_s:.3g} s"
    max_s = MAX_LEASE_S
    if kept_by:
        # Long enough that vectors cost at most KEPT_SLOWDOWN more of the time than in leases of MAX_LEASE_S.
        for_vector_s = vector_s / (KEPT_SLOWDOWN + vector_s / MAX_LEASE_S)
        max_s = min(MAX_LEASE_S, max(KEPT_LEASE_S, KEPT_SHARE_S * kept_by, for_vector_s))
    return LeaseLengths(min_s, max(max_s, min_s), reason)


@dataclass(frozen=True)
class ItemRange:
    """Items [start, stop) of one partition."""

    partition: int
    start: int
    stop: int
    attempt: int = 0  # failed attempts at all of these items


class PendingWork:
    """Queued pieces by partition; pieces that are put back go first.

    ``tables`` are the costs of the items by partition; ``pieces`` are disjoint, and dispatched in this order. The items
    of a whole graph are dealt in ``hands``.
    """

    def __init__(self, tables: Sequence[CostTable], pieces: Iterable[ItemRange], hands: int = 1) -> None:
        self._tables = tables
        self._ends = [find_hands(table.n_items, hands)[1:].tolist() for table in tables]
        self._lines: OrderedDict[int, deque[ItemRange]] = OrderedDict()
        self._left: dict[int, int] = {}
        self._work_left = 0
        for piece in pieces:
            self._lines.setdefault(piece.partition, deque()).append(piece)
            self._count(piece, 1)

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def work_left(self) -> int:
        """Predicted work units of all pending pieces."""
        return self._work_left

    @property
    def left(self) -> Mapping[int, int]:
        """Predicted work units left in each unfinished partition."""
        return self._left

    def work_of(self, piece: ItemRange) -> int:
        return self._tables[piece.partition].work_between(piece.start, piece.stop)

    def take(
        self, n_free: int, min_work: int, max_work: int | None = None, partition: int | None = None
    ) -> ItemRange | None:
        """Take the first items of the queue, or of a partition that has work left; None when nothing is left.

        Each of the ``n_free`` workers without a lease (at least 1) gets an equal share of the remaining work. No lease
        has less than ``min_work`` unless its piece has; a smaller remainder is added to its lease. Leases aim at no
        more than ``max_work``, which a single item may exceed.
        """
        if n_free < 1:
            raise ValueError(f"n_free is {n_free}; the minimum is 1")
        if not self._lines:
            return None
        line = self._lines[next(iter(self._lines)) if partition is None else partition]
        piece = line.popleft()
        aim = max(self._work_left // n_free, min_work, 1)
        if max_work is not None:
            aim = min(aim, max(max_work, min_work, 1))
        stop = min(self._tables[piece.partition].advance(piece.start, aim), piece.stop)
        stop = self._end_with_hand(piece, stop, min_work, aim)
        rest = ItemRange(piece.partition, stop, piece.stop, piece.attempt)
        if stop < piece.stop and self.work_of(rest) >= min_work:
            line.appendleft(rest)
            piece = ItemRange(piece.partition, piece.start, stop, piece.attempt)
        self._count(piece, -1)
        if not line:
            del self._lines[piece.partition], self._left[piece.partition]
        return piece

    def _end_with_hand(self, piece: ItemRange, stop: int, min_work: int, aim: int) -> int:
        """Return where a lease of the first items of a piece, up to ``stop``, rather ends: with a hand.

        A hand is searched from heavy to light items. A lease ends before the next one if it has the least work by then,
        and takes what is left of its hand if that is little.
        """
        ends = self._ends[piece.partition]
        end = ends[bisect_right(ends, piece.start)]
        if end >= piece.stop:
            return stop
        if end < stop:
            return end if self.work_of(replace(piece, stop=end)) >= min_work else stop
        return end if self.work_of(replace(piece, start=stop, stop=end)) <= HAND_REST * aim else stop

    def put_back(self, *pieces: ItemRange) -> None:
        """Put pieces first in the queue, in this order."""
        for piece in reversed(pieces):
            self._lines.setdefault(piece.partition, deque()).appendleft(piece)
            self._lines.move_to_end(piece.partition, last=False)
            self._count(piece, 1)

    def join(self, piece: ItemRange) -> None:
        """Put a piece first in the queue, merged with the first piece if that begins at its end."""
        line = self._lines.get(piece.partition, deque())
        if line and (line[0].start, line[0].attempt) == (piece.stop, piece.attempt):
            after = line.popleft()
            self._count(after, -1)
            piece = ItemRange(piece.partition, piece.start, after.stop, piece.attempt)
        self.put_back(piece)

    def _count(self, piece: ItemRange, sign: int) -> None:
        work = sign * self.work_of(piece)
        self._left[piece.partition] = self._left.get(piece.partition, 0) + work
        self._work_left += work


def split_shares(
    tables: Sequence[CostTable],
    pieces: Iterable[ItemRange],
    n_workers: int,
    min_work: int,
    max_work: int | None = None,
    hands: int = 1,
) -> tuple[ItemRange, ...]:
    """Return the leases of a run without cuts or failures: first one for each worker.

    Parameters are as for :class:`PendingWork` and :meth:`PendingWork.take`. The leases tile the pieces; none are empty.
    """
    pending = PendingWork(tables, pieces, hands)
    leases: list[ItemRange] = []
    while (piece := pending.take(max(1, n_workers - len(leases)), min_work, max_work)) is not None:
        leases.append(piece)
    return tuple(leases)


class FinishedIntervals:
    """Finished intervals of every partition of one job, in memory; not thread-safe."""

    def __init__(self, n_items: Sequence[int]) -> None:
        self._n_items = tuple(n_items)
        self._finished: list[list[Interval]] = [[] for _ in self._n_items]

    def record(self, partition: int, start: int, stop: int) -> None:
        """Record [start, stop) of ``partition`` as finished; O(log) search, O(leases) insertion.

        Raises TilingError if the interval is empty, passes the items, or overlaps a finished one.
        """
        if not 0 <= partition < len(self._n_items):
            raise TilingError(f"partition {partition} was finished; the plan has {len(self._n_items)}")
        n_items = self._n_items[partition]
        name = f"items [{start}, {stop}) of partition {partition}"
        if not 0 <= start < stop <= n_items:
            raise TilingError(f"{name} were finished; the partition has items [0, {n_items})")
        finished = self._finished[partition]
        at = bisect_left(finished, (start, stop))
        for other in finished[max(at - 1, 0) : at + 1]:
            if other[0] < stop and start < other[1]:
                raise TilingError(f"{name} overlap the finished items [{other[0]}, {other[1]})")
        insort(finished, (start, stop))

    def missing(self, partition: int) -> tuple[Interval, ...]:
        """Return the unfinished intervals of ``partition``, in increasing order."""
        gaps: list[Interval] = []
        at = 0
        for start, stop in [*self._finished[partition], (self._n_items[partition], self._n_items[partition])]:
            if at < start:
                gaps.append((at, start))
            at = stop
        return tuple(gaps)

    def finished(self, partition: int) -> tuple[Interval, ...]:
        """Return the finished intervals of ``partition``, in increasing order."""
        return tuple(self._finished[partition])

    @property
    def n_finished(self) -> int:
        return sum(len(finished) for finished in self._finished)

    def require_complete(self) -> None:
        """Raise TilingError, which names the first gap, unless the records tile every partition exactly."""
        for partition in range(len(self._n_items)):
            gaps = self.missing(partition)
            if gaps:
                raise TilingError(
                    f"items [{gaps[0][0]}, {gaps[0][1]}) of partition {partition} were never finished "
                    f"({len(gaps)} gaps in {self._n_items[partition]} items); the count would be wrong"
                )
