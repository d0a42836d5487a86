"""Work items that no worker holds, handed out as leases of shrinking size.

Leases are guided: each takes a fixed share of the work that is still left, so that they are long at the start
(little overhead) and short at the end (all workers finish together).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from papilio.kernels.costs import CostTable

GUIDED_SHARE = 2
"""A lease takes 1 / (GUIDED_SHARE * workers) of the work left: with 2, a first lease that runs twice as
long as predicted still ends before the rest does."""


@dataclass(frozen=True)
class Piece:
    """Items [start, stop) of one partition."""

    partition: int
    start: int
    stop: int
    attempt: int = 0  # how many times workers failed with all of these items


class WorkPool:
    """Pieces in line, by partition; what is put back goes first.

    ``tables`` are the costs of the items by partition; ``pieces`` are disjoint, and handed out in this order.
    """

    def __init__(self, tables: Sequence[CostTable], pieces: Iterable[Piece]) -> None:
        self._tables = tables
        self._lines: OrderedDict[int, deque[Piece]] = OrderedDict()
        self._left: dict[int, int] = {}
        self._work_left = 0
        for piece in pieces:
            self._lines.setdefault(piece.partition, deque()).append(piece)
            self._count(piece, 1)

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def work_left(self) -> int:
        """Predicted work units of all that is left."""
        return self._work_left

    @property
    def left(self) -> Mapping[int, int]:
        """Predicted work units that are left of each partition of which anything is left."""
        return self._left

    def work_of(self, piece: Piece) -> int:
        """Predicted work units of a piece."""
        return self._tables[piece.partition].work_between(piece.start, piece.stop)

    def take(
        self, n_workers: int, min_work: int, max_work: int | None = None, partition: int | None = None
    ) -> Piece | None:
        """Hand out the first items in line, or those of a partition that has any left; None when nothing is left.

        ``n_workers``, at least 1, share what is left. No lease has less than ``min_work``, except where a piece has; a
        rest below it joins its lease. None aims higher than ``max_work`` (a single item may still cost more).
        """
        if n_workers < 1:
            raise ValueError(f"n_workers is {n_workers}; at least 1")
        if not self._lines:
            return None
        line = self._lines[next(iter(self._lines)) if partition is None else partition]
        piece = line.popleft()
        aim = max(self._work_left // (GUIDED_SHARE * n_workers), min_work, 1)
        if max_work is not None:
            aim = min(aim, max(max_work, min_work, 1))
        stop = min(self._tables[piece.partition].advance(piece.start, aim), piece.stop)
        rest = Piece(piece.partition, stop, piece.stop, piece.attempt)
        if stop < piece.stop and self.work_of(rest) >= min_work:
            line.appendleft(rest)
            piece = Piece(piece.partition, piece.start, stop, piece.attempt)
        self._count(piece, -1)
        if not line:
            del self._lines[piece.partition], self._left[piece.partition]
        return piece

    def put_back(self, *pieces: Piece) -> None:
        """Put pieces first in line, in this order."""
        for piece in reversed(pieces):
            self._lines.setdefault(piece.partition, deque()).appendleft(piece)
            self._lines.move_to_end(piece.partition, last=False)
            self._count(piece, 1)

    def _count(self, piece: Piece, sign: int) -> None:
        work = sign * self.work_of(piece)
        self._left[piece.partition] = self._left.get(piece.partition, 0) + work
        self._work_left += work


def split_guided(
    tables: Sequence[CostTable],
    pieces: Iterable[Piece],
    n_workers: int,
    min_work: int,
    max_work: int | None = None,
) -> tuple[Piece, ...]:
    """Return the leases that a pool hands out when nothing disturbs it, of each partition the large ones first.

    Parameters are those of :class:`WorkPool` and :meth:`WorkPool.take`. The leases tile the pieces; none is empty.
    """
    pool = WorkPool(tables, pieces)
    leases = []
    while (piece := pool.take(n_workers, min_work, max_work)) is not None:
        leases.append(piece)
    return tuple(leases)
