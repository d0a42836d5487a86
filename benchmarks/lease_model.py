"""A discrete-event model of leases: one serial scheduler, workers of uneven speed, items of real cost.

The scheduler answers one request at a time, each in ``latency_s``: it hands the next lease to the worker that
asked. A worker runs one lease and holds further ones ready (``in_flight`` in all); it asks again whenever a
lease ends. With cutting, a worker that has nothing left while no lease is pending asks for the end of the
worker that would finish last: a lease that waits there, or the second half of the one that runs, cut between
two items.

Everything is a pure function of its arguments: the same seed gives the same schedule on every machine.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.partitioning.root_ranges import CostTable, Interval
from papilio.partitioning.work_pool import GUIDED_SHARE, split_guided

__all__ = ["Machine", "Outcome", "simulate", "split_equal", "split_with_share"]


@dataclass(frozen=True)
class Machine:
    """The cluster of the model.

    Attributes
    ----------
    n_workers : int
    latency_s : float
        Time of the scheduler for one lease; it serves one at a time.
    in_flight : int
        Leases that a worker holds, the one that runs included.
    lease_noise : float
        Spread (sigma of a log-normal factor of mean 1) of the time of a lease around its true cost.
    worker_noise : float
        Spread of the speeds of the workers.
    slow_every : int
        Every so many-th worker runs at half its speed; 0 for none.
    cut_s : float or None
        Running and waiting leases are cut at the end while the slowest worker has at least this much left;
        None never cuts.
    seed : int
    """

    n_workers: int
    latency_s: float = 0.002
    in_flight: int = 2
    lease_noise: float = 0.05
    worker_noise: float = 0.03
    slow_every: int = 0
    cut_s: float | None = None
    seed: int = 0

    def speeds(self) -> NDArray[np.float64]:
        """Return the speed of each worker, 1 on average but for the slow ones, shape (n_workers,)."""
        draws = np.random.default_rng([self.seed, 1]).standard_normal(self.n_workers)
        speeds = np.exp(self.worker_noise * draws - self.worker_noise**2 / 2)
        if self.slow_every:
            speeds[:: self.slow_every] /= 2
        return speeds

    def stretches(self, n_leases: int) -> NDArray[np.float64]:
        """Return the factor on the time of each lease, 1 on average, shape (n_leases,)."""
        draws = np.random.default_rng([self.seed, 2]).standard_normal(n_leases)
        return np.exp(self.lease_noise * draws - self.lease_noise**2 / 2)


@dataclass(frozen=True)
class Outcome:
    """What one simulated run came to.

    Attributes
    ----------
    makespan_s : float
        From the first request to the end of the last lease.
    work_s : float
        Time of all items on one worker of speed 1.
    efficiency : float
        ``work_s`` over what the workers could have done in the makespan: the sum of their speeds times it.
    leases : int
        Leases planned.
    cuts : int
        Leases cut while they ran, or taken back before they did.
    scheduler_share : float
        Share of the makespan in which the scheduler was at work.
    intervals : tuple of (start, stop)
        Items as they were run, in the order of completion.
    """

    makespan_s: float
    work_s: float
    efficiency: float
    leases: int
    cuts: int
    scheduler_share: float
    intervals: tuple[Interval, ...] = field(repr=False)


class _Kind(IntEnum):
    ARRIVE, FINISH, CUT = range(3)


@dataclass
class _Piece:
    start: int
    stop: int
    stretch: float


class _Worker:
    __slots__ = ("epoch", "held", "queue", "running")

    def __init__(self) -> None:
        self.running: _Piece | None = None
        self.queue: deque[_Piece] = deque()
        self.held = 0
        self.epoch = 0
        """Rises when the running lease is cut, so that its old end no longer counts."""


class _Run:
    def __init__(
        self, cumulative_s: NDArray[np.float64], leases: Sequence[Interval], machine: Machine
    ) -> None:
        self.cumulative, self.machine = cumulative_s, machine
        stretches = machine.stretches(len(leases))
        self.pending = deque(_Piece(a, b, float(s)) for (a, b), s in zip(leases, stretches, strict=True))
        self.speeds = machine.speeds()
        self.workers = [_Worker() for _ in range(machine.n_workers)]
        self.ends = np.zeros(machine.n_workers)
        """When each worker will have run all it has."""
        self.events: list[tuple[float, int, _Kind, int, Any]] = []
        self.order = 0
        self.scheduler_free_s = self.scheduler_busy_s = self.makespan_s = 0.0
        self.cuts = 0
        self.intervals: list[Interval] = []

    def duration(self, piece: _Piece, worker: int) -> float:
        work = self.cumulative[piece.stop] - self.cumulative[piece.start]
        return float(work * piece.stretch / self.speeds[worker])

    def push(self, at_s: float, kind: _Kind, worker: int, payload: Any) -> None:
        self.order += 1
        heapq.heappush(self.events, (at_s, self.order, kind, worker, payload))

    def ask(self, now_s: float, worker: int) -> None:
        """Let a worker ask the scheduler for a lease, or for a share of another's."""
        state = self.workers[worker]
        if not self.pending and (state.held or self.machine.cut_s is None):
            return
        self.scheduler_free_s = max(now_s, self.scheduler_free_s) + self.machine.latency_s
        self.scheduler_busy_s += self.machine.latency_s
        state.held += 1
        if self.pending:
            self.push(self.scheduler_free_s, _Kind.ARRIVE, worker, self.pending.popleft())
        else:
            self.push(self.scheduler_free_s, _Kind.CUT, worker, None)

    def arrive(self, now_s: float, worker: int, piece: _Piece) -> None:
        state = self.workers[worker]
        self.ends[worker] = max(self.ends[worker], now_s) + self.duration(piece, worker)
        if state.running is None:
            self.start(now_s, worker, piece)
        else:
            state.queue.append(piece)

    def start(self, now_s: float, worker: int, piece: _Piece) -> None:
        state = self.workers[worker]
        state.running = piece
        self.push(now_s + self.duration(piece, worker), _Kind.FINISH, worker, state.epoch)

    def finish(self, now_s: float, worker: int) -> None:
        state = self.workers[worker]
        piece = state.running
        assert piece is not None
        self.intervals.append((piece.start, piece.stop))
        self.makespan_s = now_s
        state.running, state.held = None, state.held - 1
        if state.queue:
            self.start(now_s, worker, state.queue.popleft())
        self.ask(now_s, worker)

    def cut(self, now_s: float, thief: int) -> None:
        """Give ``thief`` a share of what the worker that would finish last still has."""
        assert self.machine.cut_s is not None
        victim = int(np.argmax(self.ends))
        piece = None
        if self.ends[victim] - now_s >= self.machine.cut_s:
            state = self.workers[victim]
            piece = self.recall(victim) if state.queue else self.cut_running(now_s, victim, thief)
        if piece is None:
            self.workers[thief].held -= 1
            return
        self.cuts += 1
        self.arrive(now_s, thief, piece)

    def recall(self, victim: int) -> _Piece:
        """Take back the last lease that waits at a worker."""
        state = self.workers[victim]
        piece = state.queue.pop()
        state.held -= 1
        self.ends[victim] -= self.duration(piece, victim)
        return piece

    def cut_running(self, now_s: float, victim: int, thief: int) -> _Piece | None:
        """Cut what runs so that both workers end together; None when only the item at work is left."""
        state = self.workers[victim]
        piece = state.running
        assert piece is not None
        rate = self.speeds[victim] / piece.stretch
        left = float((self.ends[victim] - now_s) * rate)
        keep = left * self.speeds[victim] / (self.speeds[victim] + self.speeds[thief])
        at = self.cumulative[piece.stop] - left + keep
        middle = max(int(np.searchsorted(self.cumulative, at, side="left")), piece.start + 1)
        if middle >= piece.stop:
            return None
        rest = _Piece(middle, piece.stop, piece.stretch)
        self.ends[victim] = max(now_s, self.ends[victim] - self.duration(rest, victim))
        piece.stop = middle
        state.epoch += 1
        self.push(float(self.ends[victim]), _Kind.FINISH, victim, state.epoch)
        return rest

    def play(self) -> None:
        for _ in range(self.machine.in_flight):
            for worker in range(self.machine.n_workers):
                if self.pending:
                    self.ask(0.0, worker)
        if self.machine.cut_s is not None:
            for worker, state in enumerate(self.workers):
                if not state.held:
                    self.ask(0.0, worker)
        while self.events:
            now_s, _, kind, worker, payload = heapq.heappop(self.events)
            if kind is _Kind.ARRIVE:
                self.arrive(now_s, worker, payload)
            elif kind is _Kind.CUT:
                self.cut(now_s, worker)
            elif payload == self.workers[worker].epoch:
                self.finish(now_s, worker)


def simulate(cumulative_s: NDArray[np.float64], leases: Sequence[Interval], machine: Machine) -> Outcome:
    """Play a run of the leases, in their order.

    Parameters
    ----------
    cumulative_s : ndarray of float64, shape (n_items + 1,)
        Time of all items before each on a worker of speed 1, in seconds; rising from 0.
    leases : sequence of (start, stop)
        Intervals that tile the items.
    machine : Machine

    Raises
    ------
    ValueError
        When the machine has no worker or a worker may hold no lease.
    """
    if machine.n_workers < 1 or machine.in_flight < 1:
        raise ValueError(
            f"n_workers is {machine.n_workers} and in_flight {machine.in_flight}; at least 1 each"
        )
    run = _Run(cumulative_s, leases, machine)
    work_s = float(sum(run.duration(piece, 0) for piece in run.pending) * run.speeds[0])
    run.play()
    could_s = float(run.speeds.sum()) * run.makespan_s
    return Outcome(
        makespan_s=run.makespan_s,
        work_s=work_s,
        efficiency=work_s / could_s if could_s else 1.0,
        leases=len(leases),
        cuts=run.cuts,
        scheduler_share=run.scheduler_busy_s / run.makespan_s if run.makespan_s else 0.0,
        intervals=tuple(run.intervals),
    )


def split_equal(table: CostTable, work: int) -> tuple[Interval, ...]:
    """Cut all items into leases of about ``work`` units each, at breakpoints of the table."""
    targets = np.arange(1, -(-table.total // max(work, 1)) + 1, dtype=np.int64) * max(work, 1)
    steps = np.unique(np.searchsorted(np.array(table.work), targets, side="left"))
    ends = [table.items[step] for step in steps if 0 < step < len(table.items)]
    if not ends or ends[-1] != table.n_items:
        ends.append(table.n_items)
    return tuple(zip([0, *ends[:-1]], ends, strict=True))


def split_with_share(
    table: CostTable, n_workers: int, share: int, min_work: int, max_work: int
) -> tuple[Interval, ...]:
    """Split as planning does, with another share than ``GUIDED_SHARE``.

    The share counts only in its product with the number of workers, so the planner's own function is asked for
    the number of workers that has the same product.

    Raises
    ------
    ValueError
        When ``share * n_workers`` is no multiple of ``GUIDED_SHARE``.
    """
    if share * n_workers % GUIDED_SHARE:
        raise ValueError(f"share {share} of {n_workers} workers is no multiple of {GUIDED_SHARE}")
    return split_guided(table, share * n_workers // GUIDED_SHARE, min_work, max_work)
